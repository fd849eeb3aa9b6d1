//! What is of the server and not of the instrumentation: views over the server's own tables where it has some,
//! tables without rows where what they show cannot be had without the server's locks.

use crate::column::{ColumnDef, column, nullable};
use crate::definition::TableDef;
use crate::table::SqlType::{
    BigInt, BigIntUnsigned, Char, DoubleUnsigned, Enum, Int, IntUnsigned, LongText, Timestamp,
    VarChar,
};
use crate::view::{ViewDef, expressed, expressed_or_null};

/// A name and a value of the server's table `s`. There all names are in capitals; in the Performance Schema the first
/// letter alone is one, but for those named here.
macro_rules! status_columns {
    ($value:literal) => {
        &[
            expressed(
                "VARIABLE_NAME",
                VarChar(64),
                "Name of the status variable.",
                "ifnull(cast(\
                 if(left(`s`.`VARIABLE_NAME`,5) = 'WSREP' \
                 or `s`.`VARIABLE_NAME` in ('OPTIMIZER_JOIN_PREFIXES_CHECK_CALLS','STACK_USAGE'),\
                 lcase(`s`.`VARIABLE_NAME`),\
                 if(left(`s`.`VARIABLE_NAME`,29) = 'INNODB_BUFFER_POOL_PAGES_LRU_',\
                 concat('Innodb_buffer_pool_pages_LRU_',lcase(substr(`s`.`VARIABLE_NAME`,30))),\
                 concat(left(`s`.`VARIABLE_NAME`,1),lcase(substr(`s`.`VARIABLE_NAME`,2)))))\
                 as char(64) charset utf8mb3) collate utf8mb3_general_ci,'')",
            ),
            expressed_or_null("VARIABLE_VALUE", VarChar(4096), $value, "`s`.`VARIABLE_VALUE`"),
        ]
    };
}

/// The server's table as `s`, on the weak side of a join so that its values may be NULL as in the reference; without
/// the variables the reference leaves out, because tables of its own show them.
macro_rules! status_of {
    ($status:literal, $beside:literal, $condition:literal) => {
        concat!(
            $beside,
            " LEFT JOIN `information_schema`.`",
            $status,
            "` `s` ON 1 WHERE ",
            $condition,
            "left(`s`.`VARIABLE_NAME`,4) <> 'COM_' AND `s`.`VARIABLE_NAME` NOT IN ",
            "('SLAVE_HEARTBEAT_PERIOD','SLAVE_RECEIVED_HEARTBEATS','SLAVE_RETRIED_TRANSACTIONS','SLAVE_RUNNING')"
        )
    };
}

/// `global_status`
pub static GLOBAL_STATUS: ViewDef = ViewDef::new(
    "global_status",
    "The server's status, as information_schema.GLOBAL_STATUS has it. Counters of commands (Com_) and of \
     replicas are left out, as in the reference.",
    &[status_columns!("Its value for the server as a whole.")],
    status_of!("GLOBAL_STATUS", "(SELECT 1) `o`", ""),
);

/// `session_status`
pub static SESSION_STATUS: ViewDef = ViewDef::new(
    "session_status",
    "The status of the asking session, as information_schema.SESSION_STATUS has it. Counters of commands \
     (Com_) and of replicas are left out, as in the reference.",
    &[status_columns!("Its value for the asking session, or for the server where sessions have none.")],
    status_of!("SESSION_STATUS", "(SELECT 1) `o`", ""),
);

/// `session_account_connect_attrs`
pub static SESSION_ACCOUNT_CONNECT_ATTRS: ViewDef = ViewDef::new(
    "session_account_connect_attrs",
    "Connection attributes of the sessions of the asking session's account. Unlike the reference's it asks for \
     SELECT on threads and session_connect_attrs, from which it takes them.",
    &[&[
        expressed("PROCESSLIST_ID", Int, "Number of the connection.", "`a`.`PROCESSLIST_ID`"),
        expressed("ATTR_NAME", VarChar(32), "What the attribute is called.", "`a`.`ATTR_NAME`"),
        expressed_or_null("ATTR_VALUE", VarChar(1024), "What the client gave for it.", "`a`.`ATTR_VALUE`"),
        expressed_or_null(
            "ORDINAL_POSITION",
            Int,
            "Where it stood among those the client sent, from 0.",
            "`a`.`ORDINAL_POSITION`",
        ),
    ]],
    "`performance_schema`.`threads` `o` \
     JOIN `performance_schema`.`threads` `t` ON `t`.`PROCESSLIST_USER` = `o`.`PROCESSLIST_USER` \
     AND `t`.`PROCESSLIST_HOST` <=> `o`.`PROCESSLIST_HOST` \
     JOIN `performance_schema`.`session_connect_attrs` `a` ON `a`.`PROCESSLIST_ID` = `t`.`PROCESSLIST_ID` \
     WHERE `o`.`PROCESSLIST_ID` = connection_id()",
);

