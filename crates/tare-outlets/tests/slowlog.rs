//! The slow log of running servers: nothing is lost unsaid, it outlives the server, and others read it.

#[path = "slowlog/blocks.rs"]
mod blocks;
#[path = "slowlog/load.rs"]
mod load;
#[path = "slowlog/sampled.rs"]
mod sampled;
#[path = "slowlog/streams.rs"]
mod streams;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use mysql::prelude::Queryable;
use serde_json::Value;
use tare_outlets::slowlog::{
    self, Control, Destination, Rotation, SlowLogFormat, SlowLogOptions, SlowLogTotals, StatementFilter, Text,
};
use tare_outlets::{Address, Source};
use tare_testkit::load::{SysbenchLoad, TPCC};
use tare_testkit::server::{LIMIT, Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tare_testkit::{eventually, poll};

#[derive(Default)]
struct Hand {
    over: AtomicBool,
    reopen: AtomicBool,
    said: Mutex<Vec<String>>,
}

impl Hand {
    fn has_said(&self, text: &str) -> bool {
        self.said.lock().expect("no panic").iter().any(|line| line.contains(text))
    }

    fn wait_for(&self, text: &str) {
        let said = poll(LIMIT, || self.has_said(text));
        assert!(said.is_some(), "it never said {text:?}: {:?}", self.said.lock());
    }
}

impl Control for Hand {
    fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }
    fn reopens(&self) -> bool {
        self.reopen.swap(false, SeqCst)
    }
    fn tell(&self, line: &str) {
        self.said.lock().expect("no panic").push(line.to_owned());
    }
}

fn server(history: &str) -> Server {
    let option = format!("--performance-schema-events-statements-history-long-size={history}");
    Server::start(StartSettings::new(TestProvider::tare()).option(option)).expect("a server")
}

fn options(server: &Server, file: &Path) -> SlowLogOptions {
    SlowLogOptions {
        socket: server.endpoint(),
        choice: StatementFilter::default(),
        form: SlowLogFormat::Json,
        text: Text::Full,
        destination: Destination::File(file.to_owned(), Rotation::default()),
        interval: Duration::from_millis(20),
    }
}

/// Logs while `work` is done.
fn log<T>(options: &SlowLogOptions, hand: &Hand, work: impl FnOnce() -> T) -> (SlowLogTotals, T) {
    std::thread::scope(|scope| {
        let logging = scope.spawn(|| slowlog::run(options, hand).expect("it logs"));
        hand.wait_for("reads what ends from now on");
        let done = work();
        hand.over.store(true, SeqCst);
        (logging.join().expect("no panic"), done)
    })
}

/// The statements counted once every connection has ended; nothing is added by asking.
fn counted(server: &Server) -> u64 {
    let mut source = Source::open(Address::Socket(server.endpoint())).expect("the endpoint");
    eventually("no connection is left", LIMIT, || {
        source.rows("threads", &["THREAD_ID"], "WHERE TYPE = 'FOREGROUND'").expect("threads").is_empty()
    });
    let rows = source.rows("events_statements_summary_global_by_event_name", &["COUNT_STAR"], "");
    rows.expect("rows").iter().map(|row| row.count(0)).sum()
}

/// Connections that come and go, and statements of theirs that are numbered.
fn churn(server: &Server, connections: u64, statements: u64) {
    std::thread::scope(|scope| {
        for worker in 0..8 {
            scope.spawn(move || {
                for connection in 0..connections / 8 {
                    let mut client = server.client().expect("a client");
                    for n in 0..statements {
                        let filler = "x".repeat((n % 40) as usize);
                        client
                            .query_drop(format!("SELECT {worker}, {connection}, {n}, '{filler}'"))
                            .expect("a row");
                    }
                }
            });
        }
    });
}

/// Whether a text is in a file.
fn has(file: &Path, text: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|log| log.contains(text))
}

/// Checks that texts are whole and in the order of their connection; returns how many lines there are.
fn check_lines(log: &str) -> u64 {
    let mut last = std::collections::HashMap::new();
    let mut lines = 0;
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        lines += 1;
        let Some(text) =
            line["text"].as_str().filter(|text| text.starts_with("SELECT ") && text.ends_with('\''))
        else {
            continue;
        };
        let parts: Vec<&str> = text["SELECT ".len()..].split(", ").collect();
        let n: u64 = parts[2].parse().expect("a number");
        assert_eq!(parts[3].len() as u64, n % 40 + 2, "{text}");
        let before = last.insert(line["thread_id"].as_u64().expect("an id"), n);
        assert!(before.is_none_or(|before| before < n), "{before:?} {text}");
        assert_eq!(line["user"], "root");
        assert!(line["connection_id"].as_u64().is_some_and(|id| id > 0), "{line}");
    }
    lines
}

