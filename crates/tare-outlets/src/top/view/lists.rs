//! The views with a single list of rows: statements, tables, files, memory.

use std::collections::BTreeMap;

use super::{Rates, Seen, Texts, key, rows, total};
use crate::top::look::{Counted, DIGESTS, MEMORY, Tally, View};
use crate::top::page::{Cell, Column, Row, Sheet};

pub(super) const STATEMENTS: [Column; 15] = [
    Column::figure("rate_per_s", "RATE/s", 7, 0),
    Column::figure("time_share", "TIME%", 6, 0),
    Column::figure("avg_ps", "AVG", 7, 0),
    Column::figure("p95_ps", "P95", 7, 1),
    Column::figure("examined_per_sent", "EXA/SENT", 9, 2),
    Column::figure("errors_per_s", "ERR/s", 6, 3),
    Column::figure("tmp_disk_per_s", "DISK/s", 7, 4),
    Column::figure("no_index_per_s", "NOIDX/s", 8, 5),
    Column::figure("lock_share", "LOCK%", 6, 6),
    Column::figure("max_ps", "MAX", 7, 7),
    Column::figure("sent_per_s", "SENT/s", 7, 8),
    Column::figure("affected_per_s", "AFF/s", 6, 9),
    Column::text("schema", "SCHEMA", 10, 6),
    Column::text("digest", "DIGEST", 12, 10),
    Column::rest("statement", "STATEMENT"),
];

const OF_TABLES: [Column; 9] = [
    Column::figure("time_share", "TIME%", 6, 0),
    Column::figure("rows_per_s", "ROWS/s", 7, 0),
    Column::figure("avg_ps", "AVG", 7, 1),
    Column::figure("fetched_per_s", "FETCH/s", 8, 2),
    Column::figure("inserted_per_s", "INS/s", 6, 2),
    Column::figure("updated_per_s", "UPD/s", 6, 2),
    Column::figure("deleted_per_s", "DEL/s", 6, 2),
    Column::text("schema", "SCHEMA", 9, 0),
    Column { width: 16, ..Column::rest("table", "TABLE") },
];

pub(super) const INDEXES: [Column; 7] = [
    Column::figure("time_share", "TIME%", 6, 0),
    Column::figure("rows_per_s", "ROWS/s", 7, 0),
    Column::figure("fetched_per_s", "FETCH/s", 8, 2),
    Column::figure("inserted_per_s", "INS/s", 6, 2),
    Column::figure("updated_per_s", "UPD/s", 6, 2),
    Column::figure("deleted_per_s", "DEL/s", 6, 2),
    Column::rest("index", "INDEX"),
];

const OF_FILES: [Column; 9] = [
    Column::figure("time_share", "TIME%", 6, 0),
    Column::figure("read_bytes_per_s", "READ/s", 8, 0),
    Column::figure("written_bytes_per_s", "WRITE/s", 8, 0),
    Column::figure("reads_per_s", "READS/s", 8, 2),
    Column::figure("writes_per_s", "WRITES/s", 9, 2),
    Column::figure("others_per_s", "SYNC…/s", 8, 1),
    Column::figure("others_avg_ps", "SYNC AVG", 9, 3),
    Column::text("instrument", "INSTRUMENT", 28, 4),
    Column::name("file", "FILE"),
];

const OF_MEMORY: [Column; 6] = [
    Column::figure("bytes", "NOW", 8, 0),
    Column::figure("changed_bytes_per_s", "CHANGE/s", 9, 0),
    Column::figure("highest_bytes", "HIGHEST", 8, 1),
    Column::figure("allocations_per_s", "ALLOC/s", 8, 2),
    Column::figure("allocated_bytes_per_s", "BYTES/s", 8, 3),
    Column::name("instrument", "INSTRUMENT"),
];

/// Returns the columns, and the one that rows are sorted by at first.
pub(super) fn columns(view: View) -> (&'static [Column], Option<usize>) {
    match view {
        View::Tables => (&OF_TABLES, Some(0)),
        View::Files => (&OF_FILES, Some(0)),
        View::Memory => (&OF_MEMORY, Some(0)),
        _ => (&STATEMENTS, Some(1)),
    }
}

pub(super) fn sheet(view: View, seen: &Seen<'_>) -> Sheet {
    let tally = view.tally().unwrap_or(&DIGESTS);
    let (counted, seconds) = rows(seen);
    let counted = &together(counted, seen.texts);
    let time = total(counted, tally, "SUM_TIMER_WAIT");
    let cells = |row: &Counted| {
        let rates = Rates { row, tally, seconds };
        match view {
            View::Tables => table(&rates, time),
            View::Files => file(&rates, time),
            View::Memory => memory(&rates),
            _ => statement(&rates, time, seen.texts),
        }
    };
    let shown = counted.iter().filter(|row| is_of_use(row, tally, seconds));
    let rows = shown.map(|row| Row { key: key(row), cells: cells(row) });
    super::sheet(view.name(), columns(view).0, rows.collect())
}

/// Merges prepared statements with the same text into one row.
pub(super) fn together(rows: &[Counted], texts: &Texts) -> Vec<Counted> {
    let (prepared, mut all): (Vec<&Counted>, Vec<&Counted>) = rows.iter().partition(|row| row.is_prepared());
    let mut by_text: BTreeMap<&str, Counted> = BTreeMap::new();
    for row in prepared {
        let text = texts.get(&row.key).map_or("", String::as_str);
        match by_text.get_mut(text) {
            Some(sum) => {
                sum.counters.iter_mut().zip(&row.counters).for_each(|(sum, more)| *sum += more);
                sum.gauges.iter_mut().zip(&row.gauges).for_each(|(most, other)| *most = (*most).max(*other));
            }
            None => {
                let key = vec![None, row.key[1].clone(), Some(text.to_owned())];
                by_text.insert(text, Counted { key, ..row.clone() });
            }
        }
    }
    all.extend(by_text.values());
    all.into_iter().cloned().collect()
}

