//! Executions of prepared statements: they count for the digest of what was prepared, and show it.

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::shared_turn;
use tare_testkit::subject::TestProvider;

use crate::raw::Raw;
use crate::until;

const BY_DIGEST: &str = "performance_schema.events_statements_summary_by_digest";
const INSTANCES: &str = "performance_schema.prepared_statements_instances";

/// A server with a table, and a client of it; `None` where this is not tare, or its tables are not on its
/// port.
fn start(shape: &str, options: &[(&str, &str)]) -> Option<(Server, Conn)> {
    if !TestProvider::under_test().is_tare() {
        println!("skipped: the built-in has no digests of executions");
        return None;
    }
    let settings = StartSettings::new(TestProvider::under_test()).tare_option("shape", shape);
    let settings = options.iter().fold(settings, |settings, (name, value)| settings.tare_option(name, value));
    let server = Server::start(settings).unwrap().on_its_port()?;
    let mut conn = server.client().unwrap();
    for sql in [
        "CREATE SCHEMA shop",
        "USE shop",
        "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(40)) ENGINE=InnoDB",
        "INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')",
    ] {
        conn.query_drop(sql).unwrap();
    }
    Some((server, conn))
}

/// COUNT_STAR of a digest, by schema and text.
fn count(conn: &mut Conn, schema: &str, text: &str) -> u64 {
    let sql = format!(
        "SELECT CAST(COALESCE(SUM(COUNT_STAR), 0) AS UNSIGNED) FROM {BY_DIGEST} \
         WHERE SCHEMA_NAME = '{schema}' AND RTRIM(DIGEST_TEXT) = '{text}'"
    );
    conn.query_first(sql).unwrap().unwrap()
}

/// EVENT_NAME, SQL_TEXT and DIGEST_TEXT of a connection's statements of the long history, the oldest first,
/// whose names are like this.
fn events(conn: &mut Conn, of: u64, name: &str) -> Vec<(String, Option<String>, Option<String>)> {
    let sql = format!(
        "SELECT EVENT_NAME, SQL_TEXT, RTRIM(DIGEST_TEXT) FROM performance_schema.events_statements_history_long \
         WHERE THREAD_ID = (SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = {of}) \
         AND EVENT_NAME LIKE '{name}' ORDER BY EVENT_ID"
    );
    conn.query(sql).unwrap()
}

fn id(conn: &Conn) -> u64 {
    u64::from(conn.connection_id())
}

const SELECT: &str = "SELECT `b` FROM `t` WHERE `a` = ?";

/// Lets the last statement end: its end follows its answer.
fn settle(conn: &mut Conn) {
    conn.query_drop("DO 0").unwrap();
}

#[test]
fn executions_count_for_the_digest_of_what_was_prepared() {
    let _turn = shared_turn();
    for shape in ["strict", "extended"] {
        let Some((server, mut conn)) = start(shape, &[]) else { return };
        let mut reader = server.client().unwrap();
        let sql = "SELECT b FROM t WHERE a = ?";
        let prepared = conn.prep(sql).unwrap();
        for a in 0..5 {
            conn.exec_drop(&prepared, (a,)).unwrap();
        }
        // One more of the same text, by SQL, as text, and at once.
        for sql in [
            "SELECT b FROM t WHERE a = 1",
            "PREPARE p FROM 'SELECT b FROM t WHERE a = ?'",
            "SET @a = 2",
            "EXECUTE p USING @a",
            "EXECUTE IMMEDIATE 'SELECT b FROM t WHERE a = ?' USING @a",
            "DEALLOCATE PREPARE p",
        ] {
            conn.query_drop(sql).unwrap();
        }
        assert_eq!(count(&mut reader, "shop", SELECT), 8, "{shape}");
        for own in ["EXECUTE `p` USING @?", "EXECUTE IMMEDIATE ? USING @?"] {
            assert_eq!(count(&mut reader, "shop", own), 0, "{shape}: {own}");
        }
        assert_eq!(count(&mut reader, "shop", "PREPARE `p` FROM ?"), 1, "{shape}");
        let said = events(&mut reader, id(&conn), "statement/%/%xecute%");
        let expected = |name: &str| (name.to_owned(), Some(sql.to_owned()), Some(SELECT.to_owned()));
        let mut all = vec![expected("statement/com/Execute"); 5];
        all.extend([expected("statement/sql/execute_sql"), expected("statement/sql/execute_immediate")]);
        assert_eq!(said, all, "{shape}");
        if shape == "extended" {
            with_histogram_and_sample(&mut reader, sql);
        }
    }
}

