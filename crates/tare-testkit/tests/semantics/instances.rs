//! What is there now: metadata locks, open tables, prepared statements, programs.

use mysql::prelude::Queryable;
use tare_testkit::schema::{SchemaConnection, SchemaRow};
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::shared_turn;
use tare_testkit::subject::TestProvider;

use crate::{Watched, error, server, until};

/// The metadata locks on a table: owner, type, duration, status.
fn locks(schema: &mut SchemaConnection, table: &str) -> Vec<[String; 4]> {
    let rows =
        schema.rows_where("metadata_locks", &[("OBJECT_TYPE", "TABLE"), ("OBJECT_NAME", table)]).unwrap();
    let columns = ["OWNER_THREAD_ID", "LOCK_TYPE", "LOCK_DURATION", "LOCK_STATUS"];
    let mut locks: Vec<_> =
        rows.iter().map(|row| columns.map(|column| row.text(column).to_owned())).collect();
    locks.sort();
    locks
}

#[test]
fn who_waits_for_a_metadata_lock_and_who_holds_it() {
    let _turn = shared_turn();
    let server = server();
    let mut schema = server.schema().unwrap();
    let mut holder = Watched::connect(&server, &mut schema);
    let mut waiter = Watched::connect(&server, &mut schema);
    holder.run("CREATE DATABASE t");
    holder.run("CREATE TABLE t.t (a INT PRIMARY KEY) ENGINE=InnoDB");
    holder.run("BEGIN");
    holder.run("SELECT * FROM t.t");
    let lock = |owner: &Watched, rest: [&str; 3]| {
        let [kind, duration, status] = rest.map(str::to_owned);
        [owner.thread.clone(), kind, duration, status]
    };
    let held = lock(&holder, ["SHARED_READ", "TRANSACTION", "GRANTED"]);
    assert_eq!(locks(&mut schema, "t"), std::slice::from_ref(&held));
    let awaited = lock(&waiter, ["EXCLUSIVE", "TRANSACTION", "PENDING"]);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.conn.query_drop("DROP TABLE t.t").unwrap());
        let both = until(|| locks(&mut schema, "t"), |locks| locks.contains(&awaited));
        let mut expected = [held, awaited];
        expected.sort();
        assert_eq!(both, expected);
        holder.run("COMMIT");
        waiting.join().unwrap();
    });
    assert_eq!(until(|| locks(&mut schema, "t"), Vec::is_empty), [[""; 4]; 0]);
    holder.run("DO GET_LOCK('tare', 1)");
    let rows = schema.rows_where("metadata_locks", &[("OBJECT_NAME", "tare")]).unwrap();
    assert_eq!((rows[0].text("OBJECT_TYPE"), rows[0].get("OBJECT_SCHEMA")), ("USER LEVEL LOCK", None));
    assert_eq!(
        (rows[0].text("LOCK_DURATION"), rows[0].text("OWNER_THREAD_ID")),
        ("EXPLICIT", &*holder.thread)
    );
}

#[test]
fn how_an_open_table_is_locked_and_by_whom() {
    let _turn = shared_turn();
    let server = server();
    let mut schema = server.schema().unwrap();
    let mut watched = Watched::connect(&server, &mut schema);
    watched.run("CREATE DATABASE t");
    for name in ["m", "n"] {
        watched.run(&format!("CREATE TABLE t.{name} (a INT PRIMARY KEY) ENGINE=MyISAM"));
    }
    let handle = |schema: &mut SchemaConnection, name: &str| -> Option<[String; 4]> {
        let rows =
            schema.rows_where("table_handles", &[("OBJECT_SCHEMA", "t"), ("OBJECT_NAME", name)]).unwrap();
        let columns = ["OBJECT_TYPE", "OWNER_THREAD_ID", "INTERNAL_LOCK", "EXTERNAL_LOCK"];
        rows.first().map(|row| columns.map(|column| row.text(column).to_owned()))
    };
    watched.run("LOCK TABLES t.m WRITE, t.n READ");
    let shown = |internal: &str, external: &str| {
        Some(["TABLE", &watched.thread, internal, external].map(str::to_owned))
    };
    assert_eq!(handle(&mut schema, "m"), shown("WRITE", "WRITE EXTERNAL"));
    assert_eq!(handle(&mut schema, "n"), shown("READ NO INSERT", "READ EXTERNAL"));
    watched.run("UNLOCK TABLES");
    let [_, owner, _, external] = handle(&mut schema, "m").unwrap();
    assert_eq!((&*owner, &*external), ("0", ""), "nobody uses it");
    watched.run("DROP TABLE t.m");
    assert_eq!(handle(&mut schema, "m"), None);
}

