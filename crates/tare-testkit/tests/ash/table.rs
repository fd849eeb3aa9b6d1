//! The table: its keys, who may read it, its settings, and what it leaves out.

use mysql::prelude::Queryable;
use mysql::{Conn, Error};
use tare_testkit::server::patience;
use tare_testkit::{eventually, shared_turn};

use super::load::{ActiveSessions, Until};
use super::{HISTORY, await_samples, number, rows, sample_anew, server, set_status, status, stop_sampling};

fn refused(conn: &mut Conn, sql: &str) -> Option<u16> {
    match conn.query_drop(sql) {
        Ok(()) => None,
        Err(Error::MySqlError(error)) => Some(error.code),
        Err(other) => panic!("{sql}: {other}"),
    }
}

#[test]
fn whoever_may_read_the_schema_may_read_it() {
    let _turn = shared_turn();
    let Some(server) = server(&[]) else { return };
    let mut admin = server.client().unwrap();
    for (grant, read, truncate) in [
        (None, Some(1142), Some(1142)),
        (Some("SELECT ON performance_schema.*"), None, Some(1142)),
        (Some("SELECT, DROP ON performance_schema.*"), None, None),
    ] {
        admin.query_drop("CREATE OR REPLACE USER visitor@localhost").unwrap();
        if let Some(grant) = grant {
            admin.query_drop(format!("GRANT {grant} TO visitor@localhost")).unwrap();
        }
        let mut visitor = Conn::new(server.client_options().user(Some("visitor"))).unwrap();
        assert_eq!(refused(&mut visitor, &format!("SELECT * FROM {HISTORY} LIMIT 1")), read, "{grant:?}");
        assert_eq!(refused(&mut visitor, &format!("TRUNCATE TABLE {HISTORY}")), truncate, "{grant:?}");
    }
}

#[test]
fn whoever_may_read_the_history_of_statements_may_read_it_and_nobody_else() {
    let _turn = shared_turn();
    let Some(server) = server(&[]) else { return };
    let mut admin = server.client().unwrap();
    admin.query_drop("CREATE DATABASE other").unwrap();
    for (grant, may_read) in [
        ("USAGE ON *.*", false),
        ("PROCESS, SUPER, RELOAD ON *.*", false),
        ("ALL ON other.*", false),
        ("INSERT, UPDATE, DROP ON performance_schema.*", false),
        ("SELECT ON performance_schema.threads", false),
        ("SELECT ON performance_schema.*", true),
        ("SELECT ON *.*", true),
    ] {
        admin.query_drop("CREATE OR REPLACE USER visitor@localhost").unwrap();
        admin.query_drop(format!("GRANT {grant} TO visitor@localhost")).unwrap();
        let mut visitor = Conn::new(server.client_options().user(Some("visitor"))).unwrap();
        for table in ["performance_schema.events_statements_history", HISTORY] {
            let refused = refused(&mut visitor, &format!("SELECT * FROM {table} LIMIT 1"));
            assert_eq!(refused.is_none(), may_read, "{grant}: {table}: {refused:?}");
        }
    }
}

#[test]
fn no_text_of_a_statement_is_in_it() {
    const SECRET: &str = "geheim";
    let _turn = shared_turn();
    let Some(server) = server(&[]) else { return };
    let mut conn = server.client().unwrap();
    let mut load = ActiveSessions::new(&server);
    let sleeps = Until::State("User sleep");
    for level in ["lean", "sums", "off"] {
        set_status(&mut conn, "level", level);
        for sql in [
            "SELECT SLEEP(600), 'geheim'",
            "SELECT /* geheim */ SLEEP(600) AS geheim",
            "SET @geheim = SLEEP(600)",
            "SELECT a.geheim FROM (SELECT SLEEP(600) AS geheim) a",
            "PREPARE geheim FROM 'SELECT SLEEP(600), 1 AS geheim'; EXECUTE geheim",
        ] {
            let (before, last) =
                sql.split_once("; ").map_or((vec![], sql), |(first, last)| (vec![first], last));
            load.busy(&before, last, &sleeps, "SLEEP");
        }
        sample_anew(&mut conn, 20);
        let mut seen = 0;
        for row in rows::<mysql::Row>(&mut conn, &format!("SELECT * FROM {HISTORY}")) {
            seen += 1;
            for value in row.unwrap() {
                assert!(!value.as_sql(true).contains(SECRET), "{level}: {value:?}");
            }
        }
        assert!(seen > 20, "{level}: {seen} rows");
    }
}

