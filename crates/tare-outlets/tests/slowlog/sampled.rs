//! A busy server at level sampled, which chooses one statement in a million: a log has every statement all
//! the same, or all that are long enough, and whoever leaves leaves nothing on.

use std::io::Write;
use std::process::Stdio;

use super::*;

/// How often each statement of the load is sent.
const TIMES: u64 = 200;
/// Takes some milliseconds of a processor, and waits for nothing.
const LONG: &str = "SELECT BENCHMARK(30000, MD5('long'))";

/// A server that records hardly anything by itself.
fn server() -> Server {
    let settings = StartSettings::new(TestProvider::tare())
        .tare_option("level", "sampled")
        .tare_option("sample", "1/1000000")
        .tare_option("slow-after", "3600s");
    Server::start(settings.option("--performance-schema-events-statements-history-long-size=50000"))
        .expect("a server")
}

/// Sends what clients send: simple statements, several in a packet, prepared ones of either kind, stored
/// programs.
fn load(server: &Server) {
    let mut client = server.client().expect("a client");
    client.query_drop("USE load_test").expect("a schema");
    let prepared = client.prep("SELECT name FROM t WHERE id = ?").expect("prepared");
    client.query_drop("PREPARE s FROM 'SELECT id + ? FROM t'").expect("prepared");
    client.query_drop("SET @one = 1").expect("a variable");
    for n in 0..TIMES {
        client.query_drop(format!("SELECT {n}")).expect("a row");
        client.query_drop("UPDATE t SET name = 'x' WHERE id = 1; DO 1; SELECT 'third'").expect("rows");
        client.exec_drop(&prepared, (n,)).expect("a row");
        client.query_drop("EXECUTE s USING @one").expect("rows");
        client.query_drop("CALL p()").expect("done");
    }
}

/// Makes what [`load`] uses, before anything is logged.
fn prepare(server: &Server) {
    let mut client = server.client().expect("a client");
    for sql in [
        "CREATE DATABASE load_test",
        "CREATE TABLE load_test.t (id INT PRIMARY KEY, name VARCHAR(20))",
        "INSERT INTO load_test.t VALUES (1, 'one'), (2, 'two')",
        "CREATE PROCEDURE load_test.p() BEGIN INSERT IGNORE INTO t VALUES (3, 'three'); DELETE FROM t WHERE id = 3; END",
    ] {
        client.query_drop(sql).expect("made");
    }
}

/// Executions by digest, as the server counted them; and the least time of those of each.
fn digests(server: &Server) -> BTreeMap<String, (u64, u64)> {
    let mut source = Source::open(Address::Socket(server.endpoint())).expect("the endpoint");
    let columns = ["DIGEST_TEXT", "COUNT_STAR", "MIN_TIMER_WAIT"];
    let rows = source.rows("events_statements_summary_by_digest", &columns, "").expect("digests");
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in rows {
        let (count, least) = sums.entry(row.text(0).unwrap_or_default()).or_insert((0, u64::MAX));
        (*count, *least) = (*count + row.count(1), (*least).min(row.count(2)));
    }
    sums
}

fn reset_digests(server: &Server) {
    let mut client = server.client().expect("a client");
    client
        .query_drop("TRUNCATE TABLE performance_schema.events_statements_summary_by_digest")
        .expect("reset");
}

/// A row of `tare_status`.
fn status(server: &Server, name: &str) -> String {
    let mut source = Source::open(Address::Socket(server.endpoint())).expect("the endpoint");
    let rows = source.rows("tare_status", &["VALUE"], &format!("WHERE NAME = '{name}'")).expect("status");
    rows.first().and_then(|row| row.text(0)).unwrap_or_default()
}

