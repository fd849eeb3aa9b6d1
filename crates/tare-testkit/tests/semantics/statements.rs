//! Statements of every kind end as with the built-in: rows, error and warnings.

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::server::Server;
use tare_testkit::shared_turn;

use crate::beside_the_built_in;

/// One after the other, in one session.
const STATEMENTS: &[&str] = &[
    "CREATE TEMPORARY TABLE own.tt LIKE performance_schema.setup_actors",
    "CREATE TEMPORARY TABLE own.tt LIKE performance_schema.threads",
    "CREATE TEMPORARY TABLE own.tt LIKE performance_schema.session_status",
    "CREATE TABLE own.tt LIKE performance_schema.session_status",
    "CREATE TABLE own.tt LIKE performance_schema.setup_actors",
    "CREATE TABLE IF NOT EXISTS own.tt LIKE performance_schema.setup_actors",
    "CREATE OR REPLACE TABLE own.tt LIKE performance_schema.setup_actors",
    "CREATE OR REPLACE TEMPORARY TABLE own.tt LIKE performance_schema.setup_actors",
    "CREATE TEMPORARY TABLE IF NOT EXISTS own.tt LIKE performance_schema.setup_actors",
    "CREATE TEMPORARY TABLE performance_schema.tt LIKE performance_schema.setup_actors",
    "CREATE TEMPORARY TABLE performance_schema.tt (a int)",
    "CREATE TEMPORARY TABLE performance_schema.setup_actors (a int)",
    "CREATE TABLE performance_schema.tt LIKE performance_schema.setup_actors",
    "CREATE TABLE performance_schema.tt LIKE own.t",
    "CREATE TABLE own.e (a int) ENGINE=PERFORMANCE_SCHEMA",
    "CREATE TEMPORARY TABLE own.e (a int) ENGINE=PERFORMANCE_SCHEMA",
    "HANDLER performance_schema.setup_actors OPEN",
    "HANDLER performance_schema.threads OPEN AS x",
    "HANDLER performance_schema.session_status OPEN",
    "HANDLER performance_schema.session_account_connect_attrs OPEN",
    "HANDLER setup_actors READ FIRST",
    "HANDLER setup_actors CLOSE",
    "ALTER TABLE performance_schema.setup_actors ADD COLUMN x INT",
    "ALTER TABLE performance_schema.setup_actors ENGINE=InnoDB",
    "ALTER TABLE performance_schema.setup_actors RENAME TO own.x",
    "ALTER TABLE performance_schema.setup_actors DISABLE KEYS",
    "ALTER TABLE performance_schema.setup_actors FORCE",
    "ALTER TABLE performance_schema.setup_actors ORDER BY USER",
    "ALTER TABLE performance_schema.setup_actors CONVERT TO CHARACTER SET latin1",
    "ALTER TABLE performance_schema.setup_actors DROP PARTITION p",
    "ALTER TABLE performance_schema.setup_actors REMOVE PARTITIONING",
    "ALTER TABLE performance_schema.setup_actors PARTITION BY HASH(a)",
    "ALTER TABLE performance_schema.setup_actors TRUNCATE PARTITION p",
    "ALTER TABLE performance_schema.setup_actors DISCARD TABLESPACE",
    "ALTER TABLE performance_schema.setup_actors EXCHANGE PARTITION p WITH TABLE own.t",
    "ALTER TABLE own.t EXCHANGE PARTITION p WITH TABLE performance_schema.setup_actors",
    "ALTER TABLE performance_schema.setup_actors COMMENT='x'",
    "ALTER TABLE performance_schema.setup_actors ADD PRIMARY KEY (USER)",
    "CREATE INDEX x ON performance_schema.setup_actors (USER)",
    "DROP INDEX x ON performance_schema.setup_actors",
    "CREATE TRIGGER own.x BEFORE UPDATE ON performance_schema.setup_actors FOR EACH ROW SET @x = 1",
    "CREATE TRIGGER performance_schema.x BEFORE UPDATE ON performance_schema.setup_actors FOR EACH ROW SET @x = 1",
    "DROP TRIGGER performance_schema.x",
    "RENAME TABLE performance_schema.setup_actors TO own.x",
    "DROP TABLE performance_schema.setup_actors",
    "DROP TABLE IF EXISTS performance_schema.setup_actors",
    "DROP TABLE IF EXISTS performance_schema.nosuch",
    "DROP TABLE performance_schema.nosuch",
    "TRUNCATE TABLE performance_schema.nosuch",
    "SELECT * FROM performance_schema.nosuch",
    "TRUNCATE TABLE performance_schema.threads",
    "TRUNCATE TABLE performance_schema.setup_objects",
    "LOCK TABLES performance_schema.setup_actors READ",
    "LOCK TABLES performance_schema.setup_actors READ LOCAL",
    "LOCK TABLES performance_schema.setup_actors WRITE",
    "LOCK TABLES performance_schema.threads WRITE",
    "LOCK TABLES performance_schema.setup_actors LOW_PRIORITY WRITE",
    "LOCK TABLES performance_schema.events_waits_current WRITE",
    "LOCK TABLES performance_schema.session_status READ",
    "LOCK TABLES performance_schema.session_status WRITE",
    "UNLOCK TABLES",
    "FLUSH TABLES performance_schema.setup_actors",
    "FLUSH TABLES performance_schema.setup_actors WITH READ LOCK",
    "UNLOCK TABLES",
    "FLUSH TABLES performance_schema.setup_actors FOR EXPORT",
    "UNLOCK TABLES",
    "CHECK TABLE performance_schema.setup_actors",
    "CHECK TABLE performance_schema.threads",
    "CHECK TABLE performance_schema.session_status",
    "CHECK TABLE performance_schema.setup_actors FOR UPGRADE",
    "ANALYZE TABLE performance_schema.setup_actors",
    "ANALYZE TABLE performance_schema.setup_actors PERSISTENT FOR ALL",
    "ANALYZE TABLE performance_schema.events_waits_current",
    "ANALYZE TABLE performance_schema.session_status",
    "OPTIMIZE TABLE performance_schema.setup_actors",
    "OPTIMIZE TABLE performance_schema.session_status",
    "REPAIR TABLE performance_schema.setup_actors",
    "REPAIR TABLE performance_schema.setup_actors USE_FRM",
    "REPAIR TABLE performance_schema.session_status",
    "CHECKSUM TABLE performance_schema.setup_actors QUICK",
    "CHECKSUM TABLE performance_schema.session_status QUICK",
    "CACHE INDEX performance_schema.setup_actors IN hot",
    "LOAD INDEX INTO CACHE performance_schema.setup_actors",
    "CREATE VIEW own.v AS SELECT * FROM performance_schema.setup_actors",
    "SELECT COUNT(*) > 0 FROM own.v",
    "UPDATE own.v SET ENABLED = 'YES'",
    "INSERT INTO own.v (HOST,USER,ROLE) VALUES ('x','y','z')",
    "DELETE FROM own.v WHERE HOST = 'x'",
    "DROP VIEW own.v",
    "CREATE VIEW performance_schema.v AS SELECT 1",
    "CREATE OR REPLACE VIEW performance_schema.setup_actors AS SELECT 1",
    "DROP VIEW performance_schema.setup_actors",
    "CREATE SEQUENCE performance_schema.s",
    "ALTER DATABASE performance_schema CHARACTER SET latin1",
    "INSERT DELAYED INTO performance_schema.setup_actors VALUES ('q','q','%','YES','YES')",
    "INSERT LOW_PRIORITY INTO performance_schema.setup_actors VALUES ('q1','q','%','YES','YES')",
    "INSERT INTO performance_schema.setup_actors VALUES ('q1','q','%','YES','YES')",
    "INSERT IGNORE INTO performance_schema.setup_actors VALUES ('q1','q','%','YES','YES')",
    "REPLACE INTO performance_schema.setup_actors VALUES ('q1','q','%','YES','NO')",
    "INSERT INTO performance_schema.setup_actors VALUES ('q1','q','%','YES','YES') ON DUPLICATE KEY UPDATE ENABLED='NO'",
    "INSERT INTO performance_schema.setup_actors VALUES ('q2','q','%','YES','YES') ON DUPLICATE KEY UPDATE ENABLED='NO'",
    "INSERT INTO performance_schema.setup_actors VALUES ('q3','q','%','YES','YES') RETURNING HOST",
    "REPLACE INTO performance_schema.setup_actors VALUES ('q4','q','%','YES','YES') RETURNING HOST",
    "DELETE FROM performance_schema.setup_actors WHERE HOST='q3' RETURNING USER",
    "DELETE LOW_PRIORITY QUICK IGNORE FROM performance_schema.setup_actors WHERE HOST='q1'",
    "UPDATE LOW_PRIORITY IGNORE performance_schema.setup_actors SET ENABLED='NO' WHERE HOST='q2'",
    "UPDATE performance_schema.setup_actors SET HOST='qq' WHERE HOST='q2'",
    "UPDATE performance_schema.setup_actors SET HOST='q2' WHERE HOST='q2'",
    "UPDATE performance_schema.setup_actors SET HOST='q2', ENABLED='YES' WHERE HOST='q2'",
    "UPDATE performance_schema.setup_actors SET ENABLED=NULL WHERE HOST='q2'",
    "UPDATE performance_schema.setup_actors SET ENABLED=DEFAULT WHERE HOST='q2'",
    "UPDATE performance_schema.setup_actors SET ENABLED='x' WHERE HOST='q2'",
    "UPDATE performance_schema.setup_actors SET ENABLED=1 WHERE HOST='q2'",
    "UPDATE performance_schema.setup_actors SET ENABLED=7 WHERE HOST='q2'",
    "INSERT INTO performance_schema.setup_actors (HOST) VALUES (NULL)",
    "INSERT INTO performance_schema.setup_actors VALUES ('q5','q','%','x','YES')",
    "INSERT INTO performance_schema.setup_actors VALUES ('q5','q','%')",
    "INSERT INTO performance_schema.setup_actors (nosuch) VALUES (1)",
    "INSERT INTO performance_schema.setup_actors VALUES (repeat('q',300),'q','%','YES','YES')",
    "INSERT INTO performance_schema.setup_objects VALUES ('TABLE','a','b','YES','YES')",
    "INSERT INTO performance_schema.setup_objects VALUES ('TABLE','a','b','YES','YES')",
    "INSERT INTO performance_schema.setup_objects VALUES ('TABLE','A','B','YES','YES')",
    "INSERT INTO performance_schema.setup_objects VALUES ('nosuch','a','b','YES','YES')",
    "INSERT INTO performance_schema.setup_objects VALUES (NULL,'a','b','YES','YES')",
    "UPDATE performance_schema.setup_objects SET OBJECT_NAME='x' WHERE OBJECT_NAME='b'",
    "UPDATE performance_schema.setup_objects a JOIN performance_schema.setup_actors b SET a.ENABLED='NO' WHERE a.OBJECT_NAME='b'",
    "DELETE a FROM performance_schema.setup_objects a WHERE a.OBJECT_NAME='b'",
    "DELETE a, b FROM performance_schema.setup_objects a JOIN performance_schema.setup_actors b ON b.HOST='q2' WHERE a.OBJECT_NAME='B'",
    "SET sql_safe_updates=1",
    "UPDATE performance_schema.setup_instruments SET ENABLED='YES'",
    "UPDATE performance_schema.setup_instruments SET ENABLED='YES' WHERE ENABLED='NO'",
    "UPDATE performance_schema.setup_instruments SET ENABLED='YES' WHERE NAME='idle'",
    "UPDATE performance_schema.setup_instruments SET ENABLED='YES' WHERE NAME LIKE 'wait/io/%'",
    "UPDATE performance_schema.setup_instruments SET ENABLED='YES' LIMIT 1",
    "UPDATE performance_schema.setup_instruments SET ENABLED='YES' WHERE 1",
    "UPDATE performance_schema.threads SET INSTRUMENTED='YES'",
    "UPDATE performance_schema.threads SET INSTRUMENTED='YES' WHERE THREAD_ID=1",
    "UPDATE performance_schema.setup_consumers SET ENABLED='YES' WHERE NAME='statements_digest'",
    "UPDATE performance_schema.setup_actors SET ENABLED='YES'",
    "UPDATE performance_schema.setup_actors SET ENABLED='YES' WHERE HOST='%'",
    "UPDATE performance_schema.setup_actors SET ENABLED='YES' WHERE HOST='%' AND USER='%' AND ROLE='%'",
    "DELETE FROM performance_schema.setup_actors",
    "DELETE FROM performance_schema.setup_actors WHERE ENABLED='NO'",
    "DELETE FROM performance_schema.setup_actors WHERE HOST='nosuch'",
    "DELETE FROM performance_schema.setup_actors WHERE HOST='nosuch' AND USER='x' AND ROLE='y'",
    "DELETE FROM performance_schema.setup_actors WHERE HOST='nosuch' LIMIT 1",
    "DELETE FROM performance_schema.setup_objects WHERE OBJECT_NAME='nosuch'",
    "DELETE a FROM performance_schema.setup_objects a WHERE a.OBJECT_NAME='b'",
    "UPDATE performance_schema.setup_objects a JOIN performance_schema.setup_actors b SET a.ENABLED='NO' WHERE a.OBJECT_NAME='b'",
    "SELECT COUNT(*)>0 FROM performance_schema.setup_instruments",
    "TRUNCATE TABLE performance_schema.events_waits_history",
    "TRUNCATE TABLE performance_schema.setup_actors",
    "SET sql_safe_updates=0",
    "INSERT INTO performance_schema.setup_actors VALUES ('%','%','%','YES','YES')",
    "SELECT 1 FROM performance_schema.setup_actors FOR UPDATE",
    "SELECT 1 FROM performance_schema.setup_actors LOCK IN SHARE MODE",
    "SELECT 1 FROM performance_schema.setup_actors PARTITION (p)",
    "SELECT 1 FROM performance_schema.setup_actors FOR SYSTEM_TIME ALL",
    "SELECT 1 FROM performance_schema.setup_actors USE INDEX (nosuch)",
    "SELECT 1 FROM performance_schema.setup_actors FORCE INDEX (nosuch)",
    "SELECT 1 FROM performance_schema.setup_actors ORDER BY 1 PROCEDURE ANALYSE()",
    "SELECT MATCH (USER) AGAINST ('x') FROM performance_schema.setup_actors",
    "SELECT nosuch FROM performance_schema.setup_actors",
    "START TRANSACTION READ ONLY",
    "UPDATE performance_schema.setup_instruments SET ENABLED='YES' WHERE NAME='idle'",
    "DELETE FROM performance_schema.setup_actors WHERE HOST='nosuch'",
    "INSERT INTO performance_schema.setup_actors VALUES ('q9','q','%','YES','YES')",
    "TRUNCATE TABLE performance_schema.setup_objects",
    "COMMIT",
    "SET SESSION tx_read_only=1",
    "UPDATE performance_schema.setup_instruments SET ENABLED='YES' WHERE NAME='idle'",
    "SET SESSION tx_read_only=0",
    "UPDATE performance_schema.setup_instruments SET ENABLED='YES' WHERE NAME='idle'",
    "UPDATE performance_schema.setup_instruments SET ENABLED='YES' WHERE NAME='idle'",
    "UPDATE performance_schema.setup_instruments SET ENABLED='YES' WHERE NAME='idle'",
    "TRUNCATE TABLE performance_schema.events_waits_history",
    "UNLOCK TABLES",
    "LOCK TABLES own.t READ",
    "SELECT COUNT(*)>0 FROM performance_schema.setup_actors",
    "UPDATE performance_schema.setup_instruments SET ENABLED='YES' WHERE NAME='idle'",
    "TRUNCATE TABLE performance_schema.events_waits_history",
    "UNLOCK TABLES",
    "LOCK TABLES performance_schema.setup_instruments READ",
    "SELECT COUNT(*)>0 FROM performance_schema.setup_instruments",
    "UPDATE performance_schema.setup_instruments SET ENABLED='YES' WHERE NAME='idle'",
    "SELECT COUNT(*)>0 FROM performance_schema.setup_actors",
    "SELECT COUNT(*)>0 FROM performance_schema.setup_instruments a JOIN performance_schema.setup_instruments b",
    "UNLOCK TABLES",
    "LOCK TABLES performance_schema.setup_instruments WRITE",
    "SELECT COUNT(*)>0 FROM performance_schema.setup_instruments",
    "UPDATE performance_schema.setup_instruments SET ENABLED='YES' WHERE NAME='idle'",
    "UNLOCK TABLES",
    "PREPARE s FROM 'UPDATE performance_schema.setup_instruments SET ENABLED=? WHERE NAME=?'",
    "EXECUTE s USING 'YES', 'idle'",
    "EXECUTE s USING 'x', 'idle'",
    "PREPARE s FROM 'HANDLER performance_schema.setup_actors OPEN'",
    "CREATE TABLE own.c1 ENGINE=PERFORMANCE_SCHEMA AS SELECT 1",
    "CREATE TABLE own.c2 AS SELECT * FROM performance_schema.setup_actors",
    "ALTER TABLE own.c2 ENGINE=PERFORMANCE_SCHEMA",
];