#[test]
fn a_prepared_statement_is_counted_until_it_is_deallocated() {
    let _turn = shared_turn();
    let server = server();
    let mut schema = server.schema().unwrap();
    let mut watched = Watched::connect(&server, &mut schema);
    let thread = watched.thread.clone();
    let row = |schema: &mut SchemaConnection| -> Option<SchemaRow> {
        schema.rows_where("prepared_statements_instances", &[("OWNER_THREAD_ID", &thread)]).unwrap().pop()
    };
    let counts = |row: &SchemaRow| {
        ["COUNT_EXECUTE", "SUM_ROWS_SENT", "COUNT_REPREPARE"].map(|it| row.number(it).unwrap())
    };
    watched.run("CREATE DATABASE t");
    watched.run("CREATE TABLE t.t (a INT)");
    watched.run("INSERT INTO t.t VALUES (1), (2)");
    watched.run("PREPARE p FROM 'SELECT * FROM t.t'");
    watched.run_often("EXECUTE p", 3);
    watched.run("ALTER TABLE t.t ADD COLUMN b INT");
    watched.run("EXECUTE p");
    watched.run("DO 0");
    let found = row(&mut schema).unwrap();
    assert_eq!((found.text("STATEMENT_NAME"), found.text("SQL_TEXT")), ("p", "SELECT * FROM t.t"));
    assert_eq!(found.get("OWNER_OBJECT_TYPE"), None);
    assert_eq!(counts(&found), [4, 8, 1]);
    for column in ["TIMER_PREPARE", "SUM_TIMER_EXECUTE", "MIN_TIMER_EXECUTE", "MAX_TIMER_EXECUTE"] {
        assert!(found.number(column) > Some(0), "{column}");
    }
    schema.truncate("prepared_statements_instances").unwrap();
    let found = row(&mut schema).unwrap();
    assert_eq!((counts(&found), found.number("TIMER_PREPARE")), ([0, 0, 0], Some(0)));
    watched.run("EXECUTE p");
    watched.run("DO 0");
    assert_eq!(counts(&row(&mut schema).unwrap()), [1, 2, 0]);
    watched.run("DEALLOCATE PREPARE p");
    assert!(row(&mut schema).is_none());
    let statement = watched.conn.prep("SELECT a FROM t.t WHERE a = ?").unwrap();
    // The server notes the text after it has answered.
    watched.run("DO 0");
    let found = row(&mut schema).unwrap();
    assert_eq!(
        (found.get("STATEMENT_NAME"), found.text("SQL_TEXT")),
        (None, "SELECT a FROM t.t WHERE a = ?")
    );
    watched.conn.close(statement).unwrap();
    watched.run("DO 0");
    assert!(row(&mut schema).is_none());
}

