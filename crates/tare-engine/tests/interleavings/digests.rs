//! `digest_table.rs`, `Index::settle` (index.rs): a digest's place is given to another one while threads add to it, read
//! it and look for it. No count gets into another digest's row, none is lost, and of one digest there is one place.

use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    fence,
};
use loom::thread;

const BUSY: u64 = 1 << 31;
const PINS: u64 = BUSY - 1;

/// One place, and the row without a digest.
struct Place {
    /// Generation << 32, flag, pins.
    tenancy: AtomicU64,
    /// Rises when the tenant loses its place.
    turn: AtomicU64,
    /// Who the tenant is: its generation times ten.
    key: AtomicU64,
    own: AtomicU64,
    past: AtomicU64,
    overflow: AtomicU64,
}

impl Place {
    /// Let to generation 1, which has counted 3.
    fn new() -> Arc<Place> {
        Arc::new(Place {
            tenancy: AtomicU64::new(1 << 32),
            turn: AtomicU64::new(0),
            key: AtomicU64::new(10),
            own: AtomicU64::new(3),
            past: AtomicU64::new(0),
            overflow: AtomicU64::new(0),
        })
    }

    /// A thread moves what it counted to the tenant of `generation`, or to where it counts for none.
    fn fold(&self, generation: u64, value: u64) {
        let before = self.tenancy.fetch_add(1, Acquire);
        let there = before >> 32 == generation && before & BUSY == 0;
        if there {
            self.own.fetch_add(value, Relaxed);
        } else {
            self.tenancy.fetch_sub(1, Release);
            self.overflow.fetch_add(value, Relaxed);
        }
        if there {
            self.tenancy.fetch_sub(1, Release);
        }
    }

    /// Gives the place to the next tenant, unless somebody is adding to it.
    fn evict(&self) -> bool {
        let before = self.tenancy.load(Relaxed);
        let next = (before >> 32) + 1;
        let claimed = before & (BUSY | PINS) == 0
            && self.tenancy.compare_exchange(before, next << 32 | BUSY, Acquire, Relaxed).is_ok();
        if !claimed {
            return false;
        }
        fence(Release);
        let counted = self.own.load(Relaxed);
        self.past.store(self.past.load(Relaxed) + counted, Relaxed);
        self.own.store(0, Relaxed);
        self.turn.fetch_add(2, Release);
        fence(Release);
        self.key.store(next * 10, Relaxed);
        self.tenancy.fetch_and(!BUSY, Release);
        true
    }

    /// One try of a reader: generation, key, own, past.
    fn read(&self) -> Option<[u64; 4]> {
        let before = self.tenancy.load(Acquire);
        let [key, own, past] = [&self.key, &self.own, &self.past].map(|word| word.load(Relaxed));
        fence(Acquire);
        let now = self.tenancy.load(Relaxed);
        (before & BUSY == 0 && (before ^ now) & !PINS == 0).then_some([before >> 32, key, own, past])
    }
}

#[test]
fn what_is_folded_while_its_digest_is_evicted_is_not_the_next_ones() {
    crate::check(|| {
        let place = Place::new();
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
    crate::check(|| {
        let place = Place::new();
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
fn what_a_reader_trusts_is_of_one_tenant_and_whole() {
    crate::check(|| {
        let place = Place::new();
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
fn what_a_thread_recognises_by_a_turn_that_has_not_changed_is_there() {
    crate::check(|| {
        let place = Place::new();
        let other = {
            let place = Arc::clone(&place);
            thread::spawn(move || place.evict())
        };
        let key = place.key.load(Relaxed);
        fence(Acquire);
        if place.turn.load(Relaxed) == 0 {
            assert_eq!(key, 10, "the first tenant's, which has not lost its place");
        }
        other.join().expect("a thread");
    });
}

const REMOVED: u64 = 1;
const FOREIGN: u64 = 2;

/// An index whose first entry is another key's, and is removed. What is not foreign is the one key's.
struct Index {
    entries: [AtomicU64; 3],
    withdrawn: [AtomicU64; 5],
}

impl Index {
    fn find(&self) -> Option<u64> {
        let values = self.entries.iter().map(|entry| entry.load(Acquire)).take_while(|value| *value != 0);
        values.into_iter().find(|value| *value > FOREIGN)
    }

    fn remove(&self, slot: u64) {
        for entry in &self.entries {
            if entry.load(Relaxed) == slot && entry.compare_exchange(slot, REMOVED, AcqRel, Relaxed).is_ok() {
                return;
            }
        }
    }

    fn withdraw(&self, slot: u64) {
        self.withdrawn[slot as usize].store(1, Relaxed);
    }

    fn enter(&self, slot: u64) {
        if self.find().is_some() {
            return self.withdraw(slot);
        }
        let placed = self.entries.iter().any(|entry| {
            let value = entry.load(Relaxed);
            value <= REMOVED && entry.compare_exchange(value, slot, AcqRel, Relaxed).is_ok()
        });
        assert!(placed, "there is room");
        if self.find().is_some_and(|first| first != slot) {
            self.remove(slot);
            return self.withdraw(slot);
        }
        self.settle();
    }

    fn settle(&self) {
        fence(SeqCst);
        let mut first = None;
        for entry in &self.entries {
            let value = entry.load(Acquire);
            if value == 0 {
                break;
            }
            if value <= FOREIGN {
                continue;
            }
            if first.is_none() {
                first = Some(value);
            } else if entry.compare_exchange(value, REMOVED, AcqRel, Relaxed).is_ok() {
                self.withdraw(value);
            }
        }
    }
}

#[test]
fn two_that_enter_one_digest_while_a_place_before_is_freed_leave_one() {
    crate::check(|| {
        let index = Arc::new(Index {
            entries: [FOREIGN, 0, 0].map(AtomicU64::new),
            withdrawn: [0; 5].map(AtomicU64::new),
        });
        let other = {
            let index = Arc::clone(&index);
            thread::spawn(move || {
                index.remove(FOREIGN);
                index.enter(3);
            })
        };
        index.enter(4);
        other.join().expect("a thread");
        let entered: Vec<u64> =
            index.entries.iter().map(|entry| entry.load(Relaxed)).filter(|value| *value > FOREIGN).collect();
        let [kept] = entered[..] else { panic!("one stays, not {entered:?}") };
        let withdrawn = |slot: u64| index.withdrawn[slot as usize].load(Relaxed) == 1;
        assert!(!withdrawn(kept) && withdrawn(7 - kept));
    });
}
