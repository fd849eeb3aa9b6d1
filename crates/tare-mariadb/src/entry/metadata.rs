//! HOT PATH: metadata locks.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use tare_engine::{MetadataHandle, MetadataName, Source, Start};
use tare_host::process::ENGINE;
use tare_host::process::guard;

use super::SCHEMA;
use super::facts;
use super::pointer::{instance, keep, kept, state};
use crate::abi::types::{MdlKey, MetadataLock, MetadataLocker, MetadataLockerState};
use crate::host::metadata;
use crate::interpose::folder;

pub(super) unsafe extern "C" fn create_metadata_lock(
    identity: *mut c_void,
    key: *const MdlKey,
    lock_type: c_int,
    duration: c_int,
    status: c_int,
    file: *const c_char,
    line: c_uint,
) -> *mut MetadataLock {
    if !folder::looks_at(lock_type) {
        let what = || Some(what(facts::usual_metadata_object(key)?, lock_type, duration, status));
        match ENGINE.create_metadata_lock_fast(identity.addr(), what, Source::new(file, line)) {
            Start::Began(lock) => return lock.address().cast(),
            Start::Off => return null_mut(),
            Start::Slow => {}
        }
    }
    create_unusual_metadata_lock(identity, key, lock_type, duration, status, file, line)
}

/// Returns the description of a lock: its object, type, duration and status.
#[inline(always)]
fn what<'a>(
    object: metadata::LockedObject<'a>,
    lock_type: c_int,
    duration: c_int,
    status: c_int,
) -> MetadataName<'a> {
    let metadata::LockedObject { namespace, names, schema_len } = object;
    let (lock_type, duration, status) = (lock_type as u8, duration as u8, status as u8);
    MetadataName { namespace, names, schema_len, lock_type, duration, status }
}

/// Creates a metadata lock on any object.
#[cold]
#[inline(never)]
extern "C" fn create_unusual_metadata_lock(
    identity: *mut c_void,
    key: *const MdlKey,
    lock_type: c_int,
    duration: c_int,
    status: c_int,
    file: *const c_char,
    line: c_uint,
) -> *mut MetadataLock {
    if folder::looks_at(lock_type) {
        note_definition(key, lock_type);
    }
    guard(null_mut(), || {
        let what = || Some(what(facts::metadata_object(key)?, lock_type, duration, status));
        // The row of `metadata_locks` exists even if nothing is recorded, as with the built-in.
        let lock = ENGINE.create_metadata_lock(identity.addr(), what, Source::new(file, line));
        lock.map_or(null_mut(), |lock| lock.address().cast())
    })
}

/// Notes that a table's definition may be about to change.
#[cold]
#[inline(never)]
fn note_definition(key: *const MdlKey, lock_type: c_int) {
    guard((), || {
        if let Some(object) = facts::metadata_object(key) {
            let (schema, name) = object.split();
            folder::locks(schema, name, lock_type);
        }
    });
}

/// The weakest type of lock for reading or writing rows; weaker ones are taken to read definitions.
const SHARED_READ: c_int = 3;

/// Creates a metadata lock and excludes statements that use tare's tables.
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
        let is_read = lock_type >= SHARED_READ;
        if is_read && facts::metadata_object(key).is_some_and(|object| object.split().0 == SCHEMA) {
            ENGINE.exclude_statement();
        }
    });
    // SAFETY: the same arguments under the same promises.
    unsafe { create_metadata_lock(identity, key, lock_type, duration, status, file, line) }
}

pub(super) unsafe extern "C" fn set_metadata_lock_status(lock: *mut MetadataLock, status: c_int) {
    if let Some(lock) = instance!(MetadataHandle, lock) {
        ENGINE.set_metadata_lock_status(lock, status as u8);
    }
}

pub(super) unsafe extern "C" fn destroy_metadata_lock(lock: *mut MetadataLock) {
    if let Some(known) = instance!(MetadataHandle, lock)
        && !ENGINE.destroy_metadata_lock_fast(known)
    {
        destroy_unusual_metadata_lock(lock);
    }
}

/// Destroys a metadata lock whose slot the thread does not keep.
#[cold]
#[inline(never)]
extern "C" fn destroy_unusual_metadata_lock(lock: *mut MetadataLock) {
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
            ENGINE.has_waited();
        }
    });
}
