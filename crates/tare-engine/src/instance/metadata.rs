//! HOT PATH: metadata locks.

use std::hint::cold_path;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed};

use crate::Engine;
use crate::memory::lost::Lost;
use crate::memory::pool::{self, Pool, SlotHead};
use crate::memory::text;
use crate::record::statement::NAME_WORDS;
use crate::record::wait::{Source, Wait, WaitObject};
use crate::record::{Start, operation};
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
    fn begin(&'static self, thread: &Thread, identity: usize, source: Source) {
        let slot = &self.slot;
        slot.identity.store(identity as u64, Relaxed);
        slot.source.store(source.0, Relaxed);
        slot.owner_thread.store(thread.thread_id.load(Relaxed), Relaxed);
        slot.owner_event.store(thread.event_id.load(Relaxed), Relaxed);
    }

    /// All the rest of it: readers may see it then.
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

    /// The last of what fills it. Names are neither short nor long, usually: they are copied in a straight line.
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

    /// As [`MetadataHandle::publish`], of names that don't fill a word, or many.
    #[cold]
    #[inline(never)]
    fn publish_unusual(&'static self, names: &[u8]) -> MetadataRef {
        let slot = &self.slot;
        slot.names_len.store(text::write(&slot.names, names) as u16, Relaxed);
        slot.head.publish();
        self
    }
}

/// Bytes of names that are unusually long.
const LONG: usize = 40;

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
const WAITED_FOR: u8 = 1;

/// Metadata locks.
impl Engine {
    /// A metadata lock is asked for. What it is, is asked only where that is wanted.
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

    /// As [`Engine::create_metadata_lock`], in a slot of the thread's own. Fast path only; on `Slow` call that one.
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
        // What is known is written before more is asked for.
        lock.begin(thread, identity, source);
        match what() {
            Some(what) => Start::Began(lock.fill(what)),
            None => {
                stash.push(place);
                Start::Slow
            }
        }
    }

    /// Its LOCK_STATUS changes.
    pub fn set_metadata_lock_status(&self, lock: MetadataRef, status: u8) {
        lock.slot.status.store(status, Relaxed);
    }

    /// It is given up.
    pub fn destroy_metadata_lock(&self, lock: MetadataRef) {
        if !self.destroy_metadata_lock_fast(lock) {
            self.pools.give(&self.arena, Pool::MetadataLocks, lock);
        }
    }

    /// As [`Engine::destroy_metadata_lock`], if no event names it. Fast path only; on false call that one.
    #[inline(always)]
    pub fn destroy_metadata_lock_fast(&self, lock: MetadataRef) -> bool {
        let Some(thread) = current() else { return false };
        lock.slot.head.flags.load(Relaxed) != WAITED_FOR
            && self.pools.give_near(&self.arena, &thread.metadata_stash, &lock.slot.head)
    }

    /// Begins to wait for it.
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
