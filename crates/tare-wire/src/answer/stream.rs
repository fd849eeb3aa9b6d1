//! SELECT from a stream: the events since the connection's last SELECT, and a last row that reports missed
//! events.

use std::ops::ControlFlow;

use tare_tables::{Columns, Rows as Taker, Stream, Values};

use super::sent::Sent;
use super::{Session, Source, Stop};
use crate::failure::Failure;
use crate::protocol::packet::Writer;
use crate::sql::statement::{Limit, Select};

/// Answers a SELECT from a stream. WHERE selects the events to send; the last row is always sent.
pub(super) fn select(
    source: &Source,
    session: &mut Session,
    writer: &mut Writer<'_>,
    select: &Select,
    stream: &dyn Stream,
) -> Result<(), Stop> {
    let is_plain = select.order.is_empty() && select.limit == Limit::NONE;
    if !is_plain || select.is_aggregate() {
        return Err(Failure::only_forwards().into());
    }
    let mut sent = Sent::begin(source, session, writer, select)?;
    let cursor = session.cursors.entry(stream.name()).or_default();
    stream.read(source.engine, cursor, &select.columns_of_items(), &mut sent);
    if sent.end.is_err() {
        // After an error the unsent events are not read again: the next SELECT starts anew, and its POSITION
        // shows that.
        session.cursors.remove(stream.name());
    }
    sent.finish()
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
