//! Reading when there is much to read: a thousand connections, five thousand digests, ten thousand tables;
//! and what reading costs a load beside it. It takes minutes, so `make test-scale` runs it and `make test`
//! does not.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tare_server::process::thread_cpu_time;
use tare_testkit::load::SysbenchLoad;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::{TestProvider, setting};
use tare_testkit::turn;

/// Rows of a table and how long it took to read them all.
type ScaleRead = (u64, Duration);

fn settings(provider: TestProvider, connections: u64, digests: u64, tables: u64) -> StartSettings {
    let settings = StartSettings::new(provider)
        .option(format!("--max-connections={}", connections + 100))
        .option(format!("--table-open-cache={}", tables + 2000))
        .option(format!("--table-definition-cache={}", tables + 2000))
        .provider_option("digests-size", digests + 1000)
        .tare_option("memory-max", "1G");
    match settings.provider {
        // The number is limited by its memory only.
        TestProvider::Tare(_) => settings,
        _ => settings.provider_option("max-table-instances", tables + 2000),
    }
}

/// How much there is: connections, digests, tables.
type ScaleAmount = [u64; 3];

fn amount([connections, digests, tables]: ScaleAmount) -> ScaleAmount {
    [
        setting("TARE_CONNECTIONS", connections),
        setting("TARE_DIGESTS", digests),
        setting("TARE_TABLES", tables),
    ]
}

