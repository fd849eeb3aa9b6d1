//! Histograms: how many events took how long, by bucket.

use std::marker::PhantomData;
use std::ops::ControlFlow;

use tare_engine::Engine;
use tare_engine::histogram::{Histogram, HistogramBucket};
use tare_engine::snapshot::{DigestRow, EventType, Reset};

use crate::framework::column::{ColumnDef, column, nullable};
use crate::framework::definition::{Emit, TableDef};
use crate::table::SqlType::{BigIntUnsigned, Double, IntUnsigned, VarChar};
use crate::table::Value;

/// The table `events_statements_histogram_global`.
pub static STATEMENTS: TableDef<HistogramBucket> = TableDef::new(
    "events_statements_histogram_global",
    "How long statements took: the number of statements in each bucket of times. Statements that were not timed are in no \
     bucket. TRUNCATE of this table also resets events_statements_histogram_global_by_event_name; TRUNCATE of \
     events_statements_summary_global_by_event_name resets both.",
    &[HistogramOf::BUCKET],
    |engine, _, emit| {
        let _ = engine.statement_histogram().all().try_for_each(|bucket| emit(&bucket));
    },
)
.indexed(&[&["BUCKET_NUMBER"]])
.truncated(Reset::Histograms(EventType::Statement));

/// A bucket of a digest.
#[derive(Clone, Debug)]
pub struct OfDigest {
    pub(crate) schema: Option<String>,
    pub(crate) digest: Option<String>,
    pub(crate) bucket: HistogramBucket,
}

/// The table `events_statements_histogram_by_digest`.
pub static BY_DIGEST: TableDef<OfDigest> = TableDef::new(
    "events_statements_histogram_by_digest",
    "How long statements took, by schema and digest: every bucket of each. Statements that were not timed are in no bucket. \
     TRUNCATE of this table also resets the quantiles in events_statements_summary_by_digest; TRUNCATE of that table resets \
     this one.",
    &[DIGEST, HistogramOf::BUCKET],
    |engine, _, emit| {
        let parts = DigestRow::SCHEMA.and(DigestRow::DIGEST).and(DigestRow::HISTOGRAM);
        engine.digests(parts, &mut |digest| emit_digest(digest, emit));
    },
)
.indexed(&[&["SCHEMA_NAME", "DIGEST", "BUCKET_NUMBER"], &["DIGEST", "SCHEMA_NAME", "BUCKET_NUMBER"]])
.truncated(Reset::DigestHistograms);

fn emit_digest(row: &DigestRow, emit: Emit<'_, OfDigest>) -> ControlFlow<()> {
    let digest = row.digest.as_ref().map(|digest| digest.digest().to_owned());
    let mut buckets = row.histogram.all();
    let Some(bucket) = buckets.next() else { return ControlFlow::Continue(()) };
    let mut of = OfDigest { schema: row.schema.clone(), digest, bucket };
    emit(&of)?;
    buckets.try_for_each(|bucket| {
        of.bucket = bucket;
        emit(&of)
    })
}

const DIGEST: &[ColumnDef<OfDigest>] = &[
    nullable("SCHEMA_NAME", VarChar(64), "Default schema of the statements; NULL without one.", |row| {
        row.schema.as_ref().into()
    }),
    nullable("DIGEST", VarChar(64), "Hash of the normalised statement.", |row| row.digest.as_ref().into()),
];

/// A bucket of an instrument.
#[derive(Clone, Debug)]
pub struct OfInstrument {
    pub(crate) name: &'static str,
    pub(crate) bucket: HistogramBucket,
}

/// Declares the table `events_<type>_histogram_global_by_event_name`.
macro_rules! by_event_name {
    ($table:ident, $name:literal, $doc:literal, $of:expr) => {
        #[doc = concat!("`", $name, "`")]
        pub static $table: TableDef<OfInstrument> = TableDef::new(
            $name,
            concat!($doc, " Only tare has this table. Empty buckets have no row."),
            &[EVENT_NAME, HistogramOf::BUCKET],
            |engine, _, emit| emit_instruments(engine, $of, emit),
        )
        .indexed(&[&["EVENT_NAME", "BUCKET_NUMBER"]])
        .truncated(Reset::Histograms($of));
    };
}

