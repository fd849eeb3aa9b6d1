//! TRUNCATE while others count, end and read: nothing of before comes back, and nobody sees half of it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tare_engine::snapshot::*;

use crate::races::race;
use tare_rig::*;

#[test]
fn who_reads_digests_during_a_truncate_sees_none_without_a_name() {
    let rig = Rig::new();
    let thread = rig.thread();
    let write = |_| {
        rig.on(thread, || ["select a", "insert b"].into_iter().for_each(|query| rig.query(query)));
        rig.reset(Reset::Digests);
        // Somebody who truncates all the time would leave nobody the time to read.
        std::thread::sleep(Duration::from_millis(1));
    };
    race(200, write, || {
        for row in rig.digests_of(DigestRow::DIGEST) {
            assert!(row.digest.is_some(), "{} of a digest that was truncated", row.stat.stat.count);
        }
    });
}

#[test]
fn untimed_events_that_were_truncated_do_not_come_back_when_their_thread_ends() {
    let rig = Rig::new();
    rig.set_instrument(rig.class.mutex, None, Some(false));
    let truncated = AtomicU64::new(0);
    let write = |_| {
        let thread = rig.connect();
        (0..5).for_each(|_| _ = rig.wait(rig.class.mutex));
        rig.reset(Reset::Events(EventType::Wait, Scope::HistoryLong));
        truncated.store(thread.thread_id(), Relaxed);
        rig.delete_thread(thread);
    };
    race(20_000, write, || {
        let truncated = truncated.load(Relaxed);
        let waits = rig.waits(Scope::HistoryLong);
        assert!(waits.iter().all(|row| row.head.thread_id > truncated), "{truncated}: {waits:?}");
    });
}
