//! HOT PATH: figures that move from one place to another while readers add up both.

use crate::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

/// One fold in progress.
const FOLDING: u64 = 1 << 48;

/// Folds in progress (upper 16 bits) and folds begun.
#[repr(transparent)]
pub struct Folds(AtomicU64);

impl Folds {
    new! {
        /// Nothing moves.
        fn new() = Folds(AtomicU64::new(0))
    }

    /// Figures begin to move.
    #[inline]
    pub fn begin(&self) {
        self.0.fetch_add(FOLDING + 1, Acquire);
        // Who sees anything of what moves sees the fold, too.
        fence(Release);
    }

    /// They have arrived.
    #[inline]
    pub fn end(&self) {
        self.0.fetch_sub(FOLDING, Release);
    }

    /// Whether figures are moving now.
    pub fn is_busy(&self) -> bool {
        self.0.load(Relaxed) >= FOLDING
    }

    /// One try of a reader: what `read` adds up, if nothing moved meanwhile.
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
