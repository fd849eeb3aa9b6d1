//! Streams: what has ended since the last answer, each event once, and how many could not be read any more.
//!
//! They are read over the endpoint only, as tables that remember how far each connection has come. They are none of the
//! server's tables.

mod statement;

use std::ops::ControlFlow;
use std::sync::OnceLock;

use tare_engine::snapshot::{Parts, StageRow, TransactionRow, WaitRow};
use tare_engine::{Cursor, Each, Engine, Origin, Piece};

use crate::column::{ColumnDef, YES_NO, nullable, yes_no};
use crate::event;
use crate::table::SqlType::{BigIntUnsigned, VarChar};
use crate::table::{Column, Columns, Query, Sink, Table, Value, Values};

/// Every stream.
pub static STREAMS: &[&dyn Stream] = &[&statement::STATEMENTS, &TRANSACTIONS, &WAITS, &STAGES];

/// A table whose rows are what has ended since they were last read with the same cursor, and then one that says how many
/// were missed.
pub trait Stream: Table {
    /// Hands out the new rows, and the last one, for these columns to be read.
    fn read(&self, engine: &Engine, cursor: &mut Cursor, columns: Columns, take: Take<'_>);
}

/// Takes a row, and whether it is an event and not the last row, until it breaks.
pub type Take<'a> = &'a mut dyn FnMut(&dyn Values, bool) -> ControlFlow<()>;

/// What a stream is of.
trait Kind: 'static {
    /// An event, where its columns are read from.
    type Event<'a>;
    /// What its columns are declared for.
    type Row: 'static;
    /// A column of an event.
    fn value<'r>(event: &'r Self::Event<'_>, column: usize, def: &ColumnDef<Self::Row>) -> Value<'r>;
    /// Reads on in the engine's stream.
    fn read(
        engine: &Engine,
        cursor: &mut Cursor,
        parts: Parts,
        each: impl FnMut(&Self::Event<'_>, &Origin) -> ControlFlow<()>,
    ) -> Piece;
}

/// Kinds whose events come as rows.
macro_rules! kinds {
    ($($kind:ident: $row:ty = $source:path),*) => {$(
        struct $kind;

        impl Kind for $kind {
            type Event<'a> = $row;
            type Row = $row;
            fn value<'r>(event: &'r $row, _: usize, def: &ColumnDef<$row>) -> Value<'r> {
                (def.get)(event)
            }
            fn read(
                engine: &Engine,
                cursor: &mut Cursor,
                parts: Parts,
                mut each: impl FnMut(&$row, &Origin) -> ControlFlow<()>,
            ) -> Piece {
                const SOURCE: Source<$row> = $source;
                SOURCE(engine, cursor, parts, &mut each)
            }
        }
    )*};
}

/// Reads a stream of the engine's.
type Source<R> = fn(&Engine, &mut Cursor, Parts, Each<'_, R>) -> Piece;

kinds!(
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

const ORIGIN: &[ColumnDef<Origin>] = &[
    nullable(
        "PROCESSLIST_ID",
        BigIntUnsigned,
        "Id of the connection; NULL for a background thread.",
        |origin| origin.processlist_id.into(),
    ),
    nullable(
        "PROCESSLIST_USER",
        VarChar(128),
        "User of the connection's account; NULL for a background thread, and once the account is forgotten.",
        |origin| origin.user.as_deref().into(),
    ),
    nullable("PROCESSLIST_HOST", VarChar(256), "Host of that account.", |origin| {
        origin.host.as_deref().into()
    }),
    nullable(
        "ENDED",
        BigIntUnsigned,
        "When the event ended, in microseconds since 1970, UTC. Of one that was not timed, roughly.",
        |origin| origin.ended_us.into(),
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
            let of_origin = ORIGIN.iter().map(|def| def.column);
            of_event.chain(of_origin).chain(LAST.iter().map(|def| def.column)).collect()
        })
    }

    /// Without a cursor there is nothing.
    fn scan(&self, _: &Engine, _: &Query<'_>, _: Sink<'_>) {}

    fn stream(&self) -> Option<&dyn Stream> {
        Some(self)
    }
}

impl<K: Kind> Stream for StreamDef<K> {
    fn read(&self, engine: &Engine, cursor: &mut Cursor, columns: Columns, take: Take<'_>) {
        let events: Vec<&ColumnDef<K::Row>> = self.event().collect();
        let parts = columns.parts(events.iter().map(|def| def.parts));
        let mut has_left = false;
        let piece = K::read(engine, cursor, parts, |event, origin| {
            let flow = take(&Ended::<K> { events: &events, event, origin }, true);
            has_left = flow.is_break();
            flow
        });
        if !has_left {
            let _last = take(&Last { before: events.len() + ORIGIN.len(), piece }, false);
        }
    }
}

/// The row of an event.
struct Ended<'r, 'e, K: Kind> {
    events: &'r [&'static ColumnDef<K::Row>],
    event: &'r K::Event<'e>,
    origin: &'r Origin,
}

impl<K: Kind> Values for Ended<'_, '_, K> {
    fn value(&self, column: usize) -> Value<'_> {
        match self.events.get(column) {
            Some(def) => K::value(self.event, column, def),
            None => ORIGIN.get(column - self.events.len()).map_or(Value::Null, |def| (def.get)(self.origin)),
        }
    }
}

/// The last row: what an answer came to.
struct Last {
    /// Columns that are of events.
    before: usize,
    piece: Piece,
}

impl Values for Last {
    fn value(&self, column: usize) -> Value<'_> {
        let def = column.checked_sub(self.before).and_then(|column| LAST.get(column));
        def.map_or(Value::Null, |def| (def.get)(&self.piece))
    }
}
