//! Errors, which the built-in counts itself: with tare it counts the same.

use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use tare_testkit::eventually;
use tare_testkit::mysql_server::Mysql;

use crate::{number, rows, subject};

const SCHEMA: [&str; 6] = [
    "CREATE DATABASE work",
    "CREATE TABLE work.t (id INT PRIMARY KEY, c TINYINT)",
    "INSERT INTO work.t VALUES (1, 1)",
    "CREATE PROCEDURE work.handle () BEGIN DECLARE CONTINUE HANDLER FOR 1146 DO 1; \
     DECLARE CONTINUE HANDLER FOR SQLEXCEPTION DO 2; SELECT * FROM work.missing; INSERT INTO work.t VALUES (1, 1); \
     SIGNAL SQLSTATE '45000'; END",
    "CREATE USER ann",
    "GRANT ALL ON work.* TO ann",
];

/// Statements that raise errors or warnings, or handle errors.
const WORK: [&str; 10] = [
    "SELECT * FROM work.missing",
    "SELECT 'not even SQL",
    "INSERT INTO work.t VALUES (1, 1)",
    "INSERT INTO work.t VALUES (2, 1000)",
    "INSERT IGNORE INTO work.t VALUES (1, 1000)",
    "SELECT CAST('1x' AS SIGNED), 1 / 0",
    "CALL work.handle()",
    "SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31001",
    "KILL QUERY 4294967295",
    "DO 1",
];

const LIMIT: Duration = Duration::from_secs(60);

fn connect(server: &Mysql) -> Conn {
    let options = OptsBuilder::new().socket(server.socket().to_str()).user(Some("ann"));
    Conn::new(options).expect("a client")
}

fn work(conn: &mut Conn) {
    for sql in WORK {
        // Some fail, in each server alike.
        let _fails_alike = conn.query::<mysql::Row, _>(sql);
    }
}

/// The tables, and conditions for the rows of the session that works.
const TABLES: [(&str, &str); 5] = [
    (
        "by_thread_by_error",
        "THREAD_ID IN (SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_USER = 'ann')",
    ),
    ("by_account_by_error", "USER = 'ann'"),
    ("by_user_by_error", "USER = 'ann'"),
    ("by_host_by_error", "HOST = 'localhost'"),
    ("global_by_error", "TRUE"),
];

/// Adds the rows that have counts to `seen`, after a line that says when that was.
fn look(reader: &mut Conn, when: &str, seen: &mut Vec<String>) {
    seen.push(when.to_owned());
    for (table, condition) in TABLES {
        let sql = format!(
            "SELECT ERROR_NUMBER, ERROR_NAME, SQL_STATE, SUM_ERROR_RAISED, SUM_ERROR_HANDLED, FIRST_SEEN <= LAST_SEEN \
             FROM performance_schema.events_errors_summary_{table} \
             WHERE SUM_ERROR_RAISED + SUM_ERROR_HANDLED > 0 AND {condition} ORDER BY ERROR_NUMBER"
        );
        for row in rows(reader, &sql) {
            let row: Vec<String> = row.into_iter().map(|value| value.unwrap_or("NULL".to_owned())).collect();
            seen.push(format!("{table} {}", row.join(" ")));
        }
    }
}

/// Works and ends sessions, and empties one table after the other. Returns what the tables show meanwhile.
fn seen(server: &Mysql) -> Vec<String> {
    let mut reader = server.client().expect("a client");
    for sql in SCHEMA {
        reader.query_drop(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let truncate = |reader: &mut Conn, table: &str| {
        reader.query_drop(format!("TRUNCATE performance_schema.events_errors_summary_{table}")).expect(table);
    };
    // What the start of the server has left.
    TABLES.iter().for_each(|(table, _)| truncate(&mut reader, table));
    let (mut seen, mut worker) = (Vec::new(), connect(server));
    work(&mut worker);
    look(&mut reader, "after work", &mut seen);
    for (table, _) in TABLES {
        truncate(&mut reader, table);
        look(&mut reader, &format!("after TRUNCATE {table}"), &mut seen);
        work(&mut worker);
        look(&mut reader, "after more work", &mut seen);
    }
    drop(worker);
    let sessions = "SELECT COUNT(*) FROM performance_schema.threads WHERE PROCESSLIST_USER = 'ann'";
    eventually("the session has ended", LIMIT, || number(&mut reader, sessions) == 0);
    look(&mut reader, "after the session has ended", &mut seen);
    for (table, _) in TABLES {
        truncate(&mut reader, table);
        look(&mut reader, &format!("after TRUNCATE {table}"), &mut seen);
    }
    seen
}

#[test]
fn errors_are_those_of_the_built_in() {
    let Some(reference) = Mysql::start(&[]).expect("a server") else { return };
    let reference = seen(&reference);
    let counted = |table: &str| reference.iter().filter(|row| row.starts_with(table)).count();
    assert!(TABLES.iter().all(|(table, _)| counted(table) > 6), "each table had rows");
    let Some(subject) = subject(&[]) else { return };
    let subject = seen(&subject);
    let different: Vec<_> = reference.iter().zip(&subject).filter(|(theirs, ours)| theirs != ours).collect();
    assert!(reference == subject, "the built-in's and here: {different:#?}");
}
