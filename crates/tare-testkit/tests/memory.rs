//! A cap that was reached does not stay reached: what tables held is there for connections again.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::schema::SchemaConnection;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::{TestProvider, setting};
use tare_testkit::turn;

const CONNECTIONS: usize = 60;
/// Tables that a statement drops.
const AT_A_TIME: usize = 100;

fn start() -> Server {
    let settings = StartSettings::new(TestProvider::Tare(vec![("memory-max".into(), "16M".into())]));
    // Room for all tables at once, and nothing waits for the disk.
    Server::start(
        settings
            .option("--table-open-cache=10000")
            .option("--table-definition-cache=10000")
            .option("--innodb-flush-log-at-trx-commit=0")
            .option("--innodb-doublewrite=OFF")
            .option("--skip-sync-frm"),
    )
    .unwrap()
}

/// Makes as many tables as `tables`, each used once.
fn create(conn: &mut Conn, tables: usize) {
    conn.query_drop("CREATE DATABASE many").unwrap();
    for table in 0..tables {
        conn.query_drop(format!("CREATE TABLE many.t{table} (a INT PRIMARY KEY, b INT, KEY (b))")).unwrap();
        conn.query_drop(format!("SELECT * FROM many.t{table}")).unwrap();
    }
}

fn drop_all(conn: &mut Conn, tables: usize) {
    let names: Vec<String> = (0..tables).map(|table| format!("many.t{table}")).collect();
    for names in names.chunks(AT_A_TIME) {
        conn.query_drop(format!("DROP TABLE {}", names.join(", "))).unwrap();
    }
}

/// How many of a number of connections that have done something are in `threads`.
fn seen(server: &Server) -> usize {
    let mut conns: Vec<Conn> = (0..CONNECTIONS).map(|_| server.client().unwrap()).collect();
    conns.iter_mut().for_each(|conn| conn.query_drop("SELECT 1").unwrap());
    let ids: Vec<u64> = conns.iter().map(|conn| conn.connection_id().into()).collect();
    let rows = server.endpoint_schema().unwrap().rows("threads").unwrap();
    let shown = rows.iter().filter_map(|row| row.number("PROCESSLIST_ID"));
    shown.filter(|id| ids.contains(id)).count()
}

fn lost(schema: &mut SchemaConnection, name: &str) -> u64 {
    schema.tare_status().unwrap()[name].parse().unwrap()
}

#[test]
fn connections_are_seen_while_tables_have_used_up_the_memory_and_after() {
    if !TestProvider::under_test().is_tare() {
        println!("skipped: the built-in has no cap");
        return;
    }
    let _turn = turn();
    let tables = setting("TARE_TABLES", 2_000) as usize;
    let server = start();
    let mut conn = server.client().unwrap();
    let mut schema = server.endpoint_schema().unwrap();
    let begin = std::time::Instant::now();
    create(&mut conn, tables);
    println!("{tables} tables made in {:?}", begin.elapsed());
    assert!(lost(&mut schema, "table_instances_lost") > 0, "the cap is reached");
    assert_eq!(seen(&server), CONNECTIONS, "of the connections beside the tables");
    drop_all(&mut conn, tables);
    println!("dropped after {:?}", begin.elapsed());
    assert_eq!(seen(&server), CONNECTIONS, "of the connections after the tables");
    println!("{} read locks forgotten", lost(&mut schema, "read_locks_lost"));
}
