//! Reports of the changes between two snapshots of a server.
//!
//! [`Report::between`] makes tables of figures, whose columns' keys contain the unit. They are shown by
//! [`html::page`], as JSON ([`Report`] can be serialized), and by the command line. No figure is negative:
//! what was reset between the snapshots counts from zero (`changes`).

mod active;
mod changes;
pub mod chart;
mod digests;
pub mod html;
mod load;
mod objects;
mod state;
mod waits;

use std::collections::BTreeMap;
use std::path::Path;

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use crate::sessions::{self, Recorded, Stretch, TABLE, rfc3339};
use crate::snapshot::{Error, Snapshot, SnapshotHeader, TableHead, Value};
pub use active::When;
use changes::SnapshotPair;
pub use chart::Chart;

/// Most rows of a table of figures on the page; a line says how many others there are.
const ROWS: usize = 20;
/// Most rows of the shorter tables.
const FEW_ROWS: usize = 10;

/// The tables that a report uses.
const WANTED: [&str; 29] = [
    "accounts",
    "events_errors_summary_global_by_error",
    "events_stages_summary_global_by_event_name",
    "events_statements_histogram_by_digest",
    "events_statements_summary_by_account_by_event_name",
    "events_statements_summary_by_digest",
    "events_statements_summary_global_by_event_name",
    "events_transactions_summary_global_by_event_name",
    "events_waits_summary_global_by_event_name",
    "file_summary_by_instance",
    "global_variables",
    "memory_summary_global_by_event_name",
    "replication_applier_status",
    "replication_applier_status_by_coordinator",
    "replication_applier_status_by_worker",
    "replication_connection_status",
    "setup_actors",
    "setup_consumers",
    "setup_instruments",
    "setup_objects",
    "setup_timers",
    "show_global_status",
    "show_global_variables",
    "table_io_waits_summary_by_index_usage",
    "table_io_waits_summary_by_table",
    "table_lock_waits_summary_by_table",
    TABLE,
    "tare_levels",
    "tare_status",
];

/// The changes between two snapshots.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Header of the earlier snapshot.
    pub first: SnapshotHeader,
    /// Header of the later one.
    pub last: SnapshotHeader,
    /// Seconds between them.
    pub seconds: f64,
    /// Whether the server was restarted in between.
    pub restarted: bool,
    /// Warnings for the reader.
    pub warnings: Vec<String>,
    /// The summary.
    pub figures: Vec<SummaryFigure>,
    /// The details.
    pub sections: Vec<Section>,
}

/// A figure of the summary.
#[derive(Clone, Debug, Serialize)]
pub struct SummaryFigure {
    /// Name for programs.
    pub key: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// The figure.
    pub value: Cell,
}

/// A part of the report.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// Name for programs, and its anchor.
    pub key: &'static str,
    /// Title for people.
    pub title: &'static str,
    /// Explanation for the reader.
    pub note: String,
    /// A chart above the tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<Chart>,
    /// The tables.
    pub tables: Vec<Figures>,
}

/// A table of figures.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Name for programs.
    pub key: &'static str,
    /// Title for people.
    pub title: &'static str,
    /// Keys and titles of the columns.
    pub columns: &'static [(&'static str, &'static str)],
    /// All rows, sorted. Programs get all of them.
    pub rows: Vec<Vec<Cell>>,
    /// Most rows that people are shown.
    most: usize,
    /// Whether it is collapsed, because it is long and rarely read.
    pub folded: bool,
}

impl Figures {
    /// Makes a table of sorted rows, of which people are shown the first `most`.
    fn new(
        key: &'static str,
        title: &'static str,
        columns: &'static [(&'static str, &'static str)],
        rows: Vec<Vec<Cell>>,
        most: usize,
    ) -> Self {
        Figures { key, title, columns, rows, most, folded: false }
    }

    /// Returns the rows that people are shown.
    pub fn shown(&self) -> &[Vec<Cell>] {
        &self.rows[..self.most.min(self.rows.len())]
    }

    fn folded(mut self) -> Self {
        self.folded = true;
        self
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Rows<'a>(&'a Figures);
        impl Serialize for Rows<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut rows = serializer.serialize_seq(Some(self.0.rows.len()))?;
                for row in &self.0.rows {
                    let keys = self.0.columns.iter().map(|(key, _)| *key);
                    rows.serialize_element(&keys.zip(row).collect::<BTreeMap<_, _>>())?;
                }
                rows.end()
            }
        }
        let fields: BTreeMap<&str, serde_json::Value> = BTreeMap::from([
            ("key", self.key.into()),
            ("title", self.title.into()),
            ("rows", serde_json::to_value(Rows(self)).map_err(serde::ser::Error::custom)?),
        ]);
        fields.serialize(serializer)
    }
}

/// A figure or a word.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// No value.
    None,
    /// A word or a name.
    Name(String),
    /// A statement, or a value that may be long.
    Code(String),
    /// A count.
    Count(u64),
    /// Events per second.
    Rate(f64),
    /// A number with a fraction.
    Number(f64),
    /// Seconds.
    Time(f64),
    /// Bytes, or a difference of bytes.
    Bytes(i64),
    /// A part of a whole; 1 is all of it.
    Share(f64),
}

impl Cell {
    fn name(text: Option<&str>) -> Self {
        text.map_or(Cell::None, |text| Cell::Name(text.to_owned()))
    }

    /// Makes a time from picoseconds.
    #[allow(clippy::cast_precision_loss)] // shown with three digits
    fn picoseconds(time: u64) -> Self {
        Cell::Time(time as f64 / 1e12)
    }

    /// Makes a share; no value if `whole` is 0.
    #[allow(clippy::cast_precision_loss)] // shown with three digits
    fn share(part: u64, whole: u64) -> Self {
        if whole == 0 { Cell::None } else { Cell::Share(part as f64 / whole as f64) }
    }

