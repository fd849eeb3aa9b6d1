//! Invariants of event rows: a row that breaks one of them was torn or made up.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use crate::schema::SchemaRow;

/// The four kinds of events, as the tables spell them.
pub const KINDS: [(&str, &str); 4] =
    [("transactions", "TRANSACTION"), ("statements", "STATEMENT"), ("stages", "STAGE"), ("waits", "WAIT")];

/// The clocks that times come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSources {
    /// One clock for all kinds of events: a child lies within its parent.
    One,
    /// A separate clock for waits, as in the built-in; only times of the same clock are compared.
    WaitsApart,
}

/// Greatest distance, in picoseconds, of two readings of one time: tare converts ticks with a rate that it
/// measures for the first seconds, so tables that are read one after the other differ by fractions of a
/// microsecond.
const APART: u64 = 2_000_000;

/// Events of any number of threads.
#[derive(Debug)]
pub struct Events<'a> {
    /// Rows with their NESTING_EVENT_TYPE name.
    pub rows: Vec<(&'static str, &'a SchemaRow)>,
    /// Names of all instruments.
    pub names: &'a HashSet<String>,
    /// Clocks of the times.
    pub clocks: ClockSources,
}

impl Events<'_> {
    /// Returns all contradictions.
    pub fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut by_id = HashMap::new();
        for (kind, row) in &self.rows {
            self.check_row(kind, row, &mut found);
            let id = (row.number("THREAD_ID"), row.number("EVENT_ID"));
            if let Some((_, other)) = by_id.insert(id, (*kind, *row)) {
                found.push(format!("one event id twice: {} and {}", show(row), show(other)));
            }
        }
        for (kind, row) in &self.rows {
            let parent = (row.number("THREAD_ID"), row.number("NESTING_EVENT_ID"));
            if let Some((parent_kind, parent)) = by_id.get(&parent) {
                self.check_nesting(kind, row, parent_kind, parent, &mut found);
            }
        }
        found
    }

    fn check_row(&self, kind: &str, row: &SchemaRow, found: &mut Vec<String>) {
        let mut must = |holds: bool, what: &str| {
            if !holds {
                found.push(format!("{what}: {}", show(row)));
            }
        };
        must(row.number("THREAD_ID").is_some_and(|id| id > 0), "no thread");
        must(row.number("EVENT_ID").is_some_and(|id| id > 0), "no event id");
        must(self.names.contains(row.text("EVENT_NAME")), "no such instrument");
        if let Some(source) = row.get("SOURCE") {
            let place = source.rsplit_once(':').is_some_and(|(file, line)| {
                file.contains('.') && !file.contains('/') && line.parse::<u32>().is_ok_and(|line| line > 0)
            });
            // A server's built-in may be compiled without it.
            must(
                place || (source.is_empty() && self.clocks == ClockSources::WaitsApart),
                "no place in the source",
            );
        }
        if let Some(end) = row.number("END_EVENT_ID") {
            must(row.number("EVENT_ID").is_some_and(|id| id <= end), "ends before it begins");
        }
        if let (Some(start), Some(end), Some(wait)) =
            (row.number("TIMER_START"), row.number("TIMER_END"), row.number("TIMER_WAIT"))
        {
            must(start <= end, "time runs backwards");
            // Each of the three is rounded from clock ticks by itself.
            must(end.saturating_sub(start).abs_diff(wait) <= 1000, "the wait is not end less start");
        }
        let has_parent = row.get("NESTING_EVENT_ID").is_some();
        must(has_parent == row.get("NESTING_EVENT_TYPE").is_some(), "half a parent");
        if let (Some(id), Some(parent)) = (row.number("EVENT_ID"), row.number("NESTING_EVENT_ID")) {
            must(parent < id || kind == "STAGE", "older than its parent");
        }
        if kind == "STATEMENT" {
            must(row.get("DIGEST").is_some() == row.get("DIGEST_TEXT").is_some(), "half a digest");
            let failed = row.number("ERRORS") != Some(0);
            must(!failed || row.number("MYSQL_ERRNO") != Some(0), "errors without a number");
        }
    }

    fn check_nesting(
        &self,
        kind: &str,
        row: &SchemaRow,
        parent_kind: &str,
        parent: &SchemaRow,
        found: &mut Vec<String>,
    ) {
        if row.text("NESTING_EVENT_TYPE") != parent_kind {
            found.push(format!("the parent is a {parent_kind}: {}", show(row)));
        }
        if self.clocks == ClockSources::WaitsApart && (kind == "WAIT") != (parent_kind == "WAIT") {
            return;
        }
        // A stage continues while nested statements start and end, and belongs to the one that started last.
        if kind == "STAGE" {
            return;
        }
        let starts = (parent.number("TIMER_START"), row.number("TIMER_START"));
        if let (Some(outer), Some(inner)) = starts
            && inner + APART < outer
        {
            found.push(format!(
                "{kind} begins before its parent {parent_kind} {}: {}",
                show(parent),
                show(row)
            ));
        }
        // A transaction starts within a statement and ends within another. What a connection does between two
        // statements counts as part of the first, although that has ended.
        let end = parent.number("END_EVENT_ID");
        let ended = end.is_some_and(|end| row.number("END_EVENT_ID").is_some_and(|own| own <= end));
        if kind == "TRANSACTION" || parent_kind == "TRANSACTION" || !ended {
            return;
        }
        let ends = (parent.number("TIMER_END"), row.number("TIMER_END"));
        if let (Some(outer), Some(inner)) = ends
            && inner > outer + APART
        {
            found.push(format!("{kind} ends after its parent {parent_kind} {}: {}", show(parent), show(row)));
        }
    }
}

