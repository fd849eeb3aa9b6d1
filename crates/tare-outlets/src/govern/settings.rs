//! The rows of `setup_instruments` and `setup_consumers`, and their meaning as levels.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tare_budget::board::Switched;
use tare_budget::{Held, HistoryFamily, Kind, Level, Switch};
use tare_server::sql::literals;

use crate::source::{Error, Source};

/// Most names in one statement.
const TOGETHER: usize = 200;

/// The values of an instrument's row, or of a consumer's, which has no `TIMED`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowSetting {
    /// `ENABLED`
    pub enabled: bool,
    /// `TIMED`; `None` where it is NULL.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timed: Option<bool>,
}

/// The table of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SetupTableName {
    /// `setup_instruments`
    Instruments,
    /// `setup_consumers`
    Consumers,
}

impl SetupTableName {
    fn name(self) -> &'static str {
        match self {
            SetupTableName::Instruments => "setup_instruments",
            SetupTableName::Consumers => "setup_consumers",
        }
    }
}

/// A row's table and name.
pub(crate) type RowName = (SetupTableName, String);

/// All rows that matter to a governor.
pub(crate) type SettingsByRow = BTreeMap<RowName, RowSetting>;

/// Reads the rows.
///
/// # Errors
///
/// Those of [`Source::rows`].
pub(crate) fn read(source: &mut Source) -> Result<SettingsByRow, Error> {
    let mut settings = SettingsByRow::new();
    let said = |row: &crate::Row, at| row.text(at).map(|it| it == "YES");
    for row in source.rows("setup_instruments", &["NAME", "ENABLED", "TIMED"], "")? {
        let name = row.text(0).unwrap_or_default();
        if Kind::of(&name).is_some() {
            let setting = RowSetting { enabled: said(&row, 1).unwrap_or(false), timed: said(&row, 2) };
            settings.insert((SetupTableName::Instruments, name), setting);
        }
    }
    for row in source.rows("setup_consumers", &["NAME", "ENABLED"], "")? {
        let setting = RowSetting { enabled: said(&row, 1).unwrap_or(false), timed: None };
        settings.insert((SetupTableName::Consumers, row.text(0).unwrap_or_default()), setting);
    }
    Ok(settings)
}

/// Rows that one statement sets to the same values.
struct RowGroup {
    names: Vec<RowName>,
    statement: String,
}

/// Groups rows into as few statements as possible.
fn groups(wanted: &SettingsByRow) -> Vec<RowGroup> {
    let mut alike: BTreeMap<(SetupTableName, bool, Option<bool>), Vec<&str>> = BTreeMap::new();
    for ((table, name), setting) in wanted {
        alike.entry((*table, setting.enabled, setting.timed)).or_default().push(name);
    }
    let word = |yes: bool| if yes { "'YES'" } else { "'NO'" };
    let mut groups = vec![];
    for ((table, enabled, timed), names) in alike {
        let timed = timed.map(|timed| format!(", TIMED = {}", word(timed))).unwrap_or_default();
        let group = |names: &[&str]| RowGroup {
            names: names.iter().map(|name| (table, (*name).to_owned())).collect(),
            statement: format!(
                "UPDATE performance_schema.{} SET ENABLED = {}{timed} WHERE NAME IN ({})",
                table.name(),
                word(enabled),
                literals(names)
            ),
        };
        groups.extend(names.chunks(TOGETHER).map(group));
    }
    groups
}

/// Writes rows.
///
/// # Errors
///
/// Those of [`Source::execute`]; some may have been written by then.
pub(crate) fn write(source: &mut Source, wanted: &SettingsByRow) -> Result<(), Error> {
    groups(wanted).iter().try_for_each(|group| source.execute(&group.statement))
}

/// Writes as many rows as possible; returns their names, and the first error.
pub(crate) fn write_each(source: &mut Source, wanted: &SettingsByRow) -> (Vec<RowName>, Option<Error>) {
    try_each(groups(wanted), |statement| source.execute(statement))
}

