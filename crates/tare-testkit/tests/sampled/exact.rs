//! What is exact, at any rate.

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::server::Server;
use tare_testkit::turn;

use crate::load::{Load, USER, connect, fill};
use crate::{await_answer, exact, sampled, set_sample, settle};

/// What is asked once the load is over. Of file I/O and memory that of engines that do nothing in the
/// background.
const QUESTIONS: [&str; 9] = [
    "SELECT CONCAT_WS(' ', OBJECT_NAME, INDEX_NAME, COUNT_STAR, COUNT_FETCH, COUNT_INSERT, COUNT_UPDATE, COUNT_DELETE) \
     FROM performance_schema.table_io_waits_summary_by_index_usage WHERE OBJECT_SCHEMA = 't' ORDER BY 1",
    "SELECT CONCAT_WS(' ', OBJECT_NAME, COUNT_STAR, COUNT_READ, COUNT_WRITE) \
     FROM performance_schema.table_io_waits_summary_by_table WHERE OBJECT_SCHEMA = 't' ORDER BY 1",
    "SELECT CONCAT_WS(' ', DIGEST_TEXT, COUNT_STAR, SUM_ERRORS, SUM_WARNINGS, SUM_ROWS_SENT, SUM_ROWS_EXAMINED, SUM_ROWS_AFFECTED, \
     SUM_CREATED_TMP_TABLES, SUM_NO_INDEX_USED, SUM_SORT_ROWS) FROM performance_schema.events_statements_summary_by_digest \
     WHERE DIGEST_TEXT NOT LIKE '%\\_schema`%' AND DIGEST_TEXT NOT LIKE '%AS CHARACTER%' \
     AND DIGEST_TEXT NOT LIKE 'KILL%' ORDER BY 1",
    "SELECT CONCAT_WS(' ', EVENT_NAME, COUNT_STAR, SUM_ERRORS, SUM_WARNINGS, SUM_ROWS_SENT, SUM_ROWS_EXAMINED, SUM_ROWS_AFFECTED) \
     FROM performance_schema.events_statements_summary_by_user_by_event_name \
     WHERE USER = 'ann' AND COUNT_STAR > 0 AND (EVENT_NAME NOT LIKE 'statement/sp/%' OR EVENT_NAME = 'statement/sp/stmt') ORDER BY 1",
    "SELECT CONCAT_WS(' ', EVENT_NAME, COUNT_STAR, COUNT_READ_WRITE, COUNT_READ_ONLY) \
     FROM performance_schema.events_transactions_summary_by_user_by_event_name WHERE USER = 'ann' ORDER BY 1",
    "SELECT CONCAT_WS(' ', EVENT_NAME, COUNT_STAR, COUNT_READ, SUM_NUMBER_OF_BYTES_READ, COUNT_WRITE, SUM_NUMBER_OF_BYTES_WRITE) \
     FROM performance_schema.file_summary_by_event_name WHERE EVENT_NAME LIKE 'wait/io/file/myisam/%' ORDER BY 1",
    "SELECT CONCAT_WS(' ', EVENT_NAME, COUNT_STAR) FROM performance_schema.events_waits_summary_by_user_by_event_name \
     WHERE USER = 'ann' AND (EVENT_NAME = 'wait/io/table/sql/handler' OR EVENT_NAME LIKE 'wait/io/file/myisam/%' \
     OR EVENT_NAME = 'wait/synch/cond/sql/Item_func_sleep::cond') AND COUNT_STAR > 0 ORDER BY 1",
    "SELECT CONCAT_WS(' ', EVENT_NAME, COUNT_ALLOC, COUNT_FREE, CURRENT_NUMBER_OF_BYTES_USED) \
     FROM performance_schema.memory_summary_global_by_event_name WHERE EVENT_NAME LIKE 'memory/memory/HP%' ORDER BY 1",
    // Its other sums are of instructions that are no SQL, too, which are estimated.
    "SELECT CONCAT_WS(' ', OBJECT_NAME, COUNT_STAR, SUM_ERRORS) \
     FROM performance_schema.events_statements_summary_by_program WHERE OBJECT_SCHEMA = 't' ORDER BY 1",
];

