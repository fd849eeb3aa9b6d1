//! HOT PATH: statements by digest. A thread counts in cells of its own; the shared table holds the texts.
//!
//! A digest is found twice: first in the thread's own small map (no shared memory touched), else in the
//! shared index. When the thread's map is full it is emptied into the shared table.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use crate::Engine;
use crate::arena::{Offset, Use, View, WORDS};
use crate::cell::{COUNTERS, Cell, Counters, Counts, Family, StatementCell};
use crate::clock::ticks;
use crate::index::Inserted;
use crate::lost::Lost;
use crate::pool::{Pool, SlotHead, USED};
use crate::statement::NAME_WORDS;
use crate::text;
use crate::thread::Thread;

/// A statement's normalised tokens, as the host has them.
#[derive(Clone, Copy, Debug)]
pub struct DigestTokens<'a> {
    /// The token array.
    pub bytes: &'a [u8],
    /// Number of the character set the identifiers are in.
    pub charset: u32,
    /// True when the statement had more tokens than the host kept.
    pub cut: bool,
}

/// Bytes of tokens a digest keeps.
pub const MAX_DIGEST: usize = 1024;

/// A digest, shared by all threads.
#[repr(C)]
pub(crate) struct DigestSlot {
    pub(crate) head: SlotHead,
    pub(crate) hash: AtomicU64,
    pub(crate) first_seen: AtomicU64,
    pub(crate) last_seen: AtomicU64,
    pub(crate) charset: AtomicU32,
    pub(crate) schema_len: AtomicU32,
    pub(crate) tokens_len: AtomicU32,
    /// 1: the statement had more tokens than were kept.
    pub(crate) cut: AtomicU32,
    pub(crate) stat: Counts,
    pub(crate) counters: [AtomicU64; COUNTERS],
    pub(crate) schema: [AtomicU64; NAME_WORDS],
    pub(crate) tokens: [AtomicU64; MAX_DIGEST / 8],
}

// SAFETY: atomics only, alignment 8, less than a block.
#[allow(unsafe_code)]
unsafe impl View for DigestSlot {}

/// A thread's own count of one digest.
#[repr(C)]
pub(crate) struct DigestCell {
    pub(crate) cell: StatementCell,
    pub(crate) slot: AtomicU32,
    pub(crate) generation: AtomicU32,
    pub(crate) last_seen: AtomicU64,
}

// SAFETY: atomics only, alignment 8, less than a block.
#[allow(unsafe_code)]
unsafe impl View for DigestCell {}

/// The kind of a cell that counts for the row without a digest.
const OVERFLOW: u16 = 1;

/// Entries of a thread's map: hash, cell.
const MAP_SIZE: usize = 256;
/// Digests a thread counts before it empties its map.
const MAP_LIMIT: u32 = 160;

/// A thread's map.
#[repr(C)]
pub(crate) struct DigestMap {
    entries: [[AtomicU64; 2]; MAP_SIZE],
}

// SAFETY: atomics only, alignment 8, exactly a block.
#[allow(unsafe_code)]
unsafe impl View for DigestMap {}
const _: () = assert!(size_of::<DigestMap>() == WORDS * 8);

impl DigestMap {
    /// Every cell of the map.
    pub(crate) fn cells(&self) -> impl Iterator<Item = Offset> + '_ {
        let cell = |entry: &[AtomicU64; 2]| match entry[1].load(Acquire) {
            0 => None,
            cell => Some(cell as Offset),
        };
        self.entries.iter().filter_map(cell)
    }
}

