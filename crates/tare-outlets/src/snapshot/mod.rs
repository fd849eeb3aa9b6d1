//! Snapshots: all tables of a server's Performance Schema, read one after another, in a file or a folder of
//! files.
//!
//! [`take`] reads a server and passes rows to a [`SnapshotSink`] as they come, so a snapshot needs memory
//! for a few rows only. [`write()`] gives it a sink whose result appears under its name completely or not at
//! all. [`Snapshot::read`] reads it back.

pub(crate) mod json_lines;
mod parquet;
mod read;
mod target;
mod value;

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use humantime::format_rfc3339_millis;
use serde::{Deserialize, Serialize};
use tare_server::sql::{is_like, literal};

pub(crate) use read::LONGEST_LINE;
pub use read::{Snapshot, SnapshotTable};
pub use target::{SnapshotTarget, write};
pub use value::{Type, Value};

use crate::source::{self, Address, Kind, Source};

/// Version of the format, raised when older readers would misread it.
pub(crate) const FORMAT: u32 = 1;
/// Statements besides the tables, for accounts, and the names of their answers.
const STATEMENTS: [(&str, &str); 2] =
    [("show_global_status", "SHOW GLOBAL STATUS"), ("show_global_variables", "SHOW GLOBAL VARIABLES")];
/// The table with 450 rows for each digest. Nearly all are empty buckets, which took longer to read and store
/// than all other tables together.
const HISTOGRAMS: &str = "events_statements_histogram_by_digest";
const FILLED: &str = " WHERE `COUNT_BUCKET` > 0";
/// The table with the active session history, of which a part may be enough.
pub const ACTIVE_SESSIONS: &str = "tare_active_session_history";
/// Number of rows between checks for an interrupt.
const ROWS_A_LOOK: u64 = 1024;
/// Columns that contain statements as they were sent, or values from them or from rows. Digests contain none.
const TEXTS: [&str; 11] = [
    "SQL_TEXT",
    "QUERY_SAMPLE_TEXT",
    "PROCESSLIST_INFO",
    "INFO",
    "VARIABLE_VALUE",
    "MESSAGE_TEXT",
    "DATA",
    "ATTR_VALUE",
    "LOCK_DATA",
    "XID_GTRID",
    "XID_BQUAL",
];
/// Suffix of the other columns that contain such values: an error names the key it is about.
const MESSAGE: &str = "ERROR_MESSAGE";
/// Prefixes of tables whose columns of these names contain settings of the server, and nothing from
/// statements.
const NOT_TEXTS: [&str; 4] = ["show_global_", "global_", "variables_", "persisted_"];

/// The reason why there is no snapshot, or no readable one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server could not be read.
    #[error(transparent)]
    Source(#[from] source::Error),
    /// A pattern matches no table.
    #[error("no table of {address} is called {pattern}; % stands for anything, as in events_statements_%")]
    NoTable {
        /// Address of the server.
        address: String,
        /// The pattern.
        pattern: String,
    },
    /// No table could be read.
    #[error("{address}: none of {tables} tables could be read; of the first it said: {why}")]
    Nothing {
        /// Address of the server.
        address: String,
        /// Number of tables tried.
        tables: u64,
        /// The server's error.
        why: String,
    },
    /// The name implies no format.
    #[error("{}: a snapshot is called NAME.jsonl, NAME.jsonl.gz, or NAME.parquet (a folder)", path.display())]
    Name {
        /// The path.
        path: PathBuf,
    },
    /// The path exists already.
    #[error("{} is there already; --force replaces it", path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// The path is a folder that is no snapshot.
    #[error("{} is a folder that holds more than a snapshot, and is left alone", path.display())]
    Foreign {
        /// The path.
        path: PathBuf,
    },
    /// It could not be written; nothing is left of it.
    #[error("writing {}: {error}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// It could not be read, or is invalid.
    #[error("{}: {why}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The fault, and its place.
        why: String,
    },
    /// It was interrupted; nothing is left of it.
    #[error("interrupted")]
    Interrupted,
}

