//! SELECT from a stream: what is new since the connection's last one, and a last row that says what was missed.

use std::ops::ControlFlow;

use tare_tables::Stream;

use super::read::{field, send};
use super::{Session, Source, Stop};
use crate::failure::Failure;
use crate::protocol::field::Field;
use crate::protocol::packet::Writer;
use crate::protocol::reply::Rows;
use crate::sql::statement::{Limit, Select};

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
    let columns = stream.columns();
    let fields: Vec<Field> = select.items.iter().map(|item| field(select, item)).collect();
    let mut rows = Rows::begin(writer, &fields, session.narrow)?;
    let cursor = session.cursors.entry(stream.name()).or_default();
    let mut end = Ok(());
    stream.read(source.engine, cursor, select.columns(), &mut |row, is_event| {
        if source.is_stopping() {
            end = Err(Failure::stopping().into());
            return ControlFlow::Break(());
        }
        if is_event && !select.filter.accepts(row, columns) {
            return ControlFlow::Continue(());
        }
        match send(&mut rows, select, row) {
            Ok(()) => ControlFlow::Continue(()),
            Err(stop) => {
                end = Err(stop);
                ControlFlow::Break(())
            }
        }
    });
    if end.is_err() {
        // What was not sent is read no more: the next SELECT begins anew, and its POSITION says so.
        session.cursors.remove(stream.name());
    }
    end?;
    source.traffic.add(rows.count());
    Ok(rows.finish()?)
}
