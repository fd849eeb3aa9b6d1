//! The collector of the applier threads of a replica.

use std::time::UNIX_EPOCH;

use crate::export::collector::{Collector, CollectorGroup, Scrape};
use crate::export::sample::{MetricDescription, MetricNumber};
use crate::source::Error;

static WORKERS: Collector = Collector {
    name: "perf_schema.replication_applier_status_by_worker",
    help: "Times of a replica's workers, from replication_applier_status_by_worker with MySQL's columns",
    on: false,
    limit: None,
};

/// The group that reads the workers.
pub(super) const GROUP: CollectorGroup = CollectorGroup { collectors: &[&WORKERS], read };

/// Columns and their metrics.
static TIMES: [(&str, MetricDescription); 7] = [
    (
        "LAST_APPLIED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP",
        MetricDescription::gauge(
            "mysql_perf_schema_last_applied_transaction_original_commit_timestamp_seconds",
            "A timestamp shows when the last transaction applied by this worker was committed on the original master.",
        ),
    ),
    (
        "LAST_APPLIED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP",
        MetricDescription::gauge(
            "mysql_perf_schema_last_applied_transaction_immediate_commit_timestamp_seconds",
            "A timestamp shows when the last transaction applied by this worker was committed on the immediate master.",
        ),
    ),
    (
        "LAST_APPLIED_TRANSACTION_START_APPLY_TIMESTAMP",
        MetricDescription::gauge(
            "mysql_perf_schema_last_applied_transaction_start_apply_timestamp_seconds",
            "A timestamp shows when this worker started applying the last applied transaction.",
        ),
    ),
    (
        "LAST_APPLIED_TRANSACTION_END_APPLY_TIMESTAMP",
        MetricDescription::gauge(
            "mysql_perf_schema_last_applied_transaction_end_apply_timestamp_seconds",
            "A shows when this worker finished applying the last applied transaction.",
        ),
    ),
    (
        "APPLYING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP",
        MetricDescription::gauge(
            "mysql_perf_schema_applying_transaction_original_commit_timestamp_seconds",
            "A timestamp that shows when the transaction this worker is currently applying was committed on the original \
             master.",
        ),
    ),
    (
        "APPLYING_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP",
        MetricDescription::gauge(
            "mysql_perf_schema_applying_transaction_immediate_commit_timestamp_seconds",
            "A timestamp shows when the transaction this worker is currently applying was committed on the immediate \
             master.",
        ),
    ),
    (
        "APPLYING_TRANSACTION_START_APPLY_TIMESTAMP",
        MetricDescription::gauge(
            "mysql_perf_schema_applying_transaction_start_apply_timestamp_seconds",
            "A timestamp shows when this worker started its first attempt to apply the transaction that is currently \
             being applied.",
        ),
    ),
];

fn read(scrape: &mut Scrape<'_>) -> Result<(), Error> {
    let names = ["CHANNEL_NAME", "WORKER_ID"];
    let columns: Vec<&str> = names.into_iter().chain(TIMES.iter().map(|(column, _)| *column)).collect();
    let samples = &mut scrape.samples;
    scrape.tables.each("replication_applier_status_by_worker", &columns, "", &mut |row| {
        // Without MySQL's columns there are no times.
        let Some(worker) = row.text(1) else { return };
        let labels = [("channel_name", &*row.text(0).unwrap_or_default()), ("member_id", &*worker)];
        for ((_, family), at) in TIMES.iter().zip(2..) {
            samples.add(family, &labels, MetricNumber::Real(seconds(&row.text(at).unwrap_or_default())));
        }
    })
}

/// Returns the seconds since the epoch of `YYYY-MM-DD hh:mm:ss.ffffff` in UTC; 0 if it is not a time.
fn seconds(text: &str) -> f64 {
    let time = humantime::parse_rfc3339_weak(text).ok();
    time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map_or(0.0, |time| time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn times_are_in_utc_and_none_is_0() {
        let of = |text: &str, wanted: f64| assert!((seconds(text) - wanted).abs() < 1e-6, "{text}");
        of("2019-03-15 12:05:01.500000", 1_552_651_501.5);
        of("0000-00-00 00:00:00.000000", 0.0);
        of("", 0.0);
    }
}
