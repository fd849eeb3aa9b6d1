//! Checks of tare's own reports: from its socket if it is active, from the server's error log otherwise.

use std::path::{Path, PathBuf};

use tare_host::options::{OPTIONS, OptionDef, OptionType};

use super::Finding;
use crate::endpoint::{self, EndpointReach, NamedValue};
use crate::server::{FoundServer, Prospect};

/// The result of querying tare.
pub(super) enum EndpointAnswer {
    /// The rows of `tare_status`.
    Rows(Vec<NamedValue>),
    /// Nothing listens; the value describes the symptom.
    Nobody(String),
    /// The query failed.
    Failed(String),
}

impl EndpointAnswer {
    pub(super) fn is_active(&self) -> bool {
        matches!(self, EndpointAnswer::Rows(_))
    }

    /// Returns tare's version, if it is active.
    pub(super) fn version(&self) -> Option<&str> {
        let EndpointAnswer::Rows(rows) = self else { return None };
        rows.iter().find(|row| row.name == "version").map(|row| row.value.as_str())
    }
}

/// Queries the endpoint of a running server.
pub(super) fn ask(server: &FoundServer, prospect: &Prospect) -> EndpointAnswer {
    if server.process.is_none() {
        return EndpointAnswer::Nobody("the server does not run".to_owned());
    }
    let socket = server.endpoint(prospect);
    let asked = endpoint::reach(&socket).and_then(|reach| match reach {
        EndpointReach::Answers => Ok(EndpointAnswer::Rows(endpoint::ask(&socket)?.status)),
        EndpointReach::Absent(why) => Ok(EndpointAnswer::Nobody(why)),
    });
    asked.unwrap_or_else(|error| EndpointAnswer::Failed(format!("{error:#}")))
}

/// Makes findings from the answer; `unexplained`: there are no other findings.
pub(super) fn check(
    server: &FoundServer,
    prospect: &Prospect,
    answer: &EndpointAnswer,
    log: Option<&Path>,
    unexplained: bool,
) -> Vec<Finding> {
    let is_set =
        |name: &str| prospect.files.in_groups(&["tare"]).any(|entry| entry.key.replace('_', "-") == name);
    let why = match answer {
        EndpointAnswer::Rows(rows) => return check_rows(rows, is_set),
        EndpointAnswer::Failed(why) => return vec![Finding::unseen("socket", why, "ask as root")],
        EndpointAnswer::Nobody(why) => why,
    };
    let Some(process) = &server.process else {
        let what = "the server does not run, so what tare does in it is not known";
        return unexplained
            .then(|| Finding::unseen("process", what, "start the server"))
            .into_iter()
            .collect();
    };
    if process.provider().is_none() {
        return vec![];
    }
    let log: Option<PathBuf> =
        log.map(Path::to_owned).or_else(|| Some(server.root.at(process.log.as_ref()?)));
    let said = log.as_deref().and_then(endpoint::line_in_log);
    match (said, log) {
        (Some(said), _) if unexplained || !is_explained(&said) => {
            let remedy = "what it says; SAFETY.md tells what tare asks of a server";
            vec![Finding::problem(
                "log",
                format!("tare does not serve: {why}; its last word in the error log: {said}"),
                remedy,
            )]
        }
        (None, Some(log)) if unexplained => {
            let what =
                format!("tare is loaded and does not serve: {why}; {} has no word of it", log.display());
            vec![Finding::problem("log", what, "name the error log with --log FILE")]
        }
        (None, None) if unexplained => {
            let what = format!("tare is loaded and does not serve: {why}");
            vec![Finding::problem(
                "log",
                what,
                format!("its word is in the journal: journalctl _PID={} -g tare:", process.pid),
            )]
        }
        _ => vec![],
    }
}

/// Checks for tables of an earlier version in the data directory, which SQL would show instead of the
/// server's own.
pub(super) fn check_leftovers(server: &FoundServer, prospect: &Prospect) -> Option<Finding> {
    let data = server.data(prospect);
    let left = tare_mariadb::install::list(&server.root.at(&data)).ok().filter(|left| !left.is_empty())?;
    let what = format!(
        "{} files of an earlier version's tables are in {}/performance_schema",
        left.len(),
        data.display()
    );
    let remedy = format!("tare tables remove --datadir {}, and FLUSH TABLES", data.display());
    Some(Finding::problem("tables", what, remedy))
}