/// Returns the contradictions in a row of a summary: times out of order, an impossible average, more freed
/// than allocated. The thread or object must be idle while the row is read.
pub fn statistic_contradictions(row: &SchemaRow) -> Vec<String> {
    let mut found = Vec::new();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            found.push(format!("{what}: {}", show(row)));
        }
    };
    for of in row.columns().iter().filter_map(|column| column.strip_prefix("MIN_")) {
        let figure = |kind: &str| row.number(&format!("{kind}_{of}")).unwrap_or_default();
        let [least, average, most, sum] = ["MIN", "AVG", "MAX", "SUM"].map(figure);
        must(least <= most && most <= sum, "times in no order");
        let count = of.strip_prefix("TIMER_").map(|of| if of == "WAIT" { "STAR" } else { of });
        let count = count.and_then(|of| row.number(&format!("COUNT_{of}"))).unwrap_or_default();
        must(count == 0 || average.abs_diff(sum / count) <= 1, "no average");
        // An event of table I/O stands for many rows: then the minimum is of events, and the average of rows.
        let of_rows =
            row.get("OBJECT_TYPE").is_some() || row.text("EVENT_NAME") == "wait/io/table/sql/handler";
        must(count == 0 || of_rows || (least <= average && average <= most), "an average beyond");
    }
    let signed = |column: &str| row.get(column).and_then(|text| text.parse::<i64>().ok());
    for of in ["COUNT", "NUMBER_OF_BYTES"] {
        let marks = ["LOW", "CURRENT", "HIGH"].map(|mark| signed(&format!("{mark}_{of}_USED")));
        if let [Some(low), Some(current), Some(high)] = marks {
            must(low <= current && current <= high, "water marks in no order");
        }
    }
    if let (Some(made), Some(freed), Some(used)) =
        (signed("COUNT_ALLOC"), signed("COUNT_FREE"), signed("CURRENT_COUNT_USED"))
    {
        must(made - freed == used, "in use is not what is allocated and not freed");
    }
    found
}

/// Formats a row in one line, without NULL values.
fn show(row: &SchemaRow) -> String {
    let cells = row.cells().filter_map(|(name, value)| value.map(|value| format!("{name}={value}")));
    cells.collect::<Vec<_>>().join(" ")
}

/// Returns the events that ended last. Of two that ended at the same event, the inner one ended first.
pub(crate) fn newest_ended(rows: &[SchemaRow], count: usize) -> Vec<&SchemaRow> {
    let ids = |row: &SchemaRow| Some((row.number("END_EVENT_ID")?, Reverse(row.number("EVENT_ID")?)));
    let mut ended: Vec<&SchemaRow> = rows.iter().filter(|row| ids(row).is_some()).collect();
    ended.sort_by_key(|row| ids(row));
    ended.into_iter().rev().take(count).collect()
}

/// Names each event independently of ids: its kind, its instrument and its position among those.
pub(crate) fn ordinals(kind: &str, rows: &[SchemaRow], called: &mut HashMap<u64, String>) {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for row in rows {
        let name = row.text("EVENT_NAME");
        let count = counts.entry(name).or_default();
        *count += 1;
        if let Some(id) = row.number("EVENT_ID") {
            called.insert(id, format!("{kind} {name}#{count}"));
        }
    }
}
