//! HOT PATH: the digests that all threads share. In a full table, a new digest takes the place of the one
//! seen least recently. What that one counted stays with the place, for the row without a digest.
//!
//! A place is a pinned slot with one digest after another ([`PinnedSlot`]). A thread with a former digest's
//! generation adds to the row without a digest.
//!
//! A dense array holds the time when each digest was last seen. One scan serves many evictions: the oldest
//! become candidates, and a candidate that was seen since is skipped.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use tare_sync::{Evictions, PinnedSlot, Shown, SlotState, stamp};

use crate::count::digest_key::MAX_DIGEST;
use crate::count::sample::DigestSamples;
use crate::layout::cell::{Counts, Plain};
use crate::layout::counters::{PlainCounters, StatementSums};
use crate::layout::histograms;
use crate::layout::statement::NAME_WORDS;
use crate::memory::arena::{Arena, ArenaView, Offset, Table};
use crate::memory::index::NameIndex;
use crate::memory::pool::{Pool, Pools, SlotHead};
use crate::memory::queue::NumberQueue;

/// The digests chosen for eviction at once.
const CANDIDATES: usize = 64;
/// The places scanned to choose them. In a larger table, each scan takes the oldest of this many and the next
/// one goes on from there.
const LOOKED_AT: usize = 1 << 16;
/// The scans for one new digest, since other threads may take all candidates.
const TRIES: usize = 3;

/// The counts of one digest.
#[repr(C)]
pub(crate) struct DigestCounts {
    pub(crate) stat: Counts,
    pub(crate) counters: StatementSums,
    /// When it was first seen, in ticks; 0: never.
    pub(crate) first_seen: AtomicU64,
    pub(crate) last_seen: AtomicU64,
    /// The place of the histogram; 0 means none. See [`histograms`].
    pub(crate) histogram: AtomicU32,
    _pad: AtomicU32,
}

/// The values of [`DigestCounts`], for readers.
#[derive(Clone, Copy, Default)]
pub(crate) struct DigestTally {
    pub(crate) stat: Plain,
    pub(crate) counters: PlainCounters,
    pub(crate) first_seen: u64,
    pub(crate) last_seen: u64,
}

/// Returns the earlier of two times, of which 0 means none.
fn earlier(one: u64, other: u64) -> u64 {
    // Subtracting 1 makes 0 the latest.
    one.wrapping_sub(1).min(other.wrapping_sub(1)).wrapping_add(1)
}

impl DigestTally {
    pub(crate) fn merge(&mut self, other: &DigestTally) {
        self.stat.merge(other.stat);
        self.counters.merge(&other.counters);
        self.first_seen = earlier(self.first_seen, other.first_seen);
        self.last_seen = self.last_seen.max(other.last_seen);
    }
}

impl DigestCounts {
    /// Copies the counts to `tally`, without an intermediate copy.
    #[inline]
    pub(crate) fn copy_to(&self, tally: &mut DigestTally) {
        tally.stat = self.stat.plain();
        self.counters.copy_to(&mut tally.counters);
        tally.first_seen = self.first_seen.load(Relaxed);
        tally.last_seen = self.last_seen.load(Relaxed);
    }

    /// Adds counts; several threads may call it.
    pub(crate) fn merge_shared(&self, stat: Plain, counters: &StatementSums, last_seen: u64) {
        self.stat.merge_shared(stat);
        self.counters.merge_shared(counters);
        self.last_seen.fetch_max(last_seen, Relaxed);
    }

    /// Moves everything to `past`; nobody else may use either.
    fn move_to(&self, arena: &Arena, past: &DigestCounts) {
        past.stat.merge_own(self.stat.plain());
        past.counters.merge_own(&self.counters);
        let first = earlier(past.first_seen.load(Relaxed), self.first_seen.load(Relaxed));
        past.first_seen.store(first, Relaxed);
        past.last_seen.store(past.last_seen.load(Relaxed).max(self.last_seen.load(Relaxed)), Relaxed);
        histograms::move_shared(arena, &self.histogram, &past.histogram);
        self.clear(arena);
    }

    /// Empties the counts; others may be adding.
    pub(crate) fn clear(&self, arena: &Arena) {
        histograms::clear_shared(arena, &self.histogram);
        self.stat.clear_shared();
        self.counters.clear();
        for word in [&self.first_seen, &self.last_seen] {
            word.store(0, Relaxed);
        }
    }
}

