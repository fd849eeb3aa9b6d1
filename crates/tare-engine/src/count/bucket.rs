//! HOT PATH: which bucket of a histogram a time is in, in the shape `extended` only.
//!
//! It is decided in ticks, and is that of the picoseconds shown. Buckets are as far apart as a logarithm says, which is
//! reckoned well enough to know the bucket of nearly all times: only what is close to a bound is held against that bound.

use std::hint::cold_path;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};

use crate::histogram::{BUCKETS, bounds_ps};
use crate::memory::arena::Own;

/// Buckets by which a time that is twice as long is higher, in units of 2^-12: 50 log10(2).
const OCTAVE: i64 = 61_651;
/// By how many buckets 1 + x is higher than x says if they were evenly apart between 1 and 2: a polynomial without its constant
/// part, lowest coefficient first, in units of 2^-27.
const CURVE: [i64; 3] = [846_212_631, -1_165_903_196, 319_690_564];
/// Its constant part, in buckets.
const CURVE_BEGINS: f64 = 0.009_589_570_673;
/// By how much a bucket may be reckoned wrong, in units of 2^-32 buckets: a 64th. The polynomial errs by 0.0096 buckets.
const DOUBT: u32 = 1 << 26;

/// From ticks to buckets.
#[repr(C, align(16))]
pub(crate) struct Buckets {
    /// The least that is not in the lowest bucket; without histograms nothing is.
    floor: AtomicU64,
    /// What [`height`] counts from, in units of 2^-32 buckets, less the doubt.
    origin: AtomicU64,
    /// The first tick of each bucket.
    bounds: [AtomicU64; BUCKETS],
}

