//! Threads one after the other: the next one gets what was kept of one that ended, and nobody sees anything
//! of that.

use std::collections::BTreeMap;

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

fn rigs() -> [Rig; 2] {
    [false, true].map(|extended| Rig::with(Config { extended, ..small() }))
}

/// The same without times where there are histograms: which of their buckets are used, and so how much
/// memory, is a matter of how busy the machine is.
fn steady_rigs() -> [Rig; 2] {
    let instruments: InitialSwitches = Box::new(|_| Initial { timed: false, ..Initial::default() });
    [Rig::with(small()), Rig::with(Config { extended: true, instruments, ..small() })]
}

/// A connection that does one of everything.
fn work(rig: Rig) {
    rig.set_thread_info(rig.current_thread().expect("a thread"), Some(b"select 1"));
    rig.transaction(false, |_| rig.query("select 1"));
    rig.wait(rig.class.mutex);
    rig.stage(rig.class.stage);
    rig.end_stage();
    rig.memory_alloc(rig.class.memory, 100);
    rig.memory_free(rig.class.memory, 100);
}

fn connect(rig: Rig) -> ThreadRef {
    let thread = rig.thread();
    rig.set_thread_account(thread, b"a", b"x");
    rig.set_thread_connect_attrs(thread, b"\x03_os\x05Linux", 33);
    thread
}

/// Waits, stages, statements, transactions, allocations.
fn counts(rig: Rig, thread: Option<ThreadRef>) -> [u64; 5] {
    let level = if thread.is_some() { Grouping::Thread } else { Grouping::Global };
    let id = thread.map_or(0, |thread| thread.thread_id());
    let memory = rig.memory_rows(level).into_iter();
    let allocations = memory
        .filter(|row| row.owner.thread_id == id && row.name == MEMORY)
        .map(|row| row.stat.count_alloc)
        .sum();
    let [waits, stages, statements, transactions] = match thread {
        Some(thread) => [
            rig.thread_wait(thread, MUTEX).count,
            rig.thread_stage(thread, STAGE).count,
            rig.thread_statement(thread, STATEMENT).stat.count,
            rig.thread_transaction(thread).read_write.count,
        ],
        None => [
            rig.global_wait(MUTEX).count,
            rig.global_stage(STAGE).count,
            rig.global_statement(STATEMENT).stat.count,
            rig.global_transaction().read_write.count,
        ],
    };
    [waits, stages, statements, transactions, allocations]
}

#[test]
fn statements_of_a_thread_have_the_number_that_its_host_gives_it() {
    for rig in rigs() {
        for id in [4711, 4712] {
            let thread = rig.thread();
            rig.set_thread_id(thread, id);
            rig.on(thread, || rig.query("select 1"));
            let current = rig.statements(Scope::Current);
            let ids: Vec<u64> = current.iter().map(|row| row.head.thread_id).collect();
            assert_eq!(ids, [id]);
            rig.delete_thread(thread);
        }
    }
}

#[test]
fn a_thread_has_nothing_of_the_one_before() {
    for rig in rigs() {
        let as_made = |thread: ThreadRef| {
            let key = ThreadKey::Thread(thread.thread_id());
            let row = rig.threads_of(key).pop().expect("a row");
            format!("{:?}", ThreadRow { thread_id: 0, ..row })
        };
        let first = rig.thread();
        let expected = as_made(first);
        rig.delete_thread(first);
        for _ in 0..3 {
            let thread = connect(rig);
            rig.on(thread, || work(rig));
            // It ends in the middle of everything.
            rig.on(thread, || {
                rig.begin(rig.class.statement, "select 2");
                rig.stage(rig.class.stage_two);
            });
            rig.delete_thread(thread);
            let next = rig.thread();
            assert_eq!(as_made(next), expected);
            assert_eq!(counts(rig, Some(next)), [0; 5]);
            for scope in [Scope::Current, Scope::History] {
                assert!(rig.statements(scope).is_empty() && rig.transactions(scope).is_empty());
                assert!(rig.stages(scope).is_empty() && rig.waits(scope).is_empty());
            }
            rig.on(next, || work(rig));
            assert_eq!(counts(rig, Some(next)), [1; 5]);
            rig.delete_thread(next);
        }
    }
}

