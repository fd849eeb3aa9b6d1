//! HOT PATH: mutexes, rwlocks and conds, and which rwlocks a thread holds for reading.

use std::hint::cold_path;
use std::num::NonZeroU32;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::Engine;
use crate::count::cell::{Counts, Family, StatCell};
use crate::histogram::Lowest;
use crate::memory::arena::{Arena, Own, Use, WORDS};
use crate::memory::lost::Lost;
use crate::memory::pool::{Pool, SlotHead};
use crate::record::Start;
use crate::record::wait::record::free_operation;
use crate::record::wait::{Source, UntimedLock, Wait, WaitObject};
use crate::setup::wanted::Wanted;
use crate::snapshot::{ClassId, Kind};
use crate::thread::choice::NOW;
use crate::thread::{BANK_OWN, ThreadRef, current};

use super::named;

/// A mutex, rwlock, sxlock or cond.
#[repr(C)]
pub(crate) struct Synch {
    pub(crate) head: SlotHead,
    /// OBJECT_INSTANCE_BEGIN.
    pub(crate) identity: AtomicU64,
    /// What changes has a line of its own: whoever begins to wait reads the one above, which then stays in every
    /// processor's cache.
    _pad: [AtomicU64; 5],
    /// The owner or writer, as its thread notes it ([`Thread::holder`]); 0: none.
    pub(crate) owner: AtomicU64,
    /// Its own waits, where the host has them counted.
    pub(crate) waits: Counts,
}

named! {
    /// A synchronisation object. What is locked once in hundreds of statements has left every cache.
    SynchRef, Synch
}

/// See [`SynchRef::taken_by_trying`].
const TAKEN_BY_TRYING: u64 = 1;

impl SynchRef {
    /// The same object, for a host that calls an operation on it a try only where it has got the lock by it.
    pub fn taken_by_trying(self) -> SynchRef {
        SynchRef(self.0 | TAKEN_BY_TRYING)
    }

    /// Whether it came from [`SynchRef::taken_by_trying`].
    #[inline(always)]
    pub fn is_taken_by_trying(self) -> bool {
        self.0.get() & TAKEN_BY_TRYING != 0
    }

    #[inline(always)]
    fn class(self) -> ClassId {
        self.object().class()
    }
}

/// Mutexes, rwlocks, conds.
impl Engine {
    /// A synchronisation object begins to exist.
    pub fn init_synch(&self, class: ClassId, identity: usize) -> Option<SynchRef> {
        if class == 0 {
            return None;
        }
        let (pool, lost) = self.synch_pool(class);
        let Some(slot) = self.pools.take::<Synch>(&self.arena, pool, class) else {
            self.losses.count(lost);
            return None;
        };
        slot.identity.store(identity as u64, Relaxed);
        self.publish(pool, slot, lost).map(SynchRef)
    }

    /// And ends.
    pub fn destroy_synch(&self, synch: SynchRef) {
        self.pools.give(&self.arena, self.synch_pool(synch.class()).0, synch.slot(self));
    }

    fn synch_pool(&self, class: ClassId) -> (Pool, Lost) {
        match self.registry.kind(class) {
            Kind::Mutex => (Pool::Mutexes, Lost::MutexInstances),
            Kind::Cond => (Pool::Conds, Lost::CondInstances),
            _ => (Pool::Rwlocks, Lost::RwlockInstances),
        }
    }

    /// Begins to wait for it; `operation` counts from the family's first.
    #[inline(always)]
    pub fn start_synch_wait(&self, synch: SynchRef, operation: u8, source: Source) -> Option<Wait> {
        match self.start_synch_wait_fast(synch, operation, source) {
            Start::Began(wait) => Some(wait),
            Start::Off => None,
            Start::Slow => {
                let identity = synch.slot(self).identity.load(Relaxed) as usize;
                self.start_wait(synch.class(), WaitObject::new(identity, operation), source)
            }
        }
    }

    /// Whether the calling thread needs no clock for this lock if it turns out to be free: then the host tries to take it, and
    /// says so if it has it ([`Engine::count_free_synch`]). `None`: call [`Engine::start_synch_wait_fast`].
    #[inline(always)]
    pub fn untimed_synch(&self, synch: SynchRef) -> Option<UntimedLock> {
        self.untimed_lock(synch.class())
    }

