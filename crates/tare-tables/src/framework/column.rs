//! Columns with the getters that read them from a row, and conversions of Rust values to column values.

use std::borrow::Cow;

use tare_engine::snapshot::Parts;

use crate::table::{Column, Put, SqlType, Value};

/// A column of a table with rows of type `R`.
#[derive(Debug)]
pub struct ColumnDef<R: 'static> {
    /// Name, type and meaning.
    pub column: Column,
    /// Getter of the column's value.
    pub get: Get<R>,
    /// Parts of a row that the getter reads, except those that cost nothing.
    pub parts: Parts,
}

/// Getter of a column.
#[derive(Debug)]
pub enum Get<R: 'static> {
    /// Getter of an unsigned number. Nearly all columns are such; these need no [`Value`].
    Number(fn(&R) -> u64),
    /// Getter of a sum of picoseconds. A column holds its lower 64 bits, which wrap after 213 days, as the
    /// built-in's do; differences stay correct. [`Put::sum`] gets the whole sum.
    Sum(fn(&R) -> u128),
    /// Getter of any value.
    Value(fn(&R) -> Value<'_>),
}

impl<R> Clone for Get<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Get<R> {}

impl<R> Get<R> {
    /// Returns the column's value.
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

/// Declares a column of unsigned numbers that is never NULL.
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

/// Declares a column of sums of picoseconds that is never NULL.
pub(crate) const fn sum<R>(name: &'static str, doc: &'static str, get: fn(&R) -> u128) -> ColumnDef<R> {
    let sql_type = SqlType::BigIntUnsigned;
    ColumnDef {
        column: Column { name, sql_type, nullable: false, default: None, doc },
        get: Get::Sum(get),
        parts: Parts::NONE,
    }
}

/// Declares a column that is never NULL.
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

/// Declares a column that may be NULL.
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

/// Declares a column of MySQL for which the host has no value. It has MySQL's declaration, and NULL or what
/// stands for it.
pub(crate) const fn unknown<R>(name: &'static str) -> ColumnDef<R> {
    nullable(name, SqlType::VarChar(1), crate::mysql::ABSENT, |_| Value::Null)
}

/// Declares a column of MySQL that has a value here. It has MySQL's declaration.
pub(crate) const fn fixed<R>(name: &'static str, get: fn(&R) -> Value<'_>) -> ColumnDef<R> {
    nullable(name, SqlType::VarChar(1), crate::mysql::ABSENT, get)
}

impl<R> ColumnDef<R> {
    /// Adds a DEFAULT.
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

    /// Sets the parts of a row that the getter reads.
    pub(crate) const fn of(mut self, parts: Parts) -> Self {
        self.parts = parts;
        self
    }
}

/// Sets the parts of a row that all these columns read.
pub(crate) const fn all_of<R, const N: usize>(columns: &[ColumnDef<R>], parts: Parts) -> [ColumnDef<R>; N] {
    let mut all = [columns[0]; N];
    let mut at = 0;
    while at < N {
        all[at] = columns[at].of(parts);
        at += 1;
    }
    all
}

/// The type `enum('YES','NO')`.
pub(crate) const YES_NO: SqlType = SqlType::Enum(&["YES", "NO"]);

/// Returns a flag in the spelling of [`YES_NO`].
pub(crate) const fn yes_no(on: bool) -> Value<'static> {
    Value::Text(Cow::Borrowed(if on { "YES" } else { "NO" }))
}

/// Converts a number that the engine counts unsigned and the built-in declares signed. Saturates.
pub(crate) fn signed(figure: u64) -> Value<'static> {
    Value::Signed(i64::try_from(figure).unwrap_or(i64::MAX))
}