#[test]
fn sums_hold_over_many_threads() {
    for rig in steady_rigs() {
        let mut blocks = Vec::new();
        for n in 1..=200u64 {
            // Two at a time: they do not get the slabs in the same order.
            let threads = [connect(rig), connect(rig)];
            for thread in threads {
                rig.on(thread, || (0..3).for_each(|_| work(rig)));
            }
            for thread in threads {
                rig.delete_thread(thread);
            }
            assert_eq!(counts(rig, None), [n * 6; 5], "{n}");
            blocks.push(rig.memory().0);
        }
        let digests: u64 = rig.digests().iter().map(|row| row.stat.stat.count).sum();
        assert_eq!(digests, 1200);
        assert!(rig.lost().iter().all(|row| row.lost == 0), "{:?}", rig.lost());
        let (early, late) = blocks.split_at(100);
        assert!(late.iter().max() <= early.iter().max(), "it does not grow: {blocks:?}");
    }
}

#[test]
fn what_changed_between_two_threads_is_heeded() {
    for rig in rigs() {
        let run = |change: &dyn Fn()| {
            let before = counts(rig, None);
            change();
            let thread = connect(rig);
            rig.on(thread, || work(rig));
            let recorded = rig.waits(Scope::History).iter().filter(|row| row.head.name == MUTEX).count();
            rig.delete_thread(thread);
            let now = counts(rig, None);
            let [waits, stages, ..] = std::array::from_fn::<u64, 5, _>(|at| now[at].wrapping_sub(before[at]));
            (waits, stages, recorded)
        };
        assert_eq!(run(&|| ()), (1, 1, 1));
        assert_eq!(run(&|| ()), (1, 1, 1));
        assert_eq!(run(&|| rig.set_instrument(rig.class.mutex, Some(false), None)), (0, 1, 0));
        assert_eq!(run(&|| rig.set_instrument(rig.class.mutex, Some(true), None)), (1, 1, 1));
        assert_eq!(run(&|| rig.set_level(rig.class.mutex, Some(Recording::Counts))), (1, 1, 0));
        assert_eq!(run(&|| ()), (1, 1, 0));
        assert_eq!(run(&|| rig.set_level(rig.class.mutex, Some(Recording::Exact))), (1, 1, 1));
        assert_eq!(run(&|| rig.set_consumer(Consumer::EventsWaitsCurrent, false)), (1, 1, 0));
        assert_eq!(run(&|| rig.set_consumer(Consumer::EventsWaitsCurrent, true)), (1, 1, 1));
        rig.reset(Reset::Summary(EventType::Wait, Grouping::Global));
        assert_eq!((rig.global_wait(MUTEX).count, run(&|| ())), (0, (1, 1, 1)));
    }
}

/// What is counted of waits and of allocations, by account, by user, and in all.
#[derive(Default, Debug, PartialEq, Eq)]
struct SuccessorCounts {
    accounts: BTreeMap<(&'static str, &'static str), [u64; 2]>,
    users: BTreeMap<&'static str, [u64; 2]>,
    all: [u64; 2],
}

/// Not zero.
fn figures(rig: Rig) -> SuccessorCounts {
    let known = |name: &str| ["a", "b", "x", "y"].into_iter().find(|known| *known == name);
    let mut figures = SuccessorCounts::default();
    let mut add = |level, owner: Owner, at: usize, count: u64| {
        let name = |name: Option<String>| name.map_or("", |name| known(&name).expect("one of these"));
        let (user, host) = (name(owner.user), name(owner.host));
        match level {
            _ if count == 0 => {}
            Grouping::Account => figures.accounts.entry((user, host)).or_default()[at] += count,
            Grouping::User => figures.users.entry(user).or_default()[at] += count,
            _ => figures.all[at] += count,
        }
    };
    for level in [Grouping::Account, Grouping::User, Grouping::Global] {
        let waits = rig.wait_rows(level).into_iter().filter(|row| row.name == MUTEX);
        waits.for_each(|row| add(level, row.owner, 0, row.stat.count));
        let memory = rig.memory_rows(level).into_iter().filter(|row| row.name == MEMORY);
        memory.for_each(|row| add(level, row.owner, 1, row.stat.count_alloc));
    }
    figures
}

