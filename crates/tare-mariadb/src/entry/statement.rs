//! HOT PATH: statements and their digests.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_uchar, c_uint, c_ulong, c_ulonglong, c_void};
use std::hint::cold_path;
use std::ptr::{null, null_mut};

use tare_engine::{Counter, EndedStatement, PreparedRef, ProgramHandle, Source, Statement};
use tare_host::process::ENGINE;
use tare_host::process::guard;

use super::facts;
use super::pointer::{bytes, instance, state, statement};
use super::preparation;
use crate::abi::types::{
    DigestLocker, DigestStorage, PreparedStmt, SpShare, StatementLocker, StatementLockerState,
};
use crate::host::query_id;

/// The part of a statement kept at the beginning of the server's locker state: one cache line instead of
/// four.
#[repr(C)]
pub(super) struct KeptStatement {
    /// The place from [`Statement::pack`]; null if the statement is discarded.
    place: *mut c_void,
    thread: *mut c_void,
    digest: *const DigestStorage,
    pub(super) program: *mut SpShare,
    pub(super) prepared: *mut PreparedStmt,
    /// Valid if there is a prepared statement; 1 if it is being prepared.
    pub(super) in_prepare: c_uchar,
}

const _: () = {
    assert!(size_of::<KeptStatement>() <= size_of::<StatementLockerState>());
    assert!(align_of::<KeptStatement>() == align_of::<StatementLockerState>());
};

/// Returns the statement of a locker; `None` for a null locker and for a discarded statement.
#[inline(always)]
pub(super) fn kept(locker: *mut StatementLocker) -> Option<(Statement, &'static mut KeptStatement)> {
    let state = state!(locker, KeptStatement)?;
    Some((statement!(state)?, state))
}

/// Opens a statement. `EXTENDED` selects the extended shape of the tables, here and at the statement's end.
pub(super) unsafe extern "C" fn get_thread_statement_locker<const EXTENDED: bool>(
    state: *mut StatementLockerState,
    key: c_uint,
    charset: *const c_void,
    program: *mut SpShare,
) -> *mut StatementLocker {
    if !program.is_null() {
        open_next_statement::<EXTENDED>(state, key, charset, program)
    } else if let Some(statement) =
        ENGINE.open_statement_fast::<EXTENDED>(key as u16, facts::charset_number(charset))
    {
        keep(state, statement, program)
    } else {
        open_unusual_statement(state, key, charset, program)
    }
}

/// Opens a statement of a stored program.
#[inline(never)]
extern "C" fn open_next_statement<const EXTENDED: bool>(
    state: *mut StatementLockerState,
    key: c_uint,
    charset: *const c_void,
    program: *mut SpShare,
) -> *mut StatementLocker {
    if ENGINE.skips_instruction(key as u16) {
        return null_mut();
    }
    let charset_number = facts::charset_number(charset);
    if let Some(share) = instance!(ProgramHandle, program)
        && let Some(statement) =
            ENGINE.open_next_statement_fast::<EXTENDED>(key as u16, charset_number, share)
    {
        keep(state, statement, program)
    } else {
        open_unusual_statement(state, key, charset, program)
    }
}

/// The `get_thread_statement_locker` slot while some statements are off.
pub(super) unsafe extern "C" fn filter_statement(
    state: *mut StatementLockerState,
    key: c_uint,
    charset: *const c_void,
    program: *mut SpShare,
) -> *mut StatementLocker {
    if ENGINE.is_off(key as u16) {
        return null_mut();
    }
    let get = match ENGINE.is_extended() {
        true => get_thread_statement_locker::<true>,
        false => get_thread_statement_locker::<false>,
    };
    // SAFETY: the caller's promise.
    unsafe { get(state, key, charset, program) }
}

/// Opens any statement on the slow path.
#[inline(never)]
extern "C" fn open_unusual_statement(
    state: *mut StatementLockerState,
    key: c_uint,
    charset: *const c_void,
    program: *mut SpShare,
) -> *mut StatementLocker {
    guard(null_mut(), || {
        let charset = facts::charset_number(charset);
        let share = instance!(ProgramHandle, program);
        let statement = ENGINE.open_unusual_statement(key as u16, charset, share);
        statement.map_or(null_mut(), |statement| keep(state, statement, program))
    })
}

