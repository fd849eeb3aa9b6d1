//! The stream of statements in the blocks they were recorded in. `tare slowlog` decodes them in its own
//! process.

use std::ops::ControlFlow;
use std::sync::OnceLock;

use tare_engine::{
    BlockRow, BlockTexts, Cursor, Engine, RecordedStatement, Scale, StatementBlock, StreamPart,
};

use crate::framework::stream::{KeptValue, LAST};
use crate::table::SqlType::{self, BigIntUnsigned, Enum, LongBlob, LongText, VarChar};
use crate::table::{
    Column, ColumnSet, Put, Query, RowReceiver, RowSink, RowValues, StreamTable, Table, Value,
};

/// The table `tare_stream_statement_blocks`.
pub(super) static STATEMENT_BLOCKS: StatementBlocks = StatementBlocks { columns: OnceLock::new() };

pub(super) struct StatementBlocks {
    columns: OnceLock<Vec<Column>>,
}

/// A row that is sent.
enum SentRow<'a> {
    Of(BlockRow<'a>),
    Last(&'a StreamPart, Scale),
}

/// The type of a row.
const TYPES: SqlType = Enum(&["NAME", "DIGEST", "TEXT", "BLOCK", "LAST"]);

impl SentRow<'_> {
    fn type_name(&self) -> &'static str {
        match self {
            SentRow::Of(BlockRow::Name(..)) => "NAME",
            SentRow::Of(BlockRow::Digest(..)) => "DIGEST",
            SentRow::Of(BlockRow::Text(..)) => "TEXT",
            SentRow::Of(BlockRow::Block(_)) => "BLOCK",
            SentRow::Last(..) => "LAST",
        }
    }

    fn number(&self) -> Option<u64> {
        match self {
            SentRow::Of(BlockRow::Name(class, _)) => Some((*class).into()),
            SentRow::Of(BlockRow::Digest([number, _], _) | BlockRow::Text(number, _)) => Some(*number),
            SentRow::Of(BlockRow::Block(block)) => Some(block.first),
            SentRow::Last(..) => None,
        }
    }

    fn block(&self) -> Option<&StatementBlock<'_>> {
        if let SentRow::Of(BlockRow::Block(block)) = self { Some(block) } else { None }
    }

    fn scale(&self) -> Option<&Scale> {
        if let SentRow::Last(_, scale) = self { Some(scale) } else { None }
    }
}

