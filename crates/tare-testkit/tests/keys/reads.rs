//! What a table answers by an index is what a copy of it answers by a look at every row.

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::shared_turn;

use crate::{MODES, literal, names, server_of_names};

/// The indexes of tare's tables: table, index, columns in order.
fn indexes(conn: &mut Conn) -> Vec<(String, String, Vec<String>)> {
    let sql = "SELECT s.table_name, index_name, GROUP_CONCAT(column_name ORDER BY seq_in_index) \
               FROM information_schema.statistics s JOIN information_schema.tables t USING (table_schema, table_name) \
               WHERE table_schema = 'performance_schema' AND engine = 'FEDERATED' GROUP BY 1, 2 ORDER BY 1, 2";
    let found: Vec<(String, String, String)> = conn.query(sql).unwrap();
    let columns = |columns: String| columns.split(',').map(str::to_owned).collect();
    found.into_iter().map(|(table, index, names)| (table, index, columns(names))).collect()
}

/// A LIKE pattern that begins with a text, and its ESCAPE.
fn pattern(text: &str, escape: char) -> String {
    let special = |char: char| char == '%' || char == '_' || char == escape;
    text.chars().fold(String::new(), |mut pattern, char| {
        if special(char) {
            pattern.push(escape);
        }
        pattern.push(char);
        pattern
    })
}

/// What a statement ends with: how many rows, a sum over what they hold; or an error.
fn answer(conn: &mut Conn, sql: &str) -> Result<(u64, Option<u64>), String> {
    match conn.query_first(sql) {
        Ok(answer) => Ok(answer.expect("a row of figures")),
        Err(mysql::Error::MySqlError(error)) => Err(format!("{} {}", error.code, error.message)),
        Err(other) => panic!("{sql}: {other}"),
    }
}

/// A table's index, and rows of the table to look up.
pub(crate) struct IndexColumns {
    table: String,
    name: String,
    columns: Vec<String>,
    pub(crate) samples: Vec<Vec<Option<String>>>,
    /// So many rows that each question takes its time.
    is_big: bool,
}

impl IndexColumns {
    pub(crate) fn new(table: &str, name: &str, columns: Vec<String>) -> IndexColumns {
        IndexColumns {
            table: table.to_owned(),
            name: name.to_owned(),
            columns,
            samples: Vec::new(),
            is_big: false,
        }
    }

    /// The rows whose names are out of the ordinary, each once, and a few others; in a big table a few of
    /// each.
    pub(crate) fn sample(&mut self, conn: &mut Conn) {
        let casts: Vec<String> = self.columns.iter().map(|it| format!("CAST({it} AS CHAR)")).collect();
        let rows: Vec<mysql::Row> =
            conn.query(format!("SELECT DISTINCT {} FROM own.copy ORDER BY {0}", casts.join(", "))).unwrap();
        let rows: Vec<Vec<Option<String>>> =
            rows.into_iter().map(|row| row.unwrap().into_iter().map(mysql::from_value).collect()).collect();
        let known: Vec<String> = names().chain([String::new(), "?".into(), "????".into()]).collect();
        let is_special = |row: &&Vec<Option<String>>| {
            row.iter().flatten().any(|value| known.iter().any(|name| name == value))
        };
        self.is_big = rows.len() > 2000;
        let most = if self.is_big { 2 } else { 6 };
        let special: Vec<_> = rows.iter().filter(is_special).collect();
        let step = special.len().div_ceil(most).max(1);
        self.samples = special.into_iter().step_by(step).cloned().collect();
        self.samples.extend([rows.len() / 2, 0].into_iter().filter_map(|at| rows.get(at)).cloned());
    }

    /// What is true of a row, column by column.
    fn equalities(&self, row: &[Option<String>], mode: &str) -> Vec<String> {
        let equal = |(column, value): (&String, &Option<String>)| match value {
            None => format!("{column} IS NULL"),
            Some(value) => format!("{column} = {}", literal(value, mode)),
        };
        self.columns.iter().zip(row).map(equal).collect()
    }

