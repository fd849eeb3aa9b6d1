//! Histograms add up to what is counted, whenever one looks, while 64 threads count, come and go.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tare_engine::Config;
use tare_engine::snapshot::*;

use tare_rig::*;

const THREADS: usize = 64;
const EVENTS: u64 = 400;

fn rig() -> Rig {
    Rig::with(Config { extended: true, memory_max: 64 << 20, digests_size: 7, ..small() })
}

/// Some microseconds, and now and then some more.
fn work(n: u64) {
    let (begin, lasts) = (Instant::now(), Duration::from_micros(n % 7 * 3 + n % 53 / 52 * 200));
    while begin.elapsed() < lasts {
        std::hint::spin_loop();
    }
}

/// One thread's events: each statement with a transaction, a stage and a wait; sometimes it connects anew.
fn count(rig: Rig, seed: u64) {
    let mut thread = rig.connect();
    for n in seed..seed + EVENTS {
        rig.transaction(false, |_| {
            let sql = ["select a", "select b", "select c", "select d", "select e", "select f", "select g"];
            rig.statement(rig.class.statement, sql[n as usize % sql.len()], |_| {
                rig.stage(rig.class.stage);
                rig.wait_around(rig.class.mutex, || work(n));
                rig.end_stage();
            });
        });
        if n % 100 == 0 {
            rig.delete_thread(thread);
            thread = rig.connect();
        }
    }
    rig.delete_thread(thread);
}

/// COUNT_STAR of the four instruments, and what their histograms add up to.
fn counts(rig: Rig) -> [u64; 4] {
    [
        rig.global_transaction().read_write.count,
        rig.global_statement(STATEMENT).stat.count,
        rig.global_stage(STAGE).count,
        rig.global_wait(MUTEX).count,
    ]
}

fn totals(rig: Rig) -> [u64; 4] {
    let of = [EventType::Transaction, EventType::Statement, EventType::Stage, EventType::Wait];
    let names = [TRANSACTION, STATEMENT, STAGE, MUTEX];
    std::array::from_fn(|at| {
        let histograms = rig.event_histograms(of[at]);
        let found = histograms.iter().find(|(name, _)| *name == names[at]);
        found.map_or(0, |(_, histogram)| histogram.total())
    })
}

/// Runs `look` again and again while the threads count; returns how often.
fn while_counting(rig: Rig, mut look: impl FnMut(u64)) -> u64 {
    let running = AtomicUsize::new(THREADS);
    let mut looks = 0;
    std::thread::scope(|scope| {
        for seed in 0..THREADS as u64 {
            let running = &running;
            scope.spawn(move || {
                count(rig, seed * 1000);
                running.fetch_sub(1, Relaxed);
            });
        }
        while running.load(Relaxed) > 0 {
            look(looks);
            looks += 1;
        }
    });
    looks
}

#[test]
fn at_every_moment_a_histogram_adds_up_to_the_count_of_its_row() {
    let rig = rig();
    let looks = while_counting(rig, |_| {
        for row in rig.digests() {
            assert_eq!(row.histogram.total(), row.stat.stat.count, "{:?}", row.digest);
        }
        let (before, total, after) = (counts(rig), totals(rig), counts(rig));
        for ((before, total), after) in before.into_iter().zip(total).zip(after) {
            assert!(before <= total && total <= after, "{before} <= {total} <= {after}");
        }
    });
    assert!(looks > 0);
    let all = THREADS as u64 * EVENTS;
    assert_eq!((counts(rig), totals(rig)), ([all; 4], [all; 4]));
    assert_eq!(rig.digests().iter().map(|row| row.histogram.total()).sum::<u64>(), all);
    assert_eq!(rig.losses_of("histogram_lost"), 0);
}

#[test]
fn who_truncates_histograms_loses_nothing_that_others_count() {
    let rig = rig();
    // What the histograms showed when they were last truncated is known to within what was counted meanwhile.
    let mut truncated = ([0; 4], [0; 4]);
    while_counting(rig, |look| {
        if look % 3 == 0 {
            let before = counts(rig);
            for of in [EventType::Transaction, EventType::Statement, EventType::Stage, EventType::Wait] {
                rig.reset(Reset::Histograms(of));
            }
            truncated = (before, counts(rig));
        }
        let (before, total, after) = (counts(rig), totals(rig), counts(rig));
        for at in 0..4 {
            let most = after[at] - truncated.0[at];
            let least = before[at].saturating_sub(truncated.1[at]);
            assert!(least <= total[at] && total[at] <= most, "{least} <= {} <= {most}", total[at]);
        }
        if look % 5 == 0 {
            rig.reset(Reset::DigestHistograms);
        }
        for row in rig.digests() {
            assert!(row.histogram.total() <= row.stat.stat.count, "{:?}", row.digest);
        }
    });
    assert_eq!(counts(rig), [THREADS as u64 * EVENTS; 4], "the summaries have them all");
    assert_eq!(rig.losses_of("histogram_lost"), 0);
}
