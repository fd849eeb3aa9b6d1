//! HOT PATH: pools of instances: equal slots cut from blocks, taken and given back with one compare-and-swap.

use std::sync::atomic::{
    AtomicU8, AtomicU16, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

use tare_sync::FreeList;

use crate::arena::{Arena, BLOCK, LINE, Offset, Own, Use, View, WORDS};
use crate::lost::{Limits, Lost};
use crate::queue::Queue;
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
    Digests,
    Names,
    Accounts,
    Users,
    Hosts,
}

/// The pools of mutexes, rwlocks and conds.
pub(crate) const SYNCHS: [Pool; 3] = [Pool::Mutexes, Pool::Rwlocks, Pool::Conds];

/// Number of pools.
pub(crate) const POOLS: usize = 17;

/// What is lost when a pool's slots are as many as they may be. Statistics are not bound here but where they outlive
/// what they were counted by; accounts, users and hosts have sizes of their own.
const BOUND: [(Pool, Lost); 10] = [
    (Pool::Mutexes, Lost::MutexInstances),
    (Pool::Rwlocks, Lost::RwlockInstances),
    (Pool::Conds, Lost::CondInstances),
    (Pool::Sockets, Lost::SocketInstances),
    (Pool::Files, Lost::FileInstances),
    (Pool::Tables, Lost::TableInstances),
    (Pool::Handles, Lost::TableHandles),
    (Pool::Programs, Lost::Programs),
    (Pool::MetadataLocks, Lost::MetadataLocks),
    (Pool::Prepared, Lost::PreparedStatements),
];

/// States of a slot.
pub(crate) const FREE: u8 = 0;
pub(crate) const USED: u8 = 1;
/// Taken, and not yet fit to be seen.
const FILLING: u8 = 2;

/// First words of every slot.
#[repr(C)]
pub(crate) struct SlotHead {
    state: AtomicU8,
    pub(crate) kind: AtomicU8,
    pub(crate) class: AtomicU16,
    /// Rises whenever the slot is taken: a name is known until its place is used again.
    generation: AtomicU32,
    /// Next free slot, while free.
    next: AtomicU32,
    pub(crate) flags: AtomicU32,
}

impl SlotHead {
    #[inline(always)]
    pub(crate) fn state(&self) -> u8 {
        self.state.load(Acquire)
    }

    #[inline(always)]
    pub(crate) fn class(&self) -> ClassId {
        self.class.load(Relaxed)
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }

    /// The slot is taken, and about to be filled.
    #[inline(always)]
    fn begin(&self, class: ClassId) {
        // What refers to the slot's former use no longer means it; until now it did, though that had ended.
        self.generation.store(self.generation.load(Relaxed).wrapping_add(1), Relaxed);
        fence(Release);
        self.class.store(class, Relaxed);
        self.kind.store(0, Relaxed);
        self.flags.store(0, Relaxed);
        self.state.store(FILLING, Relaxed);
    }

    /// Readers may see the slot: it has been filled.
    #[inline(always)]
    pub(crate) fn publish(&self) {
        self.state.store(USED, Release);
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
        _ => 0,
    }
}
/// Slots a pool's queue holds.
const QUEUE: usize = 1024;

pub(crate) struct Pools {
    /// Slots never used, or without a place in the queue.
    free: [FreeList; POOLS],
    /// Slots given back, oldest first.
    rested: [Queue; POOLS],
    /// How many more may be cut.
    room: [AtomicU32; POOLS],
}

/// Free slots a thread keeps for itself, of what it takes and gives back all the time: a pool's lines would wander
/// from processor to processor. Oldest first, and not all of them are for use, so that events keep their names.
#[repr(C)]
pub(crate) struct Stash {
    /// Slots put in, and taken out, ever.
    pushed: AtomicU32,
    popped: AtomicU32,
    slots: [AtomicU32; STASH],
}

const STASH: usize = 8;
/// Slots of a stash that rest.
const STASH_RESTS: u32 = 4;

impl Stash {
    #[inline(always)]
    fn len(&self) -> u32 {
        self.pushed.own().wrapping_sub(self.popped.own())
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.len() as usize >= STASH
    }

    #[inline(always)]
    fn push(&self, offset: Offset) {
        let pushed = self.pushed.own();
        self.slots[pushed as usize % STASH].store(offset, Relaxed);
        self.pushed.store(pushed.wrapping_add(1), Relaxed);
    }

    #[inline(always)]
    fn pop(&self) -> Option<Offset> {
        if self.len() > STASH_RESTS { self.pop_last() } else { None }
    }

    /// The oldest, even if it should rest.
    #[inline(always)]
    fn pop_last(&self) -> Option<Offset> {
        let popped = self.popped.own();
        if popped == self.pushed.own() {
            return None;
        }
        self.popped.store(popped.wrapping_add(1), Relaxed);
        Some(self.slots[popped as usize % STASH].own())
    }
}

/// Words of a slot: whole lines.
const fn slot_words<T>() -> usize {
    size_of::<T>().div_ceil(LINE) * LINE / 8
}

impl Pools {
    pub(crate) const fn new() -> Pools {
        Pools {
            free: [const { FreeList::new() }; POOLS],
            rested: [const { Queue::new() }; POOLS],
            room: [const { AtomicU32::new(u32::MAX) }; POOLS],
        }
    }

    /// Makes room for the queues, and bounds the pools.
    pub(crate) fn map(&self, limits: &Limits) -> Result<(), std::io::Error> {
        for (pool, lost) in BOUND {
            self.room[pool as usize].store(limits.of(lost), Relaxed);
        }
        self.rested.iter().try_for_each(|queue| queue.map(QUEUE))
    }

