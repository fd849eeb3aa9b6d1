//! Errors that the server reports from several levels of its code for one statement: they count once, as the
//! client is told once.

use std::collections::BTreeMap;

use mysql::prelude::Queryable;
use mysql::{Conn, Error, Row};
use tare_testkit::schema::SchemaConnection;
use tare_testkit::shared_turn;

use crate::errors::counting;
use crate::until;

/// Rows to wait for, enough that who changed them is no victim of a deadlock; programs, a trigger and a view
/// that change them.
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

/// What a thread counted of errors: how often each was raised and not handled, and handled. Notes of
/// MariaDB's are left out: where in a program an error happened.
fn counted(schema: &mut SchemaConnection, thread: &str) -> BTreeMap<u64, (u64, u64)> {
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
fn connect(server: &tare_testkit::server::Server, schema: &mut SchemaConnection) -> (Conn, String) {
    let mut conn = server.client().unwrap();
    conn.query_drop("USE r").unwrap();
    let thread = schema.thread_of(u64::from(conn.connection_id())).unwrap().unwrap();
    (conn, thread.to_string())
}

/// Runs a statement on an emptied account of errors: what the client was told must be what was counted.
fn assert_counts_what_the_client_sees(
    schema: &mut SchemaConnection,
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

/// Tables and programs of statements that raise several errors; the schema's name is that of [`SCENE`].
const STRICT: &[&str] = &[
    "CREATE DATABASE r",
    "USE r",
    "CREATE TABLE t (a INT NOT NULL PRIMARY KEY, b INT NOT NULL, c VARCHAR(3)) ENGINE=InnoDB",
    "INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'y')",
    "CREATE TABLE n (a INT, b INT, c VARCHAR(3)) ENGINE=InnoDB SELECT 1 AS a, 1 AS b, 'long' AS c",
    "CREATE PROCEDURE goes_on() BEGIN DECLARE i INT DEFAULT 0; DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; \
     WHILE i < 3 DO INSERT INTO t SELECT 90 / 0, 1, 'x'; SET i = i + 1; END WHILE; END",
    "CREATE PROCEDURE second_only() BEGIN DECLARE CONTINUE HANDLER FOR 1048 BEGIN END; INSERT INTO t SELECT 90 / 0, 1, 'x'; END",
    "CREATE PROCEDURE again() BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION RESIGNAL; INSERT INTO t SELECT 90 / 0, 1, 'x'; END",
    "CREATE PROCEDURE another() BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION RESIGNAL SET MYSQL_ERRNO = 1644; \
     INSERT INTO t SELECT 90 / 0, 1, 'x'; END",
    "CREATE PROCEDURE asks() BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN GET DIAGNOSTICS @n = NUMBER; \
     GET DIAGNOSTICS CONDITION 1 @e = MYSQL_ERRNO; GET DIAGNOSTICS CONDITION 9 @e = MYSQL_ERRNO; END; \
     INSERT INTO t SELECT 90 / 0, 1, 'x'; END",
    "CREATE PROCEDURE inside() BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION \
     BEGIN END; INSERT INTO t SELECT 90 / 0, 1, 'x'; INSERT INTO t VALUES (1, 1, 'x'); END; \
     INSERT INTO t SELECT 90 / 0, 1, 'x'; END",
    "CREATE PROCEDURE signals() BEGIN DECLARE i INT DEFAULT 0; DECLARE CONTINUE HANDLER FOR SQLSTATE '45000' BEGIN END; \
     WHILE i < 4 DO SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1644; SET i = i + 1; END WHILE; \
     SIGNAL SQLSTATE '45001' SET MYSQL_ERRNO = 1645; END",
    "CREATE FUNCTION f(a INT) RETURNS INT DETERMINISTIC BEGIN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1644; RETURN 1; END",
];

/// Statements, and how often they raise which errors: as often as SHOW WARNINGS says, and as MySQL counts
/// them, unless it ends the statement at the first.
const SEVERAL: &[(&str, &[(u64, u64)])] = &[
    ("INSERT INTO t SELECT 90 / 0, 1, 'x'", &[(1048, 1), (1365, 1)]),
    ("INSERT INTO t VALUES (90 / 0, 1, 'x')", &[(1048, 1), (1365, 1)]),
    ("INSERT INTO t VALUES (1, 1, 'x') ON DUPLICATE KEY UPDATE b = 90 / 0", &[(1048, 1), (1365, 1)]),
    ("REPLACE INTO t SELECT 1, 90 / 0, 'x'", &[(1048, 1), (1365, 1)]),
    ("CREATE TABLE w (a INT NOT NULL) SELECT 90 / 0 AS a", &[(1048, 1), (1365, 1)]),
    ("UPDATE t SET b = 90 / 0 WHERE a < 3", &[(1048, 1), (1365, 1)]),
    ("UPDATE t SET b = 90 / 0, c = 'long'", &[(1048, 1), (1365, 1), (1406, 1)]),
    ("UPDATE t JOIN n USING (a) SET t.b = 90 / 0, n.b = 80 / 0", &[(1048, 1), (1365, 2)]),
    ("UPDATE t SET b = (SELECT a FROM t AS o)", &[(1048, 1), (1242, 1)]),
    ("UPDATE t SET b = f(a)", &[(1048, 1), (1644, 1)]),
    ("UPDATE n SET a = 99999999999, b = 'y'", &[(1264, 1), (1366, 1)]),
    ("UPDATE n SET a = 90 / 0, b = 18446744073709551615 + b", &[(1365, 1), (1690, 1)]),
    ("UPDATE n SET a = 'x', b = 'y'", &[(1366, 2)]),
    ("ALTER TABLE n MODIFY c VARCHAR(1)", &[(1265, 1)]),
    ("INSERT IGNORE INTO t VALUES (1, 1, 'x'), (2, 1, 'x'), (1, 1, 'x')", &[(1062, 3)]),
    ("INSERT IGNORE INTO t SELECT 1, 90 / 0, 'long' FROM n", &[(1048, 1), (1062, 1), (1265, 1), (1365, 1)]),
    ("UPDATE IGNORE t SET b = 90 / 0", &[(1048, 2), (1365, 2)]),
];

/// An error's number, and how often it was raised and not handled, and handled.
type Counted = (u64, (u64, u64));

/// Calls of programs, and how often each error was raised and not handled, and handled.
const IN_PROGRAMS: &[(&str, &[Counted])] = &[
    ("CALL goes_on()", &[(1048, (3, 0)), (1365, (0, 3))]),
    ("CALL second_only()", &[(1048, (1, 0)), (1365, (1, 0))]),
    ("CALL again()", &[(1048, (1, 0)), (1365, (1, 1))]),
    ("CALL another()", &[(1048, (1, 0)), (1365, (0, 1)), (1644, (1, 0))]),
    ("CALL asks()", &[(1048, (1, 0)), (1365, (0, 1)), (1758, (1, 0))]),
    ("CALL inside()", &[(1048, (2, 0)), (1062, (0, 1)), (1365, (0, 2))]),
    ("CALL signals()", &[(1644, (0, 4)), (1645, (1, 0))]),
];

/// What SHOW WARNINGS lists, by number; without what says only that something failed, and notes about
/// programs.
fn listed(conn: &mut Conn) -> BTreeMap<u64, u64> {
    let mut listed = BTreeMap::new();
    for (_, number, _) in conn.query::<(String, u64, String), _>("SHOW WARNINGS").unwrap() {
        *listed.entry(number).or_default() += 1;
    }
    listed.retain(|number, _| ![1028, 1105, 4094].contains(number));
    listed
}

#[test]
fn errors_of_one_statement_that_differ_count_each() {
    let _turn = shared_turn();
    let Some(server) = counting() else { return };
    let mut schema = server.schema().unwrap();
    let mut maker = server.client().unwrap();
    maker.query_drop("SET sql_mode = ''").unwrap();
    let strict = "SET sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO'";
    let (tables, programs) = STRICT.split_at(5);
    tables.iter().for_each(|sql| maker.query_drop(sql).unwrap_or_else(|e| panic!("{sql}: {e}")));
    maker.query_drop(strict).unwrap();
    programs.iter().for_each(|sql| maker.query_drop(sql).unwrap_or_else(|e| panic!("{sql}: {e}")));
    let (mut conn, thread) = connect(&server, &mut schema);
    conn.query_drop(strict).unwrap();
    for (sql, expected) in SEVERAL {
        schema.truncate("events_errors_summary_global_by_error").unwrap();
        let told = told(&mut conn, sql);
        let raised: BTreeMap<u64, u64> =
            counted(&mut schema, &thread).into_iter().map(|(number, sums)| (number, sums.0)).collect();
        assert_eq!(raised, expected.iter().copied().collect(), "{sql}: {told:?}");
        assert_eq!(raised, listed(&mut conn), "{sql}");
    }
    for (sql, expected) in IN_PROGRAMS {
        schema.truncate("events_errors_summary_global_by_error").unwrap();
        told(&mut conn, sql);
        assert_eq!(counted(&mut schema, &thread), expected.iter().copied().collect(), "{sql}");
    }
}
