//! HOT PATH: the rwlocks a thread holds for reading.

use std::num::NonZeroU32;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::memory::arena::{Arena, BlockUse, Own, WORDS};
use crate::setup::demand::Demands;
use crate::snapshot::Kind;

/// Locks that a thread holds for reading, the latest last. The thread keeps them and not the lock, which many
/// threads read at the same time. The first ones are in the slab, further ones in a block that is made when
/// first needed. The number of locks and the first of them lie on one line.
#[repr(C, align(64))]
pub(crate) struct ReadLocks {
    held: AtomicU32,
    /// The activation ([`crate::setup::demand`]) since which the list is complete.
    activation: AtomicU32,
    /// Place of the block of further locks; 0: there is none.
    pub(crate) further: AtomicU32,
    _pad: AtomicU32,
    locks: [AtomicU64; READ_LOCKS],
}

const READ_LOCKS: usize = 24;

impl ReadLocks {
    /// Adopts `activation`, and forgets all locks if rwlocks were off since the last one.
    pub(crate) fn settle(&self, demands: &Demands, activation: u32) {
        if !demands.was_on_since(Kind::Rwlock, self.activation.own()) {
            self.held.store(0, Release);
        }
        self.activation.store(activation, Release);
    }

    /// Forgets all locks.
    pub(crate) fn forget(&self) {
        self.held.store(0, Release);
    }

    /// Returns the activation since which [`ReadLocks::objects`] is complete. Readers call this first.
    pub(crate) fn activation(&self) -> u32 {
        self.activation.load(Acquire)
    }

    /// Adds a lock. Returns false if the slab is full.
    #[inline(always)]
    pub(crate) fn push(&self, lock: u64) -> bool {
        let held = self.held.own() as usize;
        let Some(place) = self.locks.get(held) else { return false };
        place.store(lock, Relaxed);
        self.held.store(held as u32 + 1, Release);
        true
    }

    /// Adds a lock to the block. Returns false if it is full, or there is no memory for it.
    pub(crate) fn push_further(&self, arena: &Arena, lock: u64) -> bool {
        if self.further.own() == 0 {
            let Some(block) = arena.take(BlockUse::ReadLocks, 0) else { return false };
            self.further.store(block * WORDS as u32, Release);
        }
        let held = self.held.own() as usize;
        let Some(place) = self.place(arena, held) else { return false };
        place.store(lock, Relaxed);
        self.held.store(held as u32 + 1, Release);
        true
    }

    /// Returns the number of locks; `None` if 0. For the thread itself.
    #[inline(always)]
    pub(crate) fn held(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.held.own())
    }

    /// Removes the latest lock. Returns false if `lock` is another one, or the latest is in the block.
    #[inline(always)]
    pub(crate) fn pop(&self, held: NonZeroU32, lock: u64) -> bool {
        let last = held.get() as usize - 1;
        let is_latest = self.locks.get(last).is_some_and(|latest| latest.own() == lock);
        if is_latest {
            self.held.store(last as u32, Relaxed);
        }
        is_latest
    }

    /// Removes any of the locks; the latest one takes its place. Returns false if `lock` is not in the list.
    pub(crate) fn remove_earlier(&self, arena: &Arena, held: NonZeroU32, lock: u64) -> bool {
        let last = held.get() as usize - 1;
        let place = |at| self.place(arena, at);
        let mut places = (0..=last).rev().filter_map(place);
        let Some(found) = places.find(|held| held.own() == lock) else { return false };
        found.store(place(last).map_or(0, Own::own), Relaxed);
        self.held.store(last as u32, Relaxed);
        true
    }

    fn place(&self, arena: &Arena, at: usize) -> Option<&AtomicU64> {
        match self.locks.get(at) {
            Some(place) => Some(place),
            // A slab may have become something else while a reader looks at it, so the word may hold
            // anything.
            None => match self.further.load(Acquire) / WORDS as u32 {
                0 => None,
                block if block < arena.high() => arena.words(block).get(at - READ_LOCKS),
                _ => None,
            },
        }
    }

    /// Returns the locks, for readers.
    pub(crate) fn objects<'a>(&'a self, arena: &'a Arena) -> impl Iterator<Item = u64> + 'a {
        let held = self.held.load(Acquire) as usize;
        (0..held).map_while(|at| self.place(arena, at)).map(|lock| lock.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_of_a_slab_that_has_become_something_else_stays_in_the_arena() {
        let arena = Arena::new();
        arena.map(1 << 20).expect("address space");
        for further in [WORDS as u32, u32::MAX] {
            let locks = ReadLocks {
                held: AtomicU32::new(u32::MAX),
                activation: AtomicU32::new(0),
                further: AtomicU32::new(further),
                _pad: AtomicU32::new(0),
                locks: [const { AtomicU64::new(7) }; READ_LOCKS],
            };
            assert_eq!(locks.objects(&arena).collect::<Vec<_>>(), [7; READ_LOCKS]);
        }
    }
}
