//! Statements by digest: the table `events_statements_summary_by_digest`.

use tare_engine::Spelling;
use tare_engine::snapshot::{DigestRow, Parts, Reset};

use super::shared::{counter_columns, further_columns};
use crate::framework::column::{ColumnDef, all_of, column, nullable, number};
use crate::framework::definition::TableDef;
use crate::framework::statistic::stat_columns;
use crate::table::SqlType::{BigIntUnsigned, LongText, Timestamp, TimestampMicros, VarChar};
use crate::table::Value;

/// The table `events_statements_summary_by_digest`.
pub static BY_DIGEST: TableDef<DigestRow> = TableDef::new(
    "events_statements_summary_by_digest",
    "Statements that differ in their literals only, summed up by schema and digest. When the table is full a \
     new digest takes the place of the one that was seen least recently. What that one counted is added to the \
     row whose SCHEMA_NAME and DIGEST are NULL, so that sums over all rows stay right, and digests_evicted \
     in tare_status rises. In MariaDB's own a new digest is counted in that row when the table is full.",
    &[KEY, TIMES, LOCK_TIME, COUNTERS, SEEN],
    |engine, parts, emit| engine.digests(parts, emit),
)
.indexed(&[&["SCHEMA_NAME", "DIGEST"], &["DIGEST", "SCHEMA_NAME"]])
.kept(|engine, parts| Box::new(engine.digests_now(parts)))
.extended(&[FURTHER, QUANTILES, SAMPLE])
.truncated(Reset::Digests);

const KEY: &[ColumnDef<DigestRow>] = &[
    nullable(
        "SCHEMA_NAME",
        VarChar(64),
        "Default schema of the statements; NULL without one.",
        |row: &DigestRow| row.schema.as_ref().into(),
    )
    .of(DigestRow::SCHEMA),
    nullable("DIGEST", VarChar(32), "Hash of the normalised statement.", |row: &DigestRow| {
        row.digest.as_ref().map(Spelling::digest).into()
    })
    .of(DigestRow::DIGEST),
    nullable(
        "DIGEST_TEXT",
        LongText,
        "The normalised statement. In the shape `extended` a text that was cut ends in `...`, as in MySQL.",
        |row: &DigestRow| row.digest.as_ref().and_then(Spelling::text).into(),
    )
    .of(DigestRow::DIGEST.and(DigestRow::DIGEST_TEXT)),
];

const PLAIN_TIMES: &[ColumnDef<DigestRow>] =
    stat_columns!("STAR", "WAIT", "statements", row => row.stat.stat);
const TIMES: &[ColumnDef<DigestRow>] = {
    let [count, sum, min, avg, max] = all_of::<_, 5>(PLAIN_TIMES, Parts::NONE);
    &[count, sum, min.of(DigestRow::EXTREMES), avg, max.of(DigestRow::EXTREMES)]
};

const LOCK_TIME: &[ColumnDef<DigestRow>] = &[number(
    "SUM_LOCK_TIME",
    BigIntUnsigned,
    "Time spent waiting for table locks, in picoseconds.",
    |row: &DigestRow| row.stat.sum.lock_time_ps,
)
.of(DigestRow::COUNTERS)];

const PLAIN: &[ColumnDef<DigestRow>] = counter_columns!("SUM_", row => row.stat.sum);
const COUNTERS: &[ColumnDef<DigestRow>] = &all_of::<_, { PLAIN.len() }>(PLAIN, DigestRow::COUNTERS);

const PLAIN_FURTHER: &[ColumnDef<DigestRow>] = further_columns!(row => row.stat.sum);
const FURTHER: &[ColumnDef<DigestRow>] =
    &all_of::<_, { PLAIN_FURTHER.len() }>(PLAIN_FURTHER, DigestRow::COUNTERS);

const SEEN: &[ColumnDef<DigestRow>] = &[
    column("FIRST_SEEN", Timestamp, "When such a statement was first seen.", |row: &DigestRow| {
        Value::Timestamp(row.first_seen_us)
    })
    .of(DigestRow::FIRST_SEEN),
    column("LAST_SEEN", Timestamp, "When such a statement was last seen.", |row: &DigestRow| {
        Value::Timestamp(row.last_seen_us)
    })
    .of(DigestRow::LAST_SEEN),
];

const QUANTILES: &[ColumnDef<DigestRow>] = &[
    number(
        "QUANTILE_95",
        BigIntUnsigned,
        "95 of 100 timed statements took less than this, in picoseconds: the upper bound of a bucket.",
        |row: &DigestRow| row.histogram.quantile_ps(950),
    )
    .of(DigestRow::HISTOGRAM),
    number("QUANTILE_99", BigIntUnsigned, "Likewise, 99 of 100.", |row: &DigestRow| {
        row.histogram.quantile_ps(990)
    })
    .of(DigestRow::HISTOGRAM),
    number("QUANTILE_999", BigIntUnsigned, "Likewise, 999 of 1000.", |row: &DigestRow| {
        row.histogram.quantile_ps(999)
    })
    .of(DigestRow::HISTOGRAM),
];

const SAMPLE: &[ColumnDef<DigestRow>] = &[
    nullable(
        "QUERY_SAMPLE_TEXT",
        LongText,
        "One of the statements, as SQL_TEXT has it: the slowest; after `max-digest-sample-age` seconds the next one. NULL \
         where no text was kept: the consumer `events_statements_current` was off.",
        |row: &DigestRow| row.sample.as_ref().and_then(|sample| sample.text.as_ref()).into(),
    )
    .of(DigestRow::SAMPLE),
    column("QUERY_SAMPLE_SEEN", TimestampMicros, "When that statement ended; 0 without one.", |row: &DigestRow| {
        Value::Timestamp(row.sample.as_ref().map_or(0, |sample| sample.seen_us))
    })
    .of(DigestRow::SAMPLE),
    column(
        "QUERY_SAMPLE_TIMER_WAIT",
        BigIntUnsigned,
        "How long that statement took, in picoseconds; 0 if it was not timed.",
        |row: &DigestRow| row.sample.as_ref().map_or(0, |sample| sample.wait_ps).into(),
    )
    .of(DigestRow::SAMPLE),
];
