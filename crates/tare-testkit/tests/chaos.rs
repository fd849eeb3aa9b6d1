//! Tables are altered, dropped, closed and reset while connections use them: what is read makes sense at
//! every moment, and what is counted once they stand still is what was done.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use mysql::prelude::Queryable;
use tare_testkit::schema::{SchemaConnection, SchemaRow};
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::{TestProvider, setting};
use tare_testkit::turn;

const CONNECTIONS: u64 = 12;
const TABLES: u64 = 3;
const SUMMARIES: [&str; 4] = [
    "table_io_waits_summary_by_table",
    "table_io_waits_summary_by_index_usage",
    "table_lock_waits_summary_by_table",
    "objects_summary_global_by_type",
];

/// What others do with the tables meanwhile, in turns.
const UPHEAVALS: [&str; 8] = [
    "CREATE INDEX k ON t{} (c)",
    "FLUSH TABLES",
    "DROP INDEX k ON t{}",
    "ALTER TABLE t{} FORCE",
    "FLUSH TABLES t{}",
    "TRUNCATE TABLE t{}",
    "DROP TABLE t{}",
    "CREATE TABLE t{} (a INT PRIMARY KEY, c INT) ENGINE=InnoDB",
];

fn work(server: &Server, connection: u64, rounds: u64) {
    let mut conn = server.client().unwrap();
    conn.query_drop("USE chaos").unwrap();
    for round in 0..rounds {
        let (table, key) = (round % TABLES, connection * 1000 + round % 50);
        for sql in [
            format!("INSERT INTO t{table} VALUES ({key}, {round})"),
            format!("SELECT x.a FROM t{table} x JOIN t{} y ON x.c = y.a", (table + 1) % TABLES),
            // Takes time and brings no row.
            "SELECT * FROM nothing".to_owned(),
            format!("UPDATE t{table} SET c = c + 1 WHERE a = {key}"),
            format!("DELETE FROM t{table} WHERE a = {key}"),
        ] {
            // The table may be gone, or be being altered.
            let _ = conn.query_drop(sql);
        }
    }
}

/// Times without a count, in a row of whatever summary.
fn timed_without_count(row: &SchemaRow) -> bool {
    let of = |column: &&String| column.strip_prefix("SUM_TIMER_").map(str::to_owned);
    row.columns().iter().filter_map(|column| of(&column)).any(|of| {
        let count = row.number(&format!("COUNT_{of}")).or_else(|| row.number("COUNT_STAR"));
        count == Some(0) && row.number(&format!("SUM_TIMER_{of}")) != Some(0)
    })
}

fn upheave(server: &Server, reader: &mut SchemaConnection, done: &AtomicBool) -> Vec<String> {
    let mut conn = server.client().unwrap();
    conn.query_drop("USE chaos").unwrap();
    let mut wrong = Vec::new();
    for turn in 0.. {
        if done.load(Relaxed) {
            break;
        }
        let sql = UPHEAVALS[turn % UPHEAVALS.len()].replace("{}", &(turn as u64 % TABLES).to_string());
        let _ = conn.query_drop(sql);
        let summary = SUMMARIES[turn % SUMMARIES.len()];
        if turn % 3 == 0 {
            reader.truncate(summary).unwrap();
        }
        let rows = reader.rows(summary).unwrap();
        wrong.extend(
            rows.iter().filter(|row| timed_without_count(row)).map(|row| format!("{summary}: {row:?}")),
        );
    }
    wrong
}

/// A server with few places for open tables, so that they are closed all the time, and with the tables; and a
/// reader at tare's endpoint, so that reading and resetting use no table of the server's. `None`, said aloud,
/// on the built-in, which loses some of what is done here.
fn chaos() -> Option<(Server, SchemaConnection)> {
    if !TestProvider::under_test().is_tare() {
        println!("skipped: it reads at tare's own endpoint");
        return None;
    }
    let settings = StartSettings::new(TestProvider::under_test())
        .option("--table-open-cache=10")
        .option("--lock-wait-timeout=1")
        .option("--innodb-flush-log-at-trx-commit=0");
    let server = Server::start(settings).unwrap();
    let reader = server.endpoint_schema().unwrap();
    let mut admin = server.client().unwrap();
    admin.query_drop("CREATE DATABASE chaos").unwrap();
    admin.query_drop("CREATE TABLE chaos.nothing (a INT) ENGINE=InnoDB").unwrap();
    let create = |table| format!("CREATE TABLE chaos.t{table} (a INT PRIMARY KEY, c INT) ENGINE=InnoDB");
    (0..TABLES).for_each(|table| admin.query_drop(create(table)).unwrap());
    Some((server, reader))
}

#[test]
fn tables_in_an_uproar_are_counted_right() {
    let _turn = turn();
    let Some((server, mut reader)) = chaos() else { return };
    let rounds = setting("TARE_CHAOS_ROUNDS", 60);

    let done = AtomicBool::new(false);
    let wrong = std::thread::scope(|scope| {
        let upheaval = scope.spawn(|| upheave(&server, &mut reader, &done));
        let work = |connection| {
            let server = &server;
            scope.spawn(move || work(server, connection, rounds))
        };
        let workers: Vec<_> = (0..CONNECTIONS).map(work).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        done.store(true, Relaxed);
        upheaval.join().unwrap()
    });
    assert!(wrong.is_empty(), "{} rows with times and no count, such as {}", wrong.len(), wrong[0]);
}

#[test]
fn rows_inserted_while_tables_are_flushed_are_counted() {
    let _turn = turn();
    let Some((server, mut reader)) = chaos() else { return };
    let rounds = setting("TARE_CHAOS_ROUNDS", 600);

    reader.truncate("table_io_waits_summary_by_table").unwrap();
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let server = &server;
            scope.spawn(move || {
                let mut conn = server.client().unwrap();
                // Everybody makes way here, sooner or later.
                conn.query_drop("SET lock_wait_timeout = 50").unwrap();
                for round in 0..rounds {
                    let (table, key) = (round % TABLES, connection * 1000 + round);
                    conn.query_drop(format!("INSERT INTO chaos.t{table} VALUES ({key}, 1)")).unwrap();
                    if round % 8 == connection % 8 {
                        conn.query_drop("FLUSH TABLES").unwrap();
                    }
                }
            });
        }
    });
    let inserted =
        reader.sum("table_io_waits_summary_by_table", &[("OBJECT_SCHEMA", "chaos")], "COUNT_INSERT");
    assert_eq!(inserted.unwrap(), CONNECTIONS * rounds, "every row that was inserted is counted");
}
