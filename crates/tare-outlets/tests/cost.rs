//! What the outlets cost a server with five thousand digests: the CPU time of the endpoint's thread that
//! answers them. It takes a minute, so `make outlets-cost` runs it and `make test` does not.

use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_outlets::export::collector::{CollectorOptions, TableSource};
use tare_outlets::export::collectors;
use tare_outlets::export::scrape::{self, ServerScraper};
use tare_outlets::source::QueryPart;
use tare_outlets::top::look::{Ask, View};
use tare_outlets::{Address, Error, Row, Source, top};
use tare_server::process::thread_cpu_time;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::{TestProvider, setting};

/// A server with so many digests, each counted by several connections, some of which are still there.
fn filled(shape: &str, digests: u64) -> (Server, Vec<Conn>) {
    let settings = StartSettings::new(TestProvider::under_test())
        .provider_option("digests-size", digests + 1000)
        .tare_option("shape", shape);
    let server = Server::start(settings).expect("a server");
    let mut open: Vec<Conn> = (0..10).map(|_| server.client().expect("a client")).collect();
    let root = &mut open[0];
    root.query_drop("CREATE DATABASE shop").expect("a schema");
    root.query_drop("CREATE TABLE shop.orders (id INT PRIMARY KEY, customer INT, total INT)")
        .expect("a table");
    open.iter_mut().for_each(|conn| conn.query_drop("USE shop").expect("the schema"));
    for number in 0..2 * digests {
        let conn = &mut open[number as usize % 10];
        let name = number % digests;
        let statement = format!(
            "SELECT o.id AS c{name}, o.customer, SUM(o.total) FROM orders o WHERE o.id = {number} AND o.total > 100 \
             GROUP BY o.id, o.customer ORDER BY o.customer LIMIT 10"
        );
        conn.query_drop(&statement).expect("rows");
    }
    (server, open)
}

/// CPU time so far of the threads that answer at the endpoint.
fn spent(server: &Server) -> Duration {
    let process = server.process().expect("it runs");
    let threads = process.threads_named("tare-conn").expect("tasks");
    threads.into_iter().filter_map(|thread| thread_cpu_time(process.id(), thread)).sum()
}

/// Does something so many times; prints the mean and the least it cost the server, and the time it took here.
fn print(server: &Server, what: &str, times: u64, mut look: impl FnMut()) {
    look();
    let (begin, before) = (Instant::now(), spent(server));
    let mut least = Duration::MAX;
    for _ in 0..times {
        let before = spent(server);
        look();
        least = least.min(spent(server) - before);
    }
    let mean = (spent(server) - before) / times as u32;
    let [mean, least, took] = [mean, least, begin.elapsed() / times as u32].map(|it| it.as_secs_f64() * 1e3);
    println!("  {what:<66} {mean:>8.3} {least:>8.3} {took:>8.1}");
}

/// The questions of a scrape: tables, columns, and conditions or parts.
#[derive(Default)]
struct Questions(Vec<(String, Vec<String>, AskedSource)>);

enum AskedSource {
    Each(String),
    AtOnce(Vec<QueryPart>),
}

impl Questions {
    fn note(&mut self, table: &str, columns: &[&str], asked: AskedSource) {
        let columns = columns.iter().map(|it| (*it).to_owned()).collect();
        self.0.push((table.to_owned(), columns, asked));
    }
}

struct Noting<'a>(&'a mut Source, &'a mut Questions);

impl TableSource for Noting<'_> {
    fn each(
        &mut self,
        table: &str,
        columns: &[&str],
        filter: &str,
        take: &mut dyn FnMut(Row),
    ) -> Result<(), Error> {
        self.0.each(table, columns, filter, take)?;
        self.1.note(table, columns, AskedSource::Each(filter.to_owned()));
        Ok(())
    }

    fn at_once(
        &mut self,
        table: &str,
        columns: &[&str],
        parts: &[QueryPart],
        take: &mut dyn FnMut(usize, Row),
    ) -> Result<bool, Error> {
        let is_told = self.0.at_once(table, columns, parts, take)?;
        self.1.note(table, columns, AskedSource::AtOnce(parts.to_vec()));
        Ok(is_told)
    }
}

fn questions(source: &mut Source, options: &CollectorOptions) -> Questions {
    let mut questions = Questions::default();
    let wanted: Vec<&'static str> =
        collectors::all().filter(|it| options.has(it)).map(|it| it.name).collect();
    for group in collectors::GROUPS.iter().filter(|it| it.collectors.iter().any(|it| options.has(it))) {
        let mut tables = Noting(source, &mut questions);
        scrape::read(&mut tables, group, options, &wanted, std::time::SystemTime::now()).expect("rows");
    }
    questions
}

#[test]
#[ignore = "prints what outlets cost a server, and takes a minute: make outlets-cost"]
fn what_a_look_costs_the_server() {
    let _turn = tare_testkit::turn();
    let (digests, times) = (setting("TARE_DIGESTS", 5000), setting("TARE_TIMES", 40));
    for shape in ["strict", "extended"] {
        let (server, _open) = filled(shape, digests);
        let address = Address::Socket(server.endpoint());
        let options = CollectorOptions::default();
        println!(
            "\n{shape}, {digests} digests: milliseconds of the server's CPU (mean, least), milliseconds here"
        );
        let reader = ServerScraper::new(address.clone(), options.clone());
        print(&server, "tare export: a scrape", times, || {
            let page = reader.look(&reader.on(), Instant::now() + Duration::from_secs(10)).page();
            assert!(page.contains("mysql_up 1"), "{page}");
        });
        drop(reader);
        let mut source = Source::open(address.clone()).expect("the endpoint");
        for (table, columns, asked) in questions(&mut source, &options).0 {
            let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
            let how = match &asked {
                AskedSource::Each(filter) => &filter[..filter.len().min(20)],
                AskedSource::AtOnce(_) => "at once",
            };
            print(&server, &format!("  {table} {how}"), times, || match &asked {
                AskedSource::Each(filter) => {
                    source.each(&table, &columns, filter, &mut |_| {}).expect("rows")
                }
                AskedSource::AtOnce(parts) => {
                    assert!(source.at_once(&table, &columns, parts, &mut |_, _| {}).expect("rows"));
                }
            });
        }
        for table in ["events_statements_summary_by_digest", "memory_summary_global_by_event_name"] {
            let columns = source.columns(table).expect("columns").to_vec();
            let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
            print(&server, &format!("SELECT * FROM {table}"), times, || {
                source.each(table, &columns, "", &mut |_| {}).expect("rows");
            });
        }
        let mut reader = top::read::Reader::open(address).expect("the endpoint");
        for view in View::ALL {
            print(&server, &format!("tare top: a look at {view:?}"), times, || {
                reader.look(&Ask { view, about: None }).expect("a look");
            });
        }
    }
}
