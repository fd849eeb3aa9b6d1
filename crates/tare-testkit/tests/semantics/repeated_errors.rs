//! Errors that the server reports from several levels of its code for one statement: they count once, as the client is told once.

use std::collections::BTreeMap;

use mysql::prelude::Queryable;
use mysql::{Conn, Error, Row};
use tare_testkit::schema::Schema;
use tare_testkit::shared_turn;

use crate::errors::counting;
use crate::until;

/// Rows to wait for, enough that who changed them is no victim of a deadlock; programs, a trigger and a view that change them.
const SCENE: &[&str] = &[
    "CREATE DATABASE r",
    "USE r",
    "CREATE TABLE t (a INT PRIMARY KEY, b BIGINT UNSIGNED, KEY (b)) ENGINE=InnoDB SELECT seq AS a, seq AS b FROM seq_1_to_100",
    "CREATE TABLE u (a INT PRIMARY KEY, b BIGINT UNSIGNED) ENGINE=InnoDB SELECT 1 AS a, 1 AS b",
    "CREATE TABLE p (a INT PRIMARY KEY, b INT) ENGINE=InnoDB PARTITION BY HASH (a) PARTITIONS 4 SELECT seq AS a, 1 AS b FROM seq_1_to_8",
    "CREATE TABLE w (a INT PRIMARY KEY) ENGINE=InnoDB SELECT 1 AS a",
    "CREATE VIEW v AS SELECT * FROM t",
    "CREATE TRIGGER g BEFORE UPDATE ON w FOR EACH ROW UPDATE t SET b = b + 1 WHERE a = 1",
    "CREATE PROCEDURE plain() UPDATE t SET b = b + 1 WHERE a = 1",
    "CREATE PROCEDURE handled() BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; \
     UPDATE t SET b = b + 1 WHERE a = 1; END",
    "CREATE PROCEDURE again() BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN RESIGNAL; END; \
     DELETE FROM t WHERE a = 1; END",
    "CREATE PROCEDURE inner_block() BEGIN BEGIN DECLARE EXIT HANDLER FOR 1205, 1213 BEGIN END; \
     UPDATE t JOIN u USING (a) SET t.b = 1; END; DO 1; END",
    "CREATE FUNCTION f() RETURNS INT MODIFIES SQL DATA BEGIN UPDATE t SET b = b + 1 WHERE a = 1; RETURN 1; END",
    "CREATE FUNCTION h() RETURNS INT MODIFIES SQL DATA BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; \
     UPDATE t SET b = b + 1 WHERE a = 1; RETURN 1; END",
];

/// Statements that wait for the row of another session, or for what it holds of a table.
const WAITING: &[&str] = &[
    "UPDATE t SET b = b + 1 WHERE a = 1",
    "UPDATE t SET b = b + 1",
    "UPDATE t SET b = b + 1 WHERE a IN (1, 3) ORDER BY a LIMIT 2",
    "UPDATE t SET a = 1000 WHERE b BETWEEN 1 AND 3",
    "UPDATE IGNORE t SET b = 2 WHERE a = 1",
    "UPDATE v SET b = b + 1 WHERE a = 1",
    "UPDATE t JOIN u USING (a) SET t.b = 1",
    "UPDATE t, u SET t.b = u.b, u.b = t.b WHERE t.a = u.a AND t.b < 5",
    "UPDATE w SET a = 2",
    "UPDATE p SET b = 2",
    "DELETE FROM t WHERE a = 1",
    "DELETE FROM t WHERE a < 3",
    "DELETE FROM t",
    "DELETE t FROM t JOIN u USING (a)",
    "DELETE t, u FROM t JOIN u USING (a) WHERE t.b < 3",
    "INSERT INTO t VALUES (1, 1)",
    "INSERT INTO t VALUES (1, 1) ON DUPLICATE KEY UPDATE b = 2",
    "INSERT IGNORE INTO t VALUES (1, 1)",
    "INSERT INTO u SELECT a + 10, b FROM t LOCK IN SHARE MODE",
    "REPLACE INTO t VALUES (1, 1)",
    "SELECT * FROM t WHERE a = 1 FOR UPDATE",
    "SELECT * FROM t WHERE b < 3 ORDER BY a FOR UPDATE",
    "SELECT * FROM t FOR UPDATE",
    "SELECT * FROM t JOIN u USING (a) LOCK IN SHARE MODE",
    "SELECT (SELECT b FROM t WHERE a = 1 FOR UPDATE)",
    "CALL plain()",
    "CALL handled()",
    "CALL again()",
    "CALL inner_block()",
    "SELECT f()",
    "SELECT h()",
    "SET @x = f()",
    "BEGIN NOT ATOMIC UPDATE t SET b = b + 1 WHERE a = 1; END",
    "EXECUTE IMMEDIATE 'UPDATE t SET b = b + 1 WHERE a = 1'",
];

