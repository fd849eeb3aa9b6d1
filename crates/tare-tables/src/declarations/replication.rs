//! The server's connections to its primaries, and the threads that apply events.

use tare_engine::snapshot::Parts;
use tare_engine::{ApplierRow, ReplicaRow, ReplicaThread, ReplicaWorker};

use crate::framework::column::{ColumnDef, YES_NO, column, fixed, nullable, unknown, yes_no};
use crate::framework::definition::{Emit, TableDef};
use crate::table::SqlType::{
    BigIntUnsigned, Char, DoubleUnsigned, Enum, Int, IntUnsigned, LongText, Timestamp, VarChar,
};
use crate::table::{SqlType, Value};

/// A worker and its thread.
type WorkerRow = (ReplicaWorker, Option<ApplierRow>);

const ON_OFF: SqlType = Enum(&["ON", "OFF"]);

fn on_off(on: bool) -> Value<'static> {
    if on { "ON".into() } else { "OFF".into() }
}

const CHANNEL: &[ColumnDef<ReplicaRow>] =
    &[column("CHANNEL_NAME", VarChar(256), "Name of the connection to the primary.", |row| {
        (&row.replica.name).into()
    })];

fn replicas(engine: &tare_engine::Engine, _: Parts, emit: Emit<'_, ReplicaRow>) {
    let _ = engine.replicas().iter().try_for_each(emit);
}

/// The table `replication_applier_configuration`.
pub static APPLIER_CONFIGURATION: TableDef<ReplicaRow> = TableDef::new(
    "replication_applier_configuration",
    "How events from primaries are to be applied.",
    &[CHANNEL, &[column("DESIRED_DELAY", Int, "Seconds to stay behind.", |row| number(row.replica.delay))]],
    replicas,
)
.extended(&[&[
    unknown("PRIVILEGE_CHECKS_USER"),
    fixed("REQUIRE_ROW_FORMAT", |_| "NO".into()),
    unknown("REQUIRE_TABLE_PRIMARY_KEY_CHECK"),
    unknown("ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS_TYPE"),
    unknown("ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS_VALUE"),
]]);

/// The table `replication_applier_status`.
pub static APPLIER_STATUS: TableDef<ReplicaRow> = TableDef::new(
    "replication_applier_status",
    "Whether events from primaries are being applied.",
    &[
        CHANNEL,
        &[
            column("SERVICE_STATE", ON_OFF, "Whether the applier runs.", |row| {
                on_off(row.replica.applier.runs)
            }),
            nullable(
                "REMAINING_DELAY",
                IntUnsigned,
                "Seconds it still waits; NULL when it does not.",
                remaining,
            ),
            column(
                "COUNT_TRANSACTIONS_RETRIES",
                BigIntUnsigned,
                "How often transactions were retried.",
                |row| row.replica.retried.into(),
            ),
        ],
    ],
    replicas,
);

/// The stage of an applier that is delayed as configured.
const DELAYED: &str = "stage/sql/Waiting until MASTER_DELAY seconds after master executed event";

fn remaining(row: &ReplicaRow) -> Value<'_> {
    if row.applier.is_none_or(|thread| thread.stage != DELAYED) {
        return Value::Null;
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    row.replica.delayed_until.saturating_sub(now.as_secs()).into()
}

