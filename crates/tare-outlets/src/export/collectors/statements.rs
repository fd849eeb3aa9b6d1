//! Collectors of statements: by digest, in total, and histograms.

use std::collections::{BTreeMap, BTreeSet};

use tare_server::sql::{literal, literals};

use crate::export::collector::{Collector, CollectorGroup, CollectorOptions, Scrape};
use crate::export::histogram::BucketCounts;
use crate::export::sample::{
    MetricDescription, MetricKind, MetricNumber, MetricSummary, MetricValue, Samples,
};
use crate::source::{Error, PartResult, QueryPart, Row};

static BY_DIGEST: Collector = Collector {
    name: "perf_schema.eventsstatements",
    help: "Statements by digest, from events_statements_summary_by_digest",
    on: true,
    limit: Some(250),
};

static SUMS: Collector = Collector {
    name: "perf_schema.eventsstatementssum",
    help: "All statements, from events_statements_summary_by_digest",
    on: true,
    limit: None,
};

static HISTOGRAMS: Collector = Collector {
    name: "perf_schema.eventsstatements.histogram",
    help: "How long statements took by digest, as histograms, from events_statements_histogram_by_digest of the shape \
           extended; of digests that perf_schema.eventsstatements has",
    on: false,
    limit: Some(20),
};

static OVERALL: Collector = Collector {
    name: "perf_schema.eventsstatementssum.histogram",
    help: "How long statements took, as a histogram, from events_statements_histogram_global of the shape extended",
    on: true,
    limit: None,
};

/// The group that reads the digests.
pub(super) const GROUP: CollectorGroup =
    CollectorGroup { collectors: &[&BY_DIGEST, &SUMS, &HISTOGRAMS], read: read_digests };

/// The group that reads the histogram of all statements.
pub(super) const OVERALL_GROUP: CollectorGroup =
    CollectorGroup { collectors: &[&OVERALL], read: read_overall };

const DIGESTS: &str = "events_statements_summary_by_digest";
const SCHEMA: usize = 0;
const DIGEST: usize = 1;
const LAST_SEEN: usize = 2;
/// Index of the first figure.
const FIGURES: usize = 3;
/// Label, share of events, and column of each quantile.
const QUANTILES: [(&str, f64, &str); 3] =
    [("95", 0.95, "QUANTILE_95"), ("99", 0.99, "QUANTILE_99"), ("999", 0.999, "QUANTILE_999")];
const TEXT: &str = "DIGEST_TEXT";
/// The server's own schemas, whose digests are left out.
const OWN_SCHEMAS: [&str; 3] = ["mysql", "performance_schema", "information_schema"];

/// A figure of a digest: its column, its metric by digest, if there is one, its metric in total, and whether
/// it is a time.
struct DigestMetric {
    column: &'static str,
    by_digest: Option<MetricDescription>,
    sum: Option<(MetricDescription, Unit)>,
    is_time: bool,
}

/// The unit of a sum: mysqld_exporter leaves one of its times in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Plain,
    Seconds,
}

macro_rules! by_digest {
    (-) => {
        None
    };
    ($name:literal, $help:literal) => {
        Some(MetricDescription::counter(concat!("mysql_perf_schema_events_statements_", $name), $help))
    };
}

macro_rules! sum {
    (-) => {
        None
    };
    ($name:literal, $help:literal $(, $unit:ident)?) => {
        Some((
            MetricDescription::counter(concat!("mysql_perf_schema_events_statements_sum_", $name), $help),
            unit!($($unit)?),
        ))
    };
}

macro_rules! unit {
    () => {
        Unit::Plain
    };
    ($unit:ident) => {
        Unit::$unit
    };
}

macro_rules! measures {
    ($($column:literal, $is_time:literal, [$($digest:tt)*], [$($sum:tt)*];)*) => {
        &[$(DigestMetric {
            column: $column, by_digest: by_digest!($($digest)*), sum: sum!($($sum)*), is_time: $is_time,
        }),*]
    };
}

