//! What a client asks for, once understood: names resolved, bounds checked.

use tare_tables::{Columns, Table};

use super::filter::{Constant, Filter};

/// A statement.
#[derive(Clone)]
pub(crate) enum Statement {
    /// Accepted, and nothing to do: transactions, settings of the session.
    Nothing,
    /// `SET AUTOCOMMIT=0`
    LeaveAutocommit,
    /// `SET tare_whole_sums = 1`, or 0
    WholeSums(bool),
    /// `USE`
    Use(String),
    /// Rows of a table.
    Select(Select),
    /// Several SELECTs from one table, as many items each: rows of one moment.
    Union(Vec<Select>),
    /// SELECT without FROM: names and values.
    Values(Vec<(String, Expression)>),
    /// Changes rows.
    Update(Update),
    /// Adds rows.
    Insert(Insert),
    /// Removes rows.
    Delete(Delete),
    /// Resets a table.
    Truncate(&'static dyn Table),
    /// SHOW and DESCRIBE.
    Show(Show),
}

/// `SELECT items FROM table …`
#[derive(Clone)]
pub(crate) struct Select {
    pub(crate) table: &'static dyn Table,
    pub(crate) items: Vec<Item>,
    pub(crate) filter: Filter,
    pub(crate) order: Vec<Order>,
    pub(crate) limit: Limit,
}

impl Select {
    /// The column that each item is made of.
    pub(crate) fn columns_of_items(&self) -> Vec<Option<usize>> {
        self.items.iter().map(|item| item.of.column()).collect()
    }

    /// Whether it asks for one row of all.
    pub(crate) fn is_aggregate(&self) -> bool {
        self.items.iter().any(|item| item.of.is_aggregate())
    }

    /// The columns it reads.
    pub(crate) fn columns(&self) -> Columns {
        let mut columns = Columns::NONE;
        self.filter.columns(&mut |column| columns.add(column));
        self.items.iter().filter_map(|item| item.of.column()).for_each(|column| columns.add(column));
        self.order.iter().for_each(|order| columns.add(order.column));
        columns
    }
}

/// One result column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) of: ItemOf,
}

/// What a result column shows.
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
    /// The column whose values it is made of.
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

    /// One value for all rows together.
    pub(crate) fn is_aggregate(&self) -> bool {
        !matches!(self, ItemOf::Column(_) | ItemOf::Constant(_))
    }
}

/// A column of ORDER BY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) column: usize,
    pub(crate) descending: bool,
}

/// LIMIT and OFFSET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) skip: u64,
    pub(crate) rows: u64,
}

impl Limit {
    pub(crate) const NONE: Limit = Limit { skip: 0, rows: u64::MAX };
}

/// A value that depends on nothing but the session.
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
pub(crate) struct Update {
    pub(crate) table: &'static dyn Table,
    pub(crate) set: Vec<(usize, Constant)>,
    pub(crate) filter: Filter,
    pub(crate) limit: u64,
}

/// `INSERT INTO table …`
#[derive(Clone)]
pub(crate) struct Insert {
    pub(crate) table: &'static dyn Table,
    pub(crate) columns: Vec<usize>,
    pub(crate) rows: Vec<Vec<Constant>>,
    /// IGNORE: what exists already is left as it is.
    pub(crate) ignore: bool,
}

/// `DELETE FROM table …`
#[derive(Clone)]
pub(crate) struct Delete {
    pub(crate) table: &'static dyn Table,
    pub(crate) filter: Filter,
    pub(crate) limit: u64,
}

/// What is shown.
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
    /// Nothing to show, under these headings.
    Empty(&'static [&'static str]),
}
