//! HOT PATH: histograms: how the events of a cell histograms over buckets, in the shape `extended` only.
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

use tare_sync::{circle, keep_first};

use crate::Engine;
use crate::count::bank::cut;
use crate::count::cell::{Cell, CellHead, StatCell};
use crate::histogram::{BUCKETS, Lowest};
use crate::memory::arena::{Arena, Base, LINE, Offset, Own, View};
use crate::memory::lost::Lost;
use crate::snapshot::ClassId;
use crate::thread::Thread;
use crate::thread::choice::NOW;

/// The bucket number for events without times, which are in no bucket.
pub(crate) const UNTIMED: u32 = BUCKETS as u32;
/// The first bucket of the piece that counts events without times. No real bucket is as high.
const UNTIMED_FIRST: u32 = (BUCKETS as u32).next_multiple_of(WIDTH);
/// The buckets of a piece.
const WIDTH: u32 = 24;
/// The buckets of a wide piece.
const WIDE_WIDTH: u32 = 12;
/// The number of wide pieces for all buckets.
const GROUPS: usize = (BUCKETS + 1).div_ceil(WIDE_WIDTH as usize);

/// The flag of a piece's first bucket: its counts are carries, each of which stands for [`CARRIED`] events.
const CARRY: u32 = 1 << 31;
/// The number of events in a carry, one more than a count can hold.
const CARRIED: u32 = 1 << 16;
/// The flag of a piece's first bucket: one of its counts is full, and another piece continues it.
const FULL: u32 = 1 << 30;
/// A bound on the pieces of a circle.
const MOST_PIECES: usize = 1 << 10;

/// The flag of a [`CellHead::histogram`] that is a [`Wide`] one.
const WIDE: u32 = 1 << 31;

/// The counts of adjacent buckets in one cell of a thread.
#[repr(C)]
pub(crate) struct Piece {
    next: AtomicU32,
    /// The first of its buckets, with flags.
    first: AtomicU32,
    /// The longest event counted here, in ticks.
    longest: AtomicU64,
    counts: [AtomicU16; WIDTH as usize],
}

// SAFETY: meets `View`: atomics only, alignment 8, checked below to be a cache line.
#[allow(unsafe_code)]
unsafe impl View for Piece {}
const _: () = assert!(size_of::<Piece>() == LINE);

impl Piece {
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
struct UntimedPiece {
    next: AtomicU32,
    first: AtomicU32,
    count: AtomicU64,
    /// While the cell is marked as only counted: its events before that, plus 1; all later ones have no
    /// times. Otherwise 0.
    since: AtomicU64,
    _pad: [AtomicU64; 5],
}

// SAFETY: meets `View`: atomics only, alignment 8, checked below to be a cache line.
#[allow(unsafe_code)]
unsafe impl View for UntimedPiece {}
const _: () = assert!(size_of::<UntimedPiece>() == LINE);

/// The places of a shared histogram's pieces; 0: not created.
#[repr(C)]
struct Wide {
    pieces: [AtomicU32; GROUPS],
}

// SAFETY: meets `View`: atomics only, alignment 4, less than a block.
#[allow(unsafe_code)]
unsafe impl View for Wide {}

/// The counts of adjacent buckets to which many threads add.
#[repr(C)]
struct WidePiece {
    counts: [AtomicU64; WIDE_WIDTH as usize],
}

// SAFETY: meets `View`: atomics only, alignment 8, less than a block.
#[allow(unsafe_code)]
unsafe impl View for WidePiece {}

/// The kind of events that a cell counts.
#[derive(Clone, Copy)]
pub(crate) struct Of {
    pub(crate) lowest: Lowest,
    /// The instrument; 0: a stage, which is found by its cell where it matters.
    pub(crate) class: ClassId,
}

impl Of {
    /// Events of a stage.
    pub(crate) const STAGE: Of = Of { lowest: Lowest::Wide, class: 0 };

    #[inline(always)]
    pub(crate) const fn new(lowest: Lowest, class: ClassId) -> Of {
        Of { lowest, class }
    }
}

impl StatCell {
    /// Counts `n` events of the thread's own cell on the fast path, which lasted together from `start` to
    /// `end`. Returns their time in ticks. `None`: they took longer than the cell's maximum, or events are
    /// weighted; nothing was counted, and the caller must call [`Engine::add_long`].
    #[inline(always)]
    pub(crate) fn add_usual(&self, thread: &Thread, n: u64, start: u64, end: u64) -> Option<u64> {
        let ticks = end.wrapping_sub(start);
        if ticks > self.stat.max.own() || thread.is_weighted() {
            return None;
        }
        self.stat.add_usual(n, ticks);
        Some(ticks)
    }

    /// Counts `n` events of the thread's own cell, which lasted together from `start` to `end`, and returns
    /// their time in ticks.
    #[inline(always)]
    pub(crate) fn add_span(
        &self,
        engine: &Engine,
        thread: &Thread,
        of: Of,
        n: u64,
        start: u64,
        end: u64,
    ) -> u64 {
        match self.add_usual(thread, n, start, end) {
            Some(ticks) => ticks,
            None => engine.add_long(thread, self, of, n, (start, end)),
        }
    }

