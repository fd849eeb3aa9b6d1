//! HOT PATH: a number that is odd while its one writer changes what belongs together.

use crate::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
    Own, fence,
};

/// The version of some words: even, and another one after each change.
#[repr(transparent)]
pub struct Version(AtomicU32);

impl Version {
    new! {
        /// Nothing has been changed yet.
        fn new() = Version(AtomicU32::new(0))
    }

    /// Changes the words. By their one writer.
    #[inline(always)]
    pub fn change<T>(&self, change: impl FnOnce() -> T) -> T {
        let version = self.0.own();
        self.0.store(version.wrapping_add(1), Relaxed);
        // Who sees anything of the change sees the odd version, too.
        fence(Release);
        let changed = change();
        self.0.store(version.wrapping_add(2), Release);
        changed
    }

    /// One try of a reader: what `read` copies, and of which version, if nothing changed meanwhile.
    #[inline]
    pub fn read<T>(&self, read: impl FnOnce(u32) -> T) -> Option<T> {
        let before = self.0.load(Acquire);
        if before & 1 != 0 {
            return None;
        }
        let value = read(before);
        fence(Acquire);
        (self.0.load(Relaxed) == before).then_some(value)
    }

    /// Whether the words are changing now.
    pub fn is_odd(&self) -> bool {
        self.0.load(Relaxed) & 1 != 0
    }

    /// The version, for its writer.
    #[inline(always)]
    pub fn now(&self) -> u32 {
        self.0.own()
    }
}
