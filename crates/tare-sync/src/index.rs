//! HOT PATH: hash → place. Open addressing over words of `hash's upper half << 32 | place`. An entry is set by one
//! compare-and-swap; who finds that another thread inserted the same key meanwhile takes its own back.

use crate::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
    fence,
};

/// An entry that was removed: searches go on past it, insertions may use it.
const REMOVED: u64 = 1;
/// How far a key may lie from where it belongs.
const PROBES: usize = 128;

/// An index, seen through its entries: words that are 0 at first, a power of two of them. Places are numbers above 1.
pub struct Index<'a>(pub &'a [AtomicU64]);

/// What came of an insertion.
pub enum Inserted {
    /// The place is now found under its key.
    Here,
    /// Another thread was first: its place.
    There(u32),
    /// The index is full around this key.
    Full,
}

impl<'a> Index<'a> {
    #[inline(always)]
    fn probe(&self, hash: u64) -> impl Iterator<Item = &'a AtomicU64> + use<'a> {
        let entries = self.0;
        let mask = entries.len().wrapping_sub(1);
        let bound = PROBES.min(entries.len());
        (0..bound).map(move |step| &entries[(hash as usize).wrapping_add(step) & mask])
    }

    /// The place under `hash` that `is` recognises.
    #[inline]
    pub fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        for entry in self.probe(hash) {
            let value = entry.load(Acquire);
            if value == 0 {
                return None;
            }
            if value >> 32 == hash >> 32 && value != REMOVED && is(value as u32) {
                return Some(value as u32);
            }
        }
        None
    }

    /// Enters a place that has been filled.
    pub fn insert(&self, hash: u64, place: u32, is: impl Fn(u32) -> bool) -> Inserted {
        let mine = hash & !0xFFFF_FFFF | u64::from(place);
        let placed = self.probe(hash).any(|entry| {
            let value = entry.load(Relaxed);
            value <= REMOVED && entry.compare_exchange(value, mine, AcqRel, Relaxed).is_ok()
        });
        if !placed {
            return Inserted::Full;
        }
        // Of two threads that enter one key, the one whose entry lies first stays; both see the same order.
        match self.find(hash, is) {
            Some(first) if first != place => {
                self.remove(hash, place);
                Inserted::There(first)
            }
            _ => Inserted::Here,
        }
    }

    /// After an insertion into an index from which others remove: a thread that found an entry freed just before another's
    /// entry, and that other, may not have seen each other. Of several entries of one key the one that lies first stays
    /// and is returned; the others are removed, each by one thread, which is told by `lost`.
    pub fn settle(&self, hash: u64, is: impl Fn(u32) -> bool, lost: impl Fn(u32)) -> Option<u32> {
        // Of two threads at least one sees the other's entry.
        fence(SeqCst);
        let mut first = None;
        for entry in self.probe(hash) {
            let value = entry.load(Acquire);
            if value == 0 {
                break;
            }
            if value >> 32 != hash >> 32 || value == REMOVED || !is(value as u32) {
                continue;
            }
            if first.is_none() {
                first = Some(value as u32);
            } else if entry.compare_exchange(value, REMOVED, AcqRel, Relaxed).is_ok() {
                lost(value as u32);
            }
        }
        first
    }

    /// Takes a place's entry away.
    pub fn remove(&self, hash: u64, place: u32) {
        let mine = hash & !0xFFFF_FFFF | u64::from(place);
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

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.0.iter().filter(|entry| entry.load(Relaxed) > REMOVED).count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn entries(count: usize) -> Vec<AtomicU64> {
        (0..count).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn finds_what_was_inserted_until_it_is_removed() {
        /// Miri takes a second for some ten.
        const COUNT: u32 = if cfg!(miri) { 64 } else { 4096 };
        let entries = entries(2 * COUNT as usize);
        let index = Index(&entries);
        // Any mixing does.
        let hash = |n: u32| u64::from(n).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
        for n in 2..COUNT + 2 {
            assert!(matches!(index.insert(hash(n), n, |at| at == n), Inserted::Here));
        }
        for n in 2..COUNT + 2 {
            assert_eq!(index.find(hash(n), |at| at == n), Some(n));
        }
        for n in (2..COUNT + 2).step_by(2) {
            index.remove(hash(n), n);
        }
        for n in 2..COUNT + 2 {
            assert_eq!(index.find(hash(n), |at| at == n), (n % 2 == 1).then_some(n));
        }
        assert_eq!(index.len(), COUNT as usize / 2);
    }

    #[test]
    fn of_two_threads_with_one_key_one_wins() {
        let entries = entries(1024);
        let index = Index(&entries);
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
        assert_eq!(index.len(), 1);
    }
}
