//! Character sets: `CHARSET_INFO *` to its number.
#![allow(unsafe_code)]

use std::ffi::c_void;

/// The collation's number, as `sql_digest_storage` and SQL text carry it; 0 for NULL.
///
/// # Safety
/// `charset` is NULL or a `CHARSET_INFO` of the server's (they live as long as it does).
pub unsafe fn number(charset: *const c_void) -> u32 {
    if charset.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise; `number` is the first member (debug information of 10.11.5 and 11.4.5; the
    // built-in of 10.11.19 and 11.8.9 reads four bytes at offset 0 in get_thread_statement_locker).
    unsafe { charset.cast::<u32>().read() }
}
