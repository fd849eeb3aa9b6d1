//! Events: four types, each with three tables (current, history, history_long) over one list of columns.

use tare_engine::Engine;
use tare_engine::snapshot::{
    EventHead, EventType, PresentTable, ReadRequest, Reset, Scope, StageRow, StatementRow, TransactionRow,
    TransactionState, WaitRow,
};

use super::shared::{ENGINES, counter_columns};
use crate::framework::column::{ColumnDef, YES_NO, column, nullable, yes_no};
use crate::framework::definition::TableDef;
use crate::table::SqlType::{BigInt, BigIntUnsigned, Enum, Int, IntUnsigned, LongText, VarChar};
use crate::table::Value;

/// Declares the three tables of an event type: same rows, same columns, three scopes.
macro_rules! event_tables {
    ($module:ident, $type:ident, $present:ident, $field:ident, $plural:literal, $row:ty, $read:path, $columns:expr, $further:expr) => {
        #[doc = concat!("`events_", $plural, "_{current,history,history_long}`")]
        pub mod $module {
            use super::*;

            #[doc = concat!("`events_", $plural, "_current`")]
            pub static CURRENT: TableDef<$row> = event_tables!(
                $type,
                Current,
                $row,
                $read,
                $columns,
                $further,
                concat!("events_", $plural, "_current"),
                concat!(
                    "The ",
                    $plural,
                    " each live thread is in, or was in last. TIMER_END and TIMER_WAIT of ",
                    "one in progress are taken at the moment of reading."
                )
            )
            .present((PresentTable::$present, |present| &present.$field))
            .indexed(BY_THREAD);

            #[doc = concat!("`events_", $plural, "_history`")]
            pub static HISTORY: TableDef<$row> = event_tables!(
                $type,
                History,
                $row,
                $read,
                $columns,
                $further,
                concat!("events_", $plural, "_history"),
                concat!(
                    "The ",
                    $plural,
                    " each live thread has ended last. They are removed when their thread ends."
                )
            )
            .indexed(BY_THREAD);

            #[doc = concat!("`events_", $plural, "_history_long`")]
            pub static HISTORY_LONG: TableDef<$row> = event_tables!(
                $type,
                HistoryLong,
                $row,
                $read,
                $columns,
                $further,
                concat!("events_", $plural, "_history_long"),
                concat!("The ", $plural, " all threads have ended last, those of ended threads included.")
            )
            .indexed(BY_THREAD);
        }
    };
    ($type:ident, $scope:ident, $row:ty, $read:path, $columns:expr, $further:expr, $name:expr, $doc:expr) => {
        TableDef::<$row>::new($name, $doc, $columns, |engine, parts, emit| {
            let asked = ReadRequest { what: Scope::$scope, thread: None, parts };
            let _ = $read(engine, asked).iter().try_for_each(emit);
        })
        .found(&[("THREAD_ID", |engine, id, parts, emit| {
            let asked = ReadRequest { what: Scope::$scope, thread: Some(id), parts };
            let _ = $read(engine, asked).iter().try_for_each(emit);
        })])
        .extended($further)
        .truncated(Reset::Events(EventType::$type, Scope::$scope))
    };
}

const BY_THREAD: &[&[&str]] = &[&["THREAD_ID", "EVENT_ID"]];

event_tables!(wait, Wait, Waits, waits, "waits", WaitRow, Engine::waits, WAIT, &[]);

event_tables!(stage, Stage, Stages, stages, "stages", StageRow, Engine::stages, STAGE, &[]);

event_tables!(
    statement,
    Statement,
    Statements,
    statements,
    "statements",
    StatementRow,
    Engine::statements,
    STATEMENT,
    &[STATEMENT_FURTHER]
);

event_tables!(
    transaction,
    Transaction,
    Transactions,
    transactions,
    "transactions",
    TransactionRow,
    Engine::transactions,
    TRANSACTION,
    &[]
);

/// Columns of a wait.
pub(crate) const WAIT: &[&[ColumnDef<WaitRow>]] = &[
    CommonColumns::KEY,
    CommonColumns::SOURCE_AND_TIMER,
    WAIT_OBJECT,
    CommonColumns::NESTING,
    WAIT_OPERATION,
];

/// Columns of a stage.
pub(crate) const STAGE: &[&[ColumnDef<StageRow>]] =
    &[CommonColumns::KEY, CommonColumns::SOURCE_AND_TIMER, STAGE_PROGRESS, CommonColumns::NESTING];

