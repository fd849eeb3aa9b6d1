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

/// The types of locks on objects, and of those on everything, by number.
mod kind {
    pub(super) const INTENTION_EXCLUSIVE: u16 = 1;
    pub(super) const SHARED: u16 = 1 << 1;
    pub(super) const HIGH_PRIO: u16 = 1 << 2;
    pub(super) const READ: u16 = 1 << 3;
    pub(super) const WRITE: u16 = 1 << 4;
    pub(super) const UPGRADABLE: u16 = 1 << 5;
    pub(super) const READ_ONLY: u16 = 1 << 6;
    pub(super) const NO_WRITE: u16 = 1 << 7;
    pub(super) const NO_READ_WRITE: u16 = 1 << 8;
    pub(super) const EXCLUSIVE: u16 = 1 << 9;
}

/// The types of locks of the namespace BACKUP, by number.
mod backup {
    pub(super) const START: u16 = 1;
    pub(super) const FLUSH: u16 = 1 << 1;
    pub(super) const WAIT_FLUSH: u16 = 1 << 2;
    pub(super) const WAIT_DDL: u16 = 1 << 3;
    pub(super) const WAIT_COMMIT: u16 = 1 << 4;
    pub(super) const FTWRL1: u16 = 1 << 5;
    pub(super) const FTWRL2: u16 = 1 << 6;
    pub(super) const DML: u16 = 1 << 7;
    pub(super) const TRANS_DML: u16 = 1 << 8;
    pub(super) const SYS_DML: u16 = 1 << 9;
    pub(super) const DDL: u16 = 1 << 10;
    pub(super) const BLOCK_DDL: u16 = 1 << 11;
    pub(super) const ALTER_COPY: u16 = 1 << 12;
    pub(super) const COMMIT: u16 = 1 << 13;
}

/// The rules of a namespace of metadata locks, by the number of the type that is wanted: a mask of the granted types
/// that are in its way, and one of the pending types.
type Rules = [[u16; 2]];

/// Rules for locks on an object with a name.
const OBJECT: &Rules = {
    use kind::{EXCLUSIVE, HIGH_PRIO, NO_READ_WRITE, NO_WRITE, READ, READ_ONLY, SHARED, UPGRADABLE, WRITE};
    &[
        [0, 0],
        [EXCLUSIVE, EXCLUSIVE],
        [EXCLUSIVE, 0],
        [NO_READ_WRITE | EXCLUSIVE, NO_READ_WRITE | EXCLUSIVE],
        [READ_ONLY | NO_WRITE | NO_READ_WRITE | EXCLUSIVE, NO_WRITE | NO_READ_WRITE | EXCLUSIVE],
        [UPGRADABLE | NO_WRITE | NO_READ_WRITE | EXCLUSIVE, EXCLUSIVE],
        [WRITE | NO_READ_WRITE | EXCLUSIVE, WRITE | NO_READ_WRITE | EXCLUSIVE],
        [WRITE | UPGRADABLE | NO_WRITE | NO_READ_WRITE | EXCLUSIVE, EXCLUSIVE],
        [READ | WRITE | UPGRADABLE | READ_ONLY | NO_WRITE | NO_READ_WRITE | EXCLUSIVE, EXCLUSIVE],
        [
            SHARED | HIGH_PRIO | READ | WRITE | UPGRADABLE | READ_ONLY | NO_WRITE | NO_READ_WRITE | EXCLUSIVE,
            0,
        ],
    ]
};

/// Rules for locks on a schema.
const SCHEMA: &Rules = {
    use kind::{EXCLUSIVE, INTENTION_EXCLUSIVE, SHARED};
    &[
        [SHARED | EXCLUSIVE, SHARED | EXCLUSIVE],
        [INTENTION_EXCLUSIVE | EXCLUSIVE, EXCLUSIVE],
        [0, 0],
        [0, 0],
        [0, 0],
        [0, 0],
        [0, 0],
        [0, 0],
        [0, 0],
        [INTENTION_EXCLUSIVE | SHARED | EXCLUSIVE, 0],
    ]
};

