//! Level sampled held against a server that records everything, under the same seeded load: what is exact is
//! equal to the last digit, and what is estimated is as near as the standard error of
//! docs/explanation/levels-and-sampling.md says.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

mod estimates;
mod exact;
mod load;
mod slow;

use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::poll;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;

/// A server with these settings of tare's and these options; `None`: skipped, and said so.
fn started(settings: &[(&str, &str)], options: &[&str]) -> Option<Server> {
    let server = StartSettings::new(TestProvider::under_test()).option("--event-scheduler=ON");
    let server = settings.iter().fold(server, |server, (name, value)| server.tare_option(name, value));
    let server = options.iter().fold(server, |server, option| server.option(*option));
    Server::start(server).unwrap().on_its_port()
}

/// Starts a server that records everything.
fn exact(options: &[&str]) -> Option<Server> {
    started(&[("level", "exact")], options)
}

/// Starts a server that records one statement in so many.
fn sampled(sample: &str, options: &[&str]) -> Option<Server> {
    started(&[("level", "sampled"), ("sample", sample)], options)
}

/// Sets how statements are chosen from now on.
fn set_sample(conn: &mut Conn, sample: &str) {
    let sql = format!("UPDATE performance_schema.tare_status SET VALUE = '{sample}' WHERE NAME = 'sample'");
    conn.query_drop(sql).unwrap();
}

/// THREAD_ID of a connection.
fn thread_of(watcher: &mut Conn, id: u32) -> u64 {
    let sql = format!("SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = {id}");
    watcher.query_first(sql).unwrap().expect("every connection has a row in threads")
}

/// Asks until the answer is this one.
fn await_answer(conn: &mut Conn, sql: &str, expected: &str) {
    let mut last = None;
    let answered = poll(Duration::from_secs(60), || {
        last = conn.query_first::<Option<String>, _>(sql).unwrap().flatten();
        last.as_deref() == Some(expected)
    });
    assert!(answered.is_some(), "{sql}: {last:?}, not {expected}");
}

/// Waits until no client's statement but the watcher's own is running for the tables: the end of one follows
/// its answer.
fn settle(watcher: &mut Conn) {
    let running = "SELECT CAST(COUNT(*) AS CHAR) FROM performance_schema.events_statements_current e \
                   JOIN performance_schema.threads t USING (THREAD_ID) \
                   WHERE e.END_EVENT_ID IS NULL AND t.PROCESSLIST_ID <> CONNECTION_ID()";
    await_answer(watcher, running, "0");
}