/// Columns of a statement.
pub(crate) const STATEMENT: &[&[ColumnDef<StatementRow>]] = &[
    CommonColumns::KEY,
    CommonColumns::SOURCE_AND_TIMER,
    STATEMENT_TEXT,
    STATEMENT_COUNTERS,
    CommonColumns::NESTING,
    STATEMENT_NESTING_LEVEL,
];

/// Columns of a transaction.
pub(crate) const TRANSACTION: &[&[ColumnDef<TransactionRow>]] = &[
    CommonColumns::KEY,
    TRANSACTION_IDENTITY,
    CommonColumns::SOURCE_AND_TIMER,
    TRANSACTION_MODE,
    CommonColumns::NESTING,
];

/// A row that begins with the columns common to all events.
pub(crate) trait EventRow: 'static {
    fn head(&self) -> &EventHead;
}

macro_rules! events {
    ($($row:ty),*) => {
        $(impl EventRow for $row {
            fn head(&self) -> &EventHead {
                &self.head
            }
        })*
    };
}
events!(WaitRow, StageRow, StatementRow, TransactionRow);

/// The columns common to all events, in the groups that the built-in keeps together.
struct CommonColumns<R>(std::marker::PhantomData<R>);

impl<R: EventRow> CommonColumns<R> {
    const KEY: &'static [ColumnDef<R>] = &[
        column("THREAD_ID", BigIntUnsigned, "Thread the event belongs to.", |row: &R| {
            row.head().thread_id.into()
        }),
        column("EVENT_ID", BigIntUnsigned, "Number of the event in its thread, rising.", |row: &R| {
            row.head().event_id.into()
        }),
        nullable(
            "END_EVENT_ID",
            BigIntUnsigned,
            "The thread's event number when the event ended; NULL while it is in progress.",
            |row: &R| row.head().end_event_id.into(),
        ),
        column("EVENT_NAME", VarChar(128), "Name of the instrument, as in setup_instruments.", |row: &R| {
            row.head().name.into()
        }),
    ];

    const SOURCE_AND_TIMER: &'static [ColumnDef<R>] = &[
        nullable("SOURCE", VarChar(64), "Source file and line of the instrumented point.", |row: &R| {
            row.head().source.as_ref().into()
        })
        .of(EventHead::SOURCE),
        nullable(
            "TIMER_START",
            BigIntUnsigned,
            "When the event began, in picoseconds since the server started; NULL when not timed.",
            |row: &R| row.head().timer.start_ps.into(),
        ),
        nullable(
            "TIMER_END",
            BigIntUnsigned,
            "When the event ended, in picoseconds since the server started; NULL when not timed.",
            |row: &R| row.head().timer.end_ps.into(),
        ),
        nullable(
            "TIMER_WAIT",
            BigIntUnsigned,
            "How long the event lasted, in picoseconds; NULL when not timed.",
            |row: &R| row.head().timer.wait_ps.into(),
        ),
    ];

    const NESTING: &'static [ColumnDef<R>] = &[
        nullable(
            "NESTING_EVENT_ID",
            BigIntUnsigned,
            "EVENT_ID of the event this one happened in; NULL when there is none.",
            |row: &R| row.head().nesting.map(|(event_id, _)| event_id).into(),
        ),
        nullable(
            "NESTING_EVENT_TYPE",
            Enum(&["TRANSACTION", "STATEMENT", "STAGE", "WAIT"]),
            "Type of the event this one happened in.",
            |row: &R| row.head().nesting.map(|(_, event_type)| event_type_name(event_type)).into(),
        ),
    ];
}

pub(crate) const fn event_type_name(event_type: EventType) -> &'static str {
    match event_type {
        EventType::Transaction => "TRANSACTION",
        EventType::Statement => "STATEMENT",
        EventType::Stage => "STAGE",
        EventType::Wait => "WAIT",
    }
}

