//! HOT PATH: memory. `SESSIONS` means that memory is also counted by session.
#![allow(unsafe_code)]

use std::ffi::{c_uint, c_ulong};
use std::ptr::null_mut;

use tare_engine::snapshot::Kind;
use tare_engine::{ThreadHandle, ThreadRef};
use tare_host::process::ENGINE;
use tare_host::process::guard;

use super::pointer::{instance, value, write};
use crate::abi::types::Thread;

/// Sets the owner that the server keeps with a block and returns the key; null and 0 if the block was not
/// counted.
fn answer(owner: *mut *mut Thread, key: c_uint, counted: Option<Option<ThreadRef>>) -> c_uint {
    let thread = counted.flatten().map_or(null_mut(), |thread| thread.address().cast());
    write!(owner, thread);
    if counted.is_some() { key } else { 0 }
}

pub(super) unsafe extern "C" fn memory_alloc<const SESSIONS: bool>(
    key: c_uint,
    size: c_ulong,
    owner: *mut *mut Thread,
) -> c_uint {
    if ENGINE.lacks_demand(Kind::Memory, || ENGINE.is_off(key as u16)) {
        return answer(owner, key, None);
    }
    alloc_recorded::<SESSIONS>(key, size, owner)
}

#[inline(never)]
extern "C" fn alloc_recorded<const SESSIONS: bool>(
    key: c_uint,
    size: c_ulong,
    owner: *mut *mut Thread,
) -> c_uint {
    match ENGINE.memory_alloc_fast::<SESSIONS>(key as u16, size) {
        Some(thread) => {
            write!(owner, thread.address().cast());
            key
        }
        None => alloc_unusual::<SESSIONS>(key, size, owner),
    }
}

#[cold]
#[inline(never)]
extern "C" fn alloc_unusual<const SESSIONS: bool>(
    key: c_uint,
    size: c_ulong,
    owner: *mut *mut Thread,
) -> c_uint {
    guard(0, || answer(owner, key, ENGINE.memory_alloc::<SESSIONS>(key as u16, size)))
}

pub(super) unsafe extern "C" fn memory_realloc<const SESSIONS: bool>(
    key: c_uint,
    old_size: c_ulong,
    new_size: c_ulong,
    owner: *mut *mut Thread,
) -> c_uint {
    guard(0, || {
        let counted = match key {
            0 => None,
            _ => ENGINE.memory_realloc::<SESSIONS>(key as u16, old_size, new_size),
        };
        answer(owner, key, counted)
    })
}

pub(super) unsafe extern "C" fn memory_claim<const SESSIONS: bool>(
    key: c_uint,
    size: c_ulong,
    owner: *mut *mut Thread,
) -> c_uint {
    guard(0, || {
        if key == 0 {
            return answer(owner, key, None);
        }
        let from = value!(owner).and_then(|owner| instance!(ThreadHandle, owner));
        answer(owner, key, Some(ENGINE.memory_claim::<SESSIONS>(key as u16, size, from)))
    })
}

pub(super) unsafe extern "C" fn memory_free<const SESSIONS: bool>(
    key: c_uint,
    size: c_ulong,
    _owner: *mut Thread,
) {
    // A block that was counted when it was allocated is counted when it is freed, whatever is off by now.
    if key != 0 {
        free_counted::<SESSIONS>(key as u16, size);
    }
}

#[inline(never)]
extern "C" fn free_counted<const SESSIONS: bool>(class: u16, size: c_ulong) {
    if !ENGINE.memory_free_fast::<SESSIONS>(class, size) {
        free_unusual::<SESSIONS>(class, size);
    }
}

#[cold]
#[inline(never)]
extern "C" fn free_unusual<const SESSIONS: bool>(class: u16, size: c_ulong) {
    guard((), || ENGINE.memory_free::<SESSIONS>(class, size));
}
