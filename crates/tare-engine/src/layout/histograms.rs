//! HOT PATH: histograms: how the events of a cell spread over buckets, in the shape `extended` only. What
//! adds to them is in `count::histograms`.
//!
//! The lowest bucket is not counted: it is the rest of the cell's count. So the buckets of a histogram add up
//! to the count of its row at any moment, and an event of the lowest bucket costs nothing more. No extra
//! comparison is needed to recognise it. The maximum of a thread's own cell of waits or stages never rises
//! above the lowest bucket, so any event of a higher bucket exceeds it and comes here, through the deferred
//! events of [`crate::count::deferred`]. The true maximum is noted with the buckets.
//!
//! A thread counts in *pieces* of two dozen adjacent buckets, one cache line each, created when first needed.
//! The pieces of a cell form a circle ([`circle`]), which the cell enters at the piece it used last: most
//! events find theirs there. What the small counts cannot hold is carried to another piece, in a fold. What
//! has ended is added to *wide* pieces, which many threads share. An event is counted in its cell first and
//! then here, and a reader reads here first: higher buckets never hold more events than there are.

use std::sync::atomic::{
    AtomicU16, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use tare_sync::circle;

use crate::histogram::{BUCKETS, Lowest};
use crate::layout::cell::{Cell, CellHead};
use crate::memory::arena::{Arena, ArenaView, Base, LINE, Offset, Own};
use crate::snapshot::ClassId;

/// The bucket number for events without times, which are in no bucket.
pub(crate) const UNTIMED: u32 = BUCKETS as u32;
/// The first bucket of the piece that counts events without times. No real bucket is as high.
pub(crate) const UNTIMED_FIRST: u32 = (BUCKETS as u32).next_multiple_of(WIDTH);
/// The buckets of a piece.
pub(crate) const WIDTH: u32 = 24;
/// The buckets of a wide piece.
pub(crate) const WIDE_WIDTH: u32 = 12;
/// The number of wide pieces for all buckets.
const GROUPS: usize = (BUCKETS + 1).div_ceil(WIDE_WIDTH as usize);

/// The flag of a piece's first bucket: its counts are carries, each of which stands for [`CARRIED`] events.
pub(crate) const CARRY: u32 = 1 << 31;
/// The number of events in a carry, one more than a count can hold.
pub(crate) const CARRIED: u32 = 1 << 16;
/// The flag of a piece's first bucket: one of its counts is full, and another piece continues it.
pub(crate) const FULL: u32 = 1 << 30;
/// A bound on the pieces of a circle.
const MOST_PIECES: usize = 1 << 10;

/// The flag of a [`CellHead::histogram`] that is a [`Wide`] one.
pub(crate) const WIDE: u32 = 1 << 31;

/// The counts of adjacent buckets in one cell of a thread.
#[repr(C)]
pub(crate) struct HistogramPiece {
    pub(crate) next: AtomicU32,
    /// The first of its buckets, with flags.
    pub(crate) first: AtomicU32,
    /// The longest event counted here, in ticks.
    pub(crate) longest: AtomicU64,
    pub(crate) counts: [AtomicU16; WIDTH as usize],
}

// SAFETY: meets `ArenaView`: atomics only, alignment 8, checked below to be a cache line.
#[allow(unsafe_code)]
unsafe impl ArenaView for HistogramPiece {}
const _: () = assert!(size_of::<HistogramPiece>() == LINE);

impl HistogramPiece {
    /// Raises the longest event counted here to at least `ticks`.
    #[inline(always)]
    pub(crate) fn note(&self, ticks: u64) {
        if ticks > self.longest.own() {
            self.longest.store(ticks, Relaxed);
        }
    }
}

/// The piece of a circle that counts events without times.
#[repr(C)]
pub(crate) struct UntimedPiece {
    pub(crate) next: AtomicU32,
    pub(crate) first: AtomicU32,
    pub(crate) count: AtomicU64,
    /// While the cell is marked as only counted: its events before that, plus 1; all later ones have no
    /// times. Otherwise 0.
    pub(crate) since: AtomicU64,
    _pad: [AtomicU64; 5],
}

// SAFETY: meets `ArenaView`: atomics only, alignment 8, checked below to be a cache line.
#[allow(unsafe_code)]
unsafe impl ArenaView for UntimedPiece {}
const _: () = assert!(size_of::<UntimedPiece>() == LINE);

/// The places of a shared histogram's pieces; 0: not created.
#[repr(C)]
pub(crate) struct Wide {
    pub(crate) pieces: [AtomicU32; GROUPS],
}

// SAFETY: meets `ArenaView`: atomics only, alignment 4, less than a block.
#[allow(unsafe_code)]
unsafe impl ArenaView for Wide {}

/// The counts of adjacent buckets to which many threads add.
#[repr(C)]
pub(crate) struct WidePiece {
    pub(crate) counts: [AtomicU64; WIDE_WIDTH as usize],
}

// SAFETY: meets `ArenaView`: atomics only, alignment 8, less than a block.
#[allow(unsafe_code)]
unsafe impl ArenaView for WidePiece {}

/// The kind of events that a cell counts.
#[derive(Clone, Copy)]
pub(crate) struct CellEvents {
    pub(crate) lowest: Lowest,
    /// The instrument; 0: a stage, which is found by its cell where it matters.
    pub(crate) class: ClassId,
}

impl CellEvents {
    /// Events of a stage.
    pub(crate) const STAGE: CellEvents = CellEvents { lowest: Lowest::Wide, class: 0 };

    #[inline(always)]
    pub(crate) const fn new(lowest: Lowest, class: ClassId) -> CellEvents {
        CellEvents { lowest, class }
    }
}

/// Counts `n` events in a bucket and returns the piece, if there is one with room for them.
#[inline(always)]
pub(crate) fn count_in_piece(
    base: Base,
    head: &CellHead,
    bucket: u32,
    n: u32,
) -> Option<&'static HistogramPiece> {
    let (piece, count) = piece_of(base, head, bucket, 0)?;
    let more = u16::try_from(u32::from(count.load(Relaxed)).checked_add(n)?).ok()?;
    // Release: whoever sees the new count sees that the cell has counted the events.
    count.store(more, Release);
    Some(piece)
}

