//! HOT PATH: row access to tables, and their locks.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_uint, c_ulong, c_ulonglong, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};

use tare_engine::snapshot::Kind;
use tare_engine::{
    Source, Start, TableHandleHandle, TableName, TableRef, TableShareHandle, TableShareRef, Wait, fixed,
};
use tare_host::process::{ENGINE, guard};

use super::kept::{keep, kept};
use crate::abi::io::{NO_LOCK, ObjectLocker, TABLE, Table, TableIndex, TableShare};
use crate::abi::layout::layout;
use crate::original::Original;
use crate::server::carriers::{TABLE_SHARES, TABLES};
use crate::server::further_rows;
use crate::server::thread::{current, settled};

/// The built-in's functions of the same names.
pub(crate) static DESTROY_TABLE: Original = Original::new();
/// See [`DESTROY_TABLE`].
pub(crate) static FIND_SHARE: Original = Original::new();
/// See [`DESTROY_TABLE`].
pub(crate) static DROP_SHARE: Original = Original::new();
/// See [`DESTROY_TABLE`].
pub(crate) static UPDATE_SHARES: Original = Original::new();

/// The interface's numbers of table locks: those of the server's lock manager, and those that storage engines
/// are told of.
const INTERNAL: c_uint = 0;
/// See [`INTERNAL`].
const EXTERNAL: c_uint = 1;
/// `F_RDLCK` and `F_UNLCK` of the system.
const READ: c_ulong = 0;
/// See [`READ`].
const UNLOCK: c_ulong = 2;

/// A kind of table lock: the built-in's number and the engine's.
type LockKind = (u32, u8);

/// Kinds of external locks.
const READ_EXTERNAL: LockKind = (8, 4);
/// See [`READ_EXTERNAL`].
const WRITE_EXTERNAL: LockKind = (9, 10);
/// Kinds of internal locks by the server's `thr_lock_type`. Types that lock nothing have none; the built-in
/// counts them as the first kind.
const INTERNAL_KINDS: [LockKind; 12] = [
    (0, 0),
    (0, 0),
    (0, 0),
    // TL_READ_WITH_SHARED_LOCKS follows TL_READ, TL_READ_HIGH_PRIORITY and TL_READ_NO_INSERT.
    (1, 1),
    (2, 2),
    (3, 3),
    (4, 5),
    (0, 0),
    (5, 6),
    (0, 0),
    (6, 8),
    (7, 9),
];

/// Returns the kind of a lock; `None`: it is released.
#[inline(always)]
fn lock_kind(op: c_uint, flags: c_ulong) -> Option<LockKind> {
    match (op, flags) {
        (EXTERNAL, UNLOCK) => None,
        (EXTERNAL, flags) if flags as u32 == READ as u32 => Some(READ_EXTERNAL),
        (EXTERNAL, _) => Some(WRITE_EXTERNAL),
        (INTERNAL, flags) => Some(INTERNAL_KINDS.get(flags as usize).copied().unwrap_or((0, 0))),
        _ => Some((0, 0)),
    }
}

/// Returns the engine's open table for one of the built-in's.
#[inline(always)]
fn known(table: &Table) -> Option<TableRef> {
    match TABLES.get(std::ptr::from_ref(table).addr()) {
        0 => meet(table),
        known => at(known),
    }
}

/// Returns the engine's open table at an address of [`TABLES`]; `None`: 0.
#[inline(always)]
fn at(address: usize) -> Option<TableRef> {
    // SAFETY: 0, or the address of an open table that `meet` has put there.
    unsafe { TableHandleHandle::from_address(std::ptr::with_exposed_provenance(address)) }
}

/// Returns the engine's share at an address of [`TABLE_SHARES`]; `None`: 0.
fn share_at(address: usize) -> Option<TableShareRef> {
    // SAFETY: 0, or the address of a share that `meet_share` has put there.
    unsafe { TableShareHandle::from_address(std::ptr::with_exposed_provenance(address)) }
}

