//! Tables for tests: any columns, any keys, no rows.

use tare_engine::Engine;
use tare_mariadb::install::{Collation, Default, FrmField, TableDefinition};
use tare_server::sql::literal;
use tare_tables::{Access, Column, Query, RowSink, SqlType, Table, TableError, Value};

/// A table that is only declared.
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) columns: Vec<Column>,
    pub(crate) indexes: &'static [&'static [usize]],
    pub(crate) access: Access,
    pub(crate) body: Option<&'static str>,
}

impl Sample {
    pub(crate) fn new(name: &'static str, columns: Vec<Column>) -> Sample {
        Sample { name, columns, indexes: &[], access: Access::Read, body: None }
    }
}

pub(crate) fn column(name: &'static str, sql_type: SqlType, nullable: bool) -> Column {
    Column { name, sql_type, nullable, default: None, doc: "" }
}

/// For the life of the test: declarations are static.
pub(crate) fn leak(text: impl Into<String>) -> &'static str {
    Box::leak(text.into().into_boxed_str())
}

impl Table for Sample {
    fn name(&self) -> &'static str {
        self.name
    }
    fn doc(&self) -> &'static str {
        ""
    }
    fn access(&self) -> Access {
        self.access
    }
    fn columns(&self) -> &[Column] {
        &self.columns
    }
    fn indexes(&self) -> &'static [&'static [usize]] {
        self.indexes
    }
    fn body(&self) -> Option<String> {
        self.body.map(str::to_owned)
    }
    fn scan(&self, _: &Engine, _: &Query<'_>, _: RowSink<'_>) {}
    fn update(&self, _: &Engine, _: &[Value], _: &[(usize, Value)]) -> Result<bool, TableError> {
        Err(TableError::WrongUsage)
    }
    fn insert(&self, _: &Engine, _: &[Value]) -> Result<(), TableError> {
        Err(TableError::WrongUsage)
    }
    fn delete(&self, _: &Engine, _: &[Value]) -> Result<bool, TableError> {
        Err(TableError::WrongUsage)
    }
    fn truncate(&self, _: &Engine) -> Result<(), TableError> {
        Err(TableError::WrongUsage)
    }
}

/// The SQL a definition is the file of, without engine and keys.
pub(crate) fn columns_sql(definition: &TableDefinition<'_>) -> String {
    definition.fields.iter().map(field_sql).collect::<Vec<_>>().join(", ")
}

/// `, KEY …` for every key.
pub(crate) fn keys_sql(definition: &TableDefinition<'_>) -> String {
    let part = |column: &usize| format!("`{}`", definition.fields[*column].name);
    let key = |key: &tare_mariadb::install::KeyDefinition| {
        let parts = key.columns.iter().map(part).collect::<Vec<_>>().join(", ");
        let head = if key.primary { "PRIMARY KEY".into() } else { format!("KEY `{}`", key.name) };
        format!(", {head} ({parts})")
    };
    definition.keys.iter().map(key).collect()
}

/// A collation's name.
pub(crate) fn collation_sql(collation: Collation) -> &'static str {
    match collation {
        Collation::GeneralCi => "utf8mb3_general_ci",
        Collation::Bin => "utf8mb3_bin",
    }
}

fn field_sql(field: &FrmField<'_>) -> String {
    let collate = match field.sql_type {
        SqlType::Char(_)
        | SqlType::VarChar(_)
        | SqlType::Text
        | SqlType::MediumText
        | SqlType::LongText
        | SqlType::Enum(_)
        | SqlType::Set(_) => {
            format!(" COLLATE {}", collation_sql(field.collation))
        }
        _ => String::new(),
    };
    let null = if field.nullable { " NULL" } else { " NOT NULL" };
    let default = match field.default {
        Default::None => String::new(),
        Default::Null => " DEFAULT NULL".into(),
        Default::Text(text) => format!(" DEFAULT {}", literal(text)),
        Default::Zero => " DEFAULT '0000-00-00 00:00:00'".into(),
        Default::Now => " DEFAULT current_timestamp() ON UPDATE current_timestamp()".into(),
    };
    let comment = literal(field.comment);
    format!("`{}` {}{collate}{null}{default} COMMENT {comment}", field.name, type_sql(field.sql_type))
}

/// A type as the server spells it.
pub(crate) fn type_sql(sql_type: SqlType) -> String {
    match sql_type {
        SqlType::BigInt => "bigint(20)".into(),
        SqlType::BigIntUnsigned => "bigint(20) unsigned".into(),
        SqlType::Int => "int(11)".into(),
        SqlType::IntUnsigned => "int(10) unsigned".into(),
        SqlType::MediumIntUnsigned => "mediumint(8) unsigned".into(),
        SqlType::SmallInt => "smallint(6)".into(),
        SqlType::TinyInt => "tinyint(4)".into(),
        SqlType::Double(digits, decimals) => format!("double({digits},{decimals})"),
        SqlType::DoubleUnsigned(digits, decimals) => format!("double({digits},{decimals}) unsigned"),
        SqlType::Char(length) => format!("char({length})"),
        SqlType::VarChar(length) => format!("varchar({length})"),
        SqlType::Text => "text".into(),
        SqlType::MediumText => "mediumtext".into(),
        SqlType::LongText => "longtext".into(),
        SqlType::LongBlob => "longblob".into(),
        SqlType::Enum(members) => format!("enum({})", literals(members)),
        SqlType::Set(members) => format!("set({})", literals(members)),
        SqlType::Timestamp => "timestamp".into(),
        SqlType::TimestampMicros => "timestamp(6)".into(),
        SqlType::Date => "date".into(),
    }
}

/// Members as the server lists them: without blanks between them.
fn literals(members: &[&str]) -> String {
    members.iter().map(|member| literal(member)).collect::<Vec<_>>().join(",")
}
