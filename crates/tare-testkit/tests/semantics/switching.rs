//! UPDATE of setup_instruments, setup_consumers and threads acts at once, also on connections there are
//! already.

use tare_testkit::schema::SchemaConnection;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::shared_turn;
use tare_testkit::subject::TestProvider;

use crate::{Watched, server};

/// One instrument of each kind, with a statement that passes it.
const PASSED: &[(&str, &str)] = &[
    ("wait/synch/mutex/sql/THD::LOCK_thd_data", "DO 1"),
    ("wait/synch/mutex/mysys/THR_LOCK::mutex", "SELECT * FROM t.c"),
    ("wait/synch/rwlock/sql/MDL_lock::rwlock", "SELECT * FROM t.t"),
    ("wait/synch/sxlock/innodb/index_tree_rw_lock", "SELECT * FROM t.t WHERE a = 1"),
    ("wait/io/table/sql/handler", "SELECT * FROM t.t"),
    ("wait/lock/table/sql/handler", "SELECT * FROM t.t"),
    ("wait/io/socket/sql/client_connection", "DO 1"),
    ("wait/io/file/csv/data", "SELECT * FROM t.c"),
    ("idle", "DO 1"),
    ("stage/sql/Opening tables", "SELECT * FROM t.t"),
    ("statement/sql/select", "SELECT 1"),
    ("transaction", "SELECT * FROM t.t"),
];

fn fill(watched: &mut Watched) {
    for sql in [
        "CREATE DATABASE IF NOT EXISTS t",
        "CREATE TABLE t.t (a INT AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB",
        "CREATE TABLE t.c (a INT NOT NULL) ENGINE=CSV",
        "INSERT INTO t.t VALUES (1), (2)",
        "INSERT INTO t.c VALUES (1), (2)",
        "SELECT * FROM t.t",
    ] {
        watched.run(sql);
    }
}

fn switch(schema: &mut SchemaConnection, name: &str, on: bool) {
    let value = if on { "YES" } else { "NO" };
    schema.update("setup_instruments", &[("ENABLED", value)], &[("NAME", name)]).unwrap();
    let now = schema.value("setup_instruments", &[("NAME", name)], "ENABLED").unwrap();
    assert_eq!(now.as_deref(), Some(value), "{name}");
}

#[test]
fn an_instrument_is_switched_on_running_connections() {
    let _turn = shared_turn();
    let server = server();
    let mut schema = server.schema().unwrap();
    let mut watched = Watched::connect(&server, &mut schema);
    fill(&mut watched);
    for (name, sql) in PASSED {
        assert!(watched.counted_by(&mut schema, name, sql) >= 20, "{name} is on and counts");
        switch(&mut schema, name, false);
        // What was under way when it was switched off may still be counted.
        watched.run("DO 0");
        assert_eq!(watched.counted_by(&mut schema, name, sql), 0, "{name} is off");
        switch(&mut schema, name, true);
        assert!(watched.counted_by(&mut schema, name, sql) >= 20, "{name} is on again");
    }
}

/// The server gets a handle, or none, when a statement uses the table again, like with the built-in.
#[test]
fn an_open_table_has_no_handle_while_nothing_is_wanted_of_tables() {
    let _turn = shared_turn();
    let server = server();
    let mut schema = server.schema().unwrap();
    let mut watched = Watched::connect(&server, &mut schema);
    fill(&mut watched);
    let kinds = ["wait/io/table/sql/handler", "wait/lock/table/sql/handler"];
    let sql = "SELECT * FROM t.t";
    let handles = |schema: &mut SchemaConnection| {
        let table = [("OBJECT_SCHEMA", "t"), ("OBJECT_NAME", "t")];
        schema.rows_where("table_handles", &table).unwrap().len()
    };
    assert_eq!(handles(&mut schema), 1);
    for name in kinds {
        switch(&mut schema, name, false);
    }
    watched.run(sql);
    assert_eq!(handles(&mut schema), 0);
    for name in kinds {
        assert_eq!(watched.counted_by(&mut schema, name, sql), 0, "{name} is off");
    }
    for name in kinds {
        switch(&mut schema, name, true);
    }
    for name in kinds {
        assert!(watched.counted_by(&mut schema, name, sql) >= 20, "{name} is on again");
    }
    assert_eq!(handles(&mut schema), 1);
}

