//! Memory: what lives in its instrumentation still works, and sessions have what the built-in says they have.

use std::collections::BTreeMap;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use tare_testkit::eventually;
use tare_testkit::mysql_server::Mysql;
use tare_testkit::server::patience;

use crate::{library, number, rows, subject};

/// A limit of 4 MiB, and a statement that needs more.
const LIMIT: &str = "SET GLOBAL connection_memory_limit = 4194304";
const NEEDS_MUCH: &str = "SELECT COUNT(*) FROM (SELECT DISTINCT CONCAT(a.v, a.n, b.n) FROM many.t a, many.t b WHERE b.n < 20) AS different";
const MANY: [&str; 4] = [
    "CREATE DATABASE many",
    "CREATE TABLE many.t (n INT PRIMARY KEY, v VARCHAR(2000))",
    "INSERT INTO many.t WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 900) \
     SELECT n, REPEAT('x', 1000) FROM n",
    "GRANT SELECT ON many.* TO ann",
];
/// `ER_CONN_LIMIT` and `ER_GLOBAL_CONN_LIMIT`.
const TOO_MUCH: [u16; 2] = [4082, 4081];

/// Connects as a user whom limits concern.
fn limited(server: &Mysql) -> Conn {
    let options = OptsBuilder::new().socket(server.socket().to_str()).user(Some("ann"));
    Conn::new(options).expect("a client")
}

/// What a server does with a session that needs too much, and what it says of memory.
#[derive(Debug, PartialEq, Eq)]
struct Limits {
    below: bool,
    above: Option<u16>,
    is_killed: bool,
    others_live: bool,
    all: Option<u16>,
}

/// Runs the statement that needs much. Returns the number of the server's error.
fn need_much(conn: &mut Conn) -> Option<u16> {
    // `query_drop` would drop an error that comes after the columns.
    match conn.query::<mysql::Row, _>(NEEDS_MUCH) {
        Ok(_) => None,
        Err(mysql::Error::MySqlError(error)) => Some(error.code),
        Err(error) => panic!("{error}"),
    }
}

fn limits(server: &Mysql) -> Limits {
    let mut root = server.client().expect("a client");
    root.query_drop("CREATE USER ann").expect("a user");
    MANY.iter().for_each(|sql| root.query_drop(sql).unwrap_or_else(|error| panic!("{sql}: {error}")));
    let below = need_much(&mut limited(server)).is_none();
    root.query_drop(LIMIT).expect("a limit");
    let (mut ann, mut other) = (limited(server), limited(server));
    let above = need_much(&mut ann);
    let is_killed = ann.query_drop("DO 1").is_err();
    let others_live = other.query_drop("DO 1").is_ok();
    for sql in [
        "SET GLOBAL connection_memory_limit = DEFAULT",
        "SET GLOBAL global_connection_memory_limit = 16777216",
        "SET GLOBAL global_connection_memory_tracking = ON",
    ] {
        root.query_drop(sql).expect("a limit");
    }
    let all = need_much(&mut limited(server));
    Limits { below, above, is_killed, others_live, all }
}

#[test]
fn a_session_that_needs_too_much_is_killed() {
    let Some(reference) = Mysql::start(&[]).expect("a server") else { return };
    let reference = limits(&reference);
    println!("{reference:?}");
    assert!(reference.below && reference.is_killed && reference.others_live);
    assert_eq!([reference.above, reference.all], TOO_MUCH.map(Some));
    let Some(mut server) = subject(&[]) else { return };
    assert_eq!(limits(&server), reference);
    assert!(server.runs());
    // A level of tare's, which a budget may lower, is no reason to let it live.
    let server = Mysql::preloaded(&library(), "level=lean; level=memory/%=off", &[]).expect("a server");
    let mut server = server.expect("it was there before");
    assert_eq!(limits(&server), reference);
    assert!(server.runs());
}

