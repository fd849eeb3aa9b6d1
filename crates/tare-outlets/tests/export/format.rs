//! The page of a server, as a strict reader and promtool see it; with a server of each shape, through SQL and
//! not.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use flate2::read::GzDecoder;
use mysql::prelude::Queryable;
use tare_outlets::Address;
use tare_outlets::export::collector::CollectorOptions;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;

use crate::client::{Exporter, everything};
use crate::page::Page;

fn server(shape: &str) -> Server {
    let server = Server::start(StartSettings::new(TestProvider::tare()).tare_option("shape", shape))
        .expect("a server");
    let mut root = server.client().expect("a client");
    for statement in [
        "CREATE DATABASE shop",
        "USE shop",
        "CREATE TABLE `a \"quoted\\\\` (id INT PRIMARY KEY)",
        "INSERT INTO `a \"quoted\\\\` VALUES (1), (2)",
        "SELECT * FROM `a \"quoted\\\\`",
    ] {
        root.query_drop(statement).expect(statement);
    }
    server
}

fn account(server: &Server) -> Address {
    let socket = server.socket();
    let socket = socket.to_str().expect("UTF-8").replace('/', "%2F");
    Address::dsn(&format!("mysql://root@localhost?socket={socket}")).expect("an address")
}

#[test]
fn the_page_is_well_formed_and_the_shape_extended_has_histograms() {
    let _turn = tare_testkit::turn();
    let server = server("extended");
    let exporter = Exporter::start(Address::Socket(server.endpoint()), everything());
    let answer = exporter.get("/metrics", &[]);
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
    let page = Page::parse(&answer.text());
    assert_eq!((page.value("mysql_up"), page.value("tare_up")), (Some(1.0), Some(1.0)));
    assert!(page.of("mysql_exporter_collector_success").all(|it| it.value > 0.0), "a collector failed");
    let buckets = |name| page.of(name).filter(|it| it.label("le") == "+Inf").map(|it| it.value).sum::<f64>();
    assert!(buckets("tare_statements_duration_seconds_bucket") >= 5.0);
    assert!(buckets("tare_statement_duration_seconds_bucket") >= 2.0);
    let quantile =
        page.of("mysql_perf_schema_events_statements_latency").find(|it| it.label("quantile") == "95");
    assert!(quantile.is_some_and(|it| it.value > 0.0), "quantiles are true");
    let tables: Vec<&str> =
        page.of("mysql_perf_schema_table_io_waits_total").map(|it| it.label("name")).collect();
    assert!(tables.contains(&"a \"quoted\\\\"), "{tables:?}");
    let classes: Vec<&str> = page.of("tare_waits_total").map(|it| it.label("class")).collect();
    assert!(classes.contains(&"synch/mutex") && classes.contains(&"io/file"), "{classes:?}");
    assert!(page.of("tare_lost_total").count() > 30);
    promtool(&answer.text());
}

