//! Filters: instruments, consumers, threads; all act at the next event of threads that run.

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

/// One event of every kind; counts as (waits, stages, statements, transactions, allocations).
fn one_of_each(rig: Rig) {
    rig.transaction(false, |_| {
        rig.statement(rig.class.statement, "select 1", |_| {
            rig.stage(rig.class.stage);
            rig.wait(rig.class.mutex);
            rig.end_stage();
        });
    });
    if rig.memory_alloc(rig.class.memory, 100).is_some() {
        rig.memory_free(rig.class.memory, 100);
    }
}

fn thread_counts(rig: Rig, thread: ThreadRef) -> [u64; 5] {
    [
        rig.thread_wait(thread, MUTEX).count,
        rig.thread_stage(thread, STAGE).count,
        rig.thread_statement(thread, STATEMENT).stat.count,
        rig.thread_transaction(thread).read_write.count,
        rig.thread_memory(thread, MEMORY).count_alloc,
    ]
}

fn global_counts(rig: Rig) -> [u64; 5] {
    [
        rig.global_wait(MUTEX).count,
        rig.global_stage(STAGE).count,
        rig.global_statement(STATEMENT).stat.count,
        rig.global_transaction().read_write.count,
        rig.global_memory(MEMORY).count_alloc,
    ]
}

fn history_lens(rig: Rig, scope: Scope) -> [usize; 4] {
    [
        rig.waits(scope).len(),
        rig.stages(scope).len(),
        rig.statements(scope).len(),
        rig.transactions(scope).len(),
    ]
}

#[test]
fn an_instrument_that_is_off_leaves_no_trace_and_comes_back_at_once() {
    let rig = Rig::new();
    let thread = rig.connect();
    let all = rig.instruments();
    for instrument in &all {
        rig.set_instrument(instrument.id, Some(false), None);
    }
    one_of_each(rig);
    assert_eq!(thread_counts(rig, thread), [0; 5]);
    assert_eq!(history_lens(rig, Scope::History), [0; 4]);
    assert_eq!(history_lens(rig, Scope::Current), [0; 4]);
    for instrument in &all {
        rig.set_instrument(instrument.id, Some(true), None);
    }
    one_of_each(rig);
    assert_eq!(thread_counts(rig, thread), [1; 5]);
    assert_eq!(history_lens(rig, Scope::History), [1; 4]);
    for instrument in rig.instruments() {
        assert!(instrument.enabled);
        assert_eq!(instrument.timed, instrument.kind != Kind::Memory, "{}", instrument.name);
    }
}

/// The kinds of which something is wanted, of those that the rig has instruments of.
fn wanted(rig: Rig) -> Vec<Kind> {
    let kinds =
        [Kind::Mutex, Kind::Rwlock, Kind::Cond, Kind::File, Kind::Socket, Kind::Stage, Kind::Statement];
    let fixed = [Kind::TableIo, Kind::TableLock, Kind::Metadata, Kind::Idle, Kind::Transaction, Kind::Memory];
    kinds.into_iter().chain(fixed).filter(|kind| rig.has_demand(*kind)).collect()
}

