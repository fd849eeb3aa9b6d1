//! Changes that a study makes on a running server: schemas, variables, and rows of the Performance Schema's
//! setup tables. They are undone when the study ends.
//!
//! A study may be killed with -9. So the original values are written to a file in the results' folder before
//! any change, and whoever continues the study restores them first ([`settle`]). A schema is dropped only if
//! it is empty or has a table whose name no other study uses: the file alone does not prove that a schema is
//! the lab's own.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use mysql::prelude::Queryable;
use serde::{Deserialize, Serialize};

use crate::error::Tried;
use crate::server::setup_tables::{self, Kept};
use crate::server::statement_clock::StatementClock;
use crate::server::target::{AccountPasswords, ServerTarget};
use crate::{Error, Result};

/// Start times that differ by more than so many seconds belong to different runs of the server.
const SAME_START: i64 = 3;
/// The variable that makes MariaDB count the resources of statements.
const COUNTING: &str = "userstat";
/// Prefix and suffix of the file's name, around the server's number.
const FILE: (&str, &str) = ("to-put-back-", ".json");

/// A running server during a study. Dropping it undoes all changes.
#[derive(Debug)]
pub struct Guest {
    /// The server.
    pub target: ServerTarget,
    /// Its process, if it is on this machine.
    pub pid: Option<u32>,
    /// Source of the CPU time of its statements, where the study needs that.
    pub clock: Option<StatementClock>,
    path: PathBuf,
    owed: OwedState,
}

/// The state to restore.
#[derive(Debug, Deserialize, Serialize)]
struct OwedState {
    /// Address of the server, without a password.
    dsn: String,
    /// Name of the table that marks the lab's own schemas.
    mark: String,
    schemas: Vec<String>,
    /// Global variables and their values, as SQL.
    variables: Vec<(String, String)>,
    /// Original contents of the Performance Schema's setup tables that the study may change.
    #[serde(default)]
    tables: Vec<Kept>,
    /// When the server was started, in seconds since 1970 by its own clock. A restart has undone the changes.
    #[serde(default)]
    started: Option<i64>,
}

