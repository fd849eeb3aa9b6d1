//! The provider in a stock MySQL 9: what it counts, next to what the built-in of the same program counts, and
//! the tables that show it. Without such a server every test says so and does nothing.
#![allow(unreachable_pub)]

mod active;
mod budget;
mod chaos;
mod errors;
mod events;
mod io;
mod killed;
mod memory;
mod oracle;
mod programs;
mod sampled;
mod sessions;
mod settings;
mod socket;
mod tables;
mod tools;

use std::path::PathBuf;

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::mysql_server::Mysql;

/// The provider's library, as Cargo has just built it for this test.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own program");
    let path = test.parent().expect("a folder").join("libtare_mysql.so");
    assert!(path.is_file(), "{} is missing: build the whole package", path.display());
    path
}

/// Starts a server with the provider; `None`, with a message, if there is no such server.
pub fn subject(options: &[&str]) -> Option<Mysql> {
    let server = Mysql::preloaded(&library(), "", options).expect("a server");
    if let Some(server) = &server {
        let lines = lines(server);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].contains("[Note]")
                && lines[0].contains("counts waits, stages, statements, transactions and memory"),
            "{}",
            lines[0]
        );
    }
    server
}

/// The lines of tare's in a server's log.
pub fn lines(server: &Mysql) -> Vec<String> {
    server.log().lines().filter(|line| line.contains(" tare: ")).map(str::to_owned).collect()
}

/// The rows of a statement, each value as text.
pub fn rows(conn: &mut Conn, sql: &str) -> Vec<Vec<Option<String>>> {
    let rows: Vec<mysql::Row> = conn.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let text = |value: mysql::Value| match value {
        mysql::Value::NULL => None,
        mysql::Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => Some(other.as_sql(true)),
    };
    rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()).collect()
}

/// The only value of a statement as a number.
pub fn number(conn: &mut Conn, sql: &str) -> u64 {
    let rows = rows(conn, sql);
    let value = rows.first().and_then(|row| row.first().cloned().flatten());
    value.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{sql}: {rows:?}"))
}
