//! What only the extended shape shows of statements: samples of digests, CPU time, memory, the server's
//! number.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use mysql::Conn;
use mysql::prelude::{FromRow, Queryable};
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tare_testkit::turn;

const DIGESTS: &str = "performance_schema.events_statements_summary_by_digest";
const HISTORY: &str = "performance_schema.events_statements_history";

/// A server whose tables have the extended shape; `None` where they cannot be had.
fn extended(options: &[(&str, &str)]) -> Option<Server> {
    let provider = TestProvider::under_test();
    if !provider.is_tare() {
        println!("skipped: the built-in has one shape");
        return None;
    }
    let settings = StartSettings::new(provider).provider_option("shape", "extended");
    let settings =
        options.iter().fold(settings, |settings, (name, value)| settings.provider_option(name, value));
    Server::start(settings).unwrap().on_its_port()
}

fn one<T: FromRow>(conn: &mut Conn, sql: &str) -> T {
    conn.query_first(sql)
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
        .unwrap_or_else(|| panic!("no row: {sql}"))
}

/// A connection, and the THREAD_ID by which another one finds it.
fn watched(server: &Server, reader: &mut Conn) -> (Conn, u64) {
    let conn = server.client().unwrap();
    let id = conn.connection_id();
    let sql = format!("SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = {id}");
    (conn, one(reader, &sql))
}

#[test]
fn the_sample_of_a_digest_is_its_slowest_statement() {
    let _turn = turn();
    let Some(server) = extended(&[]) else { return };
    let (mut conn, mut reader) = (server.client().unwrap(), server.client().unwrap());
    for seconds in ["0.05", "0.4", "0.1"] {
        conn.query_drop(format!("SELECT SLEEP({seconds}) /* {seconds} */")).unwrap();
    }
    conn.query_drop("DO 1").unwrap();
    let (text, is_slowest, is_seen): (String, bool, bool) = one(
        &mut reader,
        &format!(
            "SELECT QUERY_SAMPLE_TEXT, QUERY_SAMPLE_TIMER_WAIT = MAX_TIMER_WAIT, \
             QUERY_SAMPLE_SEEN > FIRST_SEEN AND QUERY_SAMPLE_SEEN < LAST_SEEN \
             FROM {DIGESTS} WHERE DIGEST_TEXT LIKE '%SLEEP%'"
        ),
    );
    assert_eq!((text.as_str(), is_slowest, is_seen), ("SELECT SLEEP(0.4) /* 0.4 */", true, true));
    // Nobody keeps a text: there is none to show.
    reader
        .query_drop("UPDATE performance_schema.setup_consumers SET ENABLED = 'NO' WHERE NAME = 'events_statements_current'")
        .unwrap();
    conn.query_drop("SELECT 'nobody', 'looks'").unwrap();
    conn.query_drop("DO 1").unwrap();
    let none: (Option<String>, String, u64) = one(
        &mut reader,
        &format!(
            "SELECT QUERY_SAMPLE_TEXT, CAST(QUERY_SAMPLE_SEEN AS CHAR), QUERY_SAMPLE_TIMER_WAIT FROM {DIGESTS} \
             WHERE DIGEST_TEXT = 'SELECT ?, ... ' OR DIGEST_TEXT LIKE 'SELECT ?, ...%'"
        ),
    );
    assert_eq!(none, (None, "0000-00-00 00:00:00.000000".to_owned(), 0));
}

#[test]
fn a_sample_is_in_the_clients_character_set_and_cut_at_the_bound() {
    let _turn = turn();
    let Some(server) = extended(&[("max-sql-text-length", "40")]) else { return };
    let (mut conn, mut reader) = (server.client().unwrap(), server.client().unwrap());
    conn.query_drop("SET NAMES utf8mb4").unwrap();
    // The bound lies within a character.
    conn.query_drop("SELECT 'ääääääääääääääääääääääää', 1, 2, 3").unwrap();
    conn.query_drop("DO 1").unwrap();
    let (sample, text): (String, String) = one(
        &mut reader,
        &format!(
            "SELECT QUERY_SAMPLE_TEXT, SQL_TEXT FROM {DIGESTS} JOIN {HISTORY} USING (DIGEST) WHERE SQL_TEXT LIKE 'SELECT ''%'"
        ),
    );
    assert!(sample == text && sample.ends_with("ä..."), "{sample} is not {text}");
}

