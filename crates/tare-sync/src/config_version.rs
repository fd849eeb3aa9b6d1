//! HOT PATH: one configuration version for all settings that decide about an event. A thread that finds it
//! unchanged checks nothing else. Events that come after a complete change never miss it.

use crate::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    fence,
};

/// The version of a thread that has seen none. Real versions start at 1 and rise by 2.
const UNSETTLED: u32 = 0;

/// The configuration version shared by all threads.
///
/// # Examples
///
/// ```
/// use tare_sync::{ConfigVersion, Limit, SeenVersion};
///
/// let (version, seen, limit) = (ConfigVersion::new(), SeenVersion::new(), Limit::new());
/// // A thread reads the settings and may then proceed up to word 100 without asking again.
/// seen.settle(&version);
/// limit.open(100, &seen, &version);
/// assert!(seen.is(&version) && limit.get() == 100);
/// // Somebody changes a setting.
/// version.announce();
/// limit.close();
/// assert!(!seen.is(&version) && limit.get() == 0);
/// ```
#[repr(transparent)]
pub struct ConfigVersion(AtomicU32);

impl ConfigVersion {
    new! {
        /// Creates the first version.
        fn new() = ConfigVersion(AtomicU32::new(1))
    }

    /// Returns the current version, which covers all changes announced before. It is never 0.
    #[inline]
    pub fn number(&self) -> u32 {
        self.0.load(Acquire)
    }

    /// Raises the version. Any thread may call it, after its change is complete.
    pub fn announce(&self) {
        self.0.fetch_add(2, Release);
    }
}

/// The configuration version that one thread has seen.
#[repr(transparent)]
pub struct SeenVersion(AtomicU32);

impl SeenVersion {
    new! {
        /// Creates a state in which no version has been seen.
        fn new() = SeenVersion(AtomicU32::new(UNSETTLED))
    }

    /// Returns whether the thread has seen the current version, so that what it derived from the settings
    /// holds.
    #[inline(always)]
    pub fn is(&self, changes: &ConfigVersion) -> bool {
        self.0.load(Relaxed) == changes.0.load(Relaxed)
    }

    /// Marks the current version as seen and returns it. Only the owning thread may call it, before it reads
    /// the settings again.
    #[inline]
    pub fn settle(&self, changes: &ConfigVersion) -> u32 {
        // A later change is noticed by its version or by `unsettle`, which cannot be reordered before the
        // swap.
        let now = changes.number();
        self.0.swap(now, AcqRel);
        now
    }

    /// Makes the thread read its settings again. Any thread may call it, after a change of this thread's
    /// settings.
    #[inline]
    pub fn unsettle(&self) {
        self.0.swap(UNSETTLED, Release);
    }
}

/// A bound up to which a thread may proceed without comparing configuration versions; it compares with the
/// bound anyway. 0: it must compare versions first.
#[repr(transparent)]
pub struct Limit(AtomicU32);

impl Limit {
    new! {
        /// Creates a closed limit.
        fn new() = Limit(AtomicU32::new(0))
    }

    /// Returns the bound; 0 if the limit is closed.
    #[inline(always)]
    pub fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Sets the bound to `to` unless the configuration has changed since `settled`. Only the owning thread
    /// may call it.
    #[inline]
    pub fn open(&self, to: u32, settled: &SeenVersion, changes: &ConfigVersion) {
        self.0.store(to, Relaxed);
        // Whoever changes the configuration announces it first and then closes the limit. Either the load
        // below sees the announcement, or that store comes last.
        fence(SeqCst);
        if !settled.is(changes) {
            self.0.store(0, Relaxed);
        }
    }

    /// Closes the limit. The owning thread may call it, and whoever changed the configuration, after
    /// announcing that.
    #[inline]
    pub fn close(&self) {
        fence(SeqCst);
        self.0.store(0, Relaxed);
    }
}
