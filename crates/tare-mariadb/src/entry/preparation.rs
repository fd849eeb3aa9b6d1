//! The digests of prepared statements. The server computes none: `Prepared_statement::prepare` parses without
//! a listener for tokens.
//!
//! `prepare` calls tare's function instead of `parse_sql` (`jumps::preparation`). It asks the server to
//! parse as for a query, so the server asks for a digest ([`attach`]), and there tare puts a listener of its
//! own into the lexer. The parser fills it as it fills the session's own for a query, which is not touched.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::OnceLock;

use tare_engine::{DigestTokens, PreparedRef};
use tare_host::process::ENGINE;
use tare_host::process::guard;

use super::pointer::instance;
use super::statement::kept;
use crate::abi::types::{DigestLocker, StatementLocker};
use crate::host::digest::{self, TokenListener};

/// The type of `parse_sql(THD *, Parser_state *, Object_creation_ctx *, bool do_pfs_digest)`.
pub(crate) type Parse = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, bool) -> bool;

/// The server's parser of prepared statements.
#[derive(Clone, Copy)]
pub(crate) struct ParseFunction {
    pub(crate) parse: Parse,
    /// The offset of the listener in a lexer, and so in a parser's state.
    pub(crate) listener: usize,
    /// The address of the server's `max_digest_length`.
    pub(crate) max_length: *const usize,
}

// SAFETY: a function, an offset, and a variable of the program that is only read.
unsafe impl Send for ParseFunction {}
// SAFETY: as above.
unsafe impl Sync for ParseFunction {}

static PARSER: OnceLock<ParseFunction> = OnceLock::new();

/// Stores the server's parser; must run before the first statement. Returns the function to call in place of
/// `parse_sql`.
pub(crate) fn intercept(parser: ParseFunction) -> usize {
    let _once = PARSER.set(parser);
    (parse_prepared as *const c_void).addr()
}

/// A parse in progress whose tokens are wanted.
struct TokenCapture {
    listener: TokenListener,
    /// The location in the lexer for the listener's address.
    place: *mut *mut TokenListener,
    /// The statement that prepares; null until the server asks for its digest.
    locker: *mut StatementLocker,
}

thread_local! {
    /// The thread's innermost parse; null if there is none.
    static CAPTURE: Cell<*mut TokenCapture> = const { Cell::new(null_mut()) };
}

/// Replaces `parse_sql` in `prepare`.
unsafe extern "C" fn parse_prepared(
    session: *mut c_void,
    state: *mut c_void,
    context: *mut c_void,
    digest: bool,
) -> bool {
    let Some(parser) = PARSER.get() else { return true };
    // SAFETY: the server's variable, which it changes at its start only.
    let most = unsafe { parser.max_length.read() };
    let Some(mut listener) = guard(None, || TokenListener::new(most)) else {
        // SAFETY: the function that the server called, with its arguments.
        return unsafe { (parser.parse)(session, state, context, digest) };
    };
    listener.begin();
    let place = state.wrapping_byte_add(parser.listener).cast();
    let mut capture = TokenCapture { listener, place, locker: null_mut() };
    let around = CAPTURE.replace(&raw mut capture);
    // SAFETY: as above. With `true` the server also asks for a digest before it parses, and gets none; that
    // is the only difference.
    let failed = unsafe { (parser.parse)(session, state, context, true) };
    CAPTURE.set(around);
    if !failed {
        guard((), || keep(&capture));
    }
    failed
}

/// Returns whether the calling thread is parsing a statement to prepare.
#[inline(always)]
pub(super) fn is_under_way() -> bool {
    !CAPTURE.get().is_null()
}

/// Puts tare's listener into the lexer if the parsed statement is being prepared. Always returns null, so the
/// server makes no digest.
#[cold]
#[inline(never)]
pub(super) extern "C" fn attach(locker: *mut StatementLocker) -> *mut DigestLocker {
    let capture = CAPTURE.get();
    if !capture.is_null() {
        // SAFETY: a live frame of this thread owns it (`parse_prepared`), and nobody else uses it meanwhile.
        // Its place is a member of the parser's state, which the server fills before it asks
        // (`jumps::preparation` has located it).
        unsafe {
            (*capture).locker = locker;
            (*capture).place.write(&raw mut (*capture).listener);
        }
    }
    null_mut()
}

/// Stores the tokens with the prepared statement.
fn keep(capture: &TokenCapture) {
    let Some((statement, state)) = kept(capture.locker) else { return };
    let Some(prepared) = instance!(PreparedRef, state.prepared) else { return };
    let Some(tokens) = capture.listener.tokens() else { return };
    let charset = statement.charset();
    let tokens = DigestTokens { bytes: tokens.bytes, charset, cut: tokens.full, hash: digest::hash };
    ENGINE.set_prepared_digest(prepared, statement, &tokens);
}
