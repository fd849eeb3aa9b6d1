//! tare's own socket in a server: what it shows is what the server's own tables show, it lets nobody change
//! what is the server's, and it begins and ends with the server.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use tare_testkit::eventually;
use tare_testkit::mysql_server::Mysql;

use crate::{library, lines, rows, subject};

const LIMIT: Duration = Duration::from_secs(60);

/// The path of tare's socket in a server's data directory.
pub fn path(server: &Mysql) -> PathBuf {
    server.socket().with_file_name("data").join("tare.sock")
}

/// Connects to tare's socket.
pub fn connect(socket: &Path) -> Conn {
    // The limit is given so that the client does not query it.
    let options =
        OptsBuilder::new().socket(socket.to_str()).prefer_socket(false).max_allowed_packet(Some(64 << 20));
    Conn::new(options.stmt_cache_size(0).db_name(Some("performance_schema"))).expect("tare's socket")
}

/// The value of a row of `tare_status`.
pub fn status(tare: &mut Conn, name: &str) -> String {
    let rows = rows(tare, &format!("SELECT VALUE FROM tare_status WHERE NAME = '{name}'"));
    rows.into_iter().flatten().next().flatten().unwrap_or_else(|| panic!("no row {name}"))
}

/// Waits until both return the same rows, of which there must be some. A client has its answer before its
/// statement ends.
fn assert_equal(tare: &mut Conn, server: &mut Conn, columns: &str, table: &str, filter: &str) {
    let sql = format!("SELECT {columns} FROM performance_schema.{table} {filter}");
    let read = |from: &mut Conn| -> BTreeSet<Vec<Option<String>>> { rows(from, &sql).into_iter().collect() };
    let mut different = Vec::new();
    let are_equal = tare_testkit::poll(LIMIT, || {
        let (here, there) = (read(tare), read(server));
        different = here.symmetric_difference(&there).take(5).cloned().collect();
        (!here.is_empty() && different.is_empty()).then_some(())
    });
    assert!(are_equal.is_some(), "{table}: {different:#?}");
}

#[test]
fn it_shows_what_the_servers_tables_show() {
    let Some(server) = subject(&["--performance-schema-instrument=wait/synch/mutex/%=OFF"]) else { return };
    let mut client = server.client().expect("a client");
    for sql in [
        "CREATE DATABASE work",
        "CREATE TABLE work.t (id INT PRIMARY KEY)",
        "USE work",
        "INSERT INTO t VALUES (1), (2)",
    ] {
        client.query_drop(sql).expect(sql);
    }
    (0..20).for_each(|_| drop(rows(&mut client, "SELECT id FROM t WHERE id = 1")));
    let mut tare = connect(&path(&server));
    assert_eq!(status(&mut tare, "state"), "active");
    assert_eq!(
        status(&mut tare, "server_version"),
        rows(&mut client, "SELECT VERSION()")[0][0].clone().unwrap()
    );
    assert_eq!(status(&mut tare, "socket"), path(&server).display().to_string());
    let of_work = "WHERE SCHEMA_NAME = 'work'";
    let table = "events_statements_summary_by_digest";
    assert_equal(&mut tare, &mut client, "DIGEST, DIGEST_TEXT, COUNT_STAR, SUM_ROWS_SENT", table, of_work);
    let of_t = "WHERE OBJECT_SCHEMA = 'work'";
    let table = "table_io_waits_summary_by_table";
    assert_equal(
        &mut tare,
        &mut client,
        "OBJECT_NAME, COUNT_FETCH, COUNT_INSERT, SUM_TIMER_WAIT",
        table,
        of_t,
    );
    assert_equal(&mut tare, &mut client, "NAME, ENABLED", "setup_consumers", "");
    // Errors and the built-in's memory are not tare's.
    let counted = "WHERE NAME <> 'error' AND NAME NOT LIKE 'memory/performance_schema/%'";
    assert_equal(&mut tare, &mut client, "NAME, ENABLED, TIMED", "setup_instruments", counted);
    client.query_drop("UPDATE performance_schema.setup_consumers SET ENABLED = 'NO' WHERE NAME = 'events_stages_current'").unwrap();
    client
        .query_drop("UPDATE performance_schema.setup_instruments SET TIMED = 'NO' WHERE NAME LIKE 'stage/%'")
        .unwrap();
    assert_equal(&mut tare, &mut client, "NAME, ENABLED", "setup_consumers", "");
    assert_equal(&mut tare, &mut client, "NAME, ENABLED, TIMED", "setup_instruments", counted);
    for sql in ["UPDATE setup_consumers SET ENABLED = 'NO'", "UPDATE setup_instruments SET ENABLED = 'NO'"] {
        assert!(tare.query_drop(sql).is_err(), "{sql}: it would not be the server's");
    }
    tare.query_drop("UPDATE tare_status SET VALUE = '1/8' WHERE NAME = 'sample'")
        .expect("a setting of tare's");
    assert_eq!(status(&mut tare, "sample"), "1/8");
}

