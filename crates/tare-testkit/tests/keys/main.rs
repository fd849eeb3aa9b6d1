//! Keys find their rows, whatever a name holds and whatever the session's sql_mode is.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

mod reads;
mod writes;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use tare_server::sql;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;

/// Names that mean more than themselves in a pattern or in a literal, and names that such a pattern would
/// find. `{64}` is as long as a name may be.
const NAMES: [&str; 22] = [
    "a_1", "a-1", "a01", "a_1x", "A_1", "a%1", "%a", "a\\1", "a\\_1", "a'1", "a\"1", "a 1", " a", "a.1",
    "a`1", "á_1", "漢字", "app", "app2", "_", "{64}", "{64_}",
];

/// Where sessions read them in another way.
const MODES: [&str; 5] = [
    "",
    "PAD_CHAR_TO_FULL_LENGTH",
    "NO_BACKSLASH_ESCAPES",
    "ANSI_QUOTES",
    "ANSI,PAD_CHAR_TO_FULL_LENGTH,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES",
];

fn names() -> impl Iterator<Item = String> {
    let long = |name: &str| match name {
        "{64}" => "n".repeat(64),
        "{64_}" => format!("{}_", "n".repeat(63)),
        name => name.to_owned(),
    };
    NAMES.into_iter().map(long)
}

/// A string literal, as a session of this sql_mode reads it.
fn literal(text: &str, mode: &str) -> String {
    let quoted = sql::literal(text);
    if mode.contains("NO_BACKSLASH") { quoted.replace(r"\\", r"\") } else { quoted }
}

/// A server with such names in every table it can have them in, which now changes no more; and the sessions
/// that bear them.
fn server_of_names() -> Option<(Server, Conn, Vec<Conn>)> {
    let settings = StartSettings::new(TestProvider::tare()).option("--table-definition-cache=4000");
    let server = Server::start(settings).unwrap().on_its_port()?;
    let mut conn = server.client().unwrap();
    // Whoever has no account of that name is this one, and bears the name.
    for sql in ["CREATE USER ''@localhost", "GRANT ALL ON *.* TO ''@localhost", "CREATE DATABASE own"] {
        conn.query_drop(sql).unwrap();
    }
    for (number, name) in names().enumerate() {
        let (quoted, literal) = (sql::identifier(&name), literal(&name, ""));
        for sql in [
            format!("CREATE DATABASE {quoted}"),
            format!("CREATE TABLE {quoted}.orders (a INT PRIMARY KEY, KEY {quoted} (a))"),
            format!("CREATE TABLE own.{quoted} (a INT PRIMARY KEY)"),
            format!("CREATE PROCEDURE {quoted}.p() SELECT {number}"),
            format!("CREATE PROCEDURE IF NOT EXISTS own.{quoted}() SELECT {number}"),
            format!("CALL {quoted}.p()"),
            format!("CALL own.{quoted}()"),
            format!("SELECT * FROM {quoted}.orders"),
            format!("SELECT * FROM own.{quoted}"),
            format!(
                "INSERT INTO performance_schema.setup_objects VALUES ('TABLE', {literal}, 'orders', 'YES', 'YES')"
            ),
            format!(
                "INSERT INTO performance_schema.setup_objects VALUES ('EVENT', 'own', {literal}, 'YES', 'YES')"
            ),
            format!("INSERT INTO performance_schema.setup_actors VALUES ({literal}, 'x', '%', 'YES', 'YES')"),
            format!("INSERT INTO performance_schema.setup_actors VALUES ('%', {literal}, '%', 'YES', 'YES')"),
            format!("SET @{quoted} = {number}"),
            format!("PREPARE {quoted} FROM 'SELECT {number}'"),
        ] {
            conn.query_drop(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }
    conn.query_drop("INSERT INTO performance_schema.setup_objects VALUES ('EVENT', 'own', '', 'YES', 'YES')")
        .unwrap();
    // Each makes a row more for every instrument.
    let bearers = ["a_1", "a-1", "a01", "a_1x", "A_1", "a%1", "a\\1", "a'1", "app", "app2", "", "😀"];
    let open =
        bearers.map(str::to_owned).into_iter().chain(names().filter(|name| name.len() == 64)).enumerate();
    let open = open.map(|(number, name)| session(&server, &name, number)).collect();
    conn.query_drop(
        "UPDATE performance_schema.setup_consumers SET ENABLED = 'NO' WHERE NAME = 'global_instrumentation'",
    )
    .unwrap();
    Some((server, conn, open))
}

/// A session of this name, in the schema of this name, with an attribute and a lock of it.
fn session(server: &Server, name: &str, number: usize) -> Conn {
    let has_schema = names().any(|known| known == name);
    let attributes = std::collections::HashMap::from([
        (name.chars().take(32).collect::<String>(), format!("{number}")),
        ("program_name".to_owned(), name.to_owned()),
    ]);
    let options: OptsBuilder = server.client_options().user(Some(name)).connect_attrs(Some(attributes));
    let options = if has_schema { options.db_name(Some(name)) } else { options };
    let mut conn = Conn::new(options).unwrap();
    for sql in [
        format!("SET @{} = 1", sql::identifier(if name.is_empty() { "empty" } else { name })),
        format!("DO GET_LOCK({}, 0)", literal(name, "")),
        "SELECT 1 + 1".to_owned(),
    ] {
        // A lock without a name is refused.
        let _done_or_refused = conn.query_drop(sql);
    }
    if has_schema {
        for sql in ["SELECT a FROM orders", "BEGIN", "SELECT MAX(a) FROM orders"] {
            conn.query_drop(sql).unwrap();
        }
    }
    conn
}
