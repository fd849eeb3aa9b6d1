//! Every line of mysqld_exporter's perf_schema collectors is one of ours: name, help, type, labels and value.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use mysql::prelude::Queryable;
use tare_outlets::export::collectors;
use tare_outlets::export::sample::Samples;
use tare_outlets::export::scrape;
use tare_outlets::export::text;
use tare_outlets::{Address, Source};
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;

use crate::client::everything;
use crate::page::Page;
use crate::record::{Record, Recorder, reference_path};

/// Metrics that mysqld_exporter has as 0 from any MariaDB, because it asks only MySQL for their columns. Ours
/// are true.
const NOT_ASKED: [&str; 3] = [
    "mysql_perf_schema_events_statements_lock_time_seconds_total",
    "mysql_perf_schema_events_statements_cpu_time_seconds_total",
    "mysql_perf_schema_events_statements_latency",
];
const PREFIX: &str = "mysql_perf_schema_";

/// Compares what is in `theirs` with `ours`; gives the number of lines compared.
fn compare(theirs: &Page, ours: &Page) -> usize {
    let mine: BTreeMap<String, f64> = ours.samples.iter().map(|it| (it.key(), it.value)).collect();
    let mut compared = 0;
    let mut wrong = vec![];
    for sample in theirs.samples.iter().filter(|it| it.name.starts_with(PREFIX)) {
        let not_asked = NOT_ASKED.contains(&sample.name.as_str());
        match mine.get(&sample.key()) {
            None => wrong.push(format!("not there: {}", sample.key())),
            Some(_) if not_asked => assert!(sample.value == 0.0, "asked after all: {}", sample.key()),
            #[expect(clippy::float_cmp, reason = "the same digits make the same double")]
            Some(value) if *value != sample.value => {
                wrong.push(format!("{value}, not {}: {}", sample.value, sample.key()));
            }
            Some(_) => compared += 1,
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    let names = theirs.types.keys().filter(|name| name.starts_with(PREFIX));
    for name in names {
        assert_eq!(
            (ours.types.get(name), ours.helps.get(name)),
            (theirs.types.get(name), theirs.helps.get(name))
        );
    }
    compared
}

#[test]
fn what_was_recorded_comes_out_as_mysqld_exporter_has_it() {
    let theirs = Page::parse(&fs::read_to_string(reference_path()).expect("the record"));
    let ours = Page::parse(&Record::read().page(&everything()));
    let compared = compare(&theirs, &ours);
    assert!(compared > 1000, "only {compared} lines");
}

#[test]
fn a_scrape_asks_once_for_each_table() {
    let mut record = Record::read();
    record.page(&everything());
    assert!(record.asked.len() > 10, "{:?}", record.asked);
    assert!(record.asked.values().all(|times| *times == 1), "{:?}", record.asked);
}

#[test]
fn no_text_of_a_statement_comes_out_unless_it_is_asked_for() {
    let with = everything();
    let without = tare_outlets::export::collector::CollectorOptions { digest_text: false, ..everything() };
    let mut record = Record::read();
    let texts = |page: &Page| page.samples.iter().filter(|it| !it.label("digest_text").is_empty()).count();
    assert!(texts(&Page::parse(&record.page(&with))) > 0);
    assert_eq!(texts(&Page::parse(&record.page(&without))), 0);
}

/// mysqld_exporter, ended with the test.
struct Reference {
    child: Child,
    port: u16,
}

impl Reference {
    /// The program that `TARE_MYSQLD_EXPORTER` names, reading this server.
    fn start(program: PathBuf, server: &Server, options: &PathBuf) -> Self {
        let socket = server.socket();
        fs::write(options, format!("[client]\nuser=root\nsocket={}\n", socket.display())).expect("options");
        let on = collectors::all()
            .filter(|it| it.name.starts_with("perf_schema.") && !it.name.ends_with(".histogram"));
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
        let mut child = Command::new(program)
            .args(on.map(|it| format!("--collect.{}", it.name)))
            .arg(format!("--config.my-cnf={}", options.display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("mysqld_exporter starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("Listening on")), "it listens");
        // Whoever does not read what it says stops it.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, port }
    }

    fn page(&self) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        // HTTP/1.0: the answer is not chunked.
        use std::io::{Read, Write};
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("asked");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text.split_once("\r\n\r\n").expect("a body").1.to_owned()
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server on which something has happened and nothing happens any more.
pub(crate) fn quiet_server() -> Server {
    let settings = StartSettings::new(TestProvider::tare()).tare_option("shape", "extended");
    let server = Server::start(settings).expect("a server");
    let mut root = server.client().expect("a client");
    for statement in [
        "CREATE DATABASE shop",
        "USE shop",
        "CREATE TABLE `odd \"name\"` (id INT PRIMARY KEY, name TEXT, KEY (name(9))) ENGINE = InnoDB",
        "INSERT INTO `odd \"name\"` SELECT seq, CONCAT('n', seq) FROM seq_1_to_500",
        "SELECT COUNT(*) FROM `odd \"name\"` WHERE name LIKE 'n1%'",
        "SELECT * FROM `odd \"name\"` ORDER BY name DESC",
        "UPDATE `odd \"name\"` SET name = 'x\\\\y' WHERE id < 50",
        "DELETE FROM `odd \"name\"` WHERE id > 400",
        "UPDATE performance_schema.setup_consumers SET ENABLED = 'NO' WHERE NAME = 'global_instrumentation'",
    ] {
        root.query_drop(statement).expect(statement);
    }
    server
}

#[test]
fn on_a_server_every_line_of_mysqld_exporter_is_ours() {
    let Some(program) = std::env::var_os("TARE_MYSQLD_EXPORTER") else {
        println!("skipped: TARE_MYSQLD_EXPORTER names no mysqld_exporter; the recorded answers are compared");
        return;
    };
    let _turn = tare_testkit::turn();
    let Some(server) = quiet_server().on_its_port() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let reference = Reference::start(program.into(), &server, &folder.path().join("my.cnf"));
    // Opening the tables allocates and frees; after that reading them changes nothing.
    reference.page();
    let mut source = Source::open(Address::Socket(server.endpoint())).expect("the endpoint");
    let (options, theirs) = (everything(), reference.page());
    let mut recorder = Recorder { source: &mut source, record: Record::default() };
    let wanted: Vec<&'static str> = collectors::all().map(|it| it.name).collect();
    let mut all = Samples::default();
    for group in collectors::GROUPS {
        let read = scrape::read(&mut recorder, group, &options, &wanted, SystemTime::now());
        all.extend(read.expect("rows").0);
    }
    let compared = compare(&Page::parse(&theirs), &Page::parse(&text::page(&all)));
    println!("{compared} lines are equal");
    assert!(compared > 1000);
    if std::env::var_os("TARE_RECORD").is_some() {
        recorder.record.write();
        fs::write(reference_path(), of_perf_schema(&theirs)).expect("the record is written");
    }
}

/// The part of a page that is compared.
fn of_perf_schema(page: &str) -> String {
    let is_ours = |line: &&str| {
        let name = line.strip_prefix("# HELP ").or(line.strip_prefix("# TYPE ")).unwrap_or(line);
        name.starts_with(PREFIX)
    };
    page.lines().filter(is_ours).map(|line| format!("{line}\n")).collect()
}
