//! HOT PATH: what the server tells of a distributed transaction by functions that a compiler has made part of
//! their callers, so that no call leads here. They write it into the built-in's record of the transaction,
//! where it is found when the transaction ends.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, Ordering::Relaxed};

use super::{set_transaction_xa_state, set_transaction_xid};
use crate::abi::events::{EVENT, TransactionLocker, TransactionXid};
use crate::abi::layout::layout;
use crate::server::thread::ServerThread;

/// XID_FORMAT_ID of no identifier.
const NO_XID: i64 = -1;

/// Whether the server tells identifiers by no call.
static WITHOUT_CALLS: AtomicBool = AtomicBool::new(false);

/// Notes that the server tells identifiers and states of distributed transactions by no call.
pub(crate) fn set_without_calls() {
    WITHOUT_CALLS.store(true, Relaxed);
}

/// Gives a transaction of the calling thread, which begins, a record to be written into.
#[inline(always)]
pub(super) fn provide(it: &mut TransactionLocker, thread: ServerThread) {
    if WITHOUT_CALLS.load(Relaxed) {
        let at = &layout().transaction;
        let record = thread.address().wrapping_byte_add(at.record);
        // SAFETY: a thread of the built-in's has a record with these members (`startup::checks`), and is
        // never unmapped. Nobody writes there but the thread that runs the transaction.
        unsafe {
            (*record.byte_add(at.is_told).cast::<AtomicU8>()).store(0, Relaxed);
            (*record.byte_add(at.xid).cast::<AtomicI64>()).store(NO_XID, Relaxed);
        }
        (it.flags, it.event) = (EVENT, record);
    }
}

/// Returns whether something was told of a transaction.
///
/// # Safety
///
/// A locker that [`provide`] was called with, of a transaction that has not ended.
#[inline(always)]
pub(super) unsafe fn is_told(it: &TransactionLocker) -> bool {
    let is_told = layout().transaction.is_told;
    // SAFETY: the record of `provide`.
    it.flags & EVENT != 0 && unsafe { (*it.event.byte_add(is_told).cast::<AtomicU8>()).load(Relaxed) } != 0
}

/// Notes what was told of a transaction.
///
/// # Safety
///
/// A locker of which [`is_told`] has returned true, and whose transaction has not ended.
#[cold]
#[inline(never)]
pub(super) unsafe fn catch_up(locker: *mut TransactionLocker) {
    let at = &layout().transaction;
    // SAFETY: the record of `provide`, and a locker whose transaction has not ended (the caller's promise).
    unsafe {
        let record = (*locker).event;
        let state = (*record.byte_add(at.xa_state).cast::<AtomicU32>()).load(Relaxed).cast_signed();
        let xid = record.byte_add(at.xid).cast::<TransactionXid>();
        match (*xid).format {
            NO_XID => set_transaction_xa_state(locker, state),
            _ => set_transaction_xid(locker, xid, state),
        }
        (*record.byte_add(at.is_told).cast::<AtomicU8>()).store(0, Relaxed);
    }
}
