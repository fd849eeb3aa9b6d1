//! What is ours on a server that is not: schemas, variables and rows of the Performance Schema's settings that a study switches.
//! It is put back when the study ends.
//!
//! A study may be killed with -9. So what is to be put back is written to a file of the results' folder before anything is
//! changed, and whoever goes on with the study puts it back first ([`settle`]). A schema is dropped only if it is empty or
//! holds a table whose name no other study has: the file alone does not prove that a schema is ours.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use mysql::prelude::Queryable;
use serde::{Deserialize, Serialize};

use crate::error::Tried;
use crate::setup_tables::{self, Kept};
use crate::statement_clock::StatementClock;
use crate::target::{Credentials, Target};
use crate::{Error, Result};

/// Two starts further apart than this, in seconds, are two runs of the server.
const SAME_START: i64 = 3;
/// The variable by which MariaDB counts what statements use.
const COUNTING: &str = "userstat";
/// Beginning and end of the file's name; between them is the server's number.
const FILE: (&str, &str) = ("to-put-back-", ".json");

/// A server that is not ours, for the time of a study. Dropped, it is as it was.
#[derive(Debug)]
pub struct Guest {
    /// The server.
    pub target: Target,
    /// Its process, if it is on this machine.
    pub pid: Option<u32>,
    /// What tells the CPU time of its statements, if it is asked for that.
    pub clock: Option<StatementClock>,
    path: PathBuf,
    owed: Owed,
}

/// What is to be put back.
#[derive(Debug, Deserialize, Serialize)]
struct Owed {
    /// Where; without a password.
    dsn: String,
    /// Name of the table by which our schemas are known.
    mark: String,
    schemas: Vec<String>,
    /// Global variables and their values, as SQL.
    variables: Vec<(String, String)>,
    /// The Performance Schema's tables of settings that may be changed.
    #[serde(default)]
    tables: Vec<Kept>,
    /// When the server was started, in seconds since 1970 by its clock: one that was started anew has forgotten what it was told.
    #[serde(default)]
    started: Option<i64>,
}

impl Guest {
    /// On the server of that number in the study. Nothing is changed yet; the variables and tables that `switches` set are
    /// written down in `folder` as they are now. An account that could not put the tables back is refused.
    pub fn new<'a>(
        dsn: &str,
        credentials: &Credentials,
        folder: &Path,
        number: usize,
        switches: impl IntoIterator<Item = &'a String> + Clone,
    ) -> Result<Guest> {
        Guest::on(credentials.target(dsn)?, folder, number, switches)
    }

    /// As [`Guest::new`], on a server and as an account that are known.
    pub(crate) fn on<'a>(
        target: Target,
        folder: &Path,
        number: usize,
        switches: impl IntoIterator<Item = &'a String> + Clone,
    ) -> Result<Guest> {
        let mut connection = target.connect()?;
        let mut variables: Vec<(String, String)> = vec![];
        for name in switches.clone().into_iter().flat_map(|statement| assigned(statement)) {
            // What is no global variable is not there to be put back; whether the statement is right its own run says.
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
        let owed = Owed { dsn: target.dsn(), mark, schemas: vec![], variables, tables, started };
        let path = folder.join(format!("{}{number}{}", FILE.0, FILE.1));
        let guest = Guest { pid: target.process(), clock: None, target, path, owed };
        guest.write()?;
        Ok(guest)
    }

    /// On a server of which nothing is asked.
    #[cfg(test)]
    pub(crate) fn idle(target: Target) -> Guest {
        let owed = Owed {
            dsn: target.dsn(),
            mark: String::new(),
            schemas: vec![],
            variables: vec![],
            tables: vec![],
            started: None,
        };
        Guest { pid: None, clock: None, target, path: PathBuf::new(), owed }
    }

    /// Has the server count the CPU time of its statements, where it can.
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

    /// Whether the server has a schema of that name.
    pub fn has(&self, schema: &str) -> Result<bool> {
        let query = "SELECT schema_name FROM information_schema.schemata WHERE schema_name = ?";
        let found: Option<String> =
            self.target.connect()?.exec_first(query, (schema,)).map_err(|e| self.target.refused(e))?;
        Ok(found.is_some())
    }

    /// A folder of results, beside that of this study, that owes something to the same server: a killed study's.
    pub fn owed_elsewhere(&self, folder: &Path) -> Option<PathBuf> {
        let beside = fs::read_dir(folder.canonicalize().ok()?.parent()?).ok()?;
        let others = beside.flatten().map(|entry| entry.path());
        let owes = |other: &PathBuf| {
            let files = files(other).unwrap_or_default().into_iter();
            files.filter_map(|path| read(&path).ok()).any(|owed| owed.dsn == self.owed.dsn)
        };
        others.filter(|other| other.canonicalize().ok() != folder.canonicalize().ok()).find(owes)
    }

    /// Makes a schema.
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

    /// Takes our schemas off, and gives variables the values they had.
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

    /// All settings that the server takes, whichever it refuses; gives the first refusal.
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

    /// It is on the disk when this returns.
    fn write(&self) -> Result<()> {
        let what = || format!("writing {}", self.path.display());
        let text = serde_json::to_string_pretty(&self.owed).map_err(std::io::Error::other).tried(what)?;
        // Whole or not at all: a kill may come in the midst of it.
        let new = self.path.with_extension("new");
        let mut file = File::create(&new).tried(what)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).tried(what)?;
        fs::rename(&new, &self.path).tried(what)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Nobody is left to hear of a failure; the file tells the next who comes.
        let _ = self.leave();
    }
}

