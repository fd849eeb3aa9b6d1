//! `TABLE_SHARE`: schema, name and keys of a table.
//!
//! The later part of the structure moves within a series: `db` is at byte 632 in 10.11.5 and at 608 in
//! 10.11.19. So nothing there is read at a fixed offset. `db` is *searched* by its pattern in every process,
//! and checked at every use: `table_cache_key`, `db` and `table_name` are three adjacent pairs of pointer and
//! length, the key is `db` NUL `table` NUL, and the two names point into it. `keynames` lies before the
//! moving part, at a fixed byte per series. Verified on 10.11.5, 10.11.19, 11.4.5 and 11.8.9 at each
//! `get_table_share` of a script with DDL, views, temporary and system tables: found each time, keys in the
//! order of their numbers (`PRIMARY`, unique, others).
//!
//! A share that CREATE or ALTER makes for itself has no cache key of its own: `table_cache_key` is the
//! database's name with length 0, and the table's name lies elsewhere. It is read at the offset where an
//! ordinary one was found before.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::abi::Series;
use crate::abi::types::ServerTableShare;

/// The offset of `keynames`, after a category, a hash and a memory root.
const KEYNAMES: usize = 200;
/// The offset of `keynames` on 10.6, whose hashes are smaller: machine code of its `my_hash_init2` and
/// `alloc_table_share`.
const KEYNAMES_10_6: usize = 184;
/// The possible offsets of `table_cache_key`; all are well inside the structure (1,200 bytes and more).
const SEARCH: std::ops::Range<usize> = 320..880;
/// The server's own limit of keys per table; also means "no index" in `start_table_io_wait`.
pub const MAX_KEYS: usize = 64;
/// The longest name in bytes: 64 characters of three bytes, with room for the longer ones of temporary
/// tables.
const MAX_NAME: usize = 512;

/// The server's `TYPELIB`.
#[repr(C)]
struct ShareNames {
    count: u32,
    name: *const c_char,
    texts: *const *const c_char,
    lengths: *const u32,
}

/// The three pairs `table_cache_key`, `db`, `table_name`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ShareKey {
    key: *const u8,
    key_length: usize,
    db: *const u8,
    db_length: usize,
    table: *const u8,
    table_length: usize,
}

impl ShareKey {
    /// Returns whether these are the three pairs of a share that has its cache key.
    fn fits(&self) -> bool {
        let (db, table) = (self.db_length, self.table_length);
        !self.key.is_null()
            && self.db == self.key
            && (1..=MAX_NAME).contains(&db)
            && (1..=MAX_NAME).contains(&table)
            && self.key_length == db + table + 2
            && self.table.addr() == self.key.addr() + db + 1
    }

    /// Returns whether these are the pairs of a share without a cache key.
    fn fits_private(&self) -> bool {
        let (db, table) = (self.db_length, self.table_length);
        !self.key.is_null()
            && self.db == self.key
            && self.key_length == 0
            && !self.table.is_null()
            && (1..=MAX_NAME).contains(&db)
            && (1..=MAX_NAME).contains(&table)
    }
}

/// The distances from `db` to `keys` and to `is_view`, which are fixed within a series although all of it
/// moves.
///
/// 10.11.5 (debug information) and 10.11.19 agree; 11.4.5 is from debug information; 10.6.23 and 11.8.9 are
/// as their built-in's `get_table_share` reads it. Seen true for the one view of the script and false for all
/// its tables, on all but 10.6.
#[derive(Clone, Copy)]
struct Distances {
    keys: usize,
    is_view: usize,
}

const fn distances(series: Series) -> Distances {
    match series {
        Series::V10_6 | Series::V10_11 => Distances { keys: 256, is_view: 339 },
        Series::V11_4 => Distances { keys: 372, is_view: 439 },
        Series::V11_8 => Distances { keys: 360, is_view: 443 },
    }
}

/// `no_replicate` is two flags before `is_view`, with `crashed` between them, in the sources of every
/// supported series.
const NO_REPLICATE_BEFORE_IS_VIEW: usize = 2;

/// A table's names. Borrows the share: copy before returning.
#[derive(Clone, Copy, Debug)]
pub struct OpenShare<'a> {
    /// The database's name.
    pub schema: &'a [u8],
    /// The table's name.
    pub table: &'a [u8],
    /// Whether the table is a view, which the built-in does not instrument. False if the flag cannot be read
    /// reliably.
    pub is_view: bool,
    keys: &'a [*const c_char],
}