#[test]
fn locks_that_were_off_at_the_start_can_be_switched_on() {
    let _turn = shared_turn();
    let settings =
        StartSettings::new(TestProvider::under_test()).provider_option("instrument", "wait/synch/%=OFF");
    let server = Server::start(settings).unwrap();
    let mut schema = server.schema().unwrap();
    let mut watched = Watched::connect(&server, &mut schema);
    fill(&mut watched);
    for (name, sql) in PASSED.iter().filter(|(name, _)| name.starts_with("wait/synch/")) {
        assert_eq!(watched.counted_by(&mut schema, name, sql), 0, "{name} is off");
        switch(&mut schema, name, true);
        assert!(watched.counted_by(&mut schema, name, sql) >= 20, "{name} is on");
    }
}

#[test]
fn what_nobody_wants_recorded_is_counted_all_the_same() {
    let _turn = shared_turn();
    let server = server();
    let mut schema = server.schema().unwrap();
    let mut watched = Watched::connect(&server, &mut schema);
    fill(&mut watched);
    let record = |schema: &mut SchemaConnection, on: &str| {
        for name in ["events_waits_current", "events_stages_current"] {
            schema.update("setup_consumers", &[("ENABLED", on)], &[("NAME", name)]).unwrap();
        }
    };
    for (name, sql) in PASSED {
        let mut counted = || {
            let recorded = watched.counted_by(&mut schema, name, sql);
            record(&mut schema, "NO");
            let summed = watched.counted_by(&mut schema, name, sql);
            record(&mut schema, "YES");
            (summed, recorded)
        };
        let mut counts = counted();
        // A packet that is not there yet when the server looks is looked for once more: a matter of who is
        // faster.
        for _ in 0..if name.contains("/socket/") { 5 } else { 0 } {
            if counts.0 != counts.1 {
                counts = counted();
            }
        }
        assert_eq!(counts.0, counts.1, "{name} by {sql}");
    }
}

#[test]
fn what_is_not_timed_has_no_times() {
    let _turn = shared_turn();
    let server = server();
    let mut schema = server.schema().unwrap();
    let mut watched = Watched::connect(&server, &mut schema);
    schema.update("setup_instruments", &[("TIMED", "NO")], &[("NAME", "statement/sql/do")]).unwrap();
    watched.run("DO 1");
    watched.run("DO 2");
    let rows = schema.long_history("statements", watched.thread.parse().unwrap()).unwrap();
    let row = rows.iter().find(|row| row.text("SQL_TEXT") == "DO 1").unwrap();
    // The class is known only when the statement has been parsed: it began as `statement/com/Query`, timed.
    let mut by_name = schema.rows_where("setup_instruments", &[("NAME", "statement/sql/do")]).unwrap();
    assert_eq!(by_name.remove(0).get("TIMED"), Some("NO"));
    let untimed = row.get("TIMER_WAIT").is_none();
    schema
        .update("setup_instruments", &[("TIMED", "NO")], &[("NAME", "wait/io/socket/sql/client_connection")])
        .unwrap();
    watched.run_often("DO 3", 3);
    let rows = schema.long_history("waits", watched.thread.parse().unwrap()).unwrap();
    let last =
        rows.iter().rfind(|row| row.text("EVENT_NAME") == "wait/io/socket/sql/client_connection").unwrap();
    assert_eq!((last.get("TIMER_START"), last.get("TIMER_END"), last.get("TIMER_WAIT")), (None, None, None));
    println!("a statement whose class turns out untimed has a time: {}", !untimed);
}