/// The table `replication_applier_status_by_coordinator`.
pub static APPLIER_STATUS_BY_COORDINATOR: TableDef<ReplicaRow> = TableDef::new(
    "replication_applier_status_by_coordinator",
    "The threads that apply events from primaries, or distribute them to workers.",
    &[
        CHANNEL,
        &[
            nullable(
                "THREAD_ID",
                BigIntUnsigned,
                "Thread of the coordinator; NULL when it does not run.",
                |row| row.applier.map(|thread| thread.thread_id).into(),
            ),
            column("SERVICE_STATE", ON_OFF, "Whether the coordinator runs.", |row| {
                on_off(row.replica.applier.runs)
            }),
            column("LAST_ERROR_NUMBER", Int, "Number of the last error; 0 without one.", |row| {
                error_number(&row.replica.applier)
            }),
            column("LAST_ERROR_MESSAGE", VarChar(1024), "Text of the last error.", |row| {
                error_text(&row.replica.applier)
            }),
            column("LAST_ERROR_TIMESTAMP", Timestamp, "When the last error happened.", |row| {
                error_time(&row.replica.applier)
            }),
            column(
                "LAST_SEEN_TRANSACTION",
                Char(57),
                "GTID of the last transaction that was distributed.",
                |row| (&row.replica.applier.seen).into(),
            ),
            column("LAST_TRANS_RETRY_COUNT", Int, "How often the last transaction was retried.", |row| {
                retries(&row.replica.applier)
            }),
        ],
    ],
    replicas,
)
.extended(&[&[
    column(
        "LAST_PROCESSED_TRANSACTION",
        Char(90),
        "GTID of the last transaction that was distributed.",
        |row| (&row.replica.applier.seen).into(),
    ),
    unknown("LAST_PROCESSED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP"),
    unknown("LAST_PROCESSED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP"),
    unknown("LAST_PROCESSED_TRANSACTION_START_BUFFER_TIMESTAMP"),
    unknown("LAST_PROCESSED_TRANSACTION_END_BUFFER_TIMESTAMP"),
    unknown("PROCESSING_TRANSACTION"),
    unknown("PROCESSING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP"),
    unknown("PROCESSING_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP"),
    unknown("PROCESSING_TRANSACTION_START_BUFFER_TIMESTAMP"),
]]);

/// The table `replication_applier_status_by_worker`.
pub static APPLIER_STATUS_BY_WORKER: TableDef<WorkerRow> = TableDef::new(
    "replication_applier_status_by_worker",
    "The worker threads that apply transactions in parallel, or those that did so last.",
    &[&[
        column(
            "CHANNEL_NAME",
            VarChar(256),
            "Name of the connection it works for, or last did.",
            |row: &WorkerRow| (&row.0.name).into(),
        ),
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
        column("LAST_TRANS_RETRY_COUNT", Int, "How often its last transaction was retried.", |row| {
            retries(&row.0.thread)
        }),
    ]],
    |engine, _, emit| {
        let _ = engine.replica_workers().iter().try_for_each(emit);
    },
)
.extended(&[&[
    unknown("WORKER_ID"),
    unknown("LAST_APPLIED_TRANSACTION"),
    unknown("LAST_APPLIED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP"),
    unknown("LAST_APPLIED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP"),
    unknown("LAST_APPLIED_TRANSACTION_START_APPLY_TIMESTAMP"),
    unknown("LAST_APPLIED_TRANSACTION_END_APPLY_TIMESTAMP"),
    unknown("APPLYING_TRANSACTION"),
    unknown("APPLYING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP"),
    unknown("APPLYING_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP"),
    unknown("APPLYING_TRANSACTION_START_APPLY_TIMESTAMP"),
    column(
        "LAST_APPLIED_TRANSACTION_RETRIES_COUNT",
        BigIntUnsigned,
        "How often its last transaction was retried.",
        |row| row.0.thread.retries.into(),
    ),
    unknown("LAST_APPLIED_TRANSACTION_LAST_TRANSIENT_ERROR_NUMBER"),
    unknown("LAST_APPLIED_TRANSACTION_LAST_TRANSIENT_ERROR_MESSAGE"),
    unknown("LAST_APPLIED_TRANSACTION_LAST_TRANSIENT_ERROR_TIMESTAMP"),
    unknown("APPLYING_TRANSACTION_RETRIES_COUNT"),
    unknown("APPLYING_TRANSACTION_LAST_TRANSIENT_ERROR_NUMBER"),
    unknown("APPLYING_TRANSACTION_LAST_TRANSIENT_ERROR_MESSAGE"),
    unknown("APPLYING_TRANSACTION_LAST_TRANSIENT_ERROR_TIMESTAMP"),
]]);

