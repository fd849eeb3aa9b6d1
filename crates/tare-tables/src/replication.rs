//! The server's connections to its primaries, and the threads that apply what comes.

use tare_engine::{ApplierRow, Replica, ReplicaThread, ReplicaWorker};

use crate::column::{ColumnDef, YES_NO, column, nullable, yes_no};
use crate::definition::{Emit, TableDef};
use crate::table::SqlType::{
    BigIntUnsigned, Char, DoubleUnsigned, Enum, Int, IntUnsigned, LongText, Timestamp, VarChar,
};
use crate::table::{SqlType, Value};

/// A connection, and the thread that applies its events.
type ReplicaRow = (Replica, Option<ApplierRow>);
/// A worker and its thread.
type WorkerRow = (ReplicaWorker, Option<ApplierRow>);

const ON_OFF: SqlType = Enum(&["ON", "OFF"]);

fn on_off(on: bool) -> Value {
    if on { "ON".into() } else { "OFF".into() }
}

const CHANNEL: &[ColumnDef<ReplicaRow>] =
    &[column("CHANNEL_NAME", VarChar(256), "Name of the connection to the primary.", |row| {
        (&row.0.name).into()
    })];

fn replicas(engine: &tare_engine::Engine, emit: Emit<'_, ReplicaRow>) {
    let _ = engine.replicas().iter().try_for_each(emit);
}

/// `replication_applier_configuration`
pub static APPLIER_CONFIGURATION: TableDef<ReplicaRow> = TableDef::new(
    "replication_applier_configuration",
    "How what comes from primaries is to be applied.",
    &[CHANNEL, &[column("DESIRED_DELAY", Int, "Seconds to stay behind.", |row| number(row.0.delay))]],
    replicas,
);

/// `replication_applier_status`
pub static APPLIER_STATUS: TableDef<ReplicaRow> = TableDef::new(
    "replication_applier_status",
    "Whether what comes from primaries is applied.",
    &[
        CHANNEL,
        &[
            column("SERVICE_STATE", ON_OFF, "Whether the applier runs.", |row| on_off(row.0.applier.runs)),
            nullable(
                "REMAINING_DELAY",
                IntUnsigned,
                "Seconds it still waits; NULL when it does not.",
                remaining,
            ),
            column(
                "COUNT_TRANSACTIONS_RETRIES",
                BigIntUnsigned,
                "How often transactions were tried again.",
                |row| row.0.retried.into(),
            ),
        ],
    ],
    replicas,
);

/// The stage of an applier that stays behind as it was told.
const DELAYED: &str = "stage/sql/Waiting until MASTER_DELAY seconds after master executed event";