#[test]
fn a_kind_is_wanted_while_an_instrument_of_it_is_on_and_anybody_counts() {
    let rig = Rig::new();
    let all = wanted(rig);
    assert_eq!(all.len(), 13);
    assert!(rig.has_demand(Kind::Sxlock), "the host does not tell it from others");
    assert!(all.iter().all(|kind| rig.demand(*kind) == Demand::All));
    rig.set_instrument(rig.class.stage, Some(false), None);
    rig.set_instrument(rig.class.stage_with_progress, Some(false), None);
    assert_eq!(rig.demand(Kind::Stage), Demand::Some, "one is left");
    for _ in 0..2 {
        // Twice off is off.
        rig.set_instrument(rig.class.stage_two, Some(false), None);
        rig.set_instrument(rig.class.mutex, Some(false), None);
    }
    let rest: Vec<Kind> =
        all.iter().copied().filter(|kind| ![Kind::Stage, Kind::Mutex].contains(kind)).collect();
    assert_eq!(wanted(rig), rest);
    assert!(rest.iter().all(|kind| rig.demand(*kind) == Demand::All));
    assert_eq!([Kind::Stage, Kind::Mutex].map(|kind| rig.demand(kind)), [Demand::Nothing; 2]);
    rig.set_instrument(rig.class.stage_two, None, Some(false));
    rig.set_consumer(Consumer::EventsWaitsCurrent, false);
    rig.set_consumer(Consumer::ThreadInstrumentation, false);
    assert_eq!(wanted(rig), rest, "they are counted all the same");
    rig.set_consumer(Consumer::GlobalInstrumentation, false);
    assert_eq!((wanted(rig), rig.has_demand(Kind::Sxlock)), (vec![], false));
    rig.set_instrument(rig.class.mutex, Some(true), None);
    assert_eq!(wanted(rig), []);
    rig.set_consumer(Consumer::GlobalInstrumentation, true);
    assert_eq!(wanted(rig).len(), 12);
    let late = |name| {
        let what = Registration { kind: Kind::Stage, name, properties: Properties::default() };
        rig.register(what)
    };
    late("stage/test/late");
    assert_eq!(rig.demand(Kind::Stage), Demand::Some, "an instrument that comes later is on");
    rig.set_instrument(rig.class.stage, Some(true), None);
    rig.set_instrument(rig.class.stage_with_progress, Some(true), None);
    rig.set_instrument(rig.class.stage_two, Some(true), None);
    assert_eq!(rig.demand(Kind::Stage), Demand::Sums, "no thread is known by name");
    rig.set_consumer(Consumer::ThreadInstrumentation, true);
    assert_eq!(rig.demand(Kind::Stage), Demand::All);
}

#[test]
fn a_kind_is_summed_up_while_a_consumer_or_every_level_leaves_its_records_out() {
    let rig = Rig::new();
    let thread = rig.connect();
    let stages = [rig.class.stage, rig.class.stage_two, rig.class.stage_with_progress];
    let run = || {
        rig.stage(rig.class.stage);
        rig.end_stage();
        (rig.thread_stage(thread, STAGE).count, rig.stages(Scope::History).len())
    };
    assert_eq!((rig.demand(Kind::Stage), run()), (Demand::All, (1, 1)));
    rig.set_consumer(Consumer::EventsStagesCurrent, false);
    assert_eq!((rig.demand(Kind::Stage), run()), (Demand::Sums, (2, 1)));
    assert_eq!(rig.demand(Kind::Memory), Demand::All, "it has no events");
    rig.set_instrument(stages[1], Some(false), None);
    assert_eq!((rig.demand(Kind::Stage), run()), (Demand::Some, (3, 1)));
    rig.set_instrument(stages[1], Some(true), None);
    rig.set_consumer(Consumer::EventsStagesCurrent, true);
    assert_eq!((rig.demand(Kind::Stage), run()), (Demand::All, (4, 2)));
    rig.set_levels(&stages.map(|stage| (stage, Some(Recording::Sums), true)));
    assert_eq!((rig.demand(Kind::Stage), run()), (Demand::Sums, (5, 2)));
    rig.set_level(stages[2], Some(Recording::Lean));
    assert_eq!((rig.demand(Kind::Stage), run()), (Demand::All, (6, 2)), "one is recorded");
}

#[test]
fn a_stage_that_nobody_wants_is_the_threads_state_and_ends_the_one_before() {
    let rig = Rig::new();
    let thread = rig.connect();
    // A host does the same.
    let stage = |class| {
        if rig.has_demand(Kind::Stage) || matches!(rig.pass_stage_fast(class), Start::Slow) {
            rig.stage(class);
        }
    };
    let count = || rig.thread_stage(thread, STAGE).count;
    let switch = |on| {
        for class in [rig.class.stage, rig.class.stage_two, rig.class.stage_with_progress] {
            rig.set_instrument(class, Some(on), None);
        }
    };
    stage(rig.class.stage);
    switch(false);
    stage(rig.class.stage_two);
    assert_eq!((count(), state(rig).as_deref()), (1, Some("two")));
    stage(rig.class.stage);
    assert_eq!((count(), state(rig).as_deref()), (1, Some("one")));
    rig.end_stage();
    assert_eq!((count(), state(rig)), (1, None));
    switch(true);
    stage(rig.class.stage);
    assert!(rig.stages(Scope::Current)[0].head.end_event_id.is_none());
    // Where nothing is wanted at all, what is in progress stays so, as in the built-in.
    rig.set_consumer(Consumer::GlobalInstrumentation, false);
    stage(rig.class.stage_two);
    stage(rig.class.stage_two);
    assert_eq!((count(), state(rig).as_deref()), (1, Some("two")));
    rig.set_consumer(Consumer::GlobalInstrumentation, true);
    stage(rig.class.stage_two);
    assert_eq!((count(), state(rig).as_deref()), (2, Some("two")));
    rig.end_stage();
    assert_eq!(rig.thread_stage(thread, STAGE_TWO).count, 1);
    assert_eq!(rig.stages(Scope::History).len(), 3);
}

