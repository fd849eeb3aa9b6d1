//! The outcome of a statement, from the diagnostics area that `end_statement` receives.
//!
//! Which status fills which columns follows the built-in: see the table in `FACTS.md`.
#![allow(unsafe_code)]

use std::cell::Cell;
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
pub struct StatementDiagnostics<'a> {
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

/// Returns the number that the server shows for a condition if it is an error.
///
/// # Safety
///
/// `condition` is a `Sql_condition_identity` of the server, unchanged during the call.
pub unsafe fn error_number(condition: *const c_void) -> Option<u32> {
    // SAFETY: the caller's promise.
    let condition = unsafe { &*condition.cast::<SqlCondition>() };
    let number = if condition.sql_errno == 0 { UNKNOWN } else { condition.sql_errno };
    (condition.level == LEVEL_ERROR).then_some(number)
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

/// How many numbers of one statement's errors are kept.
const KEPT: usize = 8;

/// Errors that say only that something failed: without a cause of its own, and because of an aborted sort.
const UNSPECIFIC: [u32; 2] = [UNKNOWN, 1028];

/// The number shown for an error without one: `ER_UNKNOWN_ERROR`.
const UNKNOWN: u32 = 1105;

thread_local! {
    /// The numbers of the errors that the thread's statement has raised, the first that failed it ahead;
    /// zeros follow.
    static NUMBERS: Cell<[u32; KEPT]> = const { Cell::new([0; KEPT]) };
}

/// Returns whether a condition that is about to be raised as an error repeats one of its statement. The
/// server reports many failures at several levels of its code: with the same error again, or with one that
/// says only that something failed. Errors with other numbers have causes of their own.
///
/// # Safety
///
/// `session` is the calling thread's, and `condition` a `Sql_condition_identity` of the server, unchanged
/// during the call.
pub unsafe fn is_repetition(session: *const c_void, condition: *const c_void) -> bool {
    // SAFETY: the caller's promise.
    let Some(number) = (unsafe { error_number(condition) }) else { return false };
    // SAFETY: the caller's promise.
    let failed = unsafe { failure(session) };
    failed.is_some_and(|first| {
        first == number || UNSPECIFIC.contains(&number) || NUMBERS.get().contains(&number)
    })
}

/// Keeps the number of an error that counts, for [`is_repetition`], before the server notes the error itself.
///
/// # Safety
///
/// `session` is the calling thread's.
pub unsafe fn keep_number(session: *const c_void, number: u32) {
    // SAFETY: the caller's promise.
    let mut numbers = if unsafe { failure(session) }.is_some() { NUMBERS.get() } else { [0; KEPT] };
    let free = numbers.iter_mut().take_while(|it| **it != number).find(|it| **it == 0);
    if let Some(free) = free {
        *free = number;
    }
    NUMBERS.set(numbers);
}

/// Returns whether the level of a condition is that of an error, to which a strict mode raises warnings.
///
/// # Safety
///
/// `level` is the level of a condition, where the server itself reads it now.
pub unsafe fn is_error(level: *const c_void) -> bool {
    // SAFETY: the caller's promise.
    unsafe { level.cast::<u32>().read() == LEVEL_ERROR }
}

/// Returns the number of the error by which the statement of a session has failed.
///
/// # Safety
///
/// `session` is the calling thread's.
unsafe fn failure(session: *const c_void) -> Option<u32> {
    let place = AREA_OF_SESSION.load(Relaxed);
    if place == 0 {
        return None;
    }
    // SAFETY: the caller's promise; a session always has a diagnostics area, which the server itself reads
    // for each error.
    let area = unsafe { session.byte_add(place).cast::<*const Area>().read().as_ref() };
    area.filter(|area| area.status == ERROR).map(|area| area.sql_errno)
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
pub unsafe fn outcome<'a>(area: *const c_void) -> StatementDiagnostics<'a> {
    // SAFETY: the caller's promise. Only bytes, integers and one unused pointer are read; the server reads
    // the flags as bytes too, and they hold 0 or 1.
    let Some(area) = (unsafe { area.cast::<Area>().as_ref() }) else {
        return StatementDiagnostics::default();
    };
    match area.status {
        OK => StatementDiagnostics {
            sqlstate: Some(*b"00000"),
            message: text(&area.message),
            warnings: area.statement_warn_count,
            rows_affected: area.affected_rows,
            ..StatementDiagnostics::default()
        },
        EOF => {
            StatementDiagnostics { warnings: area.statement_warn_count, ..StatementDiagnostics::default() }
        }
        ERROR => {
            let [a, b, c, d, e, _] = area.sqlstate;
            StatementDiagnostics {
                sql_errno: area.sql_errno,
                sqlstate: Some([a, b, c, d, e]),
                message: text(&area.message),
                errors: 1,
                ..StatementDiagnostics::default()
            }
        }
        _ => StatementDiagnostics::default(),
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

    fn read(area: &Area) -> StatementDiagnostics<'_> {
        // SAFETY: a whole area that outlives the outcome.
        unsafe { outcome(std::ptr::from_ref(area).cast()) }
    }

    fn is_plain(area: &Area) -> bool {
        // SAFETY: as above.
        unsafe { is_plain_result(std::ptr::from_ref(area).cast()) }
    }

    /// Raises an error as the server does, in a statement with this diagnostics area; returns whether it
    /// counts.
    fn counts(area: &Area, sql_errno: u32, level: u32) -> bool {
        let session = [0, std::ptr::from_ref(area).addr()];
        let condition = SqlCondition { sqlstate: *b"42S02\0", sql_errno, level };
        let condition = std::ptr::from_ref(&condition).cast();
        // SAFETY: the stand-in for a session has the address of a whole area at the offset that was set, and
        // the condition is whole.
        unsafe {
            let counts = !is_repetition(session.as_ptr().cast(), condition);
            let number = error_number(condition).filter(|_| counts);
            number.into_iter().for_each(|number| keep_number(session.as_ptr().cast(), number));
            counts
        }
    }

    #[test]
    fn a_repeated_error_is_told_from_another_one_by_its_number() {
        AREA_OF_SESSION.store(8, Relaxed);
        let (whole, mut failed) = (area(EMPTY), area(ERROR));
        let error = |area: &Area, number: u32| counts(area, number, LEVEL_ERROR);
        assert!(error(&whole, 1146), "left over from an earlier statement");
        assert!(!error(&failed, 1146), "1146, and again");
        assert!(error(&failed, 1048) && !error(&failed, 1048), "another one, and that again");
        assert_eq!([0, UNKNOWN, 1028].map(|number| error(&failed, number)), [false; 3]);
        assert!(!error(&failed, 1146), "the first again after another one");
        assert!(counts(&failed, 1146, 1) && counts(&failed, 1146, 0), "a warning, a note");
        assert!(error(&failed, 1265) && !error(&failed, 1048), "a third one makes none forgotten");
        assert!((2000..2100).all(|number| error(&failed, number)), "too many to be kept");
        assert!(error(&whole, 1048), "the next statement");
        failed.sql_errno = 1048;
        assert!(!error(&failed, 1048) && error(&failed, 1265) && error(&failed, 1146));
        assert!(error(&whole, 0) && error(&whole, 1028), "an unspecific one alone");

        AREA_OF_SESSION.store(0, Relaxed);
        assert!(error(&failed, 1048), "where nothing is known nothing is left out");
        assert!(!find_area(), "this program is no server");
        let levels = [0, 1, LEVEL_ERROR].map(|level: u32| {
            // SAFETY: a whole level.
            unsafe { is_error(std::ptr::from_ref(&level).cast()) }
        });
        assert_eq!(levels, [false, false, true]);
    }

    #[test]
    fn each_status_yields_its_own_columns() {
        let ok = area(OK);
        let seen = read(&ok);
        assert_eq!((seen.sqlstate, seen.message, seen.errors), (Some(*b"00000"), &b"Oops"[..], 0));
        assert_eq!((seen.warnings, seen.rows_affected, seen.sql_errno), (2, 3, 0));
        let mut eof = area(EOF);
        assert_eq!(read(&eof), StatementDiagnostics { warnings: 2, ..StatementDiagnostics::default() });
        assert!(!is_plain(&ok) && !is_plain(&eof));
        eof.statement_warn_count = 0;
        assert!(is_plain(&eof) && read(&eof) == StatementDiagnostics::default());
        let error = area(ERROR);
        assert!(!is_plain(&error));
        let seen = read(&error);
        assert_eq!((seen.sqlstate, seen.message, seen.errors), (Some(*b"42S02"), &b"Oops"[..], 1));
        assert_eq!((seen.warnings, seen.rows_affected, seen.sql_errno), (0, 0, 1146));
        for other in [EMPTY, 3, 4, 6, 77] {
            assert_eq!(read(&area(other)), StatementDiagnostics::default());
            assert_eq!(is_plain(&area(other)), other == EMPTY);
        }
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { outcome(std::ptr::null()) }, StatementDiagnostics::default());
    }
}
