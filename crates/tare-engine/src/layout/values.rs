//! HOT PATH: sparse values. A mask in another word says which values are not zero. Only those are valid and
//! recorded; the others are never reset.

use std::hint::cold_path;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};

use crate::layout::ring::Appending;
use crate::memory::arena::Own;

/// The values of something in progress, which its thread changes.
#[derive(Clone, Copy)]
pub(crate) struct SparseValues<'a, const N: usize> {
    /// Its lowest bits are the mask, one bit for each value.
    pub(crate) set: &'a AtomicU64,
    pub(crate) words: &'a [AtomicU64; N],
}

impl<const N: usize> SparseValues<'_, N> {
    /// The mask of all values.
    pub(crate) const ALL: u64 = (1 << N) - 1;

    #[inline(always)]
    pub(crate) fn get(self, at: usize) -> u64 {
        if self.set.own() & 1 << at == 0 { 0 } else { self.words[at].own() }
    }

    /// Sets a value.
    #[inline(always)]
    pub(crate) fn put(self, at: usize, value: u64) {
        self.words[at].store(value, Relaxed);
        let set = self.set.own();
        if value != 0 {
            // Release: whoever sees the bit sees the value.
            self.set.store(set | 1 << at, Release);
        } else {
            cold_path();
            self.set.store(set & !(1 << at), Relaxed);
        }
    }

    /// Sets a value that is hardly ever zero.
    #[inline(always)]
    pub(crate) fn set(self, at: usize, value: u64) {
        self.words[at].store(value, Relaxed);
        self.set.store(self.set.own() | 1 << at, Release);
    }

    #[inline(always)]
    pub(crate) fn add(self, at: usize, by: u64) {
        self.put(at, self.get(at).wrapping_add(by));
    }

    /// Appends the values that are not zero, in order.
    #[inline(always)]
    pub(crate) fn write(self, set: u64, to: &mut Appending<'_>) {
        let mut left = set & Self::ALL;
        while left != 0 {
            let at = left.trailing_zeros() as usize % 64;
            left &= left - 1;
            if let Some(word) = self.words.get(at) {
                to.put(word.own());
            }
        }
    }
}

/// Returns the values that a mask names from the words of a record, and the words behind them.
#[inline]
pub(crate) fn read<const N: usize>(set: u64, words: &[u64]) -> Option<([u64; N], &[u64])> {
    let mut left = set & SparseValues::<N>::ALL;
    let (written, rest) = words.split_at_checked(left.count_ones() as usize)?;
    let mut values = [0; N];
    for word in written {
        if let Some(value) = values.get_mut(left.trailing_zeros() as usize) {
            *value = *word;
        }
        left &= left.wrapping_sub(1);
    }
    Some((values, rest))
}

/// Returns the values that a mask names, of something in progress.
pub(crate) fn known<const N: usize>(set: u64, words: &[u64; N]) -> [u64; N] {
    std::array::from_fn(|at| if set & 1 << at == 0 { 0 } else { words[at] })
}