/// Executes each statement. A refusal does not stop it; a lost server does.
fn try_each(
    groups: Vec<RowGroup>,
    mut execute: impl FnMut(&str) -> Result<(), Error>,
) -> (Vec<RowName>, Option<Error>) {
    let (mut written, mut first) = (vec![], None);
    for group in groups {
        match execute(&group.statement) {
            Ok(()) => written.extend(group.names),
            Err(error) => {
                let is_gone = error.is_passing();
                first = first.or(Some(error));
                if is_gone {
                    break;
                }
            }
        }
    }
    (written, first)
}

/// Checks the right to write without writing.
///
/// # Errors
///
/// [`Error::Refused`], [`Error::ReadOnly`].
pub(crate) fn try_writing(source: &mut Source) -> Result<(), Error> {
    for table in [SetupTableName::Instruments, SetupTableName::Consumers] {
        source.execute(&format!(
            "UPDATE performance_schema.{} SET ENABLED = 'YES' WHERE NAME = ''",
            table.name()
        ))?;
    }
    Ok(())
}

/// Returns the level of an instrument's setting.
fn level(kind: Kind, setting: RowSetting) -> Level {
    match (setting.enabled, kind.is_timed() && setting.timed == Some(true)) {
        (false, _) => Level::Off,
        (true, false) => Level::Counts,
        (true, true) => Level::Sums,
    }
}

/// The consumers of a family, from lowest to highest.
const HISTORIES: [(&str, Level); 3] =
    [("current", Level::Current), ("history", Level::History), ("history_long", Level::Exact)];

fn consumer(family: HistoryFamily, history: &str) -> RowName {
    (SetupTableName::Consumers, format!("events_{}_{history}", family.name()))
}

/// Returns the name of a family's consumers in decisions.
#[must_use]
pub(crate) fn recording_name(family: HistoryFamily) -> String {
    format!("consumers events_{}_%", family.name())
}

/// Returns the level at which a family's events are recorded; none without the consumer `current`.
fn recording(family: HistoryFamily, settings: &SettingsByRow) -> Level {
    let is_on = |history: &str| settings.get(&consumer(family, history)).is_some_and(|it| it.enabled);
    let on = HISTORIES.iter().filter(|(history, _)| is_on("current") && is_on(history));
    on.map(|(_, level)| *level).max().unwrap_or(Level::Sums)
}

/// Returns the switches of everything that was on originally, with their present levels.
pub(crate) fn board(
    original: &SettingsByRow,
    present: &SettingsByRow,
    held: &BTreeMap<RowName, Held>,
) -> Vec<Switch> {
    let mut board = vec![];
    for (name, setting) in original {
        let (SetupTableName::Instruments, Some(now)) = (name.0, present.get(name)) else { continue };
        let Some(kind) = Kind::of(&name.1) else { continue };
        let (highest, now) = (level(kind, *setting), level(kind, *now));
        if highest == Level::Off {
            continue;
        }
        let levels = [Level::Off, Level::Counts, Level::Sums].into_iter().filter(|it| *it <= highest);
        board.push(Switch {
            name: name.1.clone(),
            of: Switched::Instrument(kind),
            levels: levels.collect(),
            present: now,
            held: held.get(name).copied(),
        });
    }
    board.extend(HistoryFamily::ALL.into_iter().map(|family| {
        let is_on = |history: &&(&str, Level)| {
            original.get(&consumer(family, history.0)).is_some_and(|it| it.enabled)
        };
        let highest = recording(family, original);
        let on = HISTORIES.iter().filter(is_on).map(|(_, level)| *level).filter(|it| *it <= highest);
        let held = HISTORIES.iter().find_map(|(history, _)| held.get(&consumer(family, history)).copied());
        Switch {
            name: recording_name(family),
            of: Switched::Recording(family),
            levels: [Level::Sums].into_iter().chain(on).collect(),
            present: recording(family, present),
            held,
        }
    }));
    board
}

