//! Writers, readers, and somebody who changes everything meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tare_engine::Config;
use tare_engine::snapshot::*;

use crate::rows::*;
use tare_rig::*;

const WRITERS: u64 = 4;
const EVENTS: u64 = 12_000;

/// Runs the writers, each as several threads of the engine one after the other, while `others` run, too.
fn load(rig: Rig, seed: u64, others: &[&(dyn Fn(u64) + Sync)]) -> Issued {
    let things = RowThings::new(rig);
    let done = AtomicBool::new(false);
    let rounds = AtomicU64::new(0);
    let write = |writer: u64| {
        let mut random = RowRandom::new(seed * 100 + writer);
        let mut issued = Issued::default();
        let mut left = EVENTS;
        while left > 0 {
            let own = OwnRows::connect(rig, &things);
            for _ in 0..left.min(1 + random.below(EVENTS / 3)) {
                event(rig, &things, &own, &mut random, &mut issued);
                left -= 1;
            }
            own.disconnect(rig);
        }
        issued
    };
    let repeat = |other: &(dyn Fn(u64) + Sync)| {
        while !done.load(Relaxed) {
            other(rounds.fetch_add(1, Relaxed));
        }
    };
    std::thread::scope(|scope| {
        let (write, repeat) = (&write, &repeat);
        for other in others {
            scope.spawn(move || repeat(*other));
        }
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || write(writer))).collect();
        let issued: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Relaxed);
        let mut total = Issued::default();
        issued.into_iter().for_each(|issued| total.add(issued.expect("a writer")));
        total
    })
}

fn config() -> Config {
    Config { digests_size: 301, ..small() }
}

#[test]
fn what_was_issued_is_what_is_counted_while_others_read() {
    for seed in 0..3 {
        let rig = Rig::with(config());
        let issued = load(rig, seed, &[&|_| check(rig), &|_| check(rig)]);
        assert_eq!(Issued::counted(rig), issued, "seed {seed}");
        let digests: u64 = rig.digests().iter().map(|row| row.stat.stat.count).sum();
        assert_eq!(digests, issued.statements, "seed {seed}");
        let files = rig.file_summary().remove(0).1;
        assert_eq!(files.read.stat.count, issued.files, "seed {seed}");
        let sockets = rig.socket_summary().remove(0).1;
        assert_eq!(sockets.write.stat.count, issued.sockets, "seed {seed}");
        let tables: u64 = rig.tables().iter().flat_map(|t| &t.indexes).map(|i| i.io.fetch.count).sum();
        assert_eq!(tables, issued.rows, "seed {seed}");
        let balance = (issued.allocations - issued.frees).cast_signed();
        assert_eq!(rig.global_memory(MEMORY).current_count, balance);
        check_sums(rig);
        check(rig);
    }
}

fn check_sums(rig: Rig) {
    for row in rig.wait_rows(Grouping::Global) {
        let stat = row.stat;
        assert!(stat.min_ps <= stat.max_ps && u128::from(stat.max_ps) <= stat.sum_ps.max(1), "{row:?}");
    }
    for row in rig.memory_rows(Grouping::Global) {
        let stat = row.stat;
        assert!(stat.low_count <= stat.current_count && stat.current_count <= stat.high_count, "{row:?}");
        assert!(stat.low_bytes <= stat.current_bytes && stat.current_bytes <= stat.high_bytes, "{row:?}");
    }
}

