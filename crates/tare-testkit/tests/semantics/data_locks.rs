//! Locks on data in the shape `extended`: InnoDB spells their tables for the session that looks, and all are
//! told the same.

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::shared_turn;
use tare_testkit::subject::TestProvider;

use crate::until;

/// Tables whose names take quotes, some of them only at times, and one that is partitioned.
const TABLES: [&str; 5] =
    ["`a b`.`order`", "`a b`.`back``quote`", "`a b`.`double\"quote`", "plain.t", "plain.parted"];

/// What a session may set that InnoDB goes by.
const SESSIONS: [&str; 7] = [
    "SET @nothing = 1",
    "SET sql_mode = 'ANSI_QUOTES'",
    "SET sql_mode = 'ORACLE'",
    "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
    "SET sql_quote_show_create = 0",
    "SET sql_quote_show_create = 0, sql_mode = 'ANSI_QUOTES'",
    "SET lc_messages = 'es_ES'",
];

/// OBJECT_SCHEMA, OBJECT_NAME, PARTITION_NAME, SUBPARTITION_NAME.
type NamedLock = (String, String, Option<String>, Option<String>);

fn named(schema: &str, table: &str, parts: Option<(&str, &str)>) -> NamedLock {
    let part = |of: fn((&str, &str)) -> String| parts.map(of);
    (schema.to_owned(), table.to_owned(), part(|it| it.0.to_owned()), part(|it| it.1.to_owned()))
}

fn make_tables(server: &Server) {
    let mut conn = server.client().unwrap();
    for sql in ["CREATE DATABASE `a b`", "CREATE DATABASE plain"] {
        conn.query_drop(sql).unwrap();
    }
    for table in TABLES {
        let partitions = match table {
            "plain.parted" => {
                "PARTITION BY RANGE (k) SUBPARTITION BY HASH (k) \
                 (PARTITION p0 VALUES LESS THAN MAXVALUE (SUBPARTITION s0, SUBPARTITION s1))"
            }
            _ => "",
        };
        conn.query_drop(format!("CREATE TABLE {table} (k INT PRIMARY KEY) ENGINE=InnoDB {partitions}"))
            .unwrap();
        conn.query_drop(format!("INSERT INTO {table} VALUES (1)")).unwrap();
    }
}

/// What a session that has set something sees.
fn seen(conn: &mut Conn) -> Vec<NamedLock> {
    let sql = "SELECT OBJECT_SCHEMA, OBJECT_NAME, PARTITION_NAME, SUBPARTITION_NAME FROM performance_schema.data_locks \
               WHERE LOCK_TYPE = 'RECORD' ORDER BY 1, 2";
    conn.query(sql).unwrap()
}

#[test]
fn locks_on_data_are_named_alike_however_a_session_quotes() {
    let _turn = shared_turn();
    if !TestProvider::under_test().is_tare() {
        println!("skipped: the built-in has no such table");
        return;
    }
    let settings = StartSettings::new(TestProvider::under_test()).tare_option("shape", "extended");
    let Some(server) = Server::start(settings).unwrap().on_its_port() else { return };
    make_tables(&server);
    // Everybody waits for one row of each table, which one transaction holds.
    let lock = |table: &str| format!("SELECT k FROM {table} WHERE k = 1 FOR UPDATE");
    let mut holder = server.client().unwrap();
    holder.query_drop("BEGIN").unwrap();
    TABLES.into_iter().for_each(|table| holder.query_drop(lock(table)).unwrap());
    let waiters = TABLES.map(|table| (server.client().unwrap(), lock(table)));
    let expected = [
        named("a b", "back`quote", None),
        named("a b", "double\"quote", None),
        named("a b", "order", None),
        named("plain", "parted", Some(("p0", "s1"))),
        named("plain", "t", None),
    ];
    let expected: Vec<NamedLock> = expected.into_iter().flat_map(|it| [it.clone(), it]).collect();
    let results = std::thread::scope(|scope| {
        for (mut conn, sql) in waiters {
            scope.spawn(move || conn.query_drop(sql).unwrap());
        }
        let look = |set: &str| {
            let mut conn = server.client().unwrap();
            conn.query_drop(set).unwrap();
            until(|| seen(&mut conn), |rows| rows.len() == expected.len())
        };
        let results = SESSIONS.map(look);
        holder.query_drop("ROLLBACK").unwrap();
        results
    });
    for (set, rows) in SESSIONS.into_iter().zip(results) {
        assert_eq!(rows, expected, "{set}");
    }
}
