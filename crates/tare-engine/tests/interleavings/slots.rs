//! `slots`, `pool`: slots are taken and given back, and a block leaves its kind once all of them are free. No slot has two
//! owners, none that is free is overlooked, and no block leaves while somebody holds it.

use loom::thread;

use super::{check, leak};
use crate::arena::{Arena, Offset};
use crate::atomic::{AtomicU64, Ordering::Relaxed};
use crate::instance::KeyNames;
use crate::lost::Limits;
use crate::pool::{Pool, Pools, SlotHead};
use crate::slots::Slots;

const KIND: u8 = 3;

/// The word of a block of two slots, of which both are free.
fn empty_block() -> &'static Slots {
    let slots = leak(Slots(AtomicU64::new(0)));
    slots.begin(KIND, 2);
    slots.free(0);
    slots.0.watch();
    slots
}

#[test]
fn a_slot_has_one_owner_and_its_block_does_not_leave() {
    check(|| {
        let slots = empty_block();
        let other = thread::spawn(move || {
            let claimed = slots.claim(KIND).map(|claimed| claimed.slot);
            (claimed, slots.leave(|_| true).is_some())
        });
        let mine = slots.claim(KIND).map(|claimed| claimed.slot);
        let left = slots.leave(|_| true).is_some();
        let (others, others_left) = other.join().expect("a thread");
        assert!(!left && !others_left, "both had claimed a slot first");
        let mut claimed = [mine, others];
        claimed.sort_unstable();
        assert_eq!(claimed, [Some(0), Some(1)]);
    });
}

#[test]
fn a_block_leaves_or_gives_a_slot() {
    check(|| {
        let slots = empty_block();
        let other = thread::spawn(move || slots.leave(|_| true).is_some());
        let claimed = slots.claim(KIND).is_some();
        let left = other.join().expect("a thread");
        assert!(claimed != left);
        assert_eq!(slots.kind(), if left { 0 } else { KIND });
    });
}

#[test]
fn who_holds_a_block_writes_before_it_becomes_something_else() {
    check(|| {
        let (slots, word) = (empty_block(), leak(AtomicU64::new(0)));
        word.watch();
        let late = thread::spawn(move || {
            if slots.hold(KIND) {
                word.store(1, Relaxed);
                slots.let_go();
            }
        });
        if slots.leave(|_| true).is_some() {
            // Another kind's now.
            word.store(2, Relaxed);
            slots.begin(KIND + 1, 2);
            late.join().expect("a thread");
            assert_eq!(word.load(Relaxed), 2, "a late store");
        } else {
            late.join().expect("a thread");
        }
    });
}

/// A pool that has one block of slots, all taken.
fn full_pool() -> (&'static Arena, &'static Pools, Vec<&'static KeyNames>) {
    let (arena, pools) = (leak(Arena::new()), leak(Pools::new()));
    arena.map(2 * 4096).expect("address space");
    arena.shares.limit(&Limits::default());
    pools.map(arena).expect("address space");
    let first = take(arena, pools).expect("a slot");
    let slots = std::iter::from_fn(|| take(arena, pools));
    let slots: Vec<_> = std::iter::once(first).chain(slots).collect();
    arena.meta(1).slots.0.watch();
    pools.blocks[Pool::Names as usize].words()[0].watch();
    (arena, pools, slots)
}

fn take(arena: &Arena, pools: &Pools) -> Option<&'static KeyNames> {
    let slot = pools.take::<KeyNames>(arena, Pool::Names, 0)?;
    slot.head.publish();
    Some(slot)
}

#[test]
fn a_free_slot_is_found_however_often_its_block_was_full() {
    check(|| {
        let (arena, pools, slots) = full_pool();
        assert_eq!(slots.len(), 4);
        let (one, other) = (slots[0], slots[1]);
        let giver = thread::spawn(move || pools.give(arena, Pool::Names, one));
        pools.give(arena, Pool::Names, other);
        let taken = take(arena, pools).expect("the slot just given");
        giver.join().expect("a thread");
        let last = take(arena, pools).expect("the other one");
        let offset = |slot: &KeyNames| -> Offset { arena.offset_of::<SlotHead>(&slot.head) };
        assert_ne!(offset(taken), offset(last));
        assert!(take(arena, pools).is_none());
    });
}
