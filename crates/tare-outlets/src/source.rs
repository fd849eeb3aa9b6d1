//! The input of outlets: the tables of `performance_schema`, from tare's endpoint or from a server through an
//! account.
//!
//! Queries read one table at a time, some of its columns, perhaps with a WHERE. The endpoint supports no more
//! than that, and joins and sums in the outlet's process cost the server nothing.

mod by_name;
mod prepared;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use mysql::prelude::Queryable;
use mysql::{Conn, Value};
use tare_connect::{Manner, Secret, ServerAccount, ServerLocation, Tls, WrongDsn, sentence};
use tare_server::sql::literal;
use tare_words::error_number::{NO_COLUMN, NO_TABLE, PASSING, PREVENTED, RIGHTS};

pub use prepared::PreparedQuery;

/// The schema of all tables.
const SCHEMA: &str = "performance_schema";
/// Given explicitly, so that the client does not query it.
const MAX_PACKET: usize = 16 << 20;
/// Time limit for an answer, so that a broken server does not block the outlet.
const PATIENCE: Duration = Duration::from_secs(10);

/// An error, classified by what the outlet can do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is invalid.
    #[error(transparent)]
    Address(#[from] WrongDsn),
    /// The server does not answer: it is down, is being restarted, or accepts no more connections. A retry
    /// may succeed.
    #[error("{address}: no answer: {why}")]
    Gone {
        /// Address of the server.
        address: String,
        /// The error of the system or the client.
        why: String,
    },
    /// The account, or the user of the process, lacks a right. A retry is useless.
    #[error("{address}: refused: {why}")]
    Refused {
        /// Address of the server.
        address: String,
        /// The error of the server or the system, and what to do.
        why: String,
    },
    /// The server is read-only, and the account lacks the right to write in spite of that. MariaDB treats its
    /// `performance_schema` as data.
    #[error("{address}: {why}")]
    ReadOnly {
        /// Address of the server.
        address: String,
        /// The server's error.
        why: String,
    },
    /// The server has no such table or column.
    #[error("{address}: {why}")]
    Absent {
        /// Address of the server.
        address: String,
        /// The server's error.
        why: String,
    },
    /// The server refused the statement for another reason.
    #[error("{address}: {statement}: {why}")]
    Statement {
        /// Address of the server.
        address: String,
        /// The statement.
        statement: String,
        /// The server's error.
        why: String,
    },
}

impl Error {
    /// Returns whether the server may answer again later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Error::Gone { .. })
    }
}

/// The address of a server.
#[derive(Clone, Debug)]
pub enum Address {
    /// Path of the endpoint's socket, `tare.sock` in the data directory.
    Socket(PathBuf),
    /// A server with an account on it.
    Account(Box<ServerAccount>),
}

impl Address {
    /// Parses `mysql://ACCOUNT:PASSWORD@HOST:PORT`.
    ///
    /// # Errors
    ///
    /// [`Error::Address`], without the password in it.
    pub fn dsn(given: &str) -> Result<Self, Error> {
        Ok(Address::Account(Box::new(ServerAccount::of_dsn(given)?)))
    }

    fn connect(&self) -> Result<Conn, Error> {
        let manner = Manner { patience: Some(PATIENCE), max_packet: None };
        let connected = match self {
            Address::Socket(path) => {
                let endpoint = ServerAccount {
                    place: ServerLocation::Socket(path.clone()),
                    user: "tare".to_owned(),
                    password: None::<Secret>,
                    schema: Some(SCHEMA.to_owned()),
                    tls: Tls::default(),
                };
                endpoint.connect(Manner { max_packet: Some(MAX_PACKET), ..manner })
            }
            Address::Account(server) => server.connect(manner),
        };
        connected.map_err(|error| self.unconnected(error))
    }

    /// Makes the error for a failed connection, classified by what can be done about it.
    fn unconnected(&self, error: tare_connect::Error) -> Error {
        let address = self.to_string();
        let refused = |why| Error::Refused { address: address.clone(), why };
        match error {
            tare_connect::Error::NoAnswer { why, .. } => Error::Gone { address, why },
            tare_connect::Error::Forbidden { .. } => refused(
                "only the server's own account and root may open it: try sudo, or an account (-u, --dsn)"
                    .to_owned(),
            ),
            tare_connect::Error::Server { error, .. } if PASSING.contains(&error.code) => {
                Error::Gone { address, why: error.message }
            }
            error => {
                let said = error.to_string();
                refused(said.strip_prefix(&format!("{address}: ")).unwrap_or(&said).to_owned())
            }
        }
    }
}

