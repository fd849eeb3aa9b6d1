//! For whom sessions wait: asked only in a sample in which some wait for a lock.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use tare_server::sql::literal;

use super::coverage::Coverage;
use super::judge::{Blocker, Doing, Object};
use super::seen::SeenThread;
use crate::locks::innodb::{self, RowLockHolder};
use crate::locks::{Holder, INNODB, InnoDb, metadata, schema_and_table};
use crate::source::{Error, Source};

/// Most pairs of MySQL's table that are read: each waiter of a queue waits for everybody before it.
const MOST_PAIRS: usize = 20_000;
/// Most queries for the table of a lock per sample.
const MOST_TABLES: usize = 16;
/// How long an answer of InnoDB's tables serves. They keep theirs until nobody has read it for a tenth of a
/// second.
const INNODB_FRESH: Duration = Duration::from_millis(120);
/// Most holders that are remembered.
const MOST_KNOWN: usize = 10_000;

/// A thread or a connection, as the source of a wait names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Party {
    Thread(u64),
    Connection(u64),
}

/// A wait for a row lock.
#[derive(Clone, Debug, Default)]
struct RowWait {
    holder: Option<Party>,
    object: Option<Object>,
    /// Id of the requested lock, by which MySQL tells the table.
    lock: Option<String>,
}

type RowWaits = HashMap<Party, RowWait>;

/// Who waits for whom. Remembers from one sample to the next which thread runs which connection.
#[derive(Default)]
pub(super) struct Blockers {
    known: HashMap<Party, Blocker>,
    /// The last answer of InnoDB's tables.
    innodb: Option<(Instant, RowWaits)>,
    /// Whether InnoDB's tables may not be read.
    is_refused: bool,
    /// Lines for the user.
    pub(super) notes: Vec<String>,
}

impl Blockers {
    /// Completes what threads do: those that wait for row locks, and who blocks them and those that wait for
    /// metadata locks.
    pub(super) fn complete(
        &mut self,
        source: &mut Source,
        coverage: &Coverage,
        active: &mut [(&SeenThread, Doing)],
    ) -> Result<(), Error> {
        if active.iter().any(|(_, doing)| doing.may_wait_for_row(coverage)) {
            self.row_locks(source, coverage, active)?;
        }
        if coverage.metadata_locks && active.iter().any(|(_, doing)| doing.waits_for_metadata()) {
            self.metadata_locks(source, active)?;
        }
        Ok(())
    }

    fn row_locks(
        &mut self,
        source: &mut Source,
        coverage: &Coverage,
        active: &mut [(&SeenThread, Doing)],
    ) -> Result<(), Error> {
        let mut waits =
            if coverage.data_lock_waits { data_lock_waits(source)? } else { self.innodb_waits(source)? };
        let mut tables = 0;
        let mut found = vec![];
        for (at, (thread, doing)) in active.iter().enumerate() {
            let by_connection = thread.connection.and_then(|it| waits.remove(&Party::Connection(it)));
            let Some(mut wait) = waits.remove(&Party::Thread(thread.id)).or(by_connection) else { continue };
            if !doing.may_wait_for_row(coverage) {
                continue;
            }
            if let (None, Some(lock)) = (&doing.noted, &wait.lock)
                && tables < MOST_TABLES
            {
                tables += 1;
                wait.object = table_of(source, lock)?;
            }
            found.push((at, wait));
        }
        self.learn(source, active, found.iter().filter_map(|(_, wait)| wait.holder))?;
        for (at, wait) in found {
            let blocker = wait.holder.and_then(|holder| self.known.get(&holder).copied());
            let (thread, doing) = &mut active[at];
            doing.make_row_lock(wait.object, blocker.filter(|it| it.thread != thread.id));
        }
        Ok(())
    }

    /// Returns the waits that InnoDB's tables tell; none if they may not be read.
    fn innodb_waits(&mut self, source: &mut Source) -> Result<RowWaits, Error> {
        if self.is_refused {
            return Ok(RowWaits::new());
        }
        if let Some((at, waits)) = &self.innodb
            && at.elapsed() < INNODB_FRESH
        {
            return Ok(waits.clone());
        }
        match innodb_waits(source) {
            Err(error) if !error.is_passing() => {
                self.is_refused = true;
                self.notes.push(format!(
                    "waits for row locks are unknown, and count as CPU: {error}; the privilege PROCESS lets an account \
                     read InnoDB's tables"
                ));
                Ok(RowWaits::new())
            }
            waits => {
                let waits = waits?;
                self.innodb = Some((Instant::now(), waits.clone()));
                Ok(waits)
            }
        }
    }

    fn metadata_locks(
        &mut self,
        source: &mut Source,
        active: &mut [(&SeenThread, Doing)],
    ) -> Result<(), Error> {
        let rows = source.rows("metadata_locks", &metadata::COLUMNS, "")?;
        let locks: Vec<metadata::MetadataLockEntry> = rows.iter().filter_map(metadata::lock).collect();
        let mut holders = HashMap::new();
        for wait in metadata::waits(&locks) {
            if let Holder::Thread(holder) = wait.holding {
                holders.entry(wait.waiting).or_insert(Party::Thread(holder));
            }
        }
        self.learn(source, active, holders.values().copied())?;
        for (thread, doing) in active.iter_mut().filter(|(_, doing)| doing.waits_for_metadata()) {
            doing.blocker = holders.get(&thread.id).and_then(|holder| self.known.get(holder).copied());
            if doing.object.is_none() {
                let wanted = locks.iter().find(|lock| lock.thread == thread.id && !lock.granted);
                doing.object = wanted.map(object);
            }
        }
        Ok(())
    }