/// Returns the piece and the count of a bucket, for the cell's thread. With [`CARRY`], those of its carries.
#[inline(always)]
pub(crate) fn piece_of(
    base: Base,
    head: &CellHead,
    bucket: u32,
    carry: u32,
) -> Option<(&'static HistogramPiece, &'static AtomicU16)> {
    let entry: Offset = head.histogram.own();
    if entry == 0 {
        return None;
    }
    let mut at = entry;
    loop {
        let piece: &HistogramPiece = base.at(at);
        if let Some(count) = piece.counts.get((bucket | carry).wrapping_sub(piece.first.own()) as usize) {
            head.histogram.store(at, Release);
            return Some((piece, count));
        }
        at = piece.next.own();
        if at == entry {
            return None;
        }
    }
}

/// Returns the pieces of a thread's own cell, even while the thread adds more.
fn pieces(arena: &Arena, head: &CellHead) -> impl Iterator<Item = &'static HistogramPiece> {
    let piece = |place| arena.get::<HistogramPiece>(place).filter(|_| place & WIDE == 0);
    let places = circle::round(&head.histogram, MOST_PIECES, move |place| Some(&piece(place)?.next));
    places.filter_map(piece)
}

/// Returns the pieces that hold buckets.
fn filled(arena: &Arena, head: &CellHead) -> impl Iterator<Item = &'static HistogramPiece> {
    pieces(arena, head).filter(|piece| piece.first.load(Relaxed) != UNTIMED_FIRST)
}

/// Returns the piece of a thread's own cell that counts events without times.
#[inline(always)]
pub(crate) fn untimed(arena: &Arena, head: &CellHead) -> Option<&'static UntimedPiece> {
    if head.has_histogram() { find_untimed(arena, head) } else { None }
}

#[inline(never)]
fn find_untimed(arena: &Arena, head: &CellHead) -> Option<&'static UntimedPiece> {
    let piece = pieces(arena, head).find(|piece| piece.first.load(Relaxed) == UNTIMED_FIRST)?;
    arena.get(arena.offset_of(piece))
}

/// Returns the longest event of a thread's own cell, as far as it is noted with the buckets.
#[inline(always)]
pub(crate) fn longest(arena: &Arena, head: &CellHead) -> u64 {
    if head.has_histogram() { longest_noted(arena, head) } else { 0 }
}

#[inline(never)]
fn longest_noted(arena: &Arena, head: &CellHead) -> u64 {
    filled(arena, head).map(|piece| piece.longest.load(Relaxed)).max().unwrap_or(0)
}

