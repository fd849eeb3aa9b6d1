//! HOT PATH: the bucket of a histogram that a time is in, in the shape `extended` only.
//!
//! It is decided in ticks, but always matches the picoseconds shown. A table, indexed by the uppermost bits
//! of a time, says in which bucket such times begin. Its slots are so narrow that at most one bound lies
//! within a slot, and only that is left to compare.

use std::sync::atomic::{
    AtomicU16, AtomicU64,
    Ordering::{Relaxed, Release},
};

use crate::histogram::{BUCKETS, Lowest, bounds_ps};
use crate::memory::arena::Own;

/// The bits below a time's uppermost one that select its slot. From one slot to the next a time grows by less
/// than a 32nd, from one bound to the next by more than a 22nd.
const BITS: u32 = 5;
/// The number of slots.
const SLOTS: usize = 64 << BITS;

/// A table from ticks to buckets.
#[repr(C, align(16))]
pub(crate) struct BucketBounds {
    /// The least time above the lowest bucket, by [`Lowest`]; `u64::MAX` without histograms.
    floors: [AtomicU64; 2],
    /// The bucket in which each slot begins.
    slots: [AtomicU16; SLOTS],
    /// The first tick of each bucket.
    bounds: [AtomicU64; BUCKETS],
}

impl BucketBounds {
    pub(crate) const fn new() -> BucketBounds {
        BucketBounds {
            floors: [const { AtomicU64::new(u64::MAX) }; 2],
            slots: [const { AtomicU16::new(0) }; SLOTS],
            bounds: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }

    /// Fills the table. `rate` is in picoseconds per tick, scaled like [`crate::clock::Clock::rate`].
    pub(crate) fn start(&self, rate: u64) {
        // The first tick that is shown as this many picoseconds or more.
        let ticks =
            |ps: u64| (u128::from(ps) << 32).div_ceil(u128::from(rate)).min((u64::MAX - 1).into()) as u64;
        for (bound, ps) in self.bounds.iter().zip(bounds_ps()) {
            bound.store(ticks(*ps), Relaxed);
        }
        for (at, bucket) in self.slots.iter().enumerate() {
            let first = first_of(at);
            bucket.store(self.bounds.partition_point(|bound| bound.own() <= first) as u16 - 1, Relaxed);
        }
        for lowest in Lowest::ALL {
            let floor = &self.floors[lowest as usize];
            floor.store(ticks(bounds_ps()[usize::from(lowest.next())]).max(1), Release);
        }
    }

    /// Returns whether there are histograms.
    #[inline(always)]
    pub(crate) fn are_enabled(&self) -> bool {
        self.floor(Lowest::Usual) != u64::MAX
    }

    /// Returns the bucket of a time, with the usual lowest bucket.
    pub(crate) fn of(&self, ticks: u64) -> u32 {
        if self.is_above_floor(Lowest::Usual, ticks) { self.of_long(ticks) } else { 0 }
    }

    /// Returns the bucket of a time above the lowest bucket.
    #[inline(always)]
    pub(crate) fn of_long(&self, ticks: u64) -> u32 {
        let Some(bucket) = self.slots.get(slot_of(ticks)) else { return BUCKETS as u32 - 1 };
        let bucket = u32::from(bucket.load(Relaxed));
        match self.bounds.get(bucket as usize + 1) {
            Some(next) => bucket + u32::from(ticks >= next.own()),
            None => bucket,
        }
    }

    /// Returns whether `n` events that took `ticks` together are above the lowest bucket on average.
    pub(crate) fn are_above_floor(&self, lowest: Lowest, n: u64, ticks: u64) -> bool {
        ticks >= self.floor(lowest).saturating_mul(n.max(1))
    }

    /// Returns the least time above the lowest bucket, in ticks; `u64::MAX` without histograms.
    #[inline(always)]
    pub(crate) fn floor(&self, lowest: Lowest) -> u64 {
        self.floors[lowest as usize].load(Relaxed)
    }

    /// Returns whether a time is above the lowest bucket.
    #[inline(always)]
    pub(crate) fn is_above_floor(&self, lowest: Lowest, ticks: u64) -> bool {
        ticks >= self.floor(lowest)
    }
}

/// Returns the slot of a time other than 0: the exponent and the first bits of the fraction of a
/// floating-point number.
#[inline(always)]
fn slot_of(ticks: u64) -> usize {
    let is = (ticks as i64 as f64).to_bits() >> (f64::MANTISSA_DIGITS - 1 - BITS);
    (is as usize).wrapping_sub((f64::MAX_EXP as usize - 1) << BITS)
}

/// Returns the first tick of a slot.
fn first_of(slot: usize) -> u64 {
    let (exponent, fraction) = (slot >> BITS, slot % (1 << BITS));
    ((1_u128 << BITS | fraction as u128) << exponent).div_ceil(1 << BITS) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time beyond all bounds, in ticks.
    const MOST_TICKS: u64 = 1 << 48;

    /// Returns the picoseconds that are shown for ticks.
    fn ps(ticks: u64, rate: u64) -> u64 {
        u64::try_from((u128::from(ticks) * u128::from(rate)) >> 32).unwrap_or(u64::MAX)
    }

    #[test]
    #[cfg_attr(
        miri,
        ignore = "a hundred thousand times, which Miri takes too long for; no unsafe code is in the way"
    )]
    fn a_bucket_is_that_of_the_picoseconds_that_are_shown() {
        // A nanosecond per tick, and processors of 2, 2.596 and 5.7 GHz.
        for rate in [1000 << 32, 500 << 32, 1_654_497_345_992, (1000 << 32) * 10 / 57] {
            let buckets = BucketBounds::new();
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
    fn a_slot_begins_with_its_first_tick() {
        // Some slots below have no tick, and above, a floating-point number cannot represent one tick less.
        for slot in 6 << BITS..52 << BITS {
            let first = first_of(slot);
            assert_eq!([first - 1, first].map(slot_of), [slot - 1, slot], "{slot}");
        }
        assert_eq!([1, 2, 3, 31].map(|ticks| first_of(slot_of(ticks))), [1, 2, 3, 31]);
    }

    #[test]
    fn without_histograms_everything_is_in_the_lowest_bucket() {
        let buckets = BucketBounds::new();
        assert!(!buckets.are_enabled());
        assert_eq!([0, 1 << 40, u64::MAX - 1].map(|ticks| buckets.of(ticks)), [0; 3]);
    }
}
