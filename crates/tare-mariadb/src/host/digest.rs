//! Statement digests through the server's own functions, so that hash and text are the server's.
//!
//! `compute_digest_md5` and `compute_digest_text` are exported, read the token storage and static tables
//! only, and need no session. They may run on any thread. If a text outgrows its buffer, the server's
//! allocator enlarges it.
#![allow(unsafe_code)]

use std::ffi::{c_uchar, c_void};
use std::mem::offset_of;

use md5::{Digest, Md5};
use tare_engine::RunningTokens;
use tare_host::process::{observation, symbol};

use crate::abi::types::DigestStorage;

/// `sql_digest_storage`. The same in all series (debug information of 10.11.5 and 11.4.5; read at
/// `digest_end` on all four servers).
#[repr(C)]
struct RawStorage {
    full: bool,
    byte_count: u32,
    md5: [u8; 16],
    charset_number: u32,
    tokens: *const u8,
    tokens_length: u32,
}

impl RawStorage {
    /// Creates a storage over bytes that must outlive its use.
    fn of(tokens: Tokens<'_>) -> RawStorage {
        let length = u32::try_from(tokens.bytes.len()).unwrap_or(0);
        RawStorage {
            full: tokens.full,
            byte_count: length,
            md5: [0; 16],
            charset_number: tokens.charset,
            tokens: tokens.bytes.as_ptr(),
            tokens_length: length,
        }
    }
}

/// The server's `String` (32 bytes) in the shape its functions expect. The same in all series: debug
/// information of 10.11.5 and 11.4.5, the others by the check in [`DigestFunctions::resolve`].
#[repr(C)]
struct RawString {
    charset: *const c_void,
    text: *mut u8,
    length: u32,
    allocated_length: u32,
    extra_allocation: u32,
    /// Whether `text` belongs to the server's allocator.
    allocated: bool,
    thread_specific: bool,
}

const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<RawStorage>() == 48);
    assert!(offset_of!(RawStorage, byte_count) == 4);
    assert!(offset_of!(RawStorage, charset_number) == 24);
    assert!(offset_of!(RawStorage, tokens) == 32);
    assert!(offset_of!(RawStorage, tokens_length) == 40);
    assert!(size_of::<RawString>() == 32);
    assert!(offset_of!(RawString, length) == 16);
    assert!(offset_of!(RawString, allocated) == 28);
};

/// The tokens of a statement as the parser left them. Borrows the server's storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokens<'a> {
    /// Two bytes per token, identifiers with their text; at most `max_digest_length` bytes.
    pub bytes: &'a [u8],
    /// The number of the identifiers' collation.
    pub charset: u32,
    /// Whether the statement had more tokens than fit; the text must say so.
    pub full: bool,
}

/// Returns the tokens in a storage; `None` for NULL or an empty one, of which the built-in makes no digest
/// either.
///
/// # Safety
///
/// `storage` is NULL or the server's, complete and unchanged during `'a`.
pub unsafe fn tokens<'a>(storage: *const DigestStorage) -> Option<Tokens<'a>> {
    let raw = storage.cast::<RawStorage>();
    if raw.is_null() {
        return None;
    }
    // SAFETY: the caller's promise. `full` is the server's C++ bool.
    let raw = unsafe { &*raw };
    if raw.byte_count == 0 || raw.tokens.is_null() || raw.byte_count > raw.tokens_length {
        return None;
    }
    // SAFETY: the array holds `byte_count` bytes, checked against its length.
    let bytes = unsafe { std::slice::from_raw_parts(raw.tokens, raw.byte_count as usize) };
    Some(Tokens { bytes, charset: raw.charset_number, full: raw.full })
}

/// `sql_digest_state`, to which the server's lexer adds its tokens, over memory of tare. The same in all
/// series (headers of 10.6 to 11.8, machine code of 10.11.19).
#[repr(C)]
struct RawState {
    /// The start of the last identifier's token, for merging it with the next one; counted from 1.
    last_id_index: i32,
    storage: RawStorage,
}

/// A receiver of tokens with its buffer. Its address is that of its state.
#[repr(C)]
pub struct TokenListener {
    state: RawState,
    room: Vec<u8>,
}

