//! Threads that are no client's: those in the background, the event scheduler, and the threads its events run
//! in.

use std::collections::{BTreeMap, BTreeSet};

use mysql::prelude::Queryable;
use tare_testkit::schema::{SchemaConnection, SchemaRow};
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::shared_turn;
use tare_testkit::subject::TestProvider;

use crate::until;

/// What a thread is, without its numbers; the parent by its name.
fn threads(
    schema: &mut SchemaConnection,
    wanted: impl Fn(&SchemaRow) -> bool,
) -> BTreeMap<String, BTreeSet<Vec<String>>> {
    const COLUMNS: [&str; 8] = [
        "TYPE",
        "PROCESSLIST_USER",
        "PROCESSLIST_HOST",
        "PROCESSLIST_DB",
        "PROCESSLIST_COMMAND",
        "PROCESSLIST_INFO",
        "INSTRUMENTED",
        "HISTORY",
    ];
    let rows = schema.rows("threads").unwrap();
    let parent = |row: &SchemaRow| {
        let parent = rows.iter().find(|other| other.get("THREAD_ID") == row.get("PARENT_THREAD_ID"));
        parent.map_or("-", |parent| parent.text("NAME")).to_owned()
    };
    let mut found: BTreeMap<String, BTreeSet<Vec<String>>> = BTreeMap::new();
    for row in rows.iter().filter(|row| wanted(row)) {
        let mut shown: Vec<String> =
            COLUMNS.iter().map(|column| row.get(column).unwrap_or("NULL").to_owned()).collect();
        // The server has a number for each thread with a session, and tells its provider of some.
        shown.push(row.get("PROCESSLIST_ID").is_some().to_string());
        shown.push(row.number("THREAD_OS_ID").is_some_and(|id| id > 0).to_string());
        shown.push(parent(row));
        found.entry(row.text("NAME").to_owned()).or_default().insert(shown);
    }
    found
}

/// Statements, stages and transactions a thread has counted; how often it waited is a matter of time.
fn counted(schema: &mut SchemaConnection, name: &str) -> BTreeMap<String, u64> {
    let Some(thread) = schema.value("threads", &[("NAME", name)], "THREAD_ID").unwrap() else {
        return BTreeMap::new();
    };
    let mut found = BTreeMap::new();
    for events in ["statements", "stages", "transactions"] {
        let table = format!("events_{events}_summary_by_thread_by_event_name");
        for row in schema.rows_where(&table, &[("THREAD_ID", &thread)]).unwrap() {
            let count = row.number("COUNT_STAR").unwrap();
            if count > 0 && !row.text("EVENT_NAME").contains("aiting") {
                found.insert(row.text("EVENT_NAME").to_owned(), count);
            }
        }
    }
    found
}

/// What is seen of the scheduler and of an event in the middle of its work.
#[derive(Debug, PartialEq)]
struct Seen {
    background: BTreeMap<String, BTreeSet<Vec<String>>>,
    scheduler: BTreeMap<String, BTreeSet<Vec<String>>>,
    worker: BTreeMap<String, u64>,
    statement: Vec<Option<String>>,
    program: Vec<String>,
}

fn seen(provider: TestProvider) -> Seen {
    let mut server = Server::start(StartSettings::new(provider)).unwrap();
    let mut schema = server.schema().unwrap();
    // InnoDB's pool grows and shrinks by need.
    let in_background =
        |row: &SchemaRow| row.text("TYPE") == "BACKGROUND" && !row.text("NAME").contains("pool");
    let background = threads(&mut schema, in_background);
    let mut conn = server.client().unwrap();
    conn.query_drop("CREATE DATABASE t").unwrap();
    conn.query_drop("CREATE TABLE t.t (a INT PRIMARY KEY) ENGINE=InnoDB").unwrap();
    conn.query_drop("SET GLOBAL event_scheduler = ON").unwrap();
    conn.query_drop("DO GET_LOCK('until looked at', 0)").unwrap();
    conn.query_drop(
        "CREATE EVENT t.e ON SCHEDULE AT CURRENT_TIMESTAMP ON COMPLETION PRESERVE DO BEGIN \
         INSERT INTO t.t VALUES (1), (2); SELECT COUNT(*) INTO @n FROM t.t; \
         DO GET_LOCK('until looked at', 100); END",
    )
    .unwrap();
    const WORKER: &str = "thread/sql/event_worker";
    let is_waiting = |schema: &mut SchemaConnection| {
        let state = schema.value("threads", &[("NAME", WORKER)], "PROCESSLIST_STATE").unwrap();
        state.as_deref() == Some("User lock")
    };
    assert!(until(|| is_waiting(&mut schema), |waiting| *waiting), "no event runs:\n{}", server.log());
    let scheduler = threads(&mut schema, |row| row.text("NAME").contains("event"));
    let worker = counted(&mut schema, WORKER);
    let thread = schema.value("threads", &[("NAME", WORKER)], "THREAD_ID").unwrap().unwrap();
    let current = schema.rows_where("events_statements_current", &[("THREAD_ID", &thread)]).unwrap();
    let statement = current
        .iter()
        .flat_map(|row| ["EVENT_NAME", "SQL_TEXT", "CURRENT_SCHEMA", "OBJECT_NAME"].map(|c| row.get(c)))
        .map(|text| text.map(str::to_owned))
        .collect();
    conn.query_drop("DO RELEASE_LOCK('until looked at')").unwrap();
    let gone =
        |schema: &mut SchemaConnection| schema.rows_where("threads", &[("NAME", WORKER)]).unwrap().is_empty();
    assert!(until(|| gone(&mut schema), |gone| *gone), "the event never ends");
    let programs = schema.rows_where("events_statements_summary_by_program", &[("OBJECT_TYPE", "EVENT")]);
    let program = programs
        .unwrap()
        .iter()
        .flat_map(|row| {
            ["OBJECT_SCHEMA", "OBJECT_NAME", "COUNT_STAR", "COUNT_STATEMENTS", "SUM_ROWS_EXAMINED"]
                .map(|column| row.text(column).to_owned())
        })
        .collect();
    conn.query_drop("SET GLOBAL event_scheduler = OFF").unwrap();
    let (_, status) = server.stop().unwrap();
    assert!(status.success(), "{status:?}\n{}", server.log());
    Seen { background, scheduler, worker, statement, program }
}

#[test]
fn the_event_scheduler_and_the_background_are_seen_as_by_the_built_in() {
    let _turn = shared_turn();
    let (reference, subject) = (seen(TestProvider::BuiltIn), seen(TestProvider::under_test()));
    assert!(reference.background.len() > 5, "{reference:#?}");
    assert_eq!(reference.scheduler.len(), 2, "{reference:#?}");
    assert!(!reference.worker.is_empty() && !reference.program.is_empty(), "{reference:#?}");
    assert_eq!(subject, reference);
}