/// Statements that fail by themselves, while rows are read or changed.
const FAILING: &[&str] = &[
    "UPDATE t SET a = 2 WHERE a = 1",
    "UPDATE t SET b = b - 1000 WHERE a < 5",
    "UPDATE t JOIN u USING (a) SET t.a = 5",
    "UPDATE t SET b = (SELECT b FROM p) WHERE a < 5",
    "DELETE FROM t WHERE a = (SELECT a FROM p)",
    "INSERT INTO t SELECT a, b FROM p",
    "INSERT INTO u VALUES (7, -1), (8, -1)",
    "SELECT * FROM t WHERE a = (SELECT a FROM p) FOR UPDATE",
    "SELECT b - 1000 FROM t",
    "SELECT EXP(a * 1000) FROM t ORDER BY 1",
    "SET STATEMENT max_statement_time = 0.01 FOR SELECT COUNT(*) FROM t a, t b, t c, t d, t e",
    "ALTER TABLE t ADD UNIQUE (b), ADD UNIQUE ((a))",
    "ALTER TABLE p ADD COLUMN c INT, ADD UNIQUE (b)",
    "CREATE TABLE t (a INT)",
];

/// What a thread counted of errors: how often each was raised and not handled, and handled. Notes of MariaDB's are left out: where in a
/// program an error happened.
fn counted(schema: &mut Schema, thread: &str) -> BTreeMap<u64, (u64, u64)> {
    let rows =
        schema.rows_where("events_errors_summary_by_thread_by_error", &[("THREAD_ID", thread)]).unwrap();
    let sums = rows.iter().map(|row| {
        let number = |column: &str| row.number(column).unwrap();
        let sums = (number("SUM_ERROR_RAISED"), number("SUM_ERROR_HANDLED"));
        (row.number("ERROR_NUMBER").unwrap_or_default(), sums)
    });
    sums.filter(|(number, sums)| *sums != (0, 0) && *number != 4094).collect()
}

/// The error a statement ends with, which may come instead of a row.
fn told(conn: &mut Conn, sql: &str) -> Option<u16> {
    match conn.query::<Row, _>(sql) {
        Ok(_) => None,
        Err(Error::MySqlError(error)) => Some(error.code),
        Err(error) => panic!("{sql}: {error}"),
    }
}

/// A connection to the scene, and its THREAD_ID.
fn connect(server: &tare_testkit::server::Server, schema: &mut Schema) -> (Conn, String) {
    let mut conn = server.client().unwrap();
    conn.query_drop("USE r").unwrap();
    let thread = schema.thread_of(u64::from(conn.connection_id())).unwrap().unwrap();
    (conn, thread.to_string())
}

/// Runs a statement on an emptied account of errors: what the client was told must be what was counted.
fn assert_counts_what_the_client_sees(
    schema: &mut Schema,
    conn: &mut Conn,
    thread: &str,
    sql: &str,
) -> Option<u16> {
    schema.truncate("events_errors_summary_global_by_error").unwrap();
    let told = told(conn, sql);
    let raised: Vec<(u64, u64)> = counted(schema, thread)
        .into_iter()
        .map(|(number, sums)| (number, sums.0))
        .filter(|it| it.1 != 0)
        .collect();
    assert_eq!(raised, Vec::from_iter(told.map(|number| (number.into(), 1))), "{sql}");
    told
}

