//! The way in, on running servers: tare's endpoint, tare through the server's SQL, and accounts that may not.

use mysql::prelude::Queryable;
use tare_outlets::{Address, Error, Kind, Source};
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;

fn server(provider: TestProvider) -> Server {
    Server::start(StartSettings::new(provider)).expect("a server")
}

fn account(server: &Server, name: &str) -> Address {
    let socket = server.socket();
    let socket = socket.to_str().expect("UTF-8").replace('/', "%2F");
    Address::dsn(&format!("mysql://{name}@localhost?socket={socket}")).expect("an address")
}

#[test]
fn the_endpoint_and_the_servers_sql_answer_alike() {
    let _turn = tare_testkit::turn();
    let server = server(TestProvider::tare());
    let mut inside = Source::open(Address::Socket(server.endpoint())).expect("the endpoint");
    let mut outside = Source::open(account(&server, "root")).expect("the server");
    assert_eq!((inside.kind(), outside.kind()), (Kind::Tare, Kind::Tare));
    let columns = ["NAME", "NO_SUCH_COLUMN", "ENABLED"];
    let filter = "WHERE `NAME` = 'idle'";
    let rows = inside.rows("setup_instruments", &columns, filter).expect("rows");
    assert_eq!(rows, outside.rows("setup_instruments", &columns, filter).expect("rows"));
    let row = &rows[0];
    assert_eq!((row.text(0), row.text(1), row.text(2)), (Some("idle".into()), None, Some("YES".into())));
    assert!(inside.columns("no_such_table").expect("asked").is_empty());
}

#[test]
fn what_it_cannot_have_is_told_apart() {
    let _turn = tare_testkit::turn();
    let mut server = server(TestProvider::tare());
    let mut root = server.client().expect("a client");
    root.query_drop("CREATE USER nobody@localhost").expect("an account");
    let mut nobody = Source::open(account(&server, "nobody")).expect("it may connect");
    assert_eq!(nobody.kind(), Kind::MariaDb, "what it may not read it does not know of");
    let refused = nobody.rows("accounts", &["USER"], "").expect_err("without a right");
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    let wrong = Source::open(account(&server, "stranger:secret")).err().expect("no such account");
    assert!(matches!(wrong, Error::Refused { .. }) && !wrong.to_string().contains("secret"), "{wrong}");
    server.stop().expect("it stops");
    let gone = Source::open(account(&server, "root")).err().expect("nobody listens");
    assert!(gone.is_passing(), "{gone}");
}

#[test]
fn a_server_that_takes_nobody_now_may_answer_later() {
    let _turn = tare_testkit::turn();
    let settings = StartSettings::new(TestProvider::BuiltIn).option("--max-connections=10");
    let server = Server::start(settings).expect("a server");
    let mut root = server.client().expect("a client");
    root.query_drop("CREATE USER nobody@localhost").expect("an account");
    let open = || Source::open(account(&server, "nobody"));
    let mut sources = vec![];
    let full = loop {
        match open() {
            Ok(source) => sources.push(source),
            Err(error) => break error,
        }
        assert!(sources.len() <= 10, "it takes more than it may");
    };
    assert!(full.is_passing() && full.to_string().contains("Too many connections"), "{full}");
    let mut source = sources.pop().expect("it took some");
    let asking = std::thread::spawn(move || source.ask("SELECT SLEEP(9)").map(|_| ()));
    let victim = "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO = 'SELECT SLEEP(9)'";
    let victim: u64 = loop {
        if let Some(id) = root.query_first(victim).expect("asked") {
            break id;
        }
    };
    root.query_drop(format!("KILL {victim}")).expect("killed");
    let killed = asking.join().expect("no panic").expect_err("its connection is gone");
    assert!(killed.is_passing(), "{killed}");
}

#[test]
fn of_a_server_whose_tare_does_not_answer_it_says_why() {
    let _turn = tare_testkit::turn();
    let server = server(TestProvider::tare());
    let (endpoint, away) = (server.endpoint(), server.endpoint().with_extension("away"));
    std::fs::rename(&endpoint, &away).expect("moved away");
    server.client().expect("a client").query_drop("FLUSH TABLES").expect("flushed");
    let mut source = Source::open(account(&server, "root")).expect("the server answers");
    assert_eq!(source.kind(), Kind::Tare);
    let error = source.rows("tare_status", &["NAME"], "").expect_err("nobody listens").to_string();
    assert!(error.contains("tare_status") && error.contains("foreign data source"), "{error}");
    std::fs::rename(&away, &endpoint).expect("moved back");
}

#[test]
fn an_address_that_cannot_be_one_keeps_its_password() {
    for given in [
        "mysql//root@h",
        "http://root:secret@h",
        "mysql://root:secret@h:port",
        "mysql://root:secret@h?sokcet=/x",
    ] {
        let error = Address::dsn(given).expect_err(given).to_string();
        assert!(error.contains("is allowed") && !error.contains("secret"), "{error}");
    }
}
