//! Reading of a file, a snapshot or what `tare ash` writes: its tables, and its rows of the active session
//! history.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{COLUMNS, History, RUNNING, TABLE, account};
use crate::ash::columns::{DIGESTS, STATUS, THREADS};
use crate::ash::file;
use crate::snapshot::{Error, Snapshot, SnapshotTable, TableHead, Value};

/// The parts of a file that are wanted.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The snapshot, without the rows of the active session history.
    pub snapshot: Snapshot,
    /// These rows.
    pub history: History,
}

impl Recorded {
    /// Returns a table of the snapshot, if it exists and could be read.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<&SnapshotTable> {
        self.snapshot.table(name)
    }

    /// Returns a number of `tare_status`.
    #[must_use]
    pub fn status(&self, name: &str) -> Option<u64> {
        let table = self.table(STATUS)?;
        let (names, values) = (table.place("NAME")?, table.place("VALUE")?);
        let row = table.rows.iter().find(|row| row[names].text() == Some(name))?;
        row[values].text()?.parse().ok()
    }
}

/// Reads a file: the active session history, with texts of digests, and the tables and rows that `wanted`
/// selects, as in
/// [`file::read`]: of a snapshot, or of what `tare ash` has recorded.
///
/// # Errors
/// When it cannot be read, or is invalid.
pub fn read(path: &Path, wanted: &dyn Fn(&TableHead, Option<&[Value]>) -> bool) -> Result<Recorded, Error> {
    let mut history = History::default();
    let filling = RefCell::new((history.filling(), None));
    let snapshot = file::read(path, &|head, row| match row {
        Some(row) if head.table == TABLE => {
            let (rows, places) = &mut *filling.borrow_mut();
            let places = places.get_or_insert_with(|| COLUMNS.map(|column| place(head, column)));
            rows.add(&(&places[..], row));
            false
        }
        _ if [TABLE, DIGESTS, RUNNING, STATUS, THREADS].contains(&head.table.as_str()) => true,
        row => wanted(head, row),
    })?;
    drop(filling);
    // A statement that is still in progress may have no summary yet.
    for (table, schema) in [(RUNNING, "CURRENT_SCHEMA"), (DIGESTS, "SCHEMA_NAME")] {
        for (schema, digest, text) in texts(&snapshot, table, schema) {
            history.name_digest(schema, digest, text);
        }
    }
    for (thread, account) in accounts(&snapshot) {
        history.name_thread(thread, account);
    }
    let mut recorded = Recorded { snapshot, history };
    recorded.history.processors = recorded.status("processors");
    Ok(recorded)
}

fn place(head: &TableHead, column: &str) -> Option<usize> {
    head.columns.iter().position(|it| it.name.eq_ignore_ascii_case(column))
}

/// Returns schema, digest and text of every digest that has a text in a table.
fn texts<'s>(snapshot: &'s Snapshot, table: &str, schema: &str) -> Vec<(Option<&'s str>, &'s str, &'s str)> {
    let Some(table) = snapshot.table(table) else { return vec![] };
    let [schema, digest, text] = [schema, "DIGEST", "DIGEST_TEXT"].map(|column| table.place(column));
    let of = |row: &[Value], at: Option<usize>| at.filter(|at| *at < row.len());
    table
        .rows
        .iter()
        .filter_map(|row| {
            let (digest, text) = (&row[of(row, digest)?], &row[of(row, text)?]);
            Some((of(row, schema).and_then(|at| row[at].text()), digest.text()?, text.text()?))
        })
        .collect()
}

/// Returns THREAD_ID and account of every session. A number that two lives of a server have given to
/// different accounts tells nothing.
fn accounts(snapshot: &Snapshot) -> BTreeMap<u64, String> {
    let Some(table) = snapshot.table(THREADS) else { return BTreeMap::new() };
    let places = ["THREAD_ID", "PROCESSLIST_USER", "PROCESSLIST_HOST"].map(|column| table.place(column));
    let of = |row: &Vec<Value>| {
        let [thread, user, host] = places.map(|at| row.get(at?));
        let account = account(user?.text(), host.and_then(Value::text))?;
        Some((thread?.count()?, account))
    };
    let (mut accounts, mut doubtful) = (BTreeMap::new(), BTreeSet::new());
    for (thread, account) in table.rows.iter().filter_map(of) {
        if accounts.insert(thread, account.clone()).is_some_and(|other| other != account) {
            doubtful.insert(thread);
        }
    }
    accounts.retain(|thread, _| !doubtful.contains(thread));
    accounts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ash::columns::{COLUMNS, THREAD_COLUMNS, head};
    use crate::snapshot::SnapshotHeader;
    use crate::snapshot::json_lines::SnapshotLine;

    /// The beginning of a life of a server, in a file of `tare ash`.
    fn life(started_at: &str) -> String {
        let text = |text: &str| text.to_owned();
        let snapshot = SnapshotHeader {
            format: 1,
            tare: text("0"),
            taken_at: text(started_at),
            address: text("db1"),
            provider: text("mysql"),
            version: text("9"),
            started_at: Some(text(started_at)),
            text: false,
            history: true,
        };
        let lines = [
            SnapshotLine::Header { snapshot },
            SnapshotLine::Head(head(THREADS, &THREAD_COLUMNS)),
            SnapshotLine::Head(head(TABLE, &COLUMNS)),
        ];
        lines.iter().map(|line| serde_json::to_string(line).expect("JSON") + "\n").collect()
    }

    fn holder(thread: u64, user: &str, host: &str) -> String {
        let row =
            serde_json::json!({"THREAD_ID": thread, "PROCESSLIST_USER": user, "PROCESSLIST_HOST": host});
        serde_json::json!({"table": THREADS, "row": row}).to_string() + "\n"
    }

    fn waiter(holder: u64) -> String {
        let row = serde_json::json!({"SAMPLE_TIME": "2026-01-02 03:00:00.000000", "USECS_PER_ROW": 1_000_000,
            "THREAD_ID": 70 + holder, "BLOCKING_THREAD_ID": holder});
        serde_json::json!({"table": TABLE, "row": row}).to_string() + "\n"
    }

    #[test]
    fn a_thread_that_two_lives_of_a_server_have_has_the_account_of_neither() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ash");
        let parts = [
            life("2026-01-02T00:00:00Z"),
            [1, 2, 3].map(|thread| holder(thread, "app", "h")).concat(),
            [1, 2, 3].map(waiter).concat(),
            life("2026-01-03T00:00:00Z"),
            [holder(1, "app", "h"), holder(2, "batch", "h"), holder(3, "app", "i")].concat(),
        ];
        std::fs::write(&path, parts.concat()).expect("written");
        let history = read(&path, &|_, _| false).expect("a history").history;
        let blockers = history.sums(history.whole().expect("rows")).blockers;
        let accounts: Vec<_> = blockers.iter().map(|it| (it.thread, it.account.as_deref())).collect();
        assert_eq!(accounts, [(1, Some("app@h")), (2, None), (3, None)]);
    }
}
