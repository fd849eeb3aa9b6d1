//! Interface of a table to those who serve it: metadata, a scan, and the few writes that the Performance
//! Schema allows.

mod query;
mod row;
mod value;

use std::ops::ControlFlow;

use tare_engine::snapshot::{Present, PresentTable};
use tare_engine::{Cursor, Engine};

pub use query::{Condition, Operator, Query};
pub use row::{ColumnSet, Put, RowReceiver, RowSink, RowValues};
pub use value::{Column, SqlType, Value};

/// Statements that a client may use on a table, given the grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// SELECT.
    Read,
    /// SELECT, TRUNCATE.
    Truncate,
    /// SELECT, UPDATE of some columns.
    Update,
    /// SELECT, INSERT, UPDATE, DELETE, TRUNCATE.
    Edit,
}

/// Reason why a write was refused. Numbers and texts are the built-in's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableError {
    /// 1683 ER_WRONG_PERFSCHEMA_USAGE "Invalid performance_schema usage"
    WrongUsage,
    /// 1142 ER_TABLEACCESS_DENIED_ERROR: the table does not allow this command.
    Denied(&'static str),
    /// 1062 ER_DUP_ENTRY
    Duplicate,
    /// 1114 ER_RECORD_FILE_FULL: the table has its maximum number of rows.
    Full,
    /// 1452 ER_NO_REFERENCED_ROW_2: a rule has an empty enum, which is what a host in non-strict mode stores
    /// for an invalid value.
    NoReference,
    /// 1265 WARN_DATA_TRUNCATED: invalid value of this column.
    BadValue(&'static str),
    /// 1231 ER_WRONG_VALUE_FOR_VAR: invalid value of the setting in this row.
    WrongValue {
        /// Name of the setting.
        name: String,
        /// The value given.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
}

/// A table that can be served.
///
/// By default methods that change the table refuse, as the built-in does, and there are no indexes.
pub trait Table: Sync {
    /// Returns the name in `performance_schema`, in lower case.
    fn name(&self) -> &'static str;
    /// Returns what the table shows, and where it differs from the built-in.
    fn doc(&self) -> &'static str;
    /// Returns which statements are allowed.
    fn access(&self) -> Access {
        Access::Read
    }
    /// Returns the table in the shape `extended`, made once: with all columns of MySQL's, in MySQL's order.
    /// `None`: it is the same in both shapes.
    fn extended(&'static self) -> Option<&'static dyn Table> {
        None
    }
    /// Returns the columns in the built-in's order.
    fn columns(&self) -> &[Column];
    /// Returns the indexes as column positions, most useful first. Each is offered to the host's optimizer.
    fn indexes(&self) -> &'static [&'static [usize]] {
        &[]
    }
    /// Returns the SELECT of a view, whose rows the host itself has; `None` for other tables.
    fn body(&self) -> Option<String> {
        None
    }
    /// Calls `sink` with each row until it breaks.
    fn scan(&self, engine: &Engine, query: &Query<'_>, sink: RowSink<'_>);
    /// Keeps the rows of one point in time, with these columns; `None`: they can be read only once.
    fn keep<'e>(&'e self, _: &'e Engine, _: ColumnSet) -> Option<Box<dyn RowSnapshot + 'e>> {
        None
    }
    /// Returns the table as one of what threads are doing, whose rows can be consistent with those of other
    /// such tables.
    fn present(&self) -> Option<&dyn PresentRows> {
        None
    }
    /// Returns the table as a stream, whose rows are what has ended since they were last read.
    fn stream(&self) -> Option<&dyn StreamTable> {
        None
    }
    /// Updates the one row that equals `row` (all columns, as read). Returns whether it changed.
    fn update(&self, _: &Engine, _row: &[Value], _set: &[(usize, Value)]) -> Result<bool, TableError> {
        Err(TableError::Denied("UPDATE"))
    }
    /// Inserts a row, with one value per column.
    fn insert(&self, _: &Engine, _row: &[Value]) -> Result<(), TableError> {
        Err(TableError::Denied("INSERT"))
    }
    /// Deletes the one row that equals `row`. Returns whether there was one.
    fn delete(&self, _: &Engine, _row: &[Value]) -> Result<bool, TableError> {
        Err(TableError::Denied("DELETE"))
    }
    /// Resets the table as documented for TRUNCATE.
    fn truncate(&self, _: &Engine) -> Result<(), TableError> {
        Err(TableError::WrongUsage)
    }
}

/// The rows of a table at one point in time.
pub trait RowSnapshot {
    /// Returns the number of rows.
    fn count(&self) -> usize;
    /// Returns the positions of the rows that pass all tests, each with its number in the column `by`, or 0.
    fn judge(&mut self, tests: Vec<Test<'_>>, by: Option<usize>) -> Vec<(u64, usize)>;
    /// Calls `sink` with the rows at these positions until it breaks. Only these columns may be read.
    fn rows(&mut self, positions: &[usize], columns: ColumnSet, sink: RowSink<'_>);
    /// Returns the sums of these columns over all rows; `None` if one of them is neither a count nor a sum.
    fn sums(&mut self, columns: &[usize]) -> Option<Vec<u128>>;
}

/// A test of a column's value.
pub struct Test<'t> {
    /// Position of the column.
    pub column: usize,
    /// Predicate on the value. It must always give the same answer for the same value.
    pub accepts: &'t mut dyn FnMut(&Value<'_>) -> bool,
}

/// A table of what threads are doing.
pub trait PresentRows {
    /// Returns which table this is.
    fn table(&self) -> PresentTable;
    /// Returns THREAD_ID of the threads whose rows may satisfy these conditions; `None`: all threads.
    fn threads(&self, engine: &Engine, conditions: &[Condition]) -> Option<Vec<u64>>;
    /// Calls `sink` with the table's rows among those of a thread until it breaks.
    fn scan_present(&self, present: &Present, query: &Query<'_>, sink: RowSink<'_>) -> ControlFlow<()>;
}

/// A table whose rows are the events that have ended since they were last read with the same cursor, followed
/// by one with the number of those missed.
pub trait StreamTable: Table {
    /// Returns whether its events are statements. A server that samples records all of them only while a
    /// [`tare_engine::StatementReader`] asks for them.
    fn has_statements(&self) -> bool {
        false
    }
    /// Puts the new rows and the last one. Each consists of these items: a column, or `None` for something of
    /// the receiver's own.
    fn read(&self, engine: &Engine, cursor: &mut Cursor, items: &[Option<usize>], to: &mut dyn RowReceiver);
}
