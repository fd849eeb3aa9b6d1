//! HOT PATH: uncontended locks: counted and recorded without reading the clock.

use std::hint::cold_path;
use std::sync::atomic::Ordering::Relaxed;

use super::{Source, began, nesting};
use crate::Engine;
use crate::clock::cycles;
use crate::layout::bank::{READY, SUMMED, UNTIMED, place};
use crate::layout::cell::StatCell;
use crate::layout::wait::{UncontendedLock, write_free};
use crate::memory::arena::{Base, Own};
use crate::memory::pool::Object;
use crate::snapshot::ClassId;
use crate::thread::{BANK_OWN, Thread, ThreadRef, current};

/// A lock of the calling thread that needs no clock if it is uncontended. Hosts pass it to functions of their
/// own calling convention.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UntimedLock {
    thread: &'static Thread,
    entry: u32,
}

impl UntimedLock {
    /// Returns the calling thread.
    #[inline(always)]
    pub fn thread(self) -> ThreadRef {
        self.thread.handle()
    }
}

impl Engine {
    /// Returns the lock if uncontended locks of this instrument need no clock. `None`: they do, or the fast
    /// path does not apply.
    #[inline(always)]
    pub(crate) fn untimed_lock(&self, class: ClassId) -> Option<UntimedLock> {
        let thread = current()?;
        if !self.is_settled(thread) {
            return None;
        }
        let entry = thread.banks[BANK_OWN].settled_entry(self.arena.base(), class);
        (entry & UNTIMED != 0).then_some(UntimedLock { thread, entry })
    }

    /// Counts an uncontended lock on the fast path, if it nests in no other wait or is not recorded. Returns
    /// false if nothing has happened: call [`Engine::count_free_lock`].
    #[inline(always)]
    pub(crate) fn count_free_lock_fast(
        &self,
        lock: UntimedLock,
        of: Object,
        operation: u64,
        source: Source,
    ) -> bool {
        let UntimedLock { thread, entry } = lock;
        if entry & READY == 0 {
            cold_path();
            self.count_unrecorded(thread, entry, of.class());
            return true;
        }
        if thread.wait_depth.own() != 0 {
            return false;
        }
        let (base, parent) = (self.arena.base(), thread.parent.own());
        let written =
            write_free_lock(base, thread, of, operation, source, parent, || began(thread, parent).own());
        if written {
            self.count_free_in(thread, base.at(place(entry)), of.class());
        }
        written
    }

    /// Counts an uncontended lock that the calling thread has acquired, and records it if that is wanted. One
    /// function for mutexes and rwlocks, so that its code is more often in the cache. `operation` is encoded
    /// by `free_operation`.
    #[inline(never)]
    pub(crate) fn count_free_lock(&self, lock: UntimedLock, of: Object, operation: u64, source: Source) {
        let UntimedLock { thread, entry } = lock;
        let base = self.arena.base();
        if entry & READY == 0 {
            cold_path();
            return self.count_unrecorded(thread, entry, of.class());
        }
        self.count_free_in(thread, base.at(place(entry)), of.class());
        if !write_nested_free_lock(base, thread, of, operation, source) {
            self.write_unready_free(lock, of, operation, source);
        }
    }

    /// Counts an uncontended lock that is not recorded.
    #[inline(always)]
    fn count_unrecorded(&self, thread: &Thread, entry: u32, class: ClassId) {
        let cell: &StatCell = self.arena.at(place(entry));
        if entry & SUMMED == 0 {
            cell.stat.add_untimed(1);
        } else {
            self.count_free_in(thread, cell, class);
        }
    }

    /// Writes the record of an uncontended lock after preparing the journal.
    #[cold]
    #[inline(never)]
    fn write_unready_free(&self, lock: UntimedLock, of: Object, operation: u64, source: Source) {
        let thread = lock.thread;
        let id = thread.event_id.own();
        let ready = self.prepare_waits(thread, (id, cycles()));
        if !ready || !write_nested_free_lock(self.arena.base(), thread, of, operation, source) {
            thread.event_id.store(id + 1, Relaxed);
        }
    }
}

/// Writes the record of an uncontended lock that may nest in another wait.
#[inline(always)]
fn write_nested_free_lock(base: Base, thread: &Thread, of: Object, operation: u64, source: Source) -> bool {
    let (parent, began) = nesting(thread);
    write_free_lock(base, thread, of, operation, source, parent, || began.own())
}

/// Writes the record of an uncontended lock and takes the next event id. Returns false if the journal is not
/// ready. `parent` is the event it nests in, and `began` returns when that began.
#[inline(always)]
fn write_free_lock(
    base: Base,
    thread: &Thread,
    of: Object,
    operation: u64,
    source: Source,
    parent: u64,
    began: impl FnOnce() -> u64,
) -> bool {
    let free = || {
        let (id, usual) = (thread.event_id.own(), thread.usual_waits.own());
        UncontendedLock { id, usual, operation, source: source.0, object: of.0 }
    };
    let written = write_free(&thread.waits, base, parent, began, free);
    if written {
        thread.next_event_id();
    }
    written
}