    /// Counts events that did not take the fast path; `ticks` is `None` if they were not timed.
    pub(crate) fn add_unusual(&self, engine: &Engine, thread: &Thread, of: Of, n: u64, ticks: Option<u64>) {
        let Some(ticks) = ticks else {
            let n = n * engine.weight_in(thread, self, of, NOW).events;
            self.stat.add_untimed(n);
            return engine.bucket_untimed(thread, &self.head, n);
        };
        self.add_span(engine, thread, of, n, 0, ticks);
        if let Some(untimed) = untimed(&engine.arena, &self.head) {
            let since = untimed.since.own();
            untimed.since.store(if since == 0 { 0 } else { since + n }, Relaxed);
        }
    }
}

/// Counting by a thread.
impl Engine {
    /// Notes events of a cell without times.
    #[cold]
    #[inline(never)]
    pub(crate) fn bucket_untimed(&self, thread: &Thread, head: &CellHead, n: u64) {
        if let Some(untimed) = self.untimed_piece(thread, head)
            && untimed.since.own() == 0
        {
            untimed.count.store(untimed.count.own() + n, Release);
        }
    }

    /// Notes that all events of a cell have no times from now on, until [`end_counting`].
    pub(crate) fn begin_counting(&self, thread: &Thread, cell: &StatCell) {
        if let Some(untimed) = self.untimed_piece(thread, &cell.head)
            && untimed.since.own() == 0
        {
            untimed.since.store(cell.events() + 1, Release);
        }
    }

    /// Returns the piece for events without times, created if necessary. `None`: there are no histograms, or
    /// there is no memory.
    fn untimed_piece(&self, thread: &Thread, head: &CellHead) -> Option<&'static UntimedPiece> {
        if !self.buckets.are_told() {
            return None;
        }
        if let Some(known) = untimed(&self.arena, head) {
            return Some(known);
        }
        let made = self.make_piece(thread, head, UNTIMED_FIRST, None)?;
        Some(self.arena.at(self.arena.offset_of(made)))
    }

    /// Counts `n` events in a bucket and returns the piece, created if none has room. `None`: there is no
    /// memory for it.
    #[inline(always)]
    pub(crate) fn bucket_in(
        &self,
        thread: &Thread,
        head: &CellHead,
        bucket: u32,
        n: u32,
    ) -> Option<&'static Piece> {
        count_in_piece(self.arena.base(), head, bucket, n)
            .or_else(|| self.bucket_unusual(thread, head, bucket, n))
    }

    /// Counts `n` events in a bucket for which no piece has room, and returns the piece. `None`: there is no
    /// memory for it, and the events stay in the lowest bucket.
    #[cold]
    #[inline(never)]
    fn bucket_unusual(
        &self,
        thread: &Thread,
        head: &CellHead,
        bucket: u32,
        n: u32,
    ) -> Option<&'static Piece> {
        let base = self.arena.base();
        if piece_of(base, head, bucket, 0).is_none() {
            self.make_piece(thread, head, bucket / WIDTH * WIDTH, None)?;
        }
        let (piece, count) = piece_of(base, head, bucket, 0)?;
        let sum = u64::from(count.load(Relaxed)) + u64::from(n);
        let carried = (sum / u64::from(CARRIED)) as u32;
        if carried == 0 {
            count.store(sum as u16, Release);
            return Some(piece);
        }
        // The fold lets readers see what is carried in only one of the two pieces.
        self.folds.begin();
        let is_carried = self.carry(thread, head, bucket, carried).is_some();
        // What cannot be carried is in the lowest bucket from now on.
        count.store(if is_carried { sum as u16 } else { u16::MAX }, Release);
        self.folds.end();
        head.histogram.store(self.arena.offset_of(piece), Release);
        Some(piece)
    }

    /// Carries what a count cannot hold to another piece. `None`: there is no memory for it.
    #[cold]
    fn carry(&self, thread: &Thread, head: &CellHead, bucket: u32, mut carried: u32) -> Option<()> {
        while carried != 0 {
            let known = piece_of(self.arena.base(), head, bucket, CARRY);
            let room = known.map_or(0, |(_, count)| u32::from(u16::MAX - count.load(Relaxed)));
            if room == 0 {
                let first = CARRY | (bucket / WIDTH * WIDTH);
                self.make_piece(thread, head, first, known.map(|(piece, _)| piece))?;
                continue;
            }
            let (now, (_, count)) = (carried.min(room), known?);
            count.store(count.load(Relaxed) + now as u16, Release);
            carried -= now;
        }
        Some(())
    }

    /// Creates a piece for the buckets from `first` on, which continues `full`, if given.
    #[cold]
    #[inline(never)]
    fn make_piece(
        &self,
        thread: &Thread,
        head: &CellHead,
        first: u32,
        full: Option<&Piece>,
    ) -> Option<&'static Piece> {
        let place = if self.arena.is_scarce() { None } else { self.line_space(thread) };
        let Some(place) = place else {
            self.losses.count(Lost::Histograms);
            return None;
        };
        if let Some(full) = full {
            full.first.store(first | FULL, Relaxed);
        }
        let made: &Piece = self.arena.at(place);
        made.first.store(first, Relaxed);
        circle::insert(&head.histogram, place, |at| &self.arena.at::<Piece>(at).next);
        Some(made)
    }
}

