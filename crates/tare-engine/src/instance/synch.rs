//! HOT PATH: mutexes, rwlocks and conds, and which rwlocks a thread holds for reading.

use std::hint::cold_path;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::Engine;
use crate::histogram::Lowest;
use crate::layout::cell::{Counts, StatCell, SummaryFamily};
use crate::layout::read_locks::ReadLocks;
use crate::layout::wait::free_operation;
use crate::memory::arena::Own;
use crate::memory::lost::Lost;
use crate::memory::pool::{Pool, SlotHead};
use crate::record::Start;
use crate::record::wait::{Source, UntimedLock, Wait, WaitObject};
use crate::snapshot::{ClassId, Kind};
use crate::thread::choice::NOW;
use crate::thread::{BANK_OWN, ThreadRef, current};

use crate::layout::reference::named;

/// A mutex, rwlock, sxlock or cond.
#[repr(C)]
pub(crate) struct Synch {
    pub(crate) head: SlotHead,
    /// OBJECT_INSTANCE_BEGIN.
    pub(crate) identity: AtomicU64,
    /// Keeps words that change on a line of their own. Whoever begins to wait reads the line above, which
    /// then stays in every processor's cache.
    _pad: [AtomicU64; 5],
    /// The owner or writer, in the form of [`holder`](crate::thread::Thread::holder); 0: none.
    pub(crate) owner: AtomicU64,
    /// Waits for this object, if they are counted by object.
    pub(crate) waits: Counts,
}

named! {
    /// Reference to a synchronisation object. Using it rarely reads the slot: most slots have left every
    /// cache.
    SynchRef, Synch
}

/// Bit of a reference made by [`SynchRef::taken_by_trying`].
const TAKEN_BY_TRYING: u64 = 1;

impl SynchRef {
    /// Returns a reference for a host that reports a try only after it got the lock.
    pub fn taken_by_trying(self) -> SynchRef {
        SynchRef(self.0 | TAKEN_BY_TRYING)
    }

    /// Returns whether the reference came from [`SynchRef::taken_by_trying`].
    #[inline(always)]
    pub fn is_taken_by_trying(self) -> bool {
        self.0.get() & TAKEN_BY_TRYING != 0
    }

    #[inline(always)]
    fn class(self) -> ClassId {
        self.object().class()
    }
}

impl Engine {
    /// Creates a synchronisation object. `None`: its instrument is unknown, or there is no memory.
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

    /// Destroys a synchronisation object.
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

    /// Begins to wait for a synchronisation object. `operation` counts from the first of its family.
    #[inline(always)]
    pub fn start_synch_wait(&self, synch: SynchRef, operation: u8, source: Source) -> Option<Wait> {
        match self.start_synch_wait_fast(synch, operation, source) {
            Start::Began(wait) => Some(wait),
            Start::Off => None,
            Start::Slow => {
                let identity = synch.slot(self).identity.load(Relaxed) as usize;
                let object =
                    WaitObject { name: synch.object().name(), ..WaitObject::new(identity, operation) };
                self.start_wait(synch.class(), object, source)
            }
        }
    }

    /// Returns how to count this lock without a clock if it is uncontended. The host then tries to take it
    /// and calls [`Engine::count_free_synch`] on success. `None`: call [`Engine::start_synch_wait_fast`].
    #[inline(always)]
    pub fn untimed_synch(&self, synch: SynchRef) -> Option<UntimedLock> {
        self.untimed_lock(synch.class())
    }

    /// Returns whether the object's instrument is off.
    #[inline(always)]
    pub fn is_synch_off(&self, synch: SynchRef) -> bool {
        self.is_off(synch.class())
    }

    /// Returns whether the level of the object's instrument is the sampling one.
    #[inline(always)]
    pub fn is_synch_sampled(&self, synch: SynchRef) -> bool {
        self.is_class_sampled(synch.class())
    }

    /// Returns whether to skip an operation on the object in the calling thread.
    #[inline(always)]
    pub fn skips_synch(&self, synch: SynchRef) -> bool {
        self.skips_class(synch.class())
    }

    /// Adds the weight of an uncontended lock that has been counted as one wait, off the fast path. Call it
    /// where
    /// [`Engine::is_weighing`] says so.
    #[cold]
    #[inline(never)]
    pub fn weigh_free_synch(&self, synch: SynchRef) {
        let class = synch.class();
        if let Some(thread) = current().filter(|_| self.is_sampled(self.registry.kind(class), class)) {
            let further = thread.weight_at(NOW) - 1;
            if let Some(cell) = self.cell::<StatCell>(thread, BANK_OWN, class, SummaryFamily::Waits) {
                cell.stat.add_untimed(further);
            }
            if self.synch_waits_by_instance() {
                synch.slot(self).waits.add_shared(further, None);
            }
        }
    }