by_event_name!(
    WAITS_BY_EVENT_NAME,
    "events_waits_histogram_global_by_event_name",
    "How long waits took, by instrument: locks, files, sockets, tables and others. At levels lean, sampled and \
     sums an uncontended lock counts as a wait of no time, in the lowest bucket. Other waits that were not timed are in no bucket. \
     If several rows of a table were accessed at once, their time is divided among them. For sockets and idle connections the lowest bucket ends at \
     100 microseconds, and bucket 51 is the next. TRUNCATE of events_waits_summary_global_by_event_name resets this table, too.",
    EventType::Wait
);
by_event_name!(
    STAGES_BY_EVENT_NAME,
    "events_stages_histogram_global_by_event_name",
    "How long stages took, by instrument; those that were not timed are in no bucket. The lowest bucket ends at 100 \
     microseconds, and bucket 51 is the next. TRUNCATE of events_stages_summary_global_by_event_name resets this table, too.",
    EventType::Stage
);
by_event_name!(
    STATEMENTS_BY_EVENT_NAME,
    "events_statements_histogram_global_by_event_name",
    "How long statements took, by instrument; those that were not timed are in no bucket. TRUNCATE of this table also resets \
     events_statements_histogram_global; TRUNCATE of events_statements_summary_global_by_event_name resets both.",
    EventType::Statement
);
by_event_name!(
    TRANSACTIONS_BY_EVENT_NAME,
    "events_transactions_histogram_global_by_event_name",
    "How long transactions took; those that were not timed are in no bucket. TRUNCATE of \
     events_transactions_summary_global_by_event_name resets this table, too.",
    EventType::Transaction
);

fn emit_instruments(engine: &Engine, of: EventType, emit: Emit<'_, OfInstrument>) {
    let buckets = |(name, histogram): (&'static str, Histogram)| {
        let buckets: Vec<HistogramBucket> = histogram.filled().collect();
        buckets.into_iter().map(move |bucket| OfInstrument { name, bucket })
    };
    let _ = engine.event_histograms(of).into_iter().flat_map(buckets).try_for_each(|row| emit(&row));
}

const EVENT_NAME: &[ColumnDef<OfInstrument>] =
    &[column("EVENT_NAME", VarChar(128), "Name of the instrument.", |row| row.name.into())];

/// A row with a bucket.
trait BucketRow: 'static {
    fn bucket(&self) -> &HistogramBucket;
}

impl BucketRow for HistogramBucket {
    fn bucket(&self) -> &HistogramBucket {
        self
    }
}

impl BucketRow for OfDigest {
    fn bucket(&self) -> &HistogramBucket {
        &self.bucket
    }
}

impl BucketRow for OfInstrument {
    fn bucket(&self) -> &HistogramBucket {
        &self.bucket
    }
}

/// MySQL's columns of a bucket.
struct HistogramOf<R>(PhantomData<R>);

impl<R: BucketRow> HistogramOf<R> {
    const BUCKET: &'static [ColumnDef<R>] = &[
        column("BUCKET_NUMBER", IntUnsigned, "Number of the bucket, from 0 to 449.", |row: &R| {
            row.bucket().number.into()
        }),
        column(
            "BUCKET_TIMER_LOW",
            BigIntUnsigned,
            "Events of this bucket took at least this long, in picoseconds.",
            |row: &R| row.bucket().low_ps.into(),
        ),
        column(
            "BUCKET_TIMER_HIGH",
            BigIntUnsigned,
            "They took less than this, in picoseconds.",
            |row: &R| row.bucket().high_ps.into(),
        ),
        column("COUNT_BUCKET", BigIntUnsigned, "Events in this bucket.", |row: &R| row.bucket().count.into()),
        column(
            "COUNT_BUCKET_AND_LOWER",
            BigIntUnsigned,
            "Events in this bucket and the lower ones.",
            |row: &R| row.bucket().and_lower.into(),
        ),
        column(
            "BUCKET_QUANTILE",
            Double(7, 6),
            "Part of all events that is in this bucket and the lower ones.",
            |row: &R| Value::Double(row.bucket().quantile),
        ),
    ];
}
