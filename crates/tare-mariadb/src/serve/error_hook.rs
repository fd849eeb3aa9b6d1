//! Gives a client the endpoint's own error instead of FEDERATED's wrapping of it.
//!
//! A refusal by the endpoint reaches the client as error 1296, "Got error 10000 'Error on remote system:
//! 1683: Invalid performance_schema usage' from FEDERATED". The built-in says 1683, "Invalid
//! performance_schema usage". Every error of the server passes through the exported variable
//! `error_handler_hook`. This module puts its own handler in front of the one in the variable and unwraps the
//! errors of [`FORMS`], which only tare's tables produce. The server formats the wrapping in its client's
//! language; FEDERATED's own words are English.
//!
//! The server refuses a TRUNCATE of a view as one of a missing table (1146). Tare's views exist, so the error
//! becomes the built-in's 1683 as well.
//!
//! FEDERATED refuses another table like one of tare's without naming the table that was to be created. So
//! FEDERATED's error is held back, and the server, which finds no error, reports by name that it cannot
//! create the table; the cause in that error becomes the built-in's.
//!
//! When the endpoint does not answer at all, FEDERATED raises the error number of its client library (2003,
//! 2013 …). Clients reserve those numbers for themselves and treat such an answer as a malformed packet, so
//! the user would not learn what is wrong. They become the server's own numbers for the same problems.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_uint, c_ulong, c_void};
use std::io::{Cursor, Write};
use std::ops::RangeInclusive;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use tare_host::options::wildcard_matches;
use tare_host::process::symbol;

use crate::host::command::{self, TableCommand};
pub use crate::host::running::server_is_up;

/// The errors that are unwrapped: number, and pattern of the text (see [`wildcard_matches`]). 1062 is not
/// among them because FEDERATED turns it into an error of its own without a text.
pub const FORMS: [(u32, &str); 8] = [
    (1045, "Access denied: only the tables installed in performance_schema %"),
    (1235, "Transactions are not supported: only the tables installed in performance_schema %"),
    (1683, "Invalid performance_schema usage"),
    (1142, "% command denied to user % for table `performance_schema`.%"),
    (1114, "The table % is full"),
    (1452, "Cannot add or update a child row: a foreign key constraint fails"),
    (1265, "Data truncated for column % at row %"),
    (1231, "Variable % can't be set to the value of %"),
];

/// A function that writes the account of the calling thread's session as `'user'@'host'`; returns false if it
/// has none. Runs in the middle of the server's error handling: no allocation, no lock, no panic.
pub type AccountSource = fn(&mut dyn Write) -> bool;

/// The account as the endpoint sees it: FEDERATED's, not the session's.
const ENDPOINT_ACCOUNT: &[u8] = b"'tare'@'localhost'";

/// ER_GET_ERRMSG, the error that wraps FEDERATED's.
const WRAPPED: c_uint = 1296;
/// The text that FEDERATED puts before the remote number and text.
const REMOTE: &[u8] = b"Error on remote system: ";
/// The numbers that a client library reserves for its own errors.
const CLIENT_ERRORS: RangeInclusive<c_uint> = 2000..=2999;
/// The client errors that are about connecting.
const CONNECT_ERRORS: RangeInclusive<c_uint> = 2001..=2005;
/// ER_CONNECT_TO_FOREIGN_DATA_SOURCE and its text.
const NO_CONNECTION: (c_uint, &[u8]) = (1429, b"Unable to connect to foreign data source: ");
/// ER_QUERY_ON_FOREIGN_DATA_SOURCE and its text.
const QUERY_FAILED: (c_uint, &[u8]) =
    (1430, b"There was a problem processing the query on the foreign data source. Data source error: ");
/// The text that FEDERATED puts before the number and text of its client library, and before the remote ones
/// when it asks for a table's status.
const RECEIVED: &[u8] = b"Received error: ";
/// ER_CANT_CREATE_FEDERATED_TABLE and the part of FEDERATED's text that shows where the table was to lead.
const NOT_CREATED: (c_uint, &[u8]) =
    (1434, b"database: 'performance_schema'  username: 'tare'  hostname: '127");
