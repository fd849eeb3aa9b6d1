//! Native histograms: a Prometheus that asks for them gets them, and counts as the page does.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mysql::prelude::Queryable;
use serde_json::Value;
use tare_outlets::Address;
use tare_testkit::poll_every;
use tare_testkit::server::{LIMIT, Server, StartSettings};
use tare_testkit::subject::TestProvider;

use crate::client::{Exporter, ask, everything};
use crate::page::Page;

/// A Prometheus of the test's own, which scrapes one exporter.
struct Prometheus {
    child: Child,
    at: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    /// None, with the reason printed, where there is no such program.
    fn start(exporter: &Exporter) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("prometheus.yml");
        let jobs = format!(
            "global: {{ scrape_interval: 1s }}\nscrape_configs:\n  - job_name: tare\n    static_configs:\n      \
             - targets: ['{}']\n",
            exporter.at
        );
        std::fs::write(&config, jobs).expect("written");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = free.local_addr().expect("an address");
        drop(free);
        let program = std::env::var_os("TARE_PROMETHEUS").unwrap_or_else(|| "prometheus".into());
        let started = Command::new(program)
            .arg("--enable-feature=native-histograms")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={at}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match started {
            Ok(child) => Some(Self { child, at, _folder: folder }),
            Err(error) => {
                println!("skipped: no prometheus (package prometheus; TARE_PROMETHEUS): {error}");
                None
            }
        }
    }

    /// The values of a query, once there are any.
    fn query(&mut self, query: &str) -> Vec<f64> {
        let found = poll_every(Duration::from_millis(200), LIMIT, || {
            assert!(self.child.try_wait().expect("a child").is_none(), "prometheus has ended");
            self.try_query(query).filter(|found| !found.is_empty())
        });
        found.unwrap_or_else(|| panic!("prometheus never had {query}"))
    }

    fn try_query(&self, query: &str) -> Option<Vec<f64>> {
        let mut stream = TcpStream::connect(self.at).ok()?;
        let query = query.replace(' ', "%20").replace('{', "%7B").replace('}', "%7D").replace('"', "%22");
        let answer = ask(&mut stream, &format!("/api/v1/query?query={query}"), &[]).ok()?.text();
        let json: Value = serde_json::from_str(&answer[answer.find('{')?..=answer.rfind('}')?]).ok()?;
        let results = json["data"]["result"].as_array()?;
        Some(
            results
                .iter()
                .map(|it| it["value"][1].as_str().expect("a value").parse().expect("a number"))
                .collect(),
        )
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // Both fail when it has ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn prometheus_scrapes_native_histograms() {
    let _turn = tare_testkit::turn();
    let server = Server::start(StartSettings::new(TestProvider::tare()).tare_option("shape", "extended"));
    let server = server.expect("a server");
    let mut root = server.client().expect("a client");
    for statement in [
        "CREATE DATABASE shop",
        "USE shop",
        "SELECT SLEEP(0.03)",
        "SELECT SLEEP(0.3)",
        "SELECT 1",
        "UPDATE performance_schema.setup_consumers SET ENABLED = 'NO' WHERE NAME = 'global_instrumentation'",
    ] {
        root.query_drop(statement).expect(statement);
    }
    let exporter = Exporter::start(Address::Socket(server.endpoint()), everything());
    let Some(mut prometheus) = Prometheus::start(&exporter) else { return };
    let page = Page::parse(&exporter.get("/metrics", &[]).text());
    let sum = |name: &str| page.of(name).map(|it| it.value).sum::<f64>();
    let count = sum("tare_statement_duration_seconds_count");
    assert!(count >= 3.0);
    let native = |of: &str| format!("{of}(sum(tare_statement_duration_seconds))");
    assert_eq!(prometheus.query(&native("histogram_count")), [count]);
    let seconds = prometheus.query(&native("histogram_sum"))[0];
    assert!((seconds - sum("tare_statement_duration_seconds_sum")).abs() < 1e-9);
    // Of two sleeps one took less than 50 ms, which lies between two bounds.
    let digest = page
        .of("tare_statement_duration_seconds_sum")
        .max_by(|a, b| a.value.total_cmp(&b.value))
        .expect("digests")
        .label("digest")
        .to_owned();
    let share = |from: &str, to: &str| {
        format!("histogram_fraction({from},{to},tare_statement_duration_seconds{{digest=\"{digest}\"}})")
    };
    assert_eq!(prometheus.query(&share("0.02", "0.1")), [0.5]);
    assert_eq!(prometheus.query(&share("0.25", "1")), [0.5]);
    // All other figures are those of the text.
    for name in
        ["mysql_perf_schema_events_statements_total", "mysql_perf_schema_events_statements_latency_sum"]
    {
        assert_eq!(prometheus.query(&format!("count({name})")), [page.of(name).count() as f64]);
        assert!((prometheus.query(&format!("sum({name})"))[0] - sum(name)).abs() < 1e-9, "{name}");
    }
}