/// Function that puts a column.
type PutColumn = fn(&SentRow<'_>, &mut dyn Put);

const fn column(
    name: &'static str,
    sql_type: SqlType,
    doc: &'static str,
    put: PutColumn,
) -> (Column, PutColumn) {
    (Column { name, sql_type, nullable: true, default: None, doc }, put)
}

/// The columns before those of every stream's last row.
const COLUMNS: &[(Column, PutColumn)] = &[
    column("TYPE", TYPES, "What the row is.", |row, to| to.text(row.type_name())),
    column(
        "NUMBER",
        BigIntUnsigned,
        "NAME, DIGEST: what records have in its place. TEXT: the statement's number among those of its thread. BLOCK: the \
         number of its first statement.",
        |row, to| to.number(row.number()),
    ),
    column("EVENT_NAME", VarChar(128), "NAME: of an instrument, told once.", |row, to| {
        to.some(if let SentRow::Of(BlockRow::Name(_, name)) = row { Some(name) } else { None });
    }),
    column("DIGEST_CHARSET", BigIntUnsigned, "DIGEST: what records have beside NUMBER.", |row, to| {
        to.number(if let SentRow::Of(BlockRow::Digest([_, charset], _)) = row {
            Some(*charset)
        } else {
            None
        });
    }),
    column("DIGEST", VarChar(64), "DIGEST: as `events_statements_history_long` has it.", |row, to| {
        to.some(if let SentRow::Of(BlockRow::Digest(_, of)) = row { Some(of.digest.as_str()) } else { None });
    }),
    column("DIGEST_TEXT", LongText, "DIGEST: likewise.", |row, to| {
        to.some(if let SentRow::Of(BlockRow::Digest(_, of)) = row { Some(of.text.as_str()) } else { None });
    }),
    column(
        "SQL_TEXT",
        LongText,
        "TEXT: of a statement of the next block, where it is not what the block has: it was cut, or is no ASCII.",
        |row, to| to.some(if let SentRow::Of(BlockRow::Text(_, text)) = row { *text } else { None }),
    ),
    column("THREAD_ID", BigIntUnsigned, "BLOCK: the thread.", |row, to| {
        to.number(row.block().map(|block| block.thread_id));
    }),
    column("PROCESSLIST_ID", BigIntUnsigned, "BLOCK: id of the connection, if it is one.", |row, to| {
        to.number(row.block().and_then(|block| block.processlist_id));
    }),
    column("PROCESSLIST_USER", VarChar(128), "BLOCK: user of its account.", |row, to| {
        to.some(row.block().and_then(|block| block.user));
    }),
    column("PROCESSLIST_HOST", VarChar(256), "BLOCK: host of its account.", |row, to| {
        to.some(row.block().and_then(|block| block.host));
    }),
    column("OPENED", BigIntUnsigned, "BLOCK: when it was begun, in ticks.", |row, to| {
        to.number(row.block().map(|block| block.opened));
    }),
    column("NEW_FROM", BigIntUnsigned, "BLOCK: the number of the first statement that is new.", |row, to| {
        to.number(row.block().map(|block| block.new_from));
    }),
    column("RECORDS", LongBlob, "BLOCK: its records, in words of 64 bits, lowest byte first.", |row, to| {
        match row.block() {
            Some(block) => to.value(&Value::Bytes(block.bytes().into()), None),
            None => to.null(),
        }
    }),
    column("FORMAT", BigIntUnsigned, "LAST: the version of the records' layout.", |row, to| {
        to.number(row.scale().map(|_| RecordedStatement::FORMAT));
    }),
    column("TICK", BigIntUnsigned, "LAST: picoseconds of a tick, times 2 to the 32nd.", |row, to| {
        to.number(row.scale().map(|scale| scale.rate));
    }),
    column("STARTED", BigIntUnsigned, "LAST: the server's start, in ticks.", |row, to| {
        to.number(row.scale().map(|scale| scale.start));
    }),
    column("STARTED_AT", BigIntUnsigned, "LAST: likewise, in microseconds since 1970, UTC.", |row, to| {
        to.number(row.scale().map(|scale| scale.start_us));
    }),
];

fn put(row: &SentRow<'_>, column: usize, to: &mut dyn Put) {
    match (COLUMNS.get(column), row) {
        (Some((_, put)), _) => put(row, to),
        (None, SentRow::Last(piece, _)) => LAST[column - COLUMNS.len()].put(piece, to),
        (None, SentRow::Of(_)) => to.null(),
    }
}

impl Table for StatementBlocks {
    fn name(&self) -> &'static str {
        "tare_stream_statement_blocks"
    }

    fn doc(&self) -> &'static str {
        "What `tare_stream_statements` has, in the blocks it was recorded in: who decodes them elsewhere costs the server least. \
         Names, digests and some texts come in rows of their own before the first block that needs them. Digests come only where \
         DIGEST or DIGEST_TEXT is asked for, texts where SQL_TEXT is."
    }

    fn columns(&self) -> &[Column] {
        self.columns.get_or_init(|| {
            let own = COLUMNS.iter().map(|(column, _)| *column);
            own.chain(LAST.iter().map(|def| def.column)).collect()
        })
    }

    /// Emits nothing: a stream needs a cursor.
    fn scan(&self, _: &Engine, _: &Query<'_>, _: RowSink<'_>) {}

    fn stream(&self) -> Option<&dyn StreamTable> {
        Some(self)
    }
}

impl StreamTable for StatementBlocks {
    fn has_statements(&self) -> bool {
        true
    }

    fn read(&self, engine: &Engine, cursor: &mut Cursor, items: &[Option<usize>], to: &mut dyn RowReceiver) {
        let asks = |name: &str| {
            let is_it = |at: &usize| COLUMNS.get(*at).is_some_and(|(column, _)| column.name == name);
            items.iter().flatten().any(is_it)
        };
        let texts = BlockTexts { sql: asks("SQL_TEXT"), digest: asks("DIGEST") || asks("DIGEST_TEXT") };
        let tested = to.tested();
        let mut send = |row: SentRow<'_>| {
            if tested != ColumnSet::NONE && matches!(row, SentRow::Of(_)) && !to.wants(&row) {
                return ControlFlow::Continue(());
            }
            for (item, column) in items.iter().enumerate() {
                match column {
                    Some(column) => put(&row, *column, to),
                    None => to.own(item),
                }
            }
            to.end()
        };
        let mut flow = ControlFlow::Continue(());
        let piece = engine.stream_statement_blocks(cursor, texts, &mut |row| {
            flow = send(SentRow::Of(row));
            flow
        });
        if flow.is_continue() {
            let _last = send(SentRow::Last(&piece, engine.scale()));
        }
    }
}

impl RowValues for SentRow<'_> {
    fn value(&self, column: usize) -> Value<'_> {
        let mut kept = KeptValue(Value::Null);
        put(self, column, &mut kept);
        kept.0
    }
}
