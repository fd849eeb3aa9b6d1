//! Prometheus' mysqld_exporter, as Debian packages it, with every collector of `performance_schema` on.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use mysql::prelude::Queryable;
use tare_testkit::eventually;
use tare_testkit::host::program;
use tare_testkit::load::SysbenchLoad;
use tare_testkit::process::TestProcess;
use tare_testkit::server::{LIMIT, Server};
use tare_testkit::subject::TestProvider;
use tare_testkit::turn;

use crate::{start, subject};

const PROGRAM: &str = "prometheus-mysqld-exporter";

/// Its collectors that read tables MariaDB has.
const COLLECTORS: [&str; 9] = [
    "eventsstatements",
    "eventsstatementssum",
    "eventswaits",
    "file_events",
    "file_instances",
    "indexiowaits",
    "memory_events",
    "tableiowaits",
    "tablelocks",
];

/// Every series of a scrape with its value.
type Series = BTreeMap<String, f64>;

/// What an exporter answers, which may have only just been started.
fn get_metrics(port: u16) -> String {
    let mut stream =
        eventually("the exporter listens", LIMIT, || TcpStream::connect(("127.0.0.1", port)).ok());
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The second answer of an exporter that watches this server as a user who may read and no more.
fn scrape(server: &Server) -> Series {
    let mut admin = server.client().unwrap();
    admin.query_drop("CREATE USER exporter@localhost WITH MAX_USER_CONNECTIONS 3").unwrap();
    admin
        .query_drop("GRANT PROCESS, REPLICATION CLIENT, SLAVE MONITOR ON *.* TO exporter@localhost")
        .unwrap();
    admin.query_drop("GRANT SELECT ON performance_schema.* TO exporter@localhost").unwrap();
    // A port nobody listens on, though somebody may until the exporter does.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new(program(PROGRAM).unwrap());
    command.args(COLLECTORS.map(|name| format!("--collect.perf_schema.{name}")));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}")).arg("--log.level=warn");
    command.env("DATA_SOURCE_NAME", format!("exporter@unix({})/", server.socket().display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    let _exporter = TestProcess::spawn(&mut command).unwrap();
    // What it asks is itself counted; with the second answer all of that has happened.
    get_metrics(port);
    let answer = get_metrics(port);
    let lines = answer.lines().filter(|line| line.starts_with("mysql"));
    let parsed = lines.filter_map(|line| line.rsplit_once(' '));
    parsed.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

/// A scrape after some load: the sum over each name's series.
fn families(server: &Server) -> BTreeMap<String, f64> {
    let load = SysbenchLoad { workload: "oltp_read_write", threads: 2, tables: 2, rows: 500, prepared: true };
    load.prepare(server).unwrap();
    assert!(load.start(server, 2).unwrap().finish().unwrap().transactions > 0);
    let series = scrape(server);
    assert_eq!(series.get("mysql_exporter_last_scrape_error"), Some(&0.0));
    assert!(!series.keys().any(|name| name.starts_with("mysql_exporter_scrape_errors_total")), "{series:?}");
    for name in COLLECTORS {
        let ran =
            format!("mysql_exporter_collector_duration_seconds{{collector=\"collect.perf_schema.{name}\"}}");
        assert!(series.contains_key(&ran), "{name} did not run");
    }
    let mut families = BTreeMap::new();
    for (name, value) in series.iter().filter(|(name, _)| name.starts_with("mysql_perf_schema_")) {
        *families.entry(name.split('{').next().unwrap_or_default().to_owned()).or_default() += value;
    }
    families
}

#[test]
fn the_exporter_gets_the_series_it_gets_from_the_built_in() {
    let _turn = turn();
    if program(PROGRAM).is_err() {
        println!("skipped: {PROGRAM} is not installed; make setup does it");
        return;
    }
    let Some(server) = subject() else { return };
    let seen = families(&server);
    drop(server);
    let reference = families(&start(TestProvider::BuiltIn));
    assert!(reference.len() > 30, "{} names", reference.len());
    let names = |families: &BTreeMap<String, f64>| families.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&seen), names(&reference));
    let zero = |families: &BTreeMap<String, f64>| {
        families.iter().filter(|(_, sum)| **sum == 0.0).map(|(name, _)| name.clone()).collect::<BTreeSet<_>>()
    };
    let unexpected: Vec<String> = zero(&seen).difference(&zero(&reference)).cloned().collect();
    assert_eq!(unexpected, Vec::<String>::new(), "zero with tare, not with the built-in");
}
