//! The server's number of the statement that a session runs, which SHOW PROCESSLIST and the server's logs show, too: two
//! functions that plugins may call find it.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::OnceLock;

use super::warning::session;
use crate::startup::symbol;

type QueryId = unsafe extern "C" fn(*const c_void) -> u64;

static QUERY_ID: OnceLock<Option<QueryId>> = OnceLock::new();

/// Looks for the functions; before anybody asks for a number.
pub(crate) fn resolve() {
    let _first_one_stays = QUERY_ID.set(symbol(c"thd_query_id").map(|function| {
        // SAFETY: a C function that takes a session and returns a 64-bit number, on all supported servers.
        unsafe { std::mem::transmute::<*mut c_void, QueryId>(function) }
    }));
    // This one is found at the first question.
    session();
}

/// The number of the calling thread's statement; 0: it has none, or the server does not export it.
pub(crate) fn current() -> u64 {
    match (QUERY_ID.get(), session()) {
        // SAFETY: the calling thread's own session; the function reads a field of it.
        (Some(Some(function)), Some(session)) => unsafe { function(session.as_ptr()) },
        _ => 0,
    }
}
