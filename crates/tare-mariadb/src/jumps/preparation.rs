//! Redirects the call by which the server parses a statement to prepare, so that tare can listen to its
//! tokens.
//!
//! `Prepared_statement::prepare` calls `parse_sql` in one place. The call's displacement is changed so that
//! it leads to a jump to tare's function, in a page near the server's code: a call reaches two gigabytes.
//! Statements that are not prepared do not use this call.
//!
//! The location of the listener in a lexer is found by trying: `Lex_input_stream::add_digest_token` passes a
//! token to the listener and does nothing without one. A lexer of tare's own, all zeros except for one word,
//! shows which word that is.
#![allow(unsafe_code)]

use std::ffi::{c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use tare_host::code;
use tare_host::jumps::{DetourError, Function, JUMP_ON, PAGE, jump_on_to, make_code_near, overwrite};
use tare_host::process::symbol;

use super::error::PreparationError;
use crate::entry::preparation::{Parse, ParseFunction, intercept};
use crate::host::digest::TokenListener;

static HINDRANCE: OnceLock<Option<PreparationError>> = OnceLock::new();

/// Returns what prevents digests of prepared statements, if anything; `None` if they were not requested.
pub(crate) fn hindrance() -> Option<Option<&'static PreparationError>> {
    HINDRANCE.get().map(Option::as_ref)
}

/// Redirects the call to tare. Runs at start-up, while there is only one thread.
///
/// # Errors
///
/// Nothing is changed then.
pub(crate) fn route() -> Result<(), PreparationError> {
    let routed = try_to_route();
    let _once = HINDRANCE.set(routed.clone().err());
    routed
}

fn try_to_route() -> Result<(), PreparationError> {
    let prepare = Function::find(c"_ZN18Prepared_statement7prepareEPKcj")?;
    let parse = Function::find(c"_Z9parse_sqlP3THDP12Parser_stateP19Object_creation_ctxb")?;
    let add = Function::find(c"_ZN16Lex_input_stream16add_digest_tokenEjP7YYSTYPE")?;
    let max_length = symbol(c"max_digest_length").ok_or(DetourError::Missing("max_digest_length"))?;
    let call = prepare.only_call(parse)?;
    // SAFETY: the mangled name carries the signature; it is a method without virtual functions, so the lexer
    // comes first.
    let add = unsafe { std::mem::transmute::<usize, AddToken>(add.start()) };
    let listener = listener_of(add).ok_or(PreparationError::Lexer)?;
    // SAFETY: the mangled name carries the signature; it returns a bool, as every caller of it takes it.
    let parse = unsafe { std::mem::transmute::<usize, Parse>(parse.start()) };
    let shim = intercept(ParseFunction { parse, listener, max_length: max_length.cast() });
    let mut page = [0xCC; PAGE];
    page[..JUMP_ON].copy_from_slice(&jump_on_to(shim));
    let refused = |error: std::io::Error| PreparationError::Refused(error.to_string());
    let near = make_code_near(&page, call).map_err(refused)?;
    let distance = code::distance_of_call(call, near)
        .ok_or_else(|| PreparationError::Refused("no memory near the server's code".to_owned()))?;
    // SAFETY: the distance of a call in the server's code, which nobody runs: this is the only thread, and it
    // is here.
    unsafe { overwrite(call + 1, distance.to_le_bytes()) }.map_err(refused)
}

/// The type of `Lex_input_stream::add_digest_token(uint token, YYSTYPE *value)`.
type AddToken = unsafe extern "C" fn(lexer: *mut c_void, token: c_uint, value: *mut c_void);

/// The words of a lexer that are tried.
const LEXER: usize = 128;

/// A token without a value that the digest keeps unchanged.
const TOKEN: c_uint = b'(' as c_uint;

/// Returns the offset of a lexer's listener: the only word that passes a token to one.
fn listener_of(add: AddToken) -> Option<usize> {
    let mut lexer = [null::<TokenListener>(); LEXER];
    let mut hears = |at: usize| {
        let mut listener = TokenListener::new(TRIED)?;
        listener.begin();
        lexer[at] = &raw const listener;
        // SAFETY: a lexer without a listener does nothing, and one with a listener passes it the token:
        // nothing else of it is read. Its words are zeros, and there are more of them than it has.
        unsafe { add(lexer.as_mut_ptr().cast(), TOKEN, null_mut()) };
        lexer[at] = null();
        Some(listener.tokens().is_some_and(|tokens| tokens.bytes == (TOKEN as u16).to_le_bytes()))
    };
    let mut found = (0..LEXER).filter_map(|at| hears(at)?.then_some(at * size_of::<usize>()));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// The bytes of tokens that fit into the listener used for trying.
const TRIED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Behaves like the server's function; the listener is the fourth word.
    unsafe extern "C" fn add(lexer: *mut c_void, token: c_uint, _value: *mut c_void) {
        // SAFETY: a lexer of this test or of `listener_of`.
        if let Some(listener) = unsafe { lexer.cast::<*mut TokenListener>().add(3).read().as_mut() } {
            listener.add(token as u16);
        }
    }

    unsafe extern "C" fn deaf(_lexer: *mut c_void, _token: c_uint, _value: *mut c_void) {}

    #[test]
    fn a_lexer_says_where_its_listener_is() {
        assert_eq!(listener_of(add), Some(24));
        assert_eq!(listener_of(deaf), None);
    }

    #[test]
    fn a_program_that_is_no_server_is_left_alone() {
        assert!(matches!(route(), Err(PreparationError::Code(DetourError::Missing(_)))));
        assert!(matches!(hindrance(), Some(Some(PreparationError::Code(_)))));
    }
}