impl Guest {
    /// Prepares the server with that number in the study, without changing it. The variables and tables that
    /// `switches` set are saved in `folder`. Refuses an account that could not restore the tables.
    pub fn new<'a>(
        dsn: &str,
        credentials: &AccountPasswords,
        folder: &Path,
        number: usize,
        switches: impl IntoIterator<Item = &'a String> + Clone,
    ) -> Result<Guest> {
        Guest::on(credentials.target(dsn)?, folder, number, switches)
    }

    /// Prepares a server whose address and account are known. See [`Guest::new`].
    pub(crate) fn on<'a>(
        target: ServerTarget,
        folder: &Path,
        number: usize,
        switches: impl IntoIterator<Item = &'a String> + Clone,
    ) -> Result<Guest> {
        let mut connection = target.connect()?;
        let mut variables: Vec<(String, String)> = vec![];
        for name in switches.clone().into_iter().flat_map(|statement| assigned(statement)) {
            // A name that is no global variable needs no restoring. The statement itself will fail if it is
            // wrong.
            if let (false, Some(value)) =
                (variables.iter().any(|(known, _)| known == name), value_of(&mut connection, name))
            {
                variables.push((name.to_owned(), value));
            }
        }
        let tables = setup_tables::keep(&mut connection, switches).map_err(|e| target.refused(e))?;
        setup_tables::try_writing(&mut connection, &tables).map_err(|e| target.refused(e))?;
        let started = Some(started(&mut connection).map_err(|e| target.refused(e))?);
        let mark = format!("made_by_tare_lab_{:016x}", fastrand::u64(..));
        let owed = OwedState { dsn: target.dsn(), mark, schemas: vec![], variables, tables, started };
        let path = folder.join(format!("{}{number}{}", FILE.0, FILE.1));
        let guest = Guest { pid: target.process(), clock: None, target, path, owed };
        guest.write()?;
        Ok(guest)
    }

    /// Creates a guest of a server on which nothing is changed.
    #[cfg(test)]
    pub(crate) fn idle(target: ServerTarget) -> Guest {
        let owed = OwedState {
            dsn: target.dsn(),
            mark: String::new(),
            schemas: vec![],
            variables: vec![],
            tables: vec![],
            started: None,
        };
        Guest { pid: None, clock: None, target, path: PathBuf::new(), owed }
    }

    /// Makes the server count the CPU time of its statements, if it can.
    pub fn count_cpu(&mut self) -> Result<()> {
        let mut connection = self.target.connect()?;
        if let Some(value) = value_of(&mut connection, COUNTING)
            && !self.owed.variables.iter().any(|(name, _)| name == COUNTING)
        {
            self.owed.variables.push((COUNTING.into(), value));
            self.write()?;
            let statement = format!("SET GLOBAL {COUNTING} = ON");
            connection.query_drop(statement).map_err(|e| self.target.refused(e))?;
        }
        self.clock = StatementClock::of(&self.target)?;
        Ok(())
    }

    /// Returns whether the server has a schema of that name.
    pub fn has(&self, schema: &str) -> Result<bool> {
        let query = "SELECT schema_name FROM information_schema.schemata WHERE schema_name = ?";
        let found: Option<String> =
            self.target.connect()?.exec_first(query, (schema,)).map_err(|e| self.target.refused(e))?;
        Ok(found.is_some())
    }

    /// Returns a sibling of this study's folder with unrestored changes of the same server, left by a killed
    /// study.
    pub fn owed_elsewhere(&self, folder: &Path) -> Option<PathBuf> {
        let beside = fs::read_dir(folder.canonicalize().ok()?.parent()?).ok()?;
        let others = beside.flatten().map(|entry| entry.path());
        let owes = |other: &PathBuf| {
            let files = files(other).unwrap_or_default().into_iter();
            files.filter_map(|path| read(&path).ok()).any(|owed| owed.dsn == self.owed.dsn)
        };
        others.filter(|other| other.canonicalize().ok() != folder.canonicalize().ok()).find(owes)
    }

    /// Creates a schema.
    pub fn create(&mut self, schema: &str) -> Result<()> {
        self.owed.schemas.push(schema.into());
        self.write()?;
        let mut connection = self.target.connect()?;
        for statement in [
            format!("CREATE DATABASE {schema}"),
            format!("CREATE TABLE {schema}.{} (nothing INT)", self.owed.mark),
        ] {
            connection.query_drop(statement).map_err(|e| self.target.refused(e))?;
        }
        Ok(())
    }

    /// Drops the lab's schemas and restores all settings.
    pub fn leave(&mut self) -> Result<()> {
        if !self.path.exists() {
            return Ok(()); // done
        }
        self.put_back().map_err(|error| Error::Owed {
            server: self.target.name(),
            path: self.path.clone(),
            source: Box::new(error),
        })
    }

    fn put_back(&mut self) -> Result<()> {
        let mut connection = self.target.connect()?;
        let refused = |error| self.target.refused(error);
        let now = started(&mut connection).map_err(refused)?;
        if self.owed.started.is_none_or(|then| (now - then).abs() <= SAME_START) {
            self.put_settings_back(&mut connection).map_err(refused)?;
        }
        for schema in &self.owed.schemas {
            if !self.has(schema)? {
                continue;
            }
            if !self.is_ours(schema)? {
                return Err(Error::NotOurs { schema: schema.clone(), path: self.path.clone() });
            }
            connection.query_drop(format!("DROP DATABASE {schema}")).map_err(refused)?;
        }
        fs::remove_file(&self.path).tried(|| format!("removing {}", self.path.display()))
    }

    /// Restores as many settings as the server accepts; returns the first refusal.
    fn put_settings_back(&self, connection: &mut mysql::Conn) -> mysql::Result<()> {
        let mut done = Ok(());
        for table in &self.owed.tables {
            done = done.and(table.put_back(connection));
        }
        for (name, value) in &self.owed.variables {
            if value_of(connection, name).is_some_and(|now| now != *value) {
                done = done.and(connection.query_drop(format!("SET GLOBAL {name} = {value}")));
            }
        }
        done
    }

    fn is_ours(&self, schema: &str) -> Result<bool> {
        let query = "SELECT table_name FROM information_schema.tables WHERE table_schema = ?";
        let tables: Vec<String> =
            self.target.connect()?.exec(query, (schema,)).map_err(|e| self.target.refused(e))?;
        Ok(tables.is_empty() || tables.contains(&self.owed.mark))
    }

    /// Writes the file and syncs it to disk.
    fn write(&self) -> Result<()> {
        let what = || format!("writing {}", self.path.display());
        let text = serde_json::to_string_pretty(&self.owed).map_err(std::io::Error::other).tried(what)?;
        // Written whole or not at all, as a kill may come at any time.
        let new = self.path.with_extension("new");
        let mut file = File::create(&new).tried(what)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).tried(what)?;
        fs::rename(&new, &self.path).tried(what)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // A failure cannot be reported any more; the file tells the next process.
        let _ = self.leave();
    }
}

