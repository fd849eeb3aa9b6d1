//! HOT PATH: adding to histograms, in the shape `extended` only. Their layout is in
//! [`crate::layout::histograms`].

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use tare_sync::{circle, keep_first};

use crate::Engine;
use crate::layout::bank::cut;
use crate::layout::cell::{Cell, CellHead, StatCell};
use crate::layout::histograms::{
    CARRIED, CARRY, CellEvents, FULL, HistogramPiece, UNTIMED, UNTIMED_FIRST, UntimedPiece, WIDE, WIDE_WIDTH,
    WIDTH, Wide, WidePiece, count_in_piece, each, piece_of, untimed, untimed_events, wide,
};
use crate::memory::arena::{ArenaView, Offset, Own};
use crate::memory::lost::Lost;
use crate::thread::Thread;
use crate::thread::choice::NOW;

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
        of: CellEvents,
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
    pub(crate) fn add_unusual(
        &self,
        engine: &Engine,
        thread: &Thread,
        of: CellEvents,
        n: u64,
        ticks: Option<u64>,
    ) {
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

    /// Notes that all events of a cell have no times from now on, until
    /// [`crate::layout::histograms::end_counting`].
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
        if !self.buckets.are_enabled() {
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
    ) -> Option<&'static HistogramPiece> {
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
    ) -> Option<&'static HistogramPiece> {
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
        full: Option<&HistogramPiece>,
    ) -> Option<&'static HistogramPiece> {
        let place = if self.arena.is_scarce() { None } else { self.line_space(thread) };
        let Some(place) = place else {
            self.losses.count(Lost::Histograms);
            return None;
        };
        if let Some(full) = full {
            full.first.store(first | FULL, Relaxed);
        }
        let made: &HistogramPiece = self.arena.at(place);
        made.first.store(first, Relaxed);
        circle::insert(&head.histogram, place, |at| &self.arena.at::<HistogramPiece>(at).next);
        Some(made)
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

    fn cut_histogram<T: ArenaView>(&self) -> Option<Offset> {
        if self.arena.is_scarce() {
            return None;
        }
        cut(&self.histograms, &self.arena, size_of::<T>().div_ceil(8) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::histograms::{clear, longest};

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
