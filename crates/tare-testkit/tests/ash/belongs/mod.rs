//! A thousand samples a second while sessions wait for each other, are killed and end, accounts and schemas
//! are dropped, statements are deallocated and tables emptied: whatever a row names belongs together.

mod actors;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use mysql::{Conn, Row};
use tare_testkit::server::{Server, StartSettings, is_under_valgrind, patience};
use tare_testkit::subject::{TestProvider, checked_provider};
use tare_testkit::turn;

use super::{HISTORY, rows, set_status, status};
use actors::{Cast, Curtain, Member, Role};

const IDENTITIES: usize = 9;
const WORKERS: usize = 3;
/// Samples at each level, if there are a thousand a second, and otherwise.
const SAMPLES: [u64; 2] = [2000, 200];
/// How many rows of sessions that wait for row locks, with their blockers, are few at a level.
const WAITERS: usize = 10;
/// How much clocks of a machine differ at most.
const SLACK_US: u64 = 1_000_000;

/// A row of the history.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sampled {
    time_us: u64,
    thread: u64,
    connection: Option<u32>,
    texts: HashMap<&'static str, String>,
    event: Option<u64>,
    blocker: Option<(u64, Option<u32>)>,
    /// Of statement, wait and transaction.
    ages: [Option<u64>; 3],
}

const TEXTS: [&str; 12] = [
    "USER",
    "HOST",
    "SCHEMA_NAME",
    "DIGEST",
    "STAGE",
    "STATE",
    "WAIT_CLASS",
    "WAIT_EVENT",
    "OBJECT_TYPE",
    "OBJECT_SCHEMA",
    "OBJECT_NAME",
    "THREAD_NAME",
];

