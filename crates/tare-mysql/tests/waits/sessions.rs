//! The server's sessions at tare's socket: what `threads`, `accounts`, `users` and `hosts` show there is what
//! the server's own tables show.

use std::collections::BTreeSet;
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use tare_testkit::active_load::{ActiveSessions, Until};
use tare_testkit::mysql_server::Mysql;

use crate::socket::{connect, path};
use crate::{library, lines, number, rows, subject};

const LIMIT: Duration = Duration::from_secs(60);

/// The columns of `threads` whose values hold still while a session does.
const STILL: &str = "THREAD_ID, NAME, TYPE, PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_HOST, PROCESSLIST_DB, \
                     PROCESSLIST_COMMAND, PROCESSLIST_STATE, PROCESSLIST_INFO, PARENT_THREAD_ID, ROLE, INSTRUMENTED, \
                     HISTORY, CONNECTION_TYPE, THREAD_OS_ID, RESOURCE_GROUP, EXECUTION_ENGINE, TELEMETRY_ACTIVE";
const MEMORY: &str = "CONTROLLED_MEMORY, MAX_CONTROLLED_MEMORY, TOTAL_MEMORY, MAX_TOTAL_MEMORY";

/// Waits until both have the same rows, and returns how many.
fn assert_same(tare: &mut Conn, server: &mut Conn, columns: &str, table: &str, filter: &str) -> usize {
    let sql = format!("SELECT {columns} FROM performance_schema.{table} {filter}");
    let read = |from: &mut Conn| -> BTreeSet<Vec<Option<String>>> { rows(from, &sql).into_iter().collect() };
    let mut different = Vec::new();
    let same = tare_testkit::poll(LIMIT, || {
        let (here, there) = (read(tare), read(server));
        different = here.symmetric_difference(&there).take(4).cloned().collect();
        different.is_empty().then_some(here.len())
    });
    same.unwrap_or_else(|| panic!("{table}: {different:#?}"))
}

fn login(server: &Mysql, user: &str) -> Conn {
    let options = OptsBuilder::new().socket(server.socket().to_str()).prefer_socket(false).user(Some(user));
    Conn::new(options.stmt_cache_size(0)).expect("a connection")
}

#[test]
fn threads_are_those_of_the_server() {
    let Some(server) = subject(&[]) else { return };
    let mut client = server.client().expect("a client");
    client.query_drop("CREATE USER bob@localhost").expect("a user");
    let mut load = ActiveSessions::all(&server);
    load.busy(&[], "SELECT SLEEP(601) /* größer */", &Until::State("User sleep"), "SLEEP");
    let mut unseen = login(&server, "bob");
    let bob = unseen.connection_id();
    let set = "UPDATE performance_schema.threads SET INSTRUMENTED = 'NO', HISTORY = 'NO'";
    client.query_drop(format!("{set} WHERE PROCESSLIST_ID = {bob}")).expect("a setting");
    unseen.query_drop("DO 1").expect("an answer");
    let mut tare = connect(&path(&server));
    let own = client.connection_id();
    let others = format!("WHERE PROCESSLIST_ID IS NULL OR PROCESSLIST_ID <> {own}");
    let all = assert_same(&mut tare, &mut client, STILL, "threads", &others);
    let sessions = load.truth.len() + load.idle_list().split(',').count() + 2;
    assert!(all > sessions + 20, "{all} threads, of these {sessions} of sessions");
    let still = format!("WHERE PROCESSLIST_ID IN ({}, {bob})", load.idle_list());
    let idle = assert_same(&mut tare, &mut client, MEMORY, "threads", &still);
    assert!(idle > 1, "{idle}");
    let of_bob = format!("SELECT PROCESSLIST_USER, INSTRUMENTED FROM threads WHERE PROCESSLIST_ID = {bob}");
    assert_eq!(rows(&mut tare, &of_bob), [[Some("bob".to_owned()), Some("NO".to_owned())]]);
    let sql = "SELECT SUM(PROCESSLIST_TIME) FROM performance_schema.threads WHERE PROCESSLIST_INFO LIKE 'SELECT SLEEP%'";
    let before = number(&mut client, sql);
    let times = "SELECT PROCESSLIST_TIME FROM threads WHERE PROCESSLIST_INFO LIKE 'SELECT SLEEP%'";
    let times = rows(&mut tare, times);
    let here: u64 = times.iter().flatten().flatten().map(|time| time.parse::<u64>().expect("seconds")).sum();
    assert_eq!(times.len(), 4);
    assert!((before..=number(&mut client, sql)).contains(&here), "{times:?}, not from {before} on");
    assert!(
        tare.query_drop("UPDATE threads SET INSTRUMENTED = 'NO'").is_err(),
        "it would not be the server's"
    );
}

