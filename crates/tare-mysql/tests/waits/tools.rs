//! The tools at tare's own socket, without an account.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tare_outlets::top::look::View;
use tare_outlets::top::once;
use tare_outlets::top::read::Reader;
use tare_outlets::top::state::State;
use tare_outlets::{Address, Source, snapshot};
use tare_testkit::active_load::ActiveSessions;

use crate::socket::path;
use crate::subject;

/// Returns what `tare top --once` prints.
pub fn top(socket: &Address, view: View) -> String {
    let mut reader = Reader::open(socket.clone()).expect("tare's socket");
    let mut state = State::new(view, Duration::from_millis(200), "");
    once::look_twice(&mut reader, &mut state, &AtomicBool::new(false))
        .unwrap_or_else(|error| panic!("{view:?}: {error}"));
    once::text(&state, 200, 10)
}

#[test]
fn top_says_what_it_sees_and_names_what_it_lacks() {
    let Some(server) = subject(&[]) else { return };
    let load = ActiveSessions::all(&server);
    let active = load.truth.len();
    // One connection is the load's own.
    let connections = active + load.idle_list().split(',').count() + 1;
    let socket = Address::Socket(path(&server));
    for view in View::ALL {
        let shown = top(&socket, view);
        assert!(shown.starts_with("MySQL "), "{shown}");
        let head = shown.lines().nth(1).unwrap_or_default();
        // Once it has asked the server's own socket, its connection there is one of them.
        let said = |count| head.contains(&format!("  {count} connections, {active} active"));
        assert!(said(connections) || said(connections + 1), "{shown}");
    }
    assert!(top(&socket, View::Statements).contains("statements/s"));
    assert!(top(&socket, View::Memory).contains("innodb/buf_buf_pool"));
    let threads = top(&socket, View::Threads);
    assert!(threads.contains(&format!("   {active} active")), "{threads}");
    assert!(threads.contains("SELECT SLEEP(600)") && threads.contains("Waiting for t"), "{threads}");
    let locks = top(&socket, View::Locks);
    assert!(!locks.contains("Not there"), "{locks}");
    for waits in ["ALTER TABLE m", "SELECT GET_LOCK", "UPDATE t SET v"] {
        assert!(locks.contains(waits), "{locks}");
    }
}

#[test]
fn a_snapshot_has_every_table() {
    let Some(server) = subject(&[]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("all.jsonl");
    let mut source = Source::open(Address::Socket(path(&server))).expect("tare's socket");
    let tables = source.tables().expect("tables");
    let choice = snapshot::TableChoice { tables: vec![], text: true };
    let header = snapshot::header(&mut source, &choice).expect("a header");
    let target = snapshot::SnapshotTarget::named(&file).expect("a file");
    snapshot::write(&target, &header, false, |sink| snapshot::take(&mut source, &choice, sink, &|| false))
        .expect("saved");
    let saved = snapshot::Snapshot::read(&file, &|_, _| true).unwrap_or_else(|error| panic!("{error}"));
    for table in tables {
        assert!(saved.table(&table).is_some(), "{table}");
    }
}
