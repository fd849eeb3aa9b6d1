//! A governor on stock servers, look by look: what happens between two looks the test does itself.

#[path = "govern/counts.rs"]
mod counts;
#[path = "govern/levels.rs"]
mod levels;
#[path = "govern/lost.rs"]
mod lost;
#[path = "govern/rights.rs"]
mod rights;

use std::cell::RefCell;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_budget::board::Why;
use tare_budget::{CostAccount, Decision, Kind, Level, Prices};
use tare_outlets::Address;
use tare_outlets::govern::{Error, GovernorEvent, Notice, Orders, PutBack, ServerMachine, govern, put_back};
use tare_testkit::mysql_server::{Mysql, SERIES};
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tempfile::TempDir;

/// A process that uses a thousand seconds whenever one looks, beside which reading the counts is nothing: so
/// that shares do not depend on the machine.
static SECONDS: AtomicU64 = AtomicU64::new(0);

fn machine() -> ServerMachine {
    let cpu = |_| Some(Duration::from_secs(SECONDS.fetch_add(1000, Ordering::Relaxed)));
    ServerMachine { find: Box::new(|_| Some(1)), cpu, thread_cpu: |_, _| None, work_ns: Box::new(|| 1.0) }
}

/// Prices beside which a thousand seconds are little: a second an event, and nothing when it is off.
fn dear() -> Prices {
    let cost = |level: &str, ns: f64| format!("{level} = {{ ns = {ns:?}, low = {ns:?}, high = {ns:?} }}\n");
    let levels = [cost("off", 0.0), cost("counts", 5e8), cost("sums", 1e9), cost("exact", 1.2e9)].concat();
    let kinds = Kind::ALL.map(|kind| format!("[price.{kind}]\n{levels}")).concat();
    let origin = "[origin]\nprovider = 'mysql'\nserver = ''\nmachine = ''\nmeasured = false\nhow = ''\n";
    Prices::read(&format!("{origin}{kinds}")).expect("prices")
}

/// A machine that is elsewhere.
fn elsewhere() -> ServerMachine {
    ServerMachine {
        find: Box::new(|_| None),
        cpu: |_| None,
        thread_cpu: |_, _| None,
        work_ns: Box::new(|| 1.0),
    }
}

const STATEMENTS: [&str; 8] = [
    "CREATE USER governor@localhost IDENTIFIED BY 'secret'",
    "GRANT SELECT ON performance_schema.* TO governor@localhost",
    "GRANT UPDATE ON performance_schema.setup_instruments TO governor@localhost",
    "GRANT UPDATE ON performance_schema.setup_consumers TO governor@localhost",
    "CREATE USER reader@localhost IDENTIFIED BY 'secret'",
    "CREATE DATABASE load_of_test",
    "CREATE TABLE load_of_test.rows_of_test (n INT)",
    "INSERT INTO load_of_test.rows_of_test VALUES (1), (2), (3), (4), (5)",
];

/// A server, whichever it is.
struct Host {
    mariadb: Option<Server>,
    mysql: Option<Mysql>,
    folder: TempDir,
}

impl Host {
    fn new(mariadb: Option<Server>, mysql: Option<Mysql>) -> Host {
        let host = Host { mariadb, mysql, folder: tempfile::tempdir().expect("a folder") };
        STATEMENTS.iter().for_each(|statement| host.root().query_drop(statement).expect(statement));
        host
    }

    fn mariadb() -> Host {
        let server = Server::start(StartSettings::new(TestProvider::BuiltIn)).expect("a server");
        Host::new(Some(server), None)
    }

    /// Every server there is here.
    fn all() -> Vec<Host> {
        let mysql = |series| Mysql::of_series(series, &[]).expect("MySQL starts");
        let mysql = SERIES.into_iter().filter_map(mysql).map(|mysql| Host::new(None, Some(mysql)));
        [Host::mariadb()].into_iter().chain(mysql).collect()
    }

    fn root(&self) -> Conn {
        match (&self.mariadb, &self.mysql) {
            (Some(server), _) => server.client(),
            (_, Some(server)) => server.client(),
            _ => unreachable!("one of them"),
        }
        .expect("a connection")
    }

