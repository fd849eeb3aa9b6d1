//! What the calling thread's session executes, of the statements that take a table's definition or its rows away or only
//! lock tables.
//!
//! `thd_sql_command` is exported for plugins and returns the statement's number, which another version may give to another
//! statement. The names come in the order of the numbers: the server registers its statements' instruments as one array.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use super::warning;
use crate::startup::symbol;

/// What a statement does to a table or its definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Drops those it names.
    Drop,
    /// Makes a new one, perhaps in the place of another.
    Create,
    /// Empties them.
    Truncate,
    /// Locks those it names, and does no more with them.
    Lock,
}

/// The category the server registers its statements in.
pub(crate) const CATEGORY: &str = "sql";

/// A statement's name as an instrument, what it does, and its number; -1 until that is known.
static COMMANDS: [(&str, Command, AtomicI32); 7] = [
    ("drop_table", Command::Drop, AtomicI32::new(-1)),
    ("drop_view", Command::Drop, AtomicI32::new(-1)),
    ("drop_sequence", Command::Drop, AtomicI32::new(-1)),
    ("create_table", Command::Create, AtomicI32::new(-1)),
    ("create_sequence", Command::Create, AtomicI32::new(-1)),
    ("truncate", Command::Truncate, AtomicI32::new(-1)),
    ("lock_tables", Command::Lock, AtomicI32::new(-1)),
];

/// Takes note of the number of a statement of [`CATEGORY`].
pub(crate) fn register(name: &str, number: c_int) {
    if let Some((.., known)) = COMMANDS.iter().find(|(command, ..)| *command == name) {
        known.store(number, Ordering::Relaxed);
    }
}

type Number = unsafe extern "C" fn(*mut c_void) -> c_int;

/// What the calling thread's session executes; `None` for all else, and where there is no session.
pub(crate) fn current() -> Option<Command> {
    static NUMBER: OnceLock<Option<Number>> = OnceLock::new();
    let number = (*NUMBER.get_or_init(|| {
        let found = symbol(c"thd_sql_command")?;
        // SAFETY: a C function of the plugin interface: it takes a session and returns an int.
        Some(unsafe { std::mem::transmute::<*mut c_void, Number>(found) })
    }))?;
    let session = warning::session()?;
    // SAFETY: the calling thread's own session.
    let number = unsafe { number(session.as_ptr()) };
    let command = COMMANDS.iter().find(|(.., known)| known.load(Ordering::Relaxed) == number);
    command.map(|(_, command, _)| *command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_sessions_executes_nothing() {
        register("drop_table", 0);
        register("select", 1);
        assert_eq!(current(), None);
        let known = |name: &str| {
            let (.., number) = COMMANDS.iter().find(|(command, ..)| *command == name)?;
            Some(number.load(Ordering::Relaxed))
        };
        assert_eq!([known("drop_table"), known("drop_view"), known("select")], [Some(0), Some(-1), None]);
    }
}
