//! HOT PATH: journals: what a thread writes of its waits, and of its stages, one record behind the other.
//!
//! A record's first word says in its lowest bits what the record is, and so how long. Ids and times are distances from the
//! last [`BASE`], and an event nests in what the last [`PARENT`] says. Every block begins with both: it can be read alone.

use std::hint::cold_path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tare_sync::{Limit, journal};

use crate::Engine;
use crate::memory::arena::{Base, Offset, Own, View};
use crate::record::ring::{Ring, RingKind};
use crate::thread::Thread;

/// Of a first word: what the record is.
const KIND: u64 = 7;
/// Two words: from here on ids are counted from this one, and times from the second word.
const BASE: u64 = 1;
/// Two words: from here on events nest in this one, which began when the second word says; 0: nobody knows.
const PARENT: u64 = 2;
/// What the records are that only one of the journals has: from here on.
pub(crate) const OWN_KINDS: u64 = 3;

/// Of a base: whatever was in progress before has been lost.
const GAP: u64 = 1 << 3;
/// Where a base and a parent have the id.
const ID: u32 = 6;

// SAFETY: atomics only, alignment 8; records are shorter than a block.
#[allow(unsafe_code)]
unsafe impl<const WORDS: usize> View for [AtomicU64; WORDS] {}

/// The record that says what events nest in: id and type; 0, 0: in nothing.
#[inline(always)]
pub(crate) const fn parent(id: u64, of: u32) -> u64 {
    id << ID | (of as u64) << 3 | PARENT
}

/// The reverse of [`parent`].
pub(crate) const fn parent_of(word: u64) -> (u64, u8) {
    (word >> ID, (word >> 3 & 7) as u8)
}

/// What a first word says the record is.
pub(crate) const fn kind(word: u64) -> u64 {
    word & KIND
}

/// How far ids and times may be from the last base.
pub(crate) struct Reach {
    pub(crate) id_bits: u32,
    pub(crate) time_bits: u32,
}

impl Reach {
    #[inline(always)]
    pub(crate) const fn has(&self, id: u64, time: u64) -> bool {
        id >> self.id_bits | time >> self.time_bits == 0
    }
}

/// A journal: its current block, and what the last marks in it say.
#[repr(C)]
pub(crate) struct Journal {
    pub(crate) ring: Ring,
    /// Up to where who takes the short way may begin a record: none that would end behind the block, and 0 where not all is as
    /// usual.
    pub(crate) limit: Limit,
    base_id: AtomicU64,
    base_time: AtomicU64,
    parent: AtomicU64,
}

/// What is about to be written, for [`Engine::prepare_journal`].
pub(crate) struct Coming {
    pub(crate) words: u32,
    pub(crate) id: u64,
    pub(crate) time: u64,
    /// As [`parent`] makes it, and when it began.
    pub(crate) parent: u64,
    pub(crate) parent_began: u64,
    /// Whatever was in progress has been lost.
    pub(crate) gap: bool,
}

impl Journal {
    /// Where a record of as many words would be; `None`: the block is full.
    #[inline(always)]
    pub(crate) fn place(&self, words: u32) -> Option<Offset> {
        let next = self.ring.next();
        // The word behind the record is the new end.
        (next + words < self.ring.end()).then_some(next)
    }

    /// As [`Journal::place`], of a record of the short way, where all is as usual: the thread has settled, and what its journal says
    /// it has of its own is what the short way leaves. `None`: it is not, or the block is full.
    #[inline(always)]
    pub(crate) fn usual_place(&self) -> Option<Offset> {
        let next = self.ring.next();
        (next < self.limit.get()).then_some(next)
    }

    /// Distance of an id from the base.
    #[inline(always)]
    pub(crate) fn id(&self, id: u64) -> u64 {
        id.wrapping_sub(self.base_id.own())
    }

    /// Distance of a time from the base.
    #[inline(always)]
    pub(crate) fn time(&self, time: u64) -> u64 {
        time.wrapping_sub(self.base_time.own())
    }

