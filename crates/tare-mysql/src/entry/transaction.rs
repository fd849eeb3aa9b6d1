//! HOT PATH: transactions. The numbers of savepoints stay in the server's locker until the end.
#![allow(unsafe_code)]

pub(crate) mod inlined;

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

use tare_engine::{Savepoint, Source, ThreadHandle, Transaction, TransactionStart, Xid};
use tare_host::process::{ENGINE, guard};

use crate::abi::events::{TransactionLocker, TransactionXid};
use crate::abi::layout::layout;
use crate::server::thread::{ServerThread, current, settled};

/// The most bytes of each part of an identifier.
const PART: usize = 64;

/// The server's number of XA_STATE `NOTR`, which the engine knows by another number.
const NOT_RUNNING: c_int = 0;

/// Returns the engine's number of an XA_STATE, in which that of an active one is 0.
fn state_of(state: c_int) -> u8 {
    if state == NOT_RUNNING { u8::MAX } else { (state - 1) as u8 }
}

pub(crate) unsafe extern "C" fn get_thread_transaction_locker(
    locker: *mut TransactionLocker,
    xid: *const TransactionXid,
    trx_id: *const u64,
    isolation: c_int,
    read_only: bool,
    autocommit: bool,
) -> *mut TransactionLocker {
    if let Some(thread) = current()
        && thread.flag(layout().thread.instrumented)
        && thread.slab().is_some()
    {
        // SAFETY: the server passes null or its number.
        let start = unsafe { transaction_start(trx_id, isolation, read_only, autocommit) };
        if let Some(transaction) = ENGINE.open_transaction_fast(&start) {
            // SAFETY: the server's promise: a locker, which keeps the transaction until its end.
            begin(unsafe { &mut *locker }, thread, transaction);
            return locker;
        }
    }
    // SAFETY: the server's promise.
    unsafe { get_locker_slow(locker, xid, trx_id, isolation, read_only, autocommit) }
}

/// Returns what is known of a transaction that begins.
///
/// # Safety
///
/// The engine's number is null or can be read.
#[inline(always)]
unsafe fn transaction_start(
    trx_id: *const u64,
    isolation: c_int,
    read_only: bool,
    autocommit: bool,
) -> TransactionStart {
    // SAFETY: the caller's promise.
    let trx_id = unsafe { trx_id.as_ref() }.copied().unwrap_or(0);
    TransactionStart { trx_id, isolation: isolation as u8, read_only, autocommit }
}

// Apart, so that the others need no registers but the caller's.
#[cold]
#[inline(never)]
unsafe extern "C" fn get_locker_slow(
    locker: *mut TransactionLocker,
    _xid: *const TransactionXid,
    trx_id: *const u64,
    isolation: c_int,
    read_only: bool,
    autocommit: bool,
) -> *mut TransactionLocker {
    let Some(thread) = settled() else { return null_mut() };
    // SAFETY: the server passes null or its number.
    let start = unsafe { transaction_start(trx_id, isolation, read_only, autocommit) };
    let Some(transaction) = guard(None, || ENGINE.open_transaction(&start)) else { return null_mut() };
    // SAFETY: the server's promise: a locker, which keeps the transaction until its end.
    begin(unsafe { &mut *locker }, thread, transaction);
    locker
}

#[inline(always)]
fn begin(it: &mut TransactionLocker, thread: ServerThread, transaction: Transaction) {
    keep(it, transaction);
    it.savepoints = [0; 3];
    inlined::provide(it, thread);
    thread.word(layout().thread.event_id).store(transaction.pack().1.next_event_id(), Relaxed);
}

#[inline(always)]
fn keep(it: &mut TransactionLocker, transaction: Transaction) {
    let (state, slab, start) = transaction.pack();
    it.flags = 0;
    it.state = state;
    it.slab = slab.address();
    it.start = start;
}

/// Returns the transaction that a locker keeps.
///
/// # Safety
///
/// The locker is one that [`get_thread_transaction_locker`] has returned, and its transaction has not ended.
#[inline(always)]
unsafe fn kept(it: &TransactionLocker) -> Option<Transaction> {
    // SAFETY: the address that `keep` has stored.
    let slab = unsafe { ThreadHandle::from_address(it.slab) }?;
    // SAFETY: the values of one `pack`, of a transaction that has not ended (the caller's promise).
    Some(unsafe { Transaction::unpack(it.state, slab, it.start) })
}

