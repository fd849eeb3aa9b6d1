//! The command that the calling thread's session executes, if it takes away a table's definition or rows,
//! changes rows, or only locks tables; and facts about that statement.
//!
//! `thd_sql_command` is exported for plugins and returns the statement's number, which another version may
//! assign to another statement. The names come in the order of the numbers: the server registers its
//! statements' instruments as one array. `thd_query_string` returns the statement's text and
//! `thd_test_options` the options that the session has set; both belong to the plugin interface, too.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_longlong, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use tare_host::process::symbol;

use super::warning;

/// The effect of a statement on a table or its definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableCommand {
    /// Drops the named objects.
    Drop,
    /// Creates an object, possibly in place of another.
    Create,
    /// Empties tables.
    Truncate,
    /// Locks the named tables and does nothing else.
    Lock,
    /// Updates or deletes rows.
    Change,
    /// Opens a handler: `HANDLER … OPEN`.
    Handler,
}

/// The category in which the server registers its statements.
pub(crate) const CATEGORY: &str = "sql";

/// The statements: name as an instrument, effect, and number; -1 until it is known.
static COMMANDS: [(&str, TableCommand, AtomicI32); 12] = [
    ("drop_table", TableCommand::Drop, AtomicI32::new(-1)),
    ("drop_view", TableCommand::Drop, AtomicI32::new(-1)),
    ("drop_sequence", TableCommand::Drop, AtomicI32::new(-1)),
    ("create_table", TableCommand::Create, AtomicI32::new(-1)),
    ("create_sequence", TableCommand::Create, AtomicI32::new(-1)),
    ("truncate", TableCommand::Truncate, AtomicI32::new(-1)),
    ("lock_tables", TableCommand::Lock, AtomicI32::new(-1)),
    ("update", TableCommand::Change, AtomicI32::new(-1)),
    ("update_multi", TableCommand::Change, AtomicI32::new(-1)),
    ("delete", TableCommand::Change, AtomicI32::new(-1)),
    ("delete_multi", TableCommand::Change, AtomicI32::new(-1)),
    ("ha_open", TableCommand::Handler, AtomicI32::new(-1)),
];

/// Notes the number of a statement of [`CATEGORY`].
pub(crate) fn register(name: &str, number: c_int) {
    if let Some((.., known)) = COMMANDS.iter().find(|(command, ..)| *command == name) {
        known.store(number, Ordering::Relaxed);
    }
}

type NumberFn = unsafe extern "C" fn(*mut c_void) -> c_int;

/// Returns what the calling thread's session executes; `None` for any other statement or without a session.
pub(crate) fn current() -> Option<TableCommand> {
    static NUMBER: OnceLock<Option<NumberFn>> = OnceLock::new();
    let number = (*NUMBER.get_or_init(|| {
        let found = symbol(c"thd_sql_command")?;
        // SAFETY: a C function of the plugin interface: it takes a session and returns an int.
        Some(unsafe { std::mem::transmute::<*mut c_void, NumberFn>(found) })
    }))?;
    let session = warning::session()?;
    // SAFETY: the calling thread's own session.
    let number = unsafe { number(session.as_ptr()) };
    let command = COMMANDS.iter().find(|(.., known)| known.load(Ordering::Relaxed) == number);
    command.map(|(_, command, _)| *command)
}

type OptionsFn = unsafe extern "C" fn(*const c_void, c_longlong) -> c_longlong;

/// `OPTION_SAFE_UPDATES`: the same bit in the sources of every supported series.
const SAFE_UPDATES: c_longlong = 1 << 16;

/// Returns whether the calling thread's session has `sql_safe_updates` set.
pub(crate) fn is_safe() -> bool {
    static OPTIONS: OnceLock<Option<OptionsFn>> = OnceLock::new();
    let options = *OPTIONS.get_or_init(|| {
        let found = symbol(c"thd_test_options")?;
        // SAFETY: a C function of the plugin interface: it takes a session and a mask and returns the set
        // options of the mask.
        Some(unsafe { std::mem::transmute::<*mut c_void, OptionsFn>(found) })
    });
    let (Some(options), Some(session)) = (options, warning::session()) else { return false };
    // SAFETY: the calling thread's own session.
    unsafe { options(session.as_ptr(), SAFE_UPDATES) != 0 }
}

