//! The budget in a running server: levels move as the load moves, everything is a row, and a person's
//! settings stay.
//!
//! Prices are made so that one kind of event is beyond any budget and the others cost nothing: so what is
//! decided follows from which events there are, however slow the machine is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mysql::prelude::Queryable;
use tare_testkit::poll_every;
use tare_testkit::price_file::{prices_of, readable};
use tare_testkit::schema::{SchemaConnection, SchemaRow};
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tare_testkit::turn;
use tempfile::NamedTempFile;

const HANDLER: &str = "wait/io/table/sql/handler";
const MDL: &str = "wait/lock/metadata/sql/mdl";
const TABLE_LOCK: &str = "wait/lock/table/sql/handler";
const SELECT: &str = "SELECT COUNT(*) FROM t.t";
const CALL: &str = "CALL t.p()";

/// A price file by which an event of these kinds costs ten milliseconds, and any other nothing.
fn prices(dear: &[&str]) -> NamedTempFile {
    prices_of(&dear.iter().map(|kind| (*kind, 10_000_000)).collect())
}

fn governed(prices: &NamedTempFile, budget: &str) -> StartSettings {
    governed_at("lean", prices, budget)
}

fn governed_at(level: &str, prices: &NamedTempFile, budget: &str) -> StartSettings {
    StartSettings::new(TestProvider::under_test())
        .tare_option("prices", prices.path().display())
        .tare_option("budget", budget)
        .tare_option("budget-every", 1)
        .tare_option("level", level)
}

fn fill(server: &Server) {
    let mut conn = server.client().unwrap();
    for sql in [
        "CREATE DATABASE t",
        "CREATE TABLE t.t (a INT PRIMARY KEY)",
        "INSERT INTO t.t VALUES (1), (2), (3)",
        "CREATE PROCEDURE t.p() BEGIN DECLARE i INT DEFAULT 0; WHILE i < 50 DO SET i = i + 1; END WHILE; END",
    ] {
        conn.query_drop(sql).unwrap();
    }
}

