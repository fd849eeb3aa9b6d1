//! Who waits for whose lock on data in the shape `extended`, held against the scripts that make them wait.

use std::collections::BTreeSet;

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::scene::{SCRIPTS, Scene, WaiterAndHolder};
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::shared_turn;
use tare_testkit::subject::TestProvider;

/// A server that lets deadlocks be looked at; `None`: it has no such tables.
fn server() -> Option<Server> {
    if !TestProvider::under_test().is_tare() {
        println!("skipped: the built-in has no such table");
        return None;
    }
    let settings = StartSettings::new(TestProvider::under_test())
        .tare_option("shape", "extended")
        .option("--innodb-deadlock-detect=OFF")
        .option("--innodb-lock-wait-timeout=600");
    Server::start(settings).unwrap().on_its_port()
}

/// Pairs of connections, each as often as it is told.
fn pairs(conn: &mut Conn, joined: &str) -> Vec<WaiterAndHolder> {
    let sql = format!(
        "SELECT r.PROCESSLIST_ID, b.PROCESSLIST_ID FROM performance_schema.data_lock_waits w {joined} \
         JOIN performance_schema.threads r ON r.THREAD_ID = w.REQUESTING_THREAD_ID \
         LEFT JOIN performance_schema.threads b ON b.THREAD_ID = w.BLOCKING_THREAD_ID ORDER BY 1, 2"
    );
    conn.query(sql).unwrap()
}

/// The join of the tables that clients use.
const LOCKS: &str = "JOIN performance_schema.data_locks rl ON rl.ENGINE_LOCK_ID = w.REQUESTING_ENGINE_LOCK_ID \
     AND rl.THREAD_ID = w.REQUESTING_THREAD_ID AND rl.LOCK_STATUS = 'WAITING' \
     JOIN performance_schema.data_locks bl ON bl.ENGINE_LOCK_ID = w.BLOCKING_ENGINE_LOCK_ID \
     AND bl.THREAD_ID <=> w.BLOCKING_THREAD_ID AND bl.OBJECT_NAME = rl.OBJECT_NAME";

#[test]
fn only_those_are_in_the_way_that_hold_what_is_waited_for() {
    let _turn = shared_turn();
    let Some(server) = server() else { return };
    let mut conn = server.client().unwrap();
    for (name, script) in SCRIPTS {
        let mut scene = Scene::new(&server).unwrap();
        script(&mut scene).unwrap_or_else(|error| panic!("{name}: {error}"));
        let seen = pairs(&mut conn, "");
        let expected: Vec<WaiterAndHolder> = scene.truth.iter().copied().collect();
        assert_eq!(seen, expected, "{name}");
        assert_eq!(pairs(&mut conn, LOCKS), expected, "{name}: joined with the locks");
        let same: Vec<String> = conn
            .query("SELECT ENGINE_LOCK_ID FROM performance_schema.data_locks GROUP BY 1 HAVING COUNT(*) > 1")
            .unwrap();
        assert!(same.is_empty(), "{name}: {same:?}");
    }
    assert_eq!(pairs(&mut conn, ""), [], "nobody waits any more");
}

/// Connection, LOCK_STATUS and the statement that EVENT_ID is of, for each lock.
fn statements(conn: &mut Conn) -> BTreeSet<(u32, String, Option<String>)> {
    let sql = "SELECT t.PROCESSLIST_ID, l.LOCK_STATUS, IFNULL(c.SQL_TEXT, h.SQL_TEXT) \
         FROM performance_schema.data_locks l JOIN performance_schema.threads t ON t.THREAD_ID = l.THREAD_ID \
         LEFT JOIN performance_schema.events_statements_current c \
         ON c.THREAD_ID = l.THREAD_ID AND c.EVENT_ID = l.EVENT_ID \
         LEFT JOIN performance_schema.events_statements_history h \
         ON h.THREAD_ID = l.THREAD_ID AND h.EVENT_ID = l.EVENT_ID";
    conn.query(sql).unwrap().into_iter().collect()
}

const UPDATE: &str = "UPDATE t SET v = 7 WHERE id = 1";
const SHARE: &str = "SELECT v FROM t WHERE id = 1 LOCK IN SHARE MODE";
const SERIALIZABLE: &str = "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE";

/// What a holder did, and which of it took the lock; `None` where more than one may have.
const HOLDERS: [(&[&str], Option<&str>); 12] = [
    (&["BEGIN", UPDATE], Some(UPDATE)),
    (&["SET autocommit = 0", UPDATE], Some(UPDATE)),
    (&["BEGIN", SHARE], Some(SHARE)),
    (&["BEGIN", "SELECT v FROM t", UPDATE], Some(UPDATE)),
    (&["BEGIN", "SELECT v FROM t", SHARE, "SELECT id FROM t"], Some(SHARE)),
    (&["BEGIN", "SELECT v FROM t", UPDATE, "SELECT v FROM t", "SET @a = 1", "SHOW WARNINGS"], Some(UPDATE)),
    (&["BEGIN", "DELETE FROM elsewhere", UPDATE], Some(UPDATE)),
    (&["BEGIN", UPDATE, "UPDATE t SET v = 8 WHERE id = 2"], None),
    (&["BEGIN", UPDATE, "DELETE FROM elsewhere"], None),
    (&[SERIALIZABLE, "BEGIN", "SELECT v FROM t WHERE id = 1"], Some("SELECT v FROM t WHERE id = 1")),
    (&[SERIALIZABLE, "BEGIN", "SELECT v FROM t WHERE id = 1", "SELECT v FROM t"], None),
    (&["BEGIN", "CALL changes()"], Some("CALL changes()")),
];

#[test]
fn a_lock_leads_to_the_statement_that_waits_for_it_or_took_it() {
    let _turn = shared_turn();
    let Some(server) = server() else { return };
    let mut conn = server.client().unwrap();
    for (statements_of_holder, expected) in HOLDERS {
        let mut scene = Scene::new(&server).unwrap();
        conn.query_drop("CREATE PROCEDURE scene.changes() UPDATE scene.t SET v = 9 WHERE id = 1").unwrap();
        let holder = scene.idle(statements_of_holder).unwrap();
        let wanted = "DELETE FROM t WHERE id = 1";
        let waiter = scene.waiting(&["BEGIN"], wanted).unwrap();
        let seen = statements(&mut conn);
        let granted = (holder, "GRANTED".to_owned(), expected.map(str::to_owned));
        let waiting = (waiter, "WAITING".to_owned(), Some(wanted.to_owned()));
        assert_eq!(seen, [granted, waiting].into(), "{statements_of_holder:?}");
        let events: Vec<(bool, bool)> = conn
            .query(
                "SELECT w.REQUESTING_EVENT_ID <=> r.EVENT_ID, w.BLOCKING_EVENT_ID <=> b.EVENT_ID \
                 FROM performance_schema.data_lock_waits w \
                 JOIN performance_schema.data_locks r ON r.ENGINE_LOCK_ID = w.REQUESTING_ENGINE_LOCK_ID \
                 JOIN performance_schema.data_locks b ON b.ENGINE_LOCK_ID = w.BLOCKING_ENGINE_LOCK_ID",
            )
            .unwrap();
        assert_eq!(events, [(true, true)], "{statements_of_holder:?}");
    }
}
