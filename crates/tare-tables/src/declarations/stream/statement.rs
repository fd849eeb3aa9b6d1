//! The stream of statements, which is read as fast as a server ends them. Columns are read directly from the
//! records, without an intermediate row.

use std::ops::{ControlFlow, Range};

use tare_engine::snapshot::{Parts, StatementRow};
use tare_engine::{Cursor, Engine, EventOrigin, StreamPart, StreamedStatement};

use crate::declarations::event;
use crate::framework::column::{ColumnDef, nullable};
use crate::framework::stream::{StreamDef, StreamType};
use crate::table::SqlType::{BigIntUnsigned, LongBlob};
use crate::table::{Put, Value};

/// The table `tare_stream_statements`.
pub(super) static STATEMENTS: StreamDef<StatementRows> = StreamDef::new(
    "tare_stream_statements",
    "The statements that have ended since the connection's last SELECT from here, each once, in the order of their thread; and \
     a last row that says how many could not be read any more. From the first SELECT until the connection ends every statement is \
     recorded, whether sample_weight chose it or not, of those that are as long as `WHERE TIMER_WAIT > …` says. Over the endpoint's \
     socket only.",
    DECLARED,
);

/// Columns of the histories, and those that only the stream has.
const DECLARED: &[&[ColumnDef<StatementRow>]] = &{
    let mut declared: [&[ColumnDef<StatementRow>]; event::STATEMENT.len() + 1] =
        [&[]; event::STATEMENT.len() + 1];
    let mut at = 0;
    while at < event::STATEMENT.len() {
        declared[at] = event::STATEMENT[at];
        at += 1;
    }
    declared[at] = SENT;
    declared
};

/// Columns with what was sent. A row of a history does not have it, so [`COLUMNS_BEHIND`] puts these.
const SENT: &[ColumnDef<StatementRow>] = &[
    nullable(
        "SQL_BYTES",
        LongBlob,
        "What SQL_TEXT shows, byte by byte as the client sent it, in its character set.",
        |_| Value::Null,
    ),
    nullable(
        "SQL_CHARSET",
        BigIntUnsigned,
        "Number of the collation of the client's character set, as `information_schema.COLLATIONS` has it.",
        |_| Value::Null,
    ),
];

pub(super) struct StatementRows;

impl StreamType for StatementRows {
    type Event<'a> = StreamedStatement<'a>;
    type Row = StatementRow;
    #[inline]
    fn put(event: &StreamedStatement<'_>, column: usize, _: &ColumnDef<StatementRow>, to: &mut dyn Put) {
        let own = COLUMNS.get(column).or_else(|| COLUMNS_BEHIND.get(column.checked_sub(Self::NUMBERS.end)?));
        match own {
            Some((_, put)) => put(event, to),
            None => to.null(),
        }
    }
    const STATEMENTS: bool = true;
    const NUMBERS: Range<usize> = COLUMNS.len()..COLUMNS.len() + COUNTS.len();
    #[inline]
    fn numbers<'e>(event: &'e StreamedStatement<'_>) -> &'e [u64] {
        event.counts()
    }
    fn read(
        engine: &Engine,
        cursor: &mut Cursor,
        parts: Parts,
        mut each: impl FnMut(&StreamedStatement<'_>, &EventOrigin) -> ControlFlow<()>,
    ) -> StreamPart {
        engine.stream_statements(cursor, parts, &mut each)
    }
}

/// Function that puts a column.
type PutStatementColumn = fn(&StreamedStatement<'_>, &mut dyn Put);

/// The first columns of [`event::STATEMENT`], in order.
const COLUMNS: &[(&str, PutStatementColumn)] = &[
    ("THREAD_ID", |it, to| to.unsigned(it.thread_id())),
    ("EVENT_ID", |it, to| to.unsigned(it.event_id())),
    ("END_EVENT_ID", |it, to| to.unsigned(it.end_event_id())),
    ("EVENT_NAME", |it, to| to.text(it.name())),
    ("SOURCE", |it, to| to.some(it.source().as_deref())),
    ("TIMER_START", |it, to| to.number(it.timer().start_ps)),
    ("TIMER_END", |it, to| to.number(it.timer().end_ps)),
    ("TIMER_WAIT", |it, to| to.number(it.timer().wait_ps)),
    ("LOCK_TIME", |it, to| to.unsigned(it.lock_time_ps())),
    ("SQL_TEXT", |it, to| to.some(it.sql_text().as_deref())),
    ("DIGEST", |it, to| to.some(it.digest().map(|digest| digest.digest.as_str()))),
    ("DIGEST_TEXT", |it, to| to.some(it.digest().map(|digest| digest.text.as_str()))),
    ("CURRENT_SCHEMA", |it, to| to.some(it.current_schema().as_deref())),
    ("OBJECT_TYPE", |it, to| to.some(it.object_type())),
    ("OBJECT_SCHEMA", |it, to| to.some(it.object_schema().as_deref())),
    ("OBJECT_NAME", |it, to| to.some(it.object_name().as_deref())),
    ("OBJECT_INSTANCE_BEGIN", |_, to| to.null()),
    ("MYSQL_ERRNO", |it, to| to.value(&Value::Signed(it.errno().into()), None)),
    ("RETURNED_SQLSTATE", |it, to| to.some(it.sqlstate().as_deref())),
    ("MESSAGE_TEXT", |it, to| to.some(it.message_text().as_deref())),
];

/// The columns after [`COLUMNS`], in the order of [`StreamedStatement::counts`].
const COUNTS: [&str; 18] = [
    "ERRORS",
    "WARNINGS",
    "ROWS_AFFECTED",
    "ROWS_SENT",
    "ROWS_EXAMINED",
    "CREATED_TMP_DISK_TABLES",
    "CREATED_TMP_TABLES",
    "SELECT_FULL_JOIN",
    "SELECT_FULL_RANGE_JOIN",
    "SELECT_RANGE",
    "SELECT_RANGE_CHECK",
    "SELECT_SCAN",
    "SORT_MERGE_PASSES",
    "SORT_RANGE",
    "SORT_ROWS",
    "SORT_SCAN",
    "NO_INDEX_USED",
    "NO_GOOD_INDEX_USED",
];

/// The columns after [`COUNTS`].
const COLUMNS_BEHIND: &[(&str, PutStatementColumn)] = &[
    ("NESTING_EVENT_ID", |it, to| to.number(it.nesting().map(|(id, _)| id))),
    ("NESTING_EVENT_TYPE", |it, to| to.some(it.nesting().map(|(_, of)| event::event_type_name(of)))),
    ("NESTING_EVENT_LEVEL", |it, to| to.unsigned(it.nesting_level())),
    ("SQL_BYTES", |it, to| match it.sql_bytes() {
        Some(bytes) => to.value(&Value::Bytes(bytes), None),
        None => to.null(),
    }),
    ("SQL_CHARSET", |it, to| to.unsigned(it.charset().into())),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_put_by_its_own_name() {
        let declared = DECLARED.iter().copied().flatten().map(|def| def.column.name);
        let names =
            |columns: &'static [(&'static str, PutStatementColumn)]| columns.iter().map(|(name, _)| *name);
        assert!(declared.eq(names(COLUMNS).chain(COUNTS).chain(names(COLUMNS_BEHIND))));
    }
}
