//! The report's statements by digest: those with the most time, and other outliers.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::changes::{Changes, RowChange, RowKeyValues, SnapshotPair};
use super::{Cell, FEW_ROWS, Figures, ROWS, Section};
use crate::snapshot::Value;

const TABLE: &str = "events_statements_summary_by_digest";
const HISTOGRAM: &str = "events_statements_histogram_by_digest";
const KEY: [&str; 2] = ["SCHEMA_NAME", "DIGEST"];

/// The counters, in the order of [`at`].
const COUNTERS: [&str; 10] = [
    "COUNT_STAR",
    "SUM_TIMER_WAIT",
    "SUM_LOCK_TIME",
    "SUM_ERRORS",
    "SUM_WARNINGS",
    "SUM_ROWS_SENT",
    "SUM_ROWS_EXAMINED",
    "SUM_CREATED_TMP_TABLES",
    "SUM_CREATED_TMP_DISK_TABLES",
    "SUM_NO_INDEX_USED",
];

mod at {
    pub(super) const COUNT: usize = 0;
    pub(super) const TIME: usize = 1;
    pub(super) const LOCK: usize = 2;
    pub(super) const ERRORS: usize = 3;
    pub(super) const WARNINGS: usize = 4;
    pub(super) const SENT: usize = 5;
    pub(super) const EXAMINED: usize = 6;
    pub(super) const TMP: usize = 7;
    pub(super) const TMP_DISK: usize = 8;
    pub(super) const NO_INDEX: usize = 9;
}

const COLUMNS: &[(&str, &str)] = &[
    ("digest_text", "statement"),
    ("schema", "schema"),
    ("digest", "digest"),
    ("count", "count"),
    ("per_second", "a second"),
    ("total_seconds", "total"),
    ("share", "share"),
    ("average_seconds", "average"),
    ("p95_seconds", "p95"),
    ("lock_share", "of it locks"),
    ("rows_sent_each", "rows sent, each"),
    ("rows_examined_each", "rows read, each"),
    ("errors", "errors"),
    ("tmp_tables", "tmp tables"),
    ("tmp_disk_tables", "on disk"),
];

/// A ranking other than by time: its key, its title, its counter, and its columns.
type Ranking = (&'static str, &'static str, usize, &'static [(&'static str, &'static str)]);

const RANKINGS: [Ranking; 6] = [
    ("by_count", "Most often run", at::COUNT, &columns("times")),
    ("by_rows_examined", "Most rows read", at::EXAMINED, &columns("rows read")),
    ("by_errors", "Most errors", at::ERRORS, &columns("errors")),
    ("by_warnings", "Most warnings", at::WARNINGS, &columns("warnings")),
    ("by_tmp_disk_tables", "Most temporary tables on disk", at::TMP_DISK, &columns("tables")),
    ("by_no_index", "Without an index, most often", at::NO_INDEX, &columns("times")),
];

/// Returns the columns of a ranking by the counter of this name.
const fn columns(counted: &'static str) -> [(&'static str, &'static str); 8] {
    [
        ("digest_text", "statement"),
        ("schema", "schema"),
        ("digest", "digest"),
        ("counted", counted),
        ("share", "share"),
        ("each", "each"),
        ("count", "run"),
        ("total_seconds", "total time"),
    ]
}

/// Makes the section. `load` is the time of all statements, if known.
pub(super) fn section(between: &SnapshotPair<'_>, load: Option<u64>) -> Option<Section> {
    let mut changes = between.changes(TABLE, &KEY, &COUNTERS)?;
    changes.rows.retain(|row| row.by[at::COUNT] > 0);
    changes.rows.sort_by_key(|row| Reverse(row.by[at::TIME]));
    let histograms = Histograms::of(between);
    let time = load.unwrap_or(0).max(changes.sum(at::TIME));
    let rows = changes.rows.iter().map(|row| by_time(&changes, row, time, &histograms)).collect();
    let mut tables = vec![Figures::new("by_time", "Most time", COLUMNS, rows, ROWS)];
    tables.extend(RANKINGS.iter().filter_map(|ranking| ranked(&changes, *ranking)));
    let note = "Statements that differ only in their values count as one. Shares are of the time of all statements, those without a \
                digest among them: with MariaDB's own Performance Schema these are the prepared statements that clients execute. p95 is \
                of this time alone, from the histogram's buckets: no more than 5% took longer. What had no place in the table is \
                one row, all others."
        .into();
    Some(Section { key: "digests", title: "Statements", note, chart: None, tables })
}

fn text(changes: &Changes<'_>, row: &RowChange<'_>) -> Cell {
    let text = changes.value(row, "DIGEST_TEXT").and_then(Value::text);
    text.map_or_else(|| Cell::Name("all others".into()), |text| Cell::Code(text.to_owned()))
}

fn by_time(changes: &Changes<'_>, row: &RowChange<'_>, time: u64, histograms: &Histograms) -> Vec<Cell> {
    let by = |counter: usize| row.by[counter];
    let most = changes.value(row, "MAX_TIMER_WAIT").and_then(Value::count).unwrap_or(u64::MAX);
    vec![
        text(changes, row),
        Cell::name(row.key[0].as_deref()),
        Cell::name(row.key[1].as_deref()),
        Cell::Count(by(at::COUNT)),
        Cell::rate(by(at::COUNT), changes.seconds),
        Cell::picoseconds(by(at::TIME)),
        Cell::share(by(at::TIME), time),
        Cell::average(by(at::TIME), by(at::COUNT)),
        histograms
            .quantile(&row.key, row.anew, 95)
            .map_or(Cell::None, |time| Cell::picoseconds(time.min(most))),
        Cell::share(by(at::LOCK), by(at::TIME)),
        Cell::per(by(at::SENT), by(at::COUNT)),
        Cell::per(by(at::EXAMINED), by(at::COUNT)),
        Cell::Count(by(at::ERRORS)),
        Cell::Count(by(at::TMP)),
        Cell::Count(by(at::TMP_DISK)),
    ]
}

fn ranked(changes: &Changes<'_>, (key, title, counter, columns): Ranking) -> Option<Figures> {
    let mut rows: Vec<&RowChange<'_>> = changes.rows.iter().filter(|row| row.by[counter] > 0).collect();
    rows.sort_by_key(|row| Reverse(row.by[counter]));
    let all = changes.sum(counter);
    let row = |row: &&RowChange<'_>| {
        vec![
            text(changes, row),
            Cell::name(row.key[0].as_deref()),
            Cell::name(row.key[1].as_deref()),
            Cell::Count(row.by[counter]),
            Cell::share(row.by[counter], all),
            Cell::per(row.by[counter], row.by[at::COUNT]),
            Cell::Count(row.by[at::COUNT]),
            Cell::picoseconds(row.by[at::TIME]),
        ]
    };
    let figures = Figures::new(key, title, columns, rows.iter().map(row).collect(), FEW_ROWS);
    (!figures.rows.is_empty()).then_some(figures)
}

