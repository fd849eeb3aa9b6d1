//! Histories: how many rows, which, in which order, and who outlives whom.

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

/// The four event types, each with a way to make one event that uses one id.
fn event_types(rig: Rig) -> [(EventType, Box<dyn Fn()>); 4] {
    [
        (EventType::Transaction, Box::new(move || _ = rig.transaction(false, |_| ()))),
        (EventType::Statement, Box::new(move || rig.query("select 1"))),
        (
            EventType::Stage,
            Box::new(move || {
                rig.stage(rig.class.stage);
                rig.end_stage();
            }),
        ),
        (EventType::Wait, Box::new(move || _ = rig.wait(rig.class.mutex))),
    ]
}

fn ids(rig: Rig, of: EventType, thread: ThreadRef, scope: Scope) -> Vec<u64> {
    match of {
        EventType::Transaction => rig.transaction_ids(thread, scope),
        EventType::Statement => rig.statement_ids(thread, scope),
        EventType::Stage => rig.stage_ids(thread, scope),
        EventType::Wait => rig.wait_ids(thread, scope),
    }
}

#[test]
fn a_threads_history_is_its_last_events_oldest_first() {
    for size in [1, 10, 64, 100] {
        let rig = Rig::with(Config { history_size: [size; 4], ..small() });
        for (of, event) in event_types(rig) {
            let thread = rig.connect();
            for done in 1..400u64 {
                event();
                if done % 13 == 0 || !(5..=390).contains(&done) {
                    let first = done.saturating_sub(u64::from(size)) + 1;
                    let expected: Vec<u64> = (first..=done).collect();
                    assert_eq!(ids(rig, of, thread, Scope::History), expected, "{of:?} {size} after {done}");
                }
            }
        }
    }
}

#[test]
fn a_history_of_long_statements_is_as_long_as_one_of_short_ones() {
    let rig = Rig::with(Config { history_size: [32; 4], ..small() });
    let thread = rig.connect();
    let sql = "x".repeat(2000);
    for _ in 0..100 {
        rig.query(&sql);
    }
    let expected: Vec<u64> = (69..=100).collect();
    assert_eq!(rig.statement_ids(thread, Scope::History), expected);
}

#[test]
fn a_history_in_which_some_events_are_not_timed_keeps_the_last_ones_too() {
    let rig = Rig::new();
    rig.set_instrument(rig.class.mutex, None, Some(false));
    let thread = rig.connect();
    for _ in 0..20 {
        rig.wait(rig.class.rwlock);
        rig.wait(rig.class.mutex);
    }
    let expected: Vec<u64> = (31..=40).collect();
    assert_eq!(rig.wait_ids(thread, Scope::History), expected);
}

#[test]
fn the_long_history_is_bounded_and_holds_the_last_events_of_all() {
    for size in [1, 10, 64, 100, 1000] {
        let rig = Rig::with(Config { history_long_size: [size; 4], ..small() });
        for (of, event) in event_types(rig) {
            let (one, other) = (rig.thread(), rig.thread());
            for _ in 0..700 {
                rig.on(one, &event);
                rig.on(other, &event);
            }
            let (a, b) = (ids(rig, of, one, Scope::HistoryLong), ids(rig, of, other, Scope::HistoryLong));
            assert_eq!(a.len() + b.len(), size as usize, "{of:?}");
            assert!(
                a.iter().chain(&b).all(|id| *id > 700 - u64::from(size).min(700)),
                "{of:?} {size} {a:?} {b:?}"
            );
        }
    }
}

#[test]
fn a_small_long_history_does_not_eat_memory() {
    let rig = Rig::with(Config { history_long_size: [1; 4], ..small() });
    rig.connect();
    let events = event_types(rig);
    let run = || {
        for (_, event) in &events {
            for _ in 0..2_000 {
                event();
            }
        }
    };
    run();
    let before = rig.memory().0;
    for _ in 0..5 {
        run();
    }
    assert_eq!(rig.memory().0, before);
}

#[test]
fn without_long_history_and_without_history_events_still_count_and_show_as_current() {
    let rig = Rig::with(Config { history_size: [0; 4], history_long_size: [0; 4], ..small() });
    for (of, event) in event_types(rig) {
        let thread = rig.connect();
        for _ in 0..300 {
            event();
        }
        assert_eq!(ids(rig, of, thread, Scope::History), [0; 0], "{of:?}");
        assert_eq!(ids(rig, of, thread, Scope::HistoryLong), [0; 0], "{of:?}");
        let last: &[u64] = if of == EventType::Stage { &[] } else { &[300] };
        assert_eq!(ids(rig, of, thread, Scope::Current), last, "{of:?}");
    }
}

