//! A FEDERATED table of one's own does not lead round the grants.

use std::net::TcpListener;

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::eventually;
use tare_testkit::server::{LIMIT, Server, StartSettings};
use tare_testkit::shared_turn;
use tare_testkit::subject::TestProvider;

use crate::{error, refused};

/// Characters of the secret a connect string ends in.
const SECRET: usize = 32;

fn one(conn: &mut Conn, sql: &str) -> String {
    let value: Option<Option<String>> = conn.query_first(sql).unwrap();
    value.flatten().unwrap_or_default()
}

/// The connect string of an installed table, as its owner sees it.
fn connection(conn: &mut Conn, table: &str) -> String {
    let shown: Option<(String, String)> =
        conn.query_first(format!("SHOW CREATE TABLE performance_schema.{table}")).unwrap();
    let (_, connection) = shown.as_ref().unwrap().1.rsplit_once("CONNECTION='").unwrap();
    connection.trim_end_matches('\'').to_owned()
}

fn secret(connection: &str) -> &str {
    &connection[connection.len() - SECRET..]
}

/// A server with an account that may do everything with a schema of its own, and nothing else.
fn server_and_guest() -> Option<(Server, Conn, Conn)> {
    // A port of its own, for tables that lead back to it. Between here and the server's start somebody else
    // may take it.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = StartSettings::new(TestProvider::tare())
        .option("--skip-networking=OFF")
        .option("--bind-address=127.0.0.1")
        .option(format!("--port={port}"));
    let server = Server::start(settings).unwrap();
    if !server.serves_tables() {
        println!("skipped: without FEDERATED there is no way from SQL to the endpoint");
        return None;
    }
    let mut admin = server.client().unwrap();
    for sql in ["CREATE DATABASE own", "CREATE USER guest@localhost", "GRANT ALL ON own.* TO guest@localhost"]
    {
        admin.query_drop(sql).unwrap();
    }
    let guest = Conn::new(server.client_options().user(Some("guest")).db_name(Some("own"))).unwrap();
    Some((server, admin, guest))
}

const COLUMNS: &str = "HOST char(60) NOT NULL, USER char(128) NOT NULL, ROLE char(128) NOT NULL, \
                       ENABLED enum('YES','NO') NOT NULL, HISTORY enum('YES','NO') NOT NULL";

