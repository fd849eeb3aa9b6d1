//! Digests that the server chooses: what comes out is what would come out of all of them.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use mysql::prelude::Queryable;
use tare_outlets::export::collector::{CollectorOptions, TableSource};
use tare_outlets::export::collectors;
use tare_outlets::export::{scrape, text};
use tare_outlets::source::{PartResult, QueryPart};
use tare_outlets::{Address, Error, Row, Source};
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;

const DIGESTS: &str = "events_statements_summary_by_digest";

/// A server, or one that has to be looked through, and how many rows it sent of the digests.
struct Counted<'a> {
    source: &'a mut Source,
    chooses: bool,
    rows: u64,
}

impl TableSource for Counted<'_> {
    fn each(
        &mut self,
        table: &str,
        columns: &[&str],
        filter: &str,
        take: &mut dyn FnMut(Row),
    ) -> Result<(), Error> {
        let rows = &mut self.rows;
        self.source.each(table, columns, filter, &mut |row| {
            *rows += u64::from(table == DIGESTS);
            take(row);
        })
    }

    fn at_once(
        &mut self,
        table: &str,
        columns: &[&str],
        parts: &[QueryPart],
        take: &mut dyn FnMut(usize, Row),
    ) -> Result<bool, Error> {
        let rows = &mut self.rows;
        if !self.chooses {
            return Ok(false);
        }
        self.source.at_once(table, columns, parts, &mut |part, row| {
            *rows += 1;
            take(part, row);
        })
    }
}

/// The page of the collectors of digests, what they left out, and how many rows that took.
fn page(
    source: &mut Source,
    chooses: bool,
    options: &CollectorOptions,
    on: &[&'static str],
    now: SystemTime,
) -> (String, BTreeMap<&'static str, u64>, u64) {
    let mut tables = Counted { source, chooses, rows: 0 };
    let is_of_digests = |name: &&str| name.starts_with("perf_schema.eventsstatements");
    let group = collectors::GROUPS
        .iter()
        .find(|group| group.collectors.iter().any(|it| it.name == "perf_schema.eventsstatements"))
        .expect("a group");
    assert!(on.iter().all(is_of_digests));
    let (samples, left_out) = scrape::read(&mut tables, group, options, on, now).expect("rows");
    (text::page(&samples), left_out, tables.rows)
}

/// A server on which thirty digests of three schemas and of none were seen, and nothing happens any more.
fn quiet_server(shape: &str) -> Server {
    let settings = StartSettings::new(TestProvider::tare()).tare_option("shape", shape);
    let server = Server::start(settings).expect("a server");
    let mut root = server.client().expect("a client");
    for schema in ["shop", "Ware"] {
        root.query_drop(format!("CREATE DATABASE {schema}")).expect("a schema");
        root.query_drop(format!("USE {schema}")).expect("the schema");
        for number in 1..12 {
            let digest = format!("SELECT {} FROM seq_1_to_{}", "seq + ".repeat(number) + "1", number * 300);
            root.query_drop(digest).expect("rows");
        }
    }
    root.query_drop("USE mysql").expect("the schema");
    root.query_drop("SELECT COUNT(*) FROM seq_1_to_100000").expect("rows");
    let off =
        "UPDATE performance_schema.setup_consumers SET ENABLED = 'NO' WHERE NAME = 'global_instrumentation'";
    root.query_drop(off).expect("the switch");
    server
}

#[test]
fn what_the_server_chooses_is_what_would_be_chosen_here() {
    const ALL: [&str; 3] = [
        "perf_schema.eventsstatements",
        "perf_schema.eventsstatementssum",
        "perf_schema.eventsstatements.histogram",
    ];
    let _turn = tare_testkit::turn();
    for shape in ["strict", "extended"] {
        let server = quiet_server(shape);
        let mut source = Source::open(Address::Socket(server.endpoint())).expect("the endpoint");
        let options = |limit: usize, excluded: &str| CollectorOptions {
            limits: [("perf_schema.eventsstatements", limit)].into_iter().collect(),
            exclude_schemas: vec![excluded.to_owned()],
            digest_text: true,
            ..CollectorOptions::default()
        };
        let now = SystemTime::now();
        let mut compare_at = |now, options: &CollectorOptions, on: &[&'static str]| {
            let (chosen, left_out, rows) = page(&mut source, true, options, on, now);
            let (looked_through, also_left_out, all) = page(&mut source, false, options, on, now);
            assert_eq!(chosen, looked_through, "{shape} {options:?}");
            assert_eq!(left_out, also_left_out, "{shape} {options:?}");
            (left_out.get(ALL[0]).copied(), rows, all)
        };
        let tomorrow = now + Duration::from_secs(2 * 86_400);
        assert_eq!(compare_at(tomorrow, &options(5, ""), &ALL[..2]).1, 2, "none was seen for a day");
        let mut compare = |options: &CollectorOptions, on: &[&'static str]| compare_at(now, options, on);
        let (left_out, rows, all) = compare(&options(5, "o'ne"), &ALL);
        assert!(left_out >= Some(20) && rows == 5 + 2 && all > 25, "{left_out:?}: {rows} of {all}");
        let (without_ware, ..) = compare(&options(5, "wARE"), &ALL);
        assert!(without_ware < left_out, "schemas are the same in any case: {without_ware:?}");
        assert_eq!(compare(&options(1000, ""), &ALL).0, Some(0));
        let (left_out, rows, all) = compare(&options(5000, ""), &ALL);
        assert_eq!((left_out, rows), (Some(0), all), "all are wanted, and sent");
        assert_eq!(compare(&options(0, ""), &ALL[..2]).1, 2);
        let (none, rows, _) = compare(&options(5, ""), &ALL[1..2]);
        assert_eq!((none, rows), (None, 1), "sums alone");

        // What an endpoint does not understand, such as all of this if it is of an earlier version, is read
        // as a whole.
        let part = QueryPart { of: PartResult::Rows, filter: "ORDER BY `THREAD_ID`".to_owned() };
        let is_told = source.at_once("threads", &["THREAD_ID"], &[part], &mut |_, _| panic!("a row"));
        assert!(!is_told.expect("no failure"));

        // Through an account all are read, as of any server.
        let dsn = format!("mysql://root@localhost?socket={}", server.socket().display());
        let mut account = Source::open(Address::dsn(&dsn).expect("an address")).expect("an account");
        let (_, _, rows) = page(&mut account, true, &options(5, ""), &ALL, now);
        assert!(rows > 25, "{rows}");
    }
}
