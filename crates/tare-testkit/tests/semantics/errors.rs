//! Errors by number, the server's error log, and where its logs are: tables of the shape `extended`.

use std::collections::BTreeMap;

use mysql::prelude::Queryable;
use mysql::{Conn, Error};
use tare_testkit::schema::SchemaConnection;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::shared_turn;
use tare_testkit::subject::TestProvider;

use crate::{error, until};

/// A server that has the tables; `None` where the provider under test has none.
fn extended() -> Option<Server> {
    if !TestProvider::under_test().is_tare() {
        println!("skipped: the built-in has no such tables");
        return None;
    }
    Some(
        Server::start(StartSettings::new(TestProvider::under_test()).tare_option("shape", "extended"))
            .unwrap(),
    )
}

/// Such a server, where it counts errors.
pub(crate) fn counting() -> Option<Server> {
    let server = extended()?;
    if server.host().version.starts_with("10.6") {
        let errors = server.schema().unwrap().tare_status().unwrap()["errors"].clone();
        assert!(errors.starts_with("OFF: "), "{errors}");
        println!("skipped: errors are not counted on 10.6: {errors}");
        return None;
    }
    Some(server)
}

/// SUM_ERROR_RAISED and SUM_ERROR_HANDLED.
type ErrorSums = (u64, u64);

/// Those of every error at a level, by number (none: the row of all others); errors nobody saw are left out.
fn sums(schema: &mut SchemaConnection, level: &str) -> BTreeMap<Option<u64>, ErrorSums> {
    let mut sums = BTreeMap::<_, ErrorSums>::new();
    for row in schema.rows(&format!("events_errors_summary_{level}_by_error")).unwrap() {
        let number = |column: &str| row.number(column).unwrap();
        let seen = (number("SUM_ERROR_RAISED"), number("SUM_ERROR_HANDLED"));
        assert_eq!(row.get("FIRST_SEEN").is_some(), row.get("LAST_SEEN").is_some(), "{row:?}");
        if row.get("LAST_SEEN").is_some() {
            let sum = sums.entry(row.number("ERROR_NUMBER")).or_default();
            *sum = (sum.0 + seen.0, sum.1 + seen.1);
        } else {
            assert_eq!(seen, (0, 0), "{row:?}");
        }
    }
    sums
}

const LEVELS: [&str; 5] = ["by_thread", "by_account", "by_user", "by_host", "global"];

/// Programs with handlers of every kind.
const PROGRAMS: &[&str] = &[
    "CREATE DATABASE e",
    "USE e",
    "CREATE TABLE t (a INT PRIMARY KEY, b INT) ENGINE=InnoDB",
    "INSERT INTO t VALUES (1, 1)",
    "CREATE PROCEDURE goes_on(n INT) BEGIN DECLARE i INT DEFAULT 0; DECLARE CONTINUE HANDLER FOR 1062 BEGIN END; \
     WHILE i < n DO INSERT INTO t VALUES (1, 1); SET i = i + 1; END WHILE; END",
    "CREATE PROCEDURE nested() BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN END; BEGIN DECLARE CONTINUE HANDLER \
     FOR 1062 BEGIN SELECT * FROM absent_inside; END; INSERT INTO t VALUES (1, 1); END; END",
    "CREATE PROCEDURE again() BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN RESIGNAL; END; \
     SELECT * FROM absent_again; END",
    "CREATE PROCEDURE signals() BEGIN DECLARE CONTINUE HANDLER FOR SQLSTATE '45000' BEGIN END; \
     SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'x', MYSQL_ERRNO = 1644; END",
    "CREATE PROCEDURE warned() BEGIN DECLARE w INT DEFAULT 0; DECLARE CONTINUE HANDLER FOR SQLWARNING \
     SET w = w + 1; SET @x = CAST('abc' AS SIGNED); SELECT CAST('1x' AS SIGNED) INTO @y; END",
    "CREATE PROCEDURE nothing() BEGIN DECLARE v INT; DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END; \
     SELECT a INTO v FROM t WHERE a = 99; END",
    "CREATE PROCEDURE another() BEGIN DECLARE CONTINUE HANDLER FOR 1050 BEGIN END; INSERT INTO t VALUES (1, 1); END",
    "CREATE FUNCTION f() RETURNS INT DETERMINISTIC BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; \
     INSERT INTO t VALUES (1, 1); RETURN 1; END",
];

