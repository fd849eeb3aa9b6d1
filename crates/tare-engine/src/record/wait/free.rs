//! HOT PATH: locks that were free: counted and recorded without a clock.

use std::hint::cold_path;
use std::sync::atomic::Ordering::Relaxed;

use super::record::{Free, write_free};
use super::{Source, began, nesting};
use crate::Engine;
use crate::clock::cycles;
use crate::count::bank::{READY, SUMMED, UNTIMED, place};
use crate::count::cell::StatCell;
use crate::memory::arena::{Base, Own};
use crate::memory::pool::Object;
use crate::snapshot::ClassId;
use crate::thread::{BANK_OWN, Thread, ThreadRef, current};

/// A lock of the calling thread's that needs no clock if it is free. Hosts pass it to functions of their calling convention.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UntimedLock {
    thread: &'static Thread,
    entry: u32,
}

impl UntimedLock {
    /// The calling thread.
    #[inline(always)]
    pub fn thread(self) -> ThreadRef {
        self.thread.handle()
    }
}

impl Engine {
    /// Whether locks of this instance that are free need no clock. `None`: they do, or not all is as usual.
    #[inline(always)]
    pub(crate) fn untimed_lock(&self, class: ClassId) -> Option<UntimedLock> {
        let thread = current()?;
        if !self.is_settled(thread) {
            return None;
        }
        let entry = thread.banks[BANK_OWN].settled_entry(self.arena.base(), class);
        (entry & UNTIMED != 0).then_some(UntimedLock { thread, entry })
    }

    /// As [`Engine::count_free_lock`], if it nests in no other wait or is not recorded. Fast path only; on false call that one.
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

    /// Counts a lock that the calling thread has got without waiting, and records it where that is wanted. One function for
    /// mutexes and rwlocks, so that its code is at hand more often. `operation` is as `free_operation` makes it.
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

    /// Counts one that is not recorded.
    #[inline(always)]
    fn count_unrecorded(&self, thread: &Thread, entry: u32, class: ClassId) {
        let cell: &StatCell = self.arena.at(place(entry));
        if entry & SUMMED == 0 {
            cell.stat.add_untimed(1);
        } else {
            self.count_free_in(thread, cell, class);
        }
    }

    /// As [`write_nested_free_lock`], where the journal is not ready for it.
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

/// As [`write_free_lock`], of one that may nest in another wait.
#[inline(always)]
fn write_nested_free_lock(base: Base, thread: &Thread, of: Object, operation: u64, source: Source) -> bool {
    let (parent, began) = nesting(thread);
    write_free_lock(base, thread, of, operation, source, parent, || began.own())
}

/// Writes the record of a lock that was free, and takes the next event id; false: the journal is not ready. `parent` is what it
/// nests in, and `began` when that began.
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
        Free { id, usual, operation, source: source.0, object: of.0 }
    };
    let written = write_free(&thread.waits, base, parent, began, free);
    if written {
        thread.next_event_id();
    }
    written
}
