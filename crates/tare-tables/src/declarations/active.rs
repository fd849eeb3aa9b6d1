//! The active session history: the table `tare_active_session_history`.

use tare_engine::snapshot::{ActiveRow, Reset, SessionState, WaitClass};

use crate::framework::column::{ColumnDef, column, nullable, number};
use crate::framework::definition::TableDef;
use crate::table::SqlType::{BigIntUnsigned, Enum, TimestampMicros, VarChar};
use crate::table::Value;

/// The table `tare_active_session_history`.
pub static HISTORY: TableDef<ActiveRow> = TableDef::new(
    "tare_active_session_history",
    "Only tare has this table: what sessions were doing. Every `ash_interval` (tare_status; one second by \
     default) a row is added of each session that is not idle and of each background thread that is not asleep. They are \
     kept until the memory of the option `ash-memory` is full, then the oldest are overwritten. It has digests, but \
     no texts of statements. Ages are in microseconds.",
    &[SAMPLE, SESSION, STATEMENT, WAIT, BLOCKER, TRANSACTION],
    |engine, parts, emit| engine.active_history(None, parts, emit),
)
.found(&[("THREAD_ID", |engine, thread, parts, emit| engine.active_history(Some(thread), parts, emit))])
.indexed(&[&["SAMPLE_TIME"], &["THREAD_ID", "SAMPLE_TIME"], &["PROCESSLIST_ID", "SAMPLE_TIME"]])
.truncated(Reset::ActiveHistory);

const SAMPLE: &[ColumnDef<ActiveRow>] = &[
    column(
        "SAMPLE_TIME",
        TimestampMicros,
        "When the sample was taken; the same for all of its rows.",
        |row| Value::Timestamp(row.time_us),
    ),
    number(
        "USECS_PER_ROW",
        BigIntUnsigned,
        "Microseconds that the row stands for, which is the time since the sample before. Summed over rows it is the \
     time that sessions spent.",
        |row| row.row_us,
    ),
];

const SESSION: &[ColumnDef<ActiveRow>] = &[
    number("THREAD_ID", BigIntUnsigned, "Thread that was sampled.", |row| row.thread_id),
    nullable("PROCESSLIST_ID", BigIntUnsigned, "Number of its connection; NULL in the background.", |row| {
        row.processlist_id.into()
    }),
    column("THREAD_NAME", VarChar(128), "Instrument of the thread, which is NAME in threads.", |row| {
        row.thread_name.into()
    }),
    nullable("USER", VarChar(128), "User of the connection.", |row: &ActiveRow| row.user.as_deref().into())
        .of(ActiveRow::NAMES),
    nullable("HOST", VarChar(255), "Host the connection came from.", |row: &ActiveRow| {
        row.host.as_deref().into()
    })
    .of(ActiveRow::NAMES),
];

const STATEMENT: &[ColumnDef<ActiveRow>] = &[
    nullable(
        "SCHEMA_NAME",
        VarChar(64),
        "Default schema of the statement, as in events_statements_summary_by_digest.",
        |row: &ActiveRow| row.schema.as_deref().into(),
    )
    .of(ActiveRow::NAMES),
    nullable(
        "DIGEST",
        // MySQL's are twice as long as MariaDB's.
        VarChar(64),
        "Hash of the normalised statement, as in events_statements_summary_by_digest. Within a stored program it is \
     that of the statement in progress; NULL until it is parsed.",
        |row: &ActiveRow| row.digest.as_deref().into(),
    )
    .of(ActiveRow::NAMES),
    nullable(
        "STATEMENT_EVENT_ID",
        BigIntUnsigned,
        "EVENT_ID of the innermost statement in progress; NULL where statements are not instrumented.",
        |row| row.event_id.into(),
    ),
    nullable("STATEMENT_AGE", BigIntUnsigned, "Microseconds since that statement began.", |row| {
        row.statement_us.into()
    }),
    nullable("STAGE", VarChar(128), "Stage the thread was in, as EVENT_NAME in events_stages_current.", |row| row.stage.into()),
];

const STATES: &[&str] = &{
    let (mut names, mut at) = ([""; SessionState::ALL.len()], 0);
    while at < names.len() {
        names[at] = SessionState::ALL[at].name();
        at += 1;
    }
    names
};

const CLASSES: &[&str] = &{
    let (mut names, mut at) = ([""; WaitClass::ALL.len()], 0);
    while at < names.len() {
        names[at] = WaitClass::ALL[at].name();
        at += 1;
    }
    names
};

const WAIT: &[ColumnDef<ActiveRow>] = &[
    column(
        "STATE",
        Enum(STATES),
        "ON CPU: it ran. RUNNABLE: it could run and no processor was free. WAITING: for what WAIT_CLASS says.",
        |row| row.state.name().into(),
    ),
    column(
        "WAIT_CLASS",
        Enum(CLASSES),
        "What its time went to. CPU: it ran or could run; MUTEX: also rwlocks; OTHER: it waited for something that has no \
         instrument, or whose instrument is off.",
        |row| row.class.name().into(),
    ),
    nullable(
        "WAIT_EVENT",
        VarChar(128),
        "Instrument of the wait. `wait/lock/row/handler` is a lock of the storage engine's, on a row or a table. NULL: \
     it did not wait, or for what is unknown.",
        |row| row.wait.into(),
    ),
    nullable(
        "OPERATION",
        VarChar(32),
        "What the thread was about to do with the object, as in events_waits_current.",
        |row| row.operation.into(),
    ),
    nullable(
        "OBJECT_TYPE",
        VarChar(64),
        "Type of what was waited for, as in events_waits_current.",
        |row: &ActiveRow| row.object[0].as_deref().into(),
    )
    .of(ActiveRow::NAMES),
    nullable("OBJECT_SCHEMA", VarChar(64), "Schema of what was waited for.", |row: &ActiveRow| {
        row.object[1].as_deref().into()
    })
    .of(ActiveRow::NAMES),
    nullable("OBJECT_NAME", VarChar(512), "Name of what was waited for.", |row: &ActiveRow| {
        row.object[2].as_deref().into()
    })
    .of(ActiveRow::NAMES),
    nullable("INDEX_NAME", VarChar(64), "Index through which the row was looked up.", |row: &ActiveRow| {
        row.object[3].as_deref().into()
    })
    .of(ActiveRow::NAMES),
    nullable("WAIT_AGE", BigIntUnsigned, "Microseconds since the wait began; NULL: unknown.", |row| {
        row.wait_us.into()
    }),
];

const BLOCKER: &[ColumnDef<ActiveRow>] = &[
    nullable(
        "BLOCKING_THREAD_ID",
        BigIntUnsigned,
        "Thread that had what was waited for, or was to get it first: a row, metadata or user lock, or a mutex. If \
     there are several, one of them; NULL: none, or unknown.",
        |row| row.blocking_thread_id.into(),
    ),
    nullable("BLOCKING_PROCESSLIST_ID", BigIntUnsigned, "Number of that thread's connection.", |row| {
        row.blocking_processlist_id.into()
    }),
];

const TRANSACTION: &[ColumnDef<ActiveRow>] = &[
    nullable(
        "TRX_ID",
        BigIntUnsigned,
        "Number of the transaction in progress, as in events_transactions_current; NULL without one.",
        |row| row.trx_id.into(),
    ),
    nullable("TRX_AGE", BigIntUnsigned, "Microseconds since the transaction began.", |row| row.trx_us.into()),
];
