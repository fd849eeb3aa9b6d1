//! HOT PATH: events that a thread has counted and not put into their buckets yet, in the shape `extended` only.
//!
//! What belongs above the lowest bucket is put off: a word says in which cell, and how long it took. Once there is no room for
//! another one, all of them are put into their buckets, so that code and buckets are fetched once for many; and so they are before
//! a cell is emptied, and when a thread ends. Readers have what is put off as well ([`tare_sync::Backlog`]). A cell's first event
//! is not put off: whether there is memory for its buckets is known at once.

use std::hint::cold_path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tare_sync::Room;

use crate::Engine;
use crate::clock::ticks as now;
use crate::count::cell::{CellHead, StatCell};
use crate::count::spread::Of;
use crate::histogram::Lowest;
use crate::memory::arena::{Offset, Own};
use crate::thread::Thread;
use crate::thread::choice::Weight;

/// Words that a thread has room for, on lines of their own.
#[repr(align(64))]
pub(crate) struct PutOff([AtomicU64; 64]);

/// Where a word has the cell's place. The time is below.
const CELL: u32 = 32;
/// Of a word: its cell is none of one statistic, and knows its longest event itself.
pub(crate) const KNOWS_LONGEST: u64 = 1 << 62;
/// Of a word: it is of several events, which are in the lowest bucket. Only how long they took together is left to note.
const TOGETHER: u64 = 1 << 63;
const MARKS: u64 = KNOWS_LONGEST | TOGETHER;

/// The place of a word's cell.
const fn cell_of(word: u64) -> Offset {
    ((word & !MARKS) >> CELL) as Offset
}

/// A word's time.
const fn ticks_of(word: u64) -> u64 {
    word & 0xFFFF_FFFF
}

/// The word of an event of the cell at a place.
#[inline(always)]
const fn word(cell: Offset, ticks: u64, marks: u64) -> u64 {
    (cell as u64) << CELL | ticks | marks
}

impl Engine {
    /// An event gets into its bucket, sooner or later. The cell that has counted it is given by place and head, as callers have both
    /// at hand; `marks` are a constant.
    #[inline(always)]
    pub(crate) fn spread_event(
        &self,
        thread: &Thread,
        (place, head): (Offset, &CellHead),
        ticks: u64,
        marks: u64,
    ) {
        if !thread.is_above_floor(Lowest::Usual, ticks) {
            return;
        }
        self.put_off(thread, (place, head), ticks, marks);
    }

    /// As [`Engine::spread_event`], of what is above the lowest bucket.
    #[inline(always)]
    fn put_off(&self, thread: &Thread, (place, head): (Offset, &CellHead), ticks: u64, marks: u64) {
        match room(thread, head, ticks) {
            Some(room) => room.fill(word(place, ticks, marks)),
            None => {
                cold_path();
                self.spread_at_once(thread, place, ticks, marks);
            }
        }
    }

    /// As [`Engine::put_off`], of what cannot be.
    #[cold]
    #[inline(never)]
    fn spread_at_once(&self, thread: &Thread, place: Offset, ticks: u64, marks: u64) {
        self.catch_up(thread);
        self.spread(thread, self.arena.at(place), ticks, marks);
    }

    /// Puts into buckets what has been put off. By the thread itself, or by whoever ends it; before a cell of its is emptied.
    #[cold]
    #[inline(never)]
    pub(crate) fn catch_up(&self, thread: &Thread) {
        let base = self.arena.base();
        thread.backlog.clear(&thread.put_off.0, |word| {
            self.spread(thread, base.at(cell_of(word)), ticks_of(word), word & MARKS);
        });
    }

    #[inline(always)]
    fn spread(&self, thread: &Thread, head: &CellHead, ticks: u64, marks: u64) {
        let (bucket, n) = if marks & TOGETHER == 0 { (self.buckets.of_long(ticks), 1) } else { (0, 0) };
        match self.spread_in(thread, head, bucket, n) {
            Some(piece) => piece.note(ticks),
            None if marks & KNOWS_LONGEST == 0 => self.note_without_piece(head, ticks),
            None => {}
        }
    }

