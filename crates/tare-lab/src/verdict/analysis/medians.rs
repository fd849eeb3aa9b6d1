//! Medians over a setting's slices, and their means with standard errors.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::results::record::{Measure, Slice};
use crate::results::schema;
use crate::statistics::course::Estimate;
use crate::statistics::{mean_and_error, median, quantile};

/// Name of the transactions per second among the means of runs.
pub const THROUGHPUT: &str = "transactions_per_s";

/// Medians over the slices of a setting. Times are seconds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(transform = schema::figures_may_be_missing)]
pub struct Medians {
    /// Charge per transaction, by the study's measure.
    pub charged: f64,
    /// CPU time of the server per transaction.
    pub cpu: f64,
    /// The part of it spent in the kernel.
    pub cpu_system: f64,
    /// Share of the machine's processors that the server used under load; NaN where its process cannot be
    /// seen.
    pub cpu_share: f64,
    /// CPU time per transaction of the sidecars that are charged.
    pub cpu_sidecars: f64,
    /// CPU time per transaction of the sidecars that are not charged.
    pub cpu_beside: f64,
    /// Resident memory of all sidecars, in bytes.
    pub resident_sidecars: f64,
    /// Transactions per second.
    pub tps: f64,
    /// Statements per second.
    pub qps: f64,
    /// Mean latency.
    pub latency: f64,
    /// Median latency.
    pub p50: f64,
    /// 95th percentile of latency.
    pub p95: f64,
    /// 99th percentile of latency.
    pub p99: f64,
    /// 99.9th percentile of latency.
    pub p999: f64,
    /// Resident memory of the server, in bytes.
    pub resident_bytes: f64,
    /// Context switches per transaction.
    pub context_switches: f64,
    /// Bytes logged per second.
    pub logged_bytes: f64,
    /// Share of the machine's time that its hypervisor gave to others.
    pub steal: f64,
    /// Errors per second.
    pub errors: f64,
    /// Figures that the workload itself reports.
    pub figures: BTreeMap<String, f64>,
}

impl Medians {
    /// Computes the medians. `processors` is the number on the server's machine, where its process can be
    /// seen.
    #[allow(clippy::cast_precision_loss)] // counts of a slice are far below 2^53
    pub(super) fn of(slices: &[&Slice], measure: Measure, processors: Option<f64>) -> Medians {
        let over =
            |figure: &dyn Fn(&Slice) -> f64| median(&slices.iter().map(|s| figure(s)).collect::<Vec<_>>());
        let figures: BTreeSet<&String> = slices.iter().flat_map(|s| s.figures.keys()).collect();
        let figure = |name: &String| {
            let values: Vec<f64> = slices.iter().filter_map(|s| s.figures.get(name).copied()).collect();
            (name.clone(), median(&values))
        };
        Medians {
            charged: over(&|s| s.charged(measure)),
            cpu: over(&|s| s.per_transaction(s.cpu_user + s.cpu_system)),
            cpu_system: over(&|s| s.per_transaction(s.cpu_system)),
            cpu_share: over(&|s| {
                processors.map_or(f64::NAN, |n| (s.cpu_user + s.cpu_system) / (s.seconds * n))
            }),
            cpu_sidecars: over(&|s| s.per_transaction(s.cpu_sidecars)),
            cpu_beside: over(&|s| s.per_transaction(s.cpu_beside)),
            resident_sidecars: over(&|s| s.resident_sidecars as f64),
            tps: over(&|s| s.tps()),
            qps: over(&|s| s.queries as f64 / s.seconds),
            latency: over(&|s| s.latency.mean),
            p50: over(&|s| s.latency.p50),
            p95: over(&|s| s.latency.p95),
            p99: over(&|s| s.latency.p99),
            p999: over(&|s| s.latency.at(0.999)),
            resident_bytes: over(&|s| s.resident_bytes as f64),
            context_switches: over(&|s| s.per_transaction(s.context_switches as f64)),
            logged_bytes: over(&|s| s.logged_bytes as f64 / s.seconds),
            steal: over(&|s| s.steal),
            errors: over(&|s| s.errors as f64 / s.seconds),
            figures: figures.into_iter().map(figure).collect(),
        }
    }
}

/// Quantiles of transactions per second over all seconds of a setting's slices; all NaN without any.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[schemars(transform = schema::figures_may_be_missing)]
pub struct Seconds {
    /// 1st percentile.
    pub p1: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Seconds {
    pub(super) fn of(slices: &[&Slice]) -> Seconds {
        let all = every_second(slices);
        let [p1, p50, p99] = [0.01, 0.5, 0.99].map(|q| quantile(&all, q));
        Seconds { p1, p50, p99 }
    }
}

/// Returns the transactions of every second of the slices.
pub(crate) fn every_second(slices: &[&Slice]) -> Vec<f64> {
    slices.iter().flat_map(|s| s.per_second.iter().copied()).collect()
}

/// Returns means with standard errors, each slice taken as a run: of transactions per second
/// ([`THROUGHPUT`]), and of the figures the workload reports. Empty with fewer than two slices.
///
/// Unlike in the comparison within blocks, drift from slice to slice is part of the error.
pub(super) fn of_runs(slices: &[&Slice]) -> BTreeMap<String, Estimate> {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for slice in slices {
        all.entry(THROUGHPUT.into()).or_default().push(slice.tps());
        for (name, value) in &slice.figures {
            all.entry(name.clone()).or_default().push(*value);
        }
    }
    let of = |values: &[f64]| mean_and_error(values).map(|(value, error)| Estimate { value, error });
    all.into_iter().filter_map(|(name, values)| Some((name, of(&values)?))).collect()
}
