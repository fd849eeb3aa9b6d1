//! Who may read and change the tables is decided by ordinary grants, as with the built-in.

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::schema::TABLES;
use tare_testkit::server::Server;
use tare_testkit::shared_turn;

use crate::{beside_the_built_in, error};

/// Tables of the server, of which some are views where tare serves them.
const OF_THE_SERVER: [&str; 8] = [
    "global_status",
    "session_status",
    "status_by_thread",
    "status_by_account",
    "user_variables_by_thread",
    "host_cache",
    "replication_applier_status",
    "replication_connection_configuration",
];

fn visitor(server: &Server) -> Conn {
    Conn::new(server.client_options().user(Some("visitor"))).unwrap()
}

/// What every table answers to a user with these grants: to SELECT, UPDATE and TRUNCATE.
fn answers(server: &Server, grant: Option<&str>) -> Vec<(String, Option<u16>)> {
    let mut admin = server.client().unwrap();
    admin.query_drop("CREATE OR REPLACE USER visitor@localhost").unwrap();
    if let Some(grant) = grant {
        admin.query_drop(format!("GRANT {grant} TO visitor@localhost")).unwrap();
    }
    let mut conn = visitor(server);
    let mut answers = Vec::new();
    let mut ask = |sql: String| {
        let answer = error(&mut conn, &sql).map(|(code, _)| code);
        answers.push((sql, answer));
    };
    for table in TABLES.iter().chain(&OF_THE_SERVER) {
        ask(format!("SELECT * FROM performance_schema.{table} LIMIT 1"));
    }
    ask("UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME = 'statements_digest'"
        .into());
    ask("UPDATE performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME = 'idle'".into());
    ask("UPDATE performance_schema.global_status SET VARIABLE_VALUE = ''".into());
    ask("INSERT INTO performance_schema.session_status VALUES ('', '')".into());
    ask("DELETE FROM performance_schema.user_variables_by_thread".into());
    ask("TRUNCATE TABLE performance_schema.events_statements_history".into());
    ask("TRUNCATE TABLE performance_schema.file_summary_by_instance".into());
    answers
}

#[test]
fn grants_decide_as_with_the_built_in() {
    let _turn = shared_turn();
    let grants = [
        None,
        Some("SELECT ON performance_schema.*"),
        Some("SELECT, UPDATE ON performance_schema.*"),
        Some("SELECT, DROP ON performance_schema.*"),
        Some("SELECT ON performance_schema.threads"),
    ];
    let asked = |server: &Server| grants.map(|grant| answers(server, grant));
    let Some((expected, subject)) = beside_the_built_in(asked) else { return };
    for (grant, expected) in grants.iter().zip(&expected) {
        assert_eq!(&answers(&subject, *grant), expected, "with {grant:?}");
    }
    let denied = expected[0].iter().filter(|(_, answer)| *answer == Some(1142)).count();
    assert!(denied > 30, "without a grant nearly everything is denied: {:?}", expected[0]);
}
