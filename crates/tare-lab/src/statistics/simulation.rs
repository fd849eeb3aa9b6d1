//! Calibration of the intervals: simulated errors of known shapes, and how often intervals miss the truth.

use super::sequential::{Errors, Looks};
use super::skewed::normal;

/// A distribution of errors with mean 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorDistribution {
    /// Normal (Gaussian).
    Normal,
    /// Exponential: skewness 2.
    Exponential,
    /// Lognormal with a sigma of 1: skewness 6.
    Lognormal,
    /// Student's t with 3 degrees of freedom.
    HeavyTails,
    /// Normal, but one in ten is ten times as far off.
    Wild,
    /// Three of ten are higher, by two standard deviations of the others.
    TwoModes,
    /// One in ten is higher, by ten standard deviations of the others: the first few values may not show it.
    RareMode,
    /// A lognormal error minus the mean of two others: a setting's own against those of its base and the A/A
    /// control.
    AgainstTwo,
}

impl ErrorDistribution {
    /// All shapes.
    pub const ALL: [ErrorDistribution; 8] = [
        ErrorDistribution::Normal,
        ErrorDistribution::Exponential,
        ErrorDistribution::Lognormal,
        ErrorDistribution::HeavyTails,
        ErrorDistribution::Wild,
        ErrorDistribution::TwoModes,
        ErrorDistribution::RareMode,
        ErrorDistribution::AgainstTwo,
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            ErrorDistribution::Normal => "normal",
            ErrorDistribution::Exponential => "exponential (skewness 2)",
            ErrorDistribution::Lognormal => "lognormal, σ = 1 (skewness 6)",
            ErrorDistribution::HeavyTails => "heavy tails (Student's t, 3 degrees)",
            ErrorDistribution::Wild => "normal, one in ten 10 times as far off",
            ErrorDistribution::TwoModes => "two modes, 7 to 3, 2 σ apart",
            ErrorDistribution::RareMode => "two modes, 9 to 1, 10 σ apart",
            ErrorDistribution::AgainstTwo => "lognormal, less the mean of two such (base and A/A control)",
        }
    }

    /// Draws one error.
    pub fn draw(self, random: &mut fastrand::Rng) -> f64 {
        let lognormal = |random: &mut fastrand::Rng| normal(random).exp() - 0.5_f64.exp();
        let modes = |share: f64, apart: f64, random: &mut fastrand::Rng| {
            let higher = if random.f64() < share { apart } else { 0.0 };
            normal(random) + higher - share * apart
        };
        match self {
            ErrorDistribution::Normal => normal(random),
            ErrorDistribution::Exponential => -(1.0 - random.f64()).ln() - 1.0,
            ErrorDistribution::Lognormal => lognormal(random),
            ErrorDistribution::HeavyTails => {
                let squares: f64 = (0..3).map(|_| normal(random).powi(2)).sum();
                normal(random) / (squares / 3.0).sqrt()
            }
            ErrorDistribution::Wild => normal(random) * if random.f64() < 0.1 { 10.0 } else { 1.0 },
            ErrorDistribution::TwoModes => modes(0.3, 2.0, random),
            ErrorDistribution::RareMode => modes(0.1, 10.0, random),
            ErrorDistribution::AgainstTwo => {
                lognormal(random) - f64::midpoint(lognormal(random), lognormal(random))
            }
        }
    }
}

/// Simulates studies of at most `most` values, with a look after each; returns how many have an interval that
/// misses the truth.
pub fn misses(errors: Errors, shape: ErrorDistribution, most: usize, studies: usize) -> usize {
    let looks = Looks::at_most(errors, most);
    let mut random = fastrand::Rng::with_seed(11);
    let mut missed = || {
        let values: Vec<f64> = (0..most).map(|_| shape.draw(&mut random)).collect();
        (1..=most).any(|seen| {
            let interval = looks.judge(&values[..seen]).and_then(|j| j.interval);
            interval.is_some_and(|e| e.low > 0.0 || e.high < 0.0)
        })
    };
    (0..studies).filter(|_| missed()).count()
}
