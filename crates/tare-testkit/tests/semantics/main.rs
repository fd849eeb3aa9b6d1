//! What a user may do with the tables, and what it does.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

mod audit;
mod background;
mod binary_log;
mod budget;
mod charsets;
mod data_lock_waits;
mod data_locks;
mod digests;
mod errors;
mod folding;
mod grants;
mod histograms;
mod host_cache;
mod instances;
mod joins;
mod lookups;
mod measures;
mod monitoring;
mod parties;
mod prepared;
mod raw;
mod refusals;
mod repeated_errors;
mod reset;
mod rules;
mod sampling;
mod sessions;
mod statements;
mod states;
mod status;
mod strangers;
mod switching;
mod system_threads;
mod variables;

use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::Failure;
use tare_testkit::schema::SchemaConnection;
use tare_testkit::server::{LIMIT, Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tare_testkit::{poll, poll_every};

/// A server with the provider under test.
fn server() -> Server {
    Server::start(StartSettings::new(TestProvider::under_test())).unwrap()
}

/// What the built-in answers, and a server with the provider under test to be asked the same; `None` where
/// its tables are not on its port.
fn beside_the_built_in<A>(answers: impl Fn(&Server) -> A) -> Option<(A, Server)> {
    let expected = answers(&Server::start(StartSettings::new(TestProvider::BuiltIn)).unwrap());
    // It has been waited for until the words of errors are corrected, which is after its first answers.
    let subject = server().on_its_port()?;
    Some((expected, subject))
}

/// A connection whose events are looked at by another.
struct Watched {
    conn: Conn,
    thread: String,
}

impl Watched {
    fn connect(server: &Server, schema: &mut SchemaConnection) -> Watched {
        let conn = server.client().unwrap();
        let thread = schema.thread_of(u64::from(conn.connection_id())).unwrap();
        Watched { conn, thread: thread.expect("every connection has a row in threads").to_string() }
    }

    fn run(&mut self, sql: &str) {
        self.conn.query_drop(sql).unwrap();
    }

    fn run_often(&mut self, sql: &str, times: usize) {
        for _ in 0..times {
            self.run(sql);
        }
    }

    /// COUNT_STAR of an instrument for this connection, of the summary its name belongs to.
    fn count(&self, schema: &mut SchemaConnection, name: &str) -> u64 {
        schema
            .sum(&by_thread(name), &[("THREAD_ID", &self.thread), ("EVENT_NAME", name)], "COUNT_STAR")
            .unwrap()
    }

    /// [`Watched::count`] at rest: the end of a statement follows its answer, and who asks at tare's socket
    /// may be quicker.
    fn count_at_rest(&self, schema: &mut SchemaConnection, name: &str) -> u64 {
        let mut before = None;
        let pause = Duration::from_millis(20);
        let rest = poll_every(pause, LIMIT, || {
            let count = self.count(schema, name);
            (before.replace(count) == Some(count)).then_some(count)
        });
        rest.expect("nothing is counted for a moment")
    }

    /// How many of these it counts while running a statement twenty times.
    fn counted_by(&mut self, schema: &mut SchemaConnection, name: &str, sql: &str) -> u64 {
        let before = self.count_at_rest(schema, name);
        self.run_often(sql, 20);
        // One more statement is answered after the end of the last one.
        self.run("DO 0");
        self.count_at_rest(schema, name) - before
    }
}

fn by_thread(name: &str) -> String {
    let events = match name.split('/').next() {
        Some("statement") => "statements",
        Some("stage") => "stages",
        Some("transaction") => "transactions",
        _ => "waits",
    };
    format!("events_{events}_summary_by_thread_by_event_name")
}

/// The number and text of the error a statement ends with.
fn error(conn: &mut Conn, sql: &str) -> Option<(u16, String)> {
    match conn.query_drop(sql) {
        Ok(()) => None,
        Err(mysql::Error::MySqlError(e)) => Some((e.code, e.message)),
        Err(other) => panic!("{sql}: {other}"),
    }
}

fn refused(result: Result<(), Failure>) -> Option<u16> {
    match result {
        Ok(()) => None,
        Err(Failure::Sql(mysql::Error::MySqlError(e))) => Some(e.code),
        Err(other) => panic!("{other}"),
    }
}

/// Asks until the answer is there; the last one, if it never is.
fn until<T>(mut ask: impl FnMut() -> T, there: impl Fn(&T) -> bool) -> T {
    let mut last = None;
    poll(LIMIT, || there(last.insert(ask())));
    last.expect("it was asked")
}