/// Runs `act` on the transaction of a locker.
///
/// # Safety
///
/// See [`kept`].
unsafe fn with(locker: *mut TransactionLocker, act: impl FnOnce(&mut Transaction)) {
    // SAFETY: the caller's promise.
    let it = unsafe { &mut *locker };
    // SAFETY: as above.
    if let Some(mut transaction) = unsafe { kept(it) } {
        guard((), || act(&mut transaction));
        it.start = transaction.start();
    }
}

pub(crate) unsafe extern "C" fn start_transaction(
    locker: *mut TransactionLocker,
    file: *const c_char,
    line: c_uint,
) {
    // SAFETY: the server's promise: a locker that was returned to it.
    unsafe {
        match kept(&*locker) {
            Some(transaction) if ENGINE.start_transaction_fast(&transaction, Source::new(file, line)) => {}
            _ => start_slow(locker, file, line),
        }
    }
}

/// Starts the clock of a transaction that is not on the engine's fast path.
///
/// # Safety
///
/// See [`kept`].
#[cold]
#[inline(never)]
unsafe extern "C" fn start_slow(locker: *mut TransactionLocker, file: *const c_char, line: c_uint) {
    // SAFETY: the caller's promise.
    unsafe { with(locker, |transaction| ENGINE.start_transaction(transaction, Source::new(file, line))) };
}

pub(crate) unsafe extern "C" fn set_transaction_xid(
    locker: *mut TransactionLocker,
    xid: *const TransactionXid,
    state: c_int,
) {
    // SAFETY: the server's promise: its identifier, and a locker that was returned to it.
    unsafe {
        let Some(xid) = xid.as_ref() else { return };
        let length = |length: i64| usize::try_from(length).unwrap_or(0).min(PART);
        let (gtrid, rest) = xid.data.split_at(length(xid.gtrid_length));
        let bqual = &rest[..length(xid.bqual_length)];
        let xid = Xid { format_id: xid.format as i32, gtrid, bqual };
        with(locker, |transaction| ENGINE.set_transaction_xid(transaction, &xid, state_of(state)));
    }
}

pub(crate) unsafe extern "C" fn set_transaction_xa_state(locker: *mut TransactionLocker, state: c_int) {
    // SAFETY: the server's promise: a locker that was returned to it.
    unsafe { with(locker, |transaction| ENGINE.set_transaction_xa_state(transaction, state_of(state))) };
}

pub(crate) unsafe extern "C" fn set_transaction_trxid(locker: *mut TransactionLocker, trx_id: *const u64) {
    // SAFETY: the server's promise: its number, and a locker that was returned to it.
    unsafe {
        if let Some(trx_id) = trx_id.as_ref() {
            with(locker, |transaction| ENGINE.set_transaction_trx_id(transaction, *trx_id));
        }
    }
}

/// Does nothing: the global identifier, which the server would now look for in the session, is not shown.
pub(crate) unsafe extern "C" fn set_gtid(_session: *const c_void) {}

pub(crate) unsafe extern "C" fn end_transaction(locker: *mut TransactionLocker, commit: bool) {
    // SAFETY: the server's promise: a locker that was returned to it, once.
    unsafe {
        if inlined::is_told(&*locker) {
            inlined::catch_up(locker);
        }
    }
    // SAFETY: as above.
    let it = unsafe { &*locker };
    if it.savepoints == [0; 3]
        // SAFETY: as above.
        && let Some(transaction) = unsafe { kept(it) }
        && ENGINE.end_transaction_fast(&transaction, commit)
    {
        return;
    }
    // SAFETY: as above.
    unsafe { end_further(locker, commit) };
}

/// Ends a transaction that is not recorded on the engine's fast path.
///
/// # Safety
///
/// See [`kept`].
#[inline(never)]
unsafe extern "C" fn end_further(locker: *mut TransactionLocker, commit: bool) {
    // SAFETY: the caller's promise.
    let it = unsafe { &*locker };
    // SAFETY: as above.
    let Some(transaction) = (unsafe { kept(it) }) else { return };
    if it.savepoints != [0; 3] {
        add_savepoints(it, &transaction);
    }
    if !ENGINE.end_unrecorded_transaction_fast(&transaction) {
        guard((), || ENGINE.end_transaction(&transaction, commit));
    }
}

#[cold]
#[inline(never)]
fn add_savepoints(it: &TransactionLocker, transaction: &Transaction) {
    let kinds = [Savepoint::Set, Savepoint::RollbackTo, Savepoint::Release];
    guard((), || {
        for (kind, number) in kinds.into_iter().zip(it.savepoints) {
            ENGINE.add_savepoints(transaction, kind, number);
        }
    });
}
