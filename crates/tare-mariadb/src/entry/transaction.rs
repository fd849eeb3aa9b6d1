//! HOT PATH: transactions.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_ulonglong, c_void};
use std::hint::cold_path;
use std::ptr::null_mut;

use tare_engine::{Savepoint, Source, Transaction, TransactionStart};
use tare_host::process::ENGINE;
use tare_host::process::guard;

use super::facts;
use super::pointer::{begun_transaction, state, value};
use crate::abi::types::{TransactionLocker, TransactionLockerState};

/// Returns what the server reports about a starting transaction.
#[inline(always)]
fn start_of(
    trx_id: c_ulonglong,
    isolation: c_int,
    read_only: c_char,
    autocommit: c_char,
) -> TransactionStart {
    TransactionStart {
        trx_id,
        isolation: isolation as u8,
        read_only: read_only != 0,
        autocommit: autocommit != 0,
    }
}

#[inline(always)]
fn keep(
    state: *mut TransactionLockerState,
    transaction: Transaction,
    xid: *const c_void,
) -> *mut TransactionLocker {
    let Some(kept) = state!(state, TransactionLockerState) else { return null_mut() };
    let (flags, thread, start) = transaction.pack();
    kept.flags = flags;
    kept.thread = thread.address().cast();
    kept.timer_start = start;
    if !facts::is_made_up(xid) {
        cold_path();
        return with_xid(state, xid);
    }
    state.cast()
}

pub(super) unsafe extern "C" fn get_thread_transaction_locker(
    state: *mut TransactionLockerState,
    xid: *const c_void,
    trx_id: c_ulonglong,
    isolation: c_int,
    read_only: c_char,
    autocommit: c_char,
) -> *mut TransactionLocker {
    match ENGINE.open_transaction_fast(&start_of(trx_id, isolation, read_only, autocommit)) {
        Some(transaction) => keep(state, transaction, xid),
        None => open_transaction_slow(state, xid, trx_id, isolation, read_only, autocommit),
    }
}

#[cold]
#[inline(never)]
extern "C" fn open_transaction_slow(
    state: *mut TransactionLockerState,
    xid: *const c_void,
    trx_id: c_ulonglong,
    isolation: c_int,
    read_only: c_char,
    autocommit: c_char,
) -> *mut TransactionLocker {
    guard(null_mut(), || {
        let transaction = ENGINE.open_transaction(&start_of(trx_id, isolation, read_only, autocommit));
        transaction.map_or(null_mut(), |transaction| keep(state, transaction, xid))
    })
}

/// Notes the identifier of a transaction that the server did not make up.
#[cold]
#[inline(never)]
extern "C" fn with_xid(state: *mut TransactionLockerState, xid: *const c_void) -> *mut TransactionLocker {
    with(state.cast(), |transaction, _| {
        if let Some(xid) = facts::xid(xid) {
            ENGINE.note_transaction_xid(transaction, &xid);
        }
    });
    state.cast()
}

/// Runs `act` on the transaction of a locker.
#[inline(always)]
fn with(locker: *mut TransactionLocker, act: impl FnOnce(&mut Transaction, &mut TransactionLockerState)) {
    guard((), || {
        let Some(state) = state!(locker, TransactionLockerState) else { return };
        act(&mut begun_transaction!(state), state);
    });
}

pub(super) unsafe extern "C" fn start_transaction(
    locker: *mut TransactionLocker,
    file: *const c_char,
    line: c_uint,
) {
    let Some(state) = state!(locker, TransactionLockerState) else { return };
    if !ENGINE.start_transaction_fast(&begun_transaction!(state), Source::new(file, line)) {
        start_transaction_slow(locker, file, line);
    }
}

#[cold]
#[inline(never)]
extern "C" fn start_transaction_slow(locker: *mut TransactionLocker, file: *const c_char, line: c_uint) {
    with(locker, |transaction, state| {
        ENGINE.start_transaction(transaction, Source::new(file, line));
        state.timer_start = transaction.start();
    });
}

pub(super) unsafe extern "C" fn set_transaction_xid(
    locker: *mut TransactionLocker,
    xid: *const c_void,
    xa_state: c_int,
) {
    with(locker, |transaction, _| {
        if let Some(xid) = facts::xid(xid) {
            ENGINE.set_transaction_xid(transaction, &xid, xa_state as u8);
        }
    });
}

pub(super) unsafe extern "C" fn set_transaction_xa_state(locker: *mut TransactionLocker, xa_state: c_int) {
    with(locker, |transaction, _| ENGINE.set_transaction_xa_state(transaction, xa_state as u8));
}

pub(super) unsafe extern "C" fn set_transaction_gtid(
    locker: *mut TransactionLocker,
    _sid: *const c_void,
    gtid: *const c_void,
) {
    with(locker, |transaction, _| {
        let gtid = facts::gtid(gtid);
        ENGINE.set_transaction_gtid(transaction, gtid.domain, gtid.server, gtid.sequence);
    });
}

pub(super) unsafe extern "C" fn set_transaction_trxid(
    locker: *mut TransactionLocker,
    trx_id: *const c_ulonglong,
) {
    with(locker, |transaction, _| {
        if let Some(trx_id) = value!(trx_id) {
            ENGINE.set_transaction_trx_id(transaction, trx_id);
        }
    });
}

pub(super) unsafe extern "C" fn inc_transaction_savepoints(locker: *mut TransactionLocker, count: c_ulong) {
    with(locker, |transaction, _| ENGINE.add_savepoints(transaction, Savepoint::Set, count));
}

pub(super) unsafe extern "C" fn inc_transaction_rollback_to_savepoint(
    locker: *mut TransactionLocker,
    count: c_ulong,
) {
    with(locker, |transaction, _| ENGINE.add_savepoints(transaction, Savepoint::RollbackTo, count));
}

pub(super) unsafe extern "C" fn inc_transaction_release_savepoint(
    locker: *mut TransactionLocker,
    count: c_ulong,
) {
    with(locker, |transaction, _| ENGINE.add_savepoints(transaction, Savepoint::Release, count));
}

pub(super) unsafe extern "C" fn end_transaction(locker: *mut TransactionLocker, commit: c_char) {
    let Some(state) = state!(locker, TransactionLockerState) else { return };
    if !ENGINE.end_transaction_fast(&begun_transaction!(state), commit != 0) {
        end_unrecorded_transaction(locker, commit);
    }
}

/// Ends a transaction that is not recorded.
#[inline(never)]
extern "C" fn end_unrecorded_transaction(locker: *mut TransactionLocker, commit: c_char) {
    let Some(state) = state!(locker, TransactionLockerState) else { return };
    if !ENGINE.end_unrecorded_transaction_fast(&begun_transaction!(state)) {
        end_transaction_slow(locker, commit);
    }
}

#[cold]
#[inline(never)]
extern "C" fn end_transaction_slow(locker: *mut TransactionLocker, commit: c_char) {
    with(locker, |transaction, _| ENGINE.end_transaction(transaction, commit != 0));
}
