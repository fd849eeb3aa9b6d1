//! A primary and its replica: what the replica's threads do is recorded as by the built-in, and what is
//! changed in the primary's `performance_schema` stays there.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

use mysql::Conn;
use mysql::prelude::Queryable;
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use tare_testkit::eventually;
use tare_testkit::host::HostProgram;
use tare_testkit::server::{LIMIT, Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tare_testkit::turn;

struct Pair {
    primary: Server,
    replica: Server,
}

/// What the primary executes: transactions of both formats, some that the applier may run at once.
const WORK: &[&str] = &[
    "CREATE DATABASE r",
    "CREATE TABLE r.t (a INT PRIMARY KEY, b INT) ENGINE=InnoDB",
    "SET SESSION binlog_format = ROW",
    "INSERT INTO r.t VALUES (1, 1), (2, 2), (3, 3)",
    "UPDATE r.t SET b = b + 1 WHERE a < 3",
    "BEGIN",
    "DELETE FROM r.t WHERE a = 3",
    "INSERT INTO r.t VALUES (4, 4)",
    "COMMIT",
    "SET SESSION binlog_format = STATEMENT",
    "INSERT INTO r.t VALUES (5, 5)",
    // Another domain may be applied at the same time.
    "SET SESSION gtid_domain_id = 7",
    "CREATE TABLE r.u (a INT PRIMARY KEY) ENGINE=InnoDB",
    "INSERT INTO r.u VALUES (1), (2)",
    "SET SESSION gtid_domain_id = 0",
    "BEGIN",
    "UPDATE r.t SET b = 50 WHERE a = 5",
    "INSERT INTO r.t VALUES (6, 6)",
    "COMMIT",
    "ALTER TABLE r.t ADD COLUMN c INT",
    "INSERT INTO r.t VALUES (7, 7, 7)",
];

/// Changes that are the primary's own affair, in either format.
const OWN: &[&str] = &[
    "SET SESSION binlog_format = STATEMENT",
    "UPDATE performance_schema.setup_consumers SET ENABLED = 'NO' WHERE NAME = 'events_waits_history'",
    "SET SESSION binlog_format = ROW",
    "UPDATE performance_schema.setup_instruments SET TIMED = 'NO' WHERE NAME LIKE 'stage/%'",
    "UPDATE performance_schema.setup_actors SET ENABLED = 'NO'",
    "INSERT INTO performance_schema.setup_objects VALUES ('TABLE', 'r', '%', 'NO', 'NO')",
    "TRUNCATE TABLE performance_schema.events_statements_summary_global_by_event_name",
];

/// What somebody may try with the tables on a primary. A replica without tare has none of what only tare has.
const ATTEMPTS: &[&str] = &[
    "DROP VIEW performance_schema.global_status",
    "DROP VIEW IF EXISTS performance_schema.session_status",
    "DROP TABLE performance_schema.threads",
    "DROP TABLE performance_schema.tare_status",
    "DROP TABLE IF EXISTS performance_schema.accounts, performance_schema.tare_status",
    "DROP TABLE performance_schema.missing",
    "DROP SEQUENCE performance_schema.threads",
    "CREATE TABLE r.a LIKE performance_schema.accounts",
    "CREATE TEMPORARY TABLE r.b LIKE performance_schema.accounts",
    "CREATE TABLE r.c LIKE performance_schema.global_status",
    "CREATE TABLE r.d SELECT * FROM performance_schema.accounts",
    "CREATE OR REPLACE TABLE performance_schema.threads (a INT)",
    "CREATE OR REPLACE TABLE performance_schema.tare_status (a INT)",
    "CREATE OR REPLACE SEQUENCE performance_schema.threads",
    "CREATE OR REPLACE VIEW performance_schema.global_status AS SELECT 1",
    "CREATE VIEW performance_schema.v AS SELECT 1",
    "ALTER VIEW performance_schema.global_status AS SELECT 1",
    "ALTER TABLE performance_schema.threads ADD COLUMN x INT",
    "ALTER TABLE performance_schema.threads ENGINE = InnoDB",
    "ALTER TABLE performance_schema.threads RENAME TO r.e",
    "RENAME TABLE performance_schema.threads TO r.e",
    "RENAME TABLE performance_schema.global_status TO r.f",
    "RENAME TABLE r.t TO performance_schema.threads",
    "CREATE TRIGGER performance_schema.x BEFORE UPDATE ON performance_schema.threads FOR EACH ROW SET @x = 1",
    "CREATE INDEX x ON performance_schema.threads (NAME)",
    "DROP INDEX THREAD_ID ON performance_schema.threads",
    "ANALYZE TABLE performance_schema.threads, performance_schema.tare_status",
    "OPTIMIZE TABLE performance_schema.threads, performance_schema.tare_status",
    "REPAIR TABLE performance_schema.threads, performance_schema.tare_status",
    "REPAIR VIEW performance_schema.global_status",
    "FLUSH TABLES performance_schema.threads",
    "TRUNCATE TABLE performance_schema.global_status",
    "TRUNCATE TABLE performance_schema.accounts",
    "DELETE FROM performance_schema.setup_actors",
    "REPLACE INTO performance_schema.setup_actors VALUES ('h', 'u', '%', 'NO', 'NO')",
    "INSERT INTO r.t SELECT 100 + COUNT(*), 1 FROM performance_schema.threads",
];

/// Tables whose rows are changed above.
const SETUP: [&str; 4] = ["setup_consumers", "setup_instruments", "setup_actors", "setup_objects"];

impl Pair {
    /// `workers` is how many threads the replica applies with, besides its own.
    fn start(provider: TestProvider, workers: u32) -> Pair {
        Pair::between(provider.clone(), provider, workers)
    }

    /// The same with a provider for each.
    fn between(primary: TestProvider, replica: TestProvider, workers: u32) -> Pair {
        // Between here and the server's start somebody else may take it; then the server does not start and
        // says so.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let primary = StartSettings::compared(primary)
            .option("--skip-networking=OFF")
            .option("--bind-address=127.0.0.1")
            .option(format!("--port={port}"))
            .option("--server-id=1")
            .option("--log-bin=log");
        let primary = Server::start(primary).unwrap();
        let mut conn = primary.client().unwrap();
        conn.query_drop("CREATE USER replica@127.0.0.1").unwrap();
        conn.query_drop("GRANT REPLICATION SLAVE ON *.* TO replica@127.0.0.1").unwrap();
        let replica = StartSettings::compared(replica)
            .option("--server-id=2")
            .option("--log-bin=log")
            .option("--relay-log=relay")
            .option(format!("--slave-parallel-threads={workers}"))
            // The other modes try and take back, more or less often.
            .option("--slave-parallel-mode=conservative");
        let replica = Server::start(replica).unwrap();
        let mut conn = replica.client().unwrap();
        let change = format!(
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'replica', \
             MASTER_USE_GTID = slave_pos, MASTER_SSL = 0, MASTER_SSL_VERIFY_SERVER_CERT = 0"
        );
        conn.query_drop(change).unwrap();
        conn.query_drop("START SLAVE").unwrap();
        Pair { primary, replica }
    }

    /// Executes on the primary and waits until the replica has followed. As long as transactions of before
    /// are seen, InnoDB purges nothing, and gets in the way of no DDL: who waits for it goes back to a stage,
    /// which counts once more.
    fn execute(&self, statements: &[&str]) {
        let _seen = [&self.primary, &self.replica].map(|server| {
            let mut conn = server.client().unwrap();
            conn.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT").unwrap();
            conn
        });
        let mut primary = self.primary.client().unwrap();
        statements.iter().for_each(|sql| primary.query_drop(sql).unwrap_or_else(|e| panic!("{sql}: {e}")));
        let position: Option<String> = primary.query_first("SELECT @@global.gtid_binlog_pos").unwrap();
        let mut replica = self.replica.client().unwrap();
        let sql = format!("SELECT MASTER_GTID_WAIT('{}', 30)", position.unwrap());
        let followed: Option<i64> = replica.query_first(sql).unwrap();
        assert_eq!(followed, Some(0), "the replica does not follow:\n{}", self.replica.log());
    }

    fn stop(mut self) {
        for server in [&mut self.replica, &mut self.primary] {
            let (_, status) = server.stop().unwrap();
            assert!(status.success(), "{status:?}\n{}", server.log());
        }
    }
}

fn rows(conn: &mut Conn, sql: &str) -> Vec<Vec<Option<String>>> {
    let rows: Vec<mysql::Row> = conn.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let text = |value| match value {
        mysql::Value::NULL => None,
        mysql::Value::Bytes(bytes) => Some(String::from_utf8(bytes).unwrap()),
        other => Some(other.as_sql(true)),
    };
    rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()).collect()
}

