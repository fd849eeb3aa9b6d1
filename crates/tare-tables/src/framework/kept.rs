//! Rows of one point in time that can be read more than once. A reader that wants a few of many judges them
//! by what is cheap to read, and has the rest made for those few only.

use std::ops::ControlFlow;

use tare_engine::snapshot::{DigestRow, Parts};
use tare_engine::{DigestSnapshot, Engine};

use super::column::Get;
use super::getter::{Getter, parts};
use super::record::DefinedRow;
use crate::table::{ColumnSet, RowSink, RowSnapshot, Test};

/// Rows that a source has kept.
pub(crate) trait RowsOfMoment<R> {
    /// Returns the number of rows.
    fn count(&self) -> usize;
    /// Returns a number that rows have in common if these parts of them are equal; `None` if there is none.
    fn same(&self, position: usize, parts: Parts) -> Option<u32>;
    /// Announces that these parts of the rows at these positions will be read.
    fn expect(&mut self, positions: &[usize], parts: Parts);
    /// Returns a row with these parts; `None` if it was gone before they could be read.
    fn row(&mut self, position: usize, parts: Parts) -> Option<&R>;
    /// Returns rows whose counts and sums add up to those of all rows.
    fn totals(&self) -> Vec<R>;
}

/// Function that keeps rows, with these parts.
pub(crate) type KeepRows<R> = fn(&Engine, Parts) -> Box<dyn RowsOfMoment<R> + '_>;

impl RowsOfMoment<DigestRow> for DigestSnapshot<'_> {
    fn count(&self) -> usize {
        DigestSnapshot::count(self)
    }

    fn same(&self, position: usize, parts: Parts) -> Option<u32> {
        (parts == DigestRow::SCHEMA).then(|| self.schema(position))
    }

    fn expect(&mut self, positions: &[usize], parts: Parts) {
        DigestSnapshot::expect(self, positions, parts);
    }

    fn row(&mut self, position: usize, parts: Parts) -> Option<&DigestRow> {
        DigestSnapshot::row(self, position, parts)
    }

    fn totals(&self) -> Vec<DigestRow> {
        DigestSnapshot::totals(self)
    }
}

/// The rows of a table at one point in time, with the getters of its columns.
pub(crate) struct KeptRows<'e, R: 'static> {
    pub(crate) getters: &'e [Getter<R>],
    pub(crate) moment: Box<dyn RowsOfMoment<R> + 'e>,
}

impl<R> RowSnapshot for KeptRows<'_, R> {
    fn count(&self) -> usize {
        self.moment.count()
    }

    fn judge(&mut self, tests: Vec<Test<'_>>, by: Option<usize>) -> Vec<(u64, usize)> {
        let mut columns = ColumnSet::NONE;
        tests.iter().map(|test| test.column).chain(by).for_each(|column| columns.add(column));
        let parts = parts(self.getters, columns);
        let getters = self.getters;
        let judges = tests.into_iter().map(|test| ColumnTest::new(&getters[test.column], test));
        let judges: Vec<ColumnTest<'_, '_, R>> = judges.collect();
        let by = by.map(|by| &self.getters[by]);
        let count = self.moment.count();
        self.moment.expect(&(0..count).collect::<Vec<_>>(), parts);
        let is_shared =
            |it: &ColumnTest<'_, '_, R>| count > 0 && self.moment.same(0, it.getter.parts).is_some();
        let (mut shared, mut others): (Vec<_>, Vec<_>) = judges.into_iter().partition(is_shared);
        // What rows have in common is often known before they are read.
        let parts_of_others = others
            .iter()
            .map(|it| it.getter.parts)
            .chain(by.map(|by| by.parts))
            .fold(Parts::NONE, Parts::and);
        let mut passed = Vec::with_capacity(count);
        for position in 0..count {
            let mut is_known = true;
            for judge in &mut shared {
                judge.same = self.moment.same(position, judge.getter.parts);
                is_known &= judge.known().is_some();
            }
            if shared.iter().any(|judge| judge.known() == Some(false)) {
                continue;
            }
            let asked = if is_known { parts_of_others } else { parts };
            let Some(row) = self.moment.row(position, asked) else { continue };
            let is_passed = is_known || shared.iter_mut().all(|judge| judge.accepts(row));
            if is_passed && others.iter_mut().all(|judge| judge.accepts(row)) {
                passed.push((by.map_or(0, |by| by.number(row)), position));
            }
        }
        passed
    }

    fn rows(&mut self, positions: &[usize], columns: ColumnSet, sink: RowSink<'_>) {
        let parts = parts(self.getters, columns);
        self.moment.expect(positions, parts);
        for position in positions {
            let Some(row) = self.moment.row(*position, parts) else { continue };
            if let ControlFlow::Break(()) = sink(&DefinedRow { getters: self.getters, row }) {
                return;
            }
        }
    }

    fn sums(&mut self, columns: &[usize]) -> Option<Vec<u128>> {
        let is_summed = |column: &usize| {
            let getter = &self.getters[*column];
            getter.is_sum && matches!(getter.get, Get::Number(_) | Get::Sum(_))
        };
        if !columns.iter().all(is_summed) {
            return None;
        }
        let totals = if columns.is_empty() { vec![] } else { self.moment.totals() };
        let of = |column: &usize, row: &R| match self.getters[*column].get {
            Get::Number(get) => get(row).into(),
            Get::Sum(get) => get(row),
            Get::Value(_) => 0,
        };
        Some(columns.iter().map(|column| totals.iter().map(|row| of(column, row)).sum()).collect())
    }
}

/// A test of a column, with its last answer.
struct ColumnTest<'g, 't, R: 'static> {
    getter: &'g Getter<R>,
    test: Test<'t>,
    /// Number that the present row has in common with others, from [`RowsOfMoment::same`].
    same: Option<u32>,
    /// That number for the row tested last, and the answer: adjacent rows often have the same.
    last: Option<(u32, bool)>,
}

impl<'g, 't, R> ColumnTest<'g, 't, R> {
    fn new(getter: &'g Getter<R>, test: Test<'t>) -> Self {
        ColumnTest { getter, test, same: None, last: None }
    }

    /// Returns the last answer if it was for a row with the same number.
    fn known(&self) -> Option<bool> {
        let (last, is_accepted) = self.last?;
        (self.same == Some(last)).then_some(is_accepted)
    }

    fn accepts(&mut self, row: &R) -> bool {
        self.known().unwrap_or_else(|| {
            let is_accepted = (self.test.accepts)(&self.getter.read(row));
            self.last = self.same.map(|same| (same, is_accepted));
            is_accepted
        })
    }
}
