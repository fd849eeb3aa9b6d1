//! Counts of one session's statements, by tare and by the built-in of the same program.
//!
//! What InnoDB's background threads have not done yet, the session does itself. So some counts depend on how
//! fast a session is, in any two runs of the same program. Each server works several times at several paces,
//! and the range of a count in one server has to meet its range in the other. What is the same at every pace
//! has to be the same in both.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::mysql_server::Mysql;

use crate::{rows, subject};

/// Counts that differ: one a line, by how much, and why.
const DIFFERENCES: &str = include_str!("differences.txt");
/// What was counted less often is not compared.
const LEAST: u64 = 100;
const STATEMENTS: u32 = 600;

/// How a session works.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// The pause after each statement.
    pause: Duration,
    /// Whether another session's snapshot keeps InnoDB from removing old versions of rows.
    holds_purge: bool,
}

const fn pace(milliseconds: u64, holds_purge: bool) -> Pace {
    Pace { pause: Duration::from_millis(milliseconds), holds_purge }
}

/// Each twice: what two times at the same pace differ by belongs to the pace.
const PACES: [Pace; 8] = [
    pace(0, false),
    pace(0, true),
    pace(3, false),
    pace(1, true),
    pace(0, false),
    pace(0, true),
    pace(3, false),
    pace(1, true),
];

/// A session's statements, the same in each server.
fn work(conn: &mut Conn, pause: Duration) {
    let mut random = 7u32;
    let mut next = |below: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 8) % below
    };
    let prepared = conn.prep("SELECT c FROM work.t WHERE id = ?").expect("a statement");
    for _ in 0..STATEMENTS {
        let (id, other) = (next(100), next(100));
        match next(8) {
            0 => conn.query_drop(format!("SELECT c FROM work.t WHERE id = {id}")),
            1 => conn.exec_drop(&prepared, (id,)),
            2 => conn.query_drop(format!("UPDATE work.t SET c = {other} WHERE id = {id}")),
            3 => conn.query_drop(format!("REPLACE INTO work.t VALUES ({id}, {other})")),
            4 => conn.query_drop(format!("SELECT SUM(c) FROM work.t WHERE id BETWEEN {id} AND {}", id + 10)),
            5 => conn.query_drop(format!("SELECT COUNT(*) FROM work.t WHERE c = {other}")),
            6 => conn.query_drop(format!("UPDATE work.m SET c = {other} WHERE id = {id}")),
            _ => conn.query_drop("DO 1"),
        }
        .expect("a statement");
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
}

/// Counts by what was counted, and which: `table column instrument or object`.
type Counts = BTreeMap<String, u64>;

/// Tables of counts: the columns that say what a row is about, the columns that count, and the rows.
const TABLES: [(&str, &[&str], &[&str], &str); 9] = [
    ("events_waits_summary_by_thread_by_event_name", &["EVENT_NAME"], &["COUNT_STAR"], "THREAD_ID = @worker"),
    ("file_summary_by_event_name", &["EVENT_NAME"], IO, "EVENT_NAME REGEXP '/(sql|myisam)/'"),
    (
        "file_summary_by_instance",
        &["SUBSTRING_INDEX(FILE_NAME, '/', -2)", "EVENT_NAME"],
        IO,
        "FILE_NAME REGEXP '/work/|binlog'",
    ),
    ("socket_summary_by_event_name", &["EVENT_NAME"], IO, "EVENT_NAME LIKE '%client_connection'"),
    (
        "table_io_waits_summary_by_table",
        &["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"],
        &["COUNT_STAR", "COUNT_FETCH", "COUNT_INSERT", "COUNT_UPDATE", "COUNT_DELETE"],
        "OBJECT_SCHEMA = 'work'",
    ),
    (
        "table_io_waits_summary_by_index_usage",
        &["OBJECT_SCHEMA", "OBJECT_NAME", "IFNULL(INDEX_NAME, 'NULL')"],
        &["COUNT_STAR", "COUNT_FETCH", "COUNT_INSERT", "COUNT_UPDATE", "COUNT_DELETE"],
        "OBJECT_SCHEMA = 'work'",
    ),
    (
        "table_lock_waits_summary_by_table",
        &["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"],
        &[
            "COUNT_STAR",
            "COUNT_READ",
            "COUNT_WRITE",
            "COUNT_READ_NORMAL",
            "COUNT_READ_EXTERNAL",
            "COUNT_WRITE_NORMAL",
            "COUNT_WRITE_ALLOW_WRITE",
            "COUNT_WRITE_EXTERNAL",
        ],
        "OBJECT_SCHEMA = 'work'",
    ),
    (
        "objects_summary_global_by_type",
        &["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"],
        &["COUNT_STAR"],
        "OBJECT_SCHEMA = 'work'",
    ),
    (
        "memory_summary_by_thread_by_event_name",
        &["EVENT_NAME"],
        &["COUNT_ALLOC", "COUNT_FREE", "SUM_NUMBER_OF_BYTES_ALLOC", "SUM_NUMBER_OF_BYTES_FREE"],
        "THREAD_ID = @worker",
    ),
];

