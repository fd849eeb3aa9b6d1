//! HOT PATH: the counters of statements besides their times: two maxima, and sums.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::layout::cell::bump;
use crate::memory::arena::Own;

/// The counters of a statement, in the order of `record::statement::Counter`.
pub(crate) const COUNTERS: usize = 22;
/// The number of counters whose maximum is kept: the first ones. Of the others the sum is.
pub(crate) const MAXIMA: usize = 2;

/// The counters of many statements.
#[repr(C)]
pub(crate) struct StatementSums([AtomicU64; COUNTERS]);

/// The values of [`StatementSums`], for readers.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct PlainCounters(pub(crate) [u64; COUNTERS]);

impl PlainCounters {
    pub(crate) fn merge(&mut self, other: &PlainCounters) {
        let (maxima, sums) = self.0.split_at_mut(MAXIMA);
        let (others, more) = other.0.split_at(MAXIMA);
        maxima.iter_mut().zip(others).for_each(|(most, other)| *most = (*most).max(*other));
        // A separate loop, so that it can be vectorised.
        sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.wrapping_add(*more));
    }
}

impl StatementSums {
    /// Adds one statement's value to a sum; the caller is the only writer.
    #[inline(always)]
    pub(crate) fn add(&self, at: usize, value: u64) {
        if let Some(sum) = self.0.get(at) {
            bump(sum, value);
        }
    }

    /// Raises a maximum to one statement's value; the caller is the only writer.
    #[inline(always)]
    pub(crate) fn raise(&self, at: usize, value: u64) {
        if let Some(largest) = self.0.get(at)
            && value > largest.own()
        {
            largest.store(value, Relaxed);
        }
    }

    /// Adds one statement's value to counters that several threads write.
    #[inline(always)]
    pub(crate) fn add_shared(&self, at: usize, value: u64) {
        let Some(figure) = self.0.get(at) else { return };
        if at < MAXIMA {
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

    /// Copies the counters to `plain`, without an intermediate copy.
    #[inline]
    pub(crate) fn copy_to(&self, plain: &mut PlainCounters) {
        plain.0.iter_mut().zip(&self.0).for_each(|(to, from)| *to = from.load(Relaxed));
    }

    /// Adds all of `other`; the caller is the only writer.
    pub(crate) fn merge_own(&self, other: &StatementSums) {
        for (at, figure) in other.0.iter().enumerate() {
            let keep = if at < MAXIMA { StatementSums::raise } else { StatementSums::add };
            keep(self, at, figure.load(Relaxed));
        }
    }

    /// Adds all of `other`; several threads may call it.
    pub(crate) fn merge_shared(&self, other: &StatementSums) {
        for (at, figure) in other.0.iter().enumerate() {
            let value = figure.load(Relaxed);
            if value != 0 {
                self.add_shared(at, value);
            }
        }
    }

    /// Empties the counters.
    pub(crate) fn clear(&self) {
        for figure in &self.0 {
            figure.store(0, Relaxed);
        }
    }

    /// Moves shared counters to each of `into`, which are shared, too.
    pub(crate) fn drain<'a>(&self, into: impl Iterator<Item = &'a StatementSums> + Clone) {
        for (at, figure) in self.0.iter().enumerate() {
            let value = figure.swap(0, Relaxed);
            into.clone().for_each(|to| to.add_shared(at, value));
        }
    }
}