    /// Counts a lock that the calling thread got without waiting.
    #[inline(always)]
    pub fn count_free_synch(&self, lock: UntimedLock, synch: SynchRef, operation: u8, source: Source) {
        self.count_free_lock(lock, synch.object(), free_operation(operation), source);
    }

    /// Counts an uncontended lock on the fast path: if it nests in no other wait or is not recorded. Returns
    /// false if nothing has happened; then call [`Engine::count_free_synch`].
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

    /// Begins to wait for a synchronisation object. Fast path only; on `Slow` call
    /// [`Engine::start_synch_wait`].
    #[inline(always)]
    pub fn start_synch_wait_fast(&self, synch: SynchRef, operation: u8, source: Source) -> Start<Wait> {
        self.start_leaf_wait_fast::<3>(synch.object(), operation, source)
    }

    /// Ends a wait, whether or not it got the lock.
    #[inline(always)]
    pub fn end_synch_wait(&self, wait: &Wait) {
        if !self.end_synch_wait_fast(wait) {
            self.end_wait(wait, 1, None);
        }
    }

    /// Ends a wait and counts it for the object itself, too. All waits for one object then write to one
    /// place, so only hosts that were configured to do so call this.
    pub fn end_counted_synch_wait(&self, synch: SynchRef, wait: &Wait) {
        let taken =
            self.end_leaf_wait_fast(wait, Lowest::Usual, None).or_else(|| self.end_wait(wait, 1, None));
        synch.slot(self).waits.add_shared(1, taken);
    }

    /// Ends a wait. Fast path only; on false call [`Engine::end_synch_wait`].
    #[inline(always)]
    pub fn end_synch_wait_fast(&self, wait: &Wait) -> bool {
        self.end_leaf_wait_fast(wait, Lowest::Usual, None).is_some()
    }

    /// Makes `thread`, which is the calling thread, the owner of a mutex or of a rwlock taken for writing or
    /// shared-exclusive.
    #[inline(always)]
    pub fn set_synch_owner(&self, synch: SynchRef, thread: ThreadRef) {
        synch.slot(self).owner.store(thread.slab().holder.own(), Relaxed);
    }

    /// Adds a rwlock to those that `thread`, which is the calling thread, holds for reading.
    #[inline(always)]
    pub fn add_synch_reader(&self, synch: SynchRef, thread: ThreadRef) {
        if !self.add_synch_reader_fast(synch, thread) {
            self.add_further_reader(&thread.slab().read_locks, synch.object().0);
        }
    }

    /// Adds a rwlock held for reading if there is room in the slab. Fast path only; on false call
    /// [`Engine::add_synch_reader`].
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

    /// Adds a rwlock held for reading unless it is there already: the lock may have been upgraded.
    #[cold]
    #[inline(never)]
    pub fn add_synch_reader_once(&self, synch: SynchRef, thread: ThreadRef) {
        let object = synch.object().0;
        if thread.slab().read_locks.objects(&self.arena).all(|held| held != object) {
            self.add_synch_reader(synch, thread);
        }
    }

    /// Returns whether a mutex, or a rwlock taken for writing, has an owner on record.
    #[inline(always)]
    pub fn has_synch_owner(&self, synch: SynchRef) -> bool {
        synch.slot(self).owner.load(Relaxed) != 0
    }

    /// Returns whether the calling thread has read locks on record.
    #[inline(always)]
    pub fn has_synchs_to_read(&self) -> bool {
        current().is_some_and(|thread| thread.read_locks.held().is_some())
    }

    /// Removes the owner of a mutex.
    #[inline(always)]
    pub fn unlock_mutex(&self, synch: SynchRef) {
        if self.has_demand(Kind::Mutex) {
            synch.slot(self).owner.store(0, Relaxed);
        }
    }

    /// Removes one holder of a rwlock: the calling thread's read lock if it has one on record, else the
    /// writer.
    #[inline(always)]
    pub fn unlock_rwlock(&self, synch: SynchRef) {
        if !self.has_demand(Kind::Rwlock) {
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

    /// Removes a read lock that is not the thread's latest one, else the writer.
    #[cold]
    #[inline(never)]
    fn unlock_earlier(&self, locks: &ReadLocks, held: NonZeroU32, synch: SynchRef) {
        if !locks.remove_earlier(&self.arena, held, synch.object().0) {
            synch.slot(self).owner.store(0, Relaxed);
        }
    }
}

// Miri backs every reserved byte with memory.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::{Registration, memory::arena::BLOCK, snapshot::Properties};

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
        // The block of the first one has room for some more.
        let made = make(2000);
        assert!(made < 64, "{made}");
        let blocks = engine.arena.high();
        assert_eq!(make(2000), 0);
        assert_eq!(engine.arena.high(), blocks);
        let lost = engine.losses.rows().into_iter().find(|row| row.name == "mutex_instances_lost");
        assert_eq!(lost.map(|row| row.lost), Some(4000 - made as u64));
    }
}