    /// Makes a mean; no value if `count` is 0.
    #[allow(clippy::cast_precision_loss)] // shown with three digits
    fn per(sum: u64, count: u64) -> Self {
        if count == 0 { Cell::None } else { Cell::Number(sum as f64 / count as f64) }
    }

    /// Makes a mean time from a sum of picoseconds.
    #[allow(clippy::cast_precision_loss)] // shown with three digits
    fn average(sum: u64, count: u64) -> Self {
        if count == 0 { Cell::None } else { Cell::Time(sum as f64 / 1e12 / count as f64) }
    }

    /// Makes a rate; no value if the duration is unknown.
    #[allow(clippy::cast_precision_loss)] // shown with three digits
    fn rate(count: u64, seconds: Option<f64>) -> Self {
        match seconds {
            Some(seconds) if seconds > 0.0 => Cell::Rate(count as f64 / seconds),
            _ => Cell::None,
        }
    }
}

/// Makes a text safe to show: characters that move a terminal's cursor or change the writing direction are
/// replaced.
#[must_use]
pub fn visible(text: &str) -> String {
    let shown = |c: char| match c {
        '\t' | '\n' | '\r' => ' ',
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            char::REPLACEMENT_CHARACTER
        }
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(shown).collect()
}

/// Reads the parts of a snapshot that a report needs.
///
/// # Errors
/// When it cannot be read, or is invalid.
pub fn read(path: &Path) -> Result<Recorded, Error> {
    sessions::read(path, &wanted)
}

/// Returns whether a report uses a table, or a row of it: empty buckets of histograms are left out.
fn wanted(head: &TableHead, row: Option<&[Value]>) -> bool {
    let Some(row) = row else { return WANTED.contains(&head.table.as_str()) };
    if head.table != "events_statements_histogram_by_digest" {
        return true;
    }
    let count = head.columns.iter().position(|column| column.name == "COUNT_BUCKET");
    count.is_none_or(|count| row[count].count() != Some(0))
}

impl Report {
    /// Reports the changes between two snapshots, of which `first` must be the earlier one, and the sessions
    /// that were active in between.
    ///
    /// # Errors
    /// When it is not.
    pub fn between(first: &Recorded, last: &Recorded) -> Result<Self, String> {
        Report::between_at(first, last, When::default())
    }

    /// Reports the changes between two snapshots, and the sessions that were active in a stretch of time.
    ///
    /// # Errors
    /// Those of [`Report::between`], or when there is nothing of that time.
    pub fn between_at(first: &Recorded, last: &Recorded, when: When) -> Result<Self, String> {
        let between = SnapshotPair::new(&first.snapshot, &last.snapshot)?;
        let active = active::Active::of(&[first, last], interval(&first.snapshot, &last.snapshot), when)?;
        let load = load::LoadCounters::of(&between);
        let sections: Vec<Section> = [
            active.as_ref().map(active::Active::section),
            load.section(&between),
            digests::section(&between, load.time()),
            waits::section(&between),
            waits::stages(&between),
            objects::tables(&between),
            objects::files(&between),
            objects::memory(&between),
            load::errors(&between),
            state::replication(&between),
            state::changed(&between),
            state::counters(&between),
            state::lost(&between),
        ]
        .into_iter()
        .flatten()
        .collect();
        let mut figures = load.figures();
        figures.extend(active.iter().flat_map(active::Active::figures));
        Ok(Report {
            first: first.snapshot.header.clone(),
            last: last.snapshot.header.clone(),
            seconds: between.seconds,
            restarted: between.restarted,
            figures,
            warnings: between.warnings(),
            sections,
        })
    }

    /// Reports the active sessions in one file, all of them or those of a stretch.
    ///
    /// # Errors
    /// When there are none, or none at that time.
    pub fn of_sessions(input: &Recorded, when: When) -> Result<Self, String> {
        let active = active::Active::of(&[input], None, when)?.ok_or_else(|| {
            format!(
                "it has no rows of {TABLE}: name an earlier snapshot, too, to see what changed in between"
            )
        })?;
        let at = |us: u64| SnapshotHeader { taken_at: rfc3339(us), ..input.snapshot.header.clone() };
        Ok(Report {
            first: at(active.stretch.from),
            last: at(active.stretch.to),
            seconds: active.stretch.seconds(),
            restarted: false,
            warnings: vec![],
            figures: active.figures(),
            sections: vec![active.section()],
        })
    }
}

/// Returns the time between two snapshots.
fn interval(first: &Snapshot, last: &Snapshot) -> Option<Stretch> {
    let at = |snapshot: &Snapshot| {
        let since = snapshot.taken_at()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_micros()).ok()
    };
    Some(Stretch { from: at(first)?, to: at(last)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(visible("a\u{1b}[31mb\nc\u{202e}d\u{0}é"), "a\u{fffd}[31mb c\u{fffd}d\u{fffd}é");
    }

    #[test]
    fn people_are_shown_the_first_rows_and_programs_get_all_with_the_names_of_columns() {
        let rows = (0..3).map(|n| vec![Cell::Count(n), Cell::None]).collect();
        let figures = Figures::new("some", "Some", &[("count", "Count"), ("p95_seconds", "p95")], rows, 2);
        let json = serde_json::to_value(&figures).expect("JSON");
        assert_eq!(figures.shown(), [[Cell::Count(0), Cell::None], [Cell::Count(1), Cell::None]]);
        assert_eq!(json["rows"].as_array().map(Vec::len), Some(3));
        assert_eq!(json["rows"][2], serde_json::json!({"count": 2, "p95_seconds": null}));
    }
}
