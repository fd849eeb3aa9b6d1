//! Level sampled in a running server: exact figures are equal to those of a server that records everything,
//! estimates are near them, and what is in progress, slow or failed is there whether it was chosen or not.

use std::collections::BTreeMap;
use std::thread::JoinHandle;
use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::server::{LIMIT, Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tare_testkit::{eventually, poll_every};

/// One statement in so many is chosen.
const WEIGHT: u64 = 16;
/// Hardly any is.
const RARELY: &str = "1/1000000";

fn started(options: &[(&str, &str)]) -> Option<Server> {
    let settings = StartSettings::new(TestProvider::under_test());
    let settings = options.iter().fold(settings, |settings, (name, value)| settings.tare_option(name, value));
    Server::start(settings).unwrap().on_its_port()
}

fn sampled(sample: &str) -> Option<Server> {
    started(&[("level", "sampled"), ("sample", sample)])
}

fn fill(server: &Server) {
    let mut conn = server.client().unwrap();
    for sql in [
        "CREATE DATABASE t",
        "CREATE TABLE t.t (a INT PRIMARY KEY, b INT, c VARCHAR(100), KEY (b))",
        "INSERT INTO t.t SELECT seq, seq % 100, REPEAT('x', 50) FROM t.seq_1_to_2000",
        "CREATE TABLE t.log (a INT)",
        "CREATE TRIGGER t.logged AFTER UPDATE ON t.t FOR EACH ROW INSERT INTO t.log VALUES (NEW.a)",
        "CREATE PROCEDURE t.p() BEGIN DECLARE i INT DEFAULT 0; WHILE i < 3 DO SET i = i + 1; END WHILE; SELECT i; END",
    ] {
        conn.query_drop(sql).unwrap();
    }
}

/// Kinds of statements, each of which does the same however often it runs.
const KINDS: [&str; 5] = [
    "SELECT c FROM t.t WHERE a = 700",
    "SELECT SUM(a) FROM t.t WHERE b BETWEEN 3 AND 5",
    "SELECT DISTINCT c FROM t.t WHERE a BETWEEN 100 AND 150 ORDER BY c",
    "UPDATE t.t SET c = 'y' WHERE a = 3",
    "CALL t.p()",
];

fn run(conn: &mut Conn, kind: usize, times: usize) {
    for _ in 0..times {
        conn.query_drop(KINDS[kind]).unwrap();
    }
}

fn counts(conn: &mut Conn, sql: &str) -> BTreeMap<String, u64> {
    conn.query::<(String, u64), _>(sql).unwrap().into_iter().collect()
}

/// COUNT_STAR of all instruments whose events are estimated, for a connection.
fn estimated(conn: &mut Conn, thread: u64) -> BTreeMap<String, u64> {
    let of = |table: &str, like: &str| {
        format!(
            "SELECT EVENT_NAME, COUNT_STAR FROM performance_schema.{table} WHERE THREAD_ID = {thread} AND EVENT_NAME LIKE '{like}'"
        )
    };
    let mut all = counts(conn, &of("events_stages_summary_by_thread_by_event_name", "stage/%"));
    let waits = "events_waits_summary_by_thread_by_event_name";
    for like in ["wait/synch/mutex/sql/%", "wait/synch/rwlock/sql/%", "wait/io/socket/%", "idle"] {
        all.extend(counts(conn, &of(waits, like)));
    }
    all.extend(counts(conn, &of("events_statements_summary_by_thread_by_event_name", "statement/sp/set")));
    all
}

fn thread_of(conn: &mut Conn, of: &Conn) -> u64 {
    let id = of.connection_id();
    let sql = format!("SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = {id}");
    conn.query_first(sql).unwrap().expect("every connection has a row in threads")
}

/// Waits until a connection's last statement has ended for the tables: its end follows its answer.
fn settle(watcher: &mut Conn, thread: u64) {
    let running = format!(
        "SELECT COUNT(*) FROM performance_schema.events_statements_current WHERE THREAD_ID = {thread} AND END_EVENT_ID IS NULL"
    );
    let has_ended = || watcher.query_first::<u64, _>(&running).unwrap() == Some(0);
    eventually("the statement ends for the tables", LIMIT, has_ended);
}

/// What one statement of each kind does, by instrument, where everything is recorded.
fn of_each_kind(server: &Server) -> Vec<BTreeMap<String, f64>> {
    const TIMES: usize = 100;
    let mut watcher = server.client().unwrap();
    let one = |kind| {
        let mut conn = server.client().unwrap();
        let thread = thread_of(&mut watcher, &conn);
        run(&mut conn, kind, 10);
        settle(&mut watcher, thread);
        let before = estimated(&mut watcher, thread);
        run(&mut conn, kind, TIMES);
        settle(&mut watcher, thread);
        let after = estimated(&mut watcher, thread);
        let each = |(name, count): (String, u64)| {
            let before = before.get(&name).copied().unwrap_or(0);
            (name, (count - before) as f64 / TIMES as f64)
        };
        after.into_iter().map(each).collect()
    };
    (0..KINDS.len()).map(one).collect()
}

#[test]
fn estimates_are_as_near_to_the_truth_as_the_standard_error_says() {
    const TIMES: usize = 1500;
    let Some(exact) = started(&[("level", "exact")]) else { return };
    let Some(sampled) = sampled(&format!("1/{WEIGHT}")) else { return };
    fill(&exact);
    fill(&sampled);
    let kinds = of_each_kind(&exact);
    let mut watcher = sampled.client().unwrap();
    let mut conn = sampled.client().unwrap();
    let thread = thread_of(&mut watcher, &conn);
    let before = estimated(&mut watcher, thread);
    // One after the other by turns: a fixed gap between chosen ones would choose always the same kind.
    for _ in 0..TIMES {
        (0..KINDS.len()).for_each(|kind| run(&mut conn, kind, 1));
    }
    settle(&mut watcher, thread);
    let after = estimated(&mut watcher, thread);
    let mut judged = 0;
    for (name, estimate) in &after {
        let each = kinds.iter().map(|kind| kind.get(name).copied().unwrap_or(0.0));
        let truth: f64 = each.clone().sum::<f64>() * TIMES as f64;
        if truth < 2.0 * TIMES as f64 {
            continue;
        }
        judged += 1;
        let squares: f64 = each.map(|x| x * x).sum::<f64>() * TIMES as f64;
        let error = ((WEIGHT - 1) as f64 * squares).sqrt();
        let estimate = (estimate - before.get(name).copied().unwrap_or(0)) as f64;
        let off = (estimate - truth) / error;
        // A server does not do quite the same each time; five standard errors are one in a million.
        assert!(off.abs() < 5.0, "{name}: {estimate} instead of {truth}, {off:.1} standard errors");
    }
    assert!(judged >= 15, "only {judged} instruments have enough events");
}

#[test]
fn what_people_act_on_is_equal_to_the_last_digit() {
    let answers = |server: &Server| {
        fill(server);
        let mut conn = server.client().unwrap();
        for sql in ["indexes", "errors"] {
            let _truncated: Result<(), _> = match sql {
                "indexes" => conn.query_drop("TRUNCATE performance_schema.table_io_waits_summary_by_table"),
                _ => conn.query_drop("TRUNCATE performance_schema.events_statements_summary_by_digest"),
            };
        }
        for _ in 0..100 {
            (0..KINDS.len()).for_each(|kind| run(&mut conn, kind, 1));
            conn.query_drop("SELECT * FROM t.nothing").unwrap_err();
        }
        conn.exec_drop("SELECT c FROM t.t WHERE a = ?", (5,)).unwrap();
        let mut rows: Vec<String> = Vec::new();
        for sql in [
            "SELECT CONCAT_WS(' ', OBJECT_NAME, INDEX_NAME, COUNT_STAR, COUNT_FETCH, COUNT_INSERT, COUNT_UPDATE, COUNT_DELETE) \
             FROM performance_schema.table_io_waits_summary_by_index_usage WHERE OBJECT_SCHEMA = 't' ORDER BY 1",
            "SELECT CONCAT_WS(' ', DIGEST_TEXT, COUNT_STAR, SUM_ERRORS, SUM_ROWS_SENT, SUM_ROWS_EXAMINED, SUM_ROWS_AFFECTED) \
             FROM performance_schema.events_statements_summary_by_digest WHERE DIGEST_TEXT NOT LIKE '%performance_schema%' \
             ORDER BY 1",
            "SELECT CONCAT_WS(' ', EVENT_NAME, COUNT_STAR, SUM_ERRORS) \
             FROM performance_schema.events_statements_summary_global_by_event_name \
             WHERE EVENT_NAME IN ('statement/sql/update', 'statement/sql/call_procedure', 'statement/sp/stmt') ORDER BY 1",
        ] {
            rows.extend(conn.query::<String, _>(sql).unwrap());
        }
        rows
    };
    let Some(exact) = started(&[("level", "exact")]) else { return };
    let expected = answers(&exact);
    assert!(expected.len() > 8, "{expected:?}");
    for sample in ["1/1", "1/3", RARELY] {
        let Some(sampled) = sampled(sample) else { return };
        assert_eq!(answers(&sampled), expected, "sample={sample}");
    }
}

/// A statement that runs in a connection of its own.
fn beside(server: &Server, sql: &'static str) -> (u32, JoinHandle<mysql::Result<()>>) {
    let mut conn = server.client().unwrap();
    let id = conn.connection_id();
    (id, std::thread::spawn(move || conn.query_drop(sql)))
}

/// Asks until the answer is this one.
fn await_answer(conn: &mut Conn, sql: &str, expected: &str) {
    // Seldom enough not to be a load itself.
    let answered = poll_every(Duration::from_millis(100), LIMIT, || {
        let answer: Option<Option<String>> = conn.query_first(sql).unwrap();
        answer.flatten().as_deref() == Some(expected)
    });
    assert!(answered.is_some(), "{sql}: not {expected}");
}

#[test]
fn what_is_in_progress_is_shown_chosen_or_not() {
    // Nothing becomes slow.
    let options = [("level", "sampled"), ("sample", RARELY), ("slow-after", "3600s")];
    let Some(server) = started(&options) else { return };
    let mut conn = server.client().unwrap();
    let (id, sleeping) = beside(&server, "SELECT SLEEP(60)");
    let of = |table: &str, column: &str| {
        format!(
            "SELECT e.{column} FROM performance_schema.threads t JOIN performance_schema.{table} e USING (THREAD_ID) \
             WHERE t.PROCESSLIST_ID = {id} AND e.END_EVENT_ID IS NULL"
        )
    };
    await_answer(&mut conn, &of("events_statements_current", "SQL_TEXT"), "SELECT SLEEP(60)");
    await_answer(&mut conn, &of("events_stages_current", "EVENT_NAME"), "stage/sql/User sleep");
    await_answer(
        &mut conn,
        &of("events_waits_current", "EVENT_NAME"),
        "wait/synch/cond/sql/Item_func_sleep::cond",
    );
    let state =
        format!("SELECT PROCESSLIST_STATE FROM performance_schema.threads WHERE PROCESSLIST_ID = {id}");
    await_answer(&mut conn, &state, "User sleep");
    conn.query_drop(format!("KILL QUERY {id}")).unwrap();
    let _interrupted = sleeping.join().unwrap();
}

#[test]
fn slow_and_failed_statements_are_in_the_histories_with_what_follows() {
    let Some(server) = sampled(RARELY) else { return };
    fill(&server);
    let mut conn = server.client().unwrap();
    let thread: u64 = conn
        .query_first(
            "SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()",
        )
        .unwrap()
        .unwrap();
    let mut watcher = server.client().unwrap();
    conn.query_drop("SELECT 'quick'").unwrap();
    conn.query_drop("SELECT SLEEP(0.05), 'slow'").unwrap();
    conn.query_drop("SELECT 'failed' FROM t.nothing").unwrap_err();
    settle(&mut watcher, thread);
    let history = format!(
        "SELECT SQL_TEXT, TIMER_WAIT FROM performance_schema.events_statements_history WHERE THREAD_ID = {thread} ORDER BY EVENT_ID"
    );
    let texts: Vec<(String, u64)> = watcher.query(history).unwrap();
    let has = |text: &str| texts.iter().any(|(it, _)| it.contains(text));
    assert!(has("'slow'") && has("'failed'"), "{texts:?}");
    // Unless the machine has made it slow: `slow-after` is ten milliseconds.
    let is_quick = |(text, time_ps): &(String, u64)| text.contains("'quick'") && *time_ps < 10_000_000_000;
    assert!(!texts.iter().any(is_quick), "{texts:?}");
    // What comes after the wait by which the statement has become slow.
    let inside: Vec<String> = watcher
        .query(format!(
            "SELECT g.EVENT_NAME FROM performance_schema.events_stages_history g JOIN performance_schema.events_statements_history s \
             ON s.THREAD_ID = g.THREAD_ID AND s.EVENT_ID = g.NESTING_EVENT_ID \
             WHERE g.THREAD_ID = {thread} AND s.SQL_TEXT LIKE '%slow%'"
        ))
        .unwrap();
    for stage in ["stage/sql/Query end", "stage/sql/closing tables", "stage/sql/Freeing items"] {
        assert!(inside.iter().any(|it| it == stage), "{stage} is not in {inside:?}");
    }
}

#[test]
fn who_waits_for_a_row_is_shown_and_kept_in_any_statement() {
    let Some(server) = sampled(RARELY) else { return };
    fill(&server);
    let mut holder = server.client().unwrap();
    holder.query_drop("BEGIN").unwrap();
    holder.query_drop("UPDATE t.t SET b = 1 WHERE a = 9").unwrap();
    let (id, waiting) = beside(&server, "UPDATE t.t SET b = 2 WHERE a = 9");
    let mut watcher = server.client().unwrap();
    // InnoDB waits for it within the table I/O, by a condition that is not instrumented.
    let wait = format!(
        "SELECT CONCAT_WS(' ', w.EVENT_NAME, w.OBJECT_NAME, w.OPERATION) \
         FROM performance_schema.threads t JOIN performance_schema.events_waits_current w USING (THREAD_ID) \
         WHERE t.PROCESSLIST_ID = {id} AND w.END_EVENT_ID IS NULL"
    );
    await_answer(&mut watcher, &wait, "wait/io/table/sql/handler t fetch");
    std::thread::sleep(Duration::from_millis(30));
    holder.query_drop("COMMIT").unwrap();
    waiting.join().unwrap().unwrap();
    // Its end follows its answer.
    let kept = "SELECT CAST(COUNT(*) AS CHAR) FROM performance_schema.events_statements_history_long \
                WHERE SQL_TEXT LIKE 'UPDATE t.t SET b = 2%'";
    await_answer(&mut watcher, kept, "1");
}

#[test]
fn the_weight_follows_the_load_and_falls_back_to_one() {
    let Some(server) = started(&[("level", "sampled"), ("sample", "50/s")]) else { return };
    let mut conn = server.client().unwrap();
    let weight = "SELECT VALUE FROM performance_schema.tare_status WHERE NAME = 'sample_weight'";
    await_answer(&mut conn, weight, "1");
    let mut load = server.client().unwrap();
    eventually("the weight rises", LIMIT, || {
        (0..200).for_each(|_| load.query_drop("DO 1").unwrap());
        conn.query_first::<String, _>(weight).unwrap().unwrap().parse::<u64>().unwrap() >= 4
    });
    await_answer(&mut conn, weight, "1");
    conn.query_drop("UPDATE performance_schema.tare_status SET VALUE = '1/5' WHERE NAME = 'sample'").unwrap();
    await_answer(&mut conn, weight, "5");
    let wrong =
        conn.query_drop("UPDATE performance_schema.tare_status SET VALUE = 'some' WHERE NAME = 'sample'");
    assert!(wrong.is_err(), "what is wrong is refused");
    await_answer(&mut conn, weight, "5");
}