/// What raises errors, warnings and notes, and the error the client gets.
const RAISING: &[(&str, Option<u16>)] = &[
    ("CALL goes_on(3)", None),
    ("CALL nested()", None),
    ("CALL again()", Some(1146)),
    ("CALL signals()", None),
    ("CALL warned()", None),
    ("CALL nothing()", None),
    ("CALL another()", Some(1062)),
    ("SELECT f()", None),
    ("SELECT CAST('zz' AS SIGNED)", None),
    ("DROP DATABASE IF EXISTS absent", None),
    ("INSERT IGNORE INTO t VALUES (1, 2)", None),
    ("SELECT * FROM absent_outside", Some(1146)),
    ("SELEC 1", Some(1064)),
    ("SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'w', MYSQL_ERRNO = 1642", None),
    ("SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'big', MYSQL_ERRNO = 60000", Some(60000)),
    ("SET sql_notes = 0", None),
    ("DROP DATABASE IF EXISTS absent", None),
    ("SET sql_notes = 1", None),
    ("SET sql_mode = 'STRICT_ALL_TABLES'", None),
    ("INSERT INTO t VALUES (5, 'abc')", Some(1366)),
    ("PREPARE s FROM 'SELECT * FROM absent_prepared'", Some(1146)),
    ("CREATE TABLE t (a INT)", Some(1050)),
];

/// What MySQL 9.7.4 counted of them.
const OF_MYSQL: &[(Option<u64>, ErrorSums)] = &[
    (None, (1, 0)),
    (Some(1008), (1, 0)),
    (Some(1050), (1, 0)),
    (Some(1062), (2, 5)),
    (Some(1064), (1, 0)),
    (Some(1146), (3, 2)),
    (Some(1292), (3, 0)),
    (Some(1329), (1, 0)),
    (Some(1366), (1, 0)),
    (Some(1642), (1, 0)),
    (Some(1644), (0, 1)),
];

#[test]
fn errors_are_counted_as_by_mysql() {
    let _turn = shared_turn();
    let Some(server) = counting() else { return };
    let (mut schema, mut conn) = (server.schema().unwrap(), server.client().unwrap());
    assert_eq!(schema.tare_status().unwrap()["errors"], "ON");
    PROGRAMS.iter().for_each(|sql| conn.query_drop(sql).unwrap_or_else(|e| panic!("{sql}: {e}")));
    let thread = schema.thread_of(u64::from(conn.connection_id())).unwrap().unwrap().to_string();
    schema.truncate("events_errors_summary_global_by_error").unwrap();
    for (sql, expected) in RAISING {
        assert_eq!(error(&mut conn, sql).map(|(code, _)| code), *expected, "{sql}");
    }

    let mine = [("THREAD_ID", &*thread)];
    let mut counted = BTreeMap::new();
    for row in schema.rows_where("events_errors_summary_by_thread_by_error", &mine).unwrap() {
        let sums = (row.number("SUM_ERROR_RAISED").unwrap(), row.number("SUM_ERROR_HANDLED").unwrap());
        if sums != (0, 0) {
            counted.insert(row.number("ERROR_NUMBER"), sums);
        }
        match row.number("ERROR_NUMBER") {
            Some(1062) => {
                assert_eq!((row.text("ERROR_NAME"), row.text("SQL_STATE")), ("ER_DUP_ENTRY", "23000"))
            }
            None => assert_eq!((row.get("ERROR_NAME"), row.get("SQL_STATE")), (None, None)),
            Some(_) => {}
        }
    }
    // Notes of MariaDB's alone: where in a program an error happened, and what is deprecated.
    counted.remove(&Some(4094));
    counted.remove(&Some(1287));
    assert_eq!(counted, OF_MYSQL.iter().copied().collect::<BTreeMap<_, _>>());
}

/// What one of sixteen connections does until it ends: raises three errors, and has a fourth one handled.
fn raise(conn: &mut Conn, times: usize) {
    for _ in 0..times {
        for (sql, expected) in [
            ("SELECT * FROM e.absent", Some(1146)),
            ("SELEC 1", Some(1064)),
            ("SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 60000", Some(60000)),
            ("CALL e.goes_on(1)", None),
        ] {
            assert_eq!(error(conn, sql).map(|(code, _)| code), expected, "{sql}");
        }
    }
}

