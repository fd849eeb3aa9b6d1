//! How much may be kept of each thing: beyond it, things are counted as lost, and what is given back is used
//! again.

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

fn limited(limits: &[(Lost, u32)]) -> Rig {
    let mut config = small();
    for (what, limit) in limits {
        *config.limits.of_mut(*what) = *limit;
    }
    Rig::with(config)
}

#[test]
fn instances_beyond_a_limit_are_lost_by_kind() {
    let rig = limited(&[(Lost::MutexInstances, 3), (Lost::CondInstances, 0)]);
    rig.connect();
    let mutexes: Vec<_> = (1..=5).map(|at| rig.init_synch(rig.class.mutex, at)).collect();
    assert_eq!(mutexes.iter().flatten().count(), 3);
    assert!(rig.init_synch(rig.class.cond, 9).is_none());
    assert!(rig.init_synch(rig.class.rwlock, 10).is_some());
    let lost = ["mutex_instances_lost", "cond_instances_lost", "rwlock_instances_lost"];
    assert_eq!(lost.map(|name| rig.losses_of(name)), [2, 1, 0]);
    assert_eq!(rig.synchs().len(), 4);
    rig.destroy_synch(mutexes[1].unwrap());
    assert!(rig.init_synch(rig.class.mutex, 6).is_some(), "room again");
    assert!(rig.init_synch(rig.class.mutex, 7).is_none());
}

#[test]
fn files_tables_locks_and_threads_have_limits() {
    let none = [Lost::FileInstances, Lost::TableInstances, Lost::MetadataLocks, Lost::Programs];
    let rig = limited(&none.map(|what| (what, 0)));
    rig.connect();
    assert!(rig.find_file(rig.class.file, b"/a", true).is_none());
    let table = TableName { temporary: false, schema: b"db", name: b"t" };
    assert!(rig.table_share(&table, std::iter::empty()).is_none());
    assert!(rig.program(objects::PROCEDURE, b"db", b"p").is_none());
    assert_eq!(rig.losses(), 3);
    let rig = limited(&[(Lost::ThreadInstances, 2)]);
    let threads = [rig.thread(), rig.thread()];
    assert!(rig.new_thread(rig.class.thread, None, None).is_none());
    assert_eq!(rig.losses_of("thread_instances_lost"), 1);
    rig.delete_thread(threads[0]);
    rig.thread();
}

#[test]
fn instruments_beyond_a_limit_are_not_registered() {
    let rig = limited(&[(Lost::MutexClasses, 1), (Lost::MemoryClasses, 2), (Lost::FileClasses, 0)]);
    let register = |kind, name| rig.register(Registration { kind, name, properties: Properties::default() });
    assert_eq!(rig.class.file, 0);
    assert!(rig.class.mutex != 0 && rig.class.server_memory != 0);
    assert_eq!(register(Kind::Mutex, "wait/synch/mutex/test/second"), 0);
    assert_eq!(register(Kind::Mutex, MUTEX), rig.class.mutex, "known already");
    assert_eq!(register(Kind::Memory, "memory/test/third"), 0);
    assert_ne!(register(Kind::Memory, "memory/performance_schema/own"), 0, "not counted");
    let lost = ["mutex_classes_lost", "memory_classes_lost", "file_classes_lost"];
    assert_eq!(lost.map(|name| rig.losses_of(name)), [1, 1, 1]);
    assert!(rig.instruments().iter().any(|it| it.name == TABLE_IO), "fixed ones are none of them");
}

#[test]
fn statistics_of_closed_tables_have_limits_those_of_open_ones_have_none() {
    let rig = limited(&[(Lost::IndexStats, 1), (Lost::TableLockStats, 0)]);
    rig.connect();
    let share = rig.share("db", "t", &["PRIMARY", "other"]);
    let names = |rig: Rig| rig.tables()[0].indexes.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    let primary = || Some("PRIMARY".to_owned());
    assert_eq!(names(rig), [primary(), Some("other".to_owned())], "rows of zeros, while there is room");
    let table = rig.open_table(share, 1).unwrap();
    rig.table_io(table, 0, 0, 5);
    rig.table_io(table, 0, MAX_INDEXES, 7);
    rig.table_lock(table, 0);
    let io = |rig: Rig| rig.tables()[0].indexes.iter().map(|index| index.io.fetch.count).sum::<u64>();
    let locks = |rig: Rig| rig.tables()[0].locks.0[0].count;
    assert_eq!((io(rig), locks(rig)), (12, 1));
    rig.close_table(table);
    assert_eq!((io(rig), locks(rig)), (5, 0), "one index has room");
    assert_eq!(names(rig), [primary()], "the other one may have lost its figures");
    assert_eq!(["index_stat_lost", "table_lock_stat_lost"].map(|name| rig.losses_of(name)), [1, 1]);
    rig.drop_table_share(&TableName { temporary: false, schema: b"db", name: b"t" });
    let table = rig.open_table(rig.share("db", "u", &[]), 1).unwrap();
    rig.table_io(table, 0, MAX_INDEXES, 3);
    rig.close_table(table);
    assert_eq!(io(rig), 3, "room again");
}

#[test]
fn statements_nest_as_deep_as_they_may() {
    let rig = limited(&[(Lost::NestedStatements, 2)]);
    rig.connect();
    let open = || rig.open_statement(rig.class.statement, 33, None);
    let (outer, inner) = (open(), open());
    assert!(outer.is_some() && inner.is_some() && open().is_none());
    assert_eq!(rig.losses_of("nested_statement_lost"), 1);
}

#[test]
fn rules_are_as_many_as_they_may() {
    let rig = Rig::with(Config { rules_size: [1, 0], ..small() });
    assert_eq!(rig.rules::<ActorRule>().len(), 1);
    assert!(rig.rules::<objects::ObjectRule>().is_empty());
    let rule = rig.rules::<ActorRule>()[0].clone();
    assert_eq!(rig.add_rule(ActorRule { user: "u".into(), ..rule }), Err(RuleError::Full));
}

#[test]
fn the_host_may_forget_losses_and_the_engine_does_not() {
    let rig = limited(&[(Lost::MutexInstances, 0)]);
    let counter = rig.engine.lost_counters().find(|(name, _)| *name == "mutex_instances_lost").unwrap().1;
    rig.init_synch(rig.class.mutex, 1);
    assert_eq!(counter.swap(0, std::sync::atomic::Ordering::Relaxed), 1);
    rig.init_synch(rig.class.mutex, 1);
    assert_eq!(counter.load(std::sync::atomic::Ordering::Relaxed), 1);
    assert_eq!(rig.losses_of("mutex_instances_lost"), 2);
}
