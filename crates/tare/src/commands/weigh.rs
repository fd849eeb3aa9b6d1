//! `tare weigh`: the cost of settings on a running server, under its own load.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use mysql::prelude::Queryable;
use tare_lab::interrupt::Interrupt;
use tare_lab::recording::boundary;
use tare_lab::statistics::Estimate;
use tare_lab::target::ServerTarget;
use tare_lab::weighing::{AGAIN, Subject, WANTED, WeighedSetting, Weighing, Weights};
use tare_server::sql;

use crate::durations::{self, shown};
use crate::exit::misuse;
use crate::outlet::Reach;
use crate::output::CommandOutput;
use crate::page;
use crate::state;

/// Kinds of instruments that are weighed by default.
const KINDS: [&str; 8] =
    ["stage/%", "statement/%", "transaction", "wait/synch/%", "wait/io/%", "wait/lock/%", "idle", "memory/%"];
/// Mean statements per window from which hardly any window has none.
const ENOUGH: f64 = 5.0;
/// Name of the first setting if each of the others switches something off.
const AS_IT_IS: &str = "as it is";

/// Weigh the cost of settings on a running server, under its own load
///
/// Switches the server from setting to setting every few milliseconds, by SQL, in random order, and compares
/// the server's CPU time per statement of its load. Nothing else drives the server, so it must be busy; it
/// must be on this machine, because its CPU time is read here. Without --without and --setting each kind of
/// instruments that is on is switched off in turn, which shows the cost of each. In the end, and on Ctrl-C,
/// everything is restored; after a kill -9 the next run does so.
///
/// `USUALLY` is the usual difference per statement, with its 95% interval; `MEAN` is that of all windows. The
/// line `again` is the A/A control, the first setting once more: its difference is noise. What can only be
/// set at start-up cannot be weighed: `tare lab run` compares servers side by side.
///
/// The cost of a variable is seen only if it has global scope alone: a session keeps its own copy of other
/// variables, taken when it connected. A server with a governor is refused, because the governor would take
/// the switches for a person's choice.
///
/// The account needs SELECT on performance_schema.*, and UPDATE on what is switched: setup_instruments; with
/// tare also tare_status and tare_levels.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare weigh --dsn 'mysql://root@localhost?socket=/run/mysqld/mysqld.sock'\n  \
    tare weigh --without 'stage/%' --without 'wait/io/table/%' --for 2m\n  \
    tare weigh --setting \"logs=SET GLOBAL log_output = 'FILE'\" \\\n    \
    --setting \"no logs=SET GLOBAL log_output = 'NONE'\"\n  \
    tare weigh \\\n    \
    --setting \"lean=UPDATE performance_schema.tare_status SET VALUE = 'lean' WHERE NAME = 'level'\" \\\n    \
    --setting \"exact=UPDATE performance_schema.tare_status SET VALUE = 'exact' WHERE NAME = 'level'\"")]