impl<'a> OpenShare<'a> {
    /// Returns the names of the keys, in the order of their numbers; at most [`MAX_KEYS`].
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        self.keys.iter().map(|text| {
            if text.is_null() {
                return &[][..];
            }
            // SAFETY: the key names of a complete share are NUL-terminated and live as long as it.
            unsafe { CStr::from_ptr(*text) }.to_bytes()
        })
    }
}

/// A reader of shares that remembers the offset of the names.
#[derive(Debug, Default)]
pub struct ShareReader {
    /// The offset of `table_cache_key` in bytes; 0 until found.
    place: AtomicUsize,
    /// The series as a number, from 1; 0 until set.
    series: AtomicU8,
}

impl ShareReader {
    /// Creates a reader that has seen no share yet and treats every view as a table.
    pub const fn new() -> ShareReader {
        ShareReader { place: AtomicUsize::new(0), series: AtomicU8::new(0) }
    }

    /// Selects the series whose layout marks views.
    pub fn select(&self, series: Series) {
        self.series.store(series as u8 + 1, Ordering::Relaxed);
    }

    fn series(&self) -> Option<Series> {
        let index = usize::from(self.series.load(Ordering::Relaxed)).checked_sub(1)?;
        Series::ALL.get(index).copied()
    }

    fn distances(&self) -> Option<Distances> {
        self.series().map(distances)
    }

    fn keynames(&self) -> usize {
        if self.series() == Some(Series::V10_6) { KEYNAMES_10_6 } else { KEYNAMES }
    }

    /// Returns the names of a share; `None` for NULL, or if they are not found and the table cannot be
    /// identified.
    ///
    /// # Safety
    ///
    /// `share` is NULL or a complete, unchanging `TABLE_SHARE` of a supported server, in memory during `'a`.
    pub unsafe fn read<'a>(&self, share: *const ServerTableShare) -> Option<OpenShare<'a>> {
        if share.is_null() {
            return None;
        }
        // SAFETY: the caller's promise, and `SEARCH` is inside the structure.
        let (place, key) = unsafe { self.key(share.cast()) }?;
        // SAFETY: the caller's promise.
        Some(unsafe { self.names(share.cast(), place, &key) })
    }

    /// Returns the names of a share that has a cache key of its own; `None` for a temporary table's, one that
    /// CREATE or ALTER made for itself, or NULL.
    ///
    /// # Safety
    ///
    /// See [`ShareReader::read`].
    pub unsafe fn read_cached<'a>(&self, share: *const ServerTableShare) -> Option<OpenShare<'a>> {
        if share.is_null() {
            return None;
        }
        // SAFETY: as above.
        let (place, key) = unsafe { self.key(share.cast()) }?;
        // SAFETY: as above.
        key.fits().then(|| unsafe { self.names(share.cast(), place, &key) })
    }

    /// Returns the names at the pairs.
    ///
    /// # Safety
    ///
    /// See [`ShareReader::read`]; `key` was found at `place` of the share at `base`.
    unsafe fn names<'a>(&self, base: *const u8, place: usize, key: &ShareKey) -> OpenShare<'a> {
        // SAFETY: the pairs are the server's own names and their lengths, as `fits` or `fits_private`
        // verified.
        let (schema, table) = unsafe {
            (
                std::slice::from_raw_parts(key.db, key.db_length),
                std::slice::from_raw_parts(key.table, key.table_length),
            )
        };
        // SAFETY: as above; `keynames` is at this offset in every server of the series.
        let names = unsafe { base.add(self.keynames()).cast::<ShareNames>().read() };
        let count = names.count as usize;
        let db = place + std::mem::offset_of!(ShareKey, db);
        // SAFETY: as above.
        let is_view = self
            .distances()
            .is_some_and(|distances| unsafe { is_view(base.add(db), distances, names.count) });
        let keys = if names.texts.is_null() || count > MAX_KEYS {
            &[][..]
        } else {
            // SAFETY: the server fills `count` pointers.
            unsafe { std::slice::from_raw_parts(names.texts, count) }
        };
        OpenShare { schema, table, is_view, keys }
    }

