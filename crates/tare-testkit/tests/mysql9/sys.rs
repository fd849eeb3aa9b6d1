//! MySQL's own sys schema, taken from a running MySQL, on MariaDB with tare.

use mysql::prelude::Queryable;
use mysql::{Conn, Row};
use tare_testkit::mysql_server::Mysql;
use tare_testkit::turn;

/// Where it is put: MariaDB has a `sys` of its own.
const SCHEMA: &str = "sys8";

/// What MariaDB spells otherwise, or has not.
const SPELLINGS: [(&str, &str); 8] = [
    ("`sys`.", "`sys8`."),
    ("sys.", "sys8."),
    ("utf8mb4_0900_ai_ci", "utf8mb4_general_ci"),
    ("utf8mb4_0900_as_ci", "utf8mb4_general_ci"),
    ("@@GLOBAL.replica_load_tmpdir", "@@GLOBAL.slave_load_tmpdir"),
    ("@@global.replica_load_tmpdir", "@@GLOBAL.slave_load_tmpdir"),
    (
        "`information_schema`.`INNODB_METRICS`.`STATUS` = 'enabled'",
        "`information_schema`.`INNODB_METRICS`.`ENABLED`",
    ),
    ("`information_schema`.`INNODB_METRICS`.`STATUS`", "`information_schema`.`INNODB_METRICS`.`ENABLED`"),
];

/// Routines that ask for what MariaDB has not: GTIDs of MySQL's, STACKED DIAGNOSTICS, MEMBER OF.
const LEFT_OUT: [&str; 3] =
    ["diagnostics", "ps_trace_thread", "revoke_schema_privileges_from_all_accounts_except"];

/// Functions that are the server's own in MySQL.
const NATIVE: [(&str, &str); 2] = [
    (
        "format_bytes",
        "CREATE FUNCTION format_bytes(n DOUBLE) RETURNS VARCHAR(32) DETERMINISTIC RETURN concat(n, ' bytes')",
    ),
    (
        "format_pico_time",
        "CREATE FUNCTION format_pico_time(t DOUBLE) RETURNS VARCHAR(32) DETERMINISTIC RETURN concat(t, ' ps')",
    ),
];

fn spelled(sql: &str) -> String {
    let sql = SPELLINGS.iter().fold(sql.to_owned(), |sql, (theirs, ours)| sql.replace(theirs, ours));
    // Whoever runs the test defines them.
    sql.replace("DEFINER=`mysql.sys`@`localhost`", "")
}

/// A column of what SHOW CREATE gives.
fn shown(conn: &mut Conn, sql: &str, column: usize) -> String {
    let row: Row = conn.query_first(sql).unwrap().unwrap();
    row.get(column).unwrap()
}

fn install(from: &mut Conn, to: &mut Conn) -> Vec<String> {
    to.query_drop(format!("CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4")).unwrap();
    to.query_drop(format!("USE {SCHEMA}")).unwrap();
    to.query_drop("SET sql_mode = ''").unwrap();
    to.query_drop(spelled(&shown(from, "SHOW CREATE TABLE sys.sys_config", 1))).unwrap();
    NATIVE.iter().for_each(|(_, sql)| to.query_drop(sql).unwrap());
    let routines: Vec<(String, String)> = from
        .query(
            "SELECT ROUTINE_TYPE, ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'sys'",
        )
        .unwrap();
    for (kind, name) in routines {
        if LEFT_OUT.contains(&name.as_str()) || NATIVE.iter().any(|(native, _)| *native == name) {
            continue;
        }
        let sql = spelled(&shown(from, &format!("SHOW CREATE {kind} sys.`{name}`"), 2));
        to.query_drop(sql).unwrap_or_else(|e| panic!("{kind} {name}: {e}"));
    }
    let views: Vec<String> =
        from.query("SELECT TABLE_NAME FROM information_schema.VIEWS WHERE TABLE_SCHEMA = 'sys'").unwrap();
    let mut left: Vec<(String, String)> = views
        .iter()
        .map(|name| (name.clone(), spelled(&shown(from, &format!("SHOW CREATE VIEW sys.`{name}`"), 1))))
        .collect();
    // Some are over others.
    loop {
        let before = left.len();
        let mut failures = Vec::new();
        left.retain(|(name, sql)| match to.query_drop(sql) {
            Ok(()) => false,
            Err(e) => {
                failures.push(format!("{name}: {e}"));
                true
            }
        });
        if left.is_empty() {
            return views;
        }
        assert!(left.len() < before, "views that cannot be made: {failures:#?}");
    }
}

#[test]
fn mysqls_sys_schema_is_installed_and_answers() {
    let _turn = turn();
    let Some(server) = super::extended() else { return };
    let Some(mysql) = Mysql::start(&[]).unwrap() else { return };
    let mut conn = server.client().unwrap();
    let views = install(&mut mysql.client().unwrap(), &mut conn);
    assert_eq!(views.len(), 100, "{views:?}");
    let answer = |name: &String| conn.query::<Row, _>(format!("SELECT * FROM {SCHEMA}.`{name}`"));
    let failures: Vec<String> =
        views.iter().map(answer).filter_map(|it| it.err()).map(|e| e.to_string()).collect();
    assert_eq!(failures, Vec::<String>::new());
}