#[test]
fn a_stage_that_is_off_ends_the_one_before_and_none_of_the_others_is_lost() {
    let rig = Rig::new();
    let thread = rig.connect();
    // A host with a filtered path does the same.
    let stage = |class| {
        if !rig.is_off(class) || matches!(rig.pass_stage_fast(class), Start::Slow) {
            rig.stage(class);
        }
    };
    let counts = || [STAGE, STAGE_TWO].map(|name| rig.thread_stage(thread, name).count);
    rig.set_instrument(rig.class.stage_two, Some(false), None);
    for nth in 1..=3 {
        stage(rig.class.stage);
        stage(rig.class.stage_two);
        assert_eq!((counts(), state(rig).as_deref()), ([nth, 0], Some("two")));
        stage(rig.class.stage_two);
        assert_eq!((counts(), state(rig).as_deref()), ([nth, 0], Some("two")));
    }
    stage(rig.class.stage);
    rig.set_instrument(rig.class.stage, Some(false), None);
    rig.set_instrument(rig.class.stage_two, Some(true), None);
    stage(rig.class.stage);
    stage(rig.class.stage_two);
    rig.end_stage();
    assert_eq!((counts(), state(rig)), ([4, 1], None));
    assert_eq!(rig.stages(Scope::History).len(), 5);
}

#[test]
fn an_instrument_switched_off_meanwhile_still_ends_what_it_began() {
    let rig = Rig::new();
    let thread = rig.connect();
    rig.wait_around(rig.class.mutex, || rig.set_instrument(rig.class.mutex, Some(false), Some(false)));
    assert_eq!(rig.thread_wait(thread, MUTEX).count, 1);
    assert!(rig.waits(Scope::History)[0].head.timer.wait_ps.is_some());
    rig.stage(rig.class.stage);
    rig.set_instrument(rig.class.stage, Some(false), None);
    rig.end_stage();
    assert_eq!(rig.thread_stage(thread, STAGE).count, 1);
}

/// PROCESSLIST_STATE of the only thread.
fn state(rig: Rig) -> Option<String> {
    rig.threads().into_iter().find_map(|row| row.state)
}

#[test]
fn a_stage_that_is_off_ends_the_one_before_and_is_the_threads_state() {
    let rig = Rig::new();
    let thread = rig.connect();
    rig.set_instrument(rig.class.stage_two, Some(false), None);
    rig.stage(rig.class.stage);
    rig.stage(rig.class.stage_two);
    assert_eq!((rig.thread_stage(thread, STAGE).count, state(rig).as_deref()), (1, Some("two")));
    rig.stage(rig.class.stage_two);
    assert_eq!((rig.thread_stage(thread, STAGE_TWO).count, state(rig).as_deref()), (0, Some("two")));
    rig.stage(rig.class.stage);
    assert_eq!(state(rig).as_deref(), Some("one"));
    rig.stage(rig.class.stage_two);
    rig.end_stage();
    assert_eq!((rig.thread_stage(thread, STAGE).count, state(rig)), (2, None));
    assert_eq!(rig.stages(Scope::History).len(), 2);
}

/// Switches the recording of waits and of stages; both stay counted and timed.
fn record(rig: Rig, on: bool) {
    rig.set_consumer(Consumer::EventsWaitsCurrent, on);
    rig.set_consumer(Consumer::EventsStagesCurrent, on);
}