impl Buckets {
    pub(crate) const fn new() -> Buckets {
        Buckets {
            floor: AtomicU64::new(u64::MAX),
            origin: AtomicU64::new(0),
            bounds: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }

    /// Begins to tell buckets. `rate`: picoseconds per tick, as [`crate::clock::Clock::rate`] has them.
    pub(crate) fn start(&self, rate: u64) {
        // The first tick that is shown as so many picoseconds or more.
        let ticks =
            |ps: u64| (u128::from(ps) << 32).div_ceil(u128::from(rate)).min((u64::MAX - 1).into()) as u64;
        for (bound, ps) in self.bounds.iter().zip(bounds_ps()) {
            bound.store(ticks(*ps), Relaxed);
        }
        let begins =
            1.0 + 50.0 * (rate as f64 / 2_f64.powi(32) / bounds_ps()[1] as f64).log10() + CURVE_BEGINS;
        let origin = (begins * 2_f64.powi(32)) as i64 - height(1) - i64::from(DOUBT);
        self.origin.store(origin as u64, Relaxed);
        self.floor.store(ticks(bounds_ps()[1]).max(1), Release);
    }

    /// Whether there are histograms.
    #[inline(always)]
    pub(crate) fn are_told(&self) -> bool {
        self.floor() != u64::MAX
    }

    /// The bucket of so many ticks.
    pub(crate) fn of(&self, ticks: u64) -> u32 {
        if self.is_above_floor(ticks) { self.of_long(ticks) } else { 0 }
    }

    /// As [`Buckets::of`], of what is not in the lowest one.
    #[inline(always)]
    pub(crate) fn of_long(&self, ticks: u64) -> u32 {
        let reckoned = height(ticks).wrapping_add(self.origin.load(Relaxed) as i64);
        let bucket = (reckoned >> 32) as u32;
        if (reckoned as u32).checked_add(2 * DOUBT).is_none() {
            cold_path();
            // Close to the beginning of the next one.
            let next = bucket.wrapping_add(1);
            let Some(bound) = self.bounds.get(next as usize) else { return BUCKETS as u32 - 1 };
            return next - u32::from(ticks < bound.own());
        }
        bucket.min(BUCKETS as u32 - 1)
    }

    /// Whether each of `n` events is not in the lowest bucket that took so many ticks together.
    pub(crate) fn are_above_floor(&self, n: u64, ticks: u64) -> bool {
        ticks >= self.floor().saturating_mul(n.max(1))
    }

    /// The least that is not in the lowest bucket, in ticks; without histograms nothing is.
    #[inline(always)]
    pub(crate) fn floor(&self) -> u64 {
        self.floor.load(Relaxed)
    }

    /// Whether so many ticks are not in the lowest bucket.
    #[inline(always)]
    pub(crate) fn is_above_floor(&self, ticks: u64) -> bool {
        ticks >= self.floor()
    }
}

/// How high a time is, in units of 2^-32 buckets, above what is no time. The exponent and the fraction of a floating-point number
/// are its logarithm but for the curve.
#[inline(always)]
fn height(ticks: u64) -> i64 {
    let even = ((ticks as i64 as f64).to_bits() >> 32) as i64;
    let part = even & 0xF_FFFF;
    let [first, second, third] = CURVE;
    let curve = (((third * part) >> 20) + second) * part;
    even * OCTAVE + ((((curve >> 20) + first) * part) >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than any bound.
    const MOST_TICKS: u64 = 1 << 48;

    /// Picoseconds that ticks are shown as, at a rate.
    fn ps(ticks: u64, rate: u64) -> u64 {
        u64::try_from((u128::from(ticks) * u128::from(rate)) >> 32).unwrap_or(u64::MAX)
    }

    #[test]
    #[cfg_attr(
        miri,
        ignore = "a hundred thousand times, which Miri takes too long for; no unsafe code is in the way"
    )]
    fn a_bucket_is_that_of_the_picoseconds_that_are_shown() {
        // A nanosecond a tick, and processors of 2, 2.596 and 5.7 GHz.
        for rate in [1000 << 32, 500 << 32, 1_654_497_345_992, (1000 << 32) * 10 / 57] {
            let buckets = Buckets::new();
            buckets.start(rate);
            let bounds = bounds_ps();
            let is = |ticks: u64| {
                let shown = ps(ticks, rate);
                let expected = bounds[1..BUCKETS].partition_point(|bound| *bound <= shown);
                assert_eq!(buckets.of(ticks), expected as u32, "{ticks} ticks, {shown} ps at {rate}");
            };
            for bound in &bounds[1..BUCKETS] {
                let near = ((u128::from(*bound) << 32) / u128::from(rate)) as u64;
                (near - 3..near + 4).for_each(is);
            }
            [0, 1, 31, 32, 33, 9_999, MOST_TICKS - 1].into_iter().for_each(is);
            let mut ticks = 1.0;
            while ticks < MOST_TICKS as f64 {
                is(ticks as u64);
                ticks *= 1.0007;
            }
            assert_eq!([MOST_TICKS, u64::MAX].map(|ticks| buckets.of(ticks)), [449; 2]);
        }
    }

    #[test]
    fn what_is_reckoned_errs_by_less_than_what_is_held_against_a_bound() {
        // Between two of these the logarithm changes by less than the rest of the doubt.
        for rest in 0..1_u64 << 16 {
            let ticks = (1 << 16 | rest) << 20;
            let reckoned = (height(ticks) - height(1)) as f64 / 2_f64.powi(32) + CURVE_BEGINS;
            let erred = reckoned - 50.0 * (ticks as f64).log10();
            assert!(erred.abs() < 0.0107, "{ticks} by {erred}");
        }
        assert_eq!(2 * DOUBT, 1 << 27, "a 32nd");
    }

    #[test]
    fn without_histograms_everything_is_in_the_lowest_bucket() {
        let buckets = Buckets::new();
        assert!(!buckets.are_told());
        assert_eq!([0, 1 << 40, u64::MAX - 1].map(|ticks| buckets.of(ticks)), [0; 3]);
    }
}
