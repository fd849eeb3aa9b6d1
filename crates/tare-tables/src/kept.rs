//! Rows of one moment that can be looked at more than once: who wants a few of many decides by what is cheap to read, and
//! has the rest made of those few.

use std::ops::ControlFlow;

use tare_engine::snapshot::{DigestRow, Parts};
use tare_engine::{Digests, Engine};

use crate::column::Get;
use crate::definition::{Getter, Record, parts};
use crate::table::{Columns, Sink};

/// The rows of a table at one moment.
pub trait Kept {
    /// How many there are.
    fn count(&self) -> usize;
    /// Calls `sink` with the rows at these positions until it breaks. These columns of them are going to be read.
    fn rows(&mut self, positions: &mut dyn Iterator<Item = usize>, columns: Columns, sink: Sink<'_>);
    /// What each of these columns comes to over all rows, where they are counts and sums; `None` of any other.
    fn sums(&mut self, columns: &[usize]) -> Option<Vec<u128>>;
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

    fn rows(&mut self, positions: &mut dyn Iterator<Item = usize>, columns: Columns, sink: Sink<'_>) {
        let parts = parts(self.getters, columns);
        for position in positions {
            let row = Record { getters: self.getters, row: self.moment.row(position, parts) };
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
