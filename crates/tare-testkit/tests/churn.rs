//! Fifty thousand connections come and go, two hundred at a time.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::eventually;
use tare_testkit::schema::SchemaConnection;
use tare_testkit::server::{LIMIT, Server, StartSettings};
use tare_testkit::subject::{TestProvider, setting};
use tare_testkit::turn;

const AT_A_TIME: u64 = 200;
const CLIENTS: u64 = 4;

/// Opens and closes this many connections, each of which runs one statement.
fn churn(server: &Server, connections: u64) {
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                for _ in 0..connections / AT_A_TIME {
                    let open = || Conn::new(server.client_options()).unwrap();
                    let mut conns: Vec<Conn> = (0..AT_A_TIME / CLIENTS).map(|_| open()).collect();
                    conns.iter_mut().for_each(|conn| conn.query_drop("DO 1").unwrap());
                }
            });
        }
    });
}

/// Waits until only the reader's connection is left, if that is one of the server's, and gives the number of
/// rows in `threads`.
fn threads_at_rest(server: &Server, schema: &mut SchemaConnection) -> usize {
    let readers = usize::from(server.serves_tables());
    eventually("connections leave threads after their end", LIMIT, || {
        let rows = schema.rows("threads").unwrap();
        let clients = rows.iter().filter(|row| row.text("TYPE") == "FOREGROUND").count();
        let threads = || rows.iter().filter(|row| row.text("NAME") == "thread/sql/one_connection").count();
        (clients <= readers).then(threads)
    })
}

fn seen(schema: &mut SchemaConnection, name: &str) -> u64 {
    schema
        .sum("events_statements_summary_global_by_event_name", &[("EVENT_NAME", name)], "COUNT_STAR")
        .unwrap()
}

#[test]
fn memory_returns_and_counts_add_up() {
    let _turn = turn();
    let connections = setting("TARE_CHURN_CONNECTIONS", 50_000);
    let settings = StartSettings::new(TestProvider::under_test())
        .option("--max-connections=500")
        .option("--back-log=500");
    let server = Server::start(settings).unwrap();
    let mut schema = server.schema().unwrap();
    // The first connections make the server itself grow: thread stacks, caches, pools.
    churn(&server, 4000);
    let threads = threads_at_rest(&server, &mut schema);
    let before = (seen(&mut schema, "statement/sql/do"), seen(&mut schema, "statement/com/Quit"));
    let (resident, used) = (server.process().unwrap().resident().unwrap(), memory_used(&mut schema));
    churn(&server, connections);
    assert_eq!(threads_at_rest(&server, &mut schema), threads, "no row of an ended connection stays");
    let after = (seen(&mut schema, "statement/sql/do"), seen(&mut schema, "statement/com/Quit"));
    for (what, before, after) in [("statement", before.0, after.0), ("end", before.1, after.1)] {
        let counted = after - before;
        println!("every {what} of {connections}: {counted} counted");
        if TestProvider::under_test().is_tare() {
            assert_eq!(counted, connections, "every {what} is counted, of connections that are gone too");
        } else {
            // The built-in drops a few when connections end at the same moment, and says so nowhere.
            assert!(counted <= connections && counted > connections / 100 * 99);
        }
    }
    let (resident_after, used_after) =
        (server.process().unwrap().resident().unwrap(), memory_used(&mut schema));
    println!("resident {resident} → {resident_after}, of it the provider's {used:?} → {used_after:?}");
    let grown = resident_after.saturating_sub(resident);
    assert!(grown < 8 << 20, "{grown} bytes more after {connections} connections");
    if let (Some(used), Some(used_after)) = (used, used_after) {
        assert!(used_after <= used + (1 << 20), "{used} → {used_after} bytes");
    }
    let lost = schema.tare_status().unwrap();
    let lost: Vec<_> = lost.iter().filter(|(name, value)| name.contains("lost") && *value != "0").collect();
    assert!(lost.is_empty(), "{lost:?}");
}

fn memory_used(schema: &mut SchemaConnection) -> Option<u64> {
    schema.tare_status().unwrap().get("memory_used").map(|bytes| bytes.parse().unwrap())
}