#[test]
fn a_slab_counts_for_whomever_it_serves() {
    for rig in rigs() {
        let (mut expected, mut number, mut open) = (SuccessorCounts::default(), 1u64, Vec::new());
        for round in 0..600 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let [choice, account, times] = [40, 44, 48].map(|at| number >> at & 15);
            let account = [("a", "x"), ("b", "x"), ("a", "y")][account as usize % 3];
            match choice {
                0 => {
                    // Those without a connection are forgotten, and may come again in another one's place.
                    rig.reset(Reset::Connections(Grouping::Account));
                    expected.accounts.clear();
                }
                1 => {
                    rig.reset(Reset::Summary(EventType::Wait, Grouping::Account));
                    expected.accounts.values_mut().for_each(|counts| counts[0] = 0);
                }
                2 => {
                    rig.reset(Reset::Summary(EventType::Wait, Grouping::Global));
                    expected.all[0] = 0;
                }
                _ if open.len() == 3 || choice < 6 && !open.is_empty() => {
                    rig.delete_thread(open.remove(times as usize % open.len()));
                }
                _ => {
                    let thread = rig.thread();
                    rig.set_thread_account(thread, account.0.as_bytes(), account.1.as_bytes());
                    rig.on(thread, || {
                        for _ in 0..times {
                            rig.wait(rig.class.mutex);
                            rig.memory_alloc(rig.class.memory, 100);
                            rig.memory_free(rig.class.memory, 100);
                        }
                    });
                    let sums = [
                        expected.accounts.entry(account).or_default(),
                        expected.users.entry(account.0).or_default(),
                        &mut expected.all,
                    ];
                    sums.into_iter().flatten().for_each(|count| *count += times);
                    open.push(thread);
                }
            }
            expected.accounts.retain(|_, counts| *counts != [0; 2]);
            expected.users.retain(|_, counts| *counts != [0; 2]);
            assert_eq!(figures(rig), expected, "{round}");
        }
    }
}

#[test]
fn time_that_brought_nothing_is_not_left_to_the_next_thread() {
    for rig in rigs() {
        let table = rig.open_table(rig.share("db", "t", &["PRIMARY"]), 1).expect("a table");
        let first = connect(rig);
        rig.on(first, || (0..3).for_each(|_| rig.table_io(table, 0, 0, 0)));
        rig.delete_thread(first);
        let next = connect(rig);
        rig.on(next, || rig.table_io(table, 0, 0, 1));
        let stat = rig.thread_wait(next, TABLE_IO);
        assert_eq!((stat.count, stat.sum_ps, stat.min_ps), (1, stat.max_ps.into(), stat.max_ps));
    }
}

#[test]
fn cells_of_programs_are_not_made_anew() {
    for rig in steady_rigs() {
        let program = rig.program(objects::PROCEDURE, b"db", b"p").expect("a program");
        let call = || {
            let thread = connect(rig);
            rig.on(thread, || {
                work(rig);
                let start = rig.start_program(program).expect("watched");
                rig.end_program(program, start);
            });
            rig.delete_thread(thread);
            rig.memory().0
        };
        // Until the long histories are full.
        (0..100).for_each(|_| _ = call());
        let used: Vec<u64> = (0..40).map(|_| call()).collect();
        assert!(used.iter().all(|now| *now == used[0]), "a kept slab has them: {used:?}");
        assert_eq!(rig.programs()[0].calls.count, 140);
    }
}

