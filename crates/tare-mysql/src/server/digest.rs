//! Digests: the server's own functions for their hash and their text.
#![allow(unsafe_code)]

/// Returns the hash of tokens.
pub(crate) fn hash(_tokens: &[u8]) -> [u8; 16] {
    [0; 16]
}