/// The most bytes of tokens that a statement can have; the server's own limit.
const MOST_TOKENS: usize = 1 << 20;

impl TokenListener {
    /// Creates a listener with space for `most` bytes of tokens. Returns `None` for 0 bytes, or if memory is
    /// exhausted.
    pub fn new(most: usize) -> Option<TokenListener> {
        let most = most.min(MOST_TOKENS);
        let mut room = Vec::new();
        room.try_reserve_exact(most).ok().filter(|()| most != 0)?;
        room.resize(most, 0);
        let storage = RawStorage::of(Tokens { bytes: &[], charset: UTF8, full: false });
        Some(TokenListener { state: RawState { last_id_index: 0, storage }, room })
    }

    /// Starts listening. The listener may be moved before, but not afterwards until the last token has
    /// arrived.
    pub fn begin(&mut self) {
        self.state.storage.tokens = self.room.as_ptr();
        self.state.storage.tokens_length = self.room.len() as u32;
    }

    /// Returns the tokens received; `None` if there are none.
    pub fn tokens(&self) -> Option<Tokens<'_>> {
        let RawStorage { full, byte_count, .. } = self.state.storage;
        let bytes = self.room.get(..byte_count as usize).filter(|bytes| !bytes.is_empty())?;
        Some(Tokens { bytes, charset: self.state.storage.charset_number, full })
    }

    #[cfg(test)]
    pub(crate) fn add(&mut self, token: u16) {
        let at = self.state.storage.byte_count as usize;
        self.room[at..at + 2].copy_from_slice(&token.to_le_bytes());
        self.state.storage.byte_count += 2;
    }
}

/// Copies tokens out of a session's storage, which another statement may reuse meanwhile: see
/// [`tare_engine::Host::running_tokens`].
pub fn copied(address: usize) -> Option<RunningTokens> {
    let raw: [u8; size_of::<RawStorage>()] = observation::bytes(address)?;
    let number = |at: usize| u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
    let tokens = usize::from_le_bytes(*raw[offset_of!(RawStorage, tokens)..].first_chunk()?);
    let len = number(offset_of!(RawStorage, byte_count)) as usize;
    let most = number(offset_of!(RawStorage, tokens_length)) as usize;
    if len == 0 || len > most.min(MOST_TOKENS) {
        return None;
    }
    Some(RunningTokens {
        bytes: observation::block(tokens, len)?,
        charset: number(offset_of!(RawStorage, charset_number)),
        cut: raw[offset_of!(RawStorage, full)] != 0,
    })
}

type ComputeHash = unsafe extern "C" fn(storage: *const RawStorage, md5: *mut c_uchar);
type ComputeText = unsafe extern "C" fn(storage: *const RawStorage, text: *mut RawString);
type FreeFunction = unsafe extern "C" fn(memory: *mut c_void);

/// The server's functions, looked up and tried.
#[derive(Clone, Copy, Debug)]
pub struct DigestFunctions {
    md5: ComputeHash,
    text: ComputeText,
    free: FreeFunction,
    /// The character set of a `String` that we create.
    charset: *const c_void,
}

// SAFETY: three functions that touch nothing but their arguments and constant tables, and a pointer to a
// character set that is constant and never freed.
unsafe impl Send for DigestFunctions {}
// SAFETY: as above.
unsafe impl Sync for DigestFunctions {}

/// The buffer in bytes for a digest's text (1,024 bytes of tokens, the default, make at most some 16 KiB).
const ROOM: usize = 64 * 1024;
/// The end of a text that was cut.
const CUT: &str = "...";
/// The tokens of `( )`: single characters are their own token numbers in every version.
const SAMPLE: [u8; 4] = [b'(', 0, b')', 0];
/// The MD5 of [`SAMPLE`], and the text that every server makes of it.
const SAMPLE_HASH: [u8; 16] = 0xa3e5_0676_c3eb_3fc7_c542_e8f3_0f44_11de_u128.to_be_bytes();
const SAMPLE_TEXT: &str = "( ) ";

