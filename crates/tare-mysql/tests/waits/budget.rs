//! A budget inside a server: levels follow it and come back, what a person sets wins, and the server's own
//! settings stay as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_outlets::Address;
use tare_outlets::top::look::View;
use tare_testkit::eventually;
use tare_testkit::mysql_server::Mysql;
use tare_testkit::price_file::{KINDS, prices_of};
use tare_testkit::server::LIMIT;
use tempfile::NamedTempFile;

use crate::socket::{connect, path, status};
use crate::tools::top;
use crate::{library, number, rows};

const STAGE: &str = "stage/sql/executing";
const MUTEX: &str = "wait/synch/mutex/sql/THD::LOCK_thd_data";
const HANDLER: &str = "wait/io/table/sql/handler";
const MEMORY: &str = "memory/sql/THD::main_mem_root";
/// What the load uses of kinds that the budget has no room for.
const USED: [&str; 5] =
    [STAGE, MUTEX, HANDLER, "wait/lock/table/sql/handler", "wait/io/socket/sql/client_connection"];

/// A price file by which an event of these kinds costs so many nanoseconds, and any other nothing.
fn prices(dear: &[&str], ns: u64) -> NamedTempFile {
    prices_of(&dear.iter().map(|kind| (*kind, ns)).collect())
}

/// Starts a server with these prices and settings, and with a table of 1,000 rows.
fn governed(prices: &Path, settings: &str) -> Option<Mysql> {
    let settings = format!("prices={}; budget-every=1; {settings}", prices.display());
    let server = Mysql::preloaded(&library(), &settings, &[]).expect("a server")?;
    let mut conn = server.client().expect("a client");
    for sql in [
        "CREATE DATABASE work",
        "CREATE TABLE work.t (a INT PRIMARY KEY)",
        "INSERT INTO work.t WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000) SELECT n FROM n",
    ] {
        conn.query_drop(sql).expect(sql);
    }
    Some(server)
}

/// Reads rows again and again on a connection of its own while `f` runs.
fn under_load<T>(server: &Mysql, f: impl FnOnce() -> T) -> T {
    let is_enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut conn = server.client().expect("a client");
            while !is_enough.load(Ordering::Relaxed) {
                conn.query_drop("SELECT SUM(a + 0) FROM work.t").expect("rows");
            }
        });
        let value = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        is_enough.store(true, Ordering::Relaxed);
        value.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Waits until the governor has looked so often more.
fn looks(tare: &mut Conn, more: u64) {
    let mut count = || status(tare, "budget_looks").parse::<u64>().expect("a number");
    let first = count();
    eventually("looks", LIMIT, || count() >= first + more);
}

