//! HOT PATH: one number stands for all settings that decide about an event. A thread that finds it unchanged asks nothing
//! else; a change that is complete is not missed by the events that come after it.

use crate::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Nothing is settled. The number of changes starts at 1 and rises by 2.
const UNSETTLED: u32 = 0;

/// How often settings of everybody have changed.
#[repr(transparent)]
pub struct Changes(AtomicU32);

impl Changes {
    new! {
        /// None has yet.
        fn new() = Changes(AtomicU32::new(1))
    }

    /// Something has changed. Said after the change, by any thread.
    pub fn announce(&self) {
        self.0.fetch_add(2, Release);
    }
}

/// The changes that one thread has heeded.
#[repr(transparent)]
pub struct Settled(AtomicU32);

impl Settled {
    new! {
        /// Nothing is settled.
        fn new() = Settled(AtomicU32::new(UNSETTLED))
    }

    /// Whether what the thread made of the settings still holds.
    #[inline(always)]
    pub fn is(&self, changes: &Changes) -> bool {
        self.0.load(Relaxed) == changes.0.load(Relaxed)
    }

    /// The thread is about to look at all settings again. By the thread itself.
    #[inline]
    pub fn settle(&self, changes: &Changes) {
        // What changes after this is seen by its number, or by `unsettle`, which the swap does not overtake.
        let now = changes.0.load(Acquire);
        self.0.swap(now, AcqRel);
    }

    /// Settings of this thread have changed. Said after the change, by any thread.
    #[inline]
    pub fn unsettle(&self) {
        self.0.swap(UNSETTLED, Release);
    }
}