impl DigestFunctions {
    /// Looks the functions up in the running program and tries them on two known tokens. Returns `None` if
    /// one is missing or gives an unexpected answer; there are no digests then.
    ///
    /// Call it when the server is up (its character sets must exist), not from a constructor.
    pub fn resolve() -> Option<DigestFunctions> {
        let md5 = symbol(c"_Z18compute_digest_md5PK18sql_digest_storagePh")?;
        let text = symbol(c"_Z19compute_digest_textPK18sql_digest_storageP6String")?;
        let free = symbol(c"my_free")?;
        let charset = symbol(c"my_charset_utf8mb4_general_ci")
            .or_else(|| symbol(c"my_charset_utf8mb3_general_ci"))
            .or_else(|| symbol(c"my_charset_bin"))?;
        // SAFETY: the symbols' names carry their C++ signatures; `my_free(void *)` is C.
        let functions = unsafe {
            DigestFunctions {
                md5: std::mem::transmute::<*mut c_void, ComputeHash>(md5),
                text: std::mem::transmute::<*mut c_void, ComputeText>(text),
                free: std::mem::transmute::<*mut c_void, FreeFunction>(free),
                charset,
            }
        };
        let sample = Tokens { bytes: &SAMPLE, charset: UTF8, full: false };
        let as_expected = functions.hash(sample) == SAMPLE_HASH && functions.text(sample) == SAMPLE_TEXT;
        as_expected.then_some(functions)
    }

    /// Returns the bytes that the column DIGEST spells.
    pub fn hash(&self, tokens: Tokens<'_>) -> [u8; 16] {
        let mut md5 = [0; 16];
        // SAFETY: a complete storage over bytes that outlive the call, and 16 bytes for the hash.
        unsafe { (self.md5)(&RawStorage::of(tokens), md5.as_mut_ptr()) };
        md5
    }

    /// Returns DIGEST_TEXT. A text that was cut ends with `...` as in MySQL; the server omits that.
    pub fn text(&self, tokens: Tokens<'_>) -> String {
        let mut text = self.spell(&RawStorage::of(tokens));
        if tokens.full && !text.ends_with(CUT) {
            text.push_str(CUT);
        }
        text
    }

    fn spell(&self, storage: &RawStorage) -> String {
        let mut room = vec![0u8; ROOM];
        let mut text = RawString {
            charset: self.charset,
            text: room.as_mut_ptr(),
            length: 0,
            allocated_length: ROOM as u32,
            extra_allocation: 0,
            allocated: false,
            thread_specific: false,
        };
        // SAFETY: a complete storage and a string of the server's shape over a buffer of its stated length,
        // which the server may replace by its own.
        unsafe { (self.text)(storage, &mut text) };
        // SAFETY: `text` holds `length` bytes, in our buffer or its own.
        let bytes = unsafe { std::slice::from_raw_parts(text.text, text.length as usize) };
        let spelled = tare_engine::shown(bytes);
        if text.allocated {
            // SAFETY: the server's allocator created it and nobody else has it.
            unsafe { (self.free)(text.text.cast()) };
        }
        spelled
    }
}

/// The number of utf8mb3_general_ci, which is compiled into every server.
const UTF8: u32 = 33;

/// Returns the DIGEST of a token array, equal to the result of the server's own function. Allocates nothing.
pub fn hash(tokens: &[u8]) -> [u8; 16] {
    Md5::digest(tokens).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_only_when_they_fit_their_array() {
        let bytes = [1, 2, 0x40, 0];
        let mut raw = RawStorage {
            full: true,
            byte_count: 4,
            md5: [0; 16],
            charset_number: 33,
            tokens: bytes.as_ptr(),
            tokens_length: 1024,
        };
        let read = |raw: &RawStorage| {
            // SAFETY: a complete storage; the result is compared before it is dropped.
            unsafe { tokens(std::ptr::from_ref(raw).cast()) }
        };
        assert_eq!(read(&raw), Some(Tokens { bytes: &bytes, charset: 33, full: true }));
        raw.byte_count = 0;
        assert_eq!(read(&raw), None);
        raw.byte_count = 1025;
        assert_eq!(read(&raw), None);
    }

    #[test]
    fn the_hash_is_the_servers() {
        assert_eq!(hash(&SAMPLE), SAMPLE_HASH);
    }

    #[test]
    fn a_program_that_is_no_server_has_no_digests() {
        assert!(DigestFunctions::resolve().is_none());
    }
}
