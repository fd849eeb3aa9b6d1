//! The studies by which prices are measured: settings that differ in one group of kinds or in one level,
//! under loads that are rich in one kind of event each.
//!
//! All levels are switched on one server, so that the layout of a process's memory does not matter. Only the
//! cost of disabled events needs separate servers, one without a Performance Schema, and several starts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tare_budget::{HistoryFamily, Kind, Level, PricedProvider};

/// Name of the setting in which everything is switched off.
pub(super) const NOTHING: &str = "nothing";
/// Name of the setting in which everything is on.
pub(super) const EVERYTHING: &str = "everything";
/// Name of the setting without a Performance Schema.
pub(super) const NONE: &str = "none";
/// Name of the server in the studies, for which the command's `--server` gives the program.
pub const SERVER: &str = "server";

/// Point selects that are sent as text, so that each is parsed and has a digest.
const TEXT: &str = "point_select_text";
/// Names of the workloads by which prices are measured.
pub const LOADS: [&str; 8] = [
    "oltp_point_select",
    TEXT,
    "ro_simple_ranges",
    "oltp_write_only",
    "events_temporary",
    "events_sort",
    "events_procedure",
    "events_tables",
];
/// The workloads by which the cost of disabled events is measured: each needs a start of every server.
const LOADS_OFF: [&str; 2] = ["oltp_point_select", "ro_simple_ranges"];
/// The workload by which the cost of a connection besides its events is measured.
const LOAD_OF_CONNECTIONS: &str = "events_connect";
/// The workloads that prices are checked with, none of them in `LOADS`.
pub const CHECKED: [&str; 6] =
    ["tpcc", "dbstress_rw", "oltp_read_write", "events_session", "procedure_loop", "events_ddl"];

/// Kinds that are switched together, and their patterns. Within a group, loads tell kinds apart.
struct KindGroup {
    name: &'static str,
    kinds: &'static [Kind],
    patterns: &'static [&'static str],
}

const GROUPS: [KindGroup; 5] = [
    KindGroup {
        name: "locks",
        kinds: &[Kind::Mutex, Kind::RwLock, Kind::Condition],
        patterns: &["wait/synch/%"],
    },
    KindGroup {
        name: "input, output, tables",
        kinds: &[Kind::TableIo, Kind::FileIo, Kind::MetadataLock, Kind::TableLock, Kind::Socket, Kind::Idle],
        patterns: &["wait/io/%", "wait/lock/%", "idle"],
    },
    KindGroup { name: "stages", kinds: &[Kind::Stage], patterns: &["stage/%"] },
    KindGroup {
        name: "statements",
        kinds: &[Kind::Query, Kind::Statement, Kind::Program, Kind::Transaction],
        patterns: &["statement/%", "transaction", "error"],
    },
    KindGroup { name: "memory", kinds: &[Kind::Memory], patterns: &["memory/%"] },
];

/// Server options of every study: small enough to start soon, a table cache smaller than the number of
/// tables, temporary tables in files, and a log that is written, but not flushed, with every transaction.
const OPTIONS: &str = r#"options = ["--innodb-buffer-pool-size=128M", "--innodb-flush-log-at-trx-commit=2", "--table-open-cache=64", "--loose-big-tables"]"#;

/// Returns the measured levels of timed kinds, from lowest to highest. *current* is left out to save time: it
/// costs no more than *history*.
fn ladder(provider: PricedProvider) -> &'static [Level] {
    match provider {
        PricedProvider::Tare => &[Level::Counts, Level::Sums, Level::Lean, Level::Exact],
        PricedProvider::MariaDb | PricedProvider::MySql => {
            &[Level::Counts, Level::Sums, Level::History, Level::Exact]
        }
    }
}

/// Returns whether a kind has this level as a distinct one: with tare, *exact* equals *lean* except for
/// locks.
fn has(provider: PricedProvider, kind: Kind, level: Level) -> bool {
    let lock = matches!(kind, Kind::Mutex | Kind::RwLock);
    match level {
        Level::Counts => true,
        _ if !kind.is_timed() => false,
        Level::Exact => provider != PricedProvider::Tare || lock,
        _ => true,
    }
}

/// A setting: the level of each kind; kinds that are not named are off.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceSetting {
    /// Name of the setting in the study.
    pub name: String,
    /// Levels by kind.
    pub levels: BTreeMap<Kind, Level>,
}