/// All that a client can do, one after the other.
fn drive(server: &Server) {
    let mut watcher = server.client().unwrap();
    let mut load = Load::of_seed(7);
    for round in 0..6 {
        // A rate that changes changes nothing either.
        if round >= 3 {
            set_sample(&mut watcher, ["1/2", "1/100000", "1/64"][round - 3]);
        }
        let mut conn = connect(server);
        load.run(&mut conn, 60);
        run_in_all_ways(&mut conn);
        conn.change_user(mysql::ChangeUserOpts::DEFAULT.with_user(Some(USER.to_owned()))).unwrap();
        conn.query_drop("INSERT INTO t.m VALUES (1000, 'more') ON DUPLICATE KEY UPDATE b = 'yet more'")
            .unwrap();
        conn.query_drop("CALL t.fails()").unwrap();
        let id = conn.connection_id();
        match round % 3 {
            0 => drop(conn),
            1 => watcher.query_drop(format!("KILL CONNECTION {id}")).unwrap(),
            _ => kill_query(&mut watcher, conn),
        }
        watcher.query_drop("TRUNCATE performance_schema.events_stages_summary_global_by_event_name").unwrap();
    }
    run_an_event(&mut watcher);
    settle(&mut watcher);
}

/// Statements that are prepared, several in a packet, failing, in a transaction, with warnings.
fn run_in_all_ways(conn: &mut Conn) {
    let prepared = conn.prep("SELECT c FROM t.t WHERE a = ?").unwrap();
    for a in 1..=5 {
        conn.exec_drop(&prepared, (a,)).unwrap();
    }
    conn.close(prepared).unwrap();
    conn.query_drop("PREPARE s FROM 'UPDATE t.u SET b = ? WHERE a = 3'").unwrap();
    conn.query_drop("SET @v = 5").unwrap();
    conn.query_drop("EXECUTE s USING @v").unwrap();
    let mut results = conn.query_iter("SELECT 1; UPDATE t.u SET b = 2 WHERE a = 4; SELECT 2").unwrap();
    while let Some(result) = results.iter() {
        result.for_each(drop);
    }
    drop(results);
    conn.query_drop("SELECT * FROM t.nothing").unwrap_err();
    conn.query_drop("INSERT INTO t.u VALUES (1, 1)").unwrap_err();
    conn.query_drop("SELECT this is no SQL").unwrap_err();
    conn.query_drop("START TRANSACTION READ ONLY").unwrap();
    conn.query_drop("SELECT COUNT(*) FROM t.u").unwrap();
    conn.query_drop("ROLLBACK").unwrap();
    conn.query_drop("SELECT CAST('x' AS INT)").unwrap();
    conn.query_drop("CREATE TEMPORARY TABLE t.h (a INT PRIMARY KEY, b INT) ENGINE = MEMORY").unwrap();
    conn.query_drop("INSERT INTO t.h SELECT seq, seq FROM t.seq_1_to_3000").unwrap();
    conn.query_drop("SELECT b FROM t.u WHERE b = 3 ORDER BY a LIMIT 3").unwrap();
}

/// A statement that is killed while it sleeps.
fn kill_query(watcher: &mut Conn, mut conn: Conn) {
    let id = conn.connection_id();
    let sleeping = std::thread::spawn(move || conn.query_drop("SELECT SLEEP(60)"));
    // Its state says so before it sleeps. Killed in between it fails; so late it sleeps, and returns a row.
    let state = format!(
        "SELECT IF(PROCESSLIST_TIME >= 2, PROCESSLIST_STATE, '') FROM performance_schema.threads \
         WHERE PROCESSLIST_ID = {id}"
    );
    await_answer(watcher, &state, "User sleep");
    watcher.query_drop(format!("KILL QUERY {id}")).unwrap();
    let _interrupted = sleeping.join().unwrap();
}

/// The event scheduler's statements.
fn run_an_event(watcher: &mut Conn) {
    watcher
        .query_drop(
            "CREATE EVENT t.e ON SCHEDULE AT CURRENT_TIMESTAMP DO BEGIN DELETE FROM t.log; \
             INSERT INTO t.log SELECT seq FROM t.seq_1_to_20; UPDATE t.u SET b = 9 WHERE a = 90; END",
        )
        .unwrap();
    let is_gone = "SELECT CAST(COUNT(*) AS CHAR) FROM information_schema.events WHERE EVENT_SCHEMA = 't'";
    await_answer(watcher, is_gone, "0");
    await_answer(watcher, "SELECT CAST(b AS CHAR) FROM t.u WHERE a = 90", "9");
    // Its thread goes after that.
    let worker =
        "SELECT CAST(COUNT(*) AS CHAR) FROM performance_schema.threads WHERE NAME LIKE '%/event_worker'";
    await_answer(watcher, worker, "0");
}

