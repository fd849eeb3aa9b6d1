//! Tables of files, sockets and tables: the same statements give the same rows as in the same program without
//! tare.

use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::mysql_server::Mysql;

use crate::{number, rows, subject};

/// A statement, or a question whose answer is compared.
enum Step {
    Do(&'static str),
    Ask(&'static str),
}
use Step::{Ask, Do};

const BY_TABLE: &str = "SELECT OBJECT_TYPE, OBJECT_SCHEMA, OBJECT_NAME, COUNT_STAR, COUNT_FETCH, COUNT_INSERT, COUNT_UPDATE, \
     COUNT_DELETE, SUM_TIMER_WAIT > 0 FROM performance_schema.table_io_waits_summary_by_table \
     WHERE OBJECT_SCHEMA IN ('a', 'b') ORDER BY 1, 2, 3";
const BY_INDEX: &str = "SELECT OBJECT_SCHEMA, OBJECT_NAME, INDEX_NAME, COUNT_STAR, COUNT_FETCH \
     FROM performance_schema.table_io_waits_summary_by_index_usage WHERE OBJECT_SCHEMA IN ('a', 'b') ORDER BY 1, 2, 3";
const LOCKS: &str = "SELECT OBJECT_SCHEMA, OBJECT_NAME, COUNT_STAR, COUNT_READ, COUNT_WRITE, COUNT_READ_NORMAL, COUNT_WRITE_NORMAL, \
     COUNT_READ_EXTERNAL, COUNT_WRITE_EXTERNAL, COUNT_WRITE_ALLOW_WRITE, COUNT_READ_NO_INSERT, \
     COUNT_WRITE_CONCURRENT_INSERT, COUNT_WRITE_LOW_PRIORITY \
     FROM performance_schema.table_lock_waits_summary_by_table WHERE OBJECT_SCHEMA IN ('a', 'b') ORDER BY 1, 2";
const OBJECTS: &str = "SELECT OBJECT_TYPE, OBJECT_SCHEMA, OBJECT_NAME, COUNT_STAR, SUM_TIMER_WAIT > 0 \
     FROM performance_schema.objects_summary_global_by_type WHERE OBJECT_SCHEMA IN ('a', 'b') ORDER BY 1, 2, 3";
const HANDLES: &str = "SELECT OBJECT_SCHEMA, OBJECT_NAME, INTERNAL_LOCK, EXTERNAL_LOCK FROM performance_schema.table_handles \
     WHERE OBJECT_SCHEMA IN ('a', 'b') ORDER BY 1, 2, 3, 4";
const FILES: &str = "SELECT SUBSTRING_INDEX(FILE_NAME, '/', -2), EVENT_NAME, COUNT_READ, COUNT_WRITE, SUM_NUMBER_OF_BYTES_WRITE \
     FROM performance_schema.file_summary_by_instance WHERE FILE_NAME REGEXP '/[ab]/' AND EVENT_NAME LIKE '%myisam%' ORDER BY 1, 2";
/// Files that only one of the two tables has.
const FILES_APART: &str = "SELECT COUNT(*) FROM performance_schema.file_summary_by_instance LEFT JOIN \
     performance_schema.file_instances USING (FILE_NAME, EVENT_NAME) WHERE OPEN_COUNT IS NULL \
     UNION ALL SELECT COUNT(*) FROM performance_schema.file_instances LEFT JOIN \
     performance_schema.file_summary_by_instance USING (FILE_NAME, EVENT_NAME) WHERE COUNT_STAR IS NULL";
const SOCKETS_APART: &str = "SELECT COUNT(*) FROM performance_schema.socket_instances LEFT JOIN \
     performance_schema.socket_summary_by_instance USING (OBJECT_INSTANCE_BEGIN, EVENT_NAME) WHERE COUNT_STAR IS NULL";
const BY_INSTANCE: &str = "SELECT COUNT(*) FROM performance_schema.file_summary_by_instance f \
     WHERE EVENT_NAME LIKE '%myisam%' AND NOT EXISTS (SELECT * FROM performance_schema.events_waits_summary_by_instance w \
     WHERE w.EVENT_NAME = f.EVENT_NAME AND w.COUNT_STAR = f.COUNT_STAR AND w.SUM_TIMER_WAIT > 0)";

const STEPS: &[Step] = &[
    Do("CREATE DATABASE a"),
    Do("CREATE DATABASE b"),
    Do("CREATE TABLE a.t (id INT PRIMARY KEY, c INT, d INT, KEY by_c (c), KEY unused (d))"),
    Do("CREATE TABLE a.m (id INT PRIMARY KEY, c INT) ENGINE = MyISAM"),
    Do("INSERT INTO a.t VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)"),
    Do("INSERT INTO a.m VALUES (1, 1), (2, 2), (3, 3)"),
    Do("SELECT * FROM a.t WHERE c = 2"),
    Do("SELECT * FROM a.t WHERE id = 2 FOR UPDATE"),
    Do("SELECT * FROM a.t ORDER BY d"),
    Do("UPDATE a.t SET c = 5 WHERE id = 1"),
    Do("DELETE FROM a.t WHERE id = 3"),
    Do("UPDATE a.m SET c = 5"),
    Do("INSERT LOW_PRIORITY INTO a.m VALUES (4, 4)"),
    Do("LOCK TABLES a.t WRITE, a.m READ"),
    Ask("SELECT COUNT(*) FROM a.m"),
    Do("UNLOCK TABLES"),
    Do("CREATE TEMPORARY TABLE a.temporary (i INT)"),
    Do("INSERT INTO a.temporary VALUES (1)"),
    Ask(BY_TABLE),
    Ask(BY_INDEX),
    Ask(LOCKS),
    Ask(OBJECTS),
    Ask(HANDLES),
    Ask(FILES),
    Ask(FILES_APART),
    Ask(SOCKETS_APART),
    Ask(BY_INSTANCE),
    // Other keys: what they counted is gone.
    Do("ALTER TABLE a.t ADD KEY by_both (c, d), DROP KEY unused"),
    Do("SELECT * FROM a.t FORCE INDEX (by_both) WHERE c = 2"),
    Ask(BY_TABLE),
    Ask(BY_INDEX),
    // Another name, and none.
    Do("RENAME TABLE a.m TO b.moved"),
    Do("SELECT * FROM b.moved"),
    Ask(FILES),
    Ask(BY_TABLE),
    Do("DROP TABLE b.moved"),
    Ask(FILES),
    Ask(BY_TABLE),
    Ask(OBJECTS),
    Ask(FILES_APART),
    Do("CREATE TABLE b.moved (i INT) ENGINE = MyISAM"),
    Do("INSERT INTO b.moved VALUES (1), (2)"),
    Ask(FILES),
    Ask(BY_TABLE),
    Ask(BY_INDEX),
    // TRUNCATE resets, and what goes on counts again.
    Do("TRUNCATE performance_schema.table_io_waits_summary_by_table"),
    Do("SELECT * FROM b.moved"),
    Ask(BY_TABLE),
    Ask(LOCKS),
    Do("TRUNCATE performance_schema.table_lock_waits_summary_by_table"),
    Ask(LOCKS),
    Do("TRUNCATE performance_schema.file_summary_by_instance"),
    Do("INSERT INTO b.moved VALUES (3)"),
    Ask(FILES),
    Do("TRUNCATE performance_schema.events_waits_summary_global_by_event_name"),
    Ask(FILES),
    Ask(BY_TABLE),
    Ask(LOCKS),
    Do("SELECT * FROM b.moved"),
    Ask(OBJECTS),
    Do("TRUNCATE performance_schema.objects_summary_global_by_type"),
    Ask(OBJECTS),
    // Settings decide at once.
    Do("INSERT INTO performance_schema.setup_objects VALUES ('TABLE', 'b', '%', 'YES', 'NO')"),
    Do("SELECT * FROM b.moved"),
    Ask(BY_TABLE),
    // A table that is switched off keeps what closed handles have counted.
    Do("FLUSH TABLES"),
    Do("UPDATE performance_schema.setup_objects SET ENABLED = 'NO' WHERE OBJECT_SCHEMA = 'b'"),
    Ask(BY_TABLE),
    Ask(LOCKS),
    Do("SELECT * FROM b.moved"),
    Ask(BY_TABLE),
    Ask(BY_INDEX),
    Do("DELETE FROM performance_schema.setup_objects WHERE OBJECT_SCHEMA = 'b'"),
    Do("SELECT * FROM b.moved"),
    Ask(BY_TABLE),
    Do(
        "UPDATE performance_schema.setup_instruments SET TIMED = 'NO' WHERE NAME LIKE 'wait/io/%' OR NAME LIKE 'wait/lock/%'",
    ),
    Do("TRUNCATE performance_schema.events_waits_summary_global_by_event_name"),
    Do("SELECT * FROM b.moved"),
    Do("INSERT INTO b.moved VALUES (4)"),
    Ask(BY_TABLE),
    Ask(LOCKS),
    Ask(FILES),
    Do("UPDATE performance_schema.setup_instruments SET TIMED = 'YES'"),
    Do(
        "UPDATE performance_schema.setup_instruments SET ENABLED = 'NO' WHERE NAME LIKE 'wait/io/%' OR NAME LIKE 'wait/lock/%'",
    ),
    Do("SELECT * FROM b.moved"),
    Do("INSERT INTO b.moved VALUES (5)"),
    Ask(BY_TABLE),
    Ask(LOCKS),
    Ask(FILES),
    Do("UPDATE performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME LIKE 'wait/%'"),
    Do("FLUSH TABLES"),
    Do("INSERT INTO b.moved VALUES (6)"),
    Ask(BY_TABLE),
    Ask(FILES),
    Ask("SELECT object_name, index_name FROM sys.schema_unused_indexes WHERE object_schema IN ('a', 'b')"),
];

/// The number of a question's step, the question, and its rows.
type Answer = (usize, &'static str, Vec<Vec<Option<String>>>);

/// The answers of a server to all questions.
fn answers(server: &Mysql) -> Vec<Answer> {
    let mut conn = server.client().expect("a client");
    let mut answers = Vec::new();
    for (at, step) in STEPS.iter().enumerate() {
        match step {
            Do(sql) => conn.query_drop(sql).unwrap_or_else(|error| panic!("{sql}: {error}")),
            Ask(sql) => answers.push((at, *sql, rows(&mut conn, sql))),
        }
    }
    answers
}

#[test]
fn rows_are_those_of_the_built_in() {
    let Some(reference) = Mysql::start(&[]).expect("a server") else { return };
    let reference = answers(&reference);
    let Some(subject) = subject(&[]) else { return };
    let subject = answers(&subject);
    let different = reference.iter().zip(&subject).filter(|(theirs, ours)| theirs != ours);
    let lines: Vec<_> = different
        .map(|((at, sql, theirs), (.., ours))| format!("{at}: {sql}\ntheirs: {theirs:?}\nours:   {ours:?}"))
        .collect();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
    assert!(reference.iter().filter(|(_, _, rows)| !rows.is_empty()).count() > 30);
}

/// Asks until there is a row.
fn wait_for(conn: &mut Conn, sql: &str) -> Vec<Vec<Option<String>>> {
    for _ in 0..600 {
        let found = rows(conn, sql);
        if !found.is_empty() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("no row: {sql}");
}

#[test]
fn a_wait_in_progress_has_a_row() {
    let Some(server) = subject(&[]) else { return };
    let [mut holder, mut waiter, mut reader] = [(); 3].map(|()| server.client().expect("a client"));
    for sql in
        ["CREATE DATABASE a", "CREATE TABLE a.t (id INT PRIMARY KEY, c INT)", "INSERT INTO a.t VALUES (1, 1)"]
    {
        holder.query_drop(sql).expect("a statement");
    }
    for sql in ["BEGIN", "UPDATE a.t SET c = 2 WHERE id = 1"] {
        holder.query_drop(sql).expect("a statement");
    }
    let thread = number(&mut waiter, "SELECT ps_current_thread_id()");
    let waiting = std::thread::spawn(move || waiter.query_drop("UPDATE a.t SET c = 3 WHERE id = 1"));
    let sql = format!(
        "SELECT OBJECT_SCHEMA, OBJECT_NAME, OBJECT_TYPE, INDEX_NAME, OPERATION, TIMER_WAIT > 0, \
         OBJECT_INSTANCE_BEGIN IN (SELECT OBJECT_INSTANCE_BEGIN FROM performance_schema.table_handles) \
         FROM performance_schema.events_waits_current WHERE THREAD_ID = {thread} \
         AND EVENT_NAME = 'wait/io/table/sql/handler' AND END_EVENT_ID IS NULL"
    );
    let expected = ["a", "t", "TABLE", "PRIMARY", "fetch", "1", "1"].map(|text| Some(text.to_owned()));
    assert_eq!(wait_for(&mut reader, &sql), [expected.to_vec()]);
    holder.query_drop("COMMIT").expect("a statement");
    waiting.join().expect("no panic").expect("an update");
}

#[test]
fn events_name_their_socket() {
    let Some(server) = subject(&["--skip-networking=OFF", "--bind-address=127.0.0.1", "--port=0"]) else {
        return;
    };
    let mut conn = server.client().expect("a client");
    // Nobody needs to connect: the server's own socket has an address.
    let sql = "SELECT COUNT(*) FROM performance_schema.socket_instances JOIN performance_schema.socket_summary_by_instance \
        USING (EVENT_NAME, OBJECT_INSTANCE_BEGIN) WHERE EVENT_NAME LIKE '%/server_tcpip_socket' AND IP = '127.0.0.1'";
    assert_eq!(number(&mut conn, sql), 1);
    let sql = "SELECT COUNT(DISTINCT OBJECT_NAME) FROM performance_schema.events_waits_history \
        WHERE EVENT_NAME LIKE '%/server_tcpip_socket' AND OBJECT_NAME NOT LIKE '127.0.0.1:%'";
    assert_eq!(number(&mut conn, sql), 0);
}
