//! Rows of one moment that can be looked at more than once: who wants a few of many decides by what is cheap to read, and
//! has the rest made of those few.

use std::ops::ControlFlow;

use tare_engine::snapshot::{DigestRow, Parts};
use tare_engine::{Digests, Engine};

use crate::column::Get;
use crate::definition::{Getter, Record, parts};
use crate::table::{Columns, Sink, Value};

/// The rows of a table at one moment.
pub trait Kept {
    /// How many there are.
    fn count(&self) -> usize;
    /// The positions of the rows that pass all tests, each with its number in a column of unsigned numbers, if one is named.
    fn judge(&mut self, tests: Vec<Test<'_>>, by: Option<usize>) -> Vec<(u64, usize)>;
    /// Calls `sink` with the rows at these positions until it breaks. These columns of them are going to be read.
    fn rows(&mut self, positions: &[usize], columns: Columns, sink: Sink<'_>);
    /// What each of these columns comes to over all rows, where they are counts and sums; `None` of any other.
    fn sums(&mut self, columns: &[usize]) -> Option<Vec<u128>>;
}

/// What is asked of a column of each row.
pub struct Test<'t> {
    /// The column's position.
    pub column: usize,
    /// Whether a value passes: always the same of the same value.
    pub accepts: &'t mut dyn FnMut(&Value<'_>) -> bool,
}

/// What a source has kept.
pub(crate) trait Moment<R> {
    /// How many rows.
    fn count(&self) -> usize;
    /// One of them, with these parts.
    fn row(&mut self, position: usize, parts: Parts) -> &R;
    /// Rows whose counts and sums come to what those of all come to.
    fn totals(&self) -> Vec<R>;
}

/// Keeps rows, with those parts.
pub(crate) type Keeper<R> = fn(&Engine, Parts) -> Box<dyn Moment<R> + '_>;

impl Moment<DigestRow> for Digests<'_> {
    fn count(&self) -> usize {
        Digests::count(self)
    }

    fn row(&mut self, position: usize, parts: Parts) -> &DigestRow {
        Digests::row(self, position, parts)
    }

    fn totals(&self) -> Vec<DigestRow> {
        Digests::totals(self)
    }
}

/// What a source has kept, and how columns are read from it.
pub(crate) struct KeptRows<'e, R: 'static> {
    pub(crate) getters: &'e [Getter<R>],
    pub(crate) moment: Box<dyn Moment<R> + 'e>,
}

impl<R> Kept for KeptRows<'_, R> {
    fn count(&self) -> usize {
        self.moment.count()
    }

    fn judge(&mut self, tests: Vec<Test<'_>>, by: Option<usize>) -> Vec<(u64, usize)> {
        let mut columns = Columns::NONE;
        tests.iter().map(|test| test.column).chain(by).for_each(|column| columns.add(column));
        let parts = parts(self.getters, columns);
        let getters = self.getters;
        let judges = tests.into_iter().map(|test| (&getters[test.column], Judge { test, last: None }));
        let mut judges: Vec<_> = judges.collect();
        let by = by.map(|by| &self.getters[by]);
        let mut passed = Vec::new();
        for position in 0..self.moment.count() {
            let row = self.moment.row(position, parts);
            if judges.iter_mut().all(|(getter, judge)| judge.accepts(getter.read(row))) {
                passed.push((by.map_or(0, |by| by.number(row)), position));
            }
        }
        passed
    }

    fn rows(&mut self, positions: &[usize], columns: Columns, sink: Sink<'_>) {
        let parts = parts(self.getters, columns);
        for position in positions {
            let row = Record { getters: self.getters, row: self.moment.row(*position, parts) };
            if let ControlFlow::Break(()) = sink(&row) {
                return;
            }
        }
    }

    fn sums(&mut self, columns: &[usize]) -> Option<Vec<u128>> {
        let number = |column: &usize| match self.getters[*column] {
            Getter { get: Get::Number(get), is_sum: true, .. } => Some(get),
            _ => None,
        };
        let numbers: Vec<fn(&R) -> u64> = columns.iter().map(number).collect::<Option<_>>()?;
        let totals = if numbers.is_empty() { vec![] } else { self.moment.totals() };
        Some(numbers.iter().map(|number| totals.iter().map(|row| u128::from(number(row))).sum()).collect())
    }
}

/// A test, and what the last text it was asked of came to: one row after the other often has the same.
struct Judge<'t> {
    test: Test<'t>,
    last: Option<(String, bool)>,
}

impl Judge<'_> {
    fn accepts(&mut self, value: Value<'_>) -> bool {
        let Value::Text(text) = &value else { return (self.test.accepts)(&value) };
        match &self.last {
            Some((last, is_accepted)) if last == text => *is_accepted,
            _ => {
                let is_accepted = (self.test.accepts)(&value);
                self.last = Some((text.as_ref().to_owned(), is_accepted));
                is_accepted
            }
        }
    }
}