/// What ends otherwise, and why.
const DIFFERENT: &[(&str, &str)] = &[
    (
        "CREATE TABLE own.tt LIKE performance_schema.session_status",
        "it is a view, of which the server says so before anything is made",
    ),
    ("CHECK TABLE performance_schema.session_status", "a view is checked by the server"),
    (
        "CHECKSUM TABLE performance_schema.session_status QUICK",
        "a view has no checksum, and the server says so",
    ),
    (
        "SELECT MATCH (USER) AGAINST ('x') FROM performance_schema.setup_actors",
        "the server names the engine, which is FEDERATED, and no table by which to tell it",
    ),
];

/// Rows or an error, and warnings.
type Ending = (Result<Vec<String>, String>, Vec<String>);

/// The rows of a statement, or its error; and every warning, without the row it was found at: how many rows
/// were looked at before depends on indexes.
fn ending(conn: &mut Conn, sql: &str) -> Ending {
    let shown = |row: mysql::Row| format!("{:?}", row.unwrap());
    let without_row = |text: &str| text.split(" at row ").next().unwrap_or_default().to_owned();
    let ended = match conn.query::<mysql::Row, _>(sql) {
        Ok(rows) => Ok(rows.into_iter().map(shown).collect()),
        Err(mysql::Error::MySqlError(error)) => {
            Err(without_row(&format!("{} {}", error.code, error.message)))
        }
        Err(other) => panic!("{sql}: {other}"),
    };
    let warnings: Vec<(String, u32, String)> = conn.query("SHOW WARNINGS").unwrap();
    let warnings =
        warnings.iter().map(|(level, number, text)| format!("{level} {number} {}", without_row(text)));
    (ended, warnings.collect())
}

fn endings(server: &Server) -> Vec<Ending> {
    let mut conn = server.client().unwrap();
    for sql in ["CREATE DATABASE own", "CREATE TABLE own.t (a INT)"] {
        conn.query_drop(sql).unwrap();
    }
    STATEMENTS.iter().map(|sql| ending(&mut conn, sql)).collect()
}

#[test]
fn a_statement_ends_as_with_the_built_in() {
    let _turn = shared_turn();
    let Some((expected, subject)) = beside_the_built_in(endings) else { return };
    if subject.host().version.starts_with("10.6") || subject.host().version.starts_with("11.8") {
        return println!("skipped: this server's built-in lets its tables be copied or replaced");
    }
    let got = endings(&subject);
    let mut wrong = String::new();
    for ((sql, expected), got) in STATEMENTS.iter().zip(&expected).zip(&got) {
        let is_explained = DIFFERENT.iter().any(|(known, _)| known == sql);
        if (expected != got) != is_explained {
            wrong += &format!("{sql}\n    built-in: {expected:?}\n    subject:  {got:?}\n");
        }
    }
    assert_eq!(wrong, "");
    assert!(expected.iter().filter(|(ended, _)| ended.is_err()).count() > 60, "most of it is refused");
}
