//! All tables as data: name, doc, columns, source, reset. Knows neither wire formats nor hosts.
//!
//! A table is one [`TableDef`]: groups of columns (name, type, meaning and getter side by side) and a source
//! of rows. A table whose rows the host itself has is a [`ViewDef`], with SQL in place of getters. To add a
//! table, add a declaration in `declarations/` and a line in [`TABLES`].

mod ddl;
mod declarations;
mod document;
mod framework;
pub mod mysql;
mod shape;
mod table;
#[cfg(test)]
mod tests;

pub use ddl::{ddl, sql_type_text};
pub use declarations::status::{StatusRow, StatusValue, set_status_source};
pub use declarations::stream::STREAMS;
pub use declarations::{
    account, active, budget, digest, error, event, handle, histogram, host_cache, level, lock, log, object,
    program, replication, server, session, setup, status, summary, sync, thread, timer, variable,
};
pub use document::{DocumentPage, pages};
pub use framework::column::ColumnDef;
pub use framework::definition::{Emit, TableDef};
pub use framework::view::{ViewColumn, ViewDef};
pub use shape::{FURTHER, Shape, TABLES};
pub use table::{
    Access, Column, ColumnSet, Condition, Operator, PresentRows, Put, Query, RowReceiver, RowSink,
    RowSnapshot, RowValues, SqlType, StreamTable, Table, TableError, Test, Value,
};