const IO: &[&str] = &[
    "COUNT_STAR",
    "COUNT_READ",
    "SUM_NUMBER_OF_BYTES_READ",
    "COUNT_WRITE",
    "SUM_NUMBER_OF_BYTES_WRITE",
    "COUNT_MISC",
];

fn read(reader: &mut Conn) -> Counts {
    let mut counts = Counts::new();
    for (table, keys, columns, condition) in TABLES {
        let sql = format!(
            "SELECT CONCAT_WS(' ', {}), {} FROM performance_schema.{table} WHERE {condition}",
            keys.join(", "),
            columns.join(", ")
        );
        for row in rows(reader, &sql) {
            let mut values = row.into_iter().flatten();
            let key = values.next().expect("a key");
            for (column, count) in columns.iter().zip(values) {
                // Short names for the table that has most rows.
                let name = match table {
                    "events_waits_summary_by_thread_by_event_name" => key.clone(),
                    _ => format!("{table} {column} {key}").replace(' ', ":"),
                };
                counts.insert(name, count.parse().expect("a number"));
            }
        }
    }
    counts
}

/// What a server has counted of the session.
struct Counted {
    /// The least and the most of each count, over all paces.
    ranges: BTreeMap<String, (u64, u64)>,
    /// What its last events were: instruments and operations.
    operations: BTreeSet<(String, String)>,
    /// Objects of its last events: instruments, types, schemas, names and indexes.
    objects: BTreeSet<Vec<Option<String>>>,
}