/// The digest's histogram has every execution, and its sample is one of them.
fn with_histogram_and_sample(reader: &mut Conn, sql: &str) {
    let digest: String = reader
        .query_first(format!("SELECT DIGEST FROM {BY_DIGEST} WHERE RTRIM(DIGEST_TEXT) = '{SELECT}'"))
        .unwrap()
        .unwrap();
    let in_buckets: u64 = reader
        .query_first(format!(
            "SELECT CAST(SUM(COUNT_BUCKET) AS UNSIGNED) FROM performance_schema.events_statements_histogram_by_digest \
             WHERE DIGEST = '{digest}'"
        ))
        .unwrap()
        .unwrap();
    assert_eq!(in_buckets, 8);
    let sample: String = reader
        .query_first(format!("SELECT QUERY_SAMPLE_TEXT FROM {BY_DIGEST} WHERE DIGEST = '{digest}'"))
        .unwrap()
        .unwrap();
    assert!([sql, "SELECT b FROM t WHERE a = 1"].contains(&&sample[..]), "{sample}");
}

#[test]
fn executions_have_the_cpu_time_of_their_digest() {
    let _turn = shared_turn();
    let Some((server, mut conn)) = start("extended", &[("consumer", "events_statements_cpu=ON")]) else {
        return;
    };
    let mut reader = server.client().unwrap();
    let prepared = conn.prep("SELECT BENCHMARK(?, MD5('a'))").unwrap();
    for _ in 0..3 {
        conn.exec_drop(&prepared, (20_000,)).unwrap();
    }
    settle(&mut conn);
    let (count, cpu): (u64, u64) = reader
        .query_first(format!(
            "SELECT COUNT_STAR, SUM_CPU_TIME FROM {BY_DIGEST} WHERE DIGEST_TEXT LIKE 'SELECT%BENCHMARK%'"
        ))
        .unwrap()
        .unwrap();
    assert_eq!(count, 3);
    assert!(cpu > 0);
}

#[test]
fn several_statements_of_one_text_count_for_one_digest_and_go_one_by_one() {
    let _turn = shared_turn();
    let Some((server, mut conn)) = start("strict", &[]) else { return };
    let mut reader = server.client().unwrap();
    // A client library would prepare each text but once.
    let mut raw = Raw::connect(&server, 45, &[]);
    raw.query(b"USE shop");
    let sql = "SELECT b FROM t WHERE a = 1";
    let [first, second] = [raw.prepare(sql), raw.prepare(sql)];
    for statement in [first, second, first] {
        raw.execute(statement, false);
    }
    conn.query_drop(format!("PREPARE p FROM '{sql}'")).unwrap();
    conn.query_drop("EXECUTE p").unwrap();
    // In the place of the other one of this name.
    conn.query_drop("PREPARE p FROM 'SELECT a FROM t WHERE b = 1'").unwrap();
    conn.query_drop("EXECUTE p").unwrap();
    conn.query_drop("DEALLOCATE PREPARE p").unwrap();
    raw.query(b"DO 0");
    assert_eq!(count(&mut reader, "shop", SELECT), 4);
    assert_eq!(count(&mut reader, "shop", "SELECT `a` FROM `t` WHERE `b` = ?"), 1);
    let left: u64 = reader.query_first(format!("SELECT COUNT(*) FROM {INSTANCES}")).unwrap().unwrap();
    assert_eq!(left, 2);
}

