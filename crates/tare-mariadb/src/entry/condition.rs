//! HOT PATH: errors, warnings and notes, and the handlers of stored programs that catch them. These functions
//! are called before the server's own (`jumps::conditions`), which still do all their work.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_char, c_uint, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tare_host::process::ENGINE;
use tare_host::process::guard;

use super::facts;

/// The type of `Sql_condition *THD::raise_condition(const Sql_condition *)`.
type RaiseCondition = unsafe extern "C-unwind" fn(*mut c_void, *const c_void) -> *mut c_void;
/// The type of `bool THD::handle_condition(uint, const char *, enum_warning_level *, const char *,
/// Sql_condition **)`.
type HandleCondition = unsafe extern "C-unwind" fn(
    *mut c_void,
    c_uint,
    *const c_char,
    *mut c_void,
    *const c_char,
    *mut *mut c_void,
) -> u8;
/// The type of `bool sp_rcontext::handle_sql_condition(THD *, uint *, const sp_instr *)`.
type HandleSqlCondition =
    unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut c_uint, *const c_void) -> u8;
/// The type of `sp_handler *sp_pcontext::find_handler(const Sql_condition_identity &) const`.
type FindHandler = unsafe extern "C-unwind" fn(*const c_void, *const c_void) -> *mut c_void;

/// The server's own functions, in the order of [`intercept`]; set before any of tare's can be called.
static OWN: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

thread_local! {
    /// Whether the internal handlers were asked about the condition raised last; they are not asked about
    /// fatal errors.
    static IS_ASKED: Cell<bool> = const { Cell::new(false) };
    /// Whether the condition raised last repeats an error of its statement. A warning that a strict mode
    /// makes an error never does: each is raised once.
    static IS_REPETITION: Cell<bool> = const { Cell::new(false) };
}

/// Returns tare's functions, which call the server's own: `handle_condition`, `handle_sql_condition`,
/// `find_handler`, `raise_condition`.
pub(crate) fn intercept(own: [usize; 4]) -> [usize; 4] {
    OWN.iter().zip(own).for_each(|(kept, own)| kept.store(own, Relaxed));
    [
        handle_condition as *const () as usize,
        handle_sql_condition as *const () as usize,
        find_handler as *const () as usize,
        raise_condition as *const () as usize,
    ]
}

/// Replaces `THD::raise_condition`. Counts a fatal error here, because no handler is asked about it;
/// [`handle_condition`] counts the others and knows which to exclude.
unsafe extern "C-unwind" fn raise_condition(session: *mut c_void, condition: *const c_void) -> *mut c_void {
    let error = guard(None, || {
        IS_ASKED.set(false);
        IS_REPETITION.set(facts::is_repetition(session, condition));
        let error = facts::error_number(condition).filter(|_| !IS_REPETITION.get());
        error.inspect(|number| facts::keep_number(session, *number))
    });
    // SAFETY: the address of the server's function of this type, stored before this one could be called.
    let own = unsafe { std::mem::transmute::<usize, RaiseCondition>(OWN[3].load(Relaxed)) };
    // SAFETY: the same arguments under the same promises.
    let raised = unsafe { own(session, condition) };
    guard((), || {
        if let Some(number) = error.filter(|_| !IS_ASKED.get()) {
            ENGINE.error_raised(number);
        }
    });
    raised
}

/// Replaces `THD::handle_condition`, which asks the internal handlers whether one takes a raised condition.
unsafe extern "C-unwind" fn handle_condition(
    session: *mut c_void,
    number: c_uint,
    sqlstate: *const c_char,
    level: *mut c_void,
    message: *const c_char,
    condition: *mut *mut c_void,
) -> u8 {
    guard((), || {
        if !IS_REPETITION.get() {
            ENGINE.error_raised(number);
            // It may have been raised as a warning.
            if facts::is_error(level) {
                facts::keep_number(session, number);
            }
        }
    });
    // SAFETY: the address of the server's function of this type, stored before this one could be called.
    let own = unsafe { std::mem::transmute::<usize, HandleCondition>(OWN[0].load(Relaxed)) };
    // SAFETY: the same arguments under the same promises.
    let handled = unsafe { own(session, number, sqlstate, level, message, condition) };
    // Set only now, after anything that a handler may have raised.
    guard((), || IS_ASKED.set(true));
    handled
}

/// Replaces `sp_rcontext::handle_sql_condition`, called after an instruction of a stored program has raised a
/// condition; returns 1 if a handler of the program takes over.
unsafe extern "C-unwind" fn handle_sql_condition(
    context: *mut c_void,
    session: *mut c_void,
    place: *mut c_uint,
    instruction: *const c_void,
) -> u8 {
    guard((), || ENGINE.handler_sought());
    // SAFETY: as above.
    let own = unsafe { std::mem::transmute::<usize, HandleSqlCondition>(OWN[1].load(Relaxed)) };
    // SAFETY: the same arguments under the same promises.
    let handled = unsafe { own(context, session, place, instruction) };
    if handled != 0 {
        guard((), || ENGINE.error_handled());
    }
    handled
}

/// Replaces `sp_pcontext::find_handler`, which returns the handler that a stored program has for a condition,
/// or null.
unsafe extern "C-unwind" fn find_handler(context: *const c_void, condition: *const c_void) -> *mut c_void {
    // SAFETY: as above.
    let own = unsafe { std::mem::transmute::<usize, FindHandler>(OWN[2].load(Relaxed)) };
    // SAFETY: the same arguments under the same promises.
    let handler = unsafe { own(context, condition) };
    if !handler.is_null() {
        guard((), || {
            facts::error_number(condition).into_iter().for_each(|number| ENGINE.handler_found(number))
        });
    }
    handler
}
