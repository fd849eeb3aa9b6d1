//! Many sessions that change everything at the same time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use tare_testkit::mysql_server::Mysql;
use tare_testkit::subject::setting;

use crate::socket::{connect, path};
use crate::{lines, number, rows, subject};

const THREADS: u64 = 24;

/// Errors of a statement in the middle of chaos: what another session did.
const EXPECTED: [u16; 12] = [
    1007, // the database exists
    1050, // the table exists
    1051, 1146, // there is no such table
    1094, // there is no such thread
    1158, 1317, 1927, // killed
    1205, 1213, // a lock was not to be had
    1305, // there is no such procedure
    1412, // the table's definition has changed
];

/// Does what one of the sessions does, until the time is over. Returns the number of its statements.
fn session(server: &Mysql, number: u64, until: Instant) -> u64 {
    let mut random = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut done = 0;
    while Instant::now() < until {
        let Ok(mut conn) = server.client() else { continue };
        for _ in 0..50 {
            if Instant::now() >= until {
                break;
            }
            let sql = statement(number, &mut next);
            match conn.query_drop(&sql) {
                Ok(()) => done += 1,
                Err(mysql::Error::MySqlError(error)) if EXPECTED.contains(&error.code) => {}
                Err(mysql::Error::MySqlError(error)) => panic!("{sql}: {error}"),
                // Killed.
                Err(_) => break,
            }
        }
    }
    done
}

fn statement(number: u64, next: &mut impl FnMut(u64) -> u64) -> String {
    const TABLES: [&str; 32] = [
        "events_waits_current",
        "events_waits_history",
        "events_waits_history_long",
        "events_waits_summary_global_by_event_name",
        "events_waits_summary_by_thread_by_event_name",
        "events_waits_summary_by_account_by_event_name",
        "events_waits_summary_by_user_by_event_name",
        "events_waits_summary_by_host_by_event_name",
        "events_waits_summary_by_instance",
        "events_statements_current",
        "events_statements_history_long",
        "events_statements_summary_by_digest",
        "events_statements_summary_by_thread_by_event_name",
        "events_statements_histogram_by_digest",
        "events_statements_summary_by_program",
        "prepared_statements_instances",
        "events_errors_summary_by_thread_by_error",
        "events_errors_summary_global_by_error",
        "events_stages_history",
        "events_transactions_current",
        "events_transactions_summary_by_account_by_event_name",
        "file_summary_by_event_name",
        "file_summary_by_instance",
        "socket_summary_by_event_name",
        "socket_summary_by_instance",
        "table_io_waits_summary_by_table",
        "table_io_waits_summary_by_index_usage",
        "table_lock_waits_summary_by_table",
        "objects_summary_global_by_type",
        "memory_summary_global_by_event_name",
        "memory_summary_by_thread_by_event_name",
        "memory_summary_by_account_by_event_name",
    ];
    let table = TABLES[next(TABLES.len() as u64) as usize];
    let on = ["YES", "NO"][next(2) as usize];
    let any = next(14);
    match number % 6 {
        0 => settings(table, on, any),
        1 if any < 4 => format!("CREATE TABLE IF NOT EXISTS chaos.d{} (i INT PRIMARY KEY, t TEXT)", next(4)),
        1 if any < 8 => format!("DROP TABLE IF EXISTS chaos.d{}", next(4)),
        1 if any < 9 => {
            format!("CREATE TABLE IF NOT EXISTS chaos.m{} (i INT PRIMARY KEY) ENGINE = MyISAM", next(3))
        }
        1 if any < 10 => format!("RENAME TABLE chaos.m{} TO chaos.m{}", next(3), next(3)),
        1 if any < 11 => format!("DROP TABLE IF EXISTS chaos.m{}", next(3)),
        1 if any < 12 => "FLUSH TABLES".to_owned(),
        1 => format!("ALTER TABLE chaos.t COMMENT = '{}'", next(100)),
        2 if any == 0 => format!("KILL {}", 8 + next(400)),
        2 if any < 4 => format!("KILL QUERY {}", 8 + next(400)),
        3 if any < 9 => program(any, next(4)),
        _ if any < 5 => format!("SELECT * FROM chaos.t WHERE id = {}", next(100)),
        _ if any < 9 => format!("UPDATE chaos.t SET c = c + 1 WHERE id = {}", next(100)),
        _ if any == 9 => "SELECT SLEEP(0.01)".to_owned(),
        _ => format!("REPLACE INTO chaos.t VALUES ({}, 1)", next(100)),
    }
}