/// ConfigVersion whatever can be changed.
fn disturb(rig: Rig, round: u64) {
    let mut random = RowRandom::new(round);
    match random.below(6) {
        0 => {
            let consumer = Consumer::ALL[random.below(Consumer::ALL.len() as u64) as usize];
            rig.set_consumer(consumer, random.below(3) > 0);
        }
        1 => {
            let instruments = rig.instruments();
            let instrument = &instruments[random.below(instruments.len() as u64) as usize];
            rig.set_instrument(instrument.id, Some(random.below(4) > 0), Some(random.below(2) > 0));
        }
        2 => {
            let threads = rig.threads();
            if !threads.is_empty() {
                let thread = threads[random.below(threads.len() as u64) as usize].thread_id;
                rig.set_thread(thread, Some(random.below(4) > 0), Some(random.below(3) > 0));
            }
        }
        _ => {
            let of = [EventType::Wait, EventType::Stage, EventType::Statement, EventType::Transaction]
                [random.below(4) as usize];
            let scope = [Scope::Current, Scope::History, Scope::HistoryLong][random.below(3) as usize];
            let level =
                [Grouping::Thread, Grouping::Account, Grouping::User, Grouping::Host, Grouping::Global]
                    [random.below(5) as usize];
            let resets = [
                Reset::Events(of, scope),
                Reset::Summary(of, level),
                Reset::Memory(level),
                Reset::Connections(
                    [Grouping::Account, Grouping::User, Grouping::Host][random.below(3) as usize],
                ),
                Reset::Digests,
                Reset::Files,
                Reset::Sockets,
                Reset::TableIo,
                Reset::TableLock,
                Reset::Objects,
            ];
            rig.reset(resets[random.below(resets.len() as u64) as usize]);
        }
    }
}

#[test]
fn no_row_is_a_mixture_while_everything_is_switched_and_truncated() {
    for seed in 10..13 {
        let rig = Rig::with(config());
        let issued = load(rig, seed, &[&|_| check(rig), &|round| disturb(rig, round)]);
        let counted = Issued::counted(rig);
        assert!(counted.mutexes <= issued.mutexes, "{counted:?} {issued:?}");
        assert!(counted.statements <= issued.statements, "{counted:?} {issued:?}");
        // Once everything is on again and truncated, it counts exactly again.
        Consumer::ALL.into_iter().for_each(|consumer| rig.set_consumer(consumer, true));
        rig.instruments().iter().for_each(|i| rig.set_instrument(i.id, Some(true), Some(true)));
        for of in [EventType::Wait, EventType::Stage, EventType::Statement, EventType::Transaction] {
            rig.reset(Reset::Summary(of, Grouping::Global));
        }
        rig.reset(Reset::Digests);
        let before = rig.global_memory(MEMORY);
        let mut issued = load_again(rig, seed);
        issued.allocations += before.count_alloc;
        issued.frees += before.count_free;
        assert_eq!(Issued::counted(rig), issued, "seed {seed}");
        let digests: u64 = rig.digests().iter().map(|row| row.stat.stat.count).sum();
        assert_eq!(digests, issued.statements, "seed {seed}");
    }
}

fn load_again(rig: Rig, seed: u64) -> Issued {
    load(rig, seed + 1000, &[&|_| check(rig)])
}

#[test]
fn resets_by_account_lose_nothing_of_what_users_and_hosts_did() {
    let rig = Rig::with(config());
    let reset = |round: u64| {
        for of in [EventType::Wait, EventType::Stage, EventType::Statement, EventType::Transaction] {
            rig.reset(Reset::Summary(of, Grouping::Account));
        }
        rig.reset(Reset::Memory(Grouping::Account));
        if round.is_multiple_of(4) {
            rig.reset(Reset::Connections(Grouping::Account));
        }
        std::thread::yield_now();
    };
    let issued = load(rig, 78, &[&reset]);
    for level in [Grouping::User, Grouping::Host, Grouping::Global] {
        assert_eq!(Issued::at(rig, level), issued, "{level:?}");
    }
}

#[test]
fn resets_by_thread_lose_nothing_of_the_other_figures() {
    let rig = Rig::with(config());
    let reset = |_| {
        for of in [EventType::Wait, EventType::Stage, EventType::Statement, EventType::Transaction] {
            rig.reset(Reset::Summary(of, Grouping::Thread));
        }
        rig.reset(Reset::Memory(Grouping::Thread));
        std::thread::yield_now();
    };
    let issued = load(rig, 77, &[&reset]);
    for level in ABOVE_THREADS {
        assert_eq!(Issued::at(rig, level), issued, "{level:?}");
    }
}
