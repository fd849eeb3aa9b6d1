//! HOT PATH: tables: shares, open tables, table I/O in batches, table locks.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_ulonglong, c_void};
use std::ptr::null_mut;

use tare_engine::snapshot::Kind;
use tare_engine::{
    Source, Start, TableHandleHandle, TableName, TableShareHandle, TableShareRef, Wait, fixed,
};
use tare_host::process::ENGINE;
use tare_host::process::guard;

use super::SCHEMA;
use super::facts;
use super::pointer::{begun, bytes, instance, keep, known, state};
use crate::abi::types::{ServerTableShare, Table, TableLocker, TableLockerState, TableShare};
use crate::host::names::TableLock;
use crate::host::share::OpenShare;

/// The server's `PSI_TABLE_EXTERNAL_LOCK`.
const EXTERNAL: c_uint = 1;

pub(super) unsafe extern "C" fn get_table_share(
    temporary: c_char,
    share: *mut ServerTableShare,
) -> *mut TableShare {
    guard(null_mut(), || {
        if temporary != 0 {
            return null_mut();
        }
        let Some(names) = facts::table_share(share).filter(|names| !names.is_view) else {
            return null_mut();
        };
        if names.schema == SCHEMA {
            facts::keep_from_binary_log(share);
        }
        known_share(&names).map_or(null_mut(), |share| share.address().cast())
    })
}

/// Returns the engine's share of a table, for instrumented threads only.
fn known_share(names: &OpenShare<'_>) -> Option<TableShareRef> {
    ENGINE.current_thread()?;
    let table = TableName { temporary: false, schema: names.schema, name: names.table };
    ENGINE.table_share(&table, names.keys())
}

/// Does nothing: a table is known until it is dropped.
pub(super) unsafe extern "C" fn release_table_share(_share: *mut TableShare) {}

pub(super) unsafe extern "C" fn drop_table_share(
    temporary: c_char,
    schema: *const c_char,
    schema_len: c_int,
    table: *const c_char,
    table_len: c_int,
) {
    guard((), || {
        if temporary == 0 {
            let (schema, name) = (bytes!(schema, schema_len), bytes!(table, table_len));
            ENGINE.drop_table_share(&TableName { temporary: false, schema, name });
        }
    });
}

/// Returns whether there is demand for any event of tables. If not, the server gets no handles, as with the
/// built-in, and makes no calls about what it does with them until a statement uses the tables again. For
/// tare's own tables it always gets one, because their use is observed.
#[inline(always)]
fn has_demand_for_tables() -> bool {
    ENGINE.has_demand(Kind::TableIo) | ENGINE.has_demand(Kind::TableLock)
}

/// Opens a table. The server makes a share visible to other sessions before it asks for the engine's
/// ([`get_table_share`]). A session that opens the table in between has no share, so the table is found
/// through the handler.
pub(super) unsafe extern "C" fn open_table(share: *mut TableShare, identity: *const c_void) -> *mut Table {
    // This is done even if the share has no place in the engine.
    guard((), || facts::settle_handler(identity, SCHEMA));
    guard(null_mut(), || {
        let share = instance!(TableShareHandle, share)
            .or_else(|| known_share(&facts::cached_share(identity).filter(|names| !names.is_view)?));
        opened(share, identity)
    })
}

fn opened(share: Option<TableShareRef>, identity: *const c_void) -> *mut Table {
    let share = share.filter(|share| has_demand_for_tables() || ENGINE.share_is_in_schema(share, SCHEMA));
    let table = share.and_then(|share| ENGINE.open_table(share, identity.addr()));
    table.map_or(null_mut(), |table| table.address().cast())
}

pub(super) unsafe extern "C" fn unbind_table(table: *mut Table) {
    guard((), || {
        if let Some(table) = instance!(TableHandleHandle, table) {
            ENGINE.unbind_table(table);
        }
    });
}

pub(super) unsafe extern "C" fn rebind_table(
    share: *mut TableShare,
    identity: *const c_void,
    table: *mut Table,
) -> *mut Table {
    if table.is_null() && !has_demand_for_tables() {
        return table;
    }
    guard(table, || match instance!(TableHandleHandle, table) {
        Some(known) if has_demand_for_tables() || ENGINE.is_in_schema(known, SCHEMA) => {
            ENGINE.rebind_table(known, identity.addr());
            table
        }
        Some(unwanted) => {
            ENGINE.close_table(unwanted);
            null_mut()
        }
        // Each statement comes here, so the table of a share without a place is not searched again.
        None => opened(instance!(TableShareHandle, share), identity),
    })
}

