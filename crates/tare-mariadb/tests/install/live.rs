//! Installed tables at work: one server holds them, another one, with the built-in Performance Schema, is
//! their far end.

use std::net::{SocketAddrV4, TcpListener};

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_mariadb::install::{self, TableDefinition, TableFile, federated};
use tare_tables::{Access, Table};
use tare_testkit::server::Server;
use tare_testkit::subject::TestProvider;

use crate::reference;

/// A server with the built-in that answers on a loopback port and remembers what it was asked.
fn far() -> (Server, SocketAddrV4) {
    let address = match TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap() {
        std::net::SocketAddr::V4(address) => address,
        std::net::SocketAddr::V6(address) => panic!("{address}"),
    };
    let settings = crate::settings(TestProvider::BuiltIn)
        .option("--skip-networking=0")
        .option("--bind-address=127.0.0.1")
        .option(format!("--port={}", address.port()))
        .option("--log-output=TABLE")
        .option("--general-log=1");
    let server = Server::start(settings).unwrap();
    let mut conn = server.client().unwrap();
    conn.query_drop("CREATE USER tare@'127.0.0.1'").unwrap();
    conn.query_drop("GRANT SELECT, UPDATE, DROP ON performance_schema.* TO tare@'127.0.0.1'").unwrap();
    (server, address)
}

/// What the far end was asked by FEDERATED since the last call.
fn asked(far: &mut Conn) -> Vec<String> {
    let own: Option<u64> = far.query_first("SELECT connection_id()").unwrap();
    let asked = far
        .query(format!(
            "SELECT argument FROM mysql.general_log WHERE command_type='Query' AND thread_id<>{} \
             AND argument NOT LIKE 'SHOW TABLE STATUS%' AND argument NOT LIKE 'set time_zone%'",
            own.unwrap()
        ))
        .unwrap();
    far.query_drop("TRUNCATE mysql.general_log").unwrap();
    asked
}

fn one(conn: &mut Conn, sql: &str) -> String {
    let value: Option<Option<String>> = conn.query_first(sql).unwrap();
    value.flatten().unwrap_or_default()
}

#[test]
fn keys_lead_to_single_rows_and_changes_arrive() {
    if crate::without_federated() {
        return;
    }
    let (far, address) = far();
    let mut far_conn = far.client().unwrap();
    let near = Server::start(crate::settings(TestProvider::Off)).unwrap();
    let mut near_conn = near.client().unwrap();

    let mut tables = reference::tables(&mut far_conn);
    tables.retain(|table| ["threads", "setup_consumers", "events_waits_history"].contains(&table.name));
    for table in &mut tables {
        table.indexes = &[&[0]];
        table.access = if table.name == "events_waits_history" { Access::Truncate } else { Access::Update };
    }
    let all: Vec<&dyn Table> = tables.iter().map(|table| table as &dyn Table).collect();
    let file = |table: &&dyn Table| {
        // A stock far end knows the tables by their own names only.
        let connection = format!("mysql://tare@{address}/performance_schema/{}", table.name());
        let content = install::write(&TableDefinition::of(*table, &connection, install::COMMENT)).unwrap();
        TableFile { table: table.name(), content }
    };
    crate::leave(&near.data(), &all.iter().map(file).collect::<Vec<_>>());

    let count = "SELECT count(*) FROM performance_schema.setup_consumers";
    assert_eq!(one(&mut near_conn, count), one(&mut far_conn, count));
    let thread = one(&mut far_conn, "SELECT min(thread_id) FROM performance_schema.threads");
    asked(&mut far_conn);

    // A lookup by key asks for the key.
    let sql = format!("SELECT name FROM performance_schema.threads WHERE thread_id={thread}");
    let name = one(&mut near_conn, &sql);
    let sent = asked(&mut far_conn);
    assert_eq!(name, one(&mut far_conn, &sql));
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert!(sent[0].ends_with(&format!(" FROM `threads` WHERE  (`THREAD_ID` = {thread})")), "{sent:?}");

    // An UPDATE names its row by the primary key.
    asked(&mut far_conn);
    near_conn
        .query_drop(format!("UPDATE performance_schema.threads SET history='NO' WHERE thread_id={thread}"))
        .unwrap();
    let update = format!("UPDATE `threads` SET `HISTORY` = 'NO' WHERE `THREAD_ID` = {thread}");
    assert!(asked(&mut far_conn).contains(&update));
    let history = format!("SELECT history FROM performance_schema.threads WHERE thread_id={thread}");
    assert_eq!(one(&mut far_conn, &history), "NO");

    near_conn.query_drop("UPDATE performance_schema.setup_consumers SET enabled='NO'").unwrap();
    let on = "SELECT count(*) FROM performance_schema.setup_consumers WHERE enabled='YES'";
    assert_eq!(one(&mut far_conn, on), "0");
    assert_eq!(one(&mut near_conn, on), "0");

    asked(&mut far_conn);
    near_conn.query_drop("TRUNCATE performance_schema.events_waits_history").unwrap();
    assert!(asked(&mut far_conn).contains(&"TRUNCATE `events_waits_history`".to_owned()));
    let refused = near_conn.query_drop("UPDATE performance_schema.setup_consumers SET name='x'").unwrap_err();
    assert!(refused.to_string().contains("1683"), "{refused}");
}

