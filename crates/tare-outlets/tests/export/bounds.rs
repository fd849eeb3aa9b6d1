//! What an exporter bears: many rows, many requests, a server that hangs, and one that goes away and comes
//! back.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use tare_outlets::Address;
use tare_outlets::export::collector::CollectorOptions;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;

use crate::client::Exporter;
use crate::page::Page;
use crate::record::Record;

#[test]
fn what_is_beyond_a_limit_is_left_out_and_counted() {
    let _turn = tare_testkit::turn();
    let server = Server::start(StartSettings::new(TestProvider::tare())).expect("a server");
    let mut root = server.client().expect("a client");
    root.query_drop("CREATE DATABASE shop").expect("a schema");
    root.query_drop("USE shop").expect("the schema");
    for number in 0..12 {
        root.query_drop(format!("CREATE TABLE t{number} (id INT) ENGINE = InnoDB")).expect("a table");
        let rows = if number == 7 { 2000 } else { 1 };
        let insert = format!("INSERT INTO t{number} SELECT seq FROM seq_1_to_{rows}");
        root.query_drop(insert).expect("rows");
    }
    let limits = [("perf_schema.tableiowaits", 3)].into_iter().collect();
    let exporter = Exporter::start(
        Address::Socket(server.endpoint()),
        CollectorOptions { limits, ..CollectorOptions::default() },
    );
    let page = Page::parse(&exporter.get("/metrics", &[]).text());
    let tables: BTreeSet<&str> =
        page.of("mysql_perf_schema_table_io_waits_total").map(|it| it.label("name")).collect();
    assert!(tables.len() == 3 && tables.contains("t7"), "the busiest stays: {tables:?}");
    let left_out = |name: &str| {
        page.of("tare_export_rows_left_out").find(|it| it.label("collector") == name).map(|it| it.value)
    };
    assert_eq!(left_out("collect.perf_schema.tablelocks"), Some(0.0));
    assert!(left_out("collect.perf_schema.tableiowaits").is_some_and(|rows| rows >= 9.0));
}

#[test]
fn digests_are_limited_excluded_and_forgotten() {
    let limited = CollectorOptions {
        limits: [("perf_schema.eventsstatements", 2)].into_iter().collect(),
        digest_text: true,
        digest_text_limit: 6,
        ..CollectorOptions::default()
    };
    let page = Page::parse(&Record::read().page(&limited));
    let digests: Vec<_> = page.of("mysql_perf_schema_events_statements_total").collect();
    assert_eq!(digests.len(), 2);
    assert!(digests.iter().all(|it| it.label("digest_text").chars().count() == 6));
    let all = Page::parse(&Record::read().page(&CollectorOptions::default()));
    let times = |page: &Page| -> Vec<f64> {
        page.of("mysql_perf_schema_events_statements_seconds_total").map(|it| it.value).collect()
    };
    assert_eq!(times(&page), times(&all)[..2], "the slowest stay, in the same order");
    let excluding =
        CollectorOptions { exclude_schemas: vec!["shop".to_owned()], ..CollectorOptions::default() };
    let page = Page::parse(&Record::read().page(&excluding));
    let schemas = page.of("mysql_perf_schema_events_statements_total");
    assert!(schemas.into_iter().all(|it| it.label("schema") != "shop"));
}

#[test]
fn a_server_that_goes_away_comes_back_by_itself() {
    let _turn = tare_testkit::turn();
    let mut server = Server::start(StartSettings::new(TestProvider::tare())).expect("a server");
    let exporter = Exporter::start(Address::Socket(server.endpoint()), CollectorOptions::default());
    let up = || {
        let answer = exporter.get("/metrics", &[]);
        assert_eq!(answer.status, 200);
        let page = Page::parse(&answer.text());
        (
            page.value("mysql_up"),
            page.value("tare_up"),
            page.of("mysql_perf_schema_events_waits_total").count() > 0,
        )
    };
    assert_eq!(up(), (Some(1.0), Some(1.0), true));
    server.kill();
    assert_eq!(up(), (Some(0.0), Some(0.0), false));
    server.resume().expect("it starts again");
    assert_eq!(up(), (Some(1.0), Some(1.0), true));
    // A restart between two scrapes is not seen at all.
    server.stop().expect("it stops");
    server.resume().expect("it starts again");
    assert_eq!(up(), (Some(1.0), Some(1.0), true));
}

