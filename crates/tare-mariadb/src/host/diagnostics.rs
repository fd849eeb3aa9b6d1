//! The outcome of a statement, from the diagnostics area that `end_statement` receives.
//!
//! Which status fills which columns follows the built-in: see the table in `FACTS.md`.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{code, session};

/// `Diagnostics_area` up to its status. The same in all series: debug information of 10.11.5 and 11.4.5; on
/// 10.11.19 and 11.8.9 the members were read at each `end_statement` of a script with results, counts,
/// warnings and errors, and held what the client saw.
#[repr(C)]
struct Area {
    sqlstate: [u8; 6],
    sql_errno: u32,
    user_condition: *const c_void,
    is_sent: bool,
    can_overwrite_status: bool,
    message: [u8; 512],
    affected_rows: u64,
    last_insert_id: u64,
    statement_warn_count: u32,
    status: u32,
}

const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(Area, sql_errno) == 8);
    assert!(offset_of!(Area, user_condition) == 16);
    assert!(offset_of!(Area, message) == 26);
    assert!(offset_of!(Area, affected_rows) == 544);
    assert!(offset_of!(Area, statement_warn_count) == 560);
    assert!(offset_of!(Area, status) == 564);
};

const EMPTY: u32 = 0;
const OK: u32 = 1;
const EOF: u32 = 2;
const ERROR: u32 = 5;

/// The part of the diagnostics area that a statement's event needs. The message borrows the area: copy it
/// before returning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome<'a> {
    /// The column MYSQL_ERRNO.
    pub sql_errno: u32,
    /// The column RETURNED_SQLSTATE; `None` is SQL NULL.
    pub sqlstate: Option<[u8; 5]>,
    /// The column MESSAGE_TEXT in the server's character set; empty is SQL NULL.
    pub message: &'a [u8],
    /// The column ERRORS: 0 or 1.
    pub errors: u32,
    /// The column WARNINGS.
    pub warnings: u32,
    /// The column ROWS_AFFECTED.
    pub rows_affected: u64,
}

/// `Sql_condition_identity` up to its level. The same in all series: machine code of
/// `sp_rcontext::handle_sql_condition`, which fills one for the error of a statement.
#[repr(C)]
struct SqlCondition {
    sqlstate: [u8; 6],
    sql_errno: u32,
    level: u32,
}

const _: () = assert!(
    std::mem::offset_of!(SqlCondition, sql_errno) == 8 && std::mem::offset_of!(SqlCondition, level) == 12
);

/// The level of a condition that is neither a note nor a warning.
const LEVEL_ERROR: u32 = 2;

/// Returns the number of a condition if it is an error.
///
/// # Safety
///
/// `condition` is a `Sql_condition_identity` of the server, unchanged during the call.
pub unsafe fn error_number(condition: *const c_void) -> Option<u32> {
    // SAFETY: the caller's promise.
    let condition = unsafe { &*condition.cast::<SqlCondition>() };
    (condition.level == LEVEL_ERROR).then_some(condition.sql_errno)
}

/// The offset in a session of the address of its statement's diagnostics area; 0 if it is not known.
static AREA_OF_SESSION: AtomicUsize = AtomicUsize::new(0);

/// Finds the offset at which sessions have the address of their diagnostics area, which the exported
/// `thd_get_error_number` loads. Returns false if the function is none of the known ones.
pub(crate) fn find_area() -> bool {
    let place = session::member(c"thd_get_error_number", code::loaded);
    AREA_OF_SESSION.store(*place.as_ref().unwrap_or(&0), Relaxed);
    place.is_ok()
}

/// Returns whether a condition being raised is an error of a statement that has already failed. The server
/// reports many failures at several levels of its code, with the same error again or another one; the client
/// receives the first.
///
/// # Safety
///
/// `session` is the calling thread's, and `level` the level of a condition, where the server itself reads
/// them now.
pub unsafe fn is_aftermath(session: *const c_void, level: *const c_void) -> bool {
    // SAFETY: the caller's promise.
    unsafe { level.cast::<u32>().read() == LEVEL_ERROR && has_failed(session) }
}

/// Returns whether the statement of a session has failed.
///
/// # Safety
///
/// `session` is the calling thread's.
unsafe fn has_failed(session: *const c_void) -> bool {
    let place = AREA_OF_SESSION.load(Relaxed);
    if place == 0 {
        return false;
    }
    // SAFETY: the caller's promise; a session always has a diagnostics area, which the server itself reads
    // for each error.
    let area = unsafe { session.byte_add(place).cast::<*const Area>().read().as_ref() };
    area.is_some_and(|area| area.status == ERROR)
}

/// The number shown for an error without one: `ER_UNKNOWN_ERROR`.
const UNKNOWN: u32 = 1105;

/// Returns the number of a condition about to be raised if it is the error by which its statement fails.
///
/// # Safety
///
/// `session` is the calling thread's, and `condition` a `Sql_condition_identity` of the server, unchanged
/// during the call.
pub unsafe fn first_error(session: *const c_void, condition: *const c_void) -> Option<u32> {
    // SAFETY: the caller's promise.
    let number = unsafe { error_number(condition).filter(|_| !has_failed(session)) };
    number.map(|number| if number == 0 { UNKNOWN } else { number })
}

/// Returns whether the outcome is the empty one: a result without warnings, or nothing was sent. Most
/// statements end like this.
///
/// # Safety
///
/// See [`outcome`].
#[inline(always)]
pub unsafe fn is_plain_result(area: *const c_void) -> bool {
    // SAFETY: the caller's promise.
    let area = unsafe { area.cast::<Area>().as_ref() };
    area.is_some_and(|area| match area.status {
        EOF => area.statement_warn_count == 0,
        status => status == EMPTY,
    })
}

