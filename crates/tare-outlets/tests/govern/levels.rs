//! The account of a server with tare: its instruments have the levels that it says itself.

use std::time::Duration;

use mysql::prelude::Queryable;
use tare_budget::Level;
use tare_outlets::Address;
use tare_outlets::govern::{Orders, account};
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;

use super::machine;

#[test]
fn the_account_has_the_levels_that_tare_says() {
    let _turn = tare_testkit::turn();
    let server = Server::start(StartSettings::new(TestProvider::tare())).expect("a server");
    let Some(server) = server.on_its_port() else { return };
    let socket = server.socket().display().to_string();
    let orders = Orders {
        address: Address::dsn(&format!("mysql://root@localhost?socket={socket}")).expect("an address"),
        budget: 1.0,
        budget_p95: None,
        prices: None,
        every: Duration::from_millis(1),
        keep: vec![],
        folder: std::path::PathBuf::new(),
        cores: None,
    };
    let mut root = server.client().expect("a client");
    for (name, level) in [("lean", Level::Lean), ("exact", Level::Exact), ("sums", Level::Sums)] {
        root.query_drop(format!(
            "UPDATE performance_schema.tare_status SET VALUE = '{name}' WHERE NAME = 'level'"
        ))
        .expect("a level");
        let mut wait = |_| {
            (0..50).for_each(|_| root.query_drop("SELECT COUNT(*) FROM mysql.user").expect("a query"));
            true
        };
        let (account, _) =
            account(&orders, &machine(), &mut wait).expect("an account").expect("it has waited");
        let timed =
            account.shares.iter().filter(|it| it.entry.kind.is_timed() && it.entry.level > Level::Counts);
        let levels: Vec<Level> = timed.map(|it| it.entry.level).collect();
        assert!(!levels.is_empty() && levels.iter().all(|it| *it == level), "{name}: {levels:?}");
    }
}