/// A place for a digest.
#[repr(C)]
pub(crate) struct DigestSlot {
    head: SlotHead,
    pub(crate) pinned_slot: PinnedSlot,
    pub(crate) hash: AtomicU64,
    /// The position in the table.
    number: AtomicU32,
    pub(crate) charset: AtomicU32,
    pub(crate) schema_len: AtomicU32,
    pub(crate) tokens_len: AtomicU32,
    /// 1 if the statement had more tokens than were kept.
    pub(crate) cut: AtomicU32,
    _pad: AtomicU32,
    /// One of the digest's statements.
    pub(crate) sample: Shown,
    /// The host's hash of all tokens if not all are kept, otherwise zeros.
    pub(crate) whole: [AtomicU64; 2],
    /// What the current digest counted, as far as threads have moved it here.
    pub(crate) own: DigestCounts,
    /// What former digests counted.
    pub(crate) past: DigestCounts,
    pub(crate) schema: [AtomicU64; NAME_WORDS],
    pub(crate) tokens: [AtomicU64; MAX_DIGEST / 8],
}

// SAFETY: meets `ArenaView`: atomics only, alignment 8, less than a block.
#[allow(unsafe_code)]
unsafe impl ArenaView for DigestSlot {}

impl DigestSlot {
    /// Returns the position in the table. The row without a digest has one beyond the table.
    pub(crate) fn number(&self) -> u32 {
        self.number.load(Relaxed)
    }

    pub(crate) fn whole(&self) -> [u64; 2] {
        self.whole.each_ref().map(|word| word.load(Relaxed))
    }

    /// Returns what `read` makes of the slot, with the digest's generation. `None`: there is no digest, or it
    /// lost the slot meanwhile.
    pub(crate) fn read<T>(&self, read: impl FnOnce() -> T) -> Option<(u32, T)> {
        let (owner, value) = self.pinned_slot.read(read)?;
        owner.has_owner().then_some((owner.generation(), value))
    }
}

/// The shared table of digests.
pub(crate) struct DigestTable {
    pub(crate) index: NameIndex,
    /// The place of each slot by number; 0: not created yet.
    places: Table,
    /// When each slot's digest was last seen, in ticks, to within a slice (`digest.rs`); 0: it has none.
    seen: Table,
    /// The change counter of each slot ([`stamp`]).
    changes: Table,
    candidates: NumberQueue,
    pub(crate) samples: DigestSamples,
    /// The newest last-seen time among chosen candidates, in ticks. A candidate seen later is skipped.
    horizon: AtomicU64,
    /// The position at which the next scan for candidates begins.
    hand: AtomicU32,
    /// Rises by 2 whenever a place is created or a digest loses its own. Threads then mark their digests as
    /// seen anew, so that none appears to have been seen earlier.
    pub(crate) evictions: Evictions,
    evicted: AtomicU64,
    /// 1 if memory for another place was missing since the table was last emptied.
    complete: AtomicU32,
    /// The row without a digest; created at the start, unless there are to be no rows.
    overflow: AtomicU32,
}

impl DigestTable {
    pub(crate) const fn new() -> DigestTable {
        DigestTable {
            index: NameIndex::new(),
            places: Table::new(),
            seen: Table::new(),
            changes: Table::new(),
            candidates: NumberQueue::new(),
            samples: DigestSamples::new(),
            horizon: AtomicU64::new(0),
            hand: AtomicU32::new(0),
            evictions: Evictions::new(),
            evicted: AtomicU64::new(0),
            complete: AtomicU32::new(0),
            overflow: AtomicU32::new(0),
        }
    }

    /// Reserves room for this number of rows: one without a digest, and one for each place.
    pub(crate) fn map(&self, rows: usize, pools: &Pools, arena: &Arena) -> Result<(), std::io::Error> {
        let Some(places) = rows.checked_sub(1) else { return Ok(()) };
        self.index.map(places)?;
        if places > 0 {
            self.places.map(places)?;
            self.seen.map(places)?;
            self.changes.map(places)?;
        }
        self.candidates.map(4 * CANDIDATES)?;
        if let Some(overflow) = pools.take::<DigestSlot>(arena, Pool::Digests, 0) {
            overflow.number.store(u32::MAX, Relaxed);
            overflow.head.publish();
            self.overflow.store(arena.offset_of(overflow), Release);
        }
        Ok(())
    }

    /// Returns the slot of the row without a digest; 0 if nothing is counted by digest.
    pub(crate) fn overflow(&self) -> Offset {
        self.overflow.load(Relaxed)
    }

    /// Returns the number of digests that lost their place to others.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    /// Returns the maximum number of places.
    pub(crate) fn size(&self) -> usize {
        self.places.words().len()
    }

    /// Returns the place with this number; 0 if it has not been created.
    pub(crate) fn place(&self, number: u32) -> Offset {
        self.places.words().get(number as usize).map_or(0, |place| place.load(Acquire) as Offset)
    }