/// ER_CANT_CREATE_TABLE and the cause it ends with when the built-in refuses another table like one of its
/// own.
const NO_SUCH_COMMAND: (c_uint, &[u8]) = (1005, b"131 \"Command not supported by the engine\")");
/// ER_GET_ERRNO, which the server adds afterwards with FEDERATED's own number.
const ADDED: c_uint = 1030;
/// ER_ILLEGAL_HA: the engine lacks a feature. The text names the engine and the table.
const NO_OPTION: c_uint = 1031;
/// ER_WRONG_OBJECT: an object is a view, not a table.
const NO_BASE_TABLE: c_uint = 1347;
/// ER_ILLEGAL_HA_CREATE_OPTION: the built-in's refusal of a temporary table.
const NO_CREATE_OPTION: c_uint = 1478;
/// The engine of tare's tables and the engine of the built-in's.
const ENGINES: (&[u8], &CStr) = (b"FEDERATED", c"PERFORMANCE_SCHEMA");
/// The text before the name of a table in [`NO_OPTION`].
const SCHEMA: &[u8] = b"`performance_schema`.";
/// ER_NO_SUCH_TABLE and the text that precedes the name of a table of the schema, in any language.
const NO_TABLE: (c_uint, &[u8]) = (1146, b"performance_schema.");
/// ER_WRONG_PERFSCHEMA_USAGE: the built-in's refusal of a TRUNCATE.
const WRONG_USAGE: (c_uint, &[u8]) = (1683, b"Invalid performance_schema usage");
/// The server's limit of an error's text in bytes, including the terminating zero.
const TEXT_SIZE: usize = 512;

/// The type of `error_handler_hook`: number, text, flags.
type ErrorHandler = unsafe extern "C" fn(c_uint, *const c_char, c_ulong);

/// The server's original handler; set before the variable points here.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static ACCOUNT: OnceLock<AccountSource> = OnceLock::new();
/// The names of the views that are shown to the server.
static VIEWS: OnceLock<Vec<&'static str>> = OnceLock::new();

/// The errors that this thread has seen about a table that cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotMade {
    /// None.
    No,
    /// FEDERATED's refusal, which was held back; the server's own error comes next.
    KeptBack,
    /// The server's own error; its addition comes next. The built-in adds nothing for a temporary table.
    Refused { is_temporary: bool },
}

thread_local! {
    static NOT_MADE: Cell<NotMade> = const { Cell::new(NotMade::No) };
}

