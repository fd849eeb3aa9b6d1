//! What sessions have of their own, seen by others: counters, sums over an account's sessions, user
//! variables.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use mysql::prelude::Queryable;
use mysql::{ChangeUserOpts, Conn};
use tare_testkit::server::Server;
use tare_testkit::shared_turn;

use crate::parties::{close, connect, with_users};
use crate::{beside_the_built_in, server, until};

type SessionSumRow = BTreeMap<String, u64>;

/// Counters that the work of this file moves and nothing else does.
const COUNTERS: &str =
    "'Handler_savepoint','Handler_savepoint_rollback','Sort_rows','Select_full_join','Feature_json'";

/// Moves each of them.
fn work(conn: &mut Conn) {
    for sql in [
        "BEGIN",
        "INSERT INTO t.t VALUES (NULL)",
        "SAVEPOINT a",
        "INSERT INTO t.t VALUES (NULL)",
        "ROLLBACK TO SAVEPOINT a",
        "COMMIT",
        "SELECT * FROM (SELECT 2 a UNION ALL SELECT 1 UNION ALL SELECT 3) v ORDER BY a",
        "SELECT COUNT(*) FROM (SELECT 1 x UNION ALL SELECT 2) v JOIN (SELECT 1 y UNION ALL SELECT 2) w ON x + 0 = y + 0",
        "SELECT JSON_VALID('{}')",
    ] {
        conn.query_drop(sql).unwrap();
    }
}

/// The counters of what a condition on a table is true of, summed up.
fn sums(conn: &mut Conn, table: &str, condition: &str) -> SessionSumRow {
    let sql = format!(
        "SELECT VARIABLE_NAME, CAST(SUM(VARIABLE_VALUE) AS UNSIGNED) FROM performance_schema.{table} \
         WHERE VARIABLE_NAME IN ({COUNTERS}) AND {condition} GROUP BY VARIABLE_NAME"
    );
    conn.query(sql).unwrap().into_iter().collect()
}

fn of_session(conn: &mut Conn, of: &Conn) -> SessionSumRow {
    let thread = format!(
        "THREAD_ID = (SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = {})",
        of.connection_id()
    );
    sums(conn, "status_by_thread", &thread)
}

/// What ann's sessions counted, by every table that has it, while they last and afterwards.
fn counted(server: &Server) -> Vec<SessionSumRow> {
    let mut admin = server.client().unwrap();
    let mut schema = server.schema().unwrap();
    let (mut one, mut two) = (connect(server, "ann"), connect(server, "ann"));
    work(&mut one);
    work(&mut one);
    work(&mut two);
    let mut found = vec![of_session(&mut admin, &one), of_session(&mut admin, &two)];
    let all = |admin: &mut Conn, found: &mut Vec<SessionSumRow>| {
        for (table, condition) in [
            ("status_by_account", "USER = 'ann' AND HOST = 'localhost'"),
            ("status_by_account", "USER = 'bob'"),
            ("status_by_user", "USER = 'ann'"),
        ] {
            found.push(sums(admin, table, condition));
        }
    };
    all(&mut admin, &mut found);
    close(&mut schema, one);
    all(&mut admin, &mut found);
    close(&mut schema, two);
    all(&mut admin, &mut found);
    found
}

#[test]
fn sessions_and_their_accounts_count_what_the_built_in_counts() {
    let _turn = shared_turn();
    let answers = |server: &Server| {
        prepare(server);
        counted(server)
    };
    let Some((expected, server)) = beside_the_built_in(answers) else { return };
    assert!(expected[0].values().all(|count| *count > 0) && expected[0].len() == 5, "{expected:?}");
    assert_eq!(answers(&server), expected);
}

/// What is seen of the thread of a connection that has just begun: whether it has a parent, and how many of
/// its two statements are counted and in its history.
fn begun(server: &Server, admin: &mut Conn) -> (bool, u64, u64) {
    let mut conn = server.client().unwrap();
    conn.query_drop("DO 1").unwrap();
    conn.query_drop("DO 2").unwrap();
    // A statement ends after its answer, and before the next one begins.
    conn.query_drop("SELECT 1").unwrap();
    let of = format!("(SELECT THREAD_ID FROM threads WHERE PROCESSLIST_ID = {})", conn.connection_id());
    admin.query_drop("USE performance_schema").unwrap();
    let mut one = |sql: String| admin.query_first::<u64, _>(sql.replace("{of}", &of)).unwrap().unwrap();
    let parent = one("SELECT COUNT(PARENT_THREAD_ID) FROM threads WHERE THREAD_ID = {of}".into());
    let statement = "EVENT_NAME = 'statement/sql/do' AND THREAD_ID = {of}";
    let counted =
        format!("SELECT COUNT_STAR FROM events_statements_summary_by_thread_by_event_name WHERE {statement}");
    let held = format!("SELECT COUNT(*) FROM events_statements_history WHERE {statement}");
    (parent == 1, one(counted), one(held))
}

