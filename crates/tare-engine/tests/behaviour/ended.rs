//! Waits that the host has timed itself, and threads that it has numbered.

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

const MOVED: u64 = 4096;

fn ended(rig: Rig, started: Option<u64>, events: u64) {
    let object = WaitObject::new(0x77, operation::FILE + 6);
    let facts = EndedWaitFacts { started, events, amount: Some(MOVED) };
    rig.count_ended_wait(rig.class.file, object, here(), facts);
}

#[test]
fn a_wait_that_the_host_has_timed_lasts_from_its_beginning_to_now() {
    let rig = Rig::new();
    let thread = rig.connect();
    let started = ticks();
    rig.wait(rig.class.mutex);
    ended(rig, Some(started), 1);
    let stat = rig.thread_wait(thread, FILE);
    assert_eq!(stat.count, 1);
    let rows = rig.waits(Scope::History);
    let row = rows.iter().find(|row| row.head.name == FILE).expect("a record");
    let timer = row.head.timer;
    let mutex = rows.iter().find(|row| row.head.name == MUTEX).expect("a record").head.timer;
    assert!(timer.start_ps <= mutex.start_ps && timer.end_ps >= mutex.end_ps, "{timer:?} around {mutex:?}");
    assert_eq!(Some(stat.max_ps), timer.wait_ps);
    assert_eq!((row.object_instance_begin, row.number_of_bytes), (0x77, Some(MOVED as i64)));
}

#[test]
fn a_wait_that_was_not_timed_is_counted_only() {
    let rig = Rig::new();
    let thread = rig.connect();
    ended(rig, None, 3);
    let stat = rig.thread_wait(thread, FILE);
    assert_eq!((stat.count, stat.sum_ps, stat.max_ps), (3, 0, 0));
    assert!(rig.waits(Scope::Current).iter().all(|row| row.head.name != FILE));
}

#[test]
fn a_wait_of_an_instrument_that_is_off_is_not_counted() {
    let rig = Rig::new();
    let thread = rig.connect();
    rig.set_instrument(rig.class.file, Some(false), None);
    ended(rig, Some(ticks()), 1);
    ended(rig, None, 1);
    assert_eq!(rig.thread_wait(thread, FILE).count, 0);
}

#[test]
fn a_thread_has_the_number_that_its_host_gives_it() {
    let rig = Rig::new();
    let thread = rig.connect();
    rig.set_thread_id(thread, 4711);
    rig.wait(rig.class.mutex);
    assert_eq!(thread.thread_id(), 4711);
    assert!(rig.waits(Scope::History).iter().all(|row| row.head.thread_id == 4711));
    assert_eq!(rig.thread_wait(thread, MUTEX).count, 1);
}