#[test]
fn waits_and_stages_that_nobody_wants_are_summed_up_and_timed() {
    let rig = Rig::new();
    let thread = rig.connect();
    record(rig, false);
    let mutex = rig.init_synch(rig.class.mutex, 1).expect("memory");
    for _ in 0..5 {
        rig.stage(rig.class.stage);
        assert_eq!(state(rig).as_deref(), Some("one"));
        rig.lock(mutex);
        rig.wait_around(rig.class.rwlock, || rig.wait(rig.class.mutex));
        rig.stage(rig.class.stage_two);
        assert_eq!(state(rig).as_deref(), Some("two"));
        rig.end_stage();
        assert_eq!(state(rig), None);
    }
    let stats = [
        (rig.thread_wait(thread, MUTEX), 10),
        (rig.thread_wait(thread, RWLOCK), 5),
        (rig.thread_stage(thread, STAGE), 5),
        (rig.thread_stage(thread, STAGE_TWO), 5),
    ];
    for (stat, count) in stats {
        assert_eq!(stat.count, count);
        assert!(
            stat.min_ps <= stat.max_ps && u128::from(stat.max_ps) <= stat.sum_ps && stat.sum_ps > 0,
            "{stat:?}"
        );
    }
    assert!(rig.thread_wait(thread, RWLOCK).sum_ps > u128::from(rig.thread_wait(thread, MUTEX).min_ps) * 5);
    for scope in [Scope::Current, Scope::History, Scope::HistoryLong] {
        assert_eq!(history_lens(rig, scope)[..2], [0, 0]);
    }
}

#[test]
fn a_wait_and_a_stage_are_counted_once_whatever_is_recorded_when_they_end() {
    for before in [true, false] {
        let rig = Rig::new();
        let thread = rig.connect();
        let mutex = rig.init_synch(rig.class.mutex, 1).expect("memory");
        record(rig, before);
        // The second time around it is the short way.
        for round in 1..=3 {
            rig.stage(rig.class.stage);
            rig.wait_around(rig.class.rwlock, || {
                let wait = rig.start_synch_wait(mutex, operation::MUTEX, here()).expect("a wait");
                record(rig, !before);
                rig.end_synch_wait(&wait);
            });
            assert_eq!(state(rig).as_deref(), Some("one"), "{before} {round}");
            rig.stage(rig.class.stage_two);
            record(rig, before);
            rig.end_stage();
            let counts = [
                rig.thread_wait(thread, MUTEX).count,
                rig.thread_wait(thread, RWLOCK).count,
                rig.thread_stage(thread, STAGE).count,
                rig.thread_stage(thread, STAGE_TWO).count,
            ];
            assert_eq!(counts, [round; 4], "{before}");
            assert_eq!(history_lens(rig, Scope::Current)[1], 0, "no stage is left behind");
        }
    }
}

#[test]
fn what_is_summed_up_is_reset_like_everything_else() {
    let rig = Rig::new();
    let thread = rig.connect();
    record(rig, false);
    for _ in 0..3 {
        rig.stage(rig.class.stage);
        rig.wait(rig.class.mutex);
        rig.reset(Reset::Summary(EventType::Wait, Grouping::Thread));
        rig.reset(Reset::Summary(EventType::Stage, Grouping::Thread));
        rig.wait(rig.class.mutex);
        rig.end_stage();
        assert_eq!(rig.thread_wait(thread, MUTEX).count, 1);
        assert_eq!(rig.thread_stage(thread, STAGE).count, 1);
    }
    assert_eq!((rig.global_wait(MUTEX).count, rig.global_stage(STAGE).count), (6, 3));
}

#[test]
fn a_wait_that_is_summed_up_counts_after_a_reset_that_it_outlasts() {
    let rig = Rig::new();
    let thread = rig.connect();
    record(rig, false);
    for _ in 0..3 {
        // After two of them the third takes the short way.
        rig.wait(rig.class.rwlock);
        rig.wait(rig.class.rwlock);
        rig.wait_around(rig.class.rwlock, || {
            rig.reset(Reset::Summary(EventType::Wait, Grouping::Global));
            // The thread learns of the reset before the wait ends.
            rig.wait(rig.class.mutex);
        });
        assert_eq!((rig.global_wait(RWLOCK).count, rig.global_wait(MUTEX).count), (1, 1));
    }
    assert_eq!(rig.thread_wait(thread, RWLOCK).count, 9);
}

