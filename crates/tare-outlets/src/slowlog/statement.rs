//! A statement as the stream has it.

use crate::Row;

/// The columns asked for, in the order of their positions below.
pub(super) const COLUMNS: [&str; 36] = [
    "THREAD_ID",
    "EVENT_NAME",
    "TIMER_WAIT",
    "LOCK_TIME",
    "SQL_TEXT",
    "DIGEST",
    "DIGEST_TEXT",
    "CURRENT_SCHEMA",
    "OBJECT_TYPE",
    "OBJECT_SCHEMA",
    "OBJECT_NAME",
    "MYSQL_ERRNO",
    "MESSAGE_TEXT",
    "ERRORS",
    "WARNINGS",
    "ROWS_AFFECTED",
    "ROWS_SENT",
    "ROWS_EXAMINED",
    "CREATED_TMP_DISK_TABLES",
    "CREATED_TMP_TABLES",
    "SELECT_FULL_JOIN",
    "SELECT_SCAN",
    "SORT_MERGE_PASSES",
    "SORT_RANGE",
    "SORT_ROWS",
    "SORT_SCAN",
    "NO_INDEX_USED",
    "NESTING_EVENT_LEVEL",
    "PROCESSLIST_ID",
    "PROCESSLIST_USER",
    "PROCESSLIST_HOST",
    "ENDED",
    "LOST",
    "EVENTS",
    "MORE",
    "POSITION",
];
/// Of the last row of an answer.
pub(super) const LOST: usize = 32;
pub(super) const EVENTS: usize = 33;
pub(super) const MORE: usize = 34;
pub(super) const POSITION: usize = 35;

/// A statement that has ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Statement {
    pub(super) thread_id: u64,
    pub(super) event_name: String,
    /// `None`: it was not timed.
    pub(super) time_ps: Option<u64>,
    pub(super) lock_ps: u64,
    pub(super) sql: Option<String>,
    pub(super) digest: Option<String>,
    pub(super) digest_text: Option<String>,
    pub(super) schema: Option<String>,
    /// The stored program it belongs to: its type, its schema and name.
    pub(super) program: Option<(String, String)>,
    pub(super) errno: u64,
    pub(super) message: Option<String>,
    pub(super) errors: u64,
    pub(super) warnings: u64,
    pub(super) rows_affected: u64,
    pub(super) rows_sent: u64,
    pub(super) rows_examined: u64,
    pub(super) tmp_disk_tables: u64,
    pub(super) tmp_tables: u64,
    pub(super) full_join: u64,
    pub(super) full_scan: u64,
    pub(super) merge_passes: u64,
    pub(super) sorts: u64,
    pub(super) no_index_used: u64,
    pub(super) level: u64,
    pub(super) connection_id: Option<u64>,
    pub(super) user: Option<String>,
    pub(super) host: Option<String>,
    /// When it ended, in microseconds since 1970.
    pub(super) ended_us: u64,
}

impl Statement {
    /// The statement of a row with [`COLUMNS`].
    pub(super) fn read(row: &Row) -> Statement {
        let program = row.text(8).map(|kind| {
            let [schema, name] = [9, 10].map(|at| row.text(at).unwrap_or_default());
            (kind, format!("{schema}.{name}"))
        });
        Statement {
            thread_id: row.count(0),
            event_name: row.text(1).unwrap_or_default(),
            time_ps: row.number(2),
            lock_ps: row.count(3),
            sql: row.text(4),
            digest: row.text(5),
            digest_text: row.text(6),
            schema: row.text(7),
            program,
            errno: row.count(11),
            message: row.text(12),
            errors: row.count(13),
            warnings: row.count(14),
            rows_affected: row.count(15),
            rows_sent: row.count(16),
            rows_examined: row.count(17),
            tmp_disk_tables: row.count(18),
            tmp_tables: row.count(19),
            full_join: row.count(20),
            full_scan: row.count(21),
            merge_passes: row.count(22),
            sorts: row.count(23) + row.count(24) + row.count(25),
            no_index_used: row.count(26),
            level: row.count(27),
            connection_id: row.number(28),
            user: row.text(29),
            host: row.text(30),
            ended_us: row.count(31),
        }
    }

    /// A command without text, such as `Ping`, as the server's log names it.
    pub(super) fn command(&self) -> Option<&str> {
        self.event_name.strip_prefix("statement/com/")
    }
}
