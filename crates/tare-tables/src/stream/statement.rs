//! The stream of statements, which is read at the rate of a server's: nearly every column has a way of its own.

use std::ops::ControlFlow;

use tare_engine::snapshot::StatementRow;
use tare_engine::{Cursor, Engine, Origin, Piece, StreamedStatement};

use super::{Direct, Kind, StreamDef};
use crate::event;
use crate::table::Value;

/// `tare_stream_statements`
pub(super) static STATEMENTS: StreamDef<Statements> = StreamDef::new(
    "tare_stream_statements",
    "The statements that have ended since the connection's last SELECT from here, each once, in the order of their thread; and \
     a last row that says how many could not be read any more. Over the endpoint's socket only.",
    event::STATEMENT,
);

pub(super) struct Statements;

impl Kind for Statements {
    type Event<'a> = StreamedStatement<'a>;
    type Row = StatementRow;
    const DIRECT: Direct<Self> = DIRECT;
    fn row<T>(event: &StreamedStatement<'_>, read: impl FnOnce(&StatementRow) -> T) -> T {
        read(&event.row())
    }
    fn read(
        engine: &Engine,
        cursor: &mut Cursor,
        mut each: impl FnMut(&StreamedStatement<'_>, &Origin) -> ControlFlow<()>,
    ) -> Piece {
        engine.stream_statements(cursor, &mut each)
    }
}

macro_rules! counter {
    ($name:literal $field:ident) => {
        ($name, |it, to| to.unsigned(it.counters().$field))
    };
}

/// As [`event::STATEMENT`] declares them: a test compares both.
const DIRECT: Direct<Statements> = &[
    ("THREAD_ID", |it, to| to.unsigned(it.thread_id())),
    ("EVENT_ID", |it, to| to.unsigned(it.event_id())),
    ("END_EVENT_ID", |it, to| to.unsigned(it.end_event_id())),
    ("EVENT_NAME", |it, to| to.text(it.name())),
    ("TIMER_START", |it, to| to.number(it.timer().start_ps)),
    ("TIMER_END", |it, to| to.number(it.timer().end_ps)),
    ("TIMER_WAIT", |it, to| to.number(it.timer().wait_ps)),
    ("LOCK_TIME", |it, to| to.unsigned(it.counters().lock_time_ps)),
    ("SQL_TEXT", |it, to| to.some(it.sql_text().as_deref())),
    ("DIGEST", |it, to| it.digest(|digest| to.some(digest.map(|digest| &*digest.digest)))),
    ("DIGEST_TEXT", |it, to| it.digest(|digest| to.some(digest.map(|digest| &*digest.text)))),
    ("CURRENT_SCHEMA", |it, to| to.some(it.current_schema().as_deref())),
    ("OBJECT_TYPE", |it, to| to.some(it.object_type())),
    ("OBJECT_SCHEMA", |it, to| to.some(it.object_schema().as_deref())),
    ("OBJECT_NAME", |it, to| to.some(it.object_name().as_deref())),
    ("OBJECT_INSTANCE_BEGIN", |_, to| to.null()),
    ("MYSQL_ERRNO", |it, to| match it.errno() {
        0 => to.unsigned(0),
        errno => to.value(&Value::Signed(errno.into())),
    }),
    ("RETURNED_SQLSTATE", |it, to| to.some(it.sqlstate().as_deref())),
    ("MESSAGE_TEXT", |it, to| to.some(it.message_text().as_deref())),
    counter!("ERRORS" errors),
    counter!("WARNINGS" warnings),
    counter!("ROWS_AFFECTED" rows_affected),
    counter!("ROWS_SENT" rows_sent),
    counter!("ROWS_EXAMINED" rows_examined),
    counter!("CREATED_TMP_DISK_TABLES" created_tmp_disk_tables),
    counter!("CREATED_TMP_TABLES" created_tmp_tables),
    counter!("SELECT_FULL_JOIN" select_full_join),
    counter!("SELECT_FULL_RANGE_JOIN" select_full_range_join),
    counter!("SELECT_RANGE" select_range),
    counter!("SELECT_RANGE_CHECK" select_range_check),
    counter!("SELECT_SCAN" select_scan),
    counter!("SORT_MERGE_PASSES" sort_merge_passes),
    counter!("SORT_RANGE" sort_range),
    counter!("SORT_ROWS" sort_rows),
    counter!("SORT_SCAN" sort_scan),
    counter!("NO_INDEX_USED" no_index_used),
    counter!("NO_GOOD_INDEX_USED" no_good_index_used),
    ("NESTING_EVENT_ID", |it, to| to.number(it.nesting().map(|(id, _)| id))),
    ("NESTING_EVENT_TYPE", |it, to| to.some(it.nesting().map(|(_, of)| event::event_type_name(of)))),
    ("NESTING_EVENT_LEVEL", |it, to| to.unsigned(it.nesting_level())),
];