impl Engine {
    /// Counts an ended statement under its digest. Returns the shared slot and its generation.
    #[inline]
    pub(crate) fn count_digest(
        &self,
        thread: &'static Thread,
        tokens: &DigestTokens<'_>,
        (schema, schema_len): (&[AtomicU64], usize),
        taken: Option<u64>,
        counters: Counters,
    ) -> Option<(u32, u32)> {
        if tokens.bytes.is_empty() {
            return None;
        }
        let bytes = &tokens.bytes[..tokens.bytes.len().min(self.digest_size.load(Relaxed) as usize)];
        let mut hash = text::hash(u64::from(tokens.charset), bytes);
        for word in schema.iter().take(text::words(schema_len)) {
            hash = (hash.rotate_left(5) ^ word.load(Relaxed)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        let hash = (hash ^ schema_len as u64).max(2);
        let cut = tokens.cut || bytes.len() < tokens.bytes.len();
        let key = Key { hash, tokens: bytes, charset: tokens.charset, cut, schema, schema_len };
        let cell = self.digest_cell(thread, &key)?;
        if cell.cell.head.kind.load(Relaxed) == OVERFLOW {
            self.losses.count(Lost::Digests);
        }
        cell.cell.add(taken, counters);
        cell.last_seen.store(ticks(), Relaxed);
        Some((cell.slot.load(Relaxed), cell.generation.load(Relaxed)))
    }

    #[inline]
    fn digest_cell(&self, thread: &'static Thread, key: &Key<'_>) -> Option<&'static DigestCell> {
        let epoch = self.epochs[Family::Digests as usize].load(Relaxed);
        if thread.digest_map.load(Relaxed) == 0 || thread.digest_epoch.load(Relaxed) != epoch {
            self.begin_digests(thread, epoch)?;
        }
        let map: &DigestMap = self.arena.at(thread.digest_map.load(Relaxed));
        let mut place = key.hash as usize % MAP_SIZE;
        loop {
            let [hash, cell] = &map.entries[place];
            let cell = cell.load(Relaxed);
            if cell == 0 {
                return self.add_digest(thread, key);
            }
            if hash.load(Relaxed) == key.hash {
                return Some(self.arena.at(cell as Offset));
            }
            place = (place + 1) % MAP_SIZE;
        }
    }

    /// First digest of a thread, or first one since TRUNCATE: the map begins empty.
    #[cold]
    fn begin_digests(&self, thread: &Thread, epoch: u32) -> Option<()> {
        if thread.digest_map.load(Relaxed) == 0 {
            let Some(block) = self.arena.take(Use::DigestMap, 0) else {
                self.losses.count(Lost::Digests);
                return None;
            };
            thread.digest_map.store(block * WORDS as u32, Release);
        } else {
            self.begin_fold();
            self.empty_map(thread, |_| {});
            self.end_fold();
        }
        thread.digest_epoch.store(epoch, Relaxed);
        Some(())
    }

    fn empty_map(&self, thread: &Thread, mut each: impl FnMut(&DigestCell)) {
        let map: &DigestMap = self.arena.at(thread.digest_map.load(Relaxed));
        for [hash, cell] in &map.entries {
            let offset = cell.load(Relaxed);
            if offset != 0 {
                let digest: &DigestCell = self.arena.at(offset as Offset);
                each(digest);
                digest.cell.clear();
                // The cell stays the entry's: its memory is used again for the next digest that lands here.
                cell.store(0, Relaxed);
                hash.store(offset, Relaxed);
            }
        }
        thread.digest_count.store(0, Relaxed);
    }

    #[cold]
    fn add_digest(&self, thread: &'static Thread, key: &Key<'_>) -> Option<&'static DigestCell> {
        if thread.digest_count.load(Relaxed) >= MAP_LIMIT {
            self.flush_digests(thread);
        }
        let (slot, generation) = self.digest_slot(key)?;
        let map: &DigestMap = self.arena.at(thread.digest_map.load(Relaxed));
        let mut place = key.hash as usize % MAP_SIZE;
        while map.entries[place][1].load(Relaxed) != 0 {
            place = (place + 1) % MAP_SIZE;
        }
        let [hash, cell] = &map.entries[place];
        // An empty entry may remember a cell it had before (see `empty_map`).
        let offset = match hash.load(Relaxed) {
            0 => self.cell_space(thread, (size_of::<DigestCell>() / 8) as u32)?,
            had => had as Offset,
        };
        let digest: &DigestCell = self.arena.at(offset);
        digest.slot.store(slot, Relaxed);
        digest.generation.store(generation, Relaxed);
        let kind = if slot == self.digest_overflow.load(Relaxed) { OVERFLOW } else { 0 };
        digest.cell.head.kind.store(kind, Relaxed);
        hash.store(key.hash, Relaxed);
        cell.store(u64::from(offset), Release);
        thread.digest_count.store(thread.digest_count.load(Relaxed) + 1, Relaxed);
        Some(digest)
    }

    /// Moves a thread's counts to the shared table.
    pub(crate) fn flush_digests(&self, thread: &Thread) {
        if thread.digest_map.load(Relaxed) == 0 {
            return;
        }
        let epoch = self.epochs[Family::Digests as usize].load(Relaxed);
        let current = thread.digest_epoch.load(Relaxed) == epoch;
        self.begin_fold();
        self.empty_map(thread, |cell| {
            if current {
                self.fold_digest(cell);
            }
        });
        self.end_fold();
    }

    fn fold_digest(&self, cell: &DigestCell) {
        let mut slot: &DigestSlot = self.arena.at(cell.slot.load(Relaxed));
        if slot.head.generation() != cell.generation.load(Relaxed) {
            match self.digest_overflow.load(Relaxed) {
                0 => return,
                overflow => slot = self.arena.at(overflow),
            }
        }
        slot.stat.merge_shared(cell.cell.stat.plain());
        for (to, from) in slot.counters.iter().zip(&cell.cell.counters) {
            to.fetch_add(from.load(Relaxed), Relaxed);
        }
        slot.last_seen.fetch_max(cell.last_seen.load(Relaxed), Relaxed);
    }