#[test]
fn what_is_prepared_anew_after_ddl_reset_or_fetched_by_a_cursor_keeps_its_digest() {
    let _turn = shared_turn();
    let Some((server, mut conn)) = start("strict", &[]) else { return };
    let mut raw = Raw::connect(&server, 45, &[]);
    raw.query(b"USE shop");
    let statement = raw.prepare("SELECT b FROM t WHERE a > 0");
    raw.execute(statement, false);
    conn.query_drop("ALTER TABLE t ADD COLUMN c INT").unwrap();
    raw.execute(statement, false);
    raw.execute(statement, true);
    assert_eq!([raw.fetch(statement, 2), raw.fetch(statement, 2)], [2, 1]);
    raw.reset(statement);
    raw.execute(statement, false);
    raw.query(b"DO 0");
    let digest = "SELECT `b` FROM `t` WHERE `a` > ?";
    assert_eq!(count(&mut conn, "shop", digest), 4);
    let said = events(&mut conn, u64::from(raw.connection_id), "statement/com/%");
    let of_name = |name: &str| said.iter().filter(|(of, ..)| of == name).cloned().collect::<Vec<_>>();
    let executed = of_name("statement/com/Execute");
    assert_eq!(executed.len(), 4);
    assert!(executed.iter().all(|(_, _, text)| text.as_deref() == Some(digest)), "{executed:?}");
    assert_eq!(of_name("statement/com/Reset stmt").len(), 1);
    let anew: Option<u64> = conn.query_first(format!("SELECT COUNT_REPREPARE FROM {INSTANCES}")).unwrap();
    assert_eq!(anew, Some(1));
}

#[test]
fn executions_are_found_again_after_truncate_and_in_a_full_map() {
    let _turn = shared_turn();
    let Some((server, mut conn)) = start("strict", &[]) else { return };
    let mut reader = server.client().unwrap();
    let prepared = conn.prep("SELECT b FROM t WHERE a = ?").unwrap();
    reader.query_drop(format!("TRUNCATE {BY_DIGEST}")).unwrap();
    conn.exec_drop(&prepared, (1,)).unwrap();
    conn.exec_drop(&prepared, (2,)).unwrap();
    settle(&mut conn);
    assert_eq!(count(&mut reader, "shop", SELECT), 2, "between PREPARE and the first EXECUTE");
    reader.query_drop(format!("TRUNCATE {BY_DIGEST}")).unwrap();
    conn.exec_drop(&prepared, (1,)).unwrap();
    // More digests than a thread keeps by itself.
    for n in 0..400 {
        conn.query_drop(format!("SELECT 1 AS c{n}")).unwrap();
        if n % 50 == 0 {
            conn.exec_drop(&prepared, (n,)).unwrap();
        }
    }
    settle(&mut conn);
    assert_eq!(count(&mut reader, "shop", SELECT), 9);
    let others: u64 = reader
        .query_first(format!(
            "SELECT CAST(SUM(COUNT_STAR) AS UNSIGNED) FROM {BY_DIGEST} WHERE DIGEST_TEXT LIKE 'SELECT ? AS `c%'"
        ))
        .unwrap()
        .unwrap();
    assert_eq!(others, 400, "none counts for another's");
}

#[test]
fn executions_without_a_place_count_for_the_row_without_a_digest() {
    let _turn = shared_turn();
    let Some((server, mut conn)) = start("strict", &[("digests-size", "1")]) else { return };
    let mut reader = server.client().unwrap();
    let total = format!("SELECT CAST(SUM(COUNT_STAR) AS UNSIGNED) FROM {BY_DIGEST} WHERE DIGEST IS NULL");
    let mut total = || reader.query_first::<u64, _>(&total).unwrap().unwrap();
    let prepared = conn.prep("SELECT b FROM t WHERE a = ?").unwrap();
    let before = total();
    for a in 0..10 {
        conn.exec_drop(&prepared, (a,)).unwrap();
    }
    settle(&mut conn);
    // And the reader's own, once. The statement that settles is counted when it has been answered, or soon
    // after.
    let counted = total() - before;
    assert!((11..=12).contains(&counted), "{counted}");
}