const WAIT_OBJECT: &[ColumnDef<WaitRow>] = &[
    nullable("SPINS", IntUnsigned, "Always NULL, as in MariaDB's own: spins are not instrumented.", |_| {
        Value::Null
    }),
    nullable(
        "OBJECT_SCHEMA",
        VarChar(64),
        "Schema of the table waited for; NULL for other objects.",
        |row| row.object.schema.as_ref().into(),
    ),
    nullable(
        "OBJECT_NAME",
        VarChar(512),
        "File, table or socket (ip:port) waited for; NULL for synchronisation.",
        |row| row.object.name.as_ref().into(),
    ),
    nullable("INDEX_NAME", VarChar(64), "Index a table was read through; NULL when none was.", |row| {
        row.object.index.as_ref().into()
    }),
    nullable(
        "OBJECT_TYPE",
        VarChar(64),
        "Kind of the object, such as TABLE, FILE or SOCKET; NULL for synchronisation.",
        |row| row.object.object_type.into(),
    ),
    column("OBJECT_INSTANCE_BEGIN", BigIntUnsigned, "Identity of the object in memory.", |row| {
        row.object_instance_begin.into()
    }),
];

const WAIT_OPERATION: &[ColumnDef<WaitRow>] = &[
    column("OPERATION", VarChar(32), "What was done: lock, read, write, fetch and so on.", |row| {
        row.operation.into()
    }),
    nullable("NUMBER_OF_BYTES", BigInt, "Bytes read or written; rows for table I/O; else NULL.", |row| {
        row.number_of_bytes.into()
    }),
    nullable("FLAGS", IntUnsigned, "Flags of the wait; MariaDB's own leaves it NULL.", |row| {
        row.flags.into()
    }),
];

const STAGE_PROGRESS: &[ColumnDef<StageRow>] = &[
    nullable("WORK_COMPLETED", BigIntUnsigned, "Units of work done; NULL when not reported.", |row| {
        row.progress.map(|(completed, _)| completed).into()
    }),
    nullable("WORK_ESTIMATED", BigIntUnsigned, "Units of work expected; NULL when not reported.", |row| {
        row.progress.map(|(_, estimated)| estimated).into()
    }),
];

const STATEMENT_TEXT: &[ColumnDef<StatementRow>] = &[
    column("LOCK_TIME", BigIntUnsigned, "Time spent waiting for table locks, in picoseconds.", |row| {
        row.counters.lock_time_ps.into()
    }),
    nullable(
        "SQL_TEXT",
        LongText,
        "The statement, its first bytes (option `max-sql-text-length`, 1,024 by default). It ends in `...` if it was longer, or \
         has bytes that are invalid in the client's character set. It is not converted: a byte that is no UTF-8 shows as `?`, as in \
         MariaDB's own. NULL for commands without text.",
        |row: &StatementRow| row.sql_text.as_ref().into(),
    )
    .of(StatementRow::SQL_TEXT),
    nullable("DIGEST", VarChar(32), "Hash of the normalised statement; NULL until it is parsed.", |row: &StatementRow| {
        row.digest.as_ref().map(|digest| &digest.digest).into()
    })
    .of(StatementRow::DIGEST),
    nullable(
        "DIGEST_TEXT",
        LongText,
        "The normalised statement; NULL until it is parsed, and again once its digest is evicted.",
        |row: &StatementRow| row.digest.as_ref().map(|digest| &digest.text).into(),
    )
    .of(StatementRow::DIGEST),
    nullable("CURRENT_SCHEMA", VarChar(64), "Default schema of the statement; NULL without one.", |row| {
        row.current_schema.as_ref().into()
    }),
    nullable(
        "OBJECT_TYPE",
        VarChar(64),
        "Kind of the stored program the statement was executed in; NULL if it was in none.",
        |row| row.object.object_type.into(),
    ),
    nullable("OBJECT_SCHEMA", VarChar(64), "Schema of that stored program; NULL if there is none.", |row| {
        row.object.schema.as_ref().into()
    }),
    nullable("OBJECT_NAME", VarChar(64), "Name of that stored program; NULL if there is none.", |row| {
        row.object.name.as_ref().into()
    }),
    nullable("OBJECT_INSTANCE_BEGIN", BigIntUnsigned, "Always NULL, as in MariaDB's own.", |_| Value::Null),
    nullable("MYSQL_ERRNO", Int, "Error number; 0 when the statement went well.", |row| {
        Value::Signed(row.mysql_errno.into())
    }),
    nullable("RETURNED_SQLSTATE", VarChar(5), "SQLSTATE; NULL until there is one.", |row| {
        row.returned_sqlstate.as_ref().into()
    }),
    nullable("MESSAGE_TEXT", VarChar(128), "Text of the error or result; NULL when there is none.", |row| {
        row.message_text.as_ref().into()
    }),
];

