//! Tables of what threads are doing, asked for as FEDERATED does for a join: one moment for a statement, and
//! no longer.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

mod fixture;

use fixture::{Served, names, served_with};
use mysql::prelude::Queryable;
use tare_engine::{Config, ThreadRef};
use tare_rig::{Rig, small};
use tare_tables::Shape;

const TABLES: [&str; 5] = [
    "threads",
    "events_transactions_current",
    "events_statements_current",
    "events_stages_current",
    "events_waits_current",
];

fn served(rig: &Rig) -> Served {
    served_with(|config| {
        config.engine = rig.engine;
        config.tables = Shape::Strict.served();
    })
}

/// A statement with a transaction, a stage and a wait; its text is in the first one's row.
fn work(rig: &Rig, thread: ThreadRef, sql: &str) {
    rig.on(thread, || {
        rig.statement(rig.class.statement, sql, |_| {
            rig.transaction(false, |_| {
                rig.stage(rig.class.stage);
                rig.wait(rig.class.mutex);
            });
        });
    });
}

fn announce(client: &mut mysql::Conn, tables: &[&str]) {
    for table in tables {
        client.query_drop(format!("SHOW TABLE STATUS LIKE '{table}'")).unwrap();
    }
}

/// The newest EVENT_ID a table shows of a thread, or of all.
fn event(client: &mut mysql::Conn, table: &str, condition: &str) -> u64 {
    let ids = names(client, &format!("SELECT `EVENT_ID` FROM `{table}`{condition}"));
    ids.last().unwrap_or_else(|| panic!("{table}{condition}")).parse().unwrap()
}

const WAITS: &str = "events_waits_current";
const STATEMENTS: &str = "events_statements_current";

#[test]
fn a_join_shows_one_moment_and_the_next_statement_another() {
    let rig = Rig::new();
    let thread = rig.thread();
    let served = served(&rig);
    let (mut client, mut direct) = (served.federated(), served.client());
    work(&rig, thread, "SELECT 1");
    let of_it = " WHERE  (`THREAD_ID` = 1) ";
    let id = rig.live_thread_ids()[0];
    let of_it = of_it.replace('1', &id.to_string());
    for (first, second) in [(WAITS, STATEMENTS), (STATEMENTS, WAITS), (WAITS, "events_transactions_current")]
    {
        for (scan, lookup) in [("", &*of_it), (&*of_it, ""), ("", ""), (&*of_it, &*of_it)] {
            announce(&mut client, &[first, second]);
            let before = (event(&mut direct, first, ""), event(&mut direct, second, ""));
            assert_eq!(event(&mut client, first, scan), before.0);
            work(&rig, thread, "SELECT 2");
            // A join asks again and again.
            for _ in 0..2 {
                assert_eq!(event(&mut client, second, lookup), before.1, "{first}{scan}, {second}{lookup}");
                assert_eq!(event(&mut client, first, lookup), before.0, "{first}{scan}, {second}{lookup}");
            }
            assert!(event(&mut direct, second, "") > before.1, "clients of tare's own have what is there");
            // The next statement, of any session, says what it reads.
            announce(&mut client, &[second, first]);
            assert!(event(&mut client, second, lookup) > before.1);
            assert!(event(&mut client, first, scan) > before.0);
        }
    }
}

#[test]
fn a_statement_that_reads_one_of_them_has_what_is_there() {
    let rig = Rig::new();
    let thread = rig.thread();
    let served = served(&rig);
    let mut client = served.federated();
    work(&rig, thread, "SELECT 1");
    for others in [&[][..], &["setup_consumers"], &["events_waits_history"]] {
        announce(&mut client, &[&[WAITS], others].concat());
        let before = event(&mut client, WAITS, "");
        work(&rig, thread, "SELECT 2");
        assert!(event(&mut client, WAITS, "") > before);
        // One that was not announced.
        let before = event(&mut client, STATEMENTS, "");
        work(&rig, thread, "SELECT 3");
        assert!(event(&mut client, STATEMENTS, "") > before);
    }
}