#[cold]
#[inline(never)]
fn meet(table: &Table) -> Option<TableRef> {
    guard(None, || {
        // SAFETY: an open table of the built-in's has a share, which is not reused before it is closed.
        let of = unsafe { table.share.as_ref() }?;
        let share = share_at(TABLE_SHARES.get(table.share.addr())).or_else(|| meet_share(of))?;
        let make = || {
            let made = ENGINE.open_table(share, table.identity);
            made.map_or(0, |made| made.address().expose_provenance())
        };
        at(TABLES.set(std::ptr::from_ref(table).addr(), false, make))
    })
}

/// Returns the first characters of a text.
fn bytes(text: &[c_char], length: usize) -> Vec<u8> {
    text.iter().take(length).map(|byte| byte.cast_unsigned()).collect()
}

/// Returns the name of a key; `None`: the built-in has no sums of it.
fn key_name(place: &AtomicPtr<TableIndex>) -> Option<Vec<u8>> {
    // SAFETY: null, or the sums of a key, which the built-in never unmaps.
    let index = unsafe { place.load(Relaxed).as_ref() }?;
    Some(bytes(&index.name, index.name_length as usize))
}

/// Makes a definition of the built-in's known to the engine, with its keys as they are now.
fn meet_share(share: &TableShare) -> Option<TableShareRef> {
    let schema = bytes(&share.schema, share.schema_length as usize);
    let name = bytes(&share.name, share.name_length as usize);
    let address = std::ptr::from_ref(share).addr();
    let places = share.indexes.iter().take(share.keys.load(Relaxed) as usize);
    // A table that was disabled has lost the sums of its keys, and with them their names.
    let keys = match places.map(key_name).collect::<Option<Vec<_>>>() {
        Some(keys) => keys,
        None if TABLE_SHARES.get(address) != 0 => return share_at(TABLE_SHARES.get(address)),
        None => Vec::new(),
    };
    let make = || {
        let table = TableName { temporary: share.object_type != TABLE, schema: &schema, name: &name };
        let made = ENGINE.table_share(&table, keys.iter().map(Vec::as_slice));
        made.map_or(0, |made| made.address().expose_provenance())
    };
    let known = share_at(TABLE_SHARES.set(address, true, make))?;
    follow(known, share);
    Some(known)
}

/// Takes over what `setup_objects` says of a table.
fn follow(known: TableShareRef, share: &TableShare) {
    let [enabled, timed] = [&share.enabled, &share.timed].map(|flag| flag.load(Relaxed) != 0);
    ENGINE.set_table_share_switches(known, enabled, timed);
}

