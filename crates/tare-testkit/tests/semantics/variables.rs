//! The server's own variables about the Performance Schema, as clients ask them.

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::shared_turn;
use tare_testkit::subject::TestProvider;

/// A server with the provider under test and these sizes, whichever way they are told it; `None` where its
/// tables cannot be read through the server.
fn server(sizes: &[(&str, u64)]) -> Option<Server> {
    let settings = StartSettings::new(TestProvider::under_test());
    let settings = sizes.iter().fold(settings, |settings, (name, size)| settings.provider_option(name, size));
    Server::start(settings).unwrap().on_its_port()
}

/// Names and values SHOW answers with.
fn shown(conn: &mut Conn, sql: &str) -> Vec<(String, String)> {
    conn.query(sql).unwrap()
}

/// One value of them.
fn value(conn: &mut Conn, what: &str, name: &str) -> String {
    let found = shown(conn, &format!("SHOW GLOBAL {what} LIKE '{name}'"));
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    found[0].1.clone()
}

fn number(conn: &mut Conn, sql: &str) -> Option<i64> {
    conn.query_first(sql).unwrap()
}

#[test]
fn the_performance_schema_is_on_and_tells_its_sizes() {
    let _turn = shared_turn();
    let sizes = [
        ("digests-size", 321),
        ("max-mutex-classes", 300),
        ("max-mutex-instances", 4000),
        ("max-table-handles", 900),
        ("max-file-handles", 8000),
        ("setup-actors-size", 77),
        ("accounts-size", 101),
        ("users-size", 102),
        ("hosts-size", 103),
        ("session-connect-attrs-size", 500),
        ("max-digest-length", 512),
        ("max-sql-text-length", 700),
        ("events-waits-history-size", 31),
        ("events-stages-history-size", 32),
        ("events-statements-history-size", 33),
        ("events-transactions-history-size", 34),
        ("events-waits-history-long-size", 1031),
        ("events-stages-history-long-size", 1032),
        ("events-statements-history-long-size", 1033),
        ("events-transactions-history-long-size", 1034),
    ];
    let Some(server) = server(&sizes) else { return };
    let mut conn = server.client().unwrap();
    assert_eq!(number(&mut conn, "SELECT @@performance_schema"), Some(1));
    assert_eq!(value(&mut conn, "VARIABLES", "performance\\_schema"), "ON");
    for (name, size) in sizes {
        let name = name.replace('-', "_");
        let told = number(&mut conn, &format!("SELECT @@performance_schema_{name}"));
        assert_eq!(told, Some(i64::try_from(size).unwrap()), "{name}");
        let like = format!("performance_schema_{name}");
        assert_eq!(value(&mut conn, "VARIABLES", &like), size.to_string(), "{name}");
    }
    for (name, size) in shown(&mut conn, "SHOW VARIABLES LIKE 'performance\\_schema\\_%'") {
        assert!(size.parse::<i64>().is_ok_and(|size| size >= -1), "{name} is {size}");
    }
    // They are read-only, and still are.
    let refused = crate::error(&mut conn, "SET GLOBAL performance_schema = 0").unwrap();
    assert_eq!(refused.0, 1238, "{refused:?}");
}

#[test]
fn rules_the_server_is_told_are_the_providers_and_wrong_ones_are_left_out() {
    let _turn = shared_turn();
    let rules = ["wait/io/file/%=OFF", "stage/%=COUNTED", "%=FOO", ""];
    let settings = StartSettings::new(TestProvider::under_test())
        .option("--performance-schema-consumer-events-waits-history=OFF");
    let settings = rules
        .into_iter()
        .fold(settings, |settings, rule| settings.option(format!("--performance-schema-instrument={rule}")));
    let tare = settings.provider.is_tare();
    let Some(server) = Server::start(settings).unwrap().on_its_port() else { return };
    let mut conn = server.client().unwrap();
    for (name, expected) in [
        ("wait/io/file/sql/binlog", ("NO", "NO")),
        ("stage/sql/init", ("YES", "NO")),
        ("statement/sql/select", ("YES", "YES")),
    ] {
        let sql = "SELECT ENABLED, TIMED FROM performance_schema.setup_instruments WHERE NAME = ?";
        let found: (String, String) = conn.exec_first(sql, (name,)).unwrap().unwrap();
        assert_eq!((&*found.0, &*found.1), expected, "{name}");
    }
    let sql = "SELECT ENABLED FROM performance_schema.setup_consumers WHERE NAME = 'events_waits_history'";
    assert_eq!(conn.query_first::<String, _>(sql).unwrap().as_deref(), Some("NO"));
    if tare {
        let log = server.log();
        let told =
            log.lines().filter(|line| line.contains("tare") && line.contains("instrument: wrong value"));
        assert_eq!(told.count(), 2, "one line each:\n{log}");
    }
}

