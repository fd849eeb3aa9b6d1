//! The mean of values that may be skewed, with an interval that is valid for few of them.
//!
//! For skewed values, the mean and its standard error are correlated, so Student's statistic is skewed in the
//! opposite direction. Hall's transformation removes that: a monotone cubic polynomial of the statistic,
//! which can be inverted (Hall, *On the removal of skewness by transformation*, J. R. Statist. Soc. B 54,
//! 1992). With few values, their skewness itself is hardly known. So the limits are simulated, by look, for a
//! lognormal distribution with a sigma of 1, whose skewness is 6. They are conservative for less skewed
//! values.

use super::spending::Spending;
use super::summary::{Estimate, mean};

/// Fewest values for an interval, as fewer do not show the distribution.
const LEAST: usize = 6;

/// The moments of a sample.
#[derive(Clone, Copy, Debug)]
struct Moments {
    count: f64,
    mean: f64,
    /// Root of the mean square deviation.
    deviation: f64,
    /// Mean cube deviation divided by the deviation's cube.
    skewness: f64,
}

impl Moments {
    #[allow(clippy::cast_precision_loss)] // few
    fn of(values: &[f64]) -> Moments {
        let (count, mean) = (values.len() as f64, mean(values));
        let central = |power: i32| values.iter().map(|v| (v - mean).powi(power)).sum::<f64>() / count;
        let deviation = central(2).sqrt();
        let skewness = if deviation > 0.0 { central(3) / deviation.powi(3) } else { 0.0 };
        Moments { count, mean, deviation, skewness }
    }

    /// Returns Student's statistic of the difference from 0, transformed.
    fn statistic(&self) -> f64 {
        let (w, g) = (self.mean / self.deviation, self.skewness);
        (w + g * w.powi(2) / 3.0 + g.powi(2) * w.powi(3) / 27.0 + g / (6.0 * self.count)) * self.scale()
    }

    /// Returns how far the truth is below the mean for a given statistic of the difference.
    fn below(&self, statistic: f64) -> f64 {
        let (y, g) = (statistic / self.scale() - self.skewness / (6.0 * self.count), self.skewness);
        let w = if g.abs() < 1e-9 { y } else { ((1.0 + g * y).cbrt() - 1.0) * 3.0 / g };
        w * self.deviation
    }

    fn scale(&self) -> f64 {
        (self.count - 1.0).sqrt()
    }
}

/// Returns the range of truths whose statistic is within the limit; `None` where that is infinite.
pub(crate) fn interval(value: f64, values: &[f64], limit: f64) -> Option<Estimate> {
    let moments = Moments::of(values);
    let (low, high) = (moments.mean - moments.below(limit), moments.mean - moments.below(-limit));
    limit.is_finite().then_some(Estimate { value, low, high })
}

/// Returns, for every look, the limit of the statistic that spends the allowed error.
pub(crate) fn limits(spending: Spending, mut random: fastrand::Rng) -> Vec<f64> {
    let mut courses: Vec<SimulatedMoments> =
        (0..spending.courses).map(|_| SimulatedMoments::default()).collect();
    let mut spent = 0;
    (1..=spending.last)
        .map(|seen| {
            courses.iter_mut().for_each(|course| course.step(&mut random));
            let outside = spending.outside(seen).saturating_sub(spent);
            if seen < LEAST || outside == 0 {
                return f64::INFINITY;
            }
            courses.sort_by(|one, other| other.statistic.total_cmp(&one.statistic));
            let limit = courses.get(outside).map_or(f64::INFINITY, |course| course.statistic);
            let before = courses.len();
            courses.retain(|course| course.statistic <= limit);
            spent += before - courses.len();
            limit
        })
        .collect()
}

/// Random values around 0, as the sums of their powers.
#[derive(Debug, Default)]
struct SimulatedMoments {
    count: f64,
    sums: [f64; 3],
    /// Absolute value of the statistic.
    statistic: f64,
}

impl SimulatedMoments {
    fn step(&mut self, random: &mut fastrand::Rng) {
        let value = normal(random).exp() - 0.5_f64.exp();
        self.count += 1.0;
        for (sum, power) in self.sums.iter_mut().zip(1..) {
            *sum += value.powi(power);
        }
        let [mean, square, cube] = self.sums.map(|sum| sum / self.count);
        let deviation = (square - mean.powi(2)).max(0.0).sqrt();
        let skewness = (cube - 3.0 * mean * square + 2.0 * mean.powi(3)) / deviation.powi(3);
        let statistic = Moments { count: self.count, mean, deviation, skewness }.statistic().abs();
        self.statistic = if statistic.is_nan() { 0.0 } else { statistic };
    }
}

/// Draws a value of the standard normal distribution (Box and Muller).
pub(crate) fn normal(random: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (random.f64() * std::f64::consts::TAU).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transformation_is_inverted() {
        let moments = Moments::of(&[0.1, 0.2, 0.2, 0.3, 0.5, 1.9]);
        for statistic in [-3.0, -1.0, 0.0, 0.5, 4.0] {
            let shifted = Moments { mean: moments.below(statistic), ..moments };
            assert!((shifted.statistic() - statistic).abs() < 1e-9, "{statistic}");
        }
    }

    #[test]
    fn without_skewness_it_is_students() {
        // t(0.975, 4) = 2.776445; the standard error of 1..5 is sqrt(2.5 / 5).
        let interval = interval(3.0, &[1.0, 2.0, 3.0, 4.0, 5.0], 2.776_445).expect("a limit");
        assert!((interval.high - 3.0 - 2.776_445 * 0.5_f64.sqrt()).abs() < 1e-9, "{interval:?}");
        assert!((interval.high + interval.low - 6.0).abs() < 1e-9, "{interval:?}");
    }

    #[test]
    fn values_that_are_all_the_same_have_no_width() {
        let interval = interval(2.0, &[2.0; 6], 5.0).expect("a limit");
        assert_eq!((interval.low, interval.high), (2.0, 2.0));
    }

    #[test]
    fn the_interval_reaches_further_to_where_values_do() {
        let values = [0.0, 0.1, 0.1, 0.2, 0.2, 3.0];
        let interval = interval(mean(&values), &values, 5.0).expect("a limit");
        assert!(interval.high - interval.value > 2.0 * (interval.value - interval.low), "{interval:?}");
    }
}
