//! Where an outlet reads: the tables of `performance_schema`, of tare's endpoint or of a server through an account.
//!
//! What is asked is one table at a time, some of its columns, perhaps with a WHERE: the endpoint answers no more than
//! that, and joining and summing up in the outlet's process costs the server nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder, SslOpts, Value};

/// The schema all tables are in.
const SCHEMA: &str = "performance_schema";
/// Spelled out so that the client does not ask for it.
const MAX_PACKET: usize = 16 << 20;
/// A server answers soon, or something is wrong that must not hang the one who asks.
const PATIENCE: Duration = Duration::from_secs(10);
/// What the server says of an account without the right to something: the schema, a table, a column, anything.
const DENIED: [u16; 6] = [1044, 1045, 1142, 1143, 1227, 1698];
/// What passes: too many connections, of all or of the account, a shutdown, a connection that was killed, or that did nothing for
/// too long (MySQL).
const PASSING: [u16; 7] = [1040, 1053, 1203, 1226, 1927, 3169, 4031];
/// An option of the server's is in the way, such as `read_only`.
const PREVENTED: u16 = 1290;
/// No such table, no such column.
const NO_TABLE: u16 = 1146;
const NO_COLUMN: u16 = 1054;

/// What went wrong, told apart by what the outlet can do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be one.
    #[error(
        "{given}: {why}; mysql://ACCOUNT:PASSWORD@HOST:PORT is allowed, or mysql://ACCOUNT:PASSWORD@localhost?socket=/PATH"
    )]
    Address {
        /// The address, without its password.
        given: String,
        /// What is wrong with it.
        why: String,
    },
    /// Nobody answers, or not any more: the server is down, is being restarted, or takes no more connections. Worth another
    /// try.
    #[error("{address}: no answer: {why}")]
    Gone {
        /// Who was asked.
        address: String,
        /// What the system or the client said.
        why: String,
    },
    /// The account or the user of the process may not. Another try is of no use.
    #[error("{address}: refused: {why}")]
    Refused {
        /// Who was asked.
        address: String,
        /// What the server or the system said, and what to do.
        why: String,
    },
    /// The server is read-only, and the account may not write all the same. A MariaDB takes its `performance_schema` for data.
    #[error("{address}: {why}")]
    ReadOnly {
        /// Who was asked.
        address: String,
        /// What the server said.
        why: String,
    },
    /// The server has no such table or column.
    #[error("{address}: {why}")]
    Absent {
        /// Who was asked.
        address: String,
        /// What the server said.
        why: String,
    },
    /// The server refused the statement for another reason.
    #[error("{address}: {statement}: {why}")]
    Statement {
        /// Who was asked.
        address: String,
        /// What it was asked.
        statement: String,
        /// What it said.
        why: String,
    },
}

impl Error {
    /// Whether the server may answer again later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Error::Gone { .. })
    }
}

/// A server's address.
#[derive(Clone, Debug)]
pub enum Address {
    /// The endpoint's socket, `tare.sock` in the data directory.
    Socket(PathBuf),
    /// A server that an account is known of.
    Account(Box<Opts>),
}

impl Address {
    /// Reads `mysql://ACCOUNT:PASSWORD@HOST:PORT`. With `require_ssl=true` among its parameters the connection is
    /// encrypted and the server's certificate checked against the usual authorities.
    ///
    /// # Errors
    ///
    /// [`Error::Address`], without the password in it.
    pub fn dsn(given: &str) -> Result<Self, Error> {
        let bad = |why: String| Error::Address { given: hide_password(given), why };
        let (bare, encrypted) = take_ssl(given);
        let options = Opts::from_url(&bare).map_err(|error| bad(error.to_string()))?;
        let ssl = encrypted.then(SslOpts::default);
        Ok(Address::Account(Box::new(OptsBuilder::from_opts(options).ssl_opts(ssl).into())))
    }

    fn options(&self) -> Opts {
        let common = match self {
            Address::Socket(path) => OptsBuilder::new()
                .socket(Some(path.to_string_lossy()))
                .user(Some("tare"))
                .db_name(Some(SCHEMA))
                .max_allowed_packet(Some(MAX_PACKET)),
            Address::Account(options) => OptsBuilder::from_opts(options.as_ref().clone()),
        };
        common
            .prefer_socket(false)
            .read_timeout(Some(PATIENCE))
            .write_timeout(Some(PATIENCE))
            .tcp_connect_timeout(Some(PATIENCE))
            .into()
    }
}