/// The threads of a replica's, and of the primary's side of it.
const REPLICATION: &str = "(t.NAME LIKE '%slave%' OR t.NAME LIKE '%rpl%' OR t.NAME LIKE '%binlog%' \
     OR t.PROCESSLIST_COMMAND = 'Binlog Dump')";

/// Those threads, and what they have counted, in a form that does not depend on which of the workers it was.
fn seen(server: &Server) -> BTreeMap<String, BTreeSet<String>> {
    let mut conn = server.client().unwrap();
    // How often somebody waits is a matter of time, and so is how the relay log is read; a worker that has
    // waited for another goes back to the stage it was in, which counts once more.
    let counted = |events: &str| {
        format!(
            "SELECT t.NAME, s.EVENT_NAME, IF('{events}' = 'stages' AND t.NAME LIKE '%parallel%', '', SUM(s.COUNT_STAR)) \
             FROM performance_schema.events_{events}_summary_by_thread_by_event_name s \
             JOIN performance_schema.threads t USING (THREAD_ID) \
             WHERE {REPLICATION} AND s.EVENT_NAME NOT LIKE '%waiting%' AND s.EVENT_NAME NOT LIKE '%relay log%' \
             AND s.EVENT_NAME NOT LIKE '%binlog event%' GROUP BY 1, 2 HAVING SUM(s.COUNT_STAR) > 0"
        )
    };
    let kept = |events: &str, columns: &str| {
        format!(
            "SELECT t.NAME, h.EVENT_NAME, {columns}, COUNT(*) \
             FROM performance_schema.events_{events}_history_long h \
             JOIN performance_schema.threads t USING (THREAD_ID) \
             WHERE {REPLICATION} AND t.PROCESSLIST_COMMAND IS NULL OR t.PROCESSLIST_COMMAND = 'Slave_worker' \
             GROUP BY 1, 2, {columns}"
        )
    };
    let threads = format!(
        "SELECT t.NAME, t.TYPE, t.PROCESSLIST_USER, t.PROCESSLIST_HOST, t.PROCESSLIST_COMMAND, t.INSTRUMENTED, \
         t.HISTORY, t.PROCESSLIST_ID IS NULL, \
         IF(t.NAME LIKE '%one_connection', NULL, p.NAME), COUNT(*) FROM performance_schema.threads t \
         LEFT JOIN performance_schema.threads p ON p.THREAD_ID = t.PARENT_THREAD_ID \
         WHERE {REPLICATION} GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9"
    );
    let relayed = "SELECT EVENT_NAME, COUNT_STAR FROM performance_schema.events_statements_summary_global_by_event_name \
                   WHERE EVENT_NAME IN ('statement/abstract/relay_log', 'statement/com/Binlog Dump')";
    let asked = [
        ("threads", threads),
        ("statements", counted("statements")),
        ("transactions", counted("transactions")),
        ("stages", counted("stages")),
        ("texts", kept("statements", "h.SQL_TEXT, h.CURRENT_SCHEMA, h.ERRORS")),
        ("commits", kept("transactions", "h.STATE, h.ACCESS_MODE, h.GTID, h.AUTOCOMMIT")),
        ("relayed", relayed.to_owned()),
    ];
    let mut text = |sql: &str| rows(&mut conn, sql).iter().map(|row| format!("{row:?}")).collect();
    asked.iter().map(|(what, sql)| ((*what).to_owned(), text(sql))).collect()
}