pub(crate) struct Weigh {
    #[command(flatten)]
    reach: Reach,
    /// Weigh the instruments that this pattern matches, where `%` is any text: as it is, and without them;
    /// may be repeated
    #[arg(long, value_name = "PATTERN", conflicts_with = "setting")]
    without: Vec<String>,
    /// A setting and the statements that switch the server to it from any state, separated by `;`; may be
    /// repeated, and the others are compared with the first one
    #[arg(long, value_name = "NAME=SQL", value_parser = setting)]
    setting: Vec<WeighedSetting>,
    /// Time to weigh
    #[arg(long = "for", value_name = "TIME", default_value = "90s", value_parser = durations::between("1s", "1d"))]
    time: Duration,
    /// Time of each setting in a round
    #[arg(long, value_name = "TIME", default_value = "15ms", value_parser = durations::between("1ms", "10s"))]
    window: Duration,
    /// The server's process on this machine [default: the one that listens on the address]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    #[command(flatten)]
    answer: CommandOutput,
    /// Folder of the file with the original settings [default: /var/lib/tare for root, else
    /// ~/.local/state/tare]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

fn setting(text: &str) -> Result<WeighedSetting, String> {
    let (name, statements) = text.split_once('=').unwrap_or((text, ""));
    let statements: Vec<String> = boundary::statements(statements).into_iter().map(str::to_owned).collect();
    if name.trim().is_empty() || statements.is_empty() {
        return Err("NAME=SQL is allowed, such as \"no logs=SET GLOBAL log_output = 'NONE'\"".into());
    }
    if name.trim() == AGAIN {
        return Err(format!("`{AGAIN}` is what the first setting once more is called: choose another name"));
    }
    Ok(WeighedSetting { name: name.trim().to_owned(), statements })
}

/// Runs the command.
pub(crate) fn run(arguments: &Weigh, interrupt: &Interrupt) -> Result<ExitCode> {
    arguments.answer.written(|| weigh(arguments, interrupt))
}

fn weigh(arguments: &Weigh, interrupt: &Interrupt) -> Result<ExitCode> {
    let target = ServerTarget::from(arguments.reach.account()?);
    let folder =
        arguments.state.clone().map_or_else(state::folder, Ok)?.join("weigh").join(file_name(&target));
    fs::create_dir_all(&folder)
        .with_context(|| format!("making {}: name another folder with --state", folder.display()))?;
    let mut subject = Subject::new(&target, &folder)?;
    let settings = arguments.settings(&target, subject.connection())?;
    subject.copied(&settings).iter().for_each(|name| page::aside(&copied(name)));
    let weighing =
        Weighing { pid: arguments.pid, settings: &settings, time: arguments.time, window: arguments.window };
    foresee(&weighing, subject.rate(interrupt)?).iter().for_each(|line| page::aside(line));
    let is_json = arguments.answer.format.is_json();
    if !is_json {
        println!(
            "Weighing {} settings on {} for {}, in at most {} rounds. If fewer than {WANTED} of them have a statement in every window \
             of {}, it ends without an answer. Everything is put back in the end.",
            settings.len(),
            target.name(),
            shown(arguments.time),
            weighing.rounds_at_most(),
            shown(arguments.window)
        );
    }
    let weights = subject.weigh(&weighing, interrupt)?;
    if is_json {
        println!("{}", serde_json::to_string_pretty(&weights)?);
    } else {
        print(&weights);
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns warnings before anything is switched: that there may be no result, and what helps.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // for people
fn foresee(weighing: &Weighing<'_>, rate: f64) -> Vec<String> {
    let mut said = vec![];
    let wanted = weighing.round().as_secs_f64() * WANTED as f64;
    if weighing.rounds_at_most() < WANTED as u64 {
        said.push(format!(
            "The time is too short for an answer: {WANTED} rounds are wanted, which take {} s and what switching takes (--for).",
            wanted.ceil()
        ));
    }
    let each = rate * weighing.window.as_secs_f64();
    if each < ENOUGH {
        let window = (ENOUGH / rate.max(0.1)).clamp(0.001, 10.0);
        let secs = (weighing.round().as_secs_f64() / weighing.window.as_secs_f64()) * window * WANTED as f64;
        said.push(format!(
            "The server has {rate:.0} statements a second now, {each:.1} in a window: many windows will have none, and there may be no \
             answer. Weigh it while it is busy, or with --window {:.0}ms --for {:.0}s.",
            (window * 1e3).ceil(),
            (secs * 1.2).ceil().min(86_400.0)
        ));
    }
    said
}

impl Weigh {
    fn settings(&self, target: &ServerTarget, connection: &mut mysql::Conn) -> Result<Vec<WeighedSetting>> {
        match self.setting.len() {
            0 => {}
            1 => misuse!("one --setting has nothing to be compared with: name another one"),
            _ => return Ok(self.setting.clone()),
        }
        let kinds = KINDS.map(str::to_owned);
        let (patterns, is_said) =
            if self.without.is_empty() { (&kinds[..], false) } else { (&self.without[..], true) };
        let mut groups = vec![];
        for pattern in patterns {
            match WeighedGroup::of(connection, pattern).map_err(|e| target.refused(e))? {
                Some(group) => groups.push(group),
                None if is_said => {
                    bail!("no instrument that `{pattern}` matches is on: there is nothing to weigh")
                }
                None => {}
            }
        }
        if groups.is_empty() {
            bail!(
                "no instrument is on at {}: start the server with its Performance Schema or with tare, or name settings with --setting",
                target.name()
            );
        }
        Ok(lacking(&groups))
    }
}

/// The enabled instruments of a pattern, and how to select them.
struct WeighedGroup {
    pattern: String,
    /// Names; empty: everything that the pattern matches is enabled.
    names: Vec<String>,
    /// The common level of all of them, on a server with tare, which one row can switch.
    level: Option<String>,
}

impl WeighedGroup {
    /// Returns the instruments that a pattern matches; `None` if none of them is enabled.
    fn of(connection: &mut mysql::Conn, pattern: &str) -> mysql::Result<Option<WeighedGroup>> {
        let query = "SELECT NAME, ENABLED FROM performance_schema.setup_instruments WHERE NAME LIKE ?";
        let found: Vec<(String, String)> = connection.exec(query, (pattern,))?;
        let all = found.len();
        let on = found.into_iter().filter(|(_, enabled)| enabled == "YES");
        let names: Vec<String> = on.map(|(name, _)| name).collect();
        if names.is_empty() {
            return Ok(None);
        }
        let is_whole = names.len() == all;
        let level = if is_whole { level(connection, pattern)? } else { None };
        let names = if is_whole { vec![] } else { names };
        Ok(Some(WeighedGroup { pattern: pattern.to_owned(), names, level }))
    }

    /// Returns the condition that selects them.
    fn condition(&self) -> String {
        if self.names.is_empty() {
            return format!("NAME LIKE {}", sql::literal(&self.pattern));
        }
        format!("NAME IN ({})", sql::literals(&self.names))
    }
}

/// Returns the common level of the instruments that a pattern matches; `None` if they differ, or the server
/// has no levels.
fn level(connection: &mut mysql::Conn, pattern: &str) -> mysql::Result<Option<String>> {
    let query = "SELECT DISTINCT LEVEL FROM performance_schema.tare_levels WHERE NAME LIKE ?";
    let levels: Vec<String> = match connection.exec(query, (pattern,)) {
        Err(mysql::Error::MySqlError(error)) if error.code == tare_words::error_number::NO_TABLE => {
            return Ok(None);
        }
        other => other?,
    };
    Ok(<[String; 1]>::try_from(levels).ok().map(|[level]| level))
}

/// Returns a setting with everything as it is, and for each group one without it. Each setting first switches
/// everything else on.
fn lacking(groups: &[WeighedGroup]) -> Vec<WeighedSetting> {
    let base = WeighedSetting { name: AS_IT_IS.to_owned(), statements: switches(groups, None) };
    let without = groups.iter().enumerate().map(|(place, group)| WeighedSetting {
        name: format!("without {}", group.pattern),
        statements: switches(groups, Some(place)),
    });
    [base].into_iter().chain(without).collect()
}

/// Returns the statements that switch all on except one.
fn switches(groups: &[WeighedGroup], off: Option<usize>) -> Vec<String> {
    let levels: Option<Vec<&str>> = groups.iter().map(|group| group.level.as_deref()).collect();
    if let Some(levels) = levels {
        let all = groups.iter().zip(levels).enumerate().filter(|(place, _)| off != Some(*place));
        let on = all.map(|(_, (group, level))| format!("{}={level}", group.pattern));
        // The last rule that matches an instrument decides, and patterns may overlap.
        let off = off.map(|place| format!("{}=off", groups[place].pattern));
        let rules = sql::literal(&on.chain(off).collect::<Vec<_>>().join(","));
        return vec![format!(
            "UPDATE performance_schema.tare_status SET VALUE = {rules} WHERE NAME = 'level'"
        )];
    }
    let switch = |on: &str, groups: &[&WeighedGroup]| {
        let conditions: Vec<String> = groups.iter().map(|group| group.condition()).collect();
        let table = "performance_schema.setup_instruments";
        format!(
            "UPDATE {table} SET ENABLED = '{on}' WHERE ENABLED <> '{on}' AND ({})",
            conditions.join(" OR ")
        )
    };
    let is_off = |place: &usize| off == Some(*place);
    let (out, on): (Vec<usize>, Vec<usize>) = (0..groups.len()).partition(is_off);
    let of = |places: Vec<usize>| places.into_iter().map(|place| &groups[place]).collect::<Vec<_>>();
    let sides = [("YES", of(on)), ("NO", of(out))];
    sides.iter().filter(|(_, groups)| !groups.is_empty()).map(|(on, groups)| switch(on, groups)).collect()
}

/// Returns the warning about a variable that each session copies.
fn copied(name: &str) -> String {
    format!(
        "`{name}` is copied by each session when it connects. Those that are there keep theirs, so of them nothing is \
         seen; and those that connect meanwhile keep for life what it is at that moment, also when it is put back."
    )
}

/// Returns a name for a server's own files.
fn file_name(target: &ServerTarget) -> String {
    target.name().replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

fn print(weights: &Weights) {
    println!(
        "{}: {} rounds, {} ms for each setting in a round, {:.0} statements in those, {:.1} ms to switch",
        weights.version, weights.rounds, weights.window_ms, weights.statements, weights.switching_ms
    );
    if weights.empty > 0 {
        println!("{} rounds more had a setting without a statement and are left out", weights.empty);
    }
    let wide = page::longest(weights.settings.iter().map(|setting| &setting.name));
    println!("\n{:wide$}  {:>12}  {:>26}  {:>26}", "SETTING", "A STATEMENT", "USUALLY", "MEAN");
    for setting in &weights.settings {
        let note = if setting.name == AGAIN { "  (noise)" } else { "" };
        let [usual, mean] = [setting.usual, setting.mean].map(|it| it.map_or(String::new(), between));
        let line = format!(
            "{:wide$}  {:>9.2} us  {usual:>26}  {mean:>26}{note}",
            setting.name, setting.statement_us
        );
        println!("{}", line.trim_end());
    }
}

/// Formats a change with its interval, in percent.
fn between(it: Estimate) -> String {
    let percent = |share: f64| format!("{:+.2}%", share * 100.0);
    format!("{} ({} … {})", percent(it.value), percent(it.low), percent(it.high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_a_name_and_statements() {
        let read = setting("log = SET GLOBAL a = 1; SET GLOBAL b = 2;").expect("a setting");
        assert_eq!(read.name, "log");
        assert_eq!(read.statements, ["SET GLOBAL a = 1", "SET GLOBAL b = 2"]);
        let quoted = "UPDATE t SET a = 1 WHERE name = 'one binlog; the next'";
        assert_eq!(setting(&format!("quoted={quoted}")).expect("a setting").statements, [quoted]);
        for wrong in ["", "log", "log=", "=SET GLOBAL a = 1", "log=;"] {
            assert!(setting(wrong).is_err(), "{wrong}");
        }
        let again = setting("again=SET GLOBAL a = 1").expect_err("the noise is called so");
        assert!(again.contains("choose another name"), "{again}");
        assert!(setting("once again=SET GLOBAL a = 1").is_ok());
    }

    #[test]
    fn that_there_may_be_no_answer_is_said_before_it_begins() {
        let settings = ["a=DO 1", "b=DO 2"].map(|text| setting(text).expect("a setting"));
        let of = |secs, window, rate| {
            let (time, window) = (Duration::from_secs(secs), Duration::from_millis(window));
            foresee(&Weighing { pid: None, settings: &settings, time, window }, rate)
        };
        assert!(of(90, 15, 10_000.0).is_empty());
        let short = of(1, 15, 10_000.0);
        assert!(short.len() == 1 && short[0].contains("96 rounds") && short[0].contains("5 s"), "{short:?}");
        let idle = of(90, 15, 20.0);
        assert!(idle.len() == 1 && idle[0].contains("--window 250ms --for 93s"), "{idle:?}");
        assert_eq!(of(1, 15, 0.0).len(), 2, "both");
    }

    fn group(pattern: &str, names: &[&str], level: Option<&str>) -> WeighedGroup {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        WeighedGroup { pattern: pattern.into(), names, level: level.map(Into::into) }
    }

    #[test]
    fn each_setting_lacks_one_group_and_has_all_others() {
        let groups =
            [group("a/%", &["a/1", "a/it's"], Some("lean")), group("b\\%", &[], None), group("c", &[], None)];
        let settings = lacking(&groups);
        let named: Vec<(&str, usize)> =
            settings.iter().map(|it| (it.name.as_str(), it.statements.len())).collect();
        assert_eq!(named, [("as it is", 1), ("without a/%", 2), ("without b\\%", 2), ("without c", 2)]);
        let [back, off] = settings[1].statements.as_slice() else { panic!("two statements") };
        let on = "SET ENABLED = 'YES' WHERE ENABLED <> 'YES' AND (NAME LIKE 'b\\\\%' OR NAME LIKE 'c')";
        assert!(back.ends_with(on), "{back}");
        assert!(
            off.ends_with("SET ENABLED = 'NO' WHERE ENABLED <> 'NO' AND (NAME IN ('a/1', 'a/it''s'))"),
            "{off}"
        );
    }

    #[test]
    fn where_each_group_has_one_level_a_row_switches_all_of_them() {
        let settings = lacking(&[group("a/%", &[], Some("lean")), group("b", &[], Some("counts"))]);
        let statement = |value: &str| {
            vec![format!("UPDATE performance_schema.tare_status SET VALUE = '{value}' WHERE NAME = 'level'")]
        };
        let statements: Vec<Vec<String>> = settings.into_iter().map(|it| it.statements).collect();
        let expected = ["a/%=lean,b=counts", "b=counts,a/%=off", "a/%=lean,b=off"];
        assert_eq!(statements, expected.map(statement));
    }

    /// The last rule that matches a name decides.
    #[test]
    fn of_patterns_that_overlap_each_is_off_in_its_setting() {
        let patterns = ["wait/io/%", "wait/%", "%"];
        let settings = lacking(&patterns.map(|pattern| group(pattern, &[], Some("lean"))));
        for (pattern, setting) in patterns.iter().zip(&settings[1..]) {
            assert_eq!(setting.name, format!("without {pattern}"));
            let [statement] = setting.statements.as_slice() else { panic!("{setting:?}") };
            assert!(statement.contains(&format!(",{pattern}=off' WHERE")), "{statement}");
            for other in patterns.iter().filter(|other| *other != pattern) {
                assert!(statement.contains(&format!("{other}=lean")), "{statement}");
            }
        }
    }
}