/// Returns whether the message's reason is already a finding, from options and version.
fn is_explained(said: &str) -> bool {
    let known = ["is not supported; supported", "Performance Schema is on", "enabled=OFF", ": option "];
    known.iter().any(|part| said.contains(part))
}

/// Checks the rows of `tare_status`. `is_set`: whether an option of `[tare]` is given.
pub(super) fn check_rows(rows: &[NamedValue], is_set: impl Fn(&str) -> bool) -> Vec<Finding> {
    let row = |name: &str| rows.iter().find(|row| row.name == name).map(|row| row.value.as_str());
    let mut findings = vec![];
    if let Some(state) = row("state").filter(|state| *state != "active") {
        let remedy = "restart the server, and report it with what the error log says";
        findings.push(Finding::problem("state", format!("tare has switched itself off: {state}"), remedy));
    }
    if let Some(stopped) = row("stopped").filter(|stopped| *stopped != "none") {
        let remedy = "restart the server, and report it with what the error log says";
        findings.push(Finding::problem("stopped", format!("an internal error has ended {stopped}"), remedy));
    }
    match row("tables").map(|tables| (tables, tables.split_once(": "))) {
        Some(("OFF", _)) => {
            let what = "tare's tables are not shown in SQL: tables=OFF in [tare]";
            findings.push(Finding::problem("tables", what, "take the option away, and restart"));
        }
        Some((_, Some(("OFF", why)))) => {
            let what = format!("the server's SQL does not show the tables: {why}");
            findings.push(Finding::problem(
                "tables",
                what,
                "what it says; `tare status` shows what there is",
            ));
        }
        Some((tables, _)) if tables != "ON" => {
            let what = format!("tables could not be shown: {tables}");
            findings.push(Finding::problem(
                "tables",
                what,
                "FLUSH TABLES, and raise the server's open_files_limit",
            ));
        }
        // Without the tables the variable is off, too.
        _ => {
            let off = row("server_variables").and_then(|value| value.strip_prefix("OFF: "));
            let problem = |why: &str| {
                let what = format!("@@performance_schema stays OFF: {why}");
                Finding::problem(
                    "variables",
                    what,
                    "restart; agents that ask the variable see no Performance Schema until then",
                )
            };
            findings.extend(off.map(problem));
        }
    }
    let lost = rows.iter().filter(|row| row.name.ends_with("_lost") && row.value != "0");
    findings.extend(lost.map(|row| {
        let (why, remedy) = advice(&row.name, &is_set);
        Finding::problem("lost", format!("{} is {}: {why}", row.name, row.value), remedy)
    }));
    findings
}

/// Counters that only memory bounds.
const BOUND_BY_MEMORY: [&str; 8] = [
    "digest_samples_lost",
    "events_waits_lost",
    "events_stages_lost",
    "events_statements_lost",
    "events_transactions_lost",
    "summary_cells_lost",
    "histogram_lost",
    "party_cells_lost",
];
/// Counters of answers that a reader gave up, because the data kept changing.
const UNREAD: [&str; 2] = ["sessions_lost", "observations_lost"];
/// Counters of nesting, or of held locks, beyond a fixed depth.
const TOO_DEEP: [&str; 2] = ["locker_lost", "read_locks_lost"];

/// Returns the meaning of a counter that is not 0, and what to do.
fn advice(counter: &str, is_set: impl Fn(&str) -> bool) -> (&'static str, String) {
    const UNKEPT: &str = "what did not fit was not kept";
    let raise = |name: &str| (UNKEPT, format!("raise {name} in [tare], and restart"));
    match bound(counter) {
        Some(option) if !option.default.is_empty() || is_set(option.name) => raise(option.name),
        // Without a limit of its own it uses what memory there is.
        Some(_) => raise("memory-max"),
        None if BOUND_BY_MEMORY.contains(&counter) => raise("memory-max"),
        None if TOO_DEEP.contains(&counter) => (
            UNKEPT,
            "nothing can be set: it nests deeper than any known statement; report it".to_owned(),
        ),
        None if UNREAD.contains(&counter) => (
            "answers were without rows that the server kept changing while they were read",
            "nothing can be set, and nothing that was counted is missing: read the table again. If it goes on rising, report it"
                .to_owned(),
        ),
        None => (UNKEPT, "docs/reference/status.md says what it counts, if this version of tare knows it".to_owned()),
    }
}