#[test]
fn a_request_for_a_collector_that_is_none_is_refused_with_those_there_are() {
    let exporter = Exporter::start(Address::Socket("/no/such/socket".into()), CollectorOptions::default());
    let status = |path: &str| {
        let answer = exporter.get(path, &[]);
        (answer.status, answer.text())
    };
    for query in ["collect[]=nope", "collect%5B%5D=nope", "collect[]=tare.waits&collect[]=nope", "collect[]="]
    {
        let (status, text) = status(&format!("/metrics?{query}"));
        let told =
            ["perf_schema.eventswaits", "tare.waits", "off are perf_schema.eventsstatements.histogram"];
        assert!(status == 400 && told.iter().all(|it| text.contains(it)), "{query}: {status}: {text}");
    }
    let (code, text) = status("/metrics?collect[]=perf_schema.indexiowaits");
    assert!(code == 400 && text.contains("--collect.perf_schema.indexiowaits"), "{code}: {text}");
    // None of these is refused, whether a server answers or not.
    for path in [
        "/metrics?collect[]=perf%5Fschema.eventswaits",
        "/metrics?collect%5b%5d=perf_schema%2Eeventswaits&collect[]=tare.waits&x=nope",
        "/%6detrics?collect[]=tare.waits",
        "/metrics?other[]=nope&",
    ] {
        let (status, text) = status(path);
        assert!(status == 200 && text.contains("mysql_up 0"), "{path}: {status}: {text}");
    }
    let named = |query: &str| {
        let page = Page::parse(&status(&format!("/metrics?{query}")).1);
        let of = page.of("mysql_exporter_collector_success");
        of.map(|it| it.label("collector").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(named("collect[]=perf%5Fschema.memory%5fevents"), ["collect.perf_schema.memory_events"]);
}

#[test]
fn a_page_may_be_compressed_and_may_be_of_some_collectors() {
    let _turn = tare_testkit::turn();
    let server = server("strict");
    let exporter = Exporter::start(Address::Socket(server.endpoint()), everything());
    let answer = exporter.get("/metrics?collect[]=perf_schema.eventswaits", &[("Accept-Encoding", "gzip")]);
    assert!(answer.head.contains("content-encoding: gzip"), "{}", answer.head);
    let mut text = String::new();
    GzDecoder::new(&*answer.body).read_to_string(&mut text).expect("compressed");
    let page = Page::parse(&text);
    assert!(page.of("mysql_perf_schema_events_waits_total").count() > 100);
    let others = ["mysql_perf_schema_file_events_total", "tare_waits_total", "tare_lost_total"];
    assert!(others.iter().all(|name| page.of(name).count() == 0));
    // The shape strict has no histograms, and that is no failure.
    let page = Page::parse(&exporter.get("/metrics", &[]).text());
    assert!(page.of("mysql_exporter_collector_success").all(|it| it.value > 0.0));
    assert_eq!(page.of("tare_statements_duration_seconds_count").count(), 0);
    assert!(exporter.get("/", &[]).text().contains("/metrics"));
    assert_eq!(exporter.get("/-/healthy", &[]).text(), "OK\n");
    assert_eq!(exporter.get("/nothing", &[]).status, 404);
}

#[test]
fn the_servers_sql_gives_the_same_families() {
    let _turn = tare_testkit::turn();
    let Some(server) = server("extended").on_its_port() else { return };
    let families = |address: Address| {
        let exporter = Exporter::start(address, everything());
        Page::parse(&exporter.get("/metrics", &[]).text()).types
    };
    let inside = families(Address::Socket(server.endpoint()));
    assert_eq!(inside, families(account(&server)));
}

#[test]
fn the_built_in_is_exported_too() {
    let _turn = tare_testkit::turn();
    let server = Server::start(StartSettings::new(TestProvider::BuiltIn)).expect("a server");
    let exporter = Exporter::start(account(&server), everything());
    let page = Page::parse(&exporter.get("/metrics", &[]).text());
    assert_eq!((page.value("mysql_up"), page.value("tare_up")), (Some(1.0), Some(0.0)));
    assert!(page.of("mysql_perf_schema_events_waits_total").count() > 100);
    assert!(page.of("mysql_exporter_collector_success").all(|it| it.value > 0.0));
}

/// What promtool says, if there is one. It minds names that mysqld_exporter gave, and those are kept.
fn promtool(text: &str) {
    let program = std::env::var_os("TARE_PROMTOOL").unwrap_or_else(|| "promtool".into());
    let started = Command::new(program)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else {
        println!(
            "skipped: there is no promtool (package prometheus; TARE_PROMTOOL); the test's own reader is strict"
        );
        return;
    };
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    for line in said.lines() {
        let is_theirs =
            line.starts_with("mysql_perf_schema_") && line.ends_with("should have \"_total\" suffix");
        assert!(is_theirs, "promtool: {line}");
    }
}
