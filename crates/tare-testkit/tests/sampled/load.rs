//! The load: kinds of statements, each of which does nearly the same whenever it runs, in an order that a
//! seed decides.

use std::collections::BTreeMap;

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::server::Server;

use crate::{settle, thread_of};

/// Who runs it: its figures are those of this user.
pub(crate) const USER: &str = "ann";

/// Makes tables, programs and the user.
pub(crate) fn fill(server: &Server) {
    let mut conn = server.client().unwrap();
    for sql in [
        "CREATE DATABASE t",
        "CREATE TABLE t.t (a INT PRIMARY KEY, b INT, c VARCHAR(100), KEY (b))",
        "INSERT INTO t.t SELECT seq, seq % 100, REPEAT('x', 50) FROM t.seq_1_to_2000",
        "CREATE TABLE t.u (a INT PRIMARY KEY, b INT)",
        "INSERT INTO t.u SELECT seq, seq FROM t.seq_1_to_500",
        "CREATE TABLE t.m (a INT PRIMARY KEY, b VARCHAR(20)) ENGINE = MyISAM",
        "INSERT INTO t.m SELECT seq, 'some text' FROM t.seq_1_to_100",
        "CREATE TABLE t.log (a INT)",
        "CREATE TRIGGER t.logged AFTER UPDATE ON t.u FOR EACH ROW INSERT INTO t.log VALUES (NEW.a)",
        "CREATE PROCEDURE t.p() BEGIN DECLARE i INT DEFAULT 0; WHILE i < 3 DO SET i = i + 1; END WHILE; \
         SELECT b INTO @b FROM t.u WHERE a = 7; END",
        "CREATE PROCEDURE t.fails() BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN END; INSERT INTO t.u VALUES (1, 1); END",
        "CREATE FUNCTION t.f(x INT) RETURNS INT RETURN (SELECT b FROM t.u WHERE a = x)",
        &format!("CREATE USER {USER}@localhost"),
        &format!("GRANT ALL ON *.* TO {USER}@localhost"),
    ] {
        conn.query_drop(sql).unwrap();
    }
}

/// A connection of the load's user.
pub(crate) fn connect(server: &Server) -> Conn {
    Conn::new(server.client_options().user(Some(USER))).unwrap()
}

/// What is run: `?` stands for a number of the seed's choice. More than one: each is a statement of its own.
pub(crate) const KINDS: [&[&str]; 12] = [
    &["SELECT c FROM t.t WHERE a = ?"],
    &["SELECT SUM(a) FROM t.t WHERE b BETWEEN 3 AND 4"],
    &["SELECT DISTINCT c FROM t.t WHERE a BETWEEN 100 AND 120 ORDER BY c"],
    &["UPDATE t.t SET c = 'y' WHERE a = ?"],
    &["UPDATE t.u SET b = b + 1 WHERE a = ?"],
    &["CALL t.p()"],
    &["BEGIN", "SELECT b FROM t.u WHERE a = ? FOR UPDATE", "COMMIT"],
    &["SELECT t.a, u.b FROM t.t JOIN t.u ON u.a = t.b WHERE t.a = ?"],
    &["SELECT 1 UNION SELECT a FROM t.u WHERE a = ?"],
    &["SELECT b FROM t.m WHERE a = ?"],
    &["DELETE FROM t.u WHERE a = 499", "INSERT INTO t.u VALUES (499, 0)"],
    &["SELECT t.f(?)"],
];

/// A load in an order that a seed decides.
pub(crate) struct Load {
    random: u64,
    /// How often each kind was run.
    pub(crate) ran: [u64; KINDS.len()],
}

impl Load {
    pub(crate) fn of_seed(seed: u64) -> Load {
        Load { random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1, ran: [0; KINDS.len()] }
    }

