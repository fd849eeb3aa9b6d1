//! The active session history: what it says of sessions that do one thing all the time, at every level, and
//! what `tare ash --dsn` says of the same sessions at the same time through the server's own tables.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_outlets::Address;
use tare_outlets::ash::columns::{COLUMNS, HISTORY as RECORDED};
use tare_outlets::ash::{self, Control, Destination, Options, Rotation, file};
use tare_testkit::active_load::{ActiveSessions, SessionActivity, Until, sampling_error};
use tare_testkit::eventually;
use tare_testkit::mysql_server::Mysql;

use crate::socket::{connect, path, status};
use crate::{library, rows};

const LIMIT: Duration = Duration::from_secs(60);
/// Samples to judge by.
const SAMPLES: u64 = 150;
const HISTORY: &str = "tare_active_session_history";

fn samples(tare: &mut Conn) -> u64 {
    status(tare, "ash_samples").parse().expect("a number")
}

/// Whether a number of `all` rows is what a share makes of them, within the binomial error at 99%.
#[allow(clippy::cast_precision_loss)] // thousands
fn is_share(rows: u64, all: u64, share: f64) -> bool {
    let (rows, all) = (rows as f64, all as f64);
    (rows - all * share).abs() <= sampling_error(all, share)
}

/// Panics unless the rows of the load's sessions are of the classes of what they do, and those that sleep
/// have the digest `sleeps`.
fn judge(level: &str, load: &ActiveSessions<'_>, rows: &[Vec<Option<String>>], sleeps: &str) {
    let (all, sessions) = (rows.len() as u64, load.truth.len());
    assert!(all >= SAMPLES * sessions as u64 * 9 / 10, "{level}: {all} rows of {sessions} sessions");
    let mut counted: BTreeMap<&str, u64> = BTreeMap::new();
    let mut woken = 0;
    for row in rows {
        let text = |at: usize| row[at].as_deref().unwrap_or("");
        let (class, state) = (text(1), text(2));
        let SessionActivity { class: truth, .. } = &load.truth[&text(0).parse().expect("a connection")];
        if class != *truth {
            // It may have been woken for a moment, or be between two waits for a user's lock: that is a
            // metadata lock, and no stage says whose.
            let is_between = *truth == "USER LOCK" && class == "METADATA LOCK";
            assert!(class == "CPU" || is_between, "{level}: {row:?} of one in {truth}");
            woken += 1;
        }
        assert_eq!(class == "CPU", state != "WAITING", "{level}: {row:?}");
        if class == "ROW LOCK" {
            assert_eq!(text(3), "wait/lock/row/handler", "{level}");
        }
        assert_eq!(text(5), "thread/sql/one_connection", "{level}");
        *counted.entry(class).or_default() += 1;
    }
    assert!(woken <= all / 100, "{level}: they wait all the time: {woken} of {all}");
    let mut expected: BTreeMap<&str, usize> = BTreeMap::new();
    load.truth.values().for_each(|doing| *expected.entry(doing.class).or_default() += 1);
    for (class, of) in expected {
        #[allow(clippy::cast_precision_loss)] // few
        let share = of as f64 / sessions as f64;
        let count = counted.get(class).copied().unwrap_or(0);
        assert!(is_share(count, all, share), "{level}, {class}: {count} of {all}, expected {share}");
    }
    let told = rows.iter().filter(|row| row[4].is_some()).count() as u64;
    let asleep =
        rows.iter().filter(|row| row[1].as_deref() == Some("SLEEP")).filter_map(|row| row[4].as_deref());
    assert!(asleep.clone().all(|it| it == sleeps), "{level}: {:?}, not {sleeps}", asleep.clone().next());
    assert!(told >= all * 99 / 100, "{level}: {told} of {all} rows have a digest");
}

fn at_level(level: &str) {
    // At level sampled, hardly any statement is chosen.
    let settings = format!("level={level}; sample=1/1000000; ash-interval=20ms");
    let Some(server) = Mysql::preloaded(&library(), &settings, &[]).expect("a server") else { return };
    let load = ActiveSessions::all(&server);
    let mut tare = connect(&path(&server));
    let begin = rows(&mut tare, &format!("SELECT MAX(SAMPLE_TIME) FROM {HISTORY}"));
    let begin = begin[0][0].clone().unwrap_or_default();
    let before = samples(&mut tare);
    eventually("samples", LIMIT, || samples(&mut tare) > before + SAMPLES);
    tare.query_drop("UPDATE tare_status SET VALUE = 'OFF' WHERE NAME = 'ash_interval'").expect("a setting");
    let of = |tare: &mut Conn, sessions: &str| {
        let sql = format!(
            "SELECT PROCESSLIST_ID, WAIT_CLASS, STATE, WAIT_EVENT, DIGEST, THREAD_NAME FROM {HISTORY} \
             WHERE PROCESSLIST_ID IN ({sessions}) AND SAMPLE_TIME > '{begin}'"
        );
        rows(tare, &sql)
    };
    let mut client = server.client().expect("a client");
    let sleeps =
        rows(&mut client, "SELECT STATEMENT_DIGEST('SELECT SLEEP(600)')")[0][0].clone().expect("a digest");
    judge(level, &load, &of(&mut tare, &load.list()), &sleeps);
    assert_eq!(
        of(&mut tare, &load.idle_list()),
        Vec::<Vec<_>>::new(),
        "{level}: idle sessions are not active"
    );
}

