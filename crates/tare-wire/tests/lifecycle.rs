//! How an endpoint begins and ends.

mod fixture;

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, mpsc};

use fixture::*;
use tare_wire::{Endpoint, EndpointError, LISTENER};

#[test]
fn the_socket_is_its_owners_and_goes_with_the_endpoint() {
    let mut served = served();
    let file = fs::symlink_metadata(&served.path).unwrap();
    assert!(file.file_type().is_socket());
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    assert_eq!(served.endpoint.stop(), 0);
    assert!(!served.path.exists());
    assert_eq!(served.endpoint.stop(), 0);
}

#[test]
fn a_dead_servers_socket_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tare.sock");
    // Closing a listener leaves its file behind, as a killed server does; so does dying before the rename.
    drop(UnixListener::bind(&path).unwrap());
    drop(UnixListener::bind(folder.path().join("tare.sock.new")).unwrap());
    let _endpoint = Endpoint::start(config(path.clone())).unwrap();
    UnixStream::connect(&path).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_live_servers_socket_is_refused() {
    let served = served();
    match Endpoint::start(config(served.path.clone())) {
        Err(EndpointError::InUse { path }) => assert_eq!(path, served.path),
        other => panic!("{other:?}"),
    }
    assert_eq!(rows(&mut served.client(), "SELECT 1").len(), 1);
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tare.sock");
    fs::write(&path, "precious").unwrap();
    assert!(matches!(Endpoint::start(config(path.clone())), Err(EndpointError::NotASocket { .. })));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    for impossible in [folder.path().join("nowhere/tare.sock"), folder.path().join("x".repeat(200))] {
        assert!(matches!(Endpoint::start(config(impossible)), Err(EndpointError::Socket { .. })));
    }
}

#[test]
fn an_endpoint_without_threads_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tare.sock");
    let mut config = config(path.clone());
    config.spawn = |_, _| Err(io::ErrorKind::OutOfMemory.into());
    assert!(matches!(Endpoint::start(config), Err(EndpointError::Thread(_))));
    assert!(!path.exists());
}

#[test]
fn a_panic_of_the_thread_that_accepts_leaves_no_socket_and_reaches_the_host() {
    static HEARD: Mutex<Option<mpsc::Sender<String>>> = Mutex::new(None);
    let (sender, heard) = mpsc::channel();
    *HEARD.lock().unwrap() = Some(sender);
    let served = served_with(|config| {
        config.spawn = |name, work| {
            // It is the thread that accepts that starts those of connections.
            assert_eq!(name, LISTENER, "no thread for a connection");
            let told = HEARD.lock().unwrap().take().unwrap();
            spawn(
                name,
                Box::new(move || {
                    let panic = catch_unwind(AssertUnwindSafe(work)).expect_err("it panics");
                    told.send(panic.downcast_ref::<String>().unwrap().clone()).unwrap();
                }),
            )
        };
    });
    let _client = served.raw();
    let text = heard.recv().unwrap();
    assert!(text.contains("no thread for a connection"), "{text}");
    assert!(!served.path.exists(), "nobody would answer there");
}

#[test]
fn a_connection_without_a_thread_is_told_so() {
    let served = served_with(|config| {
        config.spawn = |name, work| {
            if name == LISTENER { spawn(name, work) } else { Err(io::ErrorKind::OutOfMemory.into()) }
        };
    });
    for _ in 0..3 {
        let mut stream = served.raw();
        assert_eq!(packet(&mut stream).unwrap().1[..3], [0xff, 0x6f, 0x04], "1135, no thread");
        assert!(packet(&mut stream).is_none());
    }
    assert_eq!(served.endpoint.connections(), 0);
}

#[test]
fn stop_disconnects_the_idle_the_busy_and_the_slow() {
    let mut served = served();
    let mut idle = served.client();
    let mut half = served.raw();
    send(&mut half, &login()[..10]);
    let mut slow = served.raw();
    packet(&mut slow).unwrap();
    send(&mut slow, &login());
    packet(&mut slow).unwrap();
    send(&mut slow, &framed(0, b"\x03SELECT * FROM big"));
    packet(&mut slow).unwrap();
    // Zero threads left means that none of them waited for its client.
    assert_eq!(served.endpoint.stop(), 0);
    assert!(idle.ping().is_err());
    assert!(UnixStream::connect(&served.path).is_err());
    while packet(&mut slow).is_some() {}
}

#[test]
fn stop_leaves_a_successors_socket_alone() {
    let mut served = served();
    fs::remove_file(&served.path).unwrap();
    let _successor = Endpoint::start(config(served.path.clone())).unwrap();
    served.endpoint.stop();
    UnixStream::connect(&served.path).unwrap();
}

#[test]
fn threads_have_names_one_can_recognise() {
    let served = served();
    let _client = served.client();
    let names: Vec<String> = fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .collect();
    for wanted in ["tare-listen", "tare-conn-1"] {
        assert!(names.iter().any(|name| name.trim_end() == wanted), "{names:?}");
    }
}
