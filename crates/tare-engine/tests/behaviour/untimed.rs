//! Waits that the host does not time, and threads that it has numbered.

use std::time::Duration;

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

const NEVER: Duration = Duration::from_secs(3600);

#[test]
fn a_wait_that_was_not_timed_is_counted_only() {
    let rig = Rig::new();
    let thread = rig.connect();
    (0..3).for_each(|_| rig.count_untimed_wait(rig.class.file));
    let stat = rig.thread_wait(thread, FILE);
    assert_eq!((stat.count, stat.sum_ps, stat.max_ps), (3, 0, 0));
    for scope in [Scope::Current, Scope::History, Scope::HistoryLong] {
        assert!(rig.waits(scope).iter().all(|row| row.head.name != FILE), "{scope:?}");
    }
}

#[test]
fn a_wait_that_was_not_timed_stands_for_those_of_statements_that_are_not_chosen() {
    const WEIGHT: u32 = 4;
    let rig = Rig::with(Config {
        instruments: Box::new(|_| Initial { level: Recording::Sampled, ..Initial::default() }),
        reports_free_locks: true,
        ..small()
    });
    rig.set_sampling(SampleRate::OneIn(WEIGHT), NEVER);
    // What is slow is known in ticks from here on.
    rig.adjust_sampling();
    let thread = rig.connect();
    let mut chosen = 0;
    for _ in 0..200 {
        rig.statement(rig.class.statement, "select 1", |_| {
            chosen += u64::from(!rig.is_skipping());
            if !rig.is_skipping() {
                rig.count_untimed_wait(rig.class.mutex);
            }
        });
    }
    assert!((1..200).contains(&chosen), "{chosen}");
    assert_eq!(rig.thread_wait(thread, MUTEX).count, chosen * u64::from(WEIGHT));
}

#[test]
fn a_wait_of_an_instrument_that_is_off_is_not_counted() {
    let rig = Rig::new();
    let thread = rig.connect();
    rig.set_instrument(rig.class.file, Some(false), None);
    rig.count_untimed_wait(rig.class.file);
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
