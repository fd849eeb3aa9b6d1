//! Gives a client the endpoint's own error instead of FEDERATED's wrapping of it.
//!
//! What the endpoint refuses reaches the client as error 1296, "Got error 10000 'Error on remote system:
//! 1683: Invalid performance_schema usage' from FEDERATED". The built-in Performance Schema says 1683,
//! "Invalid performance_schema usage". Every error of the server goes through the exported variable
//! `error_handler_hook`; this module puts itself in front of what the variable holds, and unwraps the errors
//! of [`FORMS`], which only tare's tables give. The server formats the wrapping in its client's language,
//! FEDERATED's own words in English.
//!
//! A TRUNCATE of a view is refused by the server as one of a table that is not there (1146). The views of tare's
//! are there, so it becomes the built-in's 1683, too.
//!
//! A table like one of tare's is refused by FEDERATED without a word of which table was to be made. So FEDERATED's error is
//! kept back, and the server, which finds no error, says itself that it cannot make the table, by name; of that the cause
//! becomes the built-in's.
//!
//! When the endpoint does not answer at all, FEDERATED raises the number of its own client library (2003,
//! 2013 …). Clients keep those numbers for themselves and take such an answer for a malformed packet, so
//! the user would not learn what is wrong; they become the numbers the server has for them.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_uint, c_ulong, c_void};
use std::io::{Cursor, Write};
use std::ops::RangeInclusive;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::host::command::{self, Command};
use crate::options::wildcard_matches;
pub use crate::startup::server_is_up;
use crate::startup::symbol;

/// The errors that are unwrapped: number, and pattern of the text (see [`wildcard_matches`]). 1062 is not
/// among them: FEDERATED turns it into an error of its own without a text.
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

/// Writes the account of the calling thread's session, as `'user'@'host'`; false when it has none. Runs in
/// the middle of the server's error handling: no allocation, no lock, no panic.
pub type AccountSource = fn(&mut dyn Write) -> bool;

/// The account as the endpoint sees it: FEDERATED's, not the session's.
const ENDPOINT_ACCOUNT: &[u8] = b"'tare'@'localhost'";

/// ER_GET_ERRMSG, the wrapping.
const WRAPPED: c_uint = 1296;
/// What FEDERATED puts before the far end's number and text.
const REMOTE: &[u8] = b"Error on remote system: ";
/// The numbers a client library keeps for its own errors.
const CLIENT_ERRORS: RangeInclusive<c_uint> = 2000..=2999;
/// Of these, the ones about connecting.
const CONNECT_ERRORS: RangeInclusive<c_uint> = 2001..=2005;
/// ER_CONNECT_TO_FOREIGN_DATA_SOURCE and its text.
const NO_CONNECTION: (c_uint, &[u8]) = (1429, b"Unable to connect to foreign data source: ");
/// ER_QUERY_ON_FOREIGN_DATA_SOURCE and its text.
const QUERY_FAILED: (c_uint, &[u8]) =
    (1430, b"There was a problem processing the query on the foreign data source. Data source error: ");
/// What FEDERATED puts before the number and text of its client library, and of the far end when it asks for a table's
/// status.
const RECEIVED: &[u8] = b"Received error: ";
/// ER_CANT_CREATE_FEDERATED_TABLE, with what FEDERATED says of where the table was to lead, as far as it fits into its words.
const NOT_CREATED: (c_uint, &[u8]) =
    (1434, b"database: 'performance_schema'  username: 'tare'  hostname: '127");
/// ER_CANT_CREATE_TABLE, and the cause it ends with when the built-in refuses another table like one of its own.
const NO_SUCH_COMMAND: (c_uint, &[u8]) = (1005, b"131 \"Command not supported by the engine\")");
/// ER_NO_SUCH_TABLE, and what stands in its text, in any language, before the name of a table of the schema.
const NO_TABLE: (c_uint, &[u8]) = (1146, b"performance_schema.");
/// The built-in's refusal of a TRUNCATE: ER_WRONG_PERFSCHEMA_USAGE.
const WRONG_USAGE: (c_uint, &[u8]) = (1683, b"Invalid performance_schema usage");
/// The server's bound on an error's text, terminating zero included.
const TEXT_SIZE: usize = 512;

/// The type of `error_handler_hook`: number, text, flags.
type Handler = unsafe extern "C" fn(c_uint, *const c_char, c_ulong);

/// What the server had in its variable; set before the variable leads here.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static ACCOUNT: OnceLock<AccountSource> = OnceLock::new();
/// Names of the views that are shown to the server.
static VIEWS: OnceLock<Vec<&'static str>> = OnceLock::new();

thread_local! {
    /// FEDERATED's refusal to make a table was kept back on this thread: the server's own comes next.
    static KEPT_BACK: Cell<bool> = const { Cell::new(false) };
}

