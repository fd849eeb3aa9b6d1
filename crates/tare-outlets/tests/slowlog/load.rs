//! At full size: 64 connections that come and go, every statement logged, and what is written and what is
//! said to be lost is what the server counted. For 3 seconds each, unless `TARE_SLOWLOG_SECONDS` says
//! otherwise (`make test-slowlog`: 120).

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::time::Instant;

use super::*;

const CONNECTIONS: u64 = 64;
/// Statements of a connection, before another takes its place.
const STATEMENTS: u64 = 2_000;

fn time() -> Duration {
    let seconds = std::env::var("TARE_SLOWLOG_SECONDS").ok();
    Duration::from_secs(seconds.map_or(3, |text| text.parse().expect("TARE_SLOWLOG_SECONDS: a number")))
}

/// Runs `churn` in every connection at once, for so long.
fn storm(server: &Server) {
    let end = Instant::now() + time();
    std::thread::scope(|scope| {
        for worker in 0..CONNECTIONS {
            scope.spawn(move || {
                for connection in 0.. {
                    let mut client = server.client().expect("a client");
                    for n in 0..STATEMENTS {
                        if Instant::now() > end {
                            return;
                        }
                        let filler = "x".repeat((n % 40) as usize);
                        let sql = format!("SELECT {worker}, {connection}, {n}, '{filler}'");
                        client.query_drop(sql).expect("a row");
                    }
                }
            });
        }
    });
}

/// The number behind these words. Not as [`check_lines`] does it: a parser that was not optimised is slower
/// than the server.
fn number(line: &str, name: &str) -> Option<u64> {
    let (_, rest) = line.split_once(name)?;
    rest[..rest.find(|char: char| !char.is_ascii_digit())?].parse().ok()
}

/// Reads lines until there are no more, checks their texts and order, and says how many there were. Who is
/// stalled stops for half of every second.
fn read_lines(pipe: &Path, is_stalled: bool) -> u64 {
    let mut lines = BufReader::with_capacity(1 << 20, File::open(pipe).expect("the pipe"));
    let (mut line, mut count, mut last) = (String::new(), 0, HashMap::new());
    let mut stall = Instant::now();
    while lines.read_line(&mut line).expect("text") > 0 {
        assert!(line.starts_with('{') && line.ends_with("}\n"), "{line}");
        count += 1;
        if let Some((_, text)) = line.split_once("\"text\":\"SELECT ")
            && let Some((text, _)) = text.split_once("'\"")
        {
            let parts: Vec<&str> = text.split(", ").collect();
            let n: u64 = parts[2].parse().unwrap_or_else(|_| panic!("{line}"));
            assert_eq!(parts[3].len() as u64, n % 40 + 1, "{line}");
            let thread = number(&line, "\"thread_id\":").unwrap_or_else(|| panic!("{line}"));
            let before = last.insert(thread, n);
            assert!(before.is_none_or(|before| before < n), "{before:?} {line}");
        }
        line.clear();
        if is_stalled && stall.elapsed() > Duration::from_millis(500) {
            std::thread::sleep(Duration::from_millis(500));
            stall = Instant::now();
        }
    }
    assert!(last.len() as u64 >= CONNECTIONS / 2, "{} connections", last.len());
    count
}

fn hold(is_stalled: bool, history: &str) {
    let _turn = tare_testkit::turn();
    let folder = tempfile::tempdir().expect("a folder");
    let server = server(history);
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let reader = {
        let pipe = pipe.clone();
        std::thread::spawn(move || read_lines(&pipe, is_stalled))
    };
    let (hand, before) = (Hand::default(), counted(&server));
    let (totals, after) = log(&options(&server, &pipe), &hand, || {
        storm(&server);
        counted(&server)
    });
    let lines = reader.join().expect("a reader");
    println!(
        "{:?}, {CONNECTIONS} connections, stalled {is_stalled}: {} statements, {totals:?}",
        time(),
        after - before
    );
    assert_eq!(totals.written + totals.lost, after - before, "{totals:?}");
    assert_eq!((lines, totals.left_out, totals.unwritten), (totals.written, 0, 0), "{totals:?}");
    assert_eq!(hand.has_said("lost"), totals.lost > 0);
}

#[test]
fn a_fast_disk_has_all_that_is_not_said_to_be_lost() {
    hold(false, "100000");
}

#[test]
fn a_disk_that_stalls_again_and_again_has_all_that_is_not_said_to_be_lost() {
    hold(true, "10000");
}