/// The table `replication_connection_status`.
pub static CONNECTION_STATUS: TableDef<ReplicaRow> = TableDef::new(
    "replication_connection_status",
    "Whether events of primaries are being received.",
    &[
        CHANNEL,
        &[
            unknown("GROUP_NAME"),
            unknown("SOURCE_UUID"),
            nullable(
                "THREAD_ID",
                BigIntUnsigned,
                "Thread of the receiver; NULL when it does not run.",
                |row| row.receiver.map(|thread| thread.thread_id).into(),
            ),
            column(
                "SERVICE_STATE",
                Enum(&["ON", "OFF", "CONNECTING"]),
                "Whether the receiver runs.",
                |row| match (row.replica.receiver.runs, row.replica.connected) {
                    (false, _) => "OFF".into(),
                    (true, false) => "CONNECTING".into(),
                    (true, true) => "ON".into(),
                },
            ),
            column(
                "COUNT_RECEIVED_HEARTBEATS",
                BigIntUnsigned,
                "Heartbeats received from the primary.",
                |row| row.replica.heartbeats.into(),
            ),
            unknown("LAST_HEARTBEAT_TIMESTAMP"),
            unknown("RECEIVED_TRANSACTION_SET"),
            column("LAST_ERROR_NUMBER", Int, "Number of the last error; 0 without one.", |row| {
                error_number(&row.replica.receiver)
            }),
            column("LAST_ERROR_MESSAGE", VarChar(1024), "Text of the last error.", |row| {
                error_text(&row.replica.receiver)
            }),
            column("LAST_ERROR_TIMESTAMP", Timestamp, "When the last error happened.", |row| {
                error_time(&row.replica.receiver)
            }),
            column("LAST_QUEUED_TRANSACTION", Char(90), "GTID of the last transaction received.", |row| {
                (&row.replica.receiver.seen).into()
            }),
            unknown("LAST_QUEUED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP"),
            unknown("LAST_QUEUED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP"),
            unknown("LAST_QUEUED_TRANSACTION_START_QUEUE_TIMESTAMP"),
            unknown("LAST_QUEUED_TRANSACTION_END_QUEUE_TIMESTAMP"),
            unknown("QUEUEING_TRANSACTION"),
            unknown("QUEUEING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP"),
            unknown("QUEUEING_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP"),
            unknown("QUEUEING_TRANSACTION_START_QUEUE_TIMESTAMP"),
        ],
    ],
    replicas,
);

/// Returns a number that the built-in declares signed.
fn number(number: u32) -> Value<'static> {
    Value::Signed(number.into())
}

fn error_number(thread: &ReplicaThread) -> Value<'_> {
    number(thread.error.as_ref().map_or(0, |error| error.number))
}

fn error_text(thread: &ReplicaThread) -> Value<'_> {
    thread.error.as_ref().map_or("".into(), |error| (&error.message).into())
}

fn error_time(thread: &ReplicaThread) -> Value<'_> {
    Value::Timestamp(thread.error.as_ref().map_or(0, |error| error.time_us))
}

fn retries(thread: &ReplicaThread) -> Value<'_> {
    Value::Signed(i64::try_from(thread.retries).unwrap_or(i64::MAX))
}

/// The table `replication_connection_configuration`.
pub static CONNECTION_CONFIGURATION: TableDef<ReplicaRow> = TableDef::new(
    "replication_connection_configuration",
    "How the server connects to its primaries.",
    &[CHANNEL, CONNECTION, TLS, FILTERS],
    replicas,
)
.extended(&[&[
    unknown("NETWORK_INTERFACE"),
    fixed("AUTO_POSITION", |row: &ReplicaRow| if row.replica.gtid == 0 { "0".into() } else { "1".into() }),
    unknown("TLS_VERSION"),
    unknown("PUBLIC_KEY_PATH"),
    fixed("GET_PUBLIC_KEY", |_| "NO".into()),
    unknown("NETWORK_NAMESPACE"),
    fixed("COMPRESSION_ALGORITHM", |_| "uncompressed".into()),
    unknown("ZSTD_COMPRESSION_LEVEL"),
    unknown("TLS_CIPHERSUITES"),
    fixed("SOURCE_CONNECTION_AUTO_FAILOVER", |_| "0".into()),
    fixed("GTID_ONLY", |_| "0".into()),
]]);

