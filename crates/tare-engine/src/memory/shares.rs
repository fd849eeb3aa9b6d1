//! HOT PATH: who may have how much of the memory, and what comes back when it is used up.
//!
//! Slots of pools together never get the last quarter, and instances (all slots but those of digests and accounts) leave
//! some of the rest to the others: so there is always room for connections and statements. What threads record never gets the
//! last eighth: that is for what they are and count.
//!
//! Instances of most kinds give a block back once all of its slots are free. Of those that the host uses where nobody has
//! time to ask whether they are still there (see [`Pool::stays`]) a block stays of its kind, so each kind has a bound of its
//! own. The long histories have what nobody else wants.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::memory::arena::{Arena, BlockId, Use, WORDS};
use crate::memory::history::LongHistory;
use crate::memory::lost::{Limits, Lost};
use crate::memory::pool::{POOLS, Pool, SlotHead};

/// Shares are in parts of the whole of which there are as many.
const PARTS: u32 = 32;
/// What all slots together may have.
const SLOTS: u32 = 24;
/// What instances may have of it.
const INSTANCES: u32 = 18;
/// What is kept from the events that threads record.
const ESSENTIALS: u32 = 4;

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

impl Pool {
    /// Whether a block stays the pool's for ever: the host stores through addresses of such slots on ways too short to
    /// ask whether the slot still is what it was, or the engine keeps them for good.
    pub(crate) const fn stays(self) -> bool {
        self.part() != PARTS
    }

    /// What the pool may have at most.
    const fn part(self) -> u32 {
        match self {
            Pool::Mutexes | Pool::Rwlocks | Pool::Handles => 3,
            Pool::MetadataLocks => 2,
            Pool::Conds | Pool::Sockets => 1,
            Pool::Digests => 8,
            // Few, by their sizes.
            Pool::Accounts | Pool::Users | Pool::Hosts => SLOTS,
            _ => PARTS,
        }
    }

    /// Whether its slots are instances.
    const fn is_instances(self) -> bool {
        !matches!(self, Pool::Digests | Pool::Accounts | Pool::Users | Pool::Hosts)
    }
}

/// What is known of the shares.
pub(crate) struct Shares {
    /// How many more slots a pool may have; `u32::MAX`: as many as fit its share.
    room: [AtomicU32; POOLS],
    /// Blocks that pools have.
    blocks: [AtomicU32; POOLS],
    /// Those of all pools.
    slots: AtomicU32,
    /// Those of instances.
    instances: AtomicU32,
    /// Blocks that would come back: all their slots are free.
    empty: AtomicU32,
    /// Where the next look for one begins.
    hand: AtomicU32,
    /// Blocks of the long histories, by event type minus one.
    pub(crate) long: [LongHistory; 4],
}

impl Shares {
    pub(crate) const fn new() -> Shares {
        Shares {
            room: [const { AtomicU32::new(u32::MAX) }; POOLS],
            blocks: [const { AtomicU32::new(0) }; POOLS],
            slots: AtomicU32::new(0),
            instances: AtomicU32::new(0),
            empty: AtomicU32::new(0),
            hand: AtomicU32::new(0),
            long: [const { LongHistory::new() }; 4],
        }
    }

    pub(crate) fn limit(&self, limits: &Limits) {
        for (pool, lost) in BOUND {
            self.room[pool as usize].store(limits.of(lost), Relaxed);
        }
    }

    /// As many slots as may be cut, of those a block holds. `None`: no more.
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

    /// All slots of a block are free, or not all any more.
    pub(crate) fn count_empty(&self, pool: Pool, is_empty: bool) {
        if !pool.stays() {
            self.empty.fetch_add(if is_empty { 1 } else { u32::MAX }, Relaxed);
        }
    }

    /// Blocks of the long histories.
    pub(crate) fn lent(&self) -> u32 {
        self.long.iter().map(LongHistory::len).sum()
    }

    /// Who counts and who takes may overtake each other: for a moment there are fewer than none.
    pub(crate) fn empty(&self) -> u32 {
        self.empty.load(Relaxed).cast_signed().max(0).cast_unsigned()
    }

    /// Where a pool's blocks are counted, and how many parts of the whole there may be.
    fn bounds(&self, pool: Pool) -> impl Iterator<Item = (&AtomicU32, u32)> {
        let instances = if pool.is_instances() { Some((&self.instances, INSTANCES)) } else { None };
        [(&self.blocks[pool as usize], pool.part()), (&self.slots, SLOTS)].into_iter().chain(instances)
    }

    /// Whether a pool may have one more block, of `all` there are. It has it then.
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

/// What comes back.
impl Arena {
    /// A block for slots, and how many it may have. `None`: the pool has its share, or there is no memory.
    pub(crate) fn take_for(&self, pool: Pool, slots: usize) -> Option<(BlockId, usize)> {
        let shares = &self.shares;
        let slots = shares.cut(pool, slots)?;
        // What other kinds of instances do not need counts as theirs until it is asked for.
        let is_admitted = shares.admit(pool, self.blocks())
            || self.empty_block().is_some_and(|block| {
                self.give(block);
                shares.admit(pool, self.blocks())
            });
        let block = if is_admitted { self.take(Use::Pool, pool as u8) } else { None };
        if block.is_none() {
            shares.uncut(pool, slots);
            if is_admitted {
                shares.dismiss(pool);
            }
        }
        Some((block?, slots))
    }

    /// Whether only what is kept for essentials is left, and this is none.
    pub(crate) fn is_kept_from(&self, used: Use) -> bool {
        let is_record = matches!(used, Use::Waits | Use::Stages | Use::Statements | Use::Transactions);
        let (untaken, kept) = (self.untaken(), self.blocks() / PARTS * ESSENTIALS);
        is_record && untaken < kept && untaken + self.shares.lent() < kept
    }

    /// The cap is reached: a block that no instance needs any more, or the oldest of the longest long history.
    #[cold]
    pub(crate) fn take_back(&self) -> Option<BlockId> {
        self.empty_block().or_else(|| self.shares.long.iter().max_by_key(|history| history.len())?.pop(self))
    }

    /// A block all of whose slots are free, and which may be anything from now on.
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

    /// Should slots lie here again, they go on counting their uses: names of before stay unknown.
    fn note_generations(&self, block: BlockId, slots: usize) {
        let meta = self.meta(block);
        let words = meta.slot_words.load(Relaxed);
        let generation = |slot| self.at::<SlotHead>(block * WORDS as u32 + slot * words).generation();
        let latest = (0..slots as u32).map(generation).max().unwrap_or(0);
        meta.generations.store(latest, Relaxed);
    }
}
