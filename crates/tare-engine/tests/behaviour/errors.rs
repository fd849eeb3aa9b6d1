//! Errors by number: who raised them, which were handled, and what TRUNCATE leaves.

use std::collections::BTreeMap;

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

const ERRORS: &[KnownError] = &[
    KnownError { number: 1050, name: "ER_TABLE_EXISTS_ERROR", sqlstate: "42S01" },
    KnownError { number: 1062, name: "ER_DUP_ENTRY", sqlstate: "23000" },
    KnownError { number: 4192, name: "ER_SLAVE_STATEMENT_TIMEOUT", sqlstate: "70100" },
];
const LEVELS: [Grouping; 5] =
    [Grouping::Thread, Grouping::Account, Grouping::User, Grouping::Host, Grouping::Global];

fn rig() -> Rig {
    Rig::with(Config { errors: ERRORS, ..small() })
}

fn connect(rig: Rig, user: &str, host: &str) -> ThreadRef {
    let thread = rig.thread();
    rig.set_thread_account(thread, user.as_bytes(), host.as_bytes());
    thread
}

fn raise(rig: Rig, thread: ThreadRef, number: u32) {
    rig.on(thread, || rig.error_raised(number));
}

/// A handler is looked for, and takes over if it is found.
fn handle(rig: Rig, thread: ThreadRef, found: Option<u32>) {
    rig.on(thread, || {
        rig.handler_sought();
        found.into_iter().for_each(|number| rig.handler_found(number));
        rig.error_handled();
    });
}

/// SUM_ERROR_RAISED and SUM_ERROR_HANDLED of every error at a level, by number (0: unknown); what nobody saw
/// is left out.
fn seen(rig: Rig, level: Grouping) -> BTreeMap<u32, (u64, u64)> {
    let mut seen = BTreeMap::new();
    for Summary { stat, .. } in rig.error_rows(level) {
        let sum: &mut (u64, u64) = seen.entry(stat.error.map_or(0, |error| error.number)).or_default();
        *sum = (sum.0 + stat.raised, sum.1 + stat.handled);
    }
    seen.retain(|_, sum| *sum != (0, 0));
    seen
}

fn all(rig: Rig) -> [BTreeMap<u32, (u64, u64)>; 5] {
    LEVELS.map(|level| seen(rig, level))
}

#[test]
fn every_error_has_a_row_and_those_nobody_knows_share_the_first() {
    let rig = rig();
    let thread = connect(rig, "a", "x");
    [1062, 1062, 1050, 5, 120, 9999, u32::MAX].into_iter().for_each(|number| raise(rig, thread, number));
    let rows = rig.error_rows(Grouping::Global);
    let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
    assert_eq!(names, ["", "ER_TABLE_EXISTS_ERROR", "ER_DUP_ENTRY", "ER_SLAVE_STATEMENT_TIMEOUT"]);
    assert_eq!(rows.iter().map(|row| row.stat.raised).collect::<Vec<_>>(), [4, 1, 2, 0]);
    assert_eq!(rows[0].stat.error, None);
    assert_eq!(rows[2].stat.error, Some(ERRORS[1]));
    assert_eq!(rows[3].stat.seen_us, None);
    let (first, last) = rows[2].stat.seen_us.expect("it was seen");
    assert!(first != 0 && first <= last);
    let mine = |row: &Summary<ErrorStat>| row.owner.thread_id == thread.thread_id();
    assert_eq!(rig.error_rows(Grouping::Thread).iter().filter(|row| mine(row)).count(), names.len());
    assert_eq!(rig.losses(), 0);
}

#[test]
fn a_host_without_errors_has_no_instrument_and_counts_nothing() {
    let rig = Rig::new();
    let thread = rig.connect();
    raise(rig, thread, 1062);
    assert!(rig.instruments().iter().all(|instrument| instrument.kind != Kind::Error));
    assert_eq!(all(rig), [const { BTreeMap::new() }; 5]);
}