    /// Marks a table so that its changes stay out of the binary log, as the server marks the built-in's
    /// tables when it first opens them. The server would log changes of FEDERATED's tables, and a replica
    /// would repeat what was meant for this server. Returns false, and changes nothing, if the table is
    /// already marked or the flag cannot be located reliably.
    ///
    /// Several threads may do so at once, and the server may read: the flag is a byte, stored as one.
    ///
    /// # Safety
    ///
    /// `share` is NULL or a complete `TABLE_SHARE` of a supported server, whose flags only this function
    /// changes.
    pub unsafe fn keep_from_binary_log(&self, share: *mut ServerTableShare) -> bool {
        let Some(distances) = self.distances().filter(|_| !share.is_null()) else { return false };
        let base = share.cast::<u8>();
        // SAFETY: the caller's promise.
        let Some((place, _)) = (unsafe { self.key(base) }) else { return false };
        // SAFETY: the caller's promise; offsets and distances are inside the structure, as `read` and
        // `is_view` rely on.
        let (names, counted, flags) = unsafe {
            let names = base.add(self.keynames()).cast::<ShareNames>().read();
            let db = base.add(place + std::mem::offset_of!(ShareKey, db));
            let flag = db.add(distances.is_view - NO_REPLICATE_BEFORE_IS_VIEW);
            let flags = [0, 1, 2].map(|at| AtomicU8::from_ptr(flag.add(at)));
            (names, db.add(distances.keys).cast::<u32>().read(), flags)
        };
        // A base table that has not crashed and is not marked: three zero flags in a row.
        let sure = counted == names.count && flags.iter().all(|flag| flag.load(Ordering::Relaxed) == 0);
        if sure {
            flags[0].store(1, Ordering::Relaxed);
        }
        sure
    }

    /// Finds the pairs, first at the offset where they were last time.
    ///
    /// # Safety
    ///
    /// `base` is a `TABLE_SHARE`.
    unsafe fn key(&self, base: *const u8) -> Option<(usize, ShareKey)> {
        // SAFETY: every offset used is within `SEARCH`, which is inside the structure with room for the
        // pairs.
        let at = |place: usize| unsafe { base.add(place).cast::<ShareKey>().read() };
        let known = self.place.load(Ordering::Relaxed);
        if known != 0 {
            return Some(at(known)).filter(|key| key.fits() || key.fits_private()).map(|key| (known, key));
        }
        let place = SEARCH.step_by(8).find(|place| at(*place).fits())?;
        self.place.store(place, Ordering::Relaxed);
        Some((place, at(place)))
    }
}

