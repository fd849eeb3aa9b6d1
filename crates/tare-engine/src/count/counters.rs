//! HOT PATH: what statements come to besides their times: sums, and before them a largest value.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::count::cell::bump;
use crate::memory::arena::Own;

/// Figures of a statement, in the order of `record::statement::Counter`.
pub(crate) const COUNTERS: usize = 21;
/// The only one of which the largest is kept; of the others the sum.
pub(crate) const LARGEST: usize = 0;

/// The figures of many statements.
#[repr(C)]
pub(crate) struct Counters([AtomicU64; COUNTERS]);

/// Plain values of [`Counters`], for readers.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct PlainCounters(pub(crate) [u64; COUNTERS]);

impl PlainCounters {
    pub(crate) fn merge(&mut self, other: &PlainCounters) {
        const { assert!(LARGEST == 0) };
        let [largest, sums @ ..] = &mut self.0;
        let [other, more @ ..] = &other.0;
        *largest = (*largest).max(*other);
        // A loop of its own, so that several are added at once.
        sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.wrapping_add(*more));
    }
}

impl Counters {
    /// One statement's figure, of which the sum is kept; the caller is the only writer.
    #[inline(always)]
    pub(crate) fn add(&self, at: usize, value: u64) {
        if let Some(sum) = self.0.get(at) {
            bump(sum, value);
        }
    }

    /// One statement's figure, of which the largest is kept; the caller is the only writer.
    #[inline(always)]
    pub(crate) fn raise(&self, at: usize, value: u64) {
        if let Some(largest) = self.0.get(at)
            && value > largest.own()
        {
            largest.store(value, Relaxed);
        }
    }

    /// As [`Counters::add`], where several threads write.
    #[inline(always)]
    pub(crate) fn add_shared(&self, at: usize, value: u64) {
        let Some(figure) = self.0.get(at) else { return };
        if at == LARGEST {
            figure.fetch_max(value, Relaxed);
        } else {
            figure.fetch_add(value, Relaxed);
        }
    }

    pub(crate) fn plain(&self) -> PlainCounters {
        let mut plain = PlainCounters::default();
        self.copy_to(&mut plain);
        plain
    }

    /// Copies them to `plain`, without a copy on the way.
    #[inline]
    pub(crate) fn copy_to(&self, plain: &mut PlainCounters) {
        plain.0.iter_mut().zip(&self.0).for_each(|(to, from)| *to = from.load(Relaxed));
    }

    /// Adds all of `other`; the caller is the only writer.
    pub(crate) fn merge_own(&self, other: &Counters) {
        for (at, figure) in other.0.iter().enumerate() {
            let keep = if at == LARGEST { Counters::raise } else { Counters::add };
            keep(self, at, figure.load(Relaxed));
        }
    }

    /// Adds all of `other`; several threads may.
    pub(crate) fn merge_shared(&self, other: &Counters) {
        for (at, figure) in other.0.iter().enumerate() {
            let value = figure.load(Relaxed);
            if value != 0 {
                self.add_shared(at, value);
            }
        }
    }

    /// Empties it.
    pub(crate) fn clear(&self) {
        for figure in &self.0 {
            figure.store(0, Relaxed);
        }
    }

    /// Moves all of a shared one to each of `into`, shared too.
    pub(crate) fn drain<'a>(&self, into: impl Iterator<Item = &'a Counters> + Clone) {
        for (at, figure) in self.0.iter().enumerate() {
            let value = figure.swap(0, Relaxed);
            into.clone().for_each(|to| to.add_shared(at, value));
        }
    }
}
