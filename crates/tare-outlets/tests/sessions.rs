//! The active session history of running servers, as top, snapshots and reports read it.

use std::path::Path;
use std::time::{Duration, SystemTime};

use mysql::prelude::Queryable;
use tare_outlets::report::{self, Report, When};
use tare_outlets::sessions::{History, Moment, RUNNING, Sums, TABLE};
use tare_outlets::snapshot::{self, SnapshotTarget, TableChoice};
use tare_outlets::top::look::{Ask, View};
use tare_outlets::top::once;
use tare_outlets::top::read::Reader;
use tare_outlets::top::state::State;
use tare_outlets::{Address, Source};
use tare_testkit::eventually;
use tare_testkit::server::{LIMIT, Server, StartSettings};
use tare_testkit::subject::TestProvider;

const UPDATE: &str = "UPDATE `shop` . `stock` SET `n` = `n` + ? WHERE ID = ?";

/// Starts a server far from UTC that samples often.
fn start() -> Server {
    let settings = StartSettings::new(TestProvider::tare()).tare_option("ash-interval", "10ms");
    Server::start(settings.option("--default-time-zone=+05:00")).expect("a server")
}

fn addresses(server: &Server) -> [Address; 2] {
    let socket = server.socket().to_str().expect("UTF-8").replace('/', "%2F");
    let account = Address::dsn(&format!("mysql://root@localhost?socket={socket}")).expect("an address");
    [Address::Socket(server.endpoint()), account]
}

/// Lets three sessions wait for a row of a fourth for a while, and returns the connection of that one.
fn with_waiters(server: &Server) -> u32 {
    let mut holder = server.client().expect("a client");
    for statement in [
        "CREATE DATABASE shop",
        "CREATE TABLE shop.stock (id INT PRIMARY KEY, n INT) ENGINE=InnoDB",
        "INSERT INTO shop.stock VALUES (1, 1)",
        "BEGIN",
        "UPDATE shop.stock SET n = n + 5 WHERE id = 1",
    ] {
        holder.query_drop(statement).expect(statement);
    }
    let mut waiters: Vec<_> = (0..3).map(|_| server.client().expect("a client")).collect();
    std::thread::scope(|scope| {
        for waiter in &mut waiters {
            scope.spawn(|| waiter.query_drop("UPDATE shop.stock SET n = n + 1 WHERE id = 1").expect("a row"));
        }
        let count = format!("SELECT COUNT(*) FROM performance_schema.{TABLE} WHERE WAIT_CLASS = 'ROW LOCK'");
        let mut client = server.client().expect("a client");
        eventually("rows of waits", LIMIT, || {
            client.query_first::<u64, _>(&count).ok().flatten() >= Some(60)
        });
        holder.query_drop("COMMIT").expect("the lock is free");
    });
    holder.connection_id()
}

/// Checks that the waits of that scene are there, and for whom they were.
fn holds(sums: &Sums, holder: u32, way: &str) {
    let blocker = &sums.blockers[0];
    assert_eq!(blocker.connection, Some(u64::from(holder)), "{way}: {blocker:?}");
    assert_eq!((blocker.class.as_str(), blocker.waiting), ("ROW LOCK", 3), "{way}");
    assert_eq!(blocker.object.as_ref().map(|it| it.0.as_str()), Some("shop.stock"), "{way}");
    let update = sums.statements.iter().find(|it| it.text.as_deref().map(str::trim_end) == Some(UPDATE));
    assert!(update.is_some_and(|it| it.times[1] > 0 && it.sessions >= 3), "{way}: {:?}", sums.statements);
}

fn all(history: &History) -> Sums {
    history.sums(history.whole().expect("rows"))
}

#[test]
fn top_shows_what_happened_before_it_was_started() {
    let _turn = tare_testkit::turn();
    let server = start();
    let holder = with_waiters(&server);
    for address in addresses(&server) {
        let way = address.to_string();
        let mut reader = Reader::open(address.clone()).expect("a reader");
        let ask = Ask { view: View::Statements, about: None };
        let first = reader.look(&ask).expect("a look");
        let history = first.history.clone().expect("a history");
        holds(&all(&history), holder, &way);
        assert!(history.processors.is_some_and(|it| it > 0), "{way}");
        let end = history.whole().expect("rows").to;
        let now = first.now.expect("the server's time");
        assert!(now.abs_diff(end) < 600_000_000, "{way}: {now} is UTC, as {end}");
        if matches!(address, Address::Account(_)) {
            let overview = &first.head.overview;
            assert!(overview.pool_used.is_some_and(|it| (0.0..=1.0).contains(&it)), "{overview:?}");
            assert!(overview.checkpoint_age.is_some() && overview.history_list.is_some(), "{overview:?}");
            assert!(overview.replication.is_empty(), "{overview:?}");
        }
        let mut client = server.client().expect("a client");
        client.query_drop("DO SLEEP(0.1)").expect("it sleeps");
        let second = reader.look(&ask).expect("a look");
        let fresh = second.history.clone().expect("a history");
        let mut merged = history.clone();
        merged.merge(&fresh);
        assert_eq!(merged.len(), history.len() + fresh.len(), "{way}: no row comes twice");
        let mut state = State::new(View::Statements, Duration::from_secs(1), "");
        state.take(first);
        state.take(second);
        let json = once::json(&state, 10);
        assert!(json["active_sessions"]["row locks"].is_number(), "{way}: {json}");
    }
}