/// Time, thread and connection of a row.
type Sampled = (String, u64, Option<u32>);

#[test]
fn it_is_found_by_time_thread_and_connection() {
    let _turn = shared_turn();
    let Some(server) = server(&[]) else { return };
    let mut conn = server.client().unwrap();
    let mut load = ActiveSessions::new(&server);
    let sleeper = load.busy(&[], "SELECT SLEEP(600)", &Until::State("User sleep"), "SLEEP");
    load.busy(&[], "SELECT SLEEP(601)", &Until::State("User sleep"), "SLEEP");
    sample_anew(&mut conn, 30);
    stop_sampling(&server, &mut conn);
    let samples = status(&mut conn, "ash_samples");
    let all: Vec<Sampled> = rows(
        &mut conn,
        &format!("SELECT SAMPLE_TIME, THREAD_ID, PROCESSLIST_ID FROM {HISTORY} ORDER BY 1, 2"),
    );
    let of = |is: &dyn Fn(&Sampled) -> bool| all.iter().filter(|row| is(row)).count() as u64;
    let count = |conn: &mut Conn, condition: &str| {
        number(conn, &format!("SELECT COUNT(*) FROM {HISTORY} WHERE {condition}"))
    };
    assert!(refused(&mut conn, &format!("DELETE FROM {HISTORY}")).is_some());
    assert!(refused(&mut conn, &format!("UPDATE {HISTORY} SET USER = 'x'")).is_some());
    let middle = &all[all.len() / 2].0;
    assert_eq!(count(&mut conn, &format!("SAMPLE_TIME >= '{middle}'")), of(&|row| row.0 >= *middle));
    assert_eq!(count(&mut conn, &format!("SAMPLE_TIME < '{middle}'")), of(&|row| row.0 < *middle));
    assert_eq!(count(&mut conn, &format!("SAMPLE_TIME = '{middle}'")), of(&|row| row.0 == *middle));
    let between = format!("SAMPLE_TIME BETWEEN '{}' AND '{middle}'", all[0].0);
    assert_eq!(count(&mut conn, &between), of(&|row| row.0 <= *middle));
    let thread = all.iter().find(|row| row.2 == Some(sleeper)).expect("a row").1;
    assert_eq!(count(&mut conn, &format!("THREAD_ID = {thread}")), of(&|row| row.1 == thread));
    assert_eq!(count(&mut conn, &format!("PROCESSLIST_ID = {sleeper}")), of(&|row| row.2 == Some(sleeper)));
    assert_eq!(count(&mut conn, "SAMPLE_TIME > NOW(6) + INTERVAL 1 HOUR"), 0);
    // In another time zone it is the same moment.
    conn.query_drop("SET time_zone = '+05:00'").unwrap();
    assert_eq!(count(&mut conn, "SAMPLE_TIME > NOW(6) - INTERVAL 1 HOUR"), all.len() as u64);
    assert_eq!(status(&mut conn, "ash_samples"), samples, "it is off");
    set_status(&mut conn, "ash_interval", "10ms");
    await_samples(&mut conn, 5);
}

