//! HOT PATH: shares of the memory, and what is taken back when it is used up.
//!
//! Slots of pools together never get the last quarter. Instances (all slots but those of digests and
//! accounts) leave part of the rest to the others. So there is always room for connections and statements.
//! What threads record never gets the last eighth, which is for what threads are and count.
//!
//! Most kinds of instances give a block back once all its slots are free. Some are used by the host where
//! there is no time to check whether they still exist (see [`Pool::stays`]). Their blocks stay of one kind,
//! so each such kind has a limit. The long histories take what nobody else wants.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::memory::arena::{Arena, BlockId, BlockUse, WORDS};
use crate::memory::history::LongHistory;
use crate::memory::lost::{Lost, ObjectLimits};
use crate::memory::pool::{POOLS, Pool, SlotHead};

/// The parts of the whole memory in which shares are counted.
const PARTS: u32 = 32;
/// The share of all slots.
const SLOTS: u32 = 24;
/// The share of instances, within that of all slots.
const INSTANCES: u32 = 18;
/// The share that is reserved from the events that threads record.
const ESSENTIALS: u32 = 4;

/// The loss to count when a pool has reached its limit. Statistics are limited here only where they outlive
/// the objects they were counted by. Accounts, users and hosts have sizes of their own.
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

impl Pool {
    /// Returns whether a block stays the pool's for ever. The host stores through addresses of such slots on
    /// paths too short to check whether the slot is still the same, or the engine keeps them for good.
    pub(crate) const fn stays(self) -> bool {
        self.part() != PARTS
    }

    /// Returns the share of the pool.
    const fn part(self) -> u32 {
        match self {
            Pool::Mutexes | Pool::Rwlocks | Pool::Handles => 3,
            Pool::MetadataLocks => 2,
            Pool::Conds | Pool::Sockets => 1,
            Pool::Digests => 8,
            // Their own sizes keep them few.
            Pool::Accounts | Pool::Users | Pool::Hosts => SLOTS,
            _ => PARTS,
        }
    }

    /// Returns whether the slots are instances.
    const fn is_instances(self) -> bool {
        !matches!(self, Pool::Digests | Pool::Accounts | Pool::Users | Pool::Hosts)
    }
}

/// The state of the shares.
pub(crate) struct MemoryShares {
    /// The number of slots a pool may still get; `u32::MAX`: as many as its share allows.
    room: [AtomicU32; POOLS],
    /// The number of blocks of each pool.
    blocks: [AtomicU32; POOLS],
    /// The number of blocks of all pools.
    slots: AtomicU32,
    /// The number of blocks of instances.
    instances: AtomicU32,
    /// The number of blocks that could be taken back, as all their slots are free.
    empty: AtomicU32,
    /// The block at which the next search for one begins.
    hand: AtomicU32,
    /// The long histories, by event type minus one.
    pub(crate) long: [LongHistory; 4],
}

impl MemoryShares {
    pub(crate) const fn new() -> MemoryShares {
        MemoryShares {
            room: [const { AtomicU32::new(u32::MAX) }; POOLS],
            blocks: [const { AtomicU32::new(0) }; POOLS],
            slots: AtomicU32::new(0),
            instances: AtomicU32::new(0),
            empty: AtomicU32::new(0),
            hand: AtomicU32::new(0),
            long: [const { LongHistory::new() }; 4],
        }
    }

    pub(crate) fn limit(&self, limits: &ObjectLimits) {
        for (pool, lost) in BOUND {
            self.room[pool as usize].store(limits.of(lost), Relaxed);
        }
    }

