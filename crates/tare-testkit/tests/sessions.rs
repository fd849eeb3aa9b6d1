//! Sessions that wrote tare's tables and are gone: nothing of the server's goes on using their memory.
//!
//! FederatedX's connections outlive the sessions that used them. What one did is tried here; whether the
//! server is the worse for it is seen with memory that is overwritten when it is freed, and by valgrind.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::eventually;
use tare_testkit::host::{HostProgram, program};
use tare_testkit::server::{LIMIT, Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tare_testkit::turn;

/// What a session does before it goes, and whether the consumer is enabled afterwards. `#` is where another
/// session flushes the tables.
const SESSIONS: [(&str, bool); 12] = [
    ("UPDATE p.setup_consumers SET ENABLED = 'NO' WHERE NAME = 'c'", false),
    ("BEGIN; UPDATE p.setup_consumers SET ENABLED = 'YES' WHERE NAME = 'c'; #; COMMIT", true),
    ("BEGIN; UPDATE p.setup_consumers SET ENABLED = 'NO' WHERE NAME = 'c'; #; ROLLBACK", false),
    (
        "SET autocommit = 0; UPDATE p.setup_consumers SET ENABLED = 'YES' WHERE NAME = 'c'; SAVEPOINT s; \
      UPDATE p.setup_consumers SET ENABLED = 'YES' WHERE NAME = 'c'; #; ROLLBACK TO s; #",
        true,
    ),
    (
        "LOCK TABLES p.setup_consumers WRITE; UPDATE p.setup_consumers SET ENABLED = 'NO' WHERE NAME = 'c'; \
      SELECT * FROM p.setup_consumers; UPDATE p.setup_consumers SET ENABLED = 'NO'; \
      UPDATE p.setup_consumers SET ENABLED = 'YES'; UNLOCK TABLES",
        true,
    ),
    (
        "LOCK TABLES p.setup_consumers WRITE, mysql.help_topic READ; \
      UPDATE p.setup_consumers SET ENABLED = 'NO' WHERE NAME = 'c'",
        false,
    ),
    (
        "INSERT INTO p.setup_actors VALUES ('h1', 'u', '%', 'NO', 'NO'), ('h2', 'u', '%', 'NO', 'NO'); \
      INSERT IGNORE INTO p.setup_actors VALUES ('h2', 'u', '%', 'YES', 'NO'); #; \
      DELETE FROM p.setup_actors WHERE USER = 'u'",
        false,
    ),
    ("TRUNCATE p.events_waits_history; #; TRUNCATE p.events_waits_history", false),
    (
        "PREPARE s FROM 'UPDATE p.setup_consumers SET ENABLED = ? WHERE NAME = ''c'''; \
      SET @v = 'NO'; EXECUTE s USING @v; #; SET @v = 'YES'; EXECUTE s USING @v",
        true,
    ),
    (
        "CREATE OR REPLACE TABLE test.t (NAME VARCHAR(99), V CHAR(3)) ENGINE = InnoDB; INSERT INTO test.t VALUES ('c', 'NO'); \
      UPDATE p.setup_consumers c JOIN test.t USING (NAME) SET c.ENABLED = t.V, t.V = 'YES'; #; \
      BEGIN; UPDATE p.setup_consumers c JOIN test.t USING (NAME) SET c.ENABLED = t.V, t.V = 'NO'; ROLLBACK",
        true,
    ),
    (
        "EXPLAIN UPDATE p.setup_consumers SET ENABLED = 'YES'; UPDATE p.setup_consumers SET ENABLED = 'NO' WHERE 1 = 0",
        true,
    ),
    (
        "XA START 'x'; UPDATE p.setup_consumers SET ENABLED = 'NO' WHERE NAME = 'c'; #; XA END 'x'; XA PREPARE 'x'; \
      XA ROLLBACK 'x'",
        false,
    ),
];

/// The consumer that is switched.
const CONSUMER: &str = "events_waits_history";

fn enabled(conn: &mut Conn) -> bool {
    let sql = format!("SELECT ENABLED FROM performance_schema.setup_consumers WHERE NAME = '{CONSUMER}'");
    conn.query_first::<String, _>(sql).unwrap().unwrap() == "YES"
}

/// Sessions write and go, and tables they wrote are closed by one that stays.
fn come_and_go(server: &Server) {
    let mut stays = server.client().unwrap();
    stays.query_drop("CREATE DATABASE IF NOT EXISTS test").unwrap();
    for (script, expected) in SESSIONS {
        for killed in [false, true] {
            let mut goes = server.client().unwrap();
            let script = script.replace("p.", "performance_schema.").replace("'c'", &format!("'{CONSUMER}'"));
            for sql in script.split("; ") {
                let sql = sql.trim();
                if sql == "#" {
                    stays.query_drop("FLUSH TABLES").unwrap();
                    continue;
                }
                goes.query_drop(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            }
            let id = goes.connection_id();
            if killed {
                stays.query_drop(format!("KILL {id}")).unwrap();
            } else {
                drop(goes);
            }
            wait_until_gone(&mut stays, id);
            stays.query_drop("FLUSH TABLES").unwrap();
            assert_eq!(enabled(&mut stays), expected, "{script}");
        }
    }
    // One more, for the shutdown to close its connection.
    let mut goes = server.client().unwrap();
    goes.query_drop("UPDATE performance_schema.setup_consumers SET ENABLED = 'YES'").unwrap();
    let id = goes.connection_id();
    drop(goes);
    wait_until_gone(&mut stays, id);
}

fn wait_until_gone(conn: &mut Conn, id: u32) {
    let there = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE ID = {id}");
    eventually("the session ends", LIMIT, || conn.query_first::<u64, _>(&there).unwrap() == Some(0));
    // Out of the list it still has to free what it holds.
    std::thread::sleep(Duration::from_millis(100));
}

fn server(settings: StartSettings) -> Option<Server> {
    // A session's memory is freed when it ends, not kept for the next one.
    Server::start(settings.option("--thread-cache-size=0")).unwrap().on_its_port()
}

#[test]
fn a_session_that_wrote_and_went_is_forgotten() {
    let _turn = turn();
    // What is freed is overwritten with this byte.
    let settings = StartSettings::new(TestProvider::tare()).environment("MALLOC_PERTURB_", "165");
    for threads in ["one-thread-per-connection", "pool-of-threads"] {
        let Some(mut server) = server(settings.clone().option(format!("--thread-handling={threads}"))) else {
            return;
        };
        come_and_go(&server);
        let (_, status) = server.stop().unwrap();
        assert!(status.success(), "{threads}: {status}\n{}", server.log());
        assert!(!server.log().contains("not one tare knows"), "{}", server.log());
    }
}

#[test]
fn valgrind_sees_no_use_of_what_is_gone() {
    let _turn = turn();
    let Ok(valgrind) = program("valgrind") else {
        println!("skipped: valgrind is not installed");
        return;
    };
    let host = HostProgram::find().unwrap();
    if std::fs::read(&host.mariadbd).unwrap().starts_with(b"#!") {
        println!(
            "skipped: {} is a script around a server with a C library of its own",
            host.mariadbd.display()
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The server writes it as an account of its own.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut settings = StartSettings::new(TestProvider::tare()).option("--innodb-use-native-aio=0");
    // Sizes of what is set aside at the start: valgrind looks at every byte of it.
    settings = settings.option("--loose-innodb-buffer-pool-size-max=64M").tare_option("memory-max", "32M");
    settings.under = vec![valgrind.display().to_string(), "--num-callers=30".to_owned()];
    settings.under.push(format!("--log-file={}/%p", folder.path().display()));
    let Some(mut server) = server(settings) else { return };
    come_and_go(&server);
    let (_, status) = server.stop().unwrap();
    assert!(status.success(), "{status}\n{}", server.log());
    let said: String = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    assert!(said.contains("ERROR SUMMARY"), "valgrind says nothing");
    // What it says of one fault stands in a paragraph; the server may have faults of its own.
    let ours = |part: &&str| part.contains("ha_federatedx.so)") || part.contains("libtare_mariadb.so)");
    let faults: Vec<&str> = said.split("== \n").filter(ours).collect();
    assert!(faults.is_empty(), "{} faults, the first:\n{}", faults.len(), faults[0]);
}