/// The head of a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SnapshotHeader {
    /// Version of the format.
    pub format: u32,
    /// Version of tare that took it.
    pub tare: String,
    /// Start of the snapshot, in UTC.
    pub taken_at: String,
    /// Address of the server, without a password.
    pub address: String,
    /// Provider of the Performance Schema: `tare`, `mariadb`, `mysql`.
    pub provider: String,
    /// Version of the server, in its own words.
    pub version: String,
    /// Start of the server, to the second, in UTC; `None` where unknown.
    pub started_at: Option<String>,
    /// Whether it contains statements as they were sent.
    pub text: bool,
    /// Whether it is an active session history that `tare ash` writes: a file that grows, need not have an
    /// end, and may have further headers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub history: bool,
}

impl SnapshotHeader {
    /// Returns the header, or what to say if this version does not know the format.
    pub(crate) fn known(self) -> Result<Self, String> {
        if self.format > FORMAT {
            return Err(format!("tare {} took it, in a form that this version does not know", self.tare));
        }
        Ok(self)
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotColumn {
    /// Name of the column.
    pub name: String,
    /// Type of its values.
    #[serde(rename = "type")]
    pub kind: Type,
}

/// The description of a table before its rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableHead {
    /// Name of the table.
    pub table: String,
    /// Columns of the table.
    pub columns: Vec<SnapshotColumn>,
}

/// The description of a table after its rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tail {
    /// Name of the table.
    pub table: String,
    /// Start of its reading, in UTC.
    pub read_at: String,
    /// Duration of its reading in seconds.
    pub seconds: f64,
    /// Number of rows.
    pub rows: u64,
    /// Reason why it could not be read, or not to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Totals of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotTotals {
    /// Number of tables that were read.
    pub tables: u64,
    /// Number of all their rows.
    pub rows: u64,
    /// Number of tables that could not be read.
    pub unread: u64,
}

/// The destination of a snapshot.
pub trait SnapshotSink {
    /// Starts a table.
    ///
    /// # Errors
    /// What cannot be written.
    fn begin(&mut self, head: &TableHead) -> Result<(), Error>;
    /// Adds a row of it: a value for each column.
    ///
    /// # Errors
    /// What cannot be written.
    fn row(&mut self, row: &[Value]) -> Result<(), Error>;
    /// Ends the table.
    ///
    /// # Errors
    /// What cannot be written.
    fn end(&mut self, tail: &Tail) -> Result<(), Error>;
    /// Ends the snapshot.
    ///
    /// # Errors
    /// What cannot be written.
    fn finish(&mut self, totals: &SnapshotTotals) -> Result<(), Error>;
}

/// An observer of a snapshot, which may also stop it. A function that returns whether to stop is one.
pub trait Watcher {
    /// Returns whether to stop.
    fn is_stopping(&self) -> bool;
    /// Notes that the reading of a table starts, the `number`th of so many.
    fn reading(&self, _table: &str, _number: usize, _of: usize) {}
}

impl<F: Fn() -> bool> Watcher for F {
    fn is_stopping(&self) -> bool {
        self()
    }
}

/// What to read.
#[derive(Clone, Debug)]
pub struct TableChoice {
    /// Patterns of table names, in which % matches anything; empty: every table.
    pub tables: Vec<String>,
    /// Whether to keep statements as they were sent, and values from them and from rows.
    pub text: bool,
}

/// Reads the head of a snapshot from a server.
///
/// # Errors
/// When it does not answer.
pub fn header(source: &mut Source, choice: &TableChoice) -> Result<SnapshotHeader, Error> {
    let now = SystemTime::now();
    let started = source.started()?;
    let version = match source.address() {
        Address::Socket(_) => source.status("server_version")?.unwrap_or_default(),
        Address::Account(_) => source.version().to_owned(),
    };
    let provider = match source.kind() {
        Kind::Tare => "tare",
        Kind::MariaDb => "mariadb",
        Kind::MySql => "mysql",
    };
    Ok(SnapshotHeader {
        format: FORMAT,
        tare: env!("CARGO_PKG_VERSION").to_owned(),
        taken_at: format_rfc3339_millis(now).to_string(),
        address: source.address().to_string(),
        provider: provider.to_owned(),
        version,
        started_at: started.map(|at| humantime::format_rfc3339_seconds(at).to_string()),
        text: choice.text,
        history: false,
    })
}

/// Reads a server into `sink`, until `watcher` stops it. A table that the account may not read, or that the
/// server refuses, is left out, and its [`Tail`] has the reason.
///
/// # Errors
/// When the server stops answering, nothing could be read, or the sink fails.
pub fn take(
    source: &mut Source,
    choice: &TableChoice,
    sink: &mut dyn SnapshotSink,
    watcher: &dyn Watcher,
) -> Result<SnapshotTotals, Error> {
    take_from(source, choice, None, sink, watcher)
}