#[test]
fn a_program_is_counted_with_its_statements_until_it_is_dropped() {
    let _turn = shared_turn();
    let server = server();
    let mut schema = server.schema().unwrap();
    let mut watched = Watched::connect(&server, &mut schema);
    watched.run("CREATE DATABASE t");
    watched.run("CREATE TABLE t.t (a INT)");
    watched.run("CREATE PROCEDURE t.p() BEGIN INSERT INTO t.t VALUES (1), (2); SELECT * FROM t.t; END");
    watched.run("CREATE TRIGGER t.g BEFORE INSERT ON t.t FOR EACH ROW SET @a = 1");
    watched.run_often("CALL t.p()", 2);
    watched.run("DO 0");
    let row = |schema: &mut SchemaConnection, kind: &str| -> Option<SchemaRow> {
        let filter = [("OBJECT_TYPE", kind), ("OBJECT_SCHEMA", "t")];
        schema.rows_where("events_statements_summary_by_program", &filter).unwrap().pop()
    };
    let counts = |row: &SchemaRow| {
        ["COUNT_STAR", "COUNT_STATEMENTS", "SUM_ROWS_SENT"].map(|it| row.number(it).unwrap())
    };
    let procedure = row(&mut schema, "PROCEDURE").unwrap();
    assert_eq!((procedure.text("OBJECT_NAME"), counts(&procedure)), ("p", [2, 4, 6]));
    for column in ["SUM_TIMER_WAIT", "SUM_STATEMENTS_WAIT", "MIN_STATEMENTS_WAIT", "MAX_STATEMENTS_WAIT"] {
        assert!(procedure.number(column) > Some(0), "{column}");
    }
    let trigger = row(&mut schema, "TRIGGER").unwrap();
    assert_eq!((trigger.text("OBJECT_NAME"), counts(&trigger)[..2].to_vec()), ("g", vec![4, 4]));
    schema.truncate("events_statements_summary_by_program").unwrap();
    assert_eq!(counts(&row(&mut schema, "PROCEDURE").unwrap()), [0; 3]);
    watched.run("CALL t.p()");
    watched.run("DO 0");
    assert_eq!(counts(&row(&mut schema, "PROCEDURE").unwrap())[..2], [1, 2]);
    watched.run("DROP PROCEDURE t.p");
    assert!(row(&mut schema, "PROCEDURE").is_none());
}

#[test]
fn waits_of_each_lock_add_up_to_those_of_their_instrument() {
    let _turn = shared_turn();
    let settings =
        StartSettings::new(TestProvider::under_test()).tare_option("synch-waits-by-instance", "ON");
    let server = Server::start(settings).unwrap();
    let mut schema = server.schema().unwrap();
    let mut conns: Vec<_> = (0..4).map(|_| server.client().unwrap()).collect();
    conns[0].query_drop("CREATE DATABASE t").unwrap();
    conns[0].query_drop("CREATE TABLE t.t (a INT PRIMARY KEY AUTO_INCREMENT, b INT) ENGINE=InnoDB").unwrap();
    let tables = ["events_waits_summary_by_instance", "events_waits_summary_global_by_event_name"];
    let sums = |schema: &mut SchemaConnection, name: &str| -> [u64; 2] {
        tables.map(|table| schema.sum(table, &[("EVENT_NAME", name)], "COUNT_STAR").unwrap())
    };
    // Again when a thread of the server's took a lock after the one was emptied and before the other was.
    let begin_alike = until(
        || {
            tables.iter().for_each(|table| schema.truncate(table).unwrap());
            LASTING.iter().map(|name| sums(&mut schema, name)).all(|[own, all]| own == all)
        },
        |alike| *alike,
    );
    assert!(begin_alike, "they are never both empty");
    std::thread::scope(|scope| {
        for conn in &mut conns {
            scope.spawn(|| {
                for n in 0..200 {
                    conn.query_drop(format!("INSERT INTO t.t (b) VALUES ({n})")).unwrap();
                    conn.query_drop("SELECT COUNT(*) FROM t.t").unwrap();
                }
            });
        }
    });
    drop(conns);
    // Locks that statements take and reading the tables does not, and that were there before and are there
    // still.
    let mut most = 0;
    for name in LASTING {
        let both = until(|| sums(&mut schema, name), |[own, all]| own == all);
        assert_eq!(both[0], both[1], "{name}");
        most = both[0].max(most);
    }
    assert!(most > 50, "{most}");
    schema.truncate("events_waits_summary_by_instance").unwrap();
    let rows = schema.rows_where("events_waits_summary_by_instance", &[("EVENT_NAME", LASTING[0])]).unwrap();
    assert!(rows.iter().all(|row| row.text("COUNT_STAR").parse::<u64>().unwrap() < 50));
}

const LASTING: &[&str] = &[
    "wait/synch/mutex/innodb/fil_system_mutex",
    "wait/synch/rwlock/innodb/lock_latch",
    "wait/synch/rwlock/innodb/trx_rseg_latch",
];

