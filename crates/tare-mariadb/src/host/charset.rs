//! Character sets through the server's own functions, so that invalid characters and conversions are exactly
//! the server's.
//!
//! `String_copier::well_formed_copy` is exported, reads constant tables only, and writes into a buffer of
//! ours. It may run on any thread. `get_charset` finds a character set by number and takes a lock for one
//! that was never used; numbers here are those of sets that sessions have used.
#![allow(unsafe_code)]

use std::ffi::{c_uint, c_ulong, c_void};
use std::hint::cold_path;
use std::ptr::null;

use tare_host::process::symbol;

/// Returns the collation's number, as `sql_digest_storage` and SQL text carry it; 0 for NULL.
///
/// # Safety
///
/// `charset` is NULL or a `CHARSET_INFO` of the server (they live as long as it does).
pub unsafe fn number(charset: *const c_void) -> u32 {
    if charset.is_null() {
        cold_path();
        return 0;
    }
    // SAFETY: the caller's promise; `number` is the first member (debug information of 10.11.5 and 11.4.5;
    // the built-in of 10.11.19 and 11.8.9 reads four bytes at offset 0 in get_thread_statement_locker).
    unsafe { charset.cast::<u32>().read() }
}

/// `String_copier`, which describes the last copy. Three pointers in all series (machine code; and
/// [`CharsetFunctions::resolve`] tries them).
#[repr(C)]
struct StringCopier {
    /// The end of the copied text.
    end: *const u8,
    /// The first byte that is not a character; NULL if there is none.
    bad: *const u8,
    /// The first character that the other set lacks; NULL if there is none.
    inconvertible: *const u8,
}

type WellFormedCopy = unsafe extern "C" fn(
    this: *mut StringCopier,
    to_charset: *const c_void,
    to: *mut u8,
    to_length: usize,
    charset: *const c_void,
    text: *const u8,
    length: usize,
    characters: usize,
) -> c_uint;
type GetCharset = unsafe extern "C" fn(number: c_uint, flags: c_ulong) -> *const c_void;

/// The server's functions, looked up and tried.
#[derive(Clone, Copy, Debug)]
pub struct CharsetFunctions {
    copy: WellFormedCopy,
    get_charset: GetCharset,
    /// The character set of the tables' text.
    utf8: *const c_void,
}

// SAFETY: two functions that may run on any thread, and a pointer to a character set that is constant and
// never freed.
unsafe impl Send for CharsetFunctions {}
// SAFETY: as above.
unsafe impl Sync for CharsetFunctions {}

/// The longest character of any set, in bytes.
const LONGEST: usize = 5;
/// The longest character of utf8mb3, in bytes.
const LONGEST_UTF8: usize = 3;

impl CharsetFunctions {
    /// Looks the functions up in the running program and tries them. Returns `None` if one is missing or
    /// gives an unexpected answer.
    ///
    /// Call it when the server is up (its character sets must exist), not from a constructor.
    pub fn resolve() -> Option<CharsetFunctions> {
        let copy = symbol(c"_ZN13String_copier16well_formed_copyEPK15charset_info_stPcmS2_PKcmm")?;
        let get_charset = symbol(c"get_charset")?;
        let utf8 = symbol(c"my_charset_utf8mb3_bin")?;
        let latin1 = symbol(c"my_charset_latin1")?.cast_const();
        // SAFETY: the mangled name of the first carries its signature after `this`; `get_charset` is C.
        let functions = unsafe {
            CharsetFunctions {
                copy: std::mem::transmute::<*mut c_void, WellFormedCopy>(copy),
                get_charset: std::mem::transmute::<*mut c_void, GetCharset>(get_charset),
                utf8,
            }
        };
        let tried = |charset, text: &[u8], most| {
            let mut room = [0; 8];
            let (written, well_formed) = functions.copy(charset, text, most, functions.utf8, &mut room);
            (room[..written].to_vec(), well_formed)
        };
        let right = tried(latin1, b"a\xe9b", 2) == ("aé".into(), 2)
            && tried(functions.utf8, "aéb".as_bytes(), 2) == ("aé".into(), 3)
            && tried(functions.utf8, b"a\xffb", 8) == ("a?b".into(), 1);
        right.then_some(functions)
    }

    /// Returns the number of leading bytes that form characters of the set with this number, up to `most`
    /// characters. In an unknown set every byte is a character.
    pub fn characters(&self, text: &[u8], charset: u32, most: usize) -> usize {
        let Some(charset) = self.charset(charset) else { return text.len().min(most) };
        let mut room = vec![0; text.len().min(most.saturating_mul(LONGEST))];
        self.copy(charset, text, most, charset, &mut room).1
    }

    /// Converts at most `most` characters of a text to UTF-8, with a `?` for an invalid one; `None` if the
    /// set is unknown.
    pub fn to_utf8(&self, text: &[u8], charset: u32, most: usize) -> Option<String> {
        let charset = self.charset(charset)?;
        let mut room = vec![0; text.len().min(most) * LONGEST_UTF8];
        let (written, _) = self.copy(charset, text, most, self.utf8, &mut room);
        Some(tare_engine::shown(&room[..written]))
    }

    fn charset(&self, number: u32) -> Option<*const c_void> {
        // SAFETY: any number may be asked for; without flags nothing is reported if there is no such set.
        let charset = unsafe { (self.get_charset)(number, 0) };
        (!charset.is_null()).then_some(charset)
    }

    /// Copies at most `most` characters; an invalid one becomes a `?`. Returns the number of bytes written,
    /// and the number of bytes of the text before the first invalid character.
    fn copy(
        &self,
        charset: *const c_void,
        text: &[u8],
        most: usize,
        to_charset: *const c_void,
        to: &mut [u8],
    ) -> (usize, usize) {
        let mut copier = StringCopier { end: text.as_ptr(), bad: null(), inconvertible: null() };
        // SAFETY: character sets of the server, a buffer and a text of their stated lengths, and a copier of
        // the server's shape, which it fills.
        let written = unsafe {
            (self.copy)(
                &mut copier,
                to_charset,
                to.as_mut_ptr(),
                to.len(),
                charset,
                text.as_ptr(),
                text.len(),
                most,
            )
        };
        let end = if copier.bad.is_null() { copier.end } else { copier.bad };
        let well_formed = end.addr().saturating_sub(text.as_ptr().addr());
        (to.len().min(written as usize), text.len().min(well_formed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_no_server_has_no_character_sets() {
        assert!(CharsetFunctions::resolve().is_none());
    }
}
