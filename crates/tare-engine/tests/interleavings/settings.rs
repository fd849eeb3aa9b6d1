//! `Engine::settle`, `Engine::change_settings`, `Thread::unsettle`: a thread asks one number instead of all that decides
//! about an event. A change that is complete must not be missed by the events that come after it.

use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use loom::thread;

const UNSETTLED: u32 = 0;

struct Settings {
    /// The engine's number, and a switch it stands for.
    settings: AtomicU32,
    switch: AtomicU32,
    /// The thread's number, and a mask it stands for.
    settled: AtomicU32,
    mask: AtomicU32,
    /// What the thread made of both: its own.
    ready: AtomicU32,
}

impl Settings {
    fn new() -> Settings {
        Settings {
            settings: AtomicU32::new(1),
            switch: AtomicU32::new(1),
            settled: AtomicU32::new(UNSETTLED),
            mask: AtomicU32::new(1),
            ready: AtomicU32::new(0),
        }
    }

    fn switch_off(&self) {
        self.switch.store(0, Relaxed);
        self.settings.fetch_add(2, Release);
    }

    fn mask_off(&self) {
        self.mask.store(0, Relaxed);
        self.settled.swap(UNSETTLED, Release);
    }

    /// An event begins; returns whether it is recorded.
    fn event(&self) -> u32 {
        if self.settled.load(Relaxed) != self.settings.load(Relaxed) {
            let now = self.settings.load(Acquire);
            self.settled.swap(now, AcqRel);
            self.ready.store(self.mask.load(Relaxed) & self.switch.load(Relaxed), Relaxed);
        }
        self.ready.load(Relaxed)
    }
}

/// Runs events against a change; when it is complete, and the thread knows it is, no event is recorded any more.
fn no_event_after(change: fn(&Settings)) {
    super::check(move || {
        let shared = Arc::new(Settings::new());
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
    no_event_after(Settings::switch_off);
}

#[test]
fn a_mask_is_heeded_by_the_next_event() {
    no_event_after(Settings::mask_off);
}

#[test]
fn both_at_once_are_heeded() {
    super::check(|| {
        let shared = Arc::new(Settings::new());
        let changers = [Settings::switch_off, Settings::mask_off].map(|change| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || change(&shared))
        });
        shared.event();
        changers.into_iter().for_each(|changer| changer.join().expect("a thread"));
        assert_eq!(shared.event(), 0);
    });
}
