//! Levels: how much is kept of an instrument's events.

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

/// A rig whose instruments are all at this level.
fn rig_at(level: Recording) -> Rig {
    Rig::with(Config { instruments: Box::new(move |_| Initial { level, ..Initial::default() }), ..small() })
}

/// Takes a lock that is free, as a host does; true: without a clock.
fn take_free(rig: &Rig, mutex: SynchRef) -> bool {
    let Some(untimed) = rig.untimed_synch(mutex) else {
        rig.lock(mutex);
        return false;
    };
    rig.count_free_synch(untimed, mutex, operation::MUTEX, here());
    rig.set_synch_owner(mutex, untimed.thread());
    true
}

/// One event of each kind that can have a level, `times` times.
fn everything(rig: &Rig, mutex: SynchRef, times: usize) {
    let share = rig.share("db", "t", &["PRIMARY"]);
    let table = rig.open_table(share, 1).expect("memory");
    let socket = rig.init_socket(rig.class.socket, Some(5), b"", 0).expect("memory");
    for _ in 0..times {
        rig.transaction(false, |_| {
            rig.statement(rig.class.statement, "SELECT 1", |_| {
                rig.stage(rig.class.stage);
                take_free(rig, mutex);
                rig.table_io(table, 0, 0, 3);
                rig.socket_io(socket, io::SOCKET_SEND, 10);
                rig.end_stage();
            });
        });
    }
}

#[test]
fn counts_are_the_same_at_every_level() {
    for level in Recording::ALL {
        let rig = rig_at(level);
        let thread = rig.connect();
        let mutex = rig.init_synch(rig.class.mutex, 0xABCD).unwrap();
        everything(&rig, mutex, 20);
        for (name, count) in [(MUTEX, 20), (SOCKET, 20), (TABLE_IO, 60)] {
            assert_eq!(rig.thread_wait(thread, name).count, count, "{name} at {}", level.name());
        }
        assert_eq!(rig.thread_stage(thread, STAGE).count, 20, "{}", level.name());
        assert_eq!(rig.thread_statement(thread, STATEMENT).stat.count, 20, "{}", level.name());
        assert_eq!(rig.tables()[0].indexes[0].io.fetch.count, 60, "{}", level.name());
    }
}

#[test]
fn what_is_timed_and_recorded_follows_from_the_level() {
    for level in Recording::ALL {
        let rig = rig_at(level);
        let thread = rig.connect();
        let mutex = rig.init_synch(rig.class.mutex, 0xABCD).unwrap();
        everything(&rig, mutex, 5);
        let timed = level >= Recording::Sums;
        for (name, stat) in [
            (SOCKET, rig.thread_wait(thread, SOCKET)),
            (TABLE_IO, rig.thread_wait(thread, TABLE_IO)),
            (STAGE, rig.thread_stage(thread, STAGE)),
            (STATEMENT, rig.thread_statement(thread, STATEMENT).stat),
        ] {
            assert_eq!(stat.sum_ps > 0, timed, "{name} at {}", level.name());
        }
        let recorded = level >= Recording::Sampled;
        let rows = [
            rig.waits(Scope::History).len(),
            rig.stages(Scope::History).len(),
            rig.statements(Scope::History).len(),
            rig.transactions(Scope::History).len(),
        ];
        for rows in rows {
            assert_eq!(rows > 0, recorded, "{rows:?} at {}", level.name());
        }
    }
}

#[test]
fn a_lean_lock_that_was_free_has_a_place_in_the_histories_and_no_time() {
    let rig = rig_at(Recording::Lean);
    let thread = rig.connect();
    let mutex = rig.init_synch(rig.class.mutex, 0xABCD).unwrap();
    // The first one makes a cell, the second one settles.
    take_free(&rig, mutex);
    take_free(&rig, mutex);
    rig.statement(rig.class.statement, "SELECT 1", |_| {
        rig.stage(rig.class.stage);
        assert!(take_free(&rig, mutex), "it needs no clock");
        rig.lock(mutex);
        assert!(take_free(&rig, mutex));
        rig.end_stage();
    });
    assert_eq!(rig.thread_wait(thread, MUTEX).count, 5);
    let rows = &rig.waits(Scope::History)[1..];
    let ids: Vec<u64> = rows.iter().map(|row| row.head.event_id).collect();
    assert_eq!(ids, [2, 5, 6, 7]);
    let stage = rig.stages(Scope::History)[0].head.event_id;
    for row in &rows[1..] {
        assert_eq!(row.head.nesting, Some((stage, EventType::Stage)));
        assert_eq!(row.head.end_event_id, Some(row.head.event_id));
        assert_eq!(row.head.source.as_deref(), Some("place.cc:42"));
        assert_eq!((row.operation, row.object_instance_begin), ("lock", 0xABCD));
    }
    let waits: Vec<Option<u64>> = rows.iter().map(|row| row.head.timer.wait_ps).collect();
    assert_eq!((waits[1], waits[3]), (Some(0), Some(0)), "nobody waited");
    assert!(waits[2].is_some_and(|wait| wait > 0), "who may have waited is timed exactly");
    assert!(rows[1].head.timer.end_ps <= rows[2].head.timer.start_ps, "they stand in their order");
    assert!(rows[2].head.timer.end_ps <= rows[3].head.timer.start_ps);
}