    /// Finds out which threads run which connections, of parties that are not known yet.
    fn learn(
        &mut self,
        source: &mut Source,
        active: &[(&SeenThread, Doing)],
        parties: impl Iterator<Item = Party>,
    ) -> Result<(), Error> {
        if self.known.len() > MOST_KNOWN {
            self.known.clear();
        }
        for (thread, _) in active {
            self.know(Blocker { thread: thread.id, connection: thread.connection });
        }
        let unknown: HashSet<Party> = parties.filter(|party| !self.known.contains_key(party)).collect();
        for (column, is_thread) in [("THREAD_ID", true), ("PROCESSLIST_ID", false)] {
            let id = |party: &Party| match *party {
                Party::Thread(id) => Some(id).filter(|_| is_thread),
                Party::Connection(id) => Some(id).filter(|_| !is_thread),
            };
            let ids: Vec<String> = unknown.iter().filter_map(id).map(|id| id.to_string()).collect();
            if ids.is_empty() {
                continue;
            }
            let filter = format!("WHERE `{column}` IN ({})", ids.join(", "));
            for row in source.rows("threads", &["THREAD_ID", "PROCESSLIST_ID"], &filter)? {
                self.know(Blocker { thread: row.count(0), connection: row.number(1) });
            }
        }
        Ok(())
    }

    fn know(&mut self, blocker: Blocker) {
        self.known.insert(Party::Thread(blocker.thread), blocker);
        if let Some(connection) = blocker.connection {
            self.known.insert(Party::Connection(connection), blocker);
        }
    }
}

/// Returns the waits for row locks of MySQL from 8 on.
fn data_lock_waits(source: &mut Source) -> Result<RowWaits, Error> {
    let columns = ["REQUESTING_THREAD_ID", "BLOCKING_THREAD_ID", "REQUESTING_ENGINE_LOCK_ID"];
    let limit = format!("LIMIT {}", MOST_PAIRS + 1);
    let pairs = source.rows("data_lock_waits", &columns, &limit)?;
    let mut waits: RowWaits = HashMap::new();
    let waiting: HashSet<u64> = pairs.iter().filter_map(|row| row.number(0)).collect();
    for row in &pairs {
        let Some(waiter) = row.number(0) else { continue };
        let wait = waits.entry(Party::Thread(waiter)).or_default();
        wait.lock = row.text(2);
        // Whoever does not wait has the lock; the others may only be before this one.
        let blocking = row.number(1);
        if wait.holder.is_none() || blocking.is_some_and(|it| !waiting.contains(&it)) {
            wait.holder = blocking.map(Party::Thread).or(wait.holder);
        }
    }
    if pairs.len() > MOST_PAIRS {
        let rows = source
            .ask("SELECT DISTINCT `REQUESTING_THREAD_ID` FROM `performance_schema`.`data_lock_waits`")?;
        for row in rows {
            waits.entry(Party::Thread(row.count(0))).or_default();
        }
    }
    Ok(waits)
}

/// Returns the table of a lock of MySQL's.
fn table_of(source: &mut Source, lock: &str) -> Result<Option<Object>, Error> {
    let columns = ["OBJECT_SCHEMA", "OBJECT_NAME", "INDEX_NAME"];
    let filter = format!("WHERE `ENGINE_LOCK_ID` = {}", literal(lock));
    let rows = source.rows("data_locks", &columns, &filter)?;
    let object = |row: &crate::source::Row| [Some("TABLE".to_owned()), row.text(0), row.text(1), row.text(2)];
    Ok(rows.first().map(object))
}

/// Returns the waits for row locks of MariaDB, and of MySQL before 8, where InnoDB knows connections.
fn innodb_waits(source: &mut Source) -> Result<RowWaits, Error> {
    let told = InnoDb::of(&source.ask(INNODB)?);
    let mut waits: RowWaits = HashMap::new();
    for transaction in told.transactions.iter().filter(|it| it.session != 0) {
        let Some(wanted) = &transaction.wanted else { continue };
        let lock = told.locks.get(wanted);
        let object = lock.and_then(|lock| {
            let (schema, table) = schema_and_table(&lock.table)?;
            Some([Some("TABLE".to_owned()), Some(schema), Some(table), lock.index.clone()])
        });
        waits.insert(Party::Connection(transaction.session), RowWait { holder: None, object, lock: None });
    }
    let is_on_gap = |id: &str| told.locks.get(id).is_some_and(|lock| lock.mode.ends_with("GAP"));
    for found in innodb::found(&told.transactions, &told.waits, is_on_gap) {
        if let (Some(wait), RowLockHolder::Session(holder)) =
            (waits.get_mut(&Party::Connection(found.waiter)), found.owner)
        {
            wait.holder.get_or_insert(Party::Connection(holder));
        }
    }
    Ok(waits)
}

fn object(lock: &metadata::MetadataLockEntry) -> Object {
    let part = |part: &String| Some(part.clone()).filter(|part| !part.is_empty());
    let [kind, schema, name] = lock.object.each_ref().map(part);
    [kind, schema, name, None]
}
