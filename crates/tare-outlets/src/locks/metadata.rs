//! Waits for metadata locks, derived by the server's compatibility rules.

use tare_words::metadata_lock::Namespace;

use super::{Holder, Wait};
use crate::source::Row;

/// The columns of `metadata_locks` to read.
pub(crate) const COLUMNS: [&str; 6] =
    ["OWNER_THREAD_ID", "OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME", "LOCK_TYPE", "LOCK_STATUS"];

/// A row of `metadata_locks`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MetadataLockEntry {
    pub(crate) thread: u64,
    /// Type, schema and name.
    pub(crate) object: [String; 3],
    kind: String,
    pub(crate) granted: bool,
}

/// Parses a row of [`COLUMNS`].
pub(crate) fn lock(row: &Row) -> Option<MetadataLockEntry> {
    Some(MetadataLockEntry {
        thread: row.number(0)?,
        object: [1, 2, 3].map(|at| row.text(at).unwrap_or_default()),
        kind: row.text(4).unwrap_or_default(),
        granted: row.text(5).as_deref() == Some("GRANTED"),
    })
}

/// Returns the waits: for the holders of incompatible locks, or, if there are none, for those with pending
/// locks that go first.
pub(crate) fn waits(locks: &[MetadataLockEntry]) -> Vec<Wait> {
    let mut waits: Vec<Wait> = vec![];
    for waiting in locks.iter().filter(|lock| !lock.granted) {
        let of = |is_granted: bool| {
            let others = locks.iter().filter(move |other| other.granted == is_granted);
            others.filter(|other| is_in_the_way(waiting, other))
        };
        let mut others: Vec<&MetadataLockEntry> = of(true).collect();
        if others.is_empty() {
            others = of(false).collect();
        }
        for other in others {
            let wait = wait(waiting, other);
            let is_known = |it: &Wait| {
                (it.waiting, it.holding, &it.object) == (wait.waiting, wait.holding, &wait.object)
            };
            if !waits.iter().any(is_known) {
                waits.push(wait);
            }
        }
    }
    waits
}

/// Returns whether another session's lock keeps one waiting. A type of a server to come is in nobody's way.
fn is_in_the_way(waiting: &MetadataLockEntry, other: &MetadataLockEntry) -> bool {
    let namespace = Namespace::of(&waiting.object[0]);
    let [wanted, held] = [waiting, other].map(|lock| namespace.type_number(&lock.kind));
    let (Some(wanted), Some(held)) = (wanted, held) else { return false };
    other.thread != waiting.thread
        && other.object == waiting.object
        && namespace.is_in_the_way(wanted, held, other.granted)
}

fn wait(waiting: &MetadataLockEntry, other: &MetadataLockEntry) -> Wait {
    let name: Vec<&str> =
        waiting.object[1..].iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    let object = format!("{} {}", waiting.object[0].to_lowercase(), name.join("."));
    let held = if other.granted { other.kind.clone() } else { format!("{}, waiting", other.kind) };
    Wait {
        waiting: waiting.thread,
        holding: Holder::Thread(other.thread),
        object: object.trim_end().to_owned(),
        wanted: waiting.kind.clone(),
        held,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(thread: u64, kind: &str, granted: bool) -> MetadataLockEntry {
        let object = ["TABLE", "shop", "orders"].map(str::to_owned);
        MetadataLockEntry { thread, object, kind: kind.into(), granted }
    }

    fn pairs(locks: &[MetadataLockEntry]) -> Vec<(u64, u64)> {
        let pair = |wait: &Wait| match wait.holding {
            Holder::Thread(thread) => (wait.waiting, thread),
            other => panic!("{other:?}"),
        };
        waits(locks).iter().map(pair).collect()
    }

    #[test]
    fn who_queues_behind_one_that_waits_is_told_so() {
        // A long transaction reads; an ALTER waits for it; a SELECT waits behind the ALTER.
        let locks = [
            lock(1, "SHARED_READ", true),
            lock(2, "SHARED_UPGRADABLE", true),
            lock(2, "EXCLUSIVE", false),
            lock(3, "SHARED_READ", false),
        ];
        assert_eq!(pairs(&locks), [(2, 1), (3, 2)]);
        let waits = waits(&locks);
        assert_eq!(waits[0].object, "table shop.orders");
        assert_eq!(waits[1].held, "EXCLUSIVE, waiting");
    }

    #[test]
    fn only_locks_that_exclude_each_other_are_in_the_way() {
        let locks =
            [lock(1, "SHARED_READ", true), lock(2, "SHARED_WRITE", true), lock(3, "SHARED_READ_ONLY", false)];
        assert_eq!(pairs(&locks), [(3, 2)], "LOCK TABLES … READ waits for the one that writes");
    }

    #[test]
    fn who_waits_itself_is_in_nobodys_way_but_of_those_it_goes_before() {
        // DROP TABLE waits for a reader. LOCK TABLES … WRITE waits for the reader, too, and not for the DROP
        // alone; opening a table to describe it precedes both.
        let locks = [
            lock(1, "SHARED_READ", true),
            lock(2, "EXCLUSIVE", false),
            lock(3, "SHARED_NO_READ_WRITE", false),
            lock(4, "SHARED_HIGH_PRIO", false),
            lock(5, "SHARED_UPGRADABLE", false),
            lock(6, "SHARED_WRITE", false),
        ];
        assert_eq!(pairs(&locks), [(2, 1), (3, 1), (5, 2), (6, 2), (6, 3)]);
    }

    #[test]
    fn another_object_is_not_in_the_way() {
        let mut other = lock(1, "SHARED_READ", true);
        other.object[2] = "customers".into();
        assert_eq!(pairs(&[other, lock(2, "EXCLUSIVE", false)]), []);
    }
}
