//! What the host counts of its sessions: while they last, when they have ended, and what TRUNCATE leaves.

use std::sync::atomic::Ordering::Relaxed;

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

/// Connects an account whose session has counted so much.
fn session(rig: Rig, user: &str, host: &str, questions: u64) -> ThreadRef {
    let thread = rig.thread();
    rig.set_thread_account(thread, user.as_bytes(), host.as_bytes());
    count(rig, thread, questions);
    rig.begin_session(thread, thread.thread_id());
    thread
}

fn count(rig: Rig, thread: ThreadRef, questions: u64) {
    rig.host.sessions.lock().expect("no panic").insert(thread.thread_id(), vec![questions, 10 * questions]);
}

/// Questions by user and host; both counters move together.
fn sums(rig: Rig, level: Grouping) -> Vec<(String, String, u64)> {
    let row = |row: SessionCountersRow| {
        assert_eq!(row.counters[1], 10 * row.counters[0]);
        assert!(row.counters[2..].iter().all(|counter| *counter == 0));
        (row.owner.user.unwrap_or_default(), row.owner.host.unwrap_or_default(), row.counters[0])
    };
    rig.session_sums(level).into_iter().map(row).filter(|(_, _, questions)| *questions > 0).collect()
}

fn row(user: &str, host: &str, questions: u64) -> (String, String, u64) {
    (user.to_owned(), host.to_owned(), questions)
}

#[test]
fn sessions_are_read_while_they_last_and_summed_up_when_they_end() {
    let rig = Rig::new();
    let (one, two) = (session(rig, "a", "x", 1), session(rig, "a", "y", 2));
    let three = session(rig, "a", "x", 4);
    rig.thread();
    let by_thread: Vec<(u64, u64)> =
        rig.session_counters(None).iter().map(|row| (row.owner.thread_id, row.counters[0])).collect();
    assert_eq!(by_thread, [(one.thread_id(), 1), (two.thread_id(), 2), (three.thread_id(), 4)]);
    assert_eq!(rig.session_counters(Some(two.thread_id())).len(), 1);
    count(rig, one, 11);
    for gone in [None, Some(three), Some(one), Some(two)] {
        gone.into_iter().for_each(|gone| rig.delete_thread(gone));
        assert_eq!(sums(rig, Grouping::Account), [row("a", "x", 15), row("a", "y", 2)]);
        assert_eq!(sums(rig, Grouping::User), [row("a", "", 17)]);
        assert_eq!(sums(rig, Grouping::Host), [row("", "x", 15), row("", "y", 2)]);
    }
    assert!(rig.session_counters(None).is_empty());
    assert!(rig.session_sums(Grouping::Global).is_empty());
}

#[test]
fn a_session_that_ended_before_its_thread_is_counted_once() {
    let rig = Rig::new();
    let thread = session(rig, "a", "x", 5);
    rig.end_session(thread);
    assert_eq!(sums(rig, Grouping::Account), [row("a", "x", 5)]);
    rig.host.sessions.lock().expect("no panic").clear();
    rig.end_session(thread);
    rig.delete_thread(thread);
    assert_eq!(sums(rig, Grouping::Account), [row("a", "x", 5)]);
    let lost = rig.lost().into_iter().find(|row| row.name == "sessions_lost");
    assert_eq!(lost.map(|row| row.lost), Some(0));
}

#[test]
fn a_session_that_cannot_be_read_is_counted_as_lost() {
    let rig = Rig::new();
    let thread = session(rig, "a", "x", 5);
    rig.host.sessions.lock().expect("no panic").clear();
    assert!(rig.session_counters(None).is_empty());
    rig.delete_thread(thread);
    assert!(sums(rig, Grouping::Account).is_empty());
    let lost = rig.lost().into_iter().find(|row| row.name == "sessions_lost");
    assert_eq!(lost.map(|row| row.lost), Some(1));
}

#[test]
fn truncate_moves_what_ended_sessions_left_to_who_still_counts_it() {
    let rig = Rig::new();
    let gone = session(rig, "a", "x", 1);
    let _live = session(rig, "a", "x", 10);
    rig.delete_thread(gone);
    rig.reset(Reset::Sessions(Grouping::Thread));
    assert_eq!(sums(rig, Grouping::Account), [row("a", "x", 11)]);
    rig.reset(Reset::Sessions(Grouping::Account));
    assert_eq!(sums(rig, Grouping::Account), [row("a", "x", 10)]);
    assert_eq!(
        [sums(rig, Grouping::User), sums(rig, Grouping::Host)],
        [[row("a", "", 11)], [row("", "x", 11)]]
    );
    rig.reset(Reset::Sessions(Grouping::User));
    assert_eq!(
        [sums(rig, Grouping::User), sums(rig, Grouping::Host)],
        [[row("a", "", 10)], [row("", "x", 11)]]
    );
    rig.reset(Reset::Sessions(Grouping::Host));
    assert_eq!(sums(rig, Grouping::Host), [row("", "x", 10)]);
}

#[test]
fn forgotten_accounts_leave_their_sessions_to_user_and_host() {
    let rig = Rig::new();
    rig.delete_thread(session(rig, "a", "x", 3));
    rig.reset(Reset::Connections(Grouping::Account));
    assert!(sums(rig, Grouping::Account).is_empty());
    assert_eq!(sums(rig, Grouping::User), [row("a", "", 3)]);
    // The account's place is used again: nothing of the former one is left.
    rig.delete_thread(session(rig, "b", "y", 7));
    assert_eq!(sums(rig, Grouping::Account), [row("b", "y", 7)]);
    rig.reset(Reset::Connections(Grouping::User));
    assert_eq!(sums(rig, Grouping::Host), [row("", "x", 3), row("", "y", 7)]);
    assert!(sums(rig, Grouping::User).is_empty());
}

#[test]
fn a_flush_of_the_hosts_empties_what_ended_sessions_left_before_it() {
    let rig = Rig::new();
    rig.host.flush.store(1, Relaxed);
    rig.delete_thread(session(rig, "a", "x", 3));
    rig.host.flush.store(2, Relaxed);
    // Ends after the flush: it counts, and what ended before does not.
    rig.delete_thread(session(rig, "a", "x", 4));
    assert_eq!(sums(rig, Grouping::Account), [row("a", "x", 4)]);
    rig.host.flush.store(3, Relaxed);
    assert!(sums(rig, Grouping::User).is_empty());
    let _live = session(rig, "a", "x", 5);
    assert_eq!(sums(rig, Grouping::User), [row("a", "", 5)]);
}

#[test]
fn sums_hold_while_sessions_come_and_go() {
    let rig = Rig::new();
    const THREADS: u64 = 4;
    const SESSIONS: u64 = 300;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(move || {
                for _ in 0..SESSIONS {
                    let thread = session(rig, "a", "x", 1);
                    rig.delete_thread(thread);
                }
            });
        }
        let mut before = 0;
        while before < THREADS * SESSIONS {
            let now = sums(rig, Grouping::User).first().map_or(0, |row| row.2);
            assert!((before..=THREADS * SESSIONS).contains(&now), "{before} → {now}");
            before = now;
        }
    });
    assert_eq!(sums(rig, Grouping::Account), [row("a", "x", THREADS * SESSIONS)]);
}
