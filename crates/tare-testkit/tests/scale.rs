//! Reading when there is much to read: a thousand connections, five thousand digests, ten thousand tables. It takes
//! minutes, so `make test-scale` runs it and `make test` does not.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tare_testkit::server::{Server, Settings};
use tare_testkit::subject::{Provider, setting};
use tare_testkit::turn;

/// Rows of a table and how long it took to read them all.
type Read = (u64, Duration);

fn settings(provider: Provider, connections: u64, digests: u64, tables: u64) -> Settings {
    let mut settings = Settings::new(provider)
        .option(format!("--max-connections={}", connections + 100))
        .option(format!("--table-open-cache={}", tables + 2000))
        .option(format!("--table-definition-cache={}", tables + 2000));
    match &mut settings.provider {
        Provider::Tare(options) => options.extend(
            [("memory-max", "1G".to_owned()), ("digests-size", (digests + 1000).to_string())]
                .map(|(name, value)| (name.to_owned(), value)),
        ),
        _ => {
            let sizes = [("digests-size", digests + 1000), ("max-table-instances", tables + 2000)];
            settings
                .options
                .extend(sizes.map(|(name, value)| format!("--performance-schema-{name}={value}")));
        }
    }
    settings
}

/// Fills a server and reads every table of its `performance_schema`.
fn read_all(provider: Provider) -> BTreeMap<String, Read> {
    let (connections, digests, tables) =
        (setting("TARE_CONNECTIONS", 1000), setting("TARE_DIGESTS", 5000), setting("TARE_TABLES", 10_000));
    let server = Server::start(settings(provider, connections, digests, tables)).unwrap();
    let open: Vec<Conn> = (0..connections)
        .map(|_| {
            let mut conn = server.client().unwrap();
            conn.query_drop("SELECT 1").unwrap();
            conn
        })
        .collect();
    let mut conn = server.client().unwrap();
    conn.query_drop("CREATE DATABASE many").unwrap();
    conn.query_drop("USE many").unwrap();
    for number in 0..tables {
        conn.query_drop(format!("CREATE TABLE t{number} (a INT, KEY (a)) ENGINE=MEMORY")).unwrap();
        conn.query_drop(format!("INSERT INTO t{number} VALUES (1)")).unwrap();
    }
    for number in 0..digests {
        conn.query_drop(format!("SELECT 1 AS c{number}")).unwrap();
    }
    let names: Vec<String> = conn
        .query("SELECT table_name FROM information_schema.tables WHERE table_schema = 'performance_schema'")
        .unwrap();
    let mut read = |name: String| {
        let begin = Instant::now();
        let sql = format!("SELECT * FROM performance_schema.`{name}`");
        let rows = conn.query_iter(&sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
        let count = rows.inspect(|row| assert!(row.is_ok(), "{sql}: {row:?}")).count();
        (name, (count as u64, begin.elapsed()))
    };
    let reads: BTreeMap<String, Read> = names.into_iter().map(&mut read).collect();
    let rows = |table: &str| reads[table].0;
    assert!(rows("threads") >= connections, "{} threads", rows("threads"));
    assert!(rows("events_statements_summary_by_digest") >= digests, "digests");
    assert!(rows("table_io_waits_summary_by_table") >= tables, "tables");
    assert!(rows("table_io_waits_summary_by_index_usage") >= tables, "indexes");
    assert!(rows("memory_summary_by_thread_by_event_name") >= 100 * connections, "memory by thread");
    drop(open);
    reads
}

#[test]
#[ignore = "takes minutes: make test-scale"]
fn every_table_can_be_read_when_there_is_much_in_it() {
    let _turn = turn();
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let subject = read_all(Provider::under_test());
    let reference = read_all(Provider::BuiltIn);
    let mut largest: Vec<(&String, &Read)> = subject.iter().collect();
    largest.sort_by_key(|(_, (rows, _))| std::cmp::Reverse(*rows));
    println!("{:<55} {:>9} {:>9} {:>9} {:>9}", "SELECT * FROM", "rows", "ms", "built-in", "ms");
    for (name, (rows, took)) in largest.into_iter().take(12) {
        let (other_rows, other) = reference.get(name).copied().unwrap_or_default();
        println!("{name:<55} {rows:>9} {:>9} {other_rows:>9} {:>9}", took.as_millis(), other.as_millis());
    }
}
