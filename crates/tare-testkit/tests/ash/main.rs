//! The active session history, held against sessions whose doings are known.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

mod belongs;
mod chaos;
mod recipes;
mod shares;
mod table;
mod truth;

use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::{FromRow, Queryable};
use tare_testkit::active_load as load;
use tare_testkit::eventually;
use tare_testkit::server::{Server, StartSettings, is_under_valgrind, patience};
use tare_testkit::subject::TestProvider;

const HISTORY: &str = "performance_schema.tare_active_session_history";

/// A server that samples every ten milliseconds; `None`: skipped, and said so.
fn server(settings: &[(&str, &str)]) -> Option<Server> {
    if !TestProvider::under_test().is_tare() {
        println!("skipped: the built-in has no such table");
        return None;
    }
    let server = StartSettings::new(TestProvider::under_test())
        .option("--innodb-lock-wait-timeout=600")
        .option("--lock-wait-timeout=600")
        .tare_option("ash-interval", "10ms")
        // Many samples in a short time, also under valgrind, where one takes as long as the interval.
        .tare_option("ash-budget", "OFF");
    let server = settings.iter().fold(server, |server, (name, value)| server.tare_option(name, value));
    Server::start(server).unwrap().on_its_port()
}

/// The rows of a query.
fn rows<R: FromRow>(conn: &mut Conn, sql: &str) -> Vec<R> {
    conn.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The only value of a query.
fn number(conn: &mut Conn, sql: &str) -> u64 {
    rows::<u64>(conn, sql)[0]
}

/// A row of `tare_status` that is a number.
fn status(conn: &mut Conn, name: &str) -> u64 {
    number(
        conn,
        &format!("SELECT CAST(VALUE AS UNSIGNED) FROM performance_schema.tare_status WHERE NAME = '{name}'"),
    )
}

fn set_status(conn: &mut Conn, name: &str, value: &str) {
    let sql = format!("UPDATE performance_schema.tare_status SET VALUE = '{value}' WHERE NAME = '{name}'");
    conn.query_drop(sql).unwrap();
}

/// Waits until so many further samples have been taken.
fn await_samples(conn: &mut Conn, samples: u64) {
    let begin = Instant::now();
    let wanted = status(conn, "ash_samples") + samples;
    while status(conn, "ash_samples") < wanted {
        assert!(begin.elapsed() < patience(), "no samples");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a session of this class computes. valgrind runs one thread at a time: who computes mostly waits
/// for its turn, and the kernel knows no more than that it waits.
fn runs(class: &str) -> bool {
    class == "CPU" || class == "OTHER" && is_under_valgrind()
}

/// Whether a session of the true class may have this one for a moment: who sleeps, or waits for a user's
/// lock, looks every five seconds whether its client is still there. And between two waits for a user's lock,
/// which is a metadata lock, it is in no stage that says so.
fn looks(class: &str, true_class: &str) -> bool {
    match true_class {
        "SLEEP" => class == "NETWORK",
        "USER LOCK" => class == "NETWORK" || class == "METADATA LOCK",
        _ => false,
    }
}

/// Switches the history off, and waits for the end of a sample that has begun.
fn stop_sampling(server: &Server, conn: &mut Conn) {
    set_status(conn, "ash_interval", "OFF");
    let process = server.process().unwrap();
    eventually("the thread that samples rests", patience(), || process.are_asleep("tare-ash").unwrap());
}

/// Empties the history, and waits for so many samples from then on.
fn sample_anew(conn: &mut Conn, samples: u64) {
    conn.query_drop(format!("TRUNCATE TABLE {HISTORY}")).unwrap();
    await_samples(conn, samples);
}
