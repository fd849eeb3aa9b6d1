//! Streams: what has ended since the last answer, each event once, and how many could not be read any more.
//!
//! They are read over the endpoint only, as tables that remember how far each connection has come. They are none of the
//! server's tables. A value goes from the record it was read from to where it is sent from, without one in between.

mod statement;

use std::ops::ControlFlow;
use std::sync::OnceLock;

use tare_engine::snapshot::{StageRow, TransactionRow, WaitRow};
use tare_engine::{Cursor, Each, Engine, Origin, Piece};

use crate::column::{ColumnDef, YES_NO, nullable, yes_no};
use crate::event;
use crate::table::SqlType::{BigIntUnsigned, VarChar};
use crate::table::{Column, Condition, SqlType, Table, Value};

/// Every stream.
pub static STREAMS: &[&dyn Stream] = &[&statement::STATEMENTS, &TRANSACTIONS, &WAITS, &STAGES];

/// A table whose rows are what has ended since they were last read with the same cursor, and then one that says how many
/// were missed.
pub trait Stream: Table {
    /// Hands out the new rows, and the last one.
    fn read(&self, engine: &Engine, cursor: &mut Cursor, asked: &StreamAsked<'_>, to: &mut dyn Rows);
}

/// What is asked of a stream, by positions of columns.
#[derive(Clone, Copy, Debug)]
pub struct StreamAsked<'a> {
    /// What a row has, in its order; `None`: something that is no column.
    pub items: &'a [Option<usize>],
    /// What decides whether an event's row is wanted.
    pub tested: &'a [usize],
}

/// Takes a value.
pub trait Put {
    /// NULL.
    fn null(&mut self);
    /// A number.
    fn unsigned(&mut self, number: u64);
    /// A text.
    fn text(&mut self, text: &str);
    /// Any value.
    fn value(&mut self, value: &Value);
}

impl dyn Put + '_ {
    fn number(&mut self, number: Option<u64>) {
        match number {
            Some(number) => self.unsigned(number),
            None => self.null(),
        }
    }

    fn some(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.null(),
        }
    }
}

/// Takes rows, value by value.
pub trait Rows {
    /// Whether an event is wanted: of its columns those that are tested are here, the others are NULL.
    fn wants(&mut self, row: &[Value]) -> bool;
    /// Takes the next values of the row.
    fn put(&mut self) -> &mut dyn Put;
    /// What is at this position is no column: the taker's own.
    fn own(&mut self, item: usize);
    /// The row has all its values. Breaks when no more is wanted.
    fn end(&mut self) -> ControlFlow<()>;
}

/// A value that is tested.
impl Put for Value {
    fn null(&mut self) {
        *self = Value::Null;
    }
    fn unsigned(&mut self, number: u64) {
        *self = Value::Unsigned(number);
    }
    fn text(&mut self, text: &str) {
        *self = text.to_owned().into();
    }
    fn value(&mut self, value: &Value) {
        *self = value.clone();
    }
}

/// How a column is put where it goes to, of what events of this kind are read from.
type Putter<K> = fn(&<K as Kind>::Event<'_>, &mut dyn Put);

/// The columns that are put without a row in between, by name.
type Direct<K> = &'static [(&'static str, Putter<K>)];

