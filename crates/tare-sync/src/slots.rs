//! HOT PATH: which slots of a block are free, in one word, so that one compare-and-swap takes a slot, gives it back, or
//! takes the whole block away from its kind once every slot is free.
//!
//! Whoever uses a slot keeps the block of its kind by that. Whoever has only an address of what may have ended *holds* the
//! block while it looks or writes: a block that is held stays what it is.

use crate::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    again,
};

/// Slots a block can have.
pub const MOST_SLOTS: usize = 32;
/// One bit for each free slot.
const FREE: u64 = (1 << MOST_SLOTS) - 1;
/// How many hold the block.
const HOLD: u64 = 1 << MOST_SLOTS;
const HOLDS: u64 = 0xF_FFFF * HOLD;
/// How many slots there are.
const COUNT: u32 = 52;
/// Of which kind they are; 0: the block has no slots.
const KIND: u32 = 58;

/// The word. Of a block that has no slots it is 0, but for those who found out by holding it.
pub struct Slots(AtomicU64);

/// A slot that was free is the caller's.
pub struct Claimed {
    /// Its number in the block.
    pub slot: usize,
    /// No other is free.
    pub last: bool,
    /// All were free until now.
    pub first: bool,
}

/// A slot is free again.
pub struct Freed {
    /// No other was.
    pub only: bool,
    /// All are.
    pub all: bool,
}

const fn kind_of(word: u64) -> u8 {
    (word >> KIND) as u8
}

/// The free bits of a block all of whose slots are free.
const fn all_of(word: u64) -> u64 {
    (1 << (word >> COUNT & 0x3F)) - 1
}

impl Slots {
    new! {
        /// A block without slots.
        fn new() = Slots(AtomicU64::new(0))
    }

    /// The kind of the slots; 0: there are none.
    #[inline(always)]
    pub fn kind(&self) -> u8 {
        kind_of(self.0.load(Acquire))
    }

    /// The block has as many slots of a kind from now on, of which the first is the caller's.
    pub fn begin(&self, kind: u8, slots: usize) {
        let free = ((1 << slots) - 1) & !1;
        // Added: others may be finding out what the block is.
        self.0.fetch_add(u64::from(kind) << KIND | (slots as u64) << COUNT | free, Release);
    }

    /// Takes a free slot, if the block is of this kind and has one.
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

    /// As [`Slots::claim`]; `hints` holds `bit` while the block may have a free slot, and loses it with the last.
    pub fn claim_by_hint(&self, kind: u8, hints: &AtomicU64, bit: u64) -> Option<Claimed> {
        let claimed = self.claim(kind);
        if claimed.as_ref().is_none_or(|claimed| claimed.last) {
            hints.fetch_and(!bit, AcqRel);
            // Somebody may have set it for a slot freed since.
            if self.has_free(kind) {
                hints.fetch_or(bit, AcqRel);
            }
        }
        claimed
    }

    /// Gives a slot back, which was the caller's.
    pub fn free(&self, slot: usize) -> Freed {
        let before = self.0.fetch_or(1 << slot, Release);
        let now = before | 1 << slot;
        Freed { only: before & FREE == 0, all: now & FREE == all_of(now) }
    }

    /// Says in `hints` that the block has a free slot: after it got its slots, or the first one back.
    pub fn hint(hints: &AtomicU64, bit: u64) {
        hints.fetch_or(bit, AcqRel);
    }

    /// Whether a slot of this kind may be free.
    fn has_free(&self, kind: u8) -> bool {
        let word = self.0.load(Acquire);
        kind_of(word) == kind && word & FREE != 0
    }

    /// Takes the block away from its kind if every slot is free and nobody holds it: kind and number of the slots it had.
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

    /// Keeps the block what it is until [`Slots::let_go`]. False: it is not of this kind.
    #[inline]
    pub fn hold(&self, kind: u8) -> bool {
        let held = kind_of(self.0.fetch_add(HOLD, Acquire)) == kind;
        if !held {
            self.let_go();
        }
        held
    }

    /// The block may become something else.
    #[inline]
    pub fn let_go(&self) {
        self.0.fetch_sub(HOLD, Release);
    }
}