/// Puts the translation in front of the server's error handler. Call it once, after [`server_is_up`]: during
/// start-up the server sets the variable itself. Returns false if the server exports no such variable.
///
/// `account` writes the session's account into texts that name one; `views` are the tables that are views.
pub fn install(account: AccountSource, views: Vec<&'static str>) -> bool {
    ACCOUNT.get_or_init(|| account);
    VIEWS.get_or_init(|| views);
    let Some(variable) = symbol(c"error_handler_hook") else { return false };
    // SAFETY: the variable is an aligned pointer that lives as long as the program. Other threads read it
    // with plain loads while this thread stores into it: on every supported machine such a load sees the
    // old or the new pointer, and both lead to the old handler.
    let variable = unsafe { AtomicPtr::from_ptr(variable.cast::<*mut c_void>()) };
    let ours = translate as *mut c_void;
    let handler = variable.load(Ordering::Acquire);
    if handler == ours || handler.is_null() {
        return handler == ours;
    }
    NEXT.store(handler, Ordering::Release);
    variable.compare_exchange(handler, ours, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Replaces the server's error handler. Neither allocates nor panics.
unsafe extern "C" fn translate(number: c_uint, text: *const c_char, flags: c_ulong) {
    let next = NEXT.load(Ordering::Acquire);
    if next.is_null() {
        return;
    }
    // SAFETY: NEXT holds the server's original handler, a function of this type.
    let next = unsafe { std::mem::transmute::<*mut c_void, ErrorHandler>(next) };
    let is_form = || FORMS.iter().any(|(known, _)| *known == number);
    let known = [WRAPPED, NOT_CREATED.0, NO_SUCH_COMMAND.0, NO_TABLE.0, ADDED, NO_OPTION, NO_BASE_TABLE];
    let is_known = known.contains(&number) || CLIENT_ERRORS.contains(&number);
    let not_made = NOT_MADE.replace(NotMade::No);
    if !text.is_null() && (is_known || is_form()) {
        // SAFETY: the server passes a NUL-terminated text.
        let given = unsafe { CStr::from_ptr(text) }.to_bytes();
        match said(number, given, not_made) {
            ErrorReplacement::AsGiven => {}
            ErrorReplacement::Nothing => return,
            ErrorReplacement::Clear(clear, is_error) => {
                let mut copy = [0u8; TEXT_SIZE];
                clear.write_to(&mut copy, ACCOUNT.get().copied().unwrap_or(|_| false));
                let flags = if is_error { 0 } else { flags };
                // SAFETY: `copy` ends in a zero and outlives the call; the handler copies what it keeps.
                unsafe { next(clear.number, copy.as_ptr().cast(), flags) };
                return;
            }
            ErrorReplacement::Formatted(number, parts) => {
                // The server calls this function again meanwhile.
                let heard = NOT_MADE.get();
                if raise(number, parts) {
                    return NOT_MADE.set(heard);
                }
            }
        }
    }
    // SAFETY: passed on unchanged.
    unsafe { next(number, text, flags) };
}

/// The replacement of a server's error.
enum ErrorReplacement<'a> {
    /// The server's own text.
    AsGiven,
    /// No error: a better one follows or was already sent.
    Nothing,
    /// This text; `true` makes it an error although the server only warns.
    Clear(Clear<'a>, bool),
    /// The server's own text for this number, in its client's language, with these parts.
    Formatted(c_uint, [&'a [u8]; 3]),
}

/// The space for a name of 64 characters in an error's text, with a terminating zero.
const NAME_SIZE: usize = 64 * 3 + 1;

fn said(number: c_uint, given: &[u8], not_made: NotMade) -> ErrorReplacement<'_> {
    match (number, not_made) {
        (number, _) if number == NOT_CREATED.0 && leads_here(given) => {
            NOT_MADE.set(NotMade::KeptBack);
            return ErrorReplacement::Nothing;
        }
        (number, NotMade::KeptBack) if number == NO_SUCH_COMMAND.0 => {
            let is_temporary = command::makes_temporary();
            NOT_MADE.set(NotMade::Refused { is_temporary });
            if is_temporary {
                return ErrorReplacement::Formatted(
                    NO_CREATE_OPTION,
                    [ENGINES.1.to_bytes(), b"TEMPORARY", b""],
                );
            }
            return refused(number, given)
                .map_or(ErrorReplacement::AsGiven, |clear| ErrorReplacement::Clear(clear, false));
        }
        (ADDED, NotMade::Refused { is_temporary: true }) => return ErrorReplacement::Nothing,
        (ADDED, NotMade::Refused { .. }) => return ErrorReplacement::Clear(WRONG_USAGE_ONLY, true),
        _ => {}
    }
    let views = VIEWS.get().map_or(&[][..], Vec::as_slice);
    if number == NO_BASE_TABLE
        && let Some(view) = named_view(given, views)
    {
        let engine = ENGINES.1.to_bytes();
        match command::current() {
            Some(TableCommand::Handler) => {
                return ErrorReplacement::Formatted(NO_OPTION, [engine, b"performance_schema", view]);
            }
            Some(TableCommand::Create) if command::makes_temporary() => {
                return ErrorReplacement::Formatted(NO_CREATE_OPTION, [engine, b"TEMPORARY", b""]);
            }
            _ => {}
        }
    }
    let truncates = || command::current() == Some(TableCommand::Truncate);
    let not_emptied = || truncated_view(number, given, views).filter(|_| truncates());
    let clear = clearer(number, given).or_else(|| named_engine(number, given)).or_else(not_emptied);
    clear.map_or(ErrorReplacement::AsGiven, |clear| ErrorReplacement::Clear(clear, false))
}

/// Makes the server raise an error in its client's language; returns false if it does not export the
/// function.
fn raise(number: c_uint, texts: [&[u8]; 3]) -> bool {
    type Raise = unsafe extern "C" fn(c_uint, c_ulong, ...);
    let Some(raise) = symbol(c"my_error") else { return false };
    // SAFETY: the server's function of this name takes a number, flags, and the arguments of the number's
    // text.
    let raise = unsafe { std::mem::transmute::<*mut c_void, Raise>(raise) };
    let mut parts = [[0u8; NAME_SIZE]; 3];
    for (part, text) in parts.iter_mut().zip(texts) {
        let length = text.len().min(NAME_SIZE - 1);
        part[..length].copy_from_slice(&text[..length]);
    }
    let [first, second, third] = parts.each_ref().map(|part| part.as_ptr().cast::<c_char>());
    // SAFETY: both texts take strings only, at most three; each part ends with a zero and outlives the call.
    unsafe { raise(number, 0, first, second, third) };
    true
}

/// An error as the client should see it.
#[derive(Debug, PartialEq, Eq)]
struct Clear<'a> {
    number: c_uint,
    prefix: &'a [u8],
    text: &'a [u8],
    suffix: &'a [u8],
}

impl Clear<'_> {
    /// Writes prefix and text, with the session's account in place of the endpoint's. What does not fit is
    /// cut off, and the last byte stays zero.
    fn write_to(&self, copy: &mut [u8; TEXT_SIZE], account: AccountSource) {
        let mut cursor = Cursor::new(&mut copy[..TEXT_SIZE - 1]);
        // A full buffer cuts off the rest; that is not an error.
        let put = |cursor: &mut Cursor<_>, part: &[u8]| drop(cursor.write_all(part));
        put(&mut cursor, self.prefix);
        match self.text.windows(ENDPOINT_ACCOUNT.len()).position(|part| part == ENDPOINT_ACCOUNT) {
            Some(start) => {
                put(&mut cursor, &self.text[..start]);
                if !account(&mut cursor) {
                    put(&mut cursor, ENDPOINT_ACCOUNT);
                }
                put(&mut cursor, &self.text[start + ENDPOINT_ACCOUNT.len()..]);
            }
            None => put(&mut cursor, self.text),
        }
        put(&mut cursor, self.suffix);
    }
}

/// The built-in's refusal, without other text.
const WRONG_USAGE_ONLY: Clear<'static> =
    Clear { number: WRONG_USAGE.0, prefix: b"", text: WRONG_USAGE.1, suffix: b"" };

/// Returns a missing-feature error about a table of the schema, with the built-in's engine in place of
/// FEDERATED.
fn named_engine(number: c_uint, given: &[u8]) -> Option<Clear<'_>> {
    let (theirs, ours) = ENGINES;
    let engine = given.windows(theirs.len()).position(|part| part == theirs)?;
    let is_ours = given.windows(SCHEMA.len()).any(|part| part == SCHEMA);
    let (prefix, suffix) = (&given[..engine], &given[engine + theirs.len()..]);
    (number == NO_OPTION && is_ours).then_some(Clear { number, prefix, text: ours.to_bytes(), suffix })
}