    /// As [`Engine::is_off`], of its instrument.
    #[inline(always)]
    pub fn is_synch_off(&self, synch: SynchRef) -> bool {
        self.is_off(synch.class())
    }

    /// As [`Engine::is_class_sampled`], of its instrument.
    #[inline(always)]
    pub fn is_synch_sampled(&self, synch: SynchRef) -> bool {
        self.is_class_sampled(synch.class())
    }

    /// As [`Engine::skips_class`], of its instrument.
    #[inline(always)]
    pub fn skips_synch(&self, synch: SynchRef) -> bool {
        self.skips_class(synch.class())
    }

    /// A lock was free that has been counted as a wait all the same, as not all was as usual: where [`Engine::is_weighing`] says so,
    /// it counts for others, too.
    #[cold]
    #[inline(never)]
    pub fn weigh_free_synch(&self, synch: SynchRef) {
        let class = synch.class();
        if let Some(thread) = current().filter(|_| self.is_sampled(self.registry.kind(class), class)) {
            let further = thread.weight_at(NOW) - 1;
            if let Some(cell) = self.cell::<StatCell>(thread, BANK_OWN, class, Family::Waits) {
                cell.stat.add_untimed(further);
            }
            if self.synch_waits_by_instance() {
                synch.slot(self).waits.add_shared(further, None);
            }
        }
    }

    /// The calling thread has got the lock without waiting.
    #[inline(always)]
    pub fn count_free_synch(&self, lock: UntimedLock, synch: SynchRef, operation: u8, source: Source) {
        self.count_free_lock(lock, synch.object(), free_operation(operation), source);
    }

    /// As [`Engine::count_free_synch`], if it is recorded and nests in no other wait. Fast path only; on false call that one.
    #[inline(always)]
    pub fn count_free_synch_fast(
        &self,
        lock: UntimedLock,
        synch: SynchRef,
        operation: u8,
        source: Source,
    ) -> bool {
        self.count_free_lock_fast(lock, synch.object(), free_operation(operation), source)
    }

    /// As [`Engine::start_synch_wait`], if all is as usual. Fast path only; on `Slow` call that one.
    #[inline(always)]
    pub fn start_synch_wait_fast(&self, synch: SynchRef, operation: u8, source: Source) -> Start<Wait> {
        self.start_leaf_wait_fast::<3>(synch.object(), operation, source)
    }

    /// The wait is over, for better or worse.
    #[inline(always)]
    pub fn end_synch_wait(&self, wait: &Wait) {
        if !self.end_synch_wait_fast(wait) {
            self.end_wait(wait, 1, None);
        }
    }

    /// As [`Engine::end_synch_wait`], and counts the wait for the object itself, too. Whoever waits for one object writes to
    /// one place then, so this is for hosts that were asked to.
    pub fn end_counted_synch_wait(&self, synch: SynchRef, wait: &Wait) {
        let taken =
            self.end_leaf_wait_fast(wait, Lowest::Usual, None).or_else(|| self.end_wait(wait, 1, None));
        synch.slot(self).waits.add_shared(1, taken);
    }

    /// As [`Engine::end_synch_wait`], if all is as usual. Fast path only; on false call that one.
    #[inline(always)]
    pub fn end_synch_wait_fast(&self, wait: &Wait) -> bool {
        self.end_leaf_wait_fast(wait, Lowest::Usual, None).is_some()
    }

    /// The lock is the calling thread's, which is `thread`: a mutex, or a rwlock to write or shared-exclusive.
    #[inline(always)]
    pub fn set_synch_owner(&self, synch: SynchRef, thread: ThreadRef) {
        synch.slot(self).owner.store(thread.slab().holder.own(), Relaxed);
    }

    /// The rwlock is the calling thread's, which is `thread`, to read.
    #[inline(always)]
    pub fn add_synch_reader(&self, synch: SynchRef, thread: ThreadRef) {
        if !self.add_synch_reader_fast(synch, thread) {
            self.add_further_reader(&thread.slab().read_locks, synch.object().0);
        }
    }

