//! `threads`, `accounts`, `users` and `hosts` as the server has them, to read.

use std::ops::ControlFlow;

use tare_engine::Engine;
use tare_tables::{Column, Query, RowSink, SqlType, Table, Value};

use super::setup::{YES_NO, column, nullable, yes_no};
use crate::server::parties::{self, Level, PartyRow};
use crate::server::presence::while_there;
use crate::server::sessions::{self, SessionRow};

pub(super) const NUMBER: SqlType = SqlType::BigIntUnsigned;

/// A column of `threads`, and how its value is made.
type ThreadColumn = (Column, fn(&SessionRow) -> Value<'_>);

/// The columns of `threads`.
const THREAD: [ThreadColumn; 24] = [
    (column("THREAD_ID", NUMBER, "Number of the thread, unique while the server runs."), |row| {
        row.thread_id.into()
    }),
    (column("NAME", SqlType::VarChar(128), "Name of the thread's instrument."), |row| {
        row.name.as_str().into()
    }),
    (column("TYPE", SqlType::VarChar(10), "FOREGROUND for a connection, else BACKGROUND."), |row| {
        if row.processlist_id == 0 { "BACKGROUND" } else { "FOREGROUND" }.into()
    }),
    (nullable("PROCESSLIST_ID", NUMBER, "Number of the connection; NULL in the background."), |row| {
        some(row.processlist_id)
    }),
    (nullable("PROCESSLIST_USER", SqlType::VarChar(32), "User of the connection."), |row| text(&row.user)),
    (nullable("PROCESSLIST_HOST", SqlType::VarChar(255), "Host the connection comes from."), |row| {
        text(&row.host)
    }),
    (nullable("PROCESSLIST_DB", SqlType::VarChar(64), "Default schema; NULL without one."), |row| {
        text(&row.schema)
    }),
    (nullable("PROCESSLIST_COMMAND", SqlType::VarChar(16), "Command in progress, such as Query."), |row| {
        row.command.map_or(Value::Null, Into::into)
    }),
    (nullable("PROCESSLIST_TIME", SqlType::BigInt, "Seconds in the present state."), |row| {
        row.time.map_or(Value::Null, |time| time.cast_signed().into())
    }),
    (nullable("PROCESSLIST_STATE", SqlType::VarChar(64), "What the thread is doing: its stage."), |row| {
        text(&row.state)
    }),
    (
        nullable("PROCESSLIST_INFO", SqlType::LongText, "Statement in progress, its first 1,024 bytes."),
        |row| text(&row.info),
    ),
    (nullable("PARENT_THREAD_ID", NUMBER, "Thread that started this one."), |row| some(row.parent)),
    (nullable("ROLE", SqlType::VarChar(64), "Always NULL, as in the server's own."), |_| Value::Null),
    (column("INSTRUMENTED", YES_NO, "Whether the thread's events are recorded."), |row| {
        yes_no(row.is_instrumented)
    }),
    (column("HISTORY", YES_NO, "Whether they go to the histories, too."), |row| yes_no(row.has_history)),
    (nullable("CONNECTION_TYPE", SqlType::VarChar(16), "TCP/IP, SSL/TLS, Socket or another."), |row| {
        row.connection.map_or(Value::Null, Into::into)
    }),
    (nullable("THREAD_OS_ID", NUMBER, "The operating system's number of the thread."), |row| some(row.os_id)),
    (nullable("RESOURCE_GROUP", SqlType::VarChar(64), "Resource group of the thread."), |row| {
        text(&row.group)
    }),
    (nullable("EXECUTION_ENGINE", ENGINES, "SECONDARY while a secondary engine executes."), |row| {
        if row.is_secondary { "SECONDARY" } else { "PRIMARY" }.into()
    }),
    (column("CONTROLLED_MEMORY", NUMBER, "Bytes that count for limits of memory."), |row| {
        row.memory[0].into()
    }),
    (column("MAX_CONTROLLED_MEMORY", NUMBER, "The most of these at any moment."), |row| row.memory[1].into()),
    (column("TOTAL_MEMORY", NUMBER, "Bytes that the thread has allocated and not yet freed."), |row| {
        row.memory[2].into()
    }),
    (column("MAX_TOTAL_MEMORY", NUMBER, "The most of these at any moment."), |row| row.memory[3].into()),
    (column("TELEMETRY_ACTIVE", YES_NO, "Whether a telemetry component follows the thread."), |row| {
        yes_no(row.has_telemetry)
    }),
];

const ENGINES: SqlType = SqlType::Enum(&["PRIMARY", "SECONDARY"]);

pub(super) fn text(text: &Option<String>) -> Value<'_> {
    text.as_deref().map_or(Value::Null, Into::into)
}

