//! `/probe`: other servers, with the accounts of an option file's sections; and accounts that are not let in.

use std::fs;
use std::net::TcpListener;

use mysql::prelude::Queryable;
use tare_outlets::Address;
use tare_outlets::export::collector::CollectorOptions;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;

use crate::client::Exporter;

/// A server with an account, and its port.
fn server() -> (Server, u16) {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let settings = StartSettings::new(TestProvider::BuiltIn)
        .option("--skip-networking=0")
        .option("--bind-address=127.0.0.1")
        .option("--plugin-load-add=auth_ed25519")
        .option(format!("--port={port}"));
    let server = Server::start(settings).expect("a server");
    let mut root = server.client().expect("a client");
    for statement in [
        "CREATE USER agent@'127.0.0.1' IDENTIFIED VIA ed25519 USING PASSWORD('right')",
        "GRANT SELECT ON performance_schema.* TO agent@'127.0.0.1'",
    ] {
        root.query_drop(statement).expect("an account");
    }
    (server, port)
}

#[test]
fn a_target_is_probed_with_the_account_of_a_section_that_is_for_it() {
    let _turn = tare_testkit::turn();
    let (server, port) = server();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("my.cnf");
    let write = |password: &str| {
        let text = format!(
            "[client]\nuser=agent\npassword={password}\n[client.one]\nhost=127.0.0.1\nport={port}\n\
             [client.many]\nprobe-targets=127.0.0.1:{port}\n[client.other]\nprobe-targets=db1:3306\n"
        );
        fs::write(&file, text).expect("written");
    };
    write("right");
    let exporter = Exporter::probing(file.clone());
    let probe = |query: &str| {
        let answer = exporter.get(&format!("/probe?{query}"), &[]);
        (answer.status, answer.text())
    };
    for query in [
        format!("target=127.0.0.1:{port}&auth_module=one"),
        format!("auth_module=client.many&target=127.0.0.1%3A{port}"),
    ] {
        let (status, text) = probe(&query);
        assert_eq!(status, 200, "{text}");
        assert!(text.contains("\nmysql_up 1\n"), "{query}: {text}");
        assert!(text.contains("mysql_perf_schema_events_statements_sum_total"), "{query}: {text}");
    }
    for (query, expected, word) in [
        (format!("target=127.0.0.1:{port}"), 403, "[client]"),
        (format!("target=127.0.0.1:{port}&auth_module=other"), 403, "probe-targets"),
        (format!("target=127.0.0.1:{port}&auth_module=none"), 400, "no such section"),
        ("auth_module=one".to_owned(), 400, "target is missing"),
        ("target=127.0.0.1:1&auth_module=one".to_owned(), 403, "not for this target"),
    ] {
        let (status, text) = probe(&query);
        assert_eq!(status, expected, "{query}: {text}");
        assert!(text.contains(word) && !text.contains("right"), "{query}: {text}");
    }
    // The file counts as it is now.
    write("wrong");
    let (status, text) = probe(&format!("target=127.0.0.1:{port}&auth_module=one"));
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("\nmysql_up 0\n"), "{text}");
    drop(server);
}

#[test]
fn an_account_that_is_not_let_in_leaves_the_exporter_well() {
    let _turn = tare_testkit::turn();
    let (server, _) = server();
    let socket = server.socket().display().to_string();
    for account in ["agent:wrong", "agant0:right", "agant1:right", "agant2:right", "agant3:right"] {
        let address =
            Address::dsn(&format!("mysql://{account}@localhost?socket={socket}")).expect("an address");
        let exporter = Exporter::start(address, CollectorOptions::default());
        for _ in 0..2 {
            let answer = exporter.get("/metrics", &[]);
            assert_eq!(answer.status, 200, "{account}");
            assert!(answer.text().contains("\nmysql_up 0\n"), "{account}");
        }
    }
}
