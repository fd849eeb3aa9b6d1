//! What all digests counted, added up: of threads, of places, of what lost its place.

use super::histogram::{NO_DIGEST, Place, Spread};
use crate::count::digest_table::DigestTally;

/// What a digest counted.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    /// The place's number.
    pub(super) number: u32,
    /// The tenant's whose it is.
    pub(super) generation: u32,
    /// Of a thread's: how many buckets it has. Of all: the last one of them in [`Tallies::buckets`], counted from one.
    pub(super) buckets: u32,
    pub(super) tally: DigestTally,
}

/// The number of what has no place, which no place has.
pub(super) const NO_PLACE: u32 = u32::MAX;
/// Where in [`Tallies::sums`] what counts for no digest is.
pub(super) const REST: usize = 0;

/// Events in a bucket, and the next one of the same histogram.
struct InBucket {
    next: u32,
    bucket: u32,
    count: u64,
}

/// What all digests counted, read together: histograms add up to counts.
pub(super) struct Tallies {
    /// Of what counts for no digest, then of places that counted anything: a table may have room for many more.
    pub(super) sums: Vec<Sum>,
    /// By number of the place: where in `sums` it is. Nowhere yet is where the rest is, too.
    pub(super) at: Vec<u32>,
    buckets: Vec<InBucket>,
}

impl Tallies {
    /// For so many places, of which so many have been made.
    pub(super) fn of(places: usize, made: usize) -> Tallies {
        let mut sums = Vec::with_capacity(made + 1);
        sums.push(Sum { number: NO_PLACE, ..Sum::default() });
        Tallies { sums, at: vec![0; places], buckets: Vec::new() }
    }

    /// Adds what was counted for a tenant of a place. What has no place has a number that no place has.
    pub(super) fn add(&mut self, sum: &Sum, buckets: &[(u32, u64)]) {
        let mut at = REST;
        if let Some(known) = self.at.get_mut(sum.number as usize) {
            at = *known as usize;
            if at == REST {
                // Nothing to add it to.
                at = self.sums.len();
                *known = at as u32;
                self.sums.push(Sum { buckets: 0, ..*sum });
                return self.chain(at, buckets);
            }
            let known = self.sums[at].generation;
            if known != sum.generation {
                // Of two tenants the later one is there.
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

    /// Adds buckets to a sum's.
    fn chain(&mut self, at: usize, buckets: &[(u32, u64)]) {
        for (bucket, count) in buckets {
            self.buckets.push(InBucket { next: self.sums[at].buckets, bucket: *bucket, count: *count });
            self.sums[at].buckets = self.buckets.len() as u32;
        }
    }

    /// What is counted at a place counts for no digest any more.
    pub(super) fn leave_place(&mut self, number: u32) {
        let at = self.at[number as usize] as usize;
        if at != REST {
            self.leave(at);
        }
    }

    /// The same, of the place whose sum is there.
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

    /// How so many events of a sum spread, in the place of what `spread` held.
    pub(super) fn spread(&self, sum: &Sum, events: u64, spread: &mut Spread) {
        spread.become_of(events, self.buckets_of(sum));
    }

    /// The sum here of whose sum there it is; `None`: there is none.
    pub(super) fn same(&self, other: &Sum) -> Option<&Sum> {
        let at = if other.number == NO_PLACE { REST } else { *self.at.get(other.number as usize)? as usize };
        let sum = &self.sums[at];
        (sum.number == other.number && sum.generation == other.generation).then_some(sum)
    }

    /// Whose a sum is, as [`super::histogram`] remembers it.
    pub(super) fn place(&self, at: usize) -> Place {
        if at == REST { NO_DIGEST } else { (self.sums[at].number, self.sums[at].generation) }
    }

    /// Where the sums are that have counted anything: the rest, then places in their order, which stays.
    pub(super) fn by_place(&self) -> Vec<u32> {
        let places = self.at.iter().copied().filter(|at| *at as usize != REST);
        let counted = |at: &u32| self.sums[*at as usize].tally.stat.count != 0;
        std::iter::once(REST as u32).chain(places).filter(counted).collect()
    }
}
