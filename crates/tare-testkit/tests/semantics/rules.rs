//! The rows of setup_actors and setup_objects come, change and go as with the built-in, and act as it lets
//! them act.

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::schema::SchemaConnection;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::shared_turn;
use tare_testkit::subject::TestProvider;

use crate::{Watched, beside_the_built_in, error, server, until};

/// Writes with sense and without, in an order in which each finds what those before it have left.
const WRITES: &[&str] = &[
    "INSERT INTO setup_actors VALUES ('%', '%', '%', 'YES', 'YES')",
    "INSERT INTO setup_actors (HOST, USER) VALUES ('h', 'u')",
    "INSERT INTO setup_actors VALUES ('h', 'u', '%', 'NO', 'NO')",
    "INSERT INTO setup_actors VALUES ('h', 'u', 'r', 'NO', 'NO')",
    "INSERT INTO setup_actors VALUES ('H', 'u', '%', 'NO', 'NO')",
    "INSERT INTO setup_actors VALUES ('h2', 'u2', '%', 'MAYBE', 'NO')",
    "INSERT INTO setup_actors VALUES ('h2', NULL, '%', 'YES', 'NO')",
    "INSERT INTO setup_actors (HOST, MISSING) VALUES ('h', 'u')",
    "INSERT INTO setup_actors VALUES ('h', 'u')",
    "INSERT INTO setup_actors () VALUES ()",
    "INSERT IGNORE INTO setup_actors VALUES ('h', 'u', '%', 'NO', 'NO')",
    "REPLACE INTO setup_actors VALUES ('h', 'u', '%', 'NO', 'NO')",
    "REPLACE INTO setup_actors VALUES ('new', 'u', '%', 'NO', 'NO')",
    "INSERT INTO setup_actors VALUES ('h', 'u', '%', 'NO', 'NO') ON DUPLICATE KEY UPDATE ENABLED = 'NO'",
    "INSERT INTO setup_actors VALUES ('a', 'a', '%', 'NO', 'NO'), ('b', 'b', '%', 'NO', 'NO'), \
     ('a', 'a', '%', 'NO', 'NO'), ('c', 'c', '%', 'NO', 'NO')",
    "INSERT INTO setup_actors SELECT 's', USER, ROLE, ENABLED, HISTORY FROM setup_actors WHERE USER = 'b'",
    "INSERT INTO setup_actors VALUES (DEFAULT, 'd', DEFAULT, DEFAULT, DEFAULT)",
    "UPDATE setup_actors SET ENABLED = 'NO' WHERE USER = 'u'",
    "UPDATE setup_actors SET USER = 'z' WHERE USER = 'u'",
    "UPDATE setup_actors SET ROLE = 'z'",
    "UPDATE setup_actors SET ENABLED = 'MAYBE' WHERE USER = 'u'",
    "UPDATE setup_actors SET HISTORY = NULL WHERE USER = 'u'",
    "UPDATE setup_actors SET ENABLED = 'YES', HISTORY = 'NO' WHERE HOST = 'h'",
    "DELETE FROM setup_actors WHERE USER = 'b'",
    "DELETE FROM setup_actors WHERE USER = 'nobody'",
    "DELETE FROM setup_actors WHERE HOST = 'a' LIMIT 1",
    "LOCK TABLES setup_actors WRITE",
    "DELETE FROM setup_actors",
    "UNLOCK TABLES",
    "INSERT INTO setup_actors VALUES ('x', 'x', '%', 'YES', 'YES')",
    "TRUNCATE TABLE setup_actors",
    "INSERT INTO setup_actors VALUES ('%', '%', '%', 'YES', 'YES')",
    "INSERT INTO setup_objects VALUES ('TABLE', '%', '%', 'YES', 'YES')",
    "INSERT INTO setup_objects VALUES ('TABLE', 'db', '%', 'NO', 'YES')",
    "INSERT INTO setup_objects VALUES ('TABLE', 'DB', '%', 'NO', 'YES')",
    "INSERT INTO setup_objects VALUES ('TABLE', 'db', 't', 'YES', 'NO')",
    "INSERT INTO setup_objects VALUES ('TABLE', 'db', 'T', 'YES', 'NO')",
    "INSERT INTO setup_objects VALUES ('TABLE', '%', 't', 'NO', 'NO')",
    "INSERT INTO setup_objects VALUES ('TABLE', NULL, 't', 'NO', 'NO')",
    "INSERT INTO setup_objects VALUES ('TABLE', NULL, 't', 'NO', 'NO')",
    "INSERT INTO setup_objects VALUES ('TABLE', '', 't', 'NO', 'NO')",
    "INSERT INTO setup_objects VALUES ('VIEW', 'a', 't', 'NO', 'NO')",
    "INSERT INTO setup_objects (OBJECT_NAME) VALUES ('d')",
    "INSERT INTO setup_objects (OBJECT_TYPE) VALUES ('EVENT')",
    "UPDATE setup_objects SET OBJECT_NAME = 'x' WHERE OBJECT_NAME = 't'",
    "UPDATE setup_objects SET OBJECT_SCHEMA = 'x' WHERE OBJECT_NAME = 't'",
    "UPDATE setup_objects SET OBJECT_TYPE = 'EVENT' WHERE OBJECT_NAME = 't'",
    "UPDATE setup_objects SET ENABLED = 'NO' WHERE OBJECT_NAME = 't'",
    "UPDATE setup_objects SET TIMED = 'YES' WHERE OBJECT_SCHEMA IS NULL",
    "UPDATE setup_objects SET TIMED = 'NO' WHERE BINARY OBJECT_SCHEMA = 'DB'",
    "UPDATE setup_objects SET ENABLED = 'YES' WHERE BINARY OBJECT_NAME = 'T'",
    "DELETE FROM setup_objects WHERE BINARY OBJECT_NAME = 'T'",
    "DELETE FROM setup_objects WHERE OBJECT_SCHEMA IS NULL",
    "DELETE FROM setup_objects WHERE OBJECT_SCHEMA = 'db'",
    "TRUNCATE TABLE setup_objects",
];

