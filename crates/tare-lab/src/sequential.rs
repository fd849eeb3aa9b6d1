//! Intervals that stay valid however often one looks at them.
//!
//! The figure is Hodges and Lehmann's: the median of all means of two values (Walsh averages), which a few wild values
//! cannot move. Its interval inverts Wilcoxon's signed-rank test: the Walsh averages, sorted, with as many left off at either
//! end as the test allows. It assumes of the values only that they are independent and as likely to be this much above the
//! true one as below (Hollander, Wolfe and Chicken, *Nonparametric Statistical Methods*, 3rd ed., chapter 3).
//!
//! Whoever looks after every value and stops when pleased would be wrong more often than a fixed 5%. So the 5% are spent over
//! the looks (Lan and DeMets, Biometrika 70, 1983; the power family of Kim and DeMets, Biometrika 74, 1987), and the
//! intervals of all looks together hold the truth with 95% (repeated confidence intervals: Jennison and Turnbull, J. R.
//! Statist. Soc. B 51, 1989). How many averages a look leaves off comes from the distribution of all looks' signed ranks
//! when nothing differs, which is the same for all such values and is drawn here, seeded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::statistics::{Estimate, quantile};

/// Share of studies in which an interval of any look may miss the truth.
const ERROR: f64 = 0.05;
/// How late the error is spent: at a part t of all values, t to this power of it.
const LATENESS: f64 = 2.0;
/// Courses drawn to find the limits; the error is met within 0.3 percentage points.
const COURSES: usize = 20_000;
const SEED: u64 = 0x7a7e;
/// More looks than this are not told apart: what comes after is judged as the last of them.
pub const MOST: usize = 240;

/// The limits of a series of looks, one after every value.
#[derive(Debug)]
pub struct Looks {
    /// By values seen, less one: how many Walsh averages lie outside the interval at either end, plus one. 0: no interval.
    ranks: Vec<usize>,
}

impl Looks {
    /// Limits for at most `most` values.
    pub fn at_most(most: usize) -> Arc<Looks> {
        Looks::until(most, most)
    }

    /// Limits where at most `most` values were meant to come, and time was over after `last` of them: the last look spends what
    /// is left. Only for an end that has nothing to do with what was seen.
    pub fn until(most: usize, last: usize) -> Arc<Looks> {
        static KNOWN: Mutex<BTreeMap<(usize, usize), Arc<Looks>>> = Mutex::new(BTreeMap::new());
        let most = most.clamp(1, MOST);
        let last = last.clamp(1, most);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry((most, last)).or_insert_with(|| Arc::new(Looks { ranks: ranks(most, last) })))
    }

    /// Values there must be for an interval.
    pub fn first(&self) -> usize {
        self.ranks.iter().position(|&rank| rank > 0).map_or(usize::MAX, |place| place + 1)
    }

    /// The values' figure, and its interval where there are enough of them.
    pub fn judge(&self, values: &[f64]) -> Option<Judged> {
        let averages = walsh(values);
        let value = quantile_of_sorted(&averages)?;
        // Values past the last look cannot be judged anew: the error is spent.
        let seen = values.len().min(self.ranks.len());
        let rank = self.ranks[seen - 1];
        let interval = (rank > 0).then(|| {
            let averages = if seen < values.len() { walsh(&values[..seen]) } else { averages };
            Estimate { value, low: averages[rank - 1], high: averages[averages.len() - rank] }
        });
        Some(Judged { value, interval })
    }
}

/// A figure with what is known of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// Hodges and Lehmann's estimate.
    pub value: f64,
    /// Its interval, when there were enough values.
    pub interval: Option<Estimate>,
}

/// Hodges and Lehmann's estimate; NaN of nothing.
pub fn centre(values: &[f64]) -> f64 {
    quantile(&walsh(values), 0.5)
}

/// Means of every value with itself and every other, sorted.
fn walsh(values: &[f64]) -> Vec<f64> {
    let mut averages: Vec<f64> = values
        .iter()
        .enumerate()
        .flat_map(|(i, a)| values[i..].iter().map(move |b| f64::midpoint(*a, *b)))
        .collect();
    averages.sort_by(f64::total_cmp);
    averages
}