/// Returns all settings: everything at each level, and each group alone at its highest. Many kinds together
/// cost enough to be measured within minutes; groups and loads tell the share of each kind and level.
#[must_use]
pub fn settings(provider: PricedProvider) -> Vec<PriceSetting> {
    let kinds = || GROUPS.iter().flat_map(|group| group.kinds);
    let all = ladder(provider).iter().filter(|level| **level != Level::Exact);
    let mut settings: Vec<PriceSetting> = all
        .map(|&level| PriceSetting::of(&format!("everything at {level}"), provider, level, kinds()))
        .collect();
    settings.extend(
        GROUPS.iter().map(|group| PriceSetting::of(group.name, provider, Level::Exact, group.kinds.iter())),
    );
    settings.push(everything(provider));
    settings
}

/// Returns the setting with everything off.
fn nothing() -> PriceSetting {
    PriceSetting { name: NOTHING.to_owned(), levels: BTreeMap::new() }
}

/// Returns the setting with everything on, at the highest level.
#[must_use]
pub fn everything(provider: PricedProvider) -> PriceSetting {
    PriceSetting::of(EVERYTHING, provider, Level::Exact, GROUPS.iter().flat_map(|group| group.kinds))
}

/// Returns the highest level of a kind up to `most`.
fn highest(provider: PricedProvider, kind: Kind, most: Level) -> Option<Level> {
    ladder(provider).iter().copied().filter(|level| *level <= most && has(provider, kind, *level)).max()
}

/// Returns the level below, whose price is a lower bound of this one's because it keeps less. Tare's *lean*
/// is not above *sums* for locks, as it does not time uncontended ones.
pub(super) fn stands_on(kind: Kind, level: Level, of: &[Level]) -> Option<Level> {
    let lock = matches!(kind, Kind::Mutex | Kind::RwLock);
    let beside = |it: &Level| *it == Level::Sums && lock && level > Level::Sums && of.contains(&Level::Lean);
    of.iter().copied().filter(|it| *it < level && !beside(it)).max()
}

impl PriceSetting {
    /// Makes a setting of kinds, each at its highest level up to `most`.
    fn of<'a>(
        name: &str,
        provider: PricedProvider,
        most: Level,
        kinds: impl Iterator<Item = &'a Kind>,
    ) -> PriceSetting {
        let levels = kinds.filter_map(|kind| Some((*kind, highest(provider, *kind, most)?))).collect();
        PriceSetting { name: name.to_owned(), levels }
    }

    /// Returns the statements that switch a server to it from any state.
    fn statements(&self, provider: PricedProvider) -> Vec<String> {
        let patterns_at = |wanted: &dyn Fn(Level) -> bool| {
            let of = |group: &&KindGroup| {
                group.kinds.iter().any(|kind| self.levels.get(kind).is_some_and(|level| wanted(*level)))
            };
            GROUPS.iter().filter(of).flat_map(|group| group.patterns).copied().collect::<Vec<&str>>()
        };
        if provider == PricedProvider::Tare {
            // Memory is counted at every level. The last matching rule decides, so the highest level comes
            // last.
            let mut rules = vec!["off".to_owned()];
            for level in ladder(provider) {
                let patterns = patterns_at(&|it| it == *level);
                rules.extend(patterns.into_iter().map(|pattern| format!("{pattern}={level}")));
            }
            let rules = rules.join(", ");
            return vec![format!(
                "UPDATE performance_schema.tare_status SET VALUE = '{rules}' WHERE NAME = 'level'"
            )];
        }
        let names_at = |wanted: &dyn Fn(Level) -> bool| {
            let patterns = patterns_at(wanted);
            let names: Vec<String> = patterns.iter().map(|it| format!("NAME LIKE '{it}'")).collect();
            if names.is_empty() { "FALSE".to_owned() } else { names.join(" OR ") }
        };
        let yes = |when: &str| format!("IF({when}, 'YES', 'NO')");
        vec![
            format!(
                "UPDATE performance_schema.setup_instruments SET ENABLED = {} \
                 WHERE NAME NOT LIKE 'memory/performance_schema/%'",
                yes(&names_at(&|_| true))
            ),
            format!(
                "UPDATE performance_schema.setup_instruments SET TIMED = {} WHERE TIMED IS NOT NULL",
                yes(&names_at(&|level| level >= Level::Sums))
            ),
            format!(
                "UPDATE performance_schema.setup_consumers SET ENABLED = {} WHERE NAME LIKE 'events%'",
                yes(&self.consumers())
            ),
        ]
    }

    /// Returns the consumers that record the setting's events.
    fn consumers(&self) -> String {
        let level_of = |family: HistoryFamily| {
            let of = self.levels.iter().filter(|(kind, _)| kind.family() == Some(family));
            of.map(|(_, level)| *level).max().unwrap_or(Level::Off)
        };
        let histories =
            [("current", Level::Current), ("history", Level::History), ("history_long", Level::Exact)];
        let names = HistoryFamily::ALL.into_iter().flat_map(|family| {
            let on = histories.iter().filter(move |(_, level)| *level <= level_of(family));
            on.map(move |(history, _)| format!("'events_{}_{history}'", family.name()))
        });
        let names: Vec<String> = names.collect();
        if names.is_empty() { "FALSE".to_owned() } else { format!("NAME IN ({})", names.join(", ")) }
    }
}