/// Returns a number; NULL for 0.
pub(super) fn some(number: u64) -> Value<'static> {
    if number == 0 { Value::Null } else { number.into() }
}

/// The tables of sessions, and of their locks.
pub(super) static TABLES: [&dyn Table; 5] = [
    &super::locks::MetadataLocks,
    &Threads,
    &Parties(Level::Account),
    &Parties(Level::User),
    &Parties(Level::Host),
];

/// The table `threads`.
struct Threads;

impl Table for Threads {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn doc(&self) -> &'static str {
        "The server's threads: background threads and those of connections. An UPDATE is for the server's own table."
    }

    fn columns(&self) -> &[Column] {
        const {
            let mut columns = [THREAD[0].0; THREAD.len()];
            let mut at = 1;
            while at < columns.len() {
                columns[at] = THREAD[at].0;
                at += 1;
            }
            &{ columns }
        }
    }

    fn scan(&self, _: &Engine, _: &Query<'_>, sink: RowSink<'_>) {
        let rows = while_there(sessions::all).unwrap_or_default();
        let mut put = |row: &SessionRow| -> ControlFlow<()> {
            sink(&THREAD.iter().map(|(_, value)| value(row)).collect::<Vec<Value<'_>>>())
        };
        let _ended = rows.iter().try_for_each(&mut put);
    }
}

const USER: Column = nullable("USER", SqlType::Char(32), "User; NULL for the server's own threads.");
const HOST: Column = nullable("HOST", SqlType::Char(255), "Host; NULL for the server's own threads.");
const COUNTS: [Column; 4] = [
    column("CURRENT_CONNECTIONS", SqlType::BigInt, "How many are open now."),
    column("TOTAL_CONNECTIONS", SqlType::BigInt, "How many are open now or were since the last TRUNCATE."),
    column("MAX_SESSION_CONTROLLED_MEMORY", NUMBER, "The most bytes of one that count for limits of memory."),
    column("MAX_SESSION_TOTAL_MEMORY", NUMBER, "The most bytes that one of them had."),
];

/// One of the tables `accounts`, `users` and `hosts`.
struct Parties(Level);

impl Table for Parties {
    fn name(&self) -> &'static str {
        match self.0 {
            Level::Account => "accounts",
            Level::User => "users",
            Level::Host => "hosts",
        }
    }

    fn doc(&self) -> &'static str {
        match self.0 {
            Level::Account => "Accounts that have connected: pairs of user and host.",
            Level::User => "Users that have connected, from whatever host.",
            Level::Host => "Hosts that clients have connected from.",
        }
    }

    fn columns(&self) -> &[Column] {
        const OF: [Column; 6] = [USER, HOST, COUNTS[0], COUNTS[1], COUNTS[2], COUNTS[3]];
        const OF_USERS: [Column; 5] = [USER, COUNTS[0], COUNTS[1], COUNTS[2], COUNTS[3]];
        match self.0 {
            Level::Account => &OF,
            Level::User => &OF_USERS,
            Level::Host => OF.split_first().map_or(&[], |(_, of_hosts)| of_hosts),
        }
    }

    fn scan(&self, _: &Engine, _: &Query<'_>, sink: RowSink<'_>) {
        let rows = while_there(|| parties::all(self.0)).unwrap_or_default();
        let values = |row: &PartyRow| -> Vec<Value<'static>> {
            let name = |name: &Option<String>| name.clone().map_or(Value::Null, Into::into);
            let names = match self.0 {
                Level::Account => vec![name(&row.user), name(&row.host)],
                Level::User => vec![name(&row.user)],
                Level::Host => vec![name(&row.host)],
            };
            let counts = [row.current, row.total].map(|count| count.cast_signed().into());
            names.into_iter().chain(counts).chain(row.memory.map(Into::into)).collect()
        };
        let _ended = rows.iter().try_for_each(|row| sink(&values(row)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_the_servers() {
        for table in TABLES {
            let facts = |columns: &[Column]| -> Vec<_> {
                columns.iter().map(|it| (it.name, it.sql_type, it.nullable)).collect()
            };
            let declared = tare_tables::mysql::columns(table.name());
            assert_eq!(facts(table.columns()), facts(declared), "{}", table.name());
        }
    }
}
