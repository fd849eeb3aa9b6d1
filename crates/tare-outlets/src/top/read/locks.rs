//! Waits for locks: data locks as the storage engine reports them, and metadata locks.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{Reader, noted, one_of, own_socket};
use crate::locks::innodb::{InnodbLockWait, RowLockHolder};
use crate::locks::{INNODB, InnoDb, LockDescription, innodb, metadata, named};
use crate::source::{Address, Error, Kind, Row, Source};
use crate::top::look::{Holder, Locks, Wait};

/// Most pairs that are read.
const MOST: usize = 500;
/// Most queries for single locks per sample.
const LOOKED_UP: usize = 100;

impl Reader {
    pub(super) fn locks(&mut self, notes: &mut Vec<String>) -> Result<Locks, Error> {
        let mut waits = self.metadata_waits(notes)?;
        let before = notes.len();
        waits.extend(self.row_waits(notes)?);
        let partial = notes.len() > before;
        if waits.len() > MOST {
            waits.truncate(MOST);
            notes.push(format!("Of more than {MOST} waits for locks the first {MOST} are shown."));
        }
        let holder = |wait: &Wait| match wait.holding {
            Holder::Thread(thread) => Some(thread),
            Holder::Nobody | Holder::Unknown => None,
        };
        let ids: BTreeSet<u64> =
            waits.iter().flat_map(|wait| [Some(wait.waiting), holder(wait)]).flatten().collect();
        let ids: Vec<u64> = ids.into_iter().collect();
        let threads = if ids.is_empty() { vec![] } else { self.threads(&ids, true, notes)? };
        Ok(Locks { waits, threads, partial })
    }

    /// Returns the waits for metadata locks; reads all locks only if one is waited for.
    fn metadata_waits(&mut self, notes: &mut Vec<String>) -> Result<Vec<Wait>, Error> {
        let pending = "WHERE `LOCK_STATUS` = 'PENDING'";
        let columns = &metadata::COLUMNS;
        if self.rows("metadata_locks", columns, &format!("{pending} LIMIT 1"), notes)?.is_empty() {
            return Ok(vec![]);
        }
        let rows = self.rows("metadata_locks", columns, "", notes)?;
        let locks: Vec<metadata::MetadataLockEntry> = rows.iter().filter_map(metadata::lock).collect();
        Ok(metadata::waits(&locks))
    }

    fn row_waits(&mut self, notes: &mut Vec<String>) -> Result<Vec<Wait>, Error> {
        if self.source.version().is_empty() && self.with_sql().is_none() {
            notes.push(
                "Waits for rows are not among them: they are InnoDB's, which tare's socket does not ask, and the server's \
                 own socket does not let this user in. An account with the privilege PROCESS sees them: --dsn \
                 'mysql://root@localhost?socket=/run/mysqld/mysqld.sock'"
                    .into(),
            );
            return Ok(vec![]);
        }
        if self.has_data_lock_waits()? {
            return self.data_lock_waits(notes);
        }
        self.innodb_waits(notes)
    }

    fn has_data_lock_waits(&mut self) -> Result<bool, Error> {
        let Some(source) = self.with_sql() else { return Ok(false) };
        Ok(source.kind() == Kind::MySql && !source.columns("data_lock_waits")?.is_empty())
    }