/// How a server is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerStart {
    /// With everything on, so that it can be switched.
    On,
    /// Without a Performance Schema.
    Without,
}

/// Returns the lines of a setting in a study.
fn setting(name: &str, provider: PricedProvider, start: ServerStart, switch: &[String]) -> String {
    // No Performance Schema works on an idle server; observing each setting for that would take a minute.
    let mut text = format!("\n[[setting]]\nname = {name:?}\nstretch = false\n");
    let _ = match (start, provider) {
        (ServerStart::Without, _) => writeln!(text, "options = [\"--performance-schema=OFF\"]"),
        (ServerStart::On, PricedProvider::Tare) => writeln!(
            text,
            "options = [\"--performance-schema=OFF\", \"--plugin-load-add=ha_federatedx\"]\npreload = \"tare\"\n\
             environment = {{ TARE_OPTIONS = \"instrument=%=ON;consumer=%=ON;level=exact\" }}"
        ),
        (ServerStart::On, PricedProvider::MariaDb | PricedProvider::MySql) => {
            let consumers = HistoryFamily::ALL.into_iter().flat_map(|family| {
                ["current", "history", "history-long"].map(|history| {
                    format!(", \"--performance-schema-consumer-events-{}-{history}=ON\"", family.name())
                })
            });
            writeln!(
                text,
                "options = [\"--performance-schema=ON\", \"--performance-schema-instrument=%=ON\"{}]",
                consumers.collect::<String>()
            )
        }
    };
    if !switch.is_empty() {
        let _ = writeln!(text, "switch = {switch:?}");
    }
    if start == ServerStart::On {
        // Verifies that it is loaded; a missing one would seem to cost nothing.
        let _ =
            writeln!(text, "require = \"SELECT COUNT(*) > 100 FROM performance_schema.setup_instruments\"");
    }
    text
}

/// Returns the lines of the loads of a study.
fn workloads(names: &[&str]) -> String {
    let one = |name: &&str| {
        let run = if *name == TEXT { "oltp_point_select" } else { name };
        let options = match *name {
            TEXT => "options = { table-size = 20000 }\nprepared = false\n",
            "tpcc" => "options = { scale = \"0.1\" }\n",
            "dbstress_rw" => "options = { objects = 2000 }\n",
            "procedure_loop" | "events_connect" | "events_temporary" | "events_sort" | "events_procedure"
            | "events_tables" | "events_session" | "events_ddl" => "",
            _ => "options = { table-size = 20000 }\n",
        };
        format!("\n[[workload]]\nname = {name:?}\nrun = {run:?}\n{options}users = [2]\n")
    };
    names.iter().map(one).collect()
}

/// Returns the lines that all studies begin with.
fn figures(question: &str, minutes: f64, slice: f64, least: u32, warm_ups: &[&str]) -> String {
    format!(
        "question = {question:?}\nminutes = {minutes}\nslice_seconds = {slice:.2}\nblocks = 240\nblocks_per_start = 1\n\
         precision = 0.0001\nmargin = 0.0001\nstop_early = false\nleast_blocks = {least}\nwarm_ups = {warm_ups:?}\n\n\
         [[server]]\nname = {SERVER:?}\nprogram = \"mariadbd\"\n{OPTIONS}\n"
    )
}

/// Number of server starts in the available time; each of them measures every load once.
const LIVES: f64 = 3.0;
/// Duration of a slice in turns relative to its load, with switching and waiting until the server is idle.
const OVERHEAD: f64 = 1.6;

/// Returns the study of levels under some of the loads, of which there must be several.
#[must_use]
pub fn of_levels(provider: PricedProvider, minutes: f64, loads: &[&str]) -> String {
    let settings = settings(provider);
    #[allow(clippy::cast_precision_loss)] // some hundreds
    let slices = (settings.len() * loads.len()) as f64;
    let slice = (minutes * 60.0 / LIVES / OVERHEAD / slices).clamp(0.2, 2.0);
    let mut text = figures("What does an event cost?", minutes, slice, 2, &[NOTHING, EVERYTHING]);
    for it in [nothing()].iter().chain(&settings) {
        text += &setting(&it.name, provider, ServerStart::On, &it.statements(provider));
    }
    text + &workloads(loads)
}

