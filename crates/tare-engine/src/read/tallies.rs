//! Sums of all digests: of threads, of places, and of digests that lost their place.

use super::histogram::{DigestPosition, HistogramCounts, NO_DIGEST};
use crate::count::digest_table::DigestTally;

/// Sum of one digest.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    /// Number of the place.
    pub(super) number: u32,
    /// Generation of the owner.
    pub(super) generation: u32,
    /// In a thread's sum: its number of buckets. In the total: 1-based position of its last bucket in
    /// [`Tallies::buckets`].
    pub(super) buckets: u32,
    pub(super) tally: DigestTally,
}

/// Number that stands for no place.
pub(super) const NO_PLACE: u32 = u32::MAX;
/// Position in [`Tallies::sums`] of what belongs to no digest.
pub(super) const REST: usize = 0;

/// Events in a bucket, linked to the next bucket of the same histogram.
struct InBucket {
    next: u32,
    bucket: u32,
    count: u64,
}

/// Sums of all digests, read together: histograms add up to counts.
pub(super) struct Tallies {
    /// The sum without a digest, then those of places that counted anything. The table may have room for many
    /// more.
    pub(super) sums: Vec<Sum>,
    /// Positions in `sums` by number of the place; [`REST`]: none yet.
    pub(super) at: Vec<u32>,
    buckets: Vec<InBucket>,
}

impl Tallies {
    /// Creates empty sums for a table of `places`, `made` of which exist.
    pub(super) fn of(places: usize, made: usize) -> Tallies {
        let mut sums = Vec::with_capacity(made + 1);
        sums.push(Sum { number: NO_PLACE, ..Sum::default() });
        Tallies { sums, at: vec![0; places], buckets: Vec::new() }
    }

    /// Adds what was counted for a owner of a place, or for no digest if the number is [`NO_PLACE`].
    pub(super) fn add(&mut self, sum: &Sum, buckets: &[(u32, u64)]) {
        let mut at = REST;
        if let Some(known) = self.at.get_mut(sum.number as usize) {
            at = *known as usize;
            if at == REST {
                // The first sum of this place.
                at = self.sums.len();
                *known = at as u32;
                self.sums.push(Sum { buckets: 0, ..*sum });
                return self.chain(at, buckets);
            }
            let known = self.sums[at].generation;
            if known != sum.generation {
                // Of two owners the later one has the place.
                if sum.generation.wrapping_sub(known) < 1 << 31 {
                    self.leave(at);
                    self.sums[at].generation = sum.generation;
                } else {
                    at = REST;
                }
            }
        }
        self.sums[at].tally.merge(&sum.tally);
        self.chain(at, buckets);
    }

    /// Adds buckets to the sum at `at`.
    fn chain(&mut self, at: usize, buckets: &[(u32, u64)]) {
        for (bucket, count) in buckets {
            self.buckets.push(InBucket { next: self.sums[at].buckets, bucket: *bucket, count: *count });
            self.sums[at].buckets = self.buckets.len() as u32;
        }
    }

    /// Moves the sum of a place to that without a digest.
    pub(super) fn leave_place(&mut self, number: u32) {
        let at = self.at[number as usize] as usize;
        if at != REST {
            self.leave(at);
        }
    }

    /// Moves the sum at `at` to that without a digest.
    pub(super) fn leave(&mut self, at: usize) {
        let number = self.sums[at].number;
        let left = std::mem::replace(&mut self.sums[at], Sum { number, ..Sum::default() });
        if left.tally.stat.count != 0 {
            let buckets: Vec<(u32, u64)> = self.buckets_of(&left).collect();
            self.add(&Sum { number: NO_PLACE, ..left }, &buckets);
        }
    }

    fn buckets_of(&self, sum: &Sum) -> impl Iterator<Item = (u32, u64)> {
        let mut last = sum.buckets;
        std::iter::from_fn(move || {
            let InBucket { next, bucket, count } = self.buckets[(last as usize).checked_sub(1)?];
            last = next;
            Some((bucket, count))
        })
    }

    /// Replaces the contents of `histograms` by the histogram of a sum with `events` events.
    pub(super) fn histograms(&self, sum: &Sum, events: u64, histograms: &mut HistogramCounts) {
        histograms.become_of(events, self.buckets_of(sum));
    }

    /// Returns the sum of the same owner here; `None`: there is none.
    pub(super) fn same(&self, other: &Sum) -> Option<&Sum> {
        let at = if other.number == NO_PLACE { REST } else { *self.at.get(other.number as usize)? as usize };
        let sum = &self.sums[at];
        (sum.number == other.number && sum.generation == other.generation).then_some(sum)
    }

    /// Returns the key of a sum, in the form of [`super::histogram`].
    pub(super) fn place(&self, at: usize) -> DigestPosition {
        if at == REST { NO_DIGEST } else { (self.sums[at].number, self.sums[at].generation) }
    }

    /// Returns the positions of the sums that have counted anything: the rest, then places in stable order.
    pub(super) fn by_place(&self) -> Vec<u32> {
        let places = self.at.iter().copied().filter(|at| *at as usize != REST);
        let counted = |at: &u32| self.sums[*at as usize].tally.stat.count != 0;
        std::iter::once(REST as u32).chain(places).filter(counted).collect()
    }
}
