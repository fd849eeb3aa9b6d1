//! HOT PATH: things that one thread links into a circle, while others go round it. None is taken out. A word leads to one of
//! them, whichever its thread wants next; 0: there are none.

use crate::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
    Own,
};

/// Puts a thing, of which all has been written, into the circle that `entry` leads to, and leads there from now on. `next`
/// gives the word of a thing that says which one follows.
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

/// The places of a circle, each once: at least what was there before. What may have become something else meanwhile (`next`
/// says nothing, or leads astray) ends after `most` of them.
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