#[test]
fn sizes_the_server_is_told_are_the_providers() {
    let _turn = shared_turn();
    let settings = StartSettings::new(TestProvider::under_test())
        .option("--performance_schema_digests_size=3")
        .option("--loose-performance-schema-max-rwlock-instances=5000")
        .option("--performance_schema_max_table_handles")
        .option("700")
        .option("--performance-schema-users-size=50")
        .option("--performance-schema-hosts-size=-1")
        .tare_option("users-size", 60);
    let tare = settings.provider.is_tare();
    let Some(server) = Server::start(settings).unwrap().on_its_port() else { return };
    let mut conn = server.client().unwrap();
    let mut size = |name: &str| number(&mut conn, &format!("SELECT @@performance_schema_{name}")).unwrap();
    assert_eq!(size("digests_size"), 3);
    assert_eq!(size("max_rwlock_instances"), 5000);
    assert_eq!(size("max_table_handles"), 700);
    if tare {
        assert_eq!(
            [size("users_size"), size("hosts_size")],
            [60, 1000],
            "its own option wins, and -1 is its own size"
        );
    }
    for at in 0..20 {
        conn.query_drop(format!("SELECT {}1", "1+".repeat(at))).unwrap();
    }
    let sql = "SELECT COUNT(*) FROM performance_schema.events_statements_summary_by_digest WHERE DIGEST IS NOT NULL";
    let digests = number(&mut conn, sql).unwrap();
    assert!((1..=3).contains(&digests), "{digests}");
}

#[test]
fn what_was_lost_is_shown_under_the_references_names() {
    let _turn = shared_turn();
    let Some(server) = server(&[("session-connect-attrs-size", 10)]) else { return };
    for _ in 0..20 {
        // Each says more of itself than fits.
        server.client().unwrap();
    }
    let mut conn = server.client().unwrap();
    let lost = shown(&mut conn, "SHOW GLOBAL STATUS LIKE 'performance_schema%'");
    let names: Vec<&str> = lost.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), 30, "{names:?}");
    for name in ["Performance_schema_accounts_lost", "Performance_schema_users_lost"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let name = "Performance_schema_session_connect_attrs_lost";
    let attributes: u64 = value(&mut conn, "STATUS", name).parse().unwrap();
    assert!(attributes >= 20, "{attributes}");
    assert_eq!(value(&mut conn, "STATUS", "Performance_schema_locker_lost"), "0");
    // Each of the ways to ask, and none of them twice.
    for table in ["information_schema.GLOBAL_STATUS", "performance_schema.global_status"] {
        let sql = format!("SELECT VARIABLE_VALUE FROM {table} WHERE VARIABLE_NAME = '{name}'");
        let found: Vec<u64> = conn.query(sql).unwrap();
        assert!(found.len() == 1 && found[0] >= attributes, "{found:?}");
    }
    if server.settings.provider.is_tare() {
        let status = server.schema().unwrap().tare_status().unwrap();
        let lost: u64 = status["session_connect_attrs_lost"].parse().unwrap();
        assert!(lost >= attributes, "{status:?}");
        assert_eq!(status["server_variables"], "ON");
    }
    // Servers that do not know GLOBAL here mean it.
    if conn.query_drop("FLUSH GLOBAL STATUS").is_err() {
        conn.query_drop("FLUSH STATUS").unwrap();
    }
    let left: u64 = value(&mut conn, "STATUS", name).parse().unwrap();
    assert!(left < attributes, "{left} of {attributes}");
}

#[test]
fn sessions_may_ask_at_the_same_time() {
    let _turn = shared_turn();
    let Some(server) = server(&[]) else { return };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut conn = server.client().unwrap();
                for _ in 0..50 {
                    assert_eq!(shown(&mut conn, "SHOW STATUS LIKE 'performance_schema%'").len(), 30);
                    assert_eq!(number(&mut conn, "SELECT @@performance_schema"), Some(1));
                    conn.query_drop("FLUSH STATUS").unwrap();
                }
            });
        }
    });
    let mut server = server;
    let (_, status) = server.stop().unwrap();
    assert!(status.success(), "{status}\n{}", server.log());
}

/// What the variables say without a provider: their own state.
fn untouched(server: &Server) {
    let mut conn = server.client().unwrap();
    assert_eq!(number(&mut conn, "SELECT @@performance_schema"), Some(0));
    assert_eq!(value(&mut conn, "VARIABLES", "performance_schema_digests_size"), "-1");
    assert_eq!(shown(&mut conn, "SHOW GLOBAL STATUS LIKE 'performance_schema%'").len(), 30);
}

#[test]
fn they_stay_as_they_are_when_told_so_and_without_tables_to_speak_of() {
    let _turn = shared_turn();
    if !TestProvider::under_test().is_tare() {
        println!("skipped: about settings of tare's own");
        return;
    }
    for (option, row) in [("server-variables", "OFF"), ("tables", "OFF")] {
        let provider = TestProvider::Tare(vec![(option.into(), "OFF".into())]);
        let server = Server::start(StartSettings::new(provider)).unwrap();
        untouched(&server);
        let status = server.endpoint_schema().unwrap().tare_status().unwrap();
        assert_eq!(status["server_variables"], row, "{option}");
    }
    // Nobody could read the tables: the server has no storage engine for them.
    let settings = StartSettings::new(TestProvider::under_test()).option("--plugin-load=");
    let mut server = Server::start(settings).unwrap();
    untouched(&server);
    let status = server.endpoint_schema().unwrap().tare_status().unwrap();
    assert!(status["server_variables"].starts_with("OFF: the tables could not be read"), "{status:?}");
    assert!(server.log().contains("@@performance_schema stays OFF"), "{}", server.log());
    // And the next start without tare knows nothing of it.
    server.stop().unwrap();
    server.settings = StartSettings::new(TestProvider::Off);
    server.resume().unwrap();
    untouched(&server);
}
