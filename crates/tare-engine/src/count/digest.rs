//! HOT PATH: statements by digest. A thread counts in cells of its own; the shared table holds the texts.
//!
//! A digest is first looked up in the thread's own small map, which touches no shared memory; the digest that
//! followed last time is tried before anything is hashed. Otherwise it is looked up in the shared table
//! (`digest_table`). A full map is emptied into that table. From time to time, and always after some place
//! has changed its digest, the thread checks that its digest still has its place, and marks it as seen.
//!
//! A digest is identified by its tokens and the current schema, not by its character set, as in the built-in.
//! Hashes only lead to it; the whole is compared, in the thread's map and in the table. Two digests are never
//! confused.

use std::cell::Cell;
use std::hint::cold_path;
use std::mem::offset_of;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use crate::Engine;
use crate::count::digest_key::{DigestKey, DigestTokens, Hashed};
use crate::count::digest_table::DigestSlot;
use crate::count::sample::SampleCandidate;
use crate::layout::cell::{Cell as _, StatementCell, SummaryFamily};
use crate::memory::arena::{Arena, ArenaView, BlockUse, LINE, Offset, Own, WORDS};
use crate::memory::index::Inserted;
use crate::memory::lost::Lost;
use crate::thread::{DIGEST_ENTRIES, Thread};

/// A thread's count of one digest. It begins a cache line, and what most statements write is in two lines.
#[repr(C)]
pub(crate) struct DigestCell {
    pub(crate) slot: AtomicU32,
    pub(crate) generation: AtomicU32,
    pub(crate) last_seen: AtomicU64,
    /// The cell of the digest that followed last time. Statements tend to come in the same order.
    follower: AtomicU32,
    /// The slot's number, for readers.
    pub(crate) number: AtomicU32,
    /// The least time of a statement that may become the digest's sample, in ticks, as far as the thread
    /// knows.
    pub(crate) sample_from: AtomicU64,
    pub(crate) cell: StatementCell,
    _rest: AtomicU64,
}

// SAFETY: meets `ArenaView`: atomics only, alignment 8, less than a block.
#[allow(unsafe_code)]
unsafe impl ArenaView for DigestCell {}
const _: () = assert!(size_of::<DigestCell>().is_multiple_of(LINE));
const _: () = assert!(offset_of!(DigestCell, cell) + offset_of!(StatementCell, counters) == 9 * 8);

impl DigestCell {
    /// Returns the [`tare_sync::Evictions`] of the table when the thread last checked its digest's slot.
    fn evictions_seen(&self) -> &AtomicU32 {
        &self.cell.head.epoch
    }

    /// Drops all counts, and which digest came next.
    fn empty(&self, arena: &Arena) {
        self.cell.clear(arena);
        self.follower.store(0, Relaxed);
    }
}

impl Thread {
    /// Notes that the thread counts in the cell of an entry of its map.
    fn note_digest_entry(&self, at: usize) {
        let entries = &self.digest_entries[at / 64 % (MAP_SIZE / 64)];
        entries.store(entries.own() | 1 << (at % 64), Relaxed);
    }
}

/// The number of evictions of a cell that counts for the row without a digest. The table's is even, so it
/// never equals this one.
const NO_PLACE: u32 = 1;

/// The bound of a cell for which no statement is slow enough to be a sample.
const NO_SAMPLE: u64 = u64::MAX;

/// The exponent of a time slice, 2^24 ticks or some milliseconds. A thread marks a digest as seen at most
/// once per slice.
const SLICE: u32 = 24;

/// The attempts to look up a digest that others enter and evict meanwhile.
const TRIES: u32 = 3;
/// The attempts of TRUNCATE to clear digests that threads are adding to.
const PATIENCE: u32 = 1000;

/// The entries of a thread's map, of a hash and a cell each.
const MAP_SIZE: usize = DIGEST_ENTRIES;
/// The digests that a thread counts before it empties its map.
const MAP_LIMIT: u32 = 160;

/// A thread's map of digests.
#[repr(C)]
pub(crate) struct DigestMap {
    entries: [[AtomicU64; 2]; MAP_SIZE],
}

// SAFETY: meets `ArenaView`: atomics only, alignment 8, exactly a block.
#[allow(unsafe_code)]
unsafe impl ArenaView for DigestMap {}
const _: () = assert!(size_of::<DigestMap>() == WORDS * 8);

