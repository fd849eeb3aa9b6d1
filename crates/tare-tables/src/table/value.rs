//! Types and values of columns.

use std::borrow::Cow;

/// SQL type of a column, as the built-in declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlType {
    /// `bigint(20)`
    BigInt,
    /// `bigint(20) unsigned`
    BigIntUnsigned,
    /// `int(11)`
    Int,
    /// `int(10) unsigned`
    IntUnsigned,
    /// `mediumint(8) unsigned`
    MediumIntUnsigned,
    /// `smallint(6)`
    SmallInt,
    /// `tinyint(4)`
    TinyInt,
    /// `double(m,d)`
    Double(u8, u8),
    /// `double(m,d) unsigned`
    DoubleUnsigned(u8, u8),
    /// `char(n)`, n in characters
    Char(u16),
    /// `varchar(n)`, n in characters
    VarChar(u16),
    /// `text`
    Text,
    /// `mediumtext`
    MediumText,
    /// `longtext`
    LongText,
    /// `longblob`
    LongBlob,
    /// `enum(…)`
    Enum(&'static [&'static str]),
    /// `set(…)`, at most eight members
    Set(&'static [&'static str]),
    /// `timestamp` (no fractional seconds)
    Timestamp,
    /// `timestamp(6)`
    TimestampMicros,
    /// `date`, without a value in any row
    Date,
}

impl SqlType {
    /// Returns whether a record holds only length and position of the type's values.
    #[must_use]
    pub const fn is_blob(self) -> bool {
        matches!(self, SqlType::Text | SqlType::MediumText | SqlType::LongText | SqlType::LongBlob)
    }

    /// Returns the decimals of the type's values; `None`: as many as they need.
    #[must_use]
    pub const fn decimals(self) -> Option<u8> {
        match self {
            SqlType::Double(_, decimals) | SqlType::DoubleUnsigned(_, decimals) => Some(decimals),
            SqlType::TimestampMicros => Some(6),
            _ => None,
        }
    }
}

/// Name, type and meaning of a column. The getter belongs to the table's own row type.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name in the built-in's spelling.
    pub name: &'static str,
    /// Type as declared by the built-in.
    pub sql_type: SqlType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// Value of an inserted row without this column, if that is a text.
    pub default: Option<&'static str>,
    /// Meaning in one sentence, units included.
    pub doc: &'static str,
}

/// A value on its way to a client, borrowed from the row where possible. Enums and sets are sent as text,
/// timestamps as `Timestamp`.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'r> {
    /// SQL NULL.
    Null,
    /// Any unsigned integer.
    Unsigned(u64),
    /// Any signed integer.
    Signed(i64),
    /// `double`.
    Double(f64),
    /// Text, enum, set or char.
    Text(Cow<'r, str>),
    /// Bytes.
    Bytes(Cow<'r, [u8]>),
    /// Microseconds since the Unix epoch, UTC.
    Timestamp(u64),
}

impl Value<'_> {
    /// Returns the same value, borrowed from this one.
    #[must_use]
    pub fn borrowed(&self) -> Value<'_> {
        match self {
            Value::Null => Value::Null,
            Value::Unsigned(number) => Value::Unsigned(*number),
            Value::Signed(number) => Value::Signed(*number),
            Value::Double(number) => Value::Double(*number),
            Value::Text(text) => Value::Text(Cow::Borrowed(text)),
            Value::Bytes(bytes) => Value::Bytes(Cow::Borrowed(bytes)),
            Value::Timestamp(microseconds) => Value::Timestamp(*microseconds),
        }
    }

    /// Returns the same value with owned content.
    #[must_use]
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Unsigned(number) => Value::Unsigned(number),
            Value::Signed(number) => Value::Signed(number),
            Value::Double(number) => Value::Double(number),
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Bytes(bytes) => Value::Bytes(Cow::Owned(bytes.into_owned())),
            Value::Timestamp(microseconds) => Value::Timestamp(microseconds),
        }
    }
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
