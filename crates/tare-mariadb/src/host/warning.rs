//! Warnings of the asking session: `push_warning` is exported, and so is what finds the session.
//!
//! The same mangled name on all four servers; it carries the signature: a session, a level, a number and a text, which
//! is copied into the session's own list.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use crate::startup::symbol;

/// `Sql_state_errno_level::WARN_LEVEL_WARN`.
const WARNING: c_int = 1;

type Session = unsafe extern "C" fn() -> *mut c_void;
type Push = unsafe extern "C" fn(*mut c_void, c_int, c_uint, *const c_char);

/// What finds a session and what warns it, where the server exports both.
fn functions() -> Option<(Session, Push)> {
    static FUNCTIONS: OnceLock<Option<(Session, Push)>> = OnceLock::new();
    *FUNCTIONS.get_or_init(|| {
        let session = symbol(c"_current_thd")?;
        let push = symbol(c"_Z12push_warningP3THDN21Sql_state_errno_level18enum_warning_levelEjPKc")?;
        // SAFETY: a C function without arguments that returns the calling thread's session or null: plugins call it.
        let session = unsafe { std::mem::transmute::<*mut c_void, Session>(session) };
        // SAFETY: the mangled name says what it takes; it returns nothing.
        let push = unsafe { std::mem::transmute::<*mut c_void, Push>(push) };
        Some((session, push))
    })
}

/// Warns the calling thread's session, if it has one. To be called where the server itself may warn: by a thread that
/// runs a statement.
pub(crate) fn push(number: u32, text: &CStr) {
    let Some((session, push)) = functions() else { return };
    // SAFETY: it takes nothing and reads a thread-local.
    let session = unsafe { session() };
    if !session.is_null() {
        // SAFETY: the calling thread's own session; the text ends with a zero and is copied.
        unsafe { push(session, WARNING, number, text.as_ptr()) };
    }
}