#[test]
fn untimed_instruments_count_without_times() {
    let rig = Rig::new();
    let thread = rig.connect();
    for instrument in rig.instruments() {
        rig.set_instrument(instrument.id, None, Some(false));
    }
    one_of_each(rig);
    assert_eq!(thread_counts(rig, thread), [1; 5]);
    assert_eq!(history_lens(rig, Scope::History), [1; 4]);
    let untimed = Stat { count: 1, ..Stat::default() };
    assert_eq!(rig.thread_wait(thread, MUTEX), untimed);
    assert_eq!(rig.thread_stage(thread, STAGE), untimed);
    assert_eq!(rig.thread_statement(thread, STATEMENT).stat, untimed);
    assert_eq!(rig.thread_transaction(thread).read_write, untimed);
    assert_eq!(rig.statements(Scope::History)[0].head.timer, Timer::default());
    assert_eq!(rig.stages(Scope::History)[0].head.timer, Timer::default());
    assert_eq!(rig.transactions(Scope::History)[0].head.timer, Timer::default());
}

#[test]
fn the_configuration_decides_how_instruments_start() {
    let instruments: InitialSwitches = Box::new(|name| Initial {
        enabled: !name.contains("rwlock"),
        timed: name == COND,
        ..Initial::default()
    });
    let rig = Rig::with(Config { instruments, ..small() });
    let thread = rig.connect();
    rig.wait(rig.class.rwlock);
    rig.wait(rig.class.mutex);
    assert_eq!(rig.thread_wait(thread, RWLOCK).count, 0);
    assert_eq!(rig.thread_wait(thread, MUTEX), Stat { count: 1, ..Stat::default() });
}

#[test]
fn without_global_instrumentation_nothing_happens() {
    let rig = Rig::new();
    let thread = rig.connect();
    rig.set_consumer(Consumer::GlobalInstrumentation, false);
    one_of_each(rig);
    assert_eq!(thread_counts(rig, thread), [0; 5]);
    assert_eq!(global_counts(rig), [0; 5]);
    assert!(rig.digests().is_empty());
    rig.set_consumer(Consumer::GlobalInstrumentation, true);
    one_of_each(rig);
    assert_eq!(thread_counts(rig, thread), [1; 5]);
}

#[test]
fn without_thread_instrumentation_only_global_summaries_and_digests_count() {
    let rig = Rig::new();
    let thread = rig.connect();
    rig.set_consumer(Consumer::ThreadInstrumentation, false);
    one_of_each(rig);
    assert_eq!(thread_counts(rig, thread), [0; 5]);
    assert_eq!(global_counts(rig), [1; 5]);
    assert_eq!(rig.digests()[0].stat.stat.count, 1);
    assert_eq!(history_lens(rig, Scope::Current), [0; 4]);
    rig.set_consumer(Consumer::ThreadInstrumentation, true);
    one_of_each(rig);
    assert_eq!(thread_counts(rig, thread), [1; 5]);
    assert_eq!(global_counts(rig), [2; 5]);
    rig.delete_thread(thread);
    assert_eq!(global_counts(rig), [2; 5]);
}

#[test]
fn a_thread_that_is_not_instrumented_leaves_no_trace_and_others_do() {
    let rig = Rig::new();
    let (off, on) = (rig.thread(), rig.thread());
    assert!(rig.set_thread(off.thread_id(), Some(false), None));
    rig.on(off, || one_of_each(rig));
    rig.on(on, || one_of_each(rig));
    assert_eq!(thread_counts(rig, off), [0; 5]);
    assert_eq!(thread_counts(rig, on), [1; 5]);
    assert_eq!(global_counts(rig), [1; 5]);
    assert!(rig.set_thread(off.thread_id(), Some(true), None));
    rig.on(off, || one_of_each(rig));
    assert_eq!(thread_counts(rig, off), [1; 5]);
    assert!(!rig.set_thread(999_999, Some(true), None), "nobody");
    rig.set_thread_flags(on, false, false);
    rig.on(on, || one_of_each(rig));
    assert_eq!(thread_counts(rig, on), [1; 5]);
    let row = rig.threads().into_iter().find(|row| row.thread_id == on.thread_id()).unwrap();
    assert!(!row.instrumented && !row.history);
}

