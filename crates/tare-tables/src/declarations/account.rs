//! Accounts, users and hosts that connect, and the connection attributes of clients.

use tare_engine::snapshot::{AttributeRow, ConnectionsRow, Grouping, Reset, ThreadKey};

use super::shared::NO_CONTROLLED_MEMORY;
use crate::framework::column::{ColumnDef, column, nullable};
use crate::framework::definition::TableDef;
use crate::table::SqlType::{BigInt, BigIntUnsigned, Char, Int, VarChar};
use crate::table::Value;

/// Declares the tables of connections, one per level.
macro_rules! connection_tables {
    ($($table:ident, $level:ident, $name:literal, $doc:literal, $columns:expr, $index:expr;)*) => {
        $(
            #[doc = concat!("`", $name, "`")]
            pub static $table: TableDef<ConnectionsRow> = TableDef::new(
                $name,
                concat!(
                    $doc,
                    " TRUNCATE removes rows without a connection and resets the others. It also resets the summaries \
     by thread and by account; TRUNCATE of users those by user, too, and TRUNCATE of hosts those by host."
                ),
                $columns,
                |engine, _, emit| {
                    let _ = engine.connections(Grouping::$level).iter().try_for_each(emit);
                },
            )
            .extended(&[MEMORY])
            .indexed($index)
            .truncated(Reset::Connections(Grouping::$level));
        )*
    };
}

connection_tables! {
    ACCOUNTS, Account, "accounts", "Accounts that have connected: pairs of user and host.",
        &[USER, HOST, CONNECTIONS], &[&["USER", "HOST"]];
    USERS, User, "users", "Users that have connected, from whatever host.", &[USER, CONNECTIONS], &[&["USER"]];
    HOSTS, Host, "hosts", "Hosts that clients have connected from.", &[HOST, CONNECTIONS], &[&["HOST"]];
}

const USER: &[ColumnDef<ConnectionsRow>] = &[nullable(
    "USER",
    Char(128),
    "User name that the client gave; NULL for background threads and for connections that were refused.",
    |row| row.owner.user.as_ref().into(),
)];

const HOST: &[ColumnDef<ConnectionsRow>] = &[nullable(
    "HOST",
    Char(255),
    "Host the clients come from; NULL for background threads and for connections that were refused.",
    |row| row.owner.host.as_ref().into(),
)];

const CONNECTIONS: &[ColumnDef<ConnectionsRow>] = &[
    column("CURRENT_CONNECTIONS", BigInt, "How many are open now.", |row| row.current.cast_signed().into()),
    column("TOTAL_CONNECTIONS", BigInt, "How many are open now or were since the last TRUNCATE.", |row| {
        row.total.cast_signed().into()
    }),
];

const MEMORY: &[ColumnDef<ConnectionsRow>] = &[
    column("MAX_SESSION_CONTROLLED_MEMORY", BigIntUnsigned, NO_CONTROLLED_MEMORY, |_| 0u64.into()),
    column(
        "MAX_SESSION_TOTAL_MEMORY",
        BigIntUnsigned,
        "The most memory that one of the connections had, in bytes, since the last TRUNCATE.",
        |row| row.max_session_memory.into(),
    ),
];

/// The table `session_connect_attrs`.
pub static CONNECT_ATTRIBUTES: TableDef<AttributeRow> = TableDef::new(
    "session_connect_attrs",
    "The connection attributes that the clients of all connections sent when they connected. Attributes that did not \
     fit are left out; session_connect_attrs_lost in tare_status counts the connections concerned.",
    &[ATTRIBUTE],
    |engine, _, emit| {
        let _ = engine.connect_attributes().iter().try_for_each(emit);
    },
)
.found(&[("PROCESSLIST_ID", |engine, id, _, emit| {
    let _ = engine.connect_attributes_of(ThreadKey::Connection(id)).iter().try_for_each(emit);
})])
.indexed(&[&["PROCESSLIST_ID", "ATTR_NAME"]]);

const ATTRIBUTE: &[ColumnDef<AttributeRow>] = &[
    column("PROCESSLIST_ID", Int, "Number of the connection.", |row| {
        Value::Signed(row.processlist_id.cast_signed())
    }),
    column("ATTR_NAME", VarChar(32), "Name of the attribute.", |row| row.name.clone().into()),
    nullable("ATTR_VALUE", VarChar(1024), "Value that the client sent.", |row| row.value.clone().into()),
    nullable("ORDINAL_POSITION", Int, "Position among the attributes of the connection, from 0.", |row| {
        Value::Signed(row.ordinal.into())
    }),
];