impl fmt::Display for Address {
    /// As people know it, without a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Socket(path) => write!(f, "{}", path.display()),
            Address::Account(options) => match options.get_socket() {
                Some(socket) => f.write_str(socket),
                None => write!(f, "{}:{}", options.get_ip_or_hostname(), options.get_tcp_port()),
            },
        }
    }
}

/// Takes `require_ssl=true` out of an address's parameters, and says whether it was there.
fn take_ssl(given: &str) -> (String, bool) {
    let Some((address, parameters)) = given.split_once('?') else { return (given.to_owned(), false) };
    let (asked, rest): (Vec<&str>, Vec<&str>) =
        parameters.split('&').partition(|it| *it == "require_ssl=true");
    let rest = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
    (format!("{address}{rest}"), !asked.is_empty())
}

/// An address as it may be shown: its password is left out, also that of ACCOUNT:PASSWORD, whose host was forgotten.
fn hide_password(given: &str) -> String {
    let Some((scheme, rest)) = given.split_once("://") else { return "the address".to_owned() };
    let (account, host) = rest.split_at(rest.rfind('@').unwrap_or(rest.len()));
    format!("{scheme}://{}{host}", account.split(':').next().unwrap_or_default())
}

/// Whose Performance Schema it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Tare's, over the endpoint or the server's SQL.
    Tare,
    /// MariaDB's built-in.
    MariaDb,
    /// MySQL's, or that of a server that calls itself so.
    MySql,
}

/// A connection to a server's Performance Schema.
pub struct Source {
    address: Address,
    connection: Conn,
    version: String,
    kind: Kind,
    /// The columns of the tables asked so far, upper case, in their order.
    columns: BTreeMap<String, Vec<String>>,
}

impl Source {
    /// Connects.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`] when nobody listens, [`Error::Refused`] when the account or the process may not.
    pub fn open(address: Address) -> Result<Self, Error> {
        let mut connection =
            Conn::new(address.options()).map_err(|error| explain(&address, "connect", error))?;
        let (version, kind) = match &address {
            Address::Socket(_) => (String::new(), Kind::Tare),
            Address::Account(_) => {
                identify(&mut connection).map_err(|error| explain(&address, "SELECT VERSION()", error))?
            }
        };
        Ok(Self { address, connection, version, kind, columns: BTreeMap::new() })
    }

    /// The address it was opened with.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Whose Performance Schema it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The server's version as it calls itself; empty over the endpoint (`tare_status` has it).
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// When the server started, as far as it can be known. Through an account it is so to the second.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`], [`Error::Refused`].
    pub fn started(&mut self) -> Result<Option<SystemTime>, Error> {
        match &self.address {
            // A server makes the socket anew when it starts.
            Address::Socket(path) => Ok(std::fs::metadata(path).and_then(|it| it.modified()).ok()),
            Address::Account(_) => {
                let status = self.ask("SHOW GLOBAL STATUS LIKE 'Uptime'")?;
                let uptime = status.first().and_then(|row| row.number(1)).map(Duration::from_secs);
                Ok(uptime.and_then(|uptime| SystemTime::now().checked_sub(uptime)))
            }
        }
    }

    /// The columns of a table in upper case, none where the server has no such table.
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