#[inline(always)]
fn keep(
    state: *mut StatementLockerState,
    statement: Statement,
    program: *mut SpShare,
) -> *mut StatementLocker {
    let Some(kept) = state!(state, KeptStatement) else { return null_mut() };
    let (place, thread) = statement.pack();
    kept.place = place;
    kept.thread = thread.address();
    kept.digest = null();
    kept.program = program;
    kept.prepared = null_mut();
    state.cast()
}

pub(super) unsafe extern "C" fn refine_statement(
    locker: *mut StatementLocker,
    key: c_uint,
) -> *mut StatementLocker {
    guard(null_mut(), || {
        let Some((statement, state)) = kept(locker) else { return null_mut() };
        if !ENGINE.refine_statement(statement, key as u16) {
            state.place = null_mut();
            return null_mut();
        }
        locker
    })
}

pub(super) unsafe extern "C" fn start_statement(
    locker: *mut StatementLocker,
    db: *const c_char,
    db_len: c_uint,
    file: *const c_char,
    line: c_uint,
) {
    guard((), || {
        if let Some((statement, _)) = kept(locker) {
            ENGINE.start_statement(statement, bytes!(db, db_len), Source::new(file, line));
        }
    });
}

pub(super) unsafe extern "C" fn set_statement_text(
    locker: *mut StatementLocker,
    text: *const c_char,
    len: c_uint,
) {
    guard((), || {
        if let Some((statement, _)) = kept(locker) {
            ENGINE.set_statement_text(statement, bytes!(text, len));
        }
    });
}

/// Sets a statement's text and the server's number of the statement, which it has by then.
pub(super) unsafe extern "C" fn set_numbered_statement_text(
    locker: *mut StatementLocker,
    text: *const c_char,
    len: c_uint,
) {
    guard((), || {
        if let Some((statement, _)) = kept(locker) {
            ENGINE.set_statement_text(statement, bytes!(text, len));
            ENGINE.set_statement_id(statement, query_id::current());
        }
    });
}

macro_rules! set {
    ($slot:ident, $counter:ident, $set:ident) => {
        pub(super) unsafe extern "C" fn $slot(locker: *mut StatementLocker, count: c_ulonglong) {
            guard((), || {
                if let Some((statement, _)) = kept(locker) {
                    ENGINE.$set(statement, Counter::$counter, count);
                }
            });
        }
    };
}

macro_rules! increment {
    ($slot:ident, $counter:ident) => {
        pub(super) unsafe extern "C" fn $slot(locker: *mut StatementLocker, count: c_ulong) {
            guard((), || {
                if let Some((statement, _)) = kept(locker) {
                    ENGINE.add_statement_counter(statement, Counter::$counter, count);
                }
            });
        }
    };
}

macro_rules! mark {
    ($slot:ident, $counter:ident) => {
        pub(super) unsafe extern "C" fn $slot(locker: *mut StatementLocker) {
            guard((), || {
                if let Some((statement, _)) = kept(locker) {
                    ENGINE.set_statement_counter(statement, Counter::$counter, 1);
                }
            });
        }
    };
}

set!(set_statement_lock_time, LockTime, set_statement_counter);
set!(set_statement_rows_sent, RowsSent, set_statement_rows);
set!(set_statement_rows_examined, RowsExamined, set_statement_rows);
increment!(inc_statement_created_tmp_disk_tables, CreatedTmpDiskTables);
increment!(inc_statement_created_tmp_tables, CreatedTmpTables);
increment!(inc_statement_select_full_join, SelectFullJoin);
increment!(inc_statement_select_full_range_join, SelectFullRangeJoin);
increment!(inc_statement_select_range, SelectRange);
increment!(inc_statement_select_range_check, SelectRangeCheck);
increment!(inc_statement_select_scan, SelectScan);
increment!(inc_statement_sort_merge_passes, SortMergePasses);
increment!(inc_statement_sort_range, SortRange);
increment!(inc_statement_sort_rows, SortRows);
increment!(inc_statement_sort_scan, SortScan);
mark!(set_statement_no_index_used, NoIndexUsed);
mark!(set_statement_no_good_index_used, NoGoodIndexUsed);

