//! Whether the server has one of its plugins.
//!
//! `plugin_is_ready` is exported; its mangled name carries what it takes, a name and a kind, and is the same on all four
//! servers. It takes the server's lock on its plugins for a moment: to be called on the server's main thread only, before
//! the first connection exists.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

use crate::startup::symbol;

/// `MYSQL_INFORMATION_SCHEMA_PLUGIN`
const INFORMATION_SCHEMA: c_int = 4;

/// The server's `LEX_CSTRING`.
#[repr(C)]
struct Name {
    text: *const c_char,
    length: usize,
}

type IsReady = unsafe extern "C" fn(*const Name, c_int) -> bool;

/// Whether a table of `information_schema` that is a plugin is there; true where the server does not tell.
pub(crate) fn has_information_schema(name: &str) -> bool {
    let Some(function) = symbol(c"_Z15plugin_is_readyPK25st_mysql_const_lex_stringi") else { return true };
    // SAFETY: the mangled name says what it takes; it returns a bool.
    let is_ready = unsafe { std::mem::transmute::<*mut c_void, IsReady>(function) };
    let name = Name { text: name.as_ptr().cast(), length: name.len() };
    // SAFETY: it reads the name during the call.
    unsafe { is_ready(&raw const name, INFORMATION_SCHEMA) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_program_that_does_not_tell_is_taken_to_have_it() {
        assert!(super::has_information_schema("user_variables"));
    }
}