#[test]
fn executions_go_on_where_others_take_places_all_the_time() {
    let _turn = shared_turn();
    let Some((server, mut conn)) = start("strict", &[("digests-size", "6")]) else { return };
    let mut reader = server.client().unwrap();
    let total = format!("SELECT CAST(SUM(COUNT_STAR) AS UNSIGNED) FROM {BY_DIGEST}");
    let mut total = || reader.query_first::<u64, _>(&total).unwrap().unwrap();
    let prepared = conn.prep("SELECT b FROM t WHERE a = ?").unwrap();
    let before = total();
    for n in 0..200 {
        conn.exec_drop(&prepared, (n,)).unwrap();
        conn.query_drop(format!("SELECT 1 AS c{n}")).unwrap();
    }
    settle(&mut conn);
    // The last one's end follows its answer, and comes before the next command's. A ping has no digest.
    conn.ping().unwrap();
    assert_eq!(total() - before, 402, "each counts once, under whichever digest");
}

#[test]
fn what_finds_no_room_is_prepared_all_the_same() {
    let _turn = shared_turn();
    let options = [("max-prepared-statements-instances", "0")];
    let Some((_server, mut conn)) = start("strict", &options) else { return };
    let prepared = conn.prep("SELECT b FROM t WHERE a = ?").unwrap();
    assert_eq!(conn.exec_first::<String, _, _>(&prepared, (1,)).unwrap().as_deref(), Some("one"));
    for sql in ["PREPARE p FROM 'SELECT 1'", "EXECUTE p", "EXECUTE IMMEDIATE 'SELECT 2'"] {
        conn.query_drop(sql).unwrap();
    }
}

#[test]
fn an_execution_counts_in_the_schema_it_was_prepared_in() {
    let _turn = shared_turn();
    let Some((server, mut conn)) = start("strict", &[]) else { return };
    let mut reader = server.client().unwrap();
    for sql in ["CREATE SCHEMA other", "CREATE TABLE other.t (a INT, b INT)"] {
        conn.query_drop(sql).unwrap();
    }
    let prepared = conn.prep("SELECT b FROM t WHERE a = ?").unwrap();
    conn.exec_drop(&prepared, (1,)).unwrap();
    conn.query_drop("USE other").unwrap();
    // It reads shop.t still.
    assert_eq!(conn.exec_first::<String, _, _>(&prepared, (1,)).unwrap().as_deref(), Some("one"));
    conn.query_drop("SELECT b FROM t WHERE a = 1").unwrap();
    settle(&mut conn);
    assert_eq!(count(&mut reader, "shop", SELECT), 2);
    assert_eq!(count(&mut reader, "other", SELECT), 1);
}

#[test]
fn texts_have_values_where_the_server_has_them() {
    let _turn = shared_turn();
    let Some((server, mut conn)) = start("strict", &[]) else { return };
    let mut reader = server.client().unwrap();
    let (with_marks, with_values) =
        ("SELECT b FROM t WHERE a = ? AND b <> ?", "SELECT b FROM t WHERE a = 1 AND b <> 'it\\'s ?'");
    for (log, expected) in [(0, with_marks), (1, with_values), (0, with_marks)] {
        reader.query_drop(format!("SET GLOBAL general_log = {log}")).unwrap();
        // The server decides it when it prepares.
        let prepared = conn.prep(with_marks).unwrap();
        conn.exec_drop(&prepared, (1, "it's ?")).unwrap();
        conn.close(prepared).unwrap();
        for sql in [
            &format!("PREPARE p FROM '{with_marks}'")[..],
            "SET @a = 1, @b = 'it\\'s ?'",
            "EXECUTE p USING @a, @b",
        ] {
            conn.query_drop(sql).unwrap();
        }
        settle(&mut conn);
        let said = events(&mut reader, id(&conn), "statement/%/execute%");
        let last: Vec<Option<&str>> = said.iter().rev().take(2).map(|(_, sql, _)| sql.as_deref()).collect();
        assert_eq!(last, [Some(expected); 2], "general_log = {log}");
        let digests: Vec<&Option<String>> = said.iter().map(|(.., text)| text).collect();
        assert!(digests.iter().all(|text| *text == digests[0]) && digests[0].is_some(), "{digests:?}");
    }
}