fn snapshot(address: &Address, path: &Path, from: Option<&str>) {
    let tables = [TABLE, RUNNING, "events_statements_summary_by_digest", "tare_status"].map(str::to_owned);
    let choice = TableChoice { tables: tables.into(), text: false };
    let mut source = Source::open(address.clone()).expect("a server");
    let header = snapshot::header(&mut source, &choice).expect("a header");
    let target = SnapshotTarget::named(path).expect("a name");
    let taken = snapshot::write(&target, &header, true, |sink| {
        snapshot::take_from(&mut source, &choice, from, sink, &|| false)
    });
    taken.expect("a snapshot");
}

#[test]
fn snapshots_have_all_of_it_or_what_is_new() {
    let _turn = tare_testkit::turn();
    let server = start();
    let holder = with_waiters(&server);
    let folder = tempfile::tempdir().expect("a folder");
    for (at, address) in addresses(&server).iter().enumerate() {
        let way = address.to_string();
        let path = folder.path().join(format!("{at}.jsonl.gz"));
        snapshot(address, &path, None);
        let file = report::read(&path).expect("a snapshot");
        holds(&all(&file.history), holder, &way);
        let report = Report::of_sessions(&file, When::default()).expect("a report");
        let json = serde_json::to_value(&report).expect("JSON");
        let blocker = &json["sections"][0]["tables"][3]["rows"][0];
        assert_eq!(blocker["connection"], holder.to_string(), "{way}");
        // Times are UTC, whatever the server's zone is.
        let end = file.history.whole().expect("rows").to;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("later than 1970");
        assert!(now.as_micros().abs_diff(u128::from(end)) < 600_000_000, "{way}");

        let later = Moment::At(end).before_now();
        let mut client = server.client().expect("a client");
        client.query_drop("DO SLEEP(1.2)").expect("it sleeps");
        let path = folder.path().join(format!("{at}-new.jsonl"));
        snapshot(address, &path, Some(&later));
        let new = report::read(&path).expect("a snapshot").history;
        assert!(!new.is_empty() && new.len() < file.history.len() + 500, "{way}: {}", new.len());
        assert!(new.whole().expect("rows").from + 2_000_000 > end, "{way}");
        let mut both = file.history.clone();
        both.merge(&new);
        assert!(all(&both).us >= all(&file.history).us, "{way}");
        holds(&all(&both), holder, &way);
    }
}

#[test]
fn a_statement_that_has_not_ended_once_has_its_text() {
    let _turn = tare_testkit::turn();
    let server = start();
    let mut sleeper = server.client().expect("a client");
    let id = sleeper.connection_id();
    let mut admin = server.client().expect("a client");
    let folder = tempfile::tempdir().expect("a folder");
    std::thread::scope(|scope| {
        // Killed at the end.
        scope.spawn(|| drop(sleeper.query_drop("SELECT SLEEP(600), 'never before'")));
        let count = format!("SELECT COUNT(*) FROM performance_schema.{TABLE} WHERE WAIT_CLASS = 'SLEEP'");
        eventually("rows of its sleep", LIMIT, || {
            admin.query_first::<u64, _>(&count).ok().flatten() >= Some(20)
        });
        for (at, address) in addresses(&server).iter().enumerate() {
            let mut reader = Reader::open(address.clone()).expect("a reader");
            let look = reader.look(&Ask { view: View::Statements, about: None }).expect("a look");
            let path = folder.path().join(format!("{at}.jsonl"));
            snapshot(address, &path, None);
            let file = report::read(&path).expect("a snapshot").history;
            for (way, history) in [("live", look.history.expect("a history")), ("file", file)] {
                let sums = all(&history);
                let text = sums.statements.iter().max_by_key(|it| it.us).and_then(|it| it.text.clone());
                assert_eq!(
                    text.as_deref().map(str::trim_end),
                    Some("SELECT `SLEEP` (?) , ?"),
                    "{way} {address}"
                );
            }
        }
        admin.query_drop(format!("KILL {id}")).expect("it ends");
    });
}