#[test]
fn lines_and_lost_are_the_statements_counted() {
    let _turn = tare_testkit::turn();
    let folder = tempfile::tempdir().expect("a folder");
    for (history, may_lose) in [("200000", false), ("100", true)] {
        let server = server(history);
        let file = folder.path().join(history);
        let hand = Hand::default();
        let before = counted(&server);
        let (totals, after) = log(&options(&server, &file), &hand, || {
            churn(&server, 64, 300);
            counted(&server)
        });
        println!("long history of {history}: {totals:?}");
        assert_eq!(totals.written + totals.lost, after - before, "{totals:?}");
        assert_eq!((totals.left_out, totals.unwritten), (0, 0));
        assert!(may_lose || totals.lost == 0, "{totals:?}");
        assert_eq!(hand.has_said("lost"), totals.lost > 0);
        assert_eq!(check_lines(&fs::read_to_string(&file).expect("the log")), totals.written);
    }
}

#[test]
fn a_stalled_disk_loses_and_says_how_much() {
    let _turn = tare_testkit::turn();
    let folder = tempfile::tempdir().expect("a folder");
    let server = server("1000");
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let (hand, before) = (Hand::default(), counted(&server));
    let (go, going) = std::sync::mpsc::channel::<()>();
    let reader = {
        let pipe = pipe.clone();
        std::thread::spawn(move || {
            let mut pipe = File::open(pipe).expect("the pipe");
            let mut read = String::new();
            going.recv().expect("a word");
            pipe.read_to_string(&mut read).expect("lines");
            read
        })
    };
    let (totals, after) = log(&options(&server, &pipe), &hand, || {
        churn(&server, 64, 200);
        let after = counted(&server);
        go.send(()).expect("a reader");
        after
    });
    println!("stalled: {totals:?}");
    assert!(totals.lost > 0, "{totals:?}");
    assert_eq!(totals.written + totals.lost, after - before, "{totals:?}");
    assert_eq!(check_lines(&reader.join().expect("a reader")), totals.written);
}

#[test]
fn a_pipe_that_nobody_reads_is_waited_for_until_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let options = SlowLogOptions {
        // It is asked only when there is somebody to write to.
        socket: folder.path().join("no-such-socket"),
        choice: StatementFilter::default(),
        form: SlowLogFormat::Slow,
        text: Text::Full,
        destination: Destination::File(pipe, Rotation::default()),
        interval: Duration::from_millis(20),
    };
    let hand = Hand::default();
    let totals = std::thread::scope(|scope| {
        let logging = scope.spawn(|| slowlog::run(&options, &hand).expect("it ends without an error"));
        hand.wait_for("waits for somebody who reads it");
        hand.over.store(true, SeqCst);
        logging.join().expect("no panic")
    });
    assert_eq!(totals, SlowLogTotals::default());
}

#[test]
fn a_restart_of_the_server_is_waited_for_and_said() {
    let _turn = tare_testkit::turn();
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = server("10000");
    let file = folder.path().join("slow.log");
    let (hand, options) =
        (Hand::default(), SlowLogOptions { form: SlowLogFormat::Slow, ..options(&server, &file) });
    let run = |server: &Server, sql: &str| server.client().expect("a client").query_drop(sql).expect("a row");
    log(&options, &hand, || {
        run(&server, "SELECT 'before the restart'");
        eventually("it is written", LIMIT, || has(&file, "'before the restart'"));
        server.stop().expect("stopped");
        hand.wait_for("waiting for the server");
        server.resume().expect("started");
        hand.wait_for("answers again");
        run(&server, "SELECT 'after the restart'");
        eventually("it is written", LIMIT, || has(&file, "'after the restart'"));
        fs::rename(&file, folder.path().join("moved")).expect("moved");
        hand.reopen.store(true, SeqCst);
        eventually("there is a new file", LIMIT, || file.exists());
        run(&server, "SELECT 'in the new file'");
        eventually("it is written", LIMIT, || has(&file, "'in the new file'"));
    });
    let [old, new] =
        ["moved", "slow.log"].map(|name| fs::read_to_string(folder.path().join(name)).expect(name));
    assert!(old.contains("'before the restart'") && old.contains("'after the restart'"), "{old}");
    assert!(new.starts_with("# Time: ") && new.contains("'in the new file'"), "{new}");
}

#[test]
fn the_choice_is_made() {
    let _turn = tare_testkit::turn();
    let folder = tempfile::tempdir().expect("a folder");
    let (server, file) = (server("10000"), folder.path().join("slow.log"));
    let mut client = server.client().expect("a client");
    client.query_drop("CREATE DATABASE shop").expect("a schema");
    client.query_drop("CREATE DATABASE other").expect("a schema");
    let choice =
        StatementFilter { schemas: vec!["shop".to_owned()], errors: true, ..StatementFilter::default() };
    let options = SlowLogOptions { choice, ..options(&server, &file) };
    let (totals, ()) = log(&options, &Hand::default(), || {
        for schema in ["shop", "other"] {
            client.query_drop(format!("USE {schema}")).expect("a schema");
            client.query_drop("SELECT 1").expect("a row");
            client.query_drop("SELECT * FROM absent").expect_err("no such table");
        }
        // A statement ends after its answer, and before the next one begins.
        client.ping().expect("an answer");
    });
    let log = fs::read_to_string(file).expect("the log");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let [line] = &lines[..] else { panic!("{log}") };
    assert_eq!((&line["text"], &line["schema"]), (&"SELECT * FROM absent".into(), &"shop".into()));
    assert_eq!((&line["errno"], totals.written), (&1146.into(), 1));
    assert!(totals.left_out >= 5, "{totals:?}");
}

