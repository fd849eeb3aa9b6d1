//! A digest's slot changes its owner while threads add to it, read it and look for it. No count reaches
//! another digest's row, none is lost, and a digest has one slot.

use loom::sync::Arc;
use loom::thread;

use super::{check, words};
use crate::atomic::{AtomicU64, Ordering::Relaxed};
use crate::{Evictions, Index, Inserted, PinnedSlot};

/// One slot, and the row without a digest.
struct ModelledSlot {
    pinned_slot: PinnedSlot,
    /// The owner's identity: its generation times ten.
    key: AtomicU64,
    own: AtomicU64,
    past: AtomicU64,
    overflow: AtomicU64,
    /// Rises when the owner loses the slot.
    evictions: Evictions,
}

impl ModelledSlot {
    /// Creates a slot owned by generation 1, which has counted 3.
    fn new() -> Arc<ModelledSlot> {
        let [past, overflow] = words();
        let place = ModelledSlot {
            pinned_slot: PinnedSlot::new(),
            key: AtomicU64::new(10),
            own: AtomicU64::new(3),
            past,
            overflow,
            evictions: Evictions::new(),
        };
        place.pinned_slot.prepare();
        assert_eq!(place.pinned_slot.publish_owner(), 1);
        Arc::new(place)
    }

    /// Moves a thread's count to the owner of `generation`, or to the row without a digest.
    fn fold(&self, generation: u32, value: u64) {
        if self.pinned_slot.pin(generation) {
            self.own.fetch_add(value, Relaxed);
            self.pinned_slot.unpin();
        } else {
            self.overflow.fetch_add(value, Relaxed);
        }
    }

    /// Gives the slot to the next owner unless it is pinned.
    fn evict(&self) -> bool {
        let before = self.pinned_slot.now();
        if !self.pinned_slot.claim(before, 1) {
            return false;
        }
        let counted = self.own.load(Relaxed);
        self.past.store(self.past.load(Relaxed) + counted, Relaxed);
        self.own.store(0, Relaxed);
        self.evictions.count();
        self.key.store(u64::from(before.generation() + 1) * 10, Relaxed);
        self.pinned_slot.publish_owner();
        true
    }

    /// Tries once to read generation, key, own and past.
    fn read(&self) -> Option<[u64; 4]> {
        let words = || [&self.key, &self.own, &self.past].map(|word| word.load(Relaxed));
        let (owner, [key, own, past]) = self.pinned_slot.read(words)?;
        Some([u64::from(owner.generation()), key, own, past])
    }
}

#[test]
fn what_is_folded_while_its_digest_is_evicted_is_not_the_next_ones() {
    check(|| {
        let place = ModelledSlot::new();
        let other = {
            let place = Arc::clone(&place);
            thread::spawn(move || place.fold(1, 5))
        };
        let evicted = place.evict();
        other.join().expect("a thread");
        let [generation, _, own, past] = place.read().expect("all is quiet");
        let overflow = place.overflow.load(Relaxed);
        assert_eq!(own + past + overflow, 8);
        assert_eq!((generation, own), if evicted { (2, 0) } else { (1, 8) });
    });
}

#[test]
fn of_two_that_evict_at_once_one_gets_the_place_and_nothing_is_lost() {
    check(|| {
        let place = ModelledSlot::new();
        let other = {
            let place = Arc::clone(&place);
            thread::spawn(move || place.evict())
        };
        let mine = place.evict();
        let others = other.join().expect("a thread");
        let [generation, _, own, past] = place.read().expect("all is quiet");
        assert!(mine || others);
        assert_eq!((generation, own, past), (1 + u64::from(mine) + u64::from(others), 0, 3));
    });
}

#[test]
fn what_a_reader_trusts_is_of_one_owner_and_whole() {
    check(|| {
        let place = ModelledSlot::new();
        let other = {
            let place = Arc::clone(&place);
            thread::spawn(move || place.evict())
        };
        if let Some([generation, key, own, past]) = place.read() {
            assert_eq!((key, own + past), (generation * 10, 3));
        }
        other.join().expect("a thread");
        assert_eq!(place.read(), Some([2, 20, 0, 3]));
    });
}

#[test]
fn what_a_thread_recognises_while_nothing_was_evicted_is_there() {
    check(|| {
        let place = ModelledSlot::new();
        let other = {
            let place = Arc::clone(&place);
            thread::spawn(move || place.evict())
        };
        let key = place.key.load(Relaxed);
        if place.evictions.since() == 0 {
            assert_eq!(key, 10, "the first owner's, which has not lost its place");
        }
        other.join().expect("a thread");
    });
}

/// The place of another key, which is removed.
const FOREIGN: u32 = 2;
const HASH: u64 = 7 << 32;

struct DigestModel {
    entries: [AtomicU64; 4],
    withdrawn: [AtomicU64; 5],
}

impl DigestModel {
    fn withdraw(&self, place: u32) {
        self.withdrawn[place as usize].store(1, Relaxed);
    }

    /// Enters a digest like the engine: looks for it, inserts it, then resolves duplicates.
    fn enter(&self, place: u32) {
        let index = Index(&self.entries);
        let is = |place| place > FOREIGN;
        if index.find(HASH, is).is_some() {
            return self.withdraw(place);
        }
        match index.insert(HASH, place, is) {
            Inserted::Here => {
                index.settle(HASH, is, |lost| self.withdraw(lost));
            }
            Inserted::There(_) => self.withdraw(place),
            Inserted::Full => panic!("there is room"),
        }
    }
}

#[test]
fn two_that_enter_one_digest_while_a_place_before_is_freed_leave_one() {
    check(|| {
        let shared = Arc::new(DigestModel { entries: words(), withdrawn: words() });
        Index(&shared.entries).insert(HASH, FOREIGN, |_| false);
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                Index(&shared.entries).remove(HASH, FOREIGN);
                shared.enter(3);
            })
        };
        shared.enter(4);
        other.join().expect("a thread");
        let entered: Vec<u32> = (3..5)
            .filter(|place| Index(&shared.entries).find(HASH, |found| found == *place).is_some())
            .collect();
        let [kept] = entered[..] else { panic!("one stays, not {entered:?}") };
        let withdrawn = |place: u32| shared.withdrawn[place as usize].load(Relaxed) == 1;
        assert!(!withdrawn(kept) && withdrawn(7 - kept));
    });
}
