//! The server's cache of host names.

use tare_engine::CachedHost;

use crate::framework::column::{ColumnDef, column, nullable, signed, unknown};
use crate::framework::definition::TableDef;
use crate::table::SqlType::{BigInt, Enum, Timestamp, VarChar};
use crate::table::Value;

/// The table `host_cache`.
pub static HOST_CACHE: TableDef<CachedHost> = TableDef::new(
    "host_cache",
    "Addresses clients have connected from, as the server remembers them, with their names and errors. TRUNCATE is refused: \
     FLUSH HOSTS empties the cache.",
    &[ADDRESS, COUNTED, TIMES],
    |engine, _, emit| {
        let _ = engine.cached_hosts().iter().try_for_each(emit);
    },
)
.extended(&[&[unknown("COUNT_ACCOUNT_LOCKED_ERRORS"), unknown("COUNT_TEMPORARY_ACCOUNT_LOCKED_ERRORS")]]);

const ADDRESS: &[ColumnDef<CachedHost>] = &[
    column("IP", VarChar(64), "Address of the client.", |row| (&row.ip).into()),
    nullable("HOST", VarChar(255), "Name its address resolves to.", |row| row.host.as_ref().into()),
    column(
        "HOST_VALIDATED",
        Enum(&["YES", "NO"]),
        "Whether the name was resolved back to the address.",
        |row| if row.validated { "YES".into() } else { "NO".into() },
    ),
];

/// Declares the columns of errors from the host's counters, by position.
macro_rules! errors {
    ($($at:literal $name:literal, $doc:literal;)*) => {
        &[$(column($name, BigInt, $doc, |row| signed(row.errors[$at]))),*]
    };
}

const COUNTED: &[ColumnDef<CachedHost>] = errors! {
    0 "SUM_CONNECT_ERRORS", "Errors that count towards max_connect_errors.";
    1 "COUNT_HOST_BLOCKED_ERRORS", "Connections refused because the client was blocked.";
    2 "COUNT_NAMEINFO_TRANSIENT_ERRORS", "Temporary failures to resolve the address.";
    3 "COUNT_NAMEINFO_PERMANENT_ERRORS", "Permanent failures to resolve the address.";
    4 "COUNT_FORMAT_ERRORS", "Names that look like an address.";
    5 "COUNT_ADDRINFO_TRANSIENT_ERRORS", "Temporary failures to resolve the name.";
    6 "COUNT_ADDRINFO_PERMANENT_ERRORS", "Permanent failures to resolve the name.";
    7 "COUNT_FCRDNS_ERRORS", "Names whose addresses do not include the client's.";
    8 "COUNT_HOST_ACL_ERRORS", "Connections refused because no account allows the client.";
    9 "COUNT_NO_AUTH_PLUGIN_ERRORS", "Connections that asked for an unknown plugin.";
    10 "COUNT_AUTH_PLUGIN_ERRORS", "Failures reported by authentication plugins.";
    11 "COUNT_HANDSHAKE_ERRORS", "Faults in the protocol while connecting.";
    12 "COUNT_PROXY_USER_ERRORS", "Proxied users that do not exist.";
    13 "COUNT_PROXY_USER_ACL_ERRORS", "Proxied users without the PROXY privilege.";
    14 "COUNT_AUTHENTICATION_ERRORS", "Failed authentications.";
    15 "COUNT_SSL_ERRORS", "Failures of TLS.";
    16 "COUNT_MAX_USER_CONNECTIONS_ERRORS", "Connections beyond a user's limit.";
    17 "COUNT_MAX_USER_CONNECTIONS_PER_HOUR_ERRORS", "Connections beyond an hourly limit.";
    18 "COUNT_DEFAULT_DATABASE_ERRORS", "Default schemas that do not exist or are denied.";
    19 "COUNT_INIT_CONNECT_ERRORS", "Failures of the statement in init_connect.";
    20 "COUNT_LOCAL_ERRORS", "Errors of the server itself, such as lack of memory.";
};

const TIMES: &[ColumnDef<CachedHost>] = &[
    column("COUNT_UNKNOWN_ERRORS", BigInt, "Errors of any further kind: there are none.", |_| {
        Value::Signed(0)
    }),
    column("FIRST_SEEN", Timestamp, "When it first tried to connect.", |row| {
        Value::Timestamp(row.seen_us[0])
    }),
    column("LAST_SEEN", Timestamp, "When it last tried to connect.", |row| Value::Timestamp(row.seen_us[1])),
    nullable("FIRST_ERROR_SEEN", Timestamp, "When its first error happened.", |row| {
        when(row.error_seen_us[0])
    }),
    nullable("LAST_ERROR_SEEN", Timestamp, "When its last error happened.", |row| when(row.error_seen_us[1])),
];

/// Returns a time, or NULL for 0.
fn when(us: u64) -> Value<'static> {
    if us == 0 { Value::Null } else { Value::Timestamp(us) }
}
