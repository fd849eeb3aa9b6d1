//! HOT PATH: mutexes, rwlocks and condition variables. `end_*` runs while the lock is held, so it does
//! nothing twice.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::hint::cold_path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tare_engine::snapshot::Kind;
use tare_engine::{Source, Start, SynchRef, ThreadHandle, ThreadRef, UntimedLock, operation};
use tare_host::process::ENGINE;
use tare_host::process::guard;

use super::pointer::{instance, keep, kept, state};
use crate::abi::types::{
    Cond, CondLocker, CondLockerState, Mutex, MutexLocker, MutexLockerState, Rwlock, RwlockLocker,
    RwlockLockerState,
};

/// Whether mutexes and rwlocks whose instruments are off at their creation get no instance. The server
/// reports nothing about those.
static ARE_LEFT: AtomicBool = AtomicBool::new(false);

/// Leaves locks that are off to the server for good.
pub(crate) fn leave_off() {
    ARE_LEFT.store(true, Relaxed);
}

/// Returns whether locks that are off are left to the server.
pub(crate) fn are_left() -> bool {
    ARE_LEFT.load(Relaxed)
}

/// Creates the instance of a lock, or none if the lock is left to the server.
fn init_lock<T>(key: c_uint, identity: *mut c_void) -> *mut T {
    if are_left() && ENGINE.is_off(key as u16) { null_mut() } else { init(key, identity) }
}

/// Creates an instance of a class; the identity is the address of the server's own object.
fn init<T>(key: c_uint, identity: *mut c_void) -> *mut T {
    guard(null_mut(), || {
        let synch = ENGINE.init_synch(key as u16, identity.addr());
        synch.map_or(null_mut(), |synch| synch.address().cast())
    })
}

fn destroy<T>(synch: *mut T) {
    guard((), || {
        if let Some(synch) = instance!(SynchRef, synch) {
            ENGINE.destroy_synch(synch);
        }
    });
}

pub(super) unsafe extern "C" fn init_mutex(key: c_uint, identity: *mut c_void) -> *mut Mutex {
    init_lock(key, identity)
}

pub(super) unsafe extern "C" fn init_rwlock(key: c_uint, identity: *mut c_void) -> *mut Rwlock {
    let rwlock: *mut Rwlock = init_lock(key, identity);
    guard(rwlock, || match instance!(SynchRef, rwlock) {
        Some(synch) if INNODB.iter().any(|prefix| ENGINE.instrument_name(key as u16).starts_with(prefix)) => {
            synch.taken_by_trying().address().cast()
        }
        _ => rwlock,
    })
}

/// The prefixes of the names of InnoDB's rwlocks.
const INNODB: [&str; 2] = ["wait/synch/rwlock/innodb/", "wait/synch/sxlock/innodb/"];

pub(super) unsafe extern "C" fn init_cond(key: c_uint, identity: *mut c_void) -> *mut Cond {
    init(key, identity)
}

pub(super) unsafe extern "C" fn destroy_mutex(mutex: *mut Mutex) {
    destroy(mutex);
}

pub(super) unsafe extern "C" fn destroy_rwlock(rwlock: *mut Rwlock) {
    destroy(rwlock);
}

pub(super) unsafe extern "C" fn destroy_cond(cond: *mut Cond) {
    destroy(cond);
}

/// Returns the engine's number of an operation from the server's, which are few.
#[inline(always)]
fn number(first: u8, op: c_uint) -> u8 {
    first.wrapping_add(op as u8)
}

/// Begins a wait. The locker states of mutexes, rwlocks and condition variables are all stored like a
/// mutex's, so one function serves them and stays in the cache. It contains the fast path; the slow path is a
/// tail call.
#[inline(never)]
extern "C" fn start(
    state: *mut MutexLockerState,
    object: *mut Mutex,
    operation: u8,
    file: *const c_char,
    line: c_uint,
) -> *mut MutexLocker {
    if let (Some(synch), Some(kept)) = (instance!(SynchRef, object), state!(state, MutexLockerState)) {
        match ENGINE.start_synch_wait_fast(synch, operation, Source::new(file, line)) {
            Start::Began(wait) => {
                keep!(kept, wait);
                kept.mutex = object;
                return state.cast();
            }
            Start::Off => return null_mut(),
            Start::Slow => cold_path(),
        }
    }
    start_slow(state, object, operation, file, line)
}

#[cold]
#[inline(never)]
extern "C" fn start_slow(
    state: *mut MutexLockerState,
    object: *mut Mutex,
    operation: u8,
    file: *const c_char,
    line: c_uint,
) -> *mut MutexLocker {
    guard(null_mut(), || {
        let Some(synch) = instance!(SynchRef, object) else { return null_mut() };
        let wait = ENGINE.start_synch_wait(synch, operation, Source::new(file, line));
        let (Some(wait), Some(kept)) = (wait, state!(state, MutexLockerState)) else { return null_mut() };
        keep!(kept, wait);
        kept.mutex = object;
        state.cast()
    })
}

