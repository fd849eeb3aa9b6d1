//! SELECT from a stream: what is new since the connection's last one, and a last row that says what was missed.

use std::ops::ControlFlow;

use tare_tables::{Put, Rows as Taker, Stream, StreamAsked, Value};

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
    let mut tested = vec![false; stream.columns().len()];
    select.filter.columns(&mut |column| tested[column] = true);
    let tested: Vec<usize> = (0..tested.len()).filter(|at| tested[*at]).collect();
    let column = |of: &ItemOf| if let ItemOf::Column(column) = of { Some(*column) } else { None };
    let items: Vec<Option<usize>> = select.items.iter().map(|item| column(&item.of)).collect();
    let fields: Vec<Field> = select.items.iter().map(|item| field(select, item)).collect();
    let rows = Rows::begin(writer, &fields, session.narrow)?;
    let cursor = session.cursors.entry(stream.name()).or_default();
    let mut sent = Sent { source, select, rows, end: Ok(()) };
    stream.read(source.engine, cursor, &StreamAsked { items: &items, tested: &tested }, &mut sent);
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

impl Taker for Sent<'_, '_, '_> {
    fn wants(&mut self, row: &[Value]) -> bool {
        self.select.filter.accepts(row, self.select.table.columns())
    }

    fn put(&mut self) -> &mut dyn Put {
        &mut self.rows
    }

    fn own(&mut self, item: usize) {
        if let Some(ItemOf::Constant(constant)) = self.select.items.get(item).map(|item| &item.of) {
            put_constant(&mut self.rows, constant);
        }
    }

    fn end(&mut self) -> ControlFlow<()> {
        self.end = match self.rows.end_row() {
            Ok(()) if self.source.is_stopping() => Err(Failure::stopping().into()),
            ended => ended.map_err(Stop::from),
        };
        if self.end.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

impl Put for Rows<'_, '_> {
    fn null(&mut self) {
        self.value(&Value::Null, || None);
    }

    fn unsigned(&mut self, number: u64) {
        self.value(&Value::Unsigned(number), || None);
    }

    fn text(&mut self, text: &str) {
        Rows::text(self, text);
    }

    /// No stream has doubles or moments.
    fn value(&mut self, value: &Value) {
        Rows::value(self, value, || None);
    }
}
