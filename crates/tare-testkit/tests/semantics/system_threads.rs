//! Threads of the server's own, as it lists them itself: the event scheduler, events, replicas.

use std::collections::BTreeMap;

use mysql::prelude::Queryable;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::shared_turn;
use tare_testkit::subject::TestProvider;

use crate::until;

/// What makes the server start threads of its own.
const MAKING: &[&str] = &[
    "SET GLOBAL event_scheduler = ON",
    "CREATE DATABASE s",
    "CREATE EVENT s.sleeps ON SCHEDULE EVERY 1 DAY DO SELECT SLEEP(1000)",
    "CREATE TABLE s.delayed (a INT) ENGINE=MyISAM",
    "INSERT DELAYED INTO s.delayed VALUES (1)",
    "SET GLOBAL slave_parallel_threads = 2",
    "CHANGE MASTER 'none' TO master_host = '127.0.0.1', master_port = 1, master_user = 'x', master_connect_retry = 1000",
    "START SLAVE 'none'",
];

/// ID, USER, HOST, COMMAND and STATE.
type Row = (u64, Option<String>, Option<String>, Option<String>, Option<String>);

/// USER, HOST, COMMAND and STATE by ID.
type ListedThread = BTreeMap<u64, [Option<String>; 4]>;

fn listed(conn: &mut mysql::Conn, schema: &str) -> ListedThread {
    let rows: Vec<Row> = conn
        .query(format!(
            "SELECT ID, USER, HOST, COMMAND, STATE FROM {schema}.processlist WHERE ID <> CONNECTION_ID()"
        ))
        .unwrap();
    let text = |text: Option<String>| text.filter(|text| !text.is_empty());
    rows.into_iter()
        .map(|(id, user, host, command, state)| (id, [user, host, command, state].map(text)))
        .collect()
}

#[test]
fn the_servers_own_threads_are_listed_as_the_server_lists_them() {
    let _turn = shared_turn();
    if !TestProvider::under_test().is_tare() {
        return println!("skipped: the built-in has no processlist, and does not know better");
    }
    let settings = StartSettings::new(TestProvider::under_test())
        .tare_option("shape", "extended")
        .option("--server-id=7");
    let Some(server) = Server::start(settings).unwrap().on_its_port() else {
        return println!("skipped: the tables are not on this server's port");
    };
    let mut conn = server.client().unwrap();
    MAKING.iter().for_each(|sql| conn.query_drop(sql).unwrap_or_else(|e| panic!("{sql}: {e}")));
    let commands = |listed: &ListedThread| -> Vec<String> {
        let mut commands: Vec<String> = listed.values().filter_map(|it| it[2].clone()).collect();
        commands.sort();
        commands
    };
    let expected =
        ["Connect", "Connect", "Daemon", "Delayed insert", "Slave_SQL", "Slave_worker", "Slave_worker"];
    let all = until(
        || [listed(&mut conn, "information_schema"), listed(&mut conn, "performance_schema")],
        |[server, tare]| server == tare && commands(server) == expected,
    );
    let [by_the_server, by_tare] = &all;
    assert_eq!(by_tare, by_the_server);
    assert_eq!(commands(by_tare), expected);
    // Found by its number as among all.
    for (id, row) in by_tare {
        let found: Vec<(u64, Option<String>)> = conn
            .query(format!("SELECT ID, COMMAND FROM performance_schema.processlist WHERE ID = {id}"))
            .unwrap();
        assert_eq!(found, [(*id, row[2].clone())]);
    }
    let gone: Vec<u64> =
        conn.query("SELECT ID FROM performance_schema.processlist WHERE ID IN (0, 987654)").unwrap();
    assert!(gone.is_empty(), "{gone:?}");

    // In `threads`, too.
    let threads: Vec<(String, String, String)> = conn
        .query(
            "SELECT NAME, PROCESSLIST_USER, PROCESSLIST_COMMAND FROM performance_schema.threads WHERE NAME REGEXP \
             'event_scheduler|slave_(io|sql)$|delayed_insert' ORDER BY NAME",
        )
        .unwrap();
    let threads: Vec<_> = threads.iter().map(|it| (it.0.as_str(), it.1.as_str(), it.2.as_str())).collect();
    assert_eq!(
        threads,
        [
            ("thread/sql/delayed_insert", "delayed", "Delayed insert"),
            ("thread/sql/event_scheduler", "event_scheduler", "Daemon"),
            ("thread/sql/slave_io", "system user", "Connect"),
            ("thread/sql/slave_sql", "system user", "Slave_SQL"),
        ]
    );
}

/// Every table is asked, on a server that is no replica, was to be one, and is none again.
#[test]
fn whoever_asks_a_server_without_replicas_loses_nothing() {
    let _turn = shared_turn();
    if !TestProvider::under_test().is_tare() {
        return println!("skipped: the built-in counts no such losses");
    }
    let server =
        Server::start(StartSettings::new(TestProvider::under_test()).tare_option("shape", "extended"))
            .unwrap();
    let (mut conn, mut schema) = (server.client().unwrap(), server.schema().unwrap());
    let tables: Vec<String> = conn
        .query(
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'performance_schema' AND TABLE_NAME REGEXP \
             'replication|host_cache|by_thread'",
        )
        .unwrap();
    assert!(tables.len() > 20, "{tables:?}");
    for sql in [
        "DO 0",
        "CHANGE MASTER 'm' TO master_host = '127.0.0.1', master_port = 1",
        "CHANGE MASTER TO master_host = '127.0.0.1', master_port = 2",
        "RESET SLAVE ALL",
        "RESET SLAVE 'm' ALL",
    ] {
        conn.query_drop(sql).unwrap();
        for table in &tables {
            schema.rows(table).unwrap();
        }
        let status = schema.tare_status().unwrap();
        let lost: Vec<_> =
            status.iter().filter(|(name, value)| name.ends_with("_lost") && *value != "0").collect();
        assert!(lost.is_empty(), "after {sql}: {lost:?}");
    }
}
