//! Stored programs and prepared statements as objects, and the statements that belong to them.

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::mysql_server::Mysql;

use crate::{number, rows, subject};

const OPTIONS: &[&str] = &["--performance-schema-events-statements-history-long-size=10000"];

const SCHEMA: [&str; 4] = [
    "CREATE DATABASE work",
    "USE work",
    "CREATE PROCEDURE p (n INT) BEGIN DECLARE i INT DEFAULT 0; WHILE i < n DO SELECT i; SET i = i + 1; END WHILE; \
     PREPARE inner_one FROM 'SELECT 1 + 1'; EXECUTE inner_one; END",
    "CREATE PROCEDURE look () SELECT EVENT_NAME, SQL_TEXT, OBJECT_TYPE, OBJECT_SCHEMA, OBJECT_NAME, DIGEST, DIGEST_TEXT \
     FROM performance_schema.events_statements_current WHERE THREAD_ID = ps_current_thread_id() ORDER BY EVENT_ID",
];

/// Prepared statements, each with the event in which it was prepared.
const OWNERS: &str = "SELECT p.STATEMENT_NAME, p.SQL_TEXT, p.OWNER_OBJECT_NAME, h.EVENT_NAME, h.SQL_TEXT \
    FROM performance_schema.prepared_statements_instances p LEFT JOIN performance_schema.events_statements_history_long h \
    ON h.THREAD_ID = p.OWNER_THREAD_ID AND h.EVENT_ID = p.OWNER_EVENT_ID WHERE p.OWNER_THREAD_ID = @thread ORDER BY 2";

/// The programs of statements whose texts say to which they belong.
const NAMES: &str = "SELECT SQL_TEXT, OBJECT_TYPE, OBJECT_SCHEMA, OBJECT_NAME, NESTING_EVENT_LEVEL \
    FROM performance_schema.events_statements_history_long \
    WHERE THREAD_ID = @thread AND EVENT_NAME = 'statement/sp/stmt' AND SQL_TEXT LIKE '%belongs to%' ORDER BY EVENT_ID";

/// CPU times: what an object has of its statements, and the sum of these.
const CPU: [(&str, &str); 2] = [
    (
        "SELECT SUM_CPU_TIME FROM performance_schema.events_statements_summary_by_program WHERE OBJECT_NAME = 'p'",
        "SELECT SUM(CPU_TIME) FROM performance_schema.events_statements_history_long WHERE OBJECT_NAME = 'p'",
    ),
    (
        "SELECT SUM_CPU_TIME FROM performance_schema.prepared_statements_instances WHERE SQL_TEXT = 'SELECT ? + 1'",
        "SELECT SUM(CPU_TIME) FROM performance_schema.events_statements_history_long \
         WHERE THREAD_ID = @thread AND EVENT_NAME = 'statement/com/Execute'",
    ),
];

/// Programs and prepared statements with their counts, after these were reset.
const COUNTS: &str = "SELECT OBJECT_NAME, COUNT_STAR, COUNT_STATEMENTS, SUM_ROWS_SENT, NULL, NULL \
    FROM performance_schema.events_statements_summary_by_program WHERE OBJECT_SCHEMA = 'work' AND COUNT_STAR > 0 \
    UNION ALL SELECT SQL_TEXT, COUNT_EXECUTE, SUM_ROWS_SENT, NULL, NULL, NULL \
    FROM performance_schema.prepared_statements_instances WHERE OWNER_THREAD_ID = @thread ORDER BY 1";
const COUNTED: [&str; 2] = ["events_statements_summary_by_program", "prepared_statements_instances"];

fn run(conn: &mut Conn, sql: &str) {
    conn.query_drop(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// Works in a session of a server. Returns what another one sees of it.
const PREPARED_AGAIN: &str = "SELECT SUM(COUNT_REPREPARE) \
    FROM performance_schema.prepared_statements_instances";

fn seen(server: &Mysql) -> Vec<Vec<Option<String>>> {
    let (mut worker, mut reader) = (server.client().expect("a client"), server.client().expect("a client"));
    SCHEMA.iter().for_each(|sql| run(&mut worker, sql));
    let prepared = worker.prep("SELECT ? + 1").expect("a statement");
    for at in 0..20 {
        worker.exec_drop(&prepared, (at,)).expect("an execution");
    }
    run(&mut worker, "PREPARE outer_one FROM 'SELECT 2 + 2'");
    run(&mut worker, "PREPARE warned FROM 'SELECT SQL_CALC_FOUND_ROWS 2 + 2'");
    run(&mut worker, "CALL p(5)");
    // Places of programs that are dropped are used for others.
    for at in 0..12 {
        let (kind, name) = (["PROCEDURE", "procedure"][at % 2], format!("{}_{at}", "long".repeat(at)));
        run(&mut worker, &format!("CREATE {kind} {name} () SELECT 'belongs to {name}'"));
        run(&mut worker, &format!("CALL {name}()"));
        if at % 3 != 0 {
            run(&mut worker, &format!("DROP PROCEDURE {name}"));
        }
    }
    let thread = number(&mut worker, "SELECT ps_current_thread_id()");
    run(&mut reader, &format!("SET @thread = {thread}"));
    for (object, events) in CPU {
        let (of_object, of_events) = (number(&mut reader, object), number(&mut reader, events));
        assert!(of_object > 0 && of_object == of_events, "{object}: {of_object}, of events {of_events}");
    }
    assert_eq!(
        number(&mut reader, PREPARED_AGAIN),
        0,
        "the warning of a preparation is no later preparation"
    );
    let mut seen = rows(&mut reader, OWNERS);
    assert!(seen.iter().all(|row| row[3].is_some()), "{seen:#?}");
    seen.extend(rows(&mut reader, NAMES));
    // What runs is the procedure, and the statement in it that looks.
    seen.extend(rows(&mut worker, "CALL look()"));
    // A statement goes on for a moment after its result has arrived.
    worker.ping().expect("a ping");
    COUNTED.iter().for_each(|table| run(&mut reader, &format!("TRUNCATE performance_schema.{table}")));
    run(&mut worker, "CALL p(3)");
    worker.exec_drop(&prepared, (1,)).expect("an execution");
    worker.ping().expect("a ping");
    seen.extend(rows(&mut reader, COUNTS));
    seen
}

#[test]
fn programs_and_prepared_statements_are_those_of_the_built_in() {
    let Some(reference) = Mysql::start(OPTIONS).expect("a server") else { return };
    let reference = seen(&reference);
    assert!(reference.len() == 4 + 12 + 2 + 5, "{reference:#?}");
    let has_digest = |row: &Vec<Option<String>>| row[5].is_some() && row[6].is_some();
    assert!(has_digest(&reference[16]), "the statement that calls has a digest while it runs");
    let Some(subject) = subject(OPTIONS) else { return };
    assert_eq!(seen(&subject), reference);
}