#[test]
fn the_memory_of_all_sessions_is_followed() {
    let Some(server) = subject(&[]) else { return };
    let mut root = server.client().expect("a client");
    for sql in [
        "CREATE USER ann",
        "SET GLOBAL global_connection_memory_tracking = ON",
        "SET GLOBAL connection_memory_chunk_size = 1",
    ] {
        root.query_drop(sql).expect("a setting");
    }
    let status = "SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Global_connection_memory'";
    let mut ann = limited(&server);
    ann.query_drop("SET @kept = REPEAT('x', 3000000)").expect("a statement");
    ann.query_drop("DO 1").expect("a statement");
    let with = number(&mut root, status);
    assert!(with > 0, "{with}");
    drop(ann);
    eventually("the session's memory is given back", patience(), || number(&mut root, status) < with);
}

/// What `threads`, `accounts` and statements say of a session's memory.
fn told(server: &Mysql) -> BTreeMap<String, u64> {
    let (mut worker, mut reader) = (server.client().expect("a client"), server.client().expect("a client"));
    for _ in 0..3 {
        worker.query_drop("SELECT COUNT(*) FROM information_schema.COLUMNS").expect("a statement");
    }
    worker
        .query_drop("SELECT LENGTH(GROUP_CONCAT(NAME)) FROM performance_schema.setup_instruments")
        .expect("a statement");
    let thread = number(&mut worker, "SELECT ps_current_thread_id()");
    let mut told = BTreeMap::new();
    for sql in [
        format!(
            "SELECT 'thread', CONTROLLED_MEMORY, MAX_CONTROLLED_MEMORY, TOTAL_MEMORY, MAX_TOTAL_MEMORY \
             FROM performance_schema.threads WHERE THREAD_ID = {thread}"
        ),
        format!(
            "SELECT EVENT_NAME, MAX_CONTROLLED_MEMORY, MAX_TOTAL_MEMORY \
             FROM performance_schema.events_statements_summary_by_thread_by_event_name \
             WHERE THREAD_ID = {thread} AND COUNT_STAR > 0"
        ),
    ] {
        for row in rows(&mut reader, &sql) {
            let mut values = row.into_iter().flatten();
            let name = values.next().expect("a name");
            for (at, value) in values.enumerate() {
                told.insert(format!("{name} {at}"), value.parse().expect("a number"));
            }
        }
    }
    drop(worker);
    let account = "SELECT MAX_SESSION_TOTAL_MEMORY FROM performance_schema.accounts WHERE USER = 'root'";
    while number(&mut reader, account) == 0 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    told
}

#[test]
fn sessions_have_what_the_built_in_says() {
    let Some(reference) = Mysql::start(&[]).expect("a server") else { return };
    let reference = told(&reference);
    let Some(server) = subject(&[]) else { return };
    let ours = told(&server);
    println!("{reference:#?} {ours:#?}");
    assert_eq!(ours.keys().collect::<Vec<_>>(), reference.keys().collect::<Vec<_>>());
    assert!(reference.len() >= 6, "{reference:?}");
    for (name, theirs) in &reference {
        // What a session's beginning takes varies by some hundred bytes in any two runs, and InnoDB's part by
        // more.
        let slack = theirs / 50 + 4096;
        assert!(theirs.abs_diff(ours[name]) <= slack, "{name}: {theirs}, here {}", ours[name]);
    }
}