/// How many events of each type are current when all have ended: of stages none.
const LAST: [usize; 4] = [1, 0, 1, 1];

#[test]
fn a_thread_without_history_counts_and_is_current_but_has_no_history() {
    let rig = Rig::new();
    let thread = rig.connect();
    assert!(rig.set_thread(thread.thread_id(), None, Some(false)));
    one_of_each(rig);
    assert_eq!(thread_counts(rig, thread), [1; 5]);
    assert_eq!(history_lens(rig, Scope::Current), LAST);
    assert_eq!(history_lens(rig, Scope::History), [0; 4]);
    assert_eq!(history_lens(rig, Scope::HistoryLong), [0; 4]);
    assert!(rig.set_thread(thread.thread_id(), None, Some(true)));
    one_of_each(rig);
    assert_eq!(history_lens(rig, Scope::History), [1; 4]);
}

#[test]
fn each_consumer_switches_its_own_table() {
    use Consumer::*;
    let types = [
        ([EventsWaitsCurrent, EventsWaitsHistory, EventsWaitsHistoryLong], 0),
        ([EventsStagesCurrent, EventsStagesHistory, EventsStagesHistoryLong], 1),
        ([EventsStatementsCurrent, EventsStatementsHistory, EventsStatementsHistoryLong], 2),
        ([EventsTransactionsCurrent, EventsTransactionsHistory, EventsTransactionsHistoryLong], 3),
    ];
    for ([current, history, long], at) in types {
        for (off, expected) in [(current, [0, 0, 0]), (history, [1, 0, 1]), (long, [1, 1, 0])] {
            let rig = Rig::new();
            let thread = rig.connect();
            rig.set_consumer(off, false);
            assert!(!rig.consumer(off));
            one_of_each(rig);
            let lens = [Scope::Current, Scope::History, Scope::HistoryLong].map(|s| history_lens(rig, s));
            for other in 0..4 {
                let seen = lens.map(|lens| lens[other]);
                let mut wanted = if other == at { expected } else { [1; 3] };
                wanted[0] = wanted[0].min(LAST[other]);
                assert_eq!(seen, wanted, "{off:?} seen in type {other}");
            }
            assert_eq!(thread_counts(rig, thread), [1; 5], "{off:?}: summaries need no events");
            assert_eq!(rig.digests().len(), 1);
        }
    }
}

#[test]
fn a_wait_does_not_go_to_a_history_that_was_switched_off_while_it_lasted() {
    let rig = Rig::new();
    rig.connect();
    rig.wait_around(rig.class.mutex, || rig.set_consumer(Consumer::EventsWaitsHistory, false));
    assert_eq!(rig.waits(Scope::History).len(), 0);
    assert_eq!(rig.waits(Scope::HistoryLong).len(), 1);
    rig.wait_around(rig.class.mutex, || rig.set_consumer(Consumer::EventsWaitsHistory, true));
    rig.wait(rig.class.mutex);
    assert_eq!(rig.waits(Scope::History).len(), 1, "nor to one that was off when it began");
}

#[test]
fn without_the_digest_consumer_no_digest_is_counted() {
    let rig = Rig::new();
    rig.connect();
    rig.set_consumer(Consumer::StatementsDigest, false);
    rig.query("select 1");
    assert!(rig.digests().is_empty());
    assert!(rig.statements(Scope::History)[0].digest.is_none());
    rig.set_consumer(Consumer::StatementsDigest, true);
    rig.query("select 1");
    assert_eq!(rig.digests().len(), 1);
}