#[test]
fn who_holds_a_mutex_or_an_rwlock() {
    let _turn = shared_turn();
    let server = server();
    let mut schema = server.schema().unwrap();
    let mut watched = Watched::connect(&server, &mut schema);
    let mut holder = Watched::connect(&server, &mut schema);
    let thread = watched.thread.clone();
    let held = |schema: &mut SchemaConnection, table: &str, name: &str, column: &str| -> Vec<String> {
        let rows = schema.rows_where(table, &[("NAME", name)]).unwrap();
        let held = rows.iter().filter_map(|row| row.get(column)).filter(|held| *held != "0");
        held.map(str::to_owned).collect()
    };
    holder.run("CREATE DATABASE t");
    holder.run(
        "CREATE TABLE t.m (a INT, b INT, KEY (a)) ENGINE=MyISAM SELECT 1 AS a, 1 AS b UNION SELECT 2, 2",
    );

    // The servers are read anew under their lock, from a table that somebody has locked.
    let writer = ["rwlock_instances", "wait/synch/rwlock/sql/THR_LOCK_servers", "WRITE_LOCKED_BY_THREAD_ID"];
    let [table, name, column] = writer;
    assert_eq!(held(&mut schema, table, name, column), [""; 0]);
    holder.run("LOCK TABLES mysql.servers WRITE");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| watched.run("FLUSH PRIVILEGES"));
        let seen = until(|| held(&mut schema, table, name, column), |held| !held.is_empty());
        holder.run("UNLOCK TABLES");
        waiting.join().unwrap();
        assert_eq!(seen, std::slice::from_ref(&thread));
    });
    assert_eq!(held(&mut schema, table, name, column), [""; 0]);

    // Who waits for a condition is shown as the holder of its mutex, as in the reference.
    let [table, name, column] =
        ["mutex_instances", "wait/synch/mutex/sql/LOCK_item_func_sleep", "LOCKED_BY_THREAD_ID"];
    let id = watched.conn.connection_id();
    std::thread::scope(|scope| {
        let sleeping = scope.spawn(|| error(&mut watched.conn, "DO SLEEP(1000)"));
        let seen = until(|| held(&mut schema, table, name, column), |held| !held.is_empty());
        holder.run(&format!("KILL QUERY {id}"));
        sleeping.join().unwrap();
        assert_eq!(seen, std::slice::from_ref(&thread));
    });
    assert_eq!(held(&mut schema, table, name, column), [""; 0]);

    // A condition on an index is looked at while the index is locked for reading.
    let [table, name, column] =
        ["rwlock_instances", "wait/synch/rwlock/myisam/MYISAM_SHARE::key_root_lock", "READ_LOCKED_BY_COUNT"];
    std::thread::scope(|scope| {
        let sql = "SELECT b FROM t.m FORCE INDEX (a) WHERE a > 0 AND BENCHMARK(1000000000, MD5(a)) = 0";
        let working = scope.spawn(|| error(&mut watched.conn, sql));
        let seen = until(|| held(&mut schema, table, name, column), |held| !held.is_empty());
        holder.run(&format!("KILL QUERY {id}"));
        working.join().unwrap();
        assert_eq!(seen, ["1"]);
    });
    assert_eq!(held(&mut schema, table, name, column), [""; 0]);
}

/// The lock under which the servers are kept, and the server's own rwlock of what metadata locks wait for.
const SERVERS: &str = "wait/synch/rwlock/sql/THR_LOCK_servers";
const METADATA: &str = "wait/synch/rwlock/sql/MDL_lock::rwlock";

/// What asks for a server, of which there is none.
const ASK: &str = "CREATE TABLE t.f (a INT) ENGINE=FEDERATED CONNECTION='nobody'";

/// The table of servers is locked by `holder` meanwhile: `writer` reads it anew, under the lock that servers
/// are kept under. Once `has` says that it has that, `reader` asks for a server; `look` sees both, and may
/// ask whether one of them is done. Returns what the two said: who fails before all are done waits for ever.
fn while_servers_are_locked<T>(
    schema: &mut SchemaConnection,
    [holder, writer, reader]: [&mut Watched; 3],
    has: impl Fn(&mut SchemaConnection) -> Option<String>,
    look: impl FnOnce(&mut SchemaConnection, &dyn Fn() -> bool) -> T,
) -> (Option<String>, T) {
    holder.run("LOCK TABLES mysql.servers WRITE");
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| writer.run("FLUSH PRIVILEGES"));
        let has = until(|| has(schema), Option::is_some);
        let reading = scope.spawn(|| error(&mut reader.conn, ASK));
        let seen = look(schema, &|| writing.is_finished() || reading.is_finished());
        holder.run("UNLOCK TABLES");
        writing.join().unwrap();
        reading.join().unwrap();
        (has, seen)
    })
}

