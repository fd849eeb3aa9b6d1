//! Many sessions that change everything at the same time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::mysql_server::Mysql;
use tare_testkit::subject::setting;

use crate::socket::{connect, path, status};
use crate::{lines, number, rows, subject};

const THREADS: u64 = 24;

/// Errors of a statement in the middle of chaos: what another session did.
const EXPECTED: [u16; 14] = [
    1007, // the database exists
    1050, // the table exists
    1051, 1146, // there is no such table
    1094, // there is no such thread
    1158, 1317, 1927, // killed
    1205, 1213, // a lock was not to be had
    1305, // there is no such procedure
    1412, // the table's definition has changed
    1356, // a view of sys looks at a table that is just made or dropped
    3024, // it took too long
];

/// What the sessions share.
struct Chaos<'s> {
    server: &'s Mysql,
    /// Every table and view of performance_schema and sys.
    everything: Vec<String>,
    until: Instant,
    done: AtomicU64,
}

impl Chaos<'_> {
    fn goes_on(&self) -> bool {
        Instant::now() < self.until
    }

    /// Does what one of the sessions does, until the time is over.
    fn session(&self, number: u64) {
        let mut random = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = move |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        while self.goes_on() {
            if number % 8 == 7 {
                self.at_the_socket(&mut next);
            } else if let Ok(mut conn) = self.server.client() {
                self.life(&mut conn, number, &mut next);
            }
        }
    }

    /// Does 50 statements on a connection, or as many until it is killed.
    fn life(&self, conn: &mut Conn, number: u64, next: &mut impl FnMut(u64) -> u64) {
        for _ in 0..50 {
            if !self.goes_on() {
                break;
            }
            let sql = match number % 8 {
                6 => {
                    let at = next(self.everything.len() as u64) as usize;
                    format!(
                        "SELECT /*+ MAX_EXECUTION_TIME(5000) */ * FROM {} LIMIT 3000",
                        self.everything[at]
                    )
                }
                role => statement(role, next),
            };
            match conn.query_drop(&sql) {
                Ok(()) => drop(self.done.fetch_add(1, Relaxed)),
                Err(mysql::Error::MySqlError(error)) if EXPECTED.contains(&error.code) => {}
                Err(mysql::Error::MySqlError(error)) => panic!("{sql}: {error}"),
                // Killed.
                Err(_) => break,
            }
        }
    }

    /// Reads, resets and sets over tare's socket, which nobody kills.
    fn at_the_socket(&self, next: &mut impl FnMut(u64) -> u64) {
        let mut tare = connect(&path(self.server));
        let tables: Vec<String> =
            rows(&mut tare, "SHOW TABLES FROM performance_schema").into_iter().flatten().flatten().collect();
        for _ in 0..50 {
            if !self.goes_on() {
                break;
            }
            let table = &tables[next(tables.len() as u64) as usize];
            let sql = match next(10) {
                0 => {
                    let rate = ["1000/s", "1/1", "1/8", "1/64", "1/1000"][next(5) as usize];
                    format!("UPDATE tare_status SET VALUE = '{rate}' WHERE NAME = 'sample'")
                }
                1 => {
                    let slow = ["1s", "1ms", "10ms"][next(3) as usize];
                    format!("UPDATE tare_status SET VALUE = '{slow}' WHERE NAME = 'slow_after'")
                }
                2 => {
                    let pace = ["1s", "100ms", "OFF"][next(3) as usize];
                    format!("UPDATE tare_status SET VALUE = '{pace}' WHERE NAME = 'ash_interval'")
                }
                3 if table.starts_with("events_") => format!("TRUNCATE {table}"),
                _ => format!("SELECT * FROM {table}"),
            };
            tare.query_drop(&sql).unwrap_or_else(|error| panic!("at the socket: {sql}: {error}"));
            self.done.fetch_add(1, Relaxed);
        }
    }
}

fn statement(role: u64, next: &mut impl FnMut(u64) -> u64) -> String {
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
    match role {
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

/// Counts of `tare_status` that say what was lost.
const LOST: &str = "SELECT NAME, VALUE FROM tare_status WHERE NAME LIKE '%lost%' AND VALUE <> '0'";

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
    let everything = "SELECT CONCAT(table_schema, '.`', table_name, '`') FROM information_schema.tables \
        WHERE table_schema IN ('performance_schema', 'sys')";
    let everything: Vec<String> = rows(&mut conn, everything).into_iter().flatten().flatten().collect();
    assert!(everything.len() > 200, "{everything:?}");
    drop(conn);
    let until = Instant::now() + Duration::from_secs(setting("TARE_CHAOS_SECONDS", 20));
    let chaos = Chaos { server: &server, everything, until, done: AtomicU64::new(0) };
    std::thread::scope(|scope| {
        let chaos = &chaos;
        (0..THREADS).for_each(|number| drop(scope.spawn(move || chaos.session(number))));
        let read = scope.spawn(|| read(&server, until));
        assert!(read.join().expect("tare answers") > 100);
    });
    let done = chaos.done.into_inner();
    println!("{done} statements");
    assert!(done > 100);
    assert!(server.runs(), "{}", server.log());
    let said = lines(&server);
    assert_eq!(said.len(), 1, "{said:?}");
    let mut tare = connect(&path(&server));
    assert_eq!(status(&mut tare, "stopped"), "none", "a thread of tare's");
    println!("lost: {:?}", rows(&mut tare, LOST));
    assert_still_counts(&server);
    drop(tare);
    let ended = server.stop().expect("it stops");
    assert!(ended.success(), "{ended}\n{}", server.log());
}

fn assert_still_counts(server: &Mysql) {
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