    /// What the marks in the block have said so far.
    pub(crate) fn marks(&self, parent: (u64, u8)) -> Marks {
        Marks { base_id: self.base_id.own(), base_time: self.base_time.own(), parent, parent_began: 0 }
    }

    /// Times have no base any more: whoever writes next prepares.
    #[inline(always)]
    pub(crate) fn forget_base(&self) {
        self.base_time.store(1 << 63, Relaxed);
    }

    /// As [`Journal::place`], for an event that nests in `parent`: a mark comes first, if it is another than the last one's.
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

    /// Appends a record at the place that was asked for. `P` is `N + 1`.
    #[inline(always)]
    pub(crate) fn append<const N: usize, const P: usize>(&self, base: Base, place: Offset, record: [u64; N]) {
        journal::append(base.at::<[AtomicU64; P]>(place), record);
        self.ring.set_next(place + N as u32);
    }

    /// Whoever writes next prepares if ids are about to come that no record could name.
    #[inline(always)]
    pub(crate) fn expect_ids(&self, next_id: u64, reach: &Reach) {
        if self.id(next_id) >= (1 << reach.id_bits) - UNASKED_IDS {
            cold_path();
            self.forget_base();
        }
    }

    fn mark(&self, base: Base, coming: &Coming) {
        if let Some(place) = self.place(2) {
            let gap = if coming.gap { GAP } else { 0 };
            self.append::<2, 3>(base, place, [coming.id << ID | gap | BASE, coming.time]);
            self.base_id.store(coming.id, Relaxed);
            self.base_time.store(coming.time, Relaxed);
        }
    }
}

/// Words of marks, at most.
const MARKS: u32 = 4;
/// As many ids are given out, at most, between two times that [`Journal::expect_ids`] is asked: by what has room in a block of
/// waits and one of stages, and by a statement with all that is open in it.
const UNASKED_IDS: u64 = 1024;

impl Engine {
    /// Makes a journal ready for a record: room, a base within reach, the parent. False: no memory, and the event is counted as
    /// lost.
    #[cold]
    #[inline(never)]
    pub(crate) fn prepare_journal(
        &self,
        thread: &Thread,
        journal: &Journal,
        kind: &RingKind,
        reach: &Reach,
        coming: &Coming,
    ) -> bool {
        thread.expect_stage_ids();
        let full = journal.place(MARKS + coming.words).is_none();
        if full && !self.advance(thread, &journal.ring, kind) {
            return false;
        }
        let base = self.arena.base();
        let within = reach.has(journal.id(coming.id), journal.time(coming.time));
        if full || coming.gap || !within {
            journal.mark(base, coming);
        }
        if full {
            // The block begins with it, whatever the one before said.
            journal.parent.store(0, Relaxed);
        }
        journal.place_in(base, 0, coming.parent, || coming.parent_began).is_some()
    }
}

/// What the marks of a block have said so far, for a decoder.
#[derive(Default)]
pub(crate) struct Marks {
    pub(crate) base_id: u64,
    pub(crate) base_time: u64,
    pub(crate) parent: (u64, u8),
    pub(crate) parent_began: u64,
}

/// A mark, as it is read.
pub(crate) struct Mark {
    pub(crate) words: usize,
    /// Whatever was in progress has been lost.
    pub(crate) gap: bool,
}

impl Marks {
    /// Reads a mark at the beginning of these words; `None`: it is something else.
    pub(crate) fn read(&mut self, words: &[u64]) -> Option<Mark> {
        let first = *words.first()?;
        match kind(first) {
            BASE => {
                (self.base_id, self.base_time) = (first >> ID, *words.get(1)?);
                Some(Mark { words: 2, gap: first & GAP != 0 })
            }
            PARENT => {
                (self.parent, self.parent_began) = (parent_of(first), *words.get(1)?);
                Some(Mark { words: 2, gap: false })
            }
            _ => None,
        }
    }
}
