//! Requests to a table.

use super::row::ColumnSet;
use super::value::Value;

/// A request to a table.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The columns that will be read, including those of the conditions. The table may save the cost of
    /// others.
    pub columns: ColumnSet,
    /// Hints which rows may be left out.
    pub conditions: &'a [Condition],
}

impl Query<'_> {
    /// Every column of every row.
    pub const ALL: Query<'static> = Query { columns: ColumnSet::ALL, conditions: &[] };
    /// The number of rows.
    pub const COUNT: Query<'static> = Query { columns: ColumnSet::NONE, conditions: &[] };
}

/// One comparison of a WHERE clause, all joined by AND. A scan may use them to skip work. The requester
/// filters the rows again, so ignoring them is correct.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Position of the column.
    pub column: usize,
    /// Comparison operator.
    pub operator: Operator,
    /// Value to compare with. `Null` only for [`Operator::IsNull`] and [`Operator::IsNotNull`].
    pub value: Value<'static>,
}

/// Comparison operators that FEDERATED and clients send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Like,
    IsNull,
    IsNotNull,
}