#[test]
fn the_long_history_outlives_its_thread_and_the_thread_history_does_not() {
    let rig = Rig::new();
    for (of, event) in event_types(rig) {
        let thread = rig.connect();
        for _ in 0..5 {
            event();
        }
        rig.delete_thread(thread);
        let owners: Vec<u64> = match of {
            EventType::Transaction => owners(rig.transactions(Scope::HistoryLong), |row| row.head.thread_id),
            EventType::Statement => owners(rig.statements(Scope::HistoryLong), |row| row.head.thread_id),
            EventType::Stage => owners(rig.stages(Scope::HistoryLong), |row| row.head.thread_id),
            EventType::Wait => owners(rig.waits(Scope::HistoryLong), |row| row.head.thread_id),
        };
        assert_eq!(owners.len(), 5, "{of:?}");
        assert!(owners.iter().all(|owner| *owner == owners[0]), "{of:?}");
        assert!(ids(rig, of, thread, Scope::History).is_empty());
        assert!(ids(rig, of, thread, Scope::Current).is_empty());
    }
}

fn owners<R>(rows: Vec<R>, of: impl Fn(&R) -> u64) -> Vec<u64> {
    rows.iter().map(of).collect()
}

#[test]
fn the_long_history_holds_untimed_events_of_all_threads_too() {
    let rig = Rig::with(Config { history_long_size: [40; 4], ..small() });
    rig.set_instrument(rig.class.mutex, None, Some(false));
    let (one, other) = (rig.thread(), rig.thread());
    for _ in 0..20 {
        rig.on(one, || rig.wait(rig.class.mutex));
        rig.on(other, || rig.wait(rig.class.mutex));
    }
    assert_eq!(rig.wait_ids(one, Scope::HistoryLong).len(), 20);
    assert_eq!(rig.wait_ids(other, Scope::HistoryLong).len(), 20);
}

#[test]
fn history_is_kept_per_thread_whatever_other_threads_do() {
    let rig = Rig::new();
    let (quiet, busy) = (rig.thread(), rig.thread());
    rig.on(quiet, || {
        for _ in 0..3 {
            rig.wait(rig.class.mutex);
        }
    });
    rig.on(busy, || {
        for _ in 0..5_000 {
            rig.wait(rig.class.mutex);
        }
    });
    assert_eq!(rig.wait_ids(quiet, Scope::History), [1, 2, 3]);
    assert_eq!(rig.wait_ids(busy, Scope::History), (4991..=5000).collect::<Vec<u64>>());
    assert_eq!(rig.wait_ids(quiet, Scope::Current), [3]);
}

#[test]
fn a_wait_in_progress_takes_no_place_in_the_history() {
    let rig = Rig::with(Config { history_size: [64; 4], ..small() });
    let thread = rig.connect();
    rig.wait_around(rig.class.file, || {
        for done in 1..500u64 {
            rig.wait(rig.class.mutex);
            let expected: Vec<u64> = (done.saturating_sub(64) + 2..=done + 1).collect();
            assert_eq!(rig.wait_ids(thread, Scope::History), expected, "after {done}");
        }
    });
}

#[test]
fn a_history_of_the_longest_statements_has_all_its_rows() {
    let rig = Rig::with(Config {
        history_size: [32; 4],
        history_long_size: [0; 4],
        max_sql_text_length: MAX_SQL_TEXT as u32,
        ..small()
    });
    let thread = rig.connect();
    let sql = "x".repeat(MAX_SQL_TEXT);
    for _ in 0..100 {
        rig.query(&sql);
    }
    let expected: Vec<u64> = (69..=100).collect();
    assert_eq!(rig.statement_ids(thread, Scope::History), expected);
}

/// Pools send COM_CHANGE_USER between two users of a connection, mostly to the account it has.
#[test]
fn who_changes_to_the_account_it_has_fills_its_blocks() {
    let rig = Rig::with(Config { history_long_size: [1_000; 4], ..small() });
    let thread = rig.connect();
    for _ in 0..400 {
        rig.set_thread_account(thread, b"a", b"x");
        (0..10).for_each(|_| _ = rig.stage(rig.class.stage));
    }
    assert!(rig.stages(Scope::HistoryLong).len() >= 1_000);
}
