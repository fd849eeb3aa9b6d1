//! Scenes of sessions that wait for each other's data locks, with the true waits by the script.

use std::collections::BTreeSet;
use std::thread::JoinHandle;
use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;

use crate::server::{LIMIT, Server};
use crate::{Failure, Result};

/// InnoDB returns cached data until nobody has queried it for 0.1 s.
const STALE: Duration = Duration::from_millis(150);

/// The connection ids of a waiting session and of the holder. `None`: InnoDB does not tell, or it has no
/// connection.
pub type WaiterAndHolder = (u32, Option<u32>);

/// Sessions on a server, in a schema `scene` that is recreated.
#[derive(Debug)]
pub struct Scene<'s> {
    server: &'s Server,
    admin: Conn,
    idle: Vec<Conn>,
    busy: Vec<(u32, JoinHandle<()>)>,
    /// The true waits.
    pub truth: BTreeSet<WaiterAndHolder>,
}

impl<'s> Scene<'s> {
    /// Creates the tables: `t` with the rows 1, 2, 3 and 5, `elsewhere`, `parent` and its `child`.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn new(server: &'s Server) -> Result<Scene<'s>> {
        let mut admin = server.client()?;
        for sql in [
            "DROP DATABASE IF EXISTS scene",
            "CREATE DATABASE scene",
            "CREATE TABLE scene.t (id INT PRIMARY KEY, v INT, KEY (v)) ENGINE=InnoDB",
            "INSERT INTO scene.t VALUES (1, 10), (2, 20), (3, 30), (5, 50)",
            "CREATE TABLE scene.elsewhere (id INT PRIMARY KEY) ENGINE=InnoDB",
            "INSERT INTO scene.elsewhere VALUES (1), (2), (3)",
            "CREATE TABLE scene.parent (id INT PRIMARY KEY) ENGINE=InnoDB",
            "INSERT INTO scene.parent VALUES (1), (2)",
            "CREATE TABLE scene.child (id INT AUTO_INCREMENT PRIMARY KEY, parent INT, \
             FOREIGN KEY (parent) REFERENCES scene.parent (id)) ENGINE=InnoDB",
        ] {
            admin.query_drop(sql)?;
        }
        Ok(Scene { server, admin, idle: vec![], busy: vec![], truth: BTreeSet::new() })
    }

    fn begin(&self, statements: &[&str]) -> Result<Conn> {
        let mut conn = self.server.client()?;
        conn.query_drop("USE scene")?;
        for sql in statements {
            conn.query_drop(sql)?;
        }
        Ok(conn)
    }

    /// Makes a session that has run these statements and is idle; returns its connection id.
    ///
    /// # Errors
    /// When the server refuses one of them.
    pub fn idle(&mut self, statements: &[&str]) -> Result<u32> {
        let conn = self.begin(statements)?;
        let id = conn.connection_id();
        self.idle.push(conn);
        Ok(id)
    }

    /// Makes a session that has run these statements and waits for a lock in `last`.
    ///
    /// # Errors
    /// When the server refuses one of them, or nothing is waited for.
    pub fn waiting(&mut self, statements: &[&str], last: &str) -> Result<u32> {
        let conn = self.begin(statements)?;
        self.send(conn, last)
    }

    /// Makes an idle session wait in a further statement.
    ///
    /// # Errors
    /// When there is no such session, or nothing is waited for.
    pub fn goes_on(&mut self, id: u32, sql: &str) -> Result<()> {
        let at = self.idle.iter().position(|conn| conn.connection_id() == id);
        let at = at.ok_or_else(|| Failure::Setup(format!("no idle session {id}")))?;
        let conn = self.idle.remove(at);
        self.send(conn, sql).map(drop)
    }

    fn send(&mut self, mut conn: Conn, sql: &str) -> Result<u32> {
        let (id, sql) = (conn.connection_id(), sql.to_owned());
        // How it ends does not matter: it is killed, or gets its lock when another session is.
        self.busy.push((id, std::thread::spawn(move || drop(conn.query_drop(sql)))));
        let waits = format!(
            "SELECT COUNT(*) FROM information_schema.INNODB_TRX \
             WHERE trx_mysql_thread_id = {id} AND trx_state = 'LOCK WAIT'"
        );
        let waiting = tare_server::poll_every(STALE, LIMIT, || {
            let count: mysql::Result<Option<u64>> = self.admin.query_first(&waits);
            count.map(|count| (count == Some(1)).then_some(id)).transpose()
        });
        waiting.transpose()?.ok_or_else(|| Failure::Setup(format!("connection {id} waits for nothing")))
    }

    /// Ends the connection of an idle session.
    pub fn leaves(&mut self, id: u32) {
        self.idle.retain(|conn| conn.connection_id() != id);
    }

    /// Records that one waits for another.
    pub fn waits_for(&mut self, waiter: u32, holder: impl Into<Option<u32>>) {
        self.truth.insert((waiter, holder.into()));
    }
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        // It may have ended already.
        let kill = |admin: &mut Conn, id: u32| drop(admin.query_drop(format!("KILL {id}")));
        self.busy.iter().for_each(|(id, _)| kill(&mut self.admin, *id));
        self.idle.drain(..).for_each(drop);
        // A branch may be left without a session; usually there is none.
        drop(self.admin.query_drop("XA ROLLBACK 'scene'"));
        for (_, thread) in self.busy.drain(..) {
            let _ = thread.join();
        }
        // InnoDB's next data must not be of this scene.
        std::thread::sleep(STALE);
    }
}

