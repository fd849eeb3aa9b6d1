//! HOT PATH: metadata locks.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed};

use crate::Engine;
use crate::memory::lost::Lost;
use crate::memory::pool::{self, Pool, SlotHead};
use crate::memory::text;
use crate::record::operation;
use crate::record::statement::NAME_WORDS;
use crate::record::wait::{Source, Wait, WaitObject};
use crate::setup::instrument::fixed;
use crate::thread::{Thread, current};

use super::reference;

/// A metadata lock granted or waited for.
#[repr(C)]
pub(crate) struct MetadataLock {
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
    /// Schema and name, as [`MetadataName::names`] has them.
    pub(crate) names: [AtomicU64; 2 * NAME_WORDS + 1],
}

reference! {
    /// A metadata lock.
    MetadataRef, MetadataHandle, MetadataLock
}

impl MetadataHandle {
    /// A slot just taken becomes a lock that the thread asks for.
    #[inline(always)]
    fn fill(
        &'static self,
        thread: &Thread,
        identity: usize,
        what: &MetadataName<'_>,
        source: Source,
    ) -> MetadataRef {
        let slot = &self.slot;
        slot.identity.store(identity as u64, Relaxed);
        slot.owner_thread.store(thread.thread_id.load(Relaxed), Relaxed);
        slot.owner_event.store(thread.event_id.load(Relaxed), Relaxed);
        slot.source.store(source.0, Relaxed);
        slot.namespace.store(what.namespace, Relaxed);
        slot.lock_type.store(what.lock_type, Relaxed);
        slot.duration.store(what.duration, Relaxed);
        slot.status.store(what.status, Relaxed);
        slot.schema_len.store(what.schema_len, Relaxed);
        self.publish(what.names)
    }

    /// The last of what fills it: its names are written, and readers may see it. Returns it: so whoever calls may go on here by a
    /// jump.
    #[inline(never)]
    fn publish(&'static self, names: &[u8]) -> MetadataRef {
        let slot = &self.slot;
        slot.names_len.store(text::write(&slot.names, names) as u16, Relaxed);
        slot.head.publish();
        self
    }
}

/// What the host says of a metadata lock.
#[derive(Clone, Copy, Debug)]
pub struct MetadataName<'a> {
    /// OBJECT_TYPE, as the host numbers namespaces.
    pub namespace: u8,
    /// OBJECT_SCHEMA, a byte of any value, OBJECT_NAME: as hosts have them, so that they are copied at once. A part that is
    /// empty or missing is NULL.
    pub names: &'a [u8],
    /// Bytes of OBJECT_SCHEMA.
    pub schema_len: u16,
    /// LOCK_TYPE, LOCK_DURATION, LOCK_STATUS, as the host numbers them.
    pub lock_type: u8,
    #[allow(missing_docs)]
    pub duration: u8,
    #[allow(missing_docs)]
    pub status: u8,
}

/// An event names the metadata lock: its slot rests longer than others, whom nothing refers to once they are given up.
const WAITED_FOR: u32 = 1;

/// Metadata locks.
impl Engine {
    /// A metadata lock is asked for. What it is, is asked only where that is wanted.
    #[inline(always)]
    pub fn create_metadata_lock<'a>(
        &self,
        identity: usize,
        what: impl FnOnce() -> Option<MetadataName<'a>>,
        source: Source,
    ) -> Option<MetadataRef> {
        if self.is_off(fixed::METADATA) {
            return None;
        }
        let what = what()?;
        let thread = current()?;
        match self.pools.take_near(&self.arena, &thread.metadata_stash) {
            Some(lock) => {
                let lock: MetadataRef = self.arena.at(lock);
                Some(lock.fill(thread, identity, &what, source))
            }
            None => {
                // A copy, so that what is usual need not be in memory.
                let what = MetadataName { ..what };
                self.create_far_metadata_lock(thread, identity, &what, source)
            }
        }
    }

    /// As [`Engine::create_metadata_lock`], in a slot that is not of the thread's own.
    #[cold]
    #[inline(never)]
    fn create_far_metadata_lock(
        &self,
        thread: &Thread,
        identity: usize,
        what: &MetadataName<'_>,
        source: Source,
    ) -> Option<MetadataRef> {
        match self.pools.take::<MetadataHandle>(&self.arena, Pool::MetadataLocks, 0) {
            Some(lock) => Some(lock.fill(thread, identity, what, source)),
            None => {
                self.losses.count(Lost::MetadataLocks);
                None
            }
        }
    }

    /// Its LOCK_STATUS changes.
    pub fn set_metadata_lock_status(&self, lock: MetadataRef, status: u8) {
        lock.slot.status.store(status, Relaxed);
    }

    /// It is given up.
    pub fn destroy_metadata_lock(&self, lock: MetadataRef) {
        match current() {
            Some(thread) if lock.slot.head.flags.load(Relaxed) != WAITED_FOR => {
                self.pools.give_near(&self.arena, Pool::MetadataLocks, &thread.metadata_stash, lock);
            }
            _ => self.pools.give(&self.arena, Pool::MetadataLocks, lock),
        }
    }

    /// Begins to wait for it.
    pub fn start_metadata_wait(&self, lock: MetadataRef, source: Source) -> Option<Wait> {
        lock.slot.head.flags.store(WAITED_FOR, Relaxed);
        let object = WaitObject {
            address: lock.slot.identity.load(Relaxed) as usize,
            name: pool::name(&lock.slot.head),
            index: 255,
            operation: operation::METADATA,
        };
        self.start_wait(fixed::METADATA, object, source)
    }
}
