//! The data about events in a study's records.

use std::collections::BTreeMap;

use tare_budget::account::distance;
use tare_budget::price::ConnectionCost;
use tare_budget::{Cost, Kind, Level, Prices, handler};

use super::experiment::{EVERYTHING, NONE, NOTHING, PriceSetting};
use super::fit::{LoadMeasurements, quantile};
use crate::results::record::Record;
use crate::verdict::analysis::{Analysis, CellAnalysis};
use crate::verdict::effort;

/// What the measurements lack.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// A load was not measured before the time was over.
    #[error("the time was over before {load} was measured: measure for longer (--for)")]
    Load {
        /// The load.
        load: String,
    },
    /// The events of a load were not counted.
    #[error("{load}: the server's summary tables counted no events")]
    Events {
        /// The load.
        load: String,
    },
    /// Starts of servers; an interval needs two.
    #[error("the time was over before servers were started twice: measure for longer (--for)")]
    Starts,
}

/// Returns the loads of a study whose base is the setting with everything off. Where the `believed` prices
/// depend on the distance between events, each load's event counts are scaled accordingly.
///
/// # Errors
///
/// [`Missing`].
pub fn loads(
    records: &[Record],
    settings: &[PriceSetting],
    believed: &Prices,
) -> Result<Vec<LoadMeasurements>, Missing> {
    let Some(analysis) = Analysis::of(records) else { return Err(Missing::Load { load: "any load".into() }) };
    let load = |cell| {
        let mut load = load(records, cell, settings)?;
        let apart = distance(load.events.iter().map(|(kind, n)| (*kind, *n)), load.charge);
        let factor = believed.factor(apart);
        load.events.values_mut().for_each(|n| *n *= factor);
        Ok(load)
    };
    analysis.cells.iter().map(load).collect()
}

fn load(
    records: &[Record],
    cell: &CellAnalysis,
    settings: &[PriceSetting],
) -> Result<LoadMeasurements, Missing> {
    let name = cell.cell.workload.clone();
    let shares: Vec<Vec<f64>> = settings.iter().map(|it| shares(cell, &it.name)).collect();
    let charge = charge(cell, NOTHING);
    match charge {
        Some(charge) if shares.iter().all(|it| !it.is_empty()) => {
            Ok(LoadMeasurements { events: events(records, &name)?, name, charge, shares })
        }
        _ => Err(Missing::Load { load: name }),
    }
}

/// Returns a setting's relative cost, block by block.
fn shares(cell: &CellAnalysis, setting: &str) -> Vec<f64> {
    let of = cell.setting(setting).map(|it| it.blocks_cost.as_slice()).unwrap_or_default();
    of.iter().map(|it| it.share).filter(|share| share.is_finite()).collect()
}

/// Returns the cost of a transaction in a setting, in nanoseconds.
pub(super) fn charge(cell: &CellAnalysis, setting: &str) -> Option<f64> {
    let charged = cell.setting(setting)?.medians.charged * 1e9;
    Some(charged).filter(|it| it.is_finite() && *it > 0.0)
}

/// Returns the events of each kind per transaction of a load, counted with everything on. For metadata locks,
/// only waits are counted; but each server transaction creates at least one, and that is the cost. For table
/// I/O, rows are counted; the cost is per wait.
///
/// # Errors
///
/// [`Missing::Events`].
pub(super) fn events(records: &[Record], load: &str) -> Result<BTreeMap<Kind, f64>, Missing> {
    let counted = records.iter().find_map(|record| match record {
        Record::Calls(calls) if calls.cell.workload == load && calls.setting == EVERYTHING => {
            Some(&calls.per_transaction)
        }
        _ => None,
    });
    let mut events = BTreeMap::new();
    for (class, count) in counted.into_iter().flatten() {
        if let Some(kind) = Kind::of(&format!("{class}/")) {
            *events.entry(kind).or_insert(0.0) += count;
        }
    }
    if let Some(made) = events.get(&Kind::Transaction).copied() {
        *events.entry(Kind::MetadataLock).or_insert(0.0) += made;
    }
    if let (Some(rows), Some(calls)) =
        (events.get_mut(&Kind::TableIo), done(records, load, effort::BEGINNINGS))
    {
        *rows = handler::waits(*rows, calls);
    }
    if events.is_empty() { Err(Missing::Events { load: load.to_owned() }) } else { Ok(events) }
}