pub(crate) unsafe extern "C" fn start_table_io_wait(
    locker: *mut ObjectLocker,
    table: *const Table,
    op: c_uint,
    index: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut ObjectLocker {
    // SAFETY: the server's promise: an open table of the built-in's.
    let of = unsafe { &*table };
    if of.io_enabled.load(Relaxed) == 0 {
        return null_mut();
    }
    if let Some(thread) = current()
        && thread.flag(layout().thread.instrumented)
        && thread.slab().is_some()
        && let Some(known) = at(TABLES.get(table.addr()))
        && ENGINE.is_all_sampled(Kind::TableIo)
        && ENGINE.skips_at_once()
        && let Some(wait) = ENGINE.start_tallied_table_io(known, op as u8, index as usize)
    {
        // SAFETY: the server's promise.
        return unsafe { keep_wait(locker, wait, known, op, index) };
    }
    // SAFETY: the server's promise.
    unsafe { start_further_table_io_wait(locker, table, op, index, file, line) }
}

/// Begins table I/O that is not skipped at once. Apart, so that the others need no registers but the
/// caller's.
#[inline(never)]
unsafe extern "C" fn start_further_table_io_wait(
    locker: *mut ObjectLocker,
    table: *const Table,
    op: c_uint,
    index: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut ObjectLocker {
    if settled().is_none() {
        return null_mut();
    }
    // SAFETY: the server's promise: an open table of the built-in's.
    let of = unsafe { &*table };
    let Some(known) = known(of) else { return null_mut() };
    let source = Source::new(file, line);
    let is_timed = of.io_timed.load(Relaxed) != 0;
    let begun = if ENGINE.skips_class(fixed::TABLE_IO) {
        // A statement that is not chosen counts it without a clock.
        let tallied = ENGINE.start_tallied_table_io(known, op as u8, index as usize);
        tallied.map_or(Start::Off, Start::Began)
    } else if is_timed {
        ENGINE.start_table_io_wait_fast(known, op as u8, index as usize, source)
    } else {
        Start::Slow
    };
    let slow = || start_slow_io(known, op, index, source, is_timed);
    // SAFETY: the server's promise.
    unsafe { keep_begun(locker, begun, slow, known, op, index) }
}

/// Keeps a wait for a table; null: there is none.
///
/// # Safety
///
/// The server's: a locker on its stack.
#[inline(always)]
unsafe fn keep_begun(
    locker: *mut ObjectLocker,
    begun: Start<Wait>,
    slow: impl FnOnce() -> Option<Wait>,
    table: TableRef,
    operation: u32,
    index: u32,
) -> *mut ObjectLocker {
    let wait = match begun {
        Start::Began(wait) => Some(wait),
        Start::Off => None,
        Start::Slow => slow(),
    };
    let Some(wait) = wait else { return null_mut() };
    // SAFETY: the caller's promise.
    unsafe { keep_wait(locker, wait, table, operation, index) }
}

/// Keeps a wait for a table.
///
/// # Safety
///
/// See [`keep_begun`].
#[inline(always)]
unsafe fn keep_wait(
    locker: *mut ObjectLocker,
    wait: Wait,
    table: TableRef,
    operation: u32,
    index: u32,
) -> *mut ObjectLocker {
    // SAFETY: the caller's promise.
    unsafe {
        keep(locker.cast(), wait, table.address());
        (&raw mut (*locker).operation).write(operation);
        (&raw mut (*locker).index).write(index);
    }
    locker
}

#[cold]
#[inline(never)]
fn start_slow_io(table: TableRef, op: u32, index: u32, source: Source, is_timed: bool) -> Option<Wait> {
    guard(None, || match is_timed {
        true => ENGINE.start_table_io_wait(table, op as u8, index as usize, source),
        false => ENGINE.start_untimed_table_io_wait(table, op as u8, index as usize, source),
    })
}

/// Returns the wait that a locker keeps, and its table.
///
/// # Safety
///
/// A function above has returned the locker, and the wait has not ended.
#[inline(always)]
unsafe fn begun(locker: &ObjectLocker) -> Option<(Wait, TableRef)> {
    // SAFETY: the caller's promise: the address of an open table, and a wait that has not ended.
    unsafe { Some((kept(&locker.of)?, TableHandleHandle::from_address(locker.of.object)?)) }
}

pub(crate) unsafe extern "C" fn end_table_io_wait(locker: *const ObjectLocker, rows: c_ulonglong) {
    // SAFETY: the server's promise: a locker that `start_table_io_wait` returned, once.
    let it = unsafe { &*locker };
    // SAFETY: as above.
    let Some((wait, table)) = (unsafe { begun(it) }) else { return };
    let (op, index) = (it.operation as u8, it.index as usize);
    if rows > 1
        && let Some(thread) = current()
    {
        further_rows::count(thread, rows - 1);
    }
    let is_sampled = ENGINE.is_class_sampled(fixed::TABLE_IO);
    if !is_sampled || !ENGINE.end_tallied_table_io_fast(table, &wait, op, index, rows) {
        // SAFETY: the server's promise.
        unsafe { end_further_table_io_wait(locker, rows) };
    }
}

/// Ends table I/O that is not only counted. See [`start_further_table_io_wait`].
#[inline(never)]
unsafe extern "C" fn end_further_table_io_wait(locker: *const ObjectLocker, rows: c_ulonglong) {
    // SAFETY: the caller's promise: a locker that `start_table_io_wait` returned, once.
    let locker = unsafe { &*locker };
    // SAFETY: as above.
    let Some((wait, table)) = (unsafe { begun(locker) }) else { return };
    let (op, index) = (locker.operation as u8, locker.index as usize);
    if !ENGINE.end_table_io_wait_fast(table, &wait, op, index, rows) {
        end_slow_io(table, &wait, op, index, rows);
    }
}

#[cold]
#[inline(never)]
fn end_slow_io(table: TableRef, wait: &Wait, op: u8, index: usize, rows: u64) {
    guard((), || ENGINE.end_table_io_wait(table, wait, op, index, rows));
}

/// Notes the kind of a lock where `table_handles` shows it.
#[inline(always)]
fn note(place: &AtomicU32, kind: Option<LockKind>) {
    place.store(kind.map_or(NO_LOCK, |(kind, _)| kind), Relaxed);
}

pub(crate) unsafe extern "C" fn start_table_lock_wait(
    locker: *mut ObjectLocker,
    table: *const Table,
    op: c_uint,
    flags: c_ulong,
    file: *const c_char,
    line: c_uint,
) -> *mut ObjectLocker {
    // SAFETY: the server's promise: an open table of the built-in's.
    let of = unsafe { &*table };
    if of.lock_enabled.load(Relaxed) == 0 {
        return null_mut();
    }
    let kind = lock_kind(op, flags);
    match op {
        INTERNAL => note(&of.internal_lock, kind),
        EXTERNAL => note(&of.external_lock, kind),
        _ => {}
    }
    let Some((_, kind)) = kind.filter(|_| ENGINE.has_demand(Kind::TableLock)) else { return null_mut() };
    if ENGINE.is_all_sampled(Kind::TableLock) && ENGINE.skips_at_once() {
        return null_mut();
    }
    // SAFETY: the server's promise.
    unsafe { start_further_table_lock_wait(locker, table, kind.into(), flags, file, line) }
}

/// Begins a wait for a lock that is not skipped at once. See [`start_further_table_io_wait`].
#[inline(never)]
unsafe extern "C" fn start_further_table_lock_wait(
    locker: *mut ObjectLocker,
    table: *const Table,
    kind: c_uint,
    _flags: c_ulong,
    file: *const c_char,
    line: c_uint,
) -> *mut ObjectLocker {
    if ENGINE.skips_class(fixed::TABLE_LOCK) || settled().is_none() {
        return null_mut();
    }
    let kind = kind as u8;
    // SAFETY: the caller's promise: an open table of the built-in's.
    let of = unsafe { &*table };
    let Some(known) = known(of) else { return null_mut() };
    let source = Source::new(file, line);
    let is_timed = of.lock_timed.load(Relaxed) != 0;
    let begun = match is_timed {
        true => ENGINE.start_table_lock_wait_fast(known, kind, source),
        false => Start::Slow,
    };
    let slow = || start_slow_lock(known, kind, source, is_timed);
    // SAFETY: the server's promise.
    unsafe { keep_begun(locker, begun, slow, known, kind.into(), 0) }
}

#[cold]
#[inline(never)]
fn start_slow_lock(table: TableRef, kind: u8, source: Source, is_timed: bool) -> Option<Wait> {
    guard(None, || match is_timed {
        true => ENGINE.start_table_lock_wait(table, kind, source),
        false => ENGINE.start_untimed_table_lock_wait(table, kind, source),
    })
}

pub(crate) unsafe extern "C" fn end_table_lock_wait(locker: *const ObjectLocker) {
    // SAFETY: the server's promise: a locker that `start_table_lock_wait` returned, once.
    let locker = unsafe { &*locker };
    // SAFETY: as above.
    let Some((wait, table)) = (unsafe { begun(locker) }) else { return };
    if !ENGINE.end_table_lock_wait_fast(table, &wait, locker.operation as u8) {
        end_slow_lock(table, &wait, locker.operation as u8);
    }
}

#[cold]
#[inline(never)]
fn end_slow_lock(table: TableRef, wait: &Wait, kind: u8) {
    guard((), || ENGINE.end_table_lock_wait(table, wait, kind));
}

pub(crate) unsafe extern "C" fn destroy_table(table: *const Table) {
    guard((), || {
        let Some(known) = at(TABLES.take(table.addr())) else { return };
        // SAFETY: the server's promise: an open table of the built-in's.
        let of = unsafe { &*table };
        // One that is disabled loses what it has counted, as in the built-in.
        if of.io_enabled.load(Relaxed) | of.lock_enabled.load(Relaxed) != 0 {
            ENGINE.close_table(known);
        } else {
            ENGINE.discard_table(known);
        }
    });
    // SAFETY: the function's own type and argument.
    unsafe { DESTROY_TABLE.function::<unsafe extern "C" fn(*const Table)>()(table) }
}

pub(crate) unsafe extern "C" fn find_or_create_table_share(
    thread: *mut c_void,
    is_temporary: bool,
    of: *const c_void,
) -> *const TableShare {
    type Find = unsafe extern "C" fn(*mut c_void, bool, *const c_void) -> *const TableShare;
    // SAFETY: the function's own type and arguments.
    let found = unsafe { FIND_SHARE.function::<Find>()(thread, is_temporary, of) };
    guard((), || {
        // SAFETY: null, or a definition that the caller now uses.
        if let Some(share) = unsafe { found.as_ref() } {
            meet_share(share);
        }
    });
    found
}

pub(crate) unsafe extern "C" fn drop_table_share(
    thread: *mut c_void,
    is_temporary: bool,
    schema: *const c_char,
    schema_length: c_uint,
    name: *const c_char,
    name_length: c_uint,
) {
    type Drop = unsafe extern "C" fn(*mut c_void, bool, *const c_char, c_uint, *const c_char, c_uint);
    // SAFETY: the function's own type and arguments.
    unsafe {
        DROP_SHARE.function::<Drop>()(thread, is_temporary, schema, schema_length, name, name_length);
    }
    guard((), || {
        let text = |start: *const c_char, length: c_uint| match start.is_null() {
            true => &[][..],
            // SAFETY: the server's promise: a text of this length.
            false => unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length as usize) },
        };
        let (schema, name) = (text(schema, schema_length), text(name, name_length));
        ENGINE.drop_table_share(&TableName { temporary: is_temporary, schema, name });
    });
}