/// Reads the outcome; returns the empty one for NULL.
///
/// # Safety
///
/// `area` is NULL or the diagnostics area of the statement that ends on this thread, which nothing changes
/// during `'a`.
pub unsafe fn outcome<'a>(area: *const c_void) -> Outcome<'a> {
    // SAFETY: the caller's promise. Only bytes, integers and one unused pointer are read; the server reads
    // the flags as bytes too, and they hold 0 or 1.
    let Some(area) = (unsafe { area.cast::<Area>().as_ref() }) else { return Outcome::default() };
    match area.status {
        OK => Outcome {
            sqlstate: Some(*b"00000"),
            message: text(&area.message),
            warnings: area.statement_warn_count,
            rows_affected: area.affected_rows,
            ..Outcome::default()
        },
        EOF => Outcome { warnings: area.statement_warn_count, ..Outcome::default() },
        ERROR => {
            let [a, b, c, d, e, _] = area.sqlstate;
            Outcome {
                sql_errno: area.sql_errno,
                sqlstate: Some([a, b, c, d, e]),
                message: text(&area.message),
                errors: 1,
                ..Outcome::default()
            }
        }
        _ => Outcome::default(),
    }
}

/// Returns the text up to the first NUL.
fn text(buffer: &[u8]) -> &[u8] {
    let end = buffer.iter().position(|byte| *byte == 0).unwrap_or(buffer.len());
    &buffer[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(status: u32) -> Area {
        let mut message = [0; 512];
        message[..4].copy_from_slice(b"Oops");
        message[5] = b'x'; // left over from an earlier statement
        Area {
            sqlstate: *b"42S02\0",
            sql_errno: 1146,
            user_condition: std::ptr::null(),
            is_sent: true,
            can_overwrite_status: false,
            message,
            affected_rows: 3,
            last_insert_id: 9,
            statement_warn_count: 2,
            status,
        }
    }

    fn read(area: &Area) -> Outcome<'_> {
        // SAFETY: a whole area that outlives the outcome.
        unsafe { outcome(std::ptr::from_ref(area).cast()) }
    }

    fn is_plain(area: &Area) -> bool {
        // SAFETY: as above.
        unsafe { is_plain_result(std::ptr::from_ref(area).cast()) }
    }

    #[test]
    fn an_error_of_a_statement_that_has_failed_is_told_from_its_first() {
        AREA_OF_SESSION.store(8, Relaxed);
        let is_aftermath = |area: &Area, level: u32| {
            let session = [0, std::ptr::from_ref(area).addr()];
            // SAFETY: the stand-in for a session has the address of a whole area at the offset that was set.
            unsafe { is_aftermath(session.as_ptr().cast(), std::ptr::from_ref(&level).cast()) }
        };
        assert!(is_aftermath(&area(ERROR), LEVEL_ERROR));
        assert!(!is_aftermath(&area(ERROR), 1), "a warning");
        let first = |area: &Area, sql_errno: u32, level: u32| {
            let session = [0, std::ptr::from_ref(area).addr()];
            let condition = SqlCondition { sqlstate: *b"42S02\0", sql_errno, level };
            // SAFETY: as above, and a whole condition.
            unsafe { first_error(session.as_ptr().cast(), std::ptr::from_ref(&condition).cast()) }
        };
        assert_eq!(first(&area(EMPTY), 1062, LEVEL_ERROR), Some(1062));
        assert_eq!(first(&area(EMPTY), 0, LEVEL_ERROR), Some(UNKNOWN));
        assert_eq!([first(&area(ERROR), 1062, LEVEL_ERROR), first(&area(EMPTY), 1062, 1)], [None, None]);
        assert!(!is_aftermath(&area(EMPTY), LEVEL_ERROR), "left over from an earlier statement");
        AREA_OF_SESSION.store(0, Relaxed);
        assert!(!is_aftermath(&area(ERROR), LEVEL_ERROR), "where nothing is known nothing is left out");
        assert!(!find_area(), "this program is no server");
    }

    #[test]
    fn each_status_yields_its_own_columns() {
        let ok = area(OK);
        let seen = read(&ok);
        assert_eq!((seen.sqlstate, seen.message, seen.errors), (Some(*b"00000"), &b"Oops"[..], 0));
        assert_eq!((seen.warnings, seen.rows_affected, seen.sql_errno), (2, 3, 0));
        let mut eof = area(EOF);
        assert_eq!(read(&eof), Outcome { warnings: 2, ..Outcome::default() });
        assert!(!is_plain(&ok) && !is_plain(&eof));
        eof.statement_warn_count = 0;
        assert!(is_plain(&eof) && read(&eof) == Outcome::default());
        let error = area(ERROR);
        assert!(!is_plain(&error));
        let seen = read(&error);
        assert_eq!((seen.sqlstate, seen.message, seen.errors), (Some(*b"42S02"), &b"Oops"[..], 1));
        assert_eq!((seen.warnings, seen.rows_affected, seen.sql_errno), (0, 0, 1146));
        for other in [EMPTY, 3, 4, 6, 77] {
            assert_eq!(read(&area(other)), Outcome::default());
            assert_eq!(is_plain(&area(other)), other == EMPTY);
        }
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { outcome(std::ptr::null()) }, Outcome::default());
    }
}
