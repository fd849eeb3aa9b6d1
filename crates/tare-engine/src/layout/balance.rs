//! HOT PATH: balances of memory: what was allocated and freed, and the least and the most that was in use.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use crate::layout::bank::line_words;
use crate::layout::cell::{Cell, CellHead, add_shared, bump, raise_shared};
use crate::memory::arena::{Arena, ArenaView, Offset};

/// A cell of memory. Its low and high marks are those of `alloc - free` within the bank.
#[repr(C)]
pub(crate) struct MemoryCell {
    pub(crate) head: CellHead,
    pub(crate) count_alloc: AtomicU64,
    pub(crate) count_free: AtomicU64,
    pub(crate) bytes_alloc: AtomicU64,
    pub(crate) bytes_free: AtomicU64,
    low_count: AtomicI64,
    high_count: AtomicI64,
    low_bytes: AtomicI64,
    high_bytes: AtomicI64,
}

/// The widest spans noted for a sum, see [`crate::count::peak`]. They lie behind the sum's cell, in the rest
/// of its cache lines. Every word is encoded so that the greatest is the widest, and 0 means none.
#[repr(C)]
pub(crate) struct Peaks([AtomicU64; 4]);

const _: () =
    assert!(size_of::<MemoryCell>() + size_of::<Peaks>() <= line_words::<MemoryCell>() * size_of::<u64>());

// SAFETY: meets `ArenaView`: atomics only, alignment 8, 9 words.
#[allow(unsafe_code)]
unsafe impl ArenaView for MemoryCell {}
// SAFETY: meets `ArenaView`: atomics only, alignment 8, 4 words.
#[allow(unsafe_code)]
unsafe impl ArenaView for Peaks {}

/// The amount in use, and the least and the most that was.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) low: i64,
    pub(crate) now: i64,
    pub(crate) high: i64,
}

/// The spans of the count and of the bytes.
pub(crate) type Spans = [Span; 2];

impl Span {
    pub(crate) fn flat(now: i64) -> Span {
        Span { low: now, now, high: now }
    }

    /// Returns the distances of the marks from the present amount.
    pub(crate) fn room(self) -> Span {
        Span { low: self.low.wrapping_sub(self.now), now: 0, high: self.high.wrapping_sub(self.now) }
    }

    pub(crate) fn is_flat(&self) -> bool {
        self.low == self.now && self.now == self.high
    }

    /// Adds a span as if both were at their marks at the same time.
    pub(crate) fn add(&mut self, other: Span) {
        self.low = self.low.wrapping_add(other.low);
        self.now = self.now.wrapping_add(other.now);
        self.high = self.high.wrapping_add(other.high);
    }
}

impl Peaks {
    /// Returns the noted spans of a sum's cell.
    pub(crate) fn of(arena: &Arena, cell: &MemoryCell) -> &'static Peaks {
        arena.at(arena.offset_of(cell) + (size_of::<MemoryCell>() / size_of::<u64>()) as Offset)
    }

    pub(crate) fn note(&self, [count, bytes]: Spans) {
        for (word, mark) in self.0.iter().zip([!count.low, count.high, !bytes.low, bytes.high]) {
            raise_shared(word, mark.cast_unsigned() ^ SIGN);
        }
    }

    /// Returns the spans of a sum, widened by what was noted.
    pub(crate) fn widen(&self, [count, bytes]: Spans) -> Spans {
        let [low_count, high_count, low_bytes, high_bytes] =
            self.0.each_ref().map(|word| (word.load(Relaxed) ^ SIGN).cast_signed());
        let widen = |span: Span, low: i64, high: i64| Span {
            low: span.low.min(!low),
            high: span.high.max(high),
            ..span
        };
        [widen(count, low_count, high_count), widen(bytes, low_bytes, high_bytes)]
    }

    pub(crate) fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Relaxed));
    }
}

/// The sign bit. With it flipped, signed numbers compare correctly as unsigned ones.
const SIGN: u64 = 1 << 63;

/// Returns what is in use.
#[inline(always)]
fn difference(allocated: &AtomicU64, freed: &AtomicU64) -> i64 {
    allocated.load(Relaxed).wrapping_sub(freed.load(Relaxed)).cast_signed()
}

impl MemoryCell {
    /// Returns count and bytes in use. They are negative in a bank that frees what others allocated.
    pub(crate) fn current(&self) -> (i64, i64) {
        (difference(&self.count_alloc, &self.count_free), difference(&self.bytes_alloc, &self.bytes_free))
    }

    pub(crate) fn spans(&self) -> Spans {
        let (count, bytes) = self.current();
        [
            Span { low: self.low_count.load(Relaxed), now: count, high: self.high_count.load(Relaxed) },
            Span { low: self.low_bytes.load(Relaxed), now: bytes, high: self.high_bytes.load(Relaxed) },
        ]
    }

    /// Returns the spans of a cell whose marks a reset has passed.
    pub(crate) fn flat_spans(&self) -> Spans {
        let (count, bytes) = self.current();
        [Span::flat(count), Span::flat(bytes)]
    }

    #[inline(always)]
    pub(crate) fn alloc(&self, bytes: u64) {
        bump(&self.count_alloc, 1);
        let count = difference(&self.count_alloc, &self.count_free);
        if count > self.high_count.load(Relaxed) {
            self.high_count.store(count, Relaxed);
        }
        bump(&self.bytes_alloc, bytes);
        let bytes = difference(&self.bytes_alloc, &self.bytes_free);
        if bytes > self.high_bytes.load(Relaxed) {
            self.high_bytes.store(bytes, Relaxed);
        }
    }

