//! Keys of the server's index reads.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use tare_tables::{Column, Condition, Operator, SqlType, Value};

use crate::abi::{NumberKey, TextKey};

/// A function that reads a number.
pub(crate) type ReadNumber = unsafe extern "C" fn(*mut c_void, *mut NumberKey, c_int);
/// A function that reads a text.
pub(crate) type ReadText = unsafe extern "C" fn(*mut c_void, *mut TextKey, c_int);

/// The server's functions that read the next part of a key.
pub(crate) struct Readers {
    pub(crate) ubigint: ReadNumber,
    pub(crate) uinteger: ReadNumber,
    pub(crate) string: ReadText,
}

/// Set before any table is opened.
pub(crate) static READERS: OnceLock<Readers> = OnceLock::new();

/// The server's `HA_READ_KEY_EXACT`. All its indexes here are hashes, which have no other look-up.
const EXACT: c_int = 0;
/// The longest text of a key, in bytes: HOST has 255 characters.
const LONGEST: usize = 255 * 4;

/// One part of a key: what the rows have in this column.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    column: usize,
    value: Value<'static>,
    ignores_case: bool,
}

impl Part {
    /// Returns the condition by which the table may find its rows; texts are compared here only.
    pub(super) fn condition(&self) -> Option<Condition> {
        let is_number = matches!(self.value, Value::Unsigned(_));
        let (column, operator) = (self.column, Operator::Equal);
        is_number.then(|| Condition { column, operator, value: self.value.clone() })
    }

    /// Returns whether a row has the part. `value` is that of a column.
    pub(super) fn fits<'v>(&self, value: impl FnOnce(usize) -> Value<'v>) -> bool {
        match (&self.value, &value(self.column)) {
            (Value::Text(key), Value::Text(text)) if self.ignores_case => key.eq_ignore_ascii_case(text),
            (key, value) => key == value,
        }
    }
}

/// Reads the parts of a key for an index over these columns.
///
/// # Safety
///
/// `reader` is the server's, for a key of that index.
pub(super) unsafe fn read(
    reader: *mut c_void,
    columns: &[Column],
    names: &[&'static str],
    find_flag: c_int,
) -> Vec<Part> {
    let mut parts = Vec::new();
    for name in names {
        let Some((column, declared)) = columns.iter().enumerate().find(|(_, it)| it.name == *name) else {
            break;
        };
        // SAFETY: the caller's promise; the parts are read in their order.
        let value = unsafe { part(reader, declared, find_flag) };
        // A key may have the first parts only.
        let Some(value) = value else { break };
        // As the server compares them: USER is the only text with case.
        parts.push(Part { column, value, ignores_case: *name != "USER" });
    }
    parts
}

/// Reads the next part of a key; `None`: the key ends before, or rows are not looked up by equality.
///
/// # Safety
///
/// See [`read`].
unsafe fn part(reader: *mut c_void, column: &Column, find_flag: c_int) -> Option<Value<'static>> {
    let readers = READERS.get()?;
    // The server wants a name and does not look at it.
    let name = c"".as_ptr();
    let read = match column.sql_type {
        SqlType::BigIntUnsigned => Some(readers.ubigint),
        SqlType::IntUnsigned => Some(readers.uinteger),
        _ => None,
    };
    if let Some(read) = read {
        let mut key = NumberKey { name, find_flags: EXACT, is_null: false, value: 0 };
        // SAFETY: the server's reader, and a key of the type of this part.
        unsafe { read(reader, &raw mut key, find_flag) };
        return (key.find_flags == EXACT).then_some(match key.is_null {
            true => Value::Null,
            false => Value::Unsigned(key.value),
        });
    }
    let mut buffer = [0u8; LONGEST];
    let mut key = TextKey {
        name,
        find_flags: EXACT,
        is_null: false,
        value: buffer.as_mut_ptr().cast::<c_char>(),
        length: 0,
        capacity: LONGEST as u32,
    };
    // SAFETY: the server's reader, and a key of the type of this part, with room for its longest text.
    unsafe { (readers.string)(reader, &raw mut key, find_flag) };
    let text = String::from_utf8_lossy(buffer.get(..key.length as usize).unwrap_or_default()).into_owned();
    (key.find_flags == EXACT).then_some(if key.is_null { Value::Null } else { Value::from(text) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_fits_as_the_server_compares() {
        let part = |value: Value<'static>, ignores_case| Part { column: 1, value, ignores_case };
        let has = |part: &Part, value: Value<'static>| part.fits(|_| value);
        assert!(has(&part("wait/IO".into(), true), "WAIT/io".into()));
        assert!(!has(&part("Root".into(), false), "root".into()));
        assert!(has(&part(Value::Null, false), Value::Null) && !has(&part(Value::Null, false), "".into()));
        assert!(has(&part(Value::Unsigned(7), true), Value::Unsigned(7)));
        assert!(part(Value::Unsigned(7), true).condition().is_some());
        assert!(part("x".into(), true).condition().is_none(), "texts have collations");
    }
}
