//! Sessions that do one thing until the load ends, and what that is: the truth that an active session history
//! is held against.

use std::collections::BTreeMap;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::mysql_server::Mysql;
use crate::server::{Server, patience};
use mysql::Conn;
use mysql::prelude::Queryable;

/// What a session does: its wait class, and the connection it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionActivity {
    /// WAIT_CLASS of its rows.
    pub class: &'static str,
    /// Connections that are in its way.
    pub blockers: Vec<u32>,
}

/// A server that a load can connect to.
pub trait Clients: Sync {
    /// Connects as an account that may do everything.
    fn connect(&self) -> Conn;
}

impl Clients for Server {
    fn connect(&self) -> Conn {
        self.client().expect("a client")
    }
}

impl Clients for Mysql {
    fn connect(&self) -> Conn {
        self.client().expect("a client")
    }
}

/// Sessions on a server; they end with this.
pub struct ActiveSessions<'s> {
    server: &'s dyn Clients,
    admin: Conn,
    idle: Vec<Conn>,
    busy: Vec<(u32, JoinHandle<()>)>,
    /// What each active session does, by connection.
    pub truth: BTreeMap<u32, SessionActivity>,
}

/// Whether a session waits, as the server itself says.
pub enum Until {
    /// Its row in INNODB_TRX says LOCK WAIT.
    RowLock,
    /// Its state in the list of processes begins so.
    State(&'static str),
}

impl<'s> ActiveSessions<'s> {
    /// Makes the tables.
    pub fn new(server: &'s dyn Clients) -> ActiveSessions<'s> {
        let mut admin = server.connect();
        for sql in [
            "CREATE DATABASE IF NOT EXISTS ash",
            "DROP TABLE IF EXISTS ash.t, ash.m",
            "CREATE TABLE ash.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB",
            "INSERT INTO ash.t VALUES (1, 10), (2, 20), (3, 30)",
            "CREATE TABLE ash.m (id INT PRIMARY KEY) ENGINE=InnoDB",
        ] {
            admin.query_drop(sql).expect("an answer");
        }
        ActiveSessions { server, admin, idle: vec![], busy: vec![], truth: BTreeMap::new() }
    }

    fn connect(&self, statements: &[&str]) -> Conn {
        let mut conn = self.server.connect();
        conn.query_drop("USE ash").expect("an answer");
        statements.iter().for_each(|sql| conn.query_drop(sql).expect("an answer"));
        conn
    }

    /// Adds a session that has run these statements and is idle.
    pub fn idle(&mut self, statements: &[&str]) -> u32 {
        let conn = self.connect(statements);
        let id = conn.connection_id();
        self.idle.push(conn);
        id
    }

    /// Adds a session that runs a statement until the load ends.
    pub fn busy(&mut self, before: &[&str], sql: &str, until: &Until, class: &'static str) -> u32 {
        let (mut conn, sql) = (self.connect(before), sql.to_owned());
        let id = conn.connection_id();
        // How it ends does not matter: it is killed.
        self.busy.push((id, std::thread::spawn(move || drop(conn.query_drop(sql)))));
        self.truth.insert(id, SessionActivity { class, blockers: vec![] });
        let waits = match until {
            Until::RowLock => format!(
                "SELECT COUNT(*) FROM information_schema.INNODB_TRX \
                 WHERE trx_mysql_thread_id = {id} AND trx_state = 'LOCK WAIT'"
            ),
            Until::State(state) => format!(
                "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id} AND COMMAND = 'Query' \
                 AND STATE LIKE '{state}%'"
            ),
        };
        let begin = Instant::now();
        while self.admin.query_first(&waits).expect("an answer") != Some(1) {
            assert!(begin.elapsed() < patience(), "connection {id} does not: {waits}");
            // InnoDB's answer is kept for a tenth of a second.
            std::thread::sleep(Duration::from_millis(120));
        }
        id
    }

    /// Notes whom a session waits for.
    pub fn waits_for(&mut self, waiter: u32, blockers: &[u32]) {
        self.truth.get_mut(&waiter).expect("it is busy").blockers = blockers.to_vec();
    }

    /// Adds every kind of doing at once.
    pub fn all(server: &'s dyn Clients) -> ActiveSessions<'s> {
        let mut load = ActiveSessions::new(server);
        load.row_locks(4);
        load.metadata_locks();
        load.user_locks();
        for _ in 0..3 {
            load.busy(&[], "SELECT SLEEP(600)", &Until::State("User sleep"), "SLEEP");
        }
        for _ in 0..2 {
            load.busy(&[], "SELECT BENCHMARK(1000000000000, SHA2('a', 256))", &Until::State(""), "CPU");
        }
        load
    }

    /// Adds a transaction that has locked a row and is idle, and sessions that want the row; those behind the
    /// first wait for that or for the holder.
    pub fn row_locks(&mut self, waiters: usize) -> u32 {
        let update = "UPDATE t SET v = v + 1 WHERE id = 1";
        let holder = self.idle(&["BEGIN", update]);
        let mut before = vec![holder];
        for _ in 0..waiters {
            let waiter = self.busy(&["BEGIN"], update, &Until::RowLock, "ROW LOCK");
            self.waits_for(waiter, &before);
            before.push(waiter);
        }
        holder
    }

    /// Adds a reader in a transaction, an ALTER that waits for it, and two readers that wait for the ALTER.
    fn metadata_locks(&mut self) {
        const WAITS: Until = Until::State("Waiting for table metadata lock");
        let reader = self.idle(&["BEGIN", "SELECT * FROM m"]);
        let alter = self.busy(&[], "ALTER TABLE m ADD COLUMN v INT", &WAITS, "METADATA LOCK");
        self.waits_for(alter, &[reader]);
        for _ in 0..2 {
            let waiter = self.busy(&[], "SELECT * FROM m", &WAITS, "METADATA LOCK");
            self.waits_for(waiter, &[alter]);
        }
    }

    fn user_locks(&mut self) {
        let holder = self.idle(&["SELECT GET_LOCK('ash', 600)"]);
        for _ in 0..2 {
            let waiter =
                self.busy(&[], "SELECT GET_LOCK('ash', 600)", &Until::State("User lock"), "USER LOCK");
            self.waits_for(waiter, &[holder]);
        }
    }

    /// Connections of the load, as a list in SQL.
    pub fn list(&self) -> String {
        self.truth.keys().map(u32::to_string).collect::<Vec<_>>().join(",")
    }

    /// Connections that are idle.
    pub fn idle_list(&self) -> String {
        self.idle.iter().map(|conn| conn.connection_id().to_string()).collect::<Vec<_>>().join(",")
    }
}

impl Drop for ActiveSessions<'_> {
    fn drop(&mut self) {
        // Those behind others first, so that none gets what it waits for. One may have ended already.
        for (id, thread) in self.busy.drain(..).rev() {
            drop(self.admin.query_drop(format!("KILL {id}")));
            let _ended = thread.join();
        }
    }
}

/// Returns by how much the number of rows with this share may differ from what is expected of `all` rows: the
/// binomial error at 99%.
pub fn sampling_error(all: f64, share: f64) -> f64 {
    2.576 * (all * share * (1.0 - share)).sqrt()
}

/// Returns the digests whose rows are not what their time makes of all rows, within the sampling error.
///
/// # Panics
/// Too few rows to judge by.
pub fn beyond_error(times: &BTreeMap<String, f64>, rows: &BTreeMap<String, f64>) -> Vec<String> {
    let (time, all): (f64, f64) = (times.values().sum(), rows.values().sum());
    assert!(all > 100.0, "{rows:?}");
    let judged = times.iter().filter_map(|(digest, its)| {
        let (share, rows) = (its / time, rows.get(digest).copied().unwrap_or(0.0));
        let error = sampling_error(all, share) + 1.0;
        ((rows - all * share).abs() > error)
            .then(|| format!("{digest}: {rows} of {all}, expected {}", all * share))
    });
    judged.collect()
}

/// Returns statements of four digests, in turns. The first sleeps for 0 to 8 milliseconds, 4 on average: a
/// load at a steady pace keeps time with samples that do, too, and what they find is then no matter of
/// chance. None uses a processor: on a busy machine a sampler gets one when a statement that does has ended,
/// sooner than in its middle.
pub fn short_statements() -> impl Iterator<Item = [String; 4]> {
    let next = |it: &u64| Some(it.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    std::iter::successors(Some(1), next).map(|it: u64| {
        [
            format!("SELECT SLEEP(0.00{:03})", (it >> 33) % 800),
            "DO SLEEP(0.001)".to_owned(),
            format!("SELECT SLEEP(0.0004), '{}'", it % 100),
            format!("SELECT {} + SLEEP(0.0001)", it % 10),
        ]
    })
}
