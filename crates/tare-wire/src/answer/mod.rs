//! Statements to answers.

mod moment;
mod present;
mod read;
mod sent;
mod show;
mod size;
mod stream;
mod write;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tare_engine::{Cursor, Engine};
use tare_tables::{Columns, Table, Value, Values};

use crate::failure::Failure;
use crate::peer::Peer;
use crate::protocol::packet::Writer;
use crate::protocol::reply::{self, Rows};
use crate::sql::catalog::{Catalog, NameInside, SCHEMA};
use crate::sql::{
    self,
    statement::{Show, Statement},
};

/// The user FEDERATED's tables log in as (the connect string of the installed tables says so).
const FEDERATED_USER: &str = "tare";

/// Most bytes of rows a statement holds at once, to sort them or to write them; more is refused.
const MAX_HELD: usize = 8 << 20;

/// What every connection serves.
pub(crate) struct Source {
    pub(crate) tables: &'static [&'static dyn Table],
    pub(crate) engine: &'static Engine,
    pub(crate) server_version: String,
    pub(crate) name_inside: Option<NameInside>,
    pub(crate) max_connections: usize,
    pub(crate) stopping: AtomicBool,
    pub(crate) traffic: Traffic,
    pub(crate) sizes: Sizes,
}

/// What was answered to SELECTs so far.
#[derive(Default)]
pub(crate) struct Traffic {
    selects: AtomicU64,
    rows: AtomicU64,
}

impl Traffic {
    fn add(&self, rows: u64) {
        self.selects.fetch_add(1, Ordering::Relaxed);
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// SELECTs from tables answered, and rows in the answers.
    pub(crate) fn answered(&self) -> (u64, u64) {
        (self.selects.load(Ordering::Relaxed), self.rows.load(Ordering::Relaxed))
    }
}

impl Source {
    /// The tables as this session names them.
    fn catalog(&self, session: &Session) -> Catalog {
        Catalog { tables: self.tables, inside: self.name_inside.filter(|_| session.peer == Peer::Inside) }
    }

    /// Whether a table goes by another name for this session: it is the host's own.
    fn is_inside(&self, session: &Session) -> bool {
        self.catalog(session).inside.is_some()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// What a client said about itself, and where it is.
pub(crate) struct Session {
    pub(crate) id: u32,
    pub(crate) peer: Peer,
    pub(crate) user: String,
    /// The client reads utf8mb3.
    pub(crate) narrow: bool,
    /// A write's answer counts the rows found, not the rows changed.
    pub(crate) found_rows: bool,
    pub(crate) has_database: bool,
    /// The client takes sums that outgrow their column.
    pub(crate) whole_sums: bool,
    /// How far it has come in the streams it reads, by name.
    pub(crate) cursors: HashMap<&'static str, Cursor>,
    /// Of a host's FEDERATED engine: what its statement reads.
    pub(crate) host_statement: HostStatement,
}

impl Session {
    /// The client is a server's FEDERATED engine, whose faults are undone. Who comes from elsewhere under its name means what it
    /// says.
    fn is_federated(&self) -> bool {
        self.peer == Peer::Inside && self.user == FEDERATED_USER
    }

    /// Makes a schema the current one.
    pub(crate) fn use_database(&mut self, name: &str) -> Result<(), Failure> {
        if !name.eq_ignore_ascii_case(SCHEMA) {
            return Err(Failure::unknown_database(name));
        }
        self.has_database = true;
        Ok(())
    }
}

/// Why a command was not answered with what was asked for.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The client is told, and the connection goes on.
    Failed(Failure),
    /// The connection is of no more use.
    Lost,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure)
    }
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Self {
        Stop::Lost
    }
}