    /// As [`Engine::add_synch_reader`], if there is room in the slab. Fast path only; on false call that one.
    #[inline(always)]
    pub fn add_synch_reader_fast(&self, synch: SynchRef, thread: ThreadRef) -> bool {
        thread.slab().read_locks.push(synch.object().0)
    }

    #[cold]
    #[inline(never)]
    fn add_further_reader(&self, locks: &ReadLocks, lock: u64) {
        if !locks.push_further(&self.arena, lock) {
            self.losses.count(Lost::ReadLocks);
        }
    }

    /// As [`Engine::add_synch_reader`], but not a second time: the lock may have been upgraded.
    #[cold]
    #[inline(never)]
    pub fn add_synch_reader_once(&self, synch: SynchRef, thread: ThreadRef) {
        let object = synch.object().0;
        if thread.slab().read_locks.objects(&self.arena).all(|held| held != object) {
            self.add_synch_reader(synch, thread);
        }
    }

    /// Whether a mutex, or a rwlock to write, is noted to be some thread's.
    #[inline(always)]
    pub fn has_synch_owner(&self, synch: SynchRef) -> bool {
        synch.slot(self).owner.load(Relaxed) != 0
    }

    /// Whether the calling thread is noted to have locks to read.
    #[inline(always)]
    pub fn has_synchs_to_read(&self) -> bool {
        current().is_some_and(|thread| thread.read_locks.held().is_some())
    }

    /// The mutex is nobody's.
    #[inline(always)]
    pub fn unlock_mutex(&self, synch: SynchRef) {
        if self.wants(Kind::Mutex) {
            synch.slot(self).owner.store(0, Relaxed);
        }
    }

    /// Some lock of it is given back.
    #[inline(always)]
    pub fn unlock_rwlock(&self, synch: SynchRef) {
        if !self.wants(Kind::Rwlock) {
            return;
        }
        let locks = current().map(|thread| &thread.read_locks);
        let Some((locks, held)) = locks.and_then(|locks| Some((locks, locks.held()?))) else {
            synch.slot(self).owner.store(0, Relaxed);
            return;
        };
        cold_path();
        if !locks.pop(held, synch.object().0) {
            self.unlock_earlier(locks, held, synch);
        }
    }

    /// As [`Engine::unlock_rwlock`], where it is not the lock that the thread holds for reading since last.
    #[cold]
    #[inline(never)]
    fn unlock_earlier(&self, locks: &ReadLocks, held: NonZeroU32, synch: SynchRef) {
        if !locks.remove_earlier(&self.arena, held, synch.object().0) {
            synch.slot(self).owner.store(0, Relaxed);
        }
    }
}

/// Locks a thread holds for reading, the latest last. Kept by the thread and not by the lock, which many read at the same
/// time. The first ones are in the slab; the further ones of a thread that ever held more are in a block. How many and the first
/// of them lie on one line.
#[repr(C, align(64))]
pub(crate) struct ReadLocks {
    held: AtomicU32,
    /// The turn ([`crate::setup::wanted`]) since which these are all.
    turn: AtomicU32,
    /// Where the block begins; 0: there is none.
    pub(crate) further: AtomicU32,
    _pad: AtomicU32,
    locks: [AtomicU64; READ_LOCKS],
}

const READ_LOCKS: usize = 24;

impl ReadLocks {
    /// The thread settles at this turn, and forgets what it may not have heard of.
    pub(crate) fn settle(&self, wanted: &Wanted, turn: u32) {
        if !wanted.heard_since(Kind::Rwlock, self.turn.own()) {
            self.held.store(0, Release);
        }
        self.turn.store(turn, Release);
    }

    /// From now on none is noted that was before.
    pub(crate) fn forget(&self) {
        self.held.store(0, Release);
    }

    /// For readers: the turn since which [`ReadLocks::objects`] are all. Asked before them.
    pub(crate) fn turn(&self) -> u32 {
        self.turn.load(Acquire)
    }

    /// False where the slab is full.
    #[inline(always)]
    fn push(&self, lock: u64) -> bool {
        let held = self.held.own() as usize;
        let Some(place) = self.locks.get(held) else { return false };
        place.store(lock, Relaxed);
        self.held.store(held as u32 + 1, Release);
        true
    }

