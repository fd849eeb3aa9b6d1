//! HOT PATH: memory. The engine counts by instrument. What a session has, and whether that is too much, the
//! built-in's thread and the server's session know (`server::memory`).
//!
//! The owner that the server keeps with a block is the built-in's thread, or null. A free is the owner's only
//! if it is the owner who frees; else nobody's memory shrinks but the sum of all.
#![allow(unsafe_code)]

use std::ffi::{c_uint, c_void};
use std::ptr::null_mut;

use tare_host::process::{ENGINE, guard};

use crate::abi::layout::layout;
use crate::abi::memory::CONTROLLED_KEY;
use crate::server::memory::{MemoryInstrument, known, met};
use crate::server::thread::{ServerThread, current, settled};

/// Flag of the key that the server keeps with a block: only its session counts it, because the engine had the
/// instrument off.
const UNCOUNTED_KEY: c_uint = 0x4000_0000;
/// All flags of keys.
const KEY_FLAGS: c_uint = CONTROLLED_KEY | UNCOUNTED_KEY;

/// The key of what has no instrument, and of blocks that were not counted.
const NOT_INSTRUMENTED: c_uint = 0;

/// The engine's `SESSIONS`: it does not count the memory of sessions.
const SESSIONS: bool = false;

pub(crate) unsafe extern "C" fn memory_alloc(key: c_uint, size: u64, owner: *mut *mut c_void) -> c_uint {
    if key == NOT_INSTRUMENTED {
        // SAFETY: the server's promise: a place for the block's owner.
        unsafe { owner.write(null_mut()) };
        return NOT_INSTRUMENTED;
    }
    if let Some(known) = known(key)
        && known.is_usual()
        && let Some(thread) = current()
        && let Some(slab) = thread.slab()
        && thread.flag(layout().thread.instrumented)
        && ENGINE.memory_alloc_known(slab, known.class(), size)
    {
        // SAFETY: the server's promise: a place for the block's owner.
        unsafe { owner.write(thread.address()) };
        return own(thread, known, key, size);
    }
    alloc_slow(key, size, owner)
}

/// Counts a block of the calling thread, which the engine has counted, for its session. Returns the key that
/// goes with it.
#[inline(always)]
fn own(thread: ServerThread, known: MemoryInstrument, key: c_uint, size: u64) -> c_uint {
    if known.is_controlled() {
        return own_controlled(thread, key, size);
    }
    thread.session_alloc(size, false);
    key
}

// Apart, so that the others need no registers but the caller's.
#[inline(never)]
extern "C" fn own_controlled(thread: ServerThread, key: c_uint, size: u64) -> c_uint {
    thread.session_alloc(size, true);
    key | CONTROLLED_KEY
}

#[cold]
#[inline(never)]
extern "C" fn alloc_slow(key: c_uint, size: u64, owner: *mut *mut c_void) -> c_uint {
    // SAFETY: the server's promise: a place for the block's owner.
    let owner = unsafe { &mut *owner };
    *owner = null_mut();
    if let Some(known) = known(key)
        && known.is_of_sessions_only()
    {
        let thread = current().filter(|thread| thread.flag(layout().thread.instrumented));
        return thread.map_or(NOT_INSTRUMENTED, |thread| {
            *owner = thread.address();
            own(thread, known, key, size) | UNCOUNTED_KEY
        });
    }
    let counted = guard(None, || {
        let known = met(key)?;
        Some((known, count(settled(), known, size)?))
    });
    match counted {
        Some((known, Some(thread))) => {
            *owner = thread.address();
            own(thread, known, key, size)
        }
        Some((_, None)) => key,
        None => 0,
    }
}

/// Counts an allocation with the engine. Returns the thread if it owns the memory. `None`: it is not counted.
fn count(thread: Option<ServerThread>, known: MemoryInstrument, size: u64) -> Option<Option<ServerThread>> {
    match thread {
        Some(thread) => {
            let owner = ENGINE.memory_alloc::<SESSIONS>(known.class(), size)?;
            Some(owner.map(|_| thread))
        }
        None => ENGINE.memory_alloc_unowned(known.class(), size).then_some(None),
    }
}

