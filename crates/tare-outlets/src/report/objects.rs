//! The report's objects: tables and their indexes, files, memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::changes::{RowChange, SnapshotPair, word};
use super::{Cell, FEW_ROWS, Figures, ROWS, Section};
use crate::snapshot::{SnapshotTable, Value};

/// The server's own schemas.
const SYSTEM: [&str; 4] = ["mysql", "performance_schema", "information_schema", "sys"];

pub(super) fn tables(between: &SnapshotPair<'_>) -> Option<Section> {
    let tables: Vec<Figures> =
        [by_table(between), by_index(between), unused(between)].into_iter().flatten().collect();
    let note = "Rows that statements fetched, inserted, updated and deleted, by table and by index, and how long the storage engine took."
        .into();
    (!tables.is_empty()).then_some(Section {
        key: "tables",
        title: "Tables and indexes",
        note,
        chart: None,
        tables,
    })
}

fn by_table(between: &SnapshotPair<'_>) -> Option<Figures> {
    const COUNTERS: [&str; 5] =
        ["SUM_TIMER_WAIT", "COUNT_FETCH", "COUNT_INSERT", "COUNT_UPDATE", "COUNT_DELETE"];
    const COLUMNS: &[(&str, &str)] = &[
        ("table", "table"),
        ("rows_fetched", "fetched"),
        ("rows_inserted", "inserted"),
        ("rows_updated", "updated"),
        ("rows_deleted", "deleted"),
        ("total_seconds", "total"),
        ("share", "share"),
        ("lock_seconds", "waits for locks"),
    ];
    let mut changes =
        between.changes("table_io_waits_summary_by_table", &["OBJECT_SCHEMA", "OBJECT_NAME"], &COUNTERS)?;
    let locks = between.changes(
        "table_lock_waits_summary_by_table",
        &["OBJECT_SCHEMA", "OBJECT_NAME"],
        &["SUM_TIMER_WAIT"],
    );
    let locks: BTreeMap<_, u64> =
        locks.into_iter().flat_map(|locks| locks.rows).map(|row| (row.key, row.by[0])).collect();
    changes.rows.retain(|row| row.by[1..].iter().any(|count| *count > 0));
    changes.rows.sort_by_key(|row| Reverse(row.by[0]));
    let all = changes.sum(0);
    let row = |row: &RowChange<'_>| {
        let mut cells = vec![Cell::Name(format!("{}.{}", row.name(0), row.name(1)))];
        cells.extend(row.by[1..].iter().map(|count| Cell::Count(*count)));
        cells.push(Cell::picoseconds(row.by[0]));
        cells.push(Cell::share(row.by[0], all));
        cells.push(locks.get(&row.key).map_or(Cell::None, |time| Cell::picoseconds(*time)));
        cells
    };
    Some(Figures::new("tables", "Tables", COLUMNS, changes.rows.iter().map(row).collect(), ROWS))
}

const INDEX_USAGE: &str = "table_io_waits_summary_by_index_usage";
const INDEX_KEY: [&str; 3] = ["OBJECT_SCHEMA", "OBJECT_NAME", "INDEX_NAME"];

fn by_index(between: &SnapshotPair<'_>) -> Option<Figures> {
    const COLUMNS: &[(&str, &str)] = &[
        ("table", "table"),
        ("index", "index"),
        ("rows_fetched", "fetched"),
        ("rows_written", "written through it"),
        ("total_seconds", "total"),
        ("share", "share"),
    ];
    let counters = ["SUM_TIMER_WAIT", "COUNT_FETCH", "COUNT_WRITE"];
    let mut changes = between.changes(INDEX_USAGE, &INDEX_KEY, &counters)?;
    changes.rows.retain(|row| row.by[1] > 0 || row.by[2] > 0);
    changes.rows.sort_by_key(|row| Reverse(row.by[0]));
    let all = changes.sum(0);
    let row = |row: &RowChange<'_>| {
        vec![
            Cell::Name(format!("{}.{}", row.name(0), row.name(1))),
            Cell::name(row.key[2].as_deref().or(Some("none: scans and inserts"))),
            Cell::Count(row.by[1]),
            Cell::Count(row.by[2]),
            Cell::picoseconds(row.by[0]),
            Cell::share(row.by[0], all),
        ]
    };
    Some(Figures::new("indexes", "Indexes", COLUMNS, changes.rows.iter().map(row).collect(), ROWS))
}

/// Makes the table of indexes that nothing was read through, of tables that were used.
fn unused(between: &SnapshotPair<'_>) -> Option<Figures> {
    const COLUMNS: &[(&str, &str)] = &[
        ("table", "table"),
        ("index", "index"),
        ("table_rows_used", "rows of the table used"),
        ("rows_before", "read earlier"),
    ];
    let changes = between.changes(INDEX_USAGE, &INDEX_KEY, &["COUNT_FETCH", "COUNT_STAR"])?;
    let mut used: BTreeMap<&[Option<String>], u64> = BTreeMap::new();
    for row in &changes.rows {
        let sum = used.entry(&row.key[..2]).or_default();
        *sum = sum.saturating_add(row.by[1]);
    }
    let of_table = |row: &RowChange<'_>| used.get(&row.key[..2]).copied().unwrap_or(0);
    let idle = |row: &&RowChange<'_>| {
        let secondary = row.key[2].as_deref().is_some_and(|index| !index.eq_ignore_ascii_case("PRIMARY"));
        secondary && row.by[0] == 0 && of_table(row) > 0 && !SYSTEM.contains(&row.name(0))
    };
    let mut rows: Vec<&RowChange<'_>> = changes.rows.iter().filter(idle).collect();
    rows.sort_by_key(|row| Reverse(of_table(row)));
    let row = |row: &&RowChange<'_>| {
        vec![
            Cell::Name(format!("{}.{}", row.name(0), row.name(1))),
            Cell::Name(row.name(2).to_owned()),
            Cell::Count(of_table(row)),
            Cell::Count(row.now[0]),
        ]
    };
    let title = "Indexes that nothing was read through, of tables that were used";
    Some(Figures::new("unused_indexes", title, COLUMNS, rows.iter().map(row).collect(), ROWS))
}

