//! Validation of prices: predicted against measured costs, under loads they were not derived from.

use tare_budget::{Cost, Prices};

use super::evidence::{Missing, charge, connected, events, of_load};
use super::experiment::{EVERYTHING, NONE, PriceSetting};
use crate::results::record::Record;
use crate::verdict::analysis::{Analysis, Difference};

/// Relative error below which prices count as right.
const QUARTER: f64 = 0.25;

/// A load's costs, as shares of its cost without a Performance Schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The load.
    pub load: String,
    /// The cost that prices predict.
    pub predicted: Cost,
    /// The cost that was measured.
    pub measured: Difference,
}

/// How a prediction agrees with the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// They differ by less than a quarter of the measured cost.
    Quarter,
    /// Each is in the other's interval.
    Intervals,
    /// Neither holds.
    Misses,
    /// There are too few starts for an interval, and they differ by more than a quarter.
    Open,
}

impl Checked {
    /// Returns how the prediction agrees with the measurement.
    #[must_use]
    pub fn verdict(&self) -> Agreement {
        let (predicted, measured) = (self.predicted, self.measured.share);
        if (predicted.ns - measured).abs() <= QUARTER * measured.abs() {
            return Agreement::Quarter;
        }
        match self.measured.interval {
            None => Agreement::Open,
            Some((low, high)) => {
                let both = (low..=high).contains(&predicted.ns)
                    && (predicted.low..=predicted.high).contains(&measured);
                if both { Agreement::Intervals } else { Agreement::Misses }
            }
        }
    }
}

/// Compares prices with the records of a study of two settings, without a Performance Schema and with
/// everything on.
///
/// # Errors
///
/// [`Missing`].
pub fn check(
    records: &[Record],
    everything: &PriceSetting,
    prices: &Prices,
) -> Result<Vec<Checked>, Missing> {
    let Some(analysis) = Analysis::of(records) else { return Err(Missing::Starts) };
    let of_cell = |cell: &crate::verdict::analysis::CellAnalysis| {
        let load = cell.cell.workload.clone();
        let measured = cell.setting(EVERYTHING).and_then(|it| it.cost);
        let (Some(charge), Some(measured)) = (charge(cell, NONE), measured) else {
            return Err(Missing::Load { load });
        };
        let events = events(records, &load)?;
        let prices = of_load(prices, &events, charge);
        let cost = events.iter().filter_map(|(kind, count)| {
            everything.levels.get(kind).map(|level| prices.cost(*kind, *level).times(*count))
        });
        let connecting = prices.connection.on.times(connected(records, &load));
        let predicted = cost.fold(connecting, Cost::plus).times(1.0 / charge);
        Ok(Checked { load, predicted, measured })
    };
    analysis.cells.iter().map(of_cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(predicted: (f64, f64, f64), measured: f64, interval: Option<(f64, f64)>) -> Agreement {
        let (low, ns, high) = predicted;
        let measured = Difference { share: measured, interval };
        Checked { load: String::new(), predicted: Cost { ns, low, high }, measured }.verdict()
    }

    #[test]
    fn prices_are_true_within_a_quarter_or_within_both_intervals() {
        assert_eq!(verdict((0.01, 0.12, 0.13), 0.10, Some((0.09, 0.11))), Agreement::Quarter);
        assert_eq!(verdict((0.05, 0.15, 0.30), 0.10, Some((0.02, 0.18))), Agreement::Intervals);
        assert_eq!(
            verdict((0.12, 0.15, 0.30), 0.10, Some((0.02, 0.18))),
            Agreement::Misses,
            "one of both only"
        );
        assert_eq!(verdict((0.05, 0.15, 0.30), 0.10, Some((0.09, 0.11))), Agreement::Misses, "the other one");
        assert_eq!(verdict((0.05, 0.15, 0.30), 0.10, None), Agreement::Open);
        assert_eq!(verdict((0.05, 0.11, 0.30), 0.10, None), Agreement::Quarter);
    }
}
