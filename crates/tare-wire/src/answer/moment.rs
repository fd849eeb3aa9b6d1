//! SELECTs answered of one moment of a table whose rows can be looked at more than once: lists in an order, whose rows are
//! made once it is known which they are, and sums, all of the same figures.

use std::ops::ControlFlow;

use tare_tables::{Columns, Kept, Values};

use super::ranking::Ranking;
use super::read::Aggregate;
use super::sent::Sent;
use super::{Session, Source, Stop};
use crate::failure::Failure;
use crate::protocol::packet::Writer;
use crate::sql::filter::Filter;
use crate::sql::statement::{ItemOf, Select};

/// Answers SELECTs from one table, of which there is at least one, with one list of rows.
pub(super) fn select(
    source: &Source,
    session: &Session,
    writer: &mut Writer<'_>,
    parts: &[Select],
    kept: Box<dyn Kept + '_>,
) -> Result<(), Stop> {
    let mut moment = Moment { source, kept, judged: Vec::new() };
    // What is refused must be before the first packet of a result.
    let found = parts.iter().map(|part| moment.find(part)).collect::<Result<Vec<_>, Stop>>()?;
    let mut sent = Sent::begin(source, session, writer, &parts[0])?;
    for (part, found) in parts.iter().zip(found) {
        sent.select = part;
        match found {
            Found::Sums(sums) => sent.sums(&sums)?,
            Found::Rows(positions) => moment.send(part, &positions, &mut sent)?,
        }
    }
    sent.finish()
}

/// The columns that SELECTs read.
pub(super) fn columns(parts: &[Select]) -> Columns {
    parts.iter().map(Select::columns).fold(Columns::NONE, Columns::and)
}

/// A table's rows.
struct Moment<'a> {
    source: &'a Source,
    kept: Box<dyn Kept + 'a>,
    /// Conditions, and the positions of the rows they are true of: two SELECTs often have the same.
    judged: Vec<(Filter, Vec<usize>)>,
}

/// What a SELECT asks for.
enum Found {
    /// The positions of rows, in their order.
    Rows(Vec<usize>),
    Sums(Vec<Aggregate>),
}

impl Moment<'_> {
    fn find(&mut self, select: &Select) -> Result<Found, Stop> {
        if select.items.iter().any(|item| item.of.is_aggregate()) {
            return self.sums(select).map(Found::Sums);
        }
        let mut ranking = Ranking::new(select);
        let mut columns = Columns::NONE;
        select.order.iter().for_each(|by| columns.add(by.column));
        self.matching(select, columns, &mut |position, row| {
            Ok(ranking.take(row, || (position, size_of::<usize>()))?)
        })?;
        Ok(Found::Rows(ranking.finish()))
    }

    fn sums(&mut self, select: &Select) -> Result<Vec<Aggregate>, Stop> {
        let mut sums: Vec<Aggregate> = select.items.iter().map(|item| Aggregate::new(select, item)).collect();
        if self.add_all(select, &mut sums) {
            return Ok(sums);
        }
        let declared = select.table.columns();
        let mut columns = Columns::NONE;
        select.items.iter().filter_map(|item| item.of.column()).for_each(|column| columns.add(column));
        self.matching(select, columns, &mut |_, row| {
            sums.iter_mut().for_each(|sum| sum.add(row, declared));
            Ok(())
        })?;
        Ok(sums)
    }

    /// Adds up where that takes no look at single rows: it is known how many there are, and nothing is asked for but that
    /// and sums over all. Else nothing happens.
    fn add_all(&mut self, select: &Select, sums: &mut [Aggregate]) -> bool {
        let is_all = select.filter == Filter::TRUE;
        let judged = self.judged.iter().find(|(filter, _)| *filter == select.filter);
        let count =
            if is_all { Some(self.kept.count()) } else { judged.map(|(_, positions)| positions.len()) };
        let Some(count) = count else { return false };
        let mut columns = Vec::new();
        for sum in &*sums {
            match sum.of {
                ItemOf::Sum(column) if is_all => columns.push(column),
                ItemOf::CountRows | ItemOf::Constant(_) => {}
                _ => return false,
            }
        }
        let Some(totals) = self.kept.sums(&columns) else { return false };
        let mut totals = totals.into_iter();
        for sum in sums {
            let total = if sum.of.column().is_some() { totals.next() } else { None };
            sum.become_of(count as u64, total.unwrap_or_default());
        }
        true
    }

    /// Calls `sink` with the rows asked for. These columns of them can be read.
    fn matching(
        &mut self,
        select: &Select,
        mut columns: Columns,
        sink: &mut dyn FnMut(usize, &dyn Values) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let (source, declared) = (self.source, select.table.columns());
        let known = self.judged.iter().position(|(filter, _)| *filter == select.filter);
        let positions = match known {
            Some(known) => self.judged[known].1.clone(),
            None => (0..self.kept.count()).collect(),
        };
        if known.is_none() {
            select.filter.columns(&mut |column| columns.add(column));
        }
        let (mut next, mut accepted, mut end) = (positions.iter().copied(), Vec::new(), Ok(()));
        self.kept.rows(&mut positions.iter().copied(), columns, &mut |row| {
            let Some(position) = next.next() else { return ControlFlow::Break(()) };
            if known.is_none() {
                if !select.filter.accepts(row, declared) {
                    return ControlFlow::Continue(());
                }
                accepted.push(position);
            }
            end = if source.is_stopping() { Err(Failure::stopping().into()) } else { sink(position, row) };
            if end.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        end?;
        if known.is_none() {
            self.judged.push((select.filter.clone(), accepted));
        }
        Ok(())
    }

    fn send(
        &mut self,
        select: &Select,
        positions: &[usize],
        sent: &mut Sent<'_, '_, '_>,
    ) -> Result<(), Stop> {
        let items = select.columns_of_items();
        let mut columns = Columns::NONE;
        items.iter().flatten().for_each(|column| columns.add(*column));
        let (source, mut end) = (self.source, Ok(()));
        self.kept.rows(&mut positions.iter().copied(), columns, &mut |row| {
            end = if source.is_stopping() { Err(Failure::stopping().into()) } else { sent.row(&items, row) };
            if end.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        end
    }
}