    /// Lookups of one row by the key, by what it begins with, and in a list.
    pub(crate) fn lookups(&self, at: usize, mode: &str) -> Vec<String> {
        let row = &self.samples[at];
        let parts = self.equalities(row, mode);
        let mut all: Vec<String> =
            (1..=parts.len()).rev().map(|length| parts[..length].join(" AND ")).collect();
        let other = &self.samples[(at + 1) % self.samples.len()];
        let values = |row: &[Option<String>]| -> Option<String> {
            let values: Option<Vec<String>> =
                row.iter().map(|value| value.as_ref().map(|it| literal(it, mode))).collect();
            values.map(|values| format!("({})", values.join(", ")))
        };
        if let (Some(one), Some(other)) = (values(row), values(other)) {
            all.push(format!("({}) IN ({one}, {other})", self.columns.join(", ")));
        }
        let other = self.equalities(other, mode);
        all.push(format!("({}) OR ({})", parts.join(" AND "), other.join(" AND ")));
        all
    }

    /// What is asked of one column beside the equality of those before it: ranges, patterns, other spellings.
    pub(crate) fn ranges(&self, row: &[Option<String>], mode: &str) -> Vec<String> {
        let mut all = Vec::new();
        let parts = self.equalities(row, mode);
        for (at, (column, value)) in self.columns.iter().zip(row).enumerate() {
            let Some(value) = value else { continue };
            let before = parts[..at].iter().map(|part| format!("{part} AND ")).collect::<String>();
            let after = parts[at + 1..].iter().map(|part| format!(" AND {part}")).collect::<String>();
            let mut ask = |condition: String| all.push(format!("{before}{column} {condition}{after}"));
            let quoted = literal(value, mode);
            for operator in [">", ">=", "<", "<=", "<>", "<=>"] {
                ask(format!("{operator} {quoted}"));
            }
            ask(format!("BETWEEN {quoted} AND {}", literal(&format!("{value}z"), mode)));
            if value.parse::<f64>().is_ok() {
                continue;
            }
            for other in
                [value.to_uppercase(), value.to_lowercase(), format!("{value}  "), value.replace('a', "á")]
            {
                ask(format!("= {}", literal(&other, mode)));
            }
            // The value itself serves as a pattern.
            ask(format!("LIKE {}", literal(value, mode)));
            for escape in ['|', '!'] {
                let text = pattern(value, escape);
                let half = pattern(&value.chars().take(2).collect::<String>(), escape);
                for text in [text.clone(), format!("{text}%"), format!("{half}%"), format!("{half}_%")] {
                    ask(format!("LIKE {} ESCAPE '{escape}'", literal(&text, mode)));
                }
            }
            if !mode.contains("NO_BACKSLASH") {
                ask(format!("LIKE {}", literal(&format!("{}%", pattern(value, '\\')), mode)));
            }
        }
        all
    }

    /// Joins over the whole key and over what it begins with, in both orders, and with NULL as a value.
    fn joins(&self, of: &str) -> Vec<String> {
        let mut all = Vec::new();
        for length in 1..=self.columns.len() {
            for operator in ["=", "<=>"] {
                let on: Vec<String> = self.columns[..length]
                    .iter()
                    .map(|column| format!("right_one.{column} {operator} left_one.{column}"))
                    .collect();
                let on = on.join(" AND ");
                let left = "(SELECT * FROM own.wanted) AS left_one";
                all.push(format!("{left} STRAIGHT_JOIN {of} ON {on}"));
                all.push(format!("{of} STRAIGHT_JOIN {left} ON {on}"));
            }
        }
        all
    }

    /// Puts the rows that were sampled into a table of their own, to be joined with.
    pub(crate) fn want(&self, conn: &mut Conn) {
        conn.query_drop(
            "CREATE OR REPLACE TEMPORARY TABLE own.wanted ENGINE=InnoDB SELECT * FROM own.copy LIMIT 0",
        )
        .unwrap();
        for row in &self.samples {
            let condition = self.equalities(row, "").join(" AND ");
            conn.query_drop(format!(
                "INSERT INTO own.wanted SELECT * FROM own.copy WHERE {condition} LIMIT 1"
            ))
            .unwrap();
        }
    }
}

