//! What the engine asks of its host.
#![allow(unsafe_code)]

use std::ffi::CStr;

use tare_engine::{DigestHash, Host, RunningTokens};

use super::digest;

/// The engine's host. Of sessions, metadata locks and everything else that is not an event it knows nothing:
/// these are the built-in's.
pub(crate) struct ServerHost;

impl Host for ServerHost {
    fn digest(&self, tokens: &[u8], _: u32) -> Option<DigestHash> {
        digest::of(tokens)
    }

    fn digest_text(&self, tokens: &[u8], charset: u32, is_cut: bool) -> Option<String> {
        digest::text(tokens, charset, is_cut)
    }

    fn running_tokens(&self, address: usize) -> Option<RunningTokens> {
        digest::running(address)
    }

    fn command_name(&self, _: u32) -> Option<&'static str> {
        None
    }

    fn connection_type_name(&self, _: u8) -> Option<&'static str> {
        None
    }

    fn isolation_name(&self, isolation: u8) -> Option<&'static str> {
        let names = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
        names.get(usize::from(isolation)).copied()
    }

    fn xa_state_name(&self, state: u8) -> Option<&'static str> {
        // The engine ends one with 4 after a commit, and 3 after a rollback.
        let names = ["ACTIVE", "IDLE", "PREPARED", "ROLLBACK ONLY", "COMMITTED"];
        Some(names.get(usize::from(state)).copied().unwrap_or("NOTR"))
    }

    fn lock_namespace_name(&self, _: u8) -> Option<&'static str> {
        None
    }

    fn lock_type_name(&self, _: u8, _: u8) -> Option<&'static str> {
        None
    }

    fn lock_duration_name(&self, _: u8) -> Option<&'static str> {
        None
    }

    fn lock_status_name(&self, _: u8) -> Option<&'static str> {
        None
    }

    fn characters(&self, text: &[u8], _: u32, most: usize) -> usize {
        text.len().min(most)
    }

    fn to_utf8(&self, text: &[u8], _: u32, most: usize) -> String {
        String::from_utf8_lossy(text).chars().take(most).collect()
    }

    fn source_file(&self, address: usize) -> Option<String> {
        // A plugin's text may have gone with it: only the program's and those of libraries that stay are
        // read.
        let symbol = tare_host::process::Symbol::at(std::ptr::without_provenance(address))?;
        if symbol.object.to_bytes().windows(8).any(|part| part == b"/plugin/") {
            return None;
        }
        // SAFETY: the server passed this address of a NUL-terminated constant with an event, and the object
        // that covers it is loaded.
        let path = unsafe { CStr::from_ptr(std::ptr::with_exposed_provenance(address)) };
        let path = path.to_string_lossy();
        Some(path.rsplit('/').next().unwrap_or_default().to_owned())
    }
}
