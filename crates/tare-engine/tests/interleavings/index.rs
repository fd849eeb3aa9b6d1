//! `index`: two threads enter the same key. One of them stays, both know which, and a slot that is found has been filled.

use loom::thread;

use super::{check, leak};
use crate::arena::{Offset, Table};
use crate::atomic::{AtomicU64, Ordering::Relaxed};
use crate::index::{Index, Inserted};

const KEY: u64 = 7;
const HASH: u64 = 9 << 32;

struct Shared {
    index: Index,
    /// What a slot holds, by its offset.
    slots: Table,
}

impl Shared {
    fn new() -> &'static Shared {
        let shared = leak(Shared { index: Index::new(), slots: Table::new() });
        shared.index.map(1).expect("address space");
        shared.slots.map(8).expect("address space");
        // Where the key belongs, and behind.
        shared.index.entries.words()[..3].iter().for_each(AtomicU64::watch);
        shared.slots.words().iter().for_each(AtomicU64::watch);
        shared
    }

    fn is_filled(&self, offset: Offset) -> bool {
        self.slots.words()[offset as usize].load(Relaxed) == KEY
    }

    fn find(&self) -> Option<Offset> {
        self.index.find(HASH, |offset| self.is_filled(offset))
    }

    /// Enters a slot of the caller's; returns the slot that stays.
    fn insert(&self, offset: Offset) -> Offset {
        self.slots.words()[offset as usize].store(KEY, Relaxed);
        match self.index.insert(HASH, offset, |offset| self.is_filled(offset)) {
            Inserted::Here => offset,
            Inserted::There(first) => first,
            Inserted::Full => panic!("there is room"),
        }
    }
}

#[test]
fn of_two_with_one_key_one_stays_and_both_know() {
    check(|| {
        let shared = Shared::new();
        let other = thread::spawn(move || shared.insert(3));
        let mine = shared.insert(4);
        let others = other.join().expect("a thread");
        assert_eq!(mine, others);
        assert_eq!(shared.find(), Some(mine));
        shared.index.remove(HASH, mine);
        assert_eq!(shared.find(), None, "the other one was taken back");
    });
}

#[test]
fn what_is_found_is_filled() {
    check(|| {
        let shared = Shared::new();
        let other = thread::spawn(move || shared.insert(3));
        let found = shared.index.find(HASH, |offset| {
            assert!(shared.is_filled(offset));
            true
        });
        assert!(found.is_none_or(|found| found == 3));
        other.join().expect("a thread");
        assert_eq!(shared.find(), Some(3));
    });
}