    /// Returns rows of a table of the server's own: over tare's socket through its own socket. Notes what
    /// cannot be read.
    fn own_rows(
        &mut self,
        table: &str,
        columns: &[&str],
        filter: &str,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Row>, Error> {
        let Some(source) = self.with_sql() else { return Ok(vec![]) };
        noted(table, source.rows(table, columns, filter), notes)
    }

    /// Returns the waits for data locks in MySQL 8: for each waiter the holders of the lock, or those that
    /// wait ahead if nobody holds it.
    fn data_lock_waits(&mut self, notes: &mut Vec<String>) -> Result<Vec<Wait>, Error> {
        let columns = [
            "REQUESTING_THREAD_ID",
            "BLOCKING_THREAD_ID",
            "REQUESTING_ENGINE_LOCK_ID",
            "BLOCKING_ENGINE_LOCK_ID",
        ];
        let pairs = self.own_rows("data_lock_waits", &columns, &format!("LIMIT {}", MOST + 1), notes)?;
        let ids: BTreeSet<String> =
            pairs.iter().flat_map(|row| [row.text(2), row.text(3)]).flatten().collect();
        if ids.is_empty() {
            return Ok(vec![]);
        }
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let columns = [
            "ENGINE_LOCK_ID",
            "OBJECT_SCHEMA",
            "OBJECT_NAME",
            "INDEX_NAME",
            "LOCK_DATA",
            "LOCK_MODE",
            "LOCK_STATUS",
        ];
        let mut locks = vec![];
        // MySQL 9.7 finds only the first of several in the table's index, so each is queried.
        for id in ids.chunks(1).take(LOOKED_UP) {
            locks.extend(self.own_rows("data_locks", &columns, &one_of("ENGINE_LOCK_ID", id), notes)?);
        }
        let locks: HashMap<String, LockDescription> =
            locks.iter().map(|row| (row.text(0).unwrap_or_default(), lock(row))).collect();
        let is_granted = |row: &Row| row.text(3).and_then(|id| locks.get(&id)).is_some_and(|it| it.granted);
        let held: HashSet<u64> =
            pairs.iter().filter(|row| is_granted(row)).filter_map(|row| row.number(0)).collect();
        let is_held = |row: &&Row| is_granted(row) || row.number(0).is_some_and(|it| !held.contains(&it));
        Ok(pairs
            .iter()
            .filter(is_held)
            .filter_map(|row| {
                let holder = row.number(1).map_or(Holder::Nobody, Holder::Thread);
                Some(pair(row.number(0)?, holder, &row.text(2)?, &row.text(3)?, &locks))
            })
            .collect())
    }

    /// Returns the waits for data locks in MariaDB, and in MySQL before 8, where InnoDB knows connections,
    /// not threads.
    fn innodb_waits(&mut self, notes: &mut Vec<String>) -> Result<Vec<Wait>, Error> {
        let Some(told) = self.told(notes)? else { return Ok(vec![]) };
        let is_on_gap = |id: &str| told.locks.get(id).is_some_and(|lock| lock.mode.ends_with("GAP"));
        let found = innodb::found(&told.transactions, &told.waits, is_on_gap);
        if found.is_empty() {
            return Ok(vec![]);
        }
        let columns = ["PROCESSLIST_ID", "THREAD_ID"];
        let threads = self.rows("threads", &columns, "WHERE `PROCESSLIST_ID` IS NOT NULL", notes)?;
        let threads: HashMap<u64, u64> = threads.iter().map(|row| (row.count(0), row.count(1))).collect();
        let wait = |it: &InnodbLockWait| {
            let holder = match it.owner {
                RowLockHolder::Session(session) => {
                    threads.get(&session).map_or(Holder::Unknown, |it| Holder::Thread(*it))
                }
                RowLockHolder::Nobody => Holder::Nobody,
                RowLockHolder::Unknown => Holder::Unknown,
            };
            let mut wait = pair(*threads.get(&it.waiter)?, holder, &it.wanted, &it.held, &told.locks);
            match (it.in_front, it.wants_more) {
                (true, _) => wait.held.push_str(", waiting"),
                (false, true) => wait.held.clear(),
                (false, false) => {}
            }
            Some(wait)
        };
        Ok(found.iter().filter_map(wait).take(MOST + 1).collect())
    }

    /// Returns a connection that understands the server's SQL: over tare's socket one to the server's own.
    pub(super) fn with_sql(&mut self) -> Option<&mut Source> {
        match self.source.address() {
            Address::Account(_) => Some(&mut self.source),
            Address::Socket(path) => self.own_socket.get_or_insert_with(|| own_socket::open(path)).as_mut(),
        }
    }

    /// Reads InnoDB's three tables in one statement, and so at one time; `None` if they cannot be read.
    fn told(&mut self, notes: &mut Vec<String>) -> Result<Option<InnoDb>, Error> {
        let Some(source) = self.with_sql() else { return Ok(None) };
        match source.ask(INNODB) {
            Ok(rows) => Ok(Some(InnoDb::of(&rows))),
            Err(error @ Error::Gone { .. }) => Err(error),
            Err(error) => {
                notes.push(format!("Not there: waits for rows: {error}"));
                Ok(None)
            }
        }
    }
}

/// Parses a row of `data_locks`.
fn lock(row: &Row) -> LockDescription {
    let table: Vec<String> = [row.text(1), row.text(2)].into_iter().flatten().collect();
    LockDescription {
        object: named(&table.join("."), row.text(3), row.text(4)),
        mode: row.text(5).unwrap_or_default(),
        granted: row.text(6).as_deref() == Some("GRANTED"),
        ..LockDescription::default()
    }
}

/// Makes a wait for a data lock from the ids of the two locks.
fn pair(
    waiting: u64,
    holding: Holder,
    wanted: &str,
    held: &str,
    locks: &HashMap<String, LockDescription>,
) -> Wait {
    // A wait is shown even if its locks could not be queried any more.
    let of = |id: &str| locks.get(id).cloned().unwrap_or_default();
    let wanted = of(wanted);
    Wait { waiting, holding, object: wanted.object, wanted: wanted.mode, held: of(held).mode }
}