/// Reads the `is_view` flag of the share that contains `db`.
///
/// # Safety
///
/// `db` is inside a complete `TABLE_SHARE`.
unsafe fn is_view(db: *const u8, distances: Distances, key_count: u32) -> bool {
    // SAFETY: both are inside the structure for every offset in `SEARCH`; the count is aligned as `db` is.
    let (counted, view) =
        unsafe { (db.add(distances.keys).cast::<u32>().read(), db.add(distances.is_view).read()) };
    // The two counts of keys differ only if the structure is not the one that the distances were taken from.
    view == 1 && counted == key_count
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the share of a table without keys in the cache of a server of [`Series::V10_11`], and the
    /// offset of its `no_replicate`.
    pub(crate) fn cached_share(cache_key: &'static [u8], db: usize) -> (Vec<usize>, usize) {
        let flag = 592 + 16 + distances(Series::V10_11).is_view - NO_REPLICATE_BEFORE_IS_VIEW;
        (share(592, cache_key, db, &[]), flag)
    }

    /// Returns a share's bytes with the pairs at `place`.
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

    /// Returns a share as CREATE TABLE makes it.
    fn private_share(place: usize, db: &'static CStr, table: &'static CStr) -> Vec<usize> {
        let mut words = vec![0usize; 170];
        let (db_start, table_start) = (db.as_ptr().addr(), table.as_ptr().addr());
        let pairs = [db_start, 0, db_start, db.count_bytes(), table_start, table.count_bytes()];
        words[place / 8..place / 8 + 6].copy_from_slice(&pairs);
        words
    }

    #[test]
    fn a_view_is_told_by_its_flag_only_where_the_layout_is_sure() {
        let db = 592 + 16;
        for series in Series::ALL {
            let Distances { keys, is_view } = distances(series);
            let reader = ShareReader::new();
            reader.select(series);
            let mut words = share(592, b"pr\0v1\0", 2, &[]);
            let view = |words: &[usize]| {
                // SAFETY: as many bytes as a share has.
                unsafe { reader.read(words.as_ptr().cast()) }.map(|share| share.is_view)
            };
            assert_eq!(view(&words), Some(false));
            words[(db + is_view) / 8] |= 1 << ((db + is_view) % 8 * 8);
            assert_eq!(view(&words), Some(true));
            words[(db + keys) / 8] |= 3 << ((db + keys) % 8 * 8);
            assert_eq!(view(&words), Some(false));
        }
    }

    #[test]
    fn a_table_is_kept_from_the_binary_log_only_where_the_layout_is_sure() {
        let db = 592 + 16;
        for series in Series::ALL {
            let Distances { keys, is_view } = distances(series);
            let reader = ShareReader::new();
            let mut words = share(592, b"performance_schema\0threads\0", 18, &[c"PRIMARY"]);
            if series == Series::V10_6 {
                words.copy_within(KEYNAMES / 8..KEYNAMES / 8 + 3, KEYNAMES_10_6 / 8);
            }
            // SAFETY: as many bytes as a share has.
            let keep =
                |words: &mut [usize]| unsafe { reader.keep_from_binary_log(words.as_mut_ptr().cast()) };
            let clean = words.clone();
            assert!(!keep(&mut words), "the series is not known");
            reader.select(series);
            assert!(!keep(&mut words), "the number of keys is another");
            assert_eq!(words, clean);
            let set = |words: &mut [usize], byte: usize| words[byte / 8] |= 1 << (byte % 8 * 8);
            set(&mut words, db + keys);
            let mut view = words.clone();
            set(&mut view, db + is_view);
            assert!(!keep(&mut view), "a view");
            let mut expected = words.clone();
            set(&mut expected, db + is_view - 2);
            assert!(keep(&mut words));
            assert_eq!(words, expected);
            assert!(!keep(&mut words), "it is marked");
        }
    }

    type Seen = (Vec<u8>, Vec<u8>, Vec<Vec<u8>>);

    fn names(reader: &ShareReader, words: &[usize]) -> Option<Seen> {
        // SAFETY: as many bytes as a share has, pointers into static texts.
        let share = unsafe { reader.read(words.as_ptr().cast()) }?;
        Some((share.schema.to_vec(), share.table.to_vec(), share.keys().map(<[u8]>::to_vec).collect()))
    }

    #[test]
    fn a_table_of_the_cache_is_told_from_one_that_create_makes_for_itself() {
        let reader = ShareReader::new();
        let cached = share(592, b"pr\0t1\0", 2, &[]);
        let private = private_share(592, c"pr", c"t9");
        // SAFETY: as many bytes as a share has, or NULL.
        let table =
            |words: *const usize| unsafe { reader.read_cached(words.cast()) }.map(|share| share.table);
        assert_eq!(table(cached.as_ptr()), Some(&b"t1"[..]));
        assert_eq!(table(private.as_ptr()), None);
        assert_eq!(table(std::ptr::null()), None);
        assert!(names(&reader, &private).is_some());
    }

    #[test]
    fn names_are_found_wherever_the_server_keeps_them() {
        for place in [592, 616] {
            let reader = ShareReader::new();
            // Not a share with a cache key: nothing to find the place by.
            let private = private_share(place, c"pr", c"t9");
            assert_eq!(names(&reader, &private), None);
            let words = share(place, b"pr\0t1\0", 2, &[c"PRIMARY", c"ib"]);
            let seen = names(&reader, &words).expect("names");
            assert_eq!(seen, (b"pr".to_vec(), b"t1".to_vec(), vec![b"PRIMARY".to_vec(), b"ib".to_vec()]));
            let other = share(place, b"mysql\0user\0", 5, &[]);
            assert_eq!(names(&reader, &other), Some((b"mysql".to_vec(), b"user".to_vec(), vec![])));
            assert_eq!(names(&reader, &private), Some((b"pr".to_vec(), b"t9".to_vec(), vec![])));
            // A share that looks different is refused instead of guessed at.
            assert_eq!(names(&reader, &share(place + 8, b"pr\0t1\0", 2, &[])), None);
        }
        // SAFETY: NULL is allowed.
        assert!(unsafe { ShareReader::new().read(std::ptr::null()) }.is_none());
        assert_eq!(names(&ShareReader::new(), &[0; 170]), None);
    }
}