/// The name of a scene, and the function that sets it up.
pub type SceneSetup = (&'static str, fn(&mut Scene<'_>) -> Result<()>);

/// All scenes. The server must not resolve deadlocks (`innodb_deadlock_detect=OFF`).
pub const SCRIPTS: [SceneSetup; 15] = [
    ("two readers wait for two rows", readers_of_two_rows),
    ("seven readers wait for one row", seven_readers),
    ("seven writers wait for one row", seven_writers),
    ("two sessions share a row", shared_by_two),
    ("two sessions share a row, one another row", shared_by_two_of_three),
    ("a reader queues behind a writer", reader_behind_writer),
    ("a gap that SERIALIZABLE has read", gap_of_serializable),
    ("a gap that FOR UPDATE has read", gap_for_update),
    ("a row that SERIALIZABLE has read", row_of_serializable),
    ("a table", table),
    ("a chain", chain),
    ("a deadlock", deadlock),
    ("a shared lock that is to be exclusive", upgrade),
    ("a read-only transaction", read_only),
    ("a transaction without a session", prepared),
];

const SHARE_1: &str = "SELECT * FROM t WHERE id = 1 LOCK IN SHARE MODE";
const SHARE_2: &str = "SELECT * FROM t WHERE id = 2 LOCK IN SHARE MODE";
const SHARE_3: &str = "SELECT * FROM t WHERE id = 3 LOCK IN SHARE MODE";
const UPDATE_1: &str = "UPDATE t SET v = v + 1 WHERE id = 1";
const UPDATE_2: &str = "UPDATE t SET v = v + 1 WHERE id = 2";
const UPDATE_3: &str = "UPDATE t SET v = v + 1 WHERE id = 3";
const SERIALIZABLE: &str = "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE";

/// Makes sessions without any lock that others wait for.
fn bystanders(scene: &mut Scene<'_>) -> Result<()> {
    scene.idle(&["START TRANSACTION WITH CONSISTENT SNAPSHOT"])?;
    scene.idle(&["BEGIN", "SELECT * FROM t"])?;
    scene.idle(&["START TRANSACTION READ ONLY", "SELECT * FROM t"])?;
    scene.idle(&["BEGIN", "INSERT INTO elsewhere VALUES (7)"]).map(drop)
}

fn readers_of_two_rows(scene: &mut Scene<'_>) -> Result<()> {
    bystanders(scene)?;
    let holder = scene.idle(&["BEGIN", UPDATE_1, UPDATE_2])?;
    for sql in [SHARE_1, SHARE_2] {
        let waiter = scene.waiting(&["BEGIN"], sql)?;
        scene.waits_for(waiter, holder);
    }
    Ok(())
}

fn seven(scene: &mut Scene<'_>, sql: &str) -> Result<()> {
    bystanders(scene)?;
    let holder = scene.idle(&["BEGIN", UPDATE_1])?;
    for _ in 0..7 {
        let waiter = scene.waiting(&["BEGIN"], sql)?;
        scene.waits_for(waiter, holder);
    }
    Ok(())
}

fn seven_readers(scene: &mut Scene<'_>) -> Result<()> {
    seven(scene, SHARE_1)
}

fn seven_writers(scene: &mut Scene<'_>) -> Result<()> {
    seven(scene, UPDATE_1)
}

fn shared_by_two(scene: &mut Scene<'_>) -> Result<()> {
    bystanders(scene)?;
    let holders = [scene.idle(&["BEGIN", SHARE_1])?, scene.idle(&["BEGIN", SHARE_1])?];
    for sql in [UPDATE_1, "DELETE FROM t WHERE id = 1"] {
        let waiter = scene.waiting(&["BEGIN"], sql)?;
        holders.iter().for_each(|holder| scene.waits_for(waiter, *holder));
    }
    Ok(())
}

/// Sets up a lock of two of three sessions; InnoDB does not tell which.
fn shared_by_two_of_three(scene: &mut Scene<'_>) -> Result<()> {
    bystanders(scene)?;
    for sql in [SHARE_1, SHARE_1, SHARE_2] {
        scene.idle(&["BEGIN", sql])?;
    }
    let waiter = scene.waiting(&["BEGIN"], UPDATE_1)?;
    scene.waits_for(waiter, None);
    Ok(())
}

