//! HOT PATH: a record in a block that is filled again and again, and read meanwhile.
//!
//! Its first word is written last: the event's id and a tag of the block's version. So a block needs no emptying when it is
//! filled anew: what carries another tag was there before. The word that says when the event ended is written last of what
//! an end writes.

use crate::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Bits of a record's first word that hold the tag.
const TAG: u64 = 0xFFFF;

/// The tag of a block's version, which is even: 16 bits, never 0, so that a line that was never written has none. A line
/// survives untagged for one round at most; that the round is the 65,535th since it was written does not happen.
#[inline(always)]
#[must_use]
pub const fn tag(version: u32) -> u32 {
    version / 2 % 0xFFFF + 1
}

/// A record's first word.
#[inline(always)]
#[must_use]
pub const fn stamp(id: u64, tag: u32) -> u64 {
    id << 16 | tag as u64
}

/// The id in a record's first word.
#[inline(always)]
#[must_use]
pub const fn id(stamp: u64) -> u64 {
    stamp >> 16
}

/// Shows a record that has been written: `first` becomes its stamp.
#[inline(always)]
pub fn publish(first: &AtomicU64, stamp: u64) {
    first.store(stamp, Release);
}

/// The event has ended: `word` becomes `end`, after all else that the end writes.
#[inline(always)]
pub fn end(word: &AtomicU64, end: u64) {
    word.store(end, Release);
}

/// What a reader begins with: a record's stamp, if it has this tag, and its end.
#[inline]
pub fn begin_copy(first: &AtomicU64, end: &AtomicU64, tag: u32) -> Option<(u64, u64)> {
    let stamp = first.load(Acquire);
    // An event that ends while it is copied: its end, read before the rest, decides what it was.
    let end = end.load(Acquire);
    (stamp & TAG == u64::from(tag)).then_some((stamp, end))
}

/// A word of the rest.
#[inline(always)]
pub fn copy(word: &AtomicU64) -> u64 {
    word.load(Relaxed)
}