/// Reads the levels of instruments in a server's tare; empty if the server has no such table.
///
/// # Errors
///
/// Those of [`Source::rows`].
pub(crate) fn levels(source: &mut Source) -> Result<BTreeMap<String, Level>, Error> {
    let rows = match source.rows("tare_levels", &["NAME", "LEVEL"], "") {
        Err(Error::Absent { .. }) => vec![],
        rows => rows?,
    };
    Ok(rows.iter().filter_map(|row| Some((row.text(0)?, Level::named(&row.text(1)?)?))).collect())
}

/// Applies tare's levels to a board; with these, events are recorded whatever the number of histories. If no
/// consumer of a family is on, nothing is recorded at any level.
pub(crate) fn with_levels(board: Vec<Switch>, levels: &BTreeMap<String, Level>) -> Vec<Switch> {
    let recorded: BTreeMap<HistoryFamily, Level> = board
        .iter()
        .filter_map(|switch| match switch.of {
            Switched::Recording(family) => Some((family, switch.present)),
            _ => None,
        })
        .collect();
    let instruments = board.into_iter().filter_map(|mut switch| {
        let Switched::Instrument(kind) = switch.of else { return None };
        if let (Some(level), true) = (levels.get(&switch.name), switch.present >= Level::Sums) {
            let recording = kind.family().and_then(|family| recorded.get(&family)).copied();
            switch.present = if recording == Some(Level::Sums) { Level::Sums.min(*level) } else { *level };
        }
        Some(switch)
    });
    instruments.collect()
}