/// Memory of a thread that has ended is still that of the whole, and no account's.
#[test]
fn memory_that_outlives_its_thread_is_nobodys() {
    for server in [Mysql::start(&[]).expect("a server"), subject(&[])] {
        let Some(server) = server else { return };
        let mut root = server.client().expect("a client");
        root.query_drop("CREATE USER ann").expect("a user");
        root.query_drop("CREATE DATABASE kept").expect("a schema");
        root.query_drop("CREATE TABLE kept.t (i INT PRIMARY KEY)").expect("a table");
        root.query_drop("GRANT ALL ON kept.* TO ann").expect("a grant");
        let mut ann = limited(&server);
        // The definition of the table stays in the server's cache.
        root.query_drop("FLUSH TABLES").expect("FLUSH");
        ann.query_drop("SELECT * FROM kept.t").expect("a statement");
        drop(ann);
        let gone = "SELECT CURRENT_CONNECTIONS FROM performance_schema.accounts WHERE USER = 'ann'";
        while number(&mut root, gone) != 0 {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let left = "SELECT COUNT(*) FROM performance_schema.memory_summary_by_account_by_event_name \
            WHERE USER = 'ann' AND (CURRENT_COUNT_USED <> 0 OR CURRENT_NUMBER_OF_BYTES_USED <> 0)";
        assert_eq!(number(&mut root, left), 0);
        let allocated = "SELECT SUM(COUNT_ALLOC) FROM performance_schema.memory_summary_by_account_by_event_name \
            WHERE USER = 'ann'";
        assert!(number(&mut root, allocated) > 10);
        let whole = "SELECT CURRENT_COUNT_USED FROM performance_schema.memory_summary_global_by_event_name \
            WHERE EVENT_NAME = 'memory/sql/TABLE_SHARE::mem_root'";
        assert!(number(&mut root, whole) > 0);
    }
}

/// The resident memory of a server in KiB.
fn resident(server: &Mysql) -> u64 {
    let folder = server.socket().parent().expect("a folder").to_owned();
    let pid = std::fs::read_to_string(folder.join("pid")).expect("the server's number");
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim())).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn what_the_built_in_need_not_keep_takes_no_memory() {
    let Some(off) = Mysql::start(&["--performance-schema=OFF"]).expect("a server") else { return };
    let options = [
        "--performance-schema-digests-size=4321",
        "--performance-schema-events-statements-history-long-size=1234",
    ];
    let Some(server) = subject(&options) else { return };
    let mut conn = server.client().expect("a client");
    for table in ["digest", "thread_by_event_name", "account_by_event_name"] {
        rows(&mut conn, &format!("SELECT * FROM performance_schema.events_statements_summary_by_{table}"));
    }
    let (with, without) = (resident(&server), resident(&off));
    println!("{with} KiB, without a Performance Schema {without} KiB");
    assert!(with < without + 110 * 1024, "{with} KiB, without a Performance Schema {without} KiB");
    let own = "SELECT SUM(CURRENT_NUMBER_OF_BYTES_USED) FROM performance_schema.memory_summary_global_by_event_name \
        WHERE EVENT_NAME IN ('memory/performance_schema/events_statements_summary_by_digest', \
        'memory/performance_schema/events_statements_history_long')";
    assert_eq!(number(&mut conn, own), 0, "the built-in has no room for them");
    assert_eq!(number(&mut conn, "SELECT @@performance_schema_digests_size"), 4321, "what was set is shown");
    assert_eq!(number(&mut conn, "SELECT @@performance_schema_events_statements_history_long_size"), 1234);
}

#[test]
fn settings_of_memory_decide() {
    let Some(server) = subject(&[]) else { return };
    let mut conn = server.client().expect("a client");
    let count = "SELECT COUNT_ALLOC FROM performance_schema.memory_summary_global_by_event_name \
        WHERE EVENT_NAME = 'memory/sql/THD::main_mem_root'";
    let switch = |what: &str| {
        format!(
            "UPDATE performance_schema.setup_instruments SET {what} WHERE NAME = 'memory/sql/THD::main_mem_root'"
        )
    };
    conn.query_drop(switch("ENABLED = 'NO'")).expect("an update");
    let off = number(&mut conn, count);
    assert_eq!(number(&mut conn, count), off, "a disabled instrument counts nothing");
    conn.query_drop(switch("ENABLED = 'YES'")).expect("an update");
    assert!(number(&mut conn, count) > off, "an enabled one goes on");
    let own = "SELECT CURRENT_NUMBER_OF_BYTES_USED FROM performance_schema.memory_summary_global_by_event_name \
        WHERE EVENT_NAME = 'memory/performance_schema/mutex_instances'";
    assert!(number(&mut conn, own) > 0, "the built-in's own memory is shown");
    conn.query_drop("TRUNCATE performance_schema.memory_summary_global_by_event_name").expect("TRUNCATE");
    assert!(number(&mut conn, count) < off, "TRUNCATE resets the sums");
    // A session's controlled memory is that of the instruments that are controlled.
    let controlled =
        "SELECT CONTROLLED_MEMORY FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()";
    assert!(number(&mut conn, controlled) > 0);
    conn.query_drop("UPDATE performance_schema.setup_instruments SET FLAGS = '' WHERE NAME LIKE 'memory/%'")
        .expect("an update");
    let mut conn = server.client().expect("a client");
    assert_eq!(number(&mut conn, controlled), 0, "nothing is controlled any more");
}
