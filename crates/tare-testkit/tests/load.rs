//! 64 clients write and read while another reads every table, switches instruments and truncates.
//!
//! ALONE: 64 clients leave others nothing of the machine.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

use std::collections::{HashMap, HashSet};

use mysql::prelude::Queryable;
use tare_testkit::capture::names;
use tare_testkit::eventually;
use tare_testkit::history::{ClockSources, Events, KINDS};
use tare_testkit::load::SysbenchLoad;
use tare_testkit::schema::{SchemaConnection, TABLES};
use tare_testkit::server::{LIMIT, Server, StartSettings};
use tare_testkit::subject::{TestProvider, setting};
use tare_testkit::turn;

/// What is switched off and on while the load runs.
const SWITCHED: [&str; 6] = [
    "wait/synch/mutex/sql/THD::LOCK_thd_data",
    "wait/synch/rwlock/sql/MDL_lock::rwlock",
    "wait/io/table/sql/handler",
    "stage/sql/Sending data",
    "statement/sql/select",
    "transaction",
];

const LOAD: SysbenchLoad =
    SysbenchLoad { workload: "oltp_read_write", threads: 64, tables: 4, rows: 5000, prepared: true };

fn clocks() -> ClockSources {
    if TestProvider::under_test().is_tare() { ClockSources::One } else { ClockSources::WaitsApart }
}

fn start() -> Server {
    // Not what is tested, and otherwise most of the time goes to waiting for the disk.
    let settings =
        StartSettings::new(TestProvider::under_test()).option("--innodb-flush-log-at-trx-commit=2");
    let settings = settings.option("--max-connections=300");
    let server = Server::start(settings).unwrap();
    LOAD.prepare(&server).unwrap();
    server
}

/// Reads all history tables once, each in one statement, and lists contradictions within each.
fn contradictions(
    schema: &mut SchemaConnection,
    names: &HashSet<String>,
    rows_seen: &mut usize,
) -> Vec<String> {
    let mut found = Vec::new();
    for (events, kind) in KINDS {
        for scope in ["current", "history", "history_long"] {
            let table = format!("events_{events}_{scope}");
            let rows = schema.rows(&table).unwrap();
            *rows_seen += rows.len();
            let events =
                Events { rows: rows.iter().map(|row| (kind, row)).collect(), names, clocks: clocks() };
            found.extend(events.violations().into_iter().map(|v| format!("{table}: {v}")));
        }
    }
    found
}

/// One passage of the other connection: reads every table, switches instruments, truncates. Returns
/// contradictions.
fn disturb(
    server: &Server,
    schema: &mut SchemaConnection,
    names: &HashSet<String>,
    on: bool,
    rows_seen: &mut usize,
) -> Vec<String> {
    for table in TABLES {
        *rows_seen += schema.rows(table).unwrap_or_else(|e| panic!("{table}: {e}\n{}", server.log())).len();
    }
    let found = contradictions(schema, names, rows_seen);
    for name in SWITCHED {
        let value = if on { "YES" } else { "NO" };
        schema.update("setup_instruments", &[("ENABLED", value)], &[("NAME", name)]).unwrap();
    }
    for events in ["waits", "stages", "statements", "transactions"] {
        schema.truncate(&format!("events_{events}_history_long")).unwrap();
        schema.truncate(&format!("events_{events}_summary_global_by_event_name")).unwrap();
    }
    schema.truncate("events_statements_summary_by_digest").unwrap();
    found
}

/// Passages the other connection must make: off, on, and off again. How long that takes is the machine's
/// affair.
const ROUNDS: u32 = 3;

#[test]
fn readers_and_switches_disturb_nobody() {
    let _turn = turn();
    let mut server = start();
    let mut schema = server.schema().unwrap();
    let names = names(&mut schema).unwrap();
    let (mut rounds, mut rows_seen, mut transactions) = (0, 0, 0);
    let mut found = Vec::new();
    while rounds < ROUNDS {
        let mut load = LOAD.start(&server, setting("TARE_LOAD_SECONDS", 20)).unwrap();
        while load.is_running() {
            found.extend(disturb(&server, &mut schema, &names, rounds % 2 == 1, &mut rows_seen));
            rounds += 1;
        }
        let outcome = load.finish().unwrap();
        assert!(outcome.transactions > 0, "{}", outcome.text);
        transactions += outcome.transactions;
    }
    println!("{transactions} transactions, {rounds} rounds, {rows_seen} rows read");
    for line in found.iter().take(20) {
        println!("{line}");
    }
    assert_eq!(found.len(), 0, "rows that contradict themselves");
    let (_, status) = server.stop().unwrap();
    assert!(status.success(), "{status}\n{}", server.log());
}

