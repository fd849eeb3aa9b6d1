//! PROCESSLIST_STATE: what a thread is doing, also while nobody wants stages.

use mysql::prelude::Queryable;
use tare_testkit::server::Server;
use tare_testkit::shared_turn;

use crate::{beside_the_built_in, until};

const SCHEDULER: &str = "thread/sql/event_scheduler";

/// The states of three connections: one is idle, one sleeps, and one waits for a table. All of it with stages
/// on, with all of them off, with all off for connections that came later, and with all on for those. And the
/// state of the event scheduler, which has a session that no provider is told of, and begins while nobody
/// wants stages.
fn states(server: &Server) -> Vec<[Option<String>; 4]> {
    let mut schema = server.schema().unwrap();
    server.client().unwrap().query_drop("CREATE DATABASE t; CREATE TABLE t.t (a INT)").unwrap();
    let switch = |on: &str| {
        let mut admin = server.client().unwrap();
        let sql = format!(
            "UPDATE performance_schema.setup_instruments SET ENABLED = '{on}' WHERE NAME LIKE 'stage/%'"
        );
        admin.query_drop(sql).unwrap();
    };
    let mut seen = Vec::new();
    for (turn, on) in ["YES", "NO", "NO", "YES"].into_iter().enumerate() {
        if turn == 2 {
            server.client().unwrap().query_drop("SET GLOBAL event_scheduler = ON").unwrap();
        }
        let (mut idle, mut sleeps, mut waits) =
            (server.client().unwrap(), server.client().unwrap(), server.client().unwrap());
        let ids = [&idle, &sleeps, &waits].map(|conn| conn.connection_id().to_string());
        idle.query_drop("LOCK TABLES t.t WRITE").unwrap();
        let mut state =
            |column: &str, is: &str| schema.value("threads", &[(column, is)], "PROCESSLIST_STATE").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| sleeps.query_drop("SELECT SLEEP(60)"));
            scope.spawn(|| waits.query_drop("SELECT * FROM t.t"));
            let mut all = || {
                let mut of = |at: usize| state("PROCESSLIST_ID", &ids[at]);
                let slept = until(|| of(1), |it| it.as_deref() == Some("User sleep"));
                let waited = until(|| of(2), |it| it.as_deref().is_some_and(|it| it.contains("lock")));
                let idle = of(0);
                let schedules = until(|| state("NAME", SCHEDULER), |it| (turn < 2) == it.is_none());
                [idle, slept, waited, schedules]
            };
            seen.push(all());
            // Nobody begins a stage meanwhile.
            switch(on);
            seen.push(all());
            server.client().unwrap().query_drop(format!("KILL QUERY {}", ids[1])).unwrap();
            idle.query_drop("UNLOCK TABLES").unwrap();
        });
    }
    seen
}

#[test]
fn a_threads_state_is_shown_also_while_nobody_wants_stages() {
    let _turn = shared_turn();
    let Some((expected, subject)) = beside_the_built_in(states) else { return };
    assert_eq!(states(&subject), expected);
    for (at, seen) in expected.iter().enumerate() {
        let schedules = (at >= 4).then_some("Waiting on empty queue");
        let states = [None, Some("User sleep"), Some("Waiting for table metadata lock"), schedules];
        assert_eq!(seen.each_ref().map(Option::as_deref), states, "{at}");
    }
    let log = subject.log();
    assert!(!log.contains("are told all the same"), "it says which stage a session is in: {log}");
}
