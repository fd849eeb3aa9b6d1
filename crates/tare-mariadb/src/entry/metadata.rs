//! HOT PATH: metadata locks.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use tare_engine::snapshot::Kind;
use tare_engine::{MetadataHandle, Source};

use super::facts;
use super::guard::guard;
use super::pointer::{instance, keep, kept, state};
use super::{ENGINE, SCHEMA};
use crate::abi::types::{MdlKey, MetadataLock, MetadataLocker, MetadataLockerState};
use crate::folder;

pub(super) unsafe extern "C" fn create_metadata_lock(
    identity: *mut c_void,
    key: *const MdlKey,
    lock_type: c_int,
    duration: c_int,
    status: c_int,
    file: *const c_char,
    line: c_uint,
) -> *mut MetadataLock {
    guard(null_mut(), || {
        let what = || facts::metadata_name(key, lock_type, duration, status);
        if folder::looks_at(lock_type)
            && let Some(what) = what()
        {
            folder::locks(what.schema, what.name, lock_type);
        }
        // A row of `metadata_locks`, also while nothing is recorded: so with the reference.
        let lock = ENGINE.create_metadata_lock(identity.addr(), what, Source::new(file, line));
        lock.map_or(null_mut(), |lock| lock.address().cast())
    })
}

/// The first type of lock with which rows are read or written; those before are taken to look at definitions.
const SHARED_READ: u8 = 3;

/// As [`create_metadata_lock`], where statements that use tare's tables are left out.
pub(super) unsafe extern "C" fn create_looked_at_metadata_lock(
    identity: *mut c_void,
    key: *const MdlKey,
    lock_type: c_int,
    duration: c_int,
    status: c_int,
    file: *const c_char,
    line: c_uint,
) -> *mut MetadataLock {
    guard((), || {
        if !ENGINE.is_in_statement() {
            return;
        }
        let what = facts::metadata_name(key, lock_type, duration, status);
        if what.is_some_and(|what| what.schema == SCHEMA && what.lock_type >= SHARED_READ) {
            ENGINE.exclude_statement();
        }
    });
    // SAFETY: the same arguments under the same promises.
    unsafe { create_metadata_lock(identity, key, lock_type, duration, status, file, line) }
}

pub(super) unsafe extern "C" fn set_metadata_lock_status(lock: *mut MetadataLock, status: c_int) {
    guard((), || {
        if let Some(lock) = instance!(MetadataHandle, lock) {
            ENGINE.set_metadata_lock_status(lock, status as u8);
        }
    });
}

pub(super) unsafe extern "C" fn destroy_metadata_lock(lock: *mut MetadataLock) {
    guard((), || {
        if let Some(lock) = instance!(MetadataHandle, lock) {
            ENGINE.destroy_metadata_lock(lock);
        }
    });
}

pub(super) unsafe extern "C" fn start_metadata_wait(
    state: *mut MetadataLockerState,
    lock: *mut MetadataLock,
    file: *const c_char,
    line: c_uint,
) -> *mut MetadataLocker {
    if !ENGINE.wants(Kind::Metadata) {
        return null_mut();
    }
    guard(null_mut(), || {
        let Some(lock) = instance!(MetadataHandle, lock) else { return null_mut() };
        let Some(wait) = ENGINE.start_metadata_wait(lock, Source::new(file, line)) else {
            return null_mut();
        };
        let Some(kept) = state!(state, MetadataLockerState) else { return null_mut() };
        keep!(kept, wait);
        state.cast()
    })
}

pub(super) unsafe extern "C" fn end_metadata_wait(locker: *mut MetadataLocker, _rc: c_int) {
    guard((), || {
        let Some(state) = state!(locker, MetadataLockerState) else { return };
        if let Some(wait) = kept!(state) {
            ENGINE.end_wait(&wait, 1, None);
        }
    });
}