/// Sets a row of `tare_status`.
fn set(tare: &mut Conn, name: &str, value: &str) {
    let sql = format!("UPDATE tare_status SET VALUE = '{value}' WHERE NAME = '{name}'");
    tare.query_drop(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn budget(tare: &mut Conn, value: &str) {
    set(tare, "budget", value);
}

/// Level and HELD of each instrument.
fn levels(tare: &mut Conn) -> BTreeMap<String, (String, String)> {
    let rows = rows(tare, "SELECT NAME, LEVEL, HELD FROM tare_levels");
    let row = |row: Vec<Option<String>>| {
        let [name, level, held] = row.try_into().expect("three columns");
        Some((name?, (level?, held?)))
    };
    rows.into_iter().map(|it| row(it).expect("no NULL")).collect()
}

fn level(tare: &mut Conn, name: &str) -> (String, String) {
    levels(tare).remove(name).unwrap_or_else(|| panic!("no {name}"))
}

fn is(level: &str, held: &str) -> (String, String) {
    (level.to_owned(), held.to_owned())
}

/// What the server's own table says of instruments.
fn settings(client: &mut Conn) -> BTreeSet<Vec<Option<String>>> {
    rows(client, "SELECT NAME, ENABLED, TIMED FROM performance_schema.setup_instruments")
        .into_iter()
        .collect()
}

fn switch(client: &mut Conn, name: &str, to: &str) {
    let sql =
        format!("UPDATE performance_schema.setup_instruments SET ENABLED = '{to}' WHERE NAME = '{name}'");
    client.query_drop(&sql).expect("an instrument");
}

/// The number of waits, stages and allocations of an instrument so far.
fn count(client: &mut Conn, name: &str) -> u64 {
    let (table, column) = match name.split('/').next() {
        Some("stage") => ("events_stages_summary_global_by_event_name", "COUNT_STAR"),
        Some("memory") => ("memory_summary_global_by_event_name", "COUNT_ALLOC"),
        _ => ("events_waits_summary_global_by_event_name", "COUNT_STAR"),
    };
    number(client, &format!("SELECT {column} FROM performance_schema.{table} WHERE EVENT_NAME = '{name}'"))
}

#[test]
fn a_budget_is_followed_and_what_it_took_comes_back() {
    let dear: Vec<&str> =
        KINDS.into_iter().filter(|kind| !["query", "statement", "transaction"].contains(kind)).collect();
    let file = prices(&dear, 10_000_000);
    let Some(server) = governed(file.path(), "level=lean") else { return };
    let (mut client, mut tare) = (server.client().expect("a client"), connect(&path(&server)));
    assert_eq!(status(&mut tare, "budget"), "OFF");
    assert_eq!(status(&mut tare, "budget_state"), "OFF: nothing is decided");
    switch(&mut client, "wait/synch/mutex/sql/LOCK_plugin", "NO");
    let (before, own) = (levels(&mut tare), settings(&mut client));
    assert_eq!(before[STAGE], is("lean", "NO"));
    assert_eq!(before["wait/synch/mutex/sql/LOCK_plugin"], is("off", "NO"), "the server has it off");
    under_load(&server, || {
        budget(&mut tare, "1%");
        let mut on = Vec::new();
        let are_off = tare_testkit::poll(LIMIT, || {
            let levels = levels(&mut tare);
            on = USED.into_iter().chain([MEMORY]).filter(|name| levels[*name] != is("off", "NO")).collect();
            on.is_empty().then_some(())
        });
        assert!(
            are_off.is_some(),
            "{on:?}: {:#?}",
            rows(&mut tare, "SELECT * FROM tare_status WHERE NAME LIKE 'budget%'")
        );
        for name in USED.into_iter().chain([MEMORY]) {
            let sql = format!("SELECT WHY FROM tare_decisions WHERE NAME = '{name}' AND TO_LEVEL = 'off'");
            // A decision is shown after it was carried out.
            let why = eventually("a decision", LIMIT, || rows(&mut tare, &sql).pop());
            assert!(why[0].as_deref().is_some_and(|why| why.starts_with("over budget: ")), "{name}: {why:?}");
        }
        // Who reads the counts uses memory and tables, too.
        let counts = USED.map(|name| count(&mut client, name));
        let statements =
            "SELECT SUM(COUNT_STAR) FROM performance_schema.events_statements_summary_global_by_event_name";
        let selects = number(&mut client, statements);
        (0..50).for_each(|_| client.query_drop("SELECT a FROM work.t LIMIT 5").expect("rows"));
        assert_eq!(USED.map(|name| count(&mut client, name)), counts, "what is off is not counted");
        assert!(number(&mut client, statements) >= selects + 50, "statements are");
        assert_eq!(settings(&mut client), own, "what the server's table says stays");

        // What a person switches is that person's.
        for name in [STAGE, HANDLER, MEMORY] {
            switch(&mut client, name, "NO");
            assert_eq!(level(&mut tare, name).0, "off", "{name}");
            switch(&mut client, name, "YES");
            assert_eq!(level(&mut tare, name).1, "YES", "{name}");
            assert_ne!(level(&mut tare, name).0, "off", "{name}");
        }
        tare.query_drop(format!("UPDATE tare_levels SET LEVEL = 'sums' WHERE NAME = '{MUTEX}'")).unwrap();
        assert_eq!(level(&mut tare, MUTEX), is("sums", "YES"));
        let held = [STAGE, HANDLER, MEMORY, MUTEX];
        let set = held.map(|name| level(&mut tare, name));
        looks(&mut tare, 3);
        assert_eq!(held.map(|name| level(&mut tare, name)), set, "the governor leaves it alone");
        let counts = held.map(|name| count(&mut client, name));
        client.query_drop("SELECT a FROM work.t LIMIT 5").expect("rows");
        for (name, before) in held.into_iter().zip(counts) {
            assert!(count(&mut client, name) > before, "{name} counts again");
        }
        let shown = top(&Address::Socket(path(&server)), View::Statements);
        let head = shown.lines().take(4).collect::<String>();
        assert!(head.contains("overhead ") && head.contains(" of 1%, cannot be kept"), "{head}");
        let state = status(&mut tare, "budget_state");
        assert!(state.starts_with("cannot be kept") && state.contains("what persons have set"), "{state}");
    });
    budget(&mut tare, "OFF");
    eventually("levels are back", LIMIT, || {
        let held = [STAGE, HANDLER, MEMORY, MUTEX];
        let mut now = levels(&mut tare);
        now.retain(|name, _| !held.contains(&name.as_str()));
        now.iter().all(|(name, level)| before.get(name).is_none_or(|it| it == level))
    });
    assert_eq!(settings(&mut client), own);
    let before = count(&mut client, USED[4]);
    client.query_drop("SELECT a FROM work.t LIMIT 5").expect("rows");
    assert!(count(&mut client, USED[4]) > before, "it counts again");
}

#[test]
fn what_the_server_has_off_no_level_switches_on() {
    let file = prices(&[], 0);
    let settings = "level=lean; level=stage/sql/init=off; level=wait/synch/mutex/sql/LOCK_open=off";
    let Some(server) = governed(file.path(), settings) else { return };
    let (mut client, mut tare) = (server.client().expect("a client"), connect(&path(&server)));
    for name in ["stage/sql/init", "wait/synch/mutex/sql/LOCK_open"] {
        assert_eq!(level(&mut tare, name), is("off", "YES"), "{name}: by the option");
    }
    let names = [STAGE, MEMORY, HANDLER];
    names.iter().for_each(|name| switch(&mut client, name, "NO"));
    for name in names {
        tare.query_drop(format!("UPDATE tare_levels SET LEVEL = 'exact' WHERE NAME = '{name}'")).unwrap();
    }
    set(&mut tare, "level", "exact");
    assert_eq!(status(&mut tare, "level"), "exact");
    let counts = names.map(|name| (level(&mut tare, name).0, count(&mut client, name)));
    (0..20).for_each(|_| client.query_drop("SELECT a FROM work.t LIMIT 5").expect("rows"));
    assert_eq!(names.map(|name| (level(&mut tare, name).0, count(&mut client, name))), counts);
    assert!(counts.iter().all(|(level, _)| level == "off"), "{counts:?}");
    assert_eq!(level(&mut tare, "stage/sql/init").0, "exact", "the server has it on");
}

#[test]
fn fewer_statements_are_sampled_before_a_level_falls() {
    // Those of every statement cost more than there is of CPU time, those of ten a second hardly anything.
    let file = prices(&["stage"], 100_000);
    let Some(server) = governed(file.path(), "level=sampled; budget=50%") else { return };
    let (mut client, mut tare) = (server.client().expect("a client"), connect(&path(&server)));
    under_load(&server, || {
        eventually("the rate falls", LIMIT, || status(&mut tare, "sample_now") != "1000/s");
        let before = count(&mut client, STAGE);
        eventually("stages are seen", LIMIT, || {
            client.query_drop("SELECT a FROM work.t LIMIT 5").expect("rows");
            count(&mut client, STAGE) > before
        });
    });
    let decided = rows(&mut tare, "SELECT NAME, WHY FROM tare_decisions WHERE WHY LIKE 'sample:%'");
    assert!(decided[0][1].as_deref().is_some_and(|why| why.starts_with("sample: 1000/s to ")), "{decided:?}");
    assert!(rows(&mut tare, "SELECT NAME FROM tare_decisions WHERE NAME IS NOT NULL").is_empty());
    budget(&mut tare, "OFF");
    eventually("the rate is back", LIMIT, || status(&mut tare, "sample_now") == "1000/s");
}

#[test]
fn waits_for_rows_are_charged_and_metadata_locks_are_not() {
    let file = prices(&["table-io", "metadata-lock"], 1000);
    let Some(server) = governed(file.path(), "level=lean") else { return };
    let (mut client, mut tare) = (server.client().expect("a client"), connect(&path(&server)));
    let events = "SELECT EVENTS FROM tare_prices WHERE NAME = ";
    let mut waits = Vec::new();
    // A reading is taken at most once a second: one of them has the thirty scans.
    eventually("a reading of the scans", LIMIT, || {
        (0..30).for_each(|_| drop(rows(&mut client, "SELECT SUM(a + 0) FROM work.t")));
        waits = rows(&mut tare, &format!("{events}'{HANDLER}'"));
        waits.first().and_then(|row| row[0].clone()?.parse::<u64>().ok()).is_some_and(|waits| waits >= 30)
    });
    let waits: u64 = waits[0][0].as_deref().expect("a number").parse().expect("a number");
    let read = count(&mut client, HANDLER);
    // The table was filled in 1,000.
    assert!(read >= 30_000 && waits < 1500, "{waits} waits for {read} rows");
    assert!(rows(&mut tare, &format!("{events}'wait/lock/metadata/sql/mdl'")).is_empty());
}

#[test]
fn statements_are_counted_whatever_that_costs_unless_the_budget_is_strict() {
    const SELECT: &str = "statement/sql/select";
    let file = prices(&["query", "statement"], 10_000_000);
    let Some(server) = governed(file.path(), "level=lean; budget=1%") else { return };
    let mut tare = connect(&path(&server));
    under_load(&server, || {
        looks(&mut tare, 4);
        let state = status(&mut tare, "budget_state");
        assert!(state.starts_with("cannot be kept: what is always counted costs "), "{state}");
        let kept = level(&mut tare, SELECT).0;
        assert!(["lean", "sums"].contains(&kept.as_str()), "{kept}");
        set(&mut tare, "budget_strict", "ON");
        eventually("statements are off", LIMIT, || level(&mut tare, SELECT).0 == "off");
    });
    set(&mut tare, "budget_strict", "OFF");
    eventually("statements are back", LIMIT, || level(&mut tare, SELECT).0 == "lean");
}

#[test]
fn connections_have_a_budget_of_their_own_and_are_in_the_account() {
    let file = prices(&["stage"], 10_000_000);
    let Some(server) = governed(file.path(), "level=lean; budget-p95=5%") else { return };
    let (mut client, mut tare) = (server.client().expect("a client"), connect(&path(&server)));
    under_load(&server, || {
        eventually("the stages of the load are off", LIMIT, || level(&mut tare, STAGE).0 == "off");
        eventually("connections are in the account of the slowest", LIMIT, || {
            status(&mut tare, "budget_slowed").contains("% by the CPU time of connections")
        });
    });
    let why = rows(&mut tare, &format!("SELECT WHY FROM tare_decisions WHERE NAME = '{STAGE}'"));
    assert!(why[0][0].as_deref().is_some_and(|why| why.starts_with("over budget-p95: ")), "{why:?}");
    set(&mut tare, "budget_p95", "OFF");
    eventually("stages are back", LIMIT, || level(&mut tare, STAGE).0 == "lean");
    eventually("connections are in the account", LIMIT, || {
        (0..20).for_each(|_| drop(server.client().expect("a client")));
        let rows = rows(&mut tare, "SELECT EVENTS FROM tare_prices WHERE NAME = '(connections)'");
        rows.first().and_then(|row| row[0].clone()?.parse::<u64>().ok()).is_some_and(|made| made >= 20)
    });
    client.query_drop("DO 1").expect("the server answers");
}