/// A thread of the server's cache takes the next connection: to the Performance Schema it is another thread,
/// and has nothing of what it did before.
#[test]
fn a_thread_of_the_servers_cache_begins_anew() {
    let _turn = shared_turn();
    let answers = |server: &Server| {
        let mut admin = server.client().unwrap();
        let status = |admin: &mut Conn, name: &str| -> u64 {
            let sql = format!("SHOW GLOBAL STATUS LIKE '{name}'");
            admin.query_first::<(String, u64), _>(sql).unwrap().unwrap().1
        };
        begun(server, &mut admin);
        until(|| status(&mut admin, "Threads_cached"), |cached| *cached > 0);
        let created = status(&mut admin, "Threads_created");
        let found = begun(server, &mut admin);
        assert_eq!(status(&mut admin, "Threads_created"), created, "the cache had one");
        found
    };
    let Some((expected, server)) = beside_the_built_in(answers) else { return };
    assert_eq!((expected.1, expected.2), (2, 2));
    assert_eq!(answers(&server), expected);
}

fn prepare(server: &Server) {
    let mut admin = server.client().unwrap();
    for sql in [
        "CREATE USER ann@localhost",
        "CREATE USER bob@localhost",
        "GRANT ALL ON *.* TO ann@localhost, bob@localhost",
        "CREATE DATABASE t",
        "CREATE TABLE t.t (a INT AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB",
    ] {
        admin.query_drop(sql).unwrap();
    }
}

/// Names and values a table shows, but for what moves all the time.
fn names(server: &Server, table: &str) -> Vec<String> {
    let sql = format!(
        "SELECT DISTINCT VARIABLE_NAME FROM performance_schema.{table} ORDER BY BINARY LOWER(VARIABLE_NAME)"
    );
    server.client().unwrap().query(sql).unwrap()
}

#[test]
fn sums_have_the_names_the_built_in_has() {
    let _turn = shared_turn();
    let tables = ["status_by_account", "status_by_user", "status_by_host"];
    let answers = |server: &Server| tables.map(|table| names(server, table));
    let Some((expected, server)) = beside_the_built_in(answers) else { return };
    assert!(expected.iter().all(|names| names.len() > 70), "{expected:?}");
    assert_eq!(answers(&server), expected);
    // Of sessions tare shows what is theirs; the built-in repeats the server's values for each of them.
    if server.settings.provider.is_tare() {
        let shown = names(&server, "session_status");
        let by_thread = names(&server, "status_by_thread");
        assert!(by_thread.len() > expected[0].len());
        assert!(by_thread.iter().all(|name| shown.contains(name)), "{by_thread:?}");
    }
}

#[test]
fn a_session_shows_others_what_show_status_shows_it() {
    let _turn = shared_turn();
    let Some(server) = server().on_its_port() else { return };
    prepare(&server);
    let mut admin = server.client().unwrap();
    let mut conn = connect(&server, "ann");
    work(&mut conn);
    let own: Vec<(String, String)> = conn.query("SHOW SESSION STATUS").unwrap();
    let own: BTreeMap<String, String> =
        own.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
    let sql = format!(
        "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.status_by_thread JOIN performance_schema.threads \
         USING (THREAD_ID) WHERE PROCESSLIST_ID = {}",
        conn.connection_id()
    );
    let seen: Vec<(String, String)> = admin.query(sql).unwrap();
    assert!(seen.len() > 80, "{}", seen.len());
    for (name, value) in seen {
        // SHOW STATUS is answered before it has counted itself.
        let moves = [
            "Questions",
            "Queries",
            "Bytes_",
            "Rows_",
            "Handler_",
            "_time",
            "Last_query_cost",
            "Threads_running",
        ];
        let moves = moves.iter().any(|part| name.contains(part))
            || name.starts_with("Select_")
            || name.contains("tmp");
        if !moves || name.starts_with("Handler_savepoint") {
            assert_eq!(own.get(&name.to_lowercase()), Some(&value), "{name}");
        }
    }
}