/// The first two are those of the latency.
static MEASURES: &[DigestMetric] = measures! {
    "COUNT_STAR", false,
        ["total", "The total count of events statements by digest."],
        ["total", "The total count of events statements."];
    "SUM_TIMER_WAIT", true,
        ["seconds_total", "The total time of events statements by digest."],
        ["timer_wait", "Total wait time of the summarized events that are timed.", Seconds];
    "SUM_LOCK_TIME", true,
        ["lock_time_seconds_total", "The total lock time of events statements by digest."],
        ["lock_time", "Time in picoseconds spent waiting for locks."];
    "SUM_CPU_TIME", true,
        ["cpu_time_seconds_total", "The total cpu time of events statements by digest."], [-];
    "SUM_ERRORS", false,
        ["errors_total", "The errors of events statements by digest."], ["errors", "Number of errors."];
    "SUM_WARNINGS", false,
        ["warnings_total", "The warnings of events statements by digest."], ["warnings", "Number of warnings."];
    "SUM_ROWS_AFFECTED", false,
        ["rows_affected_total", "The total rows affected of events statements by digest."],
        ["rows_affected", "Number of rows affected by statements."];
    "SUM_ROWS_SENT", false,
        ["rows_sent_total", "The total rows sent of events statements by digest."],
        ["rows_sent", "Number of rows returned."];
    "SUM_ROWS_EXAMINED", false,
        ["rows_examined_total", "The total rows examined of events statements by digest."],
        ["rows_examined", "Number of rows read during statements' execution."];
    "SUM_CREATED_TMP_TABLES", false,
        ["tmp_tables_total", "The total tmp tables of events statements by digest."],
        ["created_tmp_tables", "The number of temporary tables created."];
    "SUM_CREATED_TMP_DISK_TABLES", false,
        ["tmp_disk_tables_total", "The total tmp disk tables of events statements by digest."],
        ["created_tmp_disk_tables", "The number of on-disk temporary tables created."];
    "SUM_SORT_MERGE_PASSES", false,
        ["sort_merge_passes_total", "The total number of merge passes by the sort algorithm performed by digest."],
        ["sort_merge_passes", "Number of merge passes by the sort algorithm performed by statements."];
    "SUM_SORT_ROWS", false,
        ["sort_rows_total", "The total number of sorted rows by digest."], ["sort_rows", "Number of rows sorted."];
    "SUM_NO_INDEX_USED", false,
        ["no_index_used_total", "The total number of statements that used full table scans by digest."],
        ["no_index_used", "Number of times no index was found."];
    "SUM_NO_GOOD_INDEX_USED", false, [-], ["no_good_index_used", "Number of times no good index was found."];
    "SUM_SELECT_FULL_JOIN", false,
        [-], ["select_full_join", "Number of joins performed by statements which did not use an index."];
    "SUM_SELECT_FULL_RANGE_JOIN", false, [-],
        ["select_full_range_join",
         "Number of joins performed by statements which used a range search of the first table."];
    "SUM_SELECT_RANGE", false, [-],
        ["select_range", "Number of joins performed by statements which used a range of the first table."];
    "SUM_SELECT_RANGE_CHECK", false, [-],
        ["select_range_check",
         "Number of joins without keys performed by statements that check for key usage after each row."];
    "SUM_SELECT_SCAN", false, [-],
        ["select_scan", "Number of joins performed by statements which used a full scan of the first table."];
    "SUM_SORT_RANGE", false,
        [-], ["sort_range", "Number of sorts performed by statements which used a range."];
    "SUM_SORT_SCAN", false,
        [-], ["sort_scan", "Number of sorts performed by statements which used a full table scan."];
};

const COUNT: usize = FIGURES;
const TIME: usize = FIGURES + 1;

static LATENCY: MetricDescription = MetricDescription {
    name: "mysql_perf_schema_events_statements_latency",
    help: "A summary of statement latency by digest",
    kind: MetricKind::Summary,
};

static DURATION: MetricDescription = MetricDescription {
    name: "tare_statement_duration_seconds",
    help: "How long statements took, by digest.",
    kind: MetricKind::Histogram,
};

static ALL_DURATION: MetricDescription = MetricDescription {
    name: "tare_statements_duration_seconds",
    help: "How long statements took, all together.",
    kind: MetricKind::Histogram,
};

