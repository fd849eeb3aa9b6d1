//! HOT PATH: deferred events, in the shape `extended` only: counted in their cell, but not yet put into a
//! bucket.
//!
//! Events above the lowest bucket are deferred. A word holds the place of the cell and the time. When no room
//! is left, all are put into their buckets at once, so that code and buckets are fetched once for many. The
//! same happens before a cell is emptied and when a thread ends. Readers see deferred events, too
//! ([`tare_sync::DeferredEvents`]). The first event of a cell is not deferred, so that a lack of memory for
//! buckets is noticed at once.

use std::hint::cold_path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tare_sync::Room;

use crate::Engine;
use crate::clock::ticks as now;
use crate::histogram::Lowest;
use crate::layout::cell::{CellHead, SampleWeight, StatCell};
use crate::layout::deferred::{KNOWS_LONGEST, MARKS, TOGETHER, cell_of, ticks_of, word};
use crate::layout::histograms::CellEvents;
use crate::memory::arena::{Offset, Own};
use crate::thread::Thread;

impl Engine {
    /// Puts an event into its bucket, now or later. The cell, which has counted it, is given by place and
    /// head, as callers have both at hand. `marks` is a constant.
    #[inline(always)]
    pub(crate) fn bucket_event(
        &self,
        thread: &Thread,
        (place, head): (Offset, &CellHead),
        ticks: u64,
        marks: u64,
    ) {
        if !thread.is_above_floor(Lowest::Usual, ticks) {
            return;
        }
        self.defer(thread, (place, head), ticks, marks);
    }

    /// Defers an event above the lowest bucket, or puts it into its bucket at once if it cannot be deferred.
    #[inline(always)]
    fn defer(&self, thread: &Thread, (place, head): (Offset, &CellHead), ticks: u64, marks: u64) {
        match room(thread, head, ticks) {
            Some(room) => room.fill(word(place, ticks, marks)),
            None => {
                cold_path();
                self.bucket_at_once(thread, place, ticks, marks);
            }
        }
    }

    /// Puts an event that cannot be deferred into its bucket, after all that were deferred before.
    #[cold]
    #[inline(never)]
    fn bucket_at_once(&self, thread: &Thread, place: Offset, ticks: u64, marks: u64) {
        self.catch_up(thread);
        self.bucket(thread, self.arena.at(place), ticks, marks);
    }

    /// Puts all deferred events into their buckets, before one of the thread's cells is emptied. Called by
    /// the thread itself, or by whoever ends it.
    #[cold]
    #[inline(never)]
    pub(crate) fn catch_up(&self, thread: &Thread) {
        let base = self.arena.base();
        thread.deferred.clear(&thread.deferred_words.0, |word| {
            self.bucket(thread, base.at(cell_of(word)), ticks_of(word), word & MARKS);
        });
    }

    #[inline(always)]
    fn bucket(&self, thread: &Thread, head: &CellHead, ticks: u64, marks: u64) {
        let (bucket, n) = if marks & TOGETHER == 0 { (self.buckets.of_long(ticks), 1) } else { (0, 0) };
        match self.bucket_in(thread, head, bucket, n) {
            Some(piece) => piece.note(ticks),
            None if marks & KNOWS_LONGEST == 0 => self.note_without_piece(head, ticks),
            None => {}
        }
    }

    /// Raises the cell's maximum when there is no memory for a piece: shorter events are then no longer
    /// checked for their bucket.
    #[cold]
    #[inline(never)]
    fn note_without_piece(&self, head: &CellHead, ticks: u64) {
        self.arena.at::<StatCell>(self.arena.offset_of(head)).stat.raise(ticks);
    }

    /// Counts events that took longer than the cell's maximum, or that are weighted. Returns their time in
    /// ticks; it is 0 if the clock went back between two processors. An event above the lowest bucket is
    /// deferred if possible, and so is a batch whose total is above it.
    #[cold]
    #[inline(never)]
    pub(crate) fn add_long(
        &self,
        thread: &Thread,
        cell: &StatCell,
        of: CellEvents,
        n: u64,
        (start, end): (u64, u64),
    ) -> u64 {
        let ticks = end.saturating_sub(start);
        // Of some only the duration is known.
        let began = if start == 0 && thread.is_weighted() { now().saturating_sub(ticks) } else { start };
        let (lowest, weight) = (of.lowest, self.weight_in(thread, cell, of, began));
        cell.stat.add_weighted(n, ticks, weight);
        if !thread.is_above_floor(lowest, ticks) {
            cell.stat.raise(ticks);
        } else if self.is_long_batch(lowest, n, ticks) || n == 1 && weight != SampleWeight::ONE {
            self.bucket_batch(thread, &cell.head, n, ticks, weight.time);
        } else {
            self.defer(thread, (self.arena.offset_of(cell), &cell.head), ticks, marks_of(n));
        }
        ticks
    }