const _: () = {
    assert!(size_of::<MutexLockerState>() <= size_of::<RwlockLockerState>());
    assert!(size_of::<MutexLockerState>() <= size_of::<CondLockerState>());
};

/// Returns the object of a locker and the thread that waits for it.
#[inline(always)]
fn parties(locker: *mut MutexLocker) -> Option<(SynchRef, ThreadRef)> {
    let state = state!(locker, MutexLockerState)?;
    Some((instance!(SynchRef, state.mutex)?, instance!(ThreadHandle, state.thread)?))
}

/// Ends a wait.
#[inline(never)]
extern "C" fn end(locker: *mut MutexLocker) {
    if let Some(wait) = state!(locker, MutexLockerState).and_then(|state| kept!(state))
        && !ENGINE.end_synch_wait_fast(&wait)
    {
        end_slow(locker);
    }
    ENGINE.has_waited();
}

#[cold]
#[inline(never)]
extern "C" fn end_slow(locker: *mut MutexLocker) {
    guard((), || {
        if let Some(wait) = state!(locker, MutexLockerState).and_then(|state| kept!(state)) {
            ENGINE.end_synch_wait(&wait);
        }
    });
}

/// Ends a wait and also counts it by instance.
#[inline(never)]
extern "C" fn end_counted(locker: *mut MutexLocker) {
    guard((), || {
        let Some(state) = state!(locker, MutexLockerState) else { return };
        if let (Some(wait), Some(synch)) = (kept!(state), instance!(SynchRef, state.mutex)) {
            ENGINE.end_counted_synch_wait(synch, &wait);
        }
    });
    ENGINE.has_waited();
}

/// Notes the owner of a lock that was taken.
#[inline(always)]
fn own(locker: *mut MutexLocker, rc: c_int) {
    if rc == 0
        && !ENGINE.is_skipping()
        && let Some((synch, thread)) = parties(locker)
    {
        ENGINE.set_synch_owner(synch, thread);
    }
}

/// Notes a reader of a lock that was taken. InnoDB ends all its waits this way, and it releases a lock only
/// once that it upgraded from shared-exclusive to exclusive.
#[inline(always)]
fn read(locker: *mut MutexLocker, rc: c_int) {
    if rc == 0
        && !ENGINE.is_skipping()
        && let Some((synch, thread)) = parties(locker)
    {
        match state!(locker, MutexLockerState).map(|state| state.operation) {
            Some(EXCLUSIVE | TRY_EXCLUSIVE) => ENGINE.add_synch_reader_once(synch, thread),
            _ => ENGINE.add_synch_reader(synch, thread),
        }
    }
}

/// Ends a wait for an rwlock with this function. Adds the weight of an uncontended lock that was reported off
/// the fast path.
#[inline(always)]
fn end_rwlock(locker: *mut MutexLocker, end: extern "C" fn(*mut MutexLocker)) {
    end(locker);
    if ENGINE.is_weighing() {
        cold_path();
        let operation = state!(locker, MutexLockerState).map(|state| state.operation);
        if let (true, Some((synch, _))) = (operation.is_some_and(is_free), parties(locker)) {
            ENGINE.weigh_free_synch(synch);
        }
    }
}

/// Returns whether the instrument of a lock or a condition variable is off, or it has none.
#[inline(always)]
fn is_off<T>(instance: *mut T) -> bool {
    instance!(SynchRef, instance).is_none_or(|synch| ENGINE.is_synch_off(synch))
}

/// Returns whether there is no demand for the events of a lock or a condition variable.
#[inline(always)]
pub(super) fn lacks_demand<T>(kind: Kind, instance: *mut T) -> bool {
    ENGINE.lacks_demand(kind, || is_off(instance))
}

