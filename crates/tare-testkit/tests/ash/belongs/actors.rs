//! Sessions with a name of their own in all that they do: the number of an identity is in the names of its
//! account, schema, tables and locks. Of several they wait for each other; meanwhile accounts and schemas are
//! dropped and sessions are killed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use tare_testkit::server::Server;

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It takes locks, and waits for them.
    Locks,
    /// It takes none.
    Looks,
    /// It defines what the identity has.
    Defines,
}

/// A connection, and when it began at the earliest, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) identity: usize,
    pub(super) role: Role,
    pub(super) since_us: u64,
}

/// All connections there ever were, by PROCESSLIST_ID.
pub(super) struct Cast<'s> {
    server: &'s Server,
    members: Mutex<HashMap<u32, Member>>,
    pub(super) ends: AtomicBool,
}

/// Ends the actors when the one who watches them ends, also by a panic.
pub(super) struct Curtain<'c>(pub(super) &'c AtomicBool);

impl Drop for Curtain<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_micros()).unwrap()
}

/// Runs statements as far as the connection lives; which of them fail does not matter.
fn run(conn: &mut Conn, statements: &[String]) {
    for sql in statements {
        if let Err(mysql::Error::IoError(_)) = conn.query_drop(sql) {
            return;
        }
    }
}

fn texts<const N: usize>(identity: usize, texts: [&str; N]) -> Vec<String> {
    texts.iter().map(|text| text.replace('#', &identity.to_string())).collect()
}

