//! Parsed statements, with names resolved and bounds checked.

use tare_tables::{ColumnSet, Table};

use super::filter::{Constant, RowFilter};

/// A parsed statement.
#[derive(Clone)]
pub(crate) enum SqlStatement {
    /// A statement that is accepted without effect: transactions, settings of the session.
    Nothing,
    /// `SET AUTOCOMMIT=0`
    LeaveAutocommit,
    /// `SET tare_whole_sums = 1`, or 0
    WholeSums(bool),
    /// `USE`
    Use(String),
    /// A SELECT of rows of a table.
    Select(Select),
    /// Several SELECTs from one table with as many items each: rows of one moment.
    Union(Vec<Select>),
    /// A SELECT without FROM: names and values.
    Values(Vec<(String, Expression)>),
    /// An UPDATE.
    Update(UpdateStatement),
    /// An INSERT.
    Insert(Insert),
    /// A DELETE.
    Delete(Delete),
    /// A TRUNCATE, which resets a table.
    Truncate(&'static dyn Table),
    /// SHOW and DESCRIBE.
    Show(Show),
}

impl SqlStatement {
    /// Returns whether the statement is one that may change rows: UPDATE, INSERT, DELETE or TRUNCATE.
    pub(crate) fn changes(&self) -> bool {
        matches!(
            self,
            SqlStatement::Update(_)
                | SqlStatement::Insert(_)
                | SqlStatement::Delete(_)
                | SqlStatement::Truncate(_)
        )
    }
}

/// `SELECT items FROM table …`
#[derive(Clone)]
pub(crate) struct Select {
    pub(crate) table: &'static dyn Table,
    pub(crate) items: Vec<SelectItem>,
    pub(crate) filter: RowFilter,
    pub(crate) order: Vec<OrderBy>,
    pub(crate) limit: RowLimit,
}

impl Select {
    /// Returns the column of each item; `None` for items without one.
    pub(crate) fn columns_of_items(&self) -> Vec<Option<usize>> {
        self.items.iter().map(|item| item.of.column()).collect()
    }

    /// Returns whether it combines all rows into one.
    pub(crate) fn is_aggregate(&self) -> bool {
        self.items.iter().any(|item| item.of.is_aggregate())
    }

    /// Returns the columns it reads.
    pub(crate) fn columns(&self) -> ColumnSet {
        let mut columns = ColumnSet::NONE;
        self.filter.columns(&mut |column| columns.add(column));
        self.items.iter().filter_map(|item| item.of.column()).for_each(|column| columns.add(column));
        self.order.iter().for_each(|order| columns.add(order.column));
        columns
    }
}

/// A column of the result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SelectItem {
    pub(crate) name: String,
    pub(crate) of: ItemOf,
}

/// The value of a result column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ItemOf {
    Column(usize),
    Constant(Constant),
    CountRows,
    Count(usize),
    Sum(usize),
    Min(usize),
    Max(usize),
}

impl ItemOf {
    /// Returns the column whose values it is made of.
    pub(crate) fn column(&self) -> Option<usize> {
        match self {
            ItemOf::Column(column)
            | ItemOf::Count(column)
            | ItemOf::Sum(column)
            | ItemOf::Min(column)
            | ItemOf::Max(column) => Some(*column),
            ItemOf::CountRows | ItemOf::Constant(_) => None,
        }
    }

    /// Returns whether it combines all rows into one value.
    pub(crate) fn is_aggregate(&self) -> bool {
        !matches!(self, ItemOf::Column(_) | ItemOf::Constant(_))
    }
}

/// A column of ORDER BY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OrderBy {
    pub(crate) column: usize,
    pub(crate) descending: bool,
}

/// LIMIT and OFFSET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowLimit {
    pub(crate) skip: u64,
    pub(crate) rows: u64,
}

impl RowLimit {
    pub(crate) const NONE: RowLimit = RowLimit { skip: 0, rows: u64::MAX };
}

/// A value that depends on the session only.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    Constant(Constant),
    /// `@@name`
    Variable(String),
    Database,
    User,
    ConnectionId,
    Now,
}

/// `UPDATE table SET …`
#[derive(Clone)]
pub(crate) struct UpdateStatement {
    pub(crate) table: &'static dyn Table,
    pub(crate) set: Vec<(usize, Constant)>,
    pub(crate) filter: RowFilter,
    pub(crate) limit: u64,
}

/// An INSERT of rows given as constants: `INSERT INTO table …`
#[derive(Clone)]
pub(crate) struct Insert {
    pub(crate) table: &'static dyn Table,
    pub(crate) columns: Vec<usize>,
    pub(crate) rows: Vec<Vec<Constant>>,
    /// Whether existing rows are left as they are.
    pub(crate) ignore: bool,
}

/// `DELETE FROM table …`
#[derive(Clone)]
pub(crate) struct Delete {
    pub(crate) table: &'static dyn Table,
    pub(crate) filter: RowFilter,
    pub(crate) limit: u64,
}

/// A SHOW or DESCRIBE statement.
#[derive(Clone)]
pub(crate) enum Show {
    Databases {
        like: Option<Vec<u8>>,
    },
    Tables {
        full: bool,
        like: Option<Vec<u8>>,
    },
    TableStatus {
        like: Option<Vec<u8>>,
    },
    Columns {
        table: &'static dyn Table,
        full: bool,
        like: Option<Vec<u8>>,
    },
    Create(&'static dyn Table),
    Indexes(&'static dyn Table),
    Variables {
        like: Option<Vec<u8>>,
    },
    /// An empty result with these headings.
    Empty(&'static [&'static str]),
}
