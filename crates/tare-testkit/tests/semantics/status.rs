//! What is of the server and not of the instrumentation: status, user variables, replication, host names.

use std::process::{Command, Stdio};

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tare_testkit::turn;

use crate::{error, server};

/// Texts of one column, byte by byte.
fn texts(conn: &mut Conn, sql: &str) -> Vec<String> {
    conn.query(sql).unwrap()
}

fn one(conn: &mut Conn, sql: &str) -> Option<String> {
    conn.query_first::<Option<String>, _>(sql).unwrap().flatten()
}

/// A variable of the asking session, as `session_status` has it.
fn session_status(conn: &mut Conn, name: &str) -> u64 {
    let sql = format!(
        "SELECT VARIABLE_VALUE FROM performance_schema.session_status WHERE VARIABLE_NAME = '{name}'"
    );
    one(conn, &sql).unwrap().parse().unwrap()
}

/// THREAD_ID of a connection.
fn thread(server: &Server, conn: &Conn) -> u64 {
    server.schema().unwrap().thread_of(u64::from(conn.connection_id())).unwrap().unwrap()
}

/// Names of the status variables a table shows, in order.
fn names(server: &Server, table: &str) -> Vec<String> {
    let sql = format!("SELECT VARIABLE_NAME FROM performance_schema.{table} ORDER BY VARIABLE_NAME");
    texts(&mut server.client().unwrap(), &sql)
}

#[test]
fn status_has_the_names_the_built_in_has() {
    let _turn = turn();
    let Some(server) = server().on_its_port() else { return };
    let reference = Server::start(StartSettings::new(TestProvider::BuiltIn)).unwrap();
    for table in ["global_status", "session_status"] {
        let (found, wanted) = (names(&server, table), names(&reference, table));
        let lacking: Vec<&String> = wanted.iter().filter(|name| !found.contains(name)).collect();
        let further: Vec<&String> = found.iter().filter(|name| !wanted.contains(name)).collect();
        assert!(lacking.is_empty() && further.is_empty(), "{table}: not {lacking:?}, but {further:?}");
        assert!(found.len() > 300 && found.len() == wanted.len(), "{table}: {}", found.len());
    }
}

#[test]
fn status_is_of_the_moment_and_of_the_session() {
    let _turn = turn();
    let Some(server) = server().on_its_port() else { return };
    let mut busy = server.client().unwrap();
    let mut quiet = server.client().unwrap();
    // Connections that are made are never taken back from this one; how many are open depends on when they
    // end.
    let made = "SELECT VARIABLE_VALUE FROM performance_schema.global_status \
                WHERE VARIABLE_NAME = 'Connections'";
    let before: u64 = one(&mut quiet, made).unwrap().parse().unwrap();
    let further: Vec<Conn> = (0..3).map(|_| server.client().unwrap()).collect();
    let after: u64 = one(&mut quiet, made).unwrap().parse().unwrap();
    assert!(after >= before + 3, "{before}, then {after}");
    drop(further);

    let selects = |conn: &mut Conn| session_status(conn, "Select_full_join");
    let (before_busy, before_quiet) = (selects(&mut busy), selects(&mut quiet));
    busy.query_drop("CREATE DATABASE test").unwrap();
    busy.query_drop("CREATE TEMPORARY TABLE test.a (a INT) SELECT 1 a UNION SELECT 2 a").unwrap();
    busy.query_drop("CREATE TEMPORARY TABLE test.b (a INT) SELECT 1 a UNION SELECT 2 a").unwrap();
    for _ in 0..7 {
        busy.query_drop("SELECT * FROM test.a, test.b WHERE a.a < b.a").unwrap();
    }
    assert_eq!(selects(&mut busy) - before_busy - (selects(&mut quiet) - before_quiet), 7);
}

