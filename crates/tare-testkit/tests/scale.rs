//! Reading when there is much to read: a thousand connections, five thousand digests, ten thousand tables; and what
//! reading costs a load beside it. It takes minutes, so `make test-scale` runs it and `make test` does not.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tare_testkit::load::Load;
use tare_testkit::server::{Server, Settings};
use tare_testkit::subject::{Provider, setting};
use tare_testkit::turn;

/// Rows of a table and how long it took to read them all.
type Read = (u64, Duration);

fn settings(provider: Provider, connections: u64, digests: u64, tables: u64) -> Settings {
    let settings = Settings::new(provider)
        .option(format!("--max-connections={}", connections + 100))
        .option(format!("--table-open-cache={}", tables + 2000))
        .option(format!("--table-definition-cache={}", tables + 2000))
        .provider_option("digests-size", digests + 1000)
        .tare_option("memory-max", "1G");
    match settings.provider {
        // As many as its memory holds.
        Provider::Tare(_) => settings,
        _ => settings.provider_option("max-table-instances", tables + 2000),
    }
}

/// How much there is: connections, digests, tables.
type Amount = [u64; 3];

fn amount([connections, digests, tables]: Amount) -> Amount {
    [
        setting("TARE_CONNECTIONS", connections),
        setting("TARE_DIGESTS", digests),
        setting("TARE_TABLES", tables),
    ]
}

/// Starts a server and gives it what there is to read; the connections stay open as long as they are kept.
fn filled(provider: Provider, [connections, digests, tables]: Amount) -> (Server, Vec<Conn>) {
    let server = Server::start(settings(provider, connections, digests, tables)).unwrap();
    let open: Vec<Conn> = (0..connections)
        .map(|_| {
            let mut conn = server.client().unwrap();
            conn.query_drop("SELECT 1").unwrap();
            conn
        })
        .collect();
    let mut conn = server.client().unwrap();
    conn.query_drop("CREATE DATABASE many").unwrap();
    conn.query_drop("USE many").unwrap();
    for number in 0..tables {
        conn.query_drop(format!("CREATE TABLE t{number} (a INT, KEY (a)) ENGINE=MEMORY")).unwrap();
        conn.query_drop(format!("INSERT INTO t{number} VALUES (1)")).unwrap();
    }
    for number in 0..digests {
        conn.query_drop(format!("SELECT 1 AS c{number}")).unwrap();
    }
    (server, open)
}

/// Every table of the schema.
fn names(conn: &mut Conn) -> Vec<String> {
    conn.query("SELECT table_name FROM information_schema.tables WHERE table_schema = 'performance_schema'")
        .unwrap()
}

