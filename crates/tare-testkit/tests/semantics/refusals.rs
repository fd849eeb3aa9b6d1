//! What makes no sense is refused, in the built-in's words.

use mysql::prelude::Queryable;
use tare_testkit::server::Server;
use tare_testkit::shared_turn;

use crate::{beside_the_built_in, error, server};

/// Statements that the built-in refuses or that change nothing.
const NONSENSE: &[&str] = &[
    "UPDATE performance_schema.setup_instruments SET NAME = 'x'",
    "UPDATE performance_schema.setup_instruments SET NAME = 'x' WHERE NAME = 'idle'",
    "UPDATE performance_schema.setup_instruments SET ENABLED = 'MAYBE' WHERE NAME = 'idle'",
    "UPDATE performance_schema.setup_instruments SET ENABLED = NULL WHERE NAME = 'idle'",
    "UPDATE performance_schema.setup_instruments SET ENABLED = 'NO' WHERE NAME = 'missing'",
    "UPDATE performance_schema.setup_instruments SET MISSING = 'NO'",
    "UPDATE performance_schema.setup_consumers SET NAME = 'x' WHERE NAME = 'statements_digest'",
    "UPDATE performance_schema.setup_consumers SET ENABLED = 'PERHAPS'",
    "UPDATE performance_schema.threads SET NAME = 'x'",
    "UPDATE performance_schema.threads SET TYPE = 'FOREGROUND' WHERE NAME = 'thread/sql/main'",
    "UPDATE performance_schema.threads SET PROCESSLIST_USER = 'x' WHERE NAME = 'thread/sql/main'",
    "UPDATE performance_schema.threads SET INSTRUMENTED = 'SOME' WHERE NAME = 'thread/sql/main'",
    "UPDATE performance_schema.performance_timers SET TIMER_NAME = 'CYCLE'",
    "UPDATE performance_schema.events_statements_history SET SQL_TEXT = 'x'",
    "UPDATE performance_schema.events_waits_summary_global_by_event_name SET COUNT_STAR = 0",
    "INSERT INTO performance_schema.setup_instruments VALUES ('x', 'YES', 'YES')",
    "INSERT INTO performance_schema.setup_consumers VALUES ('x', 'YES')",
    "INSERT INTO performance_schema.threads (THREAD_ID) VALUES (1)",
    "INSERT INTO performance_schema.events_statements_history SELECT * FROM performance_schema.events_statements_history",
    "DELETE FROM performance_schema.setup_instruments",
    "DELETE FROM performance_schema.setup_consumers WHERE NAME = 'statements_digest'",
    "DELETE FROM performance_schema.threads",
    "DELETE FROM performance_schema.events_statements_history",
    "DELETE FROM performance_schema.events_statements_summary_by_digest",
    "UPDATE performance_schema.setup_timers SET NAME = 'x'",
    "UPDATE performance_schema.setup_timers SET TIMER_NAME = 'SUNDIAL' WHERE NAME = 'wait'",
    "INSERT INTO performance_schema.setup_timers VALUES ('x', 'CYCLE')",
    "DELETE FROM performance_schema.setup_timers",
    "TRUNCATE TABLE performance_schema.setup_timers",
    "UPDATE performance_schema.metadata_locks SET LOCK_STATUS = 'x'",
    "INSERT INTO performance_schema.metadata_locks (LOCK_STATUS) VALUES ('x')",
    "TRUNCATE TABLE performance_schema.metadata_locks",
    "DELETE FROM performance_schema.table_handles",
    "TRUNCATE TABLE performance_schema.table_handles",
    "UPDATE performance_schema.prepared_statements_instances SET COUNT_EXECUTE = 0",
    "DELETE FROM performance_schema.events_statements_summary_by_program",
    "DELETE FROM performance_schema.events_waits_summary_by_instance",
    "TRUNCATE TABLE performance_schema.setup_instruments",
    "TRUNCATE TABLE performance_schema.setup_consumers",
    "TRUNCATE TABLE performance_schema.threads",
    "TRUNCATE TABLE performance_schema.performance_timers",
    "REPLACE INTO performance_schema.setup_consumers VALUES ('statements_digest', 'NO')",
    "SELECT * FROM performance_schema.threads FOR UPDATE",
    "ALTER TABLE performance_schema.threads ADD COLUMN x INT",
    "CREATE INDEX x ON performance_schema.threads (NAME)",
    "RENAME TABLE performance_schema.threads TO performance_schema.x",
    "RENAME TABLE performance_schema.threads TO test.x",
    "CREATE TABLE performance_schema.x (a INT)",
    "CREATE TABLE performance_schema.threads (a INT)",
    "CREATE TRIGGER performance_schema.x BEFORE UPDATE ON performance_schema.threads FOR EACH ROW SET @x = 1",
    "LOCK TABLES performance_schema.setup_instruments READ",
    "LOCK TABLES performance_schema.setup_instruments WRITE",
    "LOCK TABLES performance_schema.events_statements_history READ",
    "UNLOCK TABLES",
];