#[test]
fn truncate_and_flush_forget_what_has_ended() {
    let _turn = shared_turn();
    let (server, mut schema) = with_users();
    let Some(server) = server.on_its_port() else { return };
    if !server.settings.provider.is_tare() {
        // The built-in counts live sessions once more when it forgets.
        return;
    }
    let mut admin = server.client().unwrap();
    let savepoints = |admin: &mut Conn, table: &str, condition: &str| {
        sums(admin, table, condition).get("Handler_savepoint").copied().unwrap_or(0)
    };
    let all = |admin: &mut Conn| {
        ["status_by_account", "status_by_user"]
            .map(|table| savepoints(admin, table, "USER = 'ann'"))
            .into_iter()
            .chain([savepoints(admin, "status_by_host", "HOST = 'localhost'")])
            .collect::<Vec<u64>>()
    };
    let end = |schema: &mut _| {
        let mut conn = connect(&server, "ann");
        work(&mut conn);
        close(schema, conn);
    };
    end(&mut schema);
    assert_eq!(all(&mut admin), [1, 1, 1]);
    for (table, left) in [
        ("status_by_thread", [1, 1, 1]),
        ("status_by_account", [0, 1, 1]),
        ("status_by_user", [0, 0, 1]),
        ("status_by_host", [0, 0, 0]),
    ] {
        admin.query_drop(format!("TRUNCATE TABLE performance_schema.{table}")).unwrap();
        assert_eq!(all(&mut admin), left, "{table}");
    }
    // Since 11.5 it is the session's own counters alone, unless it says otherwise.
    let flush = if admin.server_version() >= (11, 5, 0) { "FLUSH GLOBAL STATUS" } else { "FLUSH STATUS" };
    for _ in 0..3 {
        // Within the second of the last one, it is told only by the server's counters that fall, if they do.
        admin.query_drop("DO SLEEP(1.01 - MICROSECOND(NOW(6)) / 1e6)").unwrap();
        end(&mut schema);
        assert_eq!(all(&mut admin), [1, 1, 1]);
        admin.query_drop(flush).unwrap();
    }
    end(&mut schema);
    assert_eq!(all(&mut admin), [1, 1, 1]);
}

#[test]
fn sums_hold_while_sessions_come_and_go_and_are_read() {
    let _turn = shared_turn();
    const CLIENTS: u64 = 6;
    const SESSIONS: u64 = 60;
    let (server, mut schema) = with_users();
    let Some(server) = server.on_its_port() else { return };
    let done = AtomicBool::new(false);
    let savepoints = |admin: &mut Conn| {
        sums(admin, "status_by_account", "USER IN ('ann', 'bob')")
            .get("Handler_savepoint")
            .copied()
            .unwrap_or(0)
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let server = &server;
                scope.spawn(move || {
                    for _ in 0..SESSIONS {
                        let mut conn = connect(server, if client % 2 == 0 { "ann" } else { "bob" });
                        conn.query_drop("SET @x = REPEAT('x', 100), @y = 1").unwrap();
                        work(&mut conn);
                    }
                })
            })
            .collect();
        let (server, done) = (&server, &done);
        let reader = scope.spawn(move || {
            let mut admin = server.client().unwrap();
            let mut before = 0;
            while !done.load(Ordering::Relaxed) {
                let now = savepoints(&mut admin);
                assert!(now >= before && now <= CLIENTS * SESSIONS, "{before}, then {now}");
                before = now;
                for table in ["status_by_thread", "status_by_host", "user_variables_by_thread"] {
                    admin.query_drop(format!("SELECT * FROM performance_schema.{table}")).unwrap();
                }
            }
        });
        let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        ended.into_iter().for_each(|client| client.unwrap());
    });
    let mut admin = server.client().unwrap();
    let found = crate::until(|| savepoints(&mut admin), |found| *found == CLIENTS * SESSIONS);
    assert_eq!(found, CLIENTS * SESSIONS);
    if server.settings.provider.is_tare() {
        let lost = schema.tare_status().unwrap();
        assert_eq!(lost.get("party_cells_lost").map(String::as_str), Some("0"));
    }
}

