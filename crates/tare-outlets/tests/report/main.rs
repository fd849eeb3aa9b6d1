//! Reports of running servers: figures are those of the load, and what began anew in between is noticed.

mod sessions;
mod slower;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use mysql::prelude::Queryable;
use serde_json::Value as Json;
use tare_outlets::report::{self, Report, html};
use tare_outlets::snapshot::{self, SnapshotTarget, TableChoice};
use tare_outlets::{Address, Source};
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tempfile::TempDir;

const ALL: TableChoice = TableChoice { tables: vec![], text: true };

/// Takes snapshots over the endpoint, which no statement of the server's is needed for.
struct Snapshots {
    folder: TempDir,
    taken: u32,
}

impl Snapshots {
    fn new() -> Self {
        Snapshots { folder: tempfile::tempdir().expect("a folder"), taken: 0 }
    }

    fn take(&mut self, server: &Server) -> PathBuf {
        self.taken += 1;
        let path = self.folder.path().join(format!("{}.jsonl", self.taken));
        let mut source = Source::open(Address::Socket(server.endpoint())).expect("the endpoint");
        let header = snapshot::header(&mut source, &ALL).expect("a header");
        let target = SnapshotTarget::named(&path).expect("a name");
        snapshot::write(&target, &header, false, |sink| snapshot::take(&mut source, &ALL, sink, &|| false))
            .expect("a snapshot");
        path
    }
}

fn between(first: &Path, last: &Path) -> (Report, Json) {
    let read = |path| report::read(path).unwrap_or_else(|error| panic!("{error}"));
    let report = Report::between(&read(first), &read(last)).expect("a report");
    let json = serde_json::to_value(&report).expect("JSON");
    let sections = json["sections"].as_array().expect("sections").iter();
    for section in sections.filter(|section| section["key"] != "memory") {
        assert!(!section.to_string().contains(":-"), "only memory may shrink: {section}");
    }
    (report, json)
}

/// The row of a table whose column is so; none where there is no such row.
fn row<'j>(json: &'j Json, table: &str, column: &str, value: &str) -> Option<&'j Json> {
    let sections = json["sections"].as_array().expect("sections");
    let mut tables = sections.iter().flat_map(|section| section["tables"].as_array().expect("tables"));
    let table = tables.find(|it| it["key"] == table).unwrap_or_else(|| panic!("no {table}"));
    table["rows"].as_array().expect("rows").iter().find(|row| {
        // Digest texts may end in a blank.
        row[column].as_str().map(str::trim_end) == Some(value)
    })
}

fn figure<'j>(json: &'j Json, key: &str) -> &'j Json {
    let figures = json["figures"].as_array().expect("figures");
    &figures.iter().find(|it| it["key"] == key).unwrap_or_else(|| panic!("no {key}"))["value"]
}

fn warned(report: &Report, of: &str) -> bool {
    report.warnings.iter().any(|warning| warning.contains(of))
}

fn server() -> Server {
    Server::start(StartSettings::new(TestProvider::tare()).tare_option("shape", "extended"))
        .expect("a server")
}

/// Executions are the load of what was prepared, in the snapshots and in what the report makes of them.
#[test]
fn executions_are_reported_by_what_was_prepared() {
    let _turn = tare_testkit::turn();
    let server = server();
    let mut client = server.client().expect("a client");
    let prepared = client.prep("SELECT ? + 1").expect("prepared");
    let mut snapshots = Snapshots::new();
    let first = snapshots.take(&server);
    for n in 0..60 {
        client.exec_drop(&prepared, (n,)).expect("a row");
    }
    let last = snapshots.take(&server);
    let kept = report::read(&last).expect("a snapshot");
    let digests = kept.table("events_statements_summary_by_digest").expect("digests");
    let [text, count] = ["DIGEST_TEXT", "COUNT_STAR"].map(|column| digests.place(column).expect("a column"));
    let row_of =
        digests.rows.iter().find(|row| row[text].text().is_some_and(|it| it.trim_end() == "SELECT ? + ?"));
    assert_eq!(row_of.expect("its digest")[count].count(), Some(60));
    let (_, json) = between(&first, &last);
    let digest = row(&json, "by_time", "digest_text", "SELECT ? + ?").expect("its digest");
    assert_eq!(digest["count"], 60);
    assert_eq!(figure(&json, "statements"), 60);
}