/// Reads a server into `sink` as [`take`] does, but of the active session history only rows from a time on,
/// given as the server writes it, in UTC: `2026-01-02 10:40:00`.
///
/// # Errors
/// Those of [`take`].
pub fn take_from(
    source: &mut Source,
    choice: &TableChoice,
    sessions_from: Option<&str>,
    sink: &mut dyn SnapshotSink,
    watcher: &dyn Watcher,
) -> Result<SnapshotTotals, Error> {
    let address = source.address().clone();
    if matches!(address, Address::Account(_)) {
        // Times are those of the endpoint.
        source.execute("SET time_zone = '+00:00'")?;
    }
    let mut readings: Vec<TableReading> = source.tables()?.into_iter().map(TableReading::of_table).collect();
    if matches!(address, Address::Account(_)) {
        readings.extend(STATEMENTS.map(|(name, statement)| TableReading::of_statement(name, statement)));
    }
    let readings = chosen(readings, &choice.tables, &address)?;
    let mut totals = SnapshotTotals::default();
    let mut complaint = None;
    for (number, reading) in (1..).zip(&readings) {
        watcher.reading(&reading.name, number, readings.len());
        let filter = match (reading.name.as_str(), sessions_from) {
            (HISTOGRAMS, _) => FILLED.to_owned(),
            (ACTIVE_SESSIONS, Some(from)) => format!(" WHERE `SAMPLE_TIME` >= {}", literal(from)),
            _ => String::new(),
        };
        let tail = reading.run(source, choice, &filter, sink, watcher)?;
        match &tail.error {
            None => totals.tables += 1,
            Some(why) => {
                totals.unread += 1;
                complaint.get_or_insert_with(|| why.clone());
            }
        }
        totals.rows += tail.rows;
        sink.end(&tail)?;
    }
    match complaint {
        Some(why) if totals.tables == 0 => {
            Err(Error::Nothing { address: address.to_string(), tables: totals.unread, why })
        }
        _ => sink.finish(&totals).map(|()| totals),
    }
}

/// Returns the tables that a pattern matches; each pattern must match one.
fn chosen(
    readings: Vec<TableReading>,
    patterns: &[String],
    address: &Address,
) -> Result<Vec<TableReading>, Error> {
    let unused = patterns.iter().find(|pattern| !readings.iter().any(|it| fits(pattern, &it.name)));
    if let Some(pattern) = unused {
        return Err(Error::NoTable { address: address.to_string(), pattern: pattern.clone() });
    }
    let wanted =
        |it: &TableReading| patterns.is_empty() || patterns.iter().any(|pattern| fits(pattern, &it.name));
    Ok(readings.into_iter().filter(wanted).collect())
}

/// Returns whether a name matches a pattern: % matches anything, and case is ignored.
fn fits(pattern: &str, name: &str) -> bool {
    is_like(&pattern.to_lowercase(), &name.to_lowercase())
}

/// A table, or a statement whose answer is treated as one.
struct TableReading {
    name: String,
    statement: Option<&'static str>,
}

impl TableReading {
    fn of_table(name: String) -> Self {
        TableReading { name, statement: None }
    }

    fn of_statement(name: &str, statement: &'static str) -> Self {
        TableReading { name: name.to_owned(), statement: Some(statement) }
    }

    fn columns(&self, source: &mut Source) -> Result<Vec<SnapshotColumn>, source::Error> {
        let column = |name: &str, kind| SnapshotColumn { name: name.to_owned(), kind };
        match self.statement {
            Some(_) => Ok(["VARIABLE_NAME", "VARIABLE_VALUE"].map(|name| column(name, Type::Text)).into()),
            None => {
                let described = source.describe(&self.name)?;
                Ok(described.iter().map(|(name, sql)| column(name, Type::of(sql))).collect())
            }
        }
    }

    fn run(
        &self,
        source: &mut Source,
        choice: &TableChoice,
        filter: &str,
        sink: &mut dyn SnapshotSink,
        watcher: &dyn Watcher,
    ) -> Result<Tail, Error> {
        let (at, begin) = (SystemTime::now(), Instant::now());
        let mut rows = 0;
        let done = self.hand_over(source, choice, filter, (sink, watcher), &mut rows);
        let error = match done {
            Ok(()) => None,
            // The account may not read it, or it exists only at times: the others can still be read.
            Err(Error::Source(error)) if !error.is_passing() => Some(error.to_string()),
            Err(error) => return Err(error),
        };
        let read_at = format_rfc3339_millis(at).to_string();
        Ok(Tail { table: self.name.clone(), read_at, seconds: begin.elapsed().as_secs_f64(), rows, error })
    }