#[test]
fn a_long_text_is_cut_and_has_the_digest_of_the_same_text() {
    let _turn = shared_turn();
    let options = [("max-sql-text-length", "60"), ("max-digest-length", "100")];
    let Some((server, mut conn)) = start("strict", &options) else { return };
    let mut reader = server.client().unwrap();
    let columns: Vec<String> = (0..12).map(|n| format!("{n} AS a_column_with_a_long_name_{n}")).collect();
    let long = format!("SELECT {}", columns.join(", "));
    conn.query_drop(&long).unwrap();
    let prepared = conn.prep(&long).unwrap();
    conn.exec_drop(&prepared, ()).unwrap();
    settle(&mut conn);
    let rows: Vec<u64> = reader
        .query(format!("SELECT COUNT_STAR FROM {BY_DIGEST} WHERE DIGEST_TEXT LIKE '%long_name%'"))
        .unwrap();
    assert_eq!(rows, [2]);
    let said = events(&mut reader, id(&conn), "statement/%");
    let texts: Vec<&str> = said
        .iter()
        .filter_map(|(_, sql, _)| sql.as_deref())
        .filter(|sql| sql.contains("long_name"))
        .collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert_eq!(texts[0], texts[1]);
    assert!(texts[0].len() == 60 && texts[0].ends_with("..."), "{texts:?}");
}

#[test]
fn executions_in_a_program_count_for_their_own_digest() {
    let _turn = shared_turn();
    let Some((server, mut conn)) = start("extended", &[]) else { return };
    let mut reader = server.client().unwrap();
    conn.query_drop(
        "CREATE PROCEDURE p(x INT) BEGIN \
           DECLARE n INT; \
           PREPARE q FROM 'SELECT b FROM t WHERE a = ?'; SET @x = x; \
           EXECUTE q USING @x; EXECUTE q USING @x; DEALLOCATE PREPARE q; \
         END",
    )
    .unwrap();
    conn.query_drop("CALL p(1)").unwrap();
    conn.exec_drop("CALL p(?)", (2,)).unwrap();
    settle(&mut conn);
    assert_eq!(count(&mut reader, "shop", SELECT), 4);
    assert_eq!(count(&mut reader, "shop", "CALL `p` (?)"), 2);
}