/// Follows `setup_objects`: the built-in updates what it keeps of programs after what it keeps of tables, and
/// compilers make only the latter part of its callers.
pub(crate) unsafe extern "C" fn update_program_share_derived_flags(thread: *mut c_void) {
    // SAFETY: the function's own type and argument.
    unsafe { UPDATE_SHARES.function::<unsafe extern "C" fn(*mut c_void)>()(thread) };
    guard((), || {
        TABLE_SHARES.each(|address, known| {
            let share = std::ptr::with_exposed_provenance::<TableShare>(address);
            // SAFETY: a definition of the built-in's, which it never unmaps.
            if let (Some(known), Some(share)) = (share_at(known), unsafe { share.as_ref() }) {
                follow(known, share);
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_locks_are_the_built_ins_and_the_engines() {
        assert_eq!(lock_kind(EXTERNAL, READ), Some(READ_EXTERNAL));
        assert_eq!(lock_kind(EXTERNAL, 1), Some(WRITE_EXTERNAL));
        assert_eq!(lock_kind(EXTERNAL, UNLOCK), None);
        assert_eq!(lock_kind(INTERNAL, 2), Some((0, 0)));
        assert_eq!(lock_kind(INTERNAL, 11), Some((7, 9)));
        assert_eq!(lock_kind(INTERNAL, 4711), Some((0, 0)));
    }
}