    /// Where there is no memory for a piece: from now on what took less is not asked for its bucket.
    #[cold]
    #[inline(never)]
    fn note_without_piece(&self, head: &CellHead, ticks: u64) {
        self.arena.at::<StatCell>(self.arena.offset_of(head)).stat.raise(ticks);
    }

    /// Counts events of a cell that took longer than what that has as the longest, and returns how long. What is above the lowest
    /// bucket, a batch together, is put off, if it can be. Should the clock have gone back between two processors, that is no time.
    #[cold]
    #[inline(never)]
    pub(crate) fn add_long(
        &self,
        thread: &Thread,
        cell: &StatCell,
        of: Of,
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
        } else if self.is_long_batch(lowest, n, ticks) || n == 1 && weight != Weight::ONE {
            self.spread_batch(thread, &cell.head, n, ticks, weight.time);
        } else {
            self.put_off(thread, (self.arena.offset_of(cell), &cell.head), ticks, marks_of(n));
        }
        ticks
    }

    /// Whether it is a batch of which each event is above the lowest bucket: no word says so much.
    #[inline(always)]
    fn is_long_batch(&self, lowest: Lowest, n: u64, ticks: u64) -> bool {
        if n == 1 {
            return false;
        }
        cold_path();
        self.buckets.are_above_floor(lowest, n, ticks)
    }

    /// Puts a batch of events into its bucket that is above the lowest one, so many times: each took its part of the time.
    #[cold]
    #[inline(never)]
    fn spread_batch(&self, thread: &Thread, head: &CellHead, n: u64, ticks: u64, weight: u64) {
        let bucket = self.buckets.of_long(ticks / n.max(1));
        match self.spread_in(thread, head, bucket, u32::try_from(n * weight).unwrap_or(u32::MAX)) {
            Some(piece) => piece.note(ticks),
            None => self.note_without_piece(head, ticks),
        }
    }

    /// Calls `each` with the buckets but the lowest in which a cell's events are, of these words.
    pub(crate) fn each_put_off(&self, words: &[AtomicU64], head: &CellHead, each: impl FnMut(u32)) {
        let alone = of_cell(words, self.arena.offset_of(head)).filter(|word| word & TOGETHER == 0);
        alone.map(|word| self.buckets.of(ticks_of(word))).for_each(each);
    }

    /// The longest event of a cell, or batch of them, of these words.
    pub(crate) fn longest_put_off(&self, words: &[AtomicU64], head: &CellHead) -> u64 {
        of_cell(words, self.arena.offset_of(head)).map(ticks_of).max().unwrap_or(0)
    }
}

/// Of the word of so many events.
#[inline(always)]
const fn marks_of(n: u64) -> u64 {
    if n == 1 { 0 } else { TOGETHER }
}

/// Room for an event above the lowest bucket. `None`: there is none, or the time has none in a word, or the cell has no buckets
/// yet.
#[inline(always)]
fn room<'a>(thread: &'a Thread, head: &CellHead, ticks: u64) -> Option<Room<'a>> {
    if ticks_of(ticks) != ticks || head.histogram.own() == 0 {
        return None;
    }
    thread.backlog.room(&thread.put_off.0)
}

fn of_cell(words: &[AtomicU64], cell: Offset) -> impl Iterator<Item = u64> {
    words.iter().map(|word| word.load(Relaxed)).filter(move |word| cell_of(*word) == cell)
}

impl Thread {
    /// As [`crate::count::bucket::Buckets::is_above_floor`], from a line that its thread has at hand.
    #[inline(always)]
    fn is_above_floor(&self, lowest: Lowest, ticks: u64) -> bool {
        ticks >= self.bucket_floors[lowest as usize].own()
    }