/// A row there never is one of.
pub enum NoRow {}

/// Columns of a table without rows.
macro_rules! no_rows {
    ($($make:ident $name:literal $sql_type:expr, $doc:literal;)*) => {
        &[$($make($name, $sql_type, $doc, |row: &NoRow| match *row {})),*]
    };
}

/// A table that is there for those who ask for it, with nothing in it.
const fn empty(
    name: &'static str,
    doc: &'static str,
    columns: &'static [&'static [ColumnDef<NoRow>]],
) -> TableDef<NoRow> {
    TableDef::new(name, doc, columns, |_, _| {})
}

const OF_REPLICAS: &str = "Always empty: the server keeps its replica connections behind a lock. \
     SHOW ALL SLAVES STATUS has them, and from MariaDB 11.6 on information_schema.SLAVE_STATUS.";

/// All of them.
#[cfg(test)]
pub(crate) const EMPTY: &[&TableDef<NoRow>] = &[
    &HOST_CACHE,
    &CONNECTION_CONFIGURATION,
    &APPLIER_CONFIGURATION,
    &APPLIER_STATUS,
    &APPLIER_STATUS_BY_COORDINATOR,
    &APPLIER_STATUS_BY_WORKER,
];

/// `host_cache`
pub static HOST_CACHE: TableDef<NoRow> = empty(
    "host_cache",
    "Always empty: the server keeps its cache of host names behind a lock. TRUNCATE is refused; FLUSH HOSTS \
     empties the cache.",
    &[no_rows! {
        column "IP" VarChar(64), "Address of the client.";
        nullable "HOST" VarChar(255), "Name its address resolves to.";
        column "HOST_VALIDATED" Enum(&["YES", "NO"]), "Whether the name was resolved back to the address.";
        column "SUM_CONNECT_ERRORS" BigInt, "Errors that count towards max_connect_errors.";
        column "COUNT_HOST_BLOCKED_ERRORS" BigInt, "Connections refused because the client was blocked.";
        column "COUNT_NAMEINFO_TRANSIENT_ERRORS" BigInt, "Passing failures to find the name.";
        column "COUNT_NAMEINFO_PERMANENT_ERRORS" BigInt, "Lasting failures to find the name.";
        column "COUNT_FORMAT_ERRORS" BigInt, "Names that look like an address.";
        column "COUNT_ADDRINFO_TRANSIENT_ERRORS" BigInt, "Passing failures to find the name's addresses.";
        column "COUNT_ADDRINFO_PERMANENT_ERRORS" BigInt, "Lasting failures to find the name's addresses.";
        column "COUNT_FCRDNS_ERRORS" BigInt, "Names whose addresses do not hold the client's.";
        column "COUNT_HOST_ACL_ERRORS" BigInt, "Connections refused because no account allows the client.";
        column "COUNT_NO_AUTH_PLUGIN_ERRORS" BigInt, "Connections that asked for an unknown plugin.";
        column "COUNT_AUTH_PLUGIN_ERRORS" BigInt, "Failures reported by authentication plugins.";
        column "COUNT_HANDSHAKE_ERRORS" BigInt, "Faults in the protocol while connecting.";
        column "COUNT_PROXY_USER_ERRORS" BigInt, "Proxied users that do not exist.";
        column "COUNT_PROXY_USER_ACL_ERRORS" BigInt, "Proxied users without the PROXY privilege.";
        column "COUNT_AUTHENTICATION_ERRORS" BigInt, "Failed authentications.";
        column "COUNT_SSL_ERRORS" BigInt, "Failures of TLS.";
        column "COUNT_MAX_USER_CONNECTIONS_ERRORS" BigInt, "Connections beyond a user's limit.";
        column "COUNT_MAX_USER_CONNECTIONS_PER_HOUR_ERRORS" BigInt, "Connections beyond an hourly limit.";
        column "COUNT_DEFAULT_DATABASE_ERRORS" BigInt, "Default schemas that do not exist or are denied.";
        column "COUNT_INIT_CONNECT_ERRORS" BigInt, "Failures of the statement in init_connect.";
        column "COUNT_LOCAL_ERRORS" BigInt, "Errors of the server itself, such as lack of memory.";
        column "COUNT_UNKNOWN_ERRORS" BigInt, "Errors of any further kind.";
        column "FIRST_SEEN" Timestamp, "When it first tried to connect.";
        column "LAST_SEEN" Timestamp, "When it last tried to connect.";
        nullable "FIRST_ERROR_SEEN" Timestamp, "When its first error happened.";
        nullable "LAST_ERROR_SEEN" Timestamp, "When its last error happened.";
    }],
);

const CHANNEL: &[ColumnDef<NoRow>] = no_rows! {
    column "CHANNEL_NAME" VarChar(256), "Name of the connection to the primary.";
};
const ON_OFF: crate::table::SqlType = Enum(&["ON", "OFF"]);

