//! SELECT from a stream: what is new since the connection's last one, and a last row that says what was missed.

use std::ops::ControlFlow;

use tare_tables::{Columns, Put, Rows as Taker, Stream, Value, Values};

use super::read::{field, put_constant};
use super::{Session, Source, Stop};
use crate::failure::Failure;
use crate::protocol::field::Field;
use crate::protocol::packet::Writer;
use crate::protocol::reply::Rows;
use crate::sql::statement::{ItemOf, Limit, Select};

/// Answers a SELECT. WHERE decides which events are sent; the last row always is.
pub(super) fn select(
    source: &Source,
    session: &mut Session,
    writer: &mut Writer<'_>,
    select: &Select,
    stream: &dyn Stream,
) -> Result<(), Stop> {
    let is_plain = select.order.is_empty() && select.limit == Limit::NONE;
    if !is_plain || select.items.iter().any(|item| item.of.is_aggregate()) {
        return Err(Failure::only_forwards().into());
    }
    let items: Vec<Option<usize>> = select.items.iter().map(|item| item.of.column()).collect();
    let fields: Vec<Field> = select.items.iter().map(|item| field(select, item)).collect();
    let rows = Rows::begin(writer, &fields, session.narrow)?;
    let cursor = session.cursors.entry(stream.name()).or_default();
    let mut sent = Sent { source, select, rows, end: Ok(()) };
    stream.read(source.engine, cursor, &items, &mut sent);
    let Sent { rows, end, .. } = sent;
    if end.is_err() {
        // What was not sent is read no more: the next SELECT begins anew, and its POSITION says so.
        session.cursors.remove(stream.name());
    }
    end?;
    source.traffic.add(rows.count());
    Ok(rows.finish()?)
}

/// Rows on their way.
struct Sent<'a, 'w, 's> {
    source: &'a Source,
    select: &'a Select,
    rows: Rows<'w, 's>,
    end: Result<(), Stop>,
}

impl Put for Sent<'_, '_, '_> {
    fn null(&mut self) {
        self.rows.value(&Value::Null, || None);
    }

    fn unsigned(&mut self, number: u64) {
        self.rows.unsigned(number);
    }

    fn text(&mut self, text: &str) {
        self.rows.text(text);
    }

    /// No stream has doubles or moments.
    fn value(&mut self, value: &Value<'_>) {
        self.rows.value(value, || None);
    }

    fn own(&mut self, item: usize) {
        if let Some(ItemOf::Constant(constant)) = self.select.items.get(item).map(|item| &item.of) {
            put_constant(&mut self.rows, constant);
        }
    }
}

impl Taker for Sent<'_, '_, '_> {
    fn tested(&self) -> Columns {
        let mut columns = Columns::NONE;
        self.select.filter.columns(&mut |column| columns.add(column));
        columns
    }

    fn wants(&mut self, row: &dyn Values) -> bool {
        self.select.filter.accepts(row, self.select.table.columns())
    }

    fn end(&mut self) -> ControlFlow<()> {
        self.end = match self.rows.end_row() {
            Ok(()) if self.source.is_stopping() => Err(Failure::stopping().into()),
            ended => ended.map_err(Stop::from),
        };
        if self.end.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}