pub(super) unsafe extern "C" fn digest_start(locker: *mut StatementLocker) -> *mut DigestLocker {
    guard(null_mut(), || match kept(locker) {
        // A statement that is being prepared has no digest of its own; its executions have one. The server
        // has no storage for a digest then, even if there was no room for the prepared statement.
        Some((statement, state))
            if state.prepared.is_null() && statement.wants_digest() && !preparation::is_under_way() =>
        {
            locker.cast()
        }
        _ => preparation::attach(locker),
    })
}

pub(super) unsafe extern "C" fn digest_end(locker: *mut DigestLocker, digest: *const DigestStorage) {
    guard((), || {
        if let Some((statement, state)) = kept(locker.cast()) {
            state.digest = digest;
            statement.set_tokens(digest.addr());
        }
    });
}

pub(super) unsafe extern "C" fn end_statement<const EXTENDED: bool>(
    locker: *mut StatementLocker,
    diagnostics: *mut c_void,
) {
    let Some((statement, state)) = kept(locker) else { return };
    if !facts::is_plain_result(diagnostics) {
        cold_path();
        set_outcome(statement, diagnostics);
    }
    let count = |ended| {
        if statement.is_execution() {
            ENGINE.count_execution_digest(statement);
        } else if !state.digest.is_null() {
            count_digest(statement, state.digest);
        }
        count(state, ended);
    };
    if !ENGINE.end_statement_fast::<EXTENDED>(statement, count) {
        end_unusual_statement(locker);
    }
}

/// Ends any statement on the slow path, after its outcome was set.
#[inline(never)]
extern "C" fn end_unusual_statement(locker: *mut StatementLocker) {
    guard((), || {
        let Some((statement, state)) = kept(locker) else { return };
        let tokens = if state.digest.is_null() { None } else { facts::digest_tokens(state.digest) };
        count(state, ENGINE.end_unusual_statement(statement, tokens.as_ref()));
    });
}

#[inline(never)]
fn set_outcome(statement: Statement, diagnostics: *mut c_void) {
    guard((), || ENGINE.set_statement_outcome(statement, &facts::outcome(diagnostics)));
}

#[inline(never)]
fn count_digest(statement: Statement, digest: *const DigestStorage) {
    guard((), || {
        if let Some(tokens) = facts::digest_tokens(digest) {
            ENGINE.count_statement_digest(statement, &tokens);
        }
    });
}

/// Counts an ended statement for its program or prepared statement.
#[inline(always)]
fn count(state: &KeptStatement, ended: EndedStatement) {
    if !state.program.is_null() {
        cold_path();
        count_for_program(state.program, ended);
    }
    if let Some(prepared) = instance!(PreparedRef, state.prepared) {
        ENGINE.count_prepared(prepared, state.in_prepare != 0, ended);
    }
}

#[inline(never)]
fn count_for_program(program: *mut SpShare, ended: EndedStatement) {
    guard((), || {
        if let Some(program) = instance!(ProgramHandle, program) {
            ENGINE.count_program_statement(program, ended);
        }
    });
}

/// Ends a statement that is excluded; returns false if it is not.
fn end_excluded(statement: Statement, state: &KeptStatement) -> bool {
    let is_excluded = ENGINE.end_excluded_statement(statement);
    if is_excluded && let Some(prepared) = instance!(PreparedRef, state.prepared) {
        ENGINE.leave_prepared(prepared);
    }
    is_excluded
}

/// Ends a statement, excluding statements that use tare's tables.
pub(super) unsafe extern "C" fn end_looked_at_statement<const EXTENDED: bool>(
    locker: *mut StatementLocker,
    diagnostics: *mut c_void,
) {
    let excluded =
        guard(false, || kept(locker).is_some_and(|(statement, state)| end_excluded(statement, state)));
    if !excluded {
        // SAFETY: the same arguments under the same promises.
        unsafe { end_statement::<EXTENDED>(locker, diagnostics) };
    }
}