/// Counts `n` events in a bucket and returns the piece, if there is one with room for them.
#[inline(always)]
fn count_in_piece(base: Base, head: &CellHead, bucket: u32, n: u32) -> Option<&'static Piece> {
    let (piece, count) = piece_of(base, head, bucket, 0)?;
    let more = u16::try_from(u32::from(count.load(Relaxed)).checked_add(n)?).ok()?;
    // Release: whoever sees the new count sees that the cell has counted the events.
    count.store(more, Release);
    Some(piece)
}

/// Returns the piece and the count of a bucket, for the cell's thread. With [`CARRY`], those of its carries.
#[inline(always)]
fn piece_of(
    base: Base,
    head: &CellHead,
    bucket: u32,
    carry: u32,
) -> Option<(&'static Piece, &'static AtomicU16)> {
    let entry: Offset = head.histogram.own();
    if entry == 0 {
        return None;
    }
    let mut at = entry;
    loop {
        let piece: &Piece = base.at(at);
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
fn pieces(arena: &Arena, head: &CellHead) -> impl Iterator<Item = &'static Piece> {
    let piece = |place| arena.get::<Piece>(place).filter(|_| place & WIDE == 0);
    let places = circle::round(&head.histogram, MOST_PIECES, move |place| Some(&piece(place)?.next));
    places.filter_map(piece)
}

/// Returns the pieces that hold buckets.
fn filled(arena: &Arena, head: &CellHead) -> impl Iterator<Item = &'static Piece> {
    pieces(arena, head).filter(|piece| piece.first.load(Relaxed) != UNTIMED_FIRST)
}

#[inline(always)]
fn untimed(arena: &Arena, head: &CellHead) -> Option<&'static UntimedPiece> {
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

fn wide(arena: &Arena, at: &AtomicU32) -> Option<&'static Wide> {
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

/// Folding of what leaves a thread.
impl Engine {
    /// Adds the buckets of a thread's own cell to a shared histogram.
    #[inline(always)]
    pub(crate) fn fold_buckets(&self, from: &CellHead, to: &AtomicU32) {
        if from.has_histogram() {
            self.fold_pieces(from, to);
        }
    }

    #[inline(never)]
    fn fold_pieces(&self, from: &CellHead, to: &AtomicU32) {
        each(&self.arena, from, |bucket, count| self.add_shared(to, bucket, count));
        let (untimed, _) = untimed_events(&self.arena, from);
        if untimed != 0 {
            self.add_shared(to, UNTIMED, untimed);
        }
    }

    fn add_shared(&self, to: &AtomicU32, bucket: u32, count: u64) {
        match self.wide_piece(to, bucket / WIDE_WIDTH) {
            Some(piece) => _ = piece.counts[(bucket % WIDE_WIDTH) as usize].fetch_add(count, Release),
            None => self.losses.count(Lost::Histograms),
        }
    }

    /// Returns the shared piece of a group of buckets, created if necessary. `None`: there is no memory to
    /// spare.
    fn wide_piece(&self, at: &AtomicU32, group: u32) -> Option<&'static WidePiece> {
        if at.load(Acquire) == 0 {
            keep_first(at, self.cut_histogram::<Wide>()? | WIDE);
        }
        let piece = &wide(&self.arena, at)?.pieces[group as usize];
        let place = match piece.load(Acquire) {
            0 => keep_first(piece, self.cut_histogram::<WidePiece>()?),
            known => known,
        };
        self.arena.get(place)
    }

    fn cut_histogram<T: View>(&self) -> Option<Offset> {
        if self.arena.is_scarce() {
            return None;
        }
        cut(&self.histograms, &self.arena, size_of::<T>().div_ceil(8) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_is_full_goes_on_in_another_piece() {
        let engine = Engine::small();
        let thread = engine.new_thread(0, None, None).expect("memory").slab();
        let head = CellHead { epoch: AtomicU32::new(0), histogram: AtomicU32::new(0) };
        let histograms = |bucket, n, ticks| {
            engine.bucket_in(thread, &head, bucket, n).map(|piece| piece.note(ticks)).is_some()
        };
        for n in [u32::MAX - 1, 1, 1, 5, u32::MAX, 2] {
            assert!(histograms(100, n, 7));
        }
        assert!(histograms(101, 3, 9));
        let mut counts = std::collections::BTreeMap::new();
        each(&engine.arena, &head, |bucket, count| *counts.entry(bucket).or_insert(0) += count);
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [(100, 2 * u64::from(u32::MAX) + 8), (101, 3)]);
        assert_eq!(longest(&engine.arena, &head), 9);
        clear(&engine.arena, &head);
        each(&engine.arena, &head, |bucket, _| panic!("{bucket} holds something"));
    }
}