#[test]
fn figures_are_those_of_the_load() {
    let _turn = tare_testkit::turn();
    let server = server();
    let mut client = server.client().expect("a client");
    for statement in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT PRIMARY KEY, b INT, KEY unused (b)) ENGINE=InnoDB",
        "USE d",
        "INSERT INTO t VALUES (0, 0)",
        "SELECT b FROM t WHERE a = 0",
    ] {
        client.query_drop(statement).expect(statement);
    }
    let mut snapshots = Snapshots::new();
    let outer = Instant::now();
    let first = snapshots.take(&server);
    let inner = Instant::now();
    for n in 1..=40 {
        client.query_drop(format!("INSERT INTO t VALUES ({n}, {n})")).expect("an INSERT");
    }
    for n in 0..100 {
        let found: Option<i32> =
            client.query_first(format!("SELECT b FROM t WHERE a = {}", n % 40)).expect("a row");
        assert!(found.is_some());
    }
    for _ in 0..7 {
        client.query_drop("INSERT INTO t VALUES (1, 1)").expect_err("it is there");
    }
    client.query_drop("SET GLOBAL max_connections = 77").expect("a variable");
    client
        .query_drop("UPDATE performance_schema.setup_consumers SET ENABLED='NO' WHERE NAME LIKE 'events_stages_history'")
        .expect("a consumer");
    let inner = inner.elapsed().as_secs_f64();
    let last = snapshots.take(&server);
    let outer = outer.elapsed().as_secs_f64();

    let (report, json) = between(&first, &last);
    assert!(!report.restarted && report.warnings.is_empty(), "{:?}", report.warnings);
    let select = row(&json, "kinds", "kind", "select").expect("a kind");
    assert_eq!((&select["count"], &select["rows_sent"]), (&100.into(), &100.into()));
    let insert = row(&json, "kinds", "kind", "insert").expect("a kind");
    assert_eq!([&insert["count"], &insert["errors"], &insert["rows_affected"]], [47, 7, 40]);
    assert!(row(&json, "kinds", "kind", "create_table").is_none(), "that was before");
    assert_eq!((figure(&json, "statements"), figure(&json, "errors")), (&149.into(), &7.into()));
    assert_eq!(figure(&json, "connections"), 0);
    let per_second = figure(&json, "statements_per_second").as_f64().expect("a rate");
    // Both snapshots read the table somewhen while they were taken; a few milliseconds are lost to rounding.
    let (least, most) = (149.0 / outer * 0.95, 149.0 / inner * 1.05);
    assert!((least..=most).contains(&per_second), "{per_second}: {least} to {most}");

    let text = "SELECT `b` FROM `t` WHERE `a` = ?";
    let digest = row(&json, "by_count", "digest_text", text).expect("a digest");
    assert_eq!([&digest["counted"], &digest["each"]], [&Json::from(100), &Json::from(1.0)]);
    let digest = row(&json, "by_time", "digest_text", text).expect("a digest");
    assert_eq!(
        [&digest["schema"], &digest["count"], &digest["rows_examined_each"]],
        [&Json::from("d"), &Json::from(100), &Json::from(1.0)]
    );
    let (p95, average) = (digest["p95_seconds"].as_f64(), digest["average_seconds"].as_f64());
    assert!(p95.expect("a quantile") > 0.0 && average.expect("an average") > 0.0);
    let failed = row(&json, "by_errors", "digest_text", "INSERT INTO `t` VALUES (...)").expect("a digest");
    assert_eq!(failed["counted"], 7);

    let table = row(&json, "tables", "table", "d.t").expect("a table");
    // What fails has been tried: the engine was asked.
    assert_eq!([&table["rows_fetched"], &table["rows_inserted"], &table["rows_deleted"]], [100, 47, 0]);
    assert_eq!(row(&json, "unused_indexes", "index", "unused").expect("an index")["table"], "d.t");
    assert!(row(&json, "unused_indexes", "index", "PRIMARY").is_none());
    assert_eq!(row(&json, "errors", "name", "ER_DUP_ENTRY").expect("an error")["raised"], 7);
    let consumer = row(&json, "changed", "what", "events_stages_history").expect("a change");
    assert_eq!([&consumer["column"], &consumer["before"], &consumer["now"]], ["enabled", "YES", "NO"]);
    let account = row(&json, "accounts", "account", "root@localhost").expect("an account");
    assert_eq!([&account["count"], &account["errors"]], [149, 7]);
    assert!(
        row(&json, "wait_classes", "class", "wait/io/table").expect("a class")["count"].as_u64() >= Some(147)
    );

    let page = html::page(&report);
    for said in
        ["SELECT `b` FROM `t` WHERE `a` = ?", "<th scope=\"row\"><bdi>d.t</bdi></th>", "Load", "light dark"]
    {
        assert!(page.contains(said), "no {said:?}");
    }
    for word in ["http:", "https:", " src=", "url(", "@import", "<link", "NaN", "<script"] {
        assert!(!page.contains(word), "the page holds {word}");
    }
    let turned = Report::between(&report::read(&last).expect("read"), &report::read(&first).expect("read"));
    assert!(turned.expect_err("the wrong way round").contains("earlier"));
}