fn answers(server: &Server) -> Vec<String> {
    fill(server);
    drive(server);
    let mut conn = server.client().unwrap();
    QUESTIONS.iter().flat_map(|sql| conn.query::<String, _>(sql).unwrap()).collect()
}

/// What is otherwise, or not there.
fn differences(expected: &[String], got: &[String]) -> Vec<String> {
    let missing = expected.iter().filter(|line| !got.contains(line)).map(|line| format!("- {line}"));
    let further = got.iter().filter(|line| !expected.contains(line)).map(|line| format!("+ {line}"));
    missing.chain(further).collect()
}

/// Held at these rates against a server that records everything.
fn hold(options: &[&str], rates: &[&str]) {
    let _turn = turn();
    let Some(server) = exact(options) else { return };
    let expected = answers(&server);
    drop(server);
    assert!(expected.len() > 80, "{expected:?}");
    for sample in rates {
        let Some(server) = sampled(sample, options) else { return };
        let differences = differences(&expected, &answers(&server));
        assert_eq!(differences, Vec::<String>::new(), "sample={sample}");
    }
}

#[test]
fn what_people_act_on_is_equal_to_the_last_digit_at_any_rate() {
    hold(&[], &["1/64", "1/1000"]);
}

#[test]
fn it_is_equal_in_a_pool_of_threads_too() {
    hold(&["--thread-handling=pool-of-threads"], &["1/64"]);
}

/// COUNT_STAR of the load's user by instrument, and the median of the last ones' times in picoseconds. A busy
/// machine stretches some of them at will, and by these the sum.
fn stages(server: &Server) -> Vec<(String, u64, u64)> {
    let mut watcher = server.client().unwrap();
    settle(&mut watcher);
    let sql = format!(
        "SELECT EVENT_NAME, COUNT_STAR FROM performance_schema.events_stages_summary_by_user_by_event_name \
         WHERE USER = '{USER}' AND EVENT_NAME IN ({LEAN}) ORDER BY 1"
    );
    let counts: Vec<(String, u64)> = watcher.query(sql).unwrap();
    let mut median = |name: &str| -> u64 {
        let times: Vec<u64> = watcher
            .query(format!(
                "SELECT TIMER_WAIT FROM performance_schema.events_stages_history_long \
                 WHERE EVENT_NAME = '{name}' AND TIMER_WAIT IS NOT NULL ORDER BY 1"
            ))
            .unwrap();
        assert!(times.len() > 300, "{name}: {} in the history", times.len());
        times[times.len() / 2]
    };
    let with_time = |(name, count): (String, u64)| {
        let time = median(&name);
        (name, count, time)
    };
    counts.into_iter().map(with_time).collect()
}

/// Stages that are recorded in every statement, among others that are sampled.
const LEAN: &str = "'stage/sql/Opening tables', 'stage/sql/Executing', 'stage/sql/checking permissions'";

#[test]
fn instruments_of_another_level_are_exact_beside_those_that_are_sampled() {
    let _turn = turn();
    let names = LEAN.split(", ").map(|name| format!("{}=lean", name.trim_matches('\'')));
    let levels: Vec<String> = ["sampled".to_owned()].into_iter().chain(names).collect();
    let mut settings: Vec<(&str, &str)> = levels.iter().map(|level| ("level", level.as_str())).collect();
    settings.extend([("sample", "1/1000"), ("slow-after", "3600s")]);
    let (Some(exact), Some(mixed)) = (exact(&[]), crate::started(&settings, &[])) else { return };
    let run = |server: &Server| {
        fill(server);
        Load::of_seed(3).run(&mut connect(server), 1500);
        stages(server)
    };
    let (expected, got) = (run(&exact), run(&mixed));
    assert_eq!(expected.len(), 3);
    for ((name, count, time), (_, its_count, its_time)) in expected.iter().zip(&got) {
        assert_eq!(count, its_count, "{name}");
        println!("{name}: {its_time} ps, {time} where all are recorded");
        // None goes on while those follow that are skipped: that would be most of a statement.
        assert!(*its_time < 3 * time, "{name}: {its_time} ps, and {time} where all are recorded");
    }
}
