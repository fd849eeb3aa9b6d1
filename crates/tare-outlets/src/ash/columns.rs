//! The tables in the file, and their columns.

use crate::snapshot::{SnapshotColumn, TableHead, Type};

/// Name of the history: tare's own table, with all of its columns.
pub use crate::snapshot::ACTIVE_SESSIONS as HISTORY;
/// Columns of [`HISTORY`], in the order of the table's declaration.
pub const COLUMNS: [(&str, Type); 25] = [
    ("SAMPLE_TIME", Type::Text),
    ("USECS_PER_ROW", Type::Unsigned),
    ("THREAD_ID", Type::Unsigned),
    ("PROCESSLIST_ID", Type::Unsigned),
    ("THREAD_NAME", Type::Text),
    ("USER", Type::Text),
    ("HOST", Type::Text),
    ("SCHEMA_NAME", Type::Text),
    ("DIGEST", Type::Text),
    ("STATEMENT_EVENT_ID", Type::Unsigned),
    ("STATEMENT_AGE", Type::Unsigned),
    ("STAGE", Type::Text),
    ("STATE", Type::Text),
    ("WAIT_CLASS", Type::Text),
    ("WAIT_EVENT", Type::Text),
    ("OPERATION", Type::Text),
    ("OBJECT_TYPE", Type::Text),
    ("OBJECT_SCHEMA", Type::Text),
    ("OBJECT_NAME", Type::Text),
    ("INDEX_NAME", Type::Text),
    ("WAIT_AGE", Type::Unsigned),
    ("BLOCKING_THREAD_ID", Type::Unsigned),
    ("BLOCKING_PROCESSLIST_ID", Type::Unsigned),
    ("TRX_ID", Type::Unsigned),
    ("TRX_AGE", Type::Unsigned),
];
/// Texts of the digests in the history: normalised, without any literal.
pub const DIGESTS: &str = "events_statements_summary_by_digest";
/// Columns of [`DIGESTS`] in the file.
pub const DIGEST_COLUMNS: [(&str, Type); 3] =
    [("SCHEMA_NAME", Type::Text), ("DIGEST", Type::Text), ("DIGEST_TEXT", Type::Text)];
/// Digests of statements in the history that had none when they were sampled; [`read`](super::file::read)
/// fills them in.
pub const LATE: &str = "events_statements_history";
/// Columns of [`LATE`] in the file.
pub const LATE_COLUMNS: [(&str, Type); 3] =
    [("THREAD_ID", Type::Unsigned), ("EVENT_ID", Type::Unsigned), ("DIGEST", Type::Text)];
/// Accounts of sessions that others waited for, and that had no row then because they were idle.
pub const THREADS: &str = "threads";
/// Columns of [`THREADS`] in the file.
pub const THREAD_COLUMNS: [(&str, Type); 4] = [
    ("THREAD_ID", Type::Unsigned),
    ("PROCESSLIST_USER", Type::Text),
    ("PROCESSLIST_HOST", Type::Text),
    ("PROCESSLIST_ID", Type::Unsigned),
];
/// Facts about the server and the sampling, in the names of tare's own table: `processors`, `ash_interval`.
pub const STATUS: &str = "tare_status";
/// Columns of [`STATUS`] in the file.
pub const STATUS_COLUMNS: [(&str, Type); 2] = [("NAME", Type::Text), ("VALUE", Type::Text)];

/// Returns the head of a table.
#[must_use]
pub fn head(table: &str, columns: &[(&str, Type)]) -> TableHead {
    let column = |(name, kind): &(&str, Type)| SnapshotColumn { name: (*name).to_owned(), kind: *kind };
    TableHead { table: table.to_owned(), columns: columns.iter().map(column).collect() }
}

/// Returns the position of a column of [`HISTORY`].
pub(super) fn place(column: &str) -> usize {
    COLUMNS.iter().position(|(name, _)| *name == column).unwrap_or_default()
}