/// What lies in a server's folder of `performance_schema`, on the disk.
fn on_disk(server: &Server) -> Vec<String> {
    let entries = std::fs::read_dir(server.data().join("performance_schema")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The files an earlier version put into the folder, and half of one.
fn leave_all(server: &Server) -> usize {
    let (files, _) = install::files(tare_tables::TABLES, federated::ENDPOINT).unwrap();
    crate::leave(&server.data(), &files);
    std::fs::write(server.data().join("performance_schema/accounts.tare-new"), "half a fi").unwrap();
    files.len()
}

#[test]
fn what_an_earlier_version_left_goes_at_the_next_start_with_tare_whether_it_serves_or_not() {
    let serving = crate::settings(TestProvider::tare());
    let mut server = Server::start(serving.clone()).unwrap();
    for (settings, what) in [
        (serving.clone(), "serves"),
        (serving.clone().tare_option("enabled", "OFF"), "enabled=OFF"),
        (serving.clone().tare_option("tables", "OFF"), "tables=OFF"),
        (serving.clone().tare_option("memory-max", "5"), "a wrong option"),
        (serving.clone().option("--performance-schema=ON"), "the built-in is on"),
        (serving.option("--plugin-load="), "no plugin"),
    ] {
        server.kill();
        let left = leave_all(&server);
        // Somebody else's, under a name that is none of tare's.
        std::fs::write(server.data().join("performance_schema/own.frm"), "own").unwrap();
        server.settings = settings;
        server.resume().unwrap();
        assert_eq!(on_disk(&server), ["db.opt", "own.frm"], "{what}");
        let told = format!("removed what an earlier version left: {left} tables' files");
        assert_eq!(server.log().matches(&told).count(), 1, "{what}:\n{}", server.log());
        let mut conn = server.client().unwrap();
        assert_ne!(one(&mut conn, "SELECT count(*) + 1 FROM performance_schema.threads"), "", "{what}");
        assert!(server.stop().unwrap().1.success(), "{what}");
        std::fs::remove_file(server.data().join("../log.err")).unwrap();
        server.resume().unwrap();
        assert!(!server.log().contains("removed what"), "{what}: once\n{}", server.log());
    }
}

#[test]
fn a_server_without_plugin_and_provider_is_unharmed_by_leftovers() {
    let mut server = Server::start(crate::settings(TestProvider::Off).option("--plugin-load=")).unwrap();
    let mut conn = server.client().unwrap();
    conn.query_drop("CREATE TABLE mysql.own (a INT) ENGINE=InnoDB").unwrap();
    conn.query_drop("INSERT INTO mysql.own VALUES (1)").unwrap();
    let left = leave_all(&server);
    server.kill();
    server.resume().unwrap();

    let mut conn = server.client().unwrap();
    assert_eq!(one(&mut conn, "SELECT count(*) FROM mysql.own"), "1");
    let error = conn.query_drop("SELECT * FROM performance_schema.threads").unwrap_err().to_string();
    assert!(error.contains("1286"), "{error}");

    assert_eq!(install::remove(&server.data()).unwrap().len(), left);
    assert_eq!(one(&mut conn, "SELECT count(*) FROM performance_schema.threads"), "0");
    assert!(server.stop().unwrap().1.success());
    assert_eq!(on_disk(&server), ["db.opt"]);
}

/// The row of `tare_status`, as the endpoint tells it.
fn status(server: &Server, name: &str) -> String {
    server.endpoint_schema().unwrap().tare_status().unwrap().remove(name).unwrap()
}

#[test]
fn without_the_plugin_the_tables_are_the_servers_own_until_it_is_loaded() {
    let server = Server::start(crate::settings(TestProvider::tare()).option("--plugin-load=")).unwrap();
    let mut conn = server.client().unwrap();
    for table in ["threads", "setup_instruments", "global_status", "events_waits_history"] {
        let read = conn.query_drop(format!("SELECT * FROM performance_schema.{table}"));
        assert!(read.is_ok(), "{table}: {read:?}");
    }
    assert_eq!(one(&mut conn, "SELECT count(*) FROM performance_schema.threads"), "0");
    assert_eq!(one(&mut conn, "SHOW TABLES FROM performance_schema LIKE 'tare%'"), "");
    assert_eq!(one(&mut conn, "SELECT @@performance_schema"), "0");
    let told = "the plugin ha_federatedx is not loaded";
    let log = server.log();
    let lines: Vec<&str> =
        log.lines().filter(|line| line.contains(" tare: ") && line.contains(told)).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(
        ["INSTALL SONAME", "tare status", "tare.sock"].iter().all(|word| lines[0].contains(word)),
        "{log}"
    );
    assert!(status(&server, "tables").starts_with(&format!("OFF: {told}")));
    assert!(status(&server, "server_variables").starts_with("OFF: "));
    assert!(!server.endpoint_schema().unwrap().rows("threads").unwrap().is_empty());
    if crate::without_federated() {
        return;
    }
    conn.query_drop("INSTALL SONAME 'ha_federatedx'").unwrap();
    conn.query_drop("FLUSH TABLES").unwrap();
    assert_eq!(one(&mut conn, "SELECT count(*) > 5 FROM performance_schema.threads"), "1");
    assert_eq!(one(&mut conn, "SHOW TABLES FROM performance_schema LIKE 'tare_s%'"), "tare_status");
    conn.query_drop("UPDATE performance_schema.setup_consumers SET enabled='NO'").unwrap();
    assert_eq!(status(&server, "tables"), "ON");
}

#[test]
fn without_a_folder_the_endpoint_serves_and_says_so() {
    if crate::without_federated() {
        return;
    }
    let mut server = Server::start(crate::settings(TestProvider::Off)).unwrap();
    server.stop().unwrap();
    std::fs::remove_dir_all(server.data().join("performance_schema")).unwrap();
    server.settings = crate::settings(TestProvider::tare());
    server.resume().unwrap();
    let told = "the data directory has no folder performance_schema";
    assert_eq!(server.log().matches(told).count(), 1, "{}", server.log());
    assert!(status(&server, "tables").starts_with(&format!("OFF: {told}")));
    assert!(!server.endpoint_schema().unwrap().rows("threads").unwrap().is_empty());
    let mut conn = server.client().unwrap();
    assert_eq!(one(&mut conn, "SELECT @@performance_schema"), "0");
    assert_eq!(one(&mut conn, "SELECT count(*) > 5 FROM performance_schema.threads"), "1", "named in full");
    let listed = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'performance_schema'";
    assert_eq!(one(&mut conn, listed), "0");
    // What the line tells one to do is enough.
    conn.query_drop("CREATE DATABASE performance_schema").unwrap();
    assert_eq!(one(&mut conn, "SHOW TABLES FROM performance_schema LIKE 'threads'"), "threads");
    assert_eq!(status(&server, "tables"), "ON");
    assert!(server.stop().unwrap().1.success());
    server.resume().unwrap();
    assert_eq!(one(&mut server.client().unwrap(), "SELECT @@performance_schema"), "1");
    assert_eq!(on_disk(&server), ["db.opt"]);
}

#[test]
fn somebody_elses_file_is_left_alone_and_named() {
    let mut server = Server::start(crate::settings(TestProvider::tare())).unwrap();
    server.stop().unwrap();
    std::fs::write(server.data().join("performance_schema/users.frm"), "own").unwrap();
    server.resume().unwrap();
    let told = "performance_schema.users is somebody else's file, left alone";
    assert_eq!(server.log().matches(told).count(), 1, "{}", server.log());
    let mut conn = server.client().unwrap();
    assert!(conn.query_drop("SELECT * FROM performance_schema.users").is_err(), "it is no definition");
    assert_eq!(on_disk(&server), ["db.opt", "users.frm"]);
}

/// Reading tables opens their files; to the instrumentation, as with the built-in, there are none.
#[test]
fn the_files_are_no_files_to_the_instrumentation() {
    if crate::without_federated() {
        return;
    }
    let server = Server::start(crate::settings(TestProvider::tare())).unwrap();
    let mut conn = server.client().unwrap();
    let named = "SELECT count(*) FROM performance_schema.file_instances WHERE file_name LIKE \
                 '%/performance_schema/%.frm'";
    for round in 0..2 {
        for table in ["threads", "users", "global_status"] {
            conn.query_drop(format!("SELECT * FROM performance_schema.{table}")).unwrap();
        }
        assert_eq!(one(&mut conn, named), "0", "round {round}");
        conn.query_drop("FLUSH TABLES").unwrap();
    }
    // An opening that found nothing, as the built-in counts it: no reads, no closing.
    conn.query_drop("SELECT 1 FROM performance_schema.file_summary_by_event_name LIMIT 1").unwrap();
    let reads = "SELECT count_read, count_misc FROM performance_schema.file_summary_by_event_name WHERE event_name = \
                 'wait/io/file/sql/FRM'";
    let mut counts = || conn.query_first::<(u64, u64), _>(reads).unwrap().unwrap();
    let before = counts();
    server.client().unwrap().query_drop("SELECT 1 FROM performance_schema.hosts LIMIT 1").unwrap();
    let after = counts();
    assert_eq!((after.0 - before.0, after.1 - before.1), (0, 1), "{before:?} {after:?}");
}
