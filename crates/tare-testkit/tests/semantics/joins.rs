//! Tables that are joined by thread show one moment, while the thread goes on.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use mysql::prelude::Queryable;
use tare_testkit::server::{Server, Settings};
use tare_testkit::shared_turn;
use tare_testkit::subject::Provider;

/// The wait's nesting statement, the statement, and whether that has ended.
type Joined = (Option<u64>, u64, bool);

const COLUMNS: &str = "IF(w.NESTING_EVENT_TYPE = 'STATEMENT', w.NESTING_EVENT_ID, NULL), s.EVENT_ID, s.END_EVENT_ID IS NOT NULL";

/// Joins as they are written: by lookups of one thread, by scans, as a subquery.
fn joins(thread: u64) -> [String; 4] {
    let (waits, statements) =
        ("performance_schema.events_waits_current w", "performance_schema.events_statements_current s");
    [
        format!(
            "SELECT {COLUMNS} FROM {waits} STRAIGHT_JOIN {statements} USING (THREAD_ID) WHERE w.THREAD_ID = {thread}"
        ),
        format!(
            "SELECT {COLUMNS} FROM {statements} STRAIGHT_JOIN {waits} USING (THREAD_ID) WHERE s.THREAD_ID = {thread}"
        ),
        format!(
            "SELECT {COLUMNS} FROM performance_schema.threads t JOIN {statements} USING (THREAD_ID) JOIN {waits} USING (THREAD_ID) \
             WHERE t.NAME LIKE '%one_connection' AND w.THREAD_ID + 0 = {thread}"
        ),
        format!(
            "SELECT {COLUMNS} FROM {statements} JOIN (SELECT * FROM performance_schema.events_waits_current WHERE THREAD_ID + 0 = \
             {thread} LIMIT 9) w USING (THREAD_ID)"
        ),
    ]
}

/// A statement that lasts has waits of its own, or none yet; one that has ended has had some.
fn is_of_one_moment((of, statement, has_ended): Joined) -> bool {
    of.is_none_or(|of| of == statement || (of < statement && !has_ended))
}

#[test]
fn a_wait_is_joined_with_its_statement() {
    const SAMPLES: usize = 25;
    let _turn = shared_turn();
    if !Provider::under_test().is_tare() {
        return println!("skipped: the built-in shows one moment after the other");
    }
    let Some(server) = Server::start(Settings::new(Provider::under_test())).unwrap().on_its_port() else {
        return println!("skipped: the tables are not on this server's port");
    };
    let mut conn = server.client().unwrap();
    conn.query_drop("UPDATE performance_schema.setup_consumers SET ENABLED = 'YES'").unwrap();
    conn.query_drop("CREATE DATABASE j").unwrap();
    conn.query_drop("USE j").unwrap();
    conn.query_drop("CREATE TABLE j.t (a INT PRIMARY KEY, b INT) ENGINE=InnoDB SELECT seq AS a, 1 AS b FROM seq_1_to_5000").unwrap();
    let mut worker = server.client().unwrap();
    let id = worker.connection_id();
    let thread: u64 = conn
        .query_first(format!("SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = {id}"))
        .unwrap()
        .unwrap();
    let is_over = AtomicBool::new(false);
    let seen: Vec<(String, Vec<Joined>)> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                // A wait for each row: it lasts longer than a look at it.
                if worker.query_drop("SELECT SUM(b) FROM j.t").is_err() {
                    return;
                }
            }
        });
        let look = |sql: String| {
            let rows = (0..SAMPLES).flat_map(|_| conn.query::<Joined, _>(&sql).unwrap_or_default()).collect();
            (sql, rows)
        };
        let seen = joins(thread).into_iter().map(look).collect();
        is_over.store(true, Relaxed);
        seen
    });
    for (sql, rows) in seen {
        let inside = rows.iter().filter(|(of, statement, _)| *of == Some(*statement)).count();
        let wrong: Vec<&Joined> = rows.iter().filter(|row| !is_of_one_moment(**row)).collect();
        assert!(wrong.is_empty(), "{} of {}: {wrong:?}\n{sql}", wrong.len(), rows.len());
        assert!(rows.len() > SAMPLES / 2 && inside > SAMPLES / 4, "{inside} of {}\n{sql}", rows.len());
    }
}

/// What a session has done it sees in its next statement.
#[test]
fn a_later_statement_sees_what_is_there() {
    let _turn = shared_turn();
    let server = Server::start(Settings::new(Provider::under_test())).unwrap();
    let Some(server) = server.on_its_port() else {
        return println!("skipped: the tables are not on this server's port");
    };
    let mut conn = server.client().unwrap();
    conn.query_drop("UPDATE performance_schema.setup_consumers SET ENABLED = 'YES'").unwrap();
    let sql = "SELECT s.SQL_TEXT FROM performance_schema.threads t JOIN performance_schema.events_statements_current s USING (THREAD_ID) \
               WHERE t.PROCESSLIST_ID = CONNECTION_ID()";
    for turn in 0..20 {
        // Each has a text of its own.
        let sql = format!("{sql} AND {turn} = {turn}");
        let texts: Vec<String> = conn.query(&sql).unwrap();
        assert_eq!(texts, [sql]);
    }
    let prepared = conn.prep("SELECT s.EVENT_ID FROM performance_schema.threads t JOIN performance_schema.events_statements_current s USING \
        (THREAD_ID) WHERE t.PROCESSLIST_ID = CONNECTION_ID()").unwrap();
    let mut last = 0;
    for _ in 0..20 {
        let ids: Vec<u64> = conn.exec(&prepared, ()).unwrap();
        assert!(matches!(ids[..], [id] if id > last), "{ids:?} after {last}");
        last = ids[0];
    }
}
