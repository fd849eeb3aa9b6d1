//! Transactions that arrive at a rate: a stall is charged to all that waited, and a study drives every
//! setting alike. One test at a time: another one's load would make all latencies long.
//!
//! ALONE: every latency is charged, whoever the machine works for.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tare_lab::arrivals::Arrivals;
use tare_lab::bench::Bench;
use tare_lab::definition::Definition;
use tare_lab::interrupt::Interrupt;
use tare_lab::load::{DriverReport, Load};
use tare_lab::record::{Record, Slice};
use tare_lab::runner::{self, StudyOrder};
use tare_lab::setting::Setting;
use tare_lab::target::ServerTarget;
use tare_lab::workload::{self, SysbenchScript};
use tare_lab::{Error, journal};
use tare_server::installation::Installation;
use tare_testkit::{eventually, turn};

/// A stall every so often: 2 of 100 transactions that arrive meanwhile have to wait.
const STALL: Duration = Duration::from_millis(200);
const EVERY: Duration = Duration::from_secs(10);

/// Connections of each load.
const USERS: u32 = 2;
/// Requests of a connection from which on its load is under way.
const UNDER_WAY: u64 = 50;
/// Time limit for loads to start.
const LIMIT: Duration = Duration::from_secs(60);

/// Passes on what is said to a server and what it answers; nothing while the gate is held.
struct Proxy {
    gate: Arc<Mutex<()>>,
    /// Requests so far, of each connection.
    requests: Arc<Mutex<Vec<Arc<AtomicU64>>>>,
}

impl Proxy {
    fn new(path: &Path, server: &Path) -> Proxy {
        let gate = Arc::new(Mutex::new(()));
        let (listener, server) = (UnixListener::bind(path).expect("a socket"), server.to_owned());
        let (shared, requests) = (Arc::clone(&gate), Arc::default());
        let all: Arc<Mutex<Vec<Arc<AtomicU64>>>> = Arc::clone(&requests);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = UnixStream::connect(&server) else { return };
                let twins = client.try_clone().and_then(|c| Ok((c, server.try_clone()?))).expect("twins");
                let [requests, answers] = [(); 2].map(|()| Arc::default());
                all.lock().expect("the list").push(Arc::clone(&requests));
                pass(client, server, &shared, requests);
                pass(twins.1, twins.0, &shared, answers);
            }
        });
        Proxy { gate, requests }
    }

    /// Returns the number of connections whose load is under way.
    fn busy(&self) -> usize {
        let all = self.requests.lock().expect("the list");
        all.iter().filter(|requests| requests.load(Relaxed) >= UNDER_WAY).count()
    }

    fn stall(&self) {
        let _held = self.gate.lock().expect("the gate");
        std::thread::sleep(STALL);
    }
}

fn pass(mut from: UnixStream, mut to: UnixStream, gate: &Arc<Mutex<()>>, passed: Arc<AtomicU64>) {
    let gate = Arc::clone(gate);
    std::thread::spawn(move || {
        let mut bytes = [0; 16 << 10];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            let _open = gate.lock().expect("the gate");
            if to.write_all(&bytes[..read]).is_err() {
                break;
            }
            passed.fetch_add(1, Relaxed);
        }
        let _ = to.shutdown(Shutdown::Both); // who has gone needs no goodbye
    });
}

