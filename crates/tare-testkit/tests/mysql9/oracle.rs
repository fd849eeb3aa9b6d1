//! One script on MySQL 9 with its own Performance Schema, and on MariaDB with tare in the shape `extended`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mysql::prelude::Queryable;
use serde::Deserialize;
use tare_testkit::difference::matches;
use tare_testkit::mysql_server::Mysql;
use tare_testkit::schema::{SchemaConnection, SchemaRow};
use tare_testkit::script::{ExpectedEnding, Script, StepAction};
use tare_testkit::turn;

/// `expected/mysql.toml`, as far as it is about rows.
#[derive(Debug, Deserialize)]
struct ExpectedRows {
    #[serde(default)]
    row: Vec<Other>,
}

/// Figures that may differ, and why.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Other {
    table: String,
    /// Pattern of what tells rows apart: text, number or name.
    key: String,
    columns: Vec<String>,
    #[allow(dead_code)] // for the reader
    reason: String,
}

/// Figures by table, key and column.
type OracleFigures = BTreeMap<(&'static str, String, String), String>;

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Runs the script in a schema of its own; the connection's number.
fn run(conn: &mut mysql::Conn, script: &Script) -> u64 {
    for sql in ["DROP DATABASE IF EXISTS beside", "CREATE DATABASE beside", "USE beside"] {
        conn.query_drop(sql).unwrap();
    }
    for step in &script.steps {
        let StepAction::Query(sql) = &step.action else { panic!("line {}: only statements", step.line) };
        let drain = |mut result: mysql::QueryResult<'_, '_, '_, mysql::Text>| {
            while let Some(rows) = result.iter() {
                rows.for_each(drop);
            }
        };
        let error = match conn.query_iter(sql).map(drain) {
            Ok(()) => None,
            Err(mysql::Error::MySqlError(e)) => Some(e.code),
            Err(e) => panic!("line {}: {e}", step.line),
        };
        let wanted = match step.ending {
            ExpectedEnding::Error(number) => Some(number),
            _ => None,
        };
        assert_eq!(error, wanted, "line {}: {sql}", step.line);
    }
    conn.connection_id().into()
}

/// The columns of events that are the same whatever server it is; `0` or `some` of those that are not.
fn figures(schema: &mut SchemaConnection, connection: u64) -> OracleFigures {
    let mut figures = OracleFigures::new();
    let thread = schema.thread_of(connection).unwrap().unwrap();
    events(schema, thread, &mut figures);
    errors(schema, thread, &mut figures);
    digests(schema, &mut figures);
    figures
}

const COUNTED: [&str; 20] = [
    "ERRORS",
    "WARNINGS",
    "ROWS_AFFECTED",
    "ROWS_SENT",
    "ROWS_EXAMINED",
    "CREATED_TMP_DISK_TABLES",
    "CREATED_TMP_TABLES",
    "SELECT_FULL_JOIN",
    "SELECT_FULL_RANGE_JOIN",
    "SELECT_RANGE",
    "SELECT_RANGE_CHECK",
    "SELECT_SCAN",
    "SORT_MERGE_PASSES",
    "SORT_RANGE",
    "SORT_ROWS",
    "SORT_SCAN",
    "NO_INDEX_USED",
    "NO_GOOD_INDEX_USED",
    "MYSQL_ERRNO",
    "RETURNED_SQLSTATE",
];

/// Each statement, by its text and how often it was there before.
fn events(schema: &mut SchemaConnection, thread: u64, figures: &mut OracleFigures) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for row in schema.long_history("statements", thread).unwrap() {
        let text = row.text("SQL_TEXT").split_whitespace().collect::<Vec<_>>().join(" ");
        if row.text("CURRENT_SCHEMA") != "beside" || text.is_empty() {
            continue;
        }
        let turn = seen.entry(text.clone()).or_default();
        *turn += 1;
        let key = format!("{text} #{turn}");
        let mut put = |column: &str, value: String| {
            figures.insert(("events_statements_history_long", key.clone(), column.to_owned()), value);
        };
        put("EVENT_NAME", row.text("EVENT_NAME").to_owned());
        COUNTED.iter().for_each(|column| put(column, row.text(column).to_owned()));
        put("TIMER_WAIT", some(&row, "TIMER_WAIT"));
    }
}

/// Each error that was seen, by its number.
fn errors(schema: &mut SchemaConnection, thread: u64, figures: &mut OracleFigures) {
    let table = "events_errors_summary_by_thread_by_error";
    for row in schema.rows_where(table, &[("THREAD_ID", &thread.to_string())]).unwrap() {
        let sums = ["SUM_ERROR_RAISED", "SUM_ERROR_HANDLED"];
        if sums.iter().all(|column| row.text(column) == "0") {
            continue;
        }
        let key = row.get("ERROR_NUMBER").unwrap_or("others");
        for column in sums.into_iter().chain(["SQL_STATE"]) {
            let value = row.get(column).unwrap_or("NULL").to_owned();
            figures.insert((table, key.to_owned(), column.to_owned()), value);
        }
    }
}

