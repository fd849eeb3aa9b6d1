//! The tables in the server: readable, with keys, grants, TRUNCATE, and the settings that decide about them.

use std::os::unix::fs::PermissionsExt;

use mysql::prelude::Queryable;
use tare_testkit::mysql_server::Mysql;

use crate::{library, lines, number, rows, subject};

const GLOBAL: &str = "performance_schema.events_waits_summary_global_by_event_name";
const LOCK: &str = "wait/synch/mutex/sql/THD::LOCK_thd_data";

#[test]
fn every_table_and_view_can_be_read() {
    let Some(mut server) = subject(&[]) else { return };
    let mut conn = server.client().expect("a client");
    let tables = rows(
        &mut conn,
        "SELECT CONCAT('`', TABLE_SCHEMA, '`.`', TABLE_NAME, '`') FROM information_schema.TABLES \
         WHERE TABLE_SCHEMA IN ('performance_schema', 'sys')",
    );
    assert!(tables.len() > 200, "{}", tables.len());
    for table in tables.into_iter().flatten().flatten() {
        rows(&mut conn, &format!("SELECT * FROM {table}"));
        rows(&mut conn, &format!("SELECT COUNT(*) FROM {table}"));
    }
    assert!(server.runs());
}

#[test]
fn keys_find_what_scans_find() {
    let Some(server) = subject(&[]) else { return };
    let mut conn = server.client().expect("a client");
    let id = number(&mut conn, "SELECT ps_current_thread_id()");
    for (table, key, without_index) in [
        (GLOBAL, format!("EVENT_NAME = '{}'", LOCK.to_uppercase()), format!("CONCAT(EVENT_NAME) = '{LOCK}'")),
        (
            "performance_schema.events_waits_summary_by_thread_by_event_name",
            format!("THREAD_ID = {id} AND EVENT_NAME = '{LOCK}'"),
            format!("THREAD_ID + 0 = {id} AND CONCAT(EVENT_NAME) = '{LOCK}'"),
        ),
        (
            "performance_schema.events_waits_summary_by_account_by_event_name",
            format!("USER = 'root' AND HOST = 'LOCALHOST' AND EVENT_NAME = '{LOCK}'"),
            format!("CONCAT(USER) = 'root' AND CONCAT(HOST) = 'localhost' AND CONCAT(EVENT_NAME) = '{LOCK}'"),
        ),
        (
            "performance_schema.events_waits_summary_by_user_by_event_name",
            format!("USER IS NULL AND EVENT_NAME = '{LOCK}'"),
            format!("ISNULL(CONCAT(USER)) AND CONCAT(EVENT_NAME) = '{LOCK}'"),
        ),
        (
            "performance_schema.events_waits_summary_by_host_by_event_name",
            "HOST = 'localhost'".to_owned(),
            "CONCAT(HOST) = 'localhost'".to_owned(),
        ),
    ] {
        let mut count =
            |condition: &str| number(&mut conn, &format!("SELECT COUNT(*) FROM {table} WHERE {condition}"));
        let found = count(&key);
        assert_eq!(found, count(&without_index), "{table}");
        assert!(found > 0, "{table}");
    }
    // Each look-up of a join finds its own row.
    let joined = format!(
        "SELECT COUNT(*) FROM (SELECT EVENT_NAME AS name FROM {GLOBAL}) names JOIN {GLOBAL} FORCE INDEX (PRIMARY) \
         ON EVENT_NAME = name"
    );
    let all = number(&mut conn, &format!("SELECT COUNT(*) FROM {GLOBAL}"));
    assert_eq!(number(&mut conn, &joined), all);
    assert_eq!(number(&mut conn, &joined.replace("COUNT(*)", "COUNT(DISTINCT EVENT_NAME)")), all);
    let positions =
        format!("SELECT EVENT_NAME, COUNT_STAR FROM {GLOBAL} ORDER BY SUM_TIMER_WAIT DESC LIMIT 3");
    assert_eq!(rows(&mut conn, &positions).len(), 3, "rows are read again by position");
    let joined = "SELECT COUNT(*) FROM performance_schema.threads JOIN \
        performance_schema.events_waits_summary_by_thread_by_event_name USING (THREAD_ID) \
        WHERE PROCESSLIST_ID = CONNECTION_ID()";
    assert_eq!(number(&mut conn, joined), number(&mut conn, &format!("SELECT COUNT(*) FROM {GLOBAL}")));
}