#[test]
fn every_table_of_a_join_and_every_thread_is_of_that_moment() {
    let rig = Rig::new();
    let (one, two) = (rig.thread(), rig.thread());
    let served = served(&rig);
    let mut client = served.federated();
    work(&rig, one, "SELECT 'old'");
    work(&rig, two, "SELECT 'old'");
    announce(&mut client, &TABLES);
    // By connection, as a client does that looks for its own; both threads have that one.
    assert_eq!(
        names(&mut client, "SELECT `THREAD_ID` FROM `threads` WHERE  (`PROCESSLIST_ID` = 77) ").len(),
        2
    );
    work(&rig, one, "SELECT 'new'");
    let later = rig.thread();
    work(&rig, later, "SELECT 'new'");
    let texts =
        |client: &mut mysql::Conn| names(client, "SELECT `SQL_TEXT` FROM `events_statements_current`");
    // A thread that was not asked for yet is looked at now, and stays so.
    assert_eq!(texts(&mut client), ["SELECT 'old'", "SELECT 'old'", "SELECT 'new'"]);
    work(&rig, later, "SELECT 'newest'");
    rig.delete_thread(two);
    let another = rig.thread();
    work(&rig, another, "SELECT 'another'");
    assert_eq!(texts(&mut client), ["SELECT 'old'", "SELECT 'old'", "SELECT 'new'"]);
    assert_eq!(names(&mut client, "SELECT `THREAD_ID` FROM `threads`").len(), 3);
    for table in &TABLES[1..] {
        let rows = names(&mut client, &format!("SELECT `THREAD_ID` FROM `{table}`"));
        assert_eq!(rows.len(), 3, "{table}");
    }
    announce(&mut client, &TABLES);
    assert_eq!(texts(&mut client), ["SELECT 'new'", "SELECT 'newest'", "SELECT 'another'"]);
}

#[test]
fn what_a_statement_changes_it_sees() {
    let rig = Rig::new();
    let thread = rig.thread();
    let served = served(&rig);
    let mut client = served.federated();
    work(&rig, thread, "SELECT 1");
    announce(&mut client, &["threads", WAITS]);
    let switched = "SELECT `INSTRUMENTED` FROM `threads`";
    let before = event(&mut client, WAITS, "");
    assert_eq!(names(&mut client, switched), ["YES"]);
    client.query_drop("UPDATE `threads` SET `INSTRUMENTED` = 'NO'").unwrap();
    assert_eq!(names(&mut client, switched), ["NO"]);
    assert_eq!(event(&mut client, WAITS, ""), before);
    client.query_drop("TRUNCATE `events_waits_current`").unwrap();
    assert_eq!(names(&mut client, "SELECT `EVENT_ID` FROM `events_waits_current`").len(), 0);
}

#[test]
fn what_is_too_much_to_keep_is_read_when_it_is_asked_for() {
    let rig = Rig::with(Config { memory_max: 128 << 20, ..small() });
    let served = served(&rig);
    let mut client = served.federated();
    // Statements in statements, each with a text.
    let text = format!("SELECT '{}'", "x".repeat(900));
    let depth = 8;
    let begin = |count: usize| -> Vec<ThreadRef> {
        let thread = || {
            let thread = rig.thread();
            rig.on(thread, || {
                (0..depth).for_each(|_| _ = rig.begin(rig.class.nested_statement, &text).unwrap())
            });
            rig.on(thread, || rig.wait(rig.class.mutex));
            thread
        };
        (0..count).map(|_| thread()).collect()
    };
    for (count, is_kept) in [(20, true), (400, false)] {
        let threads = begin(count);
        announce(&mut client, &[WAITS, STATEMENTS]);
        let shown = names(&mut client, "SELECT `EVENT_ID` FROM `events_statements_current`").len();
        assert!(shown >= count * depth, "{shown}");
        let before = event(&mut client, WAITS, "");
        threads.iter().for_each(|thread| rig.on(thread, || _ = rig.wait(rig.class.mutex)));
        assert_eq!(event(&mut client, WAITS, "") == before, is_kept, "{count} threads");
    }
}
