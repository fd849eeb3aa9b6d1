//! Every table as data: name, doc, columns, source, reset. Knows neither wire formats nor hosts.

mod table;

pub use table::{Access, Column, Condition, Operator, SqlType, Table, TableError, Value};

/// Every table, in the order of `docs/tables.md`.
pub static TABLES: &[&dyn Table] = &[];
