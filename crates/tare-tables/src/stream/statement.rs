//! The stream of statements, which is read as fast as a server ends them: columns are read from what was recorded, and no row is
//! made in between.

use std::ops::ControlFlow;

use tare_engine::snapshot::{Parts, StatementRow};
use tare_engine::{Cursor, Engine, Origin, Piece, StreamedStatement};

use super::{Kind, StreamDef};
use crate::column::ColumnDef;
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
    fn value<'r>(event: &'r StreamedStatement<'_>, column: usize, _: &ColumnDef<StatementRow>) -> Value<'r> {
        GETTERS.get(column).map_or(Value::Null, |(_, get)| get(event))
    }
    fn read(
        engine: &Engine,
        cursor: &mut Cursor,
        parts: Parts,
        mut each: impl FnMut(&StreamedStatement<'_>, &Origin) -> ControlFlow<()>,
    ) -> Piece {
        engine.stream_statements(cursor, parts, &mut each)
    }
}

/// Reads a column.
type Getter = for<'r> fn(&'r StreamedStatement<'_>) -> Value<'r>;

macro_rules! counter {
    ($name:literal $field:ident) => {
        ($name, |it| it.counters().$field.into())
    };
}

/// The columns of [`event::STATEMENT`], in their order.
const GETTERS: &[(&str, Getter)] = &[
    ("THREAD_ID", |it| it.thread_id().into()),
    ("EVENT_ID", |it| it.event_id().into()),
    ("END_EVENT_ID", |it| it.end_event_id().into()),
    ("EVENT_NAME", |it| it.name().into()),
    ("SOURCE", |it| it.source().into()),
    ("TIMER_START", |it| it.timer().start_ps.into()),
    ("TIMER_END", |it| it.timer().end_ps.into()),
    ("TIMER_WAIT", |it| it.timer().wait_ps.into()),
    ("LOCK_TIME", |it| it.counters().lock_time_ps.into()),
    ("SQL_TEXT", |it| it.sql_text().into()),
    ("DIGEST", |it| it.digest().map(|digest| &digest.digest).into()),
    ("DIGEST_TEXT", |it| it.digest().map(|digest| &digest.text).into()),
    ("CURRENT_SCHEMA", |it| it.current_schema().into()),
    ("OBJECT_TYPE", |it| it.object_type().into()),
    ("OBJECT_SCHEMA", |it| it.object_schema().into()),
    ("OBJECT_NAME", |it| it.object_name().into()),
    ("OBJECT_INSTANCE_BEGIN", |_| Value::Null),
    ("MYSQL_ERRNO", |it| Value::Signed(it.errno().into())),
    ("RETURNED_SQLSTATE", |it| it.sqlstate().into()),
    ("MESSAGE_TEXT", |it| it.message_text().into()),
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
    ("NESTING_EVENT_ID", |it| it.nesting().map(|(id, _)| id).into()),
    ("NESTING_EVENT_TYPE", |it| it.nesting().map(|(_, of)| event::event_type_name(of)).into()),
    ("NESTING_EVENT_LEVEL", |it| it.nesting_level().into()),
];