#[test]
fn at_lean_every_session_does_what_it_does() {
    at_level("lean");
}

#[test]
fn at_sampled_every_session_does_what_it_does() {
    at_level("sampled");
}

#[test]
fn at_sums_every_session_does_what_it_does() {
    at_level("sums");
}

/// What the server says of the metadata lock that each connection waits for: OBJECT_TYPE, OBJECT_SCHEMA and
/// OBJECT_NAME.
fn awaited(server: &Mysql) -> BTreeMap<String, Vec<Option<String>>> {
    let sql = "SELECT PROCESSLIST_ID, OBJECT_TYPE, OBJECT_SCHEMA, OBJECT_NAME FROM performance_schema.metadata_locks \
               JOIN performance_schema.threads ON THREAD_ID = OWNER_THREAD_ID WHERE LOCK_STATUS = 'PENDING'";
    let rows = rows(&mut server.client().expect("a client"), sql);
    rows.into_iter().map(|mut row| (row.remove(0).expect("a connection"), row)).collect()
}

/// Panics unless those who wait for a metadata lock have its name, and somebody who is in their way;
/// `waiting` is their number. Nobody else is ever named.
fn judge_blockers(server: &Mysql, load: &ActiveSessions<'_>, waiting: usize) {
    let mut tare = connect(&path(server));
    let begin = rows(&mut tare, &format!("SELECT MAX(SAMPLE_TIME) FROM {HISTORY}"))[0][0].clone();
    let before = samples(&mut tare);
    eventually("samples", LIMIT, || samples(&mut tare) > before + SAMPLES);
    let sql = format!(
        "SELECT PROCESSLIST_ID, BLOCKING_PROCESSLIST_ID, BLOCKING_THREAD_ID, OBJECT_TYPE, OBJECT_SCHEMA, OBJECT_NAME \
         FROM {HISTORY} WHERE PROCESSLIST_ID IN ({}) AND SAMPLE_TIME > '{}'",
        load.list(),
        begin.unwrap_or_default()
    );
    let truth = awaited(server);
    assert_eq!(truth.len(), waiting, "{truth:?}");
    let threads = "SELECT PROCESSLIST_ID, THREAD_ID FROM threads WHERE PROCESSLIST_ID IS NOT NULL";
    let threads: BTreeMap<_, _> =
        rows(&mut tare, threads).into_iter().map(|mut row| (row.remove(0), row.remove(0))).collect();
    let mut named: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    let mut for_rows = [0; 2];
    for row in rows(&mut tare, &sql) {
        let id = row[0].clone().expect("a connection");
        let does = &load.truth[&id.parse().expect("a number")];
        if let Some(blocker) = &row[1] {
            assert!(does.blockers.contains(&blocker.parse().expect("a number")), "{row:?}: {does:?}");
            assert_eq!(row[2], threads[&row[1]], "{row:?}");
        }
        if does.class == "ROW LOCK" {
            for_rows[usize::from(row[1].is_some())] += 1;
        }
        if matches!(does.class, "METADATA LOCK" | "USER LOCK") {
            let [all, whole] = named.entry(id.clone()).or_default();
            *all += 1;
            *whole += u64::from(row[1].is_some() && row[3..] == truth[&id]);
            // One that has been woken for a moment names none.
            assert!(row[3].is_none() || row[3..] == truth[&id], "{row:?}: {:?}", truth[&id]);
        }
    }
    assert_eq!(named.len(), waiting, "{named:?}");
    assert!(for_rows[0] * 50 <= for_rows[1], "those who wait for a row name somebody: {for_rows:?}");
    assert!(named.values().all(|[all, whole]| *all > SAMPLES / 2 && whole * 100 >= all * 99), "{named:?}");
}