    /// Returns whether each event of a batch is above the lowest bucket, which no word can express.
    #[inline(always)]
    fn is_long_batch(&self, lowest: Lowest, n: u64, ticks: u64) -> bool {
        if n == 1 {
            return false;
        }
        cold_path();
        self.buckets.are_above_floor(lowest, n, ticks)
    }

    /// Puts the events of a batch, `weight` times each, into the bucket of their mean time, which is above
    /// the lowest.
    #[cold]
    #[inline(never)]
    fn bucket_batch(&self, thread: &Thread, head: &CellHead, n: u64, ticks: u64, weight: u64) {
        let bucket = self.buckets.of_long(ticks / n.max(1));
        match self.bucket_in(thread, head, bucket, u32::try_from(n * weight).unwrap_or(u32::MAX)) {
            Some(piece) => piece.note(ticks),
            None => self.note_without_piece(head, ticks),
        }
    }

    /// Calls `each` with the bucket of each single event of this cell among the deferred words. None is in
    /// the lowest bucket.
    pub(crate) fn each_deferred(&self, words: &[AtomicU64], head: &CellHead, each: impl FnMut(u32)) {
        let alone = of_cell(words, self.arena.offset_of(head)).filter(|word| word & TOGETHER == 0);
        alone.map(|word| self.buckets.of(ticks_of(word))).for_each(each);
    }

    /// Returns the longest event or batch of this cell among the deferred words, in ticks.
    pub(crate) fn longest_deferred(&self, words: &[AtomicU64], head: &CellHead) -> u64 {
        of_cell(words, self.arena.offset_of(head)).map(ticks_of).max().unwrap_or(0)
    }
}

/// Returns the marks of a word for `n` events.
#[inline(always)]
const fn marks_of(n: u64) -> u64 {
    if n == 1 { 0 } else { TOGETHER }
}

/// Returns room to defer an event above the lowest bucket. `None`: the buffer is full, the time does not fit
/// into a word, or the cell has no buckets yet.
#[inline(always)]
fn room<'a>(thread: &'a Thread, head: &CellHead, ticks: u64) -> Option<Room<'a>> {
    if ticks_of(ticks) != ticks || head.histogram.own() == 0 {
        return None;
    }
    thread.deferred.room(&thread.deferred_words.0)
}

fn of_cell(words: &[AtomicU64], cell: Offset) -> impl Iterator<Item = u64> {
    words.iter().map(|word| word.load(Relaxed)).filter(move |word| cell_of(*word) == cell)
}

impl Thread {
    /// Returns whether a time is above the lowest bucket, from a cache line that the thread uses anyway. See
    /// also [`crate::count::bucket::BucketBounds::is_above_floor`].
    #[inline(always)]
    fn is_above_floor(&self, lowest: Lowest, ticks: u64) -> bool {
        ticks >= self.bucket_floors[lowest as usize].own()
    }