/// What differs between two sides, a line each.
fn differences(
    reference: &BTreeMap<String, BTreeSet<String>>,
    subject: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<String> {
    let apart = |what: &String| {
        let (a, b) = (&reference[what], &subject[what]);
        let lacking = a.difference(b).map(move |row| format!("{what}: without {row}"));
        lacking.chain(b.difference(a).map(move |row| format!("{what}: with {row}"))).collect::<Vec<_>>()
    };
    reference.keys().flat_map(apart).collect()
}

/// The rows of the setup tables, with the users' names.
fn setup(server: &Server) -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut conn = server.client().unwrap();
    let mut all = |table: &str| {
        rows(&mut conn, &format!("SELECT * FROM performance_schema.{table}"))
            .iter()
            .map(|row| format!("{row:?}"))
            .collect()
    };
    SETUP.iter().map(|table| (*table, all(table))).collect()
}

/// True where the tables of the provider under test are not on the server's port: joins need them there.
fn skips() -> bool {
    let host = HostProgram::find().unwrap();
    let skips = TestProvider::under_test().is_tare() && !host.has_federated();
    if skips {
        println!("skipped: without FEDERATED the tables are not on the server's port");
    }
    skips
}

#[test]
fn threads_of_a_replica_are_seen_as_by_the_built_in() {
    let _turn = turn();
    if skips() {
        return;
    }
    for workers in [0, 2] {
        let [reference, subject] = [TestProvider::BuiltIn, TestProvider::under_test()].map(|provider| {
            let pair = Pair::start(provider, workers);
            pair.execute(WORK);
            let seen = [seen(&pair.primary), seen(&pair.replica)];
            pair.stop();
            seen
        });
        for (side, (reference, subject)) in
            ["primary", "replica"].into_iter().zip(reference.iter().zip(&subject))
        {
            assert_eq!(differences(reference, subject), Vec::<String>::new(), "{side}, {workers} workers");
        }
        let applier = if workers == 0 { "slave_sql" } else { "rpl_parallel" };
        let texts = &subject[1]["texts"];
        for text in ["INSERT INTO r.t VALUES (5, 5)", "ALTER TABLE r.t ADD COLUMN c INT"] {
            let is_there = |row: &String| row.contains(applier) && row.contains(text);
            assert!(texts.iter().any(is_there), "no {text} by {applier} in {texts:#?}");
        }
    }
}

