//! `index.rs`: two threads enter the same key. One of them stays, both know which, and a slot that is found has
//! been filled.

use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use loom::thread;

const REMOVED: u64 = 1;
const KEY: u64 = 7;

struct Index {
    entries: [AtomicU64; 3],
    /// What a slot holds, by its offset.
    slots: [AtomicU64; 8],
}

impl Index {
    fn new() -> Index {
        Index {
            entries: std::array::from_fn(|_| AtomicU64::new(0)),
            slots: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    fn find(&self) -> Option<u64> {
        for entry in &self.entries {
            let value = entry.load(Acquire);
            if value == 0 {
                return None;
            }
            if value != REMOVED && self.slots[value as usize].load(Relaxed) == KEY {
                return Some(value);
            }
        }
        None
    }

    /// Enters a slot of the caller's; returns the slot that stays.
    fn insert(&self, offset: u64) -> u64 {
        self.slots[offset as usize].store(KEY, Relaxed);
        let placed = self.entries.iter().any(|entry| {
            let value = entry.load(Relaxed);
            value <= REMOVED && entry.compare_exchange(value, offset, AcqRel, Relaxed).is_ok()
        });
        assert!(placed, "there is room");
        match self.find() {
            Some(first) if first != offset => {
                self.remove(offset);
                first
            }
            _ => offset,
        }
    }

    fn remove(&self, offset: u64) {
        for entry in &self.entries {
            if entry.load(Relaxed) == offset
                && entry.compare_exchange(offset, REMOVED, AcqRel, Relaxed).is_ok()
            {
                return;
            }
        }
    }
}

#[test]
fn of_two_with_one_key_one_stays_and_both_know() {
    crate::check(|| {
        let index = Arc::new(Index::new());
        let other = {
            let index = Arc::clone(&index);
            thread::spawn(move || index.insert(3))
        };
        let mine = index.insert(4);
        let others = other.join().expect("a thread");
        assert_eq!(mine, others);
        assert_eq!(index.find(), Some(mine));
        let entered = index.entries.iter().filter(|entry| entry.load(Relaxed) > REMOVED).count();
        assert_eq!(entered, 1);
    });
}

#[test]
fn what_is_found_is_filled() {
    crate::check(|| {
        let index = Arc::new(Index::new());
        let other = {
            let index = Arc::clone(&index);
            thread::spawn(move || index.insert(3))
        };
        if let Some(found) = index.find() {
            assert_eq!(index.slots[found as usize].load(Relaxed), KEY);
        }
        other.join().expect("a thread");
        assert_eq!(index.find(), Some(3));
    });
}
