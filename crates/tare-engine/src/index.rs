//! HOT PATH: hash → slot, without locks. One mechanism for files, tables, programs and digests.
//!
//! Open addressing over words of `hash's upper half << 32 | offset`. An entry is set by one compare-and-swap;
//! who finds that another thread inserted the same key meanwhile takes its own back.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
    fence,
};

use crate::arena::{Offset, Table};

/// An entry that was removed: searches go on past it, insertions may use it.
const REMOVED: u64 = 1;
/// How far a key may lie from its place.
const PROBES: usize = 128;

pub(crate) struct Index {
    entries: Table,
}

/// What came of an insertion.
pub(crate) enum Inserted {
    /// The slot is now found under its key.
    Here,
    /// Another thread was first: its slot.
    There(Offset),
    /// No place.
    Full,
}

impl Index {
    pub(crate) const fn new() -> Index {
        Index { entries: Table::new() }
    }

    /// Makes room for `keys` at half load.
    pub(crate) fn map(&self, keys: usize) -> Result<(), std::io::Error> {
        self.entries.map((keys * 2).next_power_of_two().max(1024))
    }

    fn probe(&self, hash: u64) -> impl Iterator<Item = &'static AtomicU64> {
        let entries = self.entries.words();
        let mask = entries.len().wrapping_sub(1);
        let bound = PROBES.min(entries.len());
        (0..bound).map(move |step| &entries[(hash as usize).wrapping_add(step) & mask])
    }

    /// The slot under `hash` that `is` recognises.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is: impl Fn(Offset) -> bool) -> Option<Offset> {
        for entry in self.probe(hash) {
            let value = entry.load(Acquire);
            if value == 0 {
                return None;
            }
            if value >> 32 == hash >> 32 && value != REMOVED && is(value as Offset) {
                return Some(value as Offset);
            }
        }
        None
    }

    /// Enters a filled slot.
    pub(crate) fn insert(&self, hash: u64, offset: Offset, is: impl Fn(Offset) -> bool) -> Inserted {
        let mine = hash & !0xFFFF_FFFF | u64::from(offset);
        let mut placed = false;
        for entry in self.probe(hash) {
            let value = entry.load(Relaxed);
            if value <= REMOVED && entry.compare_exchange(value, mine, AcqRel, Relaxed).is_ok() {
                placed = true;
                break;
            }
        }
        if !placed {
            return Inserted::Full;
        }
        // Of two threads that enter one key, the one whose entry lies first stays; both see the same order.
        match self.find(hash, is) {
            Some(first) if first != offset => {
                self.remove(hash, offset);
                Inserted::There(first)
            }
            _ => Inserted::Here,
        }
    }

    /// After an insertion into an index from which others remove: a thread that found a place freed just before another's
    /// entry, and that other, may not have seen each other. Of several entries of one key the one that lies first stays
    /// and is returned; the others are removed, each by one thread, which is told by `lost`.
    pub(crate) fn settle(
        &self,
        hash: u64,
        is: impl Fn(Offset) -> bool,
        lost: impl Fn(Offset),
    ) -> Option<Offset> {
        // Of two threads at least one sees the other's entry.
        fence(SeqCst);
        let mut first = None;
        for entry in self.probe(hash) {
            let value = entry.load(Acquire);
            if value == 0 {
                break;
            }
            if value >> 32 != hash >> 32 || value == REMOVED || !is(value as Offset) {
                continue;
            }
            if first.is_none() {
                first = Some(value as Offset);
            } else if entry.compare_exchange(value, REMOVED, AcqRel, Relaxed).is_ok() {
                lost(value as Offset);
            }
        }
        first
    }

    /// Takes a slot's entry away.
    pub(crate) fn remove(&self, hash: u64, offset: Offset) {
        let mine = hash & !0xFFFF_FFFF | u64::from(offset);
        for entry in self.probe(hash) {
            let value = entry.load(Relaxed);
            if value == 0 {
                return;
            }
            if value == mine && entry.compare_exchange(mine, REMOVED, AcqRel, Relaxed).is_ok() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entered(index: &Index) -> usize {
        index.entries.words().iter().filter(|entry| entry.load(Relaxed) > REMOVED).count()
    }

    #[test]
    fn finds_what_was_inserted_until_it_is_removed() {
        let index = Index::new();
        index.map(4096).expect("map");
        let hash = |n: u32| crate::text::hash(7, &n.to_le_bytes());
        for n in 2..4098 {
            assert!(matches!(index.insert(hash(n), n, |at| at == n), Inserted::Here));
        }
        for n in 2..4098 {
            assert_eq!(index.find(hash(n), |at| at == n), Some(n));
        }
        for n in (2..4098).step_by(2) {
            index.remove(hash(n), n);
        }
        for n in 2..4098 {
            assert_eq!(index.find(hash(n), |at| at == n), (n % 2 == 1).then_some(n));
        }
        assert_eq!(entered(&index), 2048);
    }

    #[test]
    fn of_two_threads_with_one_key_one_wins() {
        let index = Index::new();
        index.map(64).expect("map");
        std::thread::scope(|scope| {
            let winners: Vec<_> = (2..10u32)
                .map(|n| {
                    let index = &index;
                    scope.spawn(move || match index.insert(42 << 32, n, |_| true) {
                        Inserted::Here => n,
                        Inserted::There(first) => first,
                        Inserted::Full => 0,
                    })
                })
                .collect();
            for winner in winners {
                assert_ne!(winner.join().expect("thread"), 0);
            }
        });
        assert_eq!(entered(&index), 1);
    }
}