/// Returns the view of tare's that a text names.
fn named_view<'v>(given: &[u8], views: &[&'v str]) -> Option<&'v [u8]> {
    let (_, schema) = NO_TABLE;
    let start = given.windows(schema.len()).position(|part| part == schema)? + schema.len();
    let name = given[start..].split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').next()?;
    views.iter().map(|view| view.as_bytes()).find(|view| *view == name)
}

/// Returns the error for a TRUNCATE of a view; `None` if the error is not about one of tare's views.
fn truncated_view(number: c_uint, given: &[u8], views: &[&str]) -> Option<Clear<'static>> {
    named_view(given, views).filter(|_| number == NO_TABLE.0).map(|_| WRONG_USAGE_ONLY)
}

/// Returns whether FEDERATED's text is about a table that was to lead to the endpoint.
fn leads_here(given: &[u8]) -> bool {
    given.windows(NOT_CREATED.1.len()).any(|part| part == NOT_CREATED.1)
}

/// Returns the server's error about a table it cannot create, in any language, with the built-in's cause;
/// `None` if it names no cause.
fn refused(number: c_uint, given: &[u8]) -> Option<Clear<'_>> {
    let (no_such_command, cause) = NO_SUCH_COMMAND;
    let said = given.iter().rposition(|byte| *byte == b'(')?;
    let colon = said + given[said..].windows(2).position(|part| part == b": ")?;
    let text = &given[..colon + 2];
    (number == no_such_command).then_some(Clear { number, prefix: b"", text, suffix: cause })
}

