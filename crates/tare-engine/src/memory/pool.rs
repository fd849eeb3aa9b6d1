//! HOT PATH: pools of instances: equal slots cut from blocks, taken and given back with one atomic
//! instruction.
//!
//! The word of a block says which of its slots are free (`slots`). The bits of a pool say which blocks may
//! have a free slot. These are hints: the thread that frees the first slot of a block sets its bit, and one
//! that finds none clears it and checks again.

use std::sync::atomic::{
    AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

use tare_sync::{BlockSlots, MOST_SLOTS};

use crate::memory::arena::{
    Arena, ArenaView, BLOCK, Base, BlockHold, BlockId, BlockSet, LINE, Offset, Own, Table, WORDS,
};
use crate::memory::queue::NumberQueue;
use crate::snapshot::ClassId;

/// The pools, named after the contents of their slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Pool {
    Mutexes,
    Rwlocks,
    Conds,
    Sockets,
    Files,
    Tables,
    Handles,
    TableIo,
    TableLocks,
    Programs,
    MetadataLocks,
    Prepared,
    PreparedDigests,
    Digests,
    Names,
    Accounts,
    Users,
    Hosts,
}

/// The pools of mutexes, rwlocks and conds.
pub(crate) const SYNCHS: [Pool; 3] = [Pool::Mutexes, Pool::Rwlocks, Pool::Conds];

/// The number of pools.
pub(crate) const POOLS: usize = 18;

/// All pools.
const ALL: [Pool; POOLS] = [
    Pool::Mutexes,
    Pool::Rwlocks,
    Pool::Conds,
    Pool::Sockets,
    Pool::Files,
    Pool::Tables,
    Pool::Handles,
    Pool::TableIo,
    Pool::TableLocks,
    Pool::Programs,
    Pool::MetadataLocks,
    Pool::Prepared,
    Pool::PreparedDigests,
    Pool::Digests,
    Pool::Names,
    Pool::Accounts,
    Pool::Users,
    Pool::Hosts,
];

impl Pool {
    /// Returns the pool's number among the kinds of slots.
    pub(crate) const fn kind(self) -> u8 {
        self as u8 + 1
    }

    /// Returns the pool of a kind of slots.
    pub(crate) const fn of(kind: u8) -> Pool {
        ALL[(kind as usize).wrapping_sub(1) % POOLS]
    }
}

/// The states of a slot.
pub(crate) const FREE: u8 = 0;
pub(crate) const USED: u8 = 1;
/// The state of a slot that is taken, but not complete.
const FILLING: u8 = 2;

/// The first words of every slot.
#[repr(C)]
pub(crate) struct SlotHead {
    state: AtomicU8,
    pub(crate) flags: AtomicU8,
    _pad: AtomicU16,
    /// Rises whenever the slot is taken, so that a name stays known until its slot is reused.
    generation: AtomicU32,
    /// Class and [`name`] at the bits where a record's first word has them. See [`SlotHead::object`].
    object: AtomicU64,
}

/// The bit positions of class and name in [`Object`].
pub(crate) const CLASS: u32 = 11;
pub(crate) const NAME: u32 = 32;

/// Class and [`name`] of the object in a slot, at the bits where a record's first word has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Object(pub(crate) u64);

impl Object {
    /// The bits it can have.
    pub(crate) const BITS: u64 = !((1 << CLASS) - 1);

    #[inline(always)]
    pub(crate) fn class(self) -> ClassId {
        (self.0 as u32 >> CLASS) as ClassId
    }

    #[inline(always)]
    pub(crate) fn name(self) -> u32 {
        (self.0 >> NAME) as u32
    }

    /// Returns the place of the slot; 0: its name does not contain it.
    #[inline(always)]
    pub(crate) fn offset(self) -> Offset {
        offset_of(self.name())
    }
}

impl SlotHead {
    #[inline(always)]
    pub(crate) fn state(&self) -> u8 {
        self.state.load(Acquire)
    }

