//! Who waits for whom: locks on rows as the engine tells them, and metadata locks.

use std::collections::{BTreeSet, HashMap};

use super::{Reader, one_of};
use crate::source::{Error, Kind, Row};
use crate::top::look::{Locks, Wait};

/// More pairs than anybody reads.
const MOST: usize = 500;
/// Questions for single locks in one look.
const LOOKED_UP: usize = 100;

impl Reader {
    pub(super) fn locks(&mut self, notes: &mut Vec<String>) -> Result<Locks, Error> {
        let mut waits = self.metadata_waits(notes)?;
        waits.extend(self.row_waits(notes)?);
        if waits.len() > MOST {
            waits.truncate(MOST);
            notes.push(format!("Of more than {MOST} waits for locks the first {MOST} are shown."));
        }
        let ids: BTreeSet<u64> = waits.iter().flat_map(|wait| [wait.waiting, wait.holding]).collect();
        let ids: Vec<u64> = ids.into_iter().collect();
        let threads = if ids.is_empty() { vec![] } else { self.threads(&ids, true, notes)? };
        Ok(Locks { waits, threads })
    }

    /// Nobody asks for all metadata locks where nobody waits for one.
    fn metadata_waits(&mut self, notes: &mut Vec<String>) -> Result<Vec<Wait>, Error> {
        let columns =
            ["OWNER_THREAD_ID", "OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME", "LOCK_TYPE", "LOCK_STATUS"];
        let pending = "WHERE `LOCK_STATUS` = 'PENDING'";
        if self.rows("metadata_locks", &columns, &format!("{pending} LIMIT 1"), notes)?.is_empty() {
            return Ok(vec![]);
        }
        let rows = self.rows("metadata_locks", &columns, "", notes)?;
        let locks: Vec<MetadataLock> = rows.iter().filter_map(metadata_lock).collect();
        Ok(metadata_waits(&locks))
    }

    fn row_waits(&mut self, notes: &mut Vec<String>) -> Result<Vec<Wait>, Error> {
        if !self.source.columns("data_lock_waits")?.is_empty() {
            return self.data_lock_waits(notes);
        }
        if self.source.version().is_empty() {
            notes.push(
                "Not there: waits for rows, which tare's socket does not tell. --dsn with an account that has the \
                 privilege PROCESS shows them."
                    .into(),
            );
            return Ok(vec![]);
        }
        self.innodb_waits(notes)
    }

    /// As MySQL 8 tells it, and tare in its extended shape.
    fn data_lock_waits(&mut self, notes: &mut Vec<String>) -> Result<Vec<Wait>, Error> {
        let columns = [
            "REQUESTING_THREAD_ID",
            "BLOCKING_THREAD_ID",
            "REQUESTING_ENGINE_LOCK_ID",
            "BLOCKING_ENGINE_LOCK_ID",
        ];
        let pairs = self.rows("data_lock_waits", &columns, &format!("LIMIT {}", MOST + 1), notes)?;
        let ids: BTreeSet<String> =
            pairs.iter().flat_map(|row| [row.text(2), row.text(3)]).flatten().collect();
        if ids.is_empty() {
            return Ok(vec![]);
        }
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let columns =
            ["ENGINE_LOCK_ID", "OBJECT_SCHEMA", "OBJECT_NAME", "INDEX_NAME", "LOCK_DATA", "LOCK_MODE"];
        // MySQL 9.7 finds only the first of several in the table's index: there each is asked for.
        let at_once = if self.source.kind() == Kind::MySql { 1 } else { MOST };
        let mut locks = vec![];
        for some in ids.chunks(at_once).take(LOOKED_UP) {
            locks.extend(self.rows("data_locks", &columns, &one_of("ENGINE_LOCK_ID", some), notes)?);
        }
        let object = |row: &Row| {
            let table: Vec<String> = [row.text(1), row.text(2)].into_iter().flatten().collect();
            named(&table.join("."), row.text(3), row.text(4))
        };
        let locks: HashMap<String, (String, String)> = locks
            .iter()
            .map(|row| (row.text(0).unwrap_or_default(), (object(row), row.text(5).unwrap_or_default())))
            .collect();
        Ok(pairs
            .iter()
            .filter_map(|row| {
                Some(pair(row.number(0)?, row.number(1)?, &row.text(2)?, &row.text(3)?, &locks))
            })
            .collect())
    }

