//! What the file says of sessions that do one thing all the time: the class of each row, and whom it names.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mysql::prelude::Queryable;
use tare_outlets::{Address, sessions};
use tare_testkit::active_load::{
    ActiveSessions, Clients, SessionActivity, beyond_error, sampling_error, short_statements,
};
use tare_testkit::mysql_server::{Mysql, SERIES};
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;

use super::{Hand, Row, account, await_samples, options, record, rows, whole};

const SAMPLES: usize = 60;
const INTERVAL: Duration = Duration::from_millis(50);
const PATIENT: [&str; 2] = ["--innodb-lock-wait-timeout=600", "--lock-wait-timeout=600"];

fn mariadb(provider: TestProvider) -> Server {
    let settings =
        PATIENT.iter().fold(StartSettings::new(provider), |settings, option| settings.option(*option));
    Server::start(settings.tare_option("ash-interval", "20ms")).expect("a server")
}

/// Records every kind of doing at once, and returns the rows of the load's sessions and of others.
fn recorded(server: &dyn Clients, address: Address) -> (BTreeMap<u32, SessionActivity>, Vec<Row>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ash.jsonl");
    let hand = Hand::default();
    let load = ActiveSessions::all(server);
    let (totals, ()) = record(&options(address, &file, INTERVAL), &hand, || await_samples(&file, SAMPLES));
    let (totals, rows) = (totals.expect("it records"), rows(&file));
    assert_eq!((totals.rows, totals.unwritten), (rows.len() as u64, 0));
    // Whoever holds a lock has an account, also one that is idle throughout.
    let history = sessions::read(&file, &|_, _| false).expect("what top and report read").history;
    let blockers = history.sums(history.whole().expect("rows")).blockers;
    assert!(blockers.iter().any(|it| !it.was_active), "{blockers:?}");
    for blocker in blockers {
        assert_eq!(blocker.account.as_deref(), Some("root@localhost"), "{blocker:?}");
    }
    (load.truth.clone(), rows, hand.told())
}

/// Panics unless a number of `all` rows is what a share makes of them, within the binomial error at 99%.
fn assert_share(rows: u64, all: u64, share: f64, what: &str) {
    #[allow(clippy::cast_precision_loss)] // thousands
    let (rows, all) = (rows as f64, all as f64);
    let (expected, error) = (all * share, sampling_error(all, share));
    assert!((rows - expected).abs() <= error, "{what}: {rows} of {all}, expected {expected} ± {error}");
}

/// Holds rows against the truth; returns the number of rows of each class.
fn judge(truth: &BTreeMap<u32, SessionActivity>, rows: &[Row], what: &str) -> BTreeMap<String, u64> {
    let mut counted: BTreeMap<String, u64> = BTreeMap::new();
    let (mut all, mut otherwise) = (0, vec![]);
    for row in rows {
        let Some((id, doing)) = row.connection().and_then(|id| truth.get_key_value(&id)) else { continue };
        let class = row.text("WAIT_CLASS").expect("a class");
        all += 1;
        *counted.entry(class.to_owned()).or_default() += 1;
        if class != doing.class {
            otherwise.push((*id, doing.class, class.to_owned()));
        }
        assert_eq!(class == "CPU", row.text("STATE") != Some("WAITING"), "{what}: {row:?}");
        match row.number("BLOCKING_PROCESSLIST_ID") {
            Some(blocker) => {
                let is_true = doing.blockers.iter().any(|it| u64::from(*it) == blocker);
                assert!(is_true, "{what}: {row:?} waits for one of {:?}", doing.blockers);
                assert!(row.number("BLOCKING_THREAD_ID").is_some(), "{what}: {row:?}");
            }
            None if class == doing.class && !doing.blockers.is_empty() => {
                panic!("{what}: {row:?} names nobody, and waits for one of {:?}", doing.blockers)
            }
            None => {}
        }
        if class == "ROW LOCK" {
            assert_eq!(row.text("WAIT_EVENT"), Some("wait/lock/row/handler"), "{what}");
            assert_eq!(
                [row.text("OBJECT_SCHEMA"), row.text("OBJECT_NAME")],
                [Some("ash"), Some("t")],
                "{what}"
            );
        }
    }
    assert!(all >= (SAMPLES * truth.len() * 9 / 10) as u64, "{what}: {all} rows of {} sessions", truth.len());
    // A session may just begin to wait again.
    assert!(otherwise.len() as u64 <= all / 50, "{what}: {otherwise:?}");
    let mut expected: BTreeMap<&str, usize> = BTreeMap::new();
    truth.values().for_each(|doing| *expected.entry(doing.class).or_default() += 1);
    for (class, of) in expected {
        #[allow(clippy::cast_precision_loss)] // few
        let share = of as f64 / truth.len() as f64;
        assert_share(counted.get(class).copied().unwrap_or(0), all, share, &format!("{what}, {class}"));
    }
    counted
}

/// No row is about a session that is idle or samples.
fn assert_no_others(truth: &BTreeMap<u32, SessionActivity>, rows: &[Row], what: &str) {
    let others: Vec<&Row> =
        rows.iter().filter(|row| row.connection().is_some_and(|id| !truth.contains_key(&id))).collect();
    // The load's own questions have ended before.
    assert!(others.len() <= 2, "{what}: {others:?}");
}