    /// One try of a reader: what `read` makes of what the thread has put off, and of what it has put into buckets.
    pub(crate) fn read_put_off<T>(&self, read: impl FnOnce(&[AtomicU64]) -> T) -> Option<T> {
        self.backlog.read(&self.put_off.0, read)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::count::spread;

    /// Picoseconds.
    const MICROSECOND: u64 = 1_000_000;

    struct Counting {
        engine: &'static Engine,
        thread: &'static Thread,
        cell: &'static StatCell,
        lowest: Lowest,
    }

    impl Counting {
        /// Of a cell whose lowest bucket reaches so far. A tick is a nanosecond.
        fn with(lowest: Lowest) -> Counting {
            let engine = Engine::small();
            engine.buckets.start(1000 << 32);
            let thread = engine.new_thread(0, None, None).expect("memory").slab();
            let cell = engine.arena.at(engine.line_space(thread).expect("memory"));
            Counting { engine, thread, cell, lowest }
        }

        fn new() -> Counting {
            Counting::with(Lowest::Usual)
        }

        fn add(&self, n: u64, ticks: u64) {
            assert_eq!(
                self.cell.add_span(self.engine, self.thread, Of::new(self.lowest, 0), n, 5, 5 + ticks),
                ticks
            );
        }

        /// What a reader finds: by bucket, and the longest; and how much of it is put off.
        fn seen(&self) -> (BTreeMap<u32, u64>, u64, usize) {
            let (engine, head) = (self.engine, &self.cell.head);
            let read = |words: &[AtomicU64]| {
                let mut counts = BTreeMap::new();
                let mut add = |bucket, count| *counts.entry(bucket).or_insert(0) += count;
                spread::each(&engine.arena, head, &mut add);
                engine.each_put_off(words, head, |bucket| add(bucket, 1));
                let longest = self.cell.plain(&engine.arena).max.max(engine.longest_put_off(words, head));
                (counts, longest, words.len())
            };
            self.thread.read_put_off(read).expect("nobody catches up now")
        }
    }

    fn bucket_of(ps: u64) -> u32 {
        crate::histogram::bounds_ps().partition_point(|bound| *bound <= ps) as u32 - 1
    }

    #[test]
    fn what_is_put_off_is_seen_as_what_is_in_its_bucket() {
        let counting = Counting::new();
        let (mut expected, mut longest) = (BTreeMap::new(), 0);
        for n in 0..300 {
            // From below the lowest bucket's end up to seconds, which no word holds.
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
        let counting = Counting::with(Lowest::Wide);
        counting.add(1, 20_000);
        counting.add(1, 99_000);
        assert_eq!(counting.seen(), (BTreeMap::new(), 99_000, 0));
        // The first one above it is in its bucket at once.
        counting.add(1, 150_000);
        let mut expected = BTreeMap::from([(bucket_of(150 * MICROSECOND), 1)]);
        assert_eq!(counting.seen(), (expected.clone(), 150_000, 0));
        counting.add(1, 99_500);
        counting.add(1, 200_000);
        expected.insert(bucket_of(200 * MICROSECOND), 1);
        assert_eq!(counting.seen(), (expected.clone(), 200_000, 1));
        // As after a reset, which leaves pieces and no longest event.
        counting.cell.stat.max.store(0, Relaxed);
        counting.add(1, 30_000);
        assert_eq!(counting.seen(), (expected, 200_000, 1));
    }

    #[test]
    fn of_a_batch_in_the_lowest_bucket_only_the_time_is_put_off() {
        let counting = Counting::new();
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
        let counting = Counting::new();
        let Counting { engine, thread, cell, .. } = counting;
        assert_eq!(cell.add_span(engine, thread, Of::new(Lowest::Usual, 0), 1, 7, 5), 0);
        assert_eq!((cell.plain(&engine.arena).sum, counting.seen()), (0, (BTreeMap::new(), 0, 0)));
    }
}