/// Runs a statement again and again on connections of its own while `f` runs.
fn under_load<T>(server: &Server, sql: &str, f: impl FnOnce() -> T) -> T {
    let enough = AtomicBool::new(false);
    let work = || {
        let mut conn = server.client().unwrap();
        while !enough.load(Ordering::Relaxed) {
            conn.query_drop(sql).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
        let value = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        enough.store(true, Ordering::Relaxed);
        value.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn status(schema: &mut SchemaConnection, name: &str) -> String {
    schema.value("tare_status", &[("NAME", name)], "VALUE").unwrap().expect(name)
}

/// Waits until the governor has looked so often more.
fn looks(schema: &mut SchemaConnection, more: u64) {
    let count = |schema: &mut SchemaConnection| status(schema, "budget_looks").parse::<u64>().unwrap();
    let (first, pause) = (count(schema), Duration::from_millis(50));
    let looked = poll_every(pause, Duration::from_secs(120), || count(schema) >= first + more);
    assert!(looked.is_some(), "no look: {:?}", schema.tare_status());
}

fn level(schema: &mut SchemaConnection, name: &str) -> String {
    schema.value("tare_levels", &[("NAME", name)], "LEVEL").unwrap().expect(name)
}

fn set(schema: &mut SchemaConnection, name: &str, set: (&str, &str)) {
    schema.update("tare_levels", &[set], &[("NAME", name)]).unwrap();
}

fn budget(schema: &mut SchemaConnection, value: &str) {
    schema.update("tare_status", &[("VALUE", value)], &[("NAME", "budget")]).unwrap();
}

/// Rows of instruments; those that concern all are left out.
fn moves(schema: &mut SchemaConnection) -> Vec<SchemaRow> {
    let mut rows = schema.rows("tare_decisions").unwrap();
    rows.retain(|row| row.get("NAME").is_some());
    rows
}

/// Moments at which something was given up.
fn cuts(rows: &[SchemaRow]) -> BTreeSet<String> {
    let is_cut = |row: &&SchemaRow| row.text("WHY").starts_with("over budget");
    rows.iter().filter(is_cut).map(|row| row.text("DECISION_TIME").to_owned()).collect()
}

#[test]
fn a_budget_moves_levels_as_the_load_moves_and_every_move_is_a_row() {
    let _turn = turn();
    let file = prices(&["table-io", "program"]);
    let mut server = Server::start(governed(&file, "50%")).unwrap();
    fill(&server);
    let mut schema = server.schema().unwrap();
    assert_eq!(status(&mut schema, "budget"), "50%");
    assert!(status(&mut schema, "budget_prices").ends_with("measured with made up, any"));
    set(&mut schema, "idle", ("LEVEL", "exact"));

    under_load(&server, SELECT, || looks(&mut schema, 4));
    assert_eq!(level(&mut schema, HANDLER), "off");
    let selects = moves(&mut schema);
    assert!(
        selects.iter().any(|row| row.text("NAME") == HANDLER && row.text("FROM_LEVEL") == "lean"),
        "{selects:?}"
    );
    // One look may see the end of the time before the load, the next one is over budget, and that is all.
    assert!(cuts(&selects).len() <= 2, "{selects:?}");

    under_load(&server, CALL, || {
        let churn = || {
            for table in [
                "events_waits_summary_global_by_event_name",
                "events_statements_summary_global_by_event_name",
            ] {
                schema.truncate(table).unwrap();
            }
            for value in ["NO", "YES"] {
                schema
                    .update("setup_consumers", &[("ENABLED", value)], &[("NAME", "events_waits_current")])
                    .unwrap();
                schema
                    .update("setup_instruments", &[("TIMED", value)], &[("NAME", "wait/io/file/sql/FRM")])
                    .unwrap();
            }
            looks(&mut schema, 1);
        };
        std::iter::repeat_with({
            let mut churn = churn;
            move || churn()
        })
        .take(4)
        .for_each(drop);
    });
    let all = moves(&mut schema);
    let programs: BTreeMap<&str, &str> = all
        .iter()
        .filter(|row| row.text("NAME").starts_with("statement/sp/"))
        .map(|row| (row.text("NAME"), row.text("TO_LEVEL")))
        .collect();
    assert_eq!(programs.get("statement/sp/set"), Some(&"off"), "{all:?}");
    assert!(cuts(&all).len() - cuts(&selects).len() <= 2, "{all:?}");

    // What the rows say is what is set, and nothing else was moved.
    let mut said: BTreeMap<&str, &str> = BTreeMap::new();
    let mut changes: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for row in &all {
        let name = row.text("NAME");
        assert_eq!(
            said.insert(name, row.text("TO_LEVEL")).unwrap_or("lean"),
            row.text("FROM_LEVEL"),
            "{row:?}"
        );
        changes.entry(name).or_default().push(row.number("DECISION_ID").unwrap());
    }
    assert!(changes.values().all(|ids| ids.len() <= 2), "{changes:?}");
    for row in schema.rows("tare_levels").unwrap() {
        let name = row.text("NAME");
        let wanted = said.get(name).copied().unwrap_or(if name == "idle" { "exact" } else { "lean" });
        assert_eq!(row.text("LEVEL"), wanted, "{name}");
        let is_held = ["idle", "wait/io/file/sql/FRM"].contains(&name);
        assert_eq!(row.text("HELD"), if is_held { "YES" } else { "NO" }, "{name}");
    }

    budget(&mut schema, "OFF");
    let back = crate::until(|| level(&mut schema, HANDLER), |level| level == "lean");
    assert_eq!(back, "lean");
    assert_eq!(level(&mut schema, "statement/sp/set"), "lean");
    assert_eq!(level(&mut schema, "idle"), "exact", "a person's");
    let (_, ended) = server.stop().unwrap();
    assert!(ended.success(), "{ended:?}");
}

#[test]
fn a_budget_that_persons_stand_in_the_way_of_says_so_and_the_server_ends_in_the_midst_of_it() {
    let _turn = turn();
    let file = prices(&["table-io", "table-lock"]);
    let settings = governed(&file, "5%").tare_option("level", format!("{TABLE_LOCK}=sums"));
    let mut server = Server::start(settings).unwrap();
    fill(&server);
    let mut schema = server.schema().unwrap();
    assert_eq!(schema.value("tare_levels", &[("NAME", TABLE_LOCK)], "HELD").unwrap().as_deref(), Some("YES"));
    under_load(&server, SELECT, || looks(&mut schema, 2));
    let state = status(&mut schema, "budget_state");
    assert!(state.starts_with("cannot be kept") && state.contains("persons have set"), "{state}");
    assert_eq!(level(&mut schema, HANDLER), "off");
    assert_eq!(level(&mut schema, TABLE_LOCK), "sums");
    let said = schema.rows("tare_decisions").unwrap();
    let said: Vec<&SchemaRow> =
        said.iter().filter(|row| row.text("WHY").starts_with("cannot be kept")).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(server.log().matches("the budget of 5% cannot be kept").count(), 1);
    drop(schema);
    let mut conn = server.client().unwrap();
    conn.query_drop(SELECT).unwrap();
    let (_, ended) = server.stop().unwrap();
    assert!(ended.success(), "{ended:?}\n{}", server.log());
}

#[test]
fn connections_that_are_slowed_have_a_budget_of_their_own() {
    let _turn = turn();
    let file = prices(&["program"]);
    let settings = governed(&file, "OFF").tare_option("budget-p95", "50%");
    let server = Server::start(settings).unwrap();
    fill(&server);
    let mut schema = server.schema().unwrap();
    assert_eq!(status(&mut schema, "budget"), "OFF");
    assert_eq!(status(&mut schema, "budget_p95"), "50%");
    let slowed = under_load(&server, CALL, || {
        looks(&mut schema, 4);
        status(&mut schema, "budget_slowed")
    });
    assert_eq!(level(&mut schema, "statement/sp/set"), "off");
    assert!(slowed.ends_with("by the CPU time of connections, 95th percentile"), "{slowed}");
    let moves = moves(&mut schema);
    assert!(
        !moves.is_empty() && moves.iter().all(|row| row.text("WHY").starts_with("over budget-p95: ")),
        "{moves:?}"
    );
    let refused = schema.update("tare_status", &[("VALUE", "slow")], &[("NAME", "budget_p95")]);
    assert_eq!(crate::refused(refused), Some(1231));
    schema.update("tare_status", &[("VALUE", "off")], &[("NAME", "budget_p95")]).unwrap();
    let back = crate::until(|| level(&mut schema, "statement/sp/set"), |level| level == "lean");
    assert_eq!(back, "lean", "there is no budget any more");
}

#[test]
fn connections_are_in_the_account_of_what_watching_costs() {
    let _turn = turn();
    let of_events = std::fs::read_to_string(prices(&[]).path()).unwrap();
    let of_connections =
        "[connection]\noff = { ns = 1e6, low = 1e6, high = 1e6 }\non = { ns = 5e6, low = 5e6, high = 5e6 }\n";
    let file = readable(&(of_events + of_connections));
    let settings =
        StartSettings::new(TestProvider::under_test()).tare_option("prices", file.path().display());
    let server = Server::start(settings).unwrap();
    let mut schema = server.schema().unwrap();
    schema.rows("tare_prices").unwrap();
    for _ in 0..50 {
        server.client().unwrap().query_drop("DO 0").unwrap();
    }
    // Who reads looks at most once a second.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let rows = schema.rows("tare_prices").unwrap();
    let row = rows.iter().find(|row| row.text("NAME") == "(connections)").unwrap();
    let (made, each) = (row.number("EVENTS").unwrap(), row.text("NS_PER_EVENT").parse::<f64>().unwrap());
    assert!((50..60).contains(&made), "{row:?}");
    // Everything is on.
    assert!((4.9e6..=5e6).contains(&each), "{row:?}");
}

#[test]
fn metadata_locks_and_waits_for_rows_are_in_the_account_though_no_table_counts_them() {
    let _turn = turn();
    let file = prices(&["table-io", "metadata-lock"]);
    let settings =
        StartSettings::new(TestProvider::under_test()).tare_option("prices", file.path().display());
    let server = Server::start(settings).unwrap();
    fill(&server);
    let mut conn = server.client().unwrap();
    for sql in ["USE t", "INSERT INTO t SELECT seq FROM seq_10_to_1009"] {
        conn.query_drop(sql).unwrap();
    }
    let mut schema = server.schema().unwrap();
    schema.rows("tare_prices").unwrap();
    for _ in 0..30 {
        conn.query_drop("SELECT SUM(a) FROM t.t").unwrap();
    }
    std::thread::sleep(Duration::from_secs(1));
    let rows = schema.rows("tare_prices").unwrap();
    let events = |name: &str| {
        let row = rows.iter().find(|row| row.get("NAME") == Some(name));
        row.and_then(|row| row.number("EVENTS"))
    };
    // Thirty thousand rows were read, in thirty waits; and who reads the account has transactions, too.
    for name in [HANDLER, MDL] {
        assert!(events(name).is_some_and(|events| (30..300).contains(&events)), "{name}: {rows:?}");
    }
    // A statement that writes takes a lock of everything besides, and its commit another one.
    for _ in 0..100 {
        conn.query_drop("DELETE FROM t.t LIMIT 1").unwrap();
    }
    std::thread::sleep(Duration::from_secs(1));
    let rows = schema.rows("tare_prices").unwrap();
    let locks = rows.iter().find(|row| row.get("NAME") == Some(MDL)).and_then(|row| row.number("EVENTS"));
    assert!(locks.is_some_and(|locks| (300..600).contains(&locks)), "{locks:?} {rows:?}");
}

#[test]
fn prices_follow_the_machine_where_they_say_how_fast_theirs_was() {
    let _turn = turn();
    let dear = std::fs::read_to_string(prices(&["statement", "query"]).path()).unwrap();
    // No machine does the work in a nanosecond: this one is taken for four times as slow, which is the most.
    let of = |work: &str| {
        let file = readable(&dear.replacen("[price.", &format!("{work}[price."), 1));
        let settings =
            StartSettings::new(TestProvider::under_test()).tare_option("prices", file.path().display());
        let server = Server::start(settings).unwrap();
        fill(&server);
        let mut schema = server.schema().unwrap();
        let rows = schema.rows("tare_prices").unwrap();
        let row = rows.iter().find(|row| row.text("NAME").starts_with("statement/sql/")).unwrap();
        (row.text("NS_PER_EVENT").parse::<f64>().unwrap(), status(&mut schema, "budget_machine"))
    };
    let (plain, said) = of("");
    assert!((plain - 1e7).abs() < 1.0 && said.starts_with("unknown"), "{plain}, {said}");
    let (slow, said) = of("[work]\nns = 1\n\n");
    assert!((slow - 4e7).abs() < 1.0 && said.starts_with("prices times 4.00"), "{slow}, {said}");
}

#[test]
fn without_a_budget_nobody_looks_but_readers_and_a_broken_price_file_is_a_warning() {
    let _turn = turn();
    let file = readable("[origin]\nprovider = \"tare\"\n");
    let settings =
        StartSettings::new(TestProvider::under_test()).tare_option("prices", file.path().display());
    let server = Server::start(settings).unwrap();
    fill(&server);
    let governors = || server.process().unwrap().threads_named("tare-governor").unwrap().len();
    assert_eq!(governors(), 0);
    let mut schema = server.schema().unwrap();
    let origin = status(&mut schema, "budget_prices");
    assert!(origin.starts_with("those that ship, because of /") && origin.contains("line 1"), "{origin}");
    assert!(server.log().contains("the prices that ship are used instead"), "{}", server.log());
    let rows = schema.rows("tare_prices").unwrap();
    assert!(rows.iter().any(|row| row.text("NAME").starts_with("statement/sql/")), "{rows:?}");
    let besides = rows.iter().filter(|row| row.get("KIND").is_none()).map(|row| row.text("NAME"));
    assert_eq!(besides.collect::<Vec<_>>(), ["(reading the counts)", "(connections)"]);
    assert!(moves(&mut schema).is_empty());
    let refused = schema.update("tare_status", &[("VALUE", "a lot")], &[("NAME", "budget")]);
    assert_eq!(crate::refused(refused), Some(1231));
    let refused = schema.update("tare_status", &[("VALUE", "9")], &[("NAME", "version")]);
    assert_eq!(crate::refused(refused), Some(1683));
    budget(&mut schema, "2.5%");
    assert_eq!(status(&mut schema, "budget"), "2.5%");
    // A thread has its name once it runs.
    assert_eq!(crate::until(governors, |governors| *governors == 1), 1);
    budget(&mut schema, "OFF");
    assert_eq!(crate::until(governors, |governors| *governors == 0), 0, "it ends with its budget");
}

#[test]
fn with_its_memory_full_the_engine_is_governed_all_the_same() {
    let _turn = turn();
    let file = prices(&["table-io"]);
    let settings =
        governed(&file, "50%").tare_option("memory-max", "8M").tare_option("digests-size", 100_000);
    let server = Server::start(settings).unwrap();
    fill(&server);
    let mut conn = server.client().unwrap();
    for at in 0..3000 {
        conn.query_drop(format!("SELECT {at} AS c{at}")).unwrap();
    }
    let mut schema = server.schema().unwrap();
    under_load(&server, SELECT, || looks(&mut schema, 3));
    assert_eq!(level(&mut schema, HANDLER), "off");
}

/// How often statements of this text were counted, by digest.
fn counted(schema: &mut SchemaConnection, text: &str) -> u64 {
    let mut rows = schema.rows("events_statements_summary_by_digest").unwrap();
    rows.retain(|row| row.get("DIGEST_TEXT") == Some(text));
    rows.iter().filter_map(|row| row.number("COUNT_STAR")).sum()
}

fn stages(schema: &mut SchemaConnection) -> u64 {
    let rows = schema.rows("events_stages_summary_global_by_event_name").unwrap();
    rows.iter().filter_map(|row| row.number("COUNT_STAR")).sum()
}

#[test]
fn samples_give_way_before_levels_do_and_every_statement_is_counted() {
    const TIMES: u64 = 2000;
    let _turn = turn();
    // Those of every statement cost more than there is of CPU time, those of ten a second hardly anything,
    // even of a server that gets a tenth of a processor.
    let file = prices_of(&[("stage", 100_000)].into());
    let server = Server::start(governed_at("sampled", &file, "50%")).unwrap();
    fill(&server);
    let mut schema = server.schema().unwrap();
    assert_eq!(status(&mut schema, "sample_now"), "1000/s");
    under_load(&server, SELECT, || {
        looks(&mut schema, 6);
        let rate: u32 = status(&mut schema, "sample_now").strip_suffix("/s").unwrap().parse().unwrap();
        assert!((10..1000).contains(&rate), "{rate}");
        let before = stages(&mut schema);
        let mut conn = server.client().unwrap();
        for at in 0..TIMES {
            conn.query_drop(format!("SELECT {at} AS counted FROM t.t")).unwrap();
        }
        assert!(stages(&mut schema) > before, "they are seen");
        assert_eq!(counted(&mut schema, "SELECT ? AS `counted` FROM `t` . `t` "), TIMES);
    });
    assert!(moves(&mut schema).is_empty(), "{:?}", moves(&mut schema));
    let rows = schema.rows("tare_decisions").unwrap();
    let rates: Vec<&SchemaRow> = rows.iter().filter(|row| row.text("WHY").starts_with("sample: ")).collect();
    assert!(rates[0].text("WHY").starts_with("sample: 1000/s to "), "{rates:?}");
    assert!(rates[0].text("WHY").contains("/s; over budget: "), "{rates:?}");
    assert!(rates.len() <= 12, "{rates:?}");
    let stage = schema.rows("tare_prices").unwrap().into_iter().find(|row| row.get("KIND") == Some("stage"));
    assert_eq!(stage.unwrap().text("LEVEL"), "sampled");
    budget(&mut schema, "OFF");
    assert_eq!(crate::until(|| status(&mut schema, "sample_now"), |rate| rate == "1000/s"), "1000/s");
}

#[test]
fn statements_are_counted_whatever_that_costs_unless_the_budget_is_strict() {
    const INSTRUMENT: &str = "statement/sql/select";
    let _turn = turn();
    let file = prices(&["query", "statement"]);
    for at in ["lean", "sampled"] {
        let server = Server::start(governed_at(at, &file, "1%")).unwrap();
        fill(&server);
        let mut schema = server.schema().unwrap();
        let strict = |schema: &mut SchemaConnection, value: &str| {
            schema.update("tare_status", &[("VALUE", value)], &[("NAME", "budget_strict")])
        };
        assert_eq!(status(&mut schema, "budget_strict"), "OFF");
        under_load(&server, SELECT, || {
            looks(&mut schema, 4);
            let state = status(&mut schema, "budget_state");
            assert!(state.starts_with("cannot be kept: what is always counted costs "), "{state}");
            assert_ne!(level(&mut schema, INSTRUMENT), "off");
            assert_ne!(level(&mut schema, INSTRUMENT), "counts");
            strict(&mut schema, "ON").unwrap();
            looks(&mut schema, 3);
            assert_eq!(level(&mut schema, INSTRUMENT), "off");
        });
        assert_eq!(crate::refused(strict(&mut schema, "a bit")), Some(1231));
        strict(&mut schema, "off").unwrap();
        let back = crate::until(|| level(&mut schema, INSTRUMENT), |level| level == at);
        assert_eq!(back, at, "it is given up no more");
    }
}

/// The row `level` is the option at run time: one statement for any number of instruments.
#[test]
fn one_statement_sets_the_levels_of_many() {
    let _turn = turn();
    let server =
        Server::start(StartSettings::new(TestProvider::under_test()).tare_option("level", "sums")).unwrap();
    let Some(server) = server.on_its_port() else { return };
    let mut conn = server.client().unwrap();
    let mut one = |query: &str| conn.query_first::<String, _>(query).unwrap().unwrap_or_default();
    let row = "SELECT VALUE FROM performance_schema.tare_status WHERE NAME = 'level'";
    assert_eq!(one(row), "sums");
    let set = |value: &str| {
        format!("UPDATE performance_schema.tare_status SET VALUE = '{value}' WHERE NAME = 'level'")
    };
    let levels = "SELECT GROUP_CONCAT(DISTINCT LEVEL, ' ', HELD ORDER BY LEVEL) FROM performance_schema.tare_levels \
                  WHERE NAME LIKE 'stage/%' OR NAME LIKE 'wait/synch/mutex/%'";
    assert_eq!(one(levels), "sums NO");
    one(&set("lean, stage/%=counts"));
    assert_eq!(one(levels), "counts YES,lean NO");
    assert_eq!(one(row), "lean, stage/%=counts");
    let mut wrong = server.client().unwrap();
    let error = wrong.query_drop(set("lean, stage/%=some")).expect_err("no such level").to_string();
    assert!(error.contains("pattern=LEVEL"), "{error}");
    assert_eq!(one(levels), "counts YES,lean NO", "nothing has changed");
    one(&set("off"));
    assert_eq!(one(levels), "off NO");
}

/// What the server tells of a lock costs about as much when nothing is made of it. So a small budget never
/// has it begun.
#[test]
fn a_budget_too_small_for_locks_leaves_them_to_the_server_but_not_those_that_are_named() {
    let _turn = turn();
    let file = prices(&[]);
    // Mutexes and rwlocks by instance, and those whose instruments are on.
    let seen = |settings: StartSettings| {
        let server = Server::start(settings).unwrap();
        fill(&server);
        let mut schema = server.schema().unwrap();
        let mut names = |table: &str, column: &str| -> BTreeSet<String> {
            schema.rows(table).unwrap().iter().map(|row| row.text(column).to_owned()).collect()
        };
        let made = [names("mutex_instances", "NAME"), names("rwlock_instances", "NAME")];
        assert!(!names("cond_instances", "NAME").is_empty());
        let mut on = schema.rows("setup_instruments").unwrap();
        on.retain(|row| row.text("ENABLED") == "YES" && row.text("NAME").starts_with("wait/synch/"));
        let on: BTreeSet<String> = on.iter().map(|row| row.text("NAME").to_owned()).collect();
        let lost = ["mutex_instances_lost", "rwlock_instances_lost"].map(|name| status(&mut schema, name));
        assert_eq!(lost, ["0"; 2]);
        let says = status(&mut schema, "budget_cut").contains("mutexes and rwlocks since the server's start");
        assert_eq!(says, server.log().contains("mutexes and rwlocks are not instrumented"));
        (made, on, says)
    };
    let is_lock = |name: &&String| !name.starts_with("wait/synch/cond/");
    let (made, on, says) = seen(governed(&file, "1%").tare_option("instrument", "%=ON"));
    assert_eq!((made, on.iter().find(is_lock), says), ([BTreeSet::new(), BTreeSet::new()], None, true));
    let named = "wait/synch/mutex/sql/LOCK_thread_cache";
    let (made, on, says) = seen(governed(&file, "1%").tare_option("instrument", format!("{named}=ON")));
    let named = BTreeSet::from([named.to_owned()]);
    assert_eq!(
        (made, on.into_iter().filter(|name| is_lock(&name)).collect(), says),
        ([named.clone(), BTreeSet::new()], named, true)
    );
    let (made, on, says) = seen(governed(&file, "3%"));
    assert!(made.iter().all(|made| made.len() > 10) && on.iter().filter(is_lock).count() > 100 && !says);
}