/// Each digest, by its text without what the servers spell differently.
fn digests(schema: &mut SchemaConnection, figures: &mut OracleFigures) {
    let table = "events_statements_summary_by_digest";
    let of_script = [("SCHEMA_NAME", "beside")];
    let mut bucketed: BTreeMap<String, u64> = BTreeMap::new();
    for row in schema.rows_where("events_statements_histogram_by_digest", &of_script).unwrap() {
        *bucketed.entry(row.text("DIGEST").to_owned()).or_default() += row.number("COUNT_BUCKET").unwrap();
    }
    for row in schema.rows_where(table, &of_script).unwrap() {
        let key: String = row.text("DIGEST_TEXT").chars().filter(|it| !" `".contains(*it)).collect();
        let number = |column: &str| row.number(column).unwrap();
        let mut put = |column: &str, value: String| {
            figures.insert((table, key.to_lowercase(), column.to_owned()), value);
        };
        for column in ["COUNT_STAR", "SUM_ERRORS", "SUM_WARNINGS", "SUM_ROWS_SENT", "SUM_ROWS_AFFECTED"] {
            put(column, row.text(column).to_owned());
        }
        for column in ["SUM_CPU_TIME", "MAX_TOTAL_MEMORY", "QUERY_SAMPLE_SEEN"] {
            put(column, some(&row, column));
        }
        let sample = row.text("QUERY_SAMPLE_TEXT").split_whitespace().collect::<Vec<_>>().join(" ");
        put("QUERY_SAMPLE_TEXT", sample);
        put(
            "the sample is the slowest",
            (number("QUERY_SAMPLE_TIMER_WAIT") == number("MAX_TIMER_WAIT")).to_string(),
        );
        put("the last quantile holds all", (number("QUANTILE_999") >= number("MAX_TIMER_WAIT")).to_string());
        put("quantiles rise", (number("QUANTILE_95") <= number("QUANTILE_99")).to_string());
        let sum = bucketed.get(row.text("DIGEST")).copied().unwrap_or(0);
        put("buckets add up", (sum == number("COUNT_STAR")).to_string());
    }
}

/// Whether there is anything.
fn some(row: &SchemaRow, column: &str) -> String {
    match row.get(column) {
        None => "NULL",
        Some("0") => "0",
        Some(_) => "some",
    }
    .to_owned()
}

#[test]
fn a_script_leaves_what_it_leaves_on_mysql_or_the_difference_is_explained() {
    let _turn = turn();
    let Some(server) = super::extended() else { return };
    let Some(mysql) = Mysql::start(&[]).unwrap() else { return };
    let text = std::fs::read_to_string(folder("scripts/mysql/common.sql")).unwrap();
    let script = Script::parse("common", &text).unwrap();
    let (mut ours, mut theirs) = (server.client().unwrap(), mysql.client().unwrap());
    let cpu = [("NAME", "events_statements_cpu")];
    server.schema().unwrap().update("setup_consumers", &[("ENABLED", "YES")], &cpu).unwrap();
    let ours = (run(&mut ours, &script), ours);
    let theirs = (run(&mut theirs, &script), theirs);
    let subject = figures(&mut server.schema().unwrap(), ours.0);
    let reference = figures(&mut mysql.schema().unwrap(), theirs.0);

    let expected: ExpectedRows =
        toml::from_str(&std::fs::read_to_string(folder("expected/mysql.toml")).unwrap()).unwrap();
    let mut used = vec![false; expected.row.len()];
    let mut unexplained = Vec::new();
    let mut equal = 0;
    let keys = reference.keys().chain(subject.keys().filter(|key| !reference.contains_key(key)));
    for at in keys {
        if reference.get(at) == subject.get(at) {
            equal += 1;
            continue;
        }
        let (table, key, column) = at;
        let explains = |why: &Other| {
            matches(&why.table, table)
                && matches(&why.key, key)
                && why.columns.iter().any(|it| matches(it, column))
        };
        match expected.row.iter().position(explains) {
            Some(at) => used[at] = true,
            None => unexplained.push(format!(
                "{table} {key} {column}: {:?}, not {:?}",
                reference.get(at),
                subject.get(at)
            )),
        }
    }
    println!("{equal} figures equal");
    assert!(unexplained.is_empty(), "differences nobody explained:\n{}", unexplained.join("\n"));
    let stale: Vec<&Other> = (0..used.len()).filter(|at| !used[*at]).map(|at| &expected.row[at]).collect();
    assert!(stale.is_empty(), "differences that no longer occur: {stale:?}");
    assert!(equal > 500, "only {equal} figures were compared");
}