    #[inline(always)]
    pub(crate) fn class(&self) -> ClassId {
        self.object().class()
    }

    /// Returns what a record says of the object, in one word.
    #[inline(always)]
    pub(crate) fn object(&self) -> Object {
        Object(self.object.load(Relaxed))
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }

    /// Returns the generation of a slot in use, for a reader, which asks [`SlotHead::is_still`] afterwards.
    /// `None`: the slot is free, or is being filled and has this generation already.
    pub(crate) fn generation_in_use(&self) -> Option<u32> {
        let generation = self.generation.load(Acquire);
        // Comes second: a slot that was in use before may have been taken again since.
        (self.state() == USED).then_some(generation)
    }

    /// Marks a slot as taken, before it is filled.
    #[inline(always)]
    fn begin(&self, class: ClassId, offset: Offset) {
        // References to the slot's former use end here. Until now they were valid, although that use had
        // ended.
        let generation = self.generation.load(Relaxed).wrapping_add(1);
        // Whoever sees it sees that the slot was free.
        self.generation.store(generation, Release);
        fence(Release);
        let name = u64::from(name_of(offset, generation));
        self.object.store(name << NAME | u64::from(class) << CLASS, Relaxed);
        self.flags.store(0, Relaxed);
        self.state.store(FILLING, Relaxed);
    }

    /// Marks a slot as taken for the same purpose as before; it had no flags. Readers still see it as free,
    /// and its name is that of a former use. See also [`SlotHead::rename`].
    #[inline(always)]
    fn begin_again(&self) {
        self.generation.store(self.generation.load(Relaxed).wrapping_add(1), Release);
        fence(Release);
    }

    /// Gives the slot the name of its present use, to which an event is about to refer.
    pub(crate) fn rename(&self, offset: Offset) {
        let name = name_of(offset, self.generation.load(Relaxed));
        self.object.store(u64::from(name) << NAME | u64::from(self.class()) << CLASS, Relaxed);
    }

    /// Makes a completed slot visible to readers.
    #[inline(always)]
    pub(crate) fn publish(&self) {
        self.state.store(USED, Release);
    }

    /// Ends the use of the slot. Returns false if it had ended before.
    pub(crate) fn end(&self) -> bool {
        self.state.swap(FREE, Relaxed) != FREE
    }

    /// Returns whether the slot is in use and has not been reused since `generation` was read, so that what
    /// was read is consistent.
    pub(crate) fn is_still(&self, generation: u32) -> bool {
        fence(Acquire);
        self.state() == USED && self.generation() == generation
    }
}

// SAFETY: meets `ArenaView`: atomics only, alignment 8.
#[allow(unsafe_code)]
unsafe impl ArenaView for SlotHead {}

/// Returns how many slots that were given back stay out of use for a while, so that events that refer to them
/// keep their names.
const fn resting(pool: Pool) -> u32 {
    match pool {
        Pool::Files | Pool::Tables | Pool::Sockets | Pool::MetadataLocks => 64,
        // A connection has about a dozen.
        Pool::Mutexes | Pool::Rwlocks | Pool::Conds => 512,
        _ => 0,
    }
}

pub(crate) struct Pools {
    /// The blocks that may have a free slot of the pool, one bit each.
    blocks: [Table; POOLS],
    /// The blocks of each pool.
    carved: [BlockSet; POOLS],
    /// The index of the word in `blocks` in which a slot was found last.
    hand: [AtomicU32; POOLS],
    /// Slots out of use for a while, the one given back first in front.
    rested: [NumberQueue; POOLS],
}

/// Free slots that a thread keeps for objects it creates and ends all the time, so that a pool's cache lines
/// do not move between processors. The latest slot comes first, as its lines are in the cache. Only for slots
/// that no event refers to.
#[repr(C)]
pub(crate) struct Stash {
    len: AtomicU32,
    slots: [AtomicU32; STASH],
}