/// Counts the session's events while it works.
fn counted(server: &Mysql) -> Counted {
    let [mut worker, mut reader, mut holder] = [(); 3].map(|()| server.client().expect("a client"));
    for sql in [
        "SET SESSION autocommit = 1",
        "CREATE DATABASE work",
        "CREATE TABLE work.t (id INT PRIMARY KEY, c INT, KEY by_c (c), KEY unused (c, id))",
        "CREATE TABLE work.m (id INT PRIMARY KEY, c INT) ENGINE = MyISAM",
        "INSERT INTO work.t WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99) SELECT i, i FROM n",
        "INSERT INTO work.m SELECT * FROM work.t",
    ] {
        worker.query_drop(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    // What is loaded once is loaded now.
    work(&mut worker, Duration::ZERO);
    let thread = rows(&mut worker, "SELECT ps_current_thread_id()")[0][0].clone().expect("a number");
    reader.query_drop(format!("SET @worker = {thread}")).expect("a statement");
    let _ = read(&mut reader);
    let mut ranges: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for pace in PACES {
        if pace.holds_purge {
            holder.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT").expect("a statement");
            holder.query_drop("SELECT COUNT(*) FROM work.t").expect("a statement");
        }
        let before = read(&mut reader);
        work(&mut worker, pace.pause);
        let after = read(&mut reader);
        if pace.holds_purge {
            holder.query_drop("COMMIT").expect("a statement");
        }
        for (name, count) in after {
            let rise = count - before.get(&name).copied().unwrap_or(0);
            let range = ranges.entry(name).or_insert((rise, rise));
            *range = (range.0.min(rise), range.1.max(rise));
        }
    }
    // In one statement, which itself makes events.
    let long = format!(
        "SELECT DISTINCT EVENT_NAME, OPERATION, OBJECT_TYPE, OBJECT_SCHEMA, SUBSTRING_INDEX(OBJECT_NAME, '/', -2), \
         INDEX_NAME FROM performance_schema.events_waits_history_long WHERE THREAD_ID = {thread}"
    );
    let last = rows(&mut reader, &long);
    let operations = last.iter().filter_map(|row| Some((row[0].clone()?, row[1].clone()?))).collect();
    let of_work = |object: &Vec<Option<String>>| {
        let is = |part: Option<&Option<String>>, wanted: &str| {
            part.and_then(|part| part.as_deref()).is_some_and(|part| part.contains(wanted))
        };
        is(object.get(2), "work") || is(object.get(3), "work/") || is(object.get(3), "binlog")
    };
    let object = |row: Vec<Option<String>>| [&row[..1], &row[2..]].concat();
    Counted { ranges, operations, objects: last.into_iter().map(object).filter(of_work).collect() }
}

/// Lines of [`DIFFERENCES`]: by how many percent a count may differ.
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

/// Returns whether two ranges meet, if each may be wider by what the first server's own paces differ by, and
/// by some percent of its most.
fn meet(theirs: (u64, u64), ours: (u64, u64), percent: u64) -> bool {
    let slack = (theirs.1 - theirs.0) + theirs.1 * percent / 100;
    ours.0 <= theirs.1 + slack && theirs.0 <= ours.1 + slack
}

#[test]
fn ranges_meet_if_no_more_than_the_paces_differ() {
    assert!(meet((100, 100), (100, 100), 0) && !meet((100, 100), (101, 102), 0));
    assert!(meet((100, 120), (135, 150), 0) && !meet((100, 120), (141, 150), 0));
    assert!(meet((100, 100), (105, 105), 5) && !meet((100, 100), (200, 200), 5));
}

#[test]
fn counts_are_those_of_the_built_in() {
    let Some(reference) = Mysql::start(OPTIONS).expect("a server") else { return };
    let reference = counted(&reference);
    let Some(subject) = other() else { return };
    let subject = counted(&subject);
    let names = |counted: &Counted| counted.ranges.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(
        names(&subject).symmetric_difference(&names(&reference)).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "every instrument and every object has a row"
    );
    let allowed = allowed();
    let (mut compared, mut different) = (0, Vec::new());
    for (name, theirs) in reference.ranges.iter().filter(|(_, range)| range.1 > LEAST) {
        let ours = subject.ranges[name];
        println!("{:>7}..{:<7} {:>7}..{:<7} {name}", theirs.0, theirs.1, ours.0, ours.1);
        compared += 1;
        let instrument = name.find(":memory/").map_or(name.as_str(), |at| &name[at + 1..]);
        if !meet(*theirs, ours, allowed.get(instrument).copied().unwrap_or(0)) {
            different.push((name, theirs, ours));
        }
    }
    assert!(compared > 60, "{compared} counts had events");
    assert!(different.is_empty(), "more than differences.txt allows: {different:#?}");
    let is_compared = |it: &&(String, String)| {
        let name = it.0.as_str();
        reference.ranges.get(name).is_some_and(|range| range.0 > LEAST) && !allowed.contains_key(name)
    };
    let operations =
        |counted: &Counted| counted.operations.iter().filter(is_compared).cloned().collect::<Vec<_>>();
    assert_eq!(operations(&subject), operations(&reference));
    assert_eq!(subject.objects, reference.objects, "objects of events");
    assert!(!reference.objects.is_empty());
}

/// Whatever other sessions and InnoDB's threads do is theirs.
#[test]
fn a_session_that_does_nothing_has_no_events() {
    let Some(server) = subject(OPTIONS) else { return };
    let [mut idle, mut worker, mut reader] = [(); 3].map(|()| server.client().expect("a client"));
    for sql in ["CREATE DATABASE work", "CREATE TABLE work.t (id INT PRIMARY KEY, c INT)"] {
        worker.query_drop(sql).expect("a statement");
    }
    let thread = rows(&mut idle, "SELECT ps_current_thread_id()")[0][0].clone().expect("a number");
    let sql = format!(
        "SELECT EVENT_NAME, COUNT_STAR FROM performance_schema.events_waits_summary_by_thread_by_event_name \
         WHERE THREAD_ID = {thread} AND COUNT_STAR > 0 AND EVENT_NAME NOT IN ('idle', 'wait/io/socket/sql/client_connection')"
    );
    // The session goes on for a moment after its result has arrived.
    let (mut before, mut same) = (rows(&mut reader, &sql), 0);
    while same < 5 {
        std::thread::sleep(Duration::from_millis(100));
        let now = rows(&mut reader, &sql);
        same = if now == before { same + 1 } else { 0 };
        before = now;
    }
    for at in 0..500 {
        worker.query_drop(format!("REPLACE INTO work.t VALUES ({}, {at})", at % 50)).expect("a statement");
    }
    let after = rows(&mut reader, &sql);
    // Reading takes locks of the thread that is read, as the reader.
    assert_eq!(after, before);
}