/// What pt-query-digest makes of a log: count, rows sent, rows examined and seconds, of each class of
/// statements.
fn digested(file: &PathBuf) -> Option<Vec<[f64; 4]>> {
    let output = Command::new("pt-query-digest")
        .args(["--output", "json", "--limit", "100%", "--no-version-check"])
        .arg(file)
        .output()
        .ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let classes = report["classes"].as_array().expect("classes").iter().map(|class| {
        let sum = |name: &str| {
            let sum = &class["metrics"][name]["sum"];
            sum.as_f64().or_else(|| sum.as_str()?.parse().ok()).unwrap_or(0.0)
        };
        let count = class["query_count"].as_f64().expect("a count");
        [count, sum("Rows_sent"), sum("Rows_examined"), sum("Query_time")]
    });
    Some(classes.collect())
}

/// What the summary by digest says of the same time: count, rows sent, rows examined and seconds, by text. As
/// pt-query-digest does it, names that differ in their numbers only are one: `s_dist_01`, `s_dist_02`.
fn summed(server: &Server) -> BTreeMap<String, [f64; 4]> {
    let mut source = Source::open(Address::Socket(server.endpoint())).expect("the endpoint");
    let columns = ["DIGEST_TEXT", "COUNT_STAR", "SUM_ROWS_SENT", "SUM_ROWS_EXAMINED", "SUM_TIMER_WAIT"];
    let digests =
        source.rows("events_statements_summary_by_digest", &columns, "WHERE SCHEMA_NAME = 'sbtest'");
    let mut sums = BTreeMap::new();
    for row in digests.expect("rows") {
        let text = row.text(0).unwrap_or_default().replace(|letter: char| letter.is_ascii_digit(), "");
        let sum: &mut [f64; 4] = sums.entry(text).or_default();
        for (at, unit) in [1.0, 1.0, 1.0, 1e12].into_iter().enumerate() {
            sum[at] += row.count(at + 1) as f64 / unit;
        }
    }
    sums
}

/// Whether pt-query-digest agrees with the summary by digest about a load; returns how many digests were
/// compared, `None` where it is not there.
fn agreed(load: &SysbenchLoad) -> Option<usize> {
    let folder = tempfile::tempdir().expect("a folder");
    let (server, file) = (server("200000"), folder.path().join("slow.log"));
    load.prepare(&server).expect("sysbench");
    server
        .client()
        .expect("a client")
        .query_drop("TRUNCATE performance_schema.events_statements_summary_by_digest")
        .expect("truncated");
    let options = SlowLogOptions { form: SlowLogFormat::Slow, ..options(&server, &file) };
    let (totals, ()) = log(&options, &Hand::default(), || {
        load.start(&server, 5).expect("sysbench").finish().expect("done");
    });
    assert_eq!(totals.lost, 0, "{totals:?}");
    let Some(classes) = digested(&file) else {
        println!("skipped: there is no pt-query-digest (package percona-toolkit)");
        return None;
    };
    assert_eq!(classes.iter().map(|class| class[0] as u64).sum::<u64>(), totals.written);
    let digests = summed(&server);
    for (text, counted) in &digests {
        // Each statement's time is rounded to a microsecond.
        let agrees = |class: &&[f64; 4]| {
            class[..3] == counted[..3] && (class[3] - counted[3]).abs() <= counted[0] * 0.6e-6 + 1e-3
        };
        assert!(classes.iter().any(|class| agrees(&class)), "{text} {counted:?} in {classes:?}");
    }
    Some(digests.len())
}

#[test]
fn pt_query_digest_agrees_with_the_summary_by_digest() {
    let _turn = tare_testkit::turn();
    let load =
        SysbenchLoad { workload: "oltp_read_write", threads: 4, tables: 1, rows: 1000, prepared: false };
    assert!(agreed(&load).is_none_or(|digests| digests >= 8));
}

#[test]
fn pt_query_digest_agrees_with_the_summary_by_digest_about_tpcc() {
    let _turn = tare_testkit::turn();
    let load = SysbenchLoad { workload: TPCC, threads: 4, tables: 2, rows: 30, prepared: false };
    // Its five transactions have some thirty statements.
    assert!(agreed(&load).is_none_or(|digests| digests >= 30));
}
