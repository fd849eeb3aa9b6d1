//! HOT PATH: of many equal buffers one is shown, until a better one takes its place. A buffer is filled by whoever has it,
//! then shown by one exchange: nobody waits, and of two that come at once the better one stays. Readers copy the one that
//! is shown, and learn from a tag, which rises with every exchange, whether it was the same all the time.

use crate::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    again, fence,
};

/// Tag << 32 | the buffer that is shown; 0 is none.
#[repr(transparent)]
pub struct Shown(AtomicU64);

impl Shown {
    new! {
        /// Nothing is shown.
        fn new() = Shown(AtomicU64::new(0))
    }

    /// What `read` makes of the buffer that is shown; `None`: there is none.
    #[inline]
    pub fn read<T>(&self, read: impl Fn(u32) -> T) -> Option<T> {
        loop {
            let now = self.0.load(Acquire);
            if now as u32 == 0 {
                return None;
            }
            let value = read(now as u32);
            if self.is_still(now) {
                return Some(value);
            }
            again();
        }
    }

    /// The caller is about to fill a buffer of its own, which may have been shown before.
    #[inline]
    pub fn begin_to_fill() {
        // Who sees anything of what is written sees that the buffer is not shown any more, too.
        fence(Release);
    }

    /// Shows `mine`, 0 for none, if it is wanted instead of the one that is shown, 0 for none. Returns the buffer that is
    /// the caller's from then on: the one that was shown, or its own.
    #[inline]
    pub fn replace(&self, mine: u32, is_wanted: impl Fn(u32) -> bool) -> u32 {
        loop {
            let now = self.0.load(Acquire);
            if is_wanted(now as u32) {
                let new = (now >> 32).wrapping_add(1) << 32 | u64::from(mine);
                if self.0.compare_exchange(now, new, AcqRel, Acquire).is_ok() {
                    return now as u32;
                }
            } else if self.is_still(now) {
                return mine;
            }
            again();
        }
    }

    /// Whether what was read of the buffer since `then` belongs together.
    #[inline]
    fn is_still(&self, then: u64) -> bool {
        fence(Acquire);
        self.0.load(Relaxed) == then
    }
}