    fn address(&self, account: &str) -> Address {
        let socket = match (&self.mariadb, &self.mysql) {
            (Some(server), _) => server.socket(),
            (_, Some(server)) => server.socket(),
            _ => unreachable!("one of them"),
        };
        Address::dsn(&format!("mysql://{account}@localhost?socket={}", socket.display())).expect("an address")
    }

    fn orders(&self, budget: f64) -> Orders {
        Orders {
            address: self.address("governor:secret"),
            budget,
            budget_p95: None,
            prices: None,
            every: Duration::from_millis(1),
            keep: vec![],
            folder: self.folder.path().to_owned(),
            cores: None,
        }
    }

    /// With prices of the test's own.
    fn dear_orders(&self) -> Orders {
        Orders { prices: Some(dear()), ..self.orders(BUDGET) }
    }

    /// Every row a governor could touch.
    fn settings(&self) -> Vec<(String, String, Option<String>)> {
        let mut root = self.root();
        let mut rows: Vec<(String, String, Option<String>)> = root
            .query("SELECT NAME, ENABLED, TIMED FROM performance_schema.setup_instruments ORDER BY NAME")
            .expect("instruments");
        let consumers: Vec<(String, String, Option<String>)> = root
            .query("SELECT NAME, ENABLED, NULL FROM performance_schema.setup_consumers")
            .expect("consumers");
        rows.extend(consumers);
        rows
    }

    fn load(&self) {
        let mut root = self.root();
        (0..200).for_each(|_| {
            root.query_drop("SELECT COUNT(*) FROM load_of_test.rows_of_test").expect("a query")
        });
    }

    fn nothing_owed(&self) -> bool {
        std::fs::read_dir(self.folder.path()).expect("the folder").next().is_none()
    }

    /// Gives the right that was taken back, and puts all back that was owed for want of it.
    fn put_back_with_the_right(&self, before: &[(String, String, Option<String>)]) {
        self.root().query_drop(STATEMENTS[2]).expect("granted");
        put_back(self.address("governor:secret"), self.folder.path(), &mut |_| {}).expect("it puts back");
        assert_eq!(self.settings(), before);
        assert!(self.nothing_owed());
    }
}

/// Governs for some looks; before each, `between` is called with its number. Gives what was told.
fn run(
    orders: &Orders,
    looks: usize,
    leave: bool,
    mut between: impl FnMut(usize),
) -> (Vec<GovernorEvent>, Result<(), Error>) {
    let mut events = vec![];
    let mut nth = 0;
    let mut wait = |_| {
        between(nth);
        nth += 1;
        nth <= looks
    };
    let done = govern(orders, &machine(), leave, &mut wait, &mut |event| events.push(event));
    (events, done)
}

fn decisions(events: &[GovernorEvent]) -> Vec<&Decision> {
    let each = events.iter();
    each.filter_map(|event| match event {
        GovernorEvent::Looked { decision, .. } => Some(decision.as_ref()),
        _ => None,
    })
    .collect()
}

fn notices(events: &[GovernorEvent]) -> Vec<&Notice> {
    let each = events.iter();
    each.filter_map(|event| match event {
        GovernorEvent::Noticed(notice) => Some(notice),
        _ => None,
    })
    .collect()
}

fn put_backs(events: &[GovernorEvent]) -> Vec<&PutBack> {
    let each = events.iter();
    each.filter_map(|event| match event {
        GovernorEvent::PutBack(done) => Some(done),
        _ => None,
    })
    .collect()
}

/// A budget that nothing fits which has events.
const BUDGET: f64 = 0.01;

#[test]
fn what_is_over_the_budget_is_switched_off_and_put_back_in_the_end() {
    let _turn = tare_testkit::turn();
    for host in Host::all() {
        let before = host.settings();
        let (events, done) = run(&host.dear_orders(), 8, false, |nth| {
            host.load();
            if nth == 2 {
                assert_ne!(host.settings(), before, "something is off");
                assert!(!host.nothing_owed());
            }
        });
        done.expect("it governs");
        let decisions = decisions(&events);
        let moves: usize = decisions.iter().map(|it| it.moves.len()).sum();
        assert!(moves > 20 && decisions.iter().all(|it| it.can_be_kept), "{moves} moves");
        // Without the reading of the counts: looks follow each other here as no governor's do, and it is most
        // of what is left.
        let of_events =
            |account: &CostAccount| account.shares.iter().map(|it| account.share_of(it.cost).ns).sum::<f64>();
        let shares: Vec<f64> = decisions.iter().map(|it| of_events(&it.account)).collect();
        // An instrument whose first event comes late is over the budget for one look, whoever's it is.
        assert!(shares[0] > 1.0 && shares[1..].iter().any(|share| *share <= BUDGET), "{shares:?}");
        assert!(put_backs(&events)[0].rows > 20 && put_backs(&events)[0].left.is_empty());
        assert_eq!(host.settings(), before);
        assert!(host.nothing_owed());
    }
}

