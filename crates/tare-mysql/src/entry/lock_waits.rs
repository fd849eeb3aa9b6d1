//! What storage engines say before and after they wait: for a lock of theirs, among others. The server's
//! functions only pass it on to a thread pool, if there is one; so do these.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use crate::abi::TRX_SESSION;
use crate::server::lock_waits;
use crate::server::thread::current;

/// A thread pool's functions for waits (the beginning of `THD_event_functions`).
#[repr(C)]
#[derive(Debug)]
pub(crate) struct PoolFunctions {
    begin: Option<unsafe extern "C" fn(*mut c_void, c_int)>,
    end: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// Where the server keeps the address of the thread pool's functions; null: there is none. Set before any
/// call is led here.
pub(crate) static POOL: OnceLock<&'static AtomicPtr<PoolFunctions>> = OnceLock::new();

/// The type of `thd_to_trx`: where a session has its transaction of InnoDB's.
pub(crate) type Transaction = unsafe extern "C" fn(*mut c_void) -> *const *const u8;

/// The server's `thd_to_trx`; none: for whom a session waits is not told.
pub(crate) static TRANSACTION: OnceLock<Transaction> = OnceLock::new();

/// The kinds of waits (`THD_WAIT_*`) for a lock on a row, and on a table within a storage engine. In the
/// machine code of 9.7.4 only InnoDB's `lock_wait_suspend_thread` passes them.
const ROW_LOCK: c_int = 3;
const TABLE_LOCK: c_int = 6;

fn pool() -> Option<&'static PoolFunctions> {
    // SAFETY: the server's pointer: null, or functions that stay while a thread pool is there.
    unsafe { POOL.get()?.load(Relaxed).as_ref() }
}

/// Returns the address of the transaction in which a session waits; 0: unknown.
///
/// # Safety
///
/// The server's: the session is null or that of the calling thread, which is in the midst of a wait of
/// InnoDB's.
unsafe fn transaction(session: *mut c_void) -> usize {
    let Some(transaction) = TRANSACTION.get().filter(|_| !session.is_null()) else { return 0 };
    // SAFETY: the session has a transaction of InnoDB's (the caller's promise), so the function only finds
    // it.
    let found = unsafe { *transaction(session) };
    if found.is_null() {
        return 0;
    }
    // SAFETY: as above: the transaction is the calling thread's, and has its session at this place
    // (`startup::checks`).
    let of = unsafe { found.byte_add(TRX_SESSION).cast::<*mut c_void>().read() };
    if of == session { found.expose_provenance() } else { 0 }
}

pub(crate) unsafe extern "C" fn thd_wait_begin(session: *mut c_void, kind: c_int) {
    if matches!(kind, ROW_LOCK | TABLE_LOCK)
        && let Some(thread) = current()
    {
        // SAFETY: only InnoDB passes these kinds, of the session that waits.
        lock_waits::begin(thread, unsafe { transaction(session) });
    }
    if let Some(begin) = pool().and_then(|pool| pool.begin) {
        // SAFETY: the pool's function of this type, with the server's arguments.
        unsafe { begin(session, kind) }
    }
}

pub(crate) unsafe extern "C" fn thd_wait_end(session: *mut c_void) {
    if let Some(thread) = current() {
        lock_waits::end(thread);
    }
    if let Some(end) = pool().and_then(|pool| pool.end) {
        // SAFETY: the pool's function of this type, with the server's argument.
        unsafe { end(session) }
    }
}