#[test]
fn samples_are_whole_and_the_slowest_of_sixteen_threads_while_others_truncate() {
    let _turn = turn();
    let Some(server) = extended(&[]) else { return };
    let mut conns: Vec<Conn> = (0..16).map(|_| server.client().unwrap()).collect();
    let mut reader = server.client().unwrap();
    let samples = format!("SELECT QUERY_SAMPLE_TEXT FROM {DIGESTS} WHERE DIGEST_TEXT LIKE '%sampled%'");
    let run = |conns: &mut Vec<Conn>, meanwhile: &mut dyn FnMut()| {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let work: Vec<_> = (conns.iter_mut().enumerate())
                .map(|(at, conn)| {
                    // One digest: a comment is no part of it.
                    let letter = char::from(b'a' + at as u8).to_string().repeat(200);
                    let sql = format!("SELECT {at} AS sampled /* {letter} */");
                    scope.spawn(move || (0..400).for_each(|_| conn.query_drop(&sql).unwrap()))
                })
                .collect();
            scope.spawn(|| {
                work.into_iter().for_each(|it| it.join().unwrap());
                ended.store(true, Relaxed);
            });
            while !ended.load(Relaxed) {
                meanwhile();
            }
        });
        conns.iter_mut().for_each(|conn| conn.query_drop("DO 1").unwrap());
    };
    let is_whole = |text: &str| {
        let number = text.strip_prefix("SELECT ").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
        let at: u8 = number.parse().unwrap_or(u8::MAX);
        at < 16
            && *text
                == format!("SELECT {at} AS sampled /* {} */", char::from(b'a' + at).to_string().repeat(200))
    };
    let truncate = format!("TRUNCATE {DIGESTS}");
    let mut seen = 0;
    run(&mut conns, &mut || {
        for text in reader.query::<Option<String>, _>(&samples).unwrap().into_iter().flatten() {
            assert!(is_whole(&text), "{text}");
            seen += 1;
        }
        reader.query_drop(&truncate).unwrap();
    });
    assert!(seen > 0, "the reader saw none");
    reader.query_drop(&truncate).unwrap();
    run(&mut conns, &mut || _ = reader.query::<Option<String>, _>(&samples).unwrap());
    let (text, wait, max, count): (String, u64, u64, u64) = one(
        &mut reader,
        &format!(
            "SELECT QUERY_SAMPLE_TEXT, QUERY_SAMPLE_TIMER_WAIT, MAX_TIMER_WAIT, COUNT_STAR FROM {DIGESTS} \
             WHERE DIGEST_TEXT LIKE '%sampled%' AND DIGEST_TEXT NOT LIKE '%LIKE%'"
        ),
    );
    assert!(is_whole(&text), "{text}");
    assert_eq!((wait, count), (max, 16 * 400));
}

