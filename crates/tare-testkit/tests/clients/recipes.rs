//! The recipes of `docs/how-to/recipes.md`, run as they stand there.

use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, Row};
use tare_testkit::poll_every;
use tare_testkit::server::{LIMIT, Server};
use tare_testkit::turn;

use crate::subject;

/// The recipes whose answers are tested below; those of the others in `answers`.
const TITLES: [&str; 6] = [AUDIT, INDEX, CONNECTION, MEMORY, LATENCY, LOCK];
const AUDIT: &str = "Audit DDL and nothing else";
const INDEX: &str = "Which index is never used";
const CONNECTION: &str = "What does this connection do right now";
const MEMORY: &str = "Where did the memory go";
const LATENCY: &str = "Top 10 statements by total latency";
const LOCK: &str = "Who holds the lock I wait for";

fn document() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/recipes.md"))
        .unwrap()
}

/// The statements of a recipe, block by block.
pub(crate) fn recipe(title: &str) -> Vec<Vec<String>> {
    let document = document();
    let heading = format!("## {title}\n");
    let text = document.split(&heading).nth(1).unwrap_or_else(|| panic!("no recipe {title}"));
    let text = text.split("\n## ").next().unwrap_or_default();
    let blocks = text.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let statements = |block: &str| {
        block.split(";\n").map(str::trim).filter(|sql| !sql.is_empty()).map(str::to_owned).collect()
    };
    let blocks: Vec<Vec<String>> = blocks.map(statements).collect();
    assert!(!blocks.is_empty(), "{title} has no SQL");
    blocks
}