pub(crate) unsafe extern "C" fn memory_free(key: c_uint, size: u64, owner: *mut c_void) {
    if key == NOT_INSTRUMENTED {
        return;
    }
    if let Some(known) = known(key & !CONTROLLED_KEY)
        && known.is_of_threads()
        && let Some(thread) = current()
        && thread.address() == owner
        && let Some(slab) = thread.slab()
        && ENGINE.memory_free_known(slab, known.class(), size)
    {
        return disown(thread, key, size);
    }
    free_slow(key, size, owner);
}

/// Counts a free of the calling thread's block for its session.
#[inline(always)]
fn disown(thread: ServerThread, key: c_uint, size: u64) {
    if key & CONTROLLED_KEY != 0 {
        return disown_controlled(thread, size);
    }
    thread.session_free(size, false);
}

// Apart, so that the others need no registers but the caller's.
#[inline(never)]
extern "C" fn disown_controlled(thread: ServerThread, size: u64) {
    thread.session_free(size, true);
}

#[cold]
#[inline(never)]
extern "C" fn free_slow(key: c_uint, size: u64, owner: *mut c_void) {
    let thread = current().filter(|thread| thread.address() == owner);
    if key & UNCOUNTED_KEY != 0 {
        return thread.into_iter().for_each(|thread| disown(thread, key, size));
    }
    guard((), || {
        let Some(known) = met(key & !CONTROLLED_KEY) else { return };
        match thread.filter(|thread| thread.is_entered()) {
            Some(_) => ENGINE.memory_free::<SESSIONS>(known.class(), size),
            None => ENGINE.memory_free_unowned(known.class(), size),
        }
    });
    if let Some(thread) = thread {
        disown(thread, key, size);
    }
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
        let Some(known) = met(key & !KEY_FLAGS) else { return 0 };
        let thread = settled();
        // As the built-in does: first what comes, then what goes, and neither for the session.
        let counted = count(thread, known, new_size);
        match thread {
            _ if key & UNCOUNTED_KEY != 0 => {}
            Some(_) => ENGINE.memory_free::<SESSIONS>(known.class(), old_size),
            None => ENGINE.memory_free_unowned(known.class(), old_size),
        }
        match counted {
            Some(of) => {
                *owner = of.map_or(null_mut(), ServerThread::address);
                key & !UNCOUNTED_KEY
            }
            None if known.is_of_sessions_only() => {
                *owner = thread.map_or(null_mut(), ServerThread::address);
                key | UNCOUNTED_KEY
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
    let bare = key & !KEY_FLAGS;
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
fn claim(known: MemoryInstrument, key: c_uint, size: u64, owner: &mut *mut c_void) -> c_uint {
    if key & UNCOUNTED_KEY != 0 {
        let Some(thread) = settled() else { return key };
        *owner = thread.address();
        return own(thread, known, key & !KEY_FLAGS, size) | UNCOUNTED_KEY;
    }
    let thread = guard(None, || {
        let thread = settled()?;
        ENGINE.memory_alloc::<SESSIONS>(known.class(), size)??;
        ENGINE.memory_free_unowned(known.class(), size);
        Some(thread)
    });
    match thread {
        Some(thread) => {
            *owner = thread.address();
            own(thread, known, key & !CONTROLLED_KEY, size)
        }
        None => key,
    }
}

/// Makes a block one that nobody owns.
#[inline(never)]
fn disclaim(known: MemoryInstrument, key: c_uint, size: u64, owner: *mut c_void) {
    if owner.is_null() {
        return;
    }
    // SAFETY: the server's promise: its own block, once.
    unsafe { memory_free(key, size, owner) };
    if key & UNCOUNTED_KEY != 0 {
        return;
    }
    guard((), || ENGINE.memory_disowned(known.class(), size));
}
