//! Stored programs and prepared statements.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_uint, c_ulong, c_void};
use std::fmt::Write;
use std::ptr::null_mut;

use tare_engine::{PreparedRef, ProgramHandle};
use tare_host::process::ENGINE;
use tare_host::process::guard;

use super::facts::{self, ShortText};
use super::pointer::{bytes, instance, state};
use super::statement::kept;
use crate::abi::types::{PreparedStmt, SpLocker, SpLockerState, SpShare, StatementLocker};

pub(super) unsafe extern "C" fn get_sp_share(
    object_type: c_uint,
    schema: *const c_char,
    schema_len: c_uint,
    name: *const c_char,
    name_len: c_uint,
) -> *mut SpShare {
    guard(null_mut(), || {
        let Some(object_type) = facts::program_type(object_type) else { return null_mut() };
        // An anonymous block is not a program of its own.
        if ENGINE.current_thread().is_none() || name_len == 0 {
            return null_mut();
        }
        let name = folded(bytes!(name, name_len));
        let program = ENGINE.program(object_type, bytes!(schema, schema_len), name.as_bytes());
        program.map_or(null_mut(), |program| program.address().cast())
    })
}

/// Does nothing: a program's share outlives its use; only `drop_sp` ends it.
pub(super) unsafe extern "C" fn release_sp_share(_share: *mut SpShare) {}

pub(super) unsafe extern "C" fn drop_sp(
    object_type: c_uint,
    schema: *const c_char,
    schema_len: c_uint,
    name: *const c_char,
    name_len: c_uint,
) {
    guard((), || {
        if let Some(object_type) = facts::program_type(object_type) {
            let name = folded(bytes!(name, name_len));
            ENGINE.drop_program(object_type, bytes!(schema, schema_len), name.as_bytes());
        }
    });
}

/// The space in bytes for a program's name, which is at most two names of 64 characters for a package's
/// routine.
const LONGEST_NAME: usize = 512;

/// Returns a program's name in lower case, character by character, as the reference shows it. Programs' names
/// are case-insensitive, and the server passes them as they are written in each place.
fn folded(name: &[u8]) -> ShortText<LONGEST_NAME> {
    let mut folded = ShortText::<LONGEST_NAME>::EMPTY;
    let _fits = name.utf8_chunks().try_for_each(|chunk| {
        let unreadable = (!chunk.invalid().is_empty()).then_some(char::REPLACEMENT_CHARACTER);
        let mut characters = chunk.valid().chars().flat_map(char::to_lowercase).chain(unreadable);
        characters.try_for_each(|character| folded.write_char(character))
    });
    folded
}

pub(super) unsafe extern "C" fn start_sp(state: *mut SpLockerState, share: *mut SpShare) -> *mut SpLocker {
    guard(null_mut(), || {
        let Some(program) = instance!(ProgramHandle, share) else { return null_mut() };
        let Some(start) = ENGINE.start_program(program) else { return null_mut() };
        let Some(kept) = state!(state, SpLockerState) else { return null_mut() };
        kept.timer_start = start;
        kept.sp_share = share;
        state.cast()
    })
}

pub(super) unsafe extern "C" fn end_sp(locker: *mut SpLocker) {
    guard((), || {
        let Some(state) = state!(locker, SpLockerState) else { return };
        if let Some(program) = instance!(ProgramHandle, state.sp_share) {
            ENGINE.end_program(program, state.timer_start);
        }
    });
}

pub(super) unsafe extern "C" fn create_prepared_stmt(
    identity: *mut c_void,
    statement_id: c_uint,
    locker: *mut StatementLocker,
    name: *const c_char,
    name_len: c_ulong,
) -> *mut PreparedStmt {
    guard(null_mut(), || {
        let kept = kept(locker);
        let event_id = kept.as_ref().map_or(0, |(statement, _)| statement.event_id());
        let program = kept.as_ref().and_then(|(_, state)| instance!(ProgramHandle, state.program));
        let id = u64::from(statement_id);
        let name = bytes!(name, name_len);
        let Some(prepared) = ENGINE.create_prepared(identity.addr(), id, name, event_id, program) else {
            return null_mut();
        };
        if let Some((_, state)) = kept {
            state.prepared = prepared.address().cast();
            state.in_prepare = 1;
        }
        prepared.address().cast()
    })
}

pub(super) unsafe extern "C" fn set_prepared_stmt_text(
    prepared: *mut PreparedStmt,
    text: *const c_char,
    len: c_uint,
) {
    guard((), || {
        if let Some(prepared) = instance!(PreparedRef, prepared) {
            ENGINE.set_prepared_text(prepared, bytes!(text, len));
        }
    });
}

/// Notes that a prepared statement is executed. With `DIGESTS`, executions have the text and the digest of
/// the prepared statement.
pub(super) unsafe extern "C" fn execute_prepared_stmt<const DIGESTS: bool>(
    locker: *mut StatementLocker,
    prepared: *mut PreparedStmt,
) {
    guard((), || {
        if let Some((statement, state)) = kept(locker)
            && let Some(known) = instance!(PreparedRef, prepared)
        {
            ENGINE.expect_prepared(known);
            if DIGESTS {
                ENGINE.execute_prepared(statement, known);
            }
            state.prepared = prepared;
            state.in_prepare = 0;
        }
    });
}

pub(super) unsafe extern "C" fn reprepare_prepared_stmt(prepared: *mut PreparedStmt) {
    guard((), || {
        if let Some(prepared) = instance!(PreparedRef, prepared) {
            ENGINE.count_reprepare(prepared);
        }
    });
}

pub(super) unsafe extern "C" fn destroy_prepared_stmt(prepared: *mut PreparedStmt) {
    guard((), || {
        if let Some(prepared) = instance!(PreparedRef, prepared) {
            ENGINE.destroy_prepared(prepared);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs_know_no_case() {
        for (name, expected) in [
            (&b""[..], ""),
            (b"Pack.Proc_1", "pack.proc_1"),
            ("\u{c4}\u{394}\u{3a3}".as_bytes(), "\u{e4}\u{3b4}\u{3c3}"),
            (b"A\xffB\xc3", "a\u{fffd}b\u{fffd}"),
        ] {
            assert_eq!(std::str::from_utf8(folded(name).as_bytes()), Ok(expected));
        }
        assert_eq!(folded(&[b'X'; 600]).as_bytes(), [b'x'; LONGEST_NAME]);
    }
}