#[test]
fn a_restart_and_a_truncate_in_between_are_noticed() {
    let _turn = tare_testkit::turn();
    let mut server = server();
    let mut snapshots = Snapshots::new();
    let load = |server: &Server, n: u32| {
        let mut client = server.client().expect("a client");
        (0..n).for_each(|_| client.query_drop("DO 1 + 1").expect("a statement"));
    };
    load(&server, 50);
    // When the server started is known to the second.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let first = snapshots.take(&server);
    load(&server, 10);
    let mut client = server.client().expect("a client");
    for table in ["events_statements_summary_by_digest", "events_statements_summary_global_by_event_name"] {
        client.query_drop(format!("TRUNCATE performance_schema.{table}")).expect("emptied");
    }
    load(&server, 20);
    let second = snapshots.take(&server);
    let (report, json) = between(&first, &second);
    assert!(!report.restarted);
    assert!(
        warned(&report, "events_statements_summary_global_by_event_name was reset"),
        "{:?}",
        report.warnings
    );
    let done = row(&json, "kinds", "kind", "do").expect("a kind");
    assert_eq!([&done["count"], &done["per_second"]], [&Json::from(20), &Json::Null], "since then");
    let digest = row(&json, "by_count", "digest_text", "DO ? + ?").unwrap_or_else(|| panic!("{json:#}"));
    assert_eq!(digest["counted"], 20);

    server.stop().expect("it stops");
    server.resume().expect("it starts");
    load(&server, 30);
    let third = snapshots.take(&server);
    for from in [&first, &second] {
        let (report, json) = between(from, &third);
        assert!(report.restarted && warned(&report, "started anew"), "{:?}", report.warnings);
        assert_eq!(report.warnings.len(), 1, "said once: {:?}", report.warnings);
        assert_eq!(row(&json, "kinds", "kind", "do").expect("a kind")["count"], 30);
        assert_eq!(row(&json, "by_count", "digest_text", "DO ? + ?").expect("a digest")["counted"], 30);
    }
}

/// A snapshot written by hand: a digest and a file, whose names and counts are given.
fn by_hand(folder: &Path, second: u32, name: &str, count: u64) -> PathBuf {
    let path = folder.join(format!("{second}.jsonl"));
    let at = format!("2026-01-02T03:04:{second:02}.000Z");
    let column = |name: &str, kind: &str| serde_json::json!({"name": name, "type": kind});
    let lines = [
        serde_json::json!({"snapshot": {"format": 1, "tare": "0.1.0", "taken_at": at, "address": name,
            "provider": "tare", "version": name, "started_at": null, "text": true}}),
        serde_json::json!({"table": "events_statements_summary_by_digest", "columns": [
            column("SCHEMA_NAME", "text"), column("DIGEST", "text"), column("DIGEST_TEXT", "text"),
            column("COUNT_STAR", "unsigned"), column("SUM_TIMER_WAIT", "unsigned")]}),
        serde_json::json!({"table": "events_statements_summary_by_digest", "row":
            {"SCHEMA_NAME": name, "DIGEST": name, "DIGEST_TEXT": name, "COUNT_STAR": count, "SUM_TIMER_WAIT": count * 1_000_000_000}}),
        serde_json::json!({"table": "events_statements_summary_by_digest", "read_at": at, "seconds": 0.1, "rows": 1}),
        serde_json::json!({"end": {"tables": 1, "rows": 1, "unread": 0}}),
    ];
    fs::write(&path, lines.map(|line| line.to_string() + "\n").concat()).expect("written");
    path
}

