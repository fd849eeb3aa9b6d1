//! The server's threads.

use tare_engine::Engine;
use tare_engine::snapshot::{PresentTable, ThreadKey, ThreadRow};

use super::shared::{ENGINES, NO_CONTROLLED_MEMORY};
use crate::framework::change::RowChanges;
use crate::framework::column::{ColumnDef, YES_NO, column, nullable, yes_no};
use crate::framework::definition::{Emit, TableDef};
use crate::table::SqlType::{BigInt, BigIntUnsigned, LongText, VarChar};
use crate::table::{TableError, Value};

/// The table `threads`.
pub static THREADS: TableDef<ThreadRow> = TableDef::new(
    "threads",
    "The server's threads: background threads and those of connections. An UPDATE of INSTRUMENTED or HISTORY takes \
     effect at once.",
    &[IDENTITY, CONNECTION, SETUP],
    |engine, _, emit| {
        let _ = engine.threads().iter().try_for_each(emit);
    },
)
.found(&[
    ("THREAD_ID", |engine, id, _, emit| emit_of(engine, ThreadKey::Thread(id), emit)),
    ("PROCESSLIST_ID", |engine, id, _, emit| emit_of(engine, ThreadKey::Connection(id), emit)),
])
.present((PresentTable::Threads, |present| &present.threads))
.indexed(&[
    &["THREAD_ID"],
    &["PROCESSLIST_ID"],
    &["NAME"],
    &["PROCESSLIST_USER", "PROCESSLIST_HOST"],
    &["PROCESSLIST_HOST"],
    &["THREAD_OS_ID"],
])
.extended(&[FURTHER])
.updated(&["INSTRUMENTED", "HISTORY"], update_thread);

/// The table `processlist`.
pub static PROCESSLIST: TableDef<ThreadRow> = TableDef::new(
    "processlist",
    "What each connection, and each of the server's own threads that SHOW PROCESSLIST lists, is doing, in the \
     columns of MySQL 8. HOST has no port. An account that may read the table sees all rows.",
    &[PROCESS],
    |engine, _, emit| emit_listed(&engine.threads(), None, emit),
)
.found(&[("ID", |engine, id, _, emit| {
    let connected = engine.threads_of(ThreadKey::Connection(id));
    // The engine stores 0 for all others, so listed ones must be searched among all.
    let is_connected = connected.iter().any(|row| row.listed_id == Some(id));
    emit_listed(&if is_connected { connected } else { engine.threads() }, Some(id), emit);
})])
.indexed(&[&["ID"]]);

const PROCESS: &[ColumnDef<ThreadRow>] = &[
    column("ID", BigIntUnsigned, "Number of the connection.", |row| row.listed_id.unwrap_or_default().into()),
    nullable("USER", VarChar(128), "User of the connection.", |row| row.user.as_ref().into()),
    nullable("HOST", VarChar(261), "Host the connection comes from.", |row| row.host.as_ref().into()),
    nullable("DB", VarChar(64), "Default schema; NULL without one.", |row| row.db.as_ref().into()),
    nullable("COMMAND", VarChar(16), "Command in progress, such as Query or Sleep.", |row| {
        row.command.into()
    }),
    nullable("TIME", BigInt, "Seconds since the thread entered its present state.", |row| row.time_s.into()),
    nullable("STATE", VarChar(64), "What the thread is doing: its stage.", |row| row.state.as_ref().into()),
    nullable("INFO", LongText, "Statement in progress; NULL when there is none.", |row| {
        row.info.as_ref().into()
    }),
    nullable("EXECUTION_ENGINE", ENGINES, "Always PRIMARY: there is no other.", |_| "PRIMARY".into()),
];

fn emit_of(engine: &Engine, key: ThreadKey, emit: Emit<'_, ThreadRow>) {
    let _ = engine.threads_of(key).iter().try_for_each(emit);
}

/// Emits the threads with a number in the host's list, or the one with this number.
fn emit_listed(threads: &[ThreadRow], number: Option<u64>, emit: Emit<'_, ThreadRow>) {
    let is_it = |listed: u64| number.is_none_or(|number| number == listed);
    let _ = threads.iter().filter(|row| row.listed_id.is_some_and(is_it)).try_for_each(emit);
}

