//! Rows on their way to a client: how values are read, and where they are put.

use std::ops::ControlFlow;

use tare_engine::snapshot::Parts;

use super::value::{Column, Value};

/// The values of a row. Each is made when it is read, so a row costs only what is read of it.
pub trait RowValues {
    /// Returns the value of a column. Meaningful only for columns named in the `Query`.
    fn value(&self, column: usize) -> Value<'_>;
    /// Puts items in order: each is a column, or `None` for something of the receiver's own.
    fn put(&self, columns: &[Column], items: &[Option<usize>], to: &mut dyn Put) {
        for (item, column) in items.iter().enumerate() {
            match column {
                Some(column) => to.value(&self.value(*column), columns[*column].sql_type.decimals()),
                None => to.own(item),
            }
        }
    }
}

impl RowValues for Vec<Value<'_>> {
    fn value(&self, column: usize) -> Value<'_> {
        self[column].borrowed()
    }
}

impl<const N: usize> RowValues for [Value<'_>; N] {
    fn value(&self, column: usize) -> Value<'_> {
        self[column].borrowed()
    }
}

/// Callback that receives rows until it breaks.
pub type RowSink<'a> = &'a mut dyn FnMut(&dyn RowValues) -> ControlFlow<()>;

/// A set of a table's columns, by position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColumnSet(u128);

impl ColumnSet {
    /// Maximum number of columns of a table.
    pub const MOST: usize = u128::BITS as usize;
    /// The empty set.
    pub const NONE: ColumnSet = ColumnSet(0);
    /// The set of all columns.
    pub const ALL: ColumnSet = ColumnSet(u128::MAX);

    /// Adds a column.
    pub fn add(&mut self, column: usize) {
        self.0 |= 1 << column;
    }

    /// Returns the union of two sets.
    #[must_use]
    pub const fn and(self, others: ColumnSet) -> ColumnSet {
        ColumnSet(self.0 | others.0)
    }

    /// Returns whether the set contains a column.
    #[must_use]
    pub const fn has(self, column: usize) -> bool {
        self.0 >> column & 1 != 0
    }

    /// Returns the parts of a row that these columns read; `all` has the parts of every column.
    pub(crate) fn parts(self, all: impl Iterator<Item = Parts>) -> Parts {
        let asked = (0..).zip(all).filter(|(column, _)| self.has(*column));
        asked.fold(Parts::NONE, |parts, (_, of)| parts.and(of))
    }
}

/// Receiver of a row's values, in order.
pub trait Put {
    /// Receives NULL.
    fn null(&mut self);
    /// Receives a number.
    fn unsigned(&mut self, number: u64);
    /// Receives a sum of picoseconds, of which a column holds the lower 64 bits.
    fn sum(&mut self, sum: u128) {
        self.unsigned(sum as u64);
    }
    /// Receives NULL `count` times.
    fn nulls(&mut self, count: usize) {
        (0..count).for_each(|_| self.null());
    }
    /// Receives several numbers in a row.
    fn numbers(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|number| self.unsigned(*number));
    }
    /// Receives a text.
    fn text(&mut self, text: &str);
    /// Receives any value. A double or a timestamp has this many decimals.
    fn value(&mut self, value: &Value<'_>, decimals: Option<u8>);
    /// Tells the receiver to add its own value for the item at this position.
    fn own(&mut self, item: usize);
}

/// Receiver of rows.
pub trait RowReceiver: Put {
    /// Returns the columns by which [`RowReceiver::wants`] decides; none: every event is wanted.
    fn tested(&self) -> ColumnSet;
    /// Returns whether an event is wanted.
    fn wants(&mut self, row: &dyn RowValues) -> bool;
    /// Ends a row that has all its values. Breaks if no more rows are wanted.
    fn end(&mut self) -> ControlFlow<()>;
}
