//! Counts of one session's statements, by tare and by the built-in of the same program.

use std::collections::BTreeMap;

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::mysql_server::Mysql;

use crate::{rows, subject};

/// Instruments whose counts differ, one a line, and why.
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

/// Counts of the session, by instrument, once it has worked.
fn counts(server: &Mysql) -> BTreeMap<String, u64> {
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
    after.into_iter().map(rise).collect()
}

/// Lines of [`DIFFERENCES`].
fn explained() -> BTreeMap<&'static str, &'static str> {
    let lines = DIFFERENCES.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.split_once(' ').unwrap_or_else(|| panic!("no reason: {line}"))).collect()
}

#[test]
fn counts_are_those_of_the_built_in() {
    let Some(reference) = Mysql::start(&[]).expect("a server") else { return };
    let reference = counts(&reference);
    let Some(subject) = subject(&[]) else { return };
    let subject = counts(&subject);
    let names = |counts: &BTreeMap<String, u64>| counts.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&subject), names(&reference), "every instrument has a row");
    let explained = explained();
    let compared = reference.iter().filter(|(_, count)| **count > LEAST);
    let mut compared: Vec<_> = compared.map(|(name, count)| (name, *count, subject[name])).collect();
    compared.sort_by_key(|it| std::cmp::Reverse(it.1));
    for (name, theirs, ours) in &compared {
        println!("{theirs:>9} {ours:>9} {name}");
    }
    assert!(compared.len() > 15, "{} instruments had events", compared.len());
    let differ = |it: &&(&String, u64, u64)| it.1 != it.2 && !explained.contains_key(it.0.as_str());
    let different: Vec<_> = compared.iter().filter(differ).collect();
    assert!(different.is_empty(), "differences without a reason in differences.txt: {different:?}");
}