    /// The shared slot of a digest, entered at its first sight; the row without a digest when the table is
    /// full.
    fn digest_slot(&self, key: &Key<'_>) -> Option<(Offset, u32)> {
        let is = |offset: Offset| key.is(self.arena.at(offset));
        let known = self.digests.find(key.hash, is).and_then(|offset| self.digest_generation(key, offset));
        known.or_else(|| self.enter_digest(key)).or_else(|| self.overflow_digest())
    }

    /// A found slot's generation, unless TRUNCATE has given the slot to another digest meanwhile.
    fn digest_generation(&self, key: &Key<'_>, offset: Offset) -> Option<(Offset, u32)> {
        let slot: &DigestSlot = self.arena.at(offset);
        let generation = slot.head.generation();
        key.is(slot).then_some((offset, generation))
    }

    fn enter_digest(&self, key: &Key<'_>) -> Option<(Offset, u32)> {
        if self.digest_count.fetch_add(1, Relaxed) >= self.digests_size.load(Relaxed) {
            self.digest_count.fetch_sub(1, Relaxed);
            return None;
        }
        let Some(slot) = self.pools.take::<DigestSlot>(&self.arena, Pool::Digests, 0) else {
            self.digest_count.fetch_sub(1, Relaxed);
            return None;
        };
        key.fill(slot);
        slot.head.publish();
        let (offset, generation) = (self.arena.offset_of(slot), slot.head.generation());
        match self.digests.insert(key.hash, offset, |at| key.is(self.arena.at(at))) {
            Inserted::Here => Some((offset, generation)),
            Inserted::There(first) => {
                self.give_digest(slot);
                self.digest_generation(key, first)
            }
            Inserted::Full => {
                self.give_digest(slot);
                None
            }
        }
    }

    fn give_digest(&self, slot: &'static DigestSlot) {
        self.pools.give(&self.arena, Pool::Digests, slot);
        self.digest_count.fetch_sub(1, Relaxed);
    }

    /// The slot of the row without a digest: made once, and never given back.
    fn overflow_digest(&self) -> Option<(Offset, u32)> {
        let offset = match self.digest_overflow.load(Acquire) {
            0 => self.make_overflow_digest()?,
            known => known,
        };
        let slot: &DigestSlot = self.arena.at(offset);
        if slot.first_seen.load(Relaxed) == 0 {
            slot.first_seen.store(ticks(), Relaxed);
        }
        Some((offset, slot.head.generation()))
    }

    #[cold]
    fn make_overflow_digest(&self) -> Option<Offset> {
        let Some(slot) = self.pools.take::<DigestSlot>(&self.arena, Pool::Digests, 0) else {
            self.losses.count(Lost::Digests);
            return None;
        };
        slot.head.publish();
        let offset = self.arena.offset_of(slot);
        match self.digest_overflow.compare_exchange(0, offset, Release, Acquire) {
            Ok(_) => Some(offset),
            Err(first) => {
                self.pools.give(&self.arena, Pool::Digests, slot);
                Some(first)
            }
        }
    }

    /// TRUNCATE: every digest is forgotten; threads notice by the epoch.
    pub(crate) fn reset_digests(&self) {
        let epoch = &self.epochs[Family::Digests as usize];
        epoch.fetch_add(1, AcqRel);
        for offset in self.digests.clear() {
            self.give_digest(self.arena.at(offset));
        }
        let overflow = self.digest_overflow.load(Acquire);
        if overflow != 0 {
            let slot: &DigestSlot = self.arena.at(overflow);
            slot.stat.clear_shared();
            for word in slot.counters.iter().chain([&slot.first_seen, &slot.last_seen]) {
                word.store(0, Relaxed);
            }
        }
        // Who entered a digest between the first rise and the clearing counts for a slot that is gone: the
        // second rise makes its thread look again.
        epoch.fetch_add(1, AcqRel);
    }
}

/// What identifies a digest: its tokens and the current schema.
struct Key<'a> {
    hash: u64,
    tokens: &'a [u8],
    charset: u32,
    cut: bool,
    schema: &'a [AtomicU64],
    schema_len: usize,
}

impl Key<'_> {
    fn is(&self, slot: &DigestSlot) -> bool {
        slot.head.state() == USED
            && slot.hash.load(Relaxed) == self.hash
            && slot.schema_len.load(Relaxed) as usize == self.schema_len
            && text::equals(&slot.tokens, slot.tokens_len.load(Relaxed) as usize, self.tokens)
    }

    fn fill(&self, slot: &DigestSlot) {
        slot.hash.store(self.hash, Relaxed);
        slot.charset.store(self.charset, Relaxed);
        slot.cut.store(u32::from(self.cut), Relaxed);
        slot.schema_len.store(self.schema_len as u32, Relaxed);
        for (to, from) in slot.schema.iter().zip(self.schema).take(text::words(self.schema_len)) {
            to.store(from.load(Relaxed), Relaxed);
        }
        slot.tokens_len.store(text::write(&slot.tokens, self.tokens) as u32, Relaxed);
        slot.first_seen.store(ticks(), Relaxed);
    }
}
