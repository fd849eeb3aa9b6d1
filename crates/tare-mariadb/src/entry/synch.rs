//! HOT PATH: mutexes, rwlocks, conds. `end_*` runs with the lock held: nothing is done twice there.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use tare_engine::{Source, SynchHandle, Wait, operation};

use super::ENGINE;
use super::guard::guard;
use super::pointer::{instance, keep, kept, state};
use crate::abi::types::{
    Cond, CondLocker, CondLockerState, Mutex, MutexLocker, MutexLockerState, Rwlock, RwlockLocker,
    RwlockLockerState,
};

/// An instance of a class; the identity is the address of the server's own object.
fn init<T>(key: c_uint, identity: *mut c_void) -> *mut T {
    guard(null_mut(), || {
        let synch = ENGINE.init_synch(key as u16, identity.addr());
        synch.map_or(null_mut(), |synch| synch.address().cast())
    })
}

fn destroy<T>(synch: *mut T) {
    guard((), || {
        if let Some(synch) = instance!(SynchHandle, synch) {
            ENGINE.destroy_synch(synch);
        }
    });
}

pub(super) unsafe extern "C" fn init_mutex(key: c_uint, identity: *mut c_void) -> *mut Mutex {
    init(key, identity)
}

pub(super) unsafe extern "C" fn init_rwlock(key: c_uint, identity: *mut c_void) -> *mut Rwlock {
    init(key, identity)
}

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

pub(super) unsafe extern "C" fn start_mutex_wait(
    state: *mut MutexLockerState,
    mutex: *mut Mutex,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut MutexLocker {
    guard(null_mut(), || {
        let Some(synch) = instance!(SynchHandle, mutex) else { return null_mut() };
        let operation = operation::MUTEX + op as u8;
        let Some(wait) = ENGINE.start_synch_wait(synch, operation, Source::new(file, line)) else {
            return null_mut();
        };
        let Some(kept) = state!(state, MutexLockerState) else { return null_mut() };
        keep!(kept, wait);
        kept.mutex = mutex;
        state.cast()
    })
}

pub(super) unsafe extern "C" fn end_mutex_wait(locker: *mut MutexLocker, rc: c_int) {
    guard((), || {
        let Some(state) = state!(locker, MutexLockerState) else { return };
        if let (Some(wait), Some(synch)) = (kept!(Wait, state), instance!(SynchHandle, state.mutex)) {
            ENGINE.end_mutex_wait(synch, &wait, rc == 0);
        }
    });
}

pub(super) unsafe extern "C" fn unlock_mutex(mutex: *mut Mutex) {
    if let Some(synch) = instance!(SynchHandle, mutex) {
        ENGINE.unlock_mutex(synch);
    }
}

pub(super) unsafe extern "C" fn start_rwlock_rdwait(
    state: *mut RwlockLockerState,
    rwlock: *mut Rwlock,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut RwlockLocker {
    guard(null_mut(), || {
        let Some(synch) = instance!(SynchHandle, rwlock) else { return null_mut() };
        let operation = operation::RWLOCK + op as u8;
        let Some(wait) = ENGINE.start_synch_wait(synch, operation, Source::new(file, line)) else {
            return null_mut();
        };
        let Some(kept) = state!(state, RwlockLockerState) else { return null_mut() };
        keep!(kept, wait);
        kept.rwlock = rwlock;
        kept.operation = op;
        state.cast()
    })
}

pub(super) unsafe extern "C" fn end_rwlock_rdwait(locker: *mut RwlockLocker, rc: c_int) {
    guard((), || {
        let Some(state) = state!(locker, RwlockLockerState) else { return };
        if let (Some(wait), Some(synch)) = (kept!(Wait, state), instance!(SynchHandle, state.rwlock)) {
            ENGINE.end_rwlock_read_wait(synch, &wait, rc == 0);
        }
    });
}

pub(super) unsafe extern "C" fn start_rwlock_wrwait(
    state: *mut RwlockLockerState,
    rwlock: *mut Rwlock,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut RwlockLocker {
    // SAFETY: the same arguments under the same promises.
    unsafe { start_rwlock_rdwait(state, rwlock, op, file, line) }
}

pub(super) unsafe extern "C" fn end_rwlock_wrwait(locker: *mut RwlockLocker, rc: c_int) {
    /// `shared_exclusive_lock` and `try_shared_exclusive_lock` leave readers in.
    const SHARED_EXCLUSIVE: [c_uint; 2] = [5, 8];
    guard((), || {
        let Some(state) = state!(locker, RwlockLockerState) else { return };
        if let (Some(wait), Some(synch)) = (kept!(Wait, state), instance!(SynchHandle, state.rwlock)) {
            let shared_exclusive = SHARED_EXCLUSIVE.contains(&state.operation);
            ENGINE.end_rwlock_write_wait(synch, &wait, rc == 0, shared_exclusive);
        }
    });
}

pub(super) unsafe extern "C" fn unlock_rwlock(rwlock: *mut Rwlock) {
    if let Some(synch) = instance!(SynchHandle, rwlock) {
        ENGINE.unlock_rwlock(synch);
    }
}

pub(super) unsafe extern "C" fn start_cond_wait(
    state: *mut CondLockerState,
    cond: *mut Cond,
    _mutex: *mut Mutex,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut CondLocker {
    guard(null_mut(), || {
        let Some(synch) = instance!(SynchHandle, cond) else { return null_mut() };
        let operation = operation::COND + op as u8;
        let Some(wait) = ENGINE.start_synch_wait(synch, operation, Source::new(file, line)) else {
            return null_mut();
        };
        let Some(kept) = state!(state, CondLockerState) else { return null_mut() };
        keep!(kept, wait);
        state.cast()
    })
}

pub(super) unsafe extern "C" fn end_cond_wait(locker: *mut CondLocker, _rc: c_int) {
    guard((), || {
        let Some(state) = state!(locker, CondLockerState) else { return };
        if let Some(wait) = kept!(Wait, state) {
            ENGINE.end_wait(&wait, 1, None);
        }
    });
}

/// Signals are shown nowhere: there is no table with them.
pub(super) unsafe extern "C" fn signal_cond(_cond: *mut Cond) {}

/// As [`signal_cond`].
pub(super) unsafe extern "C" fn broadcast_cond(_cond: *mut Cond) {}