/// Makes, drops or calls a stored program.
fn program(any: u64, program: u64) -> String {
    match any {
        0..2 => format!(
            "CREATE PROCEDURE IF NOT EXISTS chaos.p{program} () BEGIN DECLARE i INT DEFAULT 0; \
             WHILE i < 5 DO SELECT * FROM chaos.t WHERE id = i; SET i = i + 1; END WHILE; \
             PREPARE s FROM 'SELECT 1'; EXECUTE s; SELECT * FROM chaos.missing; END"
        ),
        2..4 => format!("DROP PROCEDURE IF EXISTS chaos.p{program}"),
        _ => format!("CALL chaos.p{program}()"),
    }
}

/// Reads or resets a table, or changes a setting.
fn settings(table: &str, on: &str, any: u64) -> String {
    let update = |table: &str, what: &str| format!("UPDATE performance_schema.{table} SET {what}");
    match any {
        0..6 => format!("SELECT * FROM performance_schema.{table} LIMIT 5000"),
        6 => format!("TRUNCATE performance_schema.{table}"),
        7 => update("setup_consumers", &format!("ENABLED = '{on}' WHERE NAME LIKE 'events_%'")),
        8 => {
            let what = format!(
                "ENABLED = '{on}', TIMED = '{on}' WHERE NAME LIKE 'wait/synch/%' OR NAME LIKE 'st%' OR NAME = 'transaction'"
            );
            update("setup_instruments", &what)
        }
        9 => update("setup_consumers", &format!("ENABLED = '{on}' WHERE NAME = 'thread_instrumentation'")),
        10 => update("setup_objects", &format!("ENABLED = '{on}' WHERE OBJECT_SCHEMA = '%'")),
        11 => {
            let what = format!(
                "ENABLED = '{on}', TIMED = '{on}' WHERE NAME LIKE 'wait/io/%' OR NAME LIKE 'wait/lock/%' OR NAME LIKE 'memory/%'"
            );
            update("setup_instruments", &what)
        }
        12 => update("threads", &format!("INSTRUMENTED = '{on}', HISTORY = '{on}'")),
        _ => "SELECT COUNT(*) FROM sys.waits_global_by_latency".to_owned(),
    }
}

/// Reads over tare's socket what is being changed, until the time is over. Returns the number of answers.
fn read(server: &Mysql, until: Instant) -> u64 {
    let mut tare = connect(&path(server));
    tare.query_drop("UPDATE tare_status SET VALUE = '10ms' WHERE NAME = 'ash_interval'").expect("a setting");
    let mut read = 0;
    while Instant::now() < until {
        for table in ["threads", "accounts", "users", "hosts", "setup_instruments"] {
            assert!(!rows(&mut tare, &format!("SELECT * FROM {table}")).is_empty(), "{table}");
            read += 1;
        }
    }
    read
}

#[test]
fn sessions_that_change_everything_crash_nothing() {
    let Some(mut server) = subject(&["--max-connections=200"]) else { return };
    let mut conn = server.client().expect("a client");
    for sql in ["CREATE DATABASE chaos", "CREATE TABLE chaos.t (id INT PRIMARY KEY, c INT)"] {
        conn.query_drop(sql).expect("a statement");
    }
    drop(conn);
    let until = Instant::now() + Duration::from_secs(setting("TARE_CHAOS_SECONDS", 20));
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (server, done) = (&server, &done);
            scope.spawn(move || done.fetch_add(session(server, number, until), Relaxed));
        }
        let read = scope.spawn(|| read(&server, until));
        assert!(read.join().expect("tare answers") > 100);
    });
    println!("{} statements", done.load(Relaxed));
    assert!(done.load(Relaxed) > 100);
    assert!(server.runs(), "{}", server.log());
    let lines = lines(&server);
    assert_eq!(lines.len(), 1, "{lines:?}");
    let mut conn = server.client().expect("a client");
    for sql in [
        "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES'",
        "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES', TIMED = 'YES' WHERE NAME <> ''",
        "UPDATE performance_schema.threads SET INSTRUMENTED = 'YES', HISTORY = 'YES'",
        "DO 1",
    ] {
        conn.query_drop(sql).expect("a statement");
    }
    let counted = "SELECT SUM(COUNT_STAR) FROM performance_schema.events_waits_summary_by_thread_by_event_name \
        WHERE THREAD_ID = ps_current_thread_id()";
    assert!(number(&mut conn, counted) > 0, "events are still counted");
}
