//! HOT PATH: pools of instances: equal slots cut from blocks, taken and given back with one atomic instruction.
//!
//! Which slots of a block are free is in the block's word (`slots`), and which blocks of a pool may have a free slot in
//! the pool's own bits. These are hints: whoever frees the first slot of a block sets its bit, whoever finds none clears it
//! and looks again.

use std::sync::atomic::{
    AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

use tare_sync::{MOST_SLOTS, Slots};

use crate::memory::arena::{
    Arena, BLOCK, Base, BlockId, BlockSet, Held, LINE, Offset, Own, Table, View, WORDS,
};
use crate::memory::queue::Queue;
use crate::snapshot::ClassId;

/// The pools, by what their slots hold.
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

/// Number of pools.
pub(crate) const POOLS: usize = 18;

/// All of them.
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
    /// Its number among the kinds of slots.
    pub(crate) const fn kind(self) -> u8 {
        self as u8 + 1
    }

    /// The pool of a kind of slots.
    pub(crate) const fn of(kind: u8) -> Pool {
        ALL[(kind as usize).wrapping_sub(1) % POOLS]
    }
}

/// States of a slot.
pub(crate) const FREE: u8 = 0;
pub(crate) const USED: u8 = 1;
/// Taken, and not yet fit to be seen.
const FILLING: u8 = 2;

/// First words of every slot.
#[repr(C)]
pub(crate) struct SlotHead {
    state: AtomicU8,
    pub(crate) flags: AtomicU8,
    _pad: AtomicU16,
    /// Rises whenever the slot is taken: a name is known until its place is used again.
    generation: AtomicU32,
    /// Class and [`name`], where the first word of a record has them: see [`SlotHead::object`].
    object: AtomicU64,
}

/// Where a slot's first words have the class, and the name.
pub(crate) const CLASS: u32 = 11;
pub(crate) const NAME: u32 = 32;

/// Class and [`name`] of what is in a slot, where the first word of a record has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Object(pub(crate) u64);

impl Object {
    /// Bits it has, at most.
    pub(crate) const BITS: u64 = !((1 << CLASS) - 1);

    #[inline(always)]
    pub(crate) fn class(self) -> ClassId {
        (self.0 as u32 >> CLASS) as ClassId
    }

    #[inline(always)]
    pub(crate) fn name(self) -> u32 {
        (self.0 >> NAME) as u32
    }

    /// Where the slot is; 0: its name does not say.
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

    /// What a record says of it, in one word.
    #[inline(always)]
    pub(crate) fn object(&self) -> Object {
        Object(self.object.load(Relaxed))
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }

    /// The slot is taken, and about to be filled.
    #[inline(always)]
    fn begin(&self, class: ClassId, offset: Offset) {
        // What refers to the slot's former use no longer means it; until now it did, though that had ended.
        let generation = self.generation.load(Relaxed).wrapping_add(1);
        self.generation.store(generation, Relaxed);
        fence(Release);
        let name = u64::from(name_of(offset, generation));
        self.object.store(name << NAME | u64::from(class) << CLASS, Relaxed);
        self.flags.store(0, Relaxed);
        self.state.store(FILLING, Relaxed);
    }

    /// As [`SlotHead::begin`], of a slot that is for the same as before and had no flags. It is still free to readers, and its name
    /// is of a former use: see [`SlotHead::rename`].
    #[inline(always)]
    fn begin_again(&self) {
        self.generation.store(self.generation.load(Relaxed).wrapping_add(1), Relaxed);
        fence(Release);
    }

    /// It gets the name of its present use, which an event is about to refer to.
    pub(crate) fn rename(&self, offset: Offset) {
        let name = name_of(offset, self.generation.load(Relaxed));
        self.object.store(u64::from(name) << NAME | u64::from(self.class()) << CLASS, Relaxed);
    }

    /// Readers may see the slot: it has been filled.
    #[inline(always)]
    pub(crate) fn publish(&self) {
        self.state.store(USED, Release);
    }

    /// What used the slot has ended; false: it had before.
    pub(crate) fn end(&self) -> bool {
        self.state.swap(FREE, Relaxed) != FREE
    }

    /// Whether what was read since `generation` was read belongs together.
    pub(crate) fn is_still(&self, generation: u32) -> bool {
        fence(Acquire);
        self.state() == USED && self.generation() == generation
    }
}

// SAFETY: atomics only, alignment 8.
#[allow(unsafe_code)]
unsafe impl View for SlotHead {}

/// Slots given back that are kept from use, so that events that refer to them keep their names for a while.
const fn resting(pool: Pool) -> u32 {
    match pool {
        Pool::Files | Pool::Tables | Pool::Sockets | Pool::MetadataLocks => 64,
        // Each connection has a dozen.
        Pool::Mutexes | Pool::Rwlocks | Pool::Conds => 512,
        _ => 0,
    }
}

pub(crate) struct Pools {
    /// One bit for each block: it may have a free slot of the pool.
    blocks: [Table; POOLS],
    /// The blocks of each pool.
    carved: [BlockSet; POOLS],
    /// The word of these in which one was found last.
    hand: [AtomicU32; POOLS],
    /// Slots that rest, the one longest given back first.
    rested: [Queue; POOLS],
}

/// Free slots a thread keeps for itself, of what it takes and gives back all the time: a pool's lines would wander
/// from processor to processor. The latest first: its lines are at hand. So it is for slots that no event refers to.
#[repr(C)]
pub(crate) struct Stash {
    len: AtomicU32,
    slots: [AtomicU32; STASH],
}

const STASH: usize = 7;