/// Another session's variables, by name: bytes of their values in hexadecimal digits, of long ones their
/// hash.
///
/// A client has its answer before its session sleeps, and what a statement in progress sets is left out.
fn variables(admin: &mut Conn, of: &Conn) -> Vec<(String, Option<String>)> {
    let id = of.connection_id();
    let asleep = format!(
        "SELECT COUNT(*) FROM performance_schema.threads WHERE PROCESSLIST_ID = {id} AND PROCESSLIST_COMMAND = 'Sleep'"
    );
    let asleep = crate::until(|| admin.query_first::<u64, _>(&asleep).unwrap(), |found| *found == Some(1));
    assert_eq!(asleep, Some(1), "session {id} never sleeps");
    let sql = format!(
        "SELECT VARIABLE_NAME, IF(LENGTH(VARIABLE_VALUE) < 400, HEX(VARIABLE_VALUE), MD5(VARIABLE_VALUE)) FROM performance_schema.user_variables_by_thread \
         JOIN performance_schema.threads USING (THREAD_ID) WHERE PROCESSLIST_ID = {id} ORDER BY BINARY VARIABLE_NAME"
    );
    admin.query(sql).unwrap()
}

/// What another session sees of variables of every kind.
fn seen(server: &Server) -> Vec<Vec<(String, Option<String>)>> {
    let mut admin = server.client().unwrap();
    let mut conn = server.client().unwrap();
    let mut found = vec![variables(&mut admin, &conn)];
    for sql in [
        "SET @i = 5, @n = -7, @u = 18446744073709551615, @r = 1.5e0, @half = 2.5e0, @big = 1e300",
        "SET @d = 12345678901234567890.12345, @neg = -0.5, @z = 0.10, @zero = 0.0, @i = 'now a text'",
        "SET @s = 'text', @b = x'00ff', @nothing = NULL, @empty = '', @g = POINT(1, 2), @`ü` = 'ü'",
        "SET @long = REPEAT('x', 30000), @s = NULL, @d = 1",
        "SELECT 'into', 3 INTO @s, @i",
        "SELECT @counted := COUNT(*) FROM mysql.user",
    ] {
        conn.query_drop(sql).unwrap();
        found.push(variables(&mut admin, &conn));
    }
    conn.reset().unwrap();
    found.push(variables(&mut admin, &conn));
    conn.query_drop("SET @after = DATE'2020-01-01', @time = NOW() > 0").unwrap();
    found.push(variables(&mut admin, &conn));
    conn.change_user(ChangeUserOpts::DEFAULT).unwrap();
    found.push(variables(&mut admin, &conn));
    found
}

#[test]
fn variables_of_other_sessions_are_those_the_built_in_shows() {
    let _turn = shared_turn();
    let Some((expected, server)) = beside_the_built_in(seen) else { return };
    assert!(expected[3].len() > 12 && expected[7].is_empty(), "{expected:?}");
    assert_eq!(seen(&server), expected);
}

#[test]
fn a_statement_in_progress_hides_only_what_it_sets() {
    let _turn = shared_turn();
    let Some(server) = server().on_its_port() else { return };
    let mut admin = server.client().unwrap();
    let mut busy = server.client().unwrap();
    busy.query_drop("SET @before = 'stands', @number = 1").unwrap();
    let id = busy.connection_id();
    let running = std::thread::spawn(move || {
        let _killed = busy.query_drop("SELECT @number := 2, @set := 'now', SLEEP(600)");
    });
    let asleep = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id} AND STATE = 'User sleep'"
    );
    crate::until(|| admin.query_first::<u64, _>(&asleep).unwrap(), |found| *found == Some(1));
    let sql = format!(
        "SELECT VARIABLE_NAME, CAST(VARIABLE_VALUE AS CHAR) FROM performance_schema.user_variables_by_thread JOIN \
         performance_schema.threads USING (THREAD_ID) WHERE PROCESSLIST_ID = {id} ORDER BY VARIABLE_NAME"
    );
    let found: Vec<(String, String)> = admin.query(sql).unwrap();
    let row = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut wanted = vec![row("before", "stands"), row("number", "2")];
    if !server.settings.provider.is_tare() {
        wanted.push(row("set", "now"));
    }
    assert_eq!(found, wanted);
    admin.query_drop(format!("KILL {id}")).unwrap();
    running.join().unwrap();
}