/// Returns the option that limits what a counter counts; `None` if only memory does.
fn bound(counter: &str) -> Option<&'static OptionDef> {
    let what = counter.strip_suffix("_lost")?.replace('_', "-");
    // The server has a different name for it.
    let what = if what == "nested-statement" { "statement-stack".to_owned() } else { what };
    let counts = OPTIONS.iter().filter(|option| matches!(option.kind, OptionType::Count(..)));
    let mut bounds = counts.filter(|option| {
        let name = option.name.strip_prefix("max-").or(option.name.strip_suffix("-size"));
        let rest = name.and_then(|name| name.strip_prefix(&*what));
        rest.is_some_and(|rest| ["", "s", "-instances"].contains(&rest))
    });
    bounds.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, value: &str) -> NamedValue {
        NamedValue { name: name.into(), value: value.into() }
    }

    #[test]
    fn a_counter_leads_to_its_option() {
        for (counter, option) in [
            ("mutex_classes_lost", Some("max-mutex-classes")),
            ("digest_lost", Some("digests-size")),
            ("accounts_lost", Some("accounts-size")),
            ("session_connect_attrs_lost", Some("session-connect-attrs-size")),
            ("program_lost", Some("max-program-instances")),
            ("metadata_lock_lost", Some("max-metadata-locks")),
            ("table_lock_stat_lost", Some("max-table-lock-stat")),
            ("index_stat_lost", Some("max-index-stat")),
            ("prepared_statements_lost", Some("max-prepared-statements-instances")),
            ("file_handles_lost", Some("max-file-handles")),
            ("nested_statement_lost", Some("max-statement-stack")),
            ("events_waits_lost", None),
            ("summary_cells_lost", None),
        ] {
            assert_eq!(bound(counter).map(|option| option.name), option, "{counter}");
        }
        assert!(advice("mutex_instances_lost", |_| false).1.contains("memory-max"));
        assert!(advice("mutex_instances_lost", |_| true).1.contains("max-mutex-instances"));
        assert!(advice("digest_lost", |_| false).1.contains("digests-size"));
        for counter in UNREAD {
            let (why, remedy) = advice(counter, |_| true);
            assert!(
                !remedy.contains("memory") && !remedy.contains("restart") && why.contains("kept changing"),
                "{counter}"
            );
        }
    }

    /// The table in docs/reference/status.md lists them all.
    #[test]
    fn every_counter_has_advice_of_its_own() {
        let page = include_str!("../../../../docs/reference/status.md");
        let rows = page.lines().filter(|line| line.starts_with("| `") && line.contains("_lost`"));
        let cells = rows.filter_map(|line| line.split('|').nth(1));
        let counters: Vec<&str> = cells
            .flat_map(|cell| cell.split('`').filter(|it| it.ends_with("_lost") && it.is_ascii()))
            .collect();
        assert!(counters.len() > 40, "{counters:?}");
        for counter in &counters {
            let (_, remedy) = advice(counter, |_| false);
            assert!(!remedy.contains("status.md"), "{counter} has none");
            // Who knows an option by this name is not told of memory.
            let known =
                [BOUND_BY_MEMORY.contains(counter), UNREAD.contains(counter), TOO_DEEP.contains(counter)];
            let ways = usize::from(bound(counter).is_some()) + known.iter().filter(|it| **it).count();
            assert_eq!(ways, 1, "{counter}");
        }
        for counter in BOUND_BY_MEMORY.iter().chain(&UNREAD).chain(&TOO_DEEP) {
            assert!(counters.contains(counter), "{counter} is no counter");
        }
        assert!(advice("moon_lost", |_| false).1.contains("status.md"));
    }

    #[test]
    fn what_is_well_says_nothing_and_the_rest_says_what_to_do() {
        let well = [
            named("state", "active"),
            named("stopped", "none"),
            named("tables", "ON"),
            named("server_variables", "ON"),
            named("digest_lost", "0"),
        ];
        assert_eq!(check_rows(&well, |_| false), []);
        let ill = [
            named("state", "off: a panic"),
            named("stopped", "tare-ash: the active session history is not sampled any more (a panic)"),
            named("tables", "OFF: the plugin ha_federatedx is not loaded: put it"),
            named("lost", "3"),
            named("digest_lost", "3"),
        ];
        let checks: Vec<&str> = check_rows(&ill, |_| false).iter().map(|finding| finding.check).collect();
        assert_eq!(checks, ["state", "stopped", "tables", "lost"]);
        let variables = [named("tables", "ON"), named("server_variables", "OFF: x")];
        assert_eq!(check_rows(&variables, |_| false)[0].check, "variables");
        assert_eq!(check_rows(&[named("tables", "OFF")], |_| false)[0].check, "tables");
    }
}
