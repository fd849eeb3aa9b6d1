//! What monitoring itself leaves in the tables.

use std::collections::HashSet;

use mysql::prelude::Queryable;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::shared_turn;
use tare_testkit::subject::TestProvider;

use crate::Watched;

/// A server that records its monitoring, or does not; `None` where that cannot be tried.
fn server(monitoring: bool) -> Option<Server> {
    let settings = StartSettings::new(TestProvider::under_test());
    if !monitoring && !settings.provider.is_tare() {
        println!("skipped: the built-in has no such option");
        return None;
    }
    let settings = settings.tare_option("monitoring", if monitoring { "ON" } else { "OFF" });
    Server::start(settings).unwrap().on_its_port()
}

/// Ways to use the tables.
const MONITORING: &[&str] = &[
    "SELECT COUNT(*) FROM performance_schema.threads",
    "SELECT COUNT(*) FROM performance_schema.global_status",
    "SELECT COUNT(*) FROM sys.session",
    "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES'",
    "SELECT COUNT(*) FROM t.t JOIN performance_schema.setup_timers ON t.t.a = 1",
    "EXECUTE monitor",
    "TRUNCATE TABLE performance_schema.events_transactions_history",
];

#[test]
fn statements_that_use_the_tables_are_left_out_if_one_wants_that() {
    let _turn = shared_turn();
    let Some(server) = server(false) else { return };
    let mut schema = server.schema().unwrap();
    let mut watched = Watched::connect(&server, &mut schema);
    watched.run("CREATE DATABASE t");
    watched.run("CREATE TABLE t.t (a INT PRIMARY KEY) ENGINE=InnoDB");
    watched.run("INSERT INTO t.t VALUES (1)");
    watched.run("PREPARE monitor FROM 'SELECT COUNT(*) FROM performance_schema.threads'");
    // The tables of a first use are opened, too.
    MONITORING.iter().for_each(|sql| watched.run(sql));
    let before: Vec<u64> = WORK.iter().map(|name| watched.count(&mut schema, name)).collect();
    for _ in 0..10 {
        MONITORING.iter().for_each(|sql| watched.run(sql));
        watched.run("SELECT a FROM t.t");
    }
    watched.run("DO 0");
    let after = WORK.iter().map(|name| watched.count(&mut schema, name));
    let counted: Vec<u64> = after.zip(before).map(|(after, before)| after - before).collect();
    // One statement in a round; every statement is there until it is known what it is.
    assert_eq!(counted[..6], [10, 0, 0, 0, 10, 0], "{WORK:?}");
    assert!(counted[6] >= 70, "{counted:?}");
    let thread = watched.thread.parse().unwrap();
    for row in schema.long_history("statements", thread).unwrap() {
        let text = row.get("SQL_TEXT").unwrap_or_default().to_owned();
        let about = MONITORING.iter().any(|sql| *sql == text);
        assert!(!about, "{text}");
    }
    let digests = schema.rows("events_statements_summary_by_digest").unwrap();
    let texts: Vec<&str> = digests.iter().filter_map(|row| row.get("DIGEST_TEXT")).collect();
    assert!(texts.iter().any(|text| text.contains("`t` . `t`")), "{texts:?}");
    assert!(!texts.iter().any(|text| text.contains("performance_schema")), "{texts:?}");
    assert_eq!(schema.tare_status().unwrap()["monitoring"], "OFF");
}

const WORK: &[&str] = &[
    "statement/sql/select",
    "statement/sql/update",
    "statement/sql/truncate",
    "wait/synch/mutex/federated/FEDERATED_SERVER::mutex",
    "stage/sql/Sending data",
    "stage/sql/Creating tmp table",
    "stage/sql/starting",
];

#[test]
fn a_table_read_again_in_a_transaction_is_left_out_again() {
    let _turn = shared_turn();
    let Some(server) = server(false) else { return };
    let mut schema = server.schema().unwrap();
    let mut watched = Watched::connect(&server, &mut schema);
    watched.run("BEGIN");
    // Its metadata lock is the transaction's: the second and later ones get none.
    let count = watched.counted_by(
        &mut schema,
        "statement/sql/select",
        "SELECT COUNT(*) FROM performance_schema.threads",
    );
    assert_eq!(count, 0);
    watched.run("COMMIT");
    // Looking at declarations is not monitoring.
    let shown = watched.counted_by(
        &mut schema,
        "statement/sql/show_create_table",
        "SHOW CREATE TABLE performance_schema.threads",
    );
    assert_eq!(shown, 20);
}

#[test]
fn by_default_monitoring_is_load_like_any_other() {
    let _turn = shared_turn();
    let Some(server) = server(true) else { return };
    let mut schema = server.schema().unwrap();
    let mut watched = Watched::connect(&server, &mut schema);
    let sql = "SELECT COUNT(*) FROM performance_schema.threads";
    assert_eq!(watched.counted_by(&mut schema, "statement/sql/select", sql), 20);
}

