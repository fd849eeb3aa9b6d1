//! Statements, stages and transactions of one session, by tare and by the built-in of the same program.

use std::collections::BTreeSet;

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::mysql_server::Mysql;

use crate::{library, number, rows, subject};

/// Columns that differ: TABLE COLUMN REASON, one a line.
const DIFFERENCES: &str = include_str!("event_differences.txt");

const OPTIONS: &[&str] = &["--performance-schema-events-statements-history-long-size=10000"];

const SCHEMA: [&str; 10] = [
    "CREATE DATABASE work",
    "USE work",
    "CREATE TABLE t (id INT PRIMARY KEY, c INT, s VARCHAR(20)) STATS_AUTO_RECALC = 0",
    "CREATE TABLE u (id INT PRIMARY KEY, c INT, KEY (c)) STATS_AUTO_RECALC = 0",
    "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99) SELECT i, i % 7, 'x' FROM n",
    "INSERT INTO u SELECT id, c FROM t",
    // The optimizer chooses by these statistics, which the server would renew in the background.
    "ANALYZE TABLE t, u",
    "CREATE FUNCTION f (a INT) RETURNS INT DETERMINISTIC RETURN a + 1",
    "CREATE PROCEDURE p (n INT) BEGIN DECLARE i INT DEFAULT 0; DECLARE CONTINUE HANDLER FOR 1146 SET i = i + 1; \
     WHILE i < n DO UPDATE t SET c = c + 1 WHERE id = i; SET i = i + 1; END WHILE; SELECT * FROM missing; END",
    "CREATE TRIGGER g BEFORE UPDATE ON u FOR EACH ROW SET NEW.c = NEW.c + 1",
];

/// One of a session's statements.
fn statement(kind: u32, a: u32, b: u32) -> String {
    match kind {
        0 => format!("SELECT c FROM t WHERE id = {a}"),
        1 => format!("SELECT SUM(c) FROM t WHERE id BETWEEN {a} AND {b}"),
        2 => format!("UPDATE t SET c = {b} WHERE id = {a}"),
        3 => format!("REPLACE INTO t VALUES ({a}, {b}, 'y')"),
        4 => format!(
            "SELECT t.s, COUNT(*) FROM t STRAIGHT_JOIN u FORCE INDEX (c) ON t.c = u.c WHERE t.id > {a} GROUP BY t.s ORDER BY 2"
        ),
        5 => "SELECT DISTINCT c FROM t ORDER BY s LIMIT 5".to_owned(),
        6 => format!("SELECT * FROM missing WHERE id = {a}"),
        7 => format!("SELECT {a} / 0, CAST('{b}x' AS SIGNED)"),
        8 => format!("INSERT INTO t VALUES ({a}, {b}, 'too long for this column')"),
        9 => format!("CALL p({})", a % 4),
        10 => format!("SELECT f({a}), id FROM t WHERE c = {b} LIMIT 3"),
        11 => format!("UPDATE u SET c = {b} WHERE id < {}", a % 10),
        12 => "START TRANSACTION".to_owned(),
        13 => format!("SAVEPOINT s{}", a % 3),
        14 => ["COMMIT", "ROLLBACK"][a as usize % 2].to_owned(),
        15 => "START TRANSACTION READ ONLY".to_owned(),
        16 => format!("SELECT 'not even SQL {a}"),
        17 => "SHOW TABLES".to_owned(),
        18 => format!("SELECT /* a comment */ id FROM t WHERE id IN ({a}, {b}, 3, 4)"),
        19 => format!("DELETE FROM u WHERE id = {a}"),
        20 => "SET @a = 1".to_owned(),
        _ => "DO 1".to_owned(),
    }
}

