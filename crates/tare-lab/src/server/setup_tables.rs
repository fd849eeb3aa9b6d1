//! The Performance Schema's setup tables: their contents before a study switches a running server, and their
//! restoration.
//!
//! Only rows that differ in the end are written, so an unchanged table is not touched.

use std::collections::BTreeMap;

use mysql::prelude::Queryable;
use serde::{Deserialize, Serialize};
use tare_words::error_number::{COLUMN_DENIED, NO_COLUMN, NO_TABLE, TABLE_DENIED};

/// Most rows in one statement.
const TOGETHER: usize = 200;
/// Errors of a server that does not have it.
const ABSENT: [u16; 2] = [NO_TABLE, NO_COLUMN];
/// Errors for an account that lacks the right.
const DENIED: [u16; 2] = [TABLE_DENIED, COLUMN_DENIED];
/// Longest text of a setting that is certainly complete: `tare_status` truncates longer ones.
const LONGEST: usize = 1024;

/// An updatable table.
struct SetupTable {
    name: &'static str,
    /// Columns that identify a row.
    key: &'static [&'static str],
    /// Columns that can be updated.
    settings: &'static [&'static str],
    /// Whether rows can be inserted and deleted.
    open: bool,
    /// Condition of updatable rows; empty: all.
    only: &'static str,
}

/// Everything that can be switched by SQL, in the order of restoration. A budget, and rows for the levels of
/// many instruments, come first: an instrument's own level overrides these, and its level also determines
/// whether it is enabled.
static TABLES: &[SetupTable] = &[
    SetupTable {
        only: " WHERE NAME IN ('budget', 'budget_p95', 'level')",
        ..SetupTable::new("tare_status", &["NAME"], &["VALUE"])
    },
    SetupTable::new("setup_consumers", &["NAME"], &["ENABLED"]),
    SetupTable::new("setup_instruments", &["NAME"], &["ENABLED", "TIMED"]),
    SetupTable::new("setup_threads", &["NAME"], &["ENABLED", "HISTORY"]),
    SetupTable {
        open: true,
        ..SetupTable::new("setup_actors", &["HOST", "USER", "ROLE"], &["ENABLED", "HISTORY"])
    },
    SetupTable {
        open: true,
        ..SetupTable::new(
            "setup_objects",
            &["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"],
            &["ENABLED", "TIMED"],
        )
    },
    SetupTable::new("threads", &["THREAD_ID"], &["INSTRUMENTED", "HISTORY"]),
    SetupTable::new("tare_levels", &["NAME"], &["LEVEL", "HELD"]),
];

/// Tables that also set levels of instruments.
const LEVELS_TOO: [&str; 2] = ["setup_instruments", "tare_status"];

/// The original contents of a table. Values are SQL literals.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Kept {
    table: String,
    /// Keys and settings.
    rows: Vec<(Vec<String>, Vec<String>)>,
}

type SetupRows = BTreeMap<Vec<String>, Vec<String>>;