/// Puts a table like `setup_actors` with this connection into the guest's schema. None can be made, so its
/// file is changed afterwards: at first the table leads to one in the same schema.
fn plant(server: &Server, admin: &mut Conn, name: &str, connection: &str) {
    let port = one(admin, "SELECT @@port");
    let source = |password: &str| format!("mysql://planter:{password}@127.0.0.1:{port}/own/source");
    let password = "p".repeat(connection.len() - source("").len());
    let source = source(&password);
    for sql in [
        &format!("CREATE OR REPLACE USER planter@127.0.0.1 IDENTIFIED BY '{password}'"),
        "GRANT ALL ON own.* TO planter@127.0.0.1",
        &format!("CREATE OR REPLACE TABLE own.source ({COLUMNS})"),
        &format!("CREATE TABLE own.{name} ({COLUMNS}) ENGINE=FEDERATED CONNECTION='{source}'"),
        "FLUSH TABLES",
    ] {
        admin.query_drop(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
    let planted = server.data().join(format!("own/{name}.frm"));
    let mut file = std::fs::read(&planted).unwrap();
    let at = file.windows(source.len()).position(|part| part == source.as_bytes()).unwrap();
    file[at..at + source.len()].copy_from_slice(connection.as_bytes());
    std::fs::write(planted, file).unwrap();
}

#[test]
fn a_table_of_ones_own_neither_reads_nor_writes() {
    let _turn = shared_turn();
    let Some((server, mut admin, mut guest)) = server_and_guest() else { return };
    let [actors, users] = ["setup_actors", "users"].map(|table| connection(&mut admin, table));
    let before: Vec<mysql::Row> = admin.query("SELECT * FROM performance_schema.setup_actors").unwrap();
    let own_name = actors.rsplit_once('-').unwrap().0;

    // In the first moments after the start-up an error is FederatedX's own.
    let probe = format!("CREATE TABLE t ({COLUMNS}) ENGINE=FEDERATED CONNECTION='{actors}'");
    eventually("its errors become the endpoint's", LIMIT, || error(&mut guest, &probe).unwrap().0 != 1434);
    // Such a table cannot even be made ...
    let address = "127.84.65.82:16969/performance_schema";
    for (connection, code) in [
        (format!("mysql://{address}/setup_actors"), 1432),
        (own_name.to_owned(), 1005),
        (format!("{own_name}-"), 1005),
        (format!("{own_name}-{}", "0".repeat(SECRET)), 1005),
        (format!("{own_name}-{}", secret(&users)), 1005),
        // ... not by who has learnt a table's name either ...
        (actors.clone(), 1005),
        (users.clone(), 1005),
        (format!("mysql://root@{address}/setup_actors"), 1434),
        (format!("mysql://{}@{address}/setup_actors", secret(&users)), 1434),
    ] {
        let sql = format!("CREATE TABLE t ({COLUMNS}) ENGINE=FEDERATED CONNECTION='{connection}'");
        let (found, text) = error(&mut guest, &sql).unwrap();
        assert_eq!(found, code, "{connection}: {text}");
        assert!(!text.contains(secret(&actors)), "{text}");
    }
    // ... nor is it told what columns it would have ...
    let sql = format!("CREATE TABLE t ENGINE=FEDERATED CONNECTION='{actors}'");
    let (found, text) = error(&mut guest, &sql).unwrap();
    assert!(found == 1429 && text.contains("like one of performance_schema"), "{found}: {text}");
    // ... and if it were there, it would lead nowhere.
    let zeros = "0".repeat(SECRET);
    let known = format!("setup_actors-{}", secret(&actors));
    for (name, from, to) in [
        ("guessed", secret(&actors), zeros.as_str()),
        ("anothers", secret(&actors), secret(&users)),
        ("nobodys", "//tare@", "//none@"),
        ("unknown", &known, &format!("setup_actors/{zeros}")),
    ] {
        plant(&server, &mut admin, name, &actors.replacen(from, to, 1));
    }
    let statements = |table: &str| {
        [
            format!("SELECT * FROM {table}"),
            format!("SELECT * FROM {table} WHERE HOST = '%'"),
            format!("INSERT INTO {table} VALUES ('h', 'u', '%', 'NO', 'NO')"),
            format!("UPDATE {table} SET ENABLED = 'NO'"),
            format!("DELETE FROM {table}"),
            format!("TRUNCATE TABLE {table}"),
        ]
    };
    let writes = |sql: &str| ["INSERT", "UPDATE", "DELETE"].iter().any(|verb| sql.starts_with(verb));
    for sql in ["guessed", "anothers"].iter().flat_map(|table| statements(table)) {
        let (code, text) = error(&mut guest, &sql).unwrap();
        // A write begins with a transaction, which is refused before anybody asks for the name.
        let (refusal, words) =
            if writes(&sql) { (1235, "Transactions are not") } else { (1045, "Access denied: only the") };
        assert_eq!(code, refusal, "{sql}: {text}");
        assert!(text.starts_with(words), "{text}");
        assert!(!text.contains(secret(&actors)) && !text.contains(secret(&users)), "{text}");
    }
    for sql in statements("unknown") {
        assert!(error(&mut guest, &sql).is_some(), "{sql}");
    }
    let after: Vec<mysql::Row> = admin.query("SELECT * FROM performance_schema.setup_actors").unwrap();
    assert_eq!(format!("{after:?}"), format!("{before:?}"));

    // What keeps the others out is the name: who has it comes in, as any user of FEDERATED's. Such a table
    // would write in a transaction, which is refused: see `sessions`.
    assert_eq!(one(&mut guest, "SELECT HOST FROM nobodys LIMIT 1"), "%");
    for sql in statements("nobodys").iter().filter(|sql| writes(sql) && !sql.starts_with("DELETE")) {
        for begin in ["SET autocommit = 1", "SET autocommit = 0"] {
            guest.query_drop(begin).unwrap();
            let (code, text) = error(&mut guest, sql).unwrap();
            assert_eq!(code, 1235, "{sql}: {text}");
            admin.query_drop("FLUSH TABLES").unwrap();
        }
        guest.query_drop("COMMIT").unwrap();
    }
    guest.query_drop("SET autocommit = 1").unwrap();
    let after: Vec<mysql::Row> = admin.query("SELECT * FROM performance_schema.setup_actors").unwrap();
    assert_eq!(format!("{after:?}"), format!("{before:?}"));
    // A process of the server's own user names tables as they are.
    let mut direct = server.endpoint_schema().unwrap();
    assert!(!direct.rows("setup_actors").unwrap().is_empty());
    assert_eq!(refused(direct.rows("setup_actors-0").map(drop)), Some(1146));
}

/// SAFETY.md, *Who may ask*, says what this test does.
#[test]
fn the_name_is_shown_to_whom_safety_md_says() {
    let _turn = shared_turn();
    let Some((server, mut admin, mut guest)) = server_and_guest() else { return };
    let tables = "SELECT table_name FROM information_schema.tables \
                  WHERE table_schema = 'performance_schema' AND engine = 'FEDERATED'";
    let tables: Vec<String> = admin.query(tables).unwrap();
    assert!(tables.len() > 60);
    for table in &tables {
        let (code, _) = error(&mut guest, &format!("SHOW CREATE TABLE performance_schema.{table}")).unwrap();
        assert_eq!(code, 1142);
    }
    let mut shown = |grant: &str, table: &str| {
        admin.query_drop("CREATE OR REPLACE USER visitor@localhost").unwrap();
        let (privileges, option) =
            grant.split_once(" WITH ").map_or((grant, ""), |(it, _)| (it, "WITH GRANT OPTION"));
        admin.query_drop(format!("GRANT {privileges} TO visitor@localhost {option}")).unwrap();
        let mut visitor = Conn::new(server.client_options().user(Some("visitor"))).unwrap();
        error(&mut visitor, &format!("SHOW CREATE TABLE performance_schema.{table}")).is_none()
    };
    // Whatever one can be granted on a table; what the built-in lets nobody do with it opens nothing.
    for (table, privileges) in [
        ("users", vec!["SELECT", "CREATE", "DROP"]),
        ("setup_consumers", vec!["SELECT", "CREATE", "DROP", "UPDATE"]),
        ("setup_actors", vec!["SELECT", "CREATE", "DROP", "UPDATE", "INSERT", "DELETE"]),
    ] {
        for on in [&format!("performance_schema.{table}"), "performance_schema.*", "*.*"] {
            for privilege in &privileges {
                assert!(shown(&format!("{privilege} ON {on}"), table), "{privilege} ON {on}, of {table}");
            }
            assert!(
                shown(&format!("USAGE ON {on} WITH GRANT OPTION"), table),
                "GRANT OPTION ON {on}, of {table}"
            );
            assert!(!shown(&format!("USAGE ON {on}"), table), "USAGE ON {on}, of {table}");
        }
        for privilege in
            ["UPDATE", "INSERT", "DELETE", "ALTER", "INDEX", "REFERENCES", "TRIGGER", "LOCK TABLES"]
        {
            let expected = privileges.contains(&privilege);
            assert_eq!(
                shown(&format!("{privilege} ON *.*"), table),
                expected,
                "{privilege} ON *.*, of {table}"
            );
        }
        for privilege in ["PROCESS", "SUPER", "FILE", "SHOW DATABASES", "RELOAD", "CREATE USER"] {
            assert!(!shown(&format!("{privilege} ON *.*"), table), "{privilege}, of {table}");
        }
    }
    for other in [
        "SELECT (USER) ON performance_schema.users",
        "SELECT ON performance_schema.hosts",
        "UPDATE ON performance_schema.setup_consumers",
    ] {
        assert!(!shown(other, "users"), "{other}");
    }
    // No file holds it that FILE could read.
    for path in ["performance_schema/users.frm", "./performance_schema/users.frm"] {
        assert_eq!(one(&mut admin, &format!("SELECT LENGTH(LOAD_FILE('{path}'))")), "");
        assert!(error(&mut admin, &format!("LOAD DATA INFILE '{path}' INTO TABLE own.t")).is_some());
    }
}

#[test]
fn names_change_with_every_start() {
    let _turn = shared_turn();
    let Some((mut server, mut admin, _)) = server_and_guest() else { return };
    let secrets = |conn: &mut Conn| {
        let tables = "SELECT table_name FROM information_schema.tables \
                      WHERE table_schema = 'performance_schema' AND engine = 'FEDERATED' ORDER BY 1";
        let tables: Vec<String> = conn.query(tables).unwrap();
        tables.iter().map(|table| secret(&connection(conn, table)).to_owned()).collect::<Vec<_>>()
    };
    let read = |conn: &mut Conn| {
        assert_ne!(one(conn, "SELECT COUNT(*) FROM performance_schema.threads"), "0");
        conn.query_drop(
            "UPDATE performance_schema.setup_consumers SET ENABLED = 'NO' WHERE NAME LIKE '%long'",
        )
        .unwrap();
        conn.query_drop("TRUNCATE TABLE performance_schema.events_waits_history").unwrap();
    };
    let mut seen = secrets(&mut admin);
    let tables = seen.len();
    assert!(tables > 60, "{tables}");
    // A table of one's own that knows the name, from before.
    let known = connection(&mut admin, "setup_actors");
    plant(&server, &mut admin, "known", &known);
    read(&mut admin);
    assert_eq!(one(&mut admin, "SELECT HOST FROM own.known LIMIT 1"), "%");

    for crash in [true, false] {
        if crash {
            server.kill();
        } else {
            server.stop().unwrap();
        }
        server.resume().unwrap();
        let mut admin = server.client().unwrap();
        seen.extend(secrets(&mut admin));
        read(&mut admin);
        let (code, text) = error(&mut admin, "SELECT HOST FROM own.known").unwrap();
        assert!(code != 0 && !text.is_empty(), "{code}: {text}");
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 3 * tables, "one for each table, at each start");
}

/// Nobody asks at tare's address when no tare answers there.
#[test]
fn without_tare_no_table_leads_to_its_address() {
    let _turn = shared_turn();
    let Some((mut server, admin, _)) = server_and_guest() else { return };
    drop(admin);
    let listener = std::net::TcpListener::bind(("127.84.65.82", 16969)).unwrap();
    listener.set_nonblocking(true).unwrap();
    server.kill();
    for provider in [TestProvider::Off, TestProvider::BuiltIn] {
        server.settings = StartSettings::new(provider);
        server.resume().unwrap();
        let mut conn = server.client().unwrap();
        let tables: Vec<String> = conn.query("SHOW TABLES FROM performance_schema").unwrap();
        for table in tables {
            conn.query_drop(format!("SELECT 1 FROM performance_schema.`{table}` LIMIT 1")).unwrap();
        }
        conn.query_drop("SELECT * FROM information_schema.tables").unwrap();
        server.stop().unwrap();
    }
    assert!(listener.accept().is_err(), "somebody asked");
}

/// Servers under one account of the system are strangers to each other: whoever may use one need not be
/// anybody at the other.
#[test]
fn a_table_of_another_server_does_not_lead_here() {
    let _turn = shared_turn();
    let start = || Server::start(StartSettings::new(TestProvider::tare())).unwrap();
    let (Some(server), Some(other)) = (start().on_its_port(), start().on_its_port()) else { return };
    let mut conn = other.client().unwrap();
    conn.query_drop("CREATE DATABASE own").unwrap();
    let mut lead = |name: &str, user: &str, socket: &std::path::Path| {
        let options = format!(
            "HOST 'localhost', SOCKET '{}', USER '{user}', DATABASE 'performance_schema'",
            socket.display()
        );
        conn.query_drop(format!("CREATE SERVER {name} FOREIGN DATA WRAPPER mysql OPTIONS ({options})"))
            .unwrap();
        error(
            &mut conn,
            &format!("CREATE TABLE own.{name} ({COLUMNS}) ENGINE=FEDERATED CONNECTION='{name}/setup_actors'"),
        )
    };
    assert_eq!(lead("by_account", "root", &server.socket()), None, "an account of its own may");
    let refused = lead("by_tare", "tare", &server.endpoint());
    assert_eq!(refused.map(|(code, _)| code), Some(1434), "the endpoint answers another server's sessions");
}