    /// Columns of a table by their names, those that the server has.
    fn known<'n>(&mut self, table: &str, names: &[&'n str]) -> Result<Vec<Option<&'n str>>, Error> {
        let known = self.columns(table)?;
        let has = |name: &&str| known.iter().any(|it| it.eq_ignore_ascii_case(name));
        Ok(names.iter().map(|name| Some(*name).filter(has)).collect())
    }

    /// Rows of a table: the named columns, in that order. A column the server has not is NULL in every row. `filter` is
    /// empty or begins with WHERE, ORDER BY or LIMIT. A table of another schema is named with it:
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

    /// The same, row by row as they arrive: a table of any size takes no memory here.
    ///
    /// # Errors
    ///
    /// As [`Source::rows`]; rows may have been given before.
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

    /// Rows of a table, sums of its columns and numbers of rows, all of one moment: what each part asks for, in their order.
    /// `take` is given the part's position, too. `false`: this server cannot tell, and nothing was taken. Only the endpoint
    /// can, and not one of an earlier version.
    ///
    /// # Errors
    ///
    /// As [`Source::rows`]; rows may have been given before.
    pub fn at_once(
        &mut self,
        table: &str,
        columns: &[&str],
        parts: &[Part],
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
        // Which part it is of comes first.
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

    /// Hands out the rows that a statement answers as they come. What `visit` breaks with ends it.
    ///
    /// # Errors
    ///
    /// [`Error::Absent`] when there is no such table, [`Error::Statement`], [`Error::Gone`], [`Error::Refused`].
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

    /// The schema's tables, in the server's order.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`], [`Error::Refused`].
    pub fn tables(&mut self) -> Result<Vec<String>, Error> {
        let rows = self.ask(&format!("SHOW TABLES FROM `{SCHEMA}`"))?;
        Ok(rows.iter().filter_map(|row| row.text(0)).collect())
    }

    /// The columns of a table: their names as the server spells them, and their SQL types in lower case.
    ///
    /// # Errors
    ///
    /// [`Error::Absent`] when there is no such table, [`Error::Gone`], [`Error::Refused`].
    pub fn describe(&mut self, table: &str) -> Result<Vec<(String, String)>, Error> {
        let rows = self.ask(&format!("SHOW COLUMNS FROM {}", qualified(table)))?;
        let text = |row: &Row, at| row.text(at).unwrap_or_default();
        Ok(rows.iter().map(|row| (text(row, 0), text(row, 1).to_lowercase())).collect())
    }

    /// Runs a statement that answers nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Statement`], [`Error::Gone`], [`Error::Refused`].
    pub fn execute(&mut self, statement: &str) -> Result<(), Error> {
        self.connection.query_drop(statement).map_err(|error| explain(&self.address, statement, error))
    }

    /// What a statement answers that is not of one table.
    ///
    /// # Errors
    ///
    /// [`Error::Statement`], [`Error::Gone`], [`Error::Refused`].
    pub fn ask(&mut self, statement: &str) -> Result<Vec<Row>, Error> {
        let row = |row| Row::all(&row);
        self.connection.query_map(statement, row).map_err(|error| explain(&self.address, statement, error))
    }
}

/// A part of what is asked of a table at one moment; see [`Source::at_once`].
#[derive(Clone, Debug)]
pub struct Part {
    /// What of the rows.
    pub of: Of,
    /// Which rows: empty, or begins with WHERE, ORDER BY or LIMIT.
    pub filter: String,
}

/// What a part has of the columns that are asked for.
#[derive(Clone, Debug)]
pub enum Of {
    /// Rows, a column each.
    Rows,
    /// One row: what these columns come to. Of the others it has NULL.
    Sums(Range<usize>),
    /// One row, whose first column is how many rows there are. Of the others it has NULL.
    Count,
}

impl Part {
    /// The part as SQL. A column the server has not is NULL.
    fn select(&self, number: usize, table: &str, columns: &[Option<&str>]) -> String {
        let item = |(at, column): (usize, &Option<&str>)| match (&self.of, column) {
            (Of::Count, _) if at == 0 => "COUNT(*)".to_owned(),
            (Of::Rows, Some(column)) => format!("`{column}`"),
            (Of::Sums(summed), Some(column)) if summed.contains(&at) => format!("SUM(`{column}`)"),
            _ => "NULL".to_owned(),
        };
        let items: Vec<String> = columns.iter().enumerate().map(item).collect();
        format!("(SELECT {number}, {} FROM {table} {})", items.join(", "), self.filter)
    }
}

/// A row's values, in the order their columns were asked in: texts, as statements answer in the text protocol. They lie in one
/// piece of memory, because a slow log keeps many rows of many columns for a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    bytes: Vec<u8>,
    /// From where to where in them; `None`: NULL.
    places: Vec<Option<(u32, u32)>>,
}

impl Row {
    /// A row as a server would send it: texts, `None` for NULL.
    #[must_use]
    pub fn of(texts: &[Option<&str>]) -> Self {
        Self::pack(texts.len(), |at| texts[at].map(str::as_bytes))
    }