pub(super) unsafe extern "C" fn start_mutex_wait(
    state: *mut MutexLockerState,
    mutex: *mut Mutex,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut MutexLocker {
    if lacks_demand(Kind::Mutex, mutex) {
        return null_mut();
    }
    start(state, mutex, number(operation::MUTEX, op), file, line)
}

/// The interface's numbers of rwlock operations.
const TRY_READ: c_uint = 2;
const TRY_WRITE: c_uint = 3;
const EXCLUSIVE: c_uint = 6;
const TRY_SHARED: c_uint = 7;
const TRY_EXCLUSIVE: c_uint = 9;

pub(super) unsafe extern "C" fn end_mutex_wait(locker: *mut MutexLocker, rc: c_int) {
    own(locker, rc);
    end(locker);
}

pub(super) unsafe extern "C" fn end_counted_mutex_wait(locker: *mut MutexLocker, rc: c_int) {
    own(locker, rc);
    end_counted(locker);
}

pub(super) unsafe extern "C" fn unlock_mutex(mutex: *mut Mutex) {
    if let Some(synch) = instance!(SynchRef, mutex) {
        ENGINE.unlock_mutex(synch);
    }
}

/// The `unlock_mutex` slot while some mutexes are off; writes nothing to those.
pub(super) unsafe extern "C" fn filter_unlocked_mutex(mutex: *mut Mutex) {
    if let Some(synch) = instance!(SynchRef, mutex)
        && ENGINE.has_synch_owner(synch)
    {
        ENGINE.unlock_mutex(synch);
    }
}

/// The `unlock_mutex` slot while all mutexes are sampled: a skipped statement notes no owner.
pub(super) unsafe extern "C" fn unlock_sampled_mutex(mutex: *mut Mutex) {
    if !ENGINE.is_skipping() {
        // SAFETY: the caller's promise.
        unsafe { unlock_mutex(mutex) };
    }
}

/// Starts a shared, exclusive or shared-exclusive wait; the operation distinguishes them.
pub(super) unsafe extern "C" fn start_rwlock_wait(
    state: *mut RwlockLockerState,
    rwlock: *mut Rwlock,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut RwlockLocker {
    if !ENGINE.has_demand(Kind::Rwlock) {
        return null_mut();
    }
    if let Some(kept) = state!(state, RwlockLockerState) {
        kept.operation = op;
    }
    start(state.cast(), rwlock.cast(), number(operation::RWLOCK, op), file, line).cast()
}

/// Returns an rwlock that InnoDB took without waiting, if it needs no clock.
#[inline(always)]
fn free_rwlock(rwlock: *mut Rwlock) -> Option<(SynchRef, UntimedLock)> {
    let synch = instance!(SynchRef, rwlock).filter(|synch| synch.is_taken_by_trying())?;
    Some((synch, ENGINE.untimed_synch(synch)?))
}

/// Starts an rwlock wait, without a clock for a lock that InnoDB took without waiting, if the lock's level
/// allows that. InnoDB tries first, and reports the operation as a try if it succeeded.
pub(super) unsafe extern "C" fn start_lean_rwlock_wait(
    state: *mut RwlockLockerState,
    rwlock: *mut Rwlock,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut RwlockLocker {
    if !ENGINE.has_demand(Kind::Rwlock) {
        return null_mut();
    }
    if let TRY_READ | TRY_WRITE | TRY_SHARED..TRY_EXCLUSIVE = op
        && let Some((synch, untimed)) = free_rwlock(rwlock)
        && ENGINE.add_synch_reader_fast(synch, untimed.thread())
    {
        ENGINE.count_free_synch(untimed, synch, number(operation::RWLOCK, op), Source::new(file, line));
        return null_mut();
    }
    start_unusual_rwlock_wait(state, rwlock, op, file, line)
}

/// Starts an rwlock wait by [`start_rwlock_wait`] if waits are counted by instance, else by
/// [`start_lean_rwlock_wait`].
#[inline(always)]
unsafe fn start_recorded_rwlock_wait(
    state: *mut RwlockLockerState,
    rwlock: *mut Rwlock,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut RwlockLocker {
    let start = match ENGINE.synch_waits_by_instance() {
        true => start_rwlock_wait,
        false => start_lean_rwlock_wait,
    };
    // SAFETY: the caller's promise.
    unsafe { start(state, rwlock, op, file, line) }
}

/// Returns whether InnoDB took the lock without waiting: it tries first, and reports the operation as a try
/// if it succeeded.
#[inline(always)]
fn is_free(op: c_uint) -> bool {
    matches!(op, TRY_READ | TRY_WRITE | TRY_SHARED..=TRY_EXCLUSIVE)
}

/// The slots that start rwlock waits while all rwlocks are sampled. A contended lock is recorded in every
/// statement.
pub(super) unsafe extern "C" fn sample_rwlock_wait(
    state: *mut RwlockLockerState,
    rwlock: *mut Rwlock,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut RwlockLocker {
    if is_free(op) && ENGINE.skips_at_once() {
        return null_mut();
    }
    sample_further_rwlock_wait(state, rwlock, op, file, line)
}

/// Starts a wait that [`sample_rwlock_wait`] does not skip at once.
#[inline(never)]
extern "C" fn sample_further_rwlock_wait(
    state: *mut RwlockLockerState,
    rwlock: *mut Rwlock,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut RwlockLocker {
    if is_free(op) && ENGINE.skips() {
        return null_mut();
    }
    // SAFETY: the caller's promise.
    unsafe { start_recorded_rwlock_wait(state, rwlock, op, file, line) }
}

/// The `unlock_rwlock` slot while all rwlocks are sampled: a skipped statement notes no owner.
pub(super) unsafe extern "C" fn unlock_sampled_rwlock(rwlock: *mut Rwlock) {
    if !ENGINE.is_skipping() {
        // SAFETY: the caller's promise.
        unsafe { unlock_rwlock(rwlock) };
    }
}

/// The slots that start rwlock waits while some rwlocks are off or sampled.
pub(super) unsafe extern "C" fn filter_rwlock_wait(
    state: *mut RwlockLockerState,
    rwlock: *mut Rwlock,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut RwlockLocker {
    let skips = || instance!(SynchRef, rwlock).is_some_and(|synch| ENGINE.skips_synch(synch));
    if is_off(rwlock) || is_free(op) && skips() {
        return null_mut();
    }
    // SAFETY: the caller's promise.
    unsafe { start_recorded_rwlock_wait(state, rwlock, op, file, line) }
}

/// Starts an rwlock wait for a lock that is contended, needs the clock, or may have been upgraded.
#[cold]
#[inline(never)]
extern "C" fn start_unusual_rwlock_wait(
    state: *mut RwlockLockerState,
    rwlock: *mut Rwlock,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut RwlockLocker {
    if let TRY_READ | TRY_WRITE | TRY_SHARED..=TRY_EXCLUSIVE = op
        && let Some((synch, untimed)) = free_rwlock(rwlock)
    {
        match op {
            TRY_EXCLUSIVE => ENGINE.add_synch_reader_once(synch, untimed.thread()),
            _ => ENGINE.add_synch_reader(synch, untimed.thread()),
        }
        ENGINE.count_free_synch(untimed, synch, number(operation::RWLOCK, op), Source::new(file, line));
        return null_mut();
    }
    // SAFETY: the same arguments under the same promises.
    unsafe { start_rwlock_wait(state, rwlock, op, file, line) }
}

pub(super) unsafe extern "C" fn end_rwlock_rdwait(locker: *mut RwlockLocker, rc: c_int) {
    read(locker.cast(), rc);
    end_rwlock(locker.cast(), end);
}

pub(super) unsafe extern "C" fn end_counted_rwlock_rdwait(locker: *mut RwlockLocker, rc: c_int) {
    read(locker.cast(), rc);
    end_rwlock(locker.cast(), end_counted);
}

pub(super) unsafe extern "C" fn end_rwlock_wrwait(locker: *mut RwlockLocker, rc: c_int) {
    own(locker.cast(), rc);
    end_rwlock(locker.cast(), end);
}

pub(super) unsafe extern "C" fn end_counted_rwlock_wrwait(locker: *mut RwlockLocker, rc: c_int) {
    own(locker.cast(), rc);
    end_rwlock(locker.cast(), end_counted);
}

pub(super) unsafe extern "C" fn unlock_rwlock(rwlock: *mut Rwlock) {
    if let Some(synch) = instance!(SynchRef, rwlock) {
        ENGINE.unlock_rwlock(synch);
    }
}

/// The `unlock_rwlock` slot while some rwlocks are off; writes nothing to those.
pub(super) unsafe extern "C" fn filter_unlocked_rwlock(rwlock: *mut Rwlock) {
    if let Some(synch) = instance!(SynchRef, rwlock)
        && (ENGINE.has_synch_owner(synch) || ENGINE.has_synchs_to_read())
    {
        unlock_noted_rwlock(rwlock);
    }
}

/// Unlocks an rwlock out of line, because locks that are off do not need it.
#[inline(never)]
extern "C" fn unlock_noted_rwlock(rwlock: *mut Rwlock) {
    // SAFETY: the caller's promise.
    unsafe { unlock_rwlock(rwlock) }
}

pub(super) unsafe extern "C" fn start_cond_wait(
    state: *mut CondLockerState,
    cond: *mut Cond,
    _mutex: *mut Mutex,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut CondLocker {
    if lacks_demand(Kind::Cond, cond) {
        return null_mut();
    }
    start(state.cast(), cond.cast(), number(operation::COND, op), file, line).cast()
}

pub(super) unsafe extern "C" fn end_cond_wait(locker: *mut CondLocker, _rc: c_int) {
    end(locker.cast());
}

pub(super) unsafe extern "C" fn end_counted_cond_wait(locker: *mut CondLocker, _rc: c_int) {
    end_counted(locker.cast());
}

/// Does nothing: no table shows signals.
pub(super) unsafe extern "C" fn signal_cond(_cond: *mut Cond) {}

/// Does nothing: no table shows signals.
pub(super) unsafe extern "C" fn broadcast_cond(_cond: *mut Cond) {}