const STATEMENT_FURTHER: &[ColumnDef<StatementRow>] = &[
    nullable(
        "STATEMENT_ID",
        BigIntUnsigned,
        "QUERY_ID of the statement; NULL for commands without text.",
        |row| Some(row.statement_id).filter(|id| *id != 0).into(),
    ),
    column(
        "CPU_TIME",
        BigIntUnsigned,
        "CPU time of its thread, in picoseconds, once it has ended; 0 unless the consumer `events_statements_cpu` was on.",
        |row| row.counters.cpu_time_ps.into(),
    ),
    column(
        "MAX_CONTROLLED_MEMORY",
        BigIntUnsigned,
        "The part of MAX_TOTAL_MEMORY that MySQL's connection_memory_limit controls, in bytes; 0 on MariaDB, which has no such limit.",
        |row| row.counters.max_controlled_memory.into(),
    ),
    column(
        "MAX_TOTAL_MEMORY",
        BigIntUnsigned,
        "The most memory its connection had while the statement ran, in bytes; 0 until it has ended. For a statement in a stored \
         program: by how much that exceeds the memory at its beginning. Memory without an instrument, such as sort buffers, is \
         not included.",
        |row| row.counters.max_total_memory.into(),
    ),
    nullable("EXECUTION_ENGINE", ENGINES, "Always PRIMARY: there is no other.", |_| "PRIMARY".into()),
];

const STATEMENT_COUNTERS: &[ColumnDef<StatementRow>] = counter_columns!("", row => row.counters);

const STATEMENT_NESTING_LEVEL: &[ColumnDef<StatementRow>] =
    &[nullable("NESTING_EVENT_LEVEL", Int, "Depth of nested statements; 0 at top level.", |row| {
        Value::Signed(row.nesting_level.into())
    })];

const TRANSACTION_IDENTITY: &[ColumnDef<TransactionRow>] = &[
    nullable("STATE", Enum(&["ACTIVE", "COMMITTED", "ROLLED BACK"]), "State of the transaction.", |row| {
        match row.state {
            TransactionState::Active => "ACTIVE",
            TransactionState::Committed => "COMMITTED",
            TransactionState::RolledBack => "ROLLED BACK",
        }
        .into()
    }),
    nullable("TRX_ID", BigIntUnsigned, "The storage engine's transaction id; NULL until assigned.", |row| {
        row.trx_id.into()
    }),
    nullable("GTID", VarChar(64), "Global transaction id.", |row| row.gtid.as_ref().into()),
    nullable("XID_FORMAT_ID", Int, "Format part of the XA identifier; NULL without XA.", |row| {
        row.xid_format_id.into()
    }),
    nullable("XID_GTRID", VarChar(130), "Global part of the XA identifier; NULL without XA.", |row| {
        row.xid_gtrid.as_ref().into()
    }),
    nullable("XID_BQUAL", VarChar(130), "Branch part of the XA identifier; NULL without XA.", |row| {
        row.xid_bqual.as_ref().into()
    }),
    nullable("XA_STATE", VarChar(64), "State of the XA transaction; NULL without XA.", |row| {
        row.xa_state.into()
    }),
];

const TRANSACTION_MODE: &[ColumnDef<TransactionRow>] = &[
    nullable(
        "ACCESS_MODE",
        Enum(&["READ ONLY", "READ WRITE"]),
        "Whether the transaction may write.",
        |row| if row.read_only { "READ ONLY" } else { "READ WRITE" }.into(),
    ),
    nullable("ISOLATION_LEVEL", VarChar(64), "Isolation level of the transaction.", |row| {
        row.isolation_level.into()
    }),
    column("AUTOCOMMIT", YES_NO, "Whether autocommit was on when it began.", |row| yes_no(row.autocommit)),
    nullable("NUMBER_OF_SAVEPOINTS", BigIntUnsigned, "SAVEPOINT statements executed.", |row| {
        row.savepoints.into()
    }),
    nullable(
        "NUMBER_OF_ROLLBACK_TO_SAVEPOINT",
        BigIntUnsigned,
        "ROLLBACK TO SAVEPOINT statements executed.",
        |row| row.rollback_to_savepoint.into(),
    ),
    nullable(
        "NUMBER_OF_RELEASE_SAVEPOINT",
        BigIntUnsigned,
        "RELEASE SAVEPOINT statements executed.",
        |row| row.release_savepoint.into(),
    ),
    nullable("OBJECT_INSTANCE_BEGIN", BigIntUnsigned, "Always NULL, as in MariaDB's own.", |_| Value::Null),
];