#[test]
fn a_row_says_whose_it_is_and_what_it_did() {
    let _turn = shared_turn();
    let Some(server) = server(&[]) else { return };
    let mut conn = server.client().unwrap();
    let mut load = ActiveSessions::new(&server);
    let waiters = load.row_locks(1);
    let waiter = *load.truth.keys().next().expect("one waits");
    sample_anew(&mut conn, 20);
    type Row = (String, String, String, String, u64, String, String, String, String);
    let sql = format!(
        "SELECT h.USER, h.HOST, h.SCHEMA_NAME, h.THREAD_NAME, h.STATEMENT_EVENT_ID, h.OBJECT_TYPE, h.OBJECT_SCHEMA, h.OBJECT_NAME, h.DIGEST \
         FROM {HISTORY} h WHERE PROCESSLIST_ID = {waiter} ORDER BY SAMPLE_TIME DESC LIMIT 1"
    );
    let (user, host, schema, thread, event, object_type, object_schema, object, digest) =
        rows::<Row>(&mut conn, &sql).pop().expect("a row");
    let account: String = rows(
        &mut conn,
        &format!("SELECT PROCESSLIST_USER FROM performance_schema.threads WHERE PROCESSLIST_ID = {waiter}"),
    )
    .remove(0);
    assert_eq!((user, host.as_str(), schema.as_str()), (account, "localhost", "ash"));
    assert_eq!(thread, "thread/sql/one_connection");
    assert_eq!((object_type.as_str(), object_schema.as_str(), object.as_str()), ("TABLE", "ash", "t"));
    let running: Vec<(u64, String)> = rows(
        &mut conn,
        &format!(
            "SELECT s.EVENT_ID, s.DIGEST FROM performance_schema.events_statements_current s \
             JOIN performance_schema.threads t USING (THREAD_ID) WHERE t.PROCESSLIST_ID = {waiter}"
        ),
    );
    assert_eq!(running, [(event, digest)]);
    // Ages grow, and are in order: the transaction is older than the statement, and that than the wait.
    let ages: Vec<(u64, u64, Option<u64>)> = rows(
        &mut conn,
        &format!(
            "SELECT STATEMENT_AGE, TRX_AGE, WAIT_AGE FROM {HISTORY} WHERE PROCESSLIST_ID = {waiter} ORDER BY SAMPLE_TIME"
        ),
    );
    assert!(ages.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1), "{ages:?}");
    assert!(
        ages.iter().all(|(statement, trx, wait)| trx >= statement && wait.is_none_or(|it| it <= *statement)),
        "{ages:?}"
    );
    let blockers: Vec<u32> = rows(
        &mut conn,
        &format!(
            "SELECT DISTINCT BLOCKING_PROCESSLIST_ID FROM {HISTORY} WHERE PROCESSLIST_ID = {waiter} AND BLOCKING_PROCESSLIST_ID IS NOT NULL"
        ),
    );
    assert_eq!(blockers, [waiters]);
}

#[test]
fn a_history_that_is_full_forgets_its_oldest_rows() {
    let _turn = shared_turn();
    let Some(server) = server(&[("ash-memory", "64K")]) else { return };
    let mut conn = server.client().unwrap();
    let mut load = ActiveSessions::new(&server);
    for _ in 0..8 {
        load.busy(&[], "SELECT SLEEP(600)", &Until::State("User sleep"), "SLEEP");
    }
    let most = status(&mut conn, "ash_rows_max");
    assert!((500..700).contains(&most), "{most}");
    await_samples(&mut conn, 150);
    let (seen, samples): (u64, u64) =
        rows(&mut conn, &format!("SELECT COUNT(*), COUNT(DISTINCT SAMPLE_TIME) FROM {HISTORY}")).remove(0);
    assert!(seen <= most && seen >= most * 9 / 10, "{seen} of {most}");
    assert!(samples < 100, "the last ones: {samples}");
    assert!(status(&mut conn, "ash_rows") <= most);
    for (wrong, value) in [("ash_interval", "5ms"), ("ash_interval", "often"), ("ash_rows", "1")] {
        let sql =
            format!("UPDATE performance_schema.tare_status SET VALUE = '{value}' WHERE NAME = '{wrong}'");
        assert!(refused(&mut conn, &sql).is_some(), "{wrong} {value}");
    }
}

#[test]
fn samples_are_taken_as_often_as_their_budget_allows() {
    let _turn = shared_turn();
    let Some(server) = server(&[("ash-budget", "0.01%")]) else { return };
    let mut conn = server.client().unwrap();
    let used = "SELECT VALUE FROM performance_schema.tare_status WHERE NAME = 'ash_interval_used'";
    eventually("samples are taken less often", patience(), || rows::<String>(&mut conn, used) != ["10ms"]);
    await_samples(&mut conn, 3);
    let longest = format!("SELECT MAX(USECS_PER_ROW) FROM {HISTORY}");
    eventually("a row stands for all of the time", patience(), || number(&mut conn, &longest) > 50_000);
    set_status(&mut conn, "ash_interval", "OFF");
    assert_eq!(rows::<String>(&mut conn, used), ["OFF"]);
}
