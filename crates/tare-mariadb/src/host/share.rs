//! `TABLE_SHARE`: schema, name and keys of a table.
//!
//! The structure's later part moves within a series: 10.11.5 holds `db` at byte 632, 10.11.19 at 608. So nothing
//! there is read at a fixed place. `db` is *found* by what it must look like, in every process, and looked at again at
//! every use: `table_cache_key`, `db` and `table_name` are three pairs of pointer and length in a row, the key being
//! `db` NUL `table` NUL and the two names pointing into it. `keynames` lies before all that moves, at byte 200.
//! Checked on 10.11.5, 10.11.19, 11.4.5 and 11.8.9 at each `get_table_share` of a script with DDL, views, temporary and
//! system tables: found each time, keys in the order of their numbers (`PRIMARY`, unique, others).
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::abi::types::ServerTableShare;

/// Where `keynames` is in every supported server (it follows a category, a hash and a memory root).
const KEYNAMES: usize = 200;
/// Where `table_cache_key` may be; all of it is well inside the structure (1,200 bytes and more).
const SEARCH: std::ops::Range<usize> = 320..880;
/// The server's own bound of keys of a table; also "no index" in `start_table_io_wait`.
pub const MAX_KEYS: usize = 64;
/// Names are at most 64 characters of three bytes, with room for temporary tables' longer ones.
const MAX_NAME: usize = 512;

/// The server's `TYPELIB`.
#[repr(C)]
struct Names {
    count: u32,
    name: *const c_char,
    texts: *const *const c_char,
    lengths: *const u32,
}

/// The three pairs `table_cache_key`, `db`, `table_name`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Key {
    key: *const u8,
    key_length: usize,
    db: *const u8,
    db_length: usize,
    table: *const u8,
    table_length: usize,
}

impl Key {
    /// True only for the three pairs of a share that has its cache key.
    fn fits(&self) -> bool {
        let (db, table) = (self.db_length, self.table_length);
        !self.key.is_null()
            && self.db == self.key
            && (1..=MAX_NAME).contains(&db)
            && (1..=MAX_NAME).contains(&table)
            && self.key_length == db + table + 2
            && self.table.addr() == self.key.addr() + db + 1
    }
}

/// A table's names. Borrows the share: copy before returning.
#[derive(Clone, Copy, Debug)]
pub struct Share<'a> {
    /// Database name.
    pub schema: &'a [u8],
    /// Table name.
    pub table: &'a [u8],
    keys: &'a [*const c_char],
}

impl<'a> Share<'a> {
    /// The names of the keys, in the order of their numbers; at most [`MAX_KEYS`].
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        // SAFETY: the array of names of a complete share holds NUL-terminated texts that live as long as it.
        self.keys
            .iter()
            .map(|text| if text.is_null() { &[][..] } else { unsafe { CStr::from_ptr(*text) }.to_bytes() })
    }
}

/// Reads shares; remembers where the names are.
#[derive(Debug, Default)]
pub struct Reader {
    /// Byte of `table_cache_key`; 0 until found.
    place: AtomicUsize,
}

impl Reader {
    /// One that has seen no share yet.
    pub const fn new() -> Reader {
        Reader { place: AtomicUsize::new(0) }
    }

    /// The names of a share; `None` for NULL or when they are not found: then the table can't be told from others.
    ///
    /// # Safety
    /// `share` is NULL or a complete, unchanging `TABLE_SHARE` of a supported server, in memory during `'a`.
    pub unsafe fn read<'a>(&self, share: *const ServerTableShare) -> Option<Share<'a>> {
        if share.is_null() {
            return None;
        }
        let base = share.cast::<u8>();
        // SAFETY: the caller's promise, and `SEARCH` is inside the structure.
        let key = unsafe { self.key(base) }?;
        // SAFETY: `fits` holds: key, database and table are one text of `key_length` bytes made by the server.
        let (schema, table) = unsafe {
            (
                std::slice::from_raw_parts(key.db, key.db_length),
                std::slice::from_raw_parts(key.table, key.table_length),
            )
        };
        // SAFETY: as above; `keynames` is at this place in every supported server.
        let names = unsafe { base.add(KEYNAMES).cast::<Names>().read() };
        let count = names.count as usize;
        let keys = if names.texts.is_null() || count > MAX_KEYS {
            &[][..]
        } else {
            // SAFETY: the server fills `count` pointers.
            unsafe { std::slice::from_raw_parts(names.texts, count) }
        };
        Some(Share { schema, table, keys })
    }

    /// Finds the pairs, first where they were last time.
    ///
    /// # Safety
    /// `base` is a `TABLE_SHARE`.
    unsafe fn key(&self, base: *const u8) -> Option<Key> {
        // SAFETY: every place asked for is within `SEARCH`, which is inside the structure with room for the pairs.
        let at = |place: usize| unsafe { base.add(place).cast::<Key>().read() };
        let known = self.place.load(Ordering::Relaxed);
        if known != 0 {
            return Some(at(known)).filter(Key::fits);
        }
        let place = SEARCH.step_by(8).find(|place| at(*place).fits())?;
        self.place.store(place, Ordering::Relaxed);
        Some(at(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A share's bytes with the pairs at `place`.
    fn share(
        place: usize,
        cache_key: &'static [u8],
        db: usize,
        keys: &'static [&'static CStr],
    ) -> Vec<usize> {
        let mut words = vec![0usize; 170];
        let start = cache_key.as_ptr().addr();
        let pairs = [start, cache_key.len(), start, db, start + db + 1, cache_key.len() - db - 2];
        words[place / 8..place / 8 + 6].copy_from_slice(&pairs);
        let texts: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr()).collect();
        words[KEYNAMES / 8] = keys.len();
        words[KEYNAMES / 8 + 2] = texts.leak().as_ptr().addr();
        words
    }

    fn names(reader: &Reader, words: &[usize]) -> Option<(Vec<u8>, Vec<u8>, Vec<Vec<u8>>)> {
        // SAFETY: as many bytes as a share has, pointers into static texts.
        let share = unsafe { reader.read(words.as_ptr().cast()) }?;
        Some((share.schema.to_vec(), share.table.to_vec(), share.keys().map(<[u8]>::to_vec).collect()))
    }

    #[test]
    fn names_are_found_wherever_the_server_keeps_them() {
        for place in [592, 616] {
            let reader = Reader::new();
            let words = share(place, b"pr\0t1\0", 2, &[c"PRIMARY", c"ib"]);
            let seen = names(&reader, &words).expect("names");
            assert_eq!(seen, (b"pr".to_vec(), b"t1".to_vec(), vec![b"PRIMARY".to_vec(), b"ib".to_vec()]));
            let other = share(place, b"mysql\0user\0", 5, &[]);
            assert_eq!(names(&reader, &other), Some((b"mysql".to_vec(), b"user".to_vec(), vec![])));
            // A share that looks different is refused, not guessed at.
            assert_eq!(names(&reader, &share(place + 8, b"pr\0t1\0", 2, &[])), None);
        }
        // SAFETY: NULL is allowed.
        assert!(unsafe { Reader::new().read(std::ptr::null()) }.is_none());
        assert_eq!(names(&Reader::new(), &[0; 170]), None);
    }
}