#[test]
fn a_server_that_hangs_keeps_nobody_waiting_and_requests_are_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("hangs");
    // It takes connections and says nothing.
    let listener = UnixListener::bind(&socket).expect("a socket");
    let exporter = Exporter::with(Address::Socket(socket), CollectorOptions::default(), None, 1);
    let hasty = [("X-Prometheus-Scrape-Timeout-Seconds", "5.25")];
    std::thread::scope(|scope| {
        let first = scope.spawn(|| exporter.get("/metrics", &hasty));
        // The first request is being answered once its connection has come.
        let (held, _) = listener.accept().expect("a connection");
        let second = exporter.get("/metrics", &hasty);
        assert_eq!((second.status, second.text()), (503, "Too many requests at once.\n".to_owned()));
        // What is cheap is answered meanwhile.
        for (path, status) in [("/-/healthy", 200), ("/", 200), ("/nothing", 404)] {
            assert_eq!(exporter.get(path, &[]).status, status, "{path}");
        }
        let first = first.join().expect("an answer");
        assert_eq!((first.status, first.text()), (503, "The server does not answer in time.\n".to_owned()));
        drop(held);
    });
    assert_eq!(exporter.get("/-/healthy", &[]).status, 200);
}

/// A way to a server on which the first statement that names a table is held, once, until its connection has
/// this age.
fn slow_way(folder: &Path, server: &Server, table: &'static str, age: Duration) -> PathBuf {
    let (way, endpoint) = (folder.join("way"), server.endpoint());
    let listener = UnixListener::bind(&way).expect("a socket");
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let until = Instant::now() + age;
        let mut server = UnixStream::connect(endpoint).expect("the endpoint");
        let mut answers = server.try_clone().expect("the same socket");
        let mut asker = client.try_clone().expect("the same socket");
        std::thread::spawn(move || std::io::copy(&mut answers, &mut asker));
        let (mut piece, mut is_held) = ([0; 4096], false);
        while let Ok(length @ 1..) = client.read(&mut piece) {
            let said = &piece[..length];
            if !is_held && said.windows(table.len()).any(|it| it == table.as_bytes()) {
                is_held = true;
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
            }
            server.write_all(said).expect("the server is there");
        }
        // The server may have closed it.
        let _ = server.shutdown(Shutdown::Both);
    });
    way
}

#[test]
fn what_was_read_in_time_is_given_and_the_rest_is_told() {
    let _turn = tare_testkit::turn();
    let server = Server::start(StartSettings::new(TestProvider::tare())).expect("a server");
    // A look may take 10 seconds, and reading may begin in the first 9 of them.
    let age = Duration::from_millis(9020);
    let look = || {
        let folder = tempfile::tempdir().expect("a folder");
        let way = slow_way(folder.path(), &server, "events_statements_summary_by_digest", age);
        let exporter = Exporter::start(Address::Socket(way), CollectorOptions::default());
        let answer = exporter.get("/metrics", &[]);
        (folder, exporter, answer)
    };
    // Again if the machine does not let it end within the tenth second.
    let mut looks = std::iter::repeat_with(look).take(5);
    let (_folder, exporter, answer) =
        looks.find(|(.., answer)| answer.status == 200).expect("a look in time");
    let page = Page::parse(&answer.text());
    assert_eq!((page.value("mysql_up"), page.value("tare_up")), (Some(1.0), Some(1.0)));
    let success = |name: &str| {
        let collector = format!("collect.{name}");
        let mut all = page.of("mysql_exporter_collector_success");
        all.find(|it| it.label("collector") == collector).map(|it| it.value)
    };
    assert_eq!(success("tare.status"), Some(1.0), "read before");
    assert_eq!(success("perf_schema.eventsstatements"), Some(1.0), "begun before");
    assert_eq!(success("perf_schema.eventswaits"), Some(0.0));
    assert_eq!(page.of("mysql_perf_schema_events_waits_total").count(), 0);
    let again = Page::parse(&exporter.get("/metrics", &[]).text());
    assert!(again.of("mysql_perf_schema_events_waits_total").count() > 0, "the next look has all");
}