    /// Returns every existing place, with its number.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u32, Offset)> + Clone {
        let places = (0..).zip(self.places.words()).map(|(number, at)| (number, at.load(Acquire) as Offset));
        places.filter(|(_, place)| *place != 0)
    }

    /// Counts a change of a slot's counts or digest. Called after the change.
    pub(crate) fn changed(&self, slot: &DigestSlot) {
        self.changes.words().get(slot.number() as usize).into_iter().for_each(stamp::rise);
    }

    /// Returns the change counter of the place with this number. A reader calls it before it reads the place.
    pub(crate) fn changes(&self, number: u32) -> u64 {
        self.changes.words().get(number as usize).map_or(0, stamp::now)
    }

    /// Notes that the slot's digest was seen at `now` (ticks). A late call for a former digest has an older
    /// time and does no harm.
    pub(crate) fn see(&self, slot: &DigestSlot, now: u64) {
        if let Some(seen) = self.seen.words().get(slot.number.load(Relaxed) as usize)
            && seen.load(Relaxed) < now
        {
            seen.fetch_max(now, Relaxed);
        }
    }

    /// Claims a slot for a new digest. The caller fills it and calls `publish_owner`. `None`: none is
    /// available.
    pub(crate) fn vacate(&self, pools: &Pools, arena: &Arena, now: u64) -> Option<&'static DigestSlot> {
        for _ in 0..TRIES {
            while let Some(number) = self.candidates.pop() {
                let seen = self.seen.words().get(number as usize)?;
                if seen.load(Relaxed) > self.horizon.load(Relaxed) {
                    continue;
                }
                if let Some(slot) = self.take_place(pools, arena, number) {
                    seen.store(now, Relaxed);
                    return Some(slot);
                }
            }
            self.choose_candidates();
        }
        None
    }

    fn take_place(&self, pools: &Pools, arena: &Arena, number: u32) -> Option<&'static DigestSlot> {
        let place = &self.places.words()[number as usize];
        match place.load(Acquire) as Offset {
            0 => self.make_place(pools, arena, place, number),
            offset => {
                let slot: &DigestSlot = arena.at(offset);
                self.evict(arena, slot, slot.pinned_slot.now()).then_some(slot)
            }
        }
    }

    #[cold]
    fn make_place(
        &self,
        pools: &Pools,
        arena: &Arena,
        place: &AtomicU64,
        number: u32,
    ) -> Option<&'static DigestSlot> {
        let Some(slot) = pools.take::<DigestSlot>(arena, Pool::Digests, 0) else {
            self.complete.store(1, Relaxed);
            return None;
        };
        slot.number.store(number, Relaxed);
        slot.pinned_slot.prepare();
        slot.head.publish();
        match place.compare_exchange(0, u64::from(arena.offset_of(slot)), AcqRel, Relaxed) {
            Ok(_) => {
                self.evictions.count();
                Some(slot)
            }
            Err(_) => {
                pools.give(arena, Pool::Digests, slot);
                None
            }
        }
    }

    /// Takes a slot from the digest it had at `before`. Returns false if that has changed or a thread is
    /// adding to it.
    fn evict(&self, arena: &Arena, slot: &DigestSlot, before: SlotState) -> bool {
        if !slot.pinned_slot.claim(before, 1) {
            return false;
        }
        if before.has_owner() {
            self.index.remove(slot.hash.load(Relaxed), arena.offset_of(slot));
            self.evicted.fetch_add(1, Relaxed);
        }
        slot.own.move_to(arena, &slot.past);
        self.samples.forget(arena, &slot.sample);
        self.evictions.count();
        self.changed(slot);
        true
    }

    /// Takes the slot from a digest that is no longer in the index because another slot has been let to it.
    pub(crate) fn withdraw(&self, arena: &Arena, slot: &DigestSlot, generation: u32) {
        let claimed = slot.pinned_slot.claim(SlotState::unpinned(generation), 1);
        // A slot that somebody is adding to is the next to be evicted.
        if claimed || slot.pinned_slot.belongs_to(generation) {
            self.forget(slot);
        }
        if claimed {
            slot.own.move_to(arena, &slot.past);
            self.samples.forget(arena, &slot.sample);
            slot.pinned_slot.leave_free();
            self.evictions.count();
            self.changed(slot);
        }
    }

    /// Makes the slot the next to be given away.
    fn forget(&self, slot: &DigestSlot) {
        if let Some(seen) = self.seen.words().get(slot.number.load(Relaxed) as usize) {
            seen.store(0, Relaxed);
        }
    }

    /// Empties every slot, for TRUNCATE. Events still know their digests. Returns false if threads were
    /// adding to some slots, which then keep their digests.
    pub(crate) fn clear(&self, arena: &Arena) -> bool {
        let mut all = true;
        self.complete.store(0, Relaxed);
        for (_, offset) in self.places() {
            let slot: &DigestSlot = arena.at(offset);
            if slot.pinned_slot.claim(slot.pinned_slot.now(), 0) {
                self.index.remove(slot.hash.load(Relaxed), offset);
                slot.own.clear(arena);
                slot.past.clear(arena);
                self.samples.forget(arena, &slot.sample);
                self.forget(slot);
                slot.pinned_slot.leave_free();
                self.changed(slot);
            } else {
                all = false;
            }
        }
        // An engine that was never started has none.
        if let Some(overflow) = arena.get::<DigestSlot>(self.overflow()) {
            overflow.own.clear(arena);
            self.samples.forget(arena, &overflow.sample);
        }
        all
    }

    /// Chooses candidates: places without a digest, or else those whose digests were seen least recently.
    fn choose_candidates(&self) {
        let seen = self.seen.words();
        let hand = self.hand.load(Relaxed) as usize % seen.len().max(1);
        let (before, behind) = seen.split_at(hand);
        let numbered = behind.iter().zip(hand..).chain(before.iter().zip(0..));
        let (places, complete) = (self.places.words(), self.complete.load(Relaxed) != 0);
        let mut oldest = Oldest::new();
        // The newer half of a small table is excluded; otherwise a digest that is seen all the time would be
        // among the last candidates.
        let most = CANDIDATES.min(seen.len().div_ceil(2));
        let mut last = hand;
        for (seen, number) in numbered.take(LOOKED_AT) {
            let moment = seen.load(Relaxed);
            // When no more places can be created, only existing ones count.
            if moment != 0 || !complete || places[number].load(Relaxed) != 0 {
                oldest.add(moment, number as u32);
            }
            last = number;
            if oldest.free >= CANDIDATES {
                break;
            }
        }
        self.hand.store(last as u32 + 1, Relaxed);
        let chosen = oldest.sorted(most);
        if let Some((moment, _)) = chosen.last() {
            // The horizon only rises: of two threads that choose at the same time, one may be late with an
            // older time.
            self.horizon.fetch_max(*moment, Relaxed);
        }
        for (_, number) in chosen {
            self.candidates.push(*number);
        }
    }
}