    /// False where the block is full, too, or there is none to be had.
    fn push_further(&self, arena: &Arena, lock: u64) -> bool {
        if self.further.own() == 0 {
            let Some(block) = arena.take(Use::ReadLocks, 0) else { return false };
            self.further.store(block * WORDS as u32, Release);
        }
        let held = self.held.own() as usize;
        let Some(place) = self.place(arena, held) else { return false };
        place.store(lock, Relaxed);
        self.held.store(held as u32 + 1, Release);
        true
    }

    /// How many there are, for the thread itself.
    #[inline(always)]
    fn held(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.held.own())
    }

    /// Removes the latest one. False where it is another, or in the block.
    #[inline(always)]
    fn pop(&self, held: NonZeroU32, lock: u64) -> bool {
        let last = held.get() as usize - 1;
        let is_latest = self.locks.get(last).is_some_and(|latest| latest.own() == lock);
        if is_latest {
            self.held.store(last as u32, Relaxed);
        }
        is_latest
    }

    /// Removes one of several: the latest one takes its place. False where it is not one of them.
    fn remove_earlier(&self, arena: &Arena, held: NonZeroU32, lock: u64) -> bool {
        let last = held.get() as usize - 1;
        let place = |at| self.place(arena, at);
        let mut places = (0..=last).rev().filter_map(place);
        let Some(found) = places.find(|held| held.own() == lock) else { return false };
        found.store(place(last).map_or(0, Own::own), Relaxed);
        self.held.store(last as u32, Relaxed);
        true
    }

    fn place(&self, arena: &Arena, at: usize) -> Option<&AtomicU64> {
        match self.locks.get(at) {
            Some(place) => Some(place),
            // A reader may look at a slab that has become something else meanwhile: what it takes for a place may be anything.
            None => match self.further.load(Acquire) / WORDS as u32 {
                0 => None,
                block if block < arena.high() => arena.words(block).get(at - READ_LOCKS),
                _ => None,
            },
        }
    }

    /// For readers.
    pub(crate) fn objects<'a>(&'a self, arena: &'a Arena) -> impl Iterator<Item = u64> + 'a {
        let held = self.held.load(Acquire) as usize;
        (0..held).map_while(|at| self.place(arena, at)).map(|lock| lock.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(not(miri))]
    use crate::{Registration, memory::arena::BLOCK, snapshot::Properties};

    // Miri keeps every byte that is reserved.
    #[cfg(not(miri))]
    #[test]
    fn a_lock_behind_what_names_reach_is_lost_and_gives_its_slot_back() {
        const REACH: usize = 1 << 30;
        let engine = Engine::of(REACH + (4 << 20));
        let properties = Properties::default();
        let what = Registration { kind: Kind::Mutex, name: "wait/synch/mutex/a", properties };
        let (class, _) = engine.registry.register(what, &engine.losses);
        let make = |times| (0..times).filter(|at| engine.init_synch(class, *at).is_some()).count();
        assert_eq!(make(1), 1);
        engine.arena.skip_to((REACH / BLOCK) as u32);
        // Where the first one is there is room for some more.
        let made = make(2000);
        assert!(made < 64, "{made}");
        let blocks = engine.arena.high();
        assert_eq!(make(2000), 0);
        assert_eq!(engine.arena.high(), blocks);
        let lost = engine.losses.rows().into_iter().find(|row| row.name == "mutex_instances_lost");
        assert_eq!(lost.map(|row| row.lost), Some(4000 - made as u64));
    }

    #[test]
    fn a_reader_of_a_slab_that_has_become_something_else_stays_in_the_arena() {
        let arena = Arena::new();
        arena.map(1 << 20).expect("address space");
        for further in [WORDS as u32, u32::MAX] {
            let locks = ReadLocks {
                held: AtomicU32::new(u32::MAX),
                turn: AtomicU32::new(0),
                further: AtomicU32::new(further),
                _pad: AtomicU32::new(0),
                locks: [const { AtomicU64::new(7) }; READ_LOCKS],
            };
            assert_eq!(locks.objects(&arena).collect::<Vec<_>>(), [7; READ_LOCKS]);
        }
    }
}
