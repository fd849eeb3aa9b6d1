//! A thread asks one number instead of all that decides about an event. A change that is complete is not missed by the
//! events that come after it.

use loom::sync::Arc;
use loom::thread;

use super::check;
use crate::atomic::{AtomicU32, Ordering::Relaxed};
use crate::{Changes, Settled};

struct Shared {
    /// The number of changes, and a switch it stands for.
    changes: Changes,
    switch: AtomicU32,
    /// What the thread has heeded, and a mask it stands for.
    settled: Settled,
    mask: AtomicU32,
    /// What the thread made of both: its own.
    ready: AtomicU32,
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared {
            changes: Changes::new(),
            switch: AtomicU32::new(1),
            settled: Settled::new(),
            mask: AtomicU32::new(1),
            ready: AtomicU32::new(0),
        })
    }

    fn switch_off(&self) {
        self.switch.store(0, Relaxed);
        self.changes.announce();
    }

    fn mask_off(&self) {
        self.mask.store(0, Relaxed);
        self.settled.unsettle();
    }

    /// An event begins; returns whether it is recorded.
    fn event(&self) -> u32 {
        if !self.settled.is(&self.changes) {
            self.settled.settle(&self.changes);
            self.ready.store(self.mask.load(Relaxed) & self.switch.load(Relaxed), Relaxed);
        }
        self.ready.load(Relaxed)
    }
}

/// Runs events against a change; when it is complete, and the thread knows it is, no event is recorded any more.
fn no_event_after(change: fn(&Shared)) {
    check(move || {
        let shared = Shared::new();
        let changer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || change(&shared))
        };
        shared.event();
        shared.event();
        changer.join().expect("a thread");
        assert_eq!(shared.event(), 0);
    });
}

#[test]
fn a_switch_is_heeded_by_the_next_event() {
    no_event_after(Shared::switch_off);
}

#[test]
fn a_mask_is_heeded_by_the_next_event() {
    no_event_after(Shared::mask_off);
}

#[test]
fn both_at_once_are_heeded() {
    check(|| {
        let shared = Shared::new();
        let changers = [Shared::switch_off, Shared::mask_off].map(|change| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || change(&shared))
        });
        shared.event();
        changers.into_iter().for_each(|changer| changer.join().expect("a thread"));
        assert_eq!(shared.event(), 0);
    });
}