    /// As InnoDB tells it in MariaDB, and in MySQL before 8; it knows connections, not threads.
    fn innodb_waits(&mut self, notes: &mut Vec<String>) -> Result<Vec<Wait>, Error> {
        let columns = ["requesting_trx_id", "blocking_trx_id", "requested_lock_id", "blocking_lock_id"];
        let pairs = self.rows(
            "information_schema.INNODB_LOCK_WAITS",
            &columns,
            &format!("LIMIT {}", MOST + 1),
            notes,
        )?;
        if pairs.is_empty() {
            return Ok(vec![]);
        }
        let columns = ["lock_id", "lock_table", "lock_index", "lock_data", "lock_mode"];
        let locks = self.rows("information_schema.INNODB_LOCKS", &columns, "", notes)?;
        let object = |row: &Row| {
            let table = row.text(1).unwrap_or_default().replace('`', "");
            named(&table, row.text(2), row.text(3))
        };
        let locks: HashMap<String, (String, String)> = locks
            .iter()
            .map(|row| (row.text(0).unwrap_or_default(), (object(row), row.text(4).unwrap_or_default())))
            .collect();
        let connections =
            self.rows("information_schema.INNODB_TRX", &["trx_id", "trx_mysql_thread_id"], "", notes)?;
        let threads = self.rows(
            "threads",
            &["PROCESSLIST_ID", "THREAD_ID"],
            "WHERE `PROCESSLIST_ID` IS NOT NULL",
            notes,
        )?;
        let threads: HashMap<u64, u64> = threads.iter().map(|row| (row.count(0), row.count(1))).collect();
        let owner: HashMap<String, u64> = connections
            .iter()
            .filter_map(|row| Some((row.text(0)?, *threads.get(&row.number(1)?)?)))
            .collect();
        let thread = |transaction: Option<String>| owner.get(&transaction?).copied();
        Ok(pairs
            .iter()
            .filter_map(|row| {
                Some(pair(thread(row.text(0))?, thread(row.text(1))?, &row.text(2)?, &row.text(3)?, &locks))
            })
            .collect())
    }
}

/// A wait for a row, from the numbers of the two locks.
fn pair(
    waiting: u64,
    holding: u64,
    wanted: &str,
    held: &str,
    locks: &HashMap<String, (String, String)>,
) -> Wait {
    // Those that nobody could ask for any more are waited for all the same.
    let unknown = (String::new(), String::new());
    let (object, mode) = locks.get(wanted).unwrap_or(&unknown);
    let held = locks.get(held).map(|(_, mode)| mode.clone()).unwrap_or_default();
    Wait { waiting, holding, object: object.clone(), wanted: mode.clone(), held }
}

fn named(table: &str, index: Option<String>, record: Option<String>) -> String {
    let mut name = table.to_owned();
    if let Some(index) = index {
        name.push_str(&format!(" {index}"));
    }
    if let Some(record) = record {
        name.push_str(&format!(" ({record})"));
    }
    name
}

/// A row of `metadata_locks`.
#[derive(Clone, Debug, PartialEq)]
struct MetadataLock {
    thread: u64,
    /// Type, schema and name.
    object: [String; 3],
    kind: String,
    granted: bool,
}

fn metadata_lock(row: &Row) -> Option<MetadataLock> {
    Some(MetadataLock {
        thread: row.number(0)?,
        object: [1, 2, 3].map(|at| row.text(at).unwrap_or_default()),
        kind: row.text(4).unwrap_or_default(),
        granted: row.text(5).as_deref() == Some("GRANTED"),
    })
}

/// Who waits for whose metadata lock: those that are held, and those that wait in front of weaker ones.
fn metadata_waits(locks: &[MetadataLock]) -> Vec<Wait> {
    let mut waits: Vec<Wait> = vec![];
    for waiting in locks.iter().filter(|lock| !lock.granted) {
        let in_the_way = |other: &&MetadataLock| {
            other.thread != waiting.thread
                && other.object == waiting.object
                && conflict(&waiting.kind, &other.kind)
                && (other.granted || goes_first(&other.kind, &waiting.kind))
        };
        for other in locks.iter().filter(in_the_way) {
            let name: Vec<&str> =
                waiting.object[1..].iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
            let object = format!("{} {}", waiting.object[0].to_lowercase(), name.join("."));
            let held = if other.granted { other.kind.clone() } else { format!("{}, waiting", other.kind) };
            let wait = Wait {
                waiting: waiting.thread,
                holding: other.thread,
                object: object.trim_end().to_owned(),
                wanted: waiting.kind.clone(),
                held,
            };
            let known = |it: &Wait| {
                (it.waiting, it.holding, &it.object) == (wait.waiting, wait.holding, &wait.object)
            };
            if !waits.iter().any(known) {
                waits.push(wait);
            }
        }
    }
    waits
}

