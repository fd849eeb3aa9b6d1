//! A pass of all scripts over a server, which captures every figure they leave in its tables.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use mysql::prelude::Queryable;

use crate::declaration::{ComparedRows, Declaration};
use crate::difference::Misnamed;
use crate::figure::Capture;
use crate::history::ClockSources;
use crate::run::{ComparedServer, TableComparison, owner};
use crate::schema::SchemaConnection;
use crate::script::Script;
use crate::server::Server;
use crate::{Failure, Result};

/// Statements that a connection executes before it reads its own rows.
const ASKED: [&str; 8] = [
    "SET @number = 17, @text = 'it''s', @nothing = NULL, @bytes = x'00ff41'",
    "CREATE DATABASE o_asker",
    "CREATE TABLE o_asker.t (a INT) ENGINE=InnoDB",
    "BEGIN",
    "INSERT INTO o_asker.t VALUES (1), (2)",
    "SAVEPOINT one",
    "SELECT x.a FROM o_asker.t x, o_asker.t y WHERE x.a < y.a ORDER BY x.a",
    "COMMIT",
];

/// A pass: a server that has just started, and the scripts.
#[derive(Debug)]
pub struct Pass<'a> {
    /// A fresh server with everything on.
    pub server: &'a Server,
    /// Scripts, in order.
    pub scripts: &'a [Script],
    /// Whether times of all kinds of events are comparable.
    pub clocks: ClockSources,
    /// Events that this server is known to show under a wrong name.
    pub misnamed: &'a [Misnamed],
    /// What is read, and how it is compared.
    pub declaration: &'a Declaration,
}

impl<'a> Pass<'a> {
    /// Runs every script and captures the figures.
    ///
    /// # Errors
    /// When a script or a query fails.
    pub fn capture(&self) -> Result<Capture> {
        let watch = self.watch()?;
        let mut schema = self.server.schema()?;
        let mut capture = Capture { schema: watch.columns.clone(), ..Capture::default() };
        watch.standing(&mut schema, &mut capture)?;
        watch.asker(&mut capture)?;
        for script in self.scripts {
            watch.script(script, &mut schema, &mut capture)?;
        }
        Ok(capture)
    }

    /// Prepares what is the same for every script.
    ///
    /// # Errors
    /// When a query fails.
    pub fn watch(&self) -> Result<ComparedServer<'a>> {
        let columns = self.columns()?;
        let tables: Vec<String> = columns.keys().cloned().collect();
        copy_data(&self.server.data())?;
        Ok(ComparedServer {
            server: self.server,
            clocks: self.clocks,
            misnamed: self.misnamed,
            ways: self.declaration.ways(&columns),
            looked_at: self.declaration.of(&tables),
            names: names(&mut self.server.schema()?)?,
            columns,
        })
    }

    /// Returns every table of the schema except tare's own, with its columns.
    fn columns(&self) -> Result<BTreeMap<String, Vec<String>>> {
        if !self.server.serves_tables() {
            return self.columns_of_endpoint();
        }
        let sql = "SELECT table_name, UPPER(column_name) FROM information_schema.columns \
                   WHERE table_schema = 'performance_schema' ORDER BY table_name, ordinal_position";
        let rows: Vec<(String, String)> = self.server.client()?.query(sql)?;
        let mut columns: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (table, column) in rows.into_iter().filter(|(table, _)| !table.starts_with("tare_")) {
            columns.entry(table).or_default().push(column);
        }
        Ok(columns)
    }

    fn columns_of_endpoint(&self) -> Result<BTreeMap<String, Vec<String>>> {
        let mut schema = self.server.schema()?;
        let mut columns = BTreeMap::new();
        for table in schema.query("SHOW TABLES")? {
            let Some(table) = table.cells().find_map(|(_, cell)| cell).filter(|it| !it.starts_with("tare_"))
            else {
                continue;
            };
            let shown = schema.query(&format!("SHOW COLUMNS FROM {table}"))?;
            let names = shown.iter().map(|row| row.text("FIELD").to_uppercase()).collect();
            columns.insert(table.to_owned(), names);
        }
        Ok(columns)
    }
}

impl ComparedServer<'_> {
    fn standing(&self, schema: &mut SchemaConnection, capture: &mut Capture) -> Result<()> {
        for (table, how) in self.looked_at.iter().filter(|(_, how)| how.rows == ComparedRows::Standing) {
            let rows = schema.rows(table)?;
            let look = TableComparison { table, how, ways: &self.ways };
            look.put(look.fold(rows.iter(), str::to_owned), "-", capture);
        }
        Ok(())
    }

    /// Captures what a connection with little activity sees of itself.
    fn asker(&self, capture: &mut Capture) -> Result<()> {
        let asked: Vec<_> =
            self.looked_at.iter().filter(|(_, how)| how.rows == ComparedRows::Asker).collect();
        if asked.is_empty() {
            return Ok(());
        }
        let mut schema = self.server.schema()?;
        let connection = schema.connection_id();
        let thread = schema.thread_of(connection)?.unwrap_or_default();
        for sql in ASKED {
            schema.query(sql)?;
        }
        for (table, how) in asked {
            let rows = match owner(&self.columns[table]) {
                Some("PROCESSLIST_ID") => {
                    schema.rows_where(table, &[("PROCESSLIST_ID", &connection.to_string())])?
                }
                Some(column) => schema.rows_where(table, &[(column, &thread.to_string())])?,
                None => schema.rows(table)?,
            };
            let look = TableComparison { table, how, ways: &self.ways };
            look.put(look.fold(rows.iter(), str::to_owned), "asker", capture);
        }
        Ok(())
    }
}

/// Returns the names of all instruments.
///
/// # Errors
/// When the table cannot be read.
pub fn names(schema: &mut SchemaConnection) -> Result<HashSet<String>> {
    Ok(schema.rows("setup_instruments")?.iter().map(|row| row.text("NAME").to_owned()).collect())
}

/// Copies files for LOAD DATA INFILE into the data directory, where they have the same name on every server.
fn copy_data(data: &Path) -> Result<()> {
    let folder = crate::script::folder().join("data");
    let entries = std::fs::read_dir(&folder).map_err(Failure::io(folder.display().to_string()))?;
    for entry in entries.filter_map(std::result::Result::ok) {
        let to = data.join(entry.file_name());
        std::fs::copy(entry.path(), &to).map_err(Failure::io(format!("copy {}", to.display())))?;
    }
    Ok(())
}
