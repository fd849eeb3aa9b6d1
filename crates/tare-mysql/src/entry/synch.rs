//! HOT PATH: mutexes, rwlocks and condition variables.
//!
//! The server calls only for instruments that are on, because its own code tests that first. What the
//! built-in's tables `mutex_instances`, `rwlock_instances` and `events_waits_summary_by_instance` show is
//! written into its objects, with plain loads and stores as the built-in does: a mutex is held at that time,
//! and of a rwlock and a condition variable the built-in may lose an event, too.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tare_engine::snapshot::ClassId;
use tare_engine::{Source, WaitObject, operation};
use tare_host::process::ENGINE;

use super::kept::{begin_wait, count_untimed, end_wait, keep, keep_untimed, kept};
use crate::abi::{Instance, SynchLocker};
use crate::server::instruments;
use crate::server::thread::{current, settled};

/// The interface's number of the unlocking of a rwlock, which is no wait: the engine's operations have none
/// for it.
const UNLOCK: c_uint = 4;
/// The interface's numbers of operations of rwlocks that leave readers their locks.
const SHARED_EXCLUSIVE: c_uint = 6;
/// See [`SHARED_EXCLUSIVE`].
const TRY_SHARED_EXCLUSIVE: c_uint = 9;

/// Returns the engine's operation of a rwlock.
const fn rwlock_operation(op: c_uint) -> u8 {
    operation::RWLOCK.wrapping_add(op as u8).wrapping_sub((op > UNLOCK) as u8)
}

/// Returns the instrument of an instance.
///
/// # Safety
///
/// The instance is one of the built-in's, which has a class.
#[inline(always)]
unsafe fn instrument(instance: &Instance) -> ClassId {
    // SAFETY: the caller's promise; classes are never removed.
    instruments::of(unsafe { &*instance.class })
}

/// Begins a wait. `ESTIMATED`: level `sampled` skips it in statements that are not chosen.
///
/// # Safety
///
/// The server's: a locker on its stack, and an instance of the built-in's that exists until the wait has
/// ended.
#[inline(always)]
unsafe fn start<const ESTIMATED: bool>(
    locker: *mut SynchLocker,
    instance: *const Instance,
    operation: u8,
    op: c_uint,
    source: Source,
) -> *mut SynchLocker {
    if settled().is_none() {
        return null_mut();
    }
    // SAFETY: the caller's promise.
    let (of, object) = unsafe { (&*instance, instance.cast()) };
    // SAFETY: as above.
    let class = unsafe { instrument(of) };
    if ESTIMATED && ENGINE.skips_class(class) {
        return null_mut();
    }
    // SAFETY: the locker is the caller's, and has this place.
    unsafe { (&raw mut (*locker).operation).write(op) };
    if of.timed.load(Relaxed) == 0 {
        // SAFETY: the caller's promise.
        unsafe { keep_untimed(locker.cast(), object) };
        return locker;
    }
    let what = WaitObject::new(of.identity, operation);
    let Some(wait) = begin_wait(class, what, source) else { return null_mut() };
    // SAFETY: the caller's promise.
    unsafe { keep(locker.cast(), wait, object) };
    locker
}

/// Ends a wait, and returns its object.
///
/// # Safety
///
/// The locker is one that [`start`] has returned, passed back once.
#[inline(always)]
unsafe fn end<'i>(locker: *const SynchLocker) -> &'i Instance {
    // SAFETY: the caller's promise.
    let (kept_in, of) = unsafe { (&(*locker).of, &*(*locker).of.object.cast::<Instance>()) };
    // SAFETY: as above.
    let ticks = match unsafe { kept(kept_in) } {
        Some(wait) => end_wait(&wait),
        None => {
            // SAFETY: as above.
            count_untimed(unsafe { instrument(of) });
            None
        }
    };
    add(&of.waits, ticks);
    of
}

/// Adds a wait to count, sum, minimum and maximum of an instance.
#[inline(always)]
fn add(waits: &[AtomicU64; 4], ticks: Option<u64>) {
    let [count, sum, min, max] = waits;
    let change = |word: &AtomicU64, by: u64| word.store(word.load(Relaxed).wrapping_add(by), Relaxed);
    change(count, 1);
    if let Some(ticks) = ticks {
        change(sum, ticks);
        if ticks < min.load(Relaxed) {
            min.store(ticks, Relaxed);
        }
        if ticks > max.load(Relaxed) {
            max.store(ticks, Relaxed);
        }
    }
}

/// Notes that the calling thread holds a mutex, or a rwlock for writing.
#[inline(always)]
fn own(instance: &Instance) {
    instance.owner.store(current().map_or(null_mut(), |thread| thread.address()), Relaxed);
}