#[test]
fn no_error_of_sixteen_connections_is_lost_at_any_level() {
    const TIMES: usize = 50;
    let _turn = shared_turn();
    let Some(server) = counting() else { return };
    let mut conn = server.client().unwrap();
    PROGRAMS.iter().for_each(|sql| conn.query_drop(sql).unwrap());
    for user in ["one", "two"] {
        conn.query_drop(format!("CREATE USER {user}@localhost")).unwrap();
        conn.query_drop(format!("GRANT ALL ON e.* TO {user}@localhost")).unwrap();
    }
    let mut schema = server.schema().unwrap();
    schema.truncate("events_errors_summary_global_by_error").unwrap();

    let all = 16 * TIMES as u64;
    let expected: BTreeMap<Option<u64>, ErrorSums> =
        [(None, (all, 0)), (Some(1062), (0, all)), (Some(1064), (all, 0)), (Some(1146), (all, 0))].into();
    let conns: Vec<Conn> = std::thread::scope(|scope| {
        let run = |at: usize| {
            let options = server.client_options().user(Some(["one", "two"][at % 2]));
            move || {
                let mut conn = Conn::new(options).unwrap();
                raise(&mut conn, TIMES);
                conn
            }
        };
        let workers: Vec<_> = (0..16).map(|at| scope.spawn(run(at))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    for level in LEVELS {
        assert_eq!(sums(&mut schema, level), expected, "{level}, while they are connected");
    }
    drop(conns);
    let none = until(|| sums(&mut schema, "by_thread"), BTreeMap::is_empty);
    assert_eq!(none, BTreeMap::new(), "by_thread, once they have ended");
    for level in &LEVELS[1..] {
        assert_eq!(sums(&mut schema, level), expected, "{level}, once they have ended");
    }
    let of_one = schema.sum("events_errors_summary_by_user_by_error", &[("USER", "one")], "SUM_ERROR_RAISED");
    assert_eq!(of_one.unwrap(), 3 * all / 2);

    // Accounts are reset with their threads; their users and hosts, and all, keep what they have.
    schema.truncate("events_errors_summary_by_account_by_error").unwrap();
    assert_eq!(sums(&mut schema, "by_account"), BTreeMap::new());
    for level in ["by_user", "by_host", "global"] {
        assert_eq!(sums(&mut schema, level), expected, "{level}, after a reset of accounts");
    }
    schema.truncate("events_errors_summary_global_by_error").unwrap();
    for level in LEVELS {
        assert_eq!(sums(&mut schema, level), BTreeMap::new(), "{level}, after a reset of all");
    }
}

#[test]
fn the_instrument_switches_errors_off_and_the_strict_shape_has_none() {
    let _turn = shared_turn();
    let Some(server) = counting() else { return };
    let (mut schema, mut conn) = (server.schema().unwrap(), server.client().unwrap());
    let instrument = [("NAME", "error")];
    schema.truncate("events_errors_summary_global_by_error").unwrap();
    schema.update("setup_instruments", &[("ENABLED", "NO")], &instrument).unwrap();
    assert_eq!(error(&mut conn, "SELEC 1").map(|it| it.0), Some(1064));
    assert_eq!(sums(&mut schema, "global"), BTreeMap::new());
    schema.update("setup_instruments", &[("ENABLED", "YES")], &instrument).unwrap();
    assert_eq!(error(&mut conn, "SELEC 1").map(|it| it.0), Some(1064));
    assert_eq!(sums(&mut schema, "global"), BTreeMap::from([(Some(1064), (1, 0))]));
    drop((schema, server));

    let strict = Server::start(StartSettings::new(TestProvider::under_test())).unwrap();
    let mut schema = strict.schema().unwrap();
    assert_eq!(schema.rows_where("setup_instruments", &instrument).unwrap().len(), 0);
    assert!(schema.rows("events_errors_summary_global_by_error").is_err());
    assert!(!schema.tare_status().unwrap().contains_key("errors"));
}

/// Priority and text of every message of a log, as its lines have them.
fn messages(log: &str) -> Vec<(String, String)> {
    let mut messages: Vec<(String, String)> = Vec::new();
    for line in log.lines() {
        let head = line.starts_with("20").then(|| line.split_once(" [")).flatten();
        match head.and_then(|(_, rest)| rest.split_once("] ")) {
            Some((prio, text)) => messages.push((prio.to_uppercase(), text.to_owned())),
            None => messages.last_mut().unwrap_or_else(|| panic!("no time: {log}")).1 += &format!("\n{line}"),
        }
    }
    messages
}

/// A connection that the server soon gives up.
fn silent(server: &Server) -> Conn {
    let mut conn = server.client().unwrap();
    conn.query_drop("SET wait_timeout = 1").unwrap();
    conn
}

fn shown(schema: &mut SchemaConnection) -> Vec<(String, String)> {
    let rows = schema.rows("error_log").unwrap();
    rows.iter().map(|row| (row.text("PRIO").to_uppercase(), row.text("DATA").to_owned())).collect()
}

#[test]
fn the_error_log_has_the_messages_of_the_file() {
    let _turn = shared_turn();
    let Some(server) = extended() else { return };
    let (mut schema, mut conn) = (server.schema().unwrap(), server.client().unwrap());
    // One more message: of a connection that says nothing for too long.
    conn.query_drop("SET GLOBAL log_warnings = 9").unwrap();
    let gone = silent(&server);
    let aborted = |all: &Vec<(String, String)>| all.iter().any(|it| it.1.starts_with("Aborted"));
    let in_file = until(|| messages(&server.log()), aborted);
    assert_eq!(shown(&mut schema), in_file);
    let rows = schema.rows("error_log").unwrap();
    let logged: Vec<&str> = rows.iter().map(|row| row.text("LOGGED")).collect();
    assert!(logged.is_sorted_by(|a, b| a < b), "each message has a time of its own: {logged:?}");
    let of_gone = rows.iter().find(|row| row.text("DATA").starts_with("Aborted")).unwrap();
    assert_eq!(of_gone.number("THREAD_ID"), Some(gone.connection_id().into()));
    assert_eq!((of_gone.text("SUBSYSTEM"), of_gone.text("ERROR_CODE")), ("Server", "MY-000000"));
    assert!(rows.iter().any(|row| row.text("SUBSYSTEM") == "InnoDB" && row.number("THREAD_ID") == Some(0)));

    // The log is moved away, and the server told so: the new one has what comes from then on.
    let log = server.data().parent().unwrap().join("log.err");
    std::fs::rename(&log, log.with_extension("old")).unwrap();
    assert_eq!(shown(&mut schema), in_file, "the server still writes to the file that was moved");
    conn.query_drop("FLUSH ERROR LOGS").unwrap();
    let _gone = silent(&server);
    let in_new = until(|| messages(&server.log()), aborted);
    assert!(in_new.len() < in_file.len());
    assert_eq!(shown(&mut schema), in_new);
    // Cut off by somebody, it is empty.
    std::fs::File::options().write(true).truncate(true).open(&log).unwrap();
    assert_eq!(shown(&mut schema), []);
}

#[test]
fn log_status_tells_where_the_logs_are() {
    let _turn = shared_turn();
    if !TestProvider::under_test().is_tare() {
        return println!("skipped: the built-in has no such table");
    }
    let settings = StartSettings::new(TestProvider::under_test()).tare_option("shape", "extended");
    let settings = settings.option("--log-bin=log").option("--server-id=1");
    let Some(server) = Server::start(settings).unwrap().on_its_port() else { return };
    let mut conn = server.client().unwrap();
    conn.query_drop("CREATE DATABASE e").unwrap();
    let master: mysql::Row = conn.query_first("SHOW MASTER STATUS").unwrap().unwrap();
    let (file, position): (String, u64) = (master.get("File").unwrap(), master.get("Position").unwrap());
    let gtid: String = conn.query_first("SELECT @@gtid_binlog_pos").unwrap().unwrap();
    let asked = "SELECT json_value(LOCAL, '$.binary_log_file'), json_value(LOCAL, '$.binary_log_position'), \
                 json_value(LOCAL, '$.gtid_executed'), json_value(STORAGE_ENGINES, '$.InnoDB.LSN') > 0, \
                 json_value(STORAGE_ENGINES, '$.InnoDB.LSN_checkpoint') > 0, json_length(REPLICATION, '$.channels') \
                 FROM performance_schema.log_status";
    let told: (String, u64, String, bool, bool, u64) = conn.query_first(asked).unwrap().unwrap();
    assert_eq!(told, (file, position, gtid, true, true, 0));
    match conn.query_drop("TRUNCATE performance_schema.log_status") {
        Err(Error::MySqlError(_)) => {}
        other => panic!("it is a view: {other:?}"),
    }
}