#[test]
fn what_a_handler_takes_counts_as_handled_and_no_longer_as_raised() {
    let rig = rig();
    let thread = connect(rig, "a", "x");
    [1050, 1062, 1062].into_iter().for_each(|number| raise(rig, thread, number));
    handle(rig, thread, Some(1062));
    // None is found for a warning: nothing was handled, whatever was found before.
    handle(rig, thread, None);
    assert_eq!(seen(rig, Grouping::Global), BTreeMap::from([(1050, (1, 0)), (1062, (1, 1))]));
    rig.reset(Reset::Errors(Grouping::Global));
    handle(rig, thread, Some(1062));
    assert_eq!(seen(rig, Grouping::Global), BTreeMap::from([(1062, (0, 1))]), "raised before the reset");
}

#[test]
fn the_instrument_and_the_consumers_decide_what_is_counted() {
    let rig = rig();
    let error = rig.instruments().into_iter().find(|it| it.name == "error").expect("the instrument");
    assert!(error.enabled && !error.timed);
    let thread = connect(rig, "a", "x");
    let count = || {
        raise(rig, thread, 1062);
        (seen(rig, Grouping::Thread).get(&1062).copied(), seen(rig, Grouping::Global).get(&1062).copied())
    };
    rig.set_instrument(error.id, Some(false), None);
    assert_eq!(count(), (None, None));
    rig.set_instrument(error.id, Some(true), None);
    rig.set_consumer(Consumer::GlobalInstrumentation, false);
    assert_eq!(count(), (None, None));
    rig.set_consumer(Consumer::GlobalInstrumentation, true);
    assert_eq!(count(), (Some((1, 0)), Some((1, 0))));
    rig.set_consumer(Consumer::ThreadInstrumentation, false);
    assert_eq!(count(), (Some((1, 0)), Some((2, 0))), "counted, but for nobody in particular");
    rig.set_consumer(Consumer::ThreadInstrumentation, true);
    rig.set_thread_flags(thread, false, false);
    assert_eq!(count(), (Some((1, 0)), Some((2, 0))), "the thread is not watched");
}

/// SUM_ERROR_RAISED of all accounts of a user.
fn raised_by(rig: Rig, user: &str) -> u64 {
    let rows = rig.error_rows(Grouping::Account).into_iter();
    rows.filter(|row| row.owner.user.as_deref() == Some(user)).map(|row| row.stat.raised).sum()
}

#[test]
fn a_thread_takes_its_errors_along_to_another_account_but_not_those_of_before_a_reset() {
    let rig = rig();
    let thread = connect(rig, "a", "x");
    raise(rig, thread, 1062);
    rig.reset(Reset::Errors(Grouping::Thread));
    rig.set_thread_account(thread, b"b", b"x");
    assert_eq!((raised_by(rig, "a"), raised_by(rig, "b")), (1, 0));
    raise(rig, thread, 1062);
    rig.set_thread_account(thread, b"c", b"x");
    assert_eq!((raised_by(rig, "a"), raised_by(rig, "b"), raised_by(rig, "c")), (1, 0, 1));
    assert_eq!(seen(rig, Grouping::Global), BTreeMap::from([(1062, (2, 0))]));
}

#[test]
fn errors_stay_with_their_account_when_the_thread_ends() {
    let rig = rig();
    let (one, two) = (connect(rig, "a", "x"), connect(rig, "b", "x"));
    raise(rig, one, 1062);
    handle(rig, one, Some(1062));
    (0..2).for_each(|_| raise(rig, two, 1062));
    rig.delete_thread(one);
    let sum = BTreeMap::from([(1062, (2, 1))]);
    assert_eq!(LEVELS[1..].iter().map(|level| seen(rig, *level)).collect::<Vec<_>>(), vec![sum; 4]);
    assert_eq!(seen(rig, Grouping::Thread), BTreeMap::from([(1062, (2, 0))]));
    assert_eq!((raised_by(rig, "a"), raised_by(rig, "b")), (0, 2));
}