/// Returns whether to show a row: it was active since the previous sample, or has memory in use.
fn is_of_use(row: &Counted, tally: &Tally, seconds: Option<f64>) -> bool {
    row.gauge(tally, "CURRENT_NUMBER_OF_BYTES_USED").is_some_and(|bytes| bytes != 0.0)
        || seconds.is_none()
        || row.counters.iter().any(|counter| *counter > 0)
}

/// Returns the cells of [`STATEMENTS`].
pub(super) fn statement(rates: &Rates<'_>, time: f64, texts: &Texts) -> Vec<Cell> {
    let row = rates.row;
    let text = match (texts.get(&row.key), &row.key[1]) {
        _ if row.is_prepared() => Cell::Text(row.named(2).to_owned()),
        (Some(text), _) => Cell::Text(text.clone()),
        (None, None) => Cell::Text("(all statements that found no place of their own)".into()),
        (None, Some(_)) => Cell::Empty,
    };
    let gauge = |column: &str| {
        row.gauge(&DIGESTS, column).filter(|value| *value > 0.0).map_or(Cell::Empty, Cell::Time)
    };
    vec![
        rates.each_second("COUNT_STAR"),
        rates.share("SUM_TIMER_WAIT", time),
        rates.time_each("SUM_TIMER_WAIT", "COUNT_STAR"),
        gauge("QUANTILE_95"),
        rates.each("SUM_ROWS_EXAMINED", "SUM_ROWS_SENT").map_or(Cell::Empty, Cell::Count),
        rates.each_second("SUM_ERRORS"),
        rates.each_second("SUM_CREATED_TMP_DISK_TABLES"),
        rates.each_second("SUM_NO_INDEX_USED"),
        rates.each("SUM_LOCK_TIME", "SUM_TIMER_WAIT").map_or(Cell::Empty, Cell::Share),
        gauge("MAX_TIMER_WAIT"),
        rates.each_second("SUM_ROWS_SENT"),
        rates.each_second("SUM_ROWS_AFFECTED"),
        Cell::text(row.key[0].as_deref()),
        Cell::text(row.key[1].as_deref()),
        text,
    ]
}

fn table(rates: &Rates<'_>, time: f64) -> Vec<Cell> {
    let mut cells = vec![
        rates.share("SUM_TIMER_WAIT", time),
        rates.each_second("COUNT_STAR"),
        rates.time_each("SUM_TIMER_WAIT", "COUNT_STAR"),
    ];
    cells.extend(kinds(rates));
    cells.extend([Cell::text(rates.row.key[0].as_deref()), Cell::text(rates.row.key[1].as_deref())]);
    cells
}

/// Returns the cells of [`INDEXES`].
pub(super) fn index(rates: &Rates<'_>, time: f64) -> Vec<Cell> {
    let mut cells = vec![rates.share("SUM_TIMER_WAIT", time), rates.each_second("COUNT_STAR")];
    cells.extend(kinds(rates));
    cells.push(Cell::Text(rates.row.key[2].clone().unwrap_or_else(|| "(without an index)".into())));
    cells
}

fn kinds(rates: &Rates<'_>) -> [Cell; 4] {
    ["COUNT_FETCH", "COUNT_INSERT", "COUNT_UPDATE", "COUNT_DELETE"].map(|it| rates.each_second(it))
}

fn file(rates: &Rates<'_>, time: f64) -> Vec<Cell> {
    let instrument = rates.row.named(1).trim_start_matches("wait/io/file/");
    vec![
        rates.share("SUM_TIMER_WAIT", time),
        rates.bytes_each_second("SUM_NUMBER_OF_BYTES_READ"),
        rates.bytes_each_second("SUM_NUMBER_OF_BYTES_WRITE"),
        rates.each_second("COUNT_READ"),
        rates.each_second("COUNT_WRITE"),
        rates.each_second("COUNT_MISC"),
        rates.time_each("SUM_TIMER_MISC", "COUNT_MISC"),
        Cell::Text(instrument.to_owned()),
        Cell::text(rates.row.key[0].as_deref()),
    ]
}

fn memory(rates: &Rates<'_>) -> Vec<Cell> {
    let gauge = |column: &str| rates.row.gauge(&MEMORY, column).map_or(Cell::Empty, Cell::Bytes);
    let changed = match (rates.grown("SUM_NUMBER_OF_BYTES_ALLOC"), rates.seconds) {
        (Some(more), Some(seconds)) => {
            let less = rates.grown("SUM_NUMBER_OF_BYTES_FREE").unwrap_or(0.0);
            Cell::Bytes((more - less) / seconds)
        }
        _ => Cell::Empty,
    };
    vec![
        gauge("CURRENT_NUMBER_OF_BYTES_USED"),
        changed,
        gauge("HIGH_NUMBER_OF_BYTES_USED"),
        rates.each_second("COUNT_ALLOC"),
        rates.bytes_each_second("SUM_NUMBER_OF_BYTES_ALLOC"),
        Cell::Text(rates.row.named(0).trim_start_matches("memory/").to_owned()),
    ]
}
