//! HOT PATH: which bucket of a histogram a time is in, in the shape `extended` only.
//!
//! It is decided in ticks, by one look into a table of ranges, and is that of the picoseconds shown.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};

use crate::histogram::{BUCKETS, bounds_ps};
use crate::memory::arena::Own;

/// Ticks are looked up by their highest bit and as many behind it: such a range is smaller than a bucket.
const FINE: u32 = 5;
/// What is longer is in the last bucket, at any rate.
const MOST_TICKS: u64 = 1 << 48;
/// Ranges there are.
const RANGES: usize = (MOST_TICKS.ilog2() - FINE) as usize * (1 << FINE);

/// From ticks to buckets.
pub(crate) struct Buckets {
    /// The least that is not in the lowest bucket; without histograms nothing is.
    floor: AtomicU64,
    /// Of each range the bucket in which it begins, and the last tick of that bucket << 16.
    ranges: [AtomicU64; RANGES],
}

impl Buckets {
    pub(crate) const fn new() -> Buckets {
        Buckets { floor: AtomicU64::new(u64::MAX), ranges: [const { AtomicU64::new(0) }; RANGES] }
    }

    /// Begins to tell buckets. `rate`: picoseconds per tick, as [`crate::clock::Clock::rate`] has them.
    pub(crate) fn start(&self, rate: u64) {
        // The first tick that is shown as so many picoseconds or more.
        let ticks = |ps: u64| (u128::from(ps) << 32).div_ceil(u128::from(rate)).min(MOST_TICKS.into()) as u64;
        let first = |bucket: usize| if bucket < BUCKETS { ticks(bounds_ps()[bucket]) } else { MOST_TICKS };
        let mut bucket = 0;
        for (range, word) in self.ranges.iter().enumerate() {
            let begins = (range as u64 % (1 << FINE) + (1 << FINE)) << (range >> FINE);
            while bucket + 1 < BUCKETS && first(bucket + 1) <= begins {
                bucket += 1;
            }
            word.store((first(bucket + 1) - 1) << 16 | bucket as u64, Relaxed);
        }
        self.floor.store(first(1).max(1 << FINE), Release);
    }

    /// Whether there are histograms.
    #[inline(always)]
    pub(crate) fn are_told(&self) -> bool {
        self.floor.load(Relaxed) != u64::MAX
    }

    /// The bucket of so many ticks.
    pub(crate) fn of(&self, ticks: u64) -> u32 {
        if self.is_above_floor(ticks) { self.of_long(ticks) } else { 0 }
    }

    /// As [`Buckets::of`], of what is not in the lowest one.
    #[inline(always)]
    pub(crate) fn of_long(&self, ticks: u64) -> u32 {
        // The floor has the highest bit that is needed, or a higher one.
        let shift = (ticks | 1 << FINE).ilog2() - FINE;
        let range = (shift << FINE) as usize + (ticks >> shift) as usize - (1 << FINE);
        let Some(word) = self.ranges.get(range) else { return BUCKETS as u32 - 1 };
        let word = word.own();
        u32::from(word as u16) + u32::from(ticks > word >> 16)
    }

    /// Whether so many ticks are not in the lowest bucket.
    #[inline(always)]
    pub(crate) fn is_above_floor(&self, ticks: u64) -> bool {
        ticks >= self.floor.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn without_histograms_everything_is_in_the_lowest_bucket() {
        let buckets = Buckets::new();
        assert!(!buckets.are_told());
        assert_eq!([0, 1 << 40, u64::MAX - 1].map(|ticks| buckets.of(ticks)), [0; 3]);
    }
}
