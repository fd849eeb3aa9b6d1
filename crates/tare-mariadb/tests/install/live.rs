//! Installed tables at work: one server holds them, another one, with the built-in Performance Schema, is their far end.

use std::net::{SocketAddrV4, TcpListener};

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_mariadb::install::{self, Definition};
use tare_tables::{Access, Shape, Table};
use tare_testkit::server::Server;
use tare_testkit::subject::Provider;

use crate::reference;

/// A server with the built-in that answers on a loopback port and remembers what it was asked.
fn far() -> (Server, SocketAddrV4) {
    let address = match TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap() {
        std::net::SocketAddr::V4(address) => address,
        std::net::SocketAddr::V6(address) => panic!("{address}"),
    };
    let settings = crate::settings(Provider::BuiltIn)
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
    let near = Server::start(crate::settings(Provider::Off)).unwrap();
    let mut near_conn = near.client().unwrap();

    let mut tables = reference::tables(&mut far_conn);
    tables.retain(|table| ["threads", "setup_consumers", "events_waits_history"].contains(&table.name));
    for table in &mut tables {
        table.indexes = &[&[0]];
        table.access = if table.name == "events_waits_history" { Access::Truncate } else { Access::Update };
    }
    let all: Vec<&dyn Table> = tables.iter().map(|table| table as &dyn Table).collect();
    install::install(&near.data(), &all, address).unwrap();
    for table in &all {
        // A stock far end knows the tables by their own names only.
        let connection = format!("mysql://tare@{address}/performance_schema/{}", table.name());
        let image = install::write(&Definition::of(*table, &connection, install::COMMENT)).unwrap();
        let file = near.data().join(format!("performance_schema/{}.frm", table.name()));
        std::fs::write(file, image).unwrap();
    }

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

#[test]
fn a_server_without_plugin_and_provider_is_unharmed_by_leftovers() {
    let mut server = Server::start(crate::settings(Provider::Off).option("--plugin-load=")).unwrap();
    let tables: Vec<&dyn Table> = tare_tables::TABLES.iter().map(|table| *table as &dyn Table).collect();
    let mut conn = server.client().unwrap();
    conn.query_drop("CREATE TABLE mysql.own (a INT) ENGINE=InnoDB").unwrap();
    conn.query_drop("INSERT INTO mysql.own VALUES (1)").unwrap();
    install::install(&server.data(), &tables, install::federated::ENDPOINT).unwrap();
    server.kill();
    server.resume().unwrap();

    let mut conn = server.client().unwrap();
    assert_eq!(one(&mut conn, "SELECT count(*) FROM mysql.own"), "1");
    let error = conn.query_drop("SELECT * FROM performance_schema.threads").unwrap_err().to_string();
    assert!(error.contains("1286"), "{error}");
    let listed = |kind: &str| format!("SELECT count(*) FROM information_schema.tables WHERE {kind}");
    let federated = one(&mut conn, &listed("engine='FEDERATED'"));
    let served = Shape::Strict.served().len();
    assert_eq!(federated, served.to_string());
    let views = one(&mut conn, &listed("table_type='VIEW' AND table_schema='performance_schema'"));
    assert_eq!(views, (tables.len() - served).to_string());

    assert_eq!(install::remove(&server.data()).unwrap().len(), tables.len());
    assert_eq!(one(&mut conn, "SELECT count(*) FROM performance_schema.threads"), "0");
    assert!(server.stop().unwrap().1.success());
    let left: Vec<String> = std::fs::read_dir(server.data().join("performance_schema"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(left, ["db.opt"]);
}

/// As `tare tables remove` and `tare tables install` do it, while the server has tables open.
#[test]
fn tables_installed_anew_are_served_with_and_without_a_flush() {
    if crate::without_federated() {
        return;
    }
    let server = Server::start(crate::settings(Provider::tare())).unwrap();
    let mut conn = server.client().unwrap();
    let read = "SELECT count(*) > 5 FROM performance_schema.threads";
    let update =
        "UPDATE performance_schema.setup_consumers SET enabled='NO' WHERE name='events_waits_history'";
    assert_eq!(one(&mut conn, read), "1");
    for _ in 0..3 {
        install::remove(&server.data()).unwrap();
        let report =
            install::install(&server.data(), tare_tables::TABLES, install::federated::ENDPOINT).unwrap();
        assert_eq!(report.written.len(), tare_tables::TABLES.len());
        // What the server has open, it asks for by the name of before.
        assert_eq!(one(&mut conn, read), "1");
        conn.query_drop(update).unwrap();
        conn.query_drop("FLUSH TABLES").unwrap();
        assert_eq!(one(&mut conn, read), "1");
        conn.query_drop(update).unwrap();
    }
    let report = install::install(&server.data(), tare_tables::TABLES, install::federated::ENDPOINT).unwrap();
    assert_eq!(report.unchanged.len(), tare_tables::TABLES.len());
}
