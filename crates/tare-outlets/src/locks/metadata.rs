//! Waits for metadata locks, derived by the server's compatibility rules.

use super::{Holder, Wait};
use crate::source::Row;

/// The columns of `metadata_locks` to read.
pub(crate) const COLUMNS: [&str; 6] =
    ["OWNER_THREAD_ID", "OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME", "LOCK_TYPE", "LOCK_STATUS"];

/// A row of `metadata_locks`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lock {
    pub(crate) thread: u64,
    /// Type, schema and name.
    pub(crate) object: [String; 3],
    kind: String,
    pub(crate) granted: bool,
}

/// Parses a row of [`COLUMNS`].
pub(crate) fn lock(row: &Row) -> Option<Lock> {
    Some(Lock {
        thread: row.number(0)?,
        object: [1, 2, 3].map(|at| row.text(at).unwrap_or_default()),
        kind: row.text(4).unwrap_or_default(),
        granted: row.text(5).as_deref() == Some("GRANTED"),
    })
}

/// Returns the waits: for the holders of incompatible locks, or, if there are none, for those with pending
/// locks that go first.
pub(crate) fn waits(locks: &[Lock]) -> Vec<Wait> {
    let mut waits: Vec<Wait> = vec![];
    for waiting in locks.iter().filter(|lock| !lock.granted) {
        let [granted, pending] = in_the_way(&waiting.object[0], &waiting.kind);
        let of = |is_granted: bool, kinds: &'static [&'static str]| {
            locks.iter().filter(move |other| {
                other.granted == is_granted
                    && other.thread != waiting.thread
                    && other.object == waiting.object
                    && kinds.contains(&other.kind.as_str())
            })
        };
        let mut others: Vec<&Lock> = of(true, granted).collect();
        if others.is_empty() {
            others = of(false, pending).collect();
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

fn wait(waiting: &Lock, other: &Lock) -> Wait {
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

type Kinds = &'static [&'static str];

/// For a requested kind of lock: the granted kinds and the pending kinds that are in its way.
type Rules = &'static [(&'static str, Kinds, Kinds)];

fn in_the_way(object: &str, kind: &str) -> [Kinds; 2] {
    let rules = match object {
        "SCHEMA" | "GLOBAL" | "COMMIT" | "TABLESPACE" | "BACKUP LOCK" | "ACL CACHE" | "RESOURCE_GROUPS" => {
            SCOPE
        }
        "BACKUP" => BACKUP,
        _ => OBJECT,
    };
    rules
        .iter()
        .find(|(asked, ..)| *asked == kind)
        .map_or([&[], &[]], |(_, granted, pending)| [*granted, *pending])
}

/// Rules for locks on a table, a routine, or a name. Only MySQL has SHARED_WRITE_LOW_PRIO.
const OBJECT: Rules = &[
    ("SHARED", &["EXCLUSIVE"], &["EXCLUSIVE"]),
    ("SHARED_HIGH_PRIO", &["EXCLUSIVE"], &[]),
    ("SHARED_READ", &["SHARED_NO_READ_WRITE", "EXCLUSIVE"], &["SHARED_NO_READ_WRITE", "EXCLUSIVE"]),
    (
        "SHARED_WRITE",
        &["SHARED_READ_ONLY", "SHARED_NO_WRITE", "SHARED_NO_READ_WRITE", "EXCLUSIVE"],
        &["SHARED_NO_WRITE", "SHARED_NO_READ_WRITE", "EXCLUSIVE"],
    ),
    (
        "SHARED_WRITE_LOW_PRIO",
        &["SHARED_READ_ONLY", "SHARED_NO_WRITE", "SHARED_NO_READ_WRITE", "EXCLUSIVE"],
        &["SHARED_READ_ONLY", "SHARED_NO_WRITE", "SHARED_NO_READ_WRITE", "EXCLUSIVE"],
    ),
    (
        "SHARED_UPGRADABLE",
        &["SHARED_UPGRADABLE", "SHARED_NO_WRITE", "SHARED_NO_READ_WRITE", "EXCLUSIVE"],
        &["EXCLUSIVE"],
    ),
    (
        "SHARED_READ_ONLY",
        &["SHARED_WRITE", "SHARED_WRITE_LOW_PRIO", "SHARED_NO_READ_WRITE", "EXCLUSIVE"],
        &["SHARED_WRITE", "SHARED_NO_READ_WRITE", "EXCLUSIVE"],
    ),
    (
        "SHARED_NO_WRITE",
        &[
            "SHARED_WRITE",
            "SHARED_WRITE_LOW_PRIO",
            "SHARED_UPGRADABLE",
            "SHARED_NO_WRITE",
            "SHARED_NO_READ_WRITE",
            "EXCLUSIVE",
        ],
        &["EXCLUSIVE"],
    ),
    (
        "SHARED_NO_READ_WRITE",
        &[
            "SHARED_READ",
            "SHARED_WRITE",
            "SHARED_WRITE_LOW_PRIO",
            "SHARED_UPGRADABLE",
            "SHARED_READ_ONLY",
            "SHARED_NO_WRITE",
            "SHARED_NO_READ_WRITE",
            "EXCLUSIVE",
        ],
        &["EXCLUSIVE"],
    ),
    (
        "EXCLUSIVE",
        &[
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
        ],
        &[],
    ),
];

/// Rules for locks on a schema, or on everything.
const SCOPE: Rules = &[
    ("INTENTION_EXCLUSIVE", &["SHARED", "EXCLUSIVE"], &["SHARED", "EXCLUSIVE"]),
    ("SHARED", &["INTENTION_EXCLUSIVE", "EXCLUSIVE"], &["EXCLUSIVE"]),
    ("EXCLUSIVE", &["INTENTION_EXCLUSIVE", "SHARED", "EXCLUSIVE"], &[]),
];