/// Returns the replacement of an error; `None` if the error does not concern tare.
fn clearer(number: c_uint, given: &[u8]) -> Option<Clear<'_>> {
    if number == WRAPPED {
        let (number, text) = unwrap(given)?;
        return Some(Clear { number, prefix: b"", text, suffix: b"" });
    }
    let text = given.strip_prefix(RECEIVED)?;
    let separator = text.windows(3).position(|part| part == b" : ")?;
    let text = &text[separator + 3..];
    let (number, prefix) = match number {
        _ if CONNECT_ERRORS.contains(&number) => NO_CONNECTION,
        _ if CLIENT_ERRORS.contains(&number) => QUERY_FAILED,
        _ if is_form(number, std::str::from_utf8(text).ok()?) => (number, &b""[..]),
        _ => return None,
    };
    Some(Clear { number, prefix, text, suffix: b"" })
}

/// Returns whether an error of the endpoint is one of [`FORMS`].
fn is_form(number: u32, text: &str) -> bool {
    FORMS.iter().any(|&(known, form)| known == number && wildcard_matches(form, text))
}

/// Returns the endpoint's number and text from a wrapped error; `None` if it is not one of [`FORMS`].
fn unwrap(wrapped: &[u8]) -> Option<(u32, &[u8])> {
    let start = wrapped.windows(REMOTE.len()).position(|part| part == REMOTE)? + REMOTE.len();
    let end = wrapped.iter().rposition(|&b| b == b'\'')?;
    let inner = std::str::from_utf8(wrapped.get(start..end)?).ok()?;
    let (number, text) = inner.split_once(": ")?;
    let number = number.parse().ok()?;
    is_form(number, text).then_some((number, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tares_own_errors_are_unwrapped() {
        let usage = "Invalid performance_schema usage";
        let denied = "UPDATE command denied to user 'u'@'h' for table `performance_schema`.`threads`";
        for (wrapped, expected) in [
            (
                format!("Got error 10000 'Error on remote system: 1683: {usage}' from FEDERATED"),
                Some((1683, usage)),
            ),
            (
                format!("Fehler 10000 'Error on remote system: 1683: {usage}' von FEDERATED"),
                Some((1683, usage)),
            ),
            (
                format!("Got error 10000 'Error on remote system: 1142: {denied}' from FEDERATED"),
                Some((1142, denied)),
            ),
            (format!("Got error 10000 'Error on remote system: 1684: {usage}' from FEDERATED"), None),
            (
                "Got error 10000 'Error on remote system: 1683: Something else' from FEDERATED".to_owned(),
                None,
            ),
            (
                "Got error 10000 'Error on remote system: 2013: Lost connection' from FEDERATED".to_owned(),
                None,
            ),
            ("Got error 10000 'Error on remote system: ' from FEDERATED".to_owned(), None),
            ("'Error on remote system: 1683".to_owned(), None),
            ("Error on remote system: ".to_owned(), None),
            ("Got error 122 'Internal' from InnoDB".to_owned(), None),
            (String::new(), None),
        ] {
            let expected = expected.map(|(number, text): (u32, &str)| (number, text.as_bytes()));
            assert_eq!(unwrap(wrapped.as_bytes()), expected, "{wrapped}");
        }
    }

    #[test]
    fn errors_of_the_client_library_get_numbers_a_client_understands() {
        let text = |number, given: &str| {
            let clear = clearer(number, given.as_bytes())?;
            let mut copy = [0u8; TEXT_SIZE];
            clear.write_to(&mut copy, |_| false);
            let shown = CStr::from_bytes_until_nul(&copy).unwrap().to_str().unwrap().to_owned();
            Some((clear.number, shown))
        };
        assert_eq!(
            text(2003, "Received error: 2003 : Can't connect to server on '127.84.65.82' (111)"),
            Some((
                1429,
                "Unable to connect to foreign data source: Can't connect to server on '127.84.65.82' (111)"
                    .to_owned()
            ))
        );
        assert_eq!(
            text(2013, "Received error: 2013 : Lost connection").map(|(number, _)| number),
            Some(1430)
        );
        assert_eq!(text(2013, "Lost connection"), None);
        // The endpoint's own refusal of SHOW TABLE STATUS.
        let denied = "Access denied: only the tables installed in performance_schema lead to its rows";
        assert_eq!(text(1045, &format!("Received error: 1045 : {denied}")), Some((1045, denied.to_owned())));
        assert_eq!(text(1045, "Received error: 1045 : Access denied for user"), None);
        assert_eq!(text(1045, "Access denied for user"), None);
        let long = format!("Received error: 2013 : {}", "x".repeat(TEXT_SIZE));
        assert_eq!(text(2013, &long).map(|(_, shown)| shown.len()), Some(TEXT_SIZE - 1));
    }

    #[test]
    fn a_view_that_is_truncated_is_there() {
        let views = ["session_status", "status"];
        let clear =
            |number, text: &str| truncated_view(number, text.as_bytes(), &views).map(|clear| clear.number);
        let absent = |name: &str| format!("Table 'performance_schema.{name}' doesn't exist");
        assert_eq!(clear(1146, &absent("session_status")), Some(1683));
        assert_eq!(clear(1146, "Tabelle 'performance_schema.status' existiert nicht"), Some(1683));
        assert_eq!(clear(1146, &absent("session_status_of_old")), None);
        assert_eq!(clear(1146, &absent("session")), None);
        assert_eq!(clear(1146, "Table 'test.session_status' doesn't exist"), None);
        assert_eq!(clear(1146, "performance_schema."), None);
        assert_eq!(clear(1051, &absent("session_status")), None);
    }

    #[test]
    fn a_table_that_cannot_lead_here_is_refused_as_by_the_built_in() {
        let given = |user: &str| {
            let place = "Kann FEDERATED-Tabelle nicht erzeugen:  database: 'performance_schema'  username: ";
            format!("{place}'{user}'  hostname: '127")
        };
        assert!(leads_here(given("tare").as_bytes()) && !leads_here(given("root").as_bytes()));
        let text = |number, given: &str| {
            let mut copy = [0u8; TEXT_SIZE];
            refused(number, given.as_bytes())?.write_to(&mut copy, |_| false);
            Some(CStr::from_bytes_until_nul(&copy).unwrap().to_str().unwrap().to_owned())
        };
        let cause = "131 \"Command not supported by the engine\")";
        for said in
            ["Can't create table `a(`.`b: ` (errno: ", "Kann Tabelle `a`.`b` nicht erzeugen (Fehler: "]
        {
            assert_eq!(
                text(1005, &format!("{said}1 \"Operation not permitted\")")),
                Some(format!("{said}{cause}"))
            );
        }
        assert_eq!(text(1005, "Can't create table `a`.`b`"), None);
        assert_eq!(text(1006, "Can't create database 'a' (errno: 1 \"\")"), None);
    }

    #[test]
    fn the_engine_is_the_built_ins_where_the_table_is_of_the_schema() {
        let text = |number, given: &str| {
            let mut copy = [0u8; TEXT_SIZE];
            named_engine(number, given.as_bytes())?.write_to(&mut copy, |_| false);
            Some(CStr::from_bytes_until_nul(&copy).unwrap().to_str().unwrap().to_owned())
        };
        let said = |engine: &str, table: &str| format!("Tabelle {table} von {engine} kann das nicht");
        let ours = "`performance_schema`.`threads`";
        assert_eq!(
            text(1031, &said("FEDERATED", ours)),
            Some(format!("Tabelle {ours} von PERFORMANCE_SCHEMA kann das nicht"))
        );
        assert_eq!(text(1031, &said("FEDERATED", "`own`.`threads`")), None);
        assert_eq!(text(1031, &said("InnoDB", ours)), None);
        assert_eq!(text(1030, &said("FEDERATED", ours)), None);
    }

    /// Returns the errors that a client sees of a statement that would create a table, in order.
    #[test]
    fn what_the_server_adds_to_a_refusal_is_what_the_built_in_adds() {
        let place = "database: 'performance_schema'  username: 'tare'  hostname: '127";
        assert!(matches!(said(1434, place.as_bytes(), NotMade::No), ErrorReplacement::Nothing));
        assert_eq!(NOT_MADE.replace(NotMade::No), NotMade::KeptBack);
        let cannot = b"Can't create table `a`.`b` (errno: 1 \"Operation not permitted\")";
        assert!(matches!(said(1005, cannot, NotMade::KeptBack), ErrorReplacement::Clear(..)));
        assert_eq!(NOT_MADE.replace(NotMade::No), NotMade::Refused { is_temporary: false });
        let added = b"Got error 1 \"Operation not permitted\" from storage engine FEDERATED";
        let ErrorReplacement::Clear(clear, is_error) =
            said(1030, added, NotMade::Refused { is_temporary: false })
        else {
            panic!("another text");
        };
        assert_eq!((clear.number, is_error), (1683, true));
        assert!(matches!(
            said(1030, added, NotMade::Refused { is_temporary: true }),
            ErrorReplacement::Nothing
        ));
        assert!(matches!(said(1030, added, NotMade::No), ErrorReplacement::AsGiven));
        assert!(matches!(said(1005, cannot, NotMade::No), ErrorReplacement::AsGiven));
    }

    #[test]
    fn a_denied_session_reads_its_own_name() {
        let given = "Got error 10000 'Error on remote system: 1142: INSERT command denied to user \
                     'tare'@'localhost' for table `performance_schema`.`threads`' from FEDERATED";
        let clear = clearer(WRAPPED, given.as_bytes()).expect("one of the forms");
        let shown = |account: AccountSource| {
            let mut copy = [0u8; TEXT_SIZE];
            clear.write_to(&mut copy, account);
            CStr::from_bytes_until_nul(&copy).unwrap().to_str().unwrap().to_owned()
        };
        let named = |name: &str| {
            format!("INSERT command denied to user {name} for table `performance_schema`.`threads`")
        };
        assert_eq!(shown(|to| to.write_all(b"'ann'@'%'").is_ok()), named("'ann'@'%'"));
        assert_eq!(shown(|_| false), named("'tare'@'localhost'"));
        assert_eq!(clear.number, 1142);
        let flood: AccountSource = |to| {
            let _ = to.write_all(&[b'x'; 2 * TEXT_SIZE]);
            true
        };
        assert_eq!(shown(flood).len(), TEXT_SIZE - 1);
    }
}