const CONNECTION: &[ColumnDef<ReplicaRow>] = &[
    column("HOST", Char(60), "Where the primary runs.", |row| (&row.replica.host).into()),
    column("PORT", Int, "Where the primary listens.", |row| number(row.replica.port)),
    column("USER", Char(32), "User the replica connects as.", |row| (&row.replica.user).into()),
    column("USING_GTID", Enum(&["NO", "CURRENT_POS", "SLAVE_POS"]), "Which GTIDs it starts from.", |row| {
        match row.replica.gtid {
            0 => "NO".into(),
            1 => "CURRENT_POS".into(),
            _ => "SLAVE_POS".into(),
        }
    }),
];

const TLS: &[ColumnDef<ReplicaRow>] = &[
    column("SSL_ALLOWED", Enum(&["YES", "NO", "IGNORED"]), "Whether it connects with TLS.", |row| {
        yes_no(row.replica.ssl)
    }),
    column("SSL_CA_FILE", VarChar(512), "File of trusted certificates.", |row| {
        (&row.replica.ssl_texts[0]).into()
    }),
    column("SSL_CA_PATH", VarChar(512), "Folder of trusted certificates.", |row| {
        (&row.replica.ssl_texts[1]).into()
    }),
    column("SSL_CERTIFICATE", VarChar(512), "File of the replica's certificate.", |row| {
        (&row.replica.ssl_texts[2]).into()
    }),
    column("SSL_CIPHER", VarChar(512), "Ciphers it offers.", |row| (&row.replica.ssl_texts[3]).into()),
    column("SSL_KEY", VarChar(512), "File of the key to its certificate.", |row| {
        (&row.replica.ssl_texts[4]).into()
    }),
    column("SSL_VERIFY_SERVER_CERTIFICATE", YES_NO, "Whether it checks the primary's name.", |row| {
        yes_no(row.replica.ssl_verify)
    }),
    column("SSL_CRL_FILE", VarChar(255), "File of revoked certificates.", |row| {
        (&row.replica.ssl_texts[5]).into()
    }),
    column("SSL_CRL_PATH", VarChar(255), "Folder of revoked certificates.", |row| {
        (&row.replica.ssl_texts[6]).into()
    }),
];

const FILTERS: &[ColumnDef<ReplicaRow>] = &[
    column("CONNECTION_RETRY_INTERVAL", Int, "Seconds between attempts to connect.", |row| {
        number(row.replica.retry_interval)
    }),
    column("CONNECTION_RETRY_COUNT", BigIntUnsigned, "How often it tries to connect.", |row| {
        row.replica.retry_count.into()
    }),
    column("HEARTBEAT_INTERVAL", DoubleUnsigned(10, 3), "Seconds between heartbeats.", |row| {
        Value::Double(row.replica.heartbeat)
    }),
    column("IGNORE_SERVER_IDS", LongText, "Servers whose events it ignores.", |row| {
        listed(&row.replica.ignored_servers)
    }),
    column("REPL_DO_DOMAIN_IDS", LongText, "Domains whose events are the only ones it applies.", |row| {
        listed(&row.replica.domains)
    }),
    column("REPL_IGNORE_DOMAIN_IDS", LongText, "Domains whose events it ignores.", |row| {
        listed(&row.replica.ignored_domains)
    }),
];

/// Returns numbers separated by commas.
fn listed(numbers: &[u64]) -> Value<'_> {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ").into()
}