/// Creates a [`machine`] with threads whose time goes by likewise.
fn machine_with_threads() -> ServerMachine {
    let thread_cpu = |_, _| Some(Duration::from_secs(1 + SECONDS.fetch_add(1000, Ordering::Relaxed)));
    ServerMachine { thread_cpu, ..machine() }
}

#[test]
fn connections_that_are_slowed_have_a_budget_of_their_own() {
    let _turn = tare_testkit::turn();
    for host in Host::all() {
        let before = host.settings();
        let orders = Orders { budget: 1e6, budget_p95: Some(0.01), ..host.dear_orders() };
        let mut connection = host.root();
        let mut events = vec![];
        let mut nth = 0;
        let mut wait = |_| {
            (0..200).for_each(|_| {
                connection.query_drop("SELECT COUNT(*) FROM load_of_test.rows_of_test").expect("a query");
            });
            nth += 1;
            nth <= 6
        };
        let machine = machine_with_threads();
        govern(&orders, &machine, false, &mut wait, &mut |event| events.push(event)).expect("it governs");
        let slowed: Vec<f64> =
            decisions(&events).iter().filter_map(|it| it.slowed.map(|it| it.share)).collect();
        assert!(slowed[0] > 1.0 && slowed[slowed.len() - 1] <= 0.01, "{slowed:?}");
        let moves = || decisions(&events).into_iter().flat_map(|it| &it.moves);
        assert!(moves().any(|it| matches!(it.why, Why::Slow { .. })));
        // What is off costs connections nothing: that statements are begun is no matter here.
        assert!(!moves().any(|it| it.switch.starts_with("statement/abstract/")));
        assert_eq!(host.settings(), before);

        let refused = govern(&orders, &elsewhere(), false, &mut |_| false, &mut |_| {});
        let refused = refused.expect_err("nobody knows what connections use").to_string();
        assert!(refused.contains("--budget-p95") || refused.contains("--cores"), "{refused}");
    }
}

#[test]
fn a_budget_that_is_large_enough_moves_nothing() {
    let _turn = tare_testkit::turn();
    let host = Host::mariadb();
    let before = host.settings();
    let (events, done) = run(&host.orders(0.9), 3, false, |_| host.load());
    done.expect("it governs");
    let decisions = decisions(&events);
    assert!(decisions.len() == 3 && decisions.iter().all(|it| it.moves.is_empty() && it.can_be_kept));
    assert!(decisions[0].account.shares.iter().any(|it| it.entry.name == "statement/sql/select"));
    assert!(decisions[0].account.own > 0.0, "reading the counts is in the account");
    assert_eq!(host.settings(), before);
}

#[test]
fn what_somebody_sets_meanwhile_and_what_is_kept_is_left_alone() {
    let _turn = tare_testkit::turn();
    let host = Host::mariadb();
    let before = host.settings();
    let mut orders = host.dear_orders();
    orders.keep = vec!["statement/sql/%".to_owned(), "events_statements_%".to_owned()];
    let by_hand = |sql: &str| host.root().query_drop(sql).expect(sql);
    let handler = "wait/io/table/sql/handler";
    let is_on = |name: &str| host.settings().into_iter().any(|row| row.0 == name && row.1 == "YES");
    let (events, done) = run(&orders, 4, false, |nth| {
        host.load();
        if nth == 0 {
            by_hand("UPDATE performance_schema.setup_instruments SET TIMED = 'NO' WHERE NAME = 'idle'");
        }
        if nth == 2 {
            assert!(!is_on(handler));
            by_hand(&format!(
                "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME = '{handler}'"
            ));
        }
        if nth == 2 {
            assert!(is_on(handler) && is_on("idle") && is_on("statement/sql/select"));
        }
    });
    done.expect("it governs");
    let person = |name: &str| Notice::Person { name: name.to_owned() };
    assert_eq!(notices(&events), [&person("idle"), &person(handler)]);
    let moved: Vec<&str> =
        decisions(&events).iter().flat_map(|it| it.moves.iter().map(|it| it.switch.as_str())).collect();
    assert!(
        !moved.contains(&"idle") && !moved.iter().any(|it| it.starts_with("statement/sql/")),
        "{moved:?}"
    );
    let expected = before.into_iter().map(|row| match row.0.as_str() {
        "idle" => (row.0, row.1, Some("NO".to_owned())),
        _ => row,
    });
    assert_eq!(host.settings(), expected.collect::<Vec<_>>(), "all is as it was, or as they set it");
}

