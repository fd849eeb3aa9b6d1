//! HOT PATH: cells of memory: how much was allocated and freed, and the least and the most that was in use.
//!
//! The marks of a sum (of an account, of all) are those of the threads that live, added up, and what those who ended have
//! left. No thread tells the others how high it has got, so the sum takes it that all were at their marks at once, as in
//! the reference.
//!
//! A thread that ends leaves its marks to the sums above it, which then are further from what is in use there. A thread
//! that begins *takes over* what was left: as long as it stays within, it moves no mark of the sums. So the mark of many
//! connections, one after the other, is that of one; of many at once it is that of many. It takes over as much as one thread
//! has left at most, and leaves it at its end, used or not. The reference hands it out piece by piece, with each new mark of
//! a thread, to whoever needs it: a sum's marks here are as far apart as there, or further.

use std::sync::atomic::{
    AtomicI64, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Relaxed, Release},
};

use crate::count::cell::{Cell, CellHead, bump};
use crate::memory::arena::{Arena, View};

/// The marks: the least and the most in use, of the count and of bytes.
pub(crate) const LOW_COUNT: usize = 0;
pub(crate) const HIGH_COUNT: usize = 1;
pub(crate) const LOW_BYTES: usize = 2;
pub(crate) const HIGH_BYTES: usize = 3;
const MARKS: usize = 4;

/// Where a mark moves: the least down, the most up.
const fn way(mark: usize) -> i64 {
    if mark % 2 == HIGH_COUNT { 1 } else { -1 }
}

/// Of [`MemoryCell::held`]: the most was left to the sums, the least was not.
const HIGHS_LEFT: u32 = 1 << 31;

/// A cell of memory. Its marks are of `alloc - free` within the bank.
#[repr(C)]
pub(crate) struct MemoryCell {
    pub(crate) head: CellHead,
    pub(crate) count_alloc: AtomicU64,
    pub(crate) count_free: AtomicU64,
    pub(crate) bytes_alloc: AtomicU64,
    pub(crate) bytes_free: AtomicU64,
    marks: [AtomicI64; MARKS],
    /// Of a thread's cell, what it has taken over: up to here it moves no mark of the sums above. Of a sum, what one thread
    /// has left at most: the distance of its mark from what it had in use.
    left: [AtomicI64; MARKS],
    /// Of a thread's cell: its epoch, as long as the marks are its own. Who resets it leaves them to the sums for the thread,
    /// which may never come back to it.
    held: AtomicU32,
    _pad: AtomicU32,
}

// SAFETY: atomics only, alignment 8, 14 words.
#[allow(unsafe_code)]
unsafe impl View for MemoryCell {}

/// What a thread's cell is below.
pub(crate) struct Above<'a> {
    /// Its account; or else its user and its host; or else none.
    pub(crate) parties: [Option<&'a MemoryCell>; 2],
    pub(crate) all: Option<&'a MemoryCell>,
}

impl MemoryCell {
    /// Count and bytes in use: may be negative in a bank that frees what others allocated.
    pub(crate) fn current(&self) -> (i64, i64) {
        let difference =
            |a: &AtomicU64, b: &AtomicU64| a.load(Relaxed).wrapping_sub(b.load(Relaxed)).cast_signed();
        (difference(&self.count_alloc, &self.count_free), difference(&self.bytes_alloc, &self.bytes_free))
    }

    #[inline(always)]
    pub(crate) fn alloc(&self, bytes: u64) {
        bump(&self.count_alloc, 1);
        bump(&self.bytes_alloc, bytes);
        let (count, bytes) = self.current();
        if count > self.marks[HIGH_COUNT].load(Relaxed) {
            self.marks[HIGH_COUNT].store(count, Relaxed);
        }
        if bytes > self.marks[HIGH_BYTES].load(Relaxed) {
            self.marks[HIGH_BYTES].store(bytes, Relaxed);
        }
    }

    #[inline(always)]
    pub(crate) fn free(&self, bytes: u64) {
        bump(&self.count_free, 1);
        bump(&self.bytes_free, bytes);
        let (count, bytes) = self.current();
        if count < self.marks[LOW_COUNT].load(Relaxed) {
            self.marks[LOW_COUNT].store(count, Relaxed);
        }
        if bytes < self.marks[LOW_BYTES].load(Relaxed) {
            self.marks[LOW_BYTES].store(bytes, Relaxed);
        }
    }

