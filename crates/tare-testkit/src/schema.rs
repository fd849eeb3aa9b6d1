//! The `performance_schema` tables as a test reads them: every value as text, NULL as `None`.
//!
//! The same few plain statements work through the server's own port and on tare's endpoint, so tests are
//! independent of which they use.

use std::collections::HashMap;
use std::sync::Arc;

use mysql::Conn;
use mysql::prelude::Queryable;

use crate::{Failure, Result};

/// The tables of `performance_schema` that the built-in and tare both serve.
pub const TABLES: &[&str] = &[
    "accounts",
    "events_stages_current",
    "events_stages_history",
    "events_stages_history_long",
    "events_stages_summary_by_account_by_event_name",
    "events_stages_summary_by_host_by_event_name",
    "events_stages_summary_by_thread_by_event_name",
    "events_stages_summary_by_user_by_event_name",
    "events_stages_summary_global_by_event_name",
    "events_statements_current",
    "events_statements_history",
    "events_statements_history_long",
    "events_statements_summary_by_account_by_event_name",
    "events_statements_summary_by_digest",
    "events_statements_summary_by_host_by_event_name",
    "events_statements_summary_by_program",
    "events_statements_summary_by_thread_by_event_name",
    "events_statements_summary_by_user_by_event_name",
    "events_statements_summary_global_by_event_name",
    "events_transactions_current",
    "events_transactions_history",
    "events_transactions_history_long",
    "events_transactions_summary_by_account_by_event_name",
    "events_transactions_summary_by_host_by_event_name",
    "events_transactions_summary_by_thread_by_event_name",
    "events_transactions_summary_by_user_by_event_name",
    "events_transactions_summary_global_by_event_name",
    "events_waits_current",
    "events_waits_history",
    "events_waits_history_long",
    "events_waits_summary_by_account_by_event_name",
    "events_waits_summary_by_host_by_event_name",
    "events_waits_summary_by_instance",
    "events_waits_summary_by_thread_by_event_name",
    "events_waits_summary_by_user_by_event_name",
    "events_waits_summary_global_by_event_name",
    "file_summary_by_event_name",
    "file_summary_by_instance",
    "hosts",
    "memory_summary_by_account_by_event_name",
    "memory_summary_by_host_by_event_name",
    "memory_summary_by_thread_by_event_name",
    "memory_summary_by_user_by_event_name",
    "memory_summary_global_by_event_name",
    "metadata_locks",
    "objects_summary_global_by_type",
    "performance_timers",
    "session_connect_attrs",
    "prepared_statements_instances",
    "setup_actors",
    "setup_consumers",
    "setup_instruments",
    "setup_objects",
    "setup_timers",
    "socket_summary_by_event_name",
    "socket_summary_by_instance",
    "table_handles",
    "table_io_waits_summary_by_index_usage",
    "table_io_waits_summary_by_table",
    "table_lock_waits_summary_by_table",
    "threads",
    "users",
];

/// A connection that reads and changes the tables.
#[derive(Debug)]
pub struct SchemaConnection {
    conn: Conn,
    prefix: &'static str,
}

/// A row, whose columns are found by name.
#[derive(Clone, Debug)]
pub struct SchemaRow {
    columns: Arc<Vec<String>>,
    cells: Vec<Option<String>>,
}

/// Equality conditions joined by AND.
pub type Filter<'a> = &'a [(&'a str, &'a str)];

impl SchemaConnection {
    pub(crate) fn of_server(conn: Conn) -> SchemaConnection {
        SchemaConnection { conn, prefix: "performance_schema." }
    }

    pub(crate) fn of_endpoint(conn: Conn) -> SchemaConnection {
        SchemaConnection { conn, prefix: "" }
    }

