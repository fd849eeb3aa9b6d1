//! Short statements appear in proportion to the time they take together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::active_load::{beyond_error, short_statements};
use tare_testkit::turn;

use super::{HISTORY, rows, sample_anew, server, set_status, stop_sampling};

/// Windows that are judged, and how many of them may be beyond the error of 99% by chance.
const WINDOWS: usize = 3;
const BY_CHANCE: usize = 1;

/// Time of each digest of the schema `shares`, in picoseconds.
fn times(conn: &mut Conn) -> BTreeMap<String, f64> {
    let sql = "SELECT DIGEST, SUM_TIMER_WAIT FROM performance_schema.events_statements_summary_by_digest \
               WHERE SCHEMA_NAME = 'shares'";
    rows::<(String, f64)>(conn, sql).into_iter().collect()
}

/// Rows of each digest.
fn sampled(conn: &mut Conn) -> BTreeMap<String, f64> {
    let sql = format!(
        "SELECT DIGEST, COUNT(*) FROM {HISTORY} WHERE SCHEMA_NAME = 'shares' AND DIGEST IS NOT NULL GROUP BY 1"
    );
    rows::<(String, f64)>(conn, &sql).into_iter().collect()
}

#[test]
fn short_statements_appear_in_proportion_to_their_time() {
    let _turn = turn();
    let Some(server) = server(&[]) else { return };
    let mut conn = server.client().unwrap();
    conn.query_drop("CREATE DATABASE shares").unwrap();
    let ends = Arc::new(AtomicBool::new(false));
    let worker = {
        let (mut conn, ends) = (server.client().unwrap(), ends.clone());
        std::thread::spawn(move || {
            conn.query_drop("USE shares").unwrap();
            for statements in short_statements().take_while(|_| !ends.load(Ordering::Relaxed)) {
                for sql in statements {
                    conn.query_drop(sql).unwrap();
                }
            }
        })
    };
    let mut wrong = Vec::new();
    for _ in 0..WINDOWS {
        conn.query_drop("TRUNCATE TABLE performance_schema.events_statements_summary_by_digest").unwrap();
        sample_anew(&mut conn, 400);
        stop_sampling(&server, &mut conn);
        let (times, rows) = (times(&mut conn), sampled(&mut conn));
        set_status(&mut conn, "ash_interval", "10ms");
        let beyond = beyond_error(&times, &rows);
        if !beyond.is_empty() {
            wrong.push(beyond);
        }
    }
    ends.store(true, Ordering::Relaxed);
    worker.join().unwrap();
    assert!(wrong.len() <= BY_CHANCE, "{wrong:#?}");
}
