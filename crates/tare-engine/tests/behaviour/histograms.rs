//! Histograms: each timed event is in the bucket of its time, and they add up to what is counted.

use std::time::{Duration, Instant};

use tare_engine::histogram::{Histogram, Lowest};
use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

const TYPES: [EventType; 4] =
    [EventType::Transaction, EventType::Statement, EventType::Stage, EventType::Wait];

fn rig() -> Rig {
    Rig::with(Config { extended: true, history_long_size: [2_000; 4], ..small() })
}

fn at(level: Recording) -> Rig {
    let instruments: InitialSwitches = Box::new(move |_| Initial { level, ..Initial::default() });
    Rig::with(Config { extended: true, instruments, ..small() })
}

/// Takes a while.
fn work(microseconds: u64) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_micros(microseconds) {
        std::hint::spin_loop();
    }
}

/// One event of each type that takes a while.
fn events(rig: Rig, microseconds: u64) {
    rig.transaction(false, |_| {
        rig.statement(rig.class.statement, "select 1", |_| {
            rig.stage(rig.class.stage);
            rig.wait_around(rig.class.mutex, || work(microseconds));
            rig.end_stage();
        });
    });
}

fn histogram(rig: Rig, of: EventType, name: &str) -> Histogram {
    let found = rig.event_histograms(of).into_iter().find(|(found, _)| *found == name);
    found.map(|(_, histogram)| histogram).unwrap_or_default()
}

/// Numbers and counts of the buckets that hold something.
fn filled(histogram: &Histogram) -> Vec<(u32, u64)> {
    histogram.filled().map(|bucket| (bucket.number, bucket.count)).collect()
}

/// What these times, in picoseconds, make where the lowest bucket is the usual one.
fn of_times(times: impl IntoIterator<Item = u64>) -> Vec<(u32, u64)> {
    in_buckets(Lowest::Usual, times)
}