/// `replication_applier_configuration`
pub static APPLIER_CONFIGURATION: TableDef<NoRow> = empty(
    "replication_applier_configuration",
    OF_REPLICAS,
    &[CHANNEL, no_rows! { column "DESIRED_DELAY" Int, "Seconds to stay behind."; }],
);

/// `replication_applier_status`
pub static APPLIER_STATUS: TableDef<NoRow> = empty(
    "replication_applier_status",
    OF_REPLICAS,
    &[
        CHANNEL,
        no_rows! {
            column "SERVICE_STATE" ON_OFF, "Whether the applier runs.";
            nullable "REMAINING_DELAY" IntUnsigned, "Seconds it still waits; NULL when it does not.";
            column "COUNT_TRANSACTIONS_RETRIES" BigIntUnsigned, "How often transactions were tried again.";
        },
    ],
);

/// `replication_applier_status_by_coordinator`
pub static APPLIER_STATUS_BY_COORDINATOR: TableDef<NoRow> = empty(
    "replication_applier_status_by_coordinator",
    OF_REPLICAS,
    &[
        CHANNEL,
        no_rows! {
            nullable "THREAD_ID" BigIntUnsigned, "Thread of the coordinator; NULL when it does not run.";
            column "SERVICE_STATE" ON_OFF, "Whether the coordinator runs.";
            column "LAST_ERROR_NUMBER" Int, "Number of the last error; 0 without one.";
            column "LAST_ERROR_MESSAGE" VarChar(1024), "Text of the last error.";
            column "LAST_ERROR_TIMESTAMP" Timestamp, "When the last error happened.";
            column "LAST_SEEN_TRANSACTION" Char(57), "GTID of the last transaction handed out.";
            column "LAST_TRANS_RETRY_COUNT" Int, "How often the last transaction was tried again.";
        },
    ],
);

/// `replication_applier_status_by_worker`
pub static APPLIER_STATUS_BY_WORKER: TableDef<NoRow> = empty(
    "replication_applier_status_by_worker",
    OF_REPLICAS,
    &[
        CHANNEL,
        no_rows! {
            nullable "THREAD_ID" BigIntUnsigned, "Thread of the worker; NULL when it does not run.";
            column "SERVICE_STATE" ON_OFF, "Whether the worker runs.";
            column "LAST_SEEN_TRANSACTION" Char(57), "GTID of the last transaction it took.";
            column "LAST_ERROR_NUMBER" Int, "Number of the last error; 0 without one.";
            column "LAST_ERROR_MESSAGE" VarChar(1024), "Text of the last error.";
            column "LAST_ERROR_TIMESTAMP" Timestamp, "When the last error happened.";
            column "WORKER_IDLE_TIME" BigIntUnsigned, "Time it had nothing to do, in seconds.";
            column "LAST_TRANS_RETRY_COUNT" Int, "How often its last transaction was tried again.";
        },
    ],
);

/// `replication_connection_configuration`
pub static CONNECTION_CONFIGURATION: TableDef<NoRow> = empty(
    "replication_connection_configuration",
    OF_REPLICAS,
    &[
        CHANNEL,
        no_rows! {
            column "HOST" Char(60), "Where the primary runs.";
            column "PORT" Int, "Where the primary listens.";
            column "USER" Char(32), "User the replica connects as.";
            column "USING_GTID" Enum(&["NO", "CURRENT_POS", "SLAVE_POS"]), "Which GTIDs it starts from.";
            column "SSL_ALLOWED" Enum(&["YES", "NO", "IGNORED"]), "Whether it connects with TLS.";
            column "SSL_CA_FILE" VarChar(512), "File of trusted certificates.";
            column "SSL_CA_PATH" VarChar(512), "Folder of trusted certificates.";
            column "SSL_CERTIFICATE" VarChar(512), "File of the replica's certificate.";
            column "SSL_CIPHER" VarChar(512), "Ciphers it offers.";
            column "SSL_KEY" VarChar(512), "File of the key to its certificate.";
            column "SSL_VERIFY_SERVER_CERTIFICATE" Enum(&["YES", "NO"]), "Whether it checks the primary's name.";
            column "SSL_CRL_FILE" VarChar(255), "File of revoked certificates.";
            column "SSL_CRL_PATH" VarChar(255), "Folder of revoked certificates.";
            column "CONNECTION_RETRY_INTERVAL" Int, "Seconds between attempts to connect.";
            column "CONNECTION_RETRY_COUNT" BigIntUnsigned, "How often it tries to connect.";
            column "HEARTBEAT_INTERVAL" DoubleUnsigned(10, 3), "Seconds between heartbeats.";
            column "IGNORE_SERVER_IDS" LongText, "Servers whose events it passes over.";
            column "REPL_DO_DOMAIN_IDS" LongText, "Domains whose events alone it applies.";
            column "REPL_IGNORE_DOMAIN_IDS" LongText, "Domains whose events it passes over.";
        },
    ],
);
