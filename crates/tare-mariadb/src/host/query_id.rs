//! The server's number of the statement that a session runs, which SHOW PROCESSLIST and the server's logs show, too: two
//! functions that plugins may call find it.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::OnceLock;

use super::warning::{Session, session_function};
use crate::startup::symbol;

type QueryId = unsafe extern "C" fn(*const c_void) -> u64;

/// What finds the calling thread's session, and its statement's number: behind one another, to be at hand together.
static FUNCTIONS: OnceLock<Option<(Session, QueryId)>> = OnceLock::new();

/// Looks for the functions; before anybody asks for a number.
pub(crate) fn resolve() {
    let query_id = symbol(c"thd_query_id").map(|function| {
        // SAFETY: a C function that takes a session and returns a 64-bit number, on all supported servers.
        unsafe { std::mem::transmute::<*mut c_void, QueryId>(function) }
    });
    let _first_one_stays = FUNCTIONS.set(session_function().zip(query_id));
}

/// The number of the calling thread's statement; 0: it has none, or the server does not export it.
pub(crate) fn current() -> u64 {
    let Some(Some((session, query_id))) = FUNCTIONS.get() else { return 0 };
    // SAFETY: it takes nothing and reads a thread-local.
    match NonNull::new(unsafe { session() }) {
        // SAFETY: the calling thread's own session; the function reads a field of it.
        Some(session) => unsafe { query_id(session.as_ptr()) },
        None => 0,
    }
}