/// Returns what these times make, wherever the lowest bucket ends.
fn in_buckets(lowest: Lowest, times: impl IntoIterator<Item = u64>) -> Vec<(u32, u64)> {
    let mut counts = std::collections::BTreeMap::new();
    for time in times {
        let mut buckets = Histogram::empty(lowest).all().collect::<Vec<_>>().into_iter();
        let bucket = buckets.find(|it| it.low_ps <= time && time < it.high_ps).expect("a bucket");
        *counts.entry(bucket.number).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

fn times<'a>(name: &str, heads: impl Iterator<Item = &'a EventHead>) -> Vec<u64> {
    heads.filter(|head| head.name == name).map(|head| head.timer.wait_ps.expect("it was timed")).collect()
}

/// What was recorded of every event of an instrument.
fn recorded(rig: Rig, of: EventType, name: &str) -> Vec<u64> {
    let long = Scope::HistoryLong;
    match of {
        EventType::Transaction => times(name, rig.transactions(long).iter().map(|row| &row.head)),
        EventType::Statement => times(name, rig.statements(long).iter().map(|row| &row.head)),
        EventType::Stage => times(name, rig.stages(long).iter().map(|row| &row.head)),
        EventType::Wait => times(name, rig.waits(long).iter().map(|row| &row.head)),
    }
}

const NAMES: [&str; 4] = [TRANSACTION, STATEMENT, STAGE, MUTEX];

/// How far the lowest bucket of their histograms reaches.
fn lowest(of: EventType) -> Lowest {
    if of == EventType::Stage { Lowest::Wide } else { Lowest::Usual }
}

/// COUNT_STAR of the four instruments.
fn counts(rig: Rig) -> [u64; 4] {
    let transactions = rig.global_transaction();
    [
        transactions.read_write.count + transactions.read_only.count,
        rig.global_statement(STATEMENT).stat.count,
        rig.global_stage(STAGE).count,
        rig.global_wait(MUTEX).count,
    ]
}

fn totals(rig: Rig) -> [u64; 4] {
    std::array::from_fn(|at| histogram(rig, TYPES[at], NAMES[at]).total())
}

/// Waits that are not in the lowest bucket.
fn slow(rig: Rig) -> u64 {
    histogram(rig, EventType::Wait, MUTEX).filled().filter(|it| it.number > 0).map(|it| it.count).sum()
}

#[test]
fn every_event_is_in_the_bucket_of_the_time_that_is_recorded() {
    let rig = rig();
    let threads = [rig.thread(), rig.thread()];
    for microseconds in [0, 0, 3, 9, 10, 10, 11, 15, 30, 31, 90, 700, 2_000] {
        threads.iter().for_each(|thread| rig.on(thread, || events(rig, microseconds)));
    }
    // One ends, the other lives on.
    rig.delete_thread(threads[0]);
    rig.on(threads[1], || events(rig, 40));
    for (of, name) in TYPES.into_iter().zip(NAMES) {
        let times = recorded(rig, of, name);
        assert_eq!(times.len(), 27, "{name}");
        let expected = in_buckets(lowest(of), times.iter().copied());
        assert_eq!(filled(&histogram(rig, of, name)), expected, "{name}");
        let quantile = |per_mille: usize| {
            let mut sorted = times.clone();
            sorted.sort_unstable();
            sorted[(sorted.len() * per_mille).div_ceil(1000) - 1]
        };
        for per_mille in [500, 950, 990, 999] {
            let shown = histogram(rig, of, name).quantile_ps(per_mille as u16);
            let bucket = in_buckets(lowest(of), [quantile(per_mille)])[0].0;
            let bucket = Histogram::empty(lowest(of)).all().find(|it| it.number == bucket);
            assert_eq!(bucket.unwrap().high_ps, shown, "{name} {per_mille}");
        }
    }
    let longest = |of, name| recorded(rig, of, name).into_iter().max().unwrap();
    assert_eq!(rig.global_wait(MUTEX).max_ps, longest(EventType::Wait, MUTEX));
    assert_eq!(rig.global_stage(STAGE).max_ps, longest(EventType::Stage, STAGE));
    assert_eq!(rig.global_statement(STATEMENT).stat.max_ps, longest(EventType::Statement, STATEMENT));
    let digests = rig.digests();
    assert_eq!(digests.len(), 1);
    let times = recorded(rig, EventType::Statement, STATEMENT);
    assert_eq!(filled(&digests[0].histogram), of_times(times.iter().copied()));
    assert_eq!(filled(&rig.statement_histogram()), of_times(times));
    assert_eq!(rig.losses(), 0, "{:?}", rig.lost());
}

#[test]
fn the_longest_of_a_thread_and_of_its_account_is_shown_though_a_bucket_has_it() {
    let rig = rig();
    let thread = rig.connect();
    for microseconds in [0, 50, 5] {
        events(rig, microseconds);
    }
    let longest = recorded(rig, EventType::Wait, MUTEX).into_iter().max().unwrap();
    assert_eq!(rig.thread_wait(thread, MUTEX).max_ps, longest);
    let of_account = |rig: Rig| {
        rig.wait_rows(Grouping::Account)
            .into_iter()
            .filter(|row| row.name == MUTEX)
            .map(|row| row.stat.max_ps)
            .max()
    };
    assert_eq!(of_account(rig), Some(longest));
    rig.delete_thread(thread);
    assert_eq!(of_account(rig), Some(longest), "what has ended");
}

#[test]
fn events_are_in_their_buckets_whether_or_not_that_was_put_off() {
    let rig = rig();
    let thread = rig.connect();
    // Each event is in four or five histograms, and a thread puts off 64 of them.
    for n in 1..40 {
        events(rig, 12);
        for (of, name) in TYPES.into_iter().zip(NAMES) {
            let times = recorded(rig, of, name);
            let expected = in_buckets(lowest(of), times.iter().copied());
            assert_eq!(filled(&histogram(rig, of, name)), expected, "{name} {n}");
        }
        let times = recorded(rig, EventType::Statement, STATEMENT);
        assert_eq!(filled(&rig.digests()[0].histogram), of_times(times), "{n}");
        let longest = recorded(rig, EventType::Wait, MUTEX).into_iter().max().unwrap();
        assert_eq!(rig.thread_wait(thread, MUTEX).max_ps, longest, "{n}");
    }
}

#[test]
fn what_is_put_off_when_a_summary_is_reset_does_not_come_back() {
    let rig = rig();
    let thread = rig.connect();
    (0..5).for_each(|_| events(rig, 12));
    TYPES.into_iter().for_each(|of| rig.reset(Reset::Summary(of, Grouping::Global)));
    rig.reset(Reset::Digests);
    assert_eq!((slow(rig), totals(rig)), (0, [0; 4]));
    events(rig, 40);
    let seen = || (slow(rig), totals(rig), rig.global_wait(MUTEX).count);
    assert_eq!(seen(), (1, [1; 4], 1));
    assert_eq!(rig.digests()[0].histogram.total(), 1);
    assert!(filled(&rig.digests()[0].histogram)[0].0 > 0, "the one of 40 microseconds");
    rig.delete_thread(thread);
    assert_eq!(seen(), (1, [1; 4], 1));
    assert!(filled(&rig.digests()[0].histogram)[0].0 > 0);
}

#[test]
fn of_stages_sockets_and_idle_connections_the_lowest_bucket_ends_at_100_microseconds() {
    let rig = rig();
    let thread = rig.connect();
    let socket = rig.init_socket(rig.class.socket, Some(3), b"::1", 3306).expect("memory");
    let event = |microseconds| {
        rig.stage(rig.class.stage);
        work(microseconds);
        rig.end_stage();
        let wait = rig.start_socket_wait(socket, io::SOCKET_SEND, here()).expect("it is on");
        work(microseconds);
        rig.end_socket_wait(socket, &wait, io::SOCKET_SEND, 7);
        let wait = rig.start_idle_wait(here()).expect("it is on");
        work(microseconds);
        rig.end_idle_wait(&wait);
    };
    const ALL: [(EventType, &str); 3] =
        [(EventType::Stage, STAGE), (EventType::Wait, SOCKET), (EventType::Wait, "idle")];
    let is = |n: usize| {
        for (of, name) in ALL {
            let times = recorded(rig, of, name);
            let times = &times[times.len() - n..];
            let expected = in_buckets(Lowest::Wide, times.iter().copied());
            assert_eq!(filled(&histogram(rig, of, name)), expected, "{name}");
            let longest = times.iter().copied().max();
            let row = if of == EventType::Stage { rig.global_stage(name) } else { rig.global_wait(name) };
            assert_eq!((row.count, Some(row.max_ps)), (n as u64, longest), "{name}");
        }
    };
    [0, 20, 90, 40, 130, 300, 60, 120, 15].into_iter().for_each(event);
    is(9);
    [EventType::Stage, EventType::Wait]
        .into_iter()
        .for_each(|of| rig.reset(Reset::Summary(of, Grouping::Global)));
    [30, 60, 20].into_iter().for_each(event);
    is(3);
    event(170);
    rig.delete_thread(thread);
    is(4);
}

#[test]
fn in_the_strict_shape_there_is_nothing() {
    let rig = Rig::new();
    rig.connect();
    events(rig, 20);
    assert!(TYPES.iter().all(|of| rig.event_histograms(*of).is_empty()));
    assert_eq!((rig.statement_histogram().total(), rig.digests()[0].histogram.total()), (0, 0));
    assert_eq!(rig.digests()[0].stat.stat.count, 1);
}

#[test]
fn a_lock_that_was_free_is_in_the_lowest_bucket() {
    let rig = rig();
    rig.connect();
    let mutex = rig.init_synch(rig.class.mutex, 0xABCD).unwrap();
    (0..2).for_each(|_| rig.lock(mutex));
    let timed = recorded(rig, EventType::Wait, MUTEX);
    for _ in 0..3 {
        let untimed = rig.untimed_synch(mutex).expect("its level is lean");
        rig.count_free_synch(untimed, mutex, operation::MUTEX, here());
    }
    let expected = of_times(timed.into_iter().chain([0; 3]));
    assert_eq!(filled(&histogram(rig, EventType::Wait, MUTEX)), expected);
}

#[test]
fn of_rows_accessed_at_once_each_took_its_part_of_the_time() {
    let rig = rig();
    rig.connect();
    let table = rig.open_table(rig.share("db", "t", &[]), 1).expect("memory");
    for (rows, microseconds) in [(1, 0), (4, 400), (100, 200), (0, 30)] {
        let wait = rig.start_table_io_wait(table, 0, MAX_INDEXES, here()).expect("it is on");
        work(microseconds);
        rig.end_table_io_wait(table, &wait, 0, MAX_INDEXES, rows);
    }
    let times = recorded(rig, EventType::Wait, TABLE_IO);
    let rows = [1, 4, 100, 0].into_iter().zip(&times);
    let each = rows.flat_map(|(n, time)| (0..n).map(move |_| time / n));
    assert_eq!(filled(&histogram(rig, EventType::Wait, TABLE_IO)), of_times(each));
    assert_eq!(histogram(rig, EventType::Wait, TABLE_IO).total(), rig.global_wait(TABLE_IO).count);
    assert_eq!(rig.global_wait(TABLE_IO).max_ps, *times.iter().max().unwrap(), "of batches");
}

#[test]
fn what_nobody_timed_is_in_no_bucket() {
    for thread_ends in [false, true] {
        let rig = rig();
        let thread = rig.connect();
        let timed = |on| {
            [rig.class.mutex, rig.class.stage, rig.class.statement, fixed::TRANSACTION]
                .into_iter()
                .for_each(|class| rig.set_instrument(class, None, Some(on)))
        };
        let mut expected = 0;
        for (on, n) in [(true, 3), (false, 5), (true, 2), (false, 4), (true, 1)] {
            timed(on);
            (0..n).for_each(|n| events(rig, if n % 2 == 0 { 0 } else { 15 }));
            expected += if on { n } else { 0 };
            assert_eq!(totals(rig), [expected; 4], "timed: {on}");
        }
        if thread_ends {
            rig.delete_thread(thread);
        }
        assert_eq!((counts(rig), totals(rig)), ([15; 4], [6; 4]));
        assert_eq!(rig.digests()[0].histogram.total(), 6);
    }
}

#[test]
fn a_wait_that_began_timed_is_in_a_bucket_though_its_instrument_is_not_timed_any_more() {
    let rig = rig();
    rig.connect();
    rig.wait(rig.class.mutex);
    rig.wait_around(rig.class.mutex, || {
        rig.set_instrument(rig.class.mutex, None, Some(false));
        (0..3).for_each(|_| _ = rig.wait(rig.class.mutex));
    });
    (0..4).for_each(|_| _ = rig.wait(rig.class.mutex));
    assert_eq!(histogram(rig, EventType::Wait, MUTEX).total(), 2);
    assert_eq!(rig.global_wait(MUTEX).count, 9);
}

#[test]
fn at_levels_without_records_buckets_are_the_same_and_at_counts_there_are_none() {
    for level in Recording::ALL {
        let rig = at(level);
        let thread = rig.connect();
        [0, 20, 0, 300].into_iter().for_each(|microseconds| events(rig, microseconds));
        let total = if level == Recording::Counts { 0 } else { 4 };
        for ended in [false, true] {
            assert_eq!(totals(rig), [total; 4], "{} {ended}", level.name());
            let slow = slow(rig);
            assert!(if total == 0 { slow == 0 } else { slow >= 2 }, "{slow} at {}", level.name());
            rig.delete_thread(thread);
        }
    }
}

#[test]
fn truncated_alone_a_histogram_begins_anew_and_the_summary_stays() {
    let rig = rig();
    let threads = [rig.thread(), rig.thread()];
    let both = |microseconds| threads.iter().for_each(|it| rig.on(it, || events(rig, microseconds)));
    both(30);
    both(0);
    for of in TYPES {
        rig.reset(Reset::Histograms(of));
    }
    assert_eq!((counts(rig), totals(rig)), ([4; 4], [0; 4]));
    assert_eq!(rig.digests()[0].histogram.total(), 4, "that of digests is another");
    both(60);
    rig.delete_thread(threads[0]);
    assert_eq!((counts(rig), totals(rig)), ([6; 4], [2; 4]));
    let ended = histogram(rig, EventType::Wait, MUTEX);
    assert!(ended.filled().all(|bucket| bucket.high_ps > 60_000_000), "{ended:?}");

    rig.reset(Reset::DigestHistograms);
    let row = &rig.digests()[0];
    assert_eq!((row.stat.stat.count, row.histogram.total(), row.histogram.quantile_ps(950)), (6, 0, 0));
    rig.on(threads[1], || events(rig, 0));
    let row = &rig.digests()[0];
    assert_eq!((row.stat.stat.count, row.histogram.total()), (7, 1));
}

#[test]
fn a_histogram_is_reset_with_its_summary_of_all_and_with_no_other() {
    for folded in [false, true] {
        let rig = rig();
        let thread = rig.connect();
        [0, 25, 100].into_iter().for_each(|microseconds| events(rig, microseconds));
        let was_slow = slow(rig);
        for level in [Grouping::Thread, Grouping::Account, Grouping::User, Grouping::Host] {
            TYPES.into_iter().for_each(|of| rig.reset(Reset::Summary(of, level)));
            if folded {
                // Whoever counts next moves what the reset has left to where it still counts.
                events(rig, 0);
            }
        }
        assert!(slow(rig) >= was_slow && was_slow >= 2, "{was_slow} are where they were");
        let expected = if folded { 7 } else { 3 };
        assert_eq!((counts(rig), totals(rig)), ([expected; 4], [expected; 4]));
        TYPES.into_iter().for_each(|of| rig.reset(Reset::Histograms(of)));
        TYPES.into_iter().for_each(|of| rig.reset(Reset::Summary(of, Grouping::Global)));
        assert_eq!((counts(rig), totals(rig)), ([0; 4], [0; 4]));
        events(rig, 0);
        events(rig, 35);
        assert_eq!((counts(rig), totals(rig)), ([2; 4], [2; 4]), "what was truncated before means nothing");
        rig.delete_thread(thread);
        assert_eq!((counts(rig), totals(rig)), ([2; 4], [2; 4]));
    }
}

#[test]
fn digests_take_their_histograms_to_the_row_without_a_digest() {
    let rig = Rig::with(Config { extended: true, digests_size: 3, ..small() });
    let thread = rig.connect();
    let query = |sql: &str, microseconds| {
        rig.statement(rig.class.statement, sql, |_| work(microseconds));
    };
    query("select a", 0);
    query("select a", 70);
    query("select b", 20);
    rig.reset(Reset::DigestHistograms);
    query("select b", 400);
    // Each takes the place of the one that was seen least recently.
    query("select c", 0);
    query("select d", 15);
    let rows = rig.digests();
    let rest = rows.iter().find(|row| row.digest.is_none()).expect("some were evicted");
    assert_eq!((rest.stat.stat.count, rest.histogram.total()), (4, 1), "since the histograms were truncated");
    assert!(filled(&rest.histogram)[0].0 > 0, "the one of 400 microseconds");
    assert!(rows.iter().filter(|row| row.digest.is_some()).all(|row| row.histogram.total() == 1));
    rig.delete_thread(thread);
    assert_eq!(rig.digests().iter().map(|row| row.histogram.total()).sum::<u64>(), 3);
    rig.reset(Reset::Digests);
    assert!(rig.digests().is_empty());
    rig.connect();
    query("select a", 0);
    assert_eq!(rig.digests()[0].histogram.total(), 1, "the place begins anew");
}

#[test]
fn a_place_keeps_the_buckets_of_those_that_had_it() {
    let rig = Rig::with(Config { extended: true, digests_size: 2, ..small() });
    for sql in ["select a", "select b", "select c", "select d"] {
        // What ends is added to the place at once.
        let thread = rig.connect();
        rig.statement(rig.class.statement, sql, |_| work(80));
        rig.delete_thread(thread);
    }
    let histograms: Vec<Histogram> = rig.digests().into_iter().map(|row| row.histogram).collect();
    assert_eq!(histograms.len(), 2, "the last one, and the rest");
    assert_eq!(histograms.iter().map(Histogram::total).sum::<u64>(), 4);
    assert!(histograms.iter().flat_map(Histogram::filled).all(|bucket| bucket.low_ps > 70_000_000));
}

#[test]
fn without_memory_buckets_still_add_up_and_the_loss_is_counted() {
    let rig = Rig::with(Config { extended: true, memory_max: 1 << 20, ..small() });
    rig.connect();
    events(rig, 0);
    let idle: Vec<ThreadRef> = std::iter::from_fn(|| rig.new_thread(rig.class.thread, None, None)).collect();
    assert!(!idle.is_empty());
    // The first ones may have taken long enough to have a part each of the buckets. So these are far apart,
    // and more than can be put off: a part that is asked for is missed.
    for _ in 0..20 {
        [20, 200, 2_000].into_iter().for_each(|microseconds| events(rig, microseconds));
    }
    assert_ne!(rig.losses_of("histogram_lost"), 0);
    assert_eq!((counts(rig), totals(rig)), ([61; 4], [61; 4]));
    assert!(rig.global_wait(MUTEX).max_ps > 2_000_000_000, "the longest is known");
}