impl DigestMap {
    /// Returns the place of every cell of the map.
    pub(crate) fn cells(&self) -> impl Iterator<Item = Offset> + Clone + '_ {
        let cell = |entry: &[AtomicU64; 2]| match entry[1].load(Acquire) {
            0 => None,
            cell => Some(cell as Offset),
        };
        self.entries.iter().filter_map(cell)
    }
}

impl Engine {
    /// Returns the cell in which the thread counts an ended statement, and notes `now` (ticks) as the time
    /// when the digest was last seen. `None`: the statement has no digest, or there is no memory.
    #[inline]
    pub(crate) fn digest_seen(
        &self,
        thread: &'static Thread,
        tokens: &DigestTokens<'_>,
        schema: (&[AtomicU64], usize),
        now: u64,
    ) -> Option<&'static DigestCell> {
        if tokens.bytes.is_empty() {
            return None;
        }
        let key = DigestKey::of(tokens, self.digest_size.load(Relaxed) as usize, schema);
        let cell = self.digest_cell(thread, key, now)?;
        cell.last_seen.store(now, Relaxed);
        Some(cell)
    }

    #[inline]
    fn digest_cell(
        &self,
        thread: &'static Thread,
        key: DigestKey<'_>,
        now: u64,
    ) -> Option<&'static DigestCell> {
        let epoch = self.epochs[SummaryFamily::Digests as usize].load(Relaxed);
        let last = thread.last_digest.own();
        if last == 0 || thread.digest_epoch.own() != epoch {
            return self.find_digest_cell(thread, &Hashed::of(key), now);
        }
        let before: &DigestCell = self.arena.at(last);
        let expected = before.follower.own();
        if expected != 0 {
            let cell: &DigestCell = self.arena.at(expected);
            if key.is(self.arena.at(cell.slot.own())) && self.is_known(cell, now) {
                thread.last_digest.store(expected, Relaxed);
                return Some(cell);
            }
        }
        self.find_digest_cell(thread, &Hashed::of(key), now)
    }

    /// Returns whether a cell still counts for its digest, as no digest has been evicted since. Marks the
    /// digest as seen if that was some time ago.
    #[inline(always)]
    pub(crate) fn is_known(&self, cell: &DigestCell, now: u64) -> bool {
        // If no digest has lost its place since, the slot has been this digest's all the time.
        let evicted = cell.evictions_seen().own() ^ self.digests.evictions.since();
        let since_seen = (cell.last_seen.own() ^ now) >> SLICE;
        since_seen | u64::from(evicted) == 0
            || evicted == 0 && {
                cold_path();
                self.see_again(cell, now);
                true
            }
    }

    /// Marks a digest as seen at `now` that no thread has evicted: the cell is still its own.
    #[cold]
    #[inline(never)]
    fn see_again(&self, cell: &DigestCell, now: u64) {
        let slot = self.arena.at(cell.slot.own());
        self.digests.see(slot, now);
        self.look_at_sample(cell, slot);
    }

    /// Returns the cell of a digest from the thread's map, or enters it there. `None`: there is no memory.
    #[inline(never)]
    pub(crate) fn find_digest_cell(
        &self,
        thread: &'static Thread,
        key: &Hashed<'_>,
        now: u64,
    ) -> Option<&'static DigestCell> {
        let epoch = self.epochs[SummaryFamily::Digests as usize].load(Relaxed);
        if thread.digest_map.load(Relaxed) == 0 || thread.digest_epoch.load(Relaxed) != epoch {
            self.begin_digests(thread, epoch)?;
        }
        let cell = self.find_in_map(thread, key, now)?;
        let found = self.arena.offset_of(cell);
        // Emptying the map may have forgotten the last digest.
        if let Some(before) = self.arena.get::<DigestCell>(thread.last_digest.own()) {
            before.follower.store(found, Relaxed);
        }
        thread.last_digest.store(found, Relaxed);
        Some(cell)
    }

    fn find_in_map(
        &self,
        thread: &'static Thread,
        key: &Hashed<'_>,
        now: u64,
    ) -> Option<&'static DigestCell> {
        let map: &DigestMap = self.arena.at(thread.digest_map.load(Relaxed));
        let mut place = key.hash as usize % MAP_SIZE;
        loop {
            let [hash, cell] = &map.entries[place];
            let cell = cell.load(Relaxed);
            if cell == 0 {
                return self.add_digest(thread, key, now);
            }
            if hash.load(Relaxed) == key.hash {
                let cell: &DigestCell = self.arena.at(cell as Offset);
                let known = key.is(self.arena.at(cell.slot.own()));
                if known && self.is_known(cell, now) || self.see_digest(thread, cell, key, now) {
                    thread.note_digest_entry(place);
                    return Some(cell);
                }
            }
            place = (place + 1) % MAP_SIZE;
        }
    }

    /// Begins with an empty map: for a thread's first digest, or its first one after TRUNCATE.
    #[cold]
    fn begin_digests(&self, thread: &Thread, epoch: u32) -> Option<()> {
        if self.digests.overflow() == 0 {
            return None;
        }
        if thread.digest_map.load(Relaxed) == 0 {
            let Some(block) = self.arena.take(BlockUse::DigestMap, 0) else {
                self.losses.count(Lost::Digests);
                return None;
            };
            thread.digest_map.store(block * WORDS as u32, Release);
        } else {
            self.catch_up(thread);
            self.folds.begin();
            self.empty_map(thread, |_| {});
            self.folds.end();
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
                digest.empty(&self.arena);
                // Prepared statements may remember the cell; they find that it is not their digest's any
                // more.
                digest.evictions_seen().store(NO_PLACE, Relaxed);
                // The entry keeps the cell's memory for the next digest that lands here.
                cell.store(0, Relaxed);
                hash.store(offset, Relaxed);
            }
        }
        thread.digest_entries.iter().for_each(|entries| entries.store(0, Relaxed));
        thread.digest_count.store(0, Relaxed);
        thread.last_digest.store(0, Relaxed);
    }

    /// Marks a digest of the thread's map as seen. If it has lost its slot, its cell moves on to another one.
    /// Returns false if the cell belongs to another digest with the same hash.
    #[cold]
    #[inline(never)]
    fn see_digest(&self, thread: &Thread, cell: &DigestCell, key: &Hashed<'_>, now: u64) -> bool {
        if cell.evictions_seen().own() == NO_PLACE {
            // Only the hash is known here. All digests with this hash count for the row without a digest.
            self.losses.count(Lost::Digests);
            self.look_at_sample(cell, self.arena.at(cell.slot.load(Relaxed)));
            return true;
        }
        let seen = self.digests.evictions.now();
        let (slot, generation) = (self.arena.at(cell.slot.load(Relaxed)), cell.generation.load(Relaxed));
        let owner = Cell::new(0);
        if key.owner_is(slot, &owner) && owner.get() == generation {
            self.digests.see(slot, now);
            cell.evictions_seen().store(seen, Relaxed);
            self.look_at_sample(cell, slot);
            return true;
        }
        if slot.pinned_slot.belongs_to(generation) {
            return false;
        }
        let place = self.digest_slot(key, now);
        self.catch_up(thread);
        self.folds.begin();
        if self.counts_digests(thread) {
            self.fold_digest(cell);
        }
        cell.cell.clear(&self.arena);
        self.set_place(cell, place, seen);
        self.folds.end();
        true
    }

    #[cold]
    fn add_digest(&self, thread: &'static Thread, key: &Hashed<'_>, now: u64) -> Option<&'static DigestCell> {
        if thread.digest_count.load(Relaxed) >= MAP_LIMIT {
            self.flush_digests(thread);
        }
        let seen = self.digests.evictions.now();
        let place = self.digest_slot(key, now);
        let map: &DigestMap = self.arena.at(thread.digest_map.load(Relaxed));
        let mut at = key.hash as usize % MAP_SIZE;
        while map.entries[at][1].load(Relaxed) != 0 {
            at = (at + 1) % MAP_SIZE;
        }
        let [hash, cell] = &map.entries[at];
        // An empty entry may still have the memory of a former cell (see `empty_map`).
        let offset = match hash.load(Relaxed) {
            0 => self.lines_space(thread, (size_of::<DigestCell>() / 8) as u32)?,
            had => had as Offset,
        };
        let digest: &DigestCell = self.arena.at(offset);
        self.set_place(digest, place, seen);
        hash.store(key.hash, Relaxed);
        cell.store(u64::from(offset), Release);
        thread.note_digest_entry(at);
        thread.digest_count.store(thread.digest_count.load(Relaxed) + 1, Relaxed);
        Some(digest)
    }

    fn set_place(&self, cell: &DigestCell, (slot, generation): (Offset, u32), seen: u32) {
        let place: &DigestSlot = self.arena.at(slot);
        cell.slot.store(slot, Relaxed);
        cell.number.store(place.number(), Relaxed);
        cell.generation.store(generation, Relaxed);
        cell.sample_from.store(NO_SAMPLE, Relaxed);
        self.look_at_sample(cell, place);
        if slot == self.digests.overflow() {
            self.losses.count(Lost::Digests);
            cell.evictions_seen().store(NO_PLACE, Relaxed);
        } else {
            cell.evictions_seen().store(seen, Relaxed);
        }
    }

    /// Updates how slow a statement must be for the thread to offer it as a sample.
    fn look_at_sample(&self, cell: &DigestCell, slot: &DigestSlot) {
        if self.is_extended() {
            cell.sample_from.store(self.digests.samples.least(&self.arena, &slot.sample), Relaxed);
        }
    }

    /// Offers a statement of the thread as the digest's sample.
    #[cold]
    #[inline(never)]
    pub(crate) fn offer_sample(&self, cell: &DigestCell, candidate: &SampleCandidate<'_>) {
        let slot: &DigestSlot = self.arena.at(cell.slot.load(Relaxed));
        self.look_at_sample(cell, slot);
        // If the digest was evicted, its next statement counts for another place.
        if candidate.wait < cell.sample_from.load(Relaxed)
            || !slot.pinned_slot.pin(cell.generation.load(Relaxed))
        {
            return;
        }
        if !self.digests.samples.take(&self.arena, &slot.sample, candidate) {
            self.losses.count(Lost::Samples);
        }
        self.look_at_sample(cell, slot);
        slot.pinned_slot.unpin();
    }

    /// Moves a thread's counts to the shared table.
    pub(crate) fn flush_digests(&self, thread: &Thread) {
        if thread.digest_map.load(Relaxed) == 0 {
            return;
        }
        self.catch_up(thread);
        self.folds.begin();
        let current = self.counts_digests(thread);
        self.empty_map(thread, |cell| {
            if current {
                self.fold_digest(cell);
            }
        });
        self.folds.end();
    }

    /// Moves the counts of an ended thread to the shared table. The map stays with the slab, whose next
    /// thread often counts the same digests.
    pub(super) fn fold_seen_digests(&self, thread: &Thread) {
        let map = thread.digest_map.own();
        // A map from before TRUNCATE is emptied when a thread uses it.
        if map == 0 || thread.digest_epoch.own() != self.epochs[SummaryFamily::Digests as usize].load(Relaxed)
        {
            return;
        }
        let map: &DigestMap = self.arena.at(map);
        let mut has_place = true;
        for (first, entries) in (0..).step_by(64).zip(&thread.digest_entries) {
            let mut left = entries.own();
            while left != 0 {
                let [_, cell] = &map.entries[(first + left.trailing_zeros() as usize) % MAP_SIZE];
                left &= left - 1;
                let cell: &DigestCell = self.arena.at(cell.load(Relaxed) as Offset);
                self.fold_digest(cell);
                cell.empty(&self.arena);
                has_place &= cell.evictions_seen().own() != NO_PLACE;
            }
        }
        if !has_place {
            // There may be a place for it next time.
            self.empty_map(thread, |_| {});
        }
    }

    /// Returns whether no TRUNCATE has passed what a thread's map has counted. For a fold in progress.
    fn counts_digests(&self, thread: &Thread) -> bool {
        thread.digest_epoch.own() == self.epochs[SummaryFamily::Digests as usize].load(Acquire)
    }

    fn fold_digest(&self, cell: &DigestCell) {
        if cell.cell.is_untouched() {
            return;
        }
        let slot: &DigestSlot = self.arena.at(cell.slot.load(Relaxed));
        let generation = cell.generation.load(Relaxed);
        let add = |to: &DigestSlot| {
            let last_seen = cell.last_seen.load(Relaxed);
            to.own.merge_shared(cell.cell.stat.plain(), &cell.cell.counters, last_seen);
            self.fold_buckets(cell.cell.head(), &to.own.histogram);
        };
        if slot.pinned_slot.pin(generation) {
            add(slot);
            self.digests.changed(slot);
            slot.pinned_slot.unpin();
        } else if slot.pinned_slot.generation() != generation {
            // The digest was evicted: its counts go to the row without a digest. If the generation is
            // unchanged, it was truncated.
            add(self.arena.at(self.digests.overflow()));
        }
    }

    /// Returns the shared slot of a digest and its generation, and enters the digest at first sight. If there
    /// is no slot, returns that of the row without a digest.
    fn digest_slot(&self, key: &Hashed<'_>, now: u64) -> (Offset, u32) {
        for _ in 0..TRIES {
            if let Some(known) = self.find_digest(key) {
                self.digests.see(self.arena.at(known.0), now);
                return known;
            }
            match self.enter_digest(key, now) {
                Ok(entered) => return entered,
                Err(Refused::Known) => {}
                Err(Refused::NoPlace) => break,
            }
        }
        let offset = self.digests.overflow();
        let overflow: &DigestSlot = self.arena.at(offset);
        if overflow.own.first_seen.load(Relaxed) == 0 {
            overflow.own.first_seen.store(now, Relaxed);
        }
        (offset, overflow.pinned_slot.generation())
    }

    fn find_digest(&self, key: &Hashed<'_>) -> Option<(Offset, u32)> {
        let owner = Cell::new(0);
        let is = |offset: Offset| key.owner_is(self.arena.at(offset), &owner);
        self.digests.index.find(key.hash, is).map(|offset| (offset, owner.get()))
    }

    fn enter_digest(&self, key: &Hashed<'_>, now: u64) -> Result<(Offset, u32), Refused> {
        let table = &self.digests;
        let slot = table.vacate(&self.pools, &self.arena, now).ok_or(Refused::NoPlace)?;
        key.fill(slot, now);
        let (offset, generation) = (self.arena.offset_of(slot), slot.pinned_slot.publish_owner());
        table.changed(slot);
        let owner = Cell::new(0);
        let is = |offset: Offset| key.owner_is(self.arena.at(offset), &owner);
        match table.index.insert(key.hash, offset, is) {
            Inserted::Here => {
                let lost = |offset: Offset| table.withdraw(&self.arena, self.arena.at(offset), owner.get());
                match table.index.settle(key.hash, is, lost) {
                    Some(kept) if kept == offset => Ok((offset, generation)),
                    _ => Err(Refused::Known),
                }
            }
            Inserted::There(_) => {
                table.withdraw(&self.arena, slot, generation);
                Err(Refused::Known)
            }
            Inserted::Full => {
                table.withdraw(&self.arena, slot, generation);
                Err(Refused::NoPlace)
            }
        }
    }

    /// Removes all digests for TRUNCATE. Threads notice by the epoch.
    pub(crate) fn reset_digests(&self) {
        let epoch = &self.epochs[SummaryFamily::Digests as usize];
        self.folds.begin();
        epoch.fetch_add(1, AcqRel);
        self.await_other_folds();
        // A thread that adds to a digest is done in a moment, unless it has lost its processor.
        for _ in 0..PATIENCE {
            if self.digests.clear(&self.arena) {
                break;
            }
            std::thread::yield_now();
        }
        // A thread that entered a digest between the first raise and the clearing counts for a slot that is
        // gone. The second raise makes it look the digest up again.
        epoch.fetch_add(1, AcqRel);
        self.folds.end();
    }
}