/// Returns the ratio of the measured to the believed cost of disabled events, for all kinds together: the
/// difference between a server with everything off and one without a Performance Schema, divided by the
/// believed cost of all events. Each block is a start of both. The prior is `factor` with a standard
/// deviation of the same size.
///
/// # Errors
///
/// [`Missing`].
pub fn off(
    records: &[Record],
    known: &[LoadMeasurements],
    believed: &Prices,
    factor: f64,
) -> Result<Cost, Missing> {
    let Some(analysis) = Analysis::of(records) else { return Err(Missing::Starts) };
    let mut each = vec![];
    for cell in &analysis.cells {
        let (own, base) = (shares(cell, NOTHING), charge(cell, NONE));
        let load = known.iter().find(|it| it.name == cell.cell.workload);
        let (Some(base), Some(load)) = (base, load) else { return Err(Missing::Starts) };
        if own.len() < 2 {
            return Err(Missing::Starts);
        }
        let cost: f64 = load.events.iter().map(|(kind, n)| n * believed.cost(*kind, Level::Off).ns).sum();
        each.push(MeanEstimate::of(&own).times(base / cost));
    }
    Ok(weighed(&each, factor))
}

/// Returns the prices at the distance that a load's events have.
pub(super) fn of_load(prices: &Prices, events: &BTreeMap<Kind, f64>, charge: f64) -> Prices {
    prices.at_distance(distance(events.iter().map(|(kind, n)| (*kind, *n)), charge))
}

/// Returns the connections per transaction of a load, counted with everything on.
pub(super) fn connected(records: &[Record], load: &str) -> f64 {
    done(records, load, "connections").unwrap_or(0.0)
}

/// Returns a figure of effort per transaction of a load, counted with everything on; `None` if it was not
/// counted.
fn done(records: &[Record], load: &str, figure: &str) -> Option<f64> {
    records.iter().find_map(|record| match record {
        Record::Effort(effort) if effort.cell.workload == load && effort.setting == EVERYTHING => {
            effort.per_transaction.get(figure).copied()
        }
        _ => None,
    })
}

/// Returns the cost of a connection besides its events: the difference of a server with everything off, and
/// with everything on, from one without a Performance Schema, minus the price of the events. Each block is a
/// start of all three.
///
/// # Errors
///
/// [`Missing`].
pub fn connecting(
    records: &[Record],
    everything: &PriceSetting,
    prices: &Prices,
) -> Result<ConnectionCost, Missing> {
    let Some(analysis) = Analysis::of(records) else { return Err(Missing::Starts) };
    let Some(cell) = analysis.cells.first() else { return Err(Missing::Starts) };
    let load = &cell.cell.workload;
    let Some(charge) = charge(cell, NONE) else { return Err(Missing::Load { load: load.clone() }) };
    let (events, connected) = (events(records, load)?, connected(records, load));
    if connected <= 0.0 {
        return Err(Missing::Events { load: load.clone() });
    }
    let prices = of_load(prices, &events, charge);
    let besides = |setting: &str, level: &dyn Fn(Kind) -> Level| {
        let own = shares(cell, setting);
        if own.len() < 2 {
            return Err(Missing::Starts);
        }
        let of_events: f64 = events.iter().map(|(kind, n)| n * prices.cost(*kind, level(*kind)).ns).sum();
        Ok(MeanEstimate::of(&own).times(charge).less(of_events).times(1.0 / connected).cost())
    };
    let off = besides(NOTHING, &|_| Level::Off)?;
    let on = besides(EVERYTHING, &|kind| everything.levels.get(&kind).copied().unwrap_or(Level::Off))?;
    // The cost with everything on is at least that with everything off, despite noise.
    let on = Cost { ns: on.ns.max(off.ns), low: on.low, high: on.high.max(off.ns) };
    Ok(ConnectionCost { off, on })
}

