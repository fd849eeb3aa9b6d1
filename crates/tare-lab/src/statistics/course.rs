//! The history of a figure over runs: steady, changing at points, or drifting.
//!
//! Each run gives an estimate and its standard error. *Change points* are found by binary segmentation: the
//! runs are cut where both parts differ most in terms of their errors; if noise does not explain that
//! difference, both parts are searched in the same way. Over all cuts, noise is taken for a change in at most
//! 5% of histories (Bonferroni). A *trend* is a line that explains the runs better than the changes do
//! (Schwarz, *Estimating the dimension of a model*, Ann. Statist. 6, 1978) and whose slope is not 0.

use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};

/// Probability that noise is taken for a change or a trend.
const ERROR: f64 = 0.05;
/// The fewest runs that can show a trend.
const FEWEST_OF_TREND: usize = 3;

/// An estimate and its standard error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
}

/// A change from one run to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// Index of the first run after it.
    pub at: usize,
    /// Mean of the runs since the previous change.
    pub before: Estimate,
    /// Mean of the runs until the next change.
    pub after: Estimate,
}

/// The shape of a figure's history.
#[derive(Clone, Debug, PartialEq)]
pub enum SeriesShape {
    /// Fewer than two runs can be compared.
    Unknown,
    /// Noise explains all differences; the level.
    Steady(Estimate),
    /// It changes at these points.
    Changes(Vec<ChangePoint>),
    /// It rises or falls by this much from run to run.
    Trend(Estimate),
}

impl Estimate {
    /// Returns half the width of the 95% confidence interval.
    pub fn plus_minus(&self) -> f64 {
        self.error * quantile(1.0 - ERROR / 2.0)
    }

    /// Returns the mean of several estimates, weighted by the inverse squares of their errors.
    fn of(all: &[Estimate]) -> Estimate {
        let weights: f64 = all.iter().map(|e| e.error.powi(-2)).sum();
        let value = all.iter().map(|e| e.value * e.error.powi(-2)).sum::<f64>() / weights;
        Estimate { value, error: weights.powf(-0.5) }
    }

    /// Returns its distance from 0 in standard errors.
    fn z(&self) -> f64 {
        (self.value / self.error).abs()
    }
}

impl ChangePoint {
    /// Returns the size of the change.
    pub fn by(&self) -> Estimate {
        Estimate {
            value: self.after.value - self.before.value,
            error: self.before.error.hypot(self.after.error),
        }
    }
}

impl SeriesShape {
    /// Classifies runs, given in their order.
    ///
    /// # Examples
    ///
    /// ```
    /// use tare_lab::course::{Estimate, SeriesShape};
    ///
    /// // A cost of 3% in four runs, then of 5%.
    /// let costs = [0.030, 0.031, 0.029, 0.030, 0.050, 0.051, 0.049, 0.050];
    /// let runs = costs.map(|value| Estimate { value, error: 0.001 });
    /// let SeriesShape::Changes(changes) = SeriesShape::of(&runs) else { panic!("it changes") };
    /// assert_eq!(changes.len(), 1);
    /// assert_eq!(changes[0].at, 4);
    /// assert!((changes[0].by().value - 0.02).abs() < 1e-9);
    /// assert!(matches!(SeriesShape::of(&runs[..4]), SeriesShape::Steady(_)));
    /// ```
    pub fn of(runs: &[Estimate]) -> SeriesShape {
        if runs.len() < 2 {
            return SeriesShape::Unknown;
        }
        #[allow(clippy::cast_precision_loss)] // some runs
        let needed = quantile(1.0 - ERROR / 2.0 / (runs.len() - 1) as f64);
        let mut cuts = vec![];
        cut(runs, 0, needed, &mut cuts);
        cuts.sort_unstable();
        let level = Estimate::of(runs);
        let parts = parts(runs, &cuts);
        let steps = misfit(parts.iter().flat_map(|part| part.iter().map(|e| (*e, Estimate::of(part).value))));
        let line = TrendLine::of(runs);
        let drawn = misfit((0u32..).zip(runs).map(|(x, e)| (*e, line.at(f64::from(x)))));
        let better = score(drawn, 2, runs) < score(steps, 2 * cuts.len() + 1, runs);
        if runs.len() >= FEWEST_OF_TREND && better && line.slope.z() > quantile(1.0 - ERROR / 2.0) {
            return SeriesShape::Trend(line.slope);
        }
        if cuts.is_empty() {
            return SeriesShape::Steady(level);
        }
        let pairs = parts.windows(2).zip(cuts);
        SeriesShape::Changes(
            pairs
                .map(|(pair, at)| ChangePoint {
                    at,
                    before: Estimate::of(pair[0]),
                    after: Estimate::of(pair[1]),
                })
                .collect(),
        )
    }
}