/// Rules for locks of backups and of FLUSH TABLES WITH READ LOCK.
const BACKUP: &Rules = {
    use backup::*;
    const STAGES: u16 = FLUSH | WAIT_FLUSH | WAIT_DDL | WAIT_COMMIT;
    const FTWRL: u16 = FTWRL1 | FTWRL2;
    const ALL_DML: u16 = DML | TRANS_DML | SYS_DML | DDL | ALTER_COPY;
    &[
        [START | STAGES | BLOCK_DDL, STAGES | BLOCK_DDL],
        [START, 0],
        [START | DML, 0],
        [START | DML | DDL, 0],
        [START | DML | SYS_DML | DDL | COMMIT, 0],
        [ALL_DML, 0],
        [ALL_DML | COMMIT, 0],
        [STAGES | FTWRL, STAGES | FTWRL],
        [FTWRL, FTWRL],
        [WAIT_COMMIT | FTWRL, WAIT_COMMIT | FTWRL],
        [WAIT_DDL | WAIT_COMMIT | FTWRL | BLOCK_DDL, WAIT_DDL | WAIT_COMMIT | FTWRL | BLOCK_DDL],
        [START | STAGES | BLOCK_DDL | DDL, START],
        [FTWRL, FTWRL],
        [WAIT_COMMIT | FTWRL2, WAIT_COMMIT | FTWRL2],
    ]
};

/// Returns whether a lock of type `held`, granted or waited for, keeps a session waiting that wants one of type `wanted`
/// on the same object.
pub(crate) fn is_in_the_way(namespace: u8, wanted: u8, held: u8, is_granted: bool) -> bool {
    let rules = match namespace {
        0 => BACKUP,
        1 => SCHEMA,
        _ => OBJECT,
    };
    let in_the_way = rules.get(usize::from(wanted)).map_or(0, |both| both[usize::from(!is_granted)]);
    1u16.checked_shl(held.into()).is_some_and(|held| in_the_way & held != 0)
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

    #[test]
    fn who_is_in_the_way_is_what_the_types_say() {
        use super::super::names::mdl_type;
        let number = |namespace: u8, name: &str| {
            (0..16u8).find(|it| mdl_type(namespace, i32::from(*it)) == Some(name)).expect(name)
        };
        let judged = |namespace: u8, wanted: &str, held: &str| {
            let [wanted, held] = [wanted, held].map(|name| number(namespace, name));
            [true, false].map(|is_granted| is_in_the_way(namespace, wanted, held, is_granted))
        };
        const TABLE: u8 = 2;
        assert_eq!(judged(TABLE, "EXCLUSIVE", "SHARED_READ"), [true, false], "ALTER waits for a reader");
        assert_eq!(judged(TABLE, "SHARED_READ", "EXCLUSIVE"), [true, true], "a reader queues behind ALTER");
        assert_eq!(judged(TABLE, "SHARED_READ", "SHARED_WRITE"), [false, false]);
        assert_eq!(judged(TABLE, "SHARED_READ_ONLY", "SHARED_WRITE"), [true, true]);
        assert_eq!(judged(USER_LOCK, "SHARED_NO_WRITE", "SHARED_NO_WRITE"), [true, false], "GET_LOCK");
        assert_eq!(judged(1, "INTENTION_EXCLUSIVE", "INTENTION_EXCLUSIVE"), [false, false]);
        assert_eq!(judged(0, "BACKUP_DML", "BACKUP_FTWRL1"), [true, true]);
        assert_eq!(judged(0, "BACKUP_FTWRL2", "BACKUP_COMMIT"), [true, false]);
        assert!(!is_in_the_way(2, 200, 9, true) && !is_in_the_way(2, 9, 200, true), "no such types");
        for (rules, types) in [(OBJECT, 1..10u8), (SCHEMA, 0..10)] {
            for (one, other) in types.clone().flat_map(|one| types.clone().map(move |other| (one, other))) {
                let way = |wanted: u8, held: u8, granted: usize| {
                    rules[usize::from(wanted)][granted] & 1 << held != 0
                };
                assert_eq!(way(one, other, 0), way(other, one, 0), "{one} and {other} exclude each other");
                assert!(!way(one, other, 1) || way(one, other, 0), "{one} behind {other}");
            }
        }
    }
}