/// What would take a definition away or change it. The built-in of 10.11 refuses each.
const DEFINITIONS: &[&str] = &[
    "DROP TABLE performance_schema.threads",
    "DROP TABLE performance_schema.accounts, performance_schema.threads",
    "DROP TABLE performance_schema.global_status",
    "DROP TABLE performance_schema.tare_status",
    "DROP VIEW performance_schema.global_status",
    "DROP VIEW performance_schema.threads",
    "DROP SEQUENCE performance_schema.threads",
    "DROP SEQUENCE performance_schema.global_status",
    "DROP TEMPORARY TABLE performance_schema.threads",
    "CREATE OR REPLACE TABLE performance_schema.threads (a INT)",
    "CREATE OR REPLACE TABLE performance_schema.global_status (a INT)",
    "CREATE OR REPLACE SEQUENCE performance_schema.threads",
    "CREATE OR REPLACE VIEW performance_schema.global_status AS SELECT 1",
    "ALTER VIEW performance_schema.global_status AS SELECT 1",
    "ALTER TABLE performance_schema.threads ENGINE = InnoDB",
    "ALTER TABLE performance_schema.global_status RENAME TO test.x",
    "RENAME TABLE performance_schema.global_status TO test.x",
    "CREATE TRIGGER performance_schema.x BEFORE UPDATE ON performance_schema.global_status FOR EACH ROW SET @x = 1",
    "DROP INDEX THREAD_ID ON performance_schema.threads",
    "ANALYZE TABLE performance_schema.threads",
    "OPTIMIZE TABLE performance_schema.threads",
    "REPAIR TABLE performance_schema.threads",
    "REPAIR VIEW performance_schema.global_status",
];

/// What would make another table like one of them.
const COPIES: &[&str] = &[
    "CREATE TABLE own.x LIKE performance_schema.accounts",
    "CREATE TABLE own.x LIKE performance_schema.setup_actors",
];

/// What each statement ends with: an error, or nothing.
fn answers(server: &Server) -> Vec<Option<(u16, String)>> {
    let mut conn = server.client().unwrap();
    NONSENSE.iter().map(|sql| error(&mut conn, sql).map(|(code, text)| (code, without_row(&text)))).collect()
}

/// A message without the number of the row it was found at: how many rows were looked at before depends on
/// indexes.
fn without_row(text: &str) -> String {
    text.split(" at row ").next().unwrap_or_default().to_owned()
}

#[test]
fn nonsense_is_refused_as_the_built_in_refuses_it() {
    let _turn = shared_turn();
    let Some((expected, subject)) = beside_the_built_in(answers) else { return };
    let before = subject.schema().unwrap().rows("setup_instruments").unwrap();
    let got = answers(&subject);
    let mut wrong = String::new();
    for ((sql, expected), got) in NONSENSE.iter().zip(&expected).zip(&got) {
        if expected != got {
            wrong += &format!("{sql}\n    built-in: {expected:?}\n    subject:  {got:?}\n");
        }
    }
    assert_eq!(wrong, "");
    assert!(
        expected.iter().filter(|answer| answer.is_some()).count() > 25,
        "most of it is nonsense: {expected:?}"
    );
    let after = subject.schema().unwrap().rows("setup_instruments").unwrap();
    let states = |rows: &[tare_testkit::schema::SchemaRow]| -> Vec<String> {
        rows.iter()
            .map(|row| row.cells().map(|(_, value)| value.unwrap_or("-").to_owned() + " ").collect())
            .collect()
    };
    assert_eq!(states(&before), states(&after), "nothing has changed");
}

/// The number and text of an error, if there is one.
type RefusedStatement = Option<(u16, String)>;