fn lines(file: &Path) -> Vec<Value> {
    let log = fs::read_to_string(file).expect("the log");
    log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn every_statement_is_logged_however_few_are_chosen() {
    let _turn = tare_testkit::turn();
    let folder = tempfile::tempdir().expect("a folder");
    let server = server();
    prepare(&server);
    // In blocks, and row by row.
    for (name, choice) in [
        ("blocks", StatementFilter::default()),
        ("rows", StatementFilter { rows_examined: Some(0), ..StatementFilter::default() }),
    ] {
        let file = folder.path().join(name);
        reset_digests(&server);
        let before = counted(&server);
        let options = SlowLogOptions { choice, text: Text::Full, ..options(&server, &file) };
        let (totals, after) = log(&options, &Hand::default(), || {
            load(&server);
            counted(&server)
        });
        let lines = lines(&file);
        assert_eq!((totals.lost, totals.left_out), (0, 0), "{name}: {totals:?}");
        assert_eq!((lines.len() as u64, totals.written), (after - before, after - before), "{name}");
        let logged = |texts: &[&str]| -> u64 {
            lines.iter().filter(|line| texts.iter().any(|it| line["text"] == *it)).count() as u64
        };
        for texts in [
            &["SELECT name FROM t WHERE id = ?"][..],
            &["UPDATE t SET name = 'x' WHERE id = 1"],
            &["DO 1"],
            &["SELECT 'third'"],
            &["CALL p()"],
            &["DELETE FROM t WHERE id = 3"],
        ] {
            assert!(logged(texts) >= TIMES, "{name}: {texts:?}: {}", logged(texts));
        }
        let mut by_digest: BTreeMap<&str, u64> = BTreeMap::new();
        for digest in lines.iter().filter_map(|line| line["digest"].as_str()) {
            *by_digest.entry(digest).or_default() += 1;
        }
        let counted: u64 = digests(&server).values().map(|(count, _)| count).sum();
        // The TRUNCATE itself counts after it has reset them, and was before the log.
        assert_eq!(by_digest.values().sum::<u64>() + 1, counted, "{name}: {by_digest:?}");
        assert_eq!(status(&server, "recorded_from"), "3600s", "{name}: the reader has left");
    }
}

#[test]
fn those_that_are_long_enough_are_logged_and_no_others_are_recorded() {
    let _turn = tare_testkit::turn();
    let folder = tempfile::tempdir().expect("a folder");
    let (server, file) = (server(), folder.path().join("long"));
    prepare(&server);
    reset_digests(&server);
    let choice = StatementFilter { over: Some(Duration::from_millis(1)), ..StatementFilter::default() };
    let options = SlowLogOptions { choice, ..options(&server, &file) };
    let (totals, ()) = log(&options, &Hand::default(), || {
        assert_eq!(status(&server, "recorded_from"), "1ms");
        load(&server);
        let mut client = server.client().expect("a client");
        (0..10).for_each(|_| client.query_drop(LONG).expect("a row"));
        client.ping().expect("an answer");
    });
    let lines = lines(&file);
    let (_, (count, least)) =
        digests(&server).into_iter().find(|(text, _)| text.contains("BENCHMARK")).expect("its digest");
    assert!(count == 10 && least > 1_000_000_000, "{count}, {least} ps: not long enough to tell anything");
    assert_eq!(lines.iter().filter(|line| line["text"] == LONG).count(), 10);
    for line in &lines {
        assert!(line["query_time_s"].as_f64().is_some_and(|seconds| seconds > 0.001), "{line}");
    }
    // What is recorded for other reasons is left out; a thousand statements are not recorded at all.
    assert!(totals.left_out < TIMES, "{totals:?}");
}

#[test]
fn a_reader_that_is_killed_leaves_nothing_on() {
    let _turn = tare_testkit::turn();
    let server = server();
    let mut child = Command::new("mariadb")
        .args(["--no-defaults", "--user=root", "--batch", "--skip-column-names", "--unbuffered"])
        .arg(format!("--socket={}", server.endpoint().display()))
        .arg("performance_schema")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the server's client");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"SELECT POSITION FROM tare_stream_statements;\n").expect("sent");
    eventually("it reads", LIMIT, || status(&server, "recorded_from") == "0s");
    child.kill().expect("killed");
    child.wait().expect("it has ended");
    eventually("it is forgotten", LIMIT, || status(&server, "recorded_from") == "3600s");
    let mut client = server.client().expect("a client");
    client.query_drop("SELECT 'nobody reads this'").expect("a row");
    client.ping().expect("an answer");
    let mut source = Source::open(Address::Socket(server.endpoint())).expect("the endpoint");
    let rows = source.rows("events_statements_history_long", &["SQL_TEXT"], "").expect("rows");
    assert!(rows.iter().all(|row| row.text(0).as_deref() != Some("SELECT 'nobody reads this'")));
}

#[test]
fn a_server_that_only_counts_statements_is_said_to_log_none() {
    let _turn = tare_testkit::turn();
    let folder = tempfile::tempdir().expect("a folder");
    for level in ["sums", "counts", "off"] {
        let settings =
            StartSettings::new(TestProvider::tare()).tare_option("level", format!("statement/%={level}"));
        let server = Server::start(settings).expect("a server");
        let hand = Hand::default();
        let (totals, ()) = log(&options(&server, &folder.path().join(level)), &hand, || {
            server.client().expect("a client").query_drop("SELECT 1").expect("a row");
        });
        assert_eq!(totals.written, 0, "{level}");
        assert!(hand.has_said("not recorded") && hand.has_said("SET LEVEL = 'sampled'"), "{level}");
    }
    let (server, hand) = (server(), Hand::default());
    log(&options(&server, &folder.path().join("sampled")), &hand, || ());
    assert!(!hand.has_said("not recorded"), "{:?}", hand.said.lock());
}