const STASH: usize = 7;

impl Stash {
    /// Adds a slot; returns false if the stash is full.
    #[inline(always)]
    pub(crate) fn push(&self, offset: Offset) -> bool {
        let len = self.len.own();
        let Some(place) = self.slots.get(len as usize) else { return false };
        place.store(offset, Relaxed);
        self.len.store(len + 1, Relaxed);
        true
    }

    #[inline(always)]
    fn pop(&self) -> Option<Offset> {
        let last = self.len.own().wrapping_sub(1);
        let place = self.slots.get(last as usize)?;
        self.len.store(last, Relaxed);
        Some(place.own())
    }
}

/// Returns the words of a slot: whole cache lines.
const fn slot_words<T>() -> usize {
    size_of::<T>().div_ceil(LINE) * LINE / 8
}

impl Pools {
    pub(crate) const fn new() -> Pools {
        Pools {
            blocks: [const { Table::new() }; POOLS],
            carved: [const { BlockSet::new() }; POOLS],
            hand: [const { AtomicU32::new(0) }; POOLS],
            rested: [const { NumberQueue::new() }; POOLS],
        }
    }

    /// Reserves room for the bits and the queues.
    pub(crate) fn map(&self, arena: &Arena) -> Result<(), std::io::Error> {
        for pool in ALL {
            self.blocks[pool as usize].map((arena.blocks() as usize).div_ceil(64))?;
            self.carved[pool as usize].map(arena.blocks() as usize)?;
            self.rested[pool as usize].map(2 * resting(pool) as usize)?;
        }
        Ok(())
    }

    /// Returns a slot to use: one that was given back, a new one, or the one that has been out of use
    /// longest.
    fn find<T: ArenaView>(&self, arena: &Arena, pool: Pool) -> Option<Offset> {
        let free = self.claim::<T>(arena, pool).or_else(|| self.carve::<T>(arena, pool));
        free.or_else(|| self.rested[pool as usize].pop())
    }