#[test]
fn cpu_time_is_that_of_who_works_and_adds_up() {
    let _turn = turn();
    let Some(server) = extended(&[]) else { return };
    let mut reader = server.client().unwrap();
    let state: String = one(
        &mut reader,
        "SELECT ENABLED FROM performance_schema.setup_consumers WHERE NAME = 'events_statements_cpu'",
    );
    assert_eq!(state, "NO", "as in MySQL");
    let (mut conn, thread) = watched(&server, &mut reader);
    conn.query_drop("CREATE DATABASE test").unwrap();
    conn.query_drop("SELECT BENCHMARK(200000, MD5('unmeasured'))").unwrap();
    reader
        .query_drop("UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME = 'events_statements_cpu'")
        .unwrap();
    conn.query_drop("CREATE PROCEDURE test.work() BEGIN SELECT BENCHMARK(100000, MD5('inside')) INTO @a; DO SLEEP(0.1); END")
        .unwrap();
    conn.query_drop("SELECT BENCHMARK(1000000, MD5('measured'))").unwrap();
    conn.query_drop("SELECT SLEEP(0.5)").unwrap();
    conn.query_drop("CALL test.work()").unwrap();
    conn.exec_drop("SELECT BENCHMARK(?, MD5('prepared'))", (100_000,)).unwrap();
    conn.query_drop("DO 1").unwrap();
    let of = |reader: &mut Conn, condition: &str| -> (u64, u64) {
        let sql =
            format!("SELECT CPU_TIME, TIMER_WAIT FROM {HISTORY} WHERE THREAD_ID = {thread} AND {condition}");
        one(reader, &sql)
    };
    let (measured, wait) = of(&mut reader, "SQL_TEXT LIKE '%(''measured''%'");
    // A clock with another step may be ahead by that.
    assert!(measured > wait / 20 && measured < wait + wait / 10, "{measured} of {wait}");
    let (asleep, wait) = of(&mut reader, "SQL_TEXT LIKE 'SELECT SLEEP%'");
    assert!(asleep < wait / 2 && asleep < measured / 2, "{asleep} of {wait}, who works {measured}");
    assert_eq!(of(&mut reader, "SQL_TEXT LIKE '%unmeasured%'").0, 0);
    // The sums are those of the events.
    let summary = "performance_schema.events_statements_summary_by_thread_by_event_name";
    let wrong: Vec<(String, u64, u64)> = reader
        .query(format!(
            "SELECT s.EVENT_NAME, s.SUM_CPU_TIME, e.cpu FROM {summary} s JOIN \
             (SELECT EVENT_NAME, SUM(CPU_TIME) cpu FROM {HISTORY} WHERE THREAD_ID = {thread} GROUP BY EVENT_NAME) e \
             USING (EVENT_NAME) WHERE s.THREAD_ID = {thread} AND s.SUM_CPU_TIME <> e.cpu"
        ))
        .unwrap();
    assert_eq!(wrong, []);
    let wrong: Vec<(String, u64, u64)> = reader
        .query(format!(
            "SELECT DIGEST_TEXT, SUM_CPU_TIME, e.cpu FROM {DIGESTS} JOIN \
             (SELECT DIGEST, SUM(CPU_TIME) cpu FROM {HISTORY} WHERE THREAD_ID = {thread} GROUP BY DIGEST) e \
             USING (DIGEST) WHERE SUM_CPU_TIME <> e.cpu AND DIGEST_TEXT NOT LIKE '%setup_consumers%'"
        ))
        .unwrap();
    assert_eq!(wrong, []);
    let (program, inside): (u64, u64) = one(
        &mut reader,
        &format!(
            "SELECT SUM_CPU_TIME, (SELECT SUM(CPU_TIME) FROM {HISTORY} WHERE THREAD_ID = {thread} AND OBJECT_NAME = 'work' \
             AND NESTING_EVENT_LEVEL > 0) FROM performance_schema.events_statements_summary_by_program \
             WHERE OBJECT_NAME = 'work'"
        ),
    );
    assert!(program == inside && program > 0, "{program} is not {inside}");
    let prepared: u64 = one(
        &mut reader,
        "SELECT SUM_CPU_TIME FROM performance_schema.prepared_statements_instances WHERE SQL_TEXT LIKE '%prepared%'",
    );
    assert_eq!(prepared, of(&mut reader, "EVENT_NAME = 'statement/com/Execute'").0);
}

#[test]
fn cpu_time_may_be_asked_for_from_the_start_and_in_the_extended_shape_only() {
    let _turn = turn();
    let provider = TestProvider::under_test();
    if !provider.is_tare() {
        println!("skipped: the built-in has no such consumer");
        return;
    }
    let states =
        "SELECT ENABLED FROM performance_schema.setup_consumers WHERE NAME = 'events_statements_cpu'";
    for (shape, expected) in [("strict", vec![]), ("extended", vec!["YES".to_owned()])] {
        let settings = StartSettings::new(TestProvider::under_test())
            .provider_option("shape", shape)
            .provider_option("consumer", "events_statements_cpu=ON");
        let Some(server) = Server::start(settings).unwrap().on_its_port() else { return };
        let mut conn = server.client().unwrap();
        assert_eq!(conn.query::<String, _>(states).unwrap(), expected, "{shape}");
    }
}

