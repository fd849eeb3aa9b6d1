//! The server's metadata locks, user locks among them: the built-in's list of them says what each locks,
//! whose it is, and whether it is granted. Which is in the way of which says the server's own lock manager.

use std::collections::HashSet;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use tare_engine::HostLock;
use tare_engine::snapshot::ObjectName;
use tare_host::process::observation::bytes;

use super::lists::{Copied, METADATA_LOCKS, Record};
use crate::abi::layout::layout;
use crate::abi::lists::{
    GRANTED, LOCK_DURATION, LOCK_EVENT, LOCK_FILE, LOCK_IDENTITY, LOCK_KEY, LOCK_LINE, LOCK_OWNER, LOCK_PART,
    LOCK_STATUS, LOCK_TEXT, LOCK_TYPE, PENDING,
};

/// Names of the namespaces, by number (OBJECT_TYPE).
const NAMESPACES: [&str; 19] = [
    "GLOBAL",
    "BACKUP LOCK",
    "TABLESPACE",
    "SCHEMA",
    "TABLE",
    "FUNCTION",
    "PROCEDURE",
    "TRIGGER",
    "EVENT",
    "COMMIT",
    "USER LEVEL LOCK",
    "LOCKING SERVICE",
    "SRID",
    "ACL CACHE",
    "COLUMN STATISTICS",
    "RESOURCE_GROUPS",
    "FOREIGN KEY",
    "CHECK CONSTRAINT",
    "LIBRARY",
];
/// Namespaces whose locks have a scope (GLOBAL, BACKUP LOCK, TABLESPACE, SCHEMA, COMMIT, RESOURCE_GROUPS,
/// FOREIGN KEY, CHECK CONSTRAINT), by bit. The others are of objects.
const SCOPED: u32 = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 9 | 1 << 15 | 1 << 16 | 1 << 17;

/// The number of types of locks.
const TYPES: usize = 11;

/// For each type of lock that is wanted the types in its way, by bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Among granted locks.
    granted: [u16; TYPES],
    /// Among locks that are waited for.
    waiting: [u16; TYPES],
}

impl Rules {
    /// Reads the server's rules at the beginning of a strategy of its lock manager. `None`: it does not look
    /// like rules: of two granted locks each would be in the other's way, and a lock that is waited for is in
    /// nobody's way that its grant would not be.
    pub(crate) fn read(strategy: usize) -> Option<Rules> {
        let copy: [u8; 4 * TYPES] = bytes(strategy)?;
        let mut words = copy.as_chunks::<2>().0.iter().map(|word| u16::from_le_bytes(*word));
        let mut next = || [(); TYPES].map(|()| words.next().unwrap_or(u16::MAX));
        let rules = Rules { granted: next(), waiting: next() };
        let pairs = || (0..TYPES).flat_map(|wanted| (0..TYPES).map(move |held| (wanted, held)));
        let is_mutual = |(a, b): (usize, usize)| rules.granted[a] >> b & 1 == rules.granted[b] >> a & 1;
        let is_weaker = |wanted: usize| rules.waiting[wanted] & !rules.granted[wanted] == 0;
        let is_bounded = rules.granted.iter().all(|types| types >> TYPES == 0);
        let is_expected = is_bounded
            && pairs().all(is_mutual)
            && (0..TYPES).all(is_weaker)
            && rules.granted[TYPES - 1] >> (TYPES - 1) == 1;
        is_expected.then_some(rules)
    }

    fn is_in_the_way(&self, wanted: u8, held: u8, is_granted: bool) -> bool {
        let types = if is_granted { &self.granted } else { &self.waiting };
        types
            .get(usize::from(wanted))
            .is_some_and(|types| types.checked_shr(held.into()).unwrap_or(0) & 1 != 0)
    }
}

/// The rules for locks of scopes, and for those of objects.
pub(crate) static RULES: OnceLock<[Rules; 2]> = OnceLock::new();

