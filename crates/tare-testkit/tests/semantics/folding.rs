//! What threads have counted is what their accounts, users, hosts and all together have counted, whoever has
//! gone.

use std::collections::{BTreeMap, BTreeSet};

use mysql::Conn;
use tare_testkit::schema::SchemaConnection;
use tare_testkit::server::Server;
use tare_testkit::shared_turn;
use tare_testkit::subject::TestProvider;

use crate::parties::{close, connect, with_users, work};
use crate::until;

/// Families of summaries, and the columns that are added up.
const FAMILIES: [(&str, &[&str]); 5] = [
    ("events_waits_summary", &["COUNT_STAR"]),
    ("events_stages_summary", &["COUNT_STAR"]),
    ("events_statements_summary", &["COUNT_STAR", "SUM_ROWS_SENT", "SUM_ROWS_AFFECTED", "SUM_ROWS_EXAMINED"]),
    ("events_transactions_summary", &["COUNT_STAR", "COUNT_READ_WRITE", "COUNT_READ_ONLY"]),
    (
        "memory_summary",
        &["COUNT_ALLOC", "COUNT_FREE", "SUM_NUMBER_OF_BYTES_ALLOC", "SUM_NUMBER_OF_BYTES_FREE"],
    ),
];

/// The levels, from threads to all.
const LEVELS: [&str; 5] = ["by_thread", "by_account", "by_user", "by_host", "global"];

/// Sums by instrument and column.
type FoldedSums = BTreeMap<(String, &'static str), u64>;

fn sums(schema: &mut SchemaConnection, at: usize, level: &str, filter: &[(&str, &str)]) -> FoldedSums {
    let (family, columns) = FAMILIES[at];
    let rows = schema.rows_where(&format!("{family}_{level}_by_event_name"), filter).unwrap();
    let mut sums = FoldedSums::new();
    for row in &rows {
        for column in columns {
            *sums.entry((row.text("EVENT_NAME").to_owned(), column)).or_default() +=
                row.number(column).unwrap();
        }
    }
    sums.retain(|_, sum| *sum > 0);
    sums
}

fn add(into: &mut FoldedSums, of: FoldedSums) {
    of.into_iter().for_each(|(what, sum)| *into.entry(what).or_default() += sum);
}

/// Every level at one time, of the instruments that stood still meanwhile.
fn at_rest(schema: &mut SchemaConnection, at: usize) -> [FoldedSums; 5] {
    let before = sums(schema, at, "global", &[]);
    let first = sums(schema, at, "by_host", &[]);
    let mut levels = LEVELS.map(|level| sums(schema, at, level, &[]));
    let after = sums(schema, at, "global", &[]);
    let last = sums(schema, at, "by_host", &[]);
    let stands = |what: &(String, &'static str)| {
        before.get(what) == after.get(what) && first.get(what) == last.get(what)
    };
    levels.iter_mut().for_each(|level| level.retain(|what, _| stands(what)));
    levels
}

/// Connections of two users, batch after batch; what each of them had counted when it was last seen.
fn churn(server: &Server, schema: &mut SchemaConnection, batches: usize) -> [FoldedSums; 5] {
    let mut closed = [const { FoldedSums::new() }; 5];
    for batch in 0..batches {
        let mut open: Vec<Conn> =
            (0..8).map(|at| connect(server, if (at + batch) % 3 == 0 { "bob" } else { "ann" })).collect();
        std::thread::scope(|scope| {
            for conn in &mut open {
                scope.spawn(|| work(conn, 2));
            }
        });
        for conn in open {
            add_all(&mut closed, seen(schema, &conn));
            close(schema, conn);
        }
    }
    closed
}

fn add_all(into: &mut [FoldedSums; 5], of: [FoldedSums; 5]) {
    into.iter_mut().zip(of).for_each(|(into, of)| add(into, of));
}

/// What an idle connection has counted by itself: its last statement ends a moment after the answer.
fn seen(schema: &mut SchemaConnection, conn: &Conn) -> [FoldedSums; 5] {
    let thread = schema.thread_of(u64::from(conn.connection_id())).unwrap().unwrap().to_string();
    let mut all = || std::array::from_fn(|at| sums(schema, at, "by_thread", &[("THREAD_ID", &thread)]));
    let mut last: [FoldedSums; 5] = all();
    until(
        || {
            let now = all();
            let rests = now == last;
            last = now;
            rests
        },
        |rests| *rests,
    );
    last
}

/// Where two sums differ.
fn apart(a: &FoldedSums, b: &FoldedSums) -> Vec<String> {
    let every: BTreeSet<_> = a.keys().chain(b.keys()).collect();
    let apart = every.into_iter().filter(|what| a.get(*what) != b.get(*what));
    apart.map(|what| format!("{what:?}: {:?} and {:?}", a.get(what), b.get(what))).collect()
}

/// True for what a connection goes on to count after it was last seen: its last statement and its end.
fn counts_while_closing((name, column): &(String, &'static str)) -> bool {
    let names = ["idle", "wait/io/socket/", "wait/synch/", "stage/sql/", "statement/com/Quit"];
    names.iter().any(|begin| name.starts_with(begin)) || column.contains("FREE")
}

#[test]
fn every_level_adds_up_to_the_next_after_churn() {
    const BATCHES: usize = 4;
    let _turn = shared_turn();
    let (server, mut schema) = with_users();
    let closed = churn(&server, &mut schema, BATCHES);
    let mut stays = connect(&server, "ann");
    work(&mut stays, 1);
    let open = seen(&mut schema, &stays);
    for (at, (family, _)) in FAMILIES.iter().enumerate() {
        let [_, accounts, users, hosts, mut all] = at_rest(&mut schema, at);
        assert!(!hosts.is_empty(), "{family}: nothing stands still");
        assert_eq!(apart(&accounts, &users), Vec::<String>::new(), "{family}, accounts and users");
        assert_eq!(apart(&accounts, &hosts), Vec::<String>::new(), "{family}, accounts and hosts");
        // Memory of the server's own is nobody's; and the built-in's global summary of waits is made of
        // instances.
        all.retain(|(name, _), _| hosts.keys().any(|(of_hosts, _)| of_hosts == name));
        if *family != "events_waits_summary" || TestProvider::under_test().is_tare() {
            assert_eq!(apart(&hosts, &all), Vec::<String>::new(), "{family}, hosts and global");
        }

        let mut threads = closed[at].clone();
        add(&mut threads, open[at].clone());
        let mut of_users = sums(&mut schema, at, "by_account", &[("USER", "ann")]);
        add(&mut of_users, sums(&mut schema, at, "by_account", &[("USER", "bob")]));
        let less = |what: &(String, &'static str)| threads.get(what) > of_users.get(what);
        let lost: Vec<_> = threads.keys().filter(|what| less(what)).collect();
        assert!(lost.is_empty(), "{family}: accounts have less than their threads had of {lost:?}");
        for sums in [&mut threads, &mut of_users] {
            sums.retain(|what, _| !counts_while_closing(what));
        }
        assert!(!threads.is_empty() || *family == "events_stages_summary", "{family}");
        assert_eq!(apart(&threads, &of_users), Vec::<String>::new(), "{family}, threads and accounts");
    }
    let mut ended = |user| {
        let filter = [("USER", user), ("EVENT_NAME", "statement/com/Quit")];
        schema.sum("events_statements_summary_by_user_by_event_name", &filter, "COUNT_STAR").unwrap()
    };
    assert_eq!(ended("ann") + ended("bob"), 8 * BATCHES as u64);
}
