//! The server's logs: the lines of its error log, and the places of its other logs.

use std::sync::OnceLock;

use crate::framework::column::{column, nullable};
use crate::framework::definition::TableDef;
use crate::framework::view::{ViewDef, expressed};
use crate::table::SqlType::{BigIntUnsigned, Char, Enum, LongText, Text, TimestampMicros, VarChar};
use crate::table::Value;

/// A message of the server's error log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRow {
    /// LOGGED, microseconds since the Unix epoch.
    pub logged_us: u64,
    /// THREAD_ID: number of the connection, 0 for the server's own threads; `None` if the line has none.
    pub thread_id: Option<u64>,
    /// PRIO.
    pub prio: Priority,
    /// ERROR_CODE.
    pub error_code: String,
    /// SUBSYSTEM.
    pub subsystem: &'static str,
    /// DATA.
    pub data: String,
}

/// Severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Priority {
    Error,
    Warning,
    Note,
}

impl Priority {
    const fn name(self) -> &'static str {
        match self {
            Priority::Error => "Error",
            Priority::Warning => "Warning",
            Priority::Note => "Note",
        }
    }
}

/// Function that returns the newest messages of the host's error log, oldest first. Called each time the
/// table is read.
pub type LogSource = fn() -> Vec<LogRow>;

static SOURCE: OnceLock<LogSource> = OnceLock::new();

/// Registers the source of the messages for the life of the process. Returns false if there is one already.
pub fn set_error_log_source(source: LogSource) -> bool {
    SOURCE.set(source).is_ok()
}

/// The table `error_log`.
pub static ERROR_LOG: TableDef<LogRow> = TableDef::new(
    "error_log",
    "The newest messages of the server's error log: the last 5 MB of the file, read when the table is read. If the \
     server logs to something that is no file, such as the system's journal, the table is empty. Lines that do not \
     begin with a time belong to the message before them.",
    &[&[
        column(
            "LOGGED",
            TimestampMicros,
            "When it was written. The log has only seconds; the microseconds number the messages of a second in \
     their order.",
            |row: &LogRow| Value::Timestamp(row.logged_us),
        ),
        nullable(
            "THREAD_ID",
            BigIntUnsigned,
            "Number of the connection; 0 for the server's own threads, NULL in a crash report.",
            |row| row.thread_id.into(),
        ),
        column(
            "PRIO",
            Enum(&["System", "Error", "Warning", "Note"]),
            "Error, Warning or Note; System occurs only in MySQL.",
            |row| row.prio.name().into(),
        ),
        nullable(
            "ERROR_CODE",
            VarChar(10),
            "MY- and the error's number if the message contains one, else MY-000000, because MariaDB's log has no \
     codes.",
            |row| (&row.error_code).into(),
        ),
        nullable("SUBSYSTEM", VarChar(7), "InnoDB, Repl or Server, by how the message begins.", |row| {
            row.subsystem.into()
        }),
        column("DATA", Text, "The message, without time, thread and priority.", |row| (&row.data).into()),
    ]],
    |_, _, emit| {
        let _ = SOURCE.get().map(|source| source()).unwrap_or_default().iter().try_for_each(emit);
    },
)
.indexed(&[&["THREAD_ID"]]);

/// The server's value of a name in capitals; NULL if there is none.
macro_rules! server_value {
    ($table:literal, $name:literal) => {
        concat!(
            "(SELECT `VARIABLE_VALUE` FROM `information_schema`.`",
            $table,
            "` WHERE `VARIABLE_NAME` = '",
            $name,
            "')"
        )
    };
}

/// A number of the server's status; 0 if there is none.
macro_rules! status_number {
    ($name:literal) => {
        concat!("cast(ifnull(", server_value!("GLOBAL_STATUS", $name), ",0) as unsigned)")
    };
}

/// The table `log_status`.
pub static LOG_STATUS: ViewDef = ViewDef::new(
    "log_status",
    "Positions in the server's logs. Unlike in MySQL, they are read one after the other and not at one moment, \
     because nothing is stopped. SERVER_UUID is @@server_uid if the server has one. Replication channels are not \
     included: see SHOW ALL SLAVES STATUS.",
    &[&[
        expressed(
            "SERVER_UUID",
            Char(36),
            "Identifier of the server.",
            concat!("ifnull(", server_value!("GLOBAL_VARIABLES", "SERVER_UID"), ",'')"),
        ),
        expressed(
            "LOCAL",
            LongText,
            "Position of the binary log and its GTIDs, as JSON.",
            concat!(
                "ifnull(json_object('gtid_executed',ifnull(",
                server_value!("GLOBAL_VARIABLES", "GTID_BINLOG_POS"),
                ",''),'binary_log_file',ifnull(",
                server_value!("GLOBAL_STATUS", "BINLOG_SNAPSHOT_FILE"),
                ",''),'binary_log_position',",
                status_number!("BINLOG_SNAPSHOT_POSITION"),
                "),'')"
            ),
        ),
        expressed(
            "REPLICATION",
            LongText,
            "An empty list of channels, as JSON.",
            "ifnull(json_object('channels',json_array()),'')",
        ),
        expressed(
            "STORAGE_ENGINES",
            LongText,
            "InnoDB's log sequence number and that of its last checkpoint, as JSON.",
            concat!(
                "ifnull(json_object('InnoDB',json_object('LSN',",
                status_number!("INNODB_LSN_CURRENT"),
                ",'LSN_checkpoint',",
                status_number!("INNODB_LSN_LAST_CHECKPOINT"),
                ")),'')"
            ),
        ),
    ]],
    "(SELECT 1) `o`",
);