/// Answers one statement.
pub(crate) fn query(
    source: &Source,
    session: &mut Session,
    writer: &mut Writer<'_>,
    sql: &[u8],
) -> Result<(), Stop> {
    let statement = sql::parse(sql, source.catalog(session))?;
    if statement.changes() {
        session.host_statement.forget();
    }
    match statement {
        // A connection of the host's that has been in a transaction is dangerous to the host: to FEDERATED, which keeps it,
        // it goes on belonging to a session that may be gone.
        Statement::LeaveAutocommit if session.peer == Peer::Inside => Err(Failure::no_transactions().into()),
        Statement::Nothing | Statement::LeaveAutocommit => Ok(writer.packet(&reply::ok(0, ""))?),
        Statement::WholeSums(whole) => {
            session.whole_sums = whole;
            Ok(writer.packet(&reply::ok(0, ""))?)
        }
        Statement::Use(name) => {
            session.use_database(&name)?;
            Ok(writer.packet(&reply::ok(0, ""))?)
        }
        // The engine asks so for a table that is about to be made, to lead here, too.
        Statement::Select(select) if source.is_inside(session) && select.filter.is_never() => {
            Err(Failure::not_another_table().into())
        }
        Statement::Show(Show::Create(_)) if source.is_inside(session) => {
            Err(Failure::not_another_table().into())
        }
        Statement::Select(mut select) => {
            let mut threads = None;
            if session.is_federated() {
                select.filter = select.filter.meant();
                threads = session.host_statement.read(source.engine, &select);
            }
            match select.table.stream() {
                Some(stream) => stream::select(source, session, writer, &select, stream),
                None => read::select(source, session, writer, &select, threads.as_ref()),
            }
        }
        Statement::Union(parts) => moment::union(source, session, writer, &parts),
        Statement::Values(values) => show::values(source, session, writer, &values),
        Statement::Show(show) => {
            if let Show::TableStatus { like: Some(name) } = &show
                && session.is_federated()
                && let Ok(table) = source.catalog(session).find(SCHEMA, &String::from_utf8_lossy(name))
            {
                session.host_statement.announce(table);
            }
            show::show(source, session, writer, &show)
        }
        Statement::Update(update) => write::update(source, session, writer, update),
        Statement::Insert(insert) => write::insert(source, session, writer, &insert),
        Statement::Delete(delete) => write::delete(source, session, writer, delete),
        Statement::Truncate(table) => write::truncate(source, session, writer, table),
    }
}

pub(crate) use present::HostStatement;
pub(crate) use show::field_list;
pub(crate) use size::Sizes;

/// A row that is kept, with the values that were asked for.
type Kept = Vec<Value<'static>>;

/// A list of rows that may not grow without bound.
struct Held {
    /// How many columns the table has, and which of them are kept.
    columns: (usize, Columns),
    rows: Vec<Kept>,
    bytes: usize,
}

impl Held {
    fn new(table: &dyn Table, columns: Columns) -> Held {
        Held { columns: (table.columns().len(), columns), rows: Vec::new(), bytes: 0 }
    }

    fn push(&mut self, row: &dyn Values) -> Result<(), Failure> {
        let (count, columns) = self.columns;
        let value = |at| if columns.has(at) { row.value(at).into_owned() } else { Value::Null };
        let row: Kept = (0..count).map(value).collect();
        self.bytes += size(&row);
        if self.bytes > MAX_HELD {
            return Err(Failure::too_much_to_hold());
        }
        self.rows.push(row);
        Ok(())
    }

    fn truncate(&mut self, count: usize) {
        self.rows.truncate(count);
        self.bytes = self.rows.iter().map(|row| size(row)).sum();
    }
}

/// About how many bytes a row takes.
fn size(row: &[Value<'_>]) -> usize {
    let owned = |value: &Value<'_>| match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    size_of::<Vec<Value>>() + size_of_val(row) + row.iter().map(owned).sum::<usize>()
}

/// Sends rows of text.
fn text_rows<'r>(
    rows: &mut Rows<'_, '_>,
    values: impl IntoIterator<Item = Vec<Option<&'r str>>>,
) -> io::Result<()> {
    for row in values {
        for value in row {
            match value {
                Some(text) => rows.text(text),
                None => rows.value(&Value::Null, None),
            }
        }
        rows.end_row()?;
    }
    Ok(())
}