#[test]
fn a_consumer_is_switched_on_running_connections() {
    let _turn = shared_turn();
    let server = server();
    let mut schema = server.schema().unwrap();
    let mut watched = Watched::connect(&server, &mut schema);
    fill(&mut watched);
    let thread: u64 = watched.thread.parse().unwrap();
    for events in ["waits", "stages", "statements", "transactions"] {
        let long = format!("events_{events}_history_long");
        let newest = |schema: &mut SchemaConnection| {
            schema.long_history(events, thread).unwrap().last().and_then(|row| row.number("EVENT_ID"))
        };
        let consumer = |schema: &mut SchemaConnection, value: &str| {
            schema.update("setup_consumers", &[("ENABLED", value)], &[("NAME", &long)]).unwrap();
        };
        let before = newest(&mut schema);
        assert!(before.is_some(), "{long} is on");
        consumer(&mut schema, "NO");
        watched.run("DO 0");
        let off = newest(&mut schema);
        watched.run_often("SELECT * FROM t.t", 3);
        watched.run("DO 0");
        assert_eq!(newest(&mut schema), off, "{long} is off");
        consumer(&mut schema, "YES");
        watched.run_often("SELECT * FROM t.t", 3);
        watched.run("DO 0");
        assert!(newest(&mut schema) > off, "{long} is on again");
    }
}

#[test]
fn consumers_above_rule_those_below() {
    let _turn = shared_turn();
    let server = server();
    let mut schema = server.schema().unwrap();
    let mut watched = Watched::connect(&server, &mut schema);
    let select = "statement/sql/select";
    for consumer in ["thread_instrumentation", "global_instrumentation"] {
        assert!(watched.counted_by(&mut schema, select, "SELECT 1") >= 20);
        schema.update("setup_consumers", &[("ENABLED", "NO")], &[("NAME", consumer)]).unwrap();
        watched.run("DO 0");
        assert_eq!(watched.counted_by(&mut schema, select, "SELECT 1"), 0, "without {consumer}");
        schema.update("setup_consumers", &[("ENABLED", "YES")], &[("NAME", consumer)]).unwrap();
    }
    schema.update("setup_consumers", &[("ENABLED", "NO")], &[("NAME", "statements_digest")]).unwrap();
    watched.run("SELECT 'without'");
    watched.run("DO 0");
    let rows = schema.long_history("statements", watched.thread.parse().unwrap()).unwrap();
    let without = rows.iter().find(|row| row.text("SQL_TEXT") == "SELECT 'without'").unwrap();
    assert_eq!(without.get("DIGEST"), None);
}

#[test]
fn a_thread_is_switched_while_it_runs() {
    let _turn = shared_turn();
    let server = server();
    let mut schema = server.schema().unwrap();
    let mut watched = Watched::connect(&server, &mut schema);
    let mut other = Watched::connect(&server, &mut schema);
    let thread = watched.thread.clone();
    let set = |schema: &mut SchemaConnection, column: &str, value: &str| {
        schema.update("threads", &[(column, value)], &[("THREAD_ID", &thread)]).unwrap();
    };
    let select = "statement/sql/select";
    assert!(watched.counted_by(&mut schema, select, "SELECT 1") >= 20);
    set(&mut schema, "INSTRUMENTED", "NO");
    watched.run("DO 0");
    assert_eq!(watched.counted_by(&mut schema, select, "SELECT 1"), 0);
    assert!(other.counted_by(&mut schema, select, "SELECT 1") >= 20, "another thread goes on");
    set(&mut schema, "INSTRUMENTED", "YES");
    assert!(watched.counted_by(&mut schema, select, "SELECT 1") >= 20);

    set(&mut schema, "HISTORY", "NO");
    watched.run("DO 0");
    watched.run("SELECT 'unwritten'");
    watched.run("DO 0");
    for table in ["events_statements_history", "events_statements_history_long"] {
        let rows = schema.rows_where(table, &[("THREAD_ID", &thread)]).unwrap();
        assert!(rows.iter().all(|row| row.text("SQL_TEXT") != "SELECT 'unwritten'"), "{table}");
    }
    assert!(watched.counted_by(&mut schema, select, "SELECT 1") >= 20, "it is counted all the same");
}