impl Sampled {
    fn of(row: &Row) -> Sampled {
        let number = |name: &str| row.get::<Option<u64>, _>(name).unwrap();
        let text = |name: &'static str| Some((name, row.get::<Option<String>, _>(name).unwrap()?));
        let connection = |name: &str| number(name).map(|id| u32::try_from(id).unwrap());
        Sampled {
            time_us: number("us").unwrap(),
            thread: number("THREAD_ID").unwrap(),
            connection: connection("PROCESSLIST_ID"),
            texts: TEXTS.into_iter().filter_map(text).collect(),
            event: number("STATEMENT_EVENT_ID"),
            blocker: number("BLOCKING_THREAD_ID")
                .map(|thread| (thread, connection("BLOCKING_PROCESSLIST_ID"))),
            ages: ["STATEMENT_AGE", "WAIT_AGE", "TRX_AGE"].map(number),
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// Returns when the statement began, or the sample was taken.
    fn began_us(&self) -> u64 {
        self.time_us.saturating_sub(self.ages[0].unwrap_or(0))
    }

    fn class(&self) -> &str {
        self.text("WAIT_CLASS").unwrap()
    }
}

/// All rows that were read, by time and thread: a row that is read again is the same.
type Read = BTreeMap<(u64, u64), Sampled>;

fn read(conn: &mut Conn, to: &mut Read) {
    let sql =
        format!("SELECT *, CAST(UNIX_TIMESTAMP(SAMPLE_TIME) * 1000000 AS UNSIGNED) AS us FROM {HISTORY}");
    for row in rows::<Row>(conn, &sql) {
        let row = Sampled::of(&row);
        let before = to.entry((row.time_us, row.thread)).or_insert_with(|| row.clone());
        assert_eq!(*before, row, "torn");
    }
}

/// Returns the server's time.
fn now_us(conn: &mut Conn) -> u64 {
    rows(conn, "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED)").remove(0)
}

/// Returns the number of rows of a class that name a blocker.
fn blocked(read: &Read, class: &str) -> usize {
    read.values().filter(|row| row.class() == class && row.blocker.is_some()).count()
}

/// Digests of the statements that an identity sends, with their texts.
type Digests = HashMap<usize, HashMap<String, String>>;

/// Has each identity live once, undisturbed, and returns what it sent.
fn rehearse(cast: &Cast<'_>, conn: &mut Conn) -> Digests {
    (0..IDENTITIES).for_each(|identity| cast.live(identity, false));
    let mut digests = Digests::new();
    let sql = "SELECT SCHEMA_NAME, DIGEST, DIGEST_TEXT FROM performance_schema.events_statements_summary_by_digest \
               WHERE SCHEMA_NAME RLIKE '^s[0-9]+$' AND DIGEST IS NOT NULL";
    for (schema, digest, text) in rows::<(String, String, String)>(conn, sql) {
        digests.entry(schema[1..].parse().unwrap()).or_default().insert(digest, text);
    }
    assert_eq!(digests.len(), IDENTITIES);
    assert!(digests.values().all(|its| its.len() > 15), "{digests:?}");
    digests
}

/// What is known when rows are judged.
struct Truth {
    members: HashMap<u32, Member>,
    digests: Digests,
    instruments: HashSet<String>,
}

/// The number behind a name's first letter, if it is one of an identity's: `t12`.
fn identity_of(name: &str) -> Option<usize> {
    let digits = name.strip_prefix(|letter| "ustalnmp".contains(letter))?;
    digits.parse().ok()
}

impl Truth {
    /// Returns what is wrong with a row by itself.
    fn judged(&self, row: &Sampled) -> Vec<&'static str> {
        let mut wrong = vec![];
        let mut must = |is_right: bool, what| wrong.extend((!is_right).then_some(what));
        must((row.text("STATE") == Some("WAITING")) == (row.class() != "CPU"), "state and class");
        let mut instruments = ["STAGE", "WAIT_EVENT"].into_iter().filter_map(|column| row.text(column));
        let is_instrument = |name| name == "wait/lock/row/handler" || self.instruments.contains(name);
        must(instruments.all(is_instrument), "no instrument");
        must(row.text("THREAD_NAME").is_some_and(|name| name.starts_with("thread/")), "no thread");
        must(row.text("HOST").is_none_or(|host| host == "localhost"), "no host");
        let Some(member) = row.connection.and_then(|id| self.members.get(&id)) else { return wrong };
        let life = (row.time_us + SLACK_US).checked_sub(member.since_us);
        must(life.is_some(), "before its connection");
        must(row.ages.iter().flatten().all(|age| Some(*age) <= life), "older than its connection");
        if member.role != Role::Defines {
            wrong.extend(self.judged_session(row, *member));
        }
        wrong.extend(self.judged_blocker(row, *member));
        wrong
    }

    /// Returns what is wrong with whose a row of an identity's session is, and with what it names.
    fn judged_session(&self, row: &Sampled, Member { identity, role, .. }: Member) -> Vec<&'static str> {
        let own = |letter: char| format!("{letter}{identity}");
        let mut wrong = vec![];
        let mut must = |is_right: bool, what| wrong.extend((!is_right).then_some(what));
        must(row.text("USER").is_none_or(|user| user == own('u')), "user");
        must(row.text("USER").is_some() == row.text("HOST").is_some(), "half an account");
        must(row.text("SCHEMA_NAME").is_none_or(|schema| schema == own('s')), "schema");
        for name in ["OBJECT_SCHEMA", "OBJECT_NAME"].into_iter().filter_map(|column| row.text(column)) {
            must(identity_of(name).is_none_or(|its| its == identity), "object");
        }
        let takes_none = !matches!(row.class(), "ROW LOCK" | "USER LOCK" | "TABLE LOCK");
        must(role != Role::Looks || takes_none, "it takes no lock");
        let Some(digest) = row.text("DIGEST") else { return wrong };
        let text = self.digests[&identity].get(digest);
        must(text.is_some(), "it sent no such statement");
        let is_of = |words: &[&str]| words.iter().any(|word| text.is_some_and(|text| text.contains(word)));
        match row.class() {
            "ROW LOCK" => must(is_of(&["UPDATE", "ALTER", "EXECUTE"]), "this statement locks no row"),
            "USER LOCK" => must(is_of(&["GET_LOCK"]), "this statement takes no user lock"),
            "SLEEP" => must(is_of(&["SLEEP"]), "this statement does not sleep"),
            _ => {}
        }
        wrong
    }

    /// Returns what is wrong with whom a row names as its blocker.
    fn judged_blocker(&self, row: &Sampled, Member { identity, .. }: Member) -> Option<&'static str> {
        let (thread, connection) = row.blocker?;
        if thread == row.thread || connection == row.connection {
            return Some("it blocks itself");
        }
        let holder = connection.and_then(|id| self.members.get(&id));
        let is_own = holder.is_some_and(|it| it.identity == identity);
        let may_hold = match row.class() {
            "ROW LOCK" | "USER LOCK" => is_own && holder.is_some_and(|it| it.role == Role::Locks),
            // InnoDB's purge takes metadata locks, too.
            "METADATA LOCK" if connection.is_none() => true,
            "METADATA LOCK" | "TABLE LOCK" => is_own && holder.is_some_and(|it| it.role != Role::Looks),
            _ => true,
        };
        (!may_hold).then_some("this blocker had no such lock")
    }
}

/// Panics unless each key has one value.
fn assert_one<K: std::hash::Hash + Eq + std::fmt::Debug, V: PartialEq + std::fmt::Debug + Clone>(
    pairs: impl Iterator<Item = (K, V)>,
) {
    let mut known: HashMap<K, V> = HashMap::new();
    for (key, value) in pairs {
        if let Some(before) = known.insert(key, value.clone()) {
            assert_eq!(before, value, "of one");
        }
    }
}

