//! Programs and queries of others, unchanged, on a server with the provider under test: they must not notice.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

mod answers;
mod exporter;
mod pmm;
mod recipes;
mod sys;
mod tools;

use mysql::prelude::Queryable;
use tare_testkit::script;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::session::ScriptConnections;
use tare_testkit::subject::TestProvider;

fn start(provider: TestProvider) -> Server {
    Server::start(StartSettings::new(provider)).unwrap()
}

/// A server with the provider under test; `None`, with a word, where its tables are not on the server's port.
fn subject() -> Option<Server> {
    start(TestProvider::under_test()).on_its_port()
}

/// Runs scripts of the oracle, so that most tables have something to show.
fn run_scripts(server: &Server, names: &[&str]) {
    let mut admin = server.client().unwrap();
    for script in script::all().unwrap().iter().filter(|script| names.contains(&script.name.as_str())) {
        admin.query_drop(format!("CREATE DATABASE {}", script.name)).unwrap();
        ScriptConnections::open(server, script, &script.name).unwrap().run(script).unwrap();
    }
}