/// What is asked of a table by an index, and of its copy by a look at every row.
fn questions(index: &IndexColumns, mode: &str, lasting: &str) -> Vec<[String; 2]> {
    let digest = |prefix: &str| {
        let marked: Vec<String> =
            index.columns.iter().map(|column| format!("IFNULL({prefix}{column}, '~NULL')")).collect();
        format!("COUNT(*), SUM(CRC32(CONCAT_WS('|', {})))", marked.join(", "))
    };
    let indexed = format!("performance_schema.{} AS right_one FORCE INDEX ({})", index.table, index.name);
    let mut all = Vec::new();
    // Each mode has its share of the ranges.
    let place = MODES.iter().position(|it| *it == mode).unwrap();
    for (at, row) in index.samples.iter().enumerate() {
        let ranges = if at % MODES.len() == place && !(index.is_big && at > 0) {
            index.ranges(row, mode)
        } else {
            Vec::new()
        };
        for condition in index.lookups(at, mode).into_iter().chain(ranges) {
            let list = digest("");
            all.push([
                format!("SELECT {list} FROM {indexed} WHERE ({condition}) AND {lasting}"),
                format!("SELECT {list} FROM own.copy WHERE {condition}"),
            ]);
        }
    }
    if index.is_big && !mode.is_empty() {
        return all;
    }
    let list = digest("right_one.");
    for (by_index, by_looking) in index.joins(&indexed).iter().zip(index.joins("own.copy AS right_one")) {
        all.push([
            format!("SELECT {list} FROM {by_index} WHERE {lasting}"),
            format!("SELECT {list} FROM {by_looking}"),
        ]);
    }
    all
}

/// A condition on a table's rows that leaves out what only the statement that asks has: a metadata lock of
/// its own is at another address in the next one.
fn lasting(table: &str, thread: u64) -> String {
    match table {
        "metadata_locks" => format!("right_one.OWNER_THREAD_ID <> {thread}"),
        _ => "TRUE".to_owned(),
    }
}

/// Copies the columns of an index; the copy has the same types and collations and no index.
fn copy(conn: &mut Conn, index: &IndexColumns, lasting: &str, mode: &str) {
    let (columns, table) = (index.columns.join(", "), &index.table);
    for sql in [
        "SET sql_mode = ''".to_owned(),
        format!(
            "CREATE OR REPLACE TEMPORARY TABLE own.copy ENGINE=InnoDB \
             AS SELECT {columns} FROM performance_schema.{table} AS right_one WHERE {lasting}"
        ),
        format!("SET sql_mode = '{mode}'"),
    ] {
        conn.query_drop(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

/// Asks both; what differs is asked again of a new copy: files, locks and threads come and go, what is wrong
/// stays wrong.
fn compare(
    conn: &mut Conn,
    index: &IndexColumns,
    lasting: &str,
    mode: &str,
    asked: &[String; 2],
) -> Result<u64, String> {
    let mut answers = [&asked[0], &asked[1]].map(|sql| answer(conn, sql));
    for _ in 0..3 {
        if answers[0] == answers[1] {
            return Ok(answers[0].as_ref().map_or(0, |(count, _)| *count));
        }
        copy(conn, index, lasting, mode);
        answers = [&asked[0], &asked[1]].map(|sql| answer(conn, sql));
    }
    let [got, expected] = answers;
    if got == expected {
        Ok(0)
    } else {
        Err(format!("{mode:?} {}\n    {got:?}, and not {expected:?}\n", asked[0]))
    }
}

#[test]
fn a_key_of_any_names_finds_its_rows() {
    let _turn = shared_turn();
    let Some((_server, mut conn, _open)) = server_of_names() else { return };
    let thread: u64 = conn
        .query_first(
            "SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()",
        )
        .unwrap()
        .unwrap();
    let (mut compared, mut found, mut wrong) = (0, 0, String::new());
    for (number, (table, name, columns)) in indexes(&mut conn).into_iter().enumerate() {
        let lasting = lasting(&table, thread);
        let mut index = IndexColumns::new(&table, &name, columns);
        copy(&mut conn, &index, &lasting, "");
        index.sample(&mut conn);
        index.want(&mut conn);
        // A big one is asked in one mode more than none, each in another.
        let turn = 1 + number % (MODES.len() - 1);
        let modes = MODES.iter().enumerate().filter(|(at, _)| !index.is_big || [0, turn].contains(at));
        for (_, mode) in modes {
            conn.query_drop(format!("SET sql_mode = '{mode}'")).unwrap();
            for asked in questions(&index, mode, &lasting) {
                compared += 1;
                match compare(&mut conn, &index, &lasting, mode, &asked) {
                    Ok(count) => found += usize::from(count > 0),
                    Err(text) => wrong += &text,
                }
            }
        }
    }
    println!("{compared} lookups, {found} with rows");
    assert_eq!(wrong, "");
    assert!(found > 5_000, "{found} of {compared}");
}