/// Reads a table to its end; how many rows it had.
fn read(conn: &mut Conn, name: &str) -> u64 {
    let sql = format!("SELECT * FROM performance_schema.`{name}`");
    let rows = conn.query_iter(&sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    rows.inspect(|row| assert!(row.is_ok(), "{sql}: {row:?}")).count() as u64
}

/// Reads a table to its end, and how long that takes.
fn timed(conn: &mut Conn, name: &str) -> Read {
    let begin = Instant::now();
    (read(conn, name), begin.elapsed())
}

/// Reads every table once.
fn read_all(conn: &mut Conn, [connections, digests, tables]: Amount) -> BTreeMap<String, Read> {
    let reads: BTreeMap<String, Read> = names(conn)
        .into_iter()
        .map(|name| {
            let read = timed(conn, &name);
            (name, read)
        })
        .collect();
    let rows = |table: &str| reads[table].0;
    assert!(rows("threads") >= connections, "{} threads", rows("threads"));
    assert!(rows("events_statements_summary_by_digest") >= digests, "digests");
    assert!(rows("table_io_waits_summary_by_table") >= tables, "tables");
    assert!(rows("table_io_waits_summary_by_index_usage") >= tables, "indexes");
    assert!(rows("memory_summary_by_thread_by_event_name") >= 100 * connections, "memory by thread");
    reads
}

/// How many of the largest tables are compared, and how often each is read.
const COMPARED: (usize, usize) = (12, 9);

#[test]
#[ignore = "takes minutes: make test-scale"]
fn every_table_can_be_read_when_there_is_much_in_it() {
    let _turn = turn();
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let much = amount([1000, 5000, 10_000]);
    let (subject, _open) = filled(Provider::under_test(), much);
    let (reference, _open_too) = filled(Provider::BuiltIn, much);
    let [mut subject, mut reference] = [&subject, &reference].map(|server| server.client().unwrap());
    let reads = read_all(&mut subject, much);
    read_all(&mut reference, much);
    let mut largest: Vec<(&String, &Read)> = reads.iter().collect();
    largest.sort_by_key(|(_, (rows, _))| std::cmp::Reverse(*rows));
    println!("medians of {} reads each, in turns", COMPARED.1);
    println!(
        "{:<50} {:>8} {:>6} {:>9} {:>6} {:>6}",
        "SELECT * FROM", "rows", "ms", "built-in", "ms", "ratio"
    );
    for (name, _) in largest.into_iter().take(COMPARED.0) {
        let pairs: Vec<(Read, Read)> =
            (0..COMPARED.1).map(|_| (timed(&mut subject, name), timed(&mut reference, name))).collect();
        let median = |of: &dyn Fn(&(Read, Read)) -> f64| {
            let mut values: Vec<f64> = pairs.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let own = median(&|(own, _)| own.1.as_secs_f64() * 1e3);
        let other = median(&|(_, other)| other.1.as_secs_f64() * 1e3);
        let ratio = median(&|(own, other)| own.1.as_secs_f64() / other.1.as_secs_f64());
        let ((rows, _), (other_rows, _)) = pairs[0];
        println!("{name:<50} {rows:>8} {own:>6.1} {other_rows:>9} {other:>6.1} {ratio:>6.2}");
    }
}

/// What is read beside the load, and how long the reader rests between two passes over all tables.
const READING: [(&str, Option<Duration>); 4] = [
    ("nothing", None),
    ("nothing, again", None),
    ("every table, each second", Some(Duration::from_secs(1))),
    ("every table, in a loop", Some(Duration::ZERO)),
];

/// Reads every table until told to stop; how many passes.
fn read_on(server: &Server, pause: Duration, stop: &AtomicBool) -> u64 {
    let mut conn = server.client().unwrap();
    let names = names(&mut conn);
    let mut passes = 0;
    while !stop.load(Relaxed) {
        let begin = Instant::now();
        names.iter().take_while(|_| !stop.load(Relaxed)).for_each(|name| _ = read(&mut conn, name));
        passes += 1;
        while begin.elapsed() < pause && !stop.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    passes
}

/// Transactions of a slice of load with this reading beside it, and how often all was read.
fn slice(server: &Server, load: &Load, seconds: u64, pause: Option<Duration>) -> (u64, u64) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        let reader = pause.map(|pause| scope.spawn(move || read_on(server, pause, stop)));
        let outcome = load.start(server, seconds).unwrap().finish();
        stop.store(true, Relaxed);
        let passes = reader.map_or(0, |reader| reader.join().unwrap());
        (outcome.unwrap().transactions, passes)
    })
}

/// Transactions per slice by [`READING`] and block, and passes by [`READING`].
fn pairs(provider: Provider, blocks: usize, seconds: u64) -> ([Vec<f64>; 4], [u64; 4]) {
    let load = Load {
        workload: "oltp_read_only",
        // One, so that on two processors the reader does not take what the load would use.
        threads: setting("TARE_THREADS", 1),
        tables: 1,
        rows: 10_000,
        prepared: true,
    };
    let (server, _open) = filled(provider, amount([200, 1000, 1000]));
    load.prepare(&server).unwrap();
    slice(&server, &load, seconds, None);
    let (mut done, mut passes) = ([const { Vec::new() }; 4], [0; 4]);
    for block in 0..blocks {
        // Every kind comes first, second, third and last equally often.
        for at in 0..READING.len() {
            let kind = (at + block) % READING.len();
            let (transactions, read) = slice(&server, &load, seconds, READING[kind].1);
            done[kind].push(transactions as f64);
            passes[kind] += read;
        }
    }
    (done, passes)
}

#[test]
#[ignore = "takes minutes: make test-scale"]
fn reading_beside_a_load_is_paired_with_the_load_alone() {
    let _turn = turn();
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let (blocks, seconds) = (setting("TARE_BLOCKS", 8), setting("TARE_SLICE", 3));
    println!(
        "throughput against the same block's load alone, median of {blocks} blocks of {seconds} s and the range of all"
    );
    for (name, provider) in [("tare", Provider::under_test()), ("built-in", Provider::BuiltIn)] {
        let (done, passes) = pairs(provider, blocks as usize, seconds);
        for (kind, (reading, pause)) in READING.iter().enumerate() {
            let mut change: Vec<f64> =
                done[kind].iter().zip(&done[0]).map(|(with, alone)| (with / alone - 1.0) * 100.0).collect();
            change.sort_by(f64::total_cmp);
            let [least, most] = [change[0], change[change.len() - 1]];
            let median = f64::midpoint(change[change.len() / 2], change[(change.len() - 1) / 2]);
            let rate = done[kind].iter().sum::<f64>() / (blocks * seconds) as f64;
            println!(
                "{name:<9} reading {reading:<25} {rate:>7.0} /s {median:>+6.1}% ({least:>+6.1}% … {most:>+6.1}%), {} passes",
                passes[kind]
            );
            assert!(done[kind].iter().all(|done| *done > 0.0), "a load that does nothing");
            assert_eq!(pause.is_some(), passes[kind] > 0, "{reading}");
        }
    }
}