/// A kind of stream.
trait Kind: 'static {
    /// What an event is read from.
    type Event<'a>;
    /// All that there is to say of it.
    type Row: 'static;
    /// What most columns are put with; the others are read from the row.
    const DIRECT: Direct<Self>;
    fn row<T>(event: &Self::Event<'_>, read: impl FnOnce(&Self::Row) -> T) -> T;
    fn read(
        engine: &Engine,
        cursor: &mut Cursor,
        each: impl FnMut(&Self::Event<'_>, &Origin) -> ControlFlow<()>,
    ) -> Piece;
}

/// Reads a stream of the engine's.
type Source<R> = fn(&Engine, &mut Cursor, Each<'_, R>) -> Piece;

/// A kind whose events come as rows.
macro_rules! kinds_of_rows {
    ($($kind:ident: $row:ty = $source:path),*) => {$(
        struct $kind;

        impl Kind for $kind {
            type Event<'a> = $row;
            type Row = $row;
            const DIRECT: Direct<Self> = &[];
            fn row<T>(event: &$row, read: impl FnOnce(&$row) -> T) -> T {
                read(event)
            }
            fn read(
                engine: &Engine,
                cursor: &mut Cursor,
                mut each: impl FnMut(&$row, &Origin) -> ControlFlow<()>,
            ) -> Piece {
                const SOURCE: Source<$row> = $source;
                SOURCE(engine, cursor, &mut each)
            }
        }
    )*};
}
kinds_of_rows!(
    Transactions: TransactionRow = Engine::stream_transactions,
    Waits: WaitRow = Engine::stream_waits,
    Stages: StageRow = Engine::stream_stages
);

/// `tare_stream_transactions`
static TRANSACTIONS: StreamDef<Transactions> = StreamDef::new(
    "tare_stream_transactions",
    "The transactions that have ended since the connection's last SELECT from here, as `tare_stream_statements` has \
     statements.",
    event::TRANSACTION,
);

/// `tare_stream_waits`
static WAITS: StreamDef<Waits> = StreamDef::new(
    "tare_stream_waits",
    "The waits that were recorded since, as `tare_stream_statements` has statements. One that began before the \
     connection's first SELECT is left out; one that never ended counts in POSITION only.",
    event::WAIT,
);

/// `tare_stream_stages`
static STAGES: StreamDef<Stages> = StreamDef::new(
    "tare_stream_stages",
    "The stages that were recorded since, as `tare_stream_waits` has waits.",
    event::STAGE,
);

/// A declared stream.
struct StreamDef<K: Kind> {
    name: &'static str,
    doc: &'static str,
    event: &'static [&'static [ColumnDef<K::Row>]],
    columns: OnceLock<Vec<Column>>,
}

const fn of_origin(name: &'static str, sql_type: SqlType, doc: &'static str) -> Column {
    Column { name, sql_type, nullable: true, default: None, doc }
}

const ORIGIN: &[(Column, fn(&Origin, &mut dyn Put))] = &[
    (
        of_origin("PROCESSLIST_ID", BigIntUnsigned, "Id of the connection; NULL for a background thread."),
        |origin, to| to.number(origin.processlist_id),
    ),
    (
        of_origin(
            "PROCESSLIST_USER",
            VarChar(128),
            "User of the connection's account; NULL for a background thread, and once the account is forgotten.",
        ),
        |origin, to| to.some(origin.user.as_deref()),
    ),
    (of_origin("PROCESSLIST_HOST", VarChar(256), "Host of that account."), |origin, to| {
        to.some(origin.host.as_deref());
    }),
    (
        of_origin(
            "ENDED",
            BigIntUnsigned,
            "When the event ended, in microseconds since 1970, UTC. Of one that was not timed, roughly.",
        ),
        |origin, to| to.unsigned(origin.ended_us),
    ),
];

const LAST: &[ColumnDef<Piece>] = &[
    nullable(
        "LOST",
        BigIntUnsigned,
        "Of the last row: events that ended since the answer before, and were overwritten before they could be read, or for \
         which there was no memory. NULL in all other rows.",
        |piece| piece.lost.into(),
    ),
    nullable(
        "EVENTS",
        BigIntUnsigned,
        "Of the last row: events read for this answer, those that WHERE left out included.",
        |piece| piece.read.into(),
    ),
    nullable("MORE", YES_NO, "Of the last row: whether more can be read at once.", |piece| {
        yes_no(piece.more)
    }),
    nullable(
        "POSITION",
        BigIntUnsigned,
        "Of the last row: events recorded up to here since the server's start. What two answers differ by was read or lost \
         between them.",
        |piece| piece.position.into(),
    ),
];

/// How a column's value comes to where it goes.
enum Way<K: Kind> {
    Direct(Putter<K>),
    Row(fn(&K::Row) -> Value),
    Origin(fn(&Origin, &mut dyn Put)),
    /// Of the last row only.
    Last(fn(&Piece) -> Value),
    /// It is none of the table's.
    Own(usize),
}

impl<K: Kind> Way<K> {
    fn put(&self, event: &K::Event<'_>, origin: &Origin, to: &mut dyn Rows) {
        match self {
            Way::Direct(put) => put(event, to.put()),
            Way::Row(get) => to.put().value(&K::row(event, get)),
            Way::Origin(put) => put(origin, to.put()),
            Way::Last(_) => to.put().null(),
            Way::Own(item) => to.own(*item),
        }
    }

    fn put_last(&self, piece: &Piece, to: &mut dyn Rows) {
        match self {
            Way::Last(get) => to.put().value(&get(piece)),
            Way::Own(item) => to.own(*item),
            _ => to.put().null(),
        }
    }

    /// The value, where an event's row is tested.
    fn value(&self, event: &K::Event<'_>, origin: &Origin, to: &mut Value) {
        match self {
            Way::Direct(put) => put(event, to),
            Way::Row(get) => *to = K::row(event, get),
            Way::Origin(put) => put(origin, to),
            Way::Last(_) | Way::Own(_) => *to = Value::Null,
        }
    }
}

impl<K: Kind> StreamDef<K> {
    const fn new(
        name: &'static str,
        doc: &'static str,
        event: &'static [&'static [ColumnDef<K::Row>]],
    ) -> Self {
        StreamDef { name, doc, event, columns: OnceLock::new() }
    }

    fn event(&self) -> impl Iterator<Item = &'static ColumnDef<K::Row>> {
        self.event.iter().copied().flatten()
    }

    fn way(&self, column: usize) -> Way<K> {
        let of_origin = self.event().count();
        let of_last = of_origin + ORIGIN.len();
        match (self.event().nth(column), column) {
            (Some(def), _) => {
                let direct = K::DIRECT.iter().find(|(name, _)| *name == def.column.name);
                direct.map_or(Way::Row(def.get), |(_, put)| Way::Direct(*put))
            }
            (None, at) if at < of_last => Way::Origin(ORIGIN[at - of_origin].1),
            (None, at) => Way::Last(LAST[at - of_last].get),
        }
    }
}

