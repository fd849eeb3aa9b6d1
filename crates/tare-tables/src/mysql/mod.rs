//! Declarations of MySQL 9.7: the columns of each of its tables, in order. The shape `extended` follows them.
//!
//! The facts are in `columns.tsv`, which `regenerate.sh` writes from a running server.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::table::{Column, SqlType};

/// Documentation of a column without a value in any row.
pub const ABSENT: &str = "As in MySQL; no row has it.";

const FACTS: &str = include_str!("columns.tsv");

/// Returns the columns of one of MySQL's tables, with `json` as the type MariaDB has for it. Empty for other
/// tables.
pub fn columns(table: &str) -> &'static [Column] {
    static TABLES: LazyLock<HashMap<&str, Vec<Column>>> = LazyLock::new(parsed);
    TABLES.get(table).map_or(&[], Vec::as_slice)
}

/// Returns the names of MySQL's tables.
pub fn tables() -> impl Iterator<Item = &'static str> {
    let mut last = "";
    FACTS.lines().filter_map(|line| line.split('\t').next()).filter(move |name| {
        let is_next = last != *name;
        last = name;
        is_next
    })
}

fn parsed() -> HashMap<&'static str, Vec<Column>> {
    let mut tables: HashMap<&str, Vec<Column>> = HashMap::new();
    for line in FACTS.lines() {
        let mut fields = line.split('\t');
        let mut field = || fields.next().unwrap_or_default();
        let (table, name, sql_type, nullable) = (field(), field(), field(), field() == "YES");
        // A test checks that every type is known.
        let Some(sql_type) = sql_type_of(sql_type) else { continue };
        let name = name.to_ascii_uppercase().leak();
        let column = Column { name, sql_type, nullable, default: None, doc: ABSENT };
        tables.entry(table).or_default().push(column);
    }
    tables
}

/// Parses a type in MySQL's spelling.
fn sql_type_of(text: &'static str) -> Option<SqlType> {
    let (name, arguments) = match text.split_once('(') {
        Some((name, rest)) => (name, rest.strip_suffix(')')?),
        None => (text, ""),
    };
    let members = || -> &'static [&'static str] {
        arguments.split(',').map(|it| it.trim_matches('\'')).collect::<Vec<_>>().leak()
    };
    Some(match name {
        "bigint" => SqlType::BigInt,
        "bigint unsigned" => SqlType::BigIntUnsigned,
        "int" => SqlType::Int,
        "int unsigned" => SqlType::IntUnsigned,
        "mediumint unsigned" => SqlType::MediumIntUnsigned,
        "smallint" => SqlType::SmallInt,
        "tinyint" => SqlType::TinyInt,
        "double" => {
            let (digits, decimals) = arguments.split_once(',')?;
            SqlType::Double(digits.parse().ok()?, decimals.parse().ok()?)
        }
        "char" => SqlType::Char(arguments.parse().ok()?),
        "varchar" => SqlType::VarChar(arguments.parse().ok()?),
        "text" => SqlType::Text,
        "mediumtext" => SqlType::MediumText,
        "longtext" | "json" => SqlType::LongText,
        "longblob" => SqlType::LongBlob,
        "enum" => SqlType::Enum(members()),
        "set" => SqlType::Set(members()),
        "timestamp" if arguments == "6" => SqlType::TimestampMicros,
        "timestamp" => SqlType::Timestamp,
        "date" => SqlType::Date,
        _ => return None,
    })
}

/// Returns a column of a strict table as declared in the shape `extended`: with MySQL's type, unless the
/// strict one holds more values.
pub(crate) fn widened(own: Column, declared: &Column) -> Column {
    let sql_type = if holds_more(own.sql_type, declared.sql_type) { own.sql_type } else { declared.sql_type };
    let default = own.default.filter(|_| !matches!(sql_type, SqlType::Set(_)));
    Column { sql_type, nullable: declared.nullable, default, ..own }
}

/// Returns whether the first type has values that the second one lacks.
fn holds_more(own: SqlType, declared: SqlType) -> bool {
    use SqlType::{BigInt, Char, Double, DoubleUnsigned, Enum, Int, VarChar};
    match (own, declared) {
        (Char(own) | VarChar(own), Char(declared) | VarChar(declared)) => own > declared,
        (Enum(own), Enum(declared)) => own.iter().any(|it| !declared.contains(it)),
        (BigInt, Int) | (DoubleUnsigned(..), Double(..)) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_understood() {
        let understood: usize = tables().map(|table| columns(table).len()).sum();
        assert_eq!(understood, FACTS.lines().count());
        for line in FACTS.lines() {
            let sql_type = line.split('\t').nth(2).expect("a type");
            assert!(sql_type_of(sql_type).is_some(), "{line}");
        }
    }

    #[test]
    fn a_type_that_holds_more_stays() {
        assert!(holds_more(SqlType::Char(128), SqlType::Char(32)));
        assert!(!holds_more(SqlType::VarChar(32), SqlType::VarChar(64)));
        assert!(holds_more(SqlType::Enum(&["A", "TICK"]), SqlType::Enum(&["A", "B"])));
        assert!(!holds_more(SqlType::Enum(&["A"]), SqlType::Enum(&["A", "B"])));
        assert!(!holds_more(SqlType::Timestamp, SqlType::TimestampMicros));
    }
}
