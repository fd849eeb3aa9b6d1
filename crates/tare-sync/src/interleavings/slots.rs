//! Slots are taken and given back, and a block leaves its kind once all are free. No slot has two owners, no
//! free slot is overlooked, and no block leaves while somebody holds it.

use loom::sync::Arc;
use loom::thread;

use super::{check, words};
use crate::BlockSlots;
use crate::atomic::{AtomicU64, Ordering::Relaxed};

const KIND: u8 = 3;
const BIT: u64 = 1 << 5;

struct HintedBlock {
    slots: BlockSlots,
    hints: AtomicU64,
    word: AtomicU64,
}

impl HintedBlock {
    /// Creates a block of two slots, both owned by the caller.
    fn full() -> Arc<HintedBlock> {
        let [hints, word] = words();
        let block = HintedBlock { slots: BlockSlots::new(), hints, word };
        block.slots.begin(KIND, 2);
        assert_eq!(block.slots.claim(KIND).expect("the second").slot, 1);
        Arc::new(block)
    }

    /// Creates a block of two slots, both free.
    fn empty() -> Arc<HintedBlock> {
        let block = HintedBlock::full();
        block.give(0);
        block.give(1);
        block
    }

    fn give(&self, slot: usize) {
        if self.slots.free(slot).only {
            BlockSlots::hint(&self.hints, BIT);
        }
    }

    fn take(&self) -> Option<usize> {
        if self.hints.load(Relaxed) & BIT == 0 {
            return None;
        }
        self.slots.claim_by_hint(KIND, &self.hints, BIT).map(|claimed| claimed.slot)
    }
}

#[test]
fn a_slot_has_one_owner_and_its_block_does_not_leave() {
    check(|| {
        let block = HintedBlock::empty();
        let both = |block: &HintedBlock| {
            let claimed = block.slots.claim(KIND).map(|claimed| claimed.slot);
            (claimed, block.slots.leave(|_| true).is_some())
        };
        let other = {
            let block = Arc::clone(&block);
            thread::spawn(move || both(&block))
        };
        let (mine, left) = both(&block);
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
        let block = HintedBlock::empty();
        let other = {
            let block = Arc::clone(&block);
            thread::spawn(move || block.slots.leave(|_| true).is_some())
        };
        let claimed = block.slots.claim(KIND).is_some();
        let left = other.join().expect("a thread");
        assert!(claimed != left);
        assert_eq!(block.slots.kind(), if left { 0 } else { KIND });
    });
}

#[test]
fn who_holds_a_block_writes_before_it_becomes_something_else() {
    check(|| {
        let block = HintedBlock::empty();
        let late = {
            let block = Arc::clone(&block);
            thread::spawn(move || {
                if block.slots.hold(KIND) {
                    block.word.store(1, Relaxed);
                    block.slots.release_hold();
                }
            })
        };
        if block.slots.leave(|_| true).is_some() {
            // The block belongs to another kind now.
            block.word.store(2, Relaxed);
            block.slots.begin(KIND + 1, 2);
            late.join().expect("a thread");
            assert_eq!(block.word.load(Relaxed), 2, "a late store");
        } else {
            late.join().expect("a thread");
        }
    });
}

#[test]
fn a_free_slot_is_found_however_often_its_block_was_full() {
    check(|| {
        let block = HintedBlock::full();
        let giver = {
            let block = Arc::clone(&block);
            thread::spawn(move || block.give(0))
        };
        block.give(1);
        // The hint may come a moment later, but is not lost.
        let mut taken: Vec<usize> = block.take().into_iter().collect();
        giver.join().expect("a thread");
        taken.extend(std::iter::from_fn(|| block.take()));
        taken.sort_unstable();
        assert_eq!(taken, [0, 1]);
    });
}
