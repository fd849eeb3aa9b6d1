//! What is pushed: every figure of the page, since when it was counted, and what becomes of it when a
//! collector does not take it.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mysql::prelude::Queryable;
use opentelemetry_proto::tonic::resource::v1::Resource;
use tare_outlets::Address;
use tare_outlets::export::otlp::{OtlpSettings, Requests, Streams};
use tare_outlets::export::sample::{MetricDescription, Samples};
use tare_outlets::export::scrape::{ScrapeResult, ServerScraper};
use tare_testkit::eventually;
use tare_testkit::server::{LIMIT, Server};

use crate::client::{Exporter, everything};
use crate::collector::{Collector, Got, Point, Reply, points, texts};
use crate::page::Page;
use crate::record::Record;
use crate::same::quiet_server;
use crate::security::Place;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// What is told of a push to this address, at once and then every so often.
fn settings(url: &str, interval: Duration, variables: &[(&str, &str)]) -> OtlpSettings {
    let variable =
        |name: &str| variables.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned());
    let settings = OtlpSettings::read(Some(url), Some(interval), &variable);
    settings.expect("settings").expect("an endpoint")
}

fn exporter(address: Address, collector: &Collector, variables: &[(&str, &str)]) -> Exporter {
    let settings = settings(&format!("http://{}", collector.at), SECOND, variables);
    Exporter::pushing(ServerScraper::new(address, everything()), None, 8, Some(settings))
}

/// An exporter whose server is away: its own figures are pushed.
fn alone(collector: &Collector, variables: &[(&str, &str)]) -> Exporter {
    exporter(Address::Socket("/no/such/socket".into()), collector, variables)
}

fn all(got: &[Got]) -> Vec<Point> {
    points(got.iter().map(|it| &it.message))
}

/// Values by what identifies them.
fn values<'a>(samples: impl Iterator<Item = &'a crate::page::Sample>) -> BTreeMap<String, f64> {
    samples.map(|it| (it.key(), it.value)).collect()
}

/// What is not the same in both.
fn different<'a>(
    pushed: &'a BTreeMap<String, f64>,
    page: &'a BTreeMap<String, f64>,
) -> BTreeMap<&'a str, (Option<f64>, Option<f64>)> {
    let both = pushed.keys().chain(page.keys());
    let pairs = both.map(|key| (key.as_str(), (pushed.get(key).copied(), page.get(key).copied())));
    pairs.filter(|(_, (pushed, page))| pushed != page).collect()
}

fn value(got: &[Got], name: &str, label: Option<(&str, &str)>) -> f64 {
    let is_it = |it: &&Point| {
        it.sample.name == name && label.is_none_or(|(name, value)| it.sample.label(name) == value)
    };
    all(got).iter().find(is_it).unwrap_or_else(|| panic!("no {name}")).sample.value
}

fn nanoseconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64
}

#[test]
fn every_figure_of_a_look_is_pushed_once() {
    let started = UNIX_EPOCH + Duration::from_secs(1_000);
    let server = Record::read().samples(&everything());
    let look =
        ScrapeResult { server, own: Samples::default(), started: Some(started), at: SystemTime::now() };
    let (mut streams, resource) = (Streams::new(SystemTime::now()), Resource::default());
    let requests: Vec<_> = Requests::of(&look, &mut streams, &resource).collect();
    assert!(requests.len() > 1, "it is cut");
    let found = points(requests.iter().map(|(request, _)| request));
    let page = Page::parse(&look.page());
    assert!(page.samples.len() > 1500, "{}", page.samples.len());
    assert_eq!(found.len(), page.samples.len());
    let (of_push, of_page) = (values(found.iter().map(|it| &it.sample)), values(page.samples.iter()));
    assert_eq!(different(&of_push, &of_page), BTreeMap::new());
    for point in &found {
        let is_gauge = page.types.get(&point.sample.name).is_some_and(|it| it == "gauge");
        assert_eq!(point.start, if is_gauge { 0 } else { nanoseconds(started) }, "{point:?}");
        assert_eq!(point.at, nanoseconds(look.at));
    }
}