impl fmt::Display for Address {
    /// Writes the address for people, without a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Socket(path) => write!(f, "{}", path.display()),
            Address::Account(server) => server.fmt(f),
        }
    }
}

/// The provider of a Performance Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Tare, over the endpoint or the server's SQL.
    Tare,
    /// MariaDB's built-in.
    MariaDb,
    /// MySQL, or a server that claims to be it.
    MySql,
}

/// A connection to a server's Performance Schema.
pub struct Source {
    address: Address,
    connection: Conn,
    version: String,
    kind: Kind,
    /// Columns of the tables used so far, in upper case and in order.
    columns: BTreeMap<String, Vec<String>>,
}

impl Source {
    /// Connects.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`] when nothing listens, [`Error::Refused`] when the account or the process lacks the
    /// right.
    pub fn open(address: Address) -> Result<Self, Error> {
        let mut connection = address.connect()?;
        let (version, kind) = match &address {
            Address::Socket(_) => (String::new(), Kind::Tare),
            Address::Account(_) => {
                identify(&mut connection).map_err(|error| explain(&address, "SELECT VERSION()", error))?
            }
        };
        Ok(Self { address, connection, version, kind, columns: BTreeMap::new() })
    }

    /// Returns the address it was opened with.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the provider of the Performance Schema.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the server's version in its own words; empty over the endpoint (`tare_status` has it).
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns when the server started, if known; to the second through an account.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`], [`Error::Refused`].
    pub fn started(&mut self) -> Result<Option<SystemTime>, Error> {
        match &self.address {
            // A server recreates the socket when it starts.
            Address::Socket(path) => Ok(std::fs::metadata(path).and_then(|it| it.modified()).ok()),
            Address::Account(_) => {
                let status = self.ask("SHOW GLOBAL STATUS LIKE 'Uptime'")?;
                let uptime = status.first().and_then(|row| row.number(1)).map(Duration::from_secs);
                Ok(uptime.and_then(|uptime| SystemTime::now().checked_sub(uptime)))
            }
        }
    }

    /// Returns the columns of a table in upper case; empty if the server has no such table.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`], [`Error::Refused`].
    pub fn columns(&mut self, table: &str) -> Result<&[String], Error> {
        if !self.columns.contains_key(table) {
            let found = match self.describe(table) {
                Ok(columns) => columns.into_iter().map(|(name, _)| name.to_uppercase()).collect(),
                Err(Error::Absent { .. }) => vec![],
                Err(error) => return Err(error),
            };
            self.columns.insert(table.to_owned(), found);
        }
        Ok(&self.columns[table])
    }

    /// Returns, for each name, the column if the server has it.
    fn known<'n>(&mut self, table: &str, names: &[&'n str]) -> Result<Vec<Option<&'n str>>, Error> {
        let known = self.columns(table)?;
        let has = |name: &&str| known.iter().any(|it| it.eq_ignore_ascii_case(name));
        Ok(names.iter().map(|name| Some(*name).filter(has)).collect())
    }

    /// Returns rows of a table with the named columns, in that order. A missing column is NULL in every row.
    /// `filter` is empty or starts with WHERE, ORDER BY or LIMIT. A table of another schema is given with it:
    /// `information_schema.INNODB_TRX`.
    ///
    /// # Errors
    ///
    /// [`Error::Absent`] when there is no such table, [`Error::Gone`], [`Error::Refused`].
    pub fn rows(&mut self, table: &str, columns: &[&str], filter: &str) -> Result<Vec<Row>, Error> {
        let mut rows = vec![];
        self.each(table, columns, filter, &mut |row| rows.push(row))?;
        Ok(rows)
    }

    /// Returns the value of a row of `tare_status`; `None`: the server has no such row.
    ///
    /// # Errors
    /// When the server refuses the query, or has no tare.
    pub fn status(&mut self, name: &str) -> Result<Option<String>, Error> {
        let rows = self.rows("tare_status", &["VALUE"], &format!("WHERE `NAME` = {}", literal(name)))?;
        Ok(rows.first().and_then(|row| row.text(0)))
    }

    /// Passes rows of a table to `take` as they arrive, so that a table of any size needs no memory here. See
    /// also [`Source::rows`].
    ///
    /// # Errors
    ///
    /// Those of [`Source::rows`]; rows may have been passed before.
    pub fn each(
        &mut self,
        table: &str,
        columns: &[&str],
        filter: &str,
        take: &mut dyn FnMut(Row),
    ) -> Result<(), Error> {
        let asked: Vec<&str> = self.known(table, columns)?.into_iter().flatten().collect();
        let places: Vec<Option<usize>> =
            columns.iter().map(|name| asked.iter().position(|it| it == name)).collect();
        let list = if asked.is_empty() { "1".to_owned() } else { format!("`{}`", asked.join("`, `")) };
        let statement = format!("SELECT {list} FROM {} {filter}", qualified(table));
        let _ended: ControlFlow<()> = self.answer(&statement, |row| {
            take(Row::picked(&row, &places));
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    /// Passes rows of a table, sums of its columns and numbers of rows to `take`, for several parts at one
    /// point in time and in their order, with each part's position. Returns false, without any rows, if the
    /// server does not support it: only the endpoint does, and not in earlier versions.
    ///
    /// # Errors
    ///
    /// Those of [`Source::rows`]; rows may have been passed before.
    pub fn at_once(
        &mut self,
        table: &str,
        columns: &[&str],
        parts: &[QueryPart],
        take: &mut dyn FnMut(usize, Row),
    ) -> Result<bool, Error> {
        if !matches!(self.address, Address::Socket(_)) {
            return Ok(false);
        }
        let asked = self.known(table, columns)?;
        let table = qualified(table);
        let selects: Vec<String> =
            parts.iter().enumerate().map(|(number, part)| part.select(number, &table, &asked)).collect();
        let statement = selects.join(" UNION ALL ");
        // The first column is the number of the part.
        let places: Vec<Option<usize>> = (1..=columns.len()).map(Some).collect();
        let (mut has_taken, number) = (false, [Some(0)]);
        let answered: Result<ControlFlow<()>, Error> = self.answer(&statement, |row| {
            has_taken = true;
            let number = Row::picked(&row, &number).count(0);
            take(usize::try_from(number).unwrap_or(usize::MAX), Row::picked(&row, &places));
            ControlFlow::Continue(())
        });
        match answered {
            Err(Error::Statement { .. }) if !has_taken => Ok(false),
            answered => answered.map(|_| true),
        }
    }

    /// Passes a statement's rows to `visit` as they arrive, until it breaks.
    ///
    /// # Errors
    ///
    /// [`Error::Absent`] when there is no such table, [`Error::Statement`], [`Error::Gone`],
    /// [`Error::Refused`].
    pub fn visit<B>(
        &mut self,
        statement: &str,
        mut visit: impl FnMut(&Row) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, Error> {
        self.answer(statement, |row| visit(&Row::all(&row)))
    }

    fn answer<B>(
        &mut self,
        statement: &str,
        mut take: impl FnMut(mysql::Row) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, Error> {
        let failed = |error| explain(&self.address, statement, error);
        for row in self.connection.query_iter(statement).map_err(failed)? {
            if let ControlFlow::Break(with) = take(row.map_err(failed)?) {
                return Ok(ControlFlow::Break(with));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the schema's tables, in the server's order.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`], [`Error::Refused`].
    pub fn tables(&mut self) -> Result<Vec<String>, Error> {
        let rows = self.ask(&format!("SHOW TABLES FROM `{SCHEMA}`"))?;
        Ok(rows.iter().filter_map(|row| row.text(0)).collect())
    }

    /// Returns the columns of a table: names in the server's spelling, and SQL types in lower case.
    ///
    /// # Errors
    ///
    /// [`Error::Absent`] when there is no such table, [`Error::Gone`], [`Error::Refused`].
    pub fn describe(&mut self, table: &str) -> Result<Vec<(String, String)>, Error> {
        let rows = self.ask(&format!("SHOW COLUMNS FROM {}", qualified(table)))?;
        let text = |row: &Row, at| row.text(at).unwrap_or_default();
        Ok(rows.iter().map(|row| (text(row, 0), text(row, 1).to_lowercase())).collect())
    }

    /// Runs a statement without a result set.
    ///
    /// # Errors
    ///
    /// [`Error::Statement`], [`Error::Gone`], [`Error::Refused`].
    pub fn execute(&mut self, statement: &str) -> Result<(), Error> {
        self.connection.query_drop(statement).map_err(|error| explain(&self.address, statement, error))
    }

    /// Runs any statement and returns its rows.
    ///
    /// # Errors
    ///
    /// [`Error::Statement`], [`Error::Gone`], [`Error::Refused`].
    pub fn ask(&mut self, statement: &str) -> Result<Vec<Row>, Error> {
        let row = |row| Row::all(&row);
        self.connection.query_map(statement, row).map_err(|error| explain(&self.address, statement, error))
    }
}

/// A part of a query at one point in time; see [`Source::at_once`].
#[derive(Clone, Debug)]
pub struct QueryPart {
    /// What it returns.
    pub of: PartResult,
    /// Its rows: empty, or starts with WHERE, ORDER BY or LIMIT.
    pub filter: String,
}

/// What a part returns.
#[derive(Clone, Debug)]
pub enum PartResult {
    /// The rows, with all columns.
    Rows,
    /// One row with the sums of these columns; the others are NULL.
    Sums(Range<usize>),
    /// One row, whose first column is the number of rows; the others are NULL.
    Count,
}

impl QueryPart {
    /// Returns the part as SQL. A missing column is NULL.
    fn select(&self, number: usize, table: &str, columns: &[Option<&str>]) -> String {
        let item = |(at, column): (usize, &Option<&str>)| match (&self.of, column) {
            (PartResult::Count, _) if at == 0 => "COUNT(*)".to_owned(),
            (PartResult::Rows, Some(column)) => format!("`{column}`"),
            (PartResult::Sums(summed), Some(column)) if summed.contains(&at) => format!("SUM(`{column}`)"),
            _ => "NULL".to_owned(),
        };
        let items: Vec<String> = columns.iter().enumerate().map(item).collect();
        format!("(SELECT {number}, {} FROM {table} {})", items.join(", "), self.filter)
    }
}

/// The values of a row, in the order of the requested columns: texts, as in the text protocol. They share one
/// allocation, because a slow log keeps many rows with many columns for a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    bytes: Vec<u8>,
    /// Start and end of each value; `None`: NULL.
    places: Vec<Option<(u32, u32)>>,
}

impl Row {
    /// Makes a row from texts; `None` for NULL.
    #[must_use]
    pub fn of(texts: &[Option<&str>]) -> Self {
        Self::pack(texts.len(), |at| texts[at].map(str::as_bytes))
    }

    /// Picks the requested columns of an answer; a missing one is NULL.
    fn picked(row: &mysql::Row, columns: &[Option<usize>]) -> Self {
        Self::pack(columns.len(), |at| sent(row, columns[at]?))
    }

    fn all(row: &mysql::Row) -> Self {
        Self::pack(row.len(), |at| sent(row, at))
    }

    #[allow(clippy::cast_possible_truncation)] // a packet has at most MAX_PACKET bytes
    fn pack<'v>(columns: usize, value: impl Fn(usize) -> Option<&'v [u8]>) -> Self {
        let length = (0..columns).filter_map(&value).map(<[u8]>::len).sum();
        let (mut bytes, mut places) = (Vec::with_capacity(length), Vec::with_capacity(columns));
        for at in 0..columns {
            places.push(value(at).map(|value| {
                let from = bytes.len() as u32;
                bytes.extend_from_slice(value);
                (from, bytes.len() as u32)
            }));
        }
        Self { bytes, places }
    }

    /// Returns a count, bytes or picoseconds; `None` if it is NULL or no such number. Larger values than 64
    /// bits saturate.
    #[must_use]
    pub fn number(&self, at: usize) -> Option<u64> {
        let digits = self.bytes(at).filter(|digits| !digits.is_empty())?;
        digits.iter().try_fold(0, |sum: u64, byte| {
            let more = sum.checked_mul(10).and_then(|sum| sum.checked_add((byte.wrapping_sub(b'0')).into()));
            byte.is_ascii_digit().then(|| more.unwrap_or(u64::MAX))
        })
    }

    /// Returns a count; 0 if there is none.
    #[must_use]
    pub fn count(&self, at: usize) -> u64 {
        self.number(at).unwrap_or(0)
    }

    /// Returns a sum of counts, which may exceed 64 bits; 0 if there is none.
    #[must_use]
    pub fn total(&self, at: usize) -> u128 {
        self.bytes(at).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok()).unwrap_or(0)
    }

    /// Returns a number that may be negative, such as memory that other threads have freed.
    #[must_use]
    pub fn signed(&self, at: usize) -> Option<i64> {
        std::str::from_utf8(self.bytes(at)?).ok()?.parse().ok()
    }

    /// Returns the bytes that were sent; `None` for NULL.
    #[must_use]
    pub fn bytes(&self, at: usize) -> Option<&[u8]> {
        self.places[at].map(|(from, to)| &self.bytes[from as usize..to as usize])
    }

    /// Returns a text, with invalid UTF-8 replaced; `None` for NULL.
    #[must_use]
    pub fn text(&self, at: usize) -> Option<String> {
        self.str(at).map(Cow::into_owned)
    }

    /// Returns a text, borrowed if it is UTF-8; `None` for NULL.
    #[must_use]
    pub fn str(&self, at: usize) -> Option<Cow<'_, str>> {
        // Checked first because it is several times faster than replacing.
        self.bytes(at).map(|bytes| match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => String::from_utf8_lossy(bytes),
        })
    }
}

/// Returns the bytes of a column; `None` for NULL.
fn sent(row: &mysql::Row, at: usize) -> Option<&[u8]> {
    match row.as_ref(at)? {
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

/// Quotes a table's name with its schema.
fn qualified(table: &str) -> String {
    let (schema, name) = table.split_once('.').unwrap_or((SCHEMA, table));
    format!("`{schema}`.`{name}`")
}

/// Returns the version and the provider of the Performance Schema.
fn identify(connection: &mut Conn) -> mysql::Result<(String, Kind)> {
    let version: String = connection.query_first("SELECT VERSION()")?.unwrap_or_default();
    if !version.contains("MariaDB") {
        return Ok((version, Kind::MySql));
    }
    let status: mysql::Result<Option<String>> =
        connection.query_first("SELECT NAME FROM performance_schema.tare_status LIMIT 1");
    match status {
        Err(mysql::Error::MySqlError(error)) if error.code == NO_TABLE || RIGHTS.contains(&error.code) => {
            Ok((version, Kind::MariaDb))
        }
        // If it exists and cannot be read, reading it will return the reason.
        Ok(_) => Ok((version, Kind::Tare)),
        Err(mysql::Error::MySqlError(error)) if !PASSING.contains(&error.code) => Ok((version, Kind::Tare)),
        Err(error) => Err(error),
    }
}

/// Converts an error of the client library, classified by what can be done about it.
fn explain(address: &Address, statement: &str, error: mysql::Error) -> Error {
    let at = address.to_string();
    match error {
        mysql::Error::MySqlError(error) if RIGHTS.contains(&error.code) => {
            let why = format!("{}; this needs GRANT SELECT ON performance_schema.*", error.message);
            Error::Refused { address: at, why }
        }
        // The option's name is the same in every language of the server's messages.
        mysql::Error::MySqlError(error) if error.code == PREVENTED && error.message.contains("--read") => {
            Error::ReadOnly { address: at, why: error.message }
        }
        mysql::Error::MySqlError(error) if [NO_TABLE, NO_COLUMN].contains(&error.code) => {
            Error::Absent { address: at, why: error.message }
        }
        mysql::Error::MySqlError(error) if PASSING.contains(&error.code) => {
            Error::Gone { address: at, why: error.message }
        }
        mysql::Error::MySqlError(error) => {
            Error::Statement { address: at, statement: statement.to_owned(), why: error.message }
        }
        other => Error::Gone { address: at, why: sentence(&other) },
    }
}

#[cfg(test)]
mod tests;
