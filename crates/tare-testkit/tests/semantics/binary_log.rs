//! What is changed in `performance_schema` is this server's affair: it does not go to the binary log, so no
//! replica repeats it.

use mysql::prelude::Queryable;
use mysql::{Row, Value};
use tare_testkit::host::HostProgram;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::shared_turn;
use tare_testkit::subject::TestProvider;

const CHANGES: &[&str] = &[
    "CREATE DATABASE t",
    "USE t",
    "CREATE TABLE names (name VARCHAR(128)) ENGINE=InnoDB",
    "UPDATE performance_schema.setup_consumers SET ENABLED = 'NO' WHERE NAME = 'events_waits_history'",
    "UPDATE performance_schema.setup_instruments SET ENABLED = 'NO', TIMED = 'NO' WHERE NAME LIKE 'wait/synch/%'",
    "UPDATE performance_schema.threads SET HISTORY = 'NO' WHERE PROCESSLIST_ID = CONNECTION_ID()",
    "TRUNCATE TABLE performance_schema.events_statements_history_long",
    "TRUNCATE TABLE performance_schema.events_waits_summary_global_by_event_name",
    "INSERT INTO names VALUES ('last')",
];

/// Types and texts of what the changes leave in the binary log.
fn logged(provider: TestProvider, format: &str) -> Vec<String> {
    let settings = StartSettings::new(provider).option("--log-bin=log").option("--server-id=1");
    let server = Server::start(settings.option(format!("--binlog-format={format}"))).unwrap();
    let mut conn = server.client().unwrap();
    CHANGES.iter().for_each(|sql| conn.query_drop(sql).unwrap_or_else(|e| panic!("{sql}: {e}")));
    let rows: Vec<Row> = conn.query("SHOW BINLOG EVENTS IN 'log.000001'").unwrap();
    let text = |row: &Row, column: &str| match row.get::<Value, _>(column).unwrap() {
        Value::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
        other => panic!("{other:?}"),
    };
    rows.iter().map(|row| format!("{} {}", text(row, "Event_type"), text(row, "Info"))).collect()
}

#[test]
fn changes_are_logged_as_with_the_built_in() {
    let _turn = shared_turn();
    if TestProvider::under_test().is_tare() && !HostProgram::find().unwrap().has_federated() {
        return println!("skipped: without FEDERATED the tables are not on the server's port");
    }
    for format in ["ROW", "STATEMENT", "MIXED"] {
        let expected = logged(TestProvider::BuiltIn, format);
        assert!(expected.iter().any(|event| event.contains("CREATE TABLE")), "{expected:?}");
        assert_eq!(logged(TestProvider::under_test(), format), expected, "{format}");
    }
}