/// A mean, its variance and degrees of freedom.
struct MeanEstimate {
    mean: f64,
    variance: f64,
    degrees: f64,
}

impl MeanEstimate {
    /// Returns the mean of the values of several starts; there must be at least two.
    #[allow(clippy::cast_precision_loss)] // some starts
    fn of(each: &[f64]) -> MeanEstimate {
        let count = each.len() as f64;
        let mean = each.iter().sum::<f64>() / count;
        let variance = each.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (count - 1.0) / count;
        MeanEstimate { mean, variance: variance.max(1e-12), degrees: count - 1.0 }
    }

    fn times(self, factor: f64) -> MeanEstimate {
        MeanEstimate { mean: self.mean * factor, variance: self.variance * factor.powi(2), ..self }
    }

    fn less(self, what: f64) -> MeanEstimate {
        MeanEstimate { mean: self.mean - what, ..self }
    }

    /// Returns the cost with its interval, both at least 0.
    fn cost(&self) -> Cost {
        let half = quantile(self.degrees) * self.variance.sqrt();
        let [low, ns, high] = [-half, 0.0, half].map(|it| (self.mean + it).max(0.0));
        Cost { ns, low, high }
    }
}

/// Returns the weighted mean of figures and the prior, whose standard deviation is as large as itself; at
/// least 0.
#[allow(clippy::cast_precision_loss)] // some loads
fn weighed(each: &[MeanEstimate], believed: f64) -> Cost {
    let weights: f64 = each.iter().map(|it| 1.0 / it.variance).sum();
    let mean = each.iter().map(|it| it.mean / it.variance).sum::<f64>() / weights;
    let misfit: f64 = each.iter().map(|it| (it.mean - mean).powi(2) / it.variance).sum();
    let contradiction = (misfit / (each.len() as f64 - 1.0).max(1.0)).max(1.0);
    let (measured, before) = (weights / contradiction, believed.powi(-2));
    let mean = (measured * mean + before * believed) / (measured + before);
    let half = quantile(each.iter().map(|it| it.degrees).sum()) / (measured + before).sqrt();
    let at_least_nothing = |value: f64| value.max(0.0);
    let ends = (at_least_nothing(mean - half), at_least_nothing(mean + half));
    Cost { ns: at_least_nothing(mean), low: ends.0, high: ends.1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(each: &[(f64, f64)]) -> Cost {
        let each: Vec<MeanEstimate> =
            each.iter().map(|&(mean, variance)| MeanEstimate { mean, variance, degrees: 5.0 }).collect();
        weighed(&each, 2.0)
    }

    #[test]
    fn figures_weigh_by_how_exact_they_are_and_widen_where_they_contradict() {
        let alike = of(&[(3.0, 0.01), (3.0, 1.0)]);
        assert!((alike.ns - 3.0).abs() < 0.01 && alike.high - alike.low < 0.5, "{alike:?}");
        let apart = of(&[(3.0, 0.01), (4.0, 0.01)]);
        assert!(apart.low < 3.0 && apart.high > 4.0, "{apart:?}");
        let below = of(&[(-1.0, 0.01)]);
        assert_eq!((below.ns, below.low), (0.0, 0.0));
    }

    #[test]
    fn what_is_hardly_measured_is_what_was_believed() {
        let hardly = of(&[(30.0, 1e6)]);
        assert!((hardly.ns - 2.0).abs() < 0.01, "{hardly:?}");
        assert!(hardly.low == 0.0 && hardly.high > 5.0 && hardly.high < 8.0, "{hardly:?}");
    }
}
