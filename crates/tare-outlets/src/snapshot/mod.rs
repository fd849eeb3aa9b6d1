//! A snapshot: every table of a server's Performance Schema, read one after another, in a file or a folder of files.
//!
//! [`take`] reads a server and hands rows to a [`Sink`] as they come, so that a snapshot takes no more memory than a few
//! rows. [`write()`] gives it one that ends up under a name, whole or not at all. [`Snapshot::read`] reads it back.

mod json_lines;
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

pub use read::{Snapshot, Table};
pub use target::{Target, write};
pub use value::{Type, Value};

use crate::source::{self, Address, Kind, Source};
use crate::sql::is_like;

/// The version of the form, raised when older readers would misread it.
const FORMAT: u32 = 1;
/// What an account is asked besides the tables: statements, and the names their answers go by.
const STATEMENTS: [(&str, &str); 2] =
    [("show_global_status", "SHOW GLOBAL STATUS"), ("show_global_variables", "SHOW GLOBAL VARIABLES")];
/// The table with 450 rows for each digest. Nearly all are of buckets that hold nothing, and took longer to read and keep than all
/// other tables together.
const HISTOGRAMS: &str = "events_statements_histogram_by_digest";
const FILLED: &str = " WHERE `COUNT_BUCKET` > 0";
/// How often the wish to end is asked for, in rows.
const ROWS_A_LOOK: u64 = 1024;
/// Columns that hold statements as they were sent, or values out of them or out of rows. Digests hold none.
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
/// How the others are called that hold such values: an error names the key it is about.
const MESSAGE: &str = "ERROR_MESSAGE";
/// Tables whose columns of these names hold what a server is set to, and nothing out of statements.
const NOT_TEXTS: [&str; 4] = ["show_global_", "global_", "variables_", "persisted_"];

/// Why there is no snapshot, or none that can be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server.
    #[error(transparent)]
    Source(#[from] source::Error),
    /// A pattern of table names fits none.
    #[error("no table of {address} is called {pattern}; % stands for anything, as in events_statements_%")]
    NoTable {
        /// Who was asked.
        address: String,
        /// What was looked for.
        pattern: String,
    },
    /// Not one table could be read.
    #[error("{address}: none of {tables} tables could be read; of the first it said: {why}")]
    Nothing {
        /// Who was asked.
        address: String,
        /// How many were tried.
        tables: u64,
        /// What the server said.
        why: String,
    },
    /// The name does not say which form is wanted.
    #[error("{}: a snapshot is called NAME.jsonl, NAME.jsonl.gz, or NAME.parquet (a folder)", path.display())]
    Name {
        /// The name.
        path: PathBuf,
    },
    /// Something of that name is there.
    #[error("{} is there already; --force replaces it", path.display())]
    Exists {
        /// The name.
        path: PathBuf,
    },
    /// A folder of that name is there, and is no snapshot.
    #[error("{} is a folder that holds more than a snapshot, and is left alone", path.display())]
    Foreign {
        /// The name.
        path: PathBuf,
    },
    /// It could not be written; nothing is left of it.
    #[error("writing {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// It could not be read, or is none.
    #[error("{}: {why}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        why: String,
    },
    /// Somebody wished it to end; nothing is left of it.
    #[error("interrupted")]
    Interrupted,
}

/// What a snapshot is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the form.
    pub format: u32,
    /// The version of tare that took it.
    pub tare: String,
    /// When it was begun, in UTC.
    pub taken_at: String,
    /// Who was asked, without a password.
    pub address: String,
    /// Whose Performance Schema it is: `tare`, `mariadb`, `mysql`.
    pub provider: String,
    /// The server's version as it calls itself.
    pub version: String,
    /// When the server was started, to the second, in UTC; none where it did not say.
    pub started_at: Option<String>,
    /// Whether it has statements as they were sent.
    pub text: bool,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What its values are.
    #[serde(rename = "type")]
    pub kind: Type,
}

/// A table before its rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Its name.
    pub table: String,
    /// Its columns.
    pub columns: Vec<Column>,
}

/// A table after its rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tail {
    /// Its name.
    pub table: String,
    /// When reading it began, in UTC.
    pub read_at: String,
    /// How long that took.
    pub seconds: f64,
    /// How many rows there were.
    pub rows: u64,
    /// Why it could not be read, or not to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a snapshot came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Tables that were read.
    pub tables: u64,
    /// Rows of them all.
    pub rows: u64,
    /// Tables that could not be read.
    pub unread: u64,
}

/// Where a snapshot goes.
pub trait Sink {
    /// A table begins.
    ///
    /// # Errors
    /// What cannot be written.
    fn begin(&mut self, head: &Head) -> Result<(), Error>;
    /// A row of it: a value for each column.
    ///
    /// # Errors
    /// What cannot be written.
    fn row(&mut self, row: &[Value]) -> Result<(), Error>;
    /// The table ends.
    ///
    /// # Errors
    /// What cannot be written.
    fn end(&mut self, tail: &Tail) -> Result<(), Error>;
    /// All of it ends.
    ///
    /// # Errors
    /// What cannot be written.
    fn finish(&mut self, totals: &Totals) -> Result<(), Error>;
}

/// Who waits for a snapshot: told what is being read, and asked whether to go on. A function that says whether to end is one.
pub trait Watcher {
    /// Whether somebody wishes it to end.
    fn is_stopping(&self) -> bool;
    /// Reading of a table begins, the `number`th of so many.
    fn reading(&self, _table: &str, _number: usize, _of: usize) {}
}