#[test]
fn after_a_kill_the_next_takes_over_or_only_puts_back() {
    let _turn = tare_testkit::turn();
    for host in Host::all() {
        let before = host.settings();
        let kill = |orders: &Orders| {
            let told = RefCell::new(vec![]);
            let mut nth = 0;
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let mut wait = |_| {
                    host.load();
                    nth += 1;
                    // Nothing of it runs on: as after kill -9, the file is what is left.
                    if nth == 2 {
                        std::panic::resume_unwind(Box::new("killed"))
                    }
                    true
                };
                govern(orders, &machine(), false, &mut wait, &mut |event| told.borrow_mut().push(event))
            }));
            assert!(ended.is_err());
            told.into_inner()
        };
        kill(&host.dear_orders());
        assert_ne!(host.settings(), before);
        let events = kill(&host.dear_orders());
        assert!(matches!(notices(&events)[0], Notice::TakenOver { rows } if *rows > 20), "{events:?}");
        let mut events = vec![];
        put_back(host.address("governor:secret"), host.folder.path(), &mut |event| events.push(event))
            .expect("it puts back");
        assert!(put_backs(&events)[0].rows > 20, "{events:?}");
        assert_eq!(host.settings(), before);
        assert!(host.nothing_owed());
    }
}

#[test]
fn a_server_that_is_restarted_is_governed_anew() {
    let _turn = tare_testkit::turn();
    let host = RefCell::new(Host::mariadb());
    let before = host.borrow().settings();
    let orders = host.borrow().dear_orders();
    let (events, done) = run(&orders, 8, false, |nth| {
        let host = &mut *host.borrow_mut();
        if nth == 3 {
            let server = host.mariadb.as_mut().expect("MariaDB");
            server.kill();
        } else if nth == 5 {
            // Starts are told apart by seconds.
            std::thread::sleep(Duration::from_secs(4));
            host.mariadb.as_mut().expect("MariaDB").resume().expect("it starts");
        }
        if !(3..5).contains(&nth) {
            host.load();
        }
    });
    done.expect("it governs");
    assert!(events.iter().any(|it| matches!(it, GovernorEvent::Lost(_))), "{events:?}");
    assert!(events.iter().any(|it| matches!(it, GovernorEvent::Back { restarted: true })), "{events:?}");
    let moves = decisions(&events).iter().filter(|it| !it.moves.is_empty()).count();
    assert!(moves >= 2, "before and after");
    assert_eq!(host.borrow().settings(), before);
    assert!(host.borrow().nothing_owed());
}