/// Starts a server and gives it what there is to read; the connections stay open as long as they are kept.
fn filled(provider: TestProvider, [connections, digests, tables]: ScaleAmount) -> (Server, Vec<Conn>) {
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
fn timed(conn: &mut Conn, name: &str) -> ScaleRead {
    let begin = Instant::now();
    (read(conn, name), begin.elapsed())
}

/// Reads every table once.
fn read_all(conn: &mut Conn, [connections, digests, tables]: ScaleAmount) -> BTreeMap<String, ScaleRead> {
    let reads: BTreeMap<String, ScaleRead> = names(conn)
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
    let (subject, _open) = filled(TestProvider::under_test(), much);
    let (reference, _open_too) = filled(TestProvider::BuiltIn, much);
    let [mut subject, mut reference] = [&subject, &reference].map(|server| server.client().unwrap());
    let reads = read_all(&mut subject, much);
    read_all(&mut reference, much);
    let mut largest: Vec<(&String, &ScaleRead)> = reads.iter().collect();
    largest.sort_by_key(|(_, (rows, _))| std::cmp::Reverse(*rows));
    println!("medians of {} reads each, in turns", COMPARED.1);
    println!(
        "{:<50} {:>8} {:>6} {:>9} {:>6} {:>6}",
        "SELECT * FROM", "rows", "ms", "built-in", "ms", "ratio"
    );
    for (name, _) in largest.into_iter().take(COMPARED.0) {
        let pairs: Vec<(ScaleRead, ScaleRead)> =
            (0..COMPARED.1).map(|_| (timed(&mut subject, name), timed(&mut reference, name))).collect();
        let median = |of: &dyn Fn(&(ScaleRead, ScaleRead)) -> f64| {
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

/// What goes on beside the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// A connection that calculates: takes a processor, and nothing else.
    Calculating,
    /// A connection that reads every table, one after the other.
    Reading,
}

/// What is compared with what. That somebody takes a processor is not what reading is asked about: its base
/// is a neighbour that takes one too.
const COMPARISONS: [(&str, usize, usize); 3] = [
    ("nothing beside it, again", 1, 0),
    ("a neighbour that calculates", 2, 0),
    ("a neighbour that reads, not calculates", 3, 2),
];
const KINDS: [Beside; 4] = [Beside::Nothing, Beside::Nothing, Beside::Calculating, Beside::Reading];

/// What one turn took: time and CPU time of the load's own connections per transaction, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Charge {
    time: f64,
    cpu: f64,
}

/// CPU time of some threads of the server.
fn cpu_of(server: &Server, threads: &[u64]) -> Duration {
    let process = server.process().unwrap().id();
    threads.iter().map(|thread| thread_cpu_time(process, *thread as u32).unwrap()).sum()
}

fn transactions(conn: &mut Conn) -> u64 {
    let (_, count): (String, u64) =
        conn.query_first("SHOW GLOBAL STATUS LIKE 'Com_commit'").unwrap().unwrap();
    count
}

/// A connection that does what it is told, in pieces of some milliseconds, until there is nothing more to do.
/// Gives passes over all tables and the time they took.
fn neighbour(server: &Server, task: &AtomicU8) -> (u64, Duration) {
    let mut conn = server.client().unwrap();
    let names = names(&mut conn);
    let (mut next, mut passes, mut took) = (0, 0, Duration::ZERO);
    loop {
        match task.load(Relaxed) {
            task if task == Beside::Nothing as u8 => std::thread::sleep(Duration::from_millis(2)),
            task if task == Beside::Calculating as u8 => {
                conn.query_drop("DO BENCHMARK(200000, RAND())").unwrap();
            }
            task if task == Beside::Reading as u8 => {
                let begin = Instant::now();
                read(&mut conn, &names[next]);
                took += begin.elapsed();
                next = (next + 1) % names.len();
                passes += u64::from(next == 0);
            }
            _ => return (passes, took),
        }
    }
}

/// One load goes on; what is beside it changes from turn to turn.
fn turns(provider: TestProvider, rounds: u64, each: Duration) -> ([Vec<Charge>; 4], (u64, Duration)) {
    let load =
        SysbenchLoad { workload: "oltp_read_only", threads: 2, tables: 1, rows: 10_000, prepared: true };
    let (server, _open) = filled(provider, amount([200, 1000, 1000]));
    load.prepare(&server).unwrap();
    let mut conn = server.client().unwrap();
    let seconds = rounds * KINDS.len() as u64 * (each.as_secs() + 1) + 10;
    let mut running = load.start(&server, seconds).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let threads: Vec<u64> =
        conn.query("SELECT TID FROM information_schema.processlist WHERE DB = 'sbtest'").unwrap();
    assert_eq!(threads.len(), 2, "connections of the load");
    let task = AtomicU8::new(Beside::Nothing as u8);
    std::thread::scope(|scope| {
        let neighbour = scope.spawn(|| neighbour(&server, &task));
        let mut charges = [const { Vec::new() }; 4];
        for round in 0..rounds as usize {
            // Every kind comes first, second, third and last equally often.
            for at in 0..KINDS.len() {
                let kind = (at + round) % KINDS.len();
                task.store(KINDS[kind] as u8, Relaxed);
                std::thread::sleep(Duration::from_millis(100));
                let (done, cpu, begin) = (transactions(&mut conn), cpu_of(&server, &threads), Instant::now());
                std::thread::sleep(each);
                let (time, cpu) = (begin.elapsed(), cpu_of(&server, &threads).saturating_sub(cpu));
                let done = (transactions(&mut conn) - done) as f64;
                let per_transaction = |spent: Duration| spent.as_secs_f64() * 1e6 / done;
                charges[kind].push(Charge { time: per_transaction(time), cpu: per_transaction(cpu) });
            }
        }
        assert!(running.is_running(), "the load ended before its time");
        task.store(u8::MAX, Relaxed);
        (charges, neighbour.join().unwrap())
    })
}

#[test]
#[ignore = "takes minutes: make test-scale"]
fn reading_beside_a_load_is_paired_with_a_neighbour_that_does_not_read() {
    let _turn = turn();
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let (rounds, each) = (setting("TARE_ROUNDS", 20), Duration::from_millis(setting("TARE_TURN", 1000)));
    println!(
        "what a transaction of a load takes more: medians of {rounds} rounds of {each:?} turns, quarters in brackets"
    );
    for (name, provider) in [("tare", TestProvider::under_test()), ("built-in", TestProvider::BuiltIn)] {
        let (charges, (passes, took)) = turns(provider, rounds, each);
        for (what, kind, base) in COMPARISONS {
            let change = |of: &dyn Fn(&Charge) -> f64| {
                let pairs = charges[kind].iter().zip(&charges[base]);
                let mut changes: Vec<f64> = pairs.map(|(a, b)| (of(a) / of(b) - 1.0) * 100.0).collect();
                changes.sort_by(f64::total_cmp);
                let at = |quarter: usize| changes[(changes.len() - 1) * quarter / 4];
                format!("{:>+6.1}% ({:>+6.1} … {:>+6.1})", at(2), at(1), at(3))
            };
            let (time, cpu) = (change(&|c| c.time), change(&|c| c.cpu));
            println!("{name:<9} {what:<39} CPU of its own {cpu}  time {time}");
        }
        assert!(passes > 0, "nothing was read");
        println!(
            "{name:<9} reading all tables took {:.2} s, {passes} times",
            took.as_secs_f64() / passes as f64
        );
    }
}
