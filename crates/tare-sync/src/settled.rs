//! HOT PATH: one number stands for all settings that decide about an event. A thread that finds it unchanged asks nothing
//! else; a change that is complete is not missed by the events that come after it.

use crate::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    fence,
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

    /// A number that stands for what was announced before. It is not 0.
    #[inline]
    pub fn number(&self) -> u32 {
        self.0.load(Acquire)
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

    /// The thread is about to look at all settings again. By the thread itself. Returns their [`Changes::number`].
    #[inline]
    pub fn settle(&self, changes: &Changes) -> u32 {
        // What changes after this is seen by its number, or by `unsettle`, which the swap does not overtake.
        let now = changes.number();
        self.0.swap(now, AcqRel);
        now
    }

    /// Settings of this thread have changed. Said after the change, by any thread.
    #[inline]
    pub fn unsettle(&self) {
        self.0.swap(UNSETTLED, Release);
    }
}

/// How far a thread may go on without asking whether it has settled: what it compares with on its way anyway. 0: not at all.
#[repr(transparent)]
pub struct Limit(AtomicU32);

impl Limit {
    new! {
        /// The thread has to ask.
        fn new() = Limit(AtomicU32::new(0))
    }

    /// How far; 0: the thread has to ask.
    #[inline(always)]
    pub fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// The thread may go as far as that, unless something has changed since it settled. By the thread itself.
    #[inline]
    pub fn open(&self, to: u32, settled: &Settled, changes: &Changes) {
        self.0.store(to, Relaxed);
        // Whoever changes something says so first and closes then. Either this load sees it, or that store comes last.
        fence(SeqCst);
        if !settled.is(changes) {
            self.0.store(0, Relaxed);
        }
    }

    /// The thread has to ask. By the thread itself, or, once a change has been said, by whoever made it.
    #[inline]
    pub fn close(&self) {
        fence(SeqCst);
        self.0.store(0, Relaxed);
    }
}
