//! No memory left: the host goes on, what does not fit is counted, what is given back is used again.

use tare_engine::Config;
use tare_engine::snapshot::*;

use crate::rows::*;
use tare_rig::*;

fn tiny() -> Rig {
    Rig::with(Config { memory_max: 1 << 20, digests_size: 100_000, ..Config::default() })
}

/// Takes all the memory there is by making threads.
fn fill(rig: Rig) -> Vec<tare_engine::ThreadRef> {
    std::iter::from_fn(|| rig.new_thread(rig.class.thread, Some(1), None)).collect()
}

#[test]
fn a_thread_without_memory_runs_unseen_and_the_next_one_is_seen_again() {
    let rig = tiny();
    let threads = fill(rig);
    assert!(threads.len() > 50);
    assert_eq!(rig.losses_of("thread_instances_lost"), 1);
    assert!(rig.new_thread(rig.class.thread, None, None).is_none());
    assert_eq!(rig.losses_of("thread_instances_lost"), 2);
    assert_eq!(rig.threads().len(), threads.len());
    rig.set_current_thread(None);
    assert!(!rig.wait(rig.class.mutex));
    threads.into_iter().for_each(|thread| rig.delete_thread(thread));
    let used = rig.memory().0;
    rig.connect();
    assert!(rig.wait(rig.class.mutex));
    assert_eq!(rig.global_wait(MUTEX).count, 1);
    assert!(used < 256 << 10, "{used}");
}

#[test]
fn what_cannot_be_counted_or_recorded_is_lost_and_said_so() {
    let rig = tiny();
    let thread = rig.connect();
    let others = fill(rig);
    while rig.init_synch(rig.class.mutex, 1).is_some() {}
    for _ in 0..100 {
        rig.wait(rig.class.mutex);
        rig.stage(rig.class.stage);
        rig.end_stage();
        rig.query("select 1");
        rig.transaction(false, |_| ());
        rig.memory_alloc(rig.class.memory, 10);
    }
    // Not one block is left: neither cells nor rings nor levels.
    assert_eq!(rig.global_wait(MUTEX).count, 0);
    assert_eq!(rig.losses_of("events_waits_lost"), 100);
    assert_eq!(rig.losses_of("events_stages_lost"), 100);
    assert_eq!(rig.losses_of("nested_statement_lost"), 100);
    assert_eq!(rig.losses_of("events_transactions_lost"), 100);
    assert_eq!(rig.losses_of("summary_cells_lost"), 400);
    rig.set_current_thread(None);
    others.into_iter().for_each(|other| rig.delete_thread(other));
    rig.set_current_thread(Some(thread));
    rig.wait(rig.class.mutex);
    assert_eq!(rig.thread_wait(thread, MUTEX).count, 1);
    assert_eq!(rig.wait_ids(thread, Scope::History).len(), 1);
}

#[test]
fn a_thread_that_has_a_ring_goes_on_recording_in_it() {
    let rig = Rig::with(Config { memory_max: 1 << 20, history_long_size: [0; 4], ..Config::default() });
    let thread = rig.connect();
    rig.wait(rig.class.mutex);
    fill(rig);
    // An odd block may be left, too small for a thread, but good for a ring.
    while rig.init_synch(rig.class.mutex, 1).is_some() {}
    for _ in 0..1000 {
        rig.wait(rig.class.mutex);
    }
    let last = rig.wait_ids(thread, Scope::Current);
    let lost = rig.losses_of("events_waits_lost");
    assert_eq!(last[0] + lost, 1001, "recorded and lost are all there were");
    assert_eq!(lost, 0, "its own oldest block serves");
    assert_eq!(rig.thread_wait(thread, MUTEX).count, 1001);
}

#[test]
fn with_the_memory_gone_nothing_panics_and_rows_stay_whole() {
    let rig = tiny();
    let things = RowThings::new(rig);
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let things = &things;
            scope.spawn(move || {
                let mut random = RowRandom::new(worker);
                let mut issued = Issued::default();
                for _ in 0..20 {
                    let Some(thread) = rig.new_thread(rig.class.thread, Some(1), None) else { continue };
                    rig.set_current_thread(Some(thread));
                    let own = OwnRows::of(rig, things);
                    for _ in 0..300 {
                        event(rig, things, &own, &mut random, &mut issued);
                    }
                    own.disconnect(rig);
                }
            });
        }
        for _ in 0..30 {
            check(rig);
        }
    });
    check(rig);
    assert!(rig.threads().is_empty());
}

#[test]
fn instances_beyond_the_memory_are_counted() {
    let rig = tiny();
    fill(rig);
    while rig.init_synch(rig.class.mutex, 1).is_some() {}
    while rig.init_synch(rig.class.rwlock, 1).is_some() {}
    while rig.init_synch(rig.class.cond, 1).is_some() {}
    while rig.init_socket(rig.class.socket, None, b"", 0).is_some() {}
    assert!(rig.find_file(rig.class.file, b"/x", true).is_none());
    let table = tare_engine::TableName { temporary: false, schema: b"a", name: b"b" };
    assert!(rig.table_share(&table, [].into_iter()).is_none());
    assert!(rig.program(tare_engine::objects::FUNCTION, b"a", b"b").is_none());
    for name in [
        "mutex_instances_lost",
        "rwlock_instances_lost",
        "cond_instances_lost",
        "socket_instances_lost",
        "file_instances_lost",
        "table_instances_lost",
        "program_lost",
    ] {
        assert_eq!(rig.losses_of(name), 1, "{name}");
    }
}
