//! A real FEDERATED table reaches a Unix socket through the redirected `connect`, and its errors arrive as
//! the endpoint gives them. A second stock server plays the endpoint.
#![allow(clippy::unwrap_used)]

mod preload;

use std::path::Path;

use mysql::Conn;
use mysql::prelude::Queryable;
use preload::{Server, Start, example};
use tare_mariadb::redirect;
use tare_testkit::eventually;
use tare_testkit::host::HostProgram;
use tare_testkit::server::LIMIT;

fn endpoint() -> Server {
    let mut start = Start::with_tare();
    start.libraries.clear();
    let server = start.run();
    let mut client = server.client();
    for statement in [
        "create user tare@localhost",
        "create database db",
        "grant all on db.* to tare@localhost",
        "create table db.t (a int primary key, b varchar(20))",
        "insert into db.t values (1, 'x'), (2, 'y')",
        "create trigger db.refuse before update on db.t for each row begin if new.b = 'refuse' then \
         signal sqlstate 'HY000' set mysql_errno = 1683, message_text = 'Invalid performance_schema usage'; \
         elseif new.b = 'other' then \
         signal sqlstate 'HY000' set mysql_errno = 1683, message_text = 'Another text.'; end if; end",
    ] {
        client.query_drop(statement).expect(statement);
    }
    server
}

fn host_of_tables(socket: &Path) -> Server {
    let mut start = Start::with_tare().argument("--plugin-load-add=ha_federatedx");
    start.libraries = vec![example("redirected")];
    let server = start.environment("TARE_EXAMPLE_SOCKET", socket.to_str().unwrap()).run();
    let table = format!("mysql://tare@{}:{}/db/t", redirect::HOST, redirect::PORT);
    let mut client = server.client();
    client.query_drop("create database near").unwrap();
    let create = format!(
        "create table near.t (a int primary key, b varchar(20)) engine=federated connection='{table}'"
    );
    client.query_drop(create).unwrap();
    server
}

fn refused(client: &mut Conn, statement: &str) -> (u16, String) {
    match client.query_drop(statement) {
        Err(mysql::Error::MySqlError(error)) => (error.code, error.message),
        other => panic!("{statement}: {other:?}"),
    }
}

/// The translation is installed by a thread that waits for the server to be up, as the provider's will be.
fn wait_for_translation(client: &mut Conn) {
    let is_translated = || refused(client, "update near.t set b = 'refuse' where a = 1").0 == 1683;
    eventually("errors are translated", LIMIT, is_translated);
}

#[test]
fn a_federated_table_lives_on_a_unix_socket() {
    let _turn = tare_testkit::turn();
    let host = HostProgram::find().unwrap();
    if host.plugins().is_none() {
        println!("skipped: the server comes without plugins, FEDERATED among them");
        return;
    }
    assert!(host.has_federated(), "this test needs the server's FEDERATED plugin");
    let mut far = endpoint();
    let mut near = host_of_tables(&far.socket());
    let mut client = near.client();

    let rows: Vec<(i32, String)> = client.query("select a, b from near.t order by a").unwrap();
    assert_eq!(rows, [(1, "x".to_owned()), (2, "y".to_owned())]);
    client.query_drop("update near.t set b = 'z' where a = 2").unwrap();
    client.query_drop("insert into near.t values (3, 'w')").unwrap();
    assert_eq!(far.value("select group_concat(a, b order by a) from db.t"), "1x,2z,3w");

    wait_for_translation(&mut client);
    let usage = (1683, "Invalid performance_schema usage".to_owned());
    assert_eq!(refused(&mut client, "update near.t set b = 'refuse' where a = 1"), usage);
    let (number, _) = refused(&mut client, "update near.t set b = 'other' where a = 1");
    assert_eq!(number, 1296, "an error that is not the endpoint's stays as it is");

    assert!(far.stop().success());
    let (number, text) = refused(&mut client, "select * from near.t");
    assert_eq!(number, 1429, "{text}");
    assert!(text.contains("127.84.65.82"), "{text}");
    far.resume();
    let rows: Vec<i32> = client.query("select a from near.t order by a").unwrap();
    assert_eq!(rows, [1, 2, 3]);
    assert!(near.stop().success());
}