#[test]
fn truncate_resets_a_level_and_those_it_is_made_of() {
    for (at, level) in LEVELS.into_iter().enumerate() {
        let rig = rig();
        let (alive, ended) = (connect(rig, "a", "x"), connect(rig, "a", "x"));
        [alive, ended].into_iter().for_each(|thread| raise(rig, thread, 1062));
        rig.delete_thread(ended);
        rig.reset(Reset::Errors(level));
        let kept = |what: Grouping| match (level, what) {
            (Grouping::Thread, Grouping::Thread) => None,
            // Those of the thread that lives are still its account's.
            (Grouping::Thread, _) => Some((2, 0)),
            (Grouping::Account, Grouping::User | Grouping::Host | Grouping::Global) => Some((2, 0)),
            (Grouping::User, Grouping::Host | Grouping::Global) => Some((2, 0)),
            (Grouping::Host, Grouping::User | Grouping::Global) => Some((2, 0)),
            _ => None,
        };
        let now = |what: Grouping| seen(rig, what).get(&1062).copied();
        assert_eq!(LEVELS.map(now), LEVELS.map(kept), "after a reset of level {at}");
        // What comes is counted everywhere, at once and after the end.
        raise(rig, alive, 1062);
        let more = |what| kept(what).map_or(Some((1, 0)), |(raised, _)| Some((raised + 1, 0)));
        assert_eq!(LEVELS.map(now), LEVELS.map(more), "once more, after a reset of level {at}");
        rig.delete_thread(alive);
        assert_eq!(
            LEVELS[1..].iter().map(|it| now(*it)).collect::<Vec<_>>(),
            LEVELS[1..].iter().map(|it| more(*it)).collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_forgotten_account_takes_its_errors_along() {
    let rig = rig();
    let thread = connect(rig, "a", "x");
    raise(rig, thread, 1062);
    rig.delete_thread(thread);
    rig.reset(Reset::Connections(Grouping::Account));
    assert_eq!(seen(rig, Grouping::Account), BTreeMap::new());
    assert_eq!(seen(rig, Grouping::User), BTreeMap::from([(1062, (1, 0))]));
    assert_eq!(seen(rig, Grouping::Global), BTreeMap::from([(1062, (1, 0))]));
}

#[test]
fn sixteen_threads_lose_no_error_while_some_end_and_others_are_reset() {
    const ROUNDS: u64 = 200;
    let rig = rig();
    std::thread::scope(|scope| {
        for worker in 0..16u32 {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let thread = connect(rig, ["a", "b"][worker as usize % 2], "x");
                    raise(rig, thread, ERRORS[round as usize % 3].number);
                    raise(rig, thread, worker);
                    if round % 3 == 1 {
                        handle(rig, thread, Some(1062));
                    }
                    rig.delete_thread(thread);
                }
            });
        }
        scope.spawn(move || {
            // None of these takes anything away from users, hosts or all.
            for _ in 0..100 {
                rig.reset(Reset::Errors(Grouping::Thread));
                rig.reset(Reset::Errors(Grouping::Account));
                std::thread::yield_now();
            }
        });
    });
    for level in [Grouping::User, Grouping::Host, Grouping::Global] {
        let (mut raised, mut handled) = (0, 0);
        for (of_one, of_two) in seen(rig, level).into_values() {
            (raised, handled) = (raised + of_one, handled + of_two);
        }
        let expected = 16 * (0..ROUNDS).filter(|round| round % 3 == 1).count() as u64;
        assert_eq!((raised + handled, handled), (16 * ROUNDS * 2, expected), "{level:?}");
    }
    assert_eq!(rig.losses(), 0);
}

#[test]
fn an_error_that_was_only_handled_stays_with_its_account() {
    let rig = rig();
    let one = connect(rig, "a", "x");
    handle(rig, one, Some(1062));
    rig.delete_thread(one);
    // The next thread may get what that one has left.
    let two = connect(rig, "b", "x");
    raise(rig, two, 1062);
    rig.delete_thread(two);
    let rows = rig.error_rows(Grouping::User).into_iter();
    let handled: Vec<_> = rows.filter(|row| row.stat.handled != 0).map(|row| row.owner.user).collect();
    assert_eq!(handled, [Some("a".to_owned())]);
}

#[test]
fn what_does_not_fit_the_memory_is_counted_as_lost() {
    let rig = Rig::with(Config { errors: ERRORS, memory_max: 1 << 20, ..small() });
    let mut raised = 0;
    while let Some(thread) = rig.new_thread(rig.class.thread, None, None) {
        raise(rig, thread, 1062);
        raised += 1;
    }
    let sum = seen(rig, Grouping::Global).get(&1062).map_or(0, |(raised, _)| *raised);
    assert!(raised > 0 && rig.losses_of("summary_cells_lost") + sum == raised, "{sum} of {raised}");
}
