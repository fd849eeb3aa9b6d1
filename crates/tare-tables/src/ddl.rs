//! Declarations as SQL text, formatted as the built-in prints them.

use std::fmt::Write;

use crate::table::{Column, SqlType, Table};

/// Returns the table's `CREATE TABLE` without engine, character set and comments. What follows the closing
/// parenthesis is added by the installer.
pub fn ddl(table: &dyn Table) -> String {
    let columns: Vec<String> =
        table.columns().iter().map(|column| format!("  {}", declaration(table.name(), column))).collect();
    format!("CREATE TABLE `{}` (\n{}\n)", table.name(), columns.join(",\n"))
}

/// Returns the declaration of a column.
fn declaration(table: &str, column: &Column) -> String {
    let mut text = format!("`{}` {}", column.name, sql_type_text(column.sql_type));
    if let Some(collation) = collation(table, column) {
        let _ = write!(text, " CHARACTER SET utf8mb3 COLLATE {collation}");
    }
    if let Some(default) = column.default {
        let _ = write!(text, "{} DEFAULT '{default}'", if column.nullable { "" } else { " NOT NULL" });
        return text;
    }
    text.push_str(match (column.nullable, column.sql_type) {
        (false, SqlType::Timestamp) if column.name == "LAST_ERROR_TIMESTAMP" => {
            " NOT NULL DEFAULT current_timestamp()"
        }
        (true, SqlType::Timestamp) => " DEFAULT '0000-00-00 00:00:00'",
        (true, SqlType::TimestampMicros) => " DEFAULT '0000-00-00 00:00:00.000000'",
        (true, _) => " DEFAULT NULL",
        (false, SqlType::Timestamp) => " NOT NULL DEFAULT '0000-00-00 00:00:00'",
        (false, SqlType::TimestampMicros) => " NOT NULL DEFAULT '0000-00-00 00:00:00.000000'",
        (false, _) => " NOT NULL",
    });
    text
}

/// Returns the collation of a column where it differs from that of the schema. Names of users and hosts are
/// compared byte by byte: these are the columns of type `char`, with two exceptions. Connection attributes
/// are compared so, too.
fn collation(table: &str, column: &Column) -> Option<&'static str> {
    match (table, column.name, column.sql_type) {
        (_, "LAST_SEEN_TRANSACTION", _) => None,
        ("host_cache", "HOST", _) | (_, "ATTR_NAME" | "ATTR_VALUE", _) | (_, _, SqlType::Char(_)) => {
            Some("utf8mb3_bin")
        }
        _ => None,
    }
}

/// Returns the type in SQL, such as `bigint(20) unsigned`.
pub fn sql_type_text(sql_type: SqlType) -> String {
    match sql_type {
        SqlType::BigInt => "bigint(20)".to_owned(),
        SqlType::BigIntUnsigned => "bigint(20) unsigned".to_owned(),
        SqlType::Int => "int(11)".to_owned(),
        SqlType::IntUnsigned => "int(10) unsigned".to_owned(),
        SqlType::MediumIntUnsigned => "mediumint(8) unsigned".to_owned(),
        SqlType::SmallInt => "smallint(6)".to_owned(),
        SqlType::TinyInt => "tinyint(4)".to_owned(),
        SqlType::Double(digits, decimals) => format!("double({digits},{decimals})"),
        SqlType::DoubleUnsigned(digits, decimals) => format!("double({digits},{decimals}) unsigned"),
        SqlType::Char(length) => format!("char({length})"),
        SqlType::VarChar(length) => format!("varchar({length})"),
        SqlType::Text => "text".to_owned(),
        SqlType::MediumText => "mediumtext".to_owned(),
        SqlType::LongText => "longtext".to_owned(),
        SqlType::LongBlob => "longblob".to_owned(),
        SqlType::Enum(members) => format!("enum('{}')", members.join("','")),
        SqlType::Set(members) => format!("set('{}')", members.join("','")),
        SqlType::Timestamp => "timestamp".to_owned(),
        SqlType::TimestampMicros => "timestamp(6)".to_owned(),
        SqlType::Date => "date".to_owned(),
    }
}