/// Puts back what a study that was killed left on servers that are not ours; gives their names.
pub fn settle(folder: &Path, credentials: &Credentials) -> Result<Vec<String>> {
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

/// As [`settle`], of a folder that is about one server only, as the account that is known.
pub(crate) fn settle_on(folder: &Path, target: &Target) -> Result<()> {
    for path in files(folder)? {
        let owed = read(&path)?;
        Guest { target: target.clone(), pid: None, clock: None, path, owed }.leave()?;
    }
    Ok(())
}

/// The files of a folder of results that say what is to be put back.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let files = fs::read_dir(folder).tried(|| format!("reading {}", folder.display()))?;
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        name.starts_with(FILE.0) && name.ends_with(FILE.1)
    };
    Ok(files.flatten().map(|entry| entry.path()).filter(is_ours).collect())
}

fn read(path: &Path) -> Result<Owed> {
    let text = fs::read_to_string(path).tried(|| format!("reading {}", path.display()))?;
    let wrong =
        |e: serde_json::Error| Error::Results { path: path.into(), line: e.line(), why: e.to_string() };
    serde_json::from_str(&text).map_err(wrong)
}

/// Names to which a statement may give a value: `SET GLOBAL name = …, @@global.other = …`. Too many do no harm: only what has
/// changed is put back.
pub(crate) fn assigned(statement: &str) -> Vec<&str> {
    if !statement.trim_start().get(..3).is_some_and(|word| word.eq_ignore_ascii_case("SET")) {
        return vec![];
    }
    let before = statement.match_indices('=').map(|(at, _)| statement[..at].trim_end_matches(':').trim_end());
    before.filter_map(name_at_end).collect()
}

/// The variable a text ends with.
fn name_at_end(text: &str) -> Option<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_.@`".contains(c);
    let from = text.rfind(|c| !is_part(c)).map_or(0, |last| last + 1);
    let name = text[from..].trim_matches('`');
    let scope = name.get(..9).filter(|scope| scope.eq_ignore_ascii_case("@@global."));
    let name = &name[scope.map_or(0, str::len)..];
    (!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some(name)
}

/// When a server was started, in seconds since 1970 by its own clock.
fn started(connection: &mut mysql::Conn) -> mysql::Result<i64> {
    let now: Option<i64> = connection.query_first("SELECT UNIX_TIMESTAMP()")?;
    let uptime: Option<(String, i64)> = connection.query_first("SHOW GLOBAL STATUS LIKE 'Uptime'")?;
    Ok(now.unwrap_or(0) - uptime.map_or(0, |(_, seconds)| seconds))
}

/// A global variable's value, as SQL.
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