/// Undoes the changes that a killed study left on running servers; returns the servers' names.
pub fn settle(folder: &Path, credentials: &AccountPasswords) -> Result<Vec<String>> {
    let mut settled = vec![];
    for path in files(folder)? {
        let owed = read(&path)?;
        let target = credentials.target(&owed.dsn)?;
        let mut guest = Guest { target, pid: None, clock: None, path, owed };
        guest.leave()?;
        settled.push(guest.target.name());
    }
    Ok(settled)
}

/// Undoes the changes recorded in a folder that is about a single server, with that server's account. See
/// [`settle`].
pub(crate) fn settle_on(folder: &Path, target: &ServerTarget) -> Result<()> {
    for path in files(folder)? {
        let owed = read(&path)?;
        Guest { target: target.clone(), pid: None, clock: None, path, owed }.leave()?;
    }
    Ok(())
}

/// Returns the files of a results' folder with state to restore.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let files = fs::read_dir(folder).tried(|| format!("reading {}", folder.display()))?;
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        name.starts_with(FILE.0) && name.ends_with(FILE.1)
    };
    Ok(files.flatten().map(|entry| entry.path()).filter(is_ours).collect())
}

fn read(path: &Path) -> Result<OwedState> {
    let text = fs::read_to_string(path).tried(|| format!("reading {}", path.display()))?;
    let wrong =
        |e: serde_json::Error| Error::Results { path: path.into(), line: e.line(), why: e.to_string() };
    serde_json::from_str(&text).map_err(wrong)
}

/// Returns the names to which a statement may assign a value: `SET GLOBAL name = …, @@global.other = …`.
/// False positives are harmless, as only changed values are restored.
pub(crate) fn assigned(statement: &str) -> Vec<&str> {
    if !statement.trim_start().get(..3).is_some_and(|word| word.eq_ignore_ascii_case("SET")) {
        return vec![];
    }
    let before = statement.match_indices('=').map(|(at, _)| statement[..at].trim_end_matches(':').trim_end());
    before.filter_map(name_at_end).collect()
}

/// Returns the variable name at the end of a text.
fn name_at_end(text: &str) -> Option<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_.@`".contains(c);
    let from = text.rfind(|c| !is_part(c)).map_or(0, |last| last + 1);
    let name = text[from..].trim_matches('`');
    let scope = name.get(..9).filter(|scope| scope.eq_ignore_ascii_case("@@global."));
    let name = &name[scope.map_or(0, str::len)..];
    (!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some(name)
}

/// Returns when a server was started, in seconds since 1970 by its own clock.
fn started(connection: &mut mysql::Conn) -> mysql::Result<i64> {
    let now: Option<i64> = connection.query_first("SELECT UNIX_TIMESTAMP()")?;
    let uptime: Option<(String, i64)> = connection.query_first("SHOW GLOBAL STATUS LIKE 'Uptime'")?;
    Ok(now.unwrap_or(0) - uptime.map_or(0, |(_, seconds)| seconds))
}

/// Returns a global variable's value as an SQL literal.
fn value_of(connection: &mut mysql::Conn, name: &str) -> Option<String> {
    let value: Option<mysql::Value> = connection.exec_first(format!("SELECT @@GLOBAL.{name}"), ()).ok()?;
    Some(value?.as_sql(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_a_statement_sets_are_found() {
        let cases = [
            ("SET GLOBAL userstat = ON", vec!["userstat"]),
            ("set global a=1, @@GLOBAL.b := 2, GLOBAL `c` = 'x'", vec!["a", "b", "c"]),
            ("SET @mine = 1, hot.key_buffer_size = 2", vec![]),
            ("UPDATE performance_schema.setup_consumers SET ENABLED = 'YES'", vec![]),
            ("FLUSH STATUS", vec![]),
        ];
        for (statement, names) in cases {
            assert_eq!(assigned(statement), names, "{statement}");
        }
    }
}