    fn hand_over(
        &self,
        source: &mut Source,
        choice: &TableChoice,
        filter: &str,
        (sink, watcher): (&mut dyn SnapshotSink, &dyn Watcher),
        rows: &mut u64,
    ) -> Result<(), Error> {
        let head = TableHead { table: self.name.clone(), columns: self.columns(source)? };
        let names: Vec<&str> = head.columns.iter().map(|column| column.name.as_str()).collect();
        if names.is_empty() {
            // The server's answer for a table on which the account has no right.
            let why =
                "its columns may not be seen; this needs GRANT SELECT ON performance_schema.*".to_owned();
            return Err(source::Error::Refused { address: source.address().to_string(), why }.into());
        }
        let select =
            format!("SELECT `{}` FROM `performance_schema`.`{}`{filter}", names.join("`, `"), self.name);
        let hidden: Vec<bool> =
            names.iter().map(|name| !choice.text && holds_text(&self.name, name)).collect();
        let mut values = vec![];
        sink.begin(&head)?;
        let ended = source.visit(self.statement.unwrap_or(&select), |row| {
            if rows.is_multiple_of(ROWS_A_LOOK) && watcher.is_stopping() {
                return ControlFlow::Break(Error::Interrupted);
            }
            *rows += 1;
            values.clear();
            values.extend(head.columns.iter().zip(&hidden).enumerate().map(|(at, (column, hidden))| {
                if *hidden { Value::Null } else { column.kind.value(row.bytes(at)) }
            }));
            match sink.row(&values) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            }
        })?;
        ended.break_value().map_or(Ok(()), Err)
    }
}

/// Returns whether a column contains statements as they were sent, or values from them or from rows.
fn holds_text(table: &str, column: &str) -> bool {
    let set = NOT_TEXTS.iter().any(|begin| table.starts_with(begin));
    let column = column.to_ascii_uppercase();
    !set && (TEXTS.contains(&column.as_str()) || column.ends_with(MESSAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_like_without_the_underscore() {
        for (pattern, name, fitting) in [
            ("threads", "threads", true),
            ("threads", "thread", false),
            ("THREADS", "threads", true),
            ("%", "threads", true),
            ("events_%_by_digest", "events_statements_summary_by_digest", true),
            ("events_%_by_digest", "events_statements_summary_by_program", false),
            ("%summary%digest", "events_statements_summary_by_digest", true),
            ("events_%", "events_", true),
            ("a%a", "a", false),
            ("", "a", false),
        ] {
            assert_eq!(fits(pattern, name), fitting, "{pattern} {name}");
        }
    }

    #[test]
    fn what_the_server_is_set_to_is_no_text() {
        assert!(
            holds_text("events_statements_history", "SQL_TEXT") && holds_text("threads", "processlist_info")
        );
        assert!(holds_text("user_variables_by_thread", "VARIABLE_VALUE"));
        assert!(
            !holds_text("show_global_variables", "VARIABLE_VALUE")
                && !holds_text("global_status", "VARIABLE_VALUE")
        );
        assert!(!holds_text("events_statements_summary_by_digest", "DIGEST_TEXT"));
    }

    #[test]
    fn values_out_of_rows_are_text() {
        for (table, column) in [
            ("data_locks", "LOCK_DATA"),
            ("events_transactions_history", "XID_GTRID"),
            ("events_transactions_history", "xid_bqual"),
            ("clone_status", "ERROR_MESSAGE"),
            ("replication_connection_status", "LAST_ERROR_MESSAGE"),
            ("replication_applier_status_by_worker", "APPLYING_TRANSACTION_LAST_TRANSIENT_ERROR_MESSAGE"),
        ] {
            assert!(holds_text(table, column), "{table} {column}");
        }
        assert!(!holds_text("data_locks", "LOCK_MODE") && !holds_text("data_locks", "OBJECT_NAME"));
        assert!(!holds_text("replication_connection_status", "LAST_ERROR_NUMBER"));
    }
}