#[test]
fn a_statements_memory_is_at_least_what_it_is_known_to_take() {
    let _turn = turn();
    let Some(server) = extended(&[]) else { return };
    let mut reader = server.client().unwrap();
    let (mut conn, thread) = watched(&server, &mut reader);
    conn.query_drop("CREATE DATABASE test").unwrap();
    conn.query_drop("USE test").unwrap();
    conn.query_drop("SELECT 1").unwrap();
    conn.query_drop("SELECT LENGTH(REPEAT('x', 5000000))").unwrap();
    // A temporary table of at least eight bytes a row. (A sort's buffer has no instrument.)
    conn.query_drop("SELECT COUNT(*) FROM (SELECT DISTINCT seq FROM seq_1_to_50000) d").unwrap();
    conn.query_drop("CREATE PROCEDURE test.grow() SET @length = LENGTH(REPEAT('y', 3000000))").unwrap();
    conn.query_drop("CALL test.grow()").unwrap();
    conn.query_drop("DO 1").unwrap();
    let of = |reader: &mut Conn, text: &str| -> u64 {
        let sql = format!(
            "SELECT MAX_TOTAL_MEMORY FROM {HISTORY} WHERE THREAD_ID = {thread} AND SQL_TEXT LIKE '{text}'"
        );
        one(reader, &sql)
    };
    let (small, large, distinct) =
        (of(&mut reader, "SELECT 1"), of(&mut reader, "%REPEAT(''x''%"), of(&mut reader, "%DISTINCT%"));
    assert!(small > 0 && small < 2_000_000, "{small}");
    assert!(large >= 5_000_000, "{large}");
    assert!(distinct >= 50_000 * 8, "{distinct}");
    let (called, inside) = (of(&mut reader, "CALL%"), of(&mut reader, "SET @length%"));
    assert!(inside >= 3_000_000 && called > inside, "{inside} in {called}");
    let (now, most, controlled): (u64, u64, u64) = one(
        &mut reader,
        &format!(
            "SELECT TOTAL_MEMORY, MAX_TOTAL_MEMORY, CONTROLLED_MEMORY + MAX_CONTROLLED_MEMORY \
             FROM performance_schema.threads WHERE THREAD_ID = {thread}"
        ),
    );
    assert!(now > 0 && now < 5_000_000 && most >= 5_000_000 && controlled == 0, "{now} {most} {controlled}");
    // The summaries have the largest of the events.
    let wrong: Vec<(String, u64, u64)> = reader
        .query(format!(
            "SELECT DIGEST_TEXT, MAX_TOTAL_MEMORY, e.most FROM {DIGESTS} JOIN \
             (SELECT DIGEST, MAX(MAX_TOTAL_MEMORY) most FROM {HISTORY} WHERE THREAD_ID = {thread} GROUP BY DIGEST) e \
             USING (DIGEST) WHERE MAX_TOTAL_MEMORY <> e.most AND COUNT_STAR = 1"
        ))
        .unwrap();
    assert_eq!(wrong, []);
}

#[test]
fn a_statement_has_the_servers_number() {
    let _turn = turn();
    let Some(server) = extended(&[]) else { return };
    let mut reader = server.client().unwrap();
    let (mut conn, thread) = watched(&server, &mut reader);
    let number: u64 =
        one(&mut conn, "SELECT QUERY_ID FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()");
    conn.ping().unwrap();
    let (shown, engine): (u64, String) = one(
        &mut reader,
        &format!(
            "SELECT STATEMENT_ID, EXECUTION_ENGINE FROM {HISTORY} WHERE THREAD_ID = {thread} AND SQL_TEXT LIKE '%QUERY_ID%'"
        ),
    );
    assert_eq!((shown, engine.as_str()), (number, "PRIMARY"));
    let pinged: Option<u64> = one::<(Option<u64>,)>(
        &mut reader,
        &format!("SELECT STATEMENT_ID FROM {HISTORY} WHERE THREAD_ID = {thread} AND EVENT_NAME = 'statement/com/Ping'"),
    )
    .0;
    assert_eq!(pinged, None);
}

#[test]
fn instruments_say_what_mysql_says_of_them() {
    let _turn = turn();
    let Some(server) = extended(&[]) else { return };
    let mut conn = server.client().unwrap();
    for (name, properties, flags) in [
        ("idle", "user", None),
        ("wait/io/socket/sql/client_connection", "user", None),
        ("statement/abstract/Query", "mutable", None),
        ("statement/sql/select", "", None),
        ("stage/sql/copy to tmp table", "progress", None),
        ("memory/sql/THD::main_mem_root", "", Some("")),
        ("memory/performance_schema/threads", "global_statistics", Some("")),
    ] {
        let sql = format!(
            "SELECT PROPERTIES, FLAGS, VOLATILITY, DOCUMENTATION FROM performance_schema.setup_instruments \
             WHERE NAME = '{name}'"
        );
        let row: Option<(String, Option<String>, i32, Option<String>)> = conn.query_first(sql).unwrap();
        let expected = (properties.to_owned(), flags.map(str::to_owned), 0, None);
        assert_eq!(row, Some(expected), "{name}");
    }
}