#[test]
fn the_asking_session_finds_its_own_status_and_variables_by_its_thread() {
    let _turn = turn();
    let Some(server) = server().on_its_port() else { return };
    let mut conn = server.client().unwrap();
    let own = thread(&server, &conn);
    conn.query_drop("SET @number = 17, @Text = 'it\\'s', @nothing = NULL, @bytes = x'00ff41'").unwrap();
    let sql = format!(
        "SELECT VARIABLE_NAME, HEX(VARIABLE_VALUE) FROM performance_schema.user_variables_by_thread \
         WHERE THREAD_ID = {own} ORDER BY VARIABLE_NAME"
    );
    let found: Vec<(String, Option<String>)> = conn.query(sql).unwrap();
    let wanted = [("nothing", None), ("number", Some("3137")), ("Text", Some("69742773"))];
    let wanted: Vec<(String, Option<String>)> =
        wanted.map(|(name, value)| (name.to_owned(), value.map(str::to_owned))).into();
    let texts: Vec<_> = found.iter().filter(|(name, _)| name != "bytes").cloned().collect();
    assert_eq!(texts, wanted);
    assert_eq!(found.len(), 4, "{found:?}");

    let status = format!(
        "SELECT VARIABLE_VALUE FROM performance_schema.status_by_thread \
         WHERE THREAD_ID = {own} AND VARIABLE_NAME = 'Handler_savepoint'"
    );
    assert_eq!(one(&mut conn, &status).as_deref(), Some("0"));
    for sql in [
        "CREATE DATABASE test",
        "CREATE TABLE test.t (a INT) ENGINE=InnoDB",
        "BEGIN",
        "INSERT INTO test.t VALUES (1)",
    ] {
        conn.query_drop(sql).unwrap();
    }
    conn.query_drop("SAVEPOINT a").unwrap();
    assert_eq!(one(&mut conn, &status).as_deref(), Some("1"));
}

#[test]
fn user_variables_need_no_plugin_and_no_table_warns() {
    let _turn = turn();
    let settings = StartSettings::new(TestProvider::under_test()).option("--user-variables=OFF");
    let Some(server) = Server::start(settings).unwrap().on_its_port() else { return };
    let mut conn = server.client().unwrap();
    for sql in [
        "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE COLUMN_NAME = 'VARIABLE_NAME'",
        "SELECT TABLE_NAME, TABLE_ROWS FROM information_schema.TABLES",
        "SHOW TABLE STATUS FROM performance_schema",
    ] {
        conn.query_drop(sql).unwrap();
        assert_eq!(one(&mut conn, "SELECT @@warning_count").as_deref(), Some("0"), "{sql}");
    }
    conn.query_drop("SET @x = 17").unwrap();
    let sql = "SELECT CAST(VARIABLE_VALUE AS CHAR) FROM performance_schema.user_variables_by_thread";
    assert_eq!(texts(&mut conn, sql), ["17"]);
}

/// What `information_schema.TABLES` sums up over the schema: sizes in bytes.
fn sizes(server: &Server) -> Vec<Option<String>> {
    let sums =
        "SUM(AVG_ROW_LENGTH), SUM(DATA_LENGTH), SUM(MAX_DATA_LENGTH), SUM(INDEX_LENGTH), SUM(DATA_FREE)";
    let sql = format!(
        "SELECT CONCAT_WS(' ', {sums}) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'performance_schema'"
    );
    server.client().unwrap().query(sql).unwrap()
}

#[test]
fn tables_take_no_room_and_have_the_rows_they_have() {
    let _turn = turn();
    let Some((expected, server)) = crate::beside_the_built_in(sizes) else { return };
    assert_eq!(sizes(&server), expected);
    if !server.settings.provider.is_tare() {
        return;
    }
    let mut conn = server.client().unwrap();
    // Of these neither this nor another session changes the number; none has no row at all.
    for table in [
        "setup_instruments",
        "setup_consumers",
        "events_waits_summary_global_by_event_name",
        "events_statements_summary_global_by_event_name",
        "memory_summary_global_by_event_name",
        "performance_timers",
    ] {
        let sql = format!("SELECT TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_NAME = '{table}'");
        let told = one(&mut conn, &sql);
        assert_eq!(
            told,
            one(&mut conn, &format!("SELECT COUNT(*) FROM performance_schema.{table}")),
            "{table}"
        );
    }
    let fewest = "SELECT MIN(TABLE_ROWS) FROM information_schema.TABLES \
                  WHERE TABLE_SCHEMA = 'performance_schema' AND ENGINE = 'FEDERATED'";
    assert_eq!(one(&mut conn, fewest).as_deref(), Some("2"), "the optimizer takes less for a constant");
}

