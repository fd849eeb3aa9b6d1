//! While sessions come, go and are killed, tables are made and dropped, levels change and the history is
//! truncated and read, no row says what never was.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::server::Server;
use tare_testkit::turn;

use super::{HISTORY, await_samples, rows, server, set_status};

static ENDS: AtomicBool = AtomicBool::new(false);

/// Ends what others repeat, also if this thread panics.
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        ENDS.store(true, Ordering::Relaxed);
    }
}

/// Repeats something with a number until the test ends.
fn repeat(mut what: impl FnMut(u64)) {
    (0..).take_while(|_| !ENDS.load(Ordering::Relaxed)).for_each(&mut what);
}

/// Runs statements; which of them fail does not matter.
fn run(conn: &mut Conn, statements: &[&str]) -> bool {
    statements.iter().all(|sql| conn.query_drop(sql).is_ok())
}

/// Connects, works a little in a schema of its own, and leaves.
fn visit(server: &Server, number: u64) {
    let user = format!("user{}", number % 3);
    let Ok(mut conn) = Conn::new(server.client_options().user(Some(user))) else { return };
    let schema = format!("chaos{}", number % 3);
    run(
        &mut conn,
        &[
            &format!("USE {schema}"),
            "BEGIN",
            &format!("UPDATE t{} SET v = v + 1", number % 2),
            &format!("SELECT SLEEP(0.00{})", number % 5),
            "SELECT COUNT(*) FROM t0 a JOIN t1 b JOIN t0 c",
            "COMMIT",
        ],
    );
}

fn define(server: &Server, number: u64) {
    let Ok(mut conn) = server.client() else { return };
    let schema = format!("chaos{}", number % 3);
    run(
        &mut conn,
        &[
            &format!("USE {schema}"),
            "CREATE OR REPLACE TABLE coming (id INT)",
            "INSERT INTO coming VALUES (1)",
            "RENAME TABLE coming TO going",
            "ALTER TABLE t0 FORCE",
            "DROP TABLE going",
        ],
    );
}

fn kill(server: &Server, number: u64) {
    let Ok(mut conn) = server.client() else { return };
    let victims: Vec<u64> = conn
        .query(
            "SELECT ID FROM information_schema.PROCESSLIST WHERE USER LIKE 'user%' ORDER BY RAND() LIMIT 1",
        )
        .unwrap_or_default();
    for id in victims {
        let how = if number.is_multiple_of(2) { "KILL" } else { "KILL QUERY" };
        run(&mut conn, &[&format!("{how} {id}")]);
    }
    std::thread::sleep(Duration::from_millis(5));
}

fn change(server: &Server, number: u64) {
    let Ok(mut conn) = server.client() else { return };
    let level = ["lean", "sampled", "sums", "off", "counts"][(number % 5) as usize];
    set_status(&mut conn, "level", level);
    if number % 7 == 3 {
        run(&mut conn, &[&format!("TRUNCATE TABLE {HISTORY}")]);
    }
    std::thread::sleep(Duration::from_millis(30));
}

/// A row: user, host, schema, state, class, wait, stage, object's schema, its name, thread's name.
type Row = (
    Option<String>,
    Option<String>,
    Option<String>,
    String,
    String,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
    String,
);

fn check(row: &Row, instruments: &BTreeSet<String>, digest: &Option<String>) {
    let (user, host, schema, state, class, wait, stage, object_schema, object, thread) = row;
    let users = ["user0", "user1", "user2", "root", "mysql", "system user", "event_scheduler"];
    assert!(user.as_deref().is_none_or(|user| users.contains(&user)), "{row:?}");
    assert!(host.as_deref().is_none_or(|host| host == "localhost"), "{row:?}");
    let schemas = ["chaos0", "chaos1", "chaos2", "performance_schema", "information_schema", "mysql", "sys"];
    let is_schema = |schema: &Option<String>| schema.as_deref().is_none_or(|it| schemas.contains(&it));
    assert!(is_schema(schema) && (is_schema(object_schema) || object.is_some()), "{row:?}");
    assert_eq!(state == "WAITING", class != "CPU", "{row:?}");
    for name in [wait, stage].into_iter().flatten() {
        assert!(name == "wait/lock/row/handler" || instruments.contains(name), "{row:?}");
    }
    assert!(thread.starts_with("thread/"), "{row:?}");
    let is_hash = |digest: &String| digest.len() == 32 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(digest.as_ref().is_none_or(is_hash), "{digest:?}");
}

#[test]
fn whatever_happens_no_row_says_what_never_was() {
    let _turn = turn();
    let Some(server) = server(&[("ash-memory", "128K"), ("sample", "1/3")]) else { return };
    let mut conn = server.client().unwrap();
    for number in 0..3 {
        for sql in [
            format!("CREATE USER user{number}@localhost"),
            format!("GRANT ALL ON *.* TO user{number}@localhost"),
            format!("CREATE DATABASE chaos{number}"),
            format!("CREATE TABLE chaos{number}.t0 (id INT PRIMARY KEY, v INT) ENGINE=InnoDB"),
            format!("CREATE TABLE chaos{number}.t1 (id INT PRIMARY KEY, v INT) ENGINE=Aria"),
            format!("INSERT INTO chaos{number}.t0 SELECT seq, seq FROM chaos{number}.seq_1_to_40"),
            format!("INSERT INTO chaos{number}.t1 SELECT seq, seq FROM chaos{number}.seq_1_to_40"),
        ] {
            conn.query_drop(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }
    let instruments: BTreeSet<String> =
        rows(&mut conn, "SELECT NAME FROM performance_schema.setup_instruments").into_iter().collect();
    let mut seen = 0;
    std::thread::scope(|scope| {
        let _ending = Ending;
        for worker in 0..4 {
            let server = &server;
            scope.spawn(move || repeat(|number| visit(server, number * 4 + worker)));
        }
        scope.spawn(|| repeat(|number| define(&server, number)));
        scope.spawn(|| repeat(|number| kill(&server, number)));
        scope.spawn(|| repeat(|number| change(&server, number)));
        for _ in 0..40 {
            await_samples(&mut conn, 8);
            let read: Vec<(Row, Option<String>)> = conn
                .exec_map(
                    format!(
                        "SELECT USER, HOST, SCHEMA_NAME, STATE, WAIT_CLASS, WAIT_EVENT, STAGE, OBJECT_SCHEMA, OBJECT_NAME, \
                         THREAD_NAME, DIGEST FROM {HISTORY}"
                    ),
                    (),
                    |(user, host, schema, state, class, wait, stage, object_schema, object, thread, digest)| {
                        ((user, host, schema, state, class, wait, stage, object_schema, object, thread), digest)
                    },
                )
                .unwrap();
            read.iter().for_each(|(row, digest)| check(row, &instruments, digest));
            seen += read.len();
        }
    });
    assert!(seen > 1000, "{seen} rows");
    set_status(&mut conn, "level", "lean");
    await_samples(&mut conn, 3);
}