#[test]
fn a_lock_wait_that_times_out_counts_once() {
    let _turn = shared_turn();
    let Some(server) = counting() else { return };
    let mut schema = server.schema().unwrap();
    let mut holder = server.client().unwrap();
    SCENE.iter().for_each(|sql| holder.query_drop(sql).unwrap_or_else(|e| panic!("{sql}: {e}")));
    let held = ["BEGIN", "UPDATE t SET b = b + 1 WHERE a = 1", "UPDATE p SET b = b + 1 WHERE a = 1"];
    held.iter().for_each(|sql| holder.query_drop(sql).unwrap());
    let (mut conn, thread) = connect(&server, &mut schema);
    // Nobody waits, the error is the same.
    conn.query_drop("SET innodb_lock_wait_timeout = 0, sql_mode = 'STRICT_ALL_TABLES'").unwrap();
    // The handler of a function is not asked: the statement that called it cannot go on.
    let handled = ["CALL handled()", "CALL inner_block()"];
    for sql in WAITING {
        let told = assert_counts_what_the_client_sees(&mut schema, &mut conn, &thread, sql);
        let of_it = counted(&mut schema, &thread);
        let expected = if handled.contains(sql) {
            (None, (0, 1))
        } else {
            (Some(1205), (1, u64::from(*sql == "CALL again()")))
        };
        assert_eq!((told, of_it.get(&1205)), (expected.0, Some(&expected.1)), "{sql}: {of_it:?}");
        assert_eq!(of_it.len(), 1, "{sql}: {of_it:?}");
        conn.query_drop("ROLLBACK").unwrap();
    }
    // The locks of tables.
    conn.query_drop("SET lock_wait_timeout = 0").unwrap();
    for sql in ["ALTER TABLE t ADD c INT", "TRUNCATE t", "DROP TABLE t", "LOCK TABLES t WRITE"] {
        assert_counts_what_the_client_sees(&mut schema, &mut conn, &thread, sql);
    }
    holder.query_drop("ROLLBACK").unwrap();
    for sql in FAILING {
        let told = assert_counts_what_the_client_sees(&mut schema, &mut conn, &thread, sql);
        assert!(told.is_some(), "{sql}");
    }
    // The same error in one statement after the other counts each time; a warning as often as it is raised.
    schema.truncate("events_errors_summary_global_by_error").unwrap();
    for _ in 0..3 {
        assert_eq!(told(&mut conn, "UPDATE t SET a = 2 WHERE a = 1"), Some(1062));
    }
    conn.query_drop("SET sql_mode = ''").unwrap();
    conn.query_drop("INSERT INTO u VALUES (7, -1), (8, -1)").unwrap();
    assert_eq!(counted(&mut schema, &thread), [(1062, (3, 0)), (1264, (2, 0))].into());
}

#[test]
fn a_deadlock_counts_once() {
    let _turn = shared_turn();
    let Some(server) = counting() else { return };
    let mut schema = server.schema().unwrap();
    let (mut heavy, mut conn) = (server.client().unwrap(), server.client().unwrap());
    SCENE.iter().for_each(|sql| heavy.query_drop(sql).unwrap_or_else(|e| panic!("{sql}: {e}")));
    conn.query_drop("USE r").unwrap();
    let thread = schema.thread_of(u64::from(conn.connection_id())).unwrap().unwrap().to_string();
    for sql in [
        "UPDATE t SET b = 1 WHERE a = 1",
        "DELETE FROM t WHERE a = 1",
        "SELECT * FROM t WHERE a = 1 FOR UPDATE",
        "UPDATE t JOIN u USING (a) SET t.b = 1",
        "CALL plain()",
        "CALL handled()",
        "CALL again()",
    ] {
        // Who changed more is not the victim.
        heavy.query_drop("BEGIN").unwrap();
        heavy.query_drop("UPDATE t SET b = b + 1 WHERE a < 50").unwrap();
        conn.query_drop("BEGIN").unwrap();
        conn.query_drop("UPDATE t SET b = b + 1 WHERE a = 90").unwrap();
        schema.truncate("events_errors_summary_global_by_error").unwrap();
        let told = std::thread::scope(|scope| {
            let waits = scope.spawn(|| heavy.query_drop("UPDATE t SET b = b + 1 WHERE a = 90").unwrap());
            let told = told(&mut conn, sql);
            waits.join().unwrap();
            told
        });
        let of_it = until(|| counted(&mut schema, &thread), |it| !it.is_empty());
        let handled = u64::from(["CALL handled()", "CALL again()"].contains(&sql));
        let raised = u64::from(sql != "CALL handled()");
        assert_eq!(
            (told, of_it),
            ((raised == 1).then_some(1213), [(1213, (raised, handled))].into()),
            "{sql}"
        );
        heavy.query_drop("ROLLBACK").unwrap();
        conn.query_drop("ROLLBACK").unwrap();
    }
}