fn reader_behind_writer(scene: &mut Scene<'_>) -> Result<()> {
    bystanders(scene)?;
    let holder = scene.idle(&["BEGIN", SHARE_1])?;
    let writer = scene.waiting(&["BEGIN"], UPDATE_1)?;
    scene.waits_for(writer, holder);
    for _ in 0..2 {
        // They could share it with the holder, but they queue.
        let reader = scene.waiting(&["BEGIN"], SHARE_1)?;
        scene.waits_for(reader, writer);
    }
    Ok(())
}

fn insert_into_gap(scene: &mut Scene<'_>, holder: u32) -> Result<()> {
    for _ in 0..2 {
        let waiter = scene.waiting(&["BEGIN"], "INSERT INTO t VALUES (4, 40)")?;
        scene.waits_for(waiter, holder);
    }
    Ok(())
}

fn gap_of_serializable(scene: &mut Scene<'_>) -> Result<()> {
    bystanders(scene)?;
    let holder = scene.idle(&[SERIALIZABLE, "BEGIN", "SELECT * FROM t WHERE id BETWEEN 3 AND 4"])?;
    insert_into_gap(scene, holder)
}

fn gap_for_update(scene: &mut Scene<'_>) -> Result<()> {
    bystanders(scene)?;
    let holder = scene.idle(&["BEGIN", "SELECT * FROM t WHERE id BETWEEN 3 AND 4 FOR UPDATE"])?;
    insert_into_gap(scene, holder)
}

fn row_of_serializable(scene: &mut Scene<'_>) -> Result<()> {
    bystanders(scene)?;
    let holder = scene.idle(&[SERIALIZABLE, "BEGIN", "SELECT * FROM t"])?;
    let writer = scene.waiting(&[SERIALIZABLE, "BEGIN"], UPDATE_3)?;
    scene.waits_for(writer, holder);
    Ok(())
}

fn table(scene: &mut Scene<'_>) -> Result<()> {
    bystanders(scene)?;
    let holder = scene.idle(&["SET autocommit = 0", "LOCK TABLES parent WRITE"])?;
    for _ in 0..2 {
        let waiter = scene.waiting(&["BEGIN"], "INSERT INTO child (parent) VALUES (1)")?;
        scene.waits_for(waiter, holder);
    }
    Ok(())
}

fn chain(scene: &mut Scene<'_>) -> Result<()> {
    bystanders(scene)?;
    let first = scene.idle(&["BEGIN", UPDATE_1])?;
    let second = scene.waiting(&["BEGIN", UPDATE_2], UPDATE_1)?;
    let third = scene.waiting(&["BEGIN", SHARE_3], UPDATE_2)?;
    let fourth = scene.waiting(&["BEGIN"], UPDATE_3)?;
    scene.waits_for(second, first);
    scene.waits_for(third, second);
    scene.waits_for(fourth, third);
    Ok(())
}

fn deadlock(scene: &mut Scene<'_>) -> Result<()> {
    bystanders(scene)?;
    let one = scene.idle(&["BEGIN", UPDATE_1])?;
    let other = scene.waiting(&["BEGIN", UPDATE_2], UPDATE_1)?;
    scene.goes_on(one, UPDATE_2)?;
    let third = scene.waiting(&["BEGIN"], SHARE_2)?;
    scene.waits_for(other, one);
    scene.waits_for(one, other);
    scene.waits_for(third, other);
    Ok(())
}

fn upgrade(scene: &mut Scene<'_>) -> Result<()> {
    bystanders(scene)?;
    let holder = scene.idle(&["BEGIN", SHARE_1])?;
    // It holds a shared lock, and waits for an exclusive one with the same id in InnoDB.
    let both = scene.waiting(&["BEGIN", SHARE_1], UPDATE_1)?;
    let last = scene.waiting(&["BEGIN"], UPDATE_1)?;
    scene.waits_for(both, holder);
    scene.waits_for(last, holder);
    scene.waits_for(last, both);
    Ok(())
}

fn read_only(scene: &mut Scene<'_>) -> Result<()> {
    bystanders(scene)?;
    let holder = scene.idle(&["START TRANSACTION READ ONLY", SHARE_1])?;
    let writer = scene.waiting(&["BEGIN"], UPDATE_1)?;
    let reader = scene.waiting(&["START TRANSACTION READ ONLY"], SHARE_1)?;
    scene.waits_for(writer, holder);
    scene.waits_for(reader, writer);
    Ok(())
}

fn prepared(scene: &mut Scene<'_>) -> Result<()> {
    bystanders(scene)?;
    let holder = scene.idle(&["XA START 'scene'", UPDATE_1, "XA END 'scene'", "XA PREPARE 'scene'"])?;
    scene.leaves(holder);
    let waiter = scene.waiting(&["BEGIN"], UPDATE_1)?;
    scene.waits_for(waiter, None);
    Ok(())
}