#[test]
fn a_lock_that_was_free_is_timed_at_level_exact_alone() {
    for level in Recording::ALL {
        let rig = rig_at(level);
        let thread = rig.connect();
        let mutex = rig.init_synch(rig.class.mutex, 0xABCD).unwrap();
        let timed: Vec<bool> = (0..5).map(|_| !take_free(&rig, mutex)).collect();
        // The first one makes a cell, the second one settles.
        assert_eq!(timed[2..], [level == Recording::Exact; 3], "{}", level.name());
        let before = rig.thread_wait(thread, MUTEX);
        take_free(&rig, mutex);
        let after = rig.thread_wait(thread, MUTEX);
        assert_eq!(after.count, 6, "{}", level.name());
        assert_eq!(after.sum_ps > before.sum_ps, level == Recording::Exact, "{}", level.name());
        rig.lock(mutex);
        let waited = rig.thread_wait(thread, MUTEX).sum_ps > after.sum_ps;
        assert_eq!(waited, level >= Recording::Sums, "one that was not free is timed at {}", level.name());
    }
}

#[test]
fn an_exact_lock_always_has_a_time() {
    let rig = rig_at(Recording::Exact);
    rig.connect();
    let mutex = rig.init_synch(rig.class.mutex, 0xABCD).unwrap();
    for _ in 0..3 {
        assert!(!take_free(&rig, mutex));
    }
    assert!(rig.waits(Scope::History).iter().all(|row| row.head.timer.wait_ps.is_some_and(|wait| wait > 0)));
}

#[test]
fn a_change_of_the_level_acts_at_the_next_event() {
    let rig = rig_at(Recording::Lean);
    let thread = rig.connect();
    let mutex = rig.init_synch(rig.class.mutex, 0xABCD).unwrap();
    let recorded = || rig.waits(Scope::History).len();
    take_free(&rig, mutex);
    for (level, expected) in [
        (Some(Recording::Sums), 0),
        (Some(Recording::Exact), 1),
        (Some(Recording::Counts), 0),
        (Some(Recording::Lean), 1),
    ] {
        rig.set_level(rig.class.mutex, level);
        let before = (recorded(), rig.thread_wait(thread, MUTEX).count);
        take_free(&rig, mutex);
        let after = (recorded(), rig.thread_wait(thread, MUTEX).count);
        assert_eq!(after, (before.0 + expected, before.1 + 1), "{level:?}");
    }
    let instrument = || rig.instruments().into_iter().find(|it| it.name == MUTEX).unwrap();
    rig.set_level(rig.class.mutex, None);
    assert!(!instrument().enabled);
    take_free(&rig, mutex);
    assert_eq!(rig.thread_wait(thread, MUTEX).count, 5, "off is off");
    rig.set_instrument(rig.class.mutex, Some(true), None);
    assert_eq!((instrument().enabled, instrument().level), (true, Recording::Lean), "as before it was off");
}

#[test]
fn timed_is_kept_where_the_level_leaves_times_out() {
    let rig = rig_at(Recording::Counts);
    let thread = rig.connect();
    let instrument = |name| rig.instruments().into_iter().find(|it| it.name == name).unwrap();
    assert!(instrument(STAGE).timed);
    rig.set_instrument(rig.class.stage, None, Some(false));
    rig.set_level(rig.class.stage, Some(Recording::Exact));
    assert!(!instrument(STAGE).timed);
    rig.stage(rig.class.stage);
    rig.end_stage();
    assert_eq!(rig.thread_stage(thread, STAGE), Stat { count: 1, ..Stat::default() });
}

#[test]
fn what_a_person_has_set_is_not_moved() {
    let rig = Rig::new();
    let of = |name: &str| rig.instruments().into_iter().find(|it| it.name == name).expect(name);
    let [mutex, stage, statement] = [MUTEX, STAGE, STATEMENT].map(|name| of(name).id);
    assert!(rig.instruments().iter().all(|it| !it.held));
    rig.set_level(mutex, Some(Recording::Exact));
    rig.set_instrument(stage, Some(true), None);
    assert!(of(MUTEX).held && of(STAGE).held && !of(STATEMENT).held);
    let moves = |levels: &[(&str, Option<Recording>)]| -> Vec<LevelMove> {
        let of_one = |(name, level): &(&str, Option<Recording>)| {
            let Instrument { id, changes, .. } = of(name);
            LevelMove { id, changes, level: *level }
        };
        levels.iter().map(of_one).collect()
    };
    let moved = rig.move_levels(&moves(&[(MUTEX, None), (STAGE, None), (STATEMENT, Some(Recording::Sums))]));
    assert_eq!(moved, [statement]);
    assert!(of(MUTEX).enabled && of(STAGE).enabled && !of(STATEMENT).held);
    assert_eq!((of(MUTEX).level, of(STATEMENT).level), (Recording::Exact, Recording::Sums));
    rig.set_held(mutex, false);
    assert_eq!(rig.move_levels(&moves(&[(MUTEX, None)])), [mutex]);
    assert!(!of(MUTEX).enabled);
    assert_eq!(of(MUTEX).level, Recording::Exact, "which comes back with ENABLED");
    // Set by a person meanwhile, though not held, and to what it was.
    let decided = moves(&[(MUTEX, Some(Recording::Sums)), (STATEMENT, Some(Recording::Lean))]);
    rig.set_levels(&[(mutex, None, false)]);
    assert!(!of(MUTEX).held);
    assert_eq!(rig.move_levels(&decided), [statement]);
    assert!(!of(MUTEX).enabled);
}
