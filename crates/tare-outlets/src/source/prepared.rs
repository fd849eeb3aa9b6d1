//! Statements that are prepared once and run often.

use std::borrow::Cow;

use mysql::prelude::Queryable;
use mysql::{Params, Statement, Value};

use super::{Error, Row, Source, explain};

/// A prepared statement of one connection.
pub struct PreparedQuery {
    statement: Statement,
    text: String,
}

impl Source {
    /// Prepares a statement without parameters; see [`Source::run`].
    ///
    /// # Errors
    ///
    /// Those of [`Source::visit`].
    pub fn prepare(&mut self, text: &str) -> Result<PreparedQuery, Error> {
        let prepared = self.connection.prep(text);
        let statement = prepared.map_err(|error| explain(&self.address, text, error))?;
        Ok(PreparedQuery { statement, text: text.to_owned() })
    }

    /// Runs a prepared statement and returns its rows, with numbers as text. It has no columns with times.
    ///
    /// # Errors
    ///
    /// Those of [`Source::visit`].
    pub fn run(&mut self, prepared: &PreparedQuery) -> Result<Vec<Row>, Error> {
        let rows = self.connection.exec_map(&prepared.statement, Params::Empty, |row: mysql::Row| {
            let texts: Vec<Option<Cow<'_, [u8]>>> = (0..row.len()).map(|at| text(row.as_ref(at)?)).collect();
            Row::pack(texts.len(), |at| texts[at].as_deref())
        });
        rows.map_err(|error| explain(&self.address, &prepared.text, error))
    }
}

/// Returns a value of the binary protocol as the text protocol has it.
fn text(value: &Value) -> Option<Cow<'_, [u8]>> {
    let of = |text: String| Some(Cow::Owned(text.into_bytes()));
    match value {
        Value::Bytes(bytes) => Some(Cow::Borrowed(bytes)),
        Value::Int(number) => of(number.to_string()),
        Value::UInt(number) => of(number.to_string()),
        Value::Float(number) => of(number.to_string()),
        Value::Double(number) => of(number.to_string()),
        Value::NULL | Value::Date(..) | Value::Time(..) => None,
    }
}
