//! A thread compares one configuration version instead of all settings. Events that come after a complete
//! change never miss it.

use loom::sync::Arc;
use loom::thread;

use super::check;
use crate::atomic::{AtomicU32, Ordering::Relaxed};
use crate::{ConfigVersion, Limit, SeenVersion};

struct SettingsModel {
    /// The shared version, and a switch it covers.
    changes: ConfigVersion,
    switch: AtomicU32,
    /// The version the thread has seen, and a mask it covers.
    settled: SeenVersion,
    mask: AtomicU32,
    /// The bound up to which the thread need not compare versions.
    limit: Limit,
    /// What the thread derived from both; only it writes this word.
    ready: AtomicU32,
}

impl SettingsModel {
    fn new() -> Arc<SettingsModel> {
        Arc::new(SettingsModel {
            changes: ConfigVersion::new(),
            switch: AtomicU32::new(1),
            settled: SeenVersion::new(),
            mask: AtomicU32::new(1),
            limit: Limit::new(),
            ready: AtomicU32::new(0),
        })
    }

    fn switch_off(&self) {
        self.switch.store(0, Relaxed);
        self.changes.announce();
        self.limit.close();
    }

    fn mask_off(&self) {
        self.mask.store(0, Relaxed);
        self.settled.unsettle();
        self.limit.close();
    }

    /// Begins an event that checks the limit first. Returns whether it is recorded.
    fn limited_event(&self) -> u32 {
        if self.limit.get() == 0 {
            let recorded = self.event();
            self.limit.open(1, &self.settled, &self.changes);
            return recorded;
        }
        self.ready.load(Relaxed)
    }

    /// Begins an event. Returns whether it is recorded.
    fn event(&self) -> u32 {
        if !self.settled.is(&self.changes) {
            self.settled.settle(&self.changes);
            self.ready.store(self.mask.load(Relaxed) & self.switch.load(Relaxed), Relaxed);
        }
        self.ready.load(Relaxed)
    }
}

/// Runs events against a change. After the change is complete and the thread knows it, no event is recorded.
fn no_event_after(change: fn(&SettingsModel), event: fn(&SettingsModel) -> u32) {
    check(move || {
        let shared = SettingsModel::new();
        let changer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || change(&shared))
        };
        event(&shared);
        event(&shared);
        changer.join().expect("a thread");
        assert_eq!(event(&shared), 0);
    });
}

#[test]
fn a_switch_is_heeded_by_the_next_event() {
    no_event_after(SettingsModel::switch_off, SettingsModel::event);
}

#[test]
fn a_mask_is_heeded_by_the_next_event() {
    no_event_after(SettingsModel::mask_off, SettingsModel::event);
}

#[test]
fn a_limit_closes_with_a_switch() {
    no_event_after(SettingsModel::switch_off, SettingsModel::limited_event);
}

#[test]
fn a_limit_closes_with_a_mask() {
    no_event_after(SettingsModel::mask_off, SettingsModel::limited_event);
}

#[test]
fn both_at_once_are_heeded() {
    check(|| {
        let shared = SettingsModel::new();
        let changers = [SettingsModel::switch_off, SettingsModel::mask_off].map(|change| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || change(&shared))
        });
        shared.event();
        changers.into_iter().for_each(|changer| changer.join().expect("a thread"));
        assert_eq!(shared.event(), 0);
    });
}
