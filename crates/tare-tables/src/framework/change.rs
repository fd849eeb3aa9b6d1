//! A write to one row of a table that can be changed.

use super::condition::integer;
use crate::table::{Column, TableError, Value};

/// A write to one row: the row's values, and those that an UPDATE sets.
pub(crate) struct RowChanges<'a> {
    pub(crate) columns: &'a [Column],
    pub(crate) row: &'a [Value<'a>],
    pub(crate) set: &'a [(usize, Value<'a>)],
}

impl RowChanges<'_> {
    /// Returns the value of a column before the write.
    pub(crate) fn held(&self, name: &str) -> Option<&Value<'_>> {
        self.row.get(self.position(name)?)
    }

    /// Returns the new value of a YES/NO column; `None` if the UPDATE does not set it.
    pub(crate) fn flag(&self, name: &'static str) -> Result<Option<bool>, TableError> {
        let position = self.position(name);
        let set = self.set.iter().rev().find(|(column, _)| Some(*column) == position);
        set.map(|(_, value)| flag(value).ok_or(TableError::BadValue(name))).transpose()
    }

    /// Returns the value of a column after the write.
    pub(crate) fn value(&self, name: &str) -> Option<&Value<'_>> {
        let position = self.position(name)?;
        let set = self.set.iter().rev().find(|(column, _)| *column == position);
        set.map(|(_, value)| value).or_else(|| self.row.get(position))
    }

    /// Returns the text of a column after the write; NULL becomes the empty text.
    pub(crate) fn text(&self, name: &'static str) -> Result<String, TableError> {
        match self.value(name) {
            Some(Value::Text(text)) => Ok(text.clone().into_owned()),
            Some(Value::Null) => Ok(String::new()),
            _ => Err(TableError::BadValue(name)),
        }
    }

    /// Returns a YES/NO column of a rule after the write.
    pub(crate) fn state(&self, name: &'static str) -> Result<bool, TableError> {
        match self.value(name) {
            Some(Value::Text(text)) if text.is_empty() => Err(TableError::NoReference),
            value => value.and_then(flag).ok_or(TableError::BadValue(name)),
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// Parses YES or NO, as text in any case or as an enum's number. The empty text is what a host in non-strict
/// mode stores for an invalid value. The built-in takes it as NO, except in a rule.
fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Text(text) if text.eq_ignore_ascii_case("YES") => Some(true),
        Value::Text(text) if text.is_empty() || text.eq_ignore_ascii_case("NO") => Some(false),
        _ => match integer(value)? {
            1 => Some(true),
            0 | 2 => Some(false),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framework::column::YES_NO;

    #[test]
    fn a_flag_takes_what_an_enum_takes() {
        let on = Column { name: "ON", sql_type: YES_NO, nullable: true, default: None, doc: "" };
        let flag = |value| {
            let (columns, row, set) = (&[on], &["NO".into()], &[(0, value)]);
            RowChanges { columns, row, set }.flag("ON")
        };
        for value in ["YES".into(), "yes".into(), Value::Unsigned(1)] {
            assert_eq!(flag(value), Ok(Some(true)));
        }
        for value in ["no".into(), "".into(), Value::Signed(2), Value::Unsigned(0)] {
            assert_eq!(flag(value), Ok(Some(false)));
        }
        for value in ["maybe".into(), Value::Unsigned(3), Value::Null] {
            assert_eq!(flag(value), Err(TableError::BadValue("ON")));
        }
    }
}
