//! HOT PATH: journals: the records that a thread writes of its waits, and of its stages, one behind the
//! other.
//!
//! The lowest bits of a record's first word say what the record is, and so how long. Ids and times are
//! relative to the last [`BASE`], and an event nests in what the last [`PARENT`] says. Every block begins
//! with both, so it can be read alone.

use std::hint::cold_path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tare_sync::{Limit, journal};

use crate::layout::ring::Ring;
use crate::memory::arena::{ArenaView, Base, Offset, Own};

/// The bits of a first word that say what the record is.
const KIND: u64 = 7;
/// The kind of a record of two words: an id and a time to which the following records are relative.
const BASE: u64 = 1;
/// The kind of a record of two words: the event in which the following ones nest, and when that began; 0:
/// unknown.
const PARENT: u64 = 2;
/// The first kind of record that only one of the journals has.
pub(crate) const OWN_KINDS: u64 = 3;

/// The flag of a base: whatever was in progress before it has been lost.
const GAP: u64 = 1 << 3;
/// The position of the id in a base and a parent.
const ID: u32 = 6;

// SAFETY: meets `ArenaView`: atomics only, alignment 8. Records are shorter than a block.
#[allow(unsafe_code)]
unsafe impl<const WORDS: usize> ArenaView for [AtomicU64; WORDS] {}

/// Returns the first word of a record that says what events nest in: id and type; 0, 0: in nothing.
#[inline(always)]
pub(crate) const fn parent(id: u64, of: u32) -> u64 {
    id << ID | (of as u64) << 3 | PARENT
}

/// Returns the id and type in a word of [`parent`].
pub(crate) const fn parent_of(word: u64) -> (u64, u8) {
    (word >> ID, (word >> 3 & 7) as u8)
}

/// Returns the kind of record that a first word begins.
pub(crate) const fn kind(word: u64) -> u64 {
    word & KIND
}

/// The largest distances of ids and times from the last base, in bits.
pub(crate) struct RecordReach {
    pub(crate) id_bits: u32,
    pub(crate) time_bits: u32,
}

impl RecordReach {
    #[inline(always)]
    pub(crate) const fn has(&self, id: u64, time: u64) -> bool {
        id >> self.id_bits | time >> self.time_bits == 0
    }
}

/// A journal: its current block, and what the last marks in it say.
#[repr(C)]
pub(crate) struct EventJournal {
    pub(crate) ring: Ring,
    /// The bound below which the fast path may begin a record, so that none ends behind the block; 0 while
    /// the fast path is closed.
    pub(crate) limit: Limit,
    base_id: AtomicU64,
    base_time: AtomicU64,
    /// What the last mark of a parent says.
    pub(crate) parent: AtomicU64,
}

/// The record that is about to be written, for [`Engine::prepare_journal`](crate::Engine::prepare_journal).
pub(crate) struct ComingRecord {
    pub(crate) words: u32,
    pub(crate) id: u64,
    pub(crate) time: u64,
    /// The event it nests in, encoded by [`parent`].
    pub(crate) parent: u64,
    pub(crate) parent_began: u64,
    /// Whether everything in progress has been lost.
    pub(crate) gap: bool,
}

impl EventJournal {
    /// Returns the place of a record of `words` words; `None`: the block is full.
    #[inline(always)]
    pub(crate) fn place(&self, words: u32) -> Option<Offset> {
        let next = self.ring.next();
        // The word behind the record is the new end.
        (next + words < self.ring.end()).then_some(next)
    }

    /// Returns the place of a record of the fast path. `None`: the block is full, or the fast path is closed
    /// because the configuration has changed or the thread's state is not what the fast path leaves.
    #[inline(always)]
    pub(crate) fn usual_place(&self) -> Option<Offset> {
        let next = self.ring.next();
        (next < self.limit.get()).then_some(next)
    }