#[test]
fn the_providers_own_threads_and_files_are_not_load() {
    let _turn = shared_turn();
    let Some(server) = server(true) else { return };
    if !server.settings.provider.is_tare() {
        println!("skipped: the built-in has no threads of its own");
        return;
    }
    let mut conn = server.client().unwrap();
    // Several connections of the endpoint, of each kind: of the server's sessions, and direct.
    let mut others: Vec<_> = (0..3).map(|_| server.client().unwrap()).collect();
    let mut direct: Vec<_> = (0..2).map(|_| server.endpoint_schema().unwrap()).collect();
    for other in &mut others {
        other.query_drop("SELECT COUNT(*) FROM performance_schema.events_waits_history_long").unwrap();
    }
    for schema in &mut direct {
        schema.rows("events_waits_history_long").unwrap();
    }
    let own = own_threads(&server);
    assert!(own.len() > 3, "one that accepts, and one for each connection: {own:?}");
    let seen: HashSet<u64> = conn
        .query("SELECT THREAD_OS_ID FROM performance_schema.threads WHERE THREAD_OS_ID > 0")
        .unwrap()
        .into_iter()
        .collect();
    assert!(seen.len() > 5 && seen.is_disjoint(&own), "{seen:?} {own:?}");
    let mut names = |sql: &str| -> Vec<String> { conn.query(sql).unwrap() };
    let sockets = names("SELECT DISTINCT EVENT_NAME FROM performance_schema.socket_instances ORDER BY 1");
    assert_eq!(sockets, ["wait/io/socket/sql/client_connection", "wait/io/socket/sql/server_unix_socket"]);
    let connections = names(
        "SELECT CAST(COUNT(*) AS CHAR) FROM performance_schema.socket_instances
         WHERE EVENT_NAME = 'wait/io/socket/sql/client_connection'",
    );
    assert_eq!(connections, ["4"], "the server's sessions, not those of the endpoint");
    // The server itself reads the tables' definitions.
    let files = names(
        "SELECT FILE_NAME FROM performance_schema.file_instances
         WHERE FILE_NAME LIKE '%tare%' AND FILE_NAME NOT LIKE '%.frm'
           AND SUBSTRING_INDEX(FILE_NAME, '/', -1) LIKE '%tare%'",
    );
    assert_eq!(files, [""; 0]);
    for of in ["waits", "stages", "statements", "transactions"] {
        let unknown = names(&format!(
            "SELECT DISTINCT CAST(THREAD_ID AS CHAR) FROM performance_schema.events_{of}_summary_by_thread_by_event_name
             WHERE COUNT_STAR > 0 AND THREAD_ID NOT IN (SELECT THREAD_ID FROM performance_schema.threads)"
        ));
        assert_eq!(unknown, [""; 0], "{of}");
    }
    let memory = names(
        "SELECT EVENT_NAME FROM performance_schema.memory_summary_global_by_event_name
         WHERE EVENT_NAME LIKE 'memory/performance_schema/%' AND COUNT_ALLOC > 0",
    );
    assert_eq!(memory, [""; 0]);
}

#[test]
fn an_account_that_is_not_watched_is_left_out_from_the_first_byte() {
    let _turn = shared_turn();
    let Some(server) = server(true) else { return };
    let mut schema = server.schema().unwrap();
    let mut conn = server.client().unwrap();
    conn.query_drop("CREATE USER agent; GRANT SELECT ON performance_schema.* TO agent").unwrap();
    conn.query_drop("INSERT INTO performance_schema.setup_actors VALUES ('%', 'agent', '%', 'NO', 'NO')")
        .unwrap();
    let mut agent = mysql::Conn::new(server.client_options().user(Some("agent"))).unwrap();
    let thread = schema.thread_of(u64::from(agent.connection_id())).unwrap().unwrap().to_string();
    let mut counted = |table: &str| schema.sum(table, &[("THREAD_ID", &thread)], "COUNT_STAR").unwrap();
    let tables =
        ["waits", "stages", "statements"].map(|of| format!("events_{of}_summary_by_thread_by_event_name"));
    let before = tables.each_ref().map(|table| counted(table));
    for _ in 0..10 {
        agent.query_drop("SELECT COUNT(*) FROM performance_schema.threads").unwrap();
    }
    assert_eq!(tables.each_ref().map(|table| counted(table)), before);
}

/// Rows of `tare_status` as the documents explain them, `consumer_…` and `ash_us_…` for all that begin so.
#[test]
fn documents_explain_every_row_of_the_status_and_no_other() {
    let _turn = shared_turn();
    let settings = StartSettings::new(TestProvider::under_test());
    if !settings.provider.is_tare() {
        println!("skipped: the built-in has no such table");
        return;
    }
    let Some(server) = Server::start(settings.tare_option("shape", "extended")).unwrap().on_its_port() else {
        return;
    };
    let text = include_str!("../../../../docs/reference/status.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
    let explained: HashSet<&str> =
        rows.flat_map(|(names, _)| names.trim_end_matches('`').split("`, `")).collect();
    let status = server.schema().unwrap().tare_status().unwrap();
    let shown = status.keys().map(String::as_str);
    let shown = shown.map(|name| match name {
        name if name.starts_with("consumer_") => "consumer_…",
        name if name.starts_with("ash_us_") => "ash_us_…",
        name => name,
    });
    let shown: HashSet<&str> = shown.chain(["…_lost"]).collect();
    let differences: Vec<&&str> = shown.symmetric_difference(&explained).collect();
    assert!(differences.is_empty(), "{differences:?}");
}

/// Numbers of the provider's threads, which are named for it.
fn own_threads(server: &Server) -> HashSet<u64> {
    let own = server.process().unwrap().threads_named("tare").unwrap();
    own.into_iter().map(u64::from).collect()
}