#[test]
fn what_threads_in_a_row_did_not_use_counts_again_when_one_does() {
    for rig in steady_rigs() {
        let mutexes: Vec<SynchRef> = (0..40)
            .map(|n| {
                let (kind, properties) = (Kind::Mutex, Properties::default());
                let name = format!("wait/synch/mutex/test/seldom_{n}");
                let class = rig.register(Registration { kind, name: &name, properties });
                rig.init_synch(class, 64 * (n + 1)).expect("memory")
            })
            .collect();
        // Each uses some: few, all, or others than the one before.
        let uses = |at: usize, n: usize| match at % 60 {
            0 => true,
            1..40 => n == 3,
            other => n % 7 == other % 7,
        };
        let mut expected = [0; 40];
        let mut used_memory = 0;
        for at in 0..240 {
            let thread = connect(rig);
            rig.on(thread, || {
                work(rig);
                for (n, mutex) in mutexes.iter().enumerate().filter(|(n, _)| uses(at, *n)) {
                    rig.lock(*mutex);
                    rig.lock(*mutex);
                    expected[n] += 2;
                    let name = format!("wait/synch/mutex/test/seldom_{n}");
                    assert_eq!(rig.thread_wait(thread, &name).count, 2, "{at}");
                }
            });
            if at % 60 == 45 {
                // What a reset passes is gone, listed or not.
                rig.reset(Reset::Summary(EventType::Wait, Grouping::Global));
                expected = [0; 40];
            }
            rig.delete_thread(thread);
            if at == 120 {
                used_memory = rig.memory().0;
            }
        }
        for (n, expected) in expected.into_iter().enumerate() {
            assert_eq!(rig.global_wait(&format!("wait/synch/mutex/test/seldom_{n}")).count, expected, "{n}");
        }
        assert_eq!(rig.global_wait(MUTEX).count, 240 - 226);
        assert_eq!(rig.memory().0, used_memory, "nothing is made anew");
        assert_eq!(rig.losses(), 0);
    }
}

#[test]
fn digests_of_a_slab_are_those_of_each_thread_it_serves() {
    for rig in rigs() {
        let texts: Vec<String> = (1..=50).map(|n| format!("select {}", "x".repeat(n))).collect();
        let run = |at: usize| texts.iter().skip(at % 7).step_by(7);
        for at in 0..60 {
            let thread = connect(rig);
            rig.on(thread, || run(at).for_each(|text| rig.query(text)));
            rig.delete_thread(thread);
            if at == 30 {
                rig.reset(Reset::Digests);
            }
        }
        let counts: Vec<u64> = rig.digests().iter().map(|row| row.stat.stat.count).collect();
        assert_eq!(counts.iter().sum::<u64>(), (31..60).map(|at| run(at).count() as u64).sum());
        assert_eq!((counts.len(), rig.losses()), (50, 0));
    }
}

#[test]
fn the_thread_of_a_replica_is_the_one_that_the_host_meant() {
    let rig = Rig::new();
    let applier = rig.thread();
    let of =
        |thread: ThreadRef| ReplicaThread { handle: thread.address().addr() as u64, ..Default::default() };
    let ask = move |then: fn(Rig, ThreadRef)| -> Box<dyn Fn() -> Vec<Replica> + Send> {
        Box::new(move || {
            let replica = Replica { applier: of(applier), ..Replica::default() };
            then(rig, applier);
            vec![replica]
        })
    };
    let shown = || rig.replicas()[0].applier.map(|row| row.thread_id);
    *rig.host.replicas.lock().unwrap() = Some(ask(|_, _| ()));
    assert_eq!(shown(), Some(applier.thread_id()));
    // It ends after the host has told of it, and another thread gets its slab.
    *rig.host.replicas.lock().unwrap() = Some(ask(|rig, applier| {
        rig.delete_thread(applier);
        assert!(std::ptr::eq(rig.thread(), applier));
    }));
    assert_eq!(shown(), None);
}
