//! HOT PATH: metadata locks.

use std::hint::cold_path;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed};

use crate::Engine;
use crate::layout::statement::NAME_WORDS;
use crate::memory::lost::Lost;
use crate::memory::pool::{self, Pool, SlotHead};
use crate::memory::text;
use crate::record::wait::{Source, Wait, WaitObject};
use crate::record::{Start, operation};
use crate::setup::instrument::fixed;
use crate::thread::{Thread, current};

use crate::layout::reference::reference;

/// A metadata lock that is granted or waited for.
#[repr(C)]
pub(crate) struct MetadataSlot {
    pub(crate) head: SlotHead,
    pub(crate) identity: AtomicU64,
    pub(crate) owner_thread: AtomicU64,
    pub(crate) owner_event: AtomicU64,
    pub(crate) source: AtomicU64,
    pub(crate) namespace: AtomicU8,
    pub(crate) lock_type: AtomicU8,
    pub(crate) duration: AtomicU8,
    pub(crate) status: AtomicU8,
    pub(crate) schema_len: AtomicU16,
    pub(crate) names_len: AtomicU16,
    /// Schema and name, in the layout of [`MetadataName::names`].
    pub(crate) names: [AtomicU64; 2 * NAME_WORDS + 1],
}

reference! {
    /// Reference to a metadata lock.
    MetadataRef, MetadataHandle, MetadataSlot
}

impl MetadataHandle {
    /// Initialises a slot just taken with identity, source and owner of the lock.
    #[inline(always)]
    fn begin(&'static self, thread: &Thread, identity: usize, source: Source) {
        let slot = &self.slot;
        slot.identity.store(identity as u64, Relaxed);
        slot.source.store(source.0, Relaxed);
        slot.owner_thread.store(thread.thread_id.load(Relaxed), Relaxed);
        slot.owner_event.store(thread.event_id.load(Relaxed), Relaxed);
    }

    /// Fills in the rest of the slot and publishes it to readers.
    #[inline(always)]
    fn fill(&'static self, what: MetadataName<'_>) -> MetadataRef {
        let slot = &self.slot;
        slot.namespace.store(what.namespace, Relaxed);
        slot.lock_type.store(what.lock_type, Relaxed);
        slot.duration.store(what.duration, Relaxed);
        slot.status.store(what.status, Relaxed);
        slot.schema_len.store(what.schema_len, Relaxed);
        self.publish(what.names)
    }

    /// Stores the names and publishes the slot. Most names have 8 to 39 bytes and are copied without a loop
    /// over bytes.
    #[inline(always)]
    fn publish(&'static self, names: &[u8]) -> MetadataRef {
        let slot = &self.slot;
        let len = names.len();
        if len >= LONG {
            return self.publish_unusual(names);
        }
        let Some(last) = names.last_chunk() else { return self.publish_unusual(names) };
        let (chunks, _) = names.as_chunks();
        for at in 0..LONG / 8 - 1 {
            let Some(chunk) = chunks.get(at) else { break };
            slot.names[at].store(u64::from_le_bytes(*chunk), Relaxed);
        }
        slot.names[len / 8].store(text::rest_of(*last, len), Relaxed);
        slot.names_len.store(len as u16, Relaxed);
        slot.head.publish();
        self
    }

    /// Stores names that are shorter or longer than that and publishes the slot.
    #[cold]
    #[inline(never)]
    fn publish_unusual(&'static self, names: &[u8]) -> MetadataRef {
        let slot = &self.slot;
        slot.names_len.store(text::write(&slot.names, names) as u16, Relaxed);
        slot.head.publish();
        self
    }
}

/// Bytes from which on names are copied out of line.
const LONG: usize = 40;

/// The host's description of a metadata lock.
#[derive(Clone, Copy, Debug)]
pub struct MetadataName<'a> {
    /// OBJECT_TYPE, in the host's numbering of namespaces.
    pub namespace: u8,
    /// OBJECT_SCHEMA, one byte of any value, OBJECT_NAME. This is the host's layout, so one copy is enough.
    /// An empty or missing part is NULL.
    pub names: &'a [u8],
    /// Bytes of OBJECT_SCHEMA.
    pub schema_len: u16,
    /// LOCK_TYPE, LOCK_DURATION and LOCK_STATUS, in the host's numbering.
    pub lock_type: u8,
    #[allow(missing_docs)]
    pub duration: u8,
    #[allow(missing_docs)]
    pub status: u8,
}