/// Returns the columns to read, which depend on what is wanted.
fn columns(scrape: &Scrape<'_>) -> Vec<&'static str> {
    let figures = MEASURES.iter().map(|it| it.column);
    let quantiles = QUANTILES.iter().map(|(.., column)| *column);
    let text = scrape.options.digest_text.then_some(TEXT);
    ["SCHEMA_NAME", "DIGEST", "LAST_SEEN"].into_iter().chain(figures).chain(quantiles).chain(text).collect()
}

/// The digests that become samples, the highest first, the number left out, and the totals of all.
struct ExportedDigests {
    highest: Vec<Row>,
    left_out: u64,
    sums: Vec<u128>,
}

fn read_digests(scrape: &mut Scrape<'_>) -> Result<(), Error> {
    let ExportedDigests { highest, left_out, sums } = match ask_digests(scrape)? {
        Some(digests) => digests,
        None => look_through_digests(scrape)?,
    };
    if scrape.wants(&SUMS) {
        add_sums(&sums, &mut scrape.samples);
    }
    if scrape.wants(&BY_DIGEST) {
        scrape.left_out.insert(BY_DIGEST.name, left_out);
        for row in &highest {
            add_digest(row, scrape.options, &mut scrape.samples);
        }
    }
    if scrape.wants(&HISTOGRAMS) { read_histograms(scrape, highest) } else { Ok(()) }
}

/// Limit from which all digests are sent: servers rarely have more, and choosing would save nothing.
const SENT: usize = 5000;

/// Lets the server choose and total the digests, so that it sends only those that become samples. `None`
/// where it cannot, or where sending all is as good.
fn ask_digests(scrape: &mut Scrape<'_>) -> Result<Option<ExportedDigests>, Error> {
    const ALL: usize = 0;
    const ROWS: usize = 1;
    const FOUND: usize = 2;
    let limit = scrape.options.limit(&BY_DIGEST);
    let is_by_digest = scrape.wants(&BY_DIGEST) || scrape.wants(&HISTOGRAMS);
    if is_by_digest && limit >= SENT {
        return Ok(None);
    }
    let columns = columns(scrape);
    let schemas: Vec<&str> = left_out_schemas(scrape.options).collect();
    let condition = format!(
        "WHERE `SCHEMA_NAME` NOT IN ({}) AND `LAST_SEEN` > {}",
        literals(&schemas),
        literal(scrape.since)
    );
    let highest = format!("{condition} ORDER BY `SUM_TIMER_WAIT` DESC LIMIT {limit}");
    let summed = FIGURES..FIGURES + MEASURES.len();
    let parts = [
        QueryPart { of: PartResult::Sums(summed.clone()), filter: String::new() },
        QueryPart { of: PartResult::Rows, filter: highest },
        QueryPart { of: PartResult::Count, filter: condition },
    ];
    let parts = if is_by_digest { &parts[..] } else { &parts[..1] };
    let (mut highest, mut sums, mut found) = (vec![], vec![0; MEASURES.len()], 0);
    let is_told = scrape.tables.at_once(DIGESTS, &columns, parts, &mut |part, row| match part {
        ROWS => highest.push(row),
        ALL => sums = summed.clone().map(|at| row.total(at)).collect(),
        FOUND => found = row.count(0),
        _ => {}
    })?;
    let left_out = found.saturating_sub(highest.len() as u64);
    Ok(is_told.then_some(ExportedDigests { highest, left_out, sums }))
}

/// Returns the schemas whose statements become no samples.
fn left_out_schemas(options: &CollectorOptions) -> impl Iterator<Item = &str> {
    options.exclude_schemas.iter().map(String::as_str).chain(OWN_SCHEMAS)
}

/// Reads all digests and chooses here.
fn look_through_digests(scrape: &mut Scrape<'_>) -> Result<ExportedDigests, Error> {
    let columns = columns(scrape);
    let mut sums = vec![0_u128; MEASURES.len()];
    let mut highest = scrape.room(&BY_DIGEST);
    let (options, since) = (scrape.options, scrape.since);
    scrape.tables.each(DIGESTS, &columns, "", &mut |row| {
        for (number, sum) in sums.iter_mut().enumerate() {
            *sum = sum.saturating_add(row.total(FIGURES + number));
        }
        if is_of_interest(&row, options, since) {
            highest.take(row.total(TIME), || row);
        }
    })?;
    let (highest, left_out) = highest.kept();
    Ok(ExportedDigests { highest, left_out, sums })
}

/// Returns whether it is a user's statement that was seen recently enough. The condition is
/// mysqld_exporter's, which leaves out digests without a schema; the server ignores case in names of schemas.
fn is_of_interest(row: &Row, options: &CollectorOptions, since: &str) -> bool {
    let Some(schema) = row.text(SCHEMA) else { return false };
    let seen = row.text(LAST_SEEN).unwrap_or_default();
    row.text(DIGEST).is_some()
        && !left_out_schemas(options).any(|it| it.eq_ignore_ascii_case(&schema))
        && seen.as_str() > since
}

fn add_sums(sums: &[u128], samples: &mut Samples) {
    for (measure, sum) in MEASURES.iter().zip(sums) {
        let Some((family, unit)) = &measure.sum else { continue };
        let figure = match unit {
            Unit::Plain => MetricNumber::count(*sum),
            Unit::Seconds => MetricNumber::seconds(*sum),
        };
        samples.add(family, &[], figure);
    }
}

fn add_digest(row: &Row, options: &CollectorOptions, samples: &mut Samples) {
    let text = |at: usize| row.text(at).unwrap_or_default();
    let (schema, digest) = (text(SCHEMA), text(DIGEST));
    let statement: String = if options.digest_text {
        text(FIGURES + MEASURES.len() + QUANTILES.len()).chars().take(options.digest_text_limit).collect()
    } else {
        String::new()
    };
    let labels = [("schema", &*schema), ("digest", &*digest), ("digest_text", &*statement)];
    for (measure, at) in MEASURES.iter().zip(FIGURES..) {
        let Some(family) = &measure.by_digest else { continue };
        let sum = row.total(at);
        samples.add(
            family,
            &labels,
            if measure.is_time { MetricNumber::seconds(sum) } else { MetricNumber::count(sum) },
        );
    }
    let quantiles = QUANTILES.iter().zip(FIGURES + MEASURES.len()..);
    let quantiles =
        quantiles.map(|((name, share, _), at)| (*name, *share, MetricNumber::seconds(row.total(at))));
    let (sum, count) = (MetricNumber::seconds(row.total(TIME)), row.count(COUNT));
    let summary = MetricSummary { quantiles: quantiles.collect(), sum, count };
    samples.put(&LATENCY, &labels, MetricValue::Summary(Box::new(summary)));
}

// Histograms.

fn read_histograms(scrape: &mut Scrape<'_>, digests: Vec<Row>) -> Result<(), Error> {
    let mut highest = scrape.room(&HISTOGRAMS);
    digests.into_iter().for_each(|row| highest.take(row.total(TIME), || row));
    let kept = scrape.kept(&HISTOGRAMS, highest);
    let key = |row: &Row| (row.text(0).unwrap_or_default(), row.text(1).unwrap_or_default());
    let wanted: BTreeSet<(String, String)> = kept.iter().map(key).collect();
    let mut histograms: BTreeMap<(String, String), BucketCounts> = BTreeMap::new();
    let columns = ["SCHEMA_NAME", "DIGEST", "BUCKET_NUMBER", "COUNT_BUCKET"];
    let table = "events_statements_histogram_by_digest";
    let found = scrape.tables.each(table, &columns, "WHERE `COUNT_BUCKET` > 0", &mut |row| {
        let of = key(&row);
        if wanted.contains(&of) {
            histograms.entry(of).or_default().add(row.count(2), row.count(3));
        }
    });
    if is_absent(&found) {
        return Ok(());
    }
    found?;
    for row in &kept {
        let of = key(row);
        let histogram = histograms.remove(&of).unwrap_or_default();
        let labels = [("schema", &*of.0), ("digest", &*of.1)];
        let value = MetricValue::Histogram(Box::new(histogram), MetricNumber::seconds(row.total(TIME)));
        scrape.samples.put(&DURATION, &labels, value);
    }
    Ok(())
}

fn read_overall(scrape: &mut Scrape<'_>) -> Result<(), Error> {
    let mut histogram = BucketCounts::default();
    let columns = ["BUCKET_NUMBER", "COUNT_BUCKET"];
    let table = "events_statements_histogram_global";
    let found = scrape.tables.each(table, &columns, "WHERE `COUNT_BUCKET` > 0", &mut |row| {
        histogram.add(row.count(0), row.count(1));
    });
    if is_absent(&found) {
        return Ok(());
    }
    found?;
    let mut time = 0_u128;
    let table = "events_statements_summary_global_by_event_name";
    scrape.tables.each(table, &["SUM_TIMER_WAIT"], "WHERE `COUNT_STAR` > 0", &mut |row| {
        time = row.total(0).saturating_add(time);
    })?;
    let value = MetricValue::Histogram(Box::new(histogram), MetricNumber::seconds(time));
    scrape.samples.put(&ALL_DURATION, &[], value);
    Ok(())
}

/// Returns whether the server lacks the table, as tare's in the shape strict does; that is not a failure.
fn is_absent(found: &Result<(), Error>) -> bool {
    matches!(found, Err(Error::Absent { .. }))
}