#[test]
fn mariadbs_own_performance_schema_gives_the_shares_of_tares_history() {
    let _turn = tare_testkit::turn();
    let builtin = mariadb(TestProvider::BuiltIn);
    let (truth, outside, told) = recorded(&builtin, account("root", &builtin.socket()));
    let outside_counts = judge(&truth, &outside, "from outside");
    assert_no_others(&truth, &outside, "from outside");
    assert!(told.contains("sampling took the server"), "{told}");
    drop(builtin);
    let with_tare = mariadb(TestProvider::tare());
    let mut of_ways = vec![outside_counts];
    let over_sql = with_tare.serves_tables().then(|| account("root", &with_tare.socket()));
    for address in over_sql.into_iter().chain([Address::Socket(with_tare.endpoint())]) {
        let what = address.to_string();
        let (truth, own, told) = recorded(&with_tare, address);
        assert!(told.contains("the history that tare keeps"), "{told}");
        of_ways.push(judge(&truth, &own, &what));
        assert_no_others(&truth, &own, &what);
    }
    let share = |counts: &BTreeMap<String, u64>, class: &str| {
        let all: u64 = counts.values().sum();
        #[allow(clippy::cast_precision_loss)] // thousands
        let share = counts.get(class).copied().unwrap_or(0) as f64 / all as f64;
        share
    };
    let [outside, own @ ..] = &of_ways[..] else { panic!("there are two or three") };
    for (class, rows) in outside {
        let all: u64 = outside.values().sum();
        for own in own {
            assert_share(*rows, all, share(own, class).max(0.002), &format!("{class} of both"));
        }
    }
}

#[test]
fn every_mysql_gives_the_true_shares() {
    let _turn = tare_testkit::turn();
    for series in SERIES {
        let Some(server) = Mysql::of_series(series, &PATIENT).expect("a server") else { continue };
        let (truth, rows, told) = recorded(&server, account("root", &server.socket()));
        judge(&truth, &rows, &format!("MySQL {series}"));
        assert_no_others(&truth, &rows, series);
        assert!(told.contains("sampling took the server"), "{told}");
    }
}

/// Time of each digest of the schema `shares`, in picoseconds.
fn times(client: &mut mysql::Conn) -> BTreeMap<String, f64> {
    let sql = "SELECT DIGEST, SUM_TIMER_WAIT FROM performance_schema.events_statements_summary_by_digest \
               WHERE SCHEMA_NAME = 'shares'";
    client.query::<(String, f64), _>(sql).expect("digests").into_iter().collect()
}

fn sampled(file: &Path) -> BTreeMap<String, f64> {
    let mut counted = BTreeMap::new();
    for row in rows(file).iter().filter(|row| row.text("SCHEMA_NAME") == Some("shares")) {
        if let Some(digest) = row.text("DIGEST") {
            *counted.entry(digest.to_owned()).or_default() += 1.0;
        }
    }
    counted
}

struct Ends<'e>(&'e AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn short_statements_of_mysql_appear_in_proportion_to_their_time() {
    let _turn = tare_testkit::turn();
    let Some(server) = Mysql::start(&[]).expect("a server") else { return };
    judge_shares(&server, &account("root", &server.socket()));
}

/// MariaDB tells their digests when they have ended.
#[test]
fn short_statements_of_mariadb_appear_in_proportion_to_their_time() {
    let _turn = tare_testkit::turn();
    let server = mariadb(TestProvider::BuiltIn);
    judge_shares(&server, &account("root", &server.socket()));
}

fn judge_shares(server: &dyn Clients, address: &Address) {
    let mut client = server.connect();
    client.query_drop("CREATE DATABASE shares").expect("a schema");
    let ends = AtomicBool::new(false);
    let mut wrong = vec![];
    std::thread::scope(|scope| {
        // The worker ends also if this thread panics.
        let _end = Ends(&ends);
        scope.spawn(|| {
            let mut client = server.connect();
            client.query_drop("USE shares").expect("a schema");
            for statements in short_statements().take_while(|_| !ends.load(Ordering::Relaxed)) {
                for sql in statements {
                    client.query_drop(sql).expect("a row");
                }
            }
        });
        for window in 0..3 {
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("ash.jsonl");
            let hand = Hand::default();
            client
                .query_drop("TRUNCATE TABLE performance_schema.events_statements_summary_by_digest")
                .expect("emptied");
            let options = options(address.clone(), &file, Duration::from_millis(13));
            let (totals, times) = record(&options, &hand, || {
                await_samples(&file, 250);
                times(&mut client)
            });
            totals.expect("it records");
            let beyond = beyond_error(&times, &sampled(&file));
            if !beyond.is_empty() {
                wrong.push((window, beyond));
            }
            let whole = whole(&file);
            let texts = &whole.table("events_statements_summary_by_digest").expect("texts").rows;
            let is_sleep = |text: &str| text.trim_end() == "SELECT `SLEEP` (?)";
            assert!(texts.iter().any(|row| row[2].text().is_some_and(is_sleep)), "{texts:?}");
        }
    });
    assert!(wrong.len() <= 1, "{wrong:#?}");
}
