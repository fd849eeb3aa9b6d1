//! A statement as the stream has it.

use super::form::Text;
use crate::Row;

/// The columns that are always asked for.
const COLUMNS: [&str; 33] = [
    "THREAD_ID",
    "EVENT_NAME",
    "TIMER_WAIT",
    "LOCK_TIME",
    "DIGEST",
    "CURRENT_SCHEMA",
    "OBJECT_TYPE",
    "OBJECT_SCHEMA",
    "OBJECT_NAME",
    "MYSQL_ERRNO",
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
pub(super) const LOST: usize = 29;
pub(super) const EVENTS: usize = 30;
pub(super) const MORE: usize = 31;
pub(super) const POSITION: usize = 32;

/// The columns asked for where this is written of a text: what is not written is not sent.
pub(super) fn columns(text: Text) -> Vec<&'static str> {
    let further: &[&str] = match text {
        Text::Full => &["SQL_TEXT", "MESSAGE_TEXT"],
        Text::Normalised => &["DIGEST_TEXT"],
        Text::None => &[],
    };
    [&COLUMNS[..], further].concat()
}

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
    /// The stored program it belongs to.
    pub(super) program: Option<String>,
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
    /// The statement of a row with [`columns`].
    pub(super) fn read(row: &Row, text: Text) -> Statement {
        let further = |of: Text, at: usize| if of == text { row.text(COLUMNS.len() + at) } else { None };
        let program = row.text(6).map(|_| {
            let [schema, name] = [7, 8].map(|at| row.text(at).unwrap_or_default());
            format!("{schema}.{name}")
        });
        Statement {
            event_name: row.text(1).unwrap_or_default(),
            sql: further(Text::Full, 0),
            message: further(Text::Full, 1),
            digest_text: further(Text::Normalised, 0),
            program,
            sorts: row.count(20) + row.count(21) + row.count(22),
            thread_id: row.count(0),
            time_ps: row.number(2),
            lock_ps: row.count(3),
            digest: row.text(4),
            schema: row.text(5),
            errno: row.count(9),
            errors: row.count(10),
            warnings: row.count(11),
            rows_affected: row.count(12),
            rows_sent: row.count(13),
            rows_examined: row.count(14),
            tmp_disk_tables: row.count(15),
            tmp_tables: row.count(16),
            full_join: row.count(17),
            full_scan: row.count(18),
            merge_passes: row.count(19),
            no_index_used: row.count(23),
            level: row.count(24),
            connection_id: row.number(25),
            user: row.text(26),
            host: row.text(27),
            ended_us: row.count(28),
        }
    }

    /// A command without text, such as `Ping`, as the server's log names it.
    pub(super) fn command(&self) -> Option<&str> {
        self.event_name.strip_prefix("statement/com/")
    }
}