/// What each statement ends with, and what is there after it.
fn answers(server: &Server) -> Vec<String> {
    let mut conn = server.client().unwrap();
    conn.query_drop("USE performance_schema").unwrap();
    let mut answer = |sql: &&str| {
        let refused = error(&mut conn, sql)
            .map(|(code, text)| format!("{code} {}", text.split(" at row ").next().unwrap_or_default()));
        let mut rows: Vec<[Option<String>; 5]> = Vec::new();
        for table in ["setup_actors", "setup_objects"] {
            // A session that holds locks reads only what it has locked.
            if let Ok(found) = conn.query::<(
                Option<String>,
                Option<String>,
                Option<String>,
                Option<String>,
                Option<String>,
            ), _>(format!("SELECT * FROM {table}"))
            {
                rows.extend(found.into_iter().map(|(a, b, c, d, e)| [a, b, c, d, e]));
            }
        }
        rows.sort();
        format!("{sql}\n    {refused:?}\n    {rows:?}")
    };
    WRITES.iter().map(&mut answer).collect()
}

#[test]
fn rules_come_change_and_go_as_with_the_built_in() {
    let _turn = shared_turn();
    let Some((expected, subject)) = beside_the_built_in(answers) else { return };
    for (expected, got) in expected.iter().zip(answers(&subject)) {
        assert_eq!(expected, &got);
    }
    assert!(expected.iter().filter(|answer| answer.contains("1022")).count() >= 4, "duplicates are refused");
}

