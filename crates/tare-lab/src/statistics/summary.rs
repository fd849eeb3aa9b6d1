//! Mean and median of a relative change, each with its 95% interval.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Share of intervals that contain the true value.
const CONFIDENCE: f64 = 0.95;
/// Resamples for a bootstrap interval.
const RESAMPLES: usize = 4000;
/// Seed of the resampling, so that equal samples give equal reports.
const SEED: u64 = 0x7a7e;

/// A figure with its 95% interval. Relative changes: 0.012 is +1.2%.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Estimate {
    /// Returns the relative change for the logarithm of a ratio.
    #[must_use]
    pub fn exp_m1(self) -> Estimate {
        Estimate { value: self.value.exp_m1(), low: self.low.exp_m1(), high: self.high.exp_m1() }
    }

    /// Returns half the width of the interval.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// A relative change of paired measurements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PairedChange {
    /// Geometric mean of the ratios minus 1; Student's t on the logarithms.
    pub mean: Estimate,
    /// Median of the ratios minus 1; bootstrap percentiles.
    pub median: Estimate,
    /// Number of pairs.
    pub pairs: usize,
}

impl PairedChange {
    /// Computes it from the natural logarithms of the pairs' ratios; `None` with fewer than two pairs.
    ///
    /// # Examples
    ///
    /// ```
    /// use tare_lab::statistics::PairedChange;
    ///
    /// // CPU seconds of four pairs of slices: a setting and its base.
    /// let pairs = [(2.06_f64, 2.0), (2.07, 2.01), (2.04, 1.98), (2.08, 2.02)];
    /// let change = PairedChange::of(&pairs.map(|(setting, base)| (setting / base).ln())).expect("four pairs");
    /// assert!((change.mean.value - 0.03).abs() < 0.001);
    /// assert!(change.mean.low > 0.025 && change.mean.high < 0.035);
    /// assert_eq!(PairedChange::of(&[0.03]), None);
    /// ```
    pub fn of(log_ratios: &[f64]) -> Option<PairedChange> {
        let mean = mean_interval(log_ratios)?;
        let median = bootstrap(log_ratios, median);
        Some(PairedChange { mean: mean.exp_m1(), median: median.exp_m1(), pairs: log_ratios.len() })
    }
}

/// Returns the arithmetic mean; NaN without values.
#[allow(clippy::cast_precision_loss)]
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the median; NaN without values.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Returns a quantile with linear interpolation between neighbours; NaN without values.
///
/// # Examples
///
/// ```
/// use tare_lab::statistics::quantile;
///
/// assert_eq!(quantile(&[30.0, 10.0, 20.0], 0.5), 20.0);
/// assert_eq!(quantile(&[10.0, 20.0], 0.75), 17.5);
/// ```
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = q * last as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// Returns the mean and its standard error; `None` with fewer than two values.
#[allow(clippy::cast_precision_loss)]
pub fn mean_and_error(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    let degrees = (n >= 2.0).then_some(n - 1.0)?;
    let centre = mean(values);
    let variance = values.iter().map(|v| (v - centre).powi(2)).sum::<f64>() / degrees;
    Some((centre, (variance / n).sqrt()))
}

/// Returns the mean with Student's t interval; `None` with fewer than two values.
#[allow(clippy::cast_precision_loss)]
pub fn mean_interval(values: &[f64]) -> Option<Estimate> {
    let (centre, error) = mean_and_error(values)?;
    let student = StudentsT::new(0.0, 1.0, values.len() as f64 - 1.0).ok()?;
    let half = student.inverse_cdf(0.5 + CONFIDENCE / 2.0) * error;
    Some(Estimate { value: centre, low: centre - half, high: centre + half })
}

/// Returns a statistic with its bootstrap percentile interval.
///
/// # Examples
///
/// ```
/// use tare_lab::statistics::{bootstrap, median};
///
/// // An outlier moves neither the median nor, by much, its interval.
/// let estimate = bootstrap(&[10.0, 10.1, 9.9, 10.2, 9.8, 10.0, 55.0], median);
/// assert_eq!(estimate.value, 10.0);
/// assert!(estimate.low > 9.7 && estimate.high < 10.3);
/// ```
pub fn bootstrap(values: &[f64], statistic: impl Fn(&[f64]) -> f64) -> Estimate {
    let indices: Vec<usize> = (0..values.len()).collect();
    bootstrap_rows(&indices, |rows| statistic(&rows.iter().map(|&i| values[i]).collect::<Vec<_>>()))
}

/// Returns a statistic of whole rows (rounds), which are resampled together, with its interval. See also
/// [`bootstrap`].
pub fn bootstrap_rows<R: Copy>(rows: &[R], statistic: impl Fn(&[R]) -> f64) -> Estimate {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut drawn = rows.to_vec();
    let resampled: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            drawn.fill_with(|| rows[random.usize(..rows.len())]);
            statistic(&drawn)
        })
        .collect();
    let tail = (1.0 - CONFIDENCE) / 2.0;
    Estimate {
        value: statistic(rows),
        low: quantile(&resampled, tail),
        high: quantile(&resampled, 1.0 - tail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, within: f64) {
        assert!((a - b).abs() <= within, "{a} is not {b}");
    }

    #[test]
    fn medians_and_quantiles() {
        close(median(&[3.0, 1.0, 2.0]), 2.0, 0.0);
        close(median(&[4.0, 1.0, 2.0, 3.0]), 2.5, 0.0);
        close(quantile(&[0.0, 10.0], 0.25), 2.5, 0.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_mean_interval_is_students() {
        // t(0.975, 4) = 2.776445; the standard error of 1..5 is sqrt(2.5 / 5).
        let e = mean_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]).expect("five values");
        close(e.value, 3.0, 1e-12);
        close(e.half_width(), 2.776_445 * 0.5_f64.sqrt(), 1e-5);
        assert!(mean_interval(&[1.0]).is_none());
    }

    #[test]
    fn a_change_is_relative() {
        let ratios = [1.10_f64, 1.12, 1.08, 1.10, 1.11, 1.09];
        let change = PairedChange::of(&ratios.map(f64::ln)).expect("six pairs");
        close(change.median.value, 0.10, 1e-9);
        close(change.mean.value, 0.10, 1e-3);
        assert!(change.mean.low < 0.10 && change.mean.high > 0.10);
        assert!(change.median.low >= 0.08 && change.median.high <= 0.12);
    }

    #[test]
    fn intervals_hold_the_truth_about_as_often_as_they_say() {
        let mut random = fastrand::Rng::with_seed(1);
        // Sums of uniform values: close to normal, with mean 0.
        let mut draw = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let holds = |e: Estimate| usize::from(e.low <= 0.0 && e.high >= 0.0);
        let (mut by_mean, mut by_median) = (0, 0);
        for _ in 0..300 {
            let values: Vec<f64> = (0..15).map(|_| draw()).collect();
            by_mean += holds(mean_interval(&values).expect("values"));
            by_median += holds(bootstrap(&values, median));
        }
        assert!((270..=297).contains(&by_mean), "{by_mean} of 300");
        assert!((265..=299).contains(&by_median), "{by_median} of 300");
    }
}
