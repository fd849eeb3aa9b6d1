//! What a setting's slices usually were, and their means as other studies give them.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::course::Estimate;
use crate::record::{Measure, Slice};
use crate::schema;
use crate::statistics::{mean_and_error, median, quantile};

/// The name of the transactions per second among the means of runs.
pub const THROUGHPUT: &str = "transactions_per_s";

/// Medians over the slices of a setting. Times are seconds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(transform = schema::figures_may_be_missing)]
pub struct Medians {
    /// What a transaction is charged with, by the study's measure.
    pub charged: f64,
    /// Server CPU per transaction.
    pub cpu: f64,
    /// Of it in the kernel.
    pub cpu_system: f64,
    /// Share of the machine's processors that the server kept busy while it had load; NaN where its process cannot be seen.
    pub cpu_share: f64,
    /// CPU of the sidecars that are charged per transaction.
    pub cpu_sidecars: f64,
    /// CPU of those that are not per transaction.
    pub cpu_beside: f64,
    /// Resident memory of all sidecars.
    pub resident_sidecars: f64,
    /// Transactions per second.
    pub tps: f64,
    /// Statements per second.
    pub qps: f64,
    /// Mean latency.
    pub latency: f64,
    /// Half of the transactions take at most this.
    pub p50: f64,
    /// 95 of 100 take at most this.
    pub p95: f64,
    /// 99 of 100 take at most this.
    pub p99: f64,
    /// 999 of 1000 take at most this.
    pub p999: f64,
    /// Resident memory of the server, bytes.
    pub resident_bytes: f64,
    /// Context switches per transaction.
    pub context_switches: f64,
    /// Bytes logged per second.
    pub logged_bytes: f64,
    /// Share of the machine's time given to others by its hypervisor.
    pub steal: f64,
    /// Errors per second.
    pub errors: f64,
    /// Figures the workload reports of itself.
    pub figures: BTreeMap<String, f64>,
}

impl Medians {
    /// `processors` are those of the server's machine, where its process can be seen.
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

/// Transactions in a second, over all seconds of a setting's slices. All NaN without any.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[schemars(transform = schema::figures_may_be_missing)]
pub struct Seconds {
    /// 1 of 100 seconds has fewer.
    pub p1: f64,
    /// Half of the seconds have at most this.
    pub p50: f64,
    /// 99 of 100 seconds have at most this.
    pub p99: f64,
}

impl Seconds {
    pub(super) fn of(slices: &[&Slice]) -> Seconds {
        let all = every_second(slices);
        let [p1, p50, p99] = [0.01, 0.5, 0.99].map(|q| quantile(&all, q));
        Seconds { p1, p50, p99 }
    }
}

/// Transactions of every second of slices.
pub(crate) fn every_second(slices: &[&Slice]) -> Vec<f64> {
    slices.iter().flat_map(|s| s.per_second.iter().copied()).collect()
}

/// Means with their standard errors, as studies give them that repeat a run some times: each slice counts as a run. Of
/// transactions per second ([`THROUGHPUT`]), and of what the workload reports of itself. Nothing of fewer than two slices.
///
/// What drifts from slice to slice is part of the error, unlike in what is compared within blocks.
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