/// What a replica's tables show of its connections and appliers, but for what differs between any two
/// replicas: numbers of threads, ports, times, and which worker took what.
fn told(server: &Server) -> BTreeMap<String, Vec<Vec<Option<String>>>> {
    let mut conn = server.client().unwrap();
    let runs = |columns: &str| {
        format!(
            "{columns}, (SELECT NAME FROM performance_schema.threads t WHERE t.THREAD_ID = r.THREAD_ID) NAME"
        )
    };
    let error = "LAST_ERROR_NUMBER, REGEXP_REPLACE(LAST_ERROR_MESSAGE, '[0-9]+', '#') TEXT, \
                 LAST_ERROR_TIMESTAMP > NOW() - INTERVAL 1 HOUR";
    let coordinator =
        runs(&format!("CHANNEL_NAME, SERVICE_STATE, {error}, LAST_SEEN_TRANSACTION, LAST_TRANS_RETRY_COUNT"));
    let worker = runs(&format!(
        "CHANNEL_NAME, SERVICE_STATE, {error}, LAST_TRANS_RETRY_COUNT, WORKER_IDLE_TIME < 600"
    ));
    let configuration = "CHANNEL_NAME, HOST, PORT > 0, USER, USING_GTID, SSL_ALLOWED, SSL_CA_FILE, SSL_CA_PATH, \
         SSL_CERTIFICATE, SSL_CIPHER, SSL_KEY, SSL_VERIFY_SERVER_CERTIFICATE, SSL_CRL_FILE, SSL_CRL_PATH, \
         CONNECTION_RETRY_INTERVAL, CONNECTION_RETRY_COUNT, HEARTBEAT_INTERVAL, IGNORE_SERVER_IDS, \
         REPL_DO_DOMAIN_IDS, REPL_IGNORE_DOMAIN_IDS";
    let asked = [
        ("replication_connection_configuration", configuration.to_owned()),
        ("replication_applier_configuration", "*".to_owned()),
        (
            "replication_applier_status",
            "CHANNEL_NAME, SERVICE_STATE, REMAINING_DELAY IS NULL, COUNT_TRANSACTIONS_RETRIES".to_owned(),
        ),
        ("replication_applier_status_by_coordinator", coordinator),
        ("replication_applier_status_by_worker", worker),
    ];
    let mut all = |(table, columns): &(&str, String)| {
        let mut found = rows(&mut conn, &format!("SELECT {columns} FROM performance_schema.{table} r"));
        found.sort();
        ((*table).to_owned(), found)
    };
    asked.iter().map(&mut all).collect()
}

