//! HOT PATH: cells of errors: how often each was raised and handled, and when.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::layout::cell::{Cell, CellHead, bump};
use crate::memory::arena::{Arena, ArenaView};

/// A cell of one error.
#[repr(C)]
pub(crate) struct ErrorCell {
    head: CellHead,
    raised: AtomicU64,
    handled: AtomicU64,
    /// When it was first seen, in ticks, inverted so that zeroed memory is an empty cell.
    first_inverted: AtomicU64,
    last: AtomicU64,
}

// SAFETY: meets `ArenaView`: atomics only, alignment 8, five words.
#[allow(unsafe_code)]
unsafe impl ArenaView for ErrorCell {}

/// The values of an [`ErrorCell`].
#[derive(Clone, Copy, Default)]
pub(crate) struct PlainError {
    pub(crate) raised: u64,
    pub(crate) handled: u64,
    /// When it was first seen, in ticks, inverted.
    pub(crate) first_inverted: u64,
    pub(crate) last: u64,
}

impl PlainError {
    pub(crate) fn merge(&mut self, other: PlainError) {
        self.raised = self.raised.wrapping_add(other.raised);
        self.handled = self.handled.wrapping_add(other.handled);
        self.first_inverted = self.first_inverted.max(other.first_inverted);
        self.last = self.last.max(other.last);
    }

    /// Returns when it was first and last seen, in ticks; `None` if never.
    pub(crate) fn seen(&self) -> Option<(u64, u64)> {
        (self.last != 0).then_some((!self.first_inverted, self.last))
    }
}

impl ErrorCell {
    pub(crate) fn plain(&self) -> PlainError {
        PlainError {
            raised: self.raised.load(Relaxed),
            handled: self.handled.load(Relaxed),
            first_inverted: self.first_inverted.load(Relaxed),
            last: self.last.load(Relaxed),
        }
    }

    /// Adds to a cell that several threads write.
    pub(crate) fn merge_shared(&self, other: PlainError) {
        self.raised.fetch_add(other.raised, Relaxed);
        self.handled.fetch_add(other.handled, Relaxed);
        self.first_inverted.fetch_max(other.first_inverted, Relaxed);
        self.last.fetch_max(other.last, Relaxed);
    }

    /// Adds to a cell of the caller's own.
    pub(crate) fn merge_own(&self, other: PlainError) {
        bump(&self.raised, other.raised);
        bump(&self.handled, other.handled);
        self.first_inverted.store(self.first_inverted.load(Relaxed).max(other.first_inverted), Relaxed);
        self.last.store(self.last.load(Relaxed).max(other.last), Relaxed);
    }
}

impl Cell for ErrorCell {
    fn head(&self) -> &CellHead {
        &self.head
    }
    fn events(&self) -> u64 {
        self.raised.load(Relaxed)
    }
    fn is_untouched(&self) -> bool {
        self.raised.load(Relaxed) | self.handled.load(Relaxed) == 0
    }
    fn fold(&self, _: &Arena, into: &Self) {
        into.merge_shared(self.plain());
    }
    fn append(&self, _: &Arena, into: &Self) {
        into.merge_own(self.plain());
    }
    fn clear(&self, _: &Arena) {
        for word in [&self.raised, &self.handled, &self.first_inverted, &self.last] {
            word.store(0, Relaxed);
        }
    }
    fn drain(&self, _: &Arena, into: &[Option<&Self>]) {
        let taken = PlainError {
            raised: self.raised.swap(0, Relaxed),
            handled: self.handled.swap(0, Relaxed),
            first_inverted: self.first_inverted.swap(0, Relaxed),
            last: self.last.swap(0, Relaxed),
        };
        into.iter().flatten().for_each(|to| to.merge_shared(taken));
    }
}