#[test]
fn metadata_locks_are_those_of_the_server() {
    let Some(server) = subject(&[]) else { return };
    let mut client = server.client().expect("a client");
    let mut load = ActiveSessions::all(&server);
    load.idle(&["CREATE FUNCTION CafÉ() RETURNS INT DETERMINISTIC RETURN 1", "BEGIN", "SELECT CafÉ()"]);
    load.idle(&["CREATE TABLE u (id INT)", "LOCK TABLES u WRITE"]);
    let mut tare = connect(&path(&server));
    // The statement that reads the server's table locks that.
    let others = "WHERE OBJECT_SCHEMA <> 'performance_schema' OR OBJECT_SCHEMA IS NULL";
    let all = assert_same(&mut tare, &mut client, "*", "metadata_locks", others);
    assert!(all > 15, "{all}");
    let sql = "SELECT OBJECT_TYPE, COUNT(*) FROM metadata_locks WHERE LOCK_STATUS = 'PENDING' GROUP BY 1 ORDER BY 1";
    let sql = sql.replace("FROM ", "FROM performance_schema.");
    let pending = rows(&mut client, &sql);
    let expected = [["TABLE", "3"], ["USER LEVEL LOCK", "2"]].map(|row| row.map(|it| Some(it.to_owned())));
    assert_eq!(pending, expected);
}

#[test]
fn accounts_users_and_hosts_are_those_of_the_server() {
    let Some(server) = subject(&[]) else { return };
    let mut client = server.client().expect("a client");
    client.query_drop("CREATE USER bob@localhost").expect("a user");
    let mut tare = connect(&path(&server));
    let same = |tare: &mut Conn, client: &mut Conn| {
        for table in ["accounts", "users", "hosts"] {
            assert!(assert_same(tare, client, "*", table, "") > 1, "{table}");
        }
    };
    (0..3).for_each(|_| drop(login(&server, "bob")));
    let _open = [login(&server, "bob"), login(&server, "bob")];
    // The server may not have ended the others yet.
    same(&mut tare, &mut client);
    let of_bob = "SELECT CURRENT_CONNECTIONS, TOTAL_CONNECTIONS FROM users WHERE USER = 'bob'";
    let expected = [[Some("2".to_owned()), Some("5".to_owned())]];
    let counted = tare_testkit::poll(LIMIT, || (rows(&mut tare, of_bob) == expected).then_some(()));
    assert!(counted.is_some(), "{:?}", rows(&mut tare, of_bob));
    client.query_drop("TRUNCATE performance_schema.accounts").expect("emptied");
    same(&mut tare, &mut client);
    client.query_drop("TRUNCATE performance_schema.users").expect("emptied");
    client.query_drop("TRUNCATE performance_schema.hosts").expect("emptied");
    same(&mut tare, &mut client);
    assert!(tare.query_drop("TRUNCATE accounts").is_err(), "it would not be the server's");
}

/// A fault that the library is to inject, for a process that is started meanwhile.
fn with_fault(fault: &str) -> Option<Mysql> {
    let environment = [("TARE_FAULT", fault.as_ref())];
    Mysql::preloaded_with(&library(), "", &[], &environment).expect("a server")
}

#[test]
fn a_part_for_which_the_server_is_not_as_expected_is_missing_alone() {
    for (part, said) in [
        ("Memory", "memory is not counted"),
        ("Socket", "there is no socket"),
        ("RowLocks", "waits for rows"),
        ("Sessions", "no threads, accounts, users, hosts and metadata_locks"),
        ("RowOwners", "names nobody whose rows others wait for"),
    ] {
        let Some(server) = with_fault(&format!("part {part}")) else { return };
        let lines = lines(&server);
        assert!(lines.len() == 2 && lines[1].contains("counts waits, stages, statements"), "{lines:?}");
        assert_eq!(lines[1].contains("memory"), part != "Memory", "{lines:?}");
        assert!(lines[0].contains("[Warning]") && lines[0].contains(said), "{lines:?}");
        let mut client = server.client().expect("a client");
        let table = "performance_schema.events_waits_summary_global_by_event_name";
        assert!(number(&mut client, &format!("SELECT SUM(COUNT_STAR) FROM {table}")) > 1000, "{part}");
        assert_eq!(path(&server).exists(), part != "Socket", "{part}");
        if part != "Socket" {
            let has = rows(&mut connect(&path(&server)), "SHOW TABLES LIKE 'threads'").len();
            assert_eq!(has, usize::from(part != "Sessions"), "{part}");
        }
    }
}
