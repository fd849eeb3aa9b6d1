//! Rows whose columns are found by name.

use std::collections::BTreeMap;

use mysql::prelude::Queryable;

use super::{Error, Row, Source, explain};

impl Source {
    /// Runs a statement whose columns differ between versions, and returns each row's values by name, without
    /// NULLs.
    ///
    /// # Errors
    ///
    /// [`Error::Statement`], [`Error::Gone`], [`Error::Refused`].
    pub fn ask_by_name(&mut self, statement: &str) -> Result<Vec<BTreeMap<String, String>>, Error> {
        let row = |row: mysql::Row| {
            let names: Vec<String> = row.columns_ref().iter().map(|it| it.name_str().into_owned()).collect();
            let values = Row::all(&row);
            names.into_iter().enumerate().filter_map(|(at, name)| Some((name, values.text(at)?))).collect()
        };
        self.connection.query_map(statement, row).map_err(|error| explain(&self.address, statement, error))
    }
}