/// Judges what rows say of the same threads and statements.
fn judge_together(read: &Read) {
    let sampled = || read.values();
    let threads = || {
        let blockers = sampled().filter_map(|row| row.blocker);
        sampled().map(|row| (row.thread, row.connection)).chain(blockers)
    };
    assert_one(threads());
    assert_one(threads().filter_map(|(thread, connection)| Some((connection?, thread))));
    assert_one(sampled().map(|row| (row.thread, row.text("THREAD_NAME"))));
    assert_one(sampled().filter_map(|row| Some((row.connection?, row.text("USER")?))));
    let of_statement = |column: &'static str| {
        sampled().filter_map(move |row| Some(((row.thread, row.event?), row.text(column)?)))
    };
    assert_one(of_statement("DIGEST"));
    assert_one(of_statement("SCHEMA_NAME"));
}

/// A server that samples a thousand times a second, if its provider can be told to.
fn server() -> Option<Server> {
    if !TestProvider::under_test().is_tare() {
        println!("skipped: the built-in has no such table");
        return None;
    }
    let settings = StartSettings::new(TestProvider::under_test())
        .tare_option("ash-interval", "10ms")
        .tare_option("ash-budget", "OFF")
        .tare_option("ash-memory", "512K")
        .tare_option("sample", "1/3");
    // Under valgrind a thousand samples a second are no aim.
    let settings = match checked_provider().filter(|_| !is_under_valgrind()) {
        Some(library) => settings
            .environment("LD_PRELOAD", &library.to_string_lossy())
            .environment("TARE_ASH_INTERVAL", "1000"),
        None => settings,
    };
    Server::start(settings).unwrap().on_its_port()
}

#[test]
fn whatever_happens_the_names_of_a_row_belong_together() {
    let _turn = turn();
    let Some(server) = server() else { return };
    let mut conn = server.client().unwrap();
    let interval: String =
        rows(&mut conn, "SELECT VALUE FROM performance_schema.tare_status WHERE NAME = 'ash_interval'")
            .remove(0);
    let samples = SAMPLES[usize::from(interval != "1ms")];
    let cast = Cast::new(&server);
    let digests = rehearse(&cast, &mut conn);
    let mut of_levels: Vec<(&str, u64, Read)> = vec![];
    std::thread::scope(|scope| {
        let _curtain = Curtain(&cast.ends);
        for worker in 0..WORKERS {
            let cast = &cast;
            scope.spawn(move || cast.act(worker, WORKERS, IDENTITIES));
        }
        scope.spawn(|| cast.kill());
        scope.spawn(|| cast.truncate());
        for level in ["lean", "sampled", "sums", "off"] {
            set_status(&mut conn, "level", level);
            let set_us = now_us(&mut conn);
            let (begin, first) = (Instant::now(), status(&mut conn, "ash_samples"));
            let (mut seen, mut taken, mut readings) = (Read::new(), 0, 0);
            // On a machine that leaves the server little time fewer samples are enough, and it takes longer
            // until somebody has waited.
            let is_enough = |taken: u64, seen: &Read, lasted: Duration| match lasted < patience() {
                true => taken >= samples && blocked(seen, "ROW LOCK") > WAITERS,
                false => taken >= SAMPLES[1],
            };
            while !is_enough(taken, &seen, begin.elapsed()) {
                let rows = seen.len();
                assert!(
                    begin.elapsed() < 3 * patience(),
                    "{level}: {taken} samples in {readings} readings of {rows} rows"
                );
                read(&mut conn, &mut seen);
                readings += 1;
                taken = status(&mut conn, "ash_samples") - first;
            }
            println!("{level}: {taken} samples in {:.1?}, {} rows", begin.elapsed(), seen.len());
            of_levels.push((level, set_us, seen));
        }
    });
    let instruments =
        rows(&mut conn, "SELECT NAME FROM performance_schema.setup_instruments").into_iter().collect();
    let truth = Truth { members: cast.members(), digests, instruments };
    for (level, set_us, read) in &of_levels {
        let wrong: Vec<_> = read
            .values()
            .flat_map(|row| truth.judged(row).into_iter().map(move |what| (what, row)))
            .collect();
        assert!(wrong.is_empty(), "{level}: {} are wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
        let blocked = |class: &str| blocked(read, class);
        // A statement that began before the level changed still has its digest, and so have rows that were
        // there.
        let begun: Vec<_> = read.values().filter(|row| row.began_us() > *set_us).collect();
        let told = begun.iter().filter(|row| row.text("DIGEST").is_some()).count();
        println!(
            "{level}: {told} digests, blockers of {} row, {} metadata and {} user locks",
            blocked("ROW LOCK"),
            blocked("METADATA LOCK"),
            blocked("USER LOCK")
        );
        assert!(blocked("ROW LOCK") > WAITERS, "{level}: hardly anybody waits for rows");
        assert_eq!(told > begun.len() / 10, *level != "off", "{level}: {told} digests of {}", begun.len());
    }
    judge_together(&of_levels.into_iter().flat_map(|(.., read)| read).collect());
}