/// Returns whether a lock is in the way of one that is wanted on the same object.
pub(crate) fn is_in_the_way(namespace: u8, wanted: u8, held: u8, is_granted: bool) -> bool {
    let is_scoped = SCOPED.checked_shr(namespace.into()).unwrap_or(0) & 1 != 0;
    let rules = RULES.get().map(|[scoped, of_objects]| if is_scoped { scoped } else { of_objects });
    rules.is_some_and(|rules| rules.is_in_the_way(wanted, held, is_granted))
}

/// Names of the types of locks, by number (LOCK_TYPE).
const TYPE_NAMES: [&str; TYPES] = [
    "INTENTION_EXCLUSIVE",
    "SHARED",
    "SHARED_HIGH_PRIO",
    "SHARED_READ",
    "SHARED_WRITE",
    "SHARED_WRITE_LOW_PRIO",
    "SHARED_UPGRADABLE",
    "SHARED_READ_ONLY",
    "SHARED_NO_WRITE",
    "SHARED_NO_READ_WRITE",
    "EXCLUSIVE",
];
/// Names of durations, by number (LOCK_DURATION).
const DURATIONS: [&str; 3] = ["STATEMENT", "TRANSACTION", "EXPLICIT"];
/// Names of states, by number (LOCK_STATUS).
const STATUSES: [&str; 4] = ["PENDING", "GRANTED", "PRE_ACQUIRE_NOTIFY", "POST_RELEASE_NOTIFY"];

/// The namespace whose keys have the name of a column, too.
const COLUMN_STATISTICS: u8 = 14;

/// A row of `metadata_locks`.
#[derive(Debug)]
pub(crate) struct LockRow {
    pub(crate) object: ObjectName,
    pub(crate) column: Option<String>,
    pub(crate) identity: u64,
    pub(crate) lock_type: &'static str,
    pub(crate) duration: &'static str,
    pub(crate) status: &'static str,
    /// The address of the name of a source file, and the line.
    pub(crate) source: (usize, u32),
    /// 0: unknown.
    pub(crate) owner: u64,
    /// The event of the owner that has wanted the lock.
    pub(crate) event: u64,
}

/// Returns the rows of all locks. Call it within [`super::presence::while_there`].
pub(crate) fn all() -> Vec<LockRow> {
    let mut rows = Vec::new();
    METADATA_LOCKS.each(|record| rows.extend(record.copy(LOCK_PART, &[]).and_then(|copied| row(&copied))));
    rows
}