/// Everything CHANGE MASTER can say of a primary that is never asked.
const ANOTHER: &str = "CHANGE MASTER 'other' TO MASTER_HOST = 'primary.example', MASTER_PORT = 3307, MASTER_USER = 'somebody', \
     MASTER_SSL = 1, MASTER_SSL_CA = 'ca', MASTER_SSL_CAPATH = 'capath', MASTER_SSL_CERT = 'cert', \
     MASTER_SSL_CIPHER = 'cipher', MASTER_SSL_KEY = 'key', MASTER_SSL_VERIFY_SERVER_CERT = 1, MASTER_SSL_CRL = 'crl', \
     MASTER_SSL_CRLPATH = 'crlpath', MASTER_CONNECT_RETRY = 7, MASTER_HEARTBEAT_PERIOD = 1.25, MASTER_DELAY = 11, \
     MASTER_USE_GTID = current_pos, IGNORE_SERVER_IDS = (5, 6, 70), DO_DOMAIN_IDS = (8, 9)";

/// After `STOP SLAVE` until the workers are gone: the applier has them ended when it counts as stopped
/// already.
fn wait_for_workers(conn: &mut Conn, sql: &str) {
    let workers = "SELECT NAME FROM performance_schema.threads WHERE NAME = 'thread/sql/rpl_parallel_thread'";
    if sql == "STOP SLAVE" {
        eventually("the workers end", LIMIT, || rows(conn, workers).is_empty());
    }
}

#[test]
fn replicas_are_told_of_as_by_the_built_in() {
    let _turn = turn();
    if skips() {
        return;
    }
    if !HostProgram::find().unwrap().version.starts_with("10.11") {
        println!("skipped: where this series of servers keeps its replicas is not known");
        return;
    }
    for workers in [0, 2] {
        let [reference, subject] = [TestProvider::BuiltIn, TestProvider::under_test()].map(|provider| {
            let pair = Pair::start(provider, workers);
            let mut conn = pair.replica.client().unwrap();
            let mut seen = vec![told(&pair.primary)];
            pair.execute(WORK);
            seen.push(told(&pair.replica));
            for sql in [
                ANOTHER,
                "CHANGE MASTER 'third' TO MASTER_HOST = 'third.example', IGNORE_DOMAIN_IDS = (1)",
                "STOP SLAVE",
            ] {
                conn.query_drop(sql).unwrap();
                wait_for_workers(&mut conn, sql);
                seen.push(told(&pair.replica));
            }
            // An event that cannot be applied: what it inserts is there.
            conn.query_drop("INSERT INTO r.u VALUES (100)").unwrap();
            conn.query_drop("START SLAVE").unwrap();
            pair.primary.client().unwrap().query_drop("INSERT INTO r.u VALUES (100)").unwrap();
            let stopped = |conn: &mut Conn| rows(conn, "SHOW SLAVE STATUS")[0][11] == Some("No".to_owned());
            eventually("the applier stops at the error", LIMIT, || stopped(&mut conn));
            seen.push(told(&pair.replica));
            for sql in ["STOP SLAVE", "RESET SLAVE 'other' ALL"] {
                conn.query_drop(sql).unwrap();
                wait_for_workers(&mut conn, sql);
                seen.push(told(&pair.replica));
            }
            pair.stop();
            seen
        });
        let configured = &reference[3]["replication_connection_configuration"];
        assert_eq!(configured.len(), 3, "{configured:?}");
        let errors = &reference[5]["replication_applier_status_by_coordinator"];
        assert!(errors.iter().any(|row| row[2] != Some("0".to_owned())), "{errors:?}");
        for (at, (reference, subject)) in reference.iter().zip(&subject).enumerate() {
            for (table, rows) in reference {
                assert_eq!(rows, &subject[table], "{table}, look {at}, {workers} workers");
            }
        }
    }
}

