//! Clients of other processes: the faults of FEDERATED are not theirs, whatever they call themselves.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

mod fixture;

use std::path::Path;
use std::process::Command;

use fixture::{client_at, names, served_with};
use mysql::prelude::Queryable;

/// Holds the endpoint's socket for the child of the test below.
const SOCKET: &str = "TARE_TEST_SOCKET";

#[test]
fn who_only_calls_itself_federated_means_what_it_says() {
    if let Some(path) = std::env::var_os(SOCKET) {
        return ask(Path::new(&path));
    }
    let served = served_with(|config| {
        config.name_inside = Some(|name| (name == "things-7f").then(|| "things".to_owned()));
    });
    // A program of its own: who runs the same one as the endpoint's host is another server.
    let program = served.path.with_file_name("client");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let child = Command::new(&program)
        .args(["--exact", "who_only_calls_itself_federated_means_what_it_says"])
        .env(SOCKET, &served.path)
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    let mut host = served.federated();
    let asked = "SELECT `SMALL` FROM `things-7f` WHERE  (`NAME` = 'idle')";
    assert_eq!(names(&mut host, asked), ["8"], "the child came as far as its last statement");
    // The host's own FEDERATED means another thing by the same words.
    let range = "SELECT `NAME` FROM `things-7f` WHERE  (`DELTA` IS NOT NULL ) AND ( (`DELTA` < 3) )";
    assert_eq!(names(&mut host, range), ["wait/io/file/sql/FRM", "wait/synch/mutex/sql/LOCK_open", "idle"]);
    let other = "UPDATE `things-7f` SET `ENABLED` = 'NO' WHERE `NAME` = 'idle' AND `AMOUNT` = 99";
    host.query_drop(other).unwrap();
    assert_eq!(host.affected_rows(), 1);
}

/// What the child does: as the user that FEDERATED's tables log in as, from a process of its own.
fn ask(path: &Path) {
    let mut client = client_at(path, "tare").unwrap();
    let range = "SELECT NAME FROM things WHERE DELTA IS NOT NULL AND DELTA < 3";
    assert_eq!(names(&mut client, range), ["wait/io/file/sql/FRM", "idle"]);
    let mut affected = |sql: &str| {
        client.query_drop(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        client.affected_rows()
    };
    for sql in [
        "UPDATE things SET ENABLED = 'NO' WHERE NAME = 'idle' AND AMOUNT = 99",
        "UPDATE things SET SMALL = 1 WHERE DELTA IS NULL AND DELTA IS NOT NULL",
        "DELETE FROM things WHERE NAME = 'idle' AND ENABLED = 'NO'",
    ] {
        assert_eq!(affected(sql), 0, "{sql}");
    }
    assert_eq!(affected("UPDATE things SET SMALL = 8 WHERE NAME = 'idle' AND AMOUNT = 3"), 1);
}