#[test]
fn a_running_statement_shows_its_digest_once_it_is_parsed() {
    let _turn = shared_turn();
    let Some((server, mut conn)) = start("strict", &[]) else { return };
    let (mut reader, mut holder) = (server.client().unwrap(), server.client().unwrap());
    conn.query_drop("CREATE PROCEDURE shop.w() BEGIN PREPARE q FROM 'SELECT GET_LOCK(?, 100)'; SET @l = 'l'; EXECUTE q USING @l; END")
        .unwrap();
    conn.query_drop("SET @l = 'l'").unwrap();
    let prepared = conn.prep("SELECT GET_LOCK(?, 100)").unwrap();
    let of = id(&conn);
    type Run<'r> = Box<dyn FnOnce(&mut Conn) + Send + 'r>;
    let lock = "SELECT `GET_LOCK` (...)";
    let runs: [(&str, Run<'_>, &[&str]); 5] = [
        ("text", Box::new(|conn| conn.query_drop("SELECT GET_LOCK('l', 100)").unwrap()), &[lock]),
        ("first execution", Box::new(|conn| conn.exec_drop(&prepared, ("l",)).unwrap()), &[lock]),
        ("another execution", Box::new(|conn| conn.exec_drop(&prepared, ("l",)).unwrap()), &[lock]),
        (
            "at once",
            Box::new(|conn| {
                conn.query_drop("EXECUTE IMMEDIATE 'SELECT GET_LOCK(?, 100)' USING @l").unwrap();
            }),
            &[lock],
        ),
        (
            "in a program",
            Box::new(|conn| conn.query_drop("CALL shop.w()").unwrap()),
            &["CALL `shop` . `w` ( )", lock],
        ),
    ];
    for (what, run, expected) in runs {
        holder.query_drop("SELECT GET_LOCK('l', 0)").unwrap();
        let sql = format!(
            "SELECT RTRIM(s.DIGEST_TEXT), s.DIGEST IS NOT NULL, s.TIMER_END IS NOT NULL, s.SQL_TEXT \
             FROM performance_schema.threads t JOIN performance_schema.events_statements_current s USING (THREAD_ID) \
             WHERE t.PROCESSLIST_ID = {of} AND t.PROCESSLIST_STATE = 'User lock' ORDER BY s.EVENT_ID"
        );
        std::thread::scope(|scope| {
            let running = scope.spawn(|| run(&mut conn));
            type Seen = Vec<(Option<String>, bool, bool, Option<String>)>;
            let seen: Seen = until(|| reader.query(&sql).unwrap(), |seen: &Seen| !seen.is_empty());
            let texts: Vec<&str> = seen.iter().filter_map(|(text, ..)| text.as_deref()).collect();
            assert_eq!(texts, expected, "{what}: {seen:?}");
            assert!(
                seen.iter().all(|(_, has_digest, _, sql)| *has_digest && sql.is_some()),
                "{what}: {seen:?}"
            );
            holder.query_drop("SELECT RELEASE_LOCK('l')").unwrap();
            running.join().unwrap();
        });
        conn.query_drop("SELECT RELEASE_ALL_LOCKS()").unwrap();
    }
}

#[test]
fn what_is_left_out_leaves_nothing_behind() {
    let _turn = shared_turn();
    let Some((server, mut conn)) = start("strict", &[("monitoring", "OFF")]) else { return };
    for _ in 0..20 {
        conn.query_drop("EXECUTE IMMEDIATE 'SELECT COUNT(*) FROM performance_schema.threads'").unwrap();
        conn.query_drop("EXECUTE IMMEDIATE 'SELECT COUNT(*) FROM shop.t'").unwrap();
    }
    settle(&mut conn);
    let mut reader = server.client().unwrap();
    let left: u64 = reader.query_first(format!("SELECT COUNT(*) FROM {INSTANCES}")).unwrap().unwrap();
    assert_eq!(left, 0);
    assert_eq!(count(&mut reader, "shop", "SELECT COUNT ( * ) FROM `shop` . `t`"), 20);
}

#[test]
fn without_digests_of_prepared_statements_all_is_as_the_built_in_has_it() {
    let _turn = shared_turn();
    let Some((server, mut conn)) = start("strict", &[("prepared-digests", "OFF")]) else { return };
    let mut reader = server.client().unwrap();
    conn.exec_drop("SELECT b FROM t WHERE a = ?", (1,)).unwrap();
    for sql in ["PREPARE p FROM 'SELECT b FROM t WHERE a = ?'", "SET @a = 2", "EXECUTE p USING @a"] {
        conn.query_drop(sql).unwrap();
    }
    settle(&mut conn);
    assert_eq!(count(&mut reader, "shop", SELECT), 0);
    assert_eq!(count(&mut reader, "shop", "EXECUTE `p` USING @?"), 1);
    let said = events(&mut reader, id(&conn), "statement/%/execute%");
    let own = (
        "statement/sql/execute_sql".to_owned(),
        Some("EXECUTE p USING @a".to_owned()),
        Some("EXECUTE `p` USING @?".to_owned()),
    );
    assert_eq!(said, [("statement/com/Execute".to_owned(), None, None), own]);
    assert_eq!(server.schema().unwrap().tare_status().unwrap()["prepared_digests"], "OFF");
}