    /// Returns all rows of a table.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn rows(&mut self, table: &str) -> Result<Vec<SchemaRow>> {
        self.rows_where(table, &[])
    }

    /// Returns the rows of a table with these values. Values that look like numbers are compared as numbers.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn rows_where(&mut self, table: &str, filter: Filter<'_>) -> Result<Vec<SchemaRow>> {
        let sql = format!("SELECT * FROM {}`{table}`{}", self.prefix, conditions(filter));
        self.query(&sql)
    }

    /// Runs any statement, in the dialect of the server or endpoint.
    ///
    /// # Errors
    /// When it is refused.
    pub fn query(&mut self, sql: &str) -> Result<Vec<SchemaRow>> {
        let mut answer = self.conn.query_iter(sql)?;
        let columns = answer.columns();
        let columns: Arc<Vec<String>> =
            Arc::new(columns.as_ref().iter().map(|c| c.name_str().to_ascii_uppercase()).collect());
        let mut rows = Vec::new();
        for row in answer.by_ref() {
            let cells = row?.unwrap().into_iter().map(text).collect();
            rows.push(SchemaRow { columns: Arc::clone(&columns), cells });
        }
        Ok(rows)
    }

    /// Sets columns of the rows with these values.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn update(&mut self, table: &str, set: Filter<'_>, filter: Filter<'_>) -> Result<()> {
        let set: Vec<String> =
            set.iter().map(|(column, value)| format!("`{column}` = {}", value_as_sql(value))).collect();
        let sql = format!("UPDATE {}`{table}` SET {}{}", self.prefix, set.join(", "), conditions(filter));
        Ok(self.conn.query_drop(sql)?)
    }

    /// Resets a table.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn truncate(&mut self, table: &str) -> Result<()> {
        Ok(self.conn.query_drop(format!("TRUNCATE TABLE {}`{table}`", self.prefix))?)
    }

    /// Returns the id of the server's connection that reads (not of the endpoint's).
    pub fn connection_id(&self) -> u64 {
        u64::from(self.conn.connection_id())
    }

    /// Returns the THREAD_ID of a connection.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub fn thread_of(&mut self, connection: u64) -> Result<Option<u64>> {
        let rows = self.rows_where("threads", &[("PROCESSLIST_ID", &connection.to_string())])?;
        Ok(rows.first().and_then(|row| row.number("THREAD_ID")))
    }

    /// Returns one column of the first row with these values; `None` if there is no such row or it is NULL.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub fn value(&mut self, table: &str, filter: Filter<'_>, column: &str) -> Result<Option<String>> {
        let rows = self.rows_where(table, filter)?;
        Ok(rows.first().and_then(|row| row.get(column)).map(str::to_owned))
    }

    /// Returns the sum of a column over the rows with these values.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub fn sum(&mut self, table: &str, filter: Filter<'_>, column: &str) -> Result<u64> {
        let rows = self.rows_where(table, filter)?;
        Ok(rows.iter().filter_map(|row| row.number(column)).sum())
    }

    /// Returns tare's status; empty without tare.
    ///
    /// # Errors
    /// When the table exists and cannot be read.
    pub fn tare_status(&mut self) -> Result<HashMap<String, String>> {
        let rows = match self.rows("tare_status") {
            Err(Failure::Sql(mysql::Error::MySqlError(e))) if e.code == 1146 => Vec::new(),
            rows => rows?,
        };
        Ok(rows.iter().map(|row| (row.text("NAME").to_owned(), row.text("VALUE").to_owned())).collect())
    }

    /// Returns the events of a thread, oldest first, from the long history of `waits`, `stages`, `statements`
    /// or `transactions`.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub fn long_history(&mut self, events: &str, thread: u64) -> Result<Vec<SchemaRow>> {
        let table = format!("events_{events}_history_long");
        let mut rows = self.rows_where(&table, &[("THREAD_ID", &thread.to_string())])?;
        rows.sort_by_key(|row| row.number("EVENT_ID"));
        Ok(rows)
    }
}

impl SchemaRow {
    /// Returns the value of a column; `None` for NULL and for a missing column.
    pub fn get(&self, column: &str) -> Option<&str> {
        let at = self.columns.iter().position(|name| name == column)?;
        self.cells.get(at)?.as_deref()
    }

    /// Returns the value of a column as a number.
    pub fn number(&self, column: &str) -> Option<u64> {
        self.get(column)?.parse().ok()
    }

    /// Returns the value of a column, empty for NULL.
    pub fn text(&self, column: &str) -> &str {
        self.get(column).unwrap_or_default()
    }

    /// Replaces the value of an existing column.
    pub(crate) fn set(&mut self, column: &str, value: &str) {
        if let Some(at) = self.columns.iter().position(|name| name == column) {
            self.cells[at] = Some(value.to_owned());
        }
    }

    /// Returns the names of the columns in order.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns every column with its value.
    pub fn cells(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.columns.iter().map(String::as_str).zip(self.cells.iter().map(Option::as_deref))
    }
}

/// Returns rows by the text of one column; the last one wins.
pub fn by_column(rows: Vec<SchemaRow>, column: &str) -> HashMap<String, SchemaRow> {
    rows.into_iter().map(|row| (row.text(column).to_owned(), row)).collect()
}

fn conditions(filter: Filter<'_>) -> String {
    if filter.is_empty() {
        return String::new();
    }
    let all: Vec<String> =
        filter.iter().map(|(column, value)| format!("`{column}` = {}", value_as_sql(value))).collect();
    format!(" WHERE {}", all.join(" AND "))
}

/// Returns a value as SQL: digits as a number, all else quoted.
fn value_as_sql(value: &str) -> String {
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        return value.to_owned();
    }
    tare_server::sql::literal(value)
}

fn text(value: mysql::Value) -> Option<String> {
    match value {
        mysql::Value::NULL => None,
        mysql::Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => Some(other.as_sql(true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_quotes_text_and_leaves_numbers() {
        assert_eq!(conditions(&[]), "");
        assert_eq!(conditions(&[("A", "1"), ("B", "it's")]), " WHERE `A` = 1 AND `B` = 'it''s'");
    }
}
