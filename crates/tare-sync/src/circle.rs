//! HOT PATH: a circular list to which one thread adds while others traverse it. Nothing is removed.
//!
//! An entry word holds the place of any one element, chosen by the owning thread. 0 means an empty list.
//!
//! # Examples
//!
//! ```
//! use std::sync::atomic::AtomicU32;
//!
//! use tare_sync::circle;
//!
//! let (entry, links): (AtomicU32, [AtomicU32; 4]) = Default::default();
//! for place in [1, 3] {
//!     circle::insert(&entry, place, |at| &links[at as usize]);
//! }
//! let places: Vec<u32> = circle::round(&entry, 9, |at| links.get(at as usize)).collect();
//! assert_eq!(places, [3, 1]);
//! ```

use crate::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
    OwnLoad,
};

/// Links an initialised element into the circle and makes `entry` point to it. `next` returns an element's
/// link word. Only the owning thread may call it.
#[inline]
pub fn insert<'a>(entry: &AtomicU32, place: u32, next: impl Fn(u32) -> &'a AtomicU32) {
    match entry.own() {
        0 => next(place).store(place, Relaxed),
        last => {
            next(place).store(next(last).own(), Relaxed);
            next(last).store(place, Release);
        }
    }
    entry.store(place, Release);
}

/// Visits each element of a circle once, including all that were linked before the call. `most` bounds the
/// walk in case the memory has been reused and the links lead astray. A `None` from `next` ends it.
pub fn round<'a>(
    entry: &AtomicU32,
    most: usize,
    next: impl Fn(u32) -> Option<&'a AtomicU32>,
) -> impl Iterator<Item = u32> {
    let first = entry.load(Acquire);
    let mut coming = first;
    (0..most).map_while(move |_| {
        let place = coming;
        if place == 0 {
            return None;
        }
        let follower = next(place)?.load(Acquire);
        coming = if follower == first { 0 } else { follower };
        Some(place)
    })
}