/// Runs a block; the rows of its last statement.
pub(crate) fn run(conn: &mut Conn, block: &[String]) -> Vec<Row> {
    let mut rows = Vec::new();
    for sql in block {
        rows = conn.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
    rows
}

/// A value of a row as text; `None` for NULL.
pub(crate) fn text(row: &Row, column: &str) -> Option<String> {
    let value: mysql::Value = row.get(column).unwrap_or_else(|| panic!("no column {column}"));
    match value {
        mysql::Value::NULL => None,
        mysql::Value::Bytes(bytes) => Some(String::from_utf8(bytes).unwrap()),
        other => Some(other.as_sql(true)),
    }
}

pub(crate) fn execute(conn: &mut Conn, statements: &[&str]) {
    for sql in statements {
        conn.query_drop(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
}

/// Runs a statement that waits, on a connection and a thread of its own.
pub(crate) fn background(server: &Server, sql: &'static str) -> (u64, JoinHandle<()>) {
    let mut conn = server.client().unwrap();
    let id = u64::from(conn.connection_id());
    // How it ends is the affair of whoever ends it.
    let thread = std::thread::spawn(move || drop(conn.query_drop(sql)));
    (id, thread)
}

/// Runs a block until its rows are as wanted.
pub(crate) fn until(conn: &mut Conn, block: &[String], wanted: impl Fn(&[Row]) -> bool) -> Vec<Row> {
    let mut rows = Vec::new();
    // InnoDB shows its locks as they were for as long as somebody asks more often than every tenth of a
    // second.
    let found = poll_every(Duration::from_millis(150), LIMIT, || {
        rows = run(conn, block);
        wanted(&rows)
    });
    assert!(found.is_some(), "never as wanted: {rows:?}");
    rows
}

fn titles(document: &str) -> Vec<&str> {
    document.lines().filter_map(|line| line.strip_prefix("## ")).collect()
}

#[test]
fn every_tested_recipe_is_there_and_is_listed() {
    let document = document();
    let titles = titles(&document);
    for title in TITLES {
        assert!(titles.contains(&title), "no recipe {title}");
    }
    for title in titles {
        assert!(document.contains(&format!("[{title}](#")), "{title} is not in the list");
    }
}

/// Their columns and functions are there; what they answer is not compared.
#[test]
fn every_other_recipe_runs() {
    let _turn = turn();
    let Some(server) = subject() else { return };
    let mut conn = server.client().unwrap();
    let document = document();
    let others: Vec<&str> = titles(&document).into_iter().filter(|it| !TITLES.contains(it)).collect();
    assert!(others.len() > 15, "{others:?}");
    for title in others {
        for block in recipe(title) {
            run(&mut conn, &block);
        }
    }
}

#[test]
fn the_audit_shows_ddl_and_nothing_else() {
    let _turn = turn();
    let Some(server) = subject() else { return };
    let mut conn = server.client().unwrap();
    execute(&mut conn, &["CREATE DATABASE shop", "CREATE TABLE shop.gone (a INT)"]);
    let [prepare, audit] = &recipe(AUDIT)[..] else { panic!("two blocks") };
    run(&mut conn, prepare);
    let mut shop = Conn::new(server.client_options().db_name(Some("shop"))).unwrap();
    let statements = [
        "SELECT 1",
        "INSERT INTO gone VALUES (1)",
        "ALTER TABLE gone ADD b INT",
        "SELECT * FROM gone",
        "CREATE INDEX b ON gone (b)",
        "TRUNCATE TABLE gone",
        "DROP TABLE gone",
        // A statement ends a moment after its answer; the next one's answer comes after that.
        "SELECT 2",
    ];
    execute(&mut shop, &statements);
    let rows = run(&mut conn, audit);
    let seen: Vec<_> = rows
        .iter()
        .map(|row| ["PROCESSLIST_USER", "CURRENT_SCHEMA", "SQL_TEXT"].map(|c| text(row, c).unwrap()))
        .collect();
    assert_eq!(
        seen,
        [statements[2], statements[4], statements[5], statements[6]]
            .map(|sql| ["root", "shop", sql].map(str::to_owned))
    );
}

#[test]
fn the_index_nobody_uses_is_named() {
    let _turn = turn();
    let Some(server) = subject() else { return };
    let mut conn = server.client().unwrap();
    execute(
        &mut conn,
        &[
            "CREATE DATABASE shop",
            "USE shop",
            "CREATE TABLE shop.orders (id INT PRIMARY KEY, used INT, unused INT, KEY used (used), KEY unused (unused))",
            "INSERT INTO shop.orders SELECT seq, seq, seq FROM seq_1_to_1000",
            "SELECT * FROM shop.orders WHERE used = 7",
        ],
    );
    let rows = run(&mut conn, &recipe(INDEX)[0]);
    let seen: Vec<_> = rows.iter().map(|row| text(row, "INDEX_NAME").unwrap()).collect();
    assert_eq!(seen, ["unused"]);
    execute(&mut conn, &["SELECT * FROM shop.orders WHERE unused = 7"]);
    assert_eq!(run(&mut conn, &recipe(INDEX)[0]).len(), 0);
}

#[test]
fn a_connection_is_seen_at_what_it_does() {
    let _turn = turn();
    let Some(server) = subject() else { return };
    let mut conn = server.client().unwrap();
    let (id, sleeper) = background(&server, "DO SLEEP(100)");
    execute(&mut conn, &[&format!("SET @connection = {id}")]);
    let [now, before] = &recipe(CONNECTION)[..] else { panic!("two blocks") };
    let sleeps =
        |rows: &[Row]| rows.iter().any(|row| text(row, "wait").is_some_and(|wait| wait.contains("sleep")));
    let rows = until(&mut conn, now, sleeps);
    let row = rows.iter().find(|row| sleeps(std::slice::from_ref(*row))).unwrap();
    assert_eq!(text(row, "SQL_TEXT").as_deref(), Some("DO SLEEP(100)"));
    assert_eq!(text(row, "stage").as_deref(), Some("stage/sql/User sleep"));
    execute(&mut conn, &[&format!("KILL QUERY {id}")]);
    sleeper.join().unwrap();

    let mut watched = server.client().unwrap();
    execute(&mut watched, &["DO 1", "DO 2"]);
    execute(&mut conn, &[&format!("SET @connection = {}", watched.connection_id())]);
    let rows = until(&mut conn, before, |rows| {
        rows.iter().any(|row| text(row, "SQL_TEXT").as_deref() == Some("DO 2"))
    });
    let seen: Vec<_> = rows.iter().filter_map(|row| text(row, "SQL_TEXT")).take(2).collect();
    assert_eq!(seen, ["DO 2", "DO 1"]);
}

#[test]
fn memory_is_found_by_use_and_by_connection() {
    let _turn = turn();
    let Some(server) = subject() else { return };
    let mut conn = server.client().unwrap();
    let mut hoarder = server.client().unwrap();
    execute(&mut hoarder, &["SET @hoard = REPEAT('x', 12 * 1024 * 1024)"]);
    let [by_use, by_connection] = &recipe(MEMORY)[..] else { panic!("two blocks") };
    let bytes = |row: &Row| text(row, "bytes").unwrap().parse::<f64>().unwrap();
    let uses = run(&mut conn, by_use);
    assert_eq!(uses.len(), 10);
    assert!(uses.windows(2).all(|pair| bytes(&pair[0]) >= bytes(&pair[1])), "{uses:?}");
    let variable = uses
        .iter()
        .find(|row| text(row, "EVENT_NAME").as_deref() == Some("memory/sql/user_var_entry::value"));
    assert!(bytes(variable.unwrap()) >= 12e6, "{uses:?}");
    let connections = run(&mut conn, by_connection);
    assert_eq!(text(&connections[0], "PROCESSLIST_ID"), Some(hoarder.connection_id().to_string()));
    assert!(bytes(&connections[0]) >= 12e6);
}

#[test]
fn the_statement_that_took_longest_comes_first() {
    let _turn = turn();
    let Some(server) = subject() else { return };
    let mut conn = server.client().unwrap();
    execute(&mut conn, &["DO SLEEP(0.5)", "DO SLEEP(1.5)", "SELECT 1"]);
    let rows = run(&mut conn, &recipe(LATENCY)[0]);
    assert!(rows.len() > 1 && rows.len() <= 10, "{rows:?}");
    let first = ["DIGEST_TEXT", "calls"].map(|column| text(&rows[0], column).unwrap());
    assert_eq!(first.each_ref().map(|value| value.trim()), ["DO `SLEEP` (?)", "2"]);
    let number = |column: &str| text(&rows[0], column).unwrap().parse::<f64>().unwrap();
    assert!(number("total_s") >= 2.0 && number("maximum_ms") >= 1500.0, "{:?}", rows[0]);
    assert!((number("average_ms") * 2.0 / 1000.0 - number("total_s")).abs() < 0.01, "{:?}", rows[0]);
}

#[test]
fn who_holds_a_row_lock_is_named_with_what_it_did() {
    let _turn = turn();
    let Some(server) = subject() else { return };
    let mut conn = server.client().unwrap();
    execute(
        &mut conn,
        &[
            "CREATE DATABASE shop",
            "CREATE TABLE shop.stock (id INT PRIMARY KEY, n INT)",
            "INSERT INTO shop.stock VALUES (1, 1)",
        ],
    );
    let mut holder = server.client().unwrap();
    let locking = "UPDATE shop.stock SET n = 2 WHERE id = 1";
    execute(&mut holder, &["BEGIN", locking, "DO 'thinking'"]);
    // They read by a snapshot, or hold a shared lock, and have no number, as the reader that waits.
    let mut bystanders = [server.client().unwrap(), server.client().unwrap()];
    execute(&mut bystanders[0], &["START TRANSACTION WITH CONSISTENT SNAPSHOT"]);
    execute(&mut bystanders[1], &["BEGIN", "SELECT * FROM shop.stock WHERE id = 2 LOCK IN SHARE MODE"]);
    let wanted = [
        "UPDATE shop.stock SET n = 3 WHERE id = 1",
        "SELECT n FROM shop.stock WHERE id = 1 LOCK IN SHARE MODE",
    ];
    let waiters = wanted.map(|sql| background(&server, sql));
    let waits = |rows: &[Row]| {
        let mut waiting: Vec<String> = rows.iter().filter_map(|row| text(row, "waiting")).collect();
        waiting.dedup();
        waiting.len() == 2
    };
    let rows = until(&mut conn, &recipe(LOCK)[0], waits);
    execute(&mut holder, &["ROLLBACK"]);
    let ids: Vec<u64> = waiters.iter().map(|(id, _)| *id).collect();
    for (_, waiter) in waiters {
        waiter.join().unwrap();
    }
    assert!(waits(&rows), "{rows:?}");
    for row in &rows {
        let seen = ["waiting", "waiting_statement", "holder"].map(|column| text(row, column).unwrap());
        let at = ids.iter().position(|id| id.to_string() == seen[0]).expect("a waiter");
        let expected = [&ids[at].to_string(), wanted[at], &holder.connection_id().to_string()];
        assert_eq!(seen, expected);
    }
    let statements: Vec<_> = rows.iter().filter_map(|row| text(row, "holders_statement")).collect();
    assert!(statements.len() >= 3, "{statements:?}");
    assert_eq!(statements[..3], ["DO 'thinking'", locking, "BEGIN"].map(str::to_owned));
}

#[test]
fn who_holds_a_metadata_lock_is_named_and_who_only_queues() {
    let _turn = turn();
    let Some(server) = subject() else { return };
    let mut conn = server.client().unwrap();
    execute(&mut conn, &["CREATE DATABASE shop", "CREATE TABLE shop.stock (id INT PRIMARY KEY)"]);
    let mut holder = server.client().unwrap();
    execute(&mut holder, &["BEGIN", "SELECT * FROM shop.stock", "DO 'thinking'"]);
    let by_table = &recipe(LOCK)[1];
    let (altering, alter) = background(&server, "ALTER TABLE shop.stock ADD n INT");
    until(&mut conn, by_table, |rows| !rows.is_empty());
    let (reading, reader) = background(&server, "SELECT id FROM shop.stock");
    let rows = until(&mut conn, by_table, |rows| rows.len() == 2);
    let holders_id = holder.connection_id().to_string();
    execute(&mut holder, &["COMMIT"]);
    alter.join().unwrap();
    reader.join().unwrap();
    let columns =
        ["waiting", "waiting_statement", "wanted", "holder", "held", "holder_waits", "holders_statement"];
    let seen: Vec<_> = rows.iter().map(|row| columns.map(|column| text(row, column).unwrap())).collect();
    let (altering, reading) = (altering.to_string(), reading.to_string());
    let (alter, read, held) =
        ("ALTER TABLE shop.stock ADD n INT", "SELECT id FROM shop.stock", "DO 'thinking'");
    let expected = [
        [&altering, alter, "EXCLUSIVE", &holders_id, "SHARED_READ", "0", held],
        [&reading, read, "SHARED_READ", &altering, "EXCLUSIVE", "1", alter],
    ];
    assert_eq!(seen, expected.map(|row| row.map(str::to_owned)));
    assert!(rows.iter().all(|row| text(row, "object").as_deref() == Some("shop.stock")));
    assert_eq!(run(&mut conn, by_table).len(), 0);
}

#[test]
fn quantiles_are_those_of_the_calls_the_history_holds() {
    let _turn = turn();
    let Some(server) = subject() else { return };
    let mut conn = server.client().unwrap();
    for call in 1..=40 {
        execute(&mut conn, &[&format!("DO SLEEP({})", f64::from(call) / 1000.0)]);
    }
    let rows = run(&mut conn, &recipe(LATENCY)[1]);
    let sleeps = "DO `SLEEP` (?)";
    let row = rows.iter().find(|row| text(row, "DIGEST_TEXT").is_some_and(|it| it.trim() == sleeps));
    let row = row.unwrap_or_else(|| panic!("no sleeps in {rows:?}"));
    let sql = "SELECT TIMER_WAIT FROM performance_schema.events_statements_history_long \
               WHERE SQL_TEXT LIKE 'DO SLEEP%' ORDER BY TIMER_WAIT";
    let took: Vec<f64> = conn.query(sql).unwrap();
    assert_eq!((took.len(), text(row, "calls").as_deref()), (40, Some("40")));
    // The least that so many of a hundred do not exceed.
    for (column, rank) in [("p50_ms", 20), ("p95_ms", 38), ("p99_ms", 40), ("maximum_ms", 40)] {
        let shown: f64 = text(row, column).unwrap().parse().unwrap();
        let wanted = took[rank - 1] / 1e9;
        // The rate of the clock is better known with every second.
        assert!((shown - wanted).abs() <= wanted / 10_000.0 + 0.001, "{column}: {shown}, not {wanted}");
    }
    let total: f64 = text(row, "total_s").unwrap().parse().unwrap();
    assert!((total - took.iter().sum::<f64>() / 1e12).abs() < 0.01, "{total}");
}