/// 99 of 100 take no longer where every connection waits for its answer: only those on the way are held up,
/// and the rest is not even sent. At a rate all that should have been sent are charged.
#[test]
fn a_stall_that_a_closed_loop_hides_is_seen_in_an_open_one() {
    let _turn = turn();
    let points = |arrivals| Load {
        script: SysbenchScript::Stock("oltp_point_select"),
        schema: "sbtest".into(),
        users: USERS,
        options: [("table-size".to_owned(), "1000".to_owned())].into(),
        prepared: true,
        arrivals,
    };
    let (closed, open) = (points(None), points(Some(Arrivals { rate: 200.0, seed: 7 })));
    let bench = Bench::new(Interrupt::default()).expect("a bench");
    let installation = Installation::find(None).expect("a server is installed");
    let template =
        bench.prepare(&installation, &[], std::slice::from_ref(&closed), &mut |_| {}).expect("data");
    let server = bench.start_copy(&template, &Setting::plain("stalls", vec![])).expect("a server");
    let path = bench.folder().join("proxy");
    let proxy = Proxy::new(&path, server.socket());

    let target = ServerTarget::of_socket(&path);
    let seconds = u32::try_from(EVERY.as_secs()).expect("some");
    let drive = |load: &Load| -> DriverReport {
        let drive = bench.driver.start(load, &target, seconds).expect("it starts");
        drive.finish(&Interrupt::default(), &mut |_| Ok(())).expect("a report")
    };
    let (closed, open) = std::thread::scope(|scope| {
        let (closed, open) = (scope.spawn(|| drive(&closed)), scope.spawn(|| drive(&open)));
        eventually("both loads are under way", LIMIT, || proxy.busy() >= 2 * USERS as usize);
        proxy.stall();
        (closed.join().expect("a report"), open.join().expect("a report"))
    });
    let figures = format!(
        "open: {} transactions, p99 {} s; closed: {} transactions, p99 {} s",
        open.transactions, open.latency.p99, closed.transactions, closed.latency.p99
    );
    println!("{figures}");
    // Of about 40 that arrived in the stall, all but the last quarter waited for a quarter of it or longer.
    // Of a closed loop, one of each connection did. Whatever else this machine stalls for is charged in the
    // same way.
    let quarter = STALL.as_secs_f64() / 4.0;
    let waited = |report: &DriverReport| {
        let slow = report.latency.histogram.iter().filter(|(bound, _)| *bound > quarter);
        slow.map(|(_, n)| n).sum::<u64>()
    };
    let (in_open, in_closed) = (waited(&open), waited(&closed));
    assert!(in_open >= 15 && in_open > 4 * in_closed, "{in_open} waited, and {in_closed}; {figures}");
    assert!(open.latency.p99 > closed.latency.p99, "{figures}");
}

const STUDY: &str = r#"
question = "What does a longer sort buffer cost a server that is half idle?"
slice_seconds = 1
blocks = 6
blocks_per_start = 1
minutes = 0.01
precision = 0.01
margin = 0.01

[[server]]
name = "mariadb"
program = "mariadbd"

[[setting]]
name = "short"
switch = ["SET GLOBAL sort_buffer_size = 262144"]

[[setting]]
name = "long"
switch = ["SET GLOBAL sort_buffer_size = 2097152"]

[[workload]]
name = "points"
run = "oltp_point_select"
options = { table-size = 1000 }
users = [2]
rates = [5]
"#;

