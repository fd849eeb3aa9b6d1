//! A server that is killed in the middle of its work (kill -9) and started again on the same data.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::eventually;
use tare_testkit::mysql_server::Mysql;
use tare_testkit::server::LIMIT;
use tare_testkit::subject::setting;

use crate::socket::{connect, path, status};
use crate::{lines, number, rows, subject};

/// Sessions of the load.
const SESSIONS: u64 = 6;

/// Does what one of the sessions does until the server is gone. Returns the last row that the server has
/// acknowledged.
fn session(server: &Mysql, session: u64, first: u64, works: &AtomicU64) -> u64 {
    let Ok(mut conn) = server.client() else { return 0 };
    let mut acknowledged = 0;
    for row in first.. {
        let done = match session {
            0..3 => conn.query_drop(format!("INSERT INTO work.t VALUES ({session}, {row}, REPEAT('x', 500))")),
            3 => conn.query_drop(
                "CREATE TEMPORARY TABLE IF NOT EXISTS work.e SELECT * FROM work.t LIMIT 100; DROP TEMPORARY TABLE work.e",
            ),
            4 => conn.query_drop(
                "SELECT * FROM performance_schema.events_statements_summary_by_digest; \
                 SELECT * FROM performance_schema.events_waits_summary_by_instance; \
                 TRUNCATE performance_schema.events_statements_summary_by_digest",
            ),
            _ => conn.query_drop("CREATE TABLE IF NOT EXISTS work.d (i INT PRIMARY KEY); DROP TABLE work.d"),
        };
        if done.is_err() {
            break;
        }
        acknowledged = row;
        works.fetch_add(1, Relaxed);
    }
    acknowledged
}

/// Kills the server while all sessions and a reader of tare's socket work. Returns the last acknowledged row
/// of each session that inserts.
fn kill_under_load(server: &mut Mysql, round: u64) -> Vec<u64> {
    let (works, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut tare = connect(&path(server));
    let last = std::thread::scope(|scope| {
        let (of, works) = (&*server, &works);
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|number| scope.spawn(move || session(of, number, 1 + round * 1_000_000, works)))
            .collect();
        scope.spawn(|| {
            while tare.query_drop("SELECT * FROM events_statements_history_long").is_ok() {}
            over.store(true, Relaxed);
        });
        eventually("the sessions work", LIMIT, || works.load(Relaxed) > 100 + 20 * round);
        of.send_kill().expect("it runs");
        sessions.into_iter().map(|session| session.join().expect("a session")).collect()
    });
    assert!(over.load(Relaxed), "tare's socket ends with the server");
    server.kill();
    last
}

/// Reads every table of performance_schema; returns how many rows there are.
fn read_all(conn: &mut Conn) -> usize {
    let tables = rows(conn, "SHOW TABLES FROM performance_schema");
    let read = |table: String| rows(conn, &format!("SELECT * FROM performance_schema.{table}")).len();
    tables.into_iter().flatten().flatten().map(read).sum()
}

#[test]
fn each_start_after_a_kill_recovers_and_tare_is_back() {
    let Some(mut server) = subject(&[]) else { return };
    let mut conn = server.client().expect("a client");
    for sql in [
        "CREATE DATABASE work",
        "CREATE TABLE work.t (session INT, id BIGINT, text TEXT, PRIMARY KEY (session, id))",
        "CREATE TABLE work.kept (id INT PRIMARY KEY, text TEXT)",
        "INSERT INTO work.kept VALUES (1, 'a'), (2, 'b'), (3, REPEAT('c', 60000))",
    ] {
        conn.query_drop(sql).expect("a statement");
    }
    let kept = rows(&mut conn, "CHECKSUM TABLE work.kept");
    drop(conn);
    for round in 0..setting("TARE_KILLS", 3) {
        let last = kill_under_load(&mut server, round);
        assert!(path(&server).exists(), "a killed server leaves tare's socket");
        server.resume().unwrap_or_else(|error| panic!("round {round}: {error}"));
        let mut conn = server.client().expect("a client");
        assert_eq!(rows(&mut conn, "CHECKSUM TABLE work.kept"), kept, "round {round}");
        for (session, row) in (0..3).zip(last) {
            let there = format!("SELECT MAX(id) FROM work.t WHERE session = {session}");
            assert!(number(&mut conn, &there) >= row, "round {round}: session {session} lost row {row}");
        }
        assert!(read_all(&mut conn) > 5000, "round {round}");
        let mut tare = connect(&path(&server));
        let pid = server.id().expect("it runs").to_string();
        assert_eq!((status(&mut tare, "state"), status(&mut tare, "pid")), ("active".to_owned(), pid));
        let said = lines(&server);
        // The log has all lives.
        assert_eq!(said.len() as u64, round + 2, "{said:#?}");
        assert!(said.iter().all(|line| line.contains("[Note]")), "{said:#?}");
    }
    // Never given the library again, it starts all the same.
    let said = lines(&server).len();
    server.kill();
    server.take_library_away();
    server.resume().expect("without the library");
    assert_eq!(rows(&mut server.client().expect("a client"), "CHECKSUM TABLE work.kept"), kept);
    assert_eq!(lines(&server).len(), said, "nothing of tare");
    let ended = server.stop().expect("it stops");
    assert!(ended.success() && !server.log().contains("[ERROR]"), "{ended}\n{}", server.log());
}
