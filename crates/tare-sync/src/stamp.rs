//! HOT PATH: a number that rises when something has changed. Who has copied that may use the copy for as long as the number is the
//! one from before. Many may change it, also at once.

use crate::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};

/// Something has changed. Said after the change, by whoever made it.
#[inline]
pub fn rise(stamp: &AtomicU64) {
    stamp.fetch_add(1, Release);
}

/// The number, before one copies.
#[inline]
pub fn now(stamp: &AtomicU64) -> u64 {
    stamp.load(Acquire)
}
