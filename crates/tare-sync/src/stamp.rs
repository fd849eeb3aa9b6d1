//! HOT PATH: a change counter for caches. A copy of some data is valid while the counter is unchanged. Any
//! number of threads may change the data, also at once.
//!
//! # Examples
//!
//! ```
//! use std::sync::atomic::AtomicU64;
//!
//! use tare_sync::stamp;
//!
//! let counter = AtomicU64::new(0);
//! let copied_at = stamp::now(&counter);
//! assert_eq!(stamp::now(&counter), copied_at, "the copy is valid");
//! stamp::rise(&counter);
//! assert_ne!(stamp::now(&counter), copied_at);
//! ```

use crate::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};

/// Raises the counter. Whoever changes the data calls it after the change.
#[inline]
pub fn rise(stamp: &AtomicU64) {
    stamp.fetch_add(1, Release);
}

/// Returns the counter. A reader calls it before it copies the data.
#[inline]
pub fn now(stamp: &AtomicU64) -> u64 {
    stamp.load(Acquire)
}
