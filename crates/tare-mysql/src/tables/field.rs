//! Values on their way to the server's columns.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_uint, c_void};
use std::sync::OnceLock;

use tare_tables::{Column, SqlType, Value};

use crate::abi::Number;
use crate::abi::events::Fraction;

/// A column of the server's (`PSI_field`).
type Field = *mut c_void;

/// A function that sets a text of a length.
pub(crate) type SetText = unsafe extern "C" fn(Field, *const c_char, c_uint);
/// A function that sets a text that a zero ends.
pub(crate) type SetEnded = unsafe extern "C" fn(Field, *const c_char);
/// A function that sets a number.
pub(crate) type SetNumber = unsafe extern "C" fn(Field, Number);

/// A function that sets a point in time.
pub(crate) type SetTimestamp = unsafe extern "C" fn(Field, u64);
/// A function that sets a fraction.
pub(crate) type SetDouble = unsafe extern "C" fn(Field, Fraction);

/// The server's functions that set a column.
pub(crate) struct Setters {
    /// A text; an empty one is NULL.
    pub(crate) varchar: SetText,
    /// A text that a zero ends, which may be empty.
    pub(crate) text: SetEnded,
    /// A text of fixed length; an empty one is NULL.
    pub(crate) char: SetText,
    /// An unsigned number of 64 bits.
    pub(crate) ubigint: SetNumber,
    /// A signed number of 64 bits.
    pub(crate) bigint: SetNumber,
    /// An unsigned number of 32 bits.
    pub(crate) uinteger: SetNumber,
    /// A signed number of 32 bits.
    pub(crate) integer: SetNumber,
    /// A position in an enumeration, from 1 on.
    pub(crate) enumeration: SetNumber,
    /// A long text.
    pub(crate) long_text: SetText,
    /// Microseconds since the Unix epoch.
    pub(crate) timestamp: SetTimestamp,
    /// A fraction.
    pub(crate) double: SetDouble,
}

/// Set before any table is opened.
pub(crate) static SETTERS: OnceLock<Setters> = OnceLock::new();

/// Returns whether columns of this type can be set.
pub(super) fn can_hold(sql_type: SqlType) -> bool {
    use SqlType::{
        BigInt, BigIntUnsigned, Char, Double, Enum, Int, IntUnsigned, LongText, Timestamp, TimestampMicros,
        VarChar,
    };
    matches!(
        sql_type,
        BigInt
            | BigIntUnsigned
            | Char(_)
            | Double(..)
            | Enum(_)
            | Int
            | IntUnsigned
            | LongText
            | Timestamp
            | TimestampMicros
            | VarChar(_)
    )
}

/// Returns a value as a number; NULL if it is none.
fn number(value: &Value<'_>) -> Number {
    match *value {
        Value::Unsigned(value) => Number { value, is_null: false },
        Value::Signed(value) => Number { value: value.cast_unsigned(), is_null: false },
        _ => Number { value: 0, is_null: true },
    }
}

/// Returns the length of a text.
fn length(text: &str) -> c_uint {
    c_uint::try_from(text.len()).unwrap_or(0)
}

/// Returns a value as a point in time.
fn microseconds(value: &Value<'_>) -> u64 {
    if let Value::Timestamp(at) = *value { at } else { 0 }
}

/// Returns a value as a fraction; NULL if it is none.
fn fraction(value: &Value<'_>) -> Fraction {
    match *value {
        Value::Double(value) => Fraction { value, is_null: false },
        _ => Fraction { value: 0.0, is_null: true },
    }
}

/// Returns the position of a member of an enumeration; NULL if it is none.
fn position(value: &Value<'_>, members: &[&str]) -> Number {
    let Value::Text(text) = value else { return number(value) };
    match members.iter().position(|member| member == text) {
        Some(at) => Number { value: at as u64 + 1, is_null: false },
        None => Number { value: 0, is_null: true },
    }
}

/// Sets a column of the server's.
///
/// # Safety
///
/// The server's: a field of a column that it has declared like `column`.
pub(super) unsafe fn set(field: Field, column: &Column, value: &Value<'_>) {
    let Some(setters) = SETTERS.get() else { return };
    // SAFETY: the caller's promise; the server's functions take its own field, and texts that live during the
    // call.
    unsafe {
        match column.sql_type {
            SqlType::BigIntUnsigned => (setters.ubigint)(field, number(value)),
            SqlType::BigInt => (setters.bigint)(field, number(value)),
            SqlType::IntUnsigned => (setters.uinteger)(field, number(value)),
            SqlType::Enum(members) => (setters.enumeration)(field, position(value, members)),
            SqlType::Int => (setters.integer)(field, number(value)),
            SqlType::Timestamp | SqlType::TimestampMicros => (setters.timestamp)(field, microseconds(value)),
            SqlType::Double(..) => (setters.double)(field, fraction(value)),
            SqlType::LongText => match value {
                Value::Text(text) => (setters.long_text)(field, text.as_ptr().cast(), length(text)),
                _ => (setters.long_text)(field, std::ptr::null(), 0),
            },
            SqlType::VarChar(_) | SqlType::Char(_) => set_text(setters, field, column, value),
            _ => {}
        }
    }
}

/// Sets a column of text.
///
/// # Safety
///
/// See [`set`].
unsafe fn set_text(setters: &Setters, field: Field, column: &Column, value: &Value<'_>) {
    let text = match value {
        Value::Text(text) => text.as_ref(),
        _ => "",
    };
    let is_char = matches!(column.sql_type, SqlType::Char(_));
    let (start, length) = (text.as_ptr().cast(), length(text));
    let empty = value == &Value::Null && column.nullable;
    // SAFETY: the caller's promise.
    unsafe {
        match (is_char, text.is_empty() && !empty) {
            (true, _) => (setters.char)(field, start, length),
            (false, false) => (setters.varchar)(field, start, length),
            (false, true) => (setters.text)(field, CString::default().as_ptr()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_positions_are_as_the_server_has_them() {
        let told = |it: Number| (it.value, it.is_null);
        assert_eq!(told(number(&Value::Unsigned(7))), (7, false));
        assert_eq!(told(number(&Value::Signed(-1))), (u64::MAX, false));
        assert_eq!(told(number(&Value::Null)), (0, true));
        let members = &["TRANSACTION", "STATEMENT"];
        assert_eq!(told(position(&"STATEMENT".into(), members)), (2, false));
        assert!(position(&"STAGE".into(), members).is_null && position(&Value::Null, members).is_null);
    }
}