/// The reason why a digest was not entered.
enum Refused {
    /// Another thread entered it first.
    Known,
    /// The table has no place for it.
    NoPlace,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns different keys with the same hash.
    fn keys(schema: &[AtomicU64]) -> [Hashed<'_>; 5] {
        let key = |tokens, schema_len| Hashed {
            hash: 42 << 32,
            key: DigestKey { tokens, whole: [0; 2], charset: 33, cut: false, schema, schema_len },
        };
        [
            key(b"select ?", 0),
            key(b"select ?!", 0),
            key(b"select !", 0),
            key(b"select ?", 1),
            key(b"select ?", 9),
        ]
    }

    #[test]
    fn digests_of_one_hash_have_places_and_cells_of_their_own() {
        let engine = Engine::small();
        engine.digests.map(10, &engine.pools, &engine.arena).expect("address space");
        let thread = engine.new_thread(0, None, None).expect("memory").slab();
        let schema = [AtomicU64::new(b'a'.into()), AtomicU64::new(b'b'.into())];
        let keys = keys(&schema);
        let cells = || {
            keys.each_ref()
                .map(|key| std::ptr::from_ref(engine.find_digest_cell(thread, key, 1).expect("memory")))
        };
        let first = cells();
        for (at, cell) in first.iter().enumerate() {
            assert!(!first[..at].contains(cell), "one for two");
        }
        assert_eq!(cells(), first, "found again");
        // Another thread finds the places that the first one made.
        let places = || keys.each_ref().map(|key| engine.digest_slot(key, 2));
        let known = places();
        let other = engine.new_thread(0, None, None).expect("memory").slab();
        for (key, place) in keys.iter().zip(known) {
            let cell = engine.find_digest_cell(other, key, 3).expect("memory");
            assert_eq!((cell.slot.load(Relaxed), cell.generation.load(Relaxed)), place);
        }
        assert_eq!(places(), known);
        // The cells are found again in a map that has seen a digest lose its place.
        engine.digests.evictions.count();
        assert_eq!(cells(), first);
    }
}