fn run(conn: &mut Conn, sql: &str) {
    conn.query_drop(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
}

/// INSTRUMENTED and HISTORY of a connection's thread.
fn flags(schema: &mut SchemaConnection, watched: &Watched) -> [String; 2] {
    ["INSTRUMENTED", "HISTORY"].map(|column| {
        schema.value("threads", &[("THREAD_ID", &watched.thread)], column).unwrap().unwrap_or_default()
    })
}

#[test]
fn an_account_is_watched_as_the_rules_say_when_it_connects() {
    let _turn = shared_turn();
    let Some(server) = server().on_its_port() else { return };
    let mut schema = server.schema().unwrap();
    let mut admin = server.client().unwrap();
    run(&mut admin, "CREATE USER visitor@localhost");
    let visit = |schema: &mut SchemaConnection| {
        let conn = Conn::new(server.client_options().user(Some("visitor"))).unwrap();
        let thread = schema.thread_of(u64::from(conn.connection_id())).unwrap().unwrap().to_string();
        Watched { conn, thread }
    };
    let select = "statement/sql/select";
    let mut first = visit(&mut schema);
    assert_eq!(flags(&mut schema, &first), ["YES", "YES"]);
    run(
        &mut admin,
        "INSERT INTO performance_schema.setup_actors VALUES ('localhost', 'visitor', '%', 'NO', 'YES')",
    );
    assert_eq!(flags(&mut schema, &first), ["YES", "YES"], "a connection there is stays as it is");
    assert!(first.counted_by(&mut schema, select, "SELECT 1") >= 20);
    let mut second = visit(&mut schema);
    assert_eq!(flags(&mut schema, &second), ["NO", "YES"]);
    assert_eq!(second.counted_by(&mut schema, select, "SELECT 1"), 0);
    run(
        &mut admin,
        "UPDATE performance_schema.setup_actors SET ENABLED = 'YES', HISTORY = 'NO' WHERE USER = 'visitor'",
    );
    let mut third = visit(&mut schema);
    assert_eq!(flags(&mut schema, &third), ["YES", "NO"]);
    assert!(third.counted_by(&mut schema, select, "SELECT 1") >= 20);
    run(&mut admin, "DELETE FROM performance_schema.setup_actors WHERE USER = 'visitor'");
    let fourth = visit(&mut schema);
    assert_eq!(flags(&mut schema, &fourth), ["YES", "YES"], "the rule about everybody decides");
    run(&mut admin, "TRUNCATE TABLE performance_schema.setup_actors");
    let fifth = visit(&mut schema);
    assert_eq!(flags(&mut schema, &fifth), ["NO", "NO"], "no rule is about it");
    // A rule about the user decides before one about the host.
    run(&mut admin, "INSERT INTO performance_schema.setup_actors VALUES ('localhost', '%', '%', 'NO', 'NO')");
    run(&mut admin, "INSERT INTO performance_schema.setup_actors VALUES ('%', 'visitor', '%', 'YES', 'YES')");
    let sixth = visit(&mut schema);
    assert_eq!(flags(&mut schema, &sixth), ["YES", "YES"]);
}

#[test]
fn a_rule_about_an_object_acts_at_once() {
    let _turn = shared_turn();
    let Some(server) = server().on_its_port() else { return };
    let mut schema = server.schema().unwrap();
    let mut admin = server.client().unwrap();
    let mut watched = Watched::connect(&server, &mut schema);
    for sql in [
        "CREATE DATABASE t",
        "CREATE TABLE t.t (a INT PRIMARY KEY)",
        "INSERT INTO t.t VALUES (1)",
        "CREATE PROCEDURE t.P() DO 1",
        "CALL t.p()",
    ] {
        watched.run(sql);
    }
    // Rows read, whether they are timed, and calls of the procedure.
    let mut seen = |schema: &mut SchemaConnection| {
        let filter: &[(&str, &str)] = &[("OBJECT_SCHEMA", "t"), ("OBJECT_NAME", "p")];
        let calls = |schema: &mut SchemaConnection| {
            schema.sum("objects_summary_global_by_type", filter, "COUNT_STAR").unwrap()
        };
        let before = calls(schema);
        schema.truncate("events_waits_history_long").unwrap();
        let rows = watched.counted_by(schema, "wait/io/table/sql/handler", "SELECT * FROM t.t");
        watched.run_often("CALL t.p()", 3);
        let events = schema.long_history("waits", watched.thread.parse().unwrap()).unwrap();
        let mut events = events.iter().filter(|row| row.text("EVENT_NAME") == "wait/io/table/sql/handler");
        let timed = events.any(|row| row.get("TIMER_WAIT").is_some());
        (rows >= 20, timed, calls(schema) - before)
    };
    assert_eq!(seen(&mut schema), (true, true, 3));
    run(&mut admin, "INSERT INTO performance_schema.setup_objects VALUES ('TABLE', 't', '%', 'NO', 'NO')");
    assert_eq!(seen(&mut schema), (false, false, 3));
    run(&mut admin, "UPDATE performance_schema.setup_objects SET ENABLED = 'YES' WHERE OBJECT_SCHEMA = 't'");
    assert_eq!(seen(&mut schema), (true, false, 3), "counted without times");
    run(&mut admin, "INSERT INTO performance_schema.setup_objects VALUES ('TABLE', 't', 't', 'YES', 'YES')");
    assert_eq!(seen(&mut schema), (true, true, 3), "the rule about the table itself decides");
    run(
        &mut admin,
        "INSERT INTO performance_schema.setup_objects VALUES ('PROCEDURE', 't', 'p', 'NO', 'NO')",
    );
    assert_eq!(seen(&mut schema), (true, true, 0));
    run(&mut admin, "UPDATE performance_schema.setup_objects SET TIMED = 'NO' WHERE OBJECT_NAME = 't'");
    run(&mut admin, "UPDATE performance_schema.setup_objects SET ENABLED = 'YES' WHERE OBJECT_NAME = 'p'");
    assert_eq!(seen(&mut schema), (true, false, 3));
    // The built-in says that it has deleted a rule about a program and keeps it, so here tables alone are
    // looked at.
    run(&mut admin, "DELETE FROM performance_schema.setup_objects WHERE OBJECT_SCHEMA = 't'");
    assert_eq!(seen(&mut schema), (true, true, 3));
    run(&mut admin, "TRUNCATE TABLE performance_schema.setup_objects");
    assert_eq!(seen(&mut schema), (false, false, 0), "without rules nothing is watched");
}

#[test]
fn a_thread_in_the_background_begins_as_its_kind_says() {
    let _turn = shared_turn();
    if !TestProvider::under_test().is_tare() {
        println!("skipped: the built-in has no setup_threads");
        return;
    }
    let strict = server();
    assert!(strict.schema().unwrap().rows("setup_threads").is_err(), "only the extended shape has it");
    drop(strict);
    let options = vec![("shape".to_owned(), "extended".to_owned())];
    let server = Server::start(StartSettings::new(TestProvider::Tare(options))).unwrap();
    let mut schema = server.schema().unwrap();
    let mut admin = server.client().unwrap();
    let kind = "thread/sql/event_scheduler";
    let set = |schema: &mut SchemaConnection, name: &str, enabled: &str, history: &str| {
        schema
            .update("setup_threads", &[("ENABLED", enabled), ("HISTORY", history)], &[("NAME", name)])
            .unwrap();
    };
    let mut last = 0;
    let mut begun = |schema: &mut SchemaConnection| {
        run(&mut admin, "SET GLOBAL event_scheduler = OFF");
        run(&mut admin, "SET GLOBAL event_scheduler = ON");
        // The thread begins some time after the server has answered.
        let newer = |schema: &mut SchemaConnection| {
            let rows = schema.rows_where("threads", &[("NAME", kind)]).unwrap();
            rows.into_iter().find(|row| row.number("THREAD_ID") > Some(last))
        };
        let row = until(|| newer(schema), Option::is_some).expect("the scheduler's thread begins");
        last = row.number("THREAD_ID").unwrap();
        ["INSTRUMENTED", "HISTORY"].map(|column| row.text(column).to_owned())
    };
    assert_eq!(begun(&mut schema), ["YES", "YES"]);
    set(&mut schema, kind, "NO", "YES");
    assert_eq!(begun(&mut schema), ["NO", "YES"]);
    set(&mut schema, kind, "YES", "NO");
    assert_eq!(begun(&mut schema), ["YES", "NO"]);
    set(&mut schema, "thread/sql/one_connection", "NO", "NO");
    let watched = Watched::connect(&server, &mut schema);
    assert_eq!(flags(&mut schema, &watched), ["YES", "YES"], "for a connection setup_actors decides");
    let main = schema.rows_where("setup_threads", &[("NAME", "thread/sql/main")]).unwrap();
    assert_eq!((main[0].text("PROPERTIES"), main[0].get("DOCUMENTATION")), ("singleton", None));
}