/// Puts the translation in front of the server's error handler; once, when [`server_is_up`]: during its
/// start-up the server sets the variable itself. False when the server exports no such variable.
///
/// `account` fills in whose session it is, in the texts that name one; `views` are the tables that are views.
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

/// Stands in the server's variable. Nothing in here allocates or panics.
unsafe extern "C" fn translate(number: c_uint, text: *const c_char, flags: c_ulong) {
    let next = NEXT.load(Ordering::Acquire);
    if next.is_null() {
        return;
    }
    // SAFETY: NEXT holds what the server had in its variable, a function of this type.
    let next = unsafe { std::mem::transmute::<*mut c_void, Handler>(next) };
    let is_form = || FORMS.iter().any(|(known, _)| *known == number);
    let known = [WRAPPED, NOT_CREATED.0, NO_SUCH_COMMAND.0, NO_TABLE.0];
    let is_known = known.contains(&number) || CLIENT_ERRORS.contains(&number);
    let was_kept_back = KEPT_BACK.replace(false);
    if !text.is_null() && (is_known || is_form()) {
        // SAFETY: the server hands over a NUL-terminated text.
        let given = unsafe { CStr::from_ptr(text) }.to_bytes();
        if number == NOT_CREATED.0 && leads_here(given) {
            KEPT_BACK.set(true);
            return;
        }
        let not_made = || refused(number, given).filter(|_| was_kept_back);
        let truncates = || command::current() == Some(Command::Truncate);
        let views = VIEWS.get().map_or(&[][..], Vec::as_slice);
        let not_emptied = || truncated_view(number, given, views).filter(|_| truncates());
        if let Some(clear) = clearer(number, given).or_else(not_made).or_else(not_emptied) {
            let mut copy = [0u8; TEXT_SIZE];
            clear.write_to(&mut copy, ACCOUNT.get().copied().unwrap_or(|_| false));
            // SAFETY: `copy` ends in a zero and outlives the call; the handler copies what it keeps.
            unsafe { next(clear.number, copy.as_ptr().cast(), flags) };
            return;
        }
    }
    // SAFETY: passed on as it came.
    unsafe { next(number, text, flags) };
}

/// An error as the client shall see it.
#[derive(Debug, PartialEq, Eq)]
struct Clear<'a> {
    number: c_uint,
    prefix: &'static [u8],
    text: &'a [u8],
    suffix: &'static [u8],
}

impl Clear<'_> {
    /// Writes prefix and text, with the session's account in the place of the endpoint's; what does not fit
    /// is cut off, and the last byte stays zero.
    fn write_to(&self, copy: &mut [u8; TEXT_SIZE], account: AccountSource) {
        let mut cursor = Cursor::new(&mut copy[..TEXT_SIZE - 1]);
        // A full buffer cuts the rest off; that is no error.
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

/// What to say of a view that is not there for TRUNCATE; `None` when it is none of these.
fn truncated_view(number: c_uint, given: &[u8], views: &[&str]) -> Option<Clear<'static>> {
    let (no_table, schema) = NO_TABLE;
    if number != no_table {
        return None;
    }
    let start = given.windows(schema.len()).position(|part| part == schema)? + schema.len();
    let name = given[start..].split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').next()?;
    let is_view = views.iter().any(|view| view.as_bytes() == name);
    is_view.then_some(Clear { number: WRONG_USAGE.0, prefix: b"", text: WRONG_USAGE.1, suffix: b"" })
}

/// Whether FEDERATED speaks of a table that was to lead to the endpoint.
fn leads_here(given: &[u8]) -> bool {
    given.windows(NOT_CREATED.1.len()).any(|part| part == NOT_CREATED.1)
}

/// What the server says of a table it cannot make, in any language, with another cause; `None` when it says no cause.
fn refused(number: c_uint, given: &[u8]) -> Option<Clear<'_>> {
    let (no_such_command, cause) = NO_SUCH_COMMAND;
    let said = given.iter().rposition(|byte| *byte == b'(')?;
    let colon = said + given[said..].windows(2).position(|part| part == b": ")?;
    let text = &given[..colon + 2];
    (number == no_such_command).then_some(Clear { number, prefix: b"", text, suffix: cause })
}

/// What to say instead of the given error; `None` when it is not tare's business.
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

/// Whether an error of the endpoint's is one of [`FORMS`].
fn is_form(number: u32, text: &str) -> bool {
    FORMS.iter().any(|&(known, form)| known == number && wildcard_matches(form, text))
}

/// The endpoint's number and text in a wrapped error, when it is one of [`FORMS`].
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
        // The far end's own refusal of SHOW TABLE STATUS.
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