    /// The named columns of an answer; a column that was not asked for is NULL.
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

    /// A count, bytes or picoseconds; `None` where it is NULL or no such number. What 64 bits do not hold is the most they do.
    #[must_use]
    pub fn number(&self, at: usize) -> Option<u64> {
        let digits = self.bytes(at).filter(|digits| !digits.is_empty())?;
        digits.iter().try_fold(0, |sum: u64, byte| {
            let more = sum.checked_mul(10).and_then(|sum| sum.checked_add((byte.wrapping_sub(b'0')).into()));
            byte.is_ascii_digit().then(|| more.unwrap_or(u64::MAX))
        })
    }

    /// The same, 0 where there is none.
    #[must_use]
    pub fn count(&self, at: usize) -> u64 {
        self.number(at).unwrap_or(0)
    }

    /// A sum of counts, which may be larger than any of them; 0 where there is none.
    #[must_use]
    pub fn total(&self, at: usize) -> u128 {
        self.bytes(at).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok()).unwrap_or(0)
    }

    /// A number that may be negative, such as memory that others have freed.
    #[must_use]
    pub fn signed(&self, at: usize) -> Option<i64> {
        std::str::from_utf8(self.bytes(at)?).ok()?.parse().ok()
    }

    /// The value as it was sent; `None` where it is NULL.
    #[must_use]
    pub fn bytes(&self, at: usize) -> Option<&[u8]> {
        self.places[at].map(|(from, to)| &self.bytes[from as usize..to as usize])
    }

    /// A text; bytes that are no UTF-8 are replaced. `None` where it is NULL.
    #[must_use]
    pub fn text(&self, at: usize) -> Option<String> {
        self.str(at).map(Cow::into_owned)
    }

    /// The same, in the row's own memory where it is UTF-8.
    #[must_use]
    pub fn str(&self, at: usize) -> Option<Cow<'_, str>> {
        // Asked first because it is several times faster than replacing.
        self.bytes(at).map(|bytes| match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => String::from_utf8_lossy(bytes),
        })
    }
}

/// What was sent of a column; `None` for NULL.
fn sent(row: &mysql::Row, at: usize) -> Option<&[u8]> {
    match row.as_ref(at)? {
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

/// A table with its schema.
fn qualified(table: &str) -> String {
    let (schema, name) = table.split_once('.').unwrap_or((SCHEMA, table));
    format!("`{schema}`.`{name}`")
}

/// The version, and whose Performance Schema it is.
fn identify(connection: &mut Conn) -> mysql::Result<(String, Kind)> {
    let version: String = connection.query_first("SELECT VERSION()")?.unwrap_or_default();
    if !version.contains("MariaDB") {
        return Ok((version, Kind::MySql));
    }
    let status: mysql::Result<Option<String>> =
        connection.query_first("SELECT NAME FROM performance_schema.tare_status LIMIT 1");
    match status {
        Err(mysql::Error::MySqlError(error)) if error.code == NO_TABLE || DENIED.contains(&error.code) => {
            Ok((version, Kind::MariaDb))
        }
        // Where it is there and cannot be read, whoever reads it is told why.
        Ok(_) => Ok((version, Kind::Tare)),
        Err(mysql::Error::MySqlError(error)) if !PASSING.contains(&error.code) => Ok((version, Kind::Tare)),
        Err(error) => Err(error),
    }
}

/// An error of the client library in terms of what can be done about it.
fn explain(address: &Address, statement: &str, error: mysql::Error) -> Error {
    let at = address.to_string();
    match error {
        mysql::Error::MySqlError(error) if DENIED.contains(&error.code) => {
            let why = format!("{}; an outlet needs GRANT SELECT ON performance_schema.*", error.message);
            Error::Refused { address: at, why }
        }
        // The option is named in whatever language the server speaks.
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
        mysql::Error::IoError(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let why = "only the server's own account and root may open it: try sudo, or an account (--dsn)"
                .to_owned();
            Error::Refused { address: at, why }
        }
        mysql::Error::IoError(error) => Error::Gone { address: at, why: error.to_string() },
        mysql::Error::DriverError(error) => Error::Gone { address: at, why: error.to_string() },
        other => Error::Gone { address: at, why: other.to_string() },
    }
}

#[cfg(test)]
mod tests;