/// The oldest of the entries added. There is room for twice as many, so that it sorts rarely.
struct Oldest {
    found: [(u64, u32); 2 * CANDIDATES],
    len: usize,
    /// The time from which entries are left out.
    bound: u64,
    /// The number of entries without a digest.
    free: usize,
}

impl Oldest {
    const fn new() -> Oldest {
        Oldest { found: [(0, 0); 2 * CANDIDATES], len: 0, bound: u64::MAX, free: 0 }
    }

    #[inline(always)]
    fn add(&mut self, moment: u64, number: u32) {
        if moment >= self.bound {
            return;
        }
        self.free += usize::from(moment == 0);
        if self.len == self.found.len() {
            self.halve();
        }
        self.found[self.len] = (moment, number);
        self.len += 1;
    }

    fn halve(&mut self) {
        let (_, newest, _) = self.found.select_nth_unstable(CANDIDATES - 1);
        self.bound = newest.0;
        self.len = CANDIDATES;
    }

    /// Returns the `most` oldest entries, oldest first; if some have no digest, returns those.
    fn sorted(&mut self, most: usize) -> &[(u64, u32)] {
        let found = &mut self.found[..self.len];
        found.sort_unstable();
        let wanted = if self.free == 0 { most } else { self.free };
        &found[..wanted.min(found.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_many_are_found_oldest_first() {
        let mut oldest = Oldest::new();
        for n in 0..1000u64 {
            oldest.add((n * 617) % 1000 + 1, n as u32);
        }
        let moments: Vec<u64> = oldest.sorted(CANDIDATES).iter().map(|(moment, _)| *moment).collect();
        assert_eq!(moments, (1..=CANDIDATES as u64).collect::<Vec<_>>());
        assert_eq!(oldest.sorted(2).len(), 2);
    }

    #[test]
    fn where_there_are_free_places_only_those_are_chosen() {
        let mut oldest = Oldest::new();
        for n in 0..200u64 {
            oldest.add(if n % 50 == 7 { 0 } else { n + 1 }, n as u32);
        }
        assert_eq!(oldest.sorted(2), [(0, 7), (0, 57), (0, 107), (0, 157)]);
    }

    #[test]
    fn no_moment_is_later_than_any() {
        assert_eq!((earlier(0, 0), earlier(0, 5), earlier(5, 0), earlier(3, 5)), (0, 5, 5, 3));
    }
}
