//! Values of a snapshot's columns.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    /// Whole numbers from 0: counts, bytes, picoseconds.
    Unsigned,
    /// Whole numbers that may be negative.
    Signed,
    /// Numbers with a fraction.
    Real,
    /// Text, including times and enumerations.
    Text,
    /// Bytes; hexadecimal in JSON Lines.
    Binary,
}

impl Type {
    /// Returns the type for an SQL type in lower case.
    pub(super) fn of(sql: &str) -> Self {
        let word = sql.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        match word {
            "tinyint" | "smallint" | "mediumint" | "int" | "integer" | "bigint"
                if sql.contains("unsigned") =>
            {
                Type::Unsigned
            }
            "tinyint" | "smallint" | "mediumint" | "int" | "integer" | "bigint" => Type::Signed,
            "double" | "float" | "decimal" => Type::Real,
            "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Type::Binary,
            _ => Type::Text,
        }
    }

    /// Parses a value as the server sent it. An invalid number becomes NULL; no server sends one.
    pub(crate) fn value(self, sent: Option<&[u8]>) -> Value {
        let Some(sent) = sent else { return Value::Null };
        let text = || std::str::from_utf8(sent).unwrap_or_default();
        match self {
            Type::Unsigned => text().parse().map_or(Value::Null, Value::Unsigned),
            Type::Signed => text().parse().map_or(Value::Null, Value::Signed),
            Type::Real => text().parse().map_or(Value::Null, Value::Real),
            Type::Text => Value::Text(String::from_utf8_lossy(sent).into_owned()),
            Type::Binary => Value::Binary(sent.to_owned()),
        }
    }

    /// Converts a value of JSON Lines; `None` if it is not of this type.
    pub(crate) fn of_json(self, json: Json) -> Option<Value> {
        match (self, json) {
            (_, Json::Null) => Some(Value::Null),
            (Type::Unsigned, json) => json.as_u64().map(Value::Unsigned),
            (Type::Signed, json) => json.as_i64().map(Value::Signed),
            (Type::Real, json) => json.as_f64().map(Value::Real),
            (Type::Text, Json::String(text)) => Some(Value::Text(text)),
            (Type::Binary, Json::String(digits)) => of_hexadecimal(&digits).map(Value::Binary),
            _ => None,
        }
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// NULL, or left out.
    Null,
    /// A value of [`Type::Unsigned`].
    Unsigned(u64),
    /// A value of [`Type::Signed`].
    Signed(i64),
    /// A value of [`Type::Real`].
    Real(f64),
    /// A value of [`Type::Text`], with invalid UTF-8 replaced.
    Text(String),
    /// A value of [`Type::Binary`].
    Binary(Vec<u8>),
}

impl Value {
    /// Returns a number of any numeric type.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // figures are shown with a few digits
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Unsigned(number) => Some(*number as f64),
            Value::Signed(number) => Some(*number as f64),
            Value::Real(number) => Some(*number),
            Value::Null | Value::Text(_) | Value::Binary(_) => None,
        }
    }

    /// Returns a count; `None` if it is none.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        match self {
            Value::Unsigned(number) => Some(*number),
            Value::Signed(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// Returns a text; `None` if it is none.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Converts it for JSON Lines.
    pub(crate) fn to_json(&self) -> Json {
        match self {
            Value::Null => Json::Null,
            Value::Unsigned(number) => (*number).into(),
            Value::Signed(number) => (*number).into(),
            Value::Real(number) => (*number).into(),
            Value::Text(text) => text.as_str().into(),
            Value::Binary(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
        }
    }
}

fn of_hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(pair).collect()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_those_of_sql() {
        for (sql, kind) in [
            ("bigint(20) unsigned", Type::Unsigned),
            ("bigint unsigned", Type::Unsigned),
            ("bigint(20)", Type::Signed),
            ("int", Type::Signed),
            ("double(7,6)", Type::Real),
            ("enum('yes','no')", Type::Text),
            ("timestamp(6)", Type::Text),
            ("longblob", Type::Binary),
            ("char(64)", Type::Text),
        ] {
            assert_eq!(Type::of(sql), kind, "{sql}");
        }
    }

    #[test]
    fn values_come_back_from_json() {
        for (kind, value) in [
            (Type::Unsigned, Value::Unsigned(u64::MAX)),
            (Type::Signed, Value::Signed(i64::MIN)),
            (Type::Real, Value::Real(0.1 + 0.2)),
            (Type::Text, Value::Text("\u{0}\"<\u{1f980}".into())),
            (Type::Binary, Value::Binary(vec![0, 255, 16])),
            (Type::Text, Value::Null),
        ] {
            let text = value.to_json().to_string();
            assert_eq!(kind.of_json(serde_json::from_str(&text).expect("JSON")), Some(value), "{text}");
        }
        assert_eq!(Type::Unsigned.of_json((-1).into()), None);
        assert_eq!(Type::Binary.of_json("0".into()), None);
    }
}