/// A session's statements, the same in each server.
fn work(conn: &mut Conn) {
    let mut random = 7u32;
    let mut next = |below: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 8) % below
    };
    let select = conn.prep("SELECT c, s FROM t WHERE id = ?").expect("a statement");
    let update = conn.prep("UPDATE t SET c = c + ? WHERE id = ?").expect("a statement");
    for _ in 0..600 {
        let (id, other) = (next(100), next(100));
        match next(24) {
            22 => conn.exec_drop(&select, (id,)).expect("an execution"),
            23 => {
                let _fails_if_read_only = conn.exec_drop(&update, (other, id));
            }
            kind => {
                // Some fail, in each server alike.
                let _fails_alike: Vec<mysql::Row> =
                    conn.query(statement(kind, id, other)).unwrap_or_default();
            }
        }
    }
    for sql in [
        "ROLLBACK",
        "XA START 'one'",
        "UPDATE t SET c = 0 WHERE id = 1",
        "XA END 'one'",
        "XA PREPARE 'one'",
        "XA COMMIT 'one'",
        "PREPARE p FROM 'SELECT id FROM t WHERE c = ?'",
        "EXECUTE p USING @a",
        "EXECUTE p USING @a",
    ] {
        conn.query_drop(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

/// Tables that are compared, the columns that identify a row of each, and a condition for its rows.
const COMPARED: [(&str, &str, &str); 7] = [
    ("events_statements_summary_by_thread_by_event_name", "EVENT_NAME", "THREAD_ID = @thread"),
    ("events_stages_summary_by_thread_by_event_name", "EVENT_NAME", "THREAD_ID = @thread"),
    ("events_transactions_summary_by_thread_by_event_name", "EVENT_NAME", "THREAD_ID = @thread"),
    ("events_statements_summary_by_digest", "SCHEMA_NAME, DIGEST", "SCHEMA_NAME = 'work'"),
    (
        "events_statements_summary_by_program",
        "OBJECT_TYPE, OBJECT_SCHEMA, OBJECT_NAME",
        "OBJECT_SCHEMA = 'work'",
    ),
    ("prepared_statements_instances", "SQL_TEXT, STATEMENT_NAME", "OWNER_THREAD_ID = @thread"),
    ("events_statements_history_long", "EVENT_ID", "THREAD_ID = @thread AND END_EVENT_ID IS NOT NULL"),
];

/// Returns whether a column is the same in each run: no times, and no numbers of events and objects.
fn is_compared(table: &str, column: &str) -> bool {
    const VARYING: [&str; 11] = [
        "THREAD_ID",
        "EVENT_ID",
        "END_EVENT_ID",
        "NESTING_EVENT_ID",
        "STATEMENT_ID",
        "OWNER_THREAD_ID",
        "OWNER_EVENT_ID",
        "OBJECT_INSTANCE_BEGIN",
        "FIRST_SEEN",
        "LAST_SEEN",
        "SOURCE",
    ];
    let is_time =
        ["TIMER", "_TIME", "_WAIT", "QUANTILE", "QUERY_SAMPLE"].iter().any(|part| column.contains(part));
    let differs = DIFFERENCES.lines().filter(|line| !line.starts_with('#')).any(|line| {
        let mut words = line.split_ascii_whitespace();
        let is = words.next() == Some(table) && words.next() == Some(column);
        assert!(!is || words.next().is_some(), "not TABLE COLUMN REASON: {line}");
        is
    });
    !VARYING.contains(&column) && !is_time && !differs
}

/// Returns the rows of every table of [`COMPARED`], each value with its column.
fn seen(server: &Mysql) -> Vec<(String, Vec<String>)> {
    let (mut worker, mut reader) = (server.client().expect("a client"), server.client().expect("a client"));
    for sql in SCHEMA {
        worker.query_drop(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    work(&mut worker);
    // A statement goes on for a moment after its result has arrived.
    worker.ping().expect("a ping");
    reader.query_drop("TRUNCATE performance_schema.events_statements_summary_by_digest").expect("TRUNCATE");
    work(&mut worker);
    let thread = number(&mut worker, "SELECT ps_current_thread_id()");
    reader.query_drop(format!("SET @thread = {thread}")).expect("a statement");
    let mut seen = Vec::new();
    for (table, order, condition) in COMPARED {
        let columns = rows(
            &mut reader,
            &format!(
                "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'performance_schema' \
                 AND TABLE_NAME = '{table}' ORDER BY ORDINAL_POSITION"
            ),
        );
        let columns: Vec<String> = columns.into_iter().flatten().flatten().collect();
        let columns: Vec<&str> =
            columns.iter().map(String::as_str).filter(|column| is_compared(table, column)).collect();
        let sql = format!(
            "SELECT {} FROM performance_schema.{table} WHERE {condition} ORDER BY {order}",
            columns.join(", ")
        );
        let text = |row: Vec<Option<String>>| {
            let values = columns.iter().zip(row);
            let values = values.map(|(column, value)| match value {
                Some(value) => format!("{column}={value}"),
                None => format!("{column}=NULL"),
            });
            values.collect::<Vec<_>>().join(" ")
        };
        seen.push((table.to_owned(), rows(&mut reader, &sql).into_iter().map(text).collect()));
    }
    seen
}

#[test]
fn events_are_those_of_the_built_in() {
    let Some(reference) = Mysql::start(OPTIONS).expect("a server") else { return };
    let reference = seen(&reference);
    let Some(subject) = (match std::env::var("TARE_MYSQL_SUBJECT").as_deref() {
        Ok("built-in") => Mysql::start(OPTIONS).expect("a server"),
        _ => subject(OPTIONS),
    }) else {
        return;
    };
    let subject = seen(&subject);
    let mut different = Vec::new();
    for ((table, theirs), (_, ours)) in reference.iter().zip(&subject) {
        println!("{table}: {} rows, {} here", theirs.len(), ours.len());
        assert!(theirs.len() > 1 || table.contains("transactions"), "{table}");
        if theirs == ours {
            continue;
        }
        let [all_theirs, all_ours] = [theirs, ours].map(|rows| rows.iter().collect::<BTreeSet<_>>());
        different.push(format!("{table}: {} rows, {} here", theirs.len(), ours.len()));
        different.extend(all_theirs.difference(&all_ours).take(8).map(|row| format!("  built-in: {row}")));
        different.extend(all_ours.difference(&all_theirs).take(8).map(|row| format!("  tare:     {row}")));
    }
    assert!(different.is_empty(), "more than event_differences.txt allows:\n{}", different.join("\n"));
}

/// Some builds tell it by a call, others only in the session.
#[test]
fn the_number_of_a_statement_is_that_of_the_session() {
    let options = ["--performance-schema-consumer-events-statements-history-long=ON"];
    let Some(server) = Mysql::preloaded(&library(), "level=lean", &options).expect("a server") else {
        return;
    };
    let (mut worker, mut reader) = (server.client().expect("a client"), server.client().expect("a client"));
    worker.query_drop("CREATE DATABASE numbered").expect("a schema");
    worker.query_drop("CREATE PROCEDURE numbered.p() BEGIN DO 11; DO 12; END").expect("a procedure");
    for sql in ["DO 1", "DO 2", "CALL numbered.p()", "DO 3"] {
        worker.query_drop(sql).expect(sql);
    }
    let prepared = worker.prep("DO 4").expect("a statement");
    worker.exec_drop(&prepared, ()).expect("an execution");
    worker.query_drop("DO 5").expect("a statement");
    worker.ping().expect("a ping");
    let thread = number(&mut worker, "SELECT ps_current_thread_id()");
    let sql = format!(
        "SELECT SQL_TEXT, STATEMENT_ID FROM performance_schema.events_statements_history_long \
         WHERE THREAD_ID = {thread} AND (SQL_TEXT LIKE 'DO %' OR SQL_TEXT LIKE 'CALL%') \
         AND EVENT_NAME NOT LIKE '%Prepare' ORDER BY STATEMENT_ID"
    );
    let texts = rows(&mut reader, &sql);
    let numbers: BTreeSet<u64> =
        texts.iter().map(|row| row[1].as_deref().and_then(|id| id.parse().ok()).expect("a number")).collect();
    assert_eq!(numbers.len(), texts.len(), "{texts:?}");
    let texts: Vec<&str> = texts.iter().filter_map(|row| row[0].as_deref()).collect();
    // Before 9.0 the server tells no text of what a client executes.
    let is_new =
        rows(&mut reader, "SELECT VERSION()")[0][0].as_deref().is_some_and(|it| !it.starts_with('8'));
    let executed = if is_new { &["DO 4"][..] } else { &[] };
    let before = ["DO 1", "DO 2", "CALL numbered.p()", "DO 11", "DO 12", "DO 3"];
    assert_eq!(texts, [&before, executed, &["DO 5"]].concat());
}