/// A look that fails is repeated two hundred times: reading a server that is no replica took seconds, and
/// lost what it looked for.
#[test]
fn a_server_that_is_no_replica_is_read_at_the_first_look() {
    let _turn = turn();
    if skips() || !TestProvider::under_test().is_tare() {
        println!("skipped: only tare counts looks that failed");
        return;
    }
    let server =
        Server::start(StartSettings::new(TestProvider::tare()).tare_option("shape", "extended")).unwrap();
    let mut conn = server.client().unwrap();
    let mut schema = server.schema().unwrap();
    let tables: Vec<String> = conn
        .query(
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'performance_schema' \
                AND TABLE_NAME LIKE 'replication%'",
        )
        .unwrap();
    assert!(tables.len() > 4, "{tables:?}");
    for sql in [
        "DO 1",
        "CHANGE MASTER TO MASTER_HOST = 'first.example'",
        "RESET SLAVE ALL",
        ANOTHER,
        "RESET SLAVE 'other' ALL",
    ] {
        conn.query_drop(sql).unwrap();
        for table in &tables {
            schema.rows(table).unwrap();
        }
        let lost = schema.value("tare_status", &[("NAME", "observations_lost")], "VALUE").unwrap();
        assert_eq!(lost.as_deref(), Some("0"), "{sql}");
    }
}

#[test]
fn replicas_receive_what_show_all_slaves_status_says() {
    let _turn = turn();
    if skips()
        || !TestProvider::under_test().is_tare()
        || !HostProgram::find().unwrap().version.starts_with("10.11")
    {
        println!("skipped: only tare has replication_connection_status, and knows 10.11's replicas");
        return;
    }
    let extended = TestProvider::Tare(vec![("shape".to_owned(), "extended".to_owned())]);
    let pair = Pair::between(TestProvider::Off, extended, 0);
    pair.execute(WORK);
    let mut conn = pair.replica.client().unwrap();
    // Nobody listens there: it goes on connecting.
    for sql in [
        "CHANGE MASTER 'deaf' TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1, MASTER_USER = 'replica'",
        "START SLAVE 'deaf'",
        ANOTHER,
    ] {
        conn.query_drop(sql).unwrap();
    }
    let told = |conn: &mut Conn| {
        let mut told: Vec<[String; 3]> = Vec::new();
        for row in conn.query_iter("SHOW ALL SLAVES STATUS").unwrap() {
            let row = row.unwrap();
            let text = |name: &str| row.get::<String, _>(name).unwrap();
            let state = match text("Slave_IO_Running").as_str() {
                "Yes" => "ON",
                "No" => "OFF",
                _ => "CONNECTING",
            };
            told.push([text("Connection_name"), state.to_owned(), text("Last_IO_Errno")]);
        }
        told
    };
    let failed = |told: &Vec<[String; 3]>| told.iter().any(|row| row[0] == "deaf" && row[2] != "0");
    eventually("a channel fails", LIMIT, || failed(&told(&mut conn)));
    let wanted = told(&mut conn);
    assert!(wanted.len() == 3 && failed(&wanted), "{wanted:?}");
    let sql = "SELECT CHANNEL_NAME, SERVICE_STATE, CAST(LAST_ERROR_NUMBER AS CHAR), LAST_QUEUED_TRANSACTION, \
               (SELECT NAME FROM performance_schema.threads t WHERE t.THREAD_ID = r.THREAD_ID) \
               FROM performance_schema.replication_connection_status r ORDER BY CHANNEL_NAME";
    let found = rows(&mut conn, sql);
    let position: Option<String> = conn.query_first("SELECT @@global.gtid_slave_pos").unwrap();
    assert_eq!(found.len(), 3, "{found:?}");
    for (found, wanted) in found.iter().zip(&wanted) {
        let text = |at: usize| found[at].clone().unwrap_or_default();
        assert_eq!([text(0), text(1), text(2)], *wanted);
        let thread = if text(1) == "OFF" { "" } else { "thread/sql/slave_io" };
        assert_eq!(text(4), thread, "{found:?}");
        if text(0).is_empty() {
            assert!(
                position.clone().unwrap().contains(&text(3)) && !text(3).is_empty(),
                "{found:?}, {position:?}"
            );
        }
    }
    pair.stop();
}

