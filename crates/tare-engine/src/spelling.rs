//! DIGEST and DIGEST_TEXT of a row. DIGEST is kept; the host makes DIGEST_TEXT when somebody reads it.

use std::cell::OnceCell;
use std::fmt;

use crate::Host;

/// The hash that DIGEST shows: of 16 bytes, or of 32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DigestHash {
    bytes: [u8; 32],
    length: u8,
}

impl DigestHash {
    /// Returns its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length.into()).unwrap_or_default()
    }
}

impl From<[u8; 16]> for DigestHash {
    fn from(hash: [u8; 16]) -> DigestHash {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&hash);
        DigestHash { bytes, length: 16 }
    }
}

impl From<[u8; 32]> for DigestHash {
    fn from(bytes: [u8; 32]) -> DigestHash {
        DigestHash { bytes, length: 32 }
    }
}

/// Textual form of a digest.
#[derive(Clone, Default)]
pub struct Spelling {
    digest: String,
    text: OnceCell<Option<String>>,
    tokens: Option<SpellingTokens>,
}

/// Input from which the host makes DIGEST_TEXT.
#[derive(Clone)]
struct SpellingTokens {
    host: &'static dyn Host,
    bytes: Vec<u8>,
    charset: u32,
    cut: bool,
}

impl Spelling {
    /// Creates a spelling from known texts.
    #[must_use]
    pub fn known(digest: &str, text: &str) -> Spelling {
        Spelling { digest: digest.to_owned(), text: OnceCell::from(Some(text.to_owned())), tokens: None }
    }

    /// Returns DIGEST in lower-case hex.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns DIGEST_TEXT. `None`: it was not requested, or the host has none.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        let spell =
            |tokens: &SpellingTokens| tokens.host.digest_text(&tokens.bytes, tokens.charset, tokens.cut);
        self.text.get_or_init(|| self.tokens.as_ref().and_then(spell)).as_deref()
    }

    /// Resets this to another digest, without a text.
    pub(crate) fn begin(&mut self, hash: &DigestHash) {
        self.digest.clear();
        push_hex(&mut self.digest, hash.as_bytes());
        self.text.take();
        self.tokens = None;
    }

    /// Sets the tokens from which the text is made.
    pub(crate) fn of(&mut self, host: &'static dyn Host, bytes: &[u8], charset: u32, cut: bool) {
        self.tokens = Some(SpellingTokens { host, bytes: bytes.to_vec(), charset, cut });
    }
}

impl fmt::Debug for Spelling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Spelling").field(&self.digest).field(&self.text()).finish()
    }
}

/// Two lower-case hex digits for every byte.
const HEX: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let (mut hex, mut byte) = ([[0; 2]; 256], 0);
    while byte < 256 {
        hex[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    hex
};

/// Appends a hash in the format of DIGEST. It has 16 bytes, or 32.
pub(crate) fn push_hex(text: &mut String, hash: &[u8]) {
    let (parts, rest) = hash.as_chunks::<16>();
    debug_assert!(rest.is_empty(), "a hash of {} bytes", hash.len());
    for part in parts {
        let digits = part.map(|byte| HEX[usize::from(byte)]);
        text.push_str(std::str::from_utf8(digits.as_flattened()).unwrap_or_default());
    }
}
