//! The key of a metadata lock, which names the locked object.
#![allow(unsafe_code)]

use crate::abi::types::MdlKey;

/// `MDL_key`: two 16-bit lengths (whole, database name), a 32-bit hash, then the text: one byte namespace,
/// database name, NUL, object name, NUL. The same in all series: debug information of 10.11.5 and 11.4.5; on
/// 10.11.19 and 11.8.9 keys were read at `create_metadata_lock`.
#[repr(C)]
struct RawKey {
    length: u16,
    db_name_length: u16,
    hash: u32,
    text: [u8; 0],
}

/// The longest text in bytes that the server reserves space for.
const MAX_TEXT: usize = 387;

/// The object of a metadata lock. Borrows the server's key: copy before returning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedObject<'a> {
    /// The namespace's number; [`super::names::mdl_namespace`] returns its name.
    pub namespace: u8,
    /// OBJECT_SCHEMA, a byte, OBJECT_NAME, as they lie in the key. An empty or missing part is SQL NULL.
    pub names: &'a [u8],
    /// The length of OBJECT_SCHEMA in bytes.
    pub schema_len: u16,
}

impl<'a> LockedObject<'a> {
    /// Returns OBJECT_SCHEMA and OBJECT_NAME.
    pub fn split(&self) -> (&'a [u8], &'a [u8]) {
        let (schema, name) = self.names.split_at(self.names.len().min(self.schema_len.into()));
        (schema, name.get(1..).unwrap_or_default())
    }
}

/// The namespace of user locks.
const USER_LOCK: u8 = 8;

/// Reads a key the way `metadata_locks` shows it; returns `None` if it is NULL or its lengths contradict each
/// other.
///
/// # Safety
///
/// `key` is NULL or the server's key, valid and unchanged during `'a`.
#[inline(always)]
pub unsafe fn object<'a>(key: *const MdlKey) -> Option<LockedObject<'a>> {
    // SAFETY: the caller's promise.
    let (text, schema_len) = unsafe { text(key) }?;
    Some(match text[0] {
        // The name of a user lock is in the database's place.
        USER_LOCK => LockedObject { namespace: USER_LOCK, names: &text[..=schema_len.into()], schema_len: 0 },
        namespace => LockedObject { namespace, names: &text[1..text.len() - 1], schema_len },
    })
}

/// Reads the key of a lock that is not a user lock; `None` for a user lock or an invalid key.
///
/// # Safety
///
/// See [`object`].
#[inline(always)]
pub unsafe fn usual_object<'a>(key: *const MdlKey) -> Option<LockedObject<'a>> {
    // SAFETY: the caller's promise.
    let (text, schema_len) = unsafe { text(key) }?;
    let object = LockedObject { namespace: text[0], names: &text[1..text.len() - 1], schema_len };
    (object.namespace != USER_LOCK).then_some(object)
}

/// Returns a key's text, which has space for all of its parts, and the length of the database's name.
///
/// # Safety
///
/// See [`object`].
#[inline(always)]
unsafe fn text<'a>(key: *const MdlKey) -> Option<(&'a [u8], u16)> {
    let raw = key.cast::<RawKey>();
    if raw.is_null() {
        return None;
    }
    // SAFETY: the caller's promise; the header is always there.
    let (length, schema_len) = unsafe { ((*raw).length, (*raw).db_name_length) };
    let length = usize::from(length);
    if length > MAX_TEXT || length < usize::from(schema_len) + 3 {
        return None;
    }
    // SAFETY: the server fills `length` bytes of text after the header.
    let text = unsafe { std::slice::from_raw_parts((&raw const (*raw).text).cast::<u8>(), length) };
    Some((text, schema_len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Option<LockedObject<'_>> {
        let mut aligned = vec![0u32; bytes.len() / 4 + 1];
        for (slot, chunk) in aligned.iter_mut().zip(bytes.chunks(4)) {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            *slot = u32::from_ne_bytes(word);
        }
        // SAFETY: a key followed by its text; leaked so that the borrow holds.
        unsafe { object(aligned.leak().as_ptr().cast()) }
    }

    /// Reads bytes seen in an 11.8.9 server.
    #[test]
    fn keys_of_a_server_read_as_metadata_locks_shows_them() {
        let table = b"\x0c\0\x05\0\xd1\x9e\x3a\x0a\x02mysql\0proc\0";
        let seen = read(table).expect("a key");
        assert_eq!((seen.namespace, seen.split()), (2, (&b"mysql"[..], &b"proc"[..])));
        let user = read(b"\x04\0\x01\0\x48\x03\x48\x03\x08u\0\0").expect("a key");
        assert_eq!((user.namespace, user.split()), (8, (&b""[..], &b"u"[..])));
        let schema = read(b"\x05\0\x02\0\xc1\x4a\xc2\x4a\x01pr\0\0").expect("a key");
        assert_eq!((schema.namespace, schema.split()), (1, (&b"pr"[..], &b""[..])));
        let backup = read(b"\x03\0\0\0\x01\0\x01\0\0\0\0").expect("a key");
        assert_eq!((backup.namespace, backup.split()), (0, (&b""[..], &b""[..])));
        assert_eq!(read(b"\x03\0\x05\0\0\0\0\0\x02a\0"), None);
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { object(std::ptr::null()) }, None);
    }
}