    /// A number below this one.
    pub(crate) fn next(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    /// Runs so many kinds, each chosen by chance.
    pub(crate) fn run(&mut self, conn: &mut Conn, times: u64) {
        for _ in 0..times {
            let kind = self.next(KINDS.len() as u64) as usize;
            self.run_kind(conn, kind);
        }
    }

    pub(crate) fn run_kind(&mut self, conn: &mut Conn, kind: usize) {
        self.ran[kind] += 1;
        for sql in KINDS[kind] {
            let number = 1 + self.next(90);
            conn.query_drop(sql.replace('?', &number.to_string())).unwrap();
        }
    }
}

/// COUNT_STAR by instrument of all that is estimated.
pub(crate) type Counts = BTreeMap<String, f64>;

/// What is asked for the estimates of the rows this condition selects, of tables whose names end so.
fn estimated(watcher: &mut Conn, by: &str, condition: &str) -> Counts {
    let mut all = Counts::new();
    for (table, names) in [
        ("stages", "EVENT_NAME LIKE 'stage/%'"),
        ("waits", "EVENT_NAME LIKE 'wait/synch/mutex/%' OR EVENT_NAME LIKE 'wait/synch/%lock/%'"),
        (
            "waits",
            "EVENT_NAME LIKE 'wait/io/socket/%' OR EVENT_NAME LIKE 'wait/lock/table/%' OR EVENT_NAME = 'idle'",
        ),
        ("statements", "EVENT_NAME LIKE 'statement/sp/%' AND EVENT_NAME <> 'statement/sp/stmt'"),
    ] {
        let sql = format!(
            "SELECT EVENT_NAME, COUNT_STAR FROM performance_schema.events_{table}_summary_by_{by}_by_event_name \
             WHERE {condition} AND COUNT_STAR > 0 AND ({names})"
        );
        all.extend(watcher.query_map(sql, |(name, count): (String, f64)| (name, count)).unwrap());
    }
    all
}

/// What is estimated of the load's user, in all its connections.
pub(crate) fn estimated_of_user(watcher: &mut Conn) -> Counts {
    settle(watcher);
    estimated(watcher, "user", &format!("USER = '{USER}'"))
}

/// What has come to it since.
pub(crate) fn since(before: &Counts, after: Counts) -> Counts {
    let known = |name: &String| before.get(name).copied().unwrap_or(0.0);
    after.into_iter().map(|(name, count)| (name.clone(), count - known(&name))).collect()
}

/// What one statement of each kind does, by instrument, where everything is recorded.
pub(crate) struct LoadKinds(Vec<Vec<Counts>>);

impl LoadKinds {
    /// Measures it: each statement of each kind by itself.
    pub(crate) fn of(server: &Server) -> LoadKinds {
        const TIMES: u64 = 40;
        let mut watcher = server.client().unwrap();
        let mut of_kind = |kind: usize| {
            let mut load = Load::of_seed(1);
            let mut conn = connect(server);
            let of_thread = format!("THREAD_ID = {}", thread_of(&mut watcher, conn.connection_id()));
            for _ in 0..5 {
                load.run_kind(&mut conn, kind);
            }
            let statements = 0..KINDS[kind].len();
            let mut sums: Vec<Counts> = statements.map(|_| Counts::new()).collect();
            for round in 0..TIMES {
                // All parts at first, to have a kind's figures; a kind of several statements by parts.
                for (sum, sql) in sums.iter_mut().zip(KINDS[kind]) {
                    if KINDS[kind].len() == 1 && round > 0 {
                        continue;
                    }
                    settle(&mut watcher);
                    let before = estimated(&mut watcher, "thread", &of_thread);
                    let times = if KINDS[kind].len() == 1 { TIMES } else { 1 };
                    for _ in 0..times {
                        conn.query_drop(sql.replace('?', &(1 + load.next(90)).to_string())).unwrap();
                    }
                    settle(&mut watcher);
                    let after = estimated(&mut watcher, "thread", &of_thread);
                    for (name, count) in since(&before, after) {
                        *sum.entry(name).or_default() += count / TIMES as f64;
                    }
                }
            }
            sums
        };
        LoadKinds((0..KINDS.len()).map(&mut of_kind).collect())
    }

    /// The sum of the squares of the events each statement of a load has of an instrument.
    pub(crate) fn squares(&self, load: &Load, name: &str) -> f64 {
        let of_kind = |(statements, ran): (&Vec<Counts>, &u64)| {
            let squares = statements.iter().filter_map(|it| it.get(name)).map(|x| x * x).sum::<f64>();
            squares * *ran as f64
        };
        self.0.iter().zip(&load.ran).map(of_kind).sum()
    }
}