pub(super) fn files(between: &SnapshotPair<'_>) -> Option<Section> {
    const COUNTERS: [&str; 6] = [
        "SUM_TIMER_WAIT",
        "COUNT_READ",
        "SUM_NUMBER_OF_BYTES_READ",
        "COUNT_WRITE",
        "SUM_NUMBER_OF_BYTES_WRITE",
        "COUNT_MISC",
    ];
    const COLUMNS: &[(&str, &str)] = &[
        ("file", "file"),
        ("reads", "reads"),
        ("bytes_read", "read"),
        ("writes", "writes"),
        ("bytes_written", "written"),
        ("other", "others, as fsync"),
        ("total_seconds", "total"),
        ("share", "share"),
    ];
    let mut changes = between.changes("file_summary_by_instance", &["FILE_NAME"], &COUNTERS)?;
    changes.rows.retain(|row| row.by[1] > 0 || row.by[3] > 0 || row.by[5] > 0);
    changes.rows.sort_by_key(|row| Reverse((row.by[0], row.by[2].saturating_add(row.by[4]))));
    let all = changes.sum(0);
    let bytes = |bytes: u64| Cell::Bytes(i64::try_from(bytes).unwrap_or(i64::MAX));
    let row = |row: &RowChange<'_>| {
        vec![
            Cell::Name(row.name(0).to_owned()),
            Cell::Count(row.by[1]),
            bytes(row.by[2]),
            Cell::Count(row.by[3]),
            bytes(row.by[4]),
            Cell::Count(row.by[5]),
            Cell::picoseconds(row.by[0]),
            Cell::share(row.by[0], all),
        ]
    };
    let tables =
        vec![Figures::new("files", "By file", COLUMNS, changes.rows.iter().map(row).collect(), ROWS)];
    Some(Section { key: "files", title: "Files", note: String::new(), chart: None, tables })
}

/// Makes the section on memory, which is no counter: it shows the use then and now.
pub(super) fn memory(between: &SnapshotPair<'_>) -> Option<Section> {
    const COLUMNS: &[(&str, &str)] = &[
        ("instrument", "instrument"),
        ("bytes_before", "before"),
        ("bytes_now", "now"),
        ("bytes_grown", "grown"),
        ("bytes_highest", "highest"),
    ];
    let (first, last) = between.tables("memory_summary_global_by_event_name")?;
    let before = used(first);
    let highest = last.place("HIGH_NUMBER_OF_BYTES_USED");
    let mut rows: Vec<(String, Option<i64>, i64, Option<i64>)> = vec![];
    for (name, (now, row)) in used(last) {
        let then = before.get(&name).map(|(then, _)| *then);
        rows.push((name, then, now, highest.and_then(|place| signed(&row[place]))));
    }
    rows.retain(|(_, then, now, _)| *now != 0 || then.is_some_and(|then| then != 0));
    let all = rows.iter().fold((0_i64, 0_i64), |sum, row| {
        (sum.0.saturating_add(row.1.unwrap_or(0)), sum.1.saturating_add(row.2))
    });
    let cells = |name: String, then: Option<i64>, now: i64, high: Option<i64>| {
        vec![
            Cell::Name(name),
            then.map_or(Cell::None, Cell::Bytes),
            Cell::Bytes(now),
            then.map_or(Cell::None, |then| Cell::Bytes(now.saturating_sub(then))),
            high.map_or(Cell::None, Cell::Bytes),
        ]
    };
    rows.sort_by_key(|row| Reverse(row.2));
    let largest = rows.iter().cloned().map(|(name, then, now, high)| cells(name, then, now, high));
    let largest: Vec<_> =
        std::iter::once(cells("all".into(), Some(all.0), all.1, None)).chain(largest).collect();
    let growth = |row: &(String, Option<i64>, i64, Option<i64>)| row.2.saturating_sub(row.1.unwrap_or(0));
    rows.retain(|row| growth(row) > 0);
    rows.sort_by_key(|row| Reverse(growth(row)));
    let grown = rows.into_iter().map(|(name, then, now, high)| cells(name, then, now, high)).collect();
    let tables = vec![
        Figures::new("memory_grown", "Grown most", COLUMNS, grown, FEW_ROWS),
        Figures::new("memory_largest", "Largest", COLUMNS, largest, FEW_ROWS),
    ];
    let note = if between.restarted { "The figures before are from before the restart." } else { "" };
    Some(Section { key: "memory", title: "Memory", note: note.into(), chart: None, tables })
}

fn signed(value: &Value) -> Option<i64> {
    match value {
        Value::Signed(number) => Some(*number),
        Value::Unsigned(number) => i64::try_from(*number).ok(),
        _ => None,
    }
}

/// Returns the bytes in use by instrument.
fn used(table: &SnapshotTable) -> BTreeMap<String, (i64, &[Value])> {
    let Some((name, bytes)) = table.place("EVENT_NAME").zip(table.place("CURRENT_NUMBER_OF_BYTES_USED"))
    else {
        return BTreeMap::new();
    };
    let row = |row: &'_ Vec<Value>| Some((word(&row[name])?, signed(&row[bytes])?));
    table.rows.iter().filter_map(|it| row(it).map(|(name, bytes)| (name, (bytes, it.as_slice())))).collect()
}