#[test]
fn who_cannot_govern_is_told_why_and_nothing_is_changed() {
    let _turn = tare_testkit::turn();
    for host in Host::all() {
        let before = host.settings();
        let says = |account: &str| {
            let orders = Orders { address: host.address(account), ..host.dear_orders() };
            run(&orders, 2, false, |_| host.load()).1.expect_err(account).to_string()
        };
        assert!(says("governor:wrong").contains("Access denied"), "{}", says("governor:wrong"));
        let reader = says("reader:secret");
        assert!(reader.contains("GRANT"), "{reader}");
        host.root().query_drop("GRANT SELECT ON performance_schema.* TO reader@localhost").expect("a grant");
        let reader = says("reader:secret");
        assert!(reader.contains("reader@localhost") && reader.contains("GRANT UPDATE"), "{reader}");
        let (_, second) = run(&host.dear_orders(), 1, false, |nth| {
            if nth == 0 {
                let (events, refused) = run(&host.dear_orders(), 1, false, |_| {});
                assert!(events.is_empty());
                let refused = refused.expect_err("one is enough").to_string();
                assert!(refused.contains("another governor is at work (connection "), "{refused}");
            }
        });
        second.expect("the first goes on");
        let mut told = vec![];
        let unknown =
            govern(&host.dear_orders(), &elsewhere(), false, &mut |_| false, &mut |event| told.push(event));
        // MySQL's own count, since 8.0.28.
        let counts = before.iter().any(|(name, ..)| name == "events_statements_cpu");
        match unknown {
            Ok(()) => assert!(
                counts
                    && matches!(&told[0],
                GovernorEvent::Began { meter, .. } if meter == "CPU time as the server counts it")
            ),
            Err(unknown) => {
                let unknown = unknown.to_string();
                assert!(!counts && unknown.contains("--pid"), "{unknown}");
                assert!(unknown.contains("--cores"), "{unknown}");
            }
        }
        assert_eq!(host.settings(), before);
        assert!(host.nothing_owed());
    }
}

#[test]
fn a_right_that_is_lost_meanwhile_leaves_what_is_owed_in_the_file() {
    let _turn = tare_testkit::turn();
    let host = Host::mariadb();
    let before = host.settings();
    let revoke = "REVOKE UPDATE ON performance_schema.setup_instruments FROM governor@localhost";
    let (_, done) = run(&host.dear_orders(), 3, false, |nth| {
        host.load();
        if nth == 2 {
            host.root().query_drop(revoke).expect("revoked");
        }
    });
    // Everything is off by then, so only putting back needs the right.
    let said = done.expect_err("it may not").to_string();
    assert!(said.contains("GRANT UPDATE ON performance_schema.setup_instruments"), "{said}");
    assert!(!host.nothing_owed());
    host.put_back_with_the_right(&before);
}

#[test]
fn settings_that_are_left_stay() {
    let _turn = tare_testkit::turn();
    let host = Host::mariadb();
    let before = host.settings();
    let (events, done) = run(&host.dear_orders(), 2, true, |_| host.load());
    done.expect("it governs");
    assert!(matches!(events.last(), Some(GovernorEvent::Left(rows)) if *rows > 20), "{events:?}");
    assert_ne!(host.settings(), before);
    assert!(host.nothing_owed());
}

#[test]
fn what_cannot_be_switched_is_not_tried() {
    let _turn = tare_testkit::turn();
    for host in Host::all() {
        let (events, done) = run(&host.dear_orders(), 2, false, |_| host.load());
        done.expect("it governs");
        let is_fixed = |name: &str| name.starts_with("memory/performance_schema/");
        let moves = || decisions(&events).into_iter().flat_map(|it| &it.moves);
        assert!(moves().count() > 20 && !moves().any(|it| is_fixed(&it.switch)));
    }
}

#[test]
fn a_file_that_cannot_be_written_stops_it_before_anything_is_changed() {
    let _turn = tare_testkit::turn();
    let host = Host::mariadb();
    let before = host.settings();
    let file = host.folder.path().join("no-folder");
    std::fs::write(&file, "").expect("written");
    let orders = Orders { folder: file.clone(), ..host.dear_orders() };
    let said = run(&orders, 2, false, |_| host.load()).1.expect_err("it may not").to_string();
    assert!(said.contains("no-folder") && said.contains("--state"), "{said}");
    assert_eq!(host.settings(), before);
    assert!(Path::new(&file).is_file());
}

#[test]
fn systemd_accepts_the_unit() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/systemd/tare-govern.service");
    let text = std::fs::read_to_string(&unit).expect("the unit");
    // It is checked where tare and its manual may not be installed.
    let text: String =
        text.lines().filter(|it| !it.starts_with("Documentation=")).map(|it| format!("{it}\n")).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("tare-govern.service");
    std::fs::write(&copy, text.replace("/usr/bin/tare", "/bin/true")).expect("written");
    let Ok(output) = Command::new("systemd-analyze").arg("verify").arg(&copy).output() else {
        println!("skipped: there is no systemd-analyze");
        return;
    };
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let about: Vec<&str> = said.lines().filter(|line| line.contains("tare-govern")).collect();
    assert!(about.is_empty() && output.status.success(), "{said}");
}
