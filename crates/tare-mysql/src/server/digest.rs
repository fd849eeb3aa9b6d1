//! Digests: the server's own functions for their hash and their text.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};
use tare_engine::{DigestHash, RunningTokens};
use tare_host::process::observation::{block, bytes, field};

use crate::abi::events::{DigestStorage, ServerText};

/// The type of `compute_digest_hash`.
pub(crate) type ComputeHash = unsafe extern "C" fn(*const DigestStorage, *mut u8);
/// The type of `compute_digest_text`.
pub(crate) type ComputeText = unsafe extern "C" fn(*const DigestStorage, *mut ServerText);
/// The type of `my_free`.
pub(crate) type Free = unsafe extern "C" fn(*mut c_void);

/// The server's functions.
pub(crate) struct Functions {
    pub(crate) hash: ComputeHash,
    pub(crate) text: ComputeText,
    pub(crate) free: Free,
    /// `my_charset_bin`, by its address.
    pub(crate) charset: usize,
}

/// Set before any call is led here.
pub(crate) static FUNCTIONS: OnceLock<Functions> = OnceLock::new();

/// Returns tokens as the server keeps them.
fn storage(tokens: &[u8], charset: u32, is_full: bool) -> DigestStorage {
    DigestStorage {
        is_full,
        length: tokens.len(),
        hash: [0; 32],
        charset,
        tokens: tokens.as_ptr().cast_mut(),
        capacity: tokens.len(),
    }
}

fn sha(tokens: &[u8]) -> Option<[u8; 32]> {
    let functions = FUNCTIONS.get()?;
    let (storage, mut hash) = (storage(tokens, 0, false), [0; 32]);
    // SAFETY: the server's function, which reads the tokens and writes 32 bytes.
    unsafe { (functions.hash)(&raw const storage, hash.as_mut_ptr()) };
    Some(hash)
}

/// Returns DIGEST of tokens.
pub(crate) fn of(tokens: &[u8]) -> Option<DigestHash> {
    sha(tokens).map(DigestHash::from)
}

/// Returns the same without calling the server, which may be ending.
pub(crate) fn of_own(tokens: &[u8]) -> DigestHash {
    DigestHash::from(<[u8; 32]>::from(Sha256::digest(tokens)))
}

/// Returns a hash that tells tokens apart of which only the first are kept.
pub(crate) fn hash(tokens: &[u8]) -> [u8; 16] {
    sha(tokens).and_then(|hash| hash.first_chunk().copied()).unwrap_or_default()
}

/// Returns DIGEST_TEXT of tokens. `is_cut`: there were more.
pub(crate) fn text(tokens: &[u8], charset: u32, is_cut: bool) -> Option<String> {
    let functions = FUNCTIONS.get()?;
    let storage = storage(tokens, charset, is_cut);
    let charset = std::ptr::with_exposed_provenance(functions.charset);
    let mut text = ServerText { start: null_mut(), length: 0, charset, capacity: 0, is_owned: false };
    // SAFETY: the server's function, which reads the tokens and writes an empty text of the server's type.
    unsafe { (functions.text)(&raw const storage, &raw mut text) };
    let bytes = match text.start.is_null() {
        true => &[][..],
        // SAFETY: the server has written as many bytes as it says.
        false => unsafe { std::slice::from_raw_parts(text.start, text.length) },
    };
    let shown = String::from_utf8_lossy(bytes).into_owned();
    if text.is_owned {
        // SAFETY: as the server's own callers do: the text says that it owns its bytes.
        unsafe { (functions.free)(text.start.cast()) };
    }
    Some(shown)
}

/// The most bytes of tokens that a statement can have: the server's limit of `max_digest_length`.
const MOST_TOKENS: usize = 1 << 20;

/// Copies the tokens of a running statement out of its session's memory: see
/// [`tare_engine::Host::running_tokens`].
pub(crate) fn running(address: usize) -> Option<RunningTokens> {
    let storage: [u8; size_of::<DigestStorage>()] = bytes(address)?;
    let word = |at| field(&storage, at).and_then(|word| usize::try_from(word).ok());
    let number = |at| field(&storage, at).map(|word| word as u32);
    let length = word(offset_of!(DigestStorage, length))?;
    let capacity = word(offset_of!(DigestStorage, capacity))?;
    if length == 0 || length > capacity.min(MOST_TOKENS) {
        return None;
    }
    Some(RunningTokens {
        bytes: block(word(offset_of!(DigestStorage, tokens))?, length)?,
        charset: number(offset_of!(DigestStorage, charset))?,
        cut: storage[offset_of!(DigestStorage, is_full)] != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_a_running_statement_are_copied_if_they_are_there() {
        let tokens = [7, 0, 8, 0];
        let mut of_statement = storage(&tokens, 255, true);
        let at = |storage: &DigestStorage| std::ptr::from_ref(storage).expose_provenance();
        let expected = RunningTokens { bytes: tokens.to_vec(), charset: 255, cut: true };
        assert_eq!(running(at(&of_statement)), Some(expected));
        of_statement.length = 5;
        assert_eq!(running(at(&of_statement)), None, "more than there is room for");
        of_statement.length = 0;
        assert_eq!(running(at(&of_statement)), None);
        assert_eq!(running(0), None);
        let elsewhere =
            DigestStorage { tokens: std::ptr::without_provenance_mut(16), length: 4, ..of_statement };
        assert_eq!(running(at(&elsewhere)), None, "nothing is mapped there");
    }
}