/// Returns the study of the cost of disabled events.
#[must_use]
pub fn of_off(provider: PricedProvider, minutes: f64) -> String {
    let slice = (minutes * 60.0 / 100.0).clamp(0.1, 2.0);
    figures("What does an event cost that is off?", minutes, slice, 2, &[])
        + &setting(NONE, provider, ServerStart::Without, &[])
        + &setting(NOTHING, provider, ServerStart::On, &nothing().statements(provider))
        + &workloads(&LOADS_OFF)
}

/// Returns the study of the cost of a connection besides its events.
#[must_use]
pub fn of_connections(provider: PricedProvider, minutes: f64) -> String {
    let slice = (minutes * 60.0 / 100.0).clamp(0.1, 2.0);
    figures("What does a connection cost?", minutes, slice, 2, &[])
        + &setting(NONE, provider, ServerStart::Without, &[])
        + &setting(NOTHING, provider, ServerStart::On, &nothing().statements(provider))
        + &setting(EVERYTHING, provider, ServerStart::On, &everything(provider).statements(provider))
        + &workloads(&[LOAD_OF_CONNECTIONS])
}

/// Returns the study that prices are checked with.
#[must_use]
pub fn of_check(provider: PricedProvider, minutes: f64) -> String {
    let slice = (minutes * 60.0 / 400.0).clamp(0.1, 5.0);
    figures("Does everything cost what prices say?", minutes, slice, 2, &[])
        + &setting(NONE, provider, ServerStart::Without, &[])
        + &setting(EVERYTHING, provider, ServerStart::On, &[])
        + &workloads(&CHECKED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::Definition;

    const ALL: [PricedProvider; 3] = [PricedProvider::Tare, PricedProvider::MariaDb, PricedProvider::MySql];

    #[test]
    fn settings_differ_in_one_group_and_level_and_share_a_server() {
        for provider in ALL {
            let text = of_levels(provider, 10.0, &LOADS);
            let study = Definition::read(&text, "levels", false).expect("a study");
            let first = &study.settings[0];
            assert!(
                study.settings.iter().all(|it| it.options == first.options && it.preload == first.preload)
            );
            for it in settings(provider) {
                let of = GROUPS.iter().filter(|group| group.kinds.iter().any(|k| it.levels.contains_key(k)));
                let most = if it.name.starts_with(EVERYTHING) { GROUPS.len() } else { 1 };
                assert_eq!(of.count(), most, "{}", it.name);
            }
            for text in [of_off(provider, 1.0), of_connections(provider, 1.0), of_check(provider, 1.0)] {
                Definition::read(&text, "s", false).expect("a study");
            }
        }
        assert!(CHECKED.iter().all(|load| !LOADS.contains(load)));
    }

    #[test]
    fn a_level_is_said_in_the_servers_words() {
        let of = |provider, name: &str| {
            let found = settings(provider).into_iter().find(|it| it.name == name).expect("a setting");
            found.statements(provider)
        };
        let stages = of(PricedProvider::MySql, "stages");
        assert!(stages[0].contains("ENABLED = IF(NAME LIKE 'stage/%', 'YES', 'NO')"), "{stages:?}");
        assert!(stages[2].contains(
            "NAME IN ('events_stages_current', 'events_stages_history', 'events_stages_history_long')"
        ));
        let history = of(PricedProvider::MySql, "everything at history");
        assert!(history[2].contains("'events_waits_history'") && !history[2].contains("history_long"));
        let counted = of(PricedProvider::MariaDb, "everything at counts");
        assert!(counted[1].contains("TIMED = IF(FALSE,") && counted[2].contains("ENABLED = IF(FALSE,"));
        let locks = of(PricedProvider::Tare, "locks");
        assert_eq!(
            locks,
            [
                "UPDATE performance_schema.tare_status SET VALUE = 'off, wait/synch/%=lean, wait/synch/%=exact' \
                 WHERE NAME = 'level'"
            ]
        );
    }

    #[test]
    fn levels_stand_on_those_that_keep_less() {
        let tare = [Level::Counts, Level::Sums, Level::Lean, Level::Exact];
        assert_eq!(stands_on(Kind::Mutex, Level::Lean, &tare), Some(Level::Counts));
        assert_eq!(stands_on(Kind::Mutex, Level::Exact, &tare), Some(Level::Lean));
        assert_eq!(stands_on(Kind::Mutex, Level::Sums, &tare), Some(Level::Counts));
        assert_eq!(stands_on(Kind::Stage, Level::Lean, &tare[..3]), Some(Level::Sums));
        assert_eq!(stands_on(Kind::Stage, Level::Counts, &tare[..3]), None);
    }
}
