//! How a figure goes on from run to run: it stays, it changes at a point, or it drifts.
//!
//! Of every run there is an estimate and how exactly it is known. *Change points* are found by binary segmentation: of all
//! places where the runs could be cut in two the one where both parts differ most, measured by what their estimates are
//! uncertain by; if noise does not explain that difference, both parts are looked at alike. For all places together noise
//! passes for a change in at most 5% of histories (Bonferroni). A *trend* is a line that explains the runs better than the
//! changes do (Schwarz, *Estimating the dimension of a model*, Ann. Statist. 6, 1978) and whose slope is not 0.

use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};

/// What noise is allowed to pass for something.
const ERROR: f64 = 0.05;
/// Runs without which there is no telling a trend.
const FEWEST_OF_TREND: usize = 3;

/// An estimate and its standard error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
}

/// A change from one run to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Place of the first run after it.
    pub at: usize,
    /// The runs before it, since the change before that.
    pub before: Estimate,
    /// The runs after it, until the next change.
    pub after: Estimate,
}

/// How a figure goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum Course {
    /// Fewer than two runs can be compared.
    Unknown,
    /// Noise explains all differences: the level.
    Steady(Estimate),
    /// It changes, here.
    Changes(Vec<Change>),
    /// It goes up or down, by so much from run to run.
    Trend(Estimate),
}

impl Estimate {
    /// How far the truth may be on either side, with 95% confidence.
    pub fn plus_minus(&self) -> f64 {
        self.error * quantile(1.0 - ERROR / 2.0)
    }

    /// The mean of several, each weighed by how exactly it is known.
    fn of(all: &[Estimate]) -> Estimate {
        let weights: f64 = all.iter().map(|e| e.error.powi(-2)).sum();
        let value = all.iter().map(|e| e.value * e.error.powi(-2)).sum::<f64>() / weights;
        Estimate { value, error: weights.powf(-0.5) }
    }

    /// How many of its standard errors away from 0.
    fn z(&self) -> f64 {
        (self.value / self.error).abs()
    }
}

impl Change {
    /// By how much.
    pub fn by(&self) -> Estimate {
        Estimate {
            value: self.after.value - self.before.value,
            error: self.before.error.hypot(self.after.error),
        }
    }
}

impl Course {
    /// Of runs in their order.
    pub fn of(runs: &[Estimate]) -> Course {
        if runs.len() < 2 {
            return Course::Unknown;
        }
        #[allow(clippy::cast_precision_loss)] // some runs
        let needed = quantile(1.0 - ERROR / 2.0 / (runs.len() - 1) as f64);
        let mut cuts = vec![];
        cut(runs, 0, needed, &mut cuts);
        cuts.sort_unstable();
        let level = Estimate::of(runs);
        let parts = parts(runs, &cuts);
        let steps = misfit(parts.iter().flat_map(|part| part.iter().map(|e| (*e, Estimate::of(part).value))));
        let line = Line::of(runs);
        let drawn = misfit((0u32..).zip(runs).map(|(x, e)| (*e, line.at(f64::from(x)))));
        let better = score(drawn, 2, runs) < score(steps, 2 * cuts.len() + 1, runs);
        if runs.len() >= FEWEST_OF_TREND && better && line.slope.z() > quantile(1.0 - ERROR / 2.0) {
            return Course::Trend(line.slope);
        }
        if cuts.is_empty() {
            return Course::Steady(level);
        }
        let pairs = parts.windows(2).zip(cuts);
        Course::Changes(
            pairs
                .map(|(pair, at)| Change { at, before: Estimate::of(pair[0]), after: Estimate::of(pair[1]) })
                .collect(),
        )
    }
}

/// Finds where `runs`, of which the first is the one at `from`, are to be cut.
fn cut(runs: &[Estimate], from: usize, needed: f64, cuts: &mut Vec<usize>) {
    let differ = |at: usize| {
        Change { at, before: Estimate::of(&runs[..at]), after: Estimate::of(&runs[at..]) }.by().z()
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

/// What a model leaves unexplained: squares of what estimates are off by, in standard errors.
fn misfit(runs: impl Iterator<Item = (Estimate, f64)>) -> f64 {
    runs.map(|(e, model)| ((e.value - model) / e.error).powi(2)).sum()
}

/// The lower, the better a model of so many figures explains the runs.
#[allow(clippy::cast_precision_loss)] // some runs
fn score(misfit: f64, figures: usize, runs: &[Estimate]) -> f64 {
    misfit + figures as f64 * (runs.len() as f64).ln()
}

/// The line that leaves least unexplained.
struct Line {
    middle: (f64, f64),
    slope: Estimate,
}

impl Line {
    fn of(runs: &[Estimate]) -> Line {
        let weighted = || (0u32..).zip(runs).map(|(x, e)| (f64::from(x), e.value, e.error.powi(-2)));
        let all: f64 = weighted().map(|(_, _, w)| w).sum();
        let middle = (
            weighted().map(|(x, _, w)| x * w).sum::<f64>() / all,
            weighted().map(|(_, y, w)| y * w).sum::<f64>() / all,
        );
        let spread: f64 = weighted().map(|(x, _, w)| w * (x - middle.0).powi(2)).sum();
        let rise: f64 = weighted().map(|(x, y, w)| w * (x - middle.0) * (y - middle.1)).sum();
        Line { middle, slope: Estimate { value: rise / spread, error: spread.powf(-0.5) } }
    }

    fn at(&self, x: f64) -> f64 {
        self.middle.1 + self.slope.value * (x - self.middle.0)
    }
}

/// Of the normal distribution.
fn quantile(share: f64) -> f64 {
    Normal::standard().inverse_cdf(share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skewed::normal;

    fn runs(values: &[f64], error: f64) -> Vec<Estimate> {
        values.iter().map(|&value| Estimate { value, error }).collect()
    }

    fn changes(values: &[f64]) -> Vec<usize> {
        match Course::of(&runs(values, 0.002)) {
            Course::Changes(changes) => changes.iter().map(|c| c.at).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_change_is_found_where_it_is() {
        assert_eq!(changes(&[0.010, 0.012, 0.031]), [2]);
        assert_eq!(changes(&[0.010, 0.030]), [1]);
        assert_eq!(changes(&[0.010, 0.011, 0.030, 0.031, 0.029, 0.012, 0.010]), [2, 5]);
        let Course::Changes(found) = Course::of(&runs(&[0.010, 0.012, 0.031], 0.002)) else {
            panic!("no change")
        };
        let by = found[0].by();
        assert!((by.value - 0.020).abs() < 1e-9 && (by.error - 0.002 * 1.5f64.sqrt()).abs() < 1e-9, "{by:?}");
    }

    #[test]
    fn noise_is_no_change_and_exact_runs_say_more() {
        assert!(matches!(Course::of(&runs(&[0.010, 0.013, 0.011, 0.009], 0.002)), Course::Steady(_)));
        let mut last = runs(&[0.010, 0.012, 0.031], 0.002);
        last[2].error = 0.02;
        assert!(matches!(Course::of(&last), Course::Steady(_)), "a run that is not known is no change");
        assert_eq!(Course::of(&runs(&[0.01], 0.002)), Course::Unknown);
    }

    #[test]
    fn what_drifts_is_a_trend() {
        let Course::Trend(slope) = Course::of(&runs(&[0.010, 0.016, 0.021, 0.025, 0.031], 0.002)) else {
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
            found += usize::from(matches!(Course::of(&all), Course::Changes(_)));
        }
        // 5% at most; 2,000 of them give or take 1.5%.
        assert!(found < 130, "{found} of 2000");
    }
}
