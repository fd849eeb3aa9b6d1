//! A column with the getter that reads it from a row, and how Rust values become column values.

use std::borrow::Cow;

use tare_engine::snapshot::Parts;

use crate::stream::Put;
use crate::table::{Column, SqlType, Value};

/// A column of a table whose rows are `R`.
#[derive(Debug)]
pub struct ColumnDef<R: 'static> {
    /// Name, type and meaning.
    pub column: Column,
    /// Reads the column from a row.
    pub get: Get<R>,
    /// Which parts of a row it reads, beyond what costs nothing.
    pub parts: Parts,
}

/// How a column is read from a row.
#[derive(Debug)]
pub enum Get<R: 'static> {
    /// An unsigned number, as nearly all are: it needs no [`Value`] on its way.
    Number(fn(&R) -> u64),
    /// A sum of picoseconds. A column holds its lower 64 bits, which begin anew after 213 days, as the built-in's do: differences of
    /// them stay true. Who wants it whole can have it ([`Put::sum`]).
    Sum(fn(&R) -> u128),
    /// Anything.
    Value(fn(&R) -> Value<'_>),
}

impl<R> Clone for Get<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Get<R> {}

impl<R> Get<R> {
    /// The column's value.
    pub fn read<'r>(&self, row: &'r R) -> Value<'r> {
        match self {
            Get::Number(get) => Value::Unsigned(get(row)),
            Get::Sum(get) => Value::Unsigned(get(row) as u64),
            Get::Value(get) => get(row),
        }
    }
}

impl<R> Clone for ColumnDef<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for ColumnDef<R> {}

/// A column of unsigned numbers, never NULL.
pub(crate) const fn number<R>(
    name: &'static str,
    sql_type: SqlType,
    doc: &'static str,
    get: fn(&R) -> u64,
) -> ColumnDef<R> {
    ColumnDef {
        column: Column { name, sql_type, nullable: false, default: None, doc },
        get: Get::Number(get),
        parts: Parts::NONE,
    }
}

/// A column of sums of picoseconds, never NULL.
pub(crate) const fn sum<R>(name: &'static str, doc: &'static str, get: fn(&R) -> u128) -> ColumnDef<R> {
    let sql_type = SqlType::BigIntUnsigned;
    ColumnDef {
        column: Column { name, sql_type, nullable: false, default: None, doc },
        get: Get::Sum(get),
        parts: Parts::NONE,
    }
}

/// A column that is never NULL.
pub(crate) const fn column<R>(
    name: &'static str,
    sql_type: SqlType,
    doc: &'static str,
    get: fn(&R) -> Value<'_>,
) -> ColumnDef<R> {
    ColumnDef {
        column: Column { name, sql_type, nullable: false, default: None, doc },
        get: Get::Value(get),
        parts: Parts::NONE,
    }
}

/// A column that may be NULL.
pub(crate) const fn nullable<R>(
    name: &'static str,
    sql_type: SqlType,
    doc: &'static str,
    get: fn(&R) -> Value<'_>,
) -> ColumnDef<R> {
    ColumnDef {
        column: Column { name, sql_type, nullable: true, default: None, doc },
        get: Get::Value(get),
        parts: Parts::NONE,
    }
}

/// A column of MySQL's for which the host has no value: its declaration is MySQL's, and it is NULL, or what stands for it.
pub(crate) const fn unknown<R>(name: &'static str) -> ColumnDef<R> {
    nullable(name, SqlType::VarChar(1), crate::mysql::ABSENT, |_| Value::Null)
}

/// The same where MySQL's own word for none is another than the first.
pub(crate) const fn fixed<R>(name: &'static str, get: fn(&R) -> Value<'_>) -> ColumnDef<R> {
    nullable(name, SqlType::VarChar(1), crate::mysql::ABSENT, get)
}

impl<R> ColumnDef<R> {
    /// The same with a DEFAULT.
    pub(crate) const fn or(mut self, default: &'static str) -> Self {
        self.column.default = Some(default);
        self
    }

    /// Puts the column's value.
    #[inline(never)]
    pub(crate) fn put(&self, row: &R, to: &mut dyn Put) {
        match self.get {
            Get::Number(get) => to.unsigned(get(row)),
            Get::Sum(get) => to.sum(get(row)),
            Get::Value(get) => to.value(&get(row), self.column.sql_type.decimals()),
        }
    }

    /// The same, read from these parts of a row.
    pub(crate) const fn of(mut self, parts: Parts) -> Self {
        self.parts = parts;
        self
    }
}

/// As many columns, all read from these parts of a row.
pub(crate) const fn all_of<R, const N: usize>(columns: &[ColumnDef<R>], parts: Parts) -> [ColumnDef<R>; N] {
    let mut all = [columns[0]; N];
    let mut at = 0;
    while at < N {
        all[at] = columns[at].of(parts);
        at += 1;
    }
    all
}

/// `enum('YES','NO')`
pub(crate) const YES_NO: SqlType = SqlType::Enum(&["YES", "NO"]);

/// A flag as [`YES_NO`] spells it.
pub(crate) const fn yes_no(on: bool) -> Value<'static> {
    Value::Text(Cow::Borrowed(if on { "YES" } else { "NO" }))
}

/// A figure the engine counts unsigned and the built-in declares signed.
pub(crate) fn signed(figure: u64) -> Value<'static> {
    Value::Signed(i64::try_from(figure).unwrap_or(i64::MAX))
}

impl From<u64> for Value<'_> {
    fn from(figure: u64) -> Self {
        Value::Unsigned(figure)
    }
}

impl From<u32> for Value<'_> {
    fn from(figure: u32) -> Self {
        Value::Unsigned(figure.into())
    }
}

impl From<i64> for Value<'_> {
    fn from(figure: i64) -> Self {
        Value::Signed(figure)
    }
}

impl From<i32> for Value<'_> {
    fn from(figure: i32) -> Self {
        Value::Signed(figure.into())
    }
}

impl<'r> From<&'r str> for Value<'r> {
    fn from(text: &'r str) -> Self {
        Value::Text(Cow::Borrowed(text))
    }
}

impl<'r> From<&'r String> for Value<'r> {
    fn from(text: &'r String) -> Self {
        text.as_str().into()
    }
}

impl<'r> From<Cow<'r, str>> for Value<'r> {
    fn from(text: Cow<'r, str>) -> Self {
        Value::Text(text)
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::Text(Cow::Owned(text))
    }
}

impl<'r, T: Into<Value<'r>>> From<Option<T>> for Value<'r> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}