pub(super) unsafe extern "C" fn close_table(_share: *mut ServerTableShare, table: *mut Table) {
    guard((), || {
        if let Some(table) = instance!(TableHandleHandle, table) {
            ENGINE.close_table(table);
        }
    });
}

/// Stores a wait for a table, which is not null.
#[inline(always)]
fn keep(state: *mut TableLockerState, wait: Wait, table: *mut Table, index: c_uint) -> *mut TableLocker {
    let Some(kept) = state!(state, TableLockerState) else { return null_mut() };
    keep!(kept, wait);
    kept.table = table;
    kept.index = index;
    state.cast()
}

/// Stores a wait for table I/O.
#[inline(always)]
fn keep_io(
    state: *mut TableLockerState,
    wait: Wait,
    table: *mut Table,
    op: c_uint,
    index: c_uint,
) -> *mut TableLocker {
    if let Some(kept) = state!(state, TableLockerState) {
        kept.io_operation = op;
    }
    keep(state, wait, table, index)
}

pub(super) unsafe extern "C" fn start_table_io_wait(
    state: *mut TableLockerState,
    table: *mut Table,
    op: c_uint,
    index: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut TableLocker {
    let Some(instance) = instance!(TableHandleHandle, table) else { return null_mut() };
    let source = Source::new(file, line);
    match ENGINE.start_table_io_wait_fast(instance, op as u8, index as usize, source) {
        Start::Began(wait) => keep_io(state, wait, table, op, index),
        Start::Off => null_mut(),
        Start::Slow => start_table_io_wait_slow(state, table, op, index, file, line),
    }
}

/// The `start_table_io_wait` slot while table I/O is sampled; a skipped statement only counts it.
pub(super) unsafe extern "C" fn sample_table_io_wait(
    state: *mut TableLockerState,
    table: *mut Table,
    op: c_uint,
    index: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut TableLocker {
    if ENGINE.skips() {
        let Some(instance) = instance!(TableHandleHandle, table) else { return null_mut() };
        let wait = ENGINE.start_tallied_table_io(instance, op as u8, index as usize);
        return wait.map_or(null_mut(), |wait| keep_io(state, wait, table, op, index));
    }
    // SAFETY: the caller's promise.
    unsafe { start_table_io_wait(state, table, op, index, file, line) }
}

/// The `end_table_io_wait` slot while table I/O is sampled.
pub(super) unsafe extern "C" fn end_sampled_table_io_wait(locker: *mut TableLocker, rows: c_ulonglong) {
    let Some(state) = state!(locker, TableLockerState) else { return };
    let (wait, table) = (begun!(state), known!(TableHandleHandle, state.table));
    let (operation, index) = (state.io_operation as u8, state.index as usize);
    if !ENGINE.end_tallied_table_io_fast(table, &wait, operation, index, rows) {
        // SAFETY: the caller's promise.
        unsafe { end_table_io_wait(locker, rows) };
    }
}

#[cold]
#[inline(never)]
extern "C" fn start_table_io_wait_slow(
    state: *mut TableLockerState,
    table: *mut Table,
    op: c_uint,
    index: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut TableLocker {
    guard(null_mut(), || {
        let Some(instance) = instance!(TableHandleHandle, table) else { return null_mut() };
        let source = Source::new(file, line);
        let wait = ENGINE.start_table_io_wait(instance, op as u8, index as usize, source);
        wait.map_or(null_mut(), |wait| keep_io(state, wait, table, op, index))
    })
}

pub(super) unsafe extern "C" fn end_table_io_wait(locker: *mut TableLocker, rows: c_ulonglong) {
    let Some(state) = state!(locker, TableLockerState) else { return };
    let (wait, table) = (begun!(state), known!(TableHandleHandle, state.table));
    let (operation, index) = (state.io_operation as u8, state.index as usize);
    if !ENGINE.end_table_io_wait_fast(table, &wait, operation, index, rows) {
        end_table_io_wait_slow(locker, rows);
    }
}

#[cold]
#[inline(never)]
extern "C" fn end_table_io_wait_slow(locker: *mut TableLocker, rows: c_ulonglong) {
    guard((), || {
        let Some(state) = state!(locker, TableLockerState) else { return };
        let (operation, index) = (state.io_operation as u8, state.index as usize);
        let table = known!(TableHandleHandle, state.table);
        ENGINE.end_table_io_wait(table, &begun!(state), operation, index, rows);
    });
}

pub(super) unsafe extern "C" fn start_table_lock_wait(
    state: *mut TableLockerState,
    table: *mut Table,
    op: c_uint,
    flags: c_ulong,
    file: *const c_char,
    line: c_uint,
) -> *mut TableLocker {
    let Some(instance) = instance!(TableHandleHandle, table) else { return null_mut() };
    if facts::table_lock(op, flags).is_some() {
        return start_lock(state, table, op, flags, file, line);
    }
    // Releasing a lock has no wait.
    ENGINE.set_table_lock(instance, op == EXTERNAL, None);
    null_mut()
}

#[inline(never)]
extern "C" fn start_lock(
    state: *mut TableLockerState,
    table: *mut Table,
    op: c_uint,
    flags: c_ulong,
    file: *const c_char,
    line: c_uint,
) -> *mut TableLocker {
    let Some(instance) = instance!(TableHandleHandle, table) else { return null_mut() };
    // A call that releases a lock does not get here, so the default is never used.
    let kind = facts::table_lock(op, flags).unwrap_or(TableLock::WriteExternal as u8);
    ENGINE.set_table_lock(instance, op == EXTERNAL, Some(kind));
    if ENGINE.skips_class(fixed::TABLE_LOCK) {
        return null_mut();
    }
    match ENGINE.start_table_lock_wait_fast(instance, kind, Source::new(file, line)) {
        Start::Began(wait) => keep(state, wait, table, kind.into()),
        Start::Off => null_mut(),
        Start::Slow => start_table_lock_wait_slow(state, table, kind.into(), file, line),
    }
}

#[cold]
#[inline(never)]
extern "C" fn start_table_lock_wait_slow(
    state: *mut TableLockerState,
    table: *mut Table,
    kind: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut TableLocker {
    guard(null_mut(), || {
        let Some(instance) = instance!(TableHandleHandle, table) else { return null_mut() };
        let wait = ENGINE.start_table_lock_wait(instance, kind as u8, Source::new(file, line));
        wait.map_or(null_mut(), |wait| keep(state, wait, table, kind))
    })
}

/// Starts a table lock wait and excludes statements that use tare's tables: a table that a transaction locked
/// before gets no metadata lock again.
pub(super) unsafe extern "C" fn start_looked_at_table_lock_wait(
    state: *mut TableLockerState,
    table: *mut Table,
    op: c_uint,
    flags: c_ulong,
    file: *const c_char,
    line: c_uint,
) -> *mut TableLocker {
    guard((), || {
        if op == EXTERNAL
            && ENGINE.is_in_statement()
            && let Some(instance) = instance!(TableHandleHandle, table)
            && facts::table_lock(op, flags).is_some()
            && ENGINE.is_in_schema(instance, SCHEMA)
        {
            ENGINE.exclude_statement();
        }
    });
    // SAFETY: the same arguments under the same promises.
    unsafe { start_table_lock_wait(state, table, op, flags, file, line) }
}

pub(super) unsafe extern "C" fn end_table_lock_wait(locker: *mut TableLocker) {
    let Some(state) = state!(locker, TableLockerState) else { return };
    let (wait, table) = (begun!(state), known!(TableHandleHandle, state.table));
    if !ENGINE.end_table_lock_wait_fast(table, &wait, state.index as u8) {
        end_table_lock_wait_slow(locker);
    }
}

#[cold]
#[inline(never)]
extern "C" fn end_table_lock_wait_slow(locker: *mut TableLocker) {
    guard((), || {
        let Some(state) = state!(locker, TableLockerState) else { return };
        let table = known!(TableHandleHandle, state.table);
        ENGINE.end_table_lock_wait(table, &begun!(state), state.index as u8);
    });
}

pub(super) unsafe extern "C" fn unlock_table(table: *mut Table) {
    guard((), || {
        if let Some(table) = instance!(TableHandleHandle, table) {
            ENGINE.set_table_lock(table, false, None);
        }
    });
}
