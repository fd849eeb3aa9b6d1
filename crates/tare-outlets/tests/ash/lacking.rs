//! Servers that do not collect what a sample needs, and accounts that may not read it.

use std::time::Duration;

use mysql::prelude::Queryable;
use tare_outlets::Address;
use tare_outlets::ash::{AshError, Destination, Rotation};
use tare_testkit::active_load::{ActiveSessions, Until};
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;

use super::{Hand, account, await_samples, options, record, rows};

/// Records at an address that is refused; returns what is said.
fn refused(address: Address) -> (AshError, bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ash.jsonl");
    let options = options(address, &file, Duration::from_millis(50));
    let error = tare_outlets::ash::run(&options, &Hand::default()).expect_err("nothing to sample");
    (error, file.exists())
}

#[test]
fn a_server_without_a_performance_schema_is_refused_with_what_to_do() {
    let _turn = tare_testkit::shared_turn();
    let server = Server::start(StartSettings::new(TestProvider::Off)).expect("a server");
    let (error, has_file) = refused(account("root", &server.socket()));
    assert!(matches!(error, AshError::Off(_)), "{error}");
    assert!(error.to_string().contains("performance_schema = ON"), "{error}");
    assert!(!has_file, "nothing is begun");
}

#[test]
fn an_account_without_rights_is_told_which_it_needs() {
    let _turn = tare_testkit::shared_turn();
    for provider in [TestProvider::BuiltIn, TestProvider::tare()] {
        let server = Server::start(StartSettings::new(provider)).expect("a server");
        let Some(server) = server.on_its_port() else { continue };
        let mut admin = server.client().expect("a client");
        admin.query_drop("CREATE USER visitor@localhost").expect("an account");
        let (error, has_file) = refused(account("visitor", &server.socket()));
        assert!(error.to_string().contains("GRANT SELECT ON performance_schema.*"), "{error}");
        assert!(!has_file, "nothing is begun");
        // With it, only InnoDB's row locks are unknown, which is said; over tare's history all is known.
        admin.query_drop("GRANT SELECT ON performance_schema.* TO visitor@localhost").expect("granted");
        let mut load = ActiveSessions::new(&server);
        load.busy(&[], "SELECT SLEEP(600)", &Until::State("User sleep"), "SLEEP");
        load.row_locks(1);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("ash.jsonl");
        let hand = Hand::default();
        let options = options(account("visitor", &server.socket()), &file, Duration::from_millis(100));
        record(&options, &hand, || await_samples(&file, 5)).0.expect("it records");
        let is_known = rows(&file).iter().any(|row| row.text("WAIT_CLASS") == Some("ROW LOCK"));
        assert_eq!(is_known, !hand.told().contains("the privilege PROCESS"), "{}", hand.told());
    }
}

#[test]
fn what_a_server_does_not_collect_is_said_once_and_left_out() {
    let _turn = tare_testkit::shared_turn();
    let server = Server::start(StartSettings::new(TestProvider::BuiltIn)).expect("a server");
    let mut admin = server.client().expect("a client");
    for sql in [
        "UPDATE performance_schema.setup_consumers SET ENABLED = 'NO' WHERE NAME LIKE 'events_%_current'",
        "UPDATE performance_schema.setup_instruments SET ENABLED = 'NO' WHERE NAME LIKE 'wait/lock/metadata/%'",
    ] {
        admin.query_drop(sql).expect("switched off");
    }
    let mut load = ActiveSessions::new(&server);
    load.row_locks(1);
    let waiter = *load.truth.keys().next().expect("one waits");
    let sleeper = load.busy(&[], "SELECT SLEEP(600)", &Until::State("User sleep"), "SLEEP");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ash.jsonl");
    let hand = Hand::default();
    let options = options(account("root", &server.socket()), &file, Duration::from_millis(100));
    record(&options, &hand, || await_samples(&file, 5)).0.expect("it records");
    let told = hand.told();
    for name in [
        "events_statements_current",
        "events_stages_current",
        "events_waits_current",
        "wait/lock/metadata/sql/mdl",
    ] {
        let said = told
            .lines()
            .filter(|line| line.contains(name) && line.contains("UPDATE performance_schema."))
            .count();
        assert_eq!(said, 1, "{name}: {told}");
    }
    for row in rows(&file) {
        assert_eq!(row.text("DIGEST").or(row.text("OPERATION")), None, "{row:?}");
        if row.connection() == Some(waiter) {
            assert_eq!(row.text("WAIT_CLASS"), Some("ROW LOCK"), "{row:?}");
            assert_eq!(
                [row.text("OBJECT_SCHEMA"), row.text("OBJECT_NAME")],
                [Some("ash"), Some("t")],
                "{row:?}"
            );
        }
        if row.connection() == Some(sleeper) {
            assert_eq!(row.text("WAIT_CLASS"), Some("SLEEP"), "{row:?}");
            assert_eq!(row.text("STAGE"), Some("stage/sql/User sleep"), "told from the list of processes");
        }
    }
}

#[test]
fn what_is_no_regular_file_is_not_rotated() {
    let _turn = tare_testkit::shared_turn();
    let server = Server::start(StartSettings::new(TestProvider::BuiltIn)).expect("a server");
    let mut options =
        options(account("root", &server.socket()), "/dev/null".as_ref(), Duration::from_secs(1));
    options.destination =
        Destination::File("/dev/null".into(), Rotation { size: Some(1), time: None, keep: 1 });
    let error = tare_outlets::ash::run(&options, &Hand::default()).expect_err("it would be moved away");
    assert!(error.to_string().contains("leave --rotate-size"), "{error}");
}
