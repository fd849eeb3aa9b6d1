//! Statements the host leaves out, once it knows what they are.

use tare_engine::operation;
use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

/// Ends a statement the way a host does that leaves some out.
fn end(rig: Rig, statement: Statement, sql: &str) {
    if !rig.end_excluded_statement(statement) {
        rig.finish(statement, sql);
    }
}

/// A statement with a stage and a wait before it is excluded, and after.
fn excluded(rig: Rig, within: impl FnOnce()) {
    let statement = rig.begin(rig.class.statement, "select monitor").expect("a level");
    rig.stage(rig.class.stage);
    rig.wait(rig.class.mutex);
    rig.stage(rig.class.stage_two);
    rig.exclude_statement();
    rig.stage(rig.class.stage_two);
    rig.wait(rig.class.rwlock);
    rig.query("select nested");
    within();
    rig.end_stage();
    end(rig, statement, "select monitor");
}

#[test]
fn an_excluded_statement_and_all_it_does_from_then_on_leave_no_trace() {
    let rig = Rig::new();
    let thread = rig.connect();
    excluded(rig, || {
        assert!(rig.statements(Scope::Current).is_empty());
        assert!(rig.stages(Scope::Current).iter().all(|row| row.head.name == STAGE));
        assert!(rig.memory_alloc(rig.class.memory, 10).is_none());
        assert!(rig.transaction(false, |_| ()).is_none());
    });
    assert_eq!(rig.global_statement(STATEMENT).stat.count, 0);
    assert!(rig.digests().is_empty());
    for scope in [Scope::Current, Scope::History, Scope::HistoryLong] {
        assert!(rig.statements(scope).is_empty(), "{scope:?}");
        assert!(rig.transactions(scope).is_empty(), "{scope:?}");
        assert!(rig.stages(scope).iter().all(|row| row.head.name == STAGE), "{scope:?}");
    }
    assert_eq!(
        (rig.global_stage(STAGE).count, rig.global_stage(STAGE_TWO).count),
        (1, 0),
        "what went before"
    );
    assert_eq!((rig.global_wait(MUTEX).count, rig.global_wait(RWLOCK).count), (1, 0));
    // And then all is as before.
    rig.query("select 1");
    rig.wait(rig.class.rwlock);
    rig.statement(rig.class.statement, "select 2", |_| {
        rig.stage(rig.class.stage_two);
        rig.end_stage();
    });
    assert_eq!(rig.thread_statement(thread, STATEMENT).stat.count, 2);
    assert_eq!((rig.global_wait(RWLOCK).count, rig.global_stage(STAGE_TWO).count), (1, 1));
    assert_eq!(rig.statements(Scope::History).len(), 2);
    assert_eq!(rig.losses(), 0);
}

#[test]
fn waits_after_an_excluded_statement_belong_to_no_event() {
    let rig = Rig::new();
    rig.connect();
    excluded(rig, || ());
    rig.wait(rig.class.cond);
    let rows = rig.waits(Scope::History);
    let row = rows.iter().find(|row| row.head.name == COND).unwrap();
    assert!(row.head.nesting.is_none(), "{row:?}");
}

#[test]
fn a_statement_around_an_excluded_one_counts_and_goes_on() {
    let rig = Rig::new();
    rig.connect();
    let outer = rig.begin(rig.class.statement_two, "call p()").unwrap();
    excluded(rig, || ());
    rig.stage(rig.class.stage_two);
    rig.end_stage();
    end(rig, outer, "call p()");
    let rows = rig.statements(Scope::History);
    assert_eq!(rows.iter().map(|row| row.head.name).collect::<Vec<_>>(), [STATEMENT_TWO]);
    let stage = rig.stages(Scope::History).into_iter().find(|row| row.head.name == STAGE_TWO).unwrap();
    assert_eq!(stage.head.nesting.map(|(id, _)| id), Some(rows[0].head.event_id));
}

#[test]
fn what_filters_decide_meanwhile_holds_afterwards() {
    let rig = Rig::new();
    let thread = rig.connect();
    excluded(rig, || {
        rig.set_thread(thread.thread_id(), Some(false), None);
        rig.set_consumer(Consumer::EventsWaitsHistory, false);
        rig.set_thread(thread.thread_id(), Some(true), None);
        rig.wait(rig.class.rwlock);
    });
    assert_eq!(rig.global_wait(RWLOCK).count, 0, "no filter unmutes it");
    rig.wait(rig.class.rwlock);
    assert_eq!(rig.global_wait(RWLOCK).count, 1);
    assert!(rig.waits(Scope::History).iter().all(|row| row.head.name != RWLOCK), "the consumer is off");
    excluded(rig, || rig.set_thread(thread.thread_id(), Some(false), None).then_some(()).unwrap());
    rig.query("select 1");
    assert_eq!(rig.global_statement(STATEMENT).stat.count, 0, "not instrumented any more");
}

#[test]
fn outside_of_statements_there_is_nothing_to_exclude() {
    let rig = Rig::new();
    rig.exclude_statement();
    rig.connect();
    rig.exclude_statement();
    rig.wait(rig.class.mutex);
    assert_eq!(rig.global_wait(MUTEX).count, 1);
}

#[test]
fn memory_and_locks_from_before_are_given_back_while_excluded() {
    let rig = Rig::new();
    rig.connect();
    let lock = rig.init_synch(rig.class.mutex, 1).unwrap();
    rig.memory_alloc(rig.class.memory, 10);
    let wait = rig.start_synch_wait(lock, operation::MUTEX, here()).unwrap();
    rig.end_synch_wait(&wait);
    rig.set_synch_owner(lock, wait.thread());
    excluded(rig, || {
        rig.memory_free(rig.class.memory, 10);
        rig.unlock_mutex(lock);
    });
    let memory = rig.global_memory(MEMORY);
    assert_eq!((memory.count_alloc, memory.count_free, memory.current_bytes), (1, 1, 0));
    assert_eq!(rig.synchs()[0].locked_by_thread_id, None);
}