#[test]
fn a_study_drives_every_setting_at_a_share_of_one_maximum() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let order = StudyOrder {
        credentials: tare_lab::target::AccountPasswords::default(),
        name: "half-idle".into(),
        text: STUDY.into(),
        definition: Definition::read(STUDY, "half_idle.toml", false).expect("a study"),
        quick: false,
        folder: folder.path().into(),
        programs: [].into(),
        preloads: [].into(),
        seed: Some(1),
        budget: None,
        profile: false,
    };
    let analysis = runner::run(&order, &Interrupt::default(), &mut |_| {}).expect("a block");
    let records = journal::read(folder.path()).expect("records");
    let maxima: Vec<f64> =
        records.iter().filter_map(|r| if let Record::Maximum(m) = r { Some(m.tps) } else { None }).collect();
    assert_eq!(maxima.len(), 1, "one for all settings");
    let slices: Vec<&Slice> = records
        .iter()
        .filter_map(|r| if let Record::Slice(s) = r { Some(s.as_ref()) } else { None })
        .collect();
    assert_eq!(slices.len(), 3, "base, A/A control and setting");
    for slice in &slices {
        assert_eq!((slice.cell.percent, slice.turns.len()), (Some(5), 0), "{slice:?}");
        let rate = slice.rate.expect("a rate");
        assert!((rate / maxima[0] - 0.05).abs() < 1e-9, "{rate} of {}", maxima[0]);
        // All that arrived were served: in a block they arrive at the same times.
        assert_eq!(slice.transactions, slices[0].transactions);
        let counted: u64 = slice.latency.histogram.iter().map(|(_, n)| n).sum();
        assert_eq!(counted, slice.transactions, "each has a latency");
        #[allow(clippy::cast_precision_loss)] // some hundreds
        let off = (slice.transactions as f64 - rate).abs() / rate.sqrt();
        assert!(off < 6.0, "{} transactions at {rate} a second", slice.transactions);
    }
    let cell = &analysis.cells[0];
    assert_eq!(cell.cell.to_string(), "points, 2 connections at 5%");
    let rates = cell.rate.zip(slices[0].rate).expect("rates");
    assert_eq!(rates.0, rates.1, "a number is read as it was written");
    for setting in &cell.settings {
        assert!(setting.medians.p999 >= setting.medians.p99, "{}: {:?}", setting.name, setting.medians);
    }
}

/// It has declarations of its own for functions that `paced.lua` uses, too.
#[test]
fn scripts_of_ours_come_at_a_rate_too() {
    let _turn = turn();
    let tpcc = workload::find("tpcc").expect("tpcc");
    let given = [("scale".to_owned(), "0.01".to_owned())].into();
    let load = Load {
        script: tpcc.script,
        schema: "tpcc".into(),
        users: 2,
        options: tpcc.options(&given),
        prepared: true,
        arrivals: Some(Arrivals { rate: 20.0, seed: 3 }),
    };
    let bench = Bench::new(Interrupt::default()).expect("a bench");
    let installation = Installation::find(None).expect("a server is installed");
    let template = bench.prepare(&installation, &[], std::slice::from_ref(&load), &mut |_| {}).expect("data");
    let server = bench.start_copy(&template, &Setting::plain("tpcc", vec![])).expect("a server");
    let report = bench.driver.run(&load, &server.target(), 2, &Interrupt::default(), &mut |_| Ok(()));
    let report = report.expect("a report");
    assert!((14..80).contains(&report.transactions), "{} of 40", report.transactions);
    assert!(tpcc.figures(&report.output, 1.0).contains_key("notpm"), "{}", report.output);
}

#[test]
fn a_load_of_more_than_can_be_served_serves_all_that_arrived() {
    let _turn = turn();
    let bench = Bench::new(Interrupt::default()).expect("a bench");
    let installation = Installation::find(None).expect("a server is installed");
    // More than twice as many as there is room for in the pipe.
    let arrivals = Some(Arrivals { rate: 20_000.0, seed: 3 });
    let load = Load {
        script: SysbenchScript::Stock("oltp_point_select"),
        schema: "sbtest".into(),
        users: 1,
        options: [("table-size".to_owned(), "1000".to_owned())].into(),
        prepared: true,
        arrivals,
    };
    let template = bench.prepare(&installation, &[], std::slice::from_ref(&load), &mut |_| {}).expect("data");
    let server = bench.start_copy(&template, &Setting::plain("small", vec![])).expect("a server");
    let report = bench.driver.run(&load, &server.target(), 1, &Interrupt::default(), &mut |_| Ok(()));
    let report = report.expect("a report");
    assert!((19_000..21_000).contains(&report.transactions), "{}", report.transactions);
    // An interrupt ends it whatever is still waiting.
    let interrupt = Interrupt::default();
    let mut drive = bench.driver.start(&load, &server.target(), 60).expect("it starts");
    drive.until_started(&interrupt).expect("it has started");
    interrupt.flag().store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(matches!(drive.finish(&interrupt, &mut |_| Ok(())), Err(Error::Interrupted)));
}
