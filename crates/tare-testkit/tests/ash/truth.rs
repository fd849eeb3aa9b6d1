//! What the history says of sessions that do one thing all the time, at every level: the class of each row,
//! and whom it names.

use std::collections::BTreeMap;

use tare_testkit::server::is_under_valgrind;
use tare_testkit::turn;

use super::load::{ActiveSessions, SessionActivity, sampling_error};
use super::{HISTORY, looks, rows, runs, sample_anew, server, set_status, stop_sampling};

/// Samples to judge by.
const SAMPLES: u64 = 150;

/// A row: connection, class, state, wait, blocking connection.
type Row = (u32, String, String, Option<String>, Option<u32>);

/// The classes of a load's rows, each with its number.
fn counted(rows: &[Row]) -> BTreeMap<&str, u64> {
    let mut counted = BTreeMap::new();
    rows.iter().for_each(|(_, class, ..)| *counted.entry(class.as_str()).or_default() += 1);
    counted
}

/// Panics unless a number of `all` rows is what a share makes of them, within the binomial error at 99% and
/// the rows of sessions that were in another class for a moment.
fn assert_share(rows: u64, all: u64, share: f64, moments: u64, what: &str) {
    #[allow(clippy::cast_precision_loss)] // thousands
    let (rows, all, moments) = (rows as f64, all as f64, moments as f64);
    let (expected, error) = (all * share, moments + sampling_error(all, share));
    assert!((rows - expected).abs() <= error, "{what}: {rows} of {all}, expected {expected} ± {error}");
}

/// Returns a row as it would be if threads ran beside each other, see [`runs`].
fn beside_others(row: Row) -> Row {
    match row {
        (id, class, _, None, None) if class != "CPU" && runs(&class) => {
            (id, "CPU".to_owned(), "RUNNABLE".to_owned(), None, None)
        }
        row => row,
    }
}

fn judge(level: &str, load: &ActiveSessions<'_>, rows: &[Row], names_locks: bool) {
    let (all, sessions) = (rows.len() as u64, load.truth.len());
    assert!(all >= SAMPLES * sessions as u64 * 9 / 10, "{level}: {all} rows of {sessions} sessions");
    let mut woken: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for row in rows {
        let (id, class, state, wait, blocker) = row;
        let SessionActivity { class: true_class, blockers } = &load.truth[id];
        if class != true_class {
            // It may have been about to begin, or woken for a moment.
            assert!(runs(class) || looks(class, true_class), "{level}: {row:?} of one in {true_class}");
            *woken.entry((true_class, state.as_str())).or_default() += 1;
        }
        assert_eq!(class == "CPU", state != "WAITING", "{level}: {row:?}");
        if let Some(blocker) = blocker {
            assert!(blockers.contains(blocker), "{level}: {row:?} waits for one of {blockers:?}");
        } else if class == true_class && !blockers.is_empty() {
            let may_be_unknown = !names_locks && class != "ROW LOCK";
            assert!(may_be_unknown, "{level}: {row:?} names nobody, and waits for one of {blockers:?}");
        }
        if class == "ROW LOCK" {
            assert_eq!(wait.as_deref(), Some("wait/lock/row/handler"), "{level}");
        }
    }
    // Under valgrind moments are longer, and shares are off by them.
    let woken_rows: u64 = woken.values().sum();
    let (most, moments) = if is_under_valgrind() { (all / 10, woken_rows) } else { (all / 100, 0) };
    assert!(woken_rows <= most, "{level}: they wait all the time: {woken:?}");
    let counted = counted(rows);
    let mut expected: BTreeMap<&str, usize> = BTreeMap::new();
    load.truth.values().for_each(|doing| *expected.entry(doing.class).or_default() += 1);
    for (class, of) in expected {
        #[allow(clippy::cast_precision_loss)] // few
        let share = of as f64 / sessions as f64;
        let rows = counted.get(class).copied().unwrap_or(0);
        assert_share(rows, all, share, moments, &format!("{level}, {class}"));
    }
}

fn at_level(level: &str, names_locks: bool) {
    let _turn = turn();
    // At level sampled, hardly any statement is chosen.
    let Some(server) = server(&[("sample", "1/1000000")]) else { return };
    let mut conn = server.client().unwrap();
    set_status(&mut conn, "level", level);
    let load = ActiveSessions::all(&server);
    sample_anew(&mut conn, SAMPLES);
    // By its key the table is read connection by connection, and meanwhile there would be further samples.
    stop_sampling(&server, &mut conn);
    let sql = format!(
        "SELECT PROCESSLIST_ID, WAIT_CLASS, STATE, WAIT_EVENT, BLOCKING_PROCESSLIST_ID FROM {HISTORY} \
         WHERE PROCESSLIST_ID IN ({}) ORDER BY SAMPLE_TIME",
        load.list()
    );
    let seen: Vec<Row> = rows(&mut conn, &sql).into_iter().map(beside_others).collect();
    judge(level, &load, &seen, names_locks);
    let named = rows::<(u64, u64)>(
        &mut conn,
        &format!(
            "SELECT COUNT(DIGEST), COUNT(STATEMENT_AGE) FROM {HISTORY} WHERE PROCESSLIST_ID IN ({})",
            load.list()
        ),
    )[0];
    // Between its command and its text, a statement has no digest yet.
    let most = seen.len() as u64;
    let told = if level == "off" { 0..1 } else { most * 99 / 100..most + 1 };
    assert!(told.contains(&named.0) && told.contains(&named.1), "{level}: {named:?} of {most}");
    let idle: Vec<Row> = rows(
        &mut conn,
        &format!(
            "SELECT PROCESSLIST_ID, WAIT_CLASS, STATE, WAIT_EVENT, BLOCKING_PROCESSLIST_ID FROM {HISTORY} \
             WHERE PROCESSLIST_ID IN ({})",
            load.idle_list()
        ),
    );
    assert_eq!(idle, [], "{level}: idle sessions are not active");
}

#[test]
fn at_lean_every_session_does_what_it_does() {
    at_level("lean", true);
}

#[test]
fn at_sampled_every_session_does_what_it_does() {
    at_level("sampled", true);
}

#[test]
fn at_sums_every_session_does_what_it_does() {
    at_level("sums", true);
}

#[test]
fn at_off_every_session_does_what_it_does() {
    at_level("off", false);
}