fn quantile_of_sorted(sorted: &[f64]) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some(f64::midpoint(sorted[last / 2], sorted[last.div_ceil(2)]))
}

/// The largest rank at every look that keeps within what may be spent up to it.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // small counts
fn ranks(most: usize, last: usize) -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut courses: Vec<Course> = (0..COURSES).map(|_| Course::default()).collect();
    let mut spent = 0;
    (1..=last)
        .map(|seen| {
            let share = if seen == last { 1.0 } else { (seen as f64 / most as f64).powf(LATENESS) };
            let may = ERROR * share * COURSES as f64;
            let mut nearest: Vec<usize> = courses.iter_mut().map(|c| c.step(&mut random)).collect();
            nearest.sort_unstable();
            // A course is outside when fewer Walsh averages than the rank lie on one side of the truth.
            let outside = (may as usize).saturating_sub(spent);
            let rank = nearest.get(outside).copied().unwrap_or(0);
            let before = courses.len();
            courses.retain(|c| c.nearest() >= rank);
            spent += before - courses.len();
            rank
        })
        .collect()
}

/// Values drawn around 0, and how many of their Walsh averages are above it.
#[derive(Debug, Default)]
struct Course {
    values: Vec<f32>,
    above: usize,
}

impl Course {
    /// Draws one more value; gives how many Walsh averages lie on the side that has fewer.
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

    #[test]
    fn the_centre_is_the_median_of_means_of_two() {
        // Of 1, 2, 9: 1, 1.5, 2, 5, 5.5, 9.
        assert_eq!(centre(&[9.0, 1.0, 2.0]), 3.5);
        assert_eq!(centre(&[4.0]), 4.0);
    }

    #[test]
    fn a_single_look_is_wilcoxons_test() {
        // Tables: 6 values allow the extremes (3.1% outside), 5 do not allow any interval (6.3%).
        assert_eq!(ranks(5, 5)[4], 0);
        let looks = Looks { ranks: ranks(6, 6) };
        assert_eq!(looks.first(), 6);
        let judged = looks.judge(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("values");
        let interval = judged.interval.expect("enough values");
        assert_eq!((judged.value, interval.low, interval.high), (3.5, 1.0, 6.0));
    }

    #[test]
    fn intervals_narrow_towards_the_fixed_one() {
        // Of 20 values a fixed 95% interval leaves off 52 averages at either end; looking all the way costs a little.
        let last = ranks(20, 20)[19];
        assert!((44..=53).contains(&last), "{last}");
    }

    #[test]
    fn when_time_is_over_the_last_look_spends_what_is_left() {
        let (meant, cut) = (ranks(40, 40), ranks(40, 20));
        assert_eq!(meant[..19], cut[..19]);
        assert!(meant[19] < cut[19] && cut[19] <= 53, "{} {}", meant[19], cut[19]);
    }

    /// Sums of uniforms: near enough to normal; now and then (`wild`) a value ten times as far away.
    fn drawn(random: &mut fastrand::Rng, wild: f64) -> f64 {
        let near = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        if random.f64() < wild { near * 10.0 } else { near }
    }

    /// Looks after every value, and stops as soon as the interval excludes `truth`: how often that happens.
    fn false_alarms(wild: f64) -> usize {
        let looks = Looks::at_most(24);
        let mut random = fastrand::Rng::with_seed(11);
        let alarm = |random: &mut fastrand::Rng| {
            let values: Vec<f64> = (0..24).map(|_| drawn(random, wild)).collect();
            (1..=24).any(|seen| {
                let interval = looks.judge(&values[..seen]).and_then(|j| j.interval);
                interval.is_some_and(|e| e.low > 0.0 || e.high < 0.0)
            })
        };
        (0..400).filter(|_| alarm(&mut random)).count()
    }

    #[test]
    fn peeking_after_every_value_is_wrong_in_one_of_twenty() {
        // 20 of 400 are expected, and 33 or more in one of 250 seeds; the seed is fixed. Of none the limits would be idle.
        for wild in [0.0, 0.1] {
            let alarms = false_alarms(wild);
            assert!((8..=32).contains(&alarms), "{alarms} of 400, wild {wild}");
        }
    }
}
