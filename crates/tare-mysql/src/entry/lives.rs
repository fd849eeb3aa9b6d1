//! What else the server tells: the account of a thread, its end, and changes of settings. The built-in's
//! functions do their work as well.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

use tare_host::process::guard;

use crate::original::Original;
use crate::server::thread::ServerThread;
use crate::server::{consumers, events, instruments, memory, presence, threads};

/// The built-in's functions of the same names.
pub(crate) static DESTROY_THREAD: Original = Original::new();
/// See [`DESTROY_THREAD`].
pub(crate) static SET_ACCOUNT: Original = Original::new();
/// See [`DESTROY_THREAD`].
pub(crate) static SET_USER: Original = Original::new();
/// The built-in's functions that update a row of `setup_consumers` and of `threads`.
pub(crate) static UPDATE_CONSUMER: Original = Original::new();
/// The built-in's function that updates a row of `setup_instruments`.
pub(crate) static UPDATE_INSTRUMENT: Original = Original::new();
/// See [`UPDATE_CONSUMER`].
pub(crate) static UPDATE_THREAD: Original = Original::new();

/// The built-in's function that frees a page of its accounts: at the server's end, or when there is no
/// memory.
pub(crate) static FREE_ACCOUNTS: Original = Original::new();

/// The type of the functions that update a row.
type Update = unsafe extern "C" fn(*mut c_void, *mut c_void, *const u8, *mut u8, *mut *mut c_void) -> c_int;

pub(crate) unsafe extern "C" fn destroy_thread(thread: *mut c_void) {
    guard((), || {
        if let Some(thread) = ServerThread::at(thread) {
            threads::end(thread);
        }
    });
    // SAFETY: the function's own type and argument.
    unsafe { DESTROY_THREAD.function::<unsafe extern "C" fn(*mut c_void)>()(thread) }
}

pub(crate) unsafe extern "C" fn free_accounts(of: *mut c_void, page: *mut c_void) {
    guard((), presence::end);
    // SAFETY: the function's own type and arguments.
    unsafe { FREE_ACCOUNTS.function::<unsafe extern "C" fn(*mut c_void, *mut c_void)>()(of, page) }
}

/// Returns the bytes of a text; empty for null or a negative length.
///
/// # Safety
///
/// The server's promise: a text of this length that stays valid during `'a`.
unsafe fn bytes<'a>(text: *const c_char, length: c_int) -> &'a [u8] {
    match usize::try_from(length) {
        // SAFETY: the caller's promise.
        Ok(length) if !text.is_null() => unsafe { std::slice::from_raw_parts(text.cast(), length) },
        _ => &[],
    }
}

pub(crate) unsafe extern "C" fn set_account(
    user: *const c_char,
    user_length: c_int,
    host: *const c_char,
    host_length: c_int,
) {
    // SAFETY: the server's promise.
    guard((), || unsafe { threads::set_account(bytes(user, user_length), bytes(host, host_length)) });
    // SAFETY: the function's own type and arguments.
    unsafe {
        SET_ACCOUNT.function::<unsafe extern "C" fn(*const c_char, c_int, *const c_char, c_int)>()(
            user,
            user_length,
            host,
            host_length,
        );
    }
}

pub(crate) unsafe extern "C" fn set_user(user: *const c_char, length: c_int) {
    // SAFETY: the server's promise.
    guard((), || unsafe { threads::set_user(bytes(user, length)) });
    // SAFETY: the function's own type and arguments.
    unsafe { SET_USER.function::<unsafe extern "C" fn(*const c_char, c_int)>()(user, length) }
}

/// Makes a function that updates a row as the built-in's does, and then has the engine follow.
macro_rules! updates {
    ($($name:ident, $original:ident, $follow:path;)*) => {$(
        pub(crate) unsafe extern "C" fn $name(
            table: *mut c_void,
            server_table: *mut c_void,
            old: *const u8,
            new: *mut u8,
            fields: *mut *mut c_void,
        ) -> c_int {
            // SAFETY: the function's own type and arguments.
            let rc = unsafe { $original.function::<Update>()(table, server_table, old, new, fields) };
            guard((), $follow);
            rc
        }
    )*};
}

fn follow_instruments() {
    instruments::follow();
    events::follow();
    memory::follow();
}

updates! {
    update_consumer, UPDATE_CONSUMER, consumers::follow;
    update_instrument, UPDATE_INSTRUMENT, follow_instruments;
    update_thread, UPDATE_THREAD, threads::follow_histories;
}