#[test]
fn it_has_no_table_of_which_the_server_knows_more() {
    let Some(server) = subject(&[]) else { return };
    let (mut client, mut tare) = (server.client().expect("a client"), connect(&path(&server)));
    let names = |of: &mut Conn| -> Vec<String> {
        rows(of, "SHOW TABLES FROM performance_schema").into_iter().flatten().flatten().collect()
    };
    let (here, there) = (names(&mut tare), names(&mut client));
    for table in ["table_handles", "global_status", "data_locks", "events_errors_summary_global_by_error"] {
        assert!(there.iter().any(|it| it == table) && !here.iter().any(|it| it == table), "{table}");
    }
    for table in here.iter().filter(|table| !table.starts_with("tare_")) {
        assert!(there.contains(table), "{table} is a table of MySQL's");
        let columns = |of: &mut Conn| -> BTreeSet<String> {
            let columns = rows(of, &format!("SHOW COLUMNS FROM performance_schema.{table}"));
            columns.into_iter().filter_map(|row| row[0].clone()).collect()
        };
        let (here, there) = (columns(&mut tare), columns(&mut client));
        assert!(table.starts_with("setup_") || there.is_subset(&here), "{table} lacks a column");
    }
}

#[test]
fn it_ends_with_the_server() {
    let Some(mut server) = subject(&[]) else { return };
    let socket = path(&server);
    let mut tare = connect(&socket);
    server.client().expect("a client").query_drop("SHUTDOWN").expect("a shutdown");
    eventually("the server has ended", LIMIT, || !server.runs());
    assert!(!socket.exists(), "{} is left", socket.display());
    assert!(tare.query_drop("SELECT 1 FROM tare_status").is_err(), "nobody answers");
}

#[test]
fn a_server_ends_while_its_sessions_are_read() {
    for _ in 0..3 {
        let started = Mysql::preloaded(&library(), "ash-interval=10ms", &[]).expect("a server");
        let Some(mut server) = started else { return };
        let socket = path(&server);
        std::thread::scope(|scope| {
            for table in ["threads", "accounts", "setup_instruments"] {
                let mut tare = connect(&socket);
                let sql = format!("SELECT * FROM {table}");
                scope.spawn(move || while tare.query_drop(&sql).is_ok() {});
            }
            server.client().expect("a client").query_drop("SHUTDOWN").expect("a shutdown");
        });
        eventually("the server has ended", LIMIT, || !server.runs());
        assert!(!server.log().contains("got signal"), "{}", server.log());
    }
}

#[test]
fn where_it_cannot_be_the_server_runs_without_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let elsewhere = folder.path().join("elsewhere.sock");
    let start = |socket: &Path| {
        Mysql::preloaded(&library(), &format!("socket={}", socket.display()), &[]).expect("a server")
    };
    // The server's user may not be this one.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let Some(server) = start(&elsewhere) else { return };
    assert_eq!(status(&mut connect(&elsewhere), "socket"), elsewhere.display().to_string());
    assert!(!path(&server).exists());
    let taken = start(&elsewhere).expect("it was there before");
    let lines = lines(&taken);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[1].contains("[Warning]") && lines[1].contains("the socket answers nobody"), "{}", lines[1]);
    assert!(taken.client().is_ok());
}
