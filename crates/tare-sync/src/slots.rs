//! HOT PATH: the free slots of a block, in one word. One compare-and-swap takes a slot, gives it back, or
//! takes the whole block away from its kind once all slots are free.
//!
//! A slot in use keeps the block of its kind. A thread that has only an address, whose object may have ended,
//! *holds* the block while it reads or writes there: a held block keeps its kind.

use crate::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    again,
};

/// The most slots a block can have.
pub const MOST_SLOTS: usize = 32;
/// The bits of free slots, one for each.
const FREE: u64 = (1 << MOST_SLOTS) - 1;
/// The increment for one holder of the block.
const HOLD: u64 = 1 << MOST_SLOTS;
const HOLDS: u64 = 0xF_FFFF * HOLD;
/// The position of the number of slots.
const COUNT: u32 = 52;
/// The position of the kind of the slots; kind 0 means a block without slots.
const KIND: u32 = 58;

/// The slot word of a block. It is 0 for a block without slots, apart from the counts of those who hold it to
/// find that out.
///
/// # Examples
///
/// ```
/// use tare_sync::BlockSlots;
///
/// let slots = BlockSlots::new();
/// // The block gets three slots of kind 4; slot 0 belongs to the caller.
/// slots.begin(4, 3);
/// let claimed = slots.claim(4).expect("a free slot");
/// assert_eq!((claimed.slot, claimed.last), (1, false));
/// assert!(slots.claim(5).is_none(), "the block is of another kind");
/// slots.free(1);
/// assert!(slots.free(0).all, "now the block may change its kind");
/// assert_eq!(slots.leave(|_kind| true), Some((4, 3)));
/// ```
pub struct BlockSlots(AtomicU64);

/// The result of taking a slot.
pub struct Claimed {
    /// The slot's number in the block.
    pub slot: usize,
    /// Whether no other slot is free now.
    pub last: bool,
    /// Whether all slots were free before.
    pub first: bool,
}

/// The result of giving a slot back.
pub struct Freed {
    /// Whether no other slot is free.
    pub only: bool,
    /// Whether all slots are free now.
    pub all: bool,
}

const fn kind_of(word: u64) -> u8 {
    (word >> KIND) as u8
}

/// Returns the free bits of a block whose slots are all free.
const fn all_of(word: u64) -> u64 {
    (1 << (word >> COUNT & 0x3F)) - 1
}

impl BlockSlots {
    new! {
        /// Creates the word of a block without slots.
        fn new() = BlockSlots(AtomicU64::new(0))
    }

    /// Returns the kind of the slots; 0 if there are none.
    #[inline(always)]
    pub fn kind(&self) -> u8 {
        kind_of(self.0.load(Acquire))
    }

    /// Gives a block without slots a kind and `slots` slots. The first one belongs to the caller.
    pub fn begin(&self, kind: u8, slots: usize) {
        let free = ((1 << slots) - 1) & !1;
        // An addition, because others may be holding the block to find out its kind.
        self.0.fetch_add(u64::from(kind) << KIND | (slots as u64) << COUNT | free, Release);
    }

    /// Takes a free slot; `None` if the block is of another kind or has none.
    pub fn claim(&self, kind: u8) -> Option<Claimed> {
        let mut word = self.0.load(Relaxed);
        while kind_of(word) == kind && word & FREE != 0 {
            let left = word & (word - 1);
            match self.0.compare_exchange_weak(word, left, Acquire, Relaxed) {
                Ok(_) => {
                    return Some(Claimed {
                        slot: word.trailing_zeros() as usize,
                        last: left & FREE == 0,
                        first: word & FREE == all_of(word),
                    });
                }
                Err(now) => word = now,
            }
            again();
        }
        None
    }

    /// Takes a free slot and maintains the block's hint: `hints` holds `bit` while the block may have a free
    /// slot. Clears the bit when it takes the last slot or finds none. See also [`BlockSlots::claim`].
    pub fn claim_by_hint(&self, kind: u8, hints: &AtomicU64, bit: u64) -> Option<Claimed> {
        let claimed = self.claim(kind);
        if claimed.as_ref().is_none_or(|claimed| claimed.last) {
            hints.fetch_and(!bit, AcqRel);
            // Another thread may have set the bit for a slot freed since.
            if self.has_free(kind) {
                hints.fetch_or(bit, AcqRel);
            }
        }
        claimed
    }

    /// Gives back a slot that belongs to the caller.
    pub fn free(&self, slot: usize) -> Freed {
        let before = self.0.fetch_or(1 << slot, Release);
        let now = before | 1 << slot;
        Freed { only: before & FREE == 0, all: now & FREE == all_of(now) }
    }

    /// Sets the hint that the block has a free slot: after it got its slots, or the first one back.
    pub fn hint(hints: &AtomicU64, bit: u64) {
        hints.fetch_or(bit, AcqRel);
    }

    /// Returns whether a slot of this kind may be free.
    fn has_free(&self, kind: u8) -> bool {
        let word = self.0.load(Acquire);
        kind_of(word) == kind && word & FREE != 0
    }

    /// Takes the block away from its kind if `may` allows it, every slot is free and nobody holds it. Returns
    /// the kind and the number of its former slots.
    pub fn leave(&self, may: impl Fn(u8) -> bool) -> Option<(u8, usize)> {
        let word = self.0.load(Relaxed);
        let kind = kind_of(word);
        let is_empty = kind != 0 && word & FREE == all_of(word) && word & HOLDS == 0;
        if !is_empty || !may(kind) {
            return None;
        }
        self.0.compare_exchange(word, 0, Acquire, Relaxed).ok()?;
        Some((kind, (word >> COUNT & 0x3F) as usize))
    }

    /// Keeps the block of its kind until [`BlockSlots::release_hold`]. Returns false, and holds nothing, if
    /// it is of another kind.
    #[inline]
    pub fn hold(&self, kind: u8) -> bool {
        let held = kind_of(self.0.fetch_add(HOLD, Acquire)) == kind;
        if !held {
            self.release_hold();
        }
        held
    }

    /// Ends a hold: the block may be repurposed.
    #[inline]
    pub fn release_hold(&self) {
        self.0.fetch_sub(HOLD, Release);
    }
}
