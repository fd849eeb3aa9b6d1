//! What the server's options and statements decide about what is counted, and what TRUNCATE resets.

use mysql::prelude::Queryable;

use crate::{number, rows, subject};

#[test]
fn without_thread_instrumentation_threads_that_are_not_instrumented_count_too() {
    let Some(server) = subject(&[]) else { return };
    let mut conn = server.client().expect("a client");
    let mut other = server.client().expect("a client");
    for sql in [
        "CREATE DATABASE work",
        "CREATE TABLE work.t (id INT PRIMARY KEY)",
        "INSERT INTO work.t VALUES (1)",
        "UPDATE performance_schema.threads SET INSTRUMENTED = 'NO' WHERE TYPE = 'FOREGROUND'",
        "TRUNCATE performance_schema.table_io_waits_summary_by_table",
    ] {
        conn.query_drop(sql).expect(sql);
    }
    let counted =
        "SELECT COUNT_FETCH FROM performance_schema.table_io_waits_summary_by_table WHERE OBJECT_NAME = 't'";
    let mut read = || {
        for _ in 0..10 {
            other.query_drop("SELECT * FROM work.t WHERE id = 1").expect("a row");
        }
    };
    read();
    assert_eq!(number(&mut conn, counted), 0);
    let switch = |on: &str| {
        format!(
            "UPDATE performance_schema.setup_consumers SET ENABLED = '{on}' WHERE NAME = 'thread_instrumentation'"
        )
    };
    conn.query_drop(switch("NO")).expect("a consumer");
    read();
    assert_eq!(number(&mut conn, counted), 10);
    conn.query_drop(switch("YES")).expect("a consumer");
    read();
    assert_eq!(number(&mut conn, counted), 10);
}

#[test]
fn transactions_that_an_option_switches_off_are_not_counted() {
    let Some(server) = subject(&["--performance-schema-instrument=transaction=OFF"]) else { return };
    let mut conn = server.client().expect("a client");
    for sql in ["BEGIN", "SELECT 1", "COMMIT"] {
        conn.query_drop(sql).expect(sql);
    }
    let counted =
        "SELECT SUM(COUNT_STAR) FROM performance_schema.events_transactions_summary_global_by_event_name";
    assert_eq!(number(&mut conn, counted), 0);
    conn.query_drop("UPDATE performance_schema.setup_instruments SET ENABLED = 'YES', TIMED = 'YES' WHERE NAME = 'transaction'")
        .expect("an instrument");
    for sql in ["BEGIN", "SELECT 1", "COMMIT"] {
        conn.query_drop(sql).expect(sql);
    }
    assert!(number(&mut conn, counted) > 0);
}

#[test]
fn truncate_of_accounts_takes_those_without_a_session_away() {
    let Some(server) = subject(&[]) else { return };
    let mut conn = server.client().expect("a client");
    conn.query_drop("CREATE USER guest").expect("an account");
    let options =
        mysql::OptsBuilder::new().socket(server.socket().to_str()).prefer_socket(false).user(Some("guest"));
    drop(mysql::Conn::new(options).expect("a client"));
    let there = |conn: &mut mysql::Conn, of: &str| {
        let sql = format!(
            "SELECT COUNT(*) FROM performance_schema.events_statements_summary_by_{of}_by_event_name WHERE USER = 'guest'"
        );
        number(conn, &sql)
    };
    tare_testkit::eventually("the session has ended", tare_testkit::server::LIMIT, || {
        number(&mut conn, "SELECT COUNT(*) FROM performance_schema.threads WHERE PROCESSLIST_USER = 'guest'")
            == 0
    });
    assert!(there(&mut conn, "account") > 0 && there(&mut conn, "user") > 0);
    conn.query_drop("TRUNCATE performance_schema.accounts").expect("a reset");
    assert_eq!(there(&mut conn, "account"), 0);
    conn.query_drop("TRUNCATE performance_schema.users").expect("a reset");
    assert_eq!(there(&mut conn, "user"), 0);
}

#[test]
fn rows_are_looked_up_by_the_index() {
    let Some(server) = subject(&[]) else { return };
    let mut conn = server.client().expect("a client");
    for (table, filter) in [
        ("events_statements_summary_by_digest", "SCHEMA_NAME = 'none'"),
        ("events_statements_history", "THREAD_ID = 1"),
        ("events_statements_histogram_by_digest", "SCHEMA_NAME = 'none'"),
    ] {
        let sql =
            format!("EXPLAIN FORMAT=TRADITIONAL SELECT * FROM performance_schema.{table} WHERE {filter}");
        let plan = rows(&mut conn, &sql);
        assert_eq!(plan[0][4].as_deref(), Some("ref"), "{table}: {plan:?}");
    }
}