/// How strong a lock on an object is: it conflicts with those whose work it forbids.
fn strength(kind: &str) -> Option<u8> {
    let order = [
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
    order.iter().position(|it| *it == kind).and_then(|at| u8::try_from(at).ok())
}

/// Whether two locks on one object cannot be held by two threads at once.
fn conflict(one: &str, other: &str) -> bool {
    let (Some(a), Some(b)) = (strength(one), strength(other)) else { return scoped_conflict(one, other) };
    let (weak, strong) = if a <= b { (one, other) } else { (other, one) };
    let writes = |kind: &str| matches!(kind, "SHARED_WRITE" | "SHARED_WRITE_LOW_PRIO");
    match strong {
        "EXCLUSIVE" => true,
        "SHARED_NO_READ_WRITE" => !matches!(weak, "SHARED" | "SHARED_HIGH_PRIO"),
        "SHARED_NO_WRITE" => writes(weak) || matches!(weak, "SHARED_UPGRADABLE" | "SHARED_NO_WRITE"),
        "SHARED_READ_ONLY" => writes(weak),
        "SHARED_UPGRADABLE" => weak == "SHARED_UPGRADABLE",
        _ => false,
    }
}

/// Likewise of locks on a schema, on everything, or of a backup: those that many hold at once do not exclude each other.
fn scoped_conflict(one: &str, other: &str) -> bool {
    let many = |kind: &str| {
        matches!(
            kind,
            "INTENTION_EXCLUSIVE"
                | "BACKUP_DML"
                | "BACKUP_TRANS_DML"
                | "BACKUP_SYS_DML"
                | "BACKUP_DDL"
                | "BACKUP_ALTER_COPY"
                | "BACKUP_COMMIT"
        )
    };
    !(many(one) && many(other) || one == "SHARED" && other == "SHARED")
}

/// Whether a lock that waits is given before another one that waits.
fn goes_first(one: &str, other: &str) -> bool {
    match (strength(one), strength(other)) {
        (Some(a), Some(b)) => a > b && a >= strength("SHARED_NO_WRITE").unwrap_or(0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(thread: u64, kind: &str, granted: bool) -> MetadataLock {
        let object = ["TABLE", "shop", "orders"].map(str::to_owned);
        MetadataLock { thread, object, kind: kind.into(), granted }
    }

    fn pairs(locks: &[MetadataLock]) -> Vec<(u64, u64)> {
        metadata_waits(locks).iter().map(|wait| (wait.waiting, wait.holding)).collect()
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
        let waits = metadata_waits(&locks);
        assert_eq!(waits[0].object, "table shop.orders");
        assert_eq!(waits[1].held, "EXCLUSIVE, waiting");
    }

    #[test]
    fn only_locks_that_exclude_each_other_are_in_the_way() {
        let locks =
            [lock(1, "SHARED_READ", true), lock(2, "SHARED_WRITE", true), lock(3, "SHARED_READ_ONLY", false)];
        assert_eq!(pairs(&locks), [(3, 2)], "LOCK TABLES … READ waits for the one that writes");
        assert!(conflict("EXCLUSIVE", "SHARED_HIGH_PRIO") && !conflict("SHARED_NO_WRITE", "SHARED_READ"));
        assert!(!conflict("INTENTION_EXCLUSIVE", "INTENTION_EXCLUSIVE"));
        assert!(conflict("BACKUP_FTWRL1", "BACKUP_DML") && conflict("SHARED", "INTENTION_EXCLUSIVE"));
        assert!(conflict("EXCLUSIVE", "INTENTION_EXCLUSIVE"), "on a schema");
    }

    #[test]
    fn another_object_is_not_in_the_way() {
        let mut other = lock(1, "SHARED_READ", true);
        other.object[2] = "customers".into();
        assert_eq!(pairs(&[other, lock(2, "EXCLUSIVE", false)]), []);
    }
}
