//! A statement of the stream.

use std::borrow::Cow;

use super::choice::Share;
use super::form::{SlowLogFormat, Text};
use crate::Row;

/// The columns that are always requested: those of an answer's last row, and of a statement.
const COLUMNS: [&str; 29] = [
    "LOST",
    "EVENTS",
    "MORE",
    "POSITION",
    "THREAD_ID",
    "EVENT_NAME",
    "TIMER_WAIT",
    "LOCK_TIME",
    "CURRENT_SCHEMA",
    "OBJECT_TYPE",
    "OBJECT_SCHEMA",
    "OBJECT_NAME",
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
    "PROCESSLIST_ID",
    "PROCESSLIST_USER",
    "PROCESSLIST_HOST",
    "ENDED",
    "ERRORS",
    "NESTING_EVENT_LEVEL",
];
pub(super) const LOST: usize = 0;
pub(super) const EVENTS: usize = 1;
pub(super) const MORE: usize = 2;
const EVENT_NAME: usize = 5;
pub(super) const POSITION: usize = 3;
pub(super) const ENDED: usize = 26;
const ERRORS: usize = 27;
const LEVEL: usize = 28;
/// The columns that only JSON needs.
const DETAILS: [&str; 3] = ["MYSQL_ERRNO", "WARNINGS", "NO_INDEX_USED"];
/// The columns of the sent text and its character set. Older servers have the text only.
pub(super) const SENT: [&str; 2] = ["SQL_BYTES", "SQL_CHARSET"];

/// The requested columns, and the positions of the optional ones.
#[derive(Debug)]
pub(super) struct RequestedColumns {
    pub(super) columns: Vec<&'static str>,
    details: Option<usize>,
    digest: Option<usize>,
    /// The sent text; these columns are the last ones.
    sql: Option<usize>,
    has_charset: bool,
    message: Option<usize>,
    digest_text: Option<usize>,
}

/// Adds columns, if they are written, and returns the position of the first one.
pub(super) fn ask(
    columns: &mut Vec<&'static str>,
    names: &[&'static str],
    is_written: bool,
) -> Option<usize> {
    let at = columns.len();
    is_written.then(|| {
        columns.extend(names);
        at
    })
}

impl RequestedColumns {
    /// Requests only the columns that are written: the server neither computes nor sends others.
    pub(super) fn new(form: SlowLogFormat, text: Text, share: Share) -> RequestedColumns {
        let mut columns = COLUMNS.to_vec();
        let mut ask = |names: &[&'static str], is_written: bool| ask(&mut columns, names, is_written);
        let is_json = form == SlowLogFormat::Json;
        let details = ask(&DETAILS, is_json);
        let digest = ask(&["DIGEST"], is_json || text == Text::None || share.weight() > 1);
        let message = ask(&["MESSAGE_TEXT"], is_json && text == Text::Full);
        let digest_text = ask(&["DIGEST_TEXT"], text == Text::Normalised);
        let sql = ask(&SENT, text == Text::Full);
        RequestedColumns { columns, details, digest, sql, has_charset: true, message, digest_text }
    }

    /// Requests SQL_TEXT instead of the sent text, for servers without that.
    pub(super) fn ask_for_text_only(&mut self) {
        let Some(at) = self.sql.filter(|_| self.has_charset) else { return };
        self.columns.truncate(at);
        self.columns.push("SQL_TEXT");
        self.has_charset = false;
    }

    /// Returns whether this column is requested.
    pub(super) fn has(&self, column: &str) -> bool {
        self.columns.contains(&column)
    }

    /// Returns the digest of a row's statement, or its instrument if it has none.
    pub(super) fn digest<'r>(&self, row: &'r Row) -> Cow<'r, str> {
        self.digest.and_then(|at| row.str(at)).or_else(|| row.str(EVENT_NAME)).unwrap_or_default()
    }
}

/// A statement that has ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LoggedStatement<'r> {
    pub(super) thread_id: u64,
    pub(super) event_name: Cow<'r, str>,
    /// `None` if it was not timed.
    pub(super) time_ps: Option<u64>,
    pub(super) lock_ps: u64,
    /// The bytes that were sent.
    pub(super) sql: Option<Cow<'r, [u8]>>,
    /// Number of its collation.
    pub(super) charset: u64,
    pub(super) digest: Option<Cow<'r, str>>,
    pub(super) digest_text: Option<Cow<'r, str>>,
    pub(super) schema: Option<Cow<'r, str>>,
    /// The stored program it belongs to.
    pub(super) program: Option<String>,
    pub(super) errno: u64,
    pub(super) message: Option<Cow<'r, str>>,
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
    pub(super) user: Option<Cow<'r, str>>,
    pub(super) host: Option<Cow<'r, str>>,
    /// End in microseconds since 1970.
    pub(super) ended_us: u64,
}

impl<'r> LoggedStatement<'r> {
    /// Parses a row with the requested columns.
    pub(super) fn read(row: &'r Row, asked: &RequestedColumns) -> LoggedStatement<'r> {
        let text = |place: Option<usize>| place.and_then(|at| row.str(at));
        let detail = |which: usize| asked.details.map_or(0, |at| row.count(at + which));
        let program = row.bytes(9).map(|_| {
            let [schema, name] = [10, 11].map(|at| row.str(at).unwrap_or_default());
            format!("{schema}.{name}")
        });
        LoggedStatement {
            thread_id: row.count(4),
            event_name: row.str(EVENT_NAME).unwrap_or_default(),
            time_ps: row.number(6),
            lock_ps: row.count(7),
            schema: row.str(8),
            program,
            rows_affected: row.count(12),
            rows_sent: row.count(13),
            rows_examined: row.count(14),
            tmp_disk_tables: row.count(15),
            tmp_tables: row.count(16),
            full_join: row.count(17),
            full_scan: row.count(18),
            merge_passes: row.count(19),
            sorts: row.count(20) + row.count(21) + row.count(22),
            connection_id: row.number(23),
            user: row.str(24),
            host: row.str(25),
            ended_us: row.count(ENDED),
            errno: detail(0),
            errors: row.count(ERRORS),
            warnings: detail(1),
            no_index_used: detail(2),
            level: row.count(LEVEL),
            digest: text(asked.digest),
            sql: asked.sql.and_then(|at| row.bytes(at)).map(Cow::Borrowed),
            charset: asked.sql.filter(|_| asked.has_charset).map_or(0, |at| row.count(at + 1)),
            message: text(asked.message),
            digest_text: text(asked.digest_text),
        }
    }

    /// Returns the name of a command without text, such as `Ping`, as in the server's log.
    pub(super) fn command(&self) -> Option<&str> {
        self.event_name.strip_prefix("statement/com/")
    }
}