#[test]
fn what_is_watched_is_each_servers_own_affair() {
    let _turn = turn();
    if skips() {
        return;
    }
    let pair = Pair::start(TestProvider::under_test(), 2);
    pair.execute(&WORK[..2]);
    let [primary, replica] = [&pair.primary, &pair.replica].map(setup);
    pair.execute(OWN);
    pair.execute(&["INSERT INTO r.t VALUES (1, 1)"]);
    let [primary_after, replica_after] = [&pair.primary, &pair.replica].map(setup);
    for table in SETUP {
        assert_ne!(primary[table], primary_after[table], "{table} of the primary has not changed");
        assert_eq!(replica[table], replica_after[table], "{table} of the replica has changed");
    }
    pair.stop();
}

#[test]
fn a_stock_replica_goes_on_whatever_is_tried_with_the_primarys_tables() {
    let _turn = turn();
    if skips() {
        return;
    }
    let tables = |server: &Server| {
        rows(
            &mut server.client().unwrap(),
            "SHOW FULL TABLES FROM performance_schema WHERE Tables_in_performance_schema <> 'v'",
        )
    };
    let filled = |server: &Server| {
        let sql = "SELECT (SELECT COUNT(*) > 1 FROM performance_schema.threads), \
                   (SELECT COUNT(*) > 300 FROM performance_schema.global_status)";
        rows(&mut server.client().unwrap(), sql)
    };
    // 11.8 puts a table of its own where its built-in's is; the README says what that means for a replica.
    let replaces_nothing = !HostProgram::find().unwrap().version.starts_with("11.8");
    if !replaces_nothing {
        println!("skipped: CREATE OR REPLACE, which this server's built-in does not refuse");
    }
    let pair = Pair::between(TestProvider::under_test(), TestProvider::Off, 0);
    pair.execute(&WORK[..2]);
    let before = tables(&pair.primary);
    for (at, format) in ["STATEMENT", "MIXED", "ROW"].into_iter().enumerate() {
        let mut conn = pair.primary.client().unwrap();
        conn.query_drop(format!("SET SESSION binlog_format = {format}")).unwrap();
        // Most are refused, and some are not; `refusals` compares.
        let attempts =
            ATTEMPTS.iter().filter(|sql| replaces_nothing || !sql.starts_with("CREATE OR REPLACE"));
        attempts.for_each(|sql| drop(conn.query_drop(*sql)));
        pair.execute(&["DROP TABLE IF EXISTS r.d", "DELETE FROM r.t"]);
        pair.execute(&[&format!("INSERT INTO r.t VALUES ({at}, {at})")]);
        assert_eq!(tables(&pair.primary), before, "{format}");
        assert_eq!(filled(&pair.primary), [["1", "1"].map(|yes| Some(yes.to_owned()))], "{format}");
        let replicated = rows(&mut pair.replica.client().unwrap(), "SELECT a FROM r.t");
        assert_eq!(replicated, [[Some(at.to_string())]], "{format}");
    }
    pair.stop();
}
