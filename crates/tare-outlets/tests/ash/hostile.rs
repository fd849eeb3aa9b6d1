//! Destinations that are in use, full or something else, a server that is impatient, and an account that is
//! dropped.

use std::error::Error as _;
use std::fs;
use std::time::Duration;

use mysql::prelude::Queryable;
use tare_outlets::Address;
use tare_outlets::ash::columns::DIGESTS;
use tare_outlets::ash::{AshError, Destination, Rotation, run};
use tare_outlets::snapshot::Value;
use tare_testkit::active_load::{ActiveSessions, Until};
use tare_testkit::eventually;
use tare_testkit::server::{LIMIT, Server, StartSettings};
use tare_testkit::subject::TestProvider;

use super::{Hand, account, await_samples, options, record, samples, whole};

const INTERVAL: Duration = Duration::from_millis(20);

fn server() -> Server {
    Server::start(StartSettings::new(TestProvider::BuiltIn)).expect("a server")
}

/// A load of one session that sleeps.
fn sleeper(server: &Server) -> ActiveSessions<'_> {
    let mut load = ActiveSessions::new(server);
    load.busy(&[], "SELECT SLEEP(600)", &Until::State("User sleep"), "SLEEP");
    load
}

#[test]
fn what_is_no_history_is_not_added_to() {
    let _turn = tare_testkit::shared_turn();
    let server = server();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    let snapshot = "{\"snapshot\":{\"format\":1,\"tare\":\"0\",\"taken_at\":\"a\",\"address\":\"db\",\"provider\":\"mysql\",\
                    \"version\":\"9\",\"started_at\":null,\"text\":false}}\n";
    for text in ["# Time: 2026-11-30T10:42:00\nSELECT 1;\n", "x", "{}\n", snapshot, "\u{1f}\u{8b}\u{8}"] {
        fs::write(&file, text).expect("written");
        let options = options(account("root", &server.socket()), &file, INTERVAL);
        let error = run(&options, &Hand::default()).expect_err("it is something else");
        assert!(matches!(error, AshError::Foreign(_)), "{text}: {error}");
        assert!(error.to_string().contains("name another file"), "{error}");
        assert_eq!(fs::read_to_string(&file).expect("a file"), text, "as it was");
    }
    // What was cut within its first line is nobody else's.
    for cut in ["", "{\"sna", "{\"snapshot\":{\"format", "\0\0\0"] {
        fs::write(&file, cut).expect("written");
        let options = options(account("root", &server.socket()), &file, INTERVAL);
        let hand = Hand::default();
        record(&options, &hand, || hand.wait_for("samples "))
            .0
            .unwrap_or_else(|error| panic!("{cut}: {error}"));
    }
}

#[test]
fn a_destination_that_cannot_be_opened_is_said_once() {
    let _turn = tare_testkit::shared_turn();
    let server = server();
    let folder = tempfile::tempdir().expect("a folder");
    for path in [folder.path().to_owned(), folder.path().join("none/file")] {
        let options = options(account("root", &server.socket()), &path, INTERVAL);
        let error = run(&options, &Hand::default()).expect_err("no file");
        assert!(error.to_string().contains("(os error"), "{error}");
        assert!(error.source().is_none(), "the text has it already");
    }
}

#[test]
fn a_file_has_one_writer() {
    let _turn = tare_testkit::shared_turn();
    let server = server();
    let _load = sleeper(&server);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ash.jsonl");
    let mut options = options(account("root", &server.socket()), &file, INTERVAL);
    options.destination =
        Destination::File(file.clone(), Rotation { size: Some(8 << 10), time: None, keep: 100 });
    let refused = || {
        let error = run(&options, &Hand::default()).expect_err("two would mix");
        assert!(matches!(error, AshError::Busy(_)), "{error}");
    };
    let hand = Hand::default();
    record(&options, &hand, || {
        await_samples(&file, 3);
        refused();
        // Also the file that rotation has begun.
        eventually("rotation", LIMIT, || folder.path().join("ash.jsonl.1").exists());
        await_samples(&file, samples(&file) + 3);
        refused();
    })
    .0
    .expect("it records");
    let before = samples(&file);
    record(&options, &Hand::default(), || await_samples(&file, before + 3)).0.expect("nobody else does now");
}

#[test]
fn what_does_not_fit_is_counted_in_samples() {
    let _turn = tare_testkit::shared_turn();
    let server = server();
    let _load = sleeper(&server);
    let options = options(account("root", &server.socket()), "/dev/full".as_ref(), INTERVAL);
    let hand = Hand::default();
    let (totals, ()) = record(&options, &hand, || hand.wait_for("samples are left out"));
    let totals = totals.expect("it goes on");
    assert_eq!((totals.samples, totals.rows), (0, 0), "none is written");
    let told = hand.told();
    assert_eq!(told.matches("left out").count(), 1, "said once: {told}");
    // Without a session that is active there is no sample, and nothing is missing.
    drop(_load);
    let hand = Hand::default();
    let (totals, ()) = record(&options, &hand, || hand.wait_for("samples are left out"));
    assert!(totals.expect("it goes on").unwritten <= 2, "a header is no sample");
}