impl<'s> Cast<'s> {
    pub(super) fn new(server: &'s Server) -> Cast<'s> {
        Cast { server, members: Mutex::default(), ends: AtomicBool::new(false) }
    }

    pub(super) fn members(&self) -> HashMap<u32, Member> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_over(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    fn join(&self, options: OptsBuilder, identity: usize, role: Role) -> Option<Conn> {
        let since_us = now_us();
        let conn = Conn::new(options).ok()?;
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        members.insert(conn.connection_id(), Member { identity, role, since_us });
        Some(conn)
    }

    fn session(&self, identity: usize, role: Role) -> Option<Conn> {
        let options = self.server.client_options();
        let options = options
            .user(Some(format!("u{identity}")))
            .db_name(Some(format!("s{identity}")))
            .prefer_socket(false);
        self.join(options, identity, role)
    }

    /// Runs one life of an identity: it comes, its sessions work, it is dropped, while they do if `early`,
    /// they end.
    pub(super) fn live(&self, identity: usize, early: bool) {
        let Some(mut root) = self.join(self.server.client_options(), identity, Role::Defines) else { return };
        run(
            &mut root,
            &texts(
                identity,
                [
                    "SET lock_wait_timeout = 1",
                    "CREATE OR REPLACE USER u#@localhost",
                    "CREATE OR REPLACE DATABASE s#",
                    "GRANT ALL ON s#.* TO u#@localhost",
                    "CREATE TABLE s#.t# (id INT PRIMARY KEY, v INT) ENGINE=InnoDB",
                    "CREATE TABLE s#.a# (id INT PRIMARY KEY, v INT) ENGINE=Aria",
                    "INSERT INTO s#.t# VALUES (1, 1), (2, 2), (3, 3)",
                    "INSERT INTO s#.a# VALUES (1, 1), (2, 2), (3, 3)",
                ],
            ),
        );
        let begone = [
            texts(identity, ["DROP USER u#@localhost"]),
            texts(identity, ["FLUSH TABLES s#.t#", "DROP DATABASE s#"]),
        ];
        std::thread::scope(|scope| {
            scope.spawn(|| self.holds(identity));
            scope.spawn(|| self.waits(identity));
            scope.spawn(|| self.looks(identity));
            for statements in begone.iter().filter(|_| early) {
                std::thread::sleep(Duration::from_millis(60));
                // The sessions go on without their account, and then without their tables.
                run(&mut root, statements);
            }
        });
        begone.iter().for_each(|statements| run(&mut root, statements));
    }

    fn holds(&self, identity: usize) {
        let Some(mut conn) = self.session(identity, Role::Locks) else { return };
        let patience = texts(identity, ["SET innodb_lock_wait_timeout = 1, lock_wait_timeout = 1"]);
        run(&mut conn, &patience);
        let works = texts(
            identity,
            [
                "BEGIN",
                "UPDATE t# SET v = v + 1 WHERE id = 1",
                "DO SLEEP(0.01)",
                "UPDATE t# SET v = v + 1 WHERE id = 2",
                "COMMIT",
                "SELECT GET_LOCK('l#', 1)",
                "SELECT COUNT(*), SLEEP(0.005) FROM t#",
                "SELECT RELEASE_LOCK('l#')",
                "BEGIN",
                "SELECT SUM(v) FROM t#",
                "DO SLEEP(0.01)",
                "COMMIT",
                "UPDATE a# SET v = v + SLEEP(0.002)",
            ],
        );
        run(&mut conn, &works);
        prepared(&mut conn, identity);
        run(&mut conn, &works);
    }

    fn waits(&self, identity: usize) {
        let Some(mut conn) = self.session(identity, Role::Locks) else { return };
        let patience = texts(identity, ["SET innodb_lock_wait_timeout = 1, lock_wait_timeout = 1"]);
        run(&mut conn, &patience);
        let works = texts(
            identity,
            [
                "BEGIN",
                "UPDATE t# SET v = v - 1 WHERE id = 2",
                "UPDATE t# SET v = v - 1 WHERE id = 1",
                "ROLLBACK",
                "SELECT GET_LOCK('l#', 1)",
                "SELECT RELEASE_LOCK('l#')",
                "ALTER TABLE t# FORCE",
                "INSERT INTO a# SELECT MAX(id) + 1, 0 FROM a#",
                "CREATE OR REPLACE TABLE n# (id INT)",
                "RENAME TABLE n# TO m#",
                "DROP TABLE m#",
            ],
        );
        run(&mut conn, &works);
        prepared(&mut conn, identity);
        run(&mut conn, &works);
    }

    fn looks(&self, identity: usize) {
        let Some(mut conn) = self.session(identity, Role::Looks) else { return };
        for _ in 0..20 {
            run(&mut conn, &texts(identity, ["DO SLEEP(0.003)", "SELECT BENCHMARK(3000, MD5('l#'))"]));
        }
    }

    /// Kills sessions of identities, and their statements.
    pub(super) fn kill(&self) {
        let Ok(mut conn) = self.server.client() else { return };
        let mut number = 0u64;
        while !self.is_over() {
            let sql = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER RLIKE '^u[0-9]' ORDER BY RAND() LIMIT 1";
            let victim: Option<u64> = conn.query_first(sql).unwrap_or_default();
            number += 1;
            if let Some(id) = victim {
                let how = if number.is_multiple_of(3) { "KILL" } else { "KILL QUERY" };
                run(&mut conn, &[format!("{how} {id}")]);
            }
            std::thread::sleep(Duration::from_millis(15));
        }
    }

    /// Empties tables.
    pub(super) fn truncate(&self) {
        let Ok(mut conn) = self.server.client() else { return };
        while !self.is_over() {
            let emptied = [
                "tare_active_session_history",
                "events_statements_summary_by_digest",
                "events_statements_history_long",
                "events_waits_summary_by_instance",
                "accounts",
            ];
            run(&mut conn, &emptied.map(|table| format!("TRUNCATE TABLE performance_schema.{table}")));
            std::thread::sleep(Duration::from_millis(70));
        }
    }

    /// Lives one identity after the other, of those whose remainder this is.
    pub(super) fn act(&self, worker: usize, workers: usize, identities: usize) {
        let mut identity = worker;
        while !self.is_over() {
            self.live(identity, true);
            identity = if identity + workers < identities { identity + workers } else { worker };
        }
    }
}

/// Prepares statements in both ways, executes them, and deallocates them.
fn prepared(conn: &mut Conn, identity: usize) {
    let [select, update] = ["SELECT v FROM t# WHERE id = ?", "UPDATE t# SET v = ? WHERE id = 3"]
        .map(|sql| sql.replace('#', &identity.to_string()));
    for (sql, value) in [(select, 1), (update, 2)] {
        let Ok(statement) = conn.prep(sql) else { continue };
        for _ in 0..3 {
            if conn.exec_drop(&statement, (value,)).is_err() {
                break;
            }
        }
        if conn.close(statement).is_err() {
            return;
        }
    }
    run(
        conn,
        &texts(
            identity,
            [
                "PREPARE p# FROM 'UPDATE t# SET v = v + 1 WHERE id = 1'",
                "EXECUTE p#",
                "DEALLOCATE PREPARE p#",
                // It fails, and is a statement of its own.
                "EXECUTE p#",
            ],
        ),
    );
}
