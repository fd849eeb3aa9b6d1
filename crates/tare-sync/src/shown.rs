//! HOT PATH: publication of the best of many equal buffers. Whoever owns a buffer fills it and publishes it
//! with one exchange. Nobody waits; of two that publish at once the better one stays. Readers copy the
//! published buffer. A tag, which rises with every exchange, tells them whether it was replaced meanwhile.

use crate::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    again, fence,
};

/// The published buffer: tag << 32 | buffer, 0 for none.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// use tare_sync::Shown;
///
/// let buffers: [AtomicU64; 3] = Default::default();
/// let shown = Shown::new();
/// Shown::begin_to_fill();
/// buffers[1].store(42, Relaxed);
/// assert_eq!(shown.replace(1, |published| published == 0), 0, "nothing was replaced");
/// assert_eq!(shown.read(|buffer| buffers[buffer as usize].load(Relaxed)), Some(42));
/// ```
#[repr(transparent)]
pub struct Shown(AtomicU64);

impl Shown {
    new! {
        /// Creates a state with nothing published.
        fn new() = Shown(AtomicU64::new(0))
    }

    /// Returns what `read` makes of the published buffer; `None` if there is none. Retries while it is being
    /// replaced.
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

    /// Orders the writes to a buffer behind its last replacement. The owner calls it before it refills the
    /// buffer.
    #[inline]
    pub fn begin_to_fill() {
        // Whoever sees any of these writes also sees that the buffer is no longer published.
        fence(Release);
    }

    /// Publishes the buffer `mine` if `is_wanted` accepts it in place of the published one. 0 stands for no
    /// buffer in both. Returns the buffer that the caller owns afterwards: the replaced one, or `mine`.
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

    /// Returns whether the published buffer has not been replaced since `then`, so that what was read of it
    /// is consistent.
    #[inline]
    fn is_still(&self, then: u64) -> bool {
        fence(Acquire);
        self.0.load(Relaxed) == then
    }
}