#[test]
fn names_and_texts_are_no_markup_and_figures_are_as_people_read_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = "</code><script>alert('\"&')</script>\u{1b}[2J\u{202e}\u{0}é";
    let first = by_hand(folder.path(), 1, name, 5);
    let (report, json) = between(&first, &by_hand(folder.path(), 11, name, 2005));
    let page = html::page(&report);
    assert!(
        !page.contains("<script")
            && !page.contains('\u{1b}')
            && !page.contains('\u{202e}')
            && !page.contains('\u{0}')
    );
    let shown = "&lt;/code&gt;&lt;script&gt;alert('&quot;&amp;')&lt;/script&gt;\u{fffd}[2J\u{fffd}\u{fffd}é";
    let head = format!("<th scope=\"row\" title=\"digest {shown}\"><code>{shown}</code></th>");
    assert!(page.contains(&head), "no {head} in {page}");
    for figure in [
        "<td data-head=\"count\">2000</td>",
        "<td data-head=\"a second\">200</td>",
        "<td data-head=\"total\">2.00 s</td>",
        "<span class=\"share\">100.0%</span>",
        "<td data-head=\"average\">1.00 ms</td>",
        "2026-01-02 03:04:01 UTC to 2026-01-02 03:04:11 UTC, 10 s",
    ] {
        assert!(page.contains(figure), "no {figure} in {page}");
    }
    assert_eq!(json["sections"][0]["tables"][0]["rows"][0]["digest_text"], name, "programs get it as it is");

    let (report, json) =
        between(&by_hand(folder.path(), 2, name, 3000), &by_hand(folder.path(), 12, name, 7));
    assert!(warned(&report, "were reset between the snapshots"), "{:?}", report.warnings);
    assert_eq!(json["sections"][0]["tables"][0]["rows"][0]["count"], 7);
    let (report, _) = between(&first, &by_hand(folder.path(), 13, "other", 7));
    assert!(warned(&report, "Of two servers"), "{:?}", report.warnings);
}

/// A snapshot written by hand: how many statements a server had answered at a second, and at which it was
/// started.
fn with_status(folder: &Path, started: u32, second: u32, questions: u64) -> PathBuf {
    let path = folder.join(format!("status-{second}.jsonl"));
    let at = |second: u32| format!("2026-01-02T03:04:{second:02}.000Z");
    let table = "show_global_status";
    let column = |name: &str| serde_json::json!({"name": name, "type": "text"});
    let lines = [
        serde_json::json!({"snapshot": {"format": 1, "tare": "0.1.0", "taken_at": at(second),
            "address": "db1", "provider": "mariadb", "version": "10.11.19", "started_at": at(started), "text": true}}),
        serde_json::json!({"table": table, "columns": [column("VARIABLE_NAME"), column("VARIABLE_VALUE")]}),
        serde_json::json!({"table": table, "row":
            {"VARIABLE_NAME": "Questions", "VARIABLE_VALUE": questions.to_string()}}),
        serde_json::json!({"table": table, "read_at": at(second), "seconds": 0.1, "rows": 1}),
        serde_json::json!({"end": {"tables": 1, "rows": 1, "unread": 0}}),
    ];
    fs::write(&path, lines.map(|line| line.to_string() + "\n").concat()).expect("written");
    path
}

#[test]
fn status_variables_count_since_a_restart_and_by_its_seconds() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = with_status(folder.path(), 0, 10, 5000);
    for (started, restarted, by, per_second) in [(0, false, 3000, 100.0), (30, true, 8000, 800.0)] {
        let (report, json) = between(&first, &with_status(folder.path(), started, 40, 8000));
        assert_eq!(report.restarted, restarted);
        let questions = row(&json, "status", "name", "Questions").expect("a variable");
        assert_eq!([&questions["by"], &questions["now"]], [by, 8000], "started at {started}");
        assert_eq!(questions["per_second"], per_second, "started at {started}");
    }
}
