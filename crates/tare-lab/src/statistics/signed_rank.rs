//! Hodges and Lehmann's estimate, with the interval of Wilcoxon's signed-rank test.
//!
//! The estimate is the median of all means of two values (Walsh averages), which is robust against outliers.
//! Its interval inverts the test: the sorted Walsh averages without as many at either end as the test allows.
//! It only assumes that the values are independent and symmetric around the true one (Hollander, Wolfe and
//! Chicken, *Nonparametric Statistical Methods*, 3rd ed., chapter 3). The distribution of all looks' signed
//! ranks without a difference is the same for all such values.

use super::spending::Spending;
use super::summary::{Estimate, quantile};

/// Returns Hodges and Lehmann's estimate; NaN without values.
pub(crate) fn centre(values: &[f64]) -> f64 {
    quantile(&walsh(values), 0.5)
}

/// Returns the range of the Walsh averages without those outside `rank` at either end; `None` at rank 0.
pub(crate) fn interval(value: f64, values: &[f64], rank: usize) -> Option<Estimate> {
    let averages = walsh(values);
    let place = rank.checked_sub(1)?;
    Some(Estimate { value, low: *averages.get(place)?, high: *averages.get(averages.len() - rank)? })
}

/// Returns the means of every value with itself and every other, sorted.
fn walsh(values: &[f64]) -> Vec<f64> {
    let mut averages: Vec<f64> = values
        .iter()
        .enumerate()
        .flat_map(|(i, a)| values[i..].iter().map(move |b| f64::midpoint(*a, *b)))
        .collect();
    averages.sort_by(f64::total_cmp);
    averages
}

/// Returns the largest rank at every look that keeps within the error that may be spent up to it.
pub(crate) fn limits(spending: Spending, mut random: fastrand::Rng) -> Vec<usize> {
    let mut courses: Vec<SimulatedRanks> = (0..spending.courses).map(|_| SimulatedRanks::default()).collect();
    let mut spent = 0;
    (1..=spending.last)
        .map(|seen| {
            let mut nearest: Vec<usize> = courses.iter_mut().map(|c| c.step(&mut random)).collect();
            nearest.sort_unstable();
            // A sequence is outside when fewer Walsh averages than the rank lie on one side of the truth.
            let outside = spending.outside(seen).saturating_sub(spent);
            let rank = nearest.get(outside).copied().unwrap_or(0);
            let before = courses.len();
            courses.retain(|c| c.nearest() >= rank);
            spent += before - courses.len();
            rank
        })
        .collect()
}

/// Random values around 0, and how many of their Walsh averages are above it.
#[derive(Debug, Default)]
struct SimulatedRanks {
    values: Vec<f32>,
    above: usize,
}

impl SimulatedRanks {
    /// Draws one more value; returns how many Walsh averages lie on the side that has fewer.
    fn step(&mut self, random: &mut fastrand::Rng) -> usize {
        let value = random.f32() - 0.5;
        self.values.push(value);
        self.above += self.values.iter().map(|v| usize::from(v + value > 0.0)).sum::<usize>();
        self.nearest()
    }

    fn nearest(&self) -> usize {
        let all = self.values.len() * (self.values.len() + 1) / 2;
        self.above.min(all - self.above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(most: usize, last: usize) -> Vec<usize> {
        limits(Spending { most, last, courses: 20_000 }, fastrand::Rng::with_seed(0x7a7e))
    }

    #[test]
    fn the_centre_is_the_median_of_means_of_two() {
        // The averages of 1, 2, 9 are 1, 1.5, 2, 5, 5.5, 9.
        assert_eq!(centre(&[9.0, 1.0, 2.0]), 3.5);
        assert_eq!(centre(&[4.0]), 4.0);
    }

    #[test]
    fn a_single_look_is_wilcoxons_test() {
        // By the tables, 6 values allow the extremes (3.1% outside), 5 do not allow any interval (6.3%).
        assert_eq!(ranks(5, 5)[4], 0);
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let ranks = ranks(6, 6);
        assert_eq!(ranks.iter().position(|&rank| rank > 0), Some(5));
        let interval = interval(3.5, &values, ranks[5]).expect("enough values");
        assert_eq!((interval.value, interval.low, interval.high), (3.5, 1.0, 6.0));
    }

    #[test]
    fn intervals_narrow_towards_the_fixed_one() {
        // Of 20 values, a fixed 95% interval leaves out 52 averages at either end; repeated looks cost a
        // little.
        let last = ranks(20, 20)[19];
        assert!((44..=53).contains(&last), "{last}");
    }

    #[test]
    fn when_time_is_over_the_last_look_spends_what_is_left() {
        let (meant, cut) = (ranks(40, 40), ranks(40, 20));
        assert_eq!(meant[..19], cut[..19]);
        assert!(meant[19] < cut[19] && cut[19] <= 53, "{} {}", meant[19], cut[19]);
    }
}