impl<F: Fn() -> bool> Watcher for F {
    fn is_stopping(&self) -> bool {
        self()
    }
}

/// What to read.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Patterns of table names, in which % stands for anything; none: every table.
    pub tables: Vec<String>,
    /// Whether statements as they were sent are kept, and values out of them and out of rows.
    pub text: bool,
}

/// Asks a server what a snapshot of it begins with.
///
/// # Errors
/// When it does not answer.
pub fn header(source: &mut Source, choice: &Choice) -> Result<Header, Error> {
    let now = SystemTime::now();
    let started = source.started()?;
    let version = match source.address() {
        Address::Socket(_) => {
            let said = source.rows("tare_status", &["VALUE"], "WHERE `NAME` = 'server_version'")?;
            said.first().and_then(|row| row.text(0)).unwrap_or_default()
        }
        Address::Account(_) => source.version().to_owned(),
    };
    let provider = match source.kind() {
        Kind::Tare => "tare",
        Kind::MariaDb => "mariadb",
        Kind::MySql => "mysql",
    };
    Ok(Header {
        format: FORMAT,
        tare: env!("CARGO_PKG_VERSION").to_owned(),
        taken_at: format_rfc3339_millis(now).to_string(),
        address: source.address().to_string(),
        provider: provider.to_owned(),
        version,
        started_at: started.map(|at| humantime::format_rfc3339_seconds(at).to_string()),
        text: choice.text,
    })
}

/// Reads a server into `sink`, until `watcher` says that somebody wishes it to end. A table that the account may not read,
/// or that the server refuses, is left out, and its [`Tail`] says why.
///
/// # Errors
/// When the server does not answer any more, when nothing could be read, when the sink cannot take it.
pub fn take(
    source: &mut Source,
    choice: &Choice,
    sink: &mut dyn Sink,
    watcher: &dyn Watcher,
) -> Result<Totals, Error> {
    let address = source.address().clone();
    let mut readings: Vec<Reading> = source.tables()?.into_iter().map(Reading::of_table).collect();
    if matches!(address, Address::Account(_)) {
        readings.extend(STATEMENTS.map(|(name, statement)| Reading::of_statement(name, statement)));
    }
    let readings = chosen(readings, &choice.tables, &address)?;
    let mut totals = Totals::default();
    let mut complaint = None;
    for (number, reading) in (1..).zip(&readings) {
        watcher.reading(&reading.name, number, readings.len());
        let tail = reading.run(source, choice, sink, watcher)?;
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

/// Those that a pattern names, each pattern at least one.
fn chosen(readings: Vec<Reading>, patterns: &[String], address: &Address) -> Result<Vec<Reading>, Error> {
    let unused = patterns.iter().find(|pattern| !readings.iter().any(|it| fits(pattern, &it.name)));
    if let Some(pattern) = unused {
        return Err(Error::NoTable { address: address.to_string(), pattern: pattern.clone() });
    }
    let wanted = |it: &Reading| patterns.is_empty() || patterns.iter().any(|pattern| fits(pattern, &it.name));
    Ok(readings.into_iter().filter(wanted).collect())
}

/// Whether a name is what a pattern says: % stands for anything, letters are alike in both cases.
fn fits(pattern: &str, name: &str) -> bool {
    is_like(&pattern.to_lowercase(), &name.to_lowercase())
}

/// A table, or a statement that answers like one.
struct Reading {
    name: String,
    statement: Option<&'static str>,
}

impl Reading {
    fn of_table(name: String) -> Self {
        Reading { name, statement: None }
    }

    fn of_statement(name: &str, statement: &'static str) -> Self {
        Reading { name: name.to_owned(), statement: Some(statement) }
    }

    fn columns(&self, source: &mut Source) -> Result<Vec<Column>, source::Error> {
        let column = |name: &str, kind| Column { name: name.to_owned(), kind };
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
        choice: &Choice,
        sink: &mut dyn Sink,
        watcher: &dyn Watcher,
    ) -> Result<Tail, Error> {
        let (at, begin) = (SystemTime::now(), Instant::now());
        let mut rows = 0;
        let done = self.hand_over(source, choice, sink, watcher, &mut rows);
        let error = match done {
            Ok(()) => None,
            // The account may not, or the server has it only sometimes: the others can be read all the same.
            Err(Error::Source(error)) if !error.is_passing() => Some(error.to_string()),
            Err(error) => return Err(error),
        };
        let read_at = format_rfc3339_millis(at).to_string();
        Ok(Tail { table: self.name.clone(), read_at, seconds: begin.elapsed().as_secs_f64(), rows, error })
    }

    fn hand_over(
        &self,
        source: &mut Source,
        choice: &Choice,
        sink: &mut dyn Sink,
        watcher: &dyn Watcher,
        rows: &mut u64,
    ) -> Result<(), Error> {
        let head = Head { table: self.name.clone(), columns: self.columns(source)? };
        let names: Vec<&str> = head.columns.iter().map(|column| column.name.as_str()).collect();
        if names.is_empty() {
            // So the server says it of a table on which the account has no right.
            let why = "its columns may not be seen; an outlet needs GRANT SELECT ON performance_schema.*"
                .to_owned();
            return Err(source::Error::Refused { address: source.address().to_string(), why }.into());
        }
        let filter = if self.name == HISTOGRAMS { FILLED } else { "" };
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

/// Whether a column holds statements as they were sent, or values out of them or out of rows.
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
