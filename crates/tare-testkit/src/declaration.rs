//! What the data oracle compares: every table and column of the schema, declared in
//! `expected/comparison.toml`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use serde::Deserialize;

use crate::difference::matches;
use crate::{Failure, Result};

/// The content of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// Tables; one may be compared in several ways.
    pub table: Vec<ComparedTables>,
    /// Columns that are not part of a table's key; of several that match the first applies.
    pub column: Vec<Columns>,
    /// Columns that no script fills on the reference.
    #[serde(default)]
    pub blank: Vec<Blank>,
}

/// Which rows are compared, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ComparedRows {
    /// All rows, right after start-up.
    Standing,
    /// All rows that a connection sees of itself after a fixed list of statements.
    Asker,
    /// Rows of each connection of a script; numbers after minus before.
    Connections,
    /// Rows of a script's connections, or of its users in a table without connections, at its end.
    Held,
    /// Rows of the script's schema; numbers after minus before.
    Schema,
    /// Rows of files in the script's schema; numbers after minus before.
    Files,
    /// Rows of sockets of the script's connections; numbers after minus before.
    Sockets,
    /// Rows of the script's users; numbers after minus before.
    Users,
    /// Rows of clients from any host; numbers after minus before.
    Hosts,
    /// All rows; numbers after minus before.
    All,
    /// Every event of a script's connections, in order.
    History,
    /// The newest events of a script's connections. Each must be among the newest of the long history.
    Newest,
    /// None: the table stays empty for the given reason.
    None,
}

/// Tables that are compared in the same way.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComparedTables {
    /// Patterns of their names.
    pub names: Vec<String>,
    /// Which of their rows.
    pub rows: ComparedRows,
    /// Patterns of EVENT_NAME, NAME or VARIABLE_NAME of the rows; all rows if empty.
    #[serde(default)]
    pub only: Vec<String>,
    /// Columns that identify a row. Numbers of rows with equal keys are added up, other values are listed.
    #[serde(default)]
    pub key: Vec<String>,
    /// Whether the reference gives different results; what it does not repeat is then only shown.
    #[serde(default)]
    pub wavers: bool,
    /// Whether the number of rows with equal keys is ignored.
    #[serde(default)]
    pub uncounted: bool,
    /// Whether the provider shows them only on the server's port, not on its endpoint.
    #[serde(default)]
    pub served: bool,
    /// Why the table stays empty.
    #[serde(default)]
    pub reason: String,
}

/// How a column is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ComparisonWay {
    /// Equal text or number.
    Equal,
    /// Equal class: NULL, nothing (0, an empty text), or something.
    Some,
    /// Not directly: the reason says how, or why not at all.
    Otherwise,
}

/// The ways of a server's columns by table and column, which are looked up for every row.
#[derive(Debug)]
pub struct Ways(HashMap<String, HashMap<String, ComparisonWay>>);

impl Ways {
    pub(crate) fn of(&self, table: &str, column: &str) -> Option<ComparisonWay> {
        self.0.get(table)?.get(column).copied()
    }
}

/// Columns that are compared in the same way.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Columns {
    /// Patterns of their tables; all if empty.
    #[serde(default = "every")]
    pub tables: Vec<String>,
    /// Patterns of their names.
    pub names: Vec<String>,
    /// How they are compared.
    pub way: ComparisonWay,
    /// Why they are not compared directly.
    #[serde(default)]
    pub reason: String,
}

/// Columns that no script fills.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blank {
    /// Patterns of their tables; all if empty.
    #[serde(default = "every")]
    pub tables: Vec<String>,
    /// Patterns of their names.
    pub names: Vec<String>,
    /// Why they stay empty.
    pub reason: String,
}

fn every() -> Vec<String> {
    vec!["*".to_owned()]
}

fn fits(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, text))
}

impl ComparedTables {
    /// Returns whether rows of this name are compared.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || fits(&self.only, name)
    }

    /// Returns whether numbers are compared as what a script added to them.
    pub(crate) fn is_counted(&self) -> bool {
        use ComparedRows::{All, Connections, Files, Hosts, Schema, Sockets, Users};
        matches!(self.rows, All | Connections | Files | Hosts | Schema | Sockets | Users)
    }
}

impl Blank {
    fn fits(&self, table: &str, column: &str) -> bool {
        fits(&self.tables, table) && fits(&self.names, column)
    }
}