/// Returns the rows of a switch at a level.
pub(crate) fn rows(switch: &Switch, to: Level, original: &SettingsByRow) -> SettingsByRow {
    let of_original = |name: RowName| original.get(&name).map(|setting| (name, *setting));
    match switch.of {
        Switched::Instrument(_) => {
            let row = of_original((SetupTableName::Instruments, switch.name.clone()));
            let set = |(name, was): (RowName, RowSetting)| {
                let setting = match to {
                    Level::Off => RowSetting { enabled: false, timed: was.timed },
                    Level::Counts => RowSetting { timed: was.timed.map(|_| false), ..was },
                    _ => was,
                };
                let is_highest = switch.levels.last() == Some(&to);
                (name, if is_highest { was } else { setting })
            };
            row.into_iter().map(set).collect()
        }
        Switched::Recording(family) => HISTORIES
            .iter()
            .filter_map(|(history, level)| {
                let (name, was) = of_original(consumer(family, history))?;
                // The highest level restores the original values, including those without effect.
                let is_highest = switch.levels.last() == Some(&to);
                Some((name, RowSetting { enabled: was.enabled && (is_highest || *level <= to), ..was }))
            })
            .collect(),
        // The built-in checks each event, whatever is on.
        Switched::Rest(_) => SettingsByRow::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(rows: &[(SetupTableName, &str, bool, Option<bool>)]) -> SettingsByRow {
        let row = |(table, name, enabled, timed): &(SetupTableName, &str, bool, Option<bool>)| {
            ((*table, (*name).to_owned()), RowSetting { enabled: *enabled, timed: *timed })
        };
        rows.iter().map(row).collect()
    }

    fn some() -> SettingsByRow {
        settings(&[
            (SetupTableName::Instruments, "wait/synch/mutex/sql/a", true, Some(true)),
            (SetupTableName::Instruments, "wait/synch/mutex/sql/b", true, Some(false)),
            (SetupTableName::Instruments, "wait/synch/mutex/sql/c", false, Some(false)),
            (SetupTableName::Instruments, "memory/sql/d", true, None),
            (SetupTableName::Instruments, "memory/sql/e", true, Some(false)),
            (SetupTableName::Consumers, "events_waits_current", true, None),
            (SetupTableName::Consumers, "events_waits_history", false, None),
            (SetupTableName::Consumers, "events_waits_history_long", true, None),
            (SetupTableName::Consumers, "events_stages_history", true, None),
        ])
    }

    fn refused(statement: &str) -> Error {
        Error::Refused { address: "db1".to_owned(), why: statement.to_owned() }
    }

    #[test]
    fn one_refusal_keeps_nothing_else_from_being_written() {
        let wanted = some();
        let (mut written, first) = try_each(groups(&wanted), |statement| {
            if statement.contains("setup_instruments") { Err(refused(statement)) } else { Ok(()) }
        });
        written.sort();
        let consumers = wanted.keys().filter(|name| name.0 == SetupTableName::Consumers);
        let consumers: Vec<RowName> = consumers.cloned().collect();
        assert_eq!(written, consumers);
        let first = first.expect("an error").to_string();
        assert!(first.contains("SET ENABLED = 'NO', TIMED = 'NO' WHERE NAME IN ('wait/synch/mutex/sql/c')"));
        let (mut written, first) = try_each(groups(&wanted), |_| Ok(()));
        written.sort();
        assert_eq!(written, wanted.into_keys().collect::<Vec<_>>());
        assert!(first.is_none());
    }

    #[test]
    fn a_server_that_is_gone_is_asked_no_more() {
        let mut asked = 0;
        let (written, first) = try_each(groups(&some()), |statement| {
            asked += 1;
            match asked {
                1 => Ok(()),
                2 => Err(refused(statement)),
                _ => Err(Error::Gone { address: "db1".to_owned(), why: String::new() }),
            }
        });
        assert_eq!((written.len(), asked), (1, 3));
        assert!(matches!(first, Some(Error::Refused { .. })), "the first one: {first:?}");
    }

    #[test]
    fn settings_are_levels_up_to_what_was_on() {
        let original = some();
        let board = board(&original, &original, &BTreeMap::new());
        let of = |name: &str| board.iter().find(|it| it.name.contains(name)).map(|it| it.levels.clone());
        assert_eq!(of("sql/a"), Some(vec![Level::Off, Level::Counts, Level::Sums]));
        assert_eq!(of("sql/b"), Some(vec![Level::Off, Level::Counts]));
        assert_eq!(of("sql/c"), None, "what was off is never switched on");
        assert_eq!(of("sql/d"), Some(vec![Level::Off, Level::Counts]));
        assert_eq!(of("events_waits"), Some(vec![Level::Sums, Level::Current, Level::Exact]));
        assert_eq!(of("events_stages"), Some(vec![Level::Sums]), "without current nothing is recorded");
        assert!(board.iter().all(|it| it.levels.last() == Some(&it.present)));
    }

    #[test]
    fn of_a_server_with_tare_the_levels_are_its_own() {
        let settings = some();
        let built_in = board(&settings, &settings, &BTreeMap::new());
        let name = |part: &str| {
            let found = built_in.iter().find(|it| it.name.contains(part));
            found.map(|it| it.name.clone()).expect("an instrument")
        };
        let levels = BTreeMap::from([(name("sql/a"), Level::Lean), (name("sql/b"), Level::Lean)]);
        let own = with_levels(built_in.clone(), &levels);
        let of = |part: &str| own.iter().find(|it| it.name == name(part)).map(|it| it.present);
        assert_eq!(of("sql/a"), Some(Level::Lean));
        assert_eq!(of("sql/b"), Some(Level::Counts), "what is not timed is counted");
        assert!(own.iter().all(|it| matches!(it.of, Switched::Instrument(_))));
    }

    #[test]
    fn every_level_is_rows_that_mean_it_and_the_highest_is_the_original() {
        let original = some();
        for switch in board(&original, &original, &BTreeMap::new()) {
            for to in switch.levels.clone() {
                let mut settings = original.clone();
                settings.extend(rows(&switch, to, &original));
                let now = board(&original, &settings, &BTreeMap::new());
                let found = now.iter().find(|it| it.name == switch.name).map(|it| it.present);
                assert_eq!(found, Some(to), "{}", switch.name);
                assert_eq!(settings == original, Some(&to) == switch.levels.last(), "{} {to}", switch.name);
            }
        }
    }
}
