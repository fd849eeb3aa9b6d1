//! Panics in tare, injected where a shim of the shipped module is guarded and where one of its threads
//! begins: the server goes on, and tare says what has stopped.
#![allow(clippy::unwrap_used)]

mod preload;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use preload::{Server, Start};
use tare_testkit::eventually;
use tare_testkit::server::LIMIT;

/// A server in whose provider these places panic; `None` where the provider was built without faults.
fn faulty(places: &str, options: &str) -> Option<Server> {
    if !cfg!(debug_assertions) {
        println!("skipped: faults are only in builds with debug assertions");
        return None;
    }
    let start = Start::with_tare().environment("TARE_FAULT", places).environment("TARE_OPTIONS", options);
    Some(start.run())
}

/// A connection to tare's own socket.
fn endpoint(server: &Server) -> Conn {
    let socket = server.home().join("data/tare.sock");
    let options = OptsBuilder::new().socket(Some(socket.to_string_lossy())).prefer_socket(false);
    Conn::new(options.user(Some("root"))).expect("the endpoint answers")
}

/// The value of a row of `tare_status`.
fn status(server: &Server, row: &str) -> String {
    let query = format!("SELECT `VALUE` FROM `tare_status` WHERE `NAME` = '{row}'");
    endpoint(server).query_first(query).expect("a row").expect("one row")
}

/// Has a server do a bit of everything, and checks that it does.
fn works(server: &Server) {
    let mut client = server.client();
    for statement in [
        "create database if not exists db",
        "create or replace table db.t (a int primary key, b varchar(20)) engine=innodb",
        "begin",
        "insert into db.t values (1, 'x'), (2, 'y')",
        "savepoint s",
        "commit",
        "alter table db.t add c int",
        "lock tables db.t write",
        "unlock tables",
        "create or replace procedure db.p() select count(*) from db.t",
        "call db.p()",
        "flush tables",
    ] {
        client.query_drop(statement).expect(statement);
    }
    let found: Option<(u32, String)> = client.exec_first("select a, b from db.t where a = ?", (2,)).unwrap();
    assert_eq!(found, Some((2, "y".to_owned())));
}

#[test]
fn a_panic_in_a_shim_switches_instrumentation_off_and_the_server_goes_on() {
    // Every family of shims, with fallbacks of every kind; and the row of `tare_status` that says whether a
    // server has it. A panic where threads are spawned keeps the endpoint from starting, and then nobody
    // could be asked.
    for (shim, has) in [
        ("entry::thread::new_thread", None),
        ("entry::table::", None),
        ("entry::metadata::", None),
        ("entry::file::", None),
        ("entry::statement::", None),
        ("entry::program::", None),
        ("entry::registration::", None),
        ("entry::synch::", None),
        ("entry::lock::", None),
        ("entry::socket::", None),
        ("entry::transaction::", None),
        ("entry::stage::", None),
        ("entry::memory::", None),
        ("entry::condition::", Some("errors")),
        ("entry::preparation::", Some("prepared_digests")),
    ] {
        let Some(mut server) = faulty(shim, "level=exact;shape=extended") else { return };
        works(&server);
        if let Some(row) = has.filter(|row| status(&server, row) != "ON") {
            println!("skipped: this server has no {row}");
            continue;
        }
        let state = status(&server, "state");
        assert!(state.starts_with("off: fault injected at ") && state.contains(shim), "{shim}: {state}");
        let asked = "SELECT `ENABLED` FROM `setup_consumers` WHERE `NAME` = 'global_instrumentation'";
        let enabled: Option<String> = endpoint(&server).query_first(asked).unwrap();
        assert_eq!(enabled.as_deref(), Some("NO"), "{shim}");
        assert_eq!(status(&server, "stopped"), "none");
        works(&server);
        assert!(server.stop().success(), "{shim}: {}", server.stderr());
        let log = server.stderr();
        let said = preload::lines(&log).into_iter().filter(|line| line.contains("instrumentation is off"));
        assert_eq!(said.count(), 1, "{shim}: {log}");
    }
}

#[test]
fn a_panic_in_a_thread_of_tares_ends_that_thread_and_is_told() {
    let threads = [
        ("tare-ash", "the active session history is not sampled any more"),
        ("tare-governor", "the budget is not kept any more and all levels go back"),
        ("tare-sampling", "the weight of sampled statements stays as it is"),
        ("tare-start", "errors of the tables have FEDERATED's numbers and texts"),
    ];
    let names = threads.map(|(name, _)| name).join(",");
    let Some(mut server) = faulty(&names, "budget=5%") else { return };
    let stopped = eventually("all are told", LIMIT, || {
        let stopped = status(&server, "stopped");
        threads.iter().all(|(name, _)| stopped.contains(name)).then_some(stopped)
    });
    for (name, loss) in threads {
        let told = format!("{name}: {loss} (fault injected at {name})");
        assert!(stopped.contains(&told), "{told} is not in {stopped}");
    }
    assert_eq!(status(&server, "state"), "active", "events are recorded as ever");
    assert_eq!(status(&server, "ash_interval"), "OFF: not running");
    assert_eq!(status(&server, "budget"), "OFF");
    works(&server);
    assert!(server.stop().success(), "{}", server.stderr());
    let log = server.stderr();
    for (name, loss) in threads {
        let told = format!("{loss}, the server goes on: internal error in {name}: ");
        assert_eq!(preload::lines(&log).into_iter().filter(|line| line.contains(&told)).count(), 1, "{log}");
    }
}