fn update_thread(engine: &Engine, changes: &RowChanges<'_>) -> Result<bool, TableError> {
    let instrumented = changes.flag("INSTRUMENTED")?;
    let history = changes.flag("HISTORY")?;
    let Some(Value::Unsigned(thread_id)) = changes.held("THREAD_ID") else { return Ok(false) };
    Ok(engine.set_thread(*thread_id, instrumented, history))
}

const IDENTITY: &[ColumnDef<ThreadRow>] = &[
    column("THREAD_ID", BigIntUnsigned, "Number of the thread, unique while the server runs.", |row| {
        row.thread_id.into()
    }),
    column("NAME", VarChar(128), "Name of the thread's instrument.", |row| row.name.into()),
    column("TYPE", VarChar(10), "FOREGROUND for a connection, else BACKGROUND.", |row| {
        if row.foreground { "FOREGROUND" } else { "BACKGROUND" }.into()
    }),
];

const CONNECTION: &[ColumnDef<ThreadRow>] = &[
    nullable("PROCESSLIST_ID", BigIntUnsigned, "Number of the connection; NULL in the background.", |row| {
        row.processlist_id.into()
    }),
    nullable("PROCESSLIST_USER", VarChar(128), "User of the connection.", |row| row.user.as_ref().into()),
    nullable("PROCESSLIST_HOST", VarChar(255), "Host the connection comes from.", |row| {
        row.host.as_ref().into()
    }),
    nullable("PROCESSLIST_DB", VarChar(64), "Default schema; NULL without one.", |row| {
        row.db.as_ref().into()
    }),
    nullable("PROCESSLIST_COMMAND", VarChar(16), "Command in progress, such as Query or Sleep.", |row| {
        row.command.into()
    }),
    nullable("PROCESSLIST_TIME", BigInt, "Seconds since the thread entered its present state.", |row| {
        row.time_s.into()
    }),
    nullable("PROCESSLIST_STATE", VarChar(64), "What the thread is doing: its stage.", |row| {
        row.state.as_ref().into()
    }),
    nullable("PROCESSLIST_INFO", LongText, "Statement in progress; NULL when there is none.", |row| {
        row.info.as_ref().into()
    }),
];

const SETUP: &[ColumnDef<ThreadRow>] = &[
    nullable("PARENT_THREAD_ID", BigIntUnsigned, "Thread that started this one.", |row| {
        row.parent_thread_id.into()
    }),
    nullable("ROLE", VarChar(64), "Always NULL, as in MariaDB's own.", |_| Value::Null),
    column("INSTRUMENTED", YES_NO, "Whether the thread's events are recorded. May be updated.", |row| {
        yes_no(row.instrumented)
    }),
    column("HISTORY", YES_NO, "Whether they go to the histories too. May be updated.", |row| {
        yes_no(row.history)
    }),
    nullable("CONNECTION_TYPE", VarChar(16), "TCP/IP, SSL/TLS, Socket or Named Pipe; else NULL.", |row| {
        row.connection_type.into()
    }),
    nullable("THREAD_OS_ID", BigIntUnsigned, "The operating system's number of the thread.", |row| {
        row.os_id.into()
    }),
];

const FURTHER: &[ColumnDef<ThreadRow>] = &[
    nullable("RESOURCE_GROUP", VarChar(64), "Always NULL: the server has no resource groups.", |_| {
        Value::Null
    }),
    nullable("EXECUTION_ENGINE", ENGINES, "Always PRIMARY: there is no other.", |_| "PRIMARY".into()),
    column("CONTROLLED_MEMORY", BigIntUnsigned, NO_CONTROLLED_MEMORY, |_| 0u64.into()),
    column("MAX_CONTROLLED_MEMORY", BigIntUnsigned, NO_CONTROLLED_MEMORY, |_| 0u64.into()),
    column("TOTAL_MEMORY", BigIntUnsigned, "Bytes that the thread has allocated and not yet freed.", |row| {
        row.total_memory.into()
    }),
    column("MAX_TOTAL_MEMORY", BigIntUnsigned, "The most bytes it had at any moment.", |row| {
        row.max_total_memory.into()
    }),
    column("TELEMETRY_ACTIVE", YES_NO, "Always NO: the server sends no telemetry.", |_| yes_no(false)),
];