impl Stash {
    /// False where it is full.
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

/// Words of a slot: whole lines.
const fn slot_words<T>() -> usize {
    size_of::<T>().div_ceil(LINE) * LINE / 8
}

impl Pools {
    pub(crate) const fn new() -> Pools {
        Pools {
            blocks: [const { Table::new() }; POOLS],
            carved: [const { BlockSet::new() }; POOLS],
            hand: [const { AtomicU32::new(0) }; POOLS],
            rested: [const { Queue::new() }; POOLS],
        }
    }

    /// Makes room for the bits and the queues.
    pub(crate) fn map(&self, arena: &Arena) -> Result<(), std::io::Error> {
        for pool in ALL {
            self.blocks[pool as usize].map((arena.blocks() as usize).div_ceil(64))?;
            self.carved[pool as usize].map(arena.blocks() as usize)?;
            self.rested[pool as usize].map(2 * resting(pool) as usize)?;
        }
        Ok(())
    }

    /// A slot to use: one that was given back, a new one, or the one that has rested longest.
    fn find<T: View>(&self, arena: &Arena, pool: Pool) -> Option<Offset> {
        let free = self.claim::<T>(arena, pool).or_else(|| self.carve::<T>(arena, pool));
        free.or_else(|| self.rested[pool as usize].pop())
    }

    /// Takes a slot, zeroed but for its head; whoever fills it publishes it then. `None`: no memory left.
    pub(crate) fn take<T: View>(&self, arena: &Arena, pool: Pool, class: ClassId) -> Option<&'static T> {
        let offset = self.find::<T>(arena, pool)?;
        let head: &SlotHead = arena.at(offset);
        head.begin(class, offset);
        for word in &arena.slice(offset, slot_words::<T>())[2..] {
            word.store(0, Relaxed);
        }
        Some(arena.at(offset))
    }

    /// Gives a slot back; readers that hold its offset see the generation change once it is taken again.
    pub(crate) fn give<T: View>(&self, arena: &Arena, pool: Pool, slot: &'static T) {
        // Given back before, maybe: then it may be anything by now.
        if let Some(_held) = arena.hold(pool, slot)
            && arena.at::<SlotHead>(arena.offset_of(slot)).end()
        {
            self.put_back(arena, pool, slot);
        }
    }

    /// Gives a slot back that has been ended.
    pub(crate) fn put_back<T: View>(&self, arena: &Arena, pool: Pool, slot: &'static T) {
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

    /// Takes a slot from the stash, as [`Pools::take`], but not zeroed: whoever fills it fills all of it. `None`: the stash has
    /// none to give.
    #[inline(always)]
    pub(crate) fn take_near(&self, base: Base, stash: &Stash) -> Option<Offset> {
        let offset = stash.pop()?;
        base.at::<SlotHead>(offset).begin_again();
        Some(offset)
    }

    /// Gives a slot back to the stash that has no flags. False where that is full: give it back to the pool.
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

    /// Gives all of a stash back to the pool.
    pub(crate) fn empty<T: View>(&self, arena: &Arena, pool: Pool, stash: &Stash) {
        while let Some(offset) = stash.pop() {
            self.free::<T>(arena, pool, offset);
        }
    }

    /// The slot is free.
    fn free<T: View>(&self, arena: &Arena, pool: Pool, offset: Offset) {
        let block = offset / WORDS as u32;
        let freed = arena.meta(block).slots.free(offset as usize % WORDS / slot_words::<T>());
        if freed.all {
            arena.shares.count_empty(pool, true);
        }
        if freed.only {
            self.announce(pool, block);
        }
    }

    /// The block has a free slot.
    fn announce(&self, pool: Pool, block: BlockId) {
        let (word, bit) = (block / 64, 1 << (block % 64));
        Slots::hint(&self.blocks[pool as usize].words()[word as usize], bit);
        self.hand[pool as usize].store(word, Relaxed);
    }

    /// A free slot of the blocks there are.
    fn claim<T: View>(&self, arena: &Arena, pool: Pool) -> Option<Offset> {
        let hand = &self.hand[pool as usize];
        let words = self.blocks[pool as usize].words();
        // What lies behind was never handed out.
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

    /// A free slot of a block; without any left its bit among `bits` goes.
    fn claim_in<T: View>(
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

    /// Cuts a new block into slots; keeps the first.
    #[cold]
    fn carve<T: View>(&self, arena: &Arena, pool: Pool) -> Option<Offset> {
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

    /// Every slot in use.
    pub(crate) fn each<T: View>(&self, arena: &Arena, pool: Pool, mut f: impl FnMut(&'static T)) {
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

/// The slot at an offset that may have become something else, while it is held.
pub(crate) fn held<T: View>(arena: &Arena, pool: Pool, offset: Offset) -> Option<(Held, &'static T)> {
    let slot: &'static T = arena.get(offset)?;
    Some((arena.hold(pool, slot)?, slot))
}

/// A slot and its generation in one word: a weak reference for event records. Slots lie on lines, so the
/// offset loses three bits; 24 bits reach the first GiB of the arena. Of what lies beyond names are not shown, and what the host
/// knows by its name only, locks and prepared statements, is lost.
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

/// The slot a weak reference means, if it still is the same, while it is held. (Nobody says that what is read of it is
/// of the same use: ask again.)
pub(crate) fn resolve<T: View>(arena: &Arena, pool: Pool, name: u32) -> Option<(Held, &'static T)> {
    let offset = offset_of(name);
    let slot = held::<T>(arena, pool, offset)?;
    let is_slot = (offset as usize % WORDS).is_multiple_of(slot_words::<T>());
    let head: &SlotHead = arena.get(offset)?;
    (is_slot && head.generation() & 0xFF == name & 0xFF).then_some(slot)
}