/// Begins a wait for a mutex while all of them are sampled.
pub(crate) unsafe extern "C" fn start_sampled_mutex_wait(
    locker: *mut SynchLocker,
    mutex: *const Instance,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut SynchLocker {
    if ENGINE.skips_at_once() {
        return null_mut();
    }
    // SAFETY: the server's promise.
    unsafe { start_mutex_wait(locker, mutex, op, file, line) }
}

/// Returns whether a wait is passed over at once, where some instruments are off or sampled.
///
/// # Safety
///
/// The instance is one of the built-in's, which has a class.
#[inline(always)]
unsafe fn is_passed_over(instance: *const Instance) -> bool {
    // SAFETY: the caller's promise; classes are never removed.
    let class = instruments::known(unsafe { &*(*instance).class });
    class != 0 && (ENGINE.is_off(class) || ENGINE.is_class_sampled(class) && ENGINE.skips_at_once())
}

/// Begins a wait for a mutex while some of them are off or sampled.
pub(crate) unsafe extern "C" fn filter_mutex_wait(
    locker: *mut SynchLocker,
    mutex: *const Instance,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut SynchLocker {
    // SAFETY: the server's promise.
    unsafe {
        if is_passed_over(mutex) { null_mut() } else { start_mutex_wait(locker, mutex, op, file, line) }
    }
}

// Apart, so that those that are skipped need no registers but the caller's.
#[inline(never)]
pub(crate) unsafe extern "C" fn start_mutex_wait(
    locker: *mut SynchLocker,
    mutex: *const Instance,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut SynchLocker {
    let operation = operation::MUTEX.wrapping_add(op as u8);
    // SAFETY: the server's promise.
    unsafe { start::<true>(locker, mutex, operation, op, Source::new(file, line)) }
}

pub(crate) unsafe extern "C" fn end_mutex_wait(locker: *const SynchLocker, rc: c_int) {
    // SAFETY: the server's promise.
    let mutex = unsafe { end(locker) };
    if rc == 0 {
        own(mutex);
    }
}

/// Begins any wait for a rwlock while all of them are sampled.
pub(crate) unsafe extern "C" fn start_sampled_rwlock_wait(
    locker: *mut SynchLocker,
    rwlock: *const Instance,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut SynchLocker {
    if ENGINE.skips_at_once() {
        return null_mut();
    }
    // SAFETY: the server's promise.
    unsafe { start_rwlock_wait(locker, rwlock, op, file, line) }
}

/// Begins any wait for a rwlock while some of them are off or sampled.
pub(crate) unsafe extern "C" fn filter_rwlock_wait(
    locker: *mut SynchLocker,
    rwlock: *const Instance,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut SynchLocker {
    // SAFETY: the server's promise.
    unsafe {
        if is_passed_over(rwlock) { null_mut() } else { start_rwlock_wait(locker, rwlock, op, file, line) }
    }
}

/// Begins any wait for a rwlock: both of the interface's functions lead to one of the built-in's.
#[inline(never)]
pub(crate) unsafe extern "C" fn start_rwlock_wait(
    locker: *mut SynchLocker,
    rwlock: *const Instance,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut SynchLocker {
    // SAFETY: the server's promise.
    unsafe { start::<true>(locker, rwlock, rwlock_operation(op), op, Source::new(file, line)) }
}

pub(crate) unsafe extern "C" fn end_rwlock_rdwait(locker: *const SynchLocker, rc: c_int) {
    // SAFETY: the server's promise.
    let rwlock = unsafe { end(locker) };
    if rc == 0 {
        rwlock.readers.store(rwlock.readers.load(Relaxed).wrapping_add(1), Relaxed);
        rwlock.owner.store(null_mut(), Relaxed);
    }
}

pub(crate) unsafe extern "C" fn end_rwlock_wrwait(locker: *const SynchLocker, rc: c_int) {
    // SAFETY: the server's promise.
    let (rwlock, op) = unsafe { (end(locker), (*locker).operation) };
    if rc == 0 {
        own(rwlock);
        if !matches!(op, SHARED_EXCLUSIVE | TRY_SHARED_EXCLUSIVE) {
            rwlock.readers.store(0, Relaxed);
        }
    }
}

pub(crate) unsafe extern "C" fn start_cond_wait(
    locker: *mut SynchLocker,
    cond: *const Instance,
    _mutex: *const Instance,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut SynchLocker {
    // SAFETY: the server's promise.
    unsafe {
        start::<false>(locker, cond, operation::COND.wrapping_add(op as u8), op, Source::new(file, line))
    }
}

pub(crate) unsafe extern "C" fn end_cond_wait(locker: *const SynchLocker, _rc: c_int) {
    // SAFETY: the server's promise.
    unsafe { end(locker) };
    ENGINE.has_waited();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_rwlocks_leave_out_the_unlocking() {
        let [read, try_write, shared, try_exclusive] = [0, 3, 5, 10].map(rwlock_operation);
        let first = operation::RWLOCK;
        assert_eq!([read, try_write, shared, try_exclusive], [first, first + 3, first + 4, first + 9]);
        assert!(try_exclusive < operation::COND);
    }
}
