//! The items of a SELECT, before and after their table is known.

use tare_tables::{Column, Table};

use super::statement::{Expression, ItemOf, SelectItem};
use crate::failure::ErrorPacket;

/// The table whose columns may be named, and its names.
#[derive(Clone)]
pub(super) struct ColumnScope {
    pub(super) table: &'static dyn Table,
    pub(super) alias: Option<String>,
}

/// The name of a column: qualifier and name.
pub(super) type ColumnName = (Option<String>, String);

impl ColumnScope {
    /// Returns the position of a column in the table.
    pub(super) fn column(&self, (qualifier, name): &ColumnName) -> Result<usize, ErrorPacket> {
        let known = |it: &String| match &self.alias {
            Some(alias) => it.eq_ignore_ascii_case(alias),
            None => it.eq_ignore_ascii_case(self.table.name()),
        };
        let is_it = |column: &Column| column.name.eq_ignore_ascii_case(name);
        let position = self.table.columns().iter().position(is_it);
        position.filter(|_| qualifier.as_ref().is_none_or(known)).ok_or_else(|| match qualifier {
            Some(qualifier) => ErrorPacket::unknown_column(&format!("{qualifier}.{name}")),
            None => ErrorPacket::unknown_column(name),
        })
    }
}

/// An item of a SELECT before the table is known.
pub(super) enum Unresolved {
    All,
    One(String, UnresolvedItem),
}

/// What an item of a SELECT is.
pub(super) enum UnresolvedItem {
    /// `table.*`
    AllOf,
    Column(ColumnName),
    Aggregate(Aggregate, Option<ColumnName>),
    Value(Expression),
}

/// A function over all rows.
#[derive(Clone, Copy)]
pub(super) enum Aggregate {
    CountRows,
    Count,
    Sum,
    Min,
    Max,
}

impl Unresolved {
    /// Adds what the item is for this table to the items.
    pub(super) fn resolve(self, scope: &ColumnScope, items: &mut Vec<SelectItem>) -> Result<(), ErrorPacket> {
        let (name, what) = match self {
            Unresolved::One(name, what) => (name, what),
            Unresolved::All => {
                let columns = scope.table.columns().iter().enumerate();
                items.extend(
                    columns.map(|(at, it)| SelectItem { name: it.name.into(), of: ItemOf::Column(at) }),
                );
                return Ok(());
            }
        };
        let of = match what {
            UnresolvedItem::Column(column) => ItemOf::Column(scope.column(&column)?),
            UnresolvedItem::Value(Expression::Constant(constant)) => ItemOf::Constant(constant),
            UnresolvedItem::Aggregate(Aggregate::CountRows, _) | UnresolvedItem::Aggregate(_, None) => {
                ItemOf::CountRows
            }
            UnresolvedItem::Aggregate(aggregate, Some(column)) => {
                let column = scope.column(&column)?;
                match aggregate {
                    Aggregate::Sum => ItemOf::Sum(column),
                    Aggregate::Min => ItemOf::Min(column),
                    Aggregate::Max => ItemOf::Max(column),
                    Aggregate::Count | Aggregate::CountRows => ItemOf::Count(column),
                }
            }
            UnresolvedItem::Value(_) | UnresolvedItem::AllOf => {
                return Err(ErrorPacket::unsupported("a function beside FROM"));
            }
        };
        items.push(SelectItem { name, of });
        Ok(())
    }

    /// Returns name and value of an item of a SELECT without a table.
    pub(super) fn value(self) -> Result<(String, Expression), ErrorPacket> {
        match self {
            Unresolved::One(name, UnresolvedItem::Value(value)) => Ok((name, value)),
            Unresolved::One(_, UnresolvedItem::Column((_, name))) => Err(ErrorPacket::unknown_column(&name)),
            _ => Err(ErrorPacket::syntax("nothing to select from")),
        }
    }
}