    /// A slot to use: a new one, the one that has rested longest, or whatever there is.
    fn find<T: View>(&self, arena: &Arena, pool: Pool) -> Option<Offset> {
        let rested = &self.rested[pool as usize];
        let rest = || if rested.len() > resting(pool) { rested.pop() } else { None };
        let free = self.pop(arena, pool).or_else(rest);
        free.or_else(|| self.carve::<T>(arena, pool)).or_else(|| rested.pop())
    }

    /// Takes a slot, zeroed but for its head; whoever fills it publishes it then. `None`: no memory left.
    pub(crate) fn take<T: View>(&self, arena: &Arena, pool: Pool, class: ClassId) -> Option<&'static T> {
        let offset = self.find::<T>(arena, pool)?;
        let head: &SlotHead = arena.at(offset);
        head.begin(class);
        for word in &arena.slice(offset, slot_words::<T>())[2..] {
            word.store(0, Relaxed);
        }
        Some(arena.at(offset))
    }

    /// Gives a slot back; readers that hold its offset see the generation change once it is taken again.
    pub(crate) fn give<T: View>(&self, arena: &Arena, pool: Pool, slot: &'static T) {
        let offset = arena.offset_of(slot);
        let head: &SlotHead = arena.at(offset);
        if head.state.swap(FREE, Relaxed) == FREE {
            return;
        }
        if resting(pool) == 0 || !self.rested[pool as usize].push(offset) {
            self.push(arena, pool, offset);
        }
    }

    /// Takes a slot from the stash, or else from the pool, but not zeroed: whoever fills it fills all of it.
    #[inline(always)]
    pub(crate) fn take_near<T: View>(&self, arena: &Arena, pool: Pool, stash: &Stash) -> Option<&'static T> {
        match stash.pop() {
            Some(offset) => {
                arena.at::<SlotHead>(offset).begin(0);
                Some(arena.at(offset))
            }
            None => self.take(arena, pool, 0),
        }
    }

    /// Gives a slot back to the stash, or to the pool if that is full.
    #[inline(always)]
    pub(crate) fn give_near<T: View>(&self, arena: &Arena, pool: Pool, stash: &Stash, slot: &'static T) {
        let offset = arena.offset_of(slot);
        let head: &SlotHead = arena.at(offset);
        if stash.is_full() {
            self.give(arena, pool, slot);
        } else if head.state.load(Relaxed) != FREE {
            head.state.store(FREE, Relaxed);
            stash.push(offset);
        }
    }

    /// Gives all of a stash back to the pool.
    pub(crate) fn empty(&self, arena: &Arena, pool: Pool, stash: &Stash) {
        while let Some(offset) = stash.pop_last() {
            self.push(arena, pool, offset);
        }
    }

    fn push(&self, arena: &Arena, pool: Pool, offset: Offset) {
        self.free[pool as usize].push(offset, |offset| &arena.at::<SlotHead>(offset).next);
    }

    fn pop(&self, arena: &Arena, pool: Pool) -> Option<Offset> {
        self.free[pool as usize].pop(|offset| &arena.at::<SlotHead>(offset).next)
    }

    /// Cuts a new block into slots; keeps the first.
    #[cold]
    fn carve<T: View>(&self, arena: &Arena, pool: Pool) -> Option<Offset> {
        const { assert!(slot_words::<T>() * 8 <= BLOCK) };
        let slots = self.reserve(pool, WORDS / slot_words::<T>())?;
        let block = arena.take(Use::Pool, pool as u8)?;
        let start = block * WORDS as u32;
        // So that they are taken in their order, in which readers show them.
        for slot in (1..slots).rev() {
            self.push(arena, pool, start + (slot * slot_words::<T>()) as u32);
        }
        Some(start)
    }

    /// As many slots as may be cut, of those a block holds. `None`: no more.
    fn reserve(&self, pool: Pool, slots: usize) -> Option<usize> {
        let room = &self.room[pool as usize];
        let left = match room.load(Relaxed) {
            u32::MAX => return Some(slots),
            _ => room.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(slots as u32))),
        };
        left.ok().map(|left| slots.min(left as usize)).filter(|slots| *slots > 0)
    }

    /// Every slot in use.
    pub(crate) fn each<T: View>(&self, arena: &Arena, pool: Pool, mut f: impl FnMut(&'static T)) {
        for block in 1..arena.high() {
            if arena.used(block) != Use::Pool as u8 + pool as u8 {
                continue;
            }
            for slot in 0..WORDS / slot_words::<T>() {
                let offset = block * WORDS as u32 + (slot * slot_words::<T>()) as u32;
                if arena.at::<SlotHead>(offset).state() == USED {
                    f(arena.at(offset));
                }
            }
        }
    }
}

/// A slot and its generation in one word: a weak reference for event records. Slots lie on lines, so the
/// offset loses three bits; 24 bits reach the first GiB of the arena, beyond it names are not shown.
#[inline(always)]
pub(crate) fn name<T: View>(arena: &Arena, slot: &T) -> u32 {
    let offset = arena.offset_of(slot);
    let line = offset / 8;
    if line >= 1 << 24 {
        return 0;
    }
    line << 8 | arena.at::<SlotHead>(offset).generation() & 0xFF
}

/// The slot a weak reference means, if it still is the same.
pub(crate) fn resolve(arena: &Arena, name: u32) -> Option<Offset> {
    let offset = (name >> 8) * 8;
    if offset == 0 {
        return None;
    }
    let head: &SlotHead = arena.at(offset);
    (head.generation() & 0xFF == name & 0xFF).then_some(offset)
}