/// Returns the events without times of a thread's own cell, and the number of events after which all are
/// without times, if any.
pub(crate) fn untimed_events(arena: &Arena, head: &CellHead) -> (u64, Option<u64>) {
    match untimed(arena, head) {
        Some(untimed) => (untimed.count.load(Acquire), untimed.since.load(Acquire).checked_sub(1)),
        None => (0, None),
    }
}

/// Ends the state in which a cell's events have no times, and notes those counted meanwhile.
#[inline(always)]
pub(crate) fn end_counting<C: Cell>(arena: &Arena, cell: &C) {
    if let Some(untimed) = untimed(arena, cell.head())
        && let Some(since) = untimed.since.own().checked_sub(1)
    {
        untimed.since.store(0, Relaxed);
        untimed.count.store(untimed.count.own() + (cell.events() - since), Release);
    }
}

/// Calls `f` with each bucket above the lowest and the number of its events, for a thread's own cell.
pub(crate) fn each(arena: &Arena, head: &CellHead, mut f: impl FnMut(u32, u64)) {
    for piece in filled(arena, head) {
        let first = piece.first.load(Relaxed);
        let each = if first & CARRY == 0 { 1 } else { u64::from(CARRIED) };
        let first = first & !(CARRY | FULL);
        // The thread may have ended and the memory may be reused.
        if first >= UNTIMED_FIRST || !first.is_multiple_of(WIDTH) {
            continue;
        }
        for (bucket, count) in (first..).zip(&piece.counts) {
            let count = count.load(Acquire);
            if count != 0 {
                f(bucket, u64::from(count) * each);
            }
        }
    }
}

/// Empties the buckets of a thread's own cell.
#[inline(always)]
pub(crate) fn clear(arena: &Arena, head: &CellHead) {
    if head.has_histogram() {
        clear_pieces(arena, head);
    }
}

#[inline(never)]
fn clear_pieces(arena: &Arena, head: &CellHead) {
    for piece in pieces(arena, head) {
        // In a piece of events without times, these words are all it has.
        piece.longest.store(0, Relaxed);
        piece.counts.iter().for_each(|count| count.store(0, Relaxed));
    }
}

/// Returns the pieces of a shared histogram, whose place is in `at`.
pub(crate) fn wide(arena: &Arena, at: &AtomicU32) -> Option<&'static Wide> {
    arena.get(at.load(Acquire) & !WIDE)
}

/// Calls `f` with each bucket above the lowest and the number of its events, for a shared histogram, whose
/// place is in `at`.
pub(crate) fn each_shared(arena: &Arena, at: &AtomicU32, mut f: impl FnMut(u32, u64)) {
    let pieces = wide(arena, at).into_iter().flat_map(|wide| &wide.pieces);
    for (first, piece) in (0..).step_by(WIDE_WIDTH as usize).zip(pieces) {
        let Some(piece) = arena.get::<WidePiece>(piece.load(Acquire)) else { continue };
        for (bucket, count) in (first..).zip(&piece.counts) {
            let count = count.load(Acquire);
            if count != 0 {
                f(bucket, count);
            }
        }
    }
}

/// Empties the buckets of a shared histogram, whose place is in `at`.
pub(crate) fn clear_shared(arena: &Arena, at: &AtomicU32) {
    let pieces = wide(arena, at).into_iter().flat_map(|wide| &wide.pieces);
    for piece in pieces.filter_map(|piece| arena.get::<WidePiece>(piece.load(Acquire))) {
        piece.counts.iter().for_each(|count| count.store(0, Relaxed));
    }
}

/// Moves a shared histogram to another one. Nobody else may use either.
pub(crate) fn move_shared(arena: &Arena, from: &AtomicU32, to: &AtomicU32) {
    let Some(source) = wide(arena, from) else { return };
    let Some(target) = wide(arena, to) else {
        to.store(from.swap(0, Relaxed), Release);
        return;
    };
    for (from, to) in source.pieces.iter().zip(&target.pieces) {
        let [source, target] = [from, to].map(|at| arena.get::<WidePiece>(at.load(Relaxed)));
        match (source, target) {
            (None, _) => {}
            (Some(_), None) => to.store(from.swap(0, Relaxed), Release),
            (Some(source), Some(target)) => {
                for (from, to) in source.counts.iter().zip(&target.counts) {
                    to.fetch_add(from.swap(0, Relaxed), Relaxed);
                }
            }
        }
    }
}
