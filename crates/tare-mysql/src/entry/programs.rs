//! Stored programs and prepared statements as objects. The built-in keeps and shows them; the engine learns
//! the names of programs, and the built-in in which event a statement was prepared.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tare_host::process::{ENGINE, guard};

use super::statement;
use crate::abi::events::{PREPARED_OWNER, Program};
use crate::original::Original;
use crate::server::programs;

/// The built-in's functions.
pub(crate) static FIND_PROGRAM: Original = Original::new();
/// See [`FIND_PROGRAM`].
pub(crate) static DROP_PROGRAM: Original = Original::new();
/// See [`FIND_PROGRAM`].
pub(crate) static CREATE_PREPARED: Original = Original::new();

type FindProgram =
    unsafe extern "C" fn(*mut c_void, c_int, *const c_char, c_uint, *const c_char, c_uint) -> *const Program;
type DropProgram = unsafe extern "C" fn(*mut c_void, c_int, *const c_char, c_uint, *const c_char, c_uint);
type CreatePrepared = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    c_uint,
    *const c_char,
    c_uint,
    *const c_char,
    c_uint,
) -> *mut c_void;

/// Finds a program of the built-in's or makes it. The server calls this before it runs the program, and keeps
/// what it returns.
pub(crate) unsafe extern "C" fn find_program(
    thread: *mut c_void,
    object_type: c_int,
    name: *const c_char,
    name_length: c_uint,
    schema: *const c_char,
    schema_length: c_uint,
) -> *const Program {
    // SAFETY: the function's own type and arguments.
    let program = unsafe {
        FIND_PROGRAM.function::<FindProgram>()(thread, object_type, name, name_length, schema, schema_length)
    };
    // SAFETY: null, or a program that the built-in has filled and never unmaps.
    if let Some(program) = unsafe { program.as_ref() } {
        guard((), || programs::meet(program));
    }
    program
}

pub(crate) unsafe extern "C" fn drop_program(
    thread: *mut c_void,
    object_type: c_int,
    name: *const c_char,
    name_length: c_uint,
    schema: *const c_char,
    schema_length: c_uint,
) {
    guard((), || {
        // SAFETY: the server's promise: texts of these lengths.
        let (name, schema) =
            unsafe { (statement::bytes(name, name_length), statement::bytes(schema, schema_length)) };
        programs::forget(object_type as u8, schema, name);
    });
    // SAFETY: the function's own type and arguments.
    unsafe {
        DROP_PROGRAM.function::<DropProgram>()(thread, object_type, name, name_length, schema, schema_length);
    }
}

/// Makes a prepared statement. The built-in knows no event of the statement that prepares it, so
/// OWNER_EVENT_ID is set here: that statement, or the one around it if it belongs to a program.
pub(crate) unsafe extern "C" fn create_prepared(
    identity: *mut c_void,
    thread: *mut c_void,
    program: *mut c_void,
    event: *mut c_void,
    number: c_uint,
    name: *const c_char,
    name_length: c_uint,
    text: *const c_char,
    text_length: c_uint,
) -> *mut c_void {
    // SAFETY: the function's own type and arguments.
    let prepared = unsafe {
        CREATE_PREPARED.function::<CreatePrepared>()(
            identity,
            thread,
            program,
            event,
            number,
            name,
            name_length,
            text,
            text_length,
        )
    };
    if event.is_null()
        && !prepared.is_null()
        && let Some(statement) = ENGINE.current_statement()
    {
        let owner = if program.is_null() { statement.event_id() } else { statement.nesting_event_id() };
        // SAFETY: a prepared statement of the built-in's has a number at this place (`startup::checks`), and
        // is never unmapped.
        unsafe { (*prepared.byte_add(PREPARED_OWNER).cast::<AtomicU64>()).store(owner, Relaxed) };
    }
    prepared
}