fn row(copied: &Copied) -> Option<LockRow> {
    let name = |names: &[&'static str], at: usize| names.get(copied.number(at) as usize).copied();
    let [compared, schema, object_name] = lengths(copied)?;
    let (begin, end) = (schema + object_name + 3, compared.saturating_sub(1));
    let has_column = copied.byte(LOCK_TEXT) == COLUMN_STATISTICS && begin < end;
    Some(LockRow {
        object: object(copied)?,
        column: has_column.then(|| copied.characters(LOCK_TEXT + begin, end - begin)),
        identity: copied.word(LOCK_IDENTITY),
        lock_type: name(&TYPE_NAMES, LOCK_TYPE)?,
        duration: name(&DURATIONS, LOCK_DURATION)?,
        status: name(&STATUSES, LOCK_STATUS)?,
        source: (copied.word(LOCK_FILE) as usize, copied.number(LOCK_LINE)),
        owner: copied.word(LOCK_OWNER),
        event: copied.word(LOCK_EVENT),
    })
}

/// Returns the locks that are waited for, and those that are granted on the same objects. Call it within
/// [`super::presence::while_there`].
pub(crate) fn awaited() -> Vec<HostLock> {
    let mut keys = HashSet::new();
    METADATA_LOCKS.each(|record| {
        let is_pending = record.number(LOCK_STATUS).load(Relaxed) == PENDING;
        keys.extend(is_pending.then(|| record.copy(LOCK_PART, &[])).flatten().and_then(|it| key(&it)));
    });
    let mut locks = Vec::new();
    if !keys.is_empty() {
        METADATA_LOCKS.each(|record| {
            let lock = record.copy(LOCK_PART, &[]).and_then(|copied| lock(record, &copied));
            locks.extend(lock.filter(|lock| keys.contains(&lock.key)));
        });
    }
    locks
}

/// Returns whether a lock is still granted or waited for as it was.
pub(crate) fn is_still(lock: &HostLock) -> bool {
    let record = Record::at(&METADATA_LOCKS, lock.place);
    let status = record.number(LOCK_STATUS).load(Relaxed);
    status == status_of(lock.is_granted) && record.version() == lock.stamp
}

const fn status_of(is_granted: bool) -> u32 {
    if is_granted { GRANTED } else { PENDING }
}

/// Returns the lengths of a key: of the part that is compared, of the schema's and of the object's name.
/// `None`: it is none.
fn lengths(copied: &Copied) -> Option<[usize; 3]> {
    let length = |at: usize| usize::from(copied.byte(at)) | usize::from(copied.byte(at + 1)) << 8;
    let lengths = [0, 2, 4].map(|at| length(LOCK_KEY + at));
    let is_whole = lengths[0] > lengths[1] + 1 && LOCK_TEXT + lengths[0] + lengths[2] < LOCK_TYPE;
    is_whole.then_some(lengths)
}

/// Returns what a lock's key is compared by.
fn key(copied: &Copied) -> Option<Vec<u8>> {
    Some(copied.bytes(LOCK_TEXT, lengths(copied)?[0]))
}

fn lock(record: Record, copied: &Copied) -> Option<HostLock> {
    let is_granted = match copied.number(LOCK_STATUS) {
        PENDING => false,
        GRANTED => true,
        _ => return None,
    };
    Some(HostLock {
        place: record.address,
        stamp: copied.version,
        owner_thread: copied.word(LOCK_OWNER),
        namespace: copied.byte(LOCK_TEXT),
        lock_type: u8::try_from(copied.number(LOCK_TYPE)).ok()?,
        is_granted,
        key: key(copied)?,
        object: object(copied)?,
    })
}

/// Returns the object of a lock, as `metadata_locks` names it.
fn object(copied: &Copied) -> Option<ObjectName> {
    let [compared, schema, name] = lengths(copied)?;
    let namespace = copied.byte(LOCK_TEXT);
    let text = |at: usize, length: usize| (length > 0).then(|| copied.characters(LOCK_TEXT + at, length));
    let is_respelled = layout().spelled_namespaces.checked_shr(namespace.into()).unwrap_or(0) & 1 != 0;
    let name_at = if is_respelled { compared } else { schema + 2 };
    Some(ObjectName {
        object_type: NAMESPACES.get(usize::from(namespace)).copied(),
        schema: text(1, schema),
        name: text(name_at, name),
        index: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED_READ: u8 = 3;
    const SHARED_WRITE: u8 = 4;
    const EXCLUSIVE: u8 = 10;

    /// The rules for objects, as 9.7.4 has them.
    const OBJECT: [u16; 2 * TYPES] = [
        0, 0x400, 0x400, 0x600, 0x780, 0x780, 0x740, 0x630, 0x770, 0x7F8, 0x7FE, //
        0, 0x400, 0, 0x600, 0x700, 0x780, 0x400, 0x410, 0x400, 0x400, 0,
    ];

    fn read(words: &[u16; 2 * TYPES]) -> Option<Rules> {
        Rules::read(words.as_ptr().expose_provenance())
    }

    #[test]
    fn rules_are_the_servers_or_none() {
        let rules = read(&OBJECT).expect("they are rules");
        assert!(rules.is_in_the_way(EXCLUSIVE, SHARED_READ, true));
        assert!(!rules.is_in_the_way(EXCLUSIVE, SHARED_READ, false));
        assert!(rules.is_in_the_way(SHARED_READ, EXCLUSIVE, false));
        assert!(!rules.is_in_the_way(SHARED_READ, SHARED_WRITE, true));
        assert!(!rules.is_in_the_way(200, 200, true));
        for (at, word) in [(1, 0), (0, 0x800), (13, 0x10), (10, 0x3FE)] {
            let mut other = OBJECT;
            other[at] = word;
            assert_eq!(read(&other), None, "{at}");
        }
        assert_eq!(Rules::read(0), None);
    }
}
