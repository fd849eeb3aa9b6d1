//! What tare itself says: at its socket where it serves, in the server's error log where it does not.

use std::path::{Path, PathBuf};

use tare_mariadb::options::{Kind, OPTIONS, OptionDef};

use super::Finding;
use crate::server::{Prospect, Server};
use crate::status::{self, Named, Reach};

/// What came of asking.
pub(super) enum Answer {
    /// The rows of `tare_status`.
    Rows(Vec<Named>),
    /// Nobody listens, and how that shows.
    Nobody(String),
    /// It could not be asked.
    Failed(String),
}

impl Answer {
    pub(super) fn is_active(&self) -> bool {
        matches!(self, Answer::Rows(_))
    }
}

/// Asks the endpoint of a server that runs.
pub(super) fn ask(server: &Server, prospect: &Prospect) -> Answer {
    if server.process.is_none() {
        return Answer::Nobody("the server does not run".to_owned());
    }
    let socket = server.endpoint(prospect);
    let asked = status::reach(&socket).and_then(|reach| match reach {
        Reach::Answers => Ok(Answer::Rows(status::ask(&socket)?.status)),
        Reach::Absent(why) => Ok(Answer::Nobody(why)),
    });
    asked.unwrap_or_else(|error| Answer::Failed(format!("{error:#}")))
}

/// Findings from the answer; `unexplained`: nothing else was found.
pub(super) fn check(
    server: &Server,
    prospect: &Prospect,
    answer: &Answer,
    log: Option<&Path>,
    unexplained: bool,
) -> Vec<Finding> {
    let is_set =
        |name: &str| prospect.files.in_groups(&["tare"]).any(|entry| entry.key.replace('_', "-") == name);
    let why = match answer {
        Answer::Rows(rows) => return check_rows(rows, is_set),
        Answer::Failed(why) => return vec![Finding::unseen("socket", why, "ask as root")],
        Answer::Nobody(why) => why,
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
    let said = log.as_deref().and_then(status::line_in_log);
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

/// A reason to stand back that options and version show is a finding already.
fn is_explained(said: &str) -> bool {
    let known = ["is not supported; supported", "Performance Schema is on", "enabled=OFF", ": option "];
    known.iter().any(|part| said.contains(part))
}

/// What of `tare_status` is not as it should be. `is_set`: whether an option of `[tare]` is given.
pub(super) fn check_rows(rows: &[Named], is_set: impl Fn(&str) -> bool) -> Vec<Finding> {
    let row = |name: &str| rows.iter().find(|row| row.name == name).map(|row| row.value.as_str());
    let mut findings = vec![];
    if let Some(state) = row("state").filter(|state| *state != "active") {
        let remedy = "restart the server, and report it with what the error log says";
        findings.push(Finding::problem("state", format!("tare has switched itself off: {state}"), remedy));
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
        let what = format!("{} is {}: what did not fit was not kept", row.name, row.value);
        Finding::problem("lost", what, remedy(&row.name, &is_set))
    }));
    findings
}

/// What makes room for what a counter counts.
fn remedy(counter: &str, is_set: impl Fn(&str) -> bool) -> String {
    let raise = |name: &str| format!("raise {name} in [tare], and restart");
    match bound(counter) {
        Some(option) if !option.default.is_empty() || is_set(option.name) => raise(option.name),
        None if ["locker_lost", "read_locks_lost"].contains(&counter) => {
            "nothing can be set: it nests deeper than any known statement; report it".to_owned()
        }
        _ => raise("memory-max"),
    }
}

/// The option that bounds what a counter counts beyond; `None` where only memory does.
fn bound(counter: &str) -> Option<&'static OptionDef> {
    let what = counter.strip_suffix("_lost")?.replace('_', "-");
    // The server's own name for it says otherwise.
    let what = if what == "nested-statement" { "statement-stack".to_owned() } else { what };
    let counts = OPTIONS.iter().filter(|option| matches!(option.kind, Kind::Count(..)));
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

    fn named(name: &str, value: &str) -> Named {
        Named { name: name.into(), value: value.into() }
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
        assert!(remedy("mutex_instances_lost", |_| false).contains("memory-max"));
        assert!(remedy("mutex_instances_lost", |_| true).contains("max-mutex-instances"));
        assert!(remedy("digest_lost", |_| false).contains("digests-size"));
    }

    #[test]
    fn what_is_well_says_nothing_and_the_rest_says_what_to_do() {
        let well = [
            named("state", "active"),
            named("tables", "ON"),
            named("server_variables", "ON"),
            named("digest_lost", "0"),
        ];
        assert_eq!(check_rows(&well, |_| false), []);
        let ill = [
            named("state", "off: a panic"),
            named("tables", "OFF: the plugin ha_federatedx is not loaded: put it"),
            named("lost", "3"),
            named("digest_lost", "3"),
        ];
        let checks: Vec<&str> = check_rows(&ill, |_| false).iter().map(|finding| finding.check).collect();
        assert_eq!(checks, ["state", "tables", "lost"]);
        let variables = [named("tables", "ON"), named("server_variables", "OFF: x")];
        assert_eq!(check_rows(&variables, |_| false)[0].check, "variables");
        assert_eq!(check_rows(&[named("tables", "OFF")], |_| false)[0].check, "tables");
    }
}
