//! The digest of what is prepared. The server makes none: `Prepared_statement::prepare` parses without a listener for tokens.
//!
//! tare's function stands where `prepare` calls `parse_sql` (`startup::preparation`). It asks the server to parse as it does a
//! query, which makes it ask for a digest ([`attach`]), and there puts a listener of tare's own into the lexer. The parser
//! fills it, as it fills the session's own for a query, which is left as it is.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::OnceLock;

use tare_engine::{DigestTokens, PreparedRef};

use super::ENGINE;
use super::guard::guard;
use super::pointer::instance;
use super::statement::kept;
use crate::abi::types::{DigestLocker, StatementLocker};
use crate::host::digest::{self, Listener};

/// `parse_sql(THD *, Parser_state *, Object_creation_ctx *, bool do_pfs_digest)`.
pub(crate) type Parse = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, bool) -> bool;

/// What the server prepares statements with.
#[derive(Clone, Copy)]
pub(crate) struct Parser {
    /// `parse_sql`.
    pub(crate) parse: Parse,
    /// Where a lexer, and so a parser's state, has its listener.
    pub(crate) listener: usize,
    /// Where the server has `max_digest_length`.
    pub(crate) max_length: *const usize,
}

// SAFETY: a function, a distance, and a variable of the program's that is only read.
unsafe impl Send for Parser {}
// SAFETY: as above.
unsafe impl Sync for Parser {}

static PARSER: OnceLock<Parser> = OnceLock::new();

/// Settles what the server parses with; before the first statement. Returns the function that is to be called in place of
/// `parse_sql`.
pub(crate) fn stand_before(parser: Parser) -> usize {
    let _once = PARSER.set(parser);
    (parse_prepared as *const c_void).addr()
}

/// A parse whose tokens are wanted, while it lasts.
struct Capture {
    listener: Listener,
    /// Where in the lexer its address goes.
    place: *mut *mut Listener,
    /// The statement that prepares; null until the server asks for its digest.
    locker: *mut StatementLocker,
}

thread_local! {
    /// The innermost parse of the thread; null: there is none.
    static CAPTURE: Cell<*mut Capture> = const { Cell::new(null_mut()) };
}

/// What `prepare` calls in place of `parse_sql`.
unsafe extern "C" fn parse_prepared(
    session: *mut c_void,
    state: *mut c_void,
    context: *mut c_void,
    digest: bool,
) -> bool {
    let Some(parser) = PARSER.get() else { return true };
    // SAFETY: the server's variable, which it changes at its start only.
    let most = unsafe { parser.max_length.read() };
    let Some(mut listener) = guard(None, || Listener::new(most)) else {
        // SAFETY: what the server called, with what it called it with.
        return unsafe { (parser.parse)(session, state, context, digest) };
    };
    listener.begin();
    let place = state.wrapping_byte_add(parser.listener).cast();
    let mut capture = Capture { listener, place, locker: null_mut() };
    let around = CAPTURE.replace(&raw mut capture);
    // SAFETY: as above. With `true` the server asks for a digest before it parses, and for nothing else: it gets none.
    let failed = unsafe { (parser.parse)(session, state, context, true) };
    CAPTURE.set(around);
    if !failed {
        guard((), || keep(&capture));
    }
    failed
}

/// Whether the calling thread parses what it prepares.
#[inline(always)]
pub(super) fn is_under_way() -> bool {
    !CAPTURE.get().is_null()
}

/// The server asks for a digest of what it is about to parse, and gets none. Where that is prepared, tare listens to the lexer.
#[cold]
#[inline(never)]
pub(super) extern "C" fn attach(locker: *mut StatementLocker) -> *mut DigestLocker {
    let capture = CAPTURE.get();
    if !capture.is_null() {
        // SAFETY: a live frame of this thread has it (`parse_prepared`), and nobody else uses it meanwhile. Its place is a member
        // of the parser's state, which the server fills before it asks (`startup::preparation` has found out where).
        unsafe {
            (*capture).locker = locker;
            (*capture).place.write(&raw mut (*capture).listener);
        }
    }
    null_mut()
}

/// The prepared statement has the tokens from now on.
fn keep(capture: &Capture) {
    let Some((statement, state)) = kept(capture.locker) else { return };
    let Some(prepared) = instance!(PreparedRef, state.prepared) else { return };
    let Some(tokens) = capture.listener.tokens() else { return };
    let charset = statement.charset();
    let tokens = DigestTokens { bytes: tokens.bytes, charset, cut: tokens.full, hash: digest::hash };
    ENGINE.set_prepared_digest(prepared, statement, &tokens);
}