/// Finds the cuts of `runs`, whose first run has the index `from`.
fn cut(runs: &[Estimate], from: usize, needed: f64, cuts: &mut Vec<usize>) {
    let differ = |at: usize| {
        ChangePoint { at, before: Estimate::of(&runs[..at]), after: Estimate::of(&runs[at..]) }.by().z()
    };
    let best = (1..runs.len()).max_by(|a, b| differ(*a).total_cmp(&differ(*b)));
    let Some(at) = best.filter(|at| differ(*at) > needed) else { return };
    cuts.push(from + at);
    cut(&runs[..at], from, needed, cuts);
    cut(&runs[at..], from + at, needed, cuts);
}

fn parts<'a>(runs: &'a [Estimate], cuts: &[usize]) -> Vec<&'a [Estimate]> {
    let begins = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([runs.len()]);
    begins.zip(ends).map(|(begin, end)| &runs[begin..end]).collect()
}

/// Returns the sum of the squared residuals of a model, in standard errors.
fn misfit(runs: impl Iterator<Item = (Estimate, f64)>) -> f64 {
    runs.map(|(e, model)| ((e.value - model) / e.error).powi(2)).sum()
}

/// Returns the Bayesian information criterion of a model with so many parameters; lower is better.
#[allow(clippy::cast_precision_loss)] // some runs
fn score(misfit: f64, figures: usize, runs: &[Estimate]) -> f64 {
    misfit + figures as f64 * (runs.len() as f64).ln()
}

/// The line with the smallest misfit.
struct TrendLine {
    middle: (f64, f64),
    slope: Estimate,
}

impl TrendLine {
    fn of(runs: &[Estimate]) -> TrendLine {
        let weighted = || (0u32..).zip(runs).map(|(x, e)| (f64::from(x), e.value, e.error.powi(-2)));
        let all: f64 = weighted().map(|(_, _, w)| w).sum();
        let middle = (
            weighted().map(|(x, _, w)| x * w).sum::<f64>() / all,
            weighted().map(|(_, y, w)| y * w).sum::<f64>() / all,
        );
        let spread: f64 = weighted().map(|(x, _, w)| w * (x - middle.0).powi(2)).sum();
        let rise: f64 = weighted().map(|(x, y, w)| w * (x - middle.0) * (y - middle.1)).sum();
        TrendLine { middle, slope: Estimate { value: rise / spread, error: spread.powf(-0.5) } }
    }

    fn at(&self, x: f64) -> f64 {
        self.middle.1 + self.slope.value * (x - self.middle.0)
    }
}

/// Returns a quantile of the standard normal distribution.
fn quantile(share: f64) -> f64 {
    Normal::standard().inverse_cdf(share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::skewed::normal;

    fn runs(values: &[f64], error: f64) -> Vec<Estimate> {
        values.iter().map(|&value| Estimate { value, error }).collect()
    }

    fn changes(values: &[f64]) -> Vec<usize> {
        match SeriesShape::of(&runs(values, 0.002)) {
            SeriesShape::Changes(changes) => changes.iter().map(|c| c.at).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_change_is_found_where_it_is() {
        assert_eq!(changes(&[0.010, 0.012, 0.031]), [2]);
        assert_eq!(changes(&[0.010, 0.030]), [1]);
        assert_eq!(changes(&[0.010, 0.011, 0.030, 0.031, 0.029, 0.012, 0.010]), [2, 5]);
        let SeriesShape::Changes(found) = SeriesShape::of(&runs(&[0.010, 0.012, 0.031], 0.002)) else {
            panic!("no change")
        };
        let by = found[0].by();
        assert!((by.value - 0.020).abs() < 1e-9 && (by.error - 0.002 * 1.5f64.sqrt()).abs() < 1e-9, "{by:?}");
    }

    #[test]
    fn noise_is_no_change_and_exact_runs_say_more() {
        assert!(matches!(
            SeriesShape::of(&runs(&[0.010, 0.013, 0.011, 0.009], 0.002)),
            SeriesShape::Steady(_)
        ));
        let mut last = runs(&[0.010, 0.012, 0.031], 0.002);
        last[2].error = 0.02;
        assert!(
            matches!(SeriesShape::of(&last), SeriesShape::Steady(_)),
            "a run that is not known is no change"
        );
        assert_eq!(SeriesShape::of(&runs(&[0.01], 0.002)), SeriesShape::Unknown);
    }

    #[test]
    fn what_drifts_is_a_trend() {
        let SeriesShape::Trend(slope) = SeriesShape::of(&runs(&[0.010, 0.016, 0.021, 0.025, 0.031], 0.002))
        else {
            panic!("no trend")
        };
        assert!((slope.value - 0.0051).abs() < 1e-9 && slope.plus_minus() < 0.002, "{slope:?}");
    }

    #[test]
    fn noise_passes_for_something_as_seldom_as_is_said() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut found = 0;
        for _ in 0..2000 {
            let all: Vec<Estimate> = (0..6)
                .map(|_| Estimate { value: 0.01 + 0.002 * normal(&mut random), error: 0.002 })
                .collect();
            found += usize::from(matches!(SeriesShape::of(&all), SeriesShape::Changes(_)));
        }
        // At most 5% of 2,000 histories, plus or minus 1.5%.
        assert!(found < 130, "{found} of 2000");
    }
}