static COUNT: MetricDescription = MetricDescription::counter("count_total", "A count.");

/// A counter's figures by label, and when the server started, in seconds.
type Seen<'a> = (&'a [(&'a str, u64)], Option<u64>);

/// Looks at a counter, one a second; gives the start of each stream in seconds.
fn starts(looks: &[Seen<'_>]) -> Vec<Vec<u64>> {
    let (mut streams, resource) = (Streams::new(SystemTime::now()), Resource::default());
    let seconds = |seconds: u64| UNIX_EPOCH + Duration::from_secs(seconds);
    let look = |(number, (counts, started)): (usize, &Seen<'_>)| {
        let mut server = Samples::default();
        counts.iter().for_each(|(of, count)| server.add(&COUNT, &[("of", of)], *count));
        let at = seconds(1000 + number as u64);
        let look = ScrapeResult { server, own: Samples::default(), started: started.map(seconds), at };
        let requests: Vec<_> = Requests::of(&look, &mut streams, &resource).map(|it| it.0).collect();
        points(&requests).iter().map(|it| it.start / 1_000_000_000).collect()
    };
    looks.iter().enumerate().map(look).collect()
}

#[test]
fn a_stream_begins_with_its_server_and_anew_where_it_falls() {
    // It falls after the look at 1001: so it was counted anew since then. The other one goes on.
    let looks: [(&[_], _); 4] = [
        (&[("a", 5), ("b", 1)], Some(900)),
        (&[("a", 7), ("b", 1)], Some(900)),
        (&[("a", 2), ("b", 1)], Some(900)),
        (&[("a", 9), ("b", 2)], Some(900)),
    ];
    assert_eq!(starts(&looks), [[900, 900], [900, 900], [1001, 900], [1001, 900]]);
    // A new server has counted further than the old one; a second more or less is the same server.
    let looks: [(&[_], _); 3] =
        [(&[("a", 5)], Some(900)), (&[("a", 6)], Some(901)), (&[("a", 50)], Some(950))];
    assert_eq!(starts(&looks), [[900], [900], [950]]);
    // Where the start is not known, it is the first look.
    assert_eq!(starts(&[(&[("a", 5)], None), (&[("a", 6)], None)]), [[1000], [1000]]);
    // What was out of sight for a look is known again.
    let looks: [(&[_], _); 3] = [(&[("a", 5)], Some(900)), (&[], Some(900)), (&[("a", 1)], Some(900))];
    assert_eq!(starts(&looks), [vec![900], vec![], vec![1000]]);
}

#[test]
fn streams_that_are_gone_do_not_stay_in_memory() {
    let (mut streams, resource) = (Streams::new(SystemTime::now()), Resource::default());
    for number in 0..50_u64 {
        let mut server = Samples::default();
        let names: Vec<String> = (0..1000).map(|it| format!("{}", number * 1000 + it)).collect();
        names.iter().for_each(|name| server.add(&COUNT, &[("of", name)], 1_u64));
        let at = UNIX_EPOCH + Duration::from_secs(1000 + number);
        let look = ScrapeResult { server, own: Samples::default(), started: None, at };
        Requests::of(&look, &mut streams, &resource).for_each(drop);
        assert!(streams.remembered() <= 5000, "{}", streams.remembered());
    }
}

#[test]
fn a_server_is_pushed_as_it_is_scraped_and_begins_anew_with_truncate_and_restart() {
    let _turn = tare_testkit::turn();
    let mut server = quiet_server();
    let collector = Collector::start(&[], None);
    let exporter = exporter(
        Address::Socket(server.endpoint()),
        &collector,
        &[
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20key"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_SERVICE_NAME", "shop"),
        ],
    );
    let first = collector.push();
    for got in &first {
        assert!(got.head.starts_with("post /v1/metrics http/1.1\r\n"), "{}", got.head);
        for line in ["api-key: a key", "content-type: application/x-protobuf", "content-encoding: gzip"] {
            assert!(got.head.contains(&format!("\r\n{line}\r\n")), "{line}: {}", got.head);
        }
        let resource = got.message.resource_metrics[0].resource.as_ref().expect("a resource");
        let resource = texts(&resource.attributes);
        assert_eq!(resource["service.name"], "shop");
        assert!(resource["service.instance.id"].ends_with("/tare.sock"), "{resource:?}");
    }
    let is_own = |name: &str| {
        let own = ["mysql_up", "mysql_exporter_", "process_", "tare_export_", "tare_up"];
        own.iter().any(|it| name.starts_with(it))
    };
    // A wait that began before the server was silenced may still end.
    let mut pushed = all(&first);
    for attempt in 0.. {
        let page = Page::parse(&exporter.get("/metrics", &[]).text());
        let of_page = values(page.samples.iter().filter(|it| !is_own(&it.name)));
        let of_push = values(pushed.iter().map(|it| &it.sample).filter(|it| !is_own(&it.name)));
        assert!(of_page.len() > 1000);
        let different = different(&of_push, &of_page);
        if different.is_empty() {
            break;
        }
        assert!(attempt < 10, "{different:?}");
        pushed = all(&collector.push());
    }
    // Since the server made its socket.
    let made = |server: &Server| {
        nanoseconds(server.endpoint().metadata().expect("a socket").modified().expect("a time"))
    };
    let name = "mysql_perf_schema_events_waits_total";
    let starts = |points: &[Point]| -> Vec<u64> {
        points.iter().filter(|it| it.sample.name == name).map(|it| it.start).collect()
    };
    let start = made(&server);
    assert!(starts(&pushed).iter().all(|it| *it == start));

    let before = all(&collector.push());
    let mut root = server.client().expect("a client");
    root.query_drop("TRUNCATE performance_schema.events_waits_summary_global_by_event_name")
        .expect("truncated");
    let fell = loop {
        let after = all(&collector.push());
        if starts(&after).iter().any(|it| *it > start) {
            break after;
        }
    };
    let counted: Vec<&Point> =
        before.iter().filter(|it| it.sample.name == name && it.sample.value > 0.0).collect();
    assert!(counted.len() > 10);
    for was in counted {
        let now = fell.iter().find(|it| it.sample.key() == was.sample.key()).expect("it is still there");
        assert!(now.sample.value < was.sample.value && now.start >= was.at && now.start < now.at, "{now:?}");
    }
    let other = "mysql_perf_schema_events_statements_total";
    let others: Vec<&Point> = fell.iter().filter(|it| it.sample.name == other && it.start != start).collect();
    assert!(others.is_empty(), "{start}: {:?}", &others[..others.len().min(4)]);

    drop(root);
    server.stop().expect("it stops");
    server.resume().expect("it starts again");
    let again = loop {
        let got = all(&collector.push());
        if !starts(&got).is_empty() && starts(&got)[0] == made(&server) {
            break got;
        }
    };
    assert!(made(&server) > start && starts(&again).iter().all(|it| *it == made(&server)));
}

#[test]
fn what_a_collector_may_take_later_is_sent_again_and_what_it_refuses_is_not() {
    let now = "Retry-After: 0\r\n";
    let replies = [
        Reply::Status(503, now),
        Reply::Status(429, now),
        Reply::Taken,
        // For ever: it is given up until the next push.
        Reply::Status(503, "Retry-After: 18446744073709551615\r\n"),
        Reply::Status(400, ""),
        Reply::Partly(3),
        Reply::Taken,
    ];
    let collector = Collector::start(&replies, None);
    let exporter = alone(&collector, &[]);
    let at = |got: &Got| points([&got.message])[0].at;
    // The same thrice, then the next one.
    let tries = [collector.next(), collector.next(), collector.next()];
    assert!(tries.iter().all(|it| it.message == tries[0].message));
    let own = all(&tries[..1]).len() as f64;
    assert_ne!(at(&collector.next()), at(&tries[0]));
    let refused = collector.next();
    assert_ne!(at(&refused), at(&tries[0]));
    assert_eq!(value(&[refused], "tare_export_otlp_failures_total", None), 3.0);
    let partly = [collector.next()];
    assert_eq!(value(&partly, "tare_export_otlp_failures_total", None), 4.0);
    let count = |got: &[Got], result| value(got, "tare_export_otlp_points_total", Some(("result", result)));
    assert_eq!((count(&partly, "taken"), count(&partly, "dropped")), (own, 2.0 * own));
    let last = [collector.next()];
    assert_eq!((count(&last, "rejected"), count(&last, "taken")), (3.0, 2.0 * own - 3.0));
    // The page says the same.
    let page = Page::parse(&exporter.get("/metrics", &[]).text());
    assert!(
        page.of("tare_export_otlp_points_total")
            .any(|it| it.label("result") == "rejected" && it.value == 3.0)
    );
}

#[test]
fn while_a_collector_is_away_the_server_is_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("server");
    // Whoever reads the server connects to it first.
    let listener = UnixListener::bind(&socket).expect("a socket");
    listener.set_nonblocking(true).expect("set");
    // One that hangs up before a word is said.
    let collector = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = collector.local_addr().expect("an address").port();
    let place = Place::new();
    let authorities = place.path("ca.pem").to_str().expect("UTF-8").to_owned();
    let variables = [("OTEL_EXPORTER_OTLP_CERTIFICATE", &*authorities)];
    let settings = settings(&format!("https://localhost:{port}"), SECOND, &variables);
    let reader = ServerScraper::new(Address::Socket(socket), everything());
    let _exporter = Exporter::pushing(reader, None, 8, Some(settings));
    for _ in 0..4 {
        drop(collector.accept().expect("it tries again"));
        assert!(listener.accept().is_err(), "the server was read");
    }
}

#[test]
fn a_collector_is_spoken_to_over_tls_with_a_certificate_of_the_clients_own() {
    let place = Place::new();
    let (certificate, key) = place.certificate(&place.authority, "exporter", 2099);
    std::fs::write(place.path("client.pem"), certificate).expect("written");
    std::fs::write(place.path("client.key"), key).expect("written");
    let collector = Collector::start(&[], Some(place.server_config()));
    let path = |name: &str| place.path(name).to_str().expect("UTF-8").to_owned();
    let (ca, certificate, key) = (path("ca.pem"), path("client.pem"), path("client.key"));
    let url = format!("https://localhost:{}", collector.at.port());
    let push = |variables: &[(&str, &str)]| {
        let reader = ServerScraper::new(Address::Socket("/no/such/socket".into()), everything());
        Exporter::pushing(reader, None, 8, Some(settings(&url, HOUR, variables)))
    };
    let identity =
        [("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", &*certificate), ("OTEL_EXPORTER_OTLP_CLIENT_KEY", &*key)];
    let trusted = ("OTEL_EXPORTER_OTLP_CERTIFICATE", &*ca);
    let exporter = push(&[trusted, identity[0], identity[1]]);
    assert_eq!(value(&collector.push(), "mysql_up", None), 0.0);
    drop(exporter);
    // A stranger's collector is not spoken to, and one without a certificate is not let in.
    for variables in [&identity[..], &[trusted]] {
        let exporter = push(variables);
        let failures =
            || Page::parse(&exporter.get("/metrics", &[]).text()).value("tare_export_otlp_failures_total");
        eventually("the failure is counted", LIMIT, || failures().is_some_and(|count| count >= 1.0));
        assert!(collector.nothing(), "it was sent something");
    }
    let missing = settings(&url, HOUR, &[("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such/file")]);
    let said = tare_outlets::export::otlp::check(&missing).expect_err("no such file").to_string();
    assert!(said.contains("/no/such/file"), "{said}");
}
