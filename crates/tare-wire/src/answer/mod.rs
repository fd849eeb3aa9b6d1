//! Answers to statements: [`query`] parses one and executes it; a module per kind of statement.

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

use tare_engine::Engine;
use tare_tables::{ColumnSet, RowValues, Table, Value};

use crate::failure::ErrorPacket;
use crate::peer::Peer;
use crate::protocol::packet::PacketWriter;
use crate::protocol::reply::{self, ResultWriter};
use crate::sql::catalog::{Catalog, NameInside, SCHEMA};
use crate::sql::{
    self,
    statement::{Show, SqlStatement},
};

/// The user that FEDERATED's tables log in as; the connect string of the installed tables names it.
const FEDERATED_USER: &str = "tare";

/// The most bytes of rows that a statement may hold to sort or write them; more is refused.
const MAX_HELD: usize = 8 << 20;

/// The data that every connection serves.
pub(crate) struct ServedData {
    pub(crate) tables: &'static [&'static dyn Table],
    pub(crate) engine: &'static Engine,
    pub(crate) server_version: String,
    pub(crate) name_inside: Option<NameInside>,
    pub(crate) max_connections: usize,
    pub(crate) stopping: AtomicBool,
    pub(crate) traffic: Traffic,
    pub(crate) sizes: Sizes,
}

/// Counters of the SELECTs answered so far.
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

    /// Returns the number of SELECTs from tables answered, and the total of their rows.
    pub(crate) fn answered(&self) -> (u64, u64) {
        (self.selects.load(Ordering::Relaxed), self.rows.load(Ordering::Relaxed))
    }
}

impl ServedData {
    /// Returns the tables as this session names them.
    fn catalog(&self, session: &ClientSession) -> Catalog {
        Catalog { tables: self.tables, inside: self.name_inside.filter(|_| session.peer == Peer::Inside) }
    }

    /// Returns whether tables have other names for this session because it belongs to a server.
    fn is_inside(&self, session: &ClientSession) -> bool {
        self.catalog(session).inside.is_some()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// The state of a connection's session.
pub(crate) struct ClientSession {
    pub(crate) id: u32,
    pub(crate) peer: Peer,
    pub(crate) user: String,
    /// Whether the client reads utf8mb3.
    pub(crate) narrow: bool,
    /// Whether a write reports the rows found instead of the rows changed.
    pub(crate) found_rows: bool,
    pub(crate) has_database: bool,
    /// Whether the client accepts sums that exceed their column's type.
    pub(crate) whole_sums: bool,
    /// The streams it reads, by name.
    pub(crate) readings: HashMap<&'static str, StreamPosition>,
    /// What the current statement of a host's FEDERATED engine reads.
    pub(crate) host_statement: HostStatement,
}

impl ClientSession {
    /// Returns whether the client is the FEDERATED engine of a server, whose faults are undone. Any other
    /// client with its user name is taken literally.
    fn is_federated(&self) -> bool {
        self.peer == Peer::Inside && self.user == FEDERATED_USER
    }

    /// Makes `name` the current schema.
    pub(crate) fn use_database(&mut self, name: &str) -> Result<(), ErrorPacket> {
        if !name.eq_ignore_ascii_case(SCHEMA) {
            return Err(ErrorPacket::unknown_database(name));
        }
        self.has_database = true;
        Ok(())
    }
}

/// The reason a command was not answered.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The client receives the error and the connection continues.
    Failed(ErrorPacket),
    /// The connection is unusable.
    Lost,
}

impl From<ErrorPacket> for Stop {
    fn from(failure: ErrorPacket) -> Self {
        Stop::Failed(failure)
    }
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Self {
        Stop::Lost
    }
}

/// Parses the SQL of one statement and writes its answer to the client. An error is left for the caller to
/// send.
pub(crate) fn query(
    source: &ServedData,
    session: &mut ClientSession,
    writer: &mut PacketWriter<'_>,
    sql: &[u8],
) -> Result<(), Stop> {
    let statement = sql::parse(sql, source.catalog(session))?;
    if statement.changes() {
        session.host_statement.forget();
    }
    match statement {
        // A host's connection that has been in a transaction is dangerous to the host: FEDERATED keeps it and
        // still considers it part of a session that may be gone.
        SqlStatement::LeaveAutocommit if session.peer == Peer::Inside => {
            Err(ErrorPacket::no_transactions().into())
        }
        SqlStatement::Nothing | SqlStatement::LeaveAutocommit => Ok(writer.packet(&reply::ok(0, ""))?),
        SqlStatement::WholeSums(whole) => {
            session.whole_sums = whole;
            Ok(writer.packet(&reply::ok(0, ""))?)
        }
        SqlStatement::Use(name) => {
            session.use_database(&name)?;
            Ok(writer.packet(&reply::ok(0, ""))?)
        }
        // FEDERATED sends this for a new table that is about to be created and would also lead here.
        SqlStatement::Select(select) if source.is_inside(session) && select.filter.is_never() => {
            Err(ErrorPacket::not_another_table().into())
        }
        SqlStatement::Show(Show::Create(_)) if source.is_inside(session) => {
            Err(ErrorPacket::not_another_table().into())
        }
        SqlStatement::Select(mut select) => {
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
        SqlStatement::Union(parts) => moment::union(source, session, writer, &parts),
        SqlStatement::Values(values) => show::values(source, session, writer, &values),
        SqlStatement::Show(show) => {
            if let Show::TableStatus { like: Some(name) } = &show
                && session.is_federated()
                && let Ok(table) = source.catalog(session).find(SCHEMA, &String::from_utf8_lossy(name))
            {
                session.host_statement.announce(table);
            }
            show::show(source, session, writer, &show)
        }
        SqlStatement::Update(update) => write::update(source, session, writer, update),
        SqlStatement::Insert(insert) => write::insert(source, session, writer, &insert),
        SqlStatement::Delete(delete) => write::delete(source, session, writer, delete),
        SqlStatement::Truncate(table) => write::truncate(source, session, writer, table),
    }
}

pub(crate) use present::HostStatement;
pub(crate) use show::field_list;
pub(crate) use size::Sizes;
pub(crate) use stream::StreamPosition;

/// A row that is held, with the requested values.
type OwnedRow = Vec<Value<'static>>;

/// A list of rows with a bound on its size.
struct HeldRow {
    /// The number of the table's columns, and those that are held.
    columns: (usize, ColumnSet),
    rows: Vec<OwnedRow>,
    bytes: usize,
}

impl HeldRow {
    fn new(table: &dyn Table, columns: ColumnSet) -> HeldRow {
        HeldRow { columns: (table.columns().len(), columns), rows: Vec::new(), bytes: 0 }
    }

    fn push(&mut self, row: &dyn RowValues) -> Result<(), ErrorPacket> {
        let (count, columns) = self.columns;
        let value = |at| if columns.has(at) { row.value(at).into_owned() } else { Value::Null };
        let row: OwnedRow = (0..count).map(value).collect();
        self.bytes += size(&row);
        if self.bytes > MAX_HELD {
            return Err(ErrorPacket::too_much_to_hold());
        }
        self.rows.push(row);
        Ok(())
    }

    fn truncate(&mut self, count: usize) {
        self.rows.truncate(count);
        self.bytes = self.rows.iter().map(|row| size(row)).sum();
    }
}

/// Returns the approximate size of a row in bytes.
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
    rows: &mut ResultWriter<'_, '_>,
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
