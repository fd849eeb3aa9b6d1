//! The server's number of the statement that a session runs, which SHOW PROCESSLIST and the server's logs show, too.
//!
//! Two functions that plugins may call find it. Each is a few instructions far from everything else a statement runs through,
//! so where they say what they read, and do nothing else, it is read without them.
#![allow(unsafe_code)]

use std::arch::asm;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::OnceLock;

use super::warning::{Session, session_function};
use super::{code, session};
use crate::startup::symbol;

type QueryId = unsafe extern "C" fn(*const c_void) -> u64;

/// How the number is found.
enum Way {
    /// A thread has a pointer to its session at a distance from what `%fs:0` holds, and the session has the number in bytes from
    /// its beginning.
    Read { session: isize, number: usize },
    /// The server's functions tell.
    Call(Session, QueryId),
    /// There is none.
    Unknown,
}

static WAY: OnceLock<Way> = OnceLock::new();

/// Finds out how. Before anybody asks.
pub(crate) fn resolve() {
    let _first_one_stays = WAY.set(read().or_else(call).unwrap_or(Way::Unknown));
}

fn read() -> Option<Way> {
    let place = session::member(c"_current_thd", code::thread_local).ok()?;
    let number = session::member(c"thd_query_id", code::loaded).ok()?;
    let find = session_function()?;
    // SAFETY: the first reads a word among the thread's own, which the function reads, too: it says so, and does nothing else. The
    // second takes nothing.
    let agree = unsafe { of_thread(place) == find() };
    agree.then_some(Way::Read { session: place, number })
}

fn call() -> Option<Way> {
    let query_id = symbol(c"thd_query_id")?;
    // SAFETY: a C function that takes a session and returns a 64-bit number, on all supported servers.
    let query_id = unsafe { std::mem::transmute::<*mut c_void, QueryId>(query_id) };
    Some(Way::Call(session_function()?, query_id))
}

/// A pointer at a distance from what `%fs:0` holds, which is its own address.
///
/// # Safety
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

/// The calling thread's pointer: what other threads find its session by.
pub(crate) fn thread_pointer() -> u64 {
    // SAFETY: on x86-64 the word that `%fs:0` names is the thread pointer itself, in every thread.
    (unsafe { of_thread(0) }).addr() as u64
}

/// The number; 0: the calling thread has no session, or the server does not say.
#[inline(always)]
pub(crate) fn current() -> u64 {
    match WAY.get() {
        Some(Way::Read { session, number }) => {
            // SAFETY: `read` found it where the server's own function reads it.
            match NonNull::new(unsafe { of_thread(*session) }) {
                // SAFETY: the calling thread's own session, of which the server's function reads these bytes, and nobody else
                // writes them.
                Some(session) => unsafe { session.as_ptr().byte_add(*number).cast::<u64>().read() },
                None => 0,
            }
        }
        Some(Way::Call(session, query_id)) => called(*session, *query_id),
        Some(Way::Unknown) | None => 0,
    }
}

#[cold]
#[inline(never)]
fn called(session: Session, query_id: QueryId) -> u64 {
    // SAFETY: it takes nothing and reads a thread-local.
    match NonNull::new(unsafe { session() }) {
        // SAFETY: the calling thread's own session; the function reads a field of it.
        Some(session) => unsafe { query_id(session.as_ptr()) },
        None => 0,
    }
}