    #[inline(always)]
    pub(crate) fn free(&self, bytes: u64) {
        bump(&self.count_free, 1);
        let count = difference(&self.count_alloc, &self.count_free);
        if count < self.low_count.load(Relaxed) {
            self.low_count.store(count, Relaxed);
        }
        bump(&self.bytes_free, bytes);
        let bytes = difference(&self.bytes_alloc, &self.bytes_free);
        if bytes < self.low_bytes.load(Relaxed) {
            self.low_bytes.store(bytes, Relaxed);
        }
    }

    /// Counts a free of `old` bytes and an allocation of `new` bytes at once: the marks see only the
    /// difference.
    pub(crate) fn exchange(&self, old: u64, new: u64) {
        bump(&self.count_free, 1);
        bump(&self.bytes_free, old);
        self.alloc(new);
        let (_, bytes) = self.current();
        if bytes < self.low_bytes.load(Relaxed) {
            self.low_bytes.store(bytes, Relaxed);
        }
    }

    pub(crate) fn alloc_shared(&self, bytes: u64) {
        self.count_alloc.fetch_add(1, Relaxed);
        self.bytes_alloc.fetch_add(bytes, Relaxed);
        self.mark_shared();
    }

    pub(crate) fn free_shared(&self, bytes: u64) {
        self.count_free.fetch_add(1, Relaxed);
        self.bytes_free.fetch_add(bytes, Relaxed);
        self.mark_shared();
    }

    /// Moves what is in use to a cell that several threads write. Its own thread has ended.
    pub(crate) fn move_current(&self, to: &MemoryCell) {
        let (count, bytes) = self.current();
        for (from, to, in_use) in
            [(&self.count_alloc, &to.count_alloc, count), (&self.bytes_alloc, &to.bytes_alloc, bytes)]
        {
            if let Ok(in_use) = u64::try_from(in_use)
                && in_use != 0
            {
                to.fetch_add(in_use, Relaxed);
                from.fetch_sub(in_use, Relaxed);
            }
        }
        to.mark_shared();
    }

    fn mark_shared(&self) {
        let (count, bytes) = self.current();
        for (low, now, high) in
            [(&self.low_count, count, &self.high_count), (&self.low_bytes, bytes, &self.high_bytes)]
        {
            // A locked instruction only where it changes something.
            if now > high.load(Relaxed) {
                high.fetch_max(now, Relaxed);
            }
            if now < low.load(Relaxed) {
                low.fetch_min(now, Relaxed);
            }
        }
    }

    /// Sets the marks to the present amount. Others may allocate and free meanwhile.
    pub(crate) fn flatten(&self) {
        let (count, bytes) = self.current();
        for (mark, now) in [
            (&self.low_count, count),
            (&self.high_count, count),
            (&self.low_bytes, bytes),
            (&self.high_bytes, bytes),
        ] {
            mark.store(now, Relaxed);
        }
        self.mark_shared();
    }

    /// Resets the cell as TRUNCATE does: it keeps what is in use, as allocated and not freed, and sets the
    /// marks to the present. What is dropped from both sides is added to each of `into`, whose own marks were
    /// noted before.
    fn rebase_into(&self, into: &[Option<&MemoryCell>]) {
        let dropped = (
            self.count_free.load(Relaxed).min(self.count_alloc.load(Relaxed)),
            self.bytes_free.load(Relaxed).min(self.bytes_alloc.load(Relaxed)),
        );
        self.flatten();
        self.count_alloc.fetch_sub(dropped.0, Relaxed);
        self.count_free.fetch_sub(dropped.0, Relaxed);
        self.bytes_alloc.fetch_sub(dropped.1, Relaxed);
        self.bytes_free.fetch_sub(dropped.1, Relaxed);
        for to in into.iter().flatten() {
            for (word, by) in [
                (&to.count_alloc, dropped.0),
                (&to.count_free, dropped.0),
                (&to.bytes_alloc, dropped.1),
                (&to.bytes_free, dropped.1),
            ] {
                word.fetch_add(by, Relaxed);
            }
        }
    }
}

impl Cell for MemoryCell {
    fn head(&self) -> &CellHead {
        &self.head
    }
    fn events(&self) -> u64 {
        0
    }
    fn is_untouched(&self) -> bool {
        let words = [&self.count_alloc, &self.count_free, &self.bytes_alloc, &self.bytes_free];
        words.iter().all(|word| word.load(Relaxed) == 0)
    }
    fn fold(&self, _: &Arena, into: &Self) {
        for (to, from) in [
            (&into.low_count, &self.low_count),
            (&into.high_count, &self.high_count),
            (&into.low_bytes, &self.low_bytes),
            (&into.high_bytes, &self.high_bytes),
        ] {
            let mark = from.load(Relaxed);
            if mark != 0 {
                to.fetch_add(mark, Relaxed);
            }
        }
        for (to, from) in [
            (&into.count_alloc, &self.count_alloc),
            (&into.count_free, &self.count_free),
            (&into.bytes_alloc, &self.bytes_alloc),
            (&into.bytes_free, &self.bytes_free),
        ] {
            add_shared(to, from.load(Relaxed));
        }
        into.mark_shared();
    }
    fn append(&self, arena: &Arena, into: &Self) {
        self.fold(arena, into);
    }
    fn clear(&self, _: &Arena) {
        for word in [&self.count_alloc, &self.count_free, &self.bytes_alloc, &self.bytes_free] {
            word.store(0, Relaxed);
        }
        for word in [&self.low_count, &self.high_count, &self.low_bytes, &self.high_bytes] {
            word.store(0, Relaxed);
        }
    }
    fn drain(&self, _: &Arena, into: &[Option<&Self>]) {
        self.rebase_into(into);
    }
    fn forget_marks(&self) {
        self.flatten();
    }
}