/// Status variables the server keeps by itself, and what of the tables must say the same: for prepared
/// statements,
const OF_PREPARED: &[(&str, Seen)] = &[
    ("Com_stmt_prepare", Seen::Statement("statement/com/Prepare")),
    ("Com_stmt_execute", Seen::Statement("statement/com/Execute")),
    ("Com_stmt_close", Seen::Statement("statement/com/Close stmt")),
    ("Handler_delete", Seen::Rows("COUNT_DELETE")),
    ("Handler_update", Seen::Rows("COUNT_UPDATE")),
];

/// and for statements sent as text.
const OF_TEXT: &[(&str, Seen)] = &[
    ("Com_select", Seen::Statement("statement/sql/select")),
    ("Com_insert", Seen::Statement("statement/sql/insert")),
    ("Com_delete", Seen::Statement("statement/sql/delete")),
    ("Com_update", Seen::Statement("statement/sql/update")),
    ("Com_begin", Seen::Statement("statement/sql/begin")),
    ("Com_commit", Seen::Statement("statement/sql/commit")),
    ("Handler_delete", Seen::Rows("COUNT_DELETE")),
    ("Handler_update", Seen::Rows("COUNT_UPDATE")),
];

#[derive(Clone, Copy)]
enum Seen {
    /// COUNT_STAR of a statement instrument.
    Statement(&'static str),
    /// A column of the table I/O of the load's tables.
    Rows(&'static str),
}

impl Seen {
    fn read(self, schema: &mut SchemaConnection) -> u64 {
        match self {
            Seen::Statement(name) => {
                let table = "events_statements_summary_global_by_event_name";
                schema.sum(table, &[("EVENT_NAME", name)], "COUNT_STAR").unwrap()
            }
            Seen::Rows(column) => {
                schema.sum("table_io_waits_summary_by_table", &[("OBJECT_SCHEMA", "sbtest")], column).unwrap()
            }
        }
    }
}

fn status(server: &Server) -> HashMap<String, u64> {
    let rows: Vec<(String, String)> = server.client().unwrap().query("SHOW GLOBAL STATUS").unwrap();
    rows.into_iter().filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect()
}

/// Waits until the load's connections are gone: they may still be ending when sysbench has ended.
fn wait_for_quiet(server: &Server, schema: &mut SchemaConnection) {
    let clients = |schema: &mut SchemaConnection| {
        schema.rows_where("threads", &[("TYPE", "FOREGROUND")]).unwrap().len()
    };
    eventually("connections leave threads after their end", LIMIT, || {
        clients(schema) <= 2 && status(server)["Threads_connected"] <= 2
    });
}

#[test]
fn what_happened_is_seen_and_nothing_is_lost() {
    let _turn = turn();
    let server = start();
    let mut schema = server.schema().unwrap();
    for (prepared, seen_twice) in [(true, OF_PREPARED), (false, OF_TEXT)] {
        wait_for_quiet(&server, &mut schema);
        let before: Vec<u64> = seen_twice.iter().map(|(_, seen)| seen.read(&mut schema)).collect();
        let own_before = status(&server);
        let load = SysbenchLoad { prepared, ..LOAD };
        load.start(&server, setting("TARE_LOAD_SECONDS", 20).div_ceil(5)).unwrap().finish().unwrap();
        wait_for_quiet(&server, &mut schema);
        // The own counters first: reading the tables adds to both.
        let own_after = status(&server);
        for ((own, seen), before) in seen_twice.iter().zip(before) {
            let happened = own_after[*own] - own_before[*own];
            // Reading the tables is a select too; nothing else here happens outside the load.
            let slack = if *own == "Com_select" { 200 } else { 0 };
            let counted = seen.read(&mut schema) - before;
            let close = counted.abs_diff(happened) <= slack;
            println!("{own}: {happened}, seen {counted}");
            assert!(
                close,
                "{own}: the server counts {happened}, the tables {counted} (prepared: {prepared})"
            );
        }
    }
    let lost = schema.tare_status().unwrap();
    let lost: Vec<_> = lost.iter().filter(|(name, value)| name.contains("lost") && *value != "0").collect();
    assert!(lost.is_empty(), "{lost:?}");
}
