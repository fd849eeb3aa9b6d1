//! The one query of a sample, and the threads that it returns.

use std::collections::HashMap;

use tare_engine::snapshot::Kind;

use super::coverage::Coverage;
use crate::source::Row;

/// Longest text of a digest.
pub(super) const LONGEST_TEXT: u32 = 4096;
/// Columns of each part: which part it is, three numbers, six texts. Texts are bytes because the parts'
/// columns have different character sets, all of which are UTF-8.
const MOMENT: &str = "SELECT 'n', CONNECTION_ID(), 0, 0, CAST(NOW(6) AS BINARY), CAST(NULL AS BINARY), \
     CAST(NULL AS BINARY), CAST(NULL AS BINARY), CAST(NULL AS BINARY), CAST(NULL AS BINARY)";
const WAITS: &str = "SELECT 'w', `THREAD_ID`, `EVENT_ID`, `TIMER_WAIT`, CAST(`EVENT_NAME` AS BINARY), \
     CAST(`OPERATION` AS BINARY), CAST(`OBJECT_TYPE` AS BINARY), CAST(`OBJECT_SCHEMA` AS BINARY), \
     CAST(`OBJECT_NAME` AS BINARY), CAST(`INDEX_NAME` AS BINARY) \
     FROM `performance_schema`.`events_waits_current` WHERE `END_EVENT_ID` IS NULL AND `EVENT_NAME` <> 'idle'";
const THREADS: &str = "SELECT 't', `THREAD_ID`, `PROCESSLIST_ID`, NULL, CAST(`NAME` AS BINARY), \
     CAST(`PROCESSLIST_USER` AS BINARY), CAST(`PROCESSLIST_HOST` AS BINARY), CAST(`PROCESSLIST_DB` AS BINARY), \
     CAST(`PROCESSLIST_COMMAND` AS BINARY), CAST(`PROCESSLIST_STATE` AS BINARY) \
     FROM `performance_schema`.`threads` WHERE `PROCESSLIST_ID` IS NULL OR `PROCESSLIST_COMMAND` <> 'Sleep'";
const STAGES: &str = "SELECT 'g', `THREAD_ID`, `EVENT_ID`, NULL, CAST(`EVENT_NAME` AS BINARY), NULL, NULL, NULL, NULL, NULL \
     FROM `performance_schema`.`events_stages_current` WHERE `END_EVENT_ID` IS NULL";
const TRANSACTIONS: &str = "SELECT 'x', `THREAD_ID`, `TRX_ID`, `TIMER_WAIT`, NULL, NULL, NULL, NULL, NULL, NULL \
     FROM `performance_schema`.`events_transactions_current` WHERE `STATE` = 'ACTIVE' AND `END_EVENT_ID` IS NULL";

/// Returns the query. It reads each table once, and only what is in progress: an event has ended if it has an
/// END_EVENT_ID.
pub(super) fn query(coverage: &Coverage) -> String {
    let shape = coverage.shape.as_deref().unwrap_or("NULL");
    let statements = format!(
        "SELECT 's', `THREAD_ID`, `EVENT_ID`, `TIMER_WAIT`, CAST(`CURRENT_SCHEMA` AS BINARY), CAST(`DIGEST` AS BINARY), \
         CAST(LEFT(`DIGEST_TEXT`, {LONGEST_TEXT}) AS BINARY), {shape}, NULL, NULL \
         FROM `performance_schema`.`events_statements_current` WHERE `END_EVENT_ID` IS NULL"
    );
    let parts = [
        (true, MOMENT),
        (coverage.waits, WAITS),
        (true, THREADS),
        (coverage.statements, &statements),
        (coverage.stages, STAGES),
        (coverage.transactions, TRANSACTIONS),
    ];
    let parts: Vec<&str> =
        parts.into_iter().filter(|(is_there, _)| *is_there).map(|(_, part)| part).collect();
    parts.join(" UNION ALL ")
}