    /// A free of `old` bytes and an allocation of `new` ones at once, so that the marks see only what they differ by.
    pub(crate) fn exchange(&self, old: u64, new: u64) {
        bump(&self.count_free, 1);
        bump(&self.bytes_free, old);
        self.alloc(new);
        let (_, bytes) = self.current();
        if bytes < self.marks[LOW_BYTES].load(Relaxed) {
            self.marks[LOW_BYTES].store(bytes, Relaxed);
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

    fn mark_shared(&self) {
        let (count, bytes) = self.current();
        self.marks[HIGH_COUNT].fetch_max(count, Relaxed);
        self.marks[LOW_COUNT].fetch_min(count, Relaxed);
        self.marks[HIGH_BYTES].fetch_max(bytes, Relaxed);
        self.marks[LOW_BYTES].fetch_min(bytes, Relaxed);
    }

    /// The marks as they are.
    pub(crate) fn marks(&self) -> [i64; MARKS] {
        self.marks.each_ref().map(|mark| mark.load(Relaxed))
    }

    /// A thread's marks as the sums above see them.
    pub(crate) fn marks_from_above(&self) -> [i64; MARKS] {
        std::array::from_fn(|at| self.mark_from_above(at))
    }

    fn mark_from_above(&self, at: usize) -> i64 {
        let (epoch, held) = (self.head.epoch.load(Relaxed), self.held.load(Relaxed));
        if held != epoch && (way(at) > 0 || held != epoch ^ HIGHS_LEFT) {
            return self.current_of(at);
        }
        let [mark, left] = [&self.marks, &self.left].map(|it| way(at) * it[at].load(Relaxed));
        way(at) * mark.max(left)
    }

    fn holds_marks(&self) -> bool {
        self.held.load(Relaxed) == self.head.epoch.load(Relaxed)
    }

    /// How far a mark is from what is in use.
    fn distance(&self, at: usize, mark: i64) -> i64 {
        way(at) * (mark - self.current_of(at))
    }

    /// What a mark is of.
    fn current_of(&self, at: usize) -> i64 {
        let (count, bytes) = self.current();
        if at < LOW_BYTES { count } else { bytes }
    }

    /// Of a thread's cell, that it is as nothing was taken over.
    fn keep_own(&self, at: usize) {
        self.left[at].store(self.marks[at].load(Relaxed), Relaxed);
    }

    /// Adds what is in a cell, with these marks, to a sum.
    fn add_to(&self, sum: &MemoryCell, marks: [i64; MARKS]) {
        for (mark, by) in sum.marks.iter().zip(marks) {
            mark.fetch_add(by, Relaxed);
        }
        for (to, from) in [
            (&sum.count_alloc, &self.count_alloc),
            (&sum.count_free, &self.count_free),
            (&sum.bytes_alloc, &self.bytes_alloc),
            (&sum.bytes_free, &self.bytes_free),
        ] {
            to.fetch_add(from.load(Relaxed), Relaxed);
        }
        sum.mark_shared();
    }

    /// TRUNCATE of a memory summary keeps what is in use: allocated becomes what is not freed, freed becomes
    /// zero. What is dropped from both sides goes to each of `into`.
    fn rebase_into(&self, into: &[Option<&MemoryCell>]) {
        let dropped = (
            self.count_free.load(Relaxed).min(self.count_alloc.load(Relaxed)),
            self.bytes_free.load(Relaxed).min(self.bytes_alloc.load(Relaxed)),
        );
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

/// What ends leaves to the sums, and what begins takes over.
impl MemoryCell {
    /// Of a sum: what one who begins may take over.
    fn left(&self, at: usize) -> i64 {
        self.distance(at, self.marks[at].load(Relaxed)).min(self.left[at].load(Relaxed))
    }

    /// Of a sum: moves a mark away from what is in use.
    fn give(&self, at: usize, distance: i64) {
        if distance != 0 {
            self.marks[at].fetch_add(way(at) * distance, Relaxed);
        }
    }

    /// Of a sum: moves a mark towards what is in use, as far as it is away. Returns how far.
    fn lend(&self, at: usize, distance: i64) -> i64 {
        let mut lent = 0;
        let moved = |mark| {
            lent = distance.min(self.distance(at, mark));
            (lent > 0).then(|| mark - way(at) * lent)
        };
        // Whoever sees the mark moved sees the thread's, which was first.
        if self.marks[at].fetch_update(Release, Relaxed, moved).is_err() {
            return 0;
        }
        // Something may have been allocated meanwhile.
        self.mark_shared();
        lent
    }

    /// A thread's cell begins below these sums. `entering`: it has not been below these parties, and its marks are new to
    /// them.
    pub(crate) fn take_over(&self, above: &Above<'_>, entering: bool) {
        if !entering {
            self.held.store(self.head.epoch.load(Relaxed), Release);
        } else if !self.holds_marks() {
            return;
        }
        let Above { parties, all } = *above;
        let has_party = parties.iter().any(Option::is_some);
        let from = if has_party { parties } else { [all, None] };
        for at in 0..MARKS {
            let wanted = from.iter().flatten().map(|sum| sum.left(at)).min().unwrap_or(0);
            if wanted <= 0 {
                continue;
            }
            let mark = self.marks[at].load(Relaxed);
            if !entering && self.mark_from_above(at) != mark {
                // Its own, of before a reset.
                continue;
            }
            let seen = if entering && has_party { 0 } else { mark };
            self.left[at].store(seen + way(at) * wanted, Relaxed);
            // Others may take it at the same time.
            let lent = from.map(|sum| sum.map(|sum| sum.lend(at, wanted)));
            let had = lent.iter().flatten().min().map_or(0, |lent| *lent);
            for (sum, lent) in from.iter().zip(lent).filter_map(|(sum, lent)| Some(((*sum)?, lent?))) {
                sum.give(at, lent - had);
            }
            if had == 0 {
                self.keep_own(at);
            } else {
                self.left[at].store(seen + way(at) * had, Relaxed);
            }
            if let Some(all) = all.filter(|_| has_party) {
                all.lend(at, way(at) * (self.mark_from_above(at) - mark));
            }
        }
    }

    /// A thread's cell is not to be below these sums any more: what it has not used of what it took over goes back.
    pub(crate) fn give_back(&self, above: &Above<'_>) {
        for at in 0..MARKS {
            let unused = (way(at) * (self.mark_from_above(at) - self.marks[at].load(Relaxed))).max(0);
            for sum in above.parties.iter().chain([&above.all]).flatten() {
                sum.give(at, unused);
            }
            self.keep_own(at);
        }
    }

    /// A reset has passed a thread's cell, begun in this epoch: its marks become the present for these sums, and how far
    /// they were from it is left to them. Where it was a reset by thread alone the cell keeps the least: it will come back to
    /// it when it frees what it has. Whoever comes first does it, the thread or the one that resets.
    pub(crate) fn leave_marks(&self, then: u32, by_thread: bool, into: &[Option<&MemoryCell>]) {
        let left = if by_thread { then ^ HIGHS_LEFT } else { !then };
        // What a reset by thread has left to the cell a further one takes.
        for held in [then, then ^ HIGHS_LEFT] {
            let distances: [i64; MARKS] =
                std::array::from_fn(|at| self.distance(at, self.mark_from_above(at)));
            if held == left || self.held.compare_exchange(held, left, AcqRel, Relaxed).is_err() {
                continue;
            }
            for (at, distance) in distances.into_iter().enumerate() {
                if way(at) > 0 || !by_thread {
                    for to in into.iter().flatten() {
                        to.give(at, distance);
                        to.left[at].fetch_max(distance, Relaxed);
                    }
                }
            }
            return;
        }
    }

    /// Adds all of a sum to one above it, which goes on with it.
    pub(crate) fn hand_on(&self, sum: &MemoryCell) {
        for (to, from) in sum.left.iter().zip(&self.left) {
            to.fetch_max(from.load(Relaxed), Relaxed);
        }
        self.add_to(sum, self.marks());
    }
}

impl Cell for MemoryCell {
    fn head(&self) -> &CellHead {
        &self.head
    }
    fn events(&self) -> u64 {
        0
    }
    fn fold(&self, _: &Arena, into: &Self) {
        let marks = self.marks_from_above();
        for (at, mark) in marks.into_iter().enumerate() {
            into.left[at].fetch_max(self.distance(at, mark), Relaxed);
        }
        self.add_to(into, marks);
    }
    fn append(&self, arena: &Arena, into: &Self) {
        self.fold(arena, into);
    }
    fn clear(&self, _: &Arena) {
        for word in [&self.count_alloc, &self.count_free, &self.bytes_alloc, &self.bytes_free] {
            word.store(0, Relaxed);
        }
        for word in self.marks.iter().chain(&self.left) {
            word.store(0, Relaxed);
        }
    }
    /// The water marks become the present; how far they were from it goes with the rest.
    fn drain(&self, _: &Arena, into: &[Option<&Self>]) {
        for at in 0..MARKS {
            let distance = self.distance(at, self.marks[at].swap(self.current_of(at), Relaxed));
            let left = self.left[at].swap(0, Relaxed);
            for to in into.iter().flatten() {
                to.give(at, distance);
                to.left[at].fetch_max(left, Relaxed);
            }
        }
        self.rebase_into(into);
    }
    fn drain_own(&self, _: &Arena, by_thread: bool, into: &[Option<&Self>]) {
        self.leave_marks(self.head.epoch.load(Relaxed), by_thread, into);
        for at in 0..MARKS {
            self.left[at].store(self.mark_from_above(at), Relaxed);
            self.marks[at].store(self.current_of(at), Relaxed);
        }
        self.rebase_into(into);
    }
}