#[test]
fn who_waits_for_a_metadata_lock_names_it_and_whoever_is_in_the_way() {
    const LOCK: &str = "METADATA LOCK";
    let settings = "sample=1/1000000; ash-interval=20ms";
    let Some(server) = Mysql::preloaded(&library(), settings, &[]).expect("a server") else { return };
    let mut load = ActiveSessions::all(&server);
    let waits = Until::State("Waiting for table metadata lock");
    // Who wants to drop the table waits for a writer, and for what the ALTER has already.
    let writer = load.idle(&["CREATE TABLE w (id INT PRIMARY KEY)", "BEGIN", "INSERT INTO w VALUES (1)"]);
    let alter = load.busy(&[], "ALTER TABLE w ADD COLUMN v INT", &waits, LOCK);
    load.waits_for(alter, &[writer]);
    let drops = load.busy(&[], "DROP TABLE w", &waits, LOCK);
    load.waits_for(drops, &[writer, alter]);
    // The name of a function is compared in another form than it is written.
    let function = "CREATE FUNCTION CafÉ() RETURNS INT DETERMINISTIC RETURN 1";
    let caller = load.idle(&[function, "BEGIN", "SELECT CafÉ()"]);
    let drops = load.busy(&[], "DROP FUNCTION CAFÉ", &Until::State("Waiting for stored function"), LOCK);
    load.waits_for(drops, &[caller]);
    judge_blockers(&server, &load, 8);
    drop(load);

    let mut load = ActiveSessions::new(&server);
    let locks_all = load.idle(&["FLUSH TABLES WITH READ LOCK"]);
    let global = Until::State("Waiting for global read lock");
    for _ in 0..2 {
        let writer = load.busy(&[], "INSERT INTO t VALUES (9, 9)", &global, LOCK);
        load.waits_for(writer, &[locks_all]);
    }
    judge_blockers(&server, &load, 2);
}

/// Ends a recording.
#[derive(Default)]
struct Hand(AtomicBool);

impl Control for Hand {
    fn is_over(&self) -> bool {
        self.0.load(SeqCst)
    }

    fn reopens(&self) -> bool {
        false
    }

    fn tell(&self, _: &str) {}
}

/// Records what the server's own tables say of these sessions, until there have been `wanted` samples in
/// tare's history. Returns how many rows each class has.
fn sampled_outside(
    server: &Mysql,
    tare: &mut Conn,
    load: &ActiveSessions<'_>,
    wanted: u64,
) -> BTreeMap<String, u64> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ash.jsonl");
    let socket = server.socket().to_string_lossy().replace('/', "%2F");
    let options = Options {
        address: Address::dsn(&format!("mysql://root@localhost?socket={socket}")).expect("an address"),
        interval: Duration::from_millis(20),
        destination: Destination::File(path.clone(), Rotation::default()),
    };
    let hand = Hand::default();
    std::thread::scope(|scope| {
        let recording = scope.spawn(|| ash::run(&options, &hand));
        let done = tare_testkit::poll(LIMIT, || (samples(tare) >= wanted).then_some(()));
        hand.0.store(true, SeqCst);
        recording.join().expect("no panic").expect("it records");
        assert!(done.is_some(), "{} samples", samples(tare));
    });
    let at = |name: &str| COLUMNS.iter().position(|(column, _)| *column == name).expect("a column");
    let (id, class) = (at("PROCESSLIST_ID"), at("WAIT_CLASS"));
    let recorded = file::read(&path, &|_, _| true).unwrap_or_else(|error| panic!("{error}"));
    let mut counted = BTreeMap::new();
    for row in &recorded.table(RECORDED).expect("the history").rows {
        let id = row[id].count().and_then(|id| u32::try_from(id).ok());
        if id.is_some_and(|id| load.truth.contains_key(&id)) {
            *counted.entry(row[class].text().unwrap_or_default().to_owned()).or_default() += 1;
        }
    }
    counted
}

#[test]
fn it_has_the_shares_that_are_sampled_from_outside() {
    let settings = "sample=1/1000000; ash-interval=20ms";
    let Some(server) = Mysql::preloaded(&library(), settings, &[]).expect("a server") else { return };
    let load = ActiveSessions::all(&server);
    let mut tare = connect(&path(&server));
    let begin =
        rows(&mut tare, &format!("SELECT MAX(SAMPLE_TIME) FROM {HISTORY}"))[0][0].clone().expect("rows");
    let wanted = samples(&mut tare) + SAMPLES;
    let outside = sampled_outside(&server, &mut tare, &load, wanted);
    let sql = format!(
        "SELECT WAIT_CLASS FROM {HISTORY} WHERE PROCESSLIST_ID IN ({}) AND SAMPLE_TIME > '{begin}'",
        load.list()
    );
    let mut inside: BTreeMap<String, u64> = BTreeMap::new();
    for class in rows(&mut tare, &sql).into_iter().flatten().flatten() {
        *inside.entry(class).or_default() += 1;
    }
    let all = [&inside, &outside].map(|counted| counted.values().sum::<u64>());
    assert!(all.iter().all(|rows| *rows > SAMPLES), "{inside:?} {outside:?}");
    for class in inside.keys().chain(outside.keys()) {
        let [here, there] = [&inside, &outside].map(|counted| counted.get(class).copied().unwrap_or(0));
        #[allow(clippy::cast_precision_loss)] // thousands
        let share = (here + there) as f64 / (all[0] + all[1]) as f64;
        let agree = is_share(here, all[0], share) && is_share(there, all[1], share);
        assert!(agree, "{class}: {here} of {}, from outside {there} of {}", all[0], all[1]);
    }
}