/// Reads the tables that statements may change. Tables that the server does not have are left out.
pub(crate) fn keep<'a>(
    connection: &mut mysql::Conn,
    statements: impl IntoIterator<Item = &'a String>,
) -> mysql::Result<Vec<Kept>> {
    let statements: Vec<&String> = statements.into_iter().collect();
    let mut kept = vec![];
    for table in TABLES.iter().filter(|table| statements.iter().any(|s| table.may_be_changed_by(s))) {
        match table.read(connection) {
            Ok(rows) => {
                let whole = rows.into_iter().filter(|(_, settings)| is_whole(settings));
                kept.push(Kept { table: table.name.into(), rows: whole.collect() });
            }
            Err(mysql::Error::MySqlError(error)) if ABSENT.contains(&error.code) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(kept)
}

/// Returns whether settings, as SQL literals, are complete and not truncated.
fn is_whole(settings: &[String]) -> bool {
    settings.iter().all(|value| value.len() <= LONGEST)
}

/// Checks the right to restore tables, without writing: an account that lacks it switches nothing.
pub(crate) fn try_writing(connection: &mut mysql::Conn, kept: &[Kept]) -> mysql::Result<()> {
    for table in TABLES.iter().filter(|table| kept.iter().any(|it| it.table == table.name)) {
        connection.query_drop(table.nothing_new()).map_err(|error| table.with_right(error))?;
    }
    Ok(())
}

impl Kept {
    /// Writes the rows that differ, and continues after refusals; returns the first one.
    pub(crate) fn put_back(&self, connection: &mut mysql::Conn) -> mysql::Result<()> {
        let Some(table) = TABLES.iter().find(|table| table.name == self.table) else { return Ok(()) };
        let was: SetupRows = self.rows.iter().cloned().collect();
        let now = table.read(connection)?;
        let mut done = Ok(());
        for statement in table.differences(&was, &now) {
            done = done.and(connection.query_drop(statement));
        }
        done
    }
}

impl SetupTable {
    /// Makes a table of which all rows can be updated, and none inserted or deleted.
    const fn new(
        name: &'static str,
        key: &'static [&'static str],
        settings: &'static [&'static str],
    ) -> SetupTable {
        SetupTable { name, key, settings, open: false, only: "" }
    }

    /// Returns whether a statement names it, or may change anything: procedures such as those of `sys` do not
    /// show what they change. Setting an instrument also holds its level.
    fn may_be_changed_by(&self, statement: &str) -> bool {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let statement = statement.to_lowercase();
        let mut words = statement.split(|c| !word(c)).filter(|w| !w.is_empty());
        words.clone().next() == Some("call")
            || words.any(|w| w == self.name || (self.name == "tare_levels" && LEVELS_TOO.contains(&w)))
    }

    fn read(&self, connection: &mut mysql::Conn) -> mysql::Result<SetupRows> {
        let columns = [self.key, self.settings].concat().join(", ");
        let rows: Vec<mysql::Row> = connection
            .query(format!("SELECT {columns} FROM performance_schema.{}{}", self.name, self.only))?;
        let literals = rows.into_iter().map(|row| row.unwrap().iter().map(|v| v.as_sql(false)).collect());
        let split = |mut all: Vec<String>| {
            let settings = all.split_off(self.key.len());
            (all, settings)
        };
        Ok(literals.map(split).collect())
    }

    /// Returns a statement that needs the right to update it, and updates no row.
    fn nothing_new(&self) -> String {
        let given: Vec<String> = self.settings.iter().map(|column| format!("{column} = {column}")).collect();
        format!("UPDATE performance_schema.{} SET {} WHERE FALSE", self.name, given.join(", "))
    }

    /// Adds the missing right to the error of [`SetupTable::nothing_new`].
    fn with_right(&self, error: mysql::Error) -> mysql::Error {
        match error {
            mysql::Error::MySqlError(error) if DENIED.contains(&error.code) => {
                let message = format!(
                    "{}; nothing was switched, for it could not be put back: GRANT UPDATE ON performance_schema.{} TO the account",
                    error.message, self.name
                );
                mysql::Error::MySqlError(mysql::MySqlError { message, ..error })
            }
            other => other,
        }
    }

    /// Returns the statements that turn the rows `now` into `was`.
    fn differences(&self, was: &SetupRows, now: &SetupRows) -> Vec<String> {
        let name = self.name;
        let mut statements = vec![];
        if self.open {
            let added = now.keys().filter(|key| !was.contains_key(*key));
            statements.extend(
                added.map(|key| format!("DELETE FROM performance_schema.{name} WHERE {}", self.is(key))),
            );
            let gone = was.iter().filter(|(key, _)| !now.contains_key(*key));
            statements.extend(gone.map(|(key, settings)| {
                let columns = [self.key, self.settings].concat().join(", ");
                let values = [key.as_slice(), settings].concat().join(", ");
                format!("INSERT INTO performance_schema.{name} ({columns}) VALUES ({values})")
            }));
        }
        // Rows with equal values share a statement.
        let mut alike: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, settings) in was.iter().filter(|(key, was)| now.get(*key).is_some_and(|now| now != *was)) {
            // NULL means that there is no such setting.
            let given = self.settings.iter().zip(settings).filter(|(_, value)| *value != "NULL");
            let given: Vec<String> = given.map(|(column, value)| format!("{column} = {value}")).collect();
            if !given.is_empty() {
                alike.entry(given.join(", ")).or_default().push(self.is(key));
            }
        }
        for (given, places) in alike {
            statements.extend(places.chunks(TOGETHER).map(|places| {
                format!("UPDATE performance_schema.{name} SET {given} WHERE {}", places.join(" OR "))
            }));
        }
        statements
    }

    /// Returns the condition that matches only this row.
    fn is(&self, key: &[String]) -> String {
        let part = |(column, value): (&&str, &String)| {
            if value == "NULL" { format!("{column} IS NULL") } else { format!("{column} = {value}") }
        };
        let parts: Vec<String> = self.key.iter().zip(key).map(part).collect();
        format!("({})", parts.join(" AND "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> &'static SetupTable {
        TABLES.iter().find(|table| table.name == name).expect("a table")
    }

    fn rows(all: &[(&[&str], &[&str])]) -> SetupRows {
        let literals = |values: &[&str]| values.iter().map(|v| format!("'{v}'")).collect();
        all.iter().map(|(key, settings)| (literals(key), literals(settings))).collect()
    }

    #[test]
    fn what_a_statement_may_change_is_known() {
        let kept = |statement: &str| {
            let all = TABLES.iter().filter(|t| t.may_be_changed_by(statement));
            all.map(|t| t.name).collect::<Vec<_>>()
        };
        assert_eq!(kept("UPDATE performance_schema.SETUP_CONSUMERS SET ENABLED = 'NO'"), ["setup_consumers"]);
        assert_eq!(kept("TRUNCATE `performance_schema`.`setup_actors`"), ["setup_actors"]);
        assert_eq!(
            kept("update performance_schema.setup_instruments set enabled='no'"),
            ["setup_instruments", "tare_levels"]
        );
        assert_eq!(
            kept("UPDATE performance_schema.tare_status SET VALUE = 'lean'"),
            ["tare_status", "tare_levels"]
        );
        assert_eq!(kept("CALL sys.ps_setup_disable_instrument('wait')").len(), TABLES.len());
        assert_eq!(kept("SET GLOBAL max_threads = 2"), [""; 0]);
    }

    #[test]
    fn only_what_differs_is_written() {
        let was = rows(&[(&["a"], &["YES"]), (&["b"], &["YES"]), (&["c"], &["NO"]), (&["d"], &["NO"])]);
        let now = rows(&[(&["a"], &["NO"]), (&["b"], &["NO"]), (&["c"], &["YES"]), (&["d"], &["NO"])]);
        assert_eq!(
            table("setup_consumers").differences(&was, &now),
            [
                "UPDATE performance_schema.setup_consumers SET ENABLED = 'NO' WHERE (NAME = 'c')",
                "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE (NAME = 'a') OR (NAME = 'b')",
            ]
        );
        assert_eq!(table("setup_consumers").differences(&was, &was), [""; 0]);
        // A row that the server removed cannot be restored.
        assert_eq!(
            table("threads").differences(&rows(&[(&["1"], &["YES", "YES"])]), &SetupRows::new()),
            [""; 0]
        );
    }

    #[test]
    fn rows_that_came_go_and_rows_that_went_come_back() {
        let was = rows(&[(&["%", "%", "%"], &["YES", "YES"])]);
        let now = rows(&[(&["%", "app", "%"], &["NO", "NO"])]);
        assert_eq!(
            table("setup_actors").differences(&was, &now),
            [
                "DELETE FROM performance_schema.setup_actors WHERE (HOST = '%' AND USER = 'app' AND ROLE = '%')",
                "INSERT INTO performance_schema.setup_actors (HOST, USER, ROLE, ENABLED, HISTORY) VALUES ('%', '%', '%', 'YES', 'YES')",
            ]
        );
    }

    #[test]
    fn a_row_for_many_is_put_back_before_what_each_has_of_its_own() {
        let place = |name: &str| TABLES.iter().position(|table| table.name == name).expect("a table");
        assert!(place("tare_status") < place("setup_instruments"));
        assert!(place("setup_instruments") < place("tare_levels"));
        let status = |budget: &str, level: &str| rows(&[(&["budget"], &[budget]), (&["level"], &[level])]);
        assert_eq!(
            table("tare_status").differences(&status("OFF", "lean"), &status("1%", "stage/%=off")),
            [
                "UPDATE performance_schema.tare_status SET VALUE = 'OFF' WHERE (NAME = 'budget')",
                "UPDATE performance_schema.tare_status SET VALUE = 'lean' WHERE (NAME = 'level')",
            ]
        );
    }

    #[test]
    fn what_is_shown_in_part_is_not_put_back() {
        let of = |length: usize| [format!("'{}'", "x".repeat(length))];
        assert!(is_whole(&of(LONGEST / 2)) && is_whole(&[]));
        assert!(!is_whole(&of(LONGEST)));
    }

    #[test]
    fn a_right_is_asked_for_without_writing_and_named_where_it_is_missing() {
        assert_eq!(
            table("tare_levels").nothing_new(),
            "UPDATE performance_schema.tare_levels SET LEVEL = LEVEL, HELD = HELD WHERE FALSE"
        );
        let said = |code: u16| {
            let (state, message) = ("42000".to_owned(), "no".to_owned());
            let error = mysql::Error::MySqlError(mysql::MySqlError { state, message, code });
            table("tare_levels").with_right(error).to_string()
        };
        for code in DENIED {
            let text = said(code);
            assert!(text.contains("GRANT UPDATE ON performance_schema.tare_levels TO"), "{text}");
        }
        assert!(!said(1205).contains("GRANT"), "another error is as the server said it");
    }
}
