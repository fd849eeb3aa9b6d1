//! Warnings to the calling session: `push_warning` is exported, and so is the function that finds the
//! session.
//!
//! The mangled name is the same on all four servers and carries the signature: a session, a level, a number
//! and a text, which is copied into the session's own list.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

use tare_host::process::symbol;

/// `Sql_state_errno_level::WARN_LEVEL_WARN`.
const WARNING: c_int = 1;

pub(super) type CurrentThdFn = unsafe extern "C" fn() -> *mut c_void;
type Push = unsafe extern "C" fn(*mut c_void, c_int, c_uint, *const c_char);

/// Returns the function that warns a session, if the server exports it.
fn push_warning() -> Option<Push> {
    static PUSH: OnceLock<Option<Push>> = OnceLock::new();
    *PUSH.get_or_init(|| {
        let push = symbol(c"_Z12push_warningP3THDN21Sql_state_errno_level18enum_warning_levelEjPKc")?;
        // SAFETY: the mangled name says what it takes; it returns nothing.
        Some(unsafe { std::mem::transmute::<*mut c_void, Push>(push) })
    })
}

/// Returns the calling thread's session, if it has one and the server exports the function that finds it.
pub(super) fn session() -> Option<NonNull<c_void>> {
    let session = session_function()?;
    // SAFETY: the function takes nothing and reads a thread-local.
    NonNull::new(unsafe { session() })
}

/// Returns the function that finds the calling thread's session, if the server exports it.
pub(super) fn session_function() -> Option<CurrentThdFn> {
    static SESSION: OnceLock<Option<CurrentThdFn>> = OnceLock::new();
    *SESSION.get_or_init(|| {
        let session = symbol(c"_current_thd")?;
        // SAFETY: a C function without arguments that returns the calling thread's session or null: plugins
        // call it.
        Some(unsafe { std::mem::transmute::<*mut c_void, CurrentThdFn>(session) })
    })
}

/// Warns the calling thread's session, if it has one. Call it where the server itself may warn: on a thread
/// that runs a statement.
pub(crate) fn push(number: u32, text: &CStr) {
    if let (Some(push), Some(session)) = (push_warning(), session()) {
        // SAFETY: the calling thread's own session; the text ends with a zero and is copied.
        unsafe { push(session.as_ptr(), WARNING, number, text.as_ptr()) };
    }
}