/// The server's `MYSQL_LEX_STRING`.
#[repr(C)]
struct LexString {
    start: *const u8,
    length: usize,
}

type TextOf = unsafe extern "C" fn(*mut c_void) -> *const LexString;

/// Returns whether the calling thread's session executes a statement that begins with `CREATE TEMPORARY` or
/// `CREATE OR REPLACE TEMPORARY`.
pub(crate) fn makes_temporary() -> bool {
    static TEXT: OnceLock<Option<TextOf>> = OnceLock::new();
    let text = *TEXT.get_or_init(|| {
        let found = symbol(c"thd_query_string")?;
        // SAFETY: a C function of the plugin interface: it takes a session and returns the location of its
        // statement's text.
        Some(unsafe { std::mem::transmute::<*mut c_void, TextOf>(found) })
    });
    let (Some(text), Some(session)) = (text, warning::session()) else { return false };
    // SAFETY: the calling thread's own session, whose text only this thread replaces.
    let text = unsafe { text(session.as_ptr()).as_ref() };
    // SAFETY: as above.
    text.filter(|text| !text.start.is_null())
        .is_some_and(|text| begins_temporary(unsafe { std::slice::from_raw_parts(text.start, text.length) }))
}

fn begins_temporary(mut text: &[u8]) -> bool {
    let mut expected = &["CREATE", "OR", "REPLACE", "TEMPORARY"][..];
    while let Some((word, rest)) = next_word(text) {
        text = rest;
        if word.eq_ignore_ascii_case(b"TEMPORARY") {
            return expected.len() != 4;
        }
        match expected.split_first() {
            Some((wanted, later)) if word.eq_ignore_ascii_case(wanted.as_bytes()) => expected = later,
            _ => return false,
        }
    }
    false
}

/// Returns the first word of a text after blanks and comments, and the rest.
fn next_word(mut text: &[u8]) -> Option<(&[u8], &[u8])> {
    loop {
        text = text.trim_ascii_start();
        let end = match text {
            [b'/', b'*', b'!' | b'M', ..] => {
                // The comment is executed, so only its marks are skipped.
                text.iter().skip(3).position(|byte| !byte.is_ascii_digit() && *byte != b'!').map(|at| at + 3)
            }
            [b'*', b'/', ..] => Some(2),
            [b'/', b'*', ..] => text.windows(2).skip(2).position(|pair| pair == b"*/").map(|at| at + 4),
            [b'#', ..] | [b'-', b'-', b' ' | b'\t' | b'\n', ..] => {
                text.iter().position(|byte| *byte == b'\n')
            }
            _ => break,
        };
        text = &text[end?..];
    }
    let end = text.iter().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_table_is_told_by_the_statement() {
        for text in [
            "CREATE TEMPORARY TABLE a LIKE b",
            "create\n/* TABLE */ temporary table a like b",
            "-- TABLE\n# TABLE\n/*!CREATE*/ OR REPLACE/*M!100103 TEMPORARY*/ TABLE a LIKE b",
        ] {
            assert!(begins_temporary(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "CREATE",
            "CREATE TABLE temporary LIKE b",
            "CREATE OR REPLACE TABLE a LIKE b",
            "TEMPORARY",
            "DROP TEMPORARY TABLE a",
            "CREATE /* TEMPORARY",
            "/* TEMPORARY */ CREATE TABLE a LIKE b -- TEMPORARY",
        ] {
            assert!(!begins_temporary(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_program_without_sessions_executes_nothing() {
        register("drop_table", 0);
        register("select", 1);
        assert_eq!(current(), None);
        assert!(!is_safe() && !makes_temporary());
        let known = |name: &str| {
            let (.., number) = COMMANDS.iter().find(|(command, ..)| *command == name)?;
            Some(number.load(Ordering::Relaxed))
        };
        assert_eq!([known("drop_table"), known("drop_view"), known("select")], [Some(0), Some(-1), None]);
    }
}