/// A thread, as the query saw it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SeenThread {
    pub(super) id: u64,
    pub(super) connection: Option<u64>,
    pub(super) name: String,
    pub(super) user: Option<String>,
    pub(super) host: Option<String>,
    pub(super) schema: Option<String>,
    pub(super) command: String,
    pub(super) state: Option<String>,
    /// Statements in progress, the innermost last.
    pub(super) statements: Vec<SeenStatement>,
    /// Full name of the stage in progress.
    pub(super) stage: Option<String>,
    /// Waits in progress, the innermost last.
    pub(super) waits: Vec<SeenWait>,
    pub(super) transaction: Option<SeenTransaction>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SeenStatement {
    pub(super) event_id: u64,
    /// Microseconds; `None` if it is not timed. So are the other ages.
    pub(super) age: Option<u64>,
    pub(super) schema: Option<String>,
    pub(super) digest: Option<String>,
    pub(super) digest_text: Option<String>,
    /// The shape of the text, where the server tells no digest yet.
    pub(super) shape: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SeenWait {
    pub(super) event_id: u64,
    pub(super) age: Option<u64>,
    pub(super) instrument: String,
    pub(super) operation: Option<String>,
    /// Type, schema, name and index.
    pub(super) object: [Option<String>; 4],
}

impl SeenWait {
    /// Returns the instrument's kind; `None`: one that is not known.
    pub(super) fn kind(&self) -> Option<Kind> {
        Kind::of_wait(&self.instrument)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SeenTransaction {
    pub(super) id: Option<u64>,
    pub(super) age: Option<u64>,
}

/// The answer to the query.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// Time of the sample by the server's clock, in UTC.
    pub(super) time: String,
    /// Threads that are no sleeping sessions, without the one that was asked.
    pub(super) threads: Vec<SeenThread>,
}

impl Seen {
    pub(super) fn of(rows: &[Row]) -> Seen {
        let (mut seen, mut own) = (Seen::default(), None);
        let mut waits: HashMap<u64, Vec<SeenWait>> = HashMap::new();
        let mut statements: HashMap<u64, Vec<SeenStatement>> = HashMap::new();
        let mut stages: HashMap<u64, (u64, String)> = HashMap::new();
        let mut transactions: HashMap<u64, SeenTransaction> = HashMap::new();
        for row in rows {
            let (thread, text) = (row.count(1), |at| row.text(at));
            match row.str(0).as_deref() {
                Some("n") => {
                    own = row.number(1);
                    seen.time = text(4).unwrap_or_default();
                }
                Some("w") => waits.entry(thread).or_default().push(SeenWait {
                    event_id: row.count(2),
                    age: age(row),
                    instrument: text(4).unwrap_or_default(),
                    operation: text(5),
                    object: [6, 7, 8, 9].map(text),
                }),
                Some("t") => seen.threads.push(SeenThread {
                    id: thread,
                    connection: row.number(2),
                    name: text(4).unwrap_or_default(),
                    user: text(5),
                    host: text(6),
                    schema: text(7),
                    command: text(8).unwrap_or_default(),
                    state: text(9).filter(|state| !state.is_empty()),
                    ..SeenThread::default()
                }),
                Some("s") => statements.entry(thread).or_default().push(SeenStatement {
                    event_id: row.count(2),
                    age: age(row),
                    schema: text(4),
                    digest: text(5),
                    digest_text: text(6),
                    shape: text(7),
                }),
                Some("g") => {
                    let stage = (row.count(2), text(4).unwrap_or_default());
                    let known = stages.entry(thread).or_default();
                    if stage >= *known {
                        *known = stage;
                    }
                }
                _ => {
                    transactions.insert(thread, SeenTransaction { id: row.number(2), age: age(row) });
                }
            }
        }
        seen.threads.retain(|thread| thread.connection.is_none() || thread.connection != own);
        for thread in &mut seen.threads {
            thread.waits = waits.remove(&thread.id).unwrap_or_default();
            thread.waits.sort_by_key(|wait| wait.event_id);
            thread.statements = statements.remove(&thread.id).unwrap_or_default();
            thread.statements.sort_by_key(|statement| statement.event_id);
            thread.stage = stages.remove(&thread.id).map(|(_, stage)| stage);
            thread.transaction = transactions.remove(&thread.id);
        }
        seen
    }
}

/// Returns the third number, picoseconds, in microseconds.
fn age(row: &Row) -> Option<u64> {
    row.number(3).map(|ps| ps / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(texts: [&str; 10]) -> Row {
        Row::of(&texts.map(|text| Some(text).filter(|text| *text != "-")))
    }

    #[test]
    fn what_belongs_to_a_thread_is_found_in_any_order() {
        let rows = [
            row(["n", "9", "0", "0", "2026-11-30 10:42:00.000001", "-", "-", "-", "-", "-"]),
            row(["w", "5", "12", "-", "wait/synch/cond/sql/X", "wait", "-", "-", "-", "-"]),
            row([
                "w",
                "5",
                "11",
                "3000000",
                "wait/lock/metadata/sql/mdl",
                "metadata lock",
                "TABLE",
                "s",
                "t",
                "-",
            ]),
            row(["t", "5", "8", "-", "thread/sql/one_connection", "ann", "here", "s", "Query", "x"]),
            row(["t", "6", "9", "-", "thread/sql/one_connection", "own", "here", "-", "Query", ""]),
            row(["t", "1", "-", "-", "thread/sql/main", "-", "-", "-", "-", "-"]),
            row(["s", "5", "4", "7000001", "s", "d1", "SELECT ?", "-", "-", "-"]),
            row(["s", "5", "3", "9000000", "s", "d0", "CALL `p` ( )", "-", "-", "-"]),
            row(["s", "77", "3", "9000000", "s", "d0", "of a thread that has gone", "-", "-", "-"]),
            row(["g", "5", "10", "-", "stage/sql/x", "-", "-", "-", "-", "-"]),
            row(["x", "5", "-", "20000000", "-", "-", "-", "-", "-", "-"]),
        ];
        let seen = Seen::of(&rows);
        assert_eq!(seen.time, "2026-11-30 10:42:00.000001");
        assert_eq!(seen.threads.iter().map(|thread| thread.id).collect::<Vec<_>>(), [5, 1], "not its own");
        let thread = &seen.threads[0];
        let statements: Vec<_> = thread.statements.iter().map(|it| (it.event_id, it.age)).collect();
        assert_eq!(statements, [(3, Some(9)), (4, Some(7))]);
        assert_eq!(
            thread.waits.iter().map(|it| (it.event_id, it.age)).collect::<Vec<_>>(),
            [(11, Some(3)), (12, None)]
        );
        assert_eq!(thread.stage.as_deref(), Some("stage/sql/x"));
        assert_eq!(thread.transaction, Some(SeenTransaction { id: None, age: Some(20) }));
        assert_eq!((seen.threads[1].connection, &seen.threads[1].state), (None, &None));
    }

    #[test]
    fn only_what_is_collected_is_asked_for() {
        let nothing = query(&Coverage::default());
        assert!(nothing.contains("`threads`") && !nothing.contains("_current"), "{nothing}");
        let all = query(&Coverage {
            waits: true,
            statements: true,
            stages: true,
            transactions: true,
            ..Coverage::default()
        });
        let running = all.matches("`END_EVENT_ID` IS NULL").count();
        assert_eq!(running, 4, "an event with an END_EVENT_ID has ended");
        assert!(!all.contains("SQL_TEXT") && !all.contains("PROCESSLIST_INFO"), "no text of a statement");
        let shape = super::super::shape::of_text(1024);
        let shaped = query(&Coverage { statements: true, shape: Some(shape.clone()), ..Coverage::default() });
        assert!(!shaped.replace(&shape, "").contains("SQL_TEXT"), "{shaped}");
    }
}