impl Declaration {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read, or an entry lacks its reason.
    pub fn read(path: &Path) -> Result<Declaration> {
        let text = std::fs::read_to_string(path).map_err(Failure::io(path.display().to_string()))?;
        Declaration::parse(&text).map_err(|problem| Failure::Setup(format!("{}: {problem}", path.display())))
    }

    fn parse(text: &str) -> std::result::Result<Declaration, String> {
        let read: Declaration = toml::from_str(text).map_err(|e| e.to_string())?;
        let tables =
            read.table.iter().filter(|it| it.rows == ComparedRows::None).map(|it| (&it.names, &it.reason));
        let columns = read.column.iter().filter(|it| it.way == ComparisonWay::Otherwise);
        let columns = columns.map(|it| (&it.names, &it.reason));
        let blank = read.blank.iter().map(|it| (&it.names, &it.reason));
        match tables.chain(columns).chain(blank).find(|(_, reason)| reason.trim().is_empty()) {
            Some((names, _)) => Err(format!("{names:?} has no reason")),
            None => Ok(read),
        }
    }

    /// Leaves out what is only on a server's own port, and what a connection sees of itself, as connections
    /// to the endpoint are not the server's.
    #[must_use]
    pub fn on_endpoint(mut self) -> Declaration {
        let left_out = |it: &&mut ComparedTables| it.served || it.rows == ComparedRows::Asker;
        self.table.iter_mut().filter(left_out).for_each(|it| it.rows = ComparedRows::None);
        self
    }