/// Files of the schema's own tables that are known, as instances and in the summaries.
fn own_files(server: &Server) -> Vec<String> {
    let mut conn = server.client().unwrap();
    // Each is opened, in more ways than one.
    conn.query_drop(
        "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'performance_schema'",
    )
    .unwrap();
    conn.query_drop("FLUSH TABLES").unwrap();
    conn.query_drop("SELECT * FROM performance_schema.threads, performance_schema.global_status LIMIT 1")
        .unwrap();
    let of = |table: &str| {
        format!(
            "SELECT FILE_NAME FROM performance_schema.{table} WHERE FILE_NAME LIKE '%performance\\_schema/%.frm'"
        )
    };
    texts(&mut conn, &format!("{} UNION {}", of("file_instances"), of("file_summary_by_instance")))
}

#[test]
fn the_tables_own_files_are_no_files_of_the_servers() {
    let _turn = turn();
    let Some((expected, server)) = crate::beside_the_built_in(own_files) else { return };
    assert_eq!(own_files(&server), expected);
}

#[test]
fn what_there_is_none_of_is_there_and_empty() {
    let _turn = turn();
    let Some(server) = server().on_its_port() else { return };
    let mut conn = server.client().unwrap();
    // Without replication and names to resolve.
    for table in [
        "host_cache",
        "replication_applier_configuration",
        "replication_applier_status",
        "replication_applier_status_by_coordinator",
        "replication_applier_status_by_worker",
        "replication_connection_configuration",
    ] {
        assert_eq!(
            texts(&mut conn, &format!("SELECT 1 FROM performance_schema.{table}")).len(),
            0,
            "{table}"
        );
    }
}

#[test]
fn views_pass_the_servers_own_checks() {
    let _turn = turn();
    let Some(server) = server().on_its_port() else { return };
    let mut conn = server.client().unwrap();
    let views = texts(
        &mut conn,
        "SELECT table_name FROM information_schema.tables \
         WHERE table_schema = 'performance_schema' AND table_type = 'VIEW'",
    );
    assert_eq!(views.is_empty(), !server.settings.provider.is_tare());
    for view in views {
        // What the server refuses on any view in this schema; the README's limits say so.
        for (sql, number) in
            [("SHOW CREATE TABLE", 1044), ("EXPLAIN SELECT * FROM", 1345), ("TRUNCATE", 1683)]
        {
            let refused = error(&mut conn, &format!("{sql} performance_schema.{view}"));
            assert_eq!(refused.map(|(code, _)| code), Some(number), "{sql} {view}");
        }
        conn.query_drop(format!("SELECT * FROM performance_schema.{view}")).unwrap();
        for how in ["", " FOR UPGRADE"] {
            let sql = format!("CHECK TABLE performance_schema.{view}{how}");
            let answer: Vec<(String, String, String, String)> = conn.query(sql).unwrap();
            assert_eq!(answer.len(), 1, "{answer:?}");
            assert_eq!(answer[0].3, "OK", "{answer:?}");
        }
    }
}

/// The server's own programs go through every schema, or say that they pass this one over.
#[test]
fn the_servers_programs_are_unharmed() {
    let _turn = turn();
    let Some(server) = server().on_its_port() else { return };
    if server.host().basedir.is_some() {
        println!("skipped: the installed programs are another server's");
        return;
    }
    let before = texts(&mut server.client().unwrap(), "SHOW TABLES FROM performance_schema");
    let programs: [(&str, &[&str]); 4] = [
        ("mariadb-dump", &["--all-databases"]),
        ("mariadb-dump", &["--skip-lock-tables", "--no-data", "performance_schema", "threads"]),
        ("mariadb-check", &["--all-databases"]),
        ("mariadb-upgrade", &["--force"]),
    ];
    for (program, arguments) in programs {
        let mut command = Command::new(program);
        command.arg("--no-defaults").arg(format!("--socket={}", server.socket().display()));
        command.arg("--user=root").args(arguments).stdin(Stdio::null());
        let output = match command.output() {
            Ok(output) => output,
            Err(absent) => {
                println!("skipped: {program}: {absent}");
                continue;
            }
        };
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {text}");
    }
    let after = texts(&mut server.client().unwrap(), "SHOW TABLES FROM performance_schema");
    assert_eq!(before, after);
}
