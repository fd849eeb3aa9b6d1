//! Mutexes and rwlocks: whose they are, and what waits for them come to.

use tare_engine::operation;
use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

#[test]
fn a_mutex_knows_its_owner() {
    let rig = Rig::new();
    let thread = rig.connect();
    let mutex = rig.init_synch(rig.class.mutex, 0x10).unwrap();
    let owner = |rig: Rig| rig.synchs()[0].locked_by_thread_id;
    assert_eq!(owner(rig), None);
    rig.lock(mutex);
    assert_eq!(owner(rig), Some(thread.thread_id()));
    rig.unlock_mutex(mutex);
    assert_eq!(owner(rig), None);
    let row = &rig.synchs()[0];
    assert_eq!((row.kind, row.name, row.object_instance_begin), (Kind::Mutex, MUTEX, 0x10));
    rig.destroy_synch(mutex);
    assert!(rig.synchs().is_empty());
}

#[test]
fn a_rwlock_knows_its_writer_and_counts_its_readers() {
    let rig = Rig::new();
    let thread = rig.connect();
    let lock = rig.init_synch(rig.class.rwlock, 0x20).unwrap();
    let state = |rig: Rig| {
        let row = rig.synchs().remove(0);
        (row.locked_by_thread_id, row.read_locked_by_count)
    };
    for readers in 1..=2 {
        let wait = rig.start_synch_wait(lock, operation::RWLOCK, here()).unwrap();
        rig.add_synch_reader(lock, wait.thread());
        rig.end_synch_wait(&wait);
        assert_eq!(state(rig), (None, readers));
    }
    rig.unlock_rwlock(lock);
    rig.unlock_rwlock(lock);
    rig.unlock_rwlock(lock);
    assert_eq!(state(rig), (None, 0));
    let wait = rig.start_synch_wait(lock, operation::RWLOCK + 1, here()).unwrap();
    rig.set_synch_owner(lock, wait.thread());
    rig.end_synch_wait(&wait);
    assert_eq!(state(rig), (Some(thread.thread_id()), 0));
    rig.unlock_rwlock(lock);
    let wait = rig.start_synch_wait(lock, operation::RWLOCK + 3, here()).unwrap();
    rig.end_synch_wait(&wait);
    assert_eq!(state(rig), (None, 0), "it was not taken");
    assert_eq!(rig.thread_wait(thread, RWLOCK).count, 4);
    let operations: Vec<_> = rig.waits(Scope::History).iter().map(|row| row.operation).collect();
    assert_eq!(operations, ["read_lock", "read_lock", "write_lock", "try_write_lock"]);
}

/// Switches every instrument of locks.
fn switch_locks(rig: Rig, on: bool) {
    for class in [rig.class.mutex, rig.class.rwlock] {
        rig.set_instrument(class, Some(on), None);
    }
}

/// Takes a lock to read.
fn read_lock(rig: Rig, lock: SynchRef) {
    if let Some(wait) = rig.start_synch_wait(lock, operation::RWLOCK, here()) {
        rig.add_synch_reader(lock, wait.thread());
        rig.end_synch_wait(&wait);
    }
}

#[test]
fn nobody_knows_whose_a_lock_is_that_was_held_while_locks_were_off() {
    let rig = Rig::new();
    let thread = rig.connect();
    let [mutex, kept] = [0x10, 0x18].map(|at| rig.init_synch(rig.class.mutex, at).unwrap());
    let rwlock = rig.init_synch(rig.class.rwlock, 0x20).unwrap();
    let held = || -> Vec<(Option<u64>, u32)> {
        rig.synchs().iter().map(|row| (row.locked_by_thread_id, row.read_locked_by_count)).collect()
    };
    let nobodys: Vec<(Option<u64>, u32)> = vec![(None, 0); 3];
    let lock = || {
        rig.lock(mutex);
        rig.lock(kept);
        read_lock(rig, rwlock);
    };
    let id = Some(thread.thread_id());
    let everybodys = vec![(id, 0), (id, 0), (None, 1)];
    lock();
    assert_eq!(held(), everybodys);
    switch_locks(rig, false);
    assert_eq!(held(), nobodys, "who gives them back tells nobody");
    rig.unlock_mutex(mutex);
    rig.unlock_rwlock(rwlock);
    switch_locks(rig, true);
    assert_eq!(held(), nobodys, "two have been given back");
    rig.unlock_mutex(kept);
    lock();
    assert_eq!(held(), everybodys, "they are known again, once each");
    rig.unlock_rwlock(rwlock);
    assert_eq!(held()[2], (None, 0));
    // Nothing was counted while they were off, and all else was.
    assert_eq!((rig.thread_wait(thread, MUTEX).count, rig.thread_wait(thread, RWLOCK).count), (4, 2));
}