    /// Returns each way in which these tables are compared.
    pub(crate) fn of<'a>(&'a self, tables: &[String]) -> Vec<(String, &'a ComparedTables)> {
        let looked_at = |table: &String| {
            let table = table.clone();
            self.table.iter().filter(move |it| fits(&it.names, &table)).collect::<Vec<_>>()
        };
        tables.iter().flat_map(|table| looked_at(table).into_iter().map(|it| (table.clone(), it))).collect()
    }

    /// Returns the ways of all columns of these tables that have one.
    pub(crate) fn ways(&self, columns: &BTreeMap<String, Vec<String>>) -> Ways {
        let of = |(table, columns): (&String, &Vec<String>)| {
            let ways = columns.iter().filter_map(|c| Some((c.clone(), self.way(table, c)?)));
            (table.clone(), ways.collect())
        };
        Ways(columns.iter().map(of).collect())
    }

    /// Returns how a column is compared; `None` if that is not declared.
    pub fn way(&self, table: &str, column: &str) -> Option<ComparisonWay> {
        let of = |it: &&Columns| fits(&it.tables, table) && fits(&it.names, column);
        self.column.iter().find(of).map(|it| it.way)
    }

    /// Returns whether the reference must give the same result every time.
    pub fn repeats(&self, table: &str) -> bool {
        self.table.iter().filter(|it| fits(&it.names, table)).all(|it| !it.wavers)
    }

    /// Returns the disagreements of the file and the schema, a line each: undeclared tables and columns, and
    /// declarations without a match.
    pub fn disagreements(&self, schema: &BTreeMap<String, Vec<String>>) -> (Vec<String>, Vec<String>) {
        let mut undeclared = Vec::new();
        let mut used = BTreeSet::new();
        for (table, columns) in schema {
            let looked_at: Vec<&ComparedTables> =
                self.table.iter().filter(|it| fits(&it.names, table)).collect();
            if looked_at.is_empty() {
                undeclared.push(format!("nothing says how {table} is compared"));
            }
            if looked_at.iter().any(|it| it.rows == ComparedRows::None) {
                continue;
            }
            for column in columns.iter().filter(|c| !looked_at.iter().all(|it| it.key.contains(c))) {
                let of = |it: &Columns| fits(&it.tables, table) && fits(&it.names, column);
                match self.column.iter().position(of) {
                    Some(at) => _ = used.insert(at),
                    None => undeclared.push(format!("nothing says how {table}.{column} is compared")),
                }
            }
        }
        let absent = self.table.iter().filter(|it| !schema.keys().any(|table| fits(&it.names, table)));
        let absent = absent.map(|it| format!("no table is called {:?}", it.names));
        let unused = self.column.iter().enumerate().filter(|(at, _)| !used.contains(at));
        let unused = unused.map(|(_, it)| format!("no column is compared by {:?} {:?}", it.tables, it.names));
        (undeclared, absent.chain(unused).collect())
    }

    /// Returns the tables that no script fills on the reference, without a reason in the file. `filled` has
    /// those with a row.
    pub fn empty(
        &self,
        schema: &BTreeMap<String, Vec<String>>,
        filled: &BTreeMap<String, BTreeSet<String>>,
    ) -> Vec<String> {
        let is_empty = |table: &&String| {
            let mut looked_at = self.table.iter().filter(|it| fits(&it.names, table));
            !filled.contains_key(*table) && !looked_at.any(|it| it.rows == ComparedRows::None)
        };
        schema.keys().filter(is_empty).map(|table| format!("no script fills {table}")).collect()
    }

    /// Returns the disagreements of the file and the reference: columns that were empty and should not be,
    /// and the reverse. `filled` has the columns, by table, in which something was found.
    pub fn blanks(
        &self,
        schema: &BTreeMap<String, Vec<String>>,
        filled: &BTreeMap<String, BTreeSet<String>>,
    ) -> Vec<String> {
        let mut found = Vec::new();
        let mut used = BTreeSet::new();
        for (table, columns) in schema {
            let looked_at: Vec<&ComparedTables> =
                self.table.iter().filter(|it| fits(&it.names, table)).collect();
            if looked_at.iter().all(|it| matches!(it.rows, ComparedRows::None | ComparedRows::Newest)) {
                continue;
            }
            let filled = filled.get(table);
            let is_key = |column: &&String| looked_at.iter().all(|it| it.key.contains(column));
            let columns = columns.iter().filter(|column| !is_key(column));
            for column in columns.filter(|column| self.way(table, column) != Some(ComparisonWay::Otherwise)) {
                if filled.is_some_and(|filled| filled.contains(column)) {
                    continue;
                }
                match self.blank.iter().position(|it| it.fits(table, column)) {
                    Some(at) => _ = used.insert(at),
                    None => found.push(format!("no script puts anything into {table}.{column}")),
                }
            }
        }
        let unused = self.blank.iter().enumerate().filter(|(at, _)| !used.contains(at));
        found.extend(unused.map(|(_, it)| format!("{:?} {:?} are not blank", it.tables, it.names)));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[[table]]\nnames=['a*']\nrows='all'\nkey=['K']\n\
                        [[column]]\nnames=['SUM_*']\nway='some'\n\
                        [[column]]\nnames=['*']\ntables=['ab']\nway='equal'\n";

    fn schema(tables: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        let columns = |columns: &[&str]| columns.iter().map(|c| (*c).to_owned()).collect();
        tables.iter().map(|(table, of)| ((*table).to_owned(), columns(of))).collect()
    }

    #[test]
    fn what_is_undeclared_and_what_is_not_there_are_named() {
        let declaration = Declaration::parse(TEXT).expect("a good file");
        assert_eq!(declaration.way("ab", "SUM_X"), Some(ComparisonWay::Some));
        assert_eq!(declaration.way("ab", "X"), Some(ComparisonWay::Equal));
        let good = schema(&[("ab", &["K", "SUM_X", "X"])]);
        assert_eq!(declaration.disagreements(&good), (vec![], vec![]));
        let bad = schema(&[("ac", &["K", "X"]), ("b", &[])]);
        let (undeclared, missing) = declaration.disagreements(&bad);
        assert_eq!(undeclared, ["nothing says how ac.X is compared", "nothing says how b is compared"]);
        assert_eq!(
            missing,
            ["no column is compared by [\"*\"] [\"SUM_*\"]", "no column is compared by [\"ab\"] [\"*\"]",]
        );
    }

    #[test]
    fn a_column_nobody_fills_is_named() {
        let declaration = Declaration::parse(TEXT).expect("a good file");
        let filled =
            |columns: &[&str]| [("ab".to_owned(), columns.iter().map(|c| (*c).to_owned()).collect())].into();
        let schema = schema(&[("ab", &["K", "X"])]);
        assert_eq!(declaration.blanks(&schema, &filled(&["K", "X"])), Vec::<String>::new());
        assert_eq!(declaration.blanks(&schema, &filled(&["K"])), ["no script puts anything into ab.X"]);
    }

    #[test]
    fn what_is_not_compared_needs_a_reason() {
        for text in [
            "column=[]\n[[table]]\nnames=['a']\nrows='none'",
            "table=[]\n[[column]]\nnames=['a']\nway='otherwise'",
        ] {
            assert!(Declaration::parse(text).expect_err("no reason").ends_with("has no reason"));
        }
    }
}
