//! The contents of a table's `.frm`, column by column, before it becomes bytes.
//!
//! The built-in's declarations have a few properties that the tables' own declarations omit because only the
//! DDL shows them: collations and defaults. They follow from a column's type with few exceptions, all of
//! which are here.

use tare_tables::{Access, SqlType, Table};

/// A collation, by its number in the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collation {
    /// `utf8mb3_general_ci`
    GeneralCi = 33,
    /// `utf8mb3_bin`
    Bin = 83,
}

/// The DEFAULT of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// No default, for NOT NULL columns.
    None,
    /// The default NULL.
    Null,
    /// A text, or a member of an enum.
    Text(&'static str),
    /// `'0000-00-00 00:00:00'`
    Zero,
    /// `current_timestamp() ON UPDATE current_timestamp()`
    Now,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct FrmField<'a> {
    /// The column's name.
    pub name: &'a str,
    /// The column's type.
    pub sql_type: SqlType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// The DEFAULT clause.
    pub default: Default,
    /// The COLLATE clause; meaningless for numbers and times.
    pub collation: Collation,
    /// The COMMENT clause.
    pub comment: &'a str,
}

/// A key of a table; only the primary one is unique.
#[derive(Clone, Debug)]
pub struct KeyDefinition {
    /// The key's name.
    pub name: String,
    /// The positions of its columns.
    pub columns: Vec<usize>,
    /// Whether it is the primary key.
    pub primary: bool,
}

/// The definition of a FEDERATED table.
#[derive(Clone, Debug)]
pub struct TableDefinition<'a> {
    /// The columns, in order.
    pub fields: Vec<FrmField<'a>>,
    /// The keys, the primary one first.
    pub keys: Vec<KeyDefinition>,
    /// The COLLATE clause of the table.
    pub collation: Collation,
    /// The COMMENT clause of the table.
    pub comment: &'a str,
    /// The CONNECTION clause of the table.
    pub connection: &'a str,
}

impl<'a> TableDefinition<'a> {
    /// Returns the built-in's declaration of a table, with the table's own keys.
    pub fn of(table: &'a dyn Table, connection: &'a str, comment: &'a str) -> TableDefinition<'a> {
        let name = table.name();
        let field = |column: &'a tare_tables::Column| FrmField {
            name: column.name,
            sql_type: column.sql_type,
            nullable: column.nullable,
            default: default(column),
            collation: collation(name, column.name, column.sql_type),
            comment: column.doc,
        };
        let fields: Vec<FrmField<'a>> = table.columns().iter().map(field).collect();
        let keys = keys(table, &fields);
        let collation = if is_attributes(name) { Collation::Bin } else { Collation::GeneralCi };
        TableDefinition { fields, keys, collation, comment, connection }
    }
}

/// Returns whether the table is `session_connect_attrs` or `session_account_connect_attrs`.
fn is_attributes(table: &str) -> bool {
    table.starts_with("session_") && table.ends_with("connect_attrs")
}

/// Returns the collation of a column. Users and hosts, the only columns of type CHAR, compare by their bytes,
/// and so do connection attributes.
fn collation(table: &str, column: &str, sql_type: SqlType) -> Collation {
    match sql_type {
        SqlType::Char(_) if column != "LAST_SEEN_TRANSACTION" => Collation::Bin,
        SqlType::VarChar(_) if is_attributes(table) => Collation::Bin,
        SqlType::VarChar(_) if (table, column) == ("host_cache", "HOST") => Collation::Bin,
        _ => Collation::GeneralCi,
    }
}

fn default(column: &tare_tables::Column) -> Default {
    match (column.name, column.sql_type) {
        ("LAST_ERROR_TIMESTAMP", SqlType::Timestamp) => Default::Now,
        (_, SqlType::Timestamp | SqlType::TimestampMicros) => Default::Zero,
        _ => match column.default {
            Some(text) => Default::Text(text),
            None if column.nullable => Default::Null,
            None => Default::None,
        },
    }
}

/// Returns the keys of a table. If its rows can be changed, the first index becomes the primary key, because
/// FEDERATED then identifies a row by its key. Without one it uses all columns, and a row of `threads` may
/// have changed by then.
fn keys(table: &dyn Table, fields: &[FrmField<'_>]) -> Vec<KeyDefinition> {
    let writable = matches!(table.access(), Access::Update | Access::Edit);
    let mut keys: Vec<KeyDefinition> = Vec::new();
    for (at, columns) in table.indexes().iter().enumerate() {
        let never_null = columns.iter().all(|column| !fields[*column].nullable);
        let primary = at == 0 && writable && never_null;
        let name = if primary { "PRIMARY".into() } else { free_name(&keys, fields[columns[0]].name) };
        keys.push(KeyDefinition { name, columns: columns.to_vec(), primary });
    }
    keys
}

/// Returns the name that the server itself would choose: the first column's, with a number if it is taken.
fn free_name(keys: &[KeyDefinition], column: &str) -> String {
    let taken = |name: &str| keys.iter().any(|key| key.name.eq_ignore_ascii_case(name));
    let numbered = (2..).map(|number| format!("{column}_{number}"));
    std::iter::once(column.to_owned()).chain(numbered).find(|name| !taken(name)).unwrap_or_default()
}
