//! ORDER BY and LIMIT: the first of all rows in an order. What is wanted of a row is made only while it may be among them.

use std::cmp::Ordering;

use tare_tables::{Value, Values};

use super::{Kept, MAX_HELD, size};
use crate::failure::Failure;
use crate::sql::filter;
use crate::sql::statement::Select;
use crate::text::collation::Collation;

/// How many more rows than asked for are collected before the list is cut to its LIMIT.
const SLACK: usize = 64;

/// The first rows in a SELECT's order, each with something of the taker's.
pub(super) struct Ranking<'s, T> {
    select: &'s Select,
    collations: Vec<Collation>,
    /// As many as LIMIT and OFFSET ask for.
    wanted: usize,
    found: Vec<Found<T>>,
    bytes: usize,
    /// The first so many are in order: what does not come before the last of them is none of them.
    is_cut: bool,
}

struct Found<T> {
    /// By what it is ordered.
    keys: Kept,
    item: T,
    bytes: usize,
}

impl<'s, T> Ranking<'s, T> {
    pub(super) fn new(select: &'s Select) -> Self {
        let columns = select.table.columns();
        let collation = |column: usize| Collation::of(select.table.name(), &columns[column]);
        let wanted = select.limit.skip.saturating_add(select.limit.rows);
        Ranking {
            select,
            collations: select.order.iter().map(|by| collation(by.column)).collect(),
            wanted: usize::try_from(wanted).unwrap_or(usize::MAX),
            found: Vec::new(),
            bytes: 0,
            is_cut: false,
        }
    }

    /// Takes a row. What is kept of it, and how many bytes that has, is asked for if it may be wanted.
    pub(super) fn take(
        &mut self,
        row: &dyn Values,
        item: impl FnOnce() -> (T, usize),
    ) -> Result<(), Failure> {
        if self.wanted == 0 {
            return Ok(());
        }
        let key = |at: usize| row.value(self.select.order[at].column);
        if self.is_cut
            && let Some(last) = self.found.get(self.wanted - 1)
            && self.compare(key, last).is_ge()
        {
            return Ok(());
        }
        let keys: Kept = (0..self.select.order.len()).map(|at| key(at).into_owned()).collect();
        let (item, bytes) = item();
        let bytes = bytes + size(&keys);
        self.bytes += bytes;
        if self.bytes > MAX_HELD {
            return Err(Failure::too_much_to_hold());
        }
        self.found.push(Found { keys, item, bytes });
        if self.found.len() >= self.wanted.saturating_mul(2).saturating_add(SLACK) {
            self.cut();
        }
        Ok(())
    }

    /// What was kept of the rows that are asked for, in their order.
    pub(super) fn finish(mut self) -> Vec<T> {
        self.cut();
        let skip = usize::try_from(self.select.limit.skip).unwrap_or(usize::MAX);
        self.found.into_iter().skip(skip).map(|found| found.item).collect()
    }

    /// Leaves those that are first so far.
    fn cut(&mut self) {
        let mut found = std::mem::take(&mut self.found);
        found.sort_by(|left, right| self.compare(|at| left.keys[at].borrowed(), right));
        found.truncate(self.wanted);
        self.bytes = found.iter().map(|found| found.bytes).sum();
        self.found = found;
        self.is_cut = true;
    }

    /// Whether a row comes before or after one that was found, by its keys.
    fn compare<'k>(&self, key: impl Fn(usize) -> Value<'k>, found: &Found<T>) -> Ordering {
        let columns = self.select.table.columns();
        for (at, ((by, collation), found)) in
            self.select.order.iter().zip(&self.collations).zip(&found.keys).enumerate()
        {
            let order = match (key(at), found) {
                // As nearly all are.
                (Value::Unsigned(key), Value::Unsigned(found)) => key.cmp(found),
                (key, found) => filter::order(&key, found, columns[by.column].sql_type, *collation),
            };
            if order.is_ne() {
                return if by.descending { order.reverse() } else { order };
            }
        }
        Ordering::Equal
    }
}