    /// Takes a slot, zeroed except for its head. The caller fills it and publishes it. `None`: there is no
    /// memory left.
    pub(crate) fn take<T: ArenaView>(&self, arena: &Arena, pool: Pool, class: ClassId) -> Option<&'static T> {
        let offset = self.find::<T>(arena, pool)?;
        let head: &SlotHead = arena.at(offset);
        head.begin(class, offset);
        for word in &arena.slice(offset, slot_words::<T>())[2..] {
            word.store(0, Relaxed);
        }
        Some(arena.at(offset))
    }

    /// Gives a slot back. Readers that hold its offset notice by the generation when it is taken again.
    pub(crate) fn give<T: ArenaView>(&self, arena: &Arena, pool: Pool, slot: &'static T) {
        // It may have been given back before, and its block may have been repurposed.
        if let Some(_held) = arena.hold(pool, slot)
            && arena.at::<SlotHead>(arena.offset_of(slot)).end()
        {
            self.put_back(arena, pool, slot);
        }
    }

    /// Gives back a slot whose use has ended.
    pub(crate) fn put_back<T: ArenaView>(&self, arena: &Arena, pool: Pool, slot: &'static T) {
        let offset = arena.offset_of(slot);
        let rested = &self.rested[pool as usize];
        if resting(pool) == 0 || !rested.push(offset) {
            self.free::<T>(arena, pool, offset);
        } else if rested.len() > resting(pool)
            && let Some(offset) = rested.pop()
        {
            self.free::<T>(arena, pool, offset);
        }
    }

    /// Takes a slot from the stash. It is not zeroed, so the caller writes all of it. `None`: the stash is
    /// empty.
    #[inline(always)]
    pub(crate) fn take_near(&self, base: Base, stash: &Stash) -> Option<Offset> {
        let offset = stash.pop()?;
        base.at::<SlotHead>(offset).begin_again();
        Some(offset)
    }

    /// Gives a slot without flags back to the stash. Returns false if the stash is full: give it back to the
    /// pool.
    #[inline(always)]
    pub(crate) fn give_near(&self, arena: &Arena, stash: &Stash, slot: &SlotHead) -> bool {
        if slot.state.load(Relaxed) == FREE {
            return true;
        }
        let given = stash.push(arena.offset_of(slot));
        if given {
            slot.state.store(FREE, Relaxed);
        }
        given
    }

    /// Gives all slots of a stash back to the pool.
    pub(crate) fn empty<T: ArenaView>(&self, arena: &Arena, pool: Pool, stash: &Stash) {
        while let Some(offset) = stash.pop() {
            self.free::<T>(arena, pool, offset);
        }
    }

    /// Marks a slot as free.
    fn free<T: ArenaView>(&self, arena: &Arena, pool: Pool, offset: Offset) {
        let block = offset / WORDS as u32;
        let freed = arena.meta(block).slots.free(offset as usize % WORDS / slot_words::<T>());
        if freed.all {
            arena.shares.count_empty(pool, true);
        }
        if freed.only {
            self.announce(pool, block);
        }
    }

    /// Marks a block as one that has a free slot.
    fn announce(&self, pool: Pool, block: BlockId) {
        let (word, bit) = (block / 64, 1 << (block % 64));
        BlockSlots::hint(&self.blocks[pool as usize].words()[word as usize], bit);
        self.hand[pool as usize].store(word, Relaxed);
    }

    /// Takes a free slot of an existing block.
    fn claim<T: ArenaView>(&self, arena: &Arena, pool: Pool) -> Option<Offset> {
        let hand = &self.hand[pool as usize];
        let words = self.blocks[pool as usize].words();
        // Blocks beyond this were never handed out.
        let words = words.get(..(arena.high() as usize).div_ceil(64)).unwrap_or(words);
        let first = hand.load(Relaxed) as usize;
        for step in 0..words.len() {
            let at = (first + step) % words.len();
            let mut bits = words[at].load(Relaxed);
            while bits != 0 {
                let block = at as u32 * 64 + bits.trailing_zeros();
                if let Some(offset) = self.claim_in::<T>(arena, pool, block, &words[at]) {
                    if step != 0 {
                        hand.store(at as u32, Relaxed);
                    }
                    return Some(offset);
                }
                bits &= bits - 1;
            }
        }
        None
    }

    /// Takes a free slot of a block. Clears the block's bit among `bits` when none is left.
    fn claim_in<T: ArenaView>(
        &self,
        arena: &Arena,
        pool: Pool,
        block: BlockId,
        bits: &AtomicU64,
    ) -> Option<Offset> {
        let claimed = arena.meta(block).slots.claim_by_hint(pool.kind(), bits, 1 << (block % 64))?;
        if claimed.first {
            arena.shares.count_empty(pool, false);
        }
        Some(block * WORDS as u32 + (claimed.slot * slot_words::<T>()) as u32)
    }

    /// Cuts a new block into slots and takes the first.
    #[cold]
    fn carve<T: ArenaView>(&self, arena: &Arena, pool: Pool) -> Option<Offset> {
        const { assert!(slot_words::<T>() * 8 <= BLOCK && WORDS / slot_words::<T>() <= MOST_SLOTS) };
        let (block, slots) = arena.take_for(pool, WORDS / slot_words::<T>())?;
        let (meta, start) = (arena.meta(block), block * WORDS as u32);
        meta.slot_words.store(slot_words::<T>() as u32, Relaxed);
        for slot in 0..slots {
            let head: &SlotHead = arena.at(start + (slot * slot_words::<T>()) as u32);
            head.generation.store(meta.generations.load(Relaxed), Relaxed);
        }
        self.carved[pool as usize].add(block);
        meta.slots.begin(pool.kind(), slots);
        if slots > 1 {
            self.announce(pool, block);
        }
        Some(start)
    }

    /// Calls `f` with every slot in use.
    pub(crate) fn each<T: ArenaView>(&self, arena: &Arena, pool: Pool, mut f: impl FnMut(&'static T)) {
        for block in self.carved[pool as usize].each(arena.high()) {
            if arena.meta(block).slots.kind() != pool.kind() {
                continue;
            }
            let Some(_held) = arena.hold_block(pool, block) else { continue };
            for slot in 0..WORDS / slot_words::<T>() {
                let offset = block * WORDS as u32 + (slot * slot_words::<T>()) as u32;
                if arena.at::<SlotHead>(offset).state() == USED {
                    f(arena.at(offset));
                }
            }
        }
    }
}