    /// Returns how many of a block's slots the pool may get. `None`: no more.
    fn cut(&self, pool: Pool, slots: usize) -> Option<usize> {
        let room = &self.room[pool as usize];
        let left = match room.load(Relaxed) {
            u32::MAX => return Some(slots),
            _ => room.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(slots as u32))),
        };
        left.ok().map(|left| slots.min(left as usize)).filter(|slots| *slots > 0)
    }

    fn uncut(&self, pool: Pool, slots: usize) {
        let more = |left: u32| if left == u32::MAX { None } else { Some(left.saturating_add(slots as u32)) };
        _ = self.room[pool as usize].fetch_update(Relaxed, Relaxed, more);
    }

    /// Notes that all slots of a block are free, or not all any more.
    pub(crate) fn count_empty(&self, pool: Pool, is_empty: bool) {
        if !pool.stays() {
            self.empty.fetch_add(if is_empty { 1 } else { u32::MAX }, Relaxed);
        }
    }

    /// Returns the number of blocks in the long histories.
    pub(crate) fn lent(&self) -> u32 {
        self.long.iter().map(LongHistory::len).sum()
    }

    /// Returns the number of blocks whose slots are all free. Increments and decrements may overtake each
    /// other, so it can be negative for a moment; that is returned as 0.
    pub(crate) fn empty(&self) -> u32 {
        self.empty.load(Relaxed).cast_signed().max(0).cast_unsigned()
    }

    /// Returns the counters that a pool's blocks are counted in, each with its limit in parts of the whole.
    fn bounds(&self, pool: Pool) -> impl Iterator<Item = (&AtomicU32, u32)> {
        let instances = if pool.is_instances() { Some((&self.instances, INSTANCES)) } else { None };
        [(&self.blocks[pool as usize], pool.part()), (&self.slots, SLOTS)].into_iter().chain(instances)
    }

    /// Gives a pool one more block of `all` existing ones. Returns false if that exceeds a limit.
    fn admit(&self, pool: Pool, all: u32) -> bool {
        for (at, (blocks, part)) in self.bounds(pool).enumerate() {
            let most = (u64::from(all) * u64::from(part) / u64::from(PARTS)) as u32;
            let more = |blocks| if blocks < most { Some(blocks + 1) } else { None };
            if blocks.fetch_update(Relaxed, Relaxed, more).is_err() {
                self.bounds(pool).take(at).for_each(|(blocks, _)| _ = blocks.fetch_sub(1, Relaxed));
                return false;
            }
        }
        true
    }

    fn dismiss(&self, pool: Pool) {
        self.bounds(pool).for_each(|(blocks, _)| _ = blocks.fetch_sub(1, Relaxed));
    }
}

/// Taking memory back.
impl Arena {
    /// Takes a block for slots, and returns it with the number of slots it may have. `None`: the pool has its
    /// share, or there is no memory.
    pub(crate) fn take_for(&self, pool: Pool, slots: usize) -> Option<(BlockId, usize)> {
        let shares = &self.shares;
        let slots = shares.cut(pool, slots)?;
        // Empty blocks of other kinds of instances count as theirs until somebody needs them.
        let is_admitted = shares.admit(pool, self.blocks())
            || self.empty_block().is_some_and(|block| {
                self.give(block);
                shares.admit(pool, self.blocks())
            });
        let block = if is_admitted { self.take(BlockUse::Pool, pool as u8) } else { None };
        if block.is_none() {
            shares.uncut(pool, slots);
            if is_admitted {
                shares.dismiss(pool);
            }
        }
        Some((block?, slots))
    }

    /// Returns whether a use must be refused because only the reserve for essentials is left, and it records
    /// events.
    pub(crate) fn is_kept_from(&self, used: BlockUse) -> bool {
        let is_record = matches!(
            used,
            BlockUse::Waits | BlockUse::Stages | BlockUse::Statements | BlockUse::Transactions
        );
        let (untaken, kept) = (self.untaken(), self.blocks() / PARTS * ESSENTIALS);
        is_record && untaken < kept && untaken + self.shares.lent() < kept
    }

    /// Takes a block back when the cap is reached: one that no instance needs, or the oldest of the longest
    /// long history.
    #[cold]
    pub(crate) fn take_back(&self) -> Option<BlockId> {
        self.empty_block().or_else(|| self.shares.long.iter().max_by_key(|history| history.len())?.pop(self))
    }

    /// Takes a block whose slots are all free away from its pool.
    fn empty_block(&self) -> Option<BlockId> {
        let shares = &self.shares;
        if shares.empty() == 0 {
            return None;
        }
        let (first, high) = (shares.hand.load(Relaxed), self.high());
        for step in 0..high {
            let block = first.wrapping_add(step) % high;
            let left = self.meta(block).slots.leave(|kind| !Pool::of(kind).stays());
            if let Some((kind, slots)) = left {
                shares.hand.store(block, Relaxed);
                let pool = Pool::of(kind);
                self.note_generations(block, slots);
                shares.uncut(pool, slots);
                shares.dismiss(pool);
                shares.count_empty(pool, false);
                return Some(block);
            }
        }
        None
    }

    /// Notes the highest generation in a block. Future slots here continue from it, so that old names stay
    /// unknown.
    fn note_generations(&self, block: BlockId, slots: usize) {
        let meta = self.meta(block);
        let words = meta.slot_words.load(Relaxed);
        let generation = |slot| self.at::<SlotHead>(block * WORDS as u32 + slot * words).generation();
        let latest = (0..slots as u32).map(generation).max().unwrap_or(0);
        meta.generations.store(latest, Relaxed);
    }
}
