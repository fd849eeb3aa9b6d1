//! HOT PATH: memory. The engine counts by instrument. What a session has, and whether that is too much, the
//! built-in's thread and the server's session know (`server::memory`).
//!
//! The owner that the server keeps with a block is the built-in's thread, or null. A block is counted where it
//! was allocated only if its owner frees it; else nobody's memory shrinks but the sum of all.
#![allow(unsafe_code)]

use std::ffi::{c_uint, c_void};
use std::ptr::null_mut;

use tare_host::process::{ENGINE, guard};

use crate::abi::memory::CONTROLLED_KEY;
use crate::server::memory::{Known, known, met};
use crate::server::thread::{ServerThread, current, settled};

/// The engine's `SESSIONS`: it does not count the memory of sessions.
const SESSIONS: bool = false;

/// Makes a block that the engine has counted the calling thread's. Returns the key that goes with it.
#[inline(always)]
fn own(thread: ServerThread, known: Known, key: c_uint, size: u64, owner: &mut *mut c_void) -> c_uint {
    *owner = thread.address();
    thread.session_alloc(size, known.is_controlled());
    if known.is_controlled() { key | CONTROLLED_KEY } else { key }
}

pub(crate) unsafe extern "C" fn memory_alloc(key: c_uint, size: u64, owner: *mut *mut c_void) -> c_uint {
    // SAFETY: the server's promise: a place for the block's owner.
    let owner = unsafe { &mut *owner };
    let known = known(key);
    match settled() {
        Some(thread) if ENGINE.memory_alloc_fast::<SESSIONS>(known.class(), size).is_some() => {
            own(thread, known, key, size, owner)
        }
        thread => alloc_slow(thread, key, size, owner),
    }
}

#[cold]
#[inline(never)]
fn alloc_slow(thread: Option<ServerThread>, key: c_uint, size: u64, owner: &mut *mut c_void) -> c_uint {
    *owner = null_mut();
    let counted = guard(None, || count(thread, met(key)?, size));
    match counted {
        Some((known, Some(thread))) => own(thread, known, key, size, owner),
        Some((_, None)) => key,
        None => 0,
    }
}

/// Counts an allocation with the engine. Returns the instrument, and the thread if it owns the memory.
/// `None`: it is not counted.
fn count(thread: Option<ServerThread>, known: Known, size: u64) -> Option<(Known, Option<ServerThread>)> {
    match thread {
        Some(thread) => {
            let owner = ENGINE.memory_alloc::<SESSIONS>(known.class(), size)?;
            Some((known, owner.map(|_| thread)))
        }
        None => ENGINE.memory_alloc_unowned(known.class(), size).then_some((known, None)),
    }
}

pub(crate) unsafe extern "C" fn memory_free(key: c_uint, size: u64, owner: *mut c_void) {
    let known = known(key & !CONTROLLED_KEY);
    let Some(thread) = current().filter(|thread| thread.address() == owner) else {
        return free_unowned(key, size);
    };
    if !(thread.is_entered() && ENGINE.memory_free_fast::<SESSIONS>(known.class(), size)) {
        free_slow(thread, key, size);
    }
    thread.session_free(size, key & CONTROLLED_KEY != 0);
}

#[cold]
#[inline(never)]
fn free_slow(thread: ServerThread, key: c_uint, size: u64) {
    guard((), || {
        let Some(known) = met(key & !CONTROLLED_KEY) else { return };
        match thread.is_entered() {
            true => ENGINE.memory_free::<SESSIONS>(known.class(), size),
            false => ENGINE.memory_free_unowned(known.class(), size),
        }
    });
}

#[inline(never)]
fn free_unowned(key: c_uint, size: u64) {
    guard((), || {
        if let Some(known) = met(key & !CONTROLLED_KEY) {
            ENGINE.memory_free_unowned(known.class(), size);
        }
    });
}

pub(crate) unsafe extern "C" fn memory_realloc(
    key: c_uint,
    old_size: u64,
    new_size: u64,
    owner: *mut *mut c_void,
) -> c_uint {
    // SAFETY: the server's promise: a place for the block's owner.
    let owner = unsafe { &mut *owner };
    *owner = null_mut();
    guard(0, || {
        let Some(known) = met(key & !CONTROLLED_KEY) else { return 0 };
        let thread = settled();
        // As the built-in does: first what comes, then what goes, and neither for the session.
        let counted = count(thread, known, new_size);
        match thread {
            Some(_) => ENGINE.memory_free::<SESSIONS>(known.class(), old_size),
            None => ENGINE.memory_free_unowned(known.class(), old_size),
        }
        match counted {
            Some((_, of)) => {
                *owner = of.map_or(null_mut(), ServerThread::address);
                key
            }
            None => 0,
        }
    })
}

pub(crate) unsafe extern "C" fn memory_claim(
    key: c_uint,
    size: u64,
    owner: *mut *mut c_void,
    is_claim: bool,
) -> c_uint {
    // SAFETY: the server's promise: the place of the block's owner.
    let owner = unsafe { &mut *owner };
    let bare = key & !CONTROLLED_KEY;
    let known = guard(None, || met(bare));
    match known {
        None => {
            *owner = null_mut();
            0
        }
        Some(known) if known.is_server_wide() => {
            *owner = null_mut();
            key
        }
        Some(known) if is_claim => claim(known, key, size, owner),
        Some(known) => {
            disclaim(known, key, size, std::mem::replace(owner, null_mut()));
            key
        }
    }
}

/// Makes a block that nobody owns the calling thread's.
#[inline(never)]
fn claim(known: Known, key: c_uint, size: u64, owner: &mut *mut c_void) -> c_uint {
    let thread = guard(None, || {
        let thread = settled()?;
        ENGINE.memory_alloc::<SESSIONS>(known.class(), size)??;
        ENGINE.memory_free_unowned(known.class(), size);
        Some(thread)
    });
    match thread {
        Some(thread) => own(thread, known, key & !CONTROLLED_KEY, size, owner),
        None => key,
    }
}

/// Makes a block one that nobody owns.
#[inline(never)]
fn disclaim(known: Known, key: c_uint, size: u64, owner: *mut c_void) {
    if owner.is_null() {
        return;
    }
    // SAFETY: the server's promise: its own block, once.
    unsafe { memory_free(key, size, owner) };
    guard((), || ENGINE.memory_disowned(known.class(), size));
}