    /// Returns the distance of an id from the base.
    #[inline(always)]
    pub(crate) fn id(&self, id: u64) -> u64 {
        id.wrapping_sub(self.base_id.own())
    }

    /// Returns the distance of a time from the base.
    #[inline(always)]
    pub(crate) fn time(&self, time: u64) -> u64 {
        time.wrapping_sub(self.base_time.own())
    }

    /// Returns what the marks in the block have said so far.
    pub(crate) fn marks(&self, parent: (u64, u8)) -> Marks {
        Marks { base_id: self.base_id.own(), base_time: self.base_time.own(), parent, parent_began: 0 }
    }

    /// Drops the base of times, so that the next writer prepares the journal.
    #[inline(always)]
    pub(crate) fn forget_base(&self) {
        self.base_time.store(1 << 63, Relaxed);
    }

    /// Returns the place of a record that nests in `parent`, after writing a mark if that differs from the
    /// last mark. `None`: the block is full.
    #[inline(always)]
    pub(crate) fn place_in(
        &self,
        base: Base,
        words: u32,
        parent: u64,
        began: impl FnOnce() -> u64,
    ) -> Option<Offset> {
        let place = self.place(words + 2)?;
        if self.parent.own() == parent {
            return Some(place);
        }
        self.parent.store(parent, Relaxed);
        self.append::<2, 3>(base, place, [parent, began()]);
        Some(place + 2)
    }

    /// Appends a record at a place obtained from this journal. `P` is `N + 1`.
    #[inline(always)]
    pub(crate) fn append<const N: usize, const P: usize>(&self, base: Base, place: Offset, record: [u64; N]) {
        journal::append(base.at::<[AtomicU64; P]>(place), record);
        self.ring.set_next(place + N as u32);
    }

    /// Drops the base if ids will soon be out of reach, so that the next writer prepares the journal.
    #[inline(always)]
    pub(crate) fn expect_ids(&self, next_id: u64, reach: &RecordReach) {
        if self.id(next_id) >= (1 << reach.id_bits) - UNASKED_IDS {
            cold_path();
            self.forget_base();
        }
    }

    /// Writes a base for the record that is coming.
    pub(crate) fn mark(&self, base: Base, coming: &ComingRecord) {
        if let Some(place) = self.place(2) {
            let gap = if coming.gap { GAP } else { 0 };
            self.append::<2, 3>(base, place, [coming.id << ID | gap | BASE, coming.time]);
            self.base_id.store(coming.id, Relaxed);
            self.base_time.store(coming.time, Relaxed);
        }
    }
}

/// The most words of marks before a record.
pub(crate) const MARKS: u32 = 4;
/// The most ids that are assigned between two calls of [`EventJournal::expect_ids`]: those of a block of
/// waits, of a block of stages, and of a statement with all that is open in it.
const UNASKED_IDS: u64 = 1024;

/// What the marks of a block have said so far, for a decoder.
#[derive(Default)]
pub(crate) struct Marks {
    pub(crate) base_id: u64,
    pub(crate) base_time: u64,
    pub(crate) parent: (u64, u8),
    pub(crate) parent_began: u64,
}

/// A mark that was read.
pub(crate) struct JournalMark {
    pub(crate) words: usize,
    /// Whether everything in progress has been lost.
    pub(crate) gap: bool,
}

impl Marks {
    /// Reads a mark at the beginning of these words; `None`: it is something else.
    pub(crate) fn read(&mut self, words: &[u64]) -> Option<JournalMark> {
        let first = *words.first()?;
        match kind(first) {
            BASE => {
                (self.base_id, self.base_time) = (first >> ID, *words.get(1)?);
                Some(JournalMark { words: 2, gap: first & GAP != 0 })
            }
            PARENT => {
                (self.parent, self.parent_began) = (parent_of(first), *words.get(1)?);
                Some(JournalMark { words: 2, gap: false })
            }
            _ => None,
        }
    }
}
