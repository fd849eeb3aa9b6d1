//! The report's state: changed settings, the server's own counters, losses, and replication.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::changes::{SnapshotPair, word};
use super::{Cell, Figures, ROWS, Section};
use crate::snapshot::{SnapshotTable, Value};

/// Tables of settings, and the columns that identify a row.
const SET: [(&str, &[&str]); 7] = [
    ("show_global_variables", &["VARIABLE_NAME"]),
    ("setup_consumers", &["NAME"]),
    ("setup_instruments", &["NAME"]),
    ("setup_timers", &["NAME"]),
    ("setup_actors", &["HOST", "USER", "ROLE"]),
    ("setup_objects", &["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"]),
    ("tare_levels", &["NAME"]),
];
/// The table of variables where an account may not read the first of [`SET`].
const VARIABLES: (&str, &[&str]) = ("global_variables", &["VARIABLE_NAME"]);
/// Variables that change by themselves.
const RESTLESS: [&str; 10] = [
    "gtid_binlog_pos",
    "gtid_binlog_state",
    "gtid_current_pos",
    "gtid_executed",
    "gtid_purged",
    "gtid_slave_pos",
    "error_count",
    "last_insert_id",
    "pseudo_thread_id",
    "timestamp",
];
/// Most rows of a long table.
const MANY_ROWS: usize = 200;
const STATUS: &str = "show_global_status";

pub(super) fn changed(between: &SnapshotPair<'_>) -> Option<Section> {
    const COLUMNS: &[(&str, &str)] =
        &[("table", "table"), ("what", "what"), ("column", "column"), ("before", "before"), ("now", "now")];
    let asked = between.tables(SET[0].0).is_some();
    let variables = (!asked).then_some(VARIABLES);
    let mut rows = vec![];
    let mut compared = false;
    for (name, key) in variables.into_iter().chain(SET) {
        if let Some((first, last)) = between.tables(name) {
            compared = true;
            rows.extend(differences(name, key, first, last));
        }
    }
    let note = if rows.is_empty() {
        "Nothing changed in variables, instruments, consumers and other settings."
    } else {
        ""
    };
    let tables = vec![Figures::new("changed", "Settings that differ", COLUMNS, rows, MANY_ROWS)];
    compared.then(|| Section {
        key: "changed",
        title: "What was changed",
        note: note.into(),
        chart: None,
        tables,
    })
}

/// Returns a row for each value that differs.
fn differences(name: &str, key: &[&str], first: &SnapshotTable, last: &SnapshotTable) -> Vec<Vec<Cell>> {
    let (then, now) = (by_key(first, key), by_key(last, key));
    let keys: BTreeSet<&Vec<String>> = then.keys().chain(now.keys()).collect();
    let mut rows = vec![];
    let absent = BTreeMap::new();
    for at in keys.into_iter().filter(|at| !RESTLESS.contains(&at[0].to_lowercase().as_str())) {
        let (then, now) = (then.get(at), now.get(at));
        let columns: BTreeSet<&str> =
            then.unwrap_or(&absent).keys().chain(now.unwrap_or(&absent).keys()).copied().collect();
        for column in columns {
            let value = |row: Option<&BTreeMap<&str, String>>| match row {
                None => Cell::None,
                Some(row) => {
                    row.get(column).map_or(Cell::Name("NULL".into()), |value| Cell::Code(value.clone()))
                }
            };
            let (before, after) = (value(then), value(now));
            if before != after {
                let names = [name.to_owned(), at.join(" "), column.to_lowercase()].map(Cell::Name);
                rows.push(names.into_iter().chain([before, after]).collect());
            }
        }
    }
    rows
}

type NamedRows<'a> = BTreeMap<Vec<String>, BTreeMap<&'a str, String>>;

/// Returns the rows of a table by key, with their texts, which are the settings.
fn by_key<'a>(table: &'a SnapshotTable, key: &[&str]) -> NamedRows<'a> {
    let places: Vec<usize> = key.iter().filter_map(|column| table.place(column)).collect();
    let name = |row: &[Value]| places.iter().map(|place| word(&row[*place]).unwrap_or_default()).collect();
    let settings: Vec<(usize, &str)> = table
        .head
        .columns
        .iter()
        .enumerate()
        .filter(|(place, column)| {
            !places.contains(place) && !matches!(column.name.as_str(), "DOCUMENTATION" | "HISTORY_LONG_COUNT")
        })
        .map(|(place, column)| (place, column.name.as_str()))
        .collect();
    let values = |row: &[Value]| {
        settings
            .iter()
            .filter_map(|(place, column)| Some((*column, word(&row[*place])?)))
            .collect::<BTreeMap<_, _>>()
    };
    table.rows.iter().map(|row| (name(row), values(row))).collect()
}

