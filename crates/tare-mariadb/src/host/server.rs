//! The server as the engine's readers see it: names for numbers, texts for tokens.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

use tare_engine::Host;
use tare_engine::snapshot::DigestText;

use super::digest::{Functions, Tokens};
use super::names;

/// The running server.
pub(crate) struct ServerHost;

/// The server's digest functions, found at the first question: the server is up then.
fn functions() -> Option<&'static Functions> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    FUNCTIONS.get_or_init(Functions::resolve).as_ref()
}

impl Host for ServerHost {
    fn digest_text(&self, tokens: &[u8], charset: u32, cut: bool) -> Option<DigestText> {
        Some(functions()?.digest(Tokens { bytes: tokens, charset, full: cut }))
    }

    fn command_name(&self, command: u32) -> Option<&'static str> {
        Some(names::command(command.cast_signed()))
    }

    fn connection_type_name(&self, connection_type: u8) -> Option<&'static str> {
        names::connection_type(i32::from(connection_type))
    }

    fn isolation_name(&self, isolation: u8) -> Option<&'static str> {
        names::isolation_level(i32::from(isolation))
    }

    fn xa_state_name(&self, state: u8) -> Option<&'static str> {
        Some(names::xa_state(i32::from(state)))
    }

    fn to_utf8(&self, text: &[u8], _charset: u32) -> String {
        String::from_utf8_lossy(text).into_owned()
    }

    fn source_file(&self, address: usize) -> Option<&'static str> {
        if address == 0 {
            return None;
        }
        // SAFETY: the address is one of the server's own string constants (`__FILE__`), handed over with an
        // event; the program that holds them is never unloaded, and plugins stay loaded while in use.
        let name = unsafe { CStr::from_ptr(address as *const c_char) };
        name.to_str().ok().filter(|name| !name.is_empty())
    }
}