/// What these end with, one after the other and once more; and whether the tables are still there, read or
/// not before.
fn definitions(server: &Server) -> (Vec<RefusedStatement>, Vec<RefusedStatement>, Vec<u64>) {
    let mut conn = server.client().unwrap();
    conn.query_drop("CREATE DATABASE own").unwrap();
    let texts = DEFINITIONS.iter().chain(DEFINITIONS).map(|sql| error(&mut conn, sql)).collect();
    let copies = COPIES.iter().map(|sql| error(&mut conn, sql)).collect();
    // Whoever makes a table of theirs reads them as ever, also next to a refusal.
    let statements = [
        "CREATE TABLE own.y AS SELECT COUNT(*) FROM performance_schema.threads HAVING COUNT(*) > 1",
        "INSERT INTO own.y SELECT COUNT(*) FROM performance_schema.global_status HAVING COUNT(*) > 300",
    ];
    for sql in statements {
        let _refused = error(&mut conn, DEFINITIONS[9]);
        conn.query_drop(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
    let made = conn.query("SELECT COUNT(*) FROM own.y").unwrap();
    (texts, copies, made)
}

#[test]
fn definitions_stay_as_with_the_built_in() {
    let _turn = shared_turn();
    let Some((expected, subject)) = beside_the_built_in(definitions) else { return };
    let tables = |server: &Server| -> Vec<String> {
        server.client().unwrap().query("SHOW TABLES FROM performance_schema").unwrap()
    };
    let before = tables(&subject);
    let got = definitions(&subject);
    let wrong: Vec<_> = DEFINITIONS
        .iter()
        .chain(DEFINITIONS)
        .zip(expected.0.iter().zip(&got.0))
        .filter(|(_, (expected, got))| expected != got)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    if subject.host().version.starts_with("11.8") {
        return println!("skipped: what follows, for this server's built-in lets its tables be replaced");
    }
    assert!(expected.0.iter().all(Option::is_some), "{expected:?}");
    assert_eq!((expected.1, expected.2), (got.1, got.2));
    assert_eq!(tables(&subject), before);
}

#[test]
fn whoever_uses_setup_timers_is_warned_once_a_statement() {
    let _turn = shared_turn();
    let Some(server) = server().on_its_port() else { return };
    let mut conn = server.client().unwrap();
    let mut warnings = |sql: &str| -> Vec<u32> {
        conn.query_drop(sql).unwrap();
        let rows: Vec<(String, u32, String)> = conn.query("SHOW WARNINGS").unwrap();
        rows.into_iter().map(|(_, number, _)| number).collect()
    };
    for sql in [
        "SELECT * FROM performance_schema.setup_timers",
        "SELECT COUNT(*) FROM performance_schema.setup_timers WHERE NAME = 'wait'",
        "UPDATE performance_schema.setup_timers SET TIMER_NAME = 'CYCLE' WHERE NAME = 'wait'",
    ] {
        assert_eq!(warnings(sql), [1681], "{sql}");
        assert_eq!(warnings(sql), [1681], "{sql}, again");
    }
    for sql in [
        "SELECT * FROM performance_schema.setup_consumers",
        "SELECT TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_NAME = 'setup_timers'",
        "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_NAME = 'setup_timers'",
    ] {
        assert_eq!(warnings(sql), [0; 0], "{sql}");
    }
}

/// What ends otherwise than with the built-in, and why: the error there and here; 0 is none.
const KNOWN: &[(&str, u16, u16, &str)] = &[
    ("SET sql_safe_updates = 1", 0, 0, ""),
    ("CREATE TABLE own.v LIKE performance_schema.global_status", 1005, 1347, "it is a view"),
    ("CREATE TABLE own.v LIKE performance_schema.session_status", 1005, 1347, "it is a view"),
    (
        "UPDATE performance_schema.threads t, own.k SET t.INSTRUMENTED = 'YES' WHERE t.THREAD_ID = 1 AND k.id = 1",
        1175,
        0,
        "THREAD_ID is a key here, so it is safe",
    ),
];

#[test]
fn what_ends_otherwise_than_with_the_built_in_is_known() {
    let _turn = shared_turn();
    let codes = |server: &Server| -> Vec<u16> {
        let mut conn = server.client().unwrap();
        for sql in
            ["CREATE DATABASE own", "CREATE TABLE own.k (id INT PRIMARY KEY)", "INSERT INTO own.k VALUES (1)"]
        {
            conn.query_drop(sql).unwrap();
        }
        KNOWN.iter().map(|known| error(&mut conn, known.0).map_or(0, |(code, _)| code)).collect()
    };
    let Some((expected, subject)) = beside_the_built_in(codes) else { return };
    if !subject.host().version.starts_with("10.11") {
        return println!("skipped: the numbers are those of 10.11");
    }
    assert_eq!(expected, KNOWN.iter().map(|known| known.1).collect::<Vec<_>>());
    assert_eq!(codes(&subject), KNOWN.iter().map(|known| known.2).collect::<Vec<_>>());
}
