//! The server's cache of host names: addresses that have connected, and their errors.

use std::net::TcpListener;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::shared_turn;
use tare_testkit::subject::TestProvider;

/// A server that takes connections from addresses and looks their names up.
fn listening(provider: TestProvider) -> (Server, u16) {
    // Between here and the server's start somebody else may take it; then the server does not start and says
    // so.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = StartSettings::new(provider)
        .option("--skip-networking=OFF")
        .option("--skip-name-resolve=OFF")
        .option("--bind-address=0.0.0.0")
        .option(format!("--port={port}"));
    (Server::start(settings).unwrap(), port)
}

fn connect(address: &str, port: u16, user: &str) -> bool {
    let options =
        OptsBuilder::new().ip_or_hostname(Some(address)).tcp_port(port).user(Some(user)).prefer_socket(false);
    Conn::new(options).is_ok()
}

/// The cache, without times that differ between any two servers, by address.
fn cached(server: &Server) -> Vec<String> {
    let mut conn = server.client().unwrap();
    let sql = "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'performance_schema' \
               AND TABLE_NAME = 'host_cache' AND COLUMN_NAME NOT LIKE '%SEEN' ORDER BY ORDINAL_POSITION";
    let columns: Vec<String> = conn.query(sql).unwrap();
    let columns: Vec<String> =
        columns.iter().map(|name| format!("'{name}=', IFNULL({name}, 'NULL')")).collect();
    let sql = format!(
        "SELECT CONCAT_WS(' ', {}, FIRST_SEEN <= LAST_SEEN AND FIRST_SEEN > NOW() - INTERVAL 1 HOUR, \
         FIRST_ERROR_SEEN IS NULL, LAST_ERROR_SEEN > NOW() - INTERVAL 1 HOUR) \
         FROM performance_schema.host_cache ORDER BY IP",
        columns.join(", ")
    );
    conn.query(sql).unwrap()
}

/// What is seen before, and after connections from an address of several kinds.
fn seen(server: &Server, port: u16) -> Vec<Vec<String>> {
    let mut admin = server.client().unwrap();
    for sql in ["CREATE USER ann@'127.%'", "CREATE USER bob@'127.%' IDENTIFIED BY 'secret'"] {
        admin.query_drop(sql).unwrap();
    }
    let mut found = vec![cached(server)];
    // The server looks only addresses outside of 127.0.0.1 up.
    for (user, enters) in [("ann", true), ("bob", false), ("nobody", false), ("ann", true)] {
        let address = own_address();
        assert!(connect("127.0.0.1", port, user) == enters, "{user}");
        connect(&address, port, user);
        found.push(cached(server));
    }
    admin.query_drop("GRANT ALL ON *.* TO ann@'%' IDENTIFIED VIA mysql_native_password").unwrap();
    connect(&own_address(), port, "ann");
    found.push(cached(server));
    admin.query_drop("FLUSH HOSTS").unwrap();
    found.push(cached(server));
    found
}

/// An address of this machine that is not the loopback one; that one where there is none.
fn own_address() -> String {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    // Nothing is sent: connecting only chooses the way out.
    match socket.connect("192.0.2.1:9") {
        Ok(()) => socket.local_addr().unwrap().ip().to_string(),
        Err(_) => "127.0.0.1".to_owned(),
    }
}

#[test]
fn addresses_that_connected_are_those_the_built_in_shows() {
    let _turn = shared_turn();
    if own_address() == "127.0.0.1" {
        println!(
            "skipped: this machine has no address but the loopback one, which the server does not look up"
        );
        return;
    }
    let (subject, port) = listening(TestProvider::under_test());
    let Some(subject) = subject.on_its_port() else { return };
    let found = seen(&subject, port);
    drop(subject);
    let (reference, port) = listening(TestProvider::BuiltIn);
    let expected = seen(&reference, port);
    assert!(expected.iter().any(|rows| !rows.is_empty()), "{expected:#?}");
    assert!(expected[0].is_empty());
    assert_eq!(found, expected);
}