#[test]
fn consumers_start_as_configured() {
    let rig = Rig::with(Config { consumers: vec![Consumer::GlobalInstrumentation], ..small() });
    rig.connect();
    one_of_each(rig);
    assert_eq!(global_counts(rig), [1; 5]);
    assert_eq!(history_lens(rig, Scope::HistoryLong), [0; 4]);
    assert!(rig.digests().is_empty());
}

#[test]
fn the_recipe_for_auditing_ddl_shows_the_ddl_and_nothing_else() {
    let rig = Rig::new();
    rig.connect();
    let register =
        |name| rig.register(Registration { kind: Kind::Statement, name, properties: Properties::default() });
    let (abstract_query, drop_table) =
        (register("statement/abstract/Query"), register("statement/sql/drop_table"));
    for instrument in rig.instruments().iter().filter(|i| i.name.starts_with("statement/")) {
        let on = instrument.id == abstract_query || instrument.id == drop_table;
        rig.set_instrument(instrument.id, Some(on), None);
    }
    for class in [rig.class.statement, drop_table, rig.class.statement_two] {
        let statement = rig.begin(abstract_query, "some sql").unwrap();
        if rig.refine_statement(statement, class) {
            rig.finish(statement, "some sql");
        }
    }
    let names: Vec<_> = rig.statements(Scope::History).iter().map(|row| row.head.name).collect();
    assert_eq!(names, ["statement/sql/drop_table"]);
}

fn actor(user: &str, host: &str, enabled: bool, history: bool) -> ActorRule {
    let role = "%".to_owned();
    ActorRule { host: host.to_owned(), user: user.to_owned(), role, enabled, history }
}

#[test]
fn a_connection_is_watched_as_the_rules_say_when_it_gets_its_account() {
    let rig = Rig::new();
    let flags = |thread: ThreadRef| {
        let row = rig.threads().into_iter().find(|row| row.thread_id == thread.thread_id()).unwrap();
        (row.instrumented, row.history)
    };
    let connect = |user: &[u8], host: &[u8]| {
        let thread = rig.connect();
        rig.set_thread_account(thread, user, host);
        rig.decide_actor(thread, user, host);
        thread
    };
    let first = connect(b"ann", b"h");
    assert_eq!(flags(first), (true, true));
    rig.add_rule(actor("ann", "%", false, true)).unwrap();
    assert_eq!(flags(first), (true, true), "a connection that is there stays as it is");
    let second = connect(b"ann", b"h");
    assert_eq!(flags(second), (false, true));
    one_of_each(rig);
    assert_eq!(thread_counts(rig, second), [0; 5]);
    assert!(rig.replace_rule(actor("ann", "%", true, false)));
    assert_eq!(flags(connect(b"ann", b"h")), (true, false));
    assert_eq!(flags(connect(b"bob", b"h")), (true, true));
    rig.reset(Reset::ActorRules);
    assert_eq!(flags(connect(b"bob", b"h")), (false, false), "no rule is about it");
    assert_eq!(flags(connect(b"", b"")), (true, true), "it is nobody's connection");
}

#[test]
fn a_thread_begins_as_its_class_says_and_a_connection_as_its_account_says() {
    let rig = Rig::with(Config {
        instruments: Box::new(|_| Initial { enabled: false, timed: false, ..Initial::default() }),
        ..small()
    });
    let flags = |thread: ThreadRef| {
        let row = rig.threads().into_iter().find(|row| row.thread_id == thread.thread_id()).unwrap();
        (row.instrumented, row.history)
    };
    let first = rig.thread();
    assert_eq!(flags(first), (true, true), "patterns of instruments are not about threads");
    rig.set_thread_instrument(rig.class.thread, Some(false), None);
    assert_eq!(flags(first), (true, true), "a thread that is there stays as it is");
    assert_eq!(flags(rig.thread()), (false, true));
    rig.set_thread_instrument(rig.class.thread, Some(true), Some(false));
    let third = rig.thread();
    assert_eq!(flags(third), (true, false));
    rig.decide_actor(third, b"ann", b"h");
    assert_eq!(flags(third), (true, true), "for a connection its account decides");
    let row = rig.thread_instruments().into_iter().find(|row| row.id == rig.class.thread).unwrap();
    assert_eq!((row.name, row.enabled, row.history), ("thread/test/one_connection", true, false));
}