/// The histogram buckets of each digest, ordered by their upper bounds.
struct Histograms(BTreeMap<RowKeyValues, Vec<BucketChange>>);

#[derive(Clone, Copy)]
struct BucketChange {
    /// Upper bound in picoseconds.
    high: u64,
    /// Growth between the snapshots.
    by: u64,
    /// Present count.
    now: u64,
}

impl Histograms {
    fn of(between: &SnapshotPair<'_>) -> Self {
        let mut histograms: BTreeMap<RowKeyValues, Vec<BucketChange>> = BTreeMap::new();
        let key = [KEY[0], KEY[1], "BUCKET_TIMER_HIGH"];
        let Some(changes) = between.changes(HISTOGRAM, &key, &["COUNT_BUCKET"]) else {
            return Histograms(histograms);
        };
        for row in &changes.rows {
            let high = changes.value(row, "BUCKET_TIMER_HIGH").and_then(Value::count);
            if let Some(high) = high {
                let bucket = BucketChange { high, by: row.by[0], now: row.now[0] };
                histograms.entry(row.key[..KEY.len()].to_vec()).or_default().push(bucket);
            }
        }
        histograms.values_mut().for_each(|buckets| buckets.sort_unstable_by_key(|bucket| bucket.high));
        Histograms(histograms)
    }

    /// Returns a percentile in picoseconds, between the snapshots, or since its reset if `anew`.
    fn quantile(&self, key: &[Option<String>], anew: bool, percent: u64) -> Option<u64> {
        let buckets = self.0.get(key)?;
        let counted = |bucket: &BucketChange| if anew { bucket.now } else { bucket.by };
        let all: u64 = buckets.iter().map(counted).sum();
        let mut below = 0;
        let reached = buckets.iter().filter(|bucket| counted(bucket) > 0).find(|bucket| {
            below += counted(bucket);
            u128::from(below) * 100 >= u128::from(all) * u128::from(percent)
        });
        reached.map(|bucket| bucket.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_upper_ends_of_buckets() {
        let key = vec![None, Some("d".to_owned())];
        let bucket = |(high, by, now)| BucketChange { high, by, now };
        let buckets = [(10, 94, 94), (20, 1, 1), (30, 5, 1000), (40, 0, 7)].map(bucket).to_vec();
        let histograms = Histograms(BTreeMap::from([(key.clone(), buckets)]));
        assert_eq!(
            [94, 95, 96].map(|percent| histograms.quantile(&key, false, percent)),
            [10, 20, 30].map(Some)
        );
        assert_eq!(histograms.quantile(&key, true, 50), Some(30), "all there is");
        assert_eq!(histograms.quantile(&[None, None], false, 95), None);
    }
}
