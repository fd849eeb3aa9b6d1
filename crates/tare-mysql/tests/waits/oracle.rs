//! Counts of one session's statements, by tare and by the built-in of the same program.

use std::collections::{BTreeMap, BTreeSet};

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::mysql_server::Mysql;

use crate::{rows, subject};

/// Instruments whose counts differ: one a line, by how much, and why.
const DIFFERENCES: &str = include_str!("differences.txt");
/// Instruments with fewer events are not compared.
const LEAST: u64 = 100;
const STATEMENTS: u32 = 1200;

/// A session's statements, the same in each server.
fn work(conn: &mut Conn) {
    let mut random = 7u32;
    let mut next = |below: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 8) % below
    };
    let prepared = conn.prep("SELECT c FROM work.t WHERE id = ?").expect("a statement");
    for _ in 0..STATEMENTS {
        let (id, other) = (next(100), next(100));
        match next(6) {
            0 => conn.query_drop(format!("SELECT c FROM work.t WHERE id = {id}")),
            1 => conn.exec_drop(&prepared, (id,)),
            2 => conn.query_drop(format!("UPDATE work.t SET c = {other} WHERE id = {id}")),
            3 => conn.query_drop(format!("REPLACE INTO work.t VALUES ({id}, {other})")),
            4 => conn.query_drop(format!("SELECT SUM(c) FROM work.t WHERE id BETWEEN {id} AND {}", id + 10)),
            _ => conn.query_drop("DO 1"),
        }
        .expect("a statement");
    }
}

/// What a server has counted of the session.
struct Counted {
    /// Events by instrument.
    events: BTreeMap<String, u64>,
    /// What its last events were: instruments and operations.
    operations: BTreeSet<(String, String)>,
}

/// Counts the session's events once it has worked.
fn counted(server: &Mysql) -> Counted {
    let (mut worker, mut reader) = (server.client().expect("a client"), server.client().expect("a client"));
    for sql in [
        "SET SESSION autocommit = 1",
        "CREATE DATABASE work",
        "CREATE TABLE work.t (id INT PRIMARY KEY, c INT)",
        "INSERT INTO work.t WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99) SELECT i, i FROM n",
    ] {
        worker.query_drop(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    // What is loaded once is loaded now.
    work(&mut worker);
    let thread = rows(&mut worker, "SELECT ps_current_thread_id()")[0][0].clone().expect("a number");
    let sql = format!(
        "SELECT EVENT_NAME, COUNT_STAR FROM performance_schema.events_waits_summary_by_thread_by_event_name \
         WHERE THREAD_ID = {thread}"
    );
    let read = |reader: &mut Conn| -> BTreeMap<String, u64> {
        let row = |row: Vec<Option<String>>| {
            let [name, count] = <[_; 2]>::try_from(row).ok()?;
            Some((name?, count?.parse().ok()?))
        };
        rows(reader, &sql).into_iter().filter_map(row).collect()
    };
    let before = read(&mut reader);
    work(&mut worker);
    let after = read(&mut reader);
    let rise = |(name, count): (String, u64)| {
        let before = before.get(&name).copied().unwrap_or(0);
        (name, count - before)
    };
    let last = format!(
        "SELECT DISTINCT EVENT_NAME, OPERATION FROM performance_schema.events_waits_history_long WHERE THREAD_ID = {thread}"
    );
    let pair = |row: Vec<Option<String>>| {
        let [name, operation] = <[_; 2]>::try_from(row).ok()?;
        Some((name?, operation?))
    };
    let operations = rows(&mut reader, &last).into_iter().filter_map(pair).collect();
    Counted { events: after.into_iter().map(rise).collect(), operations }
}

/// Lines of [`DIFFERENCES`]: by how many percent an instrument may differ.
fn allowed() -> BTreeMap<&'static str, u64> {
    let lines = DIFFERENCES.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let allowed = |line: &'static str| {
        let mut words = line.split_ascii_whitespace();
        let (name, percent) = (words.next()?, words.next()?.strip_suffix('%')?.parse().ok()?);
        words.next().map(|_| (name, percent))
    };
    lines.map(|line| allowed(line).unwrap_or_else(|| panic!("not NAME PERCENT% REASON: {line}"))).collect()
}

/// A server to compare with: `TARE_MYSQL_SUBJECT=built-in` compares the built-in with itself, which shows
/// what differs between any two runs.
fn other() -> Option<Mysql> {
    match std::env::var("TARE_MYSQL_SUBJECT").as_deref() {
        Ok("built-in") => Mysql::start(OPTIONS).expect("a server"),
        _ => subject(OPTIONS),
    }
}

const OPTIONS: &[&str] = &["--performance-schema-consumer-events-waits-history-long=ON"];

#[test]
fn counts_are_those_of_the_built_in() {
    let Some(reference) = Mysql::start(OPTIONS).expect("a server") else { return };
    let reference = counted(&reference);
    let Some(subject) = other() else { return };
    let subject = counted(&subject);
    let names = |counted: &Counted| counted.events.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&subject), names(&reference), "every instrument has a row");
    let allowed = allowed();
    let (mut compared, mut different) = (0, Vec::new());
    for (name, theirs) in reference.events.iter().filter(|(_, count)| **count > LEAST) {
        let ours = subject.events[name];
        println!("{theirs:>9} {ours:>9} {name}");
        compared += 1;
        let percent = allowed.get(name.as_str()).copied().unwrap_or(0);
        if ours.abs_diff(*theirs) * 100 > theirs * percent {
            different.push((name, theirs, ours));
        }
    }
    assert!(compared > 30, "{compared} instruments had events");
    assert!(different.is_empty(), "more than differences.txt allows: {different:?}");
    let is_compared = |it: &&(String, String)| {
        let name = it.0.as_str();
        reference.events.get(name).is_some_and(|count| *count > LEAST) && !allowed.contains_key(name)
    };
    let operations =
        |counted: &Counted| counted.operations.iter().filter(is_compared).cloned().collect::<Vec<_>>();
    assert_eq!(operations(&subject), operations(&reference));
}