#[test]
fn settings_of_the_server_decide_at_once() {
    let Some(server) = subject(&["--performance-schema-consumer-events-waits-history-long=OFF"]) else {
        return;
    };
    let mut conn = server.client().expect("a client");
    let count = format!("SELECT COUNT_STAR FROM {GLOBAL} WHERE EVENT_NAME = '{LOCK}'");
    let switch = |on: &str, what: &str| {
        format!(
            "UPDATE performance_schema.setup_{what}s SET ENABLED = '{on}' WHERE NAME LIKE 'wait/synch/mutex/sql/%'"
        )
    };
    conn.query_drop(switch("NO", "instrument")).expect("an update");
    let off = number(&mut conn, &count);
    assert!(off > 0);
    for _ in 0..5 {
        conn.query_drop("DO 1").expect("a statement");
    }
    assert_eq!(number(&mut conn, &count), off, "a disabled instrument counts nothing");
    conn.query_drop(switch("YES", "instrument")).expect("an update");
    conn.query_drop("DO 1").expect("a statement");
    assert!(number(&mut conn, &count) > off, "an enabled one goes on");

    let long = "SELECT COUNT(*) FROM performance_schema.events_waits_history_long";
    assert_eq!(number(&mut conn, long), 0, "the consumer is off");
    let consumer = "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' \
        WHERE NAME = 'events_waits_history_long'";
    conn.query_drop(consumer).expect("an update");
    assert!(number(&mut conn, long) > 0, "the consumer is on");
    conn.query_drop("TRUNCATE performance_schema.events_waits_history_long").expect("TRUNCATE");
    assert!(number(&mut conn, long) < 5000);
    let by_instance = "SELECT SUM(COUNT_STAR) FROM performance_schema.events_waits_summary_by_instance \
        WHERE EVENT_NAME LIKE 'wait/synch/mutex/sql/%'";
    let before = number(&mut conn, by_instance);
    conn.query_drop(format!("TRUNCATE {GLOBAL}")).expect("TRUNCATE");
    assert!(number(&mut conn, &count) < off, "TRUNCATE resets the sums");
    assert!(number(&mut conn, by_instance) < before, "and, as in MySQL, those by instance");
}

#[test]
fn grants_are_the_servers() {
    let Some(server) = subject(&[]) else { return };
    let mut root = server.client().expect("a client");
    for sql in ["CREATE USER ann", "GRANT SELECT ON performance_schema.events_waits_current TO ann"] {
        root.query_drop(sql).expect("a statement");
    }
    let options = mysql::OptsBuilder::new().socket(server.socket().to_str()).user(Some("ann"));
    let mut ann = mysql::Conn::new(options).expect("a client");
    let mut code = |sql: &str| match ann.query_drop(sql) {
        Err(mysql::Error::MySqlError(error)) => error.code,
        other => panic!("{sql}: {other:?}"),
    };
    assert_eq!(code(&format!("SELECT * FROM {GLOBAL}")), 1142);
    assert_eq!(code(&format!("TRUNCATE {GLOBAL}")), 1142);
    let mut refused = |sql: &str| match root.query_drop(sql) {
        Err(mysql::Error::MySqlError(error)) => error.code,
        other => panic!("{sql}: {other:?}"),
    };
    assert_eq!(refused(&format!("UPDATE {GLOBAL} SET COUNT_STAR = 0")), 1142);
    assert_eq!(refused(&format!("DROP TABLE {GLOBAL}")), 1142);
}

#[test]
fn a_server_without_its_performance_schema_is_left_alone() {
    let server = Mysql::preloaded(&library(), "", &["--performance-schema=OFF"]);
    let Some(mut server) = server.expect("a server") else { return };
    let mut conn = server.client().expect("a client");
    assert_eq!(number(&mut conn, &format!("SELECT COUNT(*) FROM {GLOBAL}")), 0);
    assert!(!crate::socket::path(&server).exists(), "it would show empty tables");
    let lines = lines(&server);
    assert!(lines.len() == 1 && lines[0].contains("does nothing: performance_schema is off"), "{lines:?}");
    assert!(server.runs());
}

#[test]
fn in_doubt_the_tables_show_what_the_server_counts() {
    for (settings, said) in [("enabled=OFF", None), ("level=nonsense", Some("does nothing"))] {
        let Some(server) = Mysql::preloaded(&library(), settings, &[]).expect("a server") else { return };
        let lines = lines(&server);
        match said {
            None => assert_eq!(lines, Vec::<String>::new(), "{settings}"),
            Some(said) => {
                assert!(
                    lines.len() == 1 && lines[0].contains("[Warning]") && lines[0].contains(said),
                    "{lines:?}"
                );
                assert!(lines[0].contains("level"), "names the option: {}", lines[0]);
            }
        }
        let mut conn = server.client().expect("a client");
        let counted = number(&mut conn, &format!("SELECT SUM(COUNT_STAR) FROM {GLOBAL}"));
        assert!(counted > 1000, "{settings}: the built-in has counted {counted}");
    }
}

#[test]
fn options_are_read_from_the_servers_files() {
    let file = std::env::temp_dir().join(format!("tare-mysql-{}.cnf", std::process::id()));
    std::fs::write(&file, "[tare]\nlevel = nonsense\n").expect("a file");
    // The server reads it as its own user.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("permissions");
    let option = format!("--defaults-file={}", file.display());
    let server = Mysql::preloaded(&library(), "", &[&option]);
    std::fs::remove_file(&file).expect("the file");
    let Some(server) = server.expect("a server") else { return };
    let lines = lines(&server);
    assert!(lines.len() == 1 && lines[0].contains("level") && lines[0].contains(".cnf"), "{lines:?}");
}