/// Returns a table of names and values.
fn named(table: &SnapshotTable) -> BTreeMap<String, String> {
    let names = |row: &Vec<Value>| Some((word(row.first()?)?, word(row.get(1)?)?));
    table.rows.iter().filter_map(names).collect()
}

/// Returns the names whose values are counts that grew, with growth and present value.
fn grown(first: &SnapshotTable, last: &SnapshotTable, anew: bool) -> Vec<(String, u64, u64)> {
    let then = named(first);
    let count = |values: &BTreeMap<String, String>, name: &str| {
        values.get(name).and_then(|value| value.parse::<u64>().ok())
    };
    let now = named(last);
    let names = now.keys().filter_map(|name| {
        let value = count(&now, name)?;
        let base = if anew { 0 } else { count(&then, name)? };
        Some((name.clone(), value.saturating_sub(base), value))
    });
    names.filter(|(_, by, _)| *by > 0).collect()
}

pub(super) fn counters(between: &SnapshotPair<'_>) -> Option<Section> {
    const COLUMNS: &[(&str, &str)] =
        &[("name", "variable"), ("by", "grew by"), ("per_second", "a second"), ("now", "now")];
    let (first, last) = between.tables(STATUS)?;
    let seconds = Some(between.seconds_of(first, last));
    let mut rows = grown(first, last, between.restarted);
    rows.sort_by_key(|(_, by, _)| Reverse(*by));
    let row = |(name, by, now): (String, u64, u64)| {
        vec![Cell::Name(name), Cell::Count(by), Cell::rate(by, seconds), Cell::Count(now)]
    };
    let rows = rows.into_iter().map(row).collect();
    let tables = vec![Figures::new("status", "All that grew", COLUMNS, rows, usize::MAX).folded()];
    let note = "SHOW GLOBAL STATUS. Some of these are not counters. Values that fell are left out.".into();
    Some(Section { key: "status", title: "Status variables", note, chart: None, tables })
}

pub(super) fn lost(between: &SnapshotPair<'_>) -> Option<Section> {
    const COLUMNS: &[(&str, &str)] = &[("counter", "counter"), ("by", "lost in between"), ("now", "in all")];
    let is_loss = |name: &str| {
        let name = name.to_lowercase();
        name == "digests_evicted" || name.ends_with("_lost")
    };
    let tables: Vec<_> =
        ["tare_status", STATUS].into_iter().filter_map(|name| between.tables(name)).collect();
    let mut rows: Vec<(String, u64, u64)> =
        tables.iter().flat_map(|(first, last)| grown(first, last, between.restarted)).collect();
    rows.retain(|(name, ..)| is_loss(name));
    rows.sort_by_key(|(_, by, _)| Reverse(*by));
    let note = match rows.len() {
        0 => "Nothing was lost: every event was counted and recorded as asked.",
        _ => "What had no room was not recorded. `tare doctor` says which option makes room for it.",
    };
    let rows =
        rows.into_iter().map(|(name, by, now)| vec![Cell::Name(name), Cell::Count(by), Cell::Count(now)]);
    let figures = Figures::new("lost", "By kind", COLUMNS, rows.collect(), ROWS);
    (!tables.is_empty()).then(|| Section {
        key: "lost",
        title: "What was lost",
        note: note.into(),
        chart: None,
        tables: vec![figures],
    })
}

pub(super) fn replication(between: &SnapshotPair<'_>) -> Option<Section> {
    const COLUMNS: &[(&str, &str)] = &[
        ("of", "of"),
        ("channel", "channel"),
        ("state", "state"),
        ("error", "last error"),
        ("message", "its message"),
    ];
    const TABLES: [&str; 4] = [
        "replication_connection_status",
        "replication_applier_status",
        "replication_applier_status_by_coordinator",
        "replication_applier_status_by_worker",
    ];
    let mut rows = vec![];
    for table in TABLES.iter().filter_map(|name| between.last.table(name)) {
        let of = table.head.table.trim_start_matches("replication_").replace('_', " ");
        let at = |row: &[Value], names: &[&str]| {
            let place = names.iter().find_map(|name| table.place(name));
            place.and_then(|place| word(&row[place])).map_or(Cell::None, Cell::Name)
        };
        for row in &table.rows {
            rows.push(vec![
                Cell::Name(of.clone()),
                at(row, &["CHANNEL_NAME", "CONNECTION_NAME"]),
                at(row, &["SERVICE_STATE"]),
                at(row, &["LAST_ERROR_NUMBER"]),
                at(row, &["LAST_ERROR_MESSAGE"]),
            ]);
        }
    }
    let some = !rows.is_empty();
    let tables = vec![Figures::new("replication", "As it is now", COLUMNS, rows, MANY_ROWS)];
    some.then(|| Section {
        key: "replication",
        title: "Replication",
        note: String::new(),
        chart: None,
        tables,
    })
}