fn remaining((replica, thread): &ReplicaRow) -> Value {
    if thread.is_none_or(|thread| thread.stage != DELAYED) {
        return Value::Null;
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    replica.delayed_until.saturating_sub(now.as_secs()).into()
}

/// `replication_applier_status_by_coordinator`
pub static APPLIER_STATUS_BY_COORDINATOR: TableDef<ReplicaRow> = TableDef::new(
    "replication_applier_status_by_coordinator",
    "The threads that apply what comes from primaries, or hand it out to workers.",
    &[
        CHANNEL,
        &[
            nullable(
                "THREAD_ID",
                BigIntUnsigned,
                "Thread of the coordinator; NULL when it does not run.",
                |row| row.1.map(|thread| thread.thread_id).into(),
            ),
            column("SERVICE_STATE", ON_OFF, "Whether the coordinator runs.", |row| {
                on_off(row.0.applier.runs)
            }),
            column("LAST_ERROR_NUMBER", Int, "Number of the last error; 0 without one.", |row| {
                error_number(&row.0.applier)
            }),
            column("LAST_ERROR_MESSAGE", VarChar(1024), "Text of the last error.", |row| {
                error_text(&row.0.applier)
            }),
            column("LAST_ERROR_TIMESTAMP", Timestamp, "When the last error happened.", |row| {
                error_time(&row.0.applier)
            }),
            column("LAST_SEEN_TRANSACTION", Char(57), "GTID of the last transaction handed out.", |row| {
                (&row.0.applier.seen).into()
            }),
            column("LAST_TRANS_RETRY_COUNT", Int, "How often the last transaction was tried again.", |row| {
                retries(&row.0.applier)
            }),
        ],
    ],
    replicas,
);

/// `replication_applier_status_by_worker`
pub static APPLIER_STATUS_BY_WORKER: TableDef<WorkerRow> = TableDef::new(
    "replication_applier_status_by_worker",
    "The threads that apply transactions at the same time, or those that last did.",
    &[&[
        column("CHANNEL_NAME", VarChar(256), "Name of the connection it works for, or last did.", |row| {
            (&row.0.name).into()
        }),
        nullable("THREAD_ID", BigIntUnsigned, "Thread of the worker; NULL when it does not run.", |row| {
            row.1.map(|thread| thread.thread_id).into()
        }),
        column("SERVICE_STATE", ON_OFF, "Whether the worker runs.", |row| on_off(row.0.thread.runs)),
        column("LAST_SEEN_TRANSACTION", Char(57), "GTID of the last transaction it took.", |row| {
            (&row.0.thread.seen).into()
        }),
        column("LAST_ERROR_NUMBER", Int, "Number of the last error; 0 without one.", |row| {
            error_number(&row.0.thread)
        }),
        column("LAST_ERROR_MESSAGE", VarChar(1024), "Text of the last error.", |row| {
            error_text(&row.0.thread)
        }),
        column("LAST_ERROR_TIMESTAMP", Timestamp, "When the last error happened.", |row| {
            error_time(&row.0.thread)
        }),
        column("WORKER_IDLE_TIME", BigIntUnsigned, "Time it had nothing to do, in seconds.", |row| {
            row.0.idle_s.into()
        }),
        column("LAST_TRANS_RETRY_COUNT", Int, "How often its last transaction was tried again.", |row| {
            retries(&row.0.thread)
        }),
    ]],
    |engine, emit| {
        let _ = engine.replica_workers().iter().try_for_each(emit);
    },
);

/// A number the reference declares signed.
fn number(number: u32) -> Value {
    Value::Signed(number.into())
}

fn error_number(thread: &ReplicaThread) -> Value {
    number(thread.error.as_ref().map_or(0, |error| error.number))
}

fn error_text(thread: &ReplicaThread) -> Value {
    thread.error.as_ref().map_or("".into(), |error| (&error.message).into())
}

fn error_time(thread: &ReplicaThread) -> Value {
    Value::Timestamp(thread.error.as_ref().map_or(0, |error| error.time_us))
}

fn retries(thread: &ReplicaThread) -> Value {
    Value::Signed(i64::try_from(thread.retries).unwrap_or(i64::MAX))
}

/// `replication_connection_configuration`
pub static CONNECTION_CONFIGURATION: TableDef<ReplicaRow> = TableDef::new(
    "replication_connection_configuration",
    "How the server connects to its primaries.",
    &[CHANNEL, CONNECTION, TLS, FILTERS],
    replicas,
);

const CONNECTION: &[ColumnDef<ReplicaRow>] = &[
    column("HOST", Char(60), "Where the primary runs.", |row| (&row.0.host).into()),
    column("PORT", Int, "Where the primary listens.", |row| number(row.0.port)),
    column("USER", Char(32), "User the replica connects as.", |row| (&row.0.user).into()),
    column("USING_GTID", Enum(&["NO", "CURRENT_POS", "SLAVE_POS"]), "Which GTIDs it starts from.", |row| {
        match row.0.gtid {
            0 => "NO".into(),
            1 => "CURRENT_POS".into(),
            _ => "SLAVE_POS".into(),
        }
    }),
];

const TLS: &[ColumnDef<ReplicaRow>] = &[
    column("SSL_ALLOWED", Enum(&["YES", "NO", "IGNORED"]), "Whether it connects with TLS.", |row| {
        yes_no(row.0.ssl)
    }),
    column("SSL_CA_FILE", VarChar(512), "File of trusted certificates.", |row| (&row.0.ssl_texts[0]).into()),
    column("SSL_CA_PATH", VarChar(512), "Folder of trusted certificates.", |row| {
        (&row.0.ssl_texts[1]).into()
    }),
    column("SSL_CERTIFICATE", VarChar(512), "File of the replica's certificate.", |row| {
        (&row.0.ssl_texts[2]).into()
    }),
    column("SSL_CIPHER", VarChar(512), "Ciphers it offers.", |row| (&row.0.ssl_texts[3]).into()),
    column("SSL_KEY", VarChar(512), "File of the key to its certificate.", |row| {
        (&row.0.ssl_texts[4]).into()
    }),
    column("SSL_VERIFY_SERVER_CERTIFICATE", YES_NO, "Whether it checks the primary's name.", |row| {
        yes_no(row.0.ssl_verify)
    }),
    column("SSL_CRL_FILE", VarChar(255), "File of revoked certificates.", |row| (&row.0.ssl_texts[5]).into()),
    column("SSL_CRL_PATH", VarChar(255), "Folder of revoked certificates.", |row| {
        (&row.0.ssl_texts[6]).into()
    }),
];

const FILTERS: &[ColumnDef<ReplicaRow>] = &[
    column("CONNECTION_RETRY_INTERVAL", Int, "Seconds between attempts to connect.", |row| {
        number(row.0.retry_interval)
    }),
    column("CONNECTION_RETRY_COUNT", BigIntUnsigned, "How often it tries to connect.", |row| {
        row.0.retry_count.into()
    }),
    column("HEARTBEAT_INTERVAL", DoubleUnsigned(10, 3), "Seconds between heartbeats.", |row| {
        Value::Double(row.0.heartbeat)
    }),
    column("IGNORE_SERVER_IDS", LongText, "Servers whose events it passes over.", |row| {
        listed(&row.0.ignored_servers)
    }),
    column("REPL_DO_DOMAIN_IDS", LongText, "Domains whose events alone it applies.", |row| {
        listed(&row.0.domains)
    }),
    column("REPL_IGNORE_DOMAIN_IDS", LongText, "Domains whose events it passes over.", |row| {
        listed(&row.0.ignored_domains)
    }),
];

/// Numbers with commas between them.
fn listed(numbers: &[u64]) -> Value {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ").into()
}