const FTWRL: Kinds = &["BACKUP_FTWRL1", "BACKUP_FTWRL2"];
const BEFORE_DML: Kinds = &[
    "BACKUP_FLUSH",
    "BACKUP_WAIT_FLUSH",
    "BACKUP_WAIT_DDL",
    "BACKUP_WAIT_COMMIT",
    "BACKUP_FTWRL1",
    "BACKUP_FTWRL2",
];
const BEFORE_SYS_DML: Kinds = &["BACKUP_WAIT_COMMIT", "BACKUP_FTWRL1", "BACKUP_FTWRL2"];
const BEFORE_DDL: Kinds =
    &["BACKUP_WAIT_DDL", "BACKUP_WAIT_COMMIT", "BACKUP_FTWRL1", "BACKUP_FTWRL2", "BACKUP_BLOCK_DDL"];
const BEFORE_COMMIT: Kinds = &["BACKUP_WAIT_COMMIT", "BACKUP_FTWRL2"];

/// Rules for locks of MariaDB's backups and of FLUSH TABLES WITH READ LOCK, and for those that wait for them.
const BACKUP: Rules = &[
    (
        "BACKUP_START",
        &[
            "BACKUP_START",
            "BACKUP_FLUSH",
            "BACKUP_WAIT_FLUSH",
            "BACKUP_WAIT_DDL",
            "BACKUP_WAIT_COMMIT",
            "BACKUP_BLOCK_DDL",
        ],
        &["BACKUP_FLUSH", "BACKUP_WAIT_FLUSH", "BACKUP_WAIT_DDL", "BACKUP_WAIT_COMMIT", "BACKUP_BLOCK_DDL"],
    ),
    ("BACKUP_FLUSH", &["BACKUP_START"], &[]),
    ("BACKUP_WAIT_FLUSH", &["BACKUP_START", "BACKUP_DML"], &[]),
    ("BACKUP_WAIT_DDL", &["BACKUP_START", "BACKUP_DML", "BACKUP_DDL"], &[]),
    (
        "BACKUP_WAIT_COMMIT",
        &["BACKUP_START", "BACKUP_DML", "BACKUP_SYS_DML", "BACKUP_DDL", "BACKUP_COMMIT"],
        &[],
    ),
    (
        "BACKUP_FTWRL1",
        &["BACKUP_DML", "BACKUP_TRANS_DML", "BACKUP_SYS_DML", "BACKUP_DDL", "BACKUP_ALTER_COPY"],
        &[],
    ),
    (
        "BACKUP_FTWRL2",
        &[
            "BACKUP_DML",
            "BACKUP_TRANS_DML",
            "BACKUP_SYS_DML",
            "BACKUP_DDL",
            "BACKUP_ALTER_COPY",
            "BACKUP_COMMIT",
        ],
        &[],
    ),
    ("BACKUP_DML", BEFORE_DML, BEFORE_DML),
    ("BACKUP_TRANS_DML", FTWRL, FTWRL),
    ("BACKUP_SYS_DML", BEFORE_SYS_DML, BEFORE_SYS_DML),
    ("BACKUP_DDL", BEFORE_DDL, BEFORE_DDL),
    (
        "BACKUP_BLOCK_DDL",
        &[
            "BACKUP_START",
            "BACKUP_FLUSH",
            "BACKUP_WAIT_FLUSH",
            "BACKUP_WAIT_DDL",
            "BACKUP_WAIT_COMMIT",
            "BACKUP_BLOCK_DDL",
            "BACKUP_DDL",
        ],
        &["BACKUP_START"],
    ),
    ("BACKUP_ALTER_COPY", FTWRL, FTWRL),
    ("BACKUP_COMMIT", BEFORE_COMMIT, BEFORE_COMMIT),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(thread: u64, kind: &str, granted: bool) -> Lock {
        let object = ["TABLE", "shop", "orders"].map(str::to_owned);
        Lock { thread, object, kind: kind.into(), granted }
    }

    fn pairs(locks: &[Lock]) -> Vec<(u64, u64)> {
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
        let granted = |object: &str, kind: &str| in_the_way(object, kind)[0];
        assert!(granted("TABLE", "SHARED_HIGH_PRIO").contains(&"EXCLUSIVE"));
        assert!(!granted("TABLE", "SHARED_NO_WRITE").contains(&"SHARED_READ"));
        assert!(!granted("SCHEMA", "INTENTION_EXCLUSIVE").contains(&"INTENTION_EXCLUSIVE"));
        assert!(granted("BACKUP", "BACKUP_DML").contains(&"BACKUP_FTWRL1"));
        assert!(granted("SCHEMA", "SHARED").contains(&"INTENTION_EXCLUSIVE"));
    }

    #[test]
    fn locks_that_exclude_each_other_do_so_whoever_was_first() {
        let all = |object: &'static str, kinds: &[&'static str]| {
            for (one, other) in kinds.iter().flat_map(|one| kinds.iter().map(move |other| (*one, *other))) {
                let [granted, pending] = in_the_way(object, one);
                // The first stages of a backup do not wait for those that wait for them.
                let both_ways = object == "BACKUP"
                    || granted.contains(&other) == in_the_way(object, other)[0].contains(&one);
                assert!(both_ways, "{one} and {other}");
                // Precedence only matters between kinds that exclude each other.
                assert!(!pending.contains(&other) || granted.contains(&other), "{one} behind {other}");
            }
        };
        for (object, rules) in [("TABLE", OBJECT), ("SCHEMA", SCOPE), ("BACKUP", BACKUP)] {
            all(object, &rules.iter().map(|(kind, ..)| *kind).collect::<Vec<_>>());
        }
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