#[test]
fn an_rwlock_that_is_free_takes_no_time_and_one_that_is_not_is_timed() {
    let _turn = shared_turn();
    // One that reads is made by way of FEDERATED.
    let Some(server) = server().on_its_port() else { return };
    let mut schema = server.schema().unwrap();
    let [mut holder, mut writer, mut reader] = [(); 3].map(|()| Watched::connect(&server, &mut schema));
    let [wrote, read] = [&writer, &reader].map(|watched| watched.thread.clone());
    let times = |schema: &mut SchemaConnection, thread: &str, name: &str| -> Vec<String> {
        let key = [("THREAD_ID", thread), ("EVENT_NAME", name)];
        let rows = schema.rows_where("events_waits_history_long", &key).unwrap();
        rows.iter().map(|row| row.text("TIMER_WAIT").to_owned()).collect()
    };
    holder.run("CREATE DATABASE t");
    // The first events of an instrument in a thread are timed at any rate.
    writer.run_often("FLUSH PRIVILEGES", 3);
    let current = [("THREAD_ID", read.as_str()), ("EVENT_NAME", SERVERS)];
    let (owner, waits) = while_servers_are_locked(
        &mut schema,
        [&mut holder, &mut writer, &mut reader],
        |schema| schema.value("rwlock_instances", &[("NAME", SERVERS)], "WRITE_LOCKED_BY_THREAD_ID").unwrap(),
        |schema, _| {
            until(|| schema.rows_where("events_waits_current", &current).unwrap(), |rows| !rows.is_empty())
        },
    );
    assert_eq!(owner.as_deref(), Some(wrote.as_str()));
    assert_eq!(waits.iter().map(|row| row.text("OPERATION")).collect::<Vec<_>>(), ["read_lock"]);
    let free = times(&mut schema, &wrote, SERVERS);
    assert_eq!(free.last().map(String::as_str), Some("0"), "nobody had it: {free:?}");
    let waited = times(&mut schema, &read, SERVERS);
    assert!(waited.iter().any(|time| time != "0"), "{waited:?}");
    let free = times(&mut schema, &wrote, METADATA);
    assert!(free.iter().any(|time| time == "0"), "{free:?}");
}

#[test]
fn an_rwlock_that_is_off_is_waited_for_and_nothing_is_noted() {
    let _turn = shared_turn();
    let Some(server) = server().on_its_port() else { return };
    let mut schema = server.schema().unwrap();
    let [mut holder, mut writer, mut reader] = [(); 3].map(|()| Watched::connect(&server, &mut schema));
    let [wrote, read] = [&writer, &reader].map(|watched| watched.thread.clone());
    let counted = |schema: &mut SchemaConnection| {
        let key = [("EVENT_NAME", SERVERS)];
        schema.value("events_waits_summary_global_by_event_name", &key, "COUNT_STAR").unwrap().unwrap()
    };
    holder.run("CREATE DATABASE t");
    writer.run_often("FLUSH PRIVILEGES", 3);
    schema.update("setup_instruments", &[("ENABLED", "NO")], &[("NAME", SERVERS)]).unwrap();
    let before = counted(&mut schema);
    let of = |schema: &mut SchemaConnection, thread: &str, column: &str| {
        schema.value("threads", &[("THREAD_ID", thread)], column).unwrap()
    };
    let (waits, (runs, is_done)) = while_servers_are_locked(
        &mut schema,
        [&mut holder, &mut writer, &mut reader],
        |schema| of(schema, &wrote, "PROCESSLIST_STATE").filter(|state| state.starts_with("Waiting")),
        |schema, is_done| {
            let runs = until(|| of(schema, &read, "PROCESSLIST_INFO"), |info| info.as_deref() == Some(ASK));
            std::thread::sleep(std::time::Duration::from_millis(100));
            (runs, is_done())
        },
    );
    assert!(waits.is_some(), "it has the lock, and waits for the table");
    assert_eq!(runs.as_deref(), Some(ASK));
    assert!(!is_done, "both wait");
    // The lock is free again, and was counted by nobody.
    writer.run("FLUSH PRIVILEGES");
    assert_eq!(counted(&mut schema), before);
}