#[test]
fn a_server_that_ends_idle_connections_keeps_this_one() {
    let _turn = tare_testkit::shared_turn();
    let settings = StartSettings::new(TestProvider::BuiltIn).option("--wait-timeout=1");
    let server = Server::start(settings).expect("a server");
    let mut admin = server.client().expect("a client");
    let own = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'root' AND ID <> CONNECTION_ID() \
               AND COMMAND = 'Sleep' AND TIME > 2";
    admin.query_drop("SET wait_timeout = 600").expect("patience");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ash.jsonl");
    let options = options(account("root", &server.socket()), &file, Duration::from_secs(60));
    let hand = Hand::default();
    record(&options, &hand, || {
        hand.wait_for("samples ");
        eventually("it is idle and stays", LIMIT, || {
            admin.query_first::<u64, _>(own).expect("an answer") == Some(1)
        });
    })
    .0
    .expect("it records");
    assert!(!hand.told().contains("waiting for the server"), "{}", hand.told());
}

#[test]
fn an_account_that_is_dropped_ends_it() {
    let _turn = tare_testkit::shared_turn();
    let server = server();
    let mut admin = server.client().expect("a client");
    for sql in ["CREATE USER visitor@localhost", "GRANT SELECT ON performance_schema.* TO visitor@localhost"]
    {
        admin.query_drop(sql).expect("an account");
    }
    let _load = sleeper(&server);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ash.jsonl");
    let options = options(account("visitor", &server.socket()), &file, INTERVAL);
    let hand = Hand::default();
    let (result, ()) = record(&options, &hand, || {
        await_samples(&file, 3);
        admin.query_drop("DROP USER visitor@localhost").expect("dropped");
        let id = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'visitor'";
        for id in admin.query::<u64, _>(id).expect("its connection") {
            drop(admin.query_drop(format!("KILL {id}")));
        }
        // It finds out when it connects.
        hand.wait_for("waiting for the server");
    });
    // Unless it was ended before.
    let error = result.err().map(|error| error.to_string());
    assert!(error.as_ref().is_none_or(|error| error.contains("Access denied")), "{error:?}");
    assert!(samples(&file) >= 3, "what was written is readable");
}

#[test]
fn a_history_that_is_switched_off_is_said_and_goes_on() {
    let _turn = tare_testkit::shared_turn();
    let settings = StartSettings::new(TestProvider::tare()).tare_option("ash-interval", "20ms");
    let Some(server) = Server::start(settings).expect("a server").on_its_port() else { return };
    let mut admin = server.client().expect("a client");
    let mut set = |interval: &str| {
        let sql = format!(
            "UPDATE performance_schema.tare_status SET VALUE = '{interval}' WHERE NAME = 'ash_interval'"
        );
        admin.query_drop(sql).expect("set");
    };
    let _load = sleeper(&server);
    let folder = tempfile::tempdir().expect("a folder");
    for (name, address) in
        [("account", account("root", &server.socket())), ("socket", Address::Socket(server.endpoint()))]
    {
        let file = folder.path().join(name);
        let options = options(address, &file, INTERVAL);
        let hand = Hand::default();
        let count = |text: &str| hand.told().matches(text).count();
        record(&options, &hand, || {
            hand.wait_for("reads the history");
            for turn in 1..=2 {
                let before = samples(&file);
                await_samples(&file, before + 3);
                assert_eq!(count("was switched off"), turn - 1, "{name}: it is on: {}", hand.told());
                set("OFF");
                eventually("it is said", LIMIT, || count("was switched off") == turn);
                // It is asked again, and nothing more is said.
                std::thread::sleep(Duration::from_millis(2500));
                assert_eq!(count("was switched off"), turn, "{name}: once: {}", hand.told());
                set("20ms");
                eventually("it goes on", LIMIT, || count("keeps its history again") == turn);
            }
            await_samples(&file, samples(&file) + 3);
        })
        .0
        .unwrap_or_else(|error| panic!("{name}: {error}"));
        // It has not ended once, so no summary has its text.
        let snapshot = whole(&file);
        let texts = &snapshot.table(DIGESTS).expect("texts").rows;
        let is_told = texts
            .iter()
            .flatten()
            .filter_map(Value::text)
            .any(|text| text.trim_end() == "SELECT `SLEEP` (?)");
        assert!(is_told, "{name}: {texts:?}");
    }
}
