//! HOT PATH: a lock-free hash table from a hash to a place, with open addressing. An entry is `upper half of
//! the hash << 32 | place`. One compare-and-swap sets an entry; a thread that finds its key inserted by
//! another one removes its own.

use crate::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
    fence,
};

/// A removed entry: searches continue past it, and insertions may reuse it.
const REMOVED: u64 = 1;
/// The longest probe sequence.
const PROBES: usize = 128;

/// A hash table over the caller's entries: a power of two of words, all 0 at first. Places are greater than
/// 1.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::AtomicU64;
///
/// use tare_sync::{Index, Inserted};
///
/// let entries: [AtomicU64; 8] = Default::default();
/// let index = Index(&entries);
/// let hash = 0xABCD << 32;
/// // The closure compares the key at a place with the one that is looked for.
/// assert!(matches!(index.insert(hash, 5, |place| place == 5), Inserted::Here));
/// assert_eq!(index.find(hash, |place| place == 5), Some(5));
/// index.remove(hash, 5);
/// assert!(index.is_empty());
/// ```
pub struct Index<'a>(pub &'a [AtomicU64]);

/// The result of an insertion.
pub enum Inserted {
    /// The place was inserted.
    Here,
    /// Another thread inserted the key first, with this place.
    There(u32),
    /// Every entry of the probe sequence is taken.
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

    /// Returns the place under `hash` that `is` accepts.
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

    /// Inserts `place`, whose contents are complete. `is` accepts places with the same key.
    pub fn insert(&self, hash: u64, place: u32, is: impl Fn(u32) -> bool) -> Inserted {
        let mine = hash & !0xFFFF_FFFF | u64::from(place);
        let placed = self.probe(hash).any(|entry| {
            let value = entry.load(Relaxed);
            value <= REMOVED && entry.compare_exchange(value, mine, AcqRel, Relaxed).is_ok()
        });
        if !placed {
            return Inserted::Full;
        }
        // Of two threads that insert the same key, the one with the first entry wins. Both see the same
        // order.
        match self.find(hash, is) {
            Some(first) if first != place => {
                self.remove(hash, place);
                Inserted::There(first)
            }
            _ => Inserted::Here,
        }
    }

    /// Resolves duplicates after an insertion into a table from which others remove. Two threads may miss
    /// each other's entry if one of them reused an entry that had just been freed. Keeps the first entry of
    /// the key and returns its place. Each other entry is removed by one thread, which is told through
    /// `lost`.
    pub fn settle(&self, hash: u64, is: impl Fn(u32) -> bool, lost: impl Fn(u32)) -> Option<u32> {
        // At least one of two threads sees the other's entry.
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

    /// Removes the entry of `place`.
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

    /// Counts the entries.
    pub fn len(&self) -> usize {
        self.0.iter().filter(|entry| entry.load(Relaxed) > REMOVED).count()
    }

    /// Returns whether there are no entries.
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
        /// The number of keys. Miri needs a second for about ten.
        const COUNT: u32 = if cfg!(miri) { 64 } else { 4096 };
        let entries = entries(2 * COUNT as usize);
        let index = Index(&entries);
        // Any mixing function works.
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
