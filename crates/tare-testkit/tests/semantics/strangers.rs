//! A FEDERATED table of one's own does not lead round the grants.

use std::process::Command;

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::server::{Server, Settings};
use tare_testkit::subject::Provider;
use tare_testkit::turn;

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
    let server = Server::start(Settings::new(Provider::tare())).unwrap();
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

/// Installs the file of `setup_actors` in the guest's schema, with other bytes in the place of some.
fn plant(server: &Server, name: &str, from: &str, to: &str) {
    let planted = server.data().join(format!("own/{name}.frm"));
    let source = server.data().join("performance_schema/setup_actors.frm");
    // With its owner.
    let copied = Command::new("cp").arg("-a").args([&source, &planted]).status().unwrap();
    assert!(copied.success());
    let mut file = std::fs::read(&planted).unwrap();
    let at = file.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
    file[at..at + from.len()].copy_from_slice(to.as_bytes());
    std::fs::write(planted, file).unwrap();
}

#[test]
fn a_table_of_ones_own_neither_reads_nor_writes() {
    let _turn = turn();
    let Some((server, mut admin, mut guest)) = server_and_guest() else { return };
    let [actors, users] = ["setup_actors", "users"].map(|table| connection(&mut admin, table));
    let before: Vec<mysql::Row> = admin.query("SELECT * FROM performance_schema.setup_actors").unwrap();
    let own_name = actors.rsplit_once('-').unwrap().0;

    // Such a table cannot even be made ...
    let address = "127.84.65.82:16969/performance_schema";
    for (connection, code) in [
        (format!("mysql://{address}/setup_actors"), 1432),
        (own_name.to_owned(), 1434),
        (format!("{own_name}-"), 1434),
        (format!("{own_name}-{}", "0".repeat(SECRET)), 1434),
        (format!("{own_name}-{}", secret(&users)), 1434),
        (format!("mysql://root@{address}/setup_actors"), 1434),
        (format!("mysql://{}@{address}/setup_actors", secret(&users)), 1434),
    ] {
        let sql = format!("CREATE TABLE t ({COLUMNS}) ENGINE=FEDERATED CONNECTION='{connection}'");
        let (found, text) = error(&mut guest, &sql).unwrap();
        assert_eq!(found, code, "{connection}: {text}");
        assert!(!text.contains(secret(&actors)), "{text}");
    }
    // ... and if it were there, it would lead nowhere.
    let zeros = "0".repeat(SECRET);
    plant(&server, "guessed", secret(&actors), &zeros);
    plant(&server, "anothers", secret(&actors), secret(&users));
    plant(&server, "nobodys", "//tare@", "//none@");
    plant(&server, "unknown", &format!("setup_actors-{}", secret(&actors)), &format!("setup_actors/{zeros}"));
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

    // What keeps the others out is the name: who has it comes in, as any user of FEDERATED's. Such a table would write in a
    // transaction, which is refused: see `sessions`.
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
    // Who may not read a table, or drop it, may not see its name either.
    let tables = "SELECT table_name FROM information_schema.tables \
                  WHERE table_schema = 'performance_schema' AND engine = 'FEDERATED'";
    let tables: Vec<String> = admin.query(tables).unwrap();
    for table in &tables {
        let (code, _) = error(&mut guest, &format!("SHOW CREATE TABLE performance_schema.{table}")).unwrap();
        assert_eq!(code, 1142);
    }
    for (privilege, shown) in [("SELECT (USER)", false), ("SELECT", true), ("DROP", true)] {
        admin.query_drop("CREATE OR REPLACE USER visitor@localhost").unwrap();
        admin
            .query_drop(format!("GRANT {privilege} ON performance_schema.users TO visitor@localhost"))
            .unwrap();
        let mut visitor = Conn::new(server.client_options().user(Some("visitor"))).unwrap();
        let refusal = error(&mut visitor, "SHOW CREATE TABLE performance_schema.users");
        assert_eq!(refusal.is_none(), shown, "{privilege}: {refusal:?}");
        assert!(error(&mut visitor, "SHOW CREATE TABLE performance_schema.hosts").is_some());
    }
    // A process of the server's own user names tables as they are.
    let mut direct = server.endpoint_schema().unwrap();
    assert!(!direct.rows("setup_actors").unwrap().is_empty());
    assert_eq!(refused(direct.rows("setup_actors-0").map(drop)), Some(1146));
}

#[test]
fn names_outlive_a_crash_and_change_with_a_clean_start() {
    let _turn = turn();
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
    let first = secrets(&mut admin);
    let mut distinct = first.clone();
    distinct.sort();
    distinct.dedup();
    assert!(first.len() > 60 && distinct.len() == first.len(), "one for each table: {}", distinct.len());
    read(&mut admin);

    server.kill();
    server.resume().unwrap();
    let mut admin = server.client().unwrap();
    assert_eq!(secrets(&mut admin), first);
    read(&mut admin);

    server.stop().unwrap();
    server.resume().unwrap();
    let mut admin = server.client().unwrap();
    let third = secrets(&mut admin);
    assert!(third.len() == first.len() && third.iter().all(|secret| !first.contains(secret)));
    read(&mut admin);
}