impl<K: Kind> Table for StreamDef<K> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn doc(&self) -> &'static str {
        self.doc
    }

    fn columns(&self) -> &[Column] {
        self.columns.get_or_init(|| {
            let of_event = self.event().map(|def| Column { nullable: true, ..def.column });
            let of_origin = ORIGIN.iter().map(|(column, _)| *column);
            of_event.chain(of_origin).chain(LAST.iter().map(|def| def.column)).collect()
        })
    }

    /// Without a cursor there is nothing.
    fn scan(&self, _: &Engine, _: &[Condition], _: &mut dyn FnMut(&[Value]) -> ControlFlow<()>) {}

    fn stream(&self) -> Option<&dyn Stream> {
        Some(self)
    }
}

impl<K: Kind> Stream for StreamDef<K> {
    fn read(&self, engine: &Engine, cursor: &mut Cursor, asked: &StreamAsked<'_>, to: &mut dyn Rows) {
        let way = |(item, column): (usize, &Option<usize>)| column.map_or(Way::Own(item), |at| self.way(at));
        let items: Vec<Way<K>> = asked.items.iter().enumerate().map(way).collect();
        let tested: Vec<(usize, Way<K>)> = asked.tested.iter().map(|at| (*at, self.way(*at))).collect();
        let mut row = vec![Value::Null; self.columns().len()];
        let mut has_left = false;
        let piece = K::read(engine, cursor, |event, origin| {
            if !tested.is_empty() {
                tested.iter().for_each(|(at, way)| way.value(event, origin, &mut row[*at]));
                if !to.wants(&row) {
                    return ControlFlow::Continue(());
                }
            }
            items.iter().for_each(|way| way.put(event, origin, to));
            let flow = to.end();
            has_left = flow.is_break();
            flow
        });
        if !has_left {
            items.iter().for_each(|way| way.put_last(&piece, to));
            let _last = to.end();
        }
    }
}