    /// Calls `read` with the deferred words, to be combined with the buckets. `None`: the thread was emptying
    /// its buffer; try again.
    pub(crate) fn read_deferred<T>(&self, read: impl FnOnce(&[AtomicU64]) -> T) -> Option<T> {
        self.deferred.read(&self.deferred_words.0, read)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::layout::histograms;

    /// One microsecond in picoseconds.
    const MICROSECOND: u64 = 1_000_000;

    struct DeferredRig {
        engine: &'static Engine,
        thread: &'static Thread,
        cell: &'static StatCell,
        lowest: Lowest,
    }

    impl DeferredRig {
        /// Creates a cell with this lowest bucket, in an engine where a tick is a nanosecond.
        fn with(lowest: Lowest) -> DeferredRig {
            let engine = Engine::small();
            engine.buckets.start(1000 << 32);
            let thread = engine.new_thread(0, None, None).expect("memory").slab();
            let cell = engine.arena.at(engine.line_space(thread).expect("memory"));
            DeferredRig { engine, thread, cell, lowest }
        }

        fn new() -> DeferredRig {
            DeferredRig::with(Lowest::Usual)
        }

        fn add(&self, n: u64, ticks: u64) {
            assert_eq!(
                self.cell.add_span(
                    self.engine,
                    self.thread,
                    CellEvents::new(self.lowest, 0),
                    n,
                    5,
                    5 + ticks
                ),
                ticks
            );
        }

        /// Returns what a reader finds: the counts by bucket, the longest event, and the number of deferred
        /// words.
        fn seen(&self) -> (BTreeMap<u32, u64>, u64, usize) {
            let (engine, head) = (self.engine, &self.cell.head);
            let read = |words: &[AtomicU64]| {
                let mut counts = BTreeMap::new();
                let mut add = |bucket, count| *counts.entry(bucket).or_insert(0) += count;
                histograms::each(&engine.arena, head, &mut add);
                engine.each_deferred(words, head, |bucket| add(bucket, 1));
                let longest = self.cell.plain(&engine.arena).max.max(engine.longest_deferred(words, head));
                (counts, longest, words.len())
            };
            self.thread.read_deferred(read).expect("nobody catches up now")
        }
    }

    fn bucket_of(ps: u64) -> u32 {
        crate::histogram::bounds_ps().partition_point(|bound| *bound <= ps) as u32 - 1
    }

    #[test]
    fn what_is_put_off_is_seen_as_what_is_in_its_bucket() {
        let counting = DeferredRig::new();
        let (mut expected, mut longest) = (BTreeMap::new(), 0);
        for n in 0..300 {
            // From below the bound of the lowest bucket up to seconds, which do not fit into a word.
            let ticks = 9_000 << (n % 21);
            counting.add(1, ticks);
            longest = ticks.max(longest);
            if ticks >= 10_000 {
                *expected.entry(bucket_of(ticks * 1000)).or_insert(0) += 1;
            }
            let (seen, at_most, _) = counting.seen();
            assert_eq!((&seen, at_most), (&expected, longest), "{n}");
        }
        counting.engine.catch_up(counting.thread);
        assert_eq!(counting.seen(), (expected, longest, 0));
        assert_eq!(counting.cell.stat.count.load(Relaxed), 300);
    }

    #[test]
    fn what_a_wide_lowest_bucket_holds_is_not_put_off_whatever_was_there_before() {
        let counting = DeferredRig::with(Lowest::Wide);
        counting.add(1, 20_000);
        counting.add(1, 99_000);
        assert_eq!(counting.seen(), (BTreeMap::new(), 99_000, 0));
        // The first event above the lowest bucket is not deferred.
        counting.add(1, 150_000);
        let mut expected = BTreeMap::from([(bucket_of(150 * MICROSECOND), 1)]);
        assert_eq!(counting.seen(), (expected.clone(), 150_000, 0));
        counting.add(1, 99_500);
        counting.add(1, 200_000);
        expected.insert(bucket_of(200 * MICROSECOND), 1);
        assert_eq!(counting.seen(), (expected.clone(), 200_000, 1));
        // The state after a reset, which leaves pieces but no maximum.
        counting.cell.stat.max.store(0, Relaxed);
        counting.add(1, 30_000);
        assert_eq!(counting.seen(), (expected, 200_000, 1));
    }

    #[test]
    fn of_a_batch_in_the_lowest_bucket_only_the_time_is_put_off() {
        let counting = DeferredRig::new();
        counting.add(1, 20_000);
        let mut expected = BTreeMap::from([(bucket_of(20 * MICROSECOND), 1)]);
        assert_eq!(counting.seen(), (expected.clone(), 20_000, 0), "the first one");
        counting.add(100, 999_900);
        assert_eq!(counting.seen(), (expected.clone(), 999_900, 1));
        counting.engine.catch_up(counting.thread);
        assert_eq!(counting.seen(), (expected.clone(), 999_900, 0));
        counting.add(100, 1_000_000);
        expected.insert(bucket_of(10 * MICROSECOND), 100);
        assert_eq!(counting.seen(), (expected, 1_000_000, 0));
    }

    #[test]
    fn a_clock_that_has_gone_back_makes_no_time() {
        let counting = DeferredRig::new();
        let DeferredRig { engine, thread, cell, .. } = counting;
        assert_eq!(cell.add_span(engine, thread, CellEvents::new(Lowest::Usual, 0), 1, 7, 5), 0);
        assert_eq!((cell.plain(&engine.arena).sum, counting.seen()), (0, (BTreeMap::new(), 0, 0)));
    }
}
