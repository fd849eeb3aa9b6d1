//! Streams: what has ended since the last answer, each event once, and the number of events that could not be
//! read any more.
//!
//! Streams are read over the endpoint only, as tables that remember each connection's position. The server
//! has no such tables. A server ends more statements than any other table has rows, so no intermediate rows
//! are made: each column is put directly from where the event was read to where it is sent from.

use std::ops::{ControlFlow, Range};
use std::sync::OnceLock;

use tare_engine::snapshot::Parts;
use tare_engine::{Cursor, Engine, EventOrigin, StreamPart};

use super::column::{ColumnDef, YES_NO, nullable, yes_no};
use crate::table::SqlType::{BigIntUnsigned, VarChar};
use crate::table::{
    Column, ColumnSet, Put, Query, RowReceiver, RowSink, RowValues, StreamTable, Table, Value,
};

impl dyn Put + '_ {
    /// Puts a number, or NULL.
    pub(crate) fn number(&mut self, number: Option<u64>) {
        match number {
            Some(number) => self.unsigned(number),
            None => self.null(),
        }
    }

    /// Puts a text, or NULL.
    pub(crate) fn some(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.null(),
        }
    }
}

/// A value that is kept for a test and not sent.
pub(crate) struct KeptValue(pub(crate) Value<'static>);

impl Put for KeptValue {
    fn null(&mut self) {
        self.0 = Value::Null;
    }
    fn unsigned(&mut self, number: u64) {
        self.0 = Value::Unsigned(number);
    }
    fn text(&mut self, text: &str) {
        self.0 = text.to_owned().into();
    }
    fn value(&mut self, value: &Value<'_>, _: Option<u8>) {
        self.0 = value.clone().into_owned();
    }
    fn own(&mut self, _: usize) {
        self.null();
    }
}

/// The way to put one item of a row, or several adjacent ones. Putting several at once saves most of a row's
/// cost.
enum ItemWriter<R: 'static> {
    /// One column of the event: its position and its declaration.
    Event(usize, &'static ColumnDef<R>),
    /// Adjacent columns in [`StreamType::NUMBERS`].
    Numbers(Range<usize>),
    Origin(&'static ColumnDef<EventOrigin>),
    /// Columns of the last row only.
    Last(Vec<&'static ColumnDef<StreamPart>>),
    /// Not a column: an item of the receiver's own.
    Own(usize),
}

/// The type of a stream's events.
pub(crate) trait StreamType: 'static {
    /// An event in the buffer from which its columns are read.
    type Event<'a>;
    /// The row type for which its columns are declared.
    type Row: 'static;
    /// Puts a column, given its position and its declaration.
    fn put(event: &Self::Event<'_>, column: usize, def: &ColumnDef<Self::Row>, to: &mut dyn Put);
    /// Whether its events are statements.
    const STATEMENTS: bool = false;
    /// Columns that are numbers, in the order of [`StreamType::numbers`].
    const NUMBERS: Range<usize> = 0..0;
    /// Returns the numbers of these columns.
    fn numbers<'e>(_: &'e Self::Event<'_>) -> &'e [u64] {
        &[]
    }
    /// Reads the next part of the engine's stream.
    fn read(
        engine: &Engine,
        cursor: &mut Cursor,
        parts: Parts,
        each: impl FnMut(&Self::Event<'_>, &EventOrigin) -> ControlFlow<()>,
    ) -> StreamPart;
}

/// A declared stream.
pub(crate) struct StreamDef<K: StreamType> {
    name: &'static str,
    doc: &'static str,
    event: &'static [&'static [ColumnDef<K::Row>]],
    columns: OnceLock<Vec<Column>>,
}

const ORIGIN: &[ColumnDef<EventOrigin>] = &[
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

/// The columns of the last row.
pub(crate) const LAST: &[ColumnDef<StreamPart>] = &[
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

impl<K: StreamType> StreamDef<K> {
    /// Declares a stream of events with these groups of columns.
    pub(crate) const fn new(
        name: &'static str,
        doc: &'static str,
        event: &'static [&'static [ColumnDef<K::Row>]],
    ) -> Self {
        StreamDef { name, doc, event, columns: OnceLock::new() }
    }

    fn event(&self) -> impl Iterator<Item = &'static ColumnDef<K::Row>> {
        self.event.iter().copied().flatten()
    }

    fn way(&self, column: usize) -> ItemWriter<K::Row> {
        let of_origin = self.event().count();
        let of_last = of_origin + ORIGIN.len();
        if K::NUMBERS.contains(&column) {
            let at = column - K::NUMBERS.start;
            return ItemWriter::Numbers(at..at + 1);
        }
        match self.event().nth(column) {
            Some(def) => ItemWriter::Event(column, def),
            None if column < of_last => ItemWriter::Origin(&ORIGIN[column - of_origin]),
            None => ItemWriter::Last(vec![&LAST[column - of_last]]),
        }
    }

    /// Returns the ways to put rows of these items.
    fn ways(&self, items: &[Option<usize>]) -> Vec<ItemWriter<K::Row>> {
        let mut ways: Vec<ItemWriter<K::Row>> = Vec::with_capacity(items.len());
        for (item, column) in items.iter().enumerate() {
            let way = match column {
                None => ItemWriter::Own(item),
                Some(column) => self.way(*column),
            };
            match (ways.last_mut(), way) {
                (Some(ItemWriter::Numbers(before)), ItemWriter::Numbers(next))
                    if before.end == next.start =>
                {
                    before.end = next.end;
                }
                (Some(ItemWriter::Last(before)), ItemWriter::Last(next)) => before.extend(next),
                (_, way) => ways.push(way),
            }
        }
        ways
    }
}

impl<R> ItemWriter<R> {
    #[inline(always)]
    fn put<K: StreamType<Row = R>>(&self, event: &K::Event<'_>, origin: &EventOrigin, to: &mut dyn Put) {
        match self {
            ItemWriter::Event(column, def) => K::put(event, *column, def, to),
            ItemWriter::Numbers(which) => {
                to.numbers(K::numbers(event).get(which.clone()).unwrap_or_default())
            }
            ItemWriter::Origin(def) => def.put(origin, to),
            ItemWriter::Last(defs) => to.nulls(defs.len()),
            ItemWriter::Own(item) => to.own(*item),
        }
    }

    fn put_last(&self, piece: &StreamPart, to: &mut dyn Put) {
        match self {
            ItemWriter::Last(defs) => defs.iter().for_each(|def| def.put(piece, to)),
            ItemWriter::Numbers(which) => to.nulls(which.len()),
            ItemWriter::Own(item) => to.own(*item),
            ItemWriter::Event(..) | ItemWriter::Origin(_) => to.null(),
        }
    }
}

impl<K: StreamType> Table for StreamDef<K> {
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

    /// Emits nothing: a stream needs a cursor.
    fn scan(&self, _: &Engine, _: &Query<'_>, _: RowSink<'_>) {}

    fn stream(&self) -> Option<&dyn StreamTable> {
        Some(self)
    }
}

impl<K: StreamType> StreamTable for StreamDef<K> {
    fn has_statements(&self) -> bool {
        K::STATEMENTS
    }

    fn read(&self, engine: &Engine, cursor: &mut Cursor, items: &[Option<usize>], to: &mut dyn RowReceiver) {
        let ways = self.ways(items);
        let tested = to.tested();
        let mut columns = tested;
        items.iter().flatten().for_each(|column| columns.add(*column));
        let parts = columns.parts(self.event().map(|def| def.parts));
        let mut has_left = false;
        let piece = K::read(engine, cursor, parts, |event, origin| {
            if tested != ColumnSet::NONE && !to.wants(&Tested { stream: self, event, origin }) {
                return ControlFlow::Continue(());
            }
            ways.iter().for_each(|way| way.put::<K>(event, origin, to));
            let flow = to.end();
            has_left = flow.is_break();
            flow
        });
        if !has_left {
            ways.iter().for_each(|way| way.put_last(&piece, to));
            let _last = to.end();
        }
    }
}

/// An event that is tested.
struct Tested<'r, 'e, K: StreamType> {
    stream: &'r StreamDef<K>,
    event: &'r K::Event<'e>,
    origin: &'r EventOrigin,
}

impl<K: StreamType> RowValues for Tested<'_, '_, K> {
    fn value(&self, column: usize) -> Value<'_> {
        let mut kept = KeptValue(Value::Null);
        self.stream.way(column).put::<K>(self.event, self.origin, &mut kept);
        kept.0
    }
}
