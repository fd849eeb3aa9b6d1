//! The server's number of the statement that a session runs, which SHOW PROCESSLIST and the server's logs
//! also show.
//!
//! Two functions exported for plugins return it. Each has a few instructions, far from the rest of a
//! statement's code. So where their code shows what they read, and does nothing else, the number is read
//! without calling them.
#![allow(unsafe_code)]

use std::arch::asm;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::OnceLock;

use tare_host::process::symbol;

use super::warning::{CurrentThdFn, session_function};
use super::{code, session};

type QueryId = unsafe extern "C" fn(*const c_void) -> u64;

/// The way to find the number.
enum QueryIdSource {
    /// Two reads: a thread has a pointer to its session at the offset `session` from `%fs:0`, and the session
    /// has the number at the offset `number` in bytes.
    Read { session: isize, number: usize },
    /// Calls of the server's functions.
    Call(CurrentThdFn, QueryId),
    /// The number cannot be found.
    Unknown,
}

static WAY: OnceLock<QueryIdSource> = OnceLock::new();

/// Finds the way. Must run before the first call of [`current`].
pub(crate) fn resolve() {
    let _first_one_stays = WAY.set(read().or_else(call).unwrap_or(QueryIdSource::Unknown));
}

fn read() -> Option<QueryIdSource> {
    let place = session::member(c"_current_thd", code::thread_local).ok()?;
    let number = session::member(c"thd_query_id", code::loaded).ok()?;
    let find = session_function()?;
    // SAFETY: the first reads a word of the thread's own that the server's function reads too: its code says
    // so and does nothing else. The second takes nothing.
    let agree = unsafe { of_thread(place) == find() };
    agree.then_some(QueryIdSource::Read { session: place, number })
}

fn call() -> Option<QueryIdSource> {
    let query_id = symbol(c"thd_query_id")?;
    // SAFETY: a C function that takes a session and returns a 64-bit number, on all supported servers.
    let query_id = unsafe { std::mem::transmute::<*mut c_void, QueryId>(query_id) };
    Some(QueryIdSource::Call(session_function()?, query_id))
}

/// Returns the pointer at an offset from `%fs:0`, which holds its own address.
///
/// # Safety
///
/// The program has a thread-local pointer there.
#[inline(always)]
unsafe fn of_thread(distance: isize) -> *mut c_void {
    let pointer;
    // SAFETY: the caller's promise; the instruction reads a word and does nothing else.
    unsafe {
        asm!("mov {pointer}, fs:[{distance}]", distance = in(reg) distance, pointer = lateout(reg) pointer,
            options(nostack, preserves_flags, readonly));
    }
    pointer
}

/// Returns the calling thread's thread pointer, by which other threads find its session.
pub(crate) fn thread_pointer() -> u64 {
    // SAFETY: on x86-64 the word that `%fs:0` names is the thread pointer itself, in every thread.
    (unsafe { of_thread(0) }).addr() as u64
}

/// Returns the number; 0 if the calling thread has no session or the way is unknown.
#[inline(always)]
pub(crate) fn current() -> u64 {
    match WAY.get() {
        Some(QueryIdSource::Read { session, number }) => {
            // SAFETY: `read` found it where the server's own function reads it.
            match NonNull::new(unsafe { of_thread(*session) }) {
                // SAFETY: the calling thread's own session, of which the server's function reads these bytes,
                // and nobody else writes them.
                Some(session) => unsafe { session.as_ptr().byte_add(*number).cast::<u64>().read() },
                None => 0,
            }
        }
        Some(QueryIdSource::Call(session, query_id)) => called(*session, *query_id),
        Some(QueryIdSource::Unknown) | None => 0,
    }
}

#[cold]
#[inline(never)]
fn called(session: CurrentThdFn, query_id: QueryId) -> u64 {
    // SAFETY: the function takes nothing and reads a thread-local.
    match NonNull::new(unsafe { session() }) {
        // SAFETY: the calling thread's own session; the function reads a field of it.
        Some(session) => unsafe { query_id(session.as_ptr()) },
        None => 0,
    }
}
