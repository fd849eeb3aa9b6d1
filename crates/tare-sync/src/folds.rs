//! HOT PATH: values that move from one place to another while readers add up both.

use crate::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

/// The increment for one fold in progress.
const FOLDING: u64 = 1 << 48;

/// The number of folds in progress (upper 16 bits) and of folds begun (lower 48 bits).
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// use tare_sync::Folds;
///
/// let (folds, from, to) = (Folds::new(), AtomicU64::new(3), AtomicU64::new(4));
/// let sum = || folds.read(|| from.load(Relaxed) + to.load(Relaxed));
/// assert_eq!(sum(), Some(7));
/// folds.begin();
/// to.fetch_add(from.swap(0, Relaxed), Relaxed);
/// assert_eq!(sum(), None, "values are moving: read again");
/// folds.end();
/// assert_eq!(sum(), Some(7));
/// ```
#[repr(transparent)]
pub struct Folds(AtomicU64);

impl Folds {
    new! {
        /// Creates a counter with no fold in progress.
        fn new() = Folds(AtomicU64::new(0))
    }

    /// Announces that values are about to move.
    #[inline]
    pub fn begin(&self) {
        self.0.fetch_add(FOLDING + 1, Acquire);
        // Whoever sees any part of the move sees this announcement, too.
        fence(Release);
    }

    /// Announces that the values of one fold have arrived.
    #[inline]
    pub fn end(&self) {
        self.0.fetch_sub(FOLDING, Release);
    }

    /// Returns whether a fold is in progress.
    pub fn is_busy(&self) -> bool {
        self.0.load(Relaxed) >= FOLDING
    }

    /// Returns whether one fold is in progress, the caller's.
    pub fn is_single(&self) -> bool {
        self.0.load(Acquire) / FOLDING == 1
    }

    /// Returns what `read` adds up, or `None` if a fold was in progress or began meanwhile.
    pub fn read<T>(&self, read: impl FnOnce() -> T) -> Option<T> {
        let before = self.0.load(Acquire);
        if before >= FOLDING {
            return None;
        }
        let value = read();
        fence(Acquire);
        (self.0.load(Relaxed) == before).then_some(value)
    }
}
