//! HOT PATH: a seqlock, whose number is odd while the only writer changes the words it protects.

use crate::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
    OwnLoad, fence,
};

/// The sequence number of a seqlock: even at rest, and different after each change.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// use tare_sync::Seqlock;
///
/// let (lock, words) = (Seqlock::new(), [AtomicU64::new(1), AtomicU64::new(2)]);
/// // The only writer changes both words.
/// lock.change(|| words.iter().for_each(|word| word.store(7, Relaxed)));
/// // A reader sees both changes or none; `None` means: try again.
/// let seen = lock.read(|_| [words[0].load(Relaxed), words[1].load(Relaxed)]);
/// assert_eq!(seen, Some([7, 7]));
/// ```
#[repr(transparent)]
pub struct Seqlock(AtomicU32);

impl Seqlock {
    new! {
        /// Creates a seqlock before its first change.
        fn new() = Seqlock(AtomicU32::new(0))
    }

    /// Changes the protected words. Only their single writer may call it.
    #[inline(always)]
    pub fn change<T>(&self, change: impl FnOnce() -> T) -> T {
        let version = self.0.own();
        self.0.store(version.wrapping_add(1), Relaxed);
        // Whoever sees any of the change sees the odd number, too.
        fence(Release);
        let changed = change();
        self.0.store(version.wrapping_add(2), Release);
        changed
    }

    /// Returns what `read` copies, given the sequence number. Returns `None` if a write was in progress or
    /// happened meanwhile.
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

    /// Returns whether a write is in progress.
    pub fn is_odd(&self) -> bool {
        self.0.load(Relaxed) & 1 != 0
    }

    /// Returns the sequence number. Only the writer may call it.
    #[inline(always)]
    pub fn now(&self) -> u32 {
        self.0.own()
    }
}
