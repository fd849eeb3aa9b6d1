//! SELECT from a stream: the events since the connection's last SELECT, and a last row that reports missed
//! events.
//!
//! A server that samples records few of its statements. So from the first SELECT on until its connection
//! ends, a reader of statements has the engine record all that its WHERE may choose.

use std::ops::ControlFlow;

use tare_engine::{Cursor, Engine, StatementReader};
use tare_tables::{ColumnSet, Operator, RowReceiver as Taker, RowValues, StreamTable, Value};

use super::sent::SentRows;
use super::{ClientSession, ServedData, Stop};
use crate::failure::ErrorPacket;
use crate::protocol::packet::PacketWriter;
use crate::sql::statement::{RowLimit, Select};

/// A session's place in a stream.
#[derive(Default)]
pub(crate) struct StreamPosition {
    cursor: Cursor,
    /// Has the statements recorded that the last SELECT may choose, if they are statements.
    reader: Option<StatementReader>,
}

impl StreamPosition {
    /// Has statements recorded that take this many picoseconds or more.
    fn want_from(&mut self, engine: &'static Engine, ps: u64) {
        match &self.reader {
            Some(reader) => reader.want_from(ps),
            None => self.reader = Some(engine.read_statements_from(ps)),
        }
    }
}

/// Returns the least time of statements that a SELECT may choose, in picoseconds. Those that failed are
/// recorded in any case.
fn least_time(select: &Select) -> u64 {
    let columns = select.table.columns();
    let least = select.filter.hints(columns).into_iter().map(|hint| {
        let least = match (hint.operator, &hint.value) {
            (Operator::Greater, Value::Unsigned(over)) => over.saturating_add(1),
            (Operator::GreaterOrEqual | Operator::Equal, Value::Unsigned(least)) => *least,
            _ => 0,
        };
        match columns.get(hint.column).map(|column| column.name) {
            Some("TIMER_WAIT") => least,
            Some("ERRORS") if least > 0 => u64::MAX,
            _ => 0,
        }
    });
    least.max().unwrap_or(0)
}

/// Answers a SELECT from a stream. WHERE selects the events to send; the last row is always sent.
pub(super) fn select(
    source: &ServedData,
    session: &mut ClientSession,
    writer: &mut PacketWriter<'_>,
    select: &Select,
    stream: &dyn StreamTable,
) -> Result<(), Stop> {
    let is_plain = select.order.is_empty() && select.limit == RowLimit::NONE;
    if !is_plain || select.is_aggregate() {
        return Err(ErrorPacket::only_forwards().into());
    }
    let mut sent = SentRows::begin(source, session, writer, select)?;
    let reading = session.readings.entry(stream.name()).or_default();
    if stream.has_statements() {
        reading.want_from(source.engine, least_time(select));
    }
    stream.read(source.engine, &mut reading.cursor, &select.columns_of_items(), &mut sent);
    if sent.end.is_err() {
        // After an error the unsent events are not read again: the next SELECT starts anew, and its POSITION
        // shows that.
        session.readings.remove(stream.name());
    }
    sent.finish()
}

impl Taker for SentRows<'_, '_, '_> {
    fn tested(&self) -> ColumnSet {
        let mut columns = ColumnSet::NONE;
        self.select.filter.columns(&mut |column| columns.add(column));
        columns
    }

    fn wants(&mut self, row: &dyn RowValues) -> bool {
        self.select.filter.accepts(row, self.select.table.columns())
    }

    fn end(&mut self) -> ControlFlow<()> {
        self.end = match self.rows.end_row() {
            Ok(()) if self.source.is_stopping() => Err(ErrorPacket::stopping().into()),
            ended => ended.map_err(Stop::from),
        };
        if self.end.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::catalog::Catalog;
    use crate::sql::{self, statement::SqlStatement};

    #[test]
    fn where_says_how_long_the_statements_are_that_are_wanted() {
        let tables: Vec<&'static dyn tare_tables::Table> =
            tare_tables::STREAMS.iter().map(|stream| *stream as &dyn tare_tables::Table).collect();
        let tables: &'static [&'static dyn tare_tables::Table] = Vec::leak(tables);
        let catalog = || Catalog { tables, inside: None };
        for (filter, least) in [
            ("", 0),
            ("WHERE TIMER_WAIT > 1000", 1001),
            ("WHERE TIMER_WAIT >= 1000", 1000),
            ("WHERE 1000 < TIMER_WAIT", 1001),
            ("WHERE TIMER_WAIT = 1000", 1000),
            ("WHERE TIMER_WAIT BETWEEN 1000 AND 2000", 1000),
            ("WHERE TIMER_WAIT > 18446744073709551615", u64::MAX),
            ("WHERE ROWS_SENT > 5 AND (TIMER_WAIT > 1000 AND DIGEST = 'a')", 1001),
            ("WHERE ERRORS > 0", u64::MAX),
            ("WHERE ERRORS >= 0", 0),
            // All that may be shorter.
            ("WHERE TIMER_WAIT > 1000 OR ROWS_SENT > 5", 0),
            ("WHERE NOT TIMER_WAIT > 1000", 0),
            ("WHERE TIMER_WAIT < 1000", 0),
            ("WHERE TIMER_WAIT <> 1000", 0),
            ("WHERE TIMER_WAIT > -1", 0),
            ("WHERE TIMER_WAIT > '1000'", 0),
            ("WHERE TIMER_WAIT IS NULL", 0),
            ("WHERE TIMER_WAIT > TIMER_START", 0),
            ("WHERE LOCK_TIME > 1000", 0),
        ] {
            let text = format!("SELECT POSITION FROM tare_stream_statements {filter}");
            match sql::parse(text.as_bytes(), catalog()) {
                Ok(SqlStatement::Select(select)) => assert_eq!(least_time(&select), least, "{filter}"),
                _ => panic!("{text}"),
            }
        }
        let with_statements = tare_tables::STREAMS.iter().filter(|stream| stream.has_statements());
        let names: Vec<&str> = with_statements.map(|stream| stream.name()).collect();
        assert_eq!(names, ["tare_stream_statements", "tare_stream_statement_blocks"]);
    }
}