/// Slot flag: an event refers to this lock, so its slot is not reused as soon as others after destruction.
const WAITED_FOR: u8 = 1;

impl Engine {
    /// Gives back the metadata locks that an ended thread has stashed.
    pub(crate) fn give_metadata_stash(&self, thread: &Thread) {
        self.pools.empty::<MetadataSlot>(&self.arena, Pool::MetadataLocks, &thread.metadata_stash);
    }

    /// Creates a metadata lock that the calling thread requests. Calls `what` only if metadata locks are
    /// instrumented. `None`: they are not, or there is no memory.
    #[inline]
    pub fn create_metadata_lock<'a>(
        &self,
        identity: usize,
        what: impl Fn() -> Option<MetadataName<'a>>,
        source: Source,
    ) -> Option<MetadataRef> {
        match self.create_metadata_lock_fast(identity, &what, source) {
            Start::Began(lock) => return Some(lock),
            Start::Off => return None,
            Start::Slow => {}
        }
        let (what, thread) = (what()?, current()?);
        match self.pools.take::<MetadataHandle>(&self.arena, Pool::MetadataLocks, 0) {
            Some(lock) => {
                lock.begin(thread, identity, source);
                Some(lock.fill(what))
            }
            None => {
                self.losses.count(Lost::MetadataLocks);
                None
            }
        }
    }

    /// Creates a metadata lock in a slot from the thread's stash. Fast path only; on `Slow` call
    /// [`Engine::create_metadata_lock`].
    #[inline(always)]
    pub fn create_metadata_lock_fast<'a>(
        &self,
        identity: usize,
        what: impl FnOnce() -> Option<MetadataName<'a>>,
        source: Source,
    ) -> Start<MetadataRef> {
        if self.is_off(fixed::METADATA) {
            cold_path();
            return Start::Off;
        }
        let Some(thread) = current() else { return Start::Slow };
        let (stash, base) = (&thread.metadata_stash, self.arena.base());
        let Some(place) = self.pools.take_near(base, stash) else { return Start::Slow };
        let lock: MetadataRef = base.at(place);
        // Write what is known before calling the host.
        lock.begin(thread, identity, source);
        match what() {
            Some(what) => Start::Began(lock.fill(what)),
            None => {
                stash.push(place);
                Start::Slow
            }
        }
    }

    /// Sets LOCK_STATUS.
    pub fn set_metadata_lock_status(&self, lock: MetadataRef, status: u8) {
        lock.slot.status.store(status, Relaxed);
    }

    /// Destroys a metadata lock.
    pub fn destroy_metadata_lock(&self, lock: MetadataRef) {
        if !self.destroy_metadata_lock_fast(lock) {
            self.pools.give(&self.arena, Pool::MetadataLocks, lock);
        }
    }

    /// Destroys a metadata lock to which no event refers. Fast path only; on false call
    /// [`Engine::destroy_metadata_lock`].
    #[inline(always)]
    pub fn destroy_metadata_lock_fast(&self, lock: MetadataRef) -> bool {
        let Some(thread) = current() else { return false };
        lock.slot.head.flags.load(Relaxed) != WAITED_FOR
            && self.pools.give_near(&self.arena, &thread.metadata_stash, &lock.slot.head)
    }

    /// Begins to wait for a metadata lock.
    pub fn start_metadata_wait(&self, lock: MetadataRef, source: Source) -> Option<Wait> {
        lock.slot.head.flags.store(WAITED_FOR, Relaxed);
        lock.slot.head.rename(self.arena.offset_of(lock));
        let object = WaitObject {
            address: lock.slot.identity.load(Relaxed) as usize,
            name: pool::name(&lock.slot.head),
            index: 255,
            operation: operation::METADATA,
        };
        self.start_wait(fixed::METADATA, object, source)
    }
}