#[test]
fn a_lock_that_is_taken_while_locks_are_switched_on_is_nobodys_until_it_is_taken_again() {
    let rig = Rig::new();
    let thread = rig.connect();
    let mutex = rig.init_synch(rig.class.mutex, 0x10).unwrap();
    let owner = || rig.synchs()[0].locked_by_thread_id;
    let wait = rig.start_synch_wait(mutex, operation::MUTEX, here()).unwrap();
    switch_locks(rig, false);
    // Whatever the thread does meanwhile, and settles for.
    rig.wait(rig.class.cond);
    rig.set_synch_owner(mutex, wait.thread());
    rig.end_synch_wait(&wait);
    rig.unlock_mutex(mutex);
    assert_eq!(owner(), None);
    switch_locks(rig, true);
    assert_eq!((owner(), rig.thread_wait(thread, MUTEX).count), (None, 1));
    rig.lock(mutex);
    assert_eq!(owner(), Some(thread.thread_id()));
}

#[test]
fn rwlocks_stay_known_while_mutexes_are_switched() {
    let rig = Rig::new();
    let thread = rig.connect();
    let rwlock = rig.init_synch(rig.class.rwlock, 0x20).unwrap();
    let written = rig.init_synch(rig.class.rwlock, 0x28).unwrap();
    read_lock(rig, rwlock);
    let wait = rig.start_synch_wait(written, operation::RWLOCK + 1, here()).unwrap();
    rig.set_synch_owner(written, wait.thread());
    rig.end_synch_wait(&wait);
    let id = Some(thread.thread_id());
    for on in [false, true, false, true] {
        rig.set_instrument(rig.class.mutex, Some(on), None);
        rig.wait(rig.class.cond);
        let held: Vec<_> =
            rig.synchs().iter().map(|row| (row.locked_by_thread_id, row.read_locked_by_count)).collect();
        assert_eq!(held, [(None, 1), (id, 0)]);
    }
    rig.unlock_rwlock(rwlock);
    rig.unlock_rwlock(written);
    assert!(rig.synchs().iter().all(|row| (row.locked_by_thread_id, row.read_locked_by_count) == (None, 0)));
}

#[test]
fn a_thread_remembers_many_read_locks_and_says_which_it_forgot() {
    let rig = Rig::new();
    rig.connect();
    const REMEMBERED: u64 = 24 + 512;
    let locks: Vec<_> = (0..600).map(|at| rig.init_synch(rig.class.rwlock, at).unwrap()).collect();
    let readers = || rig.synchs().iter().map(|row| row.read_locked_by_count).sum::<u32>();
    for (at, lock) in (1..).zip(&locks) {
        let wait = rig.start_synch_wait(*lock, operation::RWLOCK, here()).unwrap();
        rig.add_synch_reader(*lock, wait.thread());
        rig.end_synch_wait(&wait);
        let lost = rig.losses_of("read_locks_lost");
        assert_eq!(lost, u64::saturating_sub(at, REMEMBERED), "{at} held");
    }
    assert_eq!(u64::from(readers()), REMEMBERED);
    // In whatever order they are given back.
    let (early, late) = locks.split_at(300);
    late.iter().for_each(|lock| rig.unlock_rwlock(*lock));
    assert_eq!(readers(), 300);
    early.iter().for_each(|lock| rig.unlock_rwlock(*lock));
    assert_eq!(readers(), 0);
}

#[test]
fn waits_for_a_lock_count_for_it_where_the_host_wants_that() {
    let rig = Rig::new();
    let threads = [rig.connect(), rig.connect()];
    let [one, other] = [1, 2].map(|identity| rig.init_synch(rig.class.mutex, identity).unwrap());
    let wait = |lock: SynchRef, thread: ThreadRef| {
        rig.on(thread, || {
            if let Some(wait) = rig.start_synch_wait(lock, operation::MUTEX, here()) {
                rig.end_counted_synch_wait(lock, &wait);
            }
        });
    };
    let counts = || {
        let rows = rig.synchs();
        [1, 2].map(|identity| {
            rows.iter().find(|row| row.object_instance_begin == identity).unwrap().waits.count
        })
    };
    for thread in threads {
        (0..5).for_each(|_| wait(one, thread));
        wait(other, thread);
    }
    assert_eq!(counts(), [10, 2]);
    assert_eq!(rig.global_wait(MUTEX).count, 12, "and for the instrument");
    let stat = rig.synchs()[0].waits;
    assert!(0 < stat.sum_ps && stat.min_ps <= stat.max_ps && u128::from(stat.max_ps) <= stat.sum_ps);
    // Untimed, off, truncated.
    rig.set_instrument(rig.class.mutex, Some(true), Some(false));
    wait(other, threads[0]);
    rig.set_instrument(rig.class.mutex, Some(false), Some(false));
    wait(other, threads[0]);
    assert_eq!(counts(), [10, 3]);
    rig.reset(Reset::Instances);
    assert_eq!(counts(), [0, 0]);
    assert_eq!(rig.global_wait(MUTEX).count, 13);
}
