//! Getters of a table's columns, made from its declaration.

use std::borrow::Cow;

use tare_engine::snapshot::Parts;

use super::column::{ColumnDef, Get};
use crate::table::{ColumnSet, SqlType, Value};

/// Getter of a column, the maximum length of its text, and what stands for NULL if it cannot be NULL.
pub(crate) struct Getter<R: 'static> {
    pub(crate) get: Get<R>,
    limit: usize,
    null: Value<'static>,
    pub(crate) parts: Parts,
    /// Whether the column is a count or a sum, according to its name.
    pub(crate) is_sum: bool,
}

impl<R> Getter<R> {
    pub(crate) fn of(def: &ColumnDef<R>) -> Self {
        let limit = match def.column.sql_type {
            SqlType::Char(limit) | SqlType::VarChar(limit) => limit.into(),
            _ => usize::MAX,
        };
        let null = if def.column.nullable { Value::Null } else { zero(def.column.sql_type) };
        let is_sum = ["COUNT_", "SUM_"].iter().any(|it| def.column.name.starts_with(it));
        Getter { get: def.get, limit, null, parts: def.parts, is_sum }
    }

    /// Returns the sort key of a row: the column's value if it is an unsigned number, else 0. A sum beyond 64
    /// bits becomes the maximum.
    pub(crate) fn number(&self, row: &R) -> u64 {
        match self.get {
            Get::Number(get) => get(row),
            Get::Sum(get) => u64::try_from(get(row)).unwrap_or(u64::MAX),
            Get::Value(_) => {
                if let Value::Unsigned(number) = self.read(row) {
                    number
                } else {
                    0
                }
            }
        }
    }

    /// Returns the column's value, truncated where the host would refuse it as too long.
    pub(crate) fn read<'r>(&'r self, row: &'r R) -> Value<'r> {
        match self.get.read(row) {
            // Many values are numbers. Moving them by their parts avoids a store-forwarding stall: a
            // processor waits if it reads at once what was written in two parts.
            Value::Unsigned(number) => Value::Unsigned(number),
            Value::Text(text) if text.len() > self.limit => {
                Value::Text(text.chars().take(self.limit).collect::<String>().into())
            }
            Value::Null => self.null.borrowed(),
            value => value,
        }
    }
}

/// Returns what stands for NULL in a column that cannot be NULL because MySQL's cannot.
fn zero(sql_type: SqlType) -> Value<'static> {
    match sql_type {
        SqlType::BigInt | SqlType::Int | SqlType::SmallInt | SqlType::TinyInt => Value::Signed(0),
        SqlType::BigIntUnsigned | SqlType::IntUnsigned | SqlType::MediumIntUnsigned => Value::Unsigned(0),
        SqlType::Double(..) | SqlType::DoubleUnsigned(..) => Value::Double(0.0),
        SqlType::Timestamp | SqlType::TimestampMicros | SqlType::Date => Value::Timestamp(0),
        SqlType::Enum(members) => members.first().copied().unwrap_or_default().into(),
        SqlType::LongBlob => Value::Bytes(Cow::Borrowed(&[])),
        _ => "".into(),
    }
}

/// Returns the parts of a row that these columns read.
pub(crate) fn parts<R>(getters: &[Getter<R>], columns: ColumnSet) -> Parts {
    columns.parts(getters.iter().map(|getter| getter.parts))
}