/// Returns the slot at an offset whose memory may have been reused, and a hold on its block.
pub(crate) fn held<T: ArenaView>(
    arena: &Arena,
    pool: Pool,
    offset: Offset,
) -> Option<(BlockHold, &'static T)> {
    let slot: &'static T = arena.get(offset)?;
    Some((arena.hold(pool, slot)?, slot))
}

/// Returns a slot and its generation in one word, as a weak reference for event records. Slots are aligned to
/// cache lines, so the offset loses three bits, and 24 bits reach the first GiB of the arena. Beyond it,
/// names are not shown, and objects that the host knows only by name (locks, prepared statements) are lost.
#[inline(always)]
pub(crate) fn name(head: &SlotHead) -> u32 {
    head.object().name()
}

const fn name_of(offset: Offset, generation: u32) -> u32 {
    let line = offset / 8;
    if line >= 1 << 24 { 0 } else { line << 8 | generation & 0xFF }
}

#[inline(always)]
const fn offset_of(name: u32) -> Offset {
    (name >> 8) * 8
}

/// Returns what `read` makes of the slot of a weak reference. `None`: the slot has been reused, before or
/// while it was read.
pub(crate) fn read_named<T: ArenaView, R>(
    arena: &Arena,
    pool: Pool,
    name: u32,
    read: impl FnOnce(&'static T) -> R,
) -> Option<R> {
    let (_held, slot) = resolve::<T>(arena, pool, name)?;
    let value = read(slot);
    fence(Acquire);
    // If the slot was reused meanwhile, the result belongs to another object or is a mixture.
    resolve::<T>(arena, pool, name).map(|_| value)
}

/// Returns the slot of a weak reference, with a hold on its block, if it has not been reused. It can be
/// reused while it is read, see [`read_named`].
fn resolve<T: ArenaView>(arena: &Arena, pool: Pool, name: u32) -> Option<(BlockHold, &'static T)> {
    let offset = offset_of(name);
    let slot = held::<T>(arena, pool, offset)?;
    let is_slot = (offset as usize % WORDS).is_multiple_of(slot_words::<T>());
    let head: &SlotHead = arena.get(offset)?;
    (is_slot && head.generation() & 0xFF == name & 0xFF).then_some(slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Engine;
    use crate::layout::program::Program;

    #[test]
    fn a_slot_taken_again_is_not_read_before_it_is_filled() {
        let engine = Engine::small();
        let take = || engine.pools.take::<Program>(&engine.arena, Pool::Programs, 0).expect("memory");
        take().head.publish();
        let mut reached = 0;
        engine.pools.each::<Program>(&engine.arena, Pool::Programs, |slot| {
            let before = slot.head.generation_in_use().expect("it is in use");
            // A reader that has found the slot in use goes on when it belongs to another object.
            engine.pools.give(&engine.arena, Pool::Programs, slot);
            assert_eq!(slot.head.generation_in_use(), None, "free");
            assert!(std::ptr::eq(take(), slot));
            assert_eq!(slot.head.generation_in_use(), None, "being filled");
            slot.head.publish();
            assert!(!slot.head.is_still(before));
            assert_eq!(slot.head.generation_in_use(), Some(before + 1));
            reached += 1;
        });
        assert_eq!(reached, 1);
    }
}
