//! What a `.frm` says of a table, column by column, before it becomes bytes.
//!
//! The built-in's declarations have a few traits the tables' own declarations leave out, because only the DDL shows
//! them: collations and defaults. They follow from a type, with few exceptions, all of them here.

use tare_tables::{Access, SqlType, Table};

/// Collations by their number in the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collation {
    /// `utf8mb3_general_ci`
    GeneralCi = 33,
    /// `utf8mb3_bin`
    Bin = 83,
}

/// DEFAULT of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// None: NOT NULL columns.
    None,
    /// NULL.
    Null,
    /// A text, or a member of an enum.
    Text(&'static str),
    /// `'0000-00-00 00:00:00'`
    Zero,
    /// `current_timestamp() ON UPDATE current_timestamp()`
    Now,
}

/// A column.
#[derive(Clone, Debug)]
pub struct Field<'a> {
    /// Name.
    pub name: &'a str,
    /// Type.
    pub sql_type: SqlType,
    /// NULL allowed.
    pub nullable: bool,
    /// DEFAULT.
    pub default: Default,
    /// COLLATE; means nothing for numbers and times.
    pub collation: Collation,
    /// COMMENT.
    pub comment: &'a str,
}

/// A key; never a unique one but the primary.
#[derive(Clone, Debug)]
pub struct Key {
    /// Name.
    pub name: String,
    /// Positions of its columns.
    pub columns: Vec<usize>,
    /// The primary key.
    pub primary: bool,
}

/// A FEDERATED table.
#[derive(Clone, Debug)]
pub struct Definition<'a> {
    /// Columns in order.
    pub fields: Vec<Field<'a>>,
    /// Keys, the primary first.
    pub keys: Vec<Key>,
    /// COLLATE of the table.
    pub collation: Collation,
    /// COMMENT of the table.
    pub comment: &'a str,
    /// CONNECTION.
    pub connection: &'a str,
}

impl<'a> Definition<'a> {
    /// What the built-in declares for a table, with the table's own keys.
    pub fn of(table: &'a dyn Table, connection: &'a str, comment: &'a str) -> Definition<'a> {
        let name = table.name();
        let field = |column: &'a tare_tables::Column| Field {
            name: column.name,
            sql_type: column.sql_type,
            nullable: column.nullable,
            default: default(column),
            collation: collation(name, column.name, column.sql_type),
            comment: column.doc,
        };
        let fields: Vec<Field<'a>> = table.columns().iter().map(field).collect();
        let keys = keys(table, &fields);
        let collation = if is_attributes(name) { Collation::Bin } else { Collation::GeneralCi };
        Definition { fields, keys, collation, comment, connection }
    }
}

/// `session_connect_attrs` and `session_account_connect_attrs`
fn is_attributes(table: &str) -> bool {
    table.starts_with("session_") && table.ends_with("connect_attrs")
}

/// Users and hosts, the only columns of type CHAR, compare by their bytes, and so do connection attributes.
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

/// A table whose rows can be changed gets its first index as the primary key, because FEDERATED then names a row by
/// its key. Without one it names a row by all its columns, and a row of `threads` has changed by then.
fn keys(table: &dyn Table, fields: &[Field<'_>]) -> Vec<Key> {
    let writable = matches!(table.access(), Access::Update | Access::Edit);
    let mut keys: Vec<Key> = Vec::new();
    for (at, columns) in table.indexes().iter().enumerate() {
        let never_null = columns.iter().all(|column| !fields[*column].nullable);
        let primary = at == 0 && writable && never_null;
        let name = if primary { "PRIMARY".into() } else { free_name(&keys, fields[columns[0]].name) };
        keys.push(Key { name, columns: columns.to_vec(), primary });
    }
    keys
}

/// The name the server itself would choose: the first column's, with a number when it is taken.
fn free_name(keys: &[Key], column: &str) -> String {
    let taken = |name: &str| keys.iter().any(|key| key.name.eq_ignore_ascii_case(name));
    let numbered = (2..).map(|number| format!("{column}_{number}"));
    std::iter::once(column.to_owned()).chain(numbered).find(|name| !taken(name)).unwrap_or_default()
}
