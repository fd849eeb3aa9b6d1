//! HOT PATH: statistic cells. One writer adds with plain loads and stores; readers only read.
//!
//! A cell belongs to one instrument and one bank: a thread's, or the shared bank of what has ended. It is
//! found through the bank's map, created at the first event, and never moves while its bank lives.
//!
//! TRUNCATE never touches another thread's cell: it raises an epoch. A writer that meets a cell of an older
//! epoch folds it to where it still counts and restarts it. A reader judges an old cell by its epoch. So a
//! reset loses no event and costs the writer one comparison.
//!
//! Whatever has left its thread is in a [`SharedBank`](super::bank::SharedBank): in that of its account, or
//! else in those of its user and its host, and in that of all.

use std::hint::cold_path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::layout::counters::StatementSums;
use crate::layout::histograms;
use crate::memory::arena::{Arena, ArenaView, Own};
use crate::snapshot::Kind;

/// The summaries that are reset together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum SummaryFamily {
    Waits,
    Stages,
    Statements,
    Transactions,
    Memory,
    TableIo,
    TableLock,
    Sockets,
    Digests,
    Prepared,
    Programs,
    Errors,
}

/// The number of families.
pub(crate) const FAMILIES: usize = 12;

impl SummaryFamily {
    /// Returns the family of an instrument's summary.
    pub(crate) const fn of(kind: Kind) -> SummaryFamily {
        match kind {
            Kind::Stage => SummaryFamily::Stages,
            Kind::Statement => SummaryFamily::Statements,
            Kind::Transaction => SummaryFamily::Transactions,
            Kind::Memory => SummaryFamily::Memory,
            Kind::Error => SummaryFamily::Errors,
            _ => SummaryFamily::Waits,
        }
    }
}

/// The viewer of a thread's cell, for whom an old epoch may still count. What counts for the thread counts
/// for its account, and what counts for the account counts for its user and host: a reset of one also resets
/// those before it. Only the global summary of waits is reset by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Viewer {
    Thread,
    Account,
    User,
    Host,
    Global,
}

/// The number of viewers.
pub(crate) const VIEWERS: usize = 5;

/// The epoch of a cell that its thread's list does not have, see [`super::cell_list`]. No family's epoch is
/// 0.
pub(crate) const RETIRED: u32 = 0;

/// The first word of every cell.
#[repr(C)]
pub(crate) struct CellHead {
    pub(crate) epoch: AtomicU32,
    /// The place of the cell's histogram; 0 means none. See [`histograms`].
    pub(crate) histogram: AtomicU32,
}

impl CellHead {
    /// Returns whether the cell has a histogram. Most have none.
    #[inline(always)]
    pub(crate) fn has_histogram(&self) -> bool {
        self.histogram.load(Relaxed) != 0
    }
}

/// Factors by which an event is counted: one for the number of events, one for their time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SampleWeight {
    pub(crate) events: u64,
    pub(crate) time: u64,
}

impl SampleWeight {
    /// Factors for what is counted exactly.
    pub(crate) const ONE: SampleWeight = SampleWeight { events: 1, time: 1 };
}

/// COUNT, SUM, MIN and MAX, in ticks. MIN is stored inverted, so that zeroed memory is an empty statistic.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) count: AtomicU64,
    pub(crate) sum: AtomicU64,
    pub(crate) min_inverted: AtomicU64,
    pub(crate) max: AtomicU64,
}

/// The values of a [`Counts`], for readers.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Plain {
    pub(crate) count: u64,
    pub(crate) sum: u64,
    pub(crate) min_inverted: u64,
    pub(crate) max: u64,
}

impl Plain {
    /// Adds `other` if it counted anything. The time of batches without events is left out, as in the
    /// built-in.
    pub(crate) fn merge(&mut self, other: Plain) {
        if other.count == 0 {
            return;
        }
        self.count = self.count.wrapping_add(other.count);
        self.sum = self.sum.wrapping_add(other.sum);
        self.min_inverted = self.min_inverted.max(other.min_inverted);
        self.max = self.max.max(other.max);
    }

    /// Returns count, sum, minimum and maximum, in ticks.
    pub(crate) fn ticks(self) -> [u64; 4] {
        [self.count, self.sum, !self.min_inverted, self.max]
    }
}

#[inline(always)]
pub(crate) fn bump(word: &AtomicU64, by: u64) {
    word.store(word.load(Relaxed).wrapping_add(by), Relaxed);
}

/// Adds to a word that several threads write. Skips 0, because a locked instruction costs about as much as
/// twenty plain ones.
#[inline(always)]
pub(crate) fn add_shared(word: &AtomicU64, by: u64) {
    if by != 0 {
        word.fetch_add(by, Relaxed);
    }
}

/// Raises a word that several threads write to at least `to`.
#[inline(always)]
pub(crate) fn raise_shared(word: &AtomicU64, to: u64) {
    if to > word.load(Relaxed) {
        word.fetch_max(to, Relaxed);
    }
}

/// Takes the whole value of a word that several threads write.
#[inline(always)]
pub(crate) fn take_shared(word: &AtomicU64) -> u64 {
    if word.load(Relaxed) == 0 { 0 } else { word.swap(0, Relaxed) }
}

impl Counts {
    /// Adds `n` events that took `ticks` together; the caller is the only writer. MIN and MAX are those of
    /// batches. An empty batch adds its time, too, which shows once an event is counted, as in the built-in.
    #[inline(always)]
    pub(crate) fn add(&self, n: u64, ticks: u64) {
        self.add_usual(n, ticks);
        self.raise(ticks);
    }

    /// Raises the maximum to at least `ticks`.
    #[inline(always)]
    pub(crate) fn raise(&self, ticks: u64) {
        if ticks > self.max.own() {
            cold_path();
            self.max.store(ticks, Relaxed);
        }
    }

    /// Adds `n` events that took `ticks` together, without the maximum.
    #[inline(always)]
    pub(crate) fn add_usual(&self, n: u64, ticks: u64) {
        bump(&self.count, n);
        bump(&self.sum, ticks);
        if !ticks > self.min_inverted.own() {
            cold_path();
            self.min_inverted.store(!ticks, Relaxed);
        }
    }

    /// Adds events that stand for more, without the maximum. MIN is that of the observed events.
    pub(crate) fn add_weighted(&self, n: u64, ticks: u64, weight: SampleWeight) {
        bump(&self.count, n.wrapping_mul(weight.events));
        bump(&self.sum, ticks.wrapping_mul(weight.time));
        self.min_inverted.store(self.min_inverted.own().max(!ticks), Relaxed);
    }

    /// Adds time of an event that is counted at its end.
    pub(crate) fn add_time(&self, ticks: u64) {
        bump(&self.sum, ticks);
    }

    /// Counts one event that took no time, such as an uncontended lock, among timed ones: MIN becomes 0.
    #[inline(always)]
    pub(crate) fn count_free(&self) {
        self.add_untimed(1);
        self.min_inverted.store(!0, Relaxed);
    }

    /// Adds events without times.
    #[inline(always)]
    pub(crate) fn add_untimed(&self, n: u64) {
        bump(&self.count, n);
    }

    /// Adds events to a statistic that several threads write, such as of files or of what has ended.
    pub(crate) fn add_shared(&self, n: u64, ticks: Option<u64>) {
        self.count.fetch_add(n, Relaxed);
        if let Some(ticks) = ticks {
            self.sum.fetch_add(ticks, Relaxed);
            raise_shared(&self.min_inverted, !ticks);
            raise_shared(&self.max, ticks);
        }
    }

    pub(crate) fn plain(&self) -> Plain {
        Plain {
            count: self.count.load(Relaxed),
            sum: self.sum.load(Relaxed),
            min_inverted: self.min_inverted.load(Relaxed),
            max: self.max.load(Relaxed),
        }
    }

    /// Adds all of `other`. Several threads may fold into the same statistic. Out of line, because a thread
    /// that ends folds cells of every type one after the other.
    #[inline(never)]
    pub(crate) fn merge_shared(&self, other: Plain) {
        // A reset of a shared statistic can take a count without its time.
        if other.count | other.sum != 0 {
            add_shared(&self.count, other.count);
            add_shared(&self.sum, other.sum);
            raise_shared(&self.min_inverted, other.min_inverted);
            raise_shared(&self.max, other.max);
        }
    }

    /// Adds all of `other`; the caller is the only writer.
    pub(crate) fn merge_own(&self, other: Plain) {
        bump(&self.count, other.count);
        bump(&self.sum, other.sum);
        self.min_inverted.store(self.min_inverted.load(Relaxed).max(other.min_inverted), Relaxed);
        self.max.store(self.max.load(Relaxed).max(other.max), Relaxed);
    }

    /// Empties the statistic; the caller is the only writer.
    pub(crate) fn clear(&self) {
        for word in [&self.count, &self.sum, &self.min_inverted, &self.max] {
            word.store(0, Relaxed);
        }
    }

    /// Empties a shared statistic and returns its values. Events added meanwhile are either returned or stay.
    pub(crate) fn take(&self) -> Plain {
        Plain {
            count: take_shared(&self.count),
            sum: take_shared(&self.sum),
            min_inverted: take_shared(&self.min_inverted),
            max: take_shared(&self.max),
        }
    }

    /// Empties a shared statistic.
    pub(crate) fn clear_shared(&self) {
        self.take();
    }

    /// Moves a shared statistic to each of `into`, which are shared, too.
    fn drain<'a>(&self, into: impl Iterator<Item = &'a Counts>) {
        let taken = self.take();
        into.for_each(|to| to.merge_shared(taken));
    }
}

/// A cell of one statistic, for waits and stages.
#[repr(C)]
pub(crate) struct StatCell {
    pub(crate) head: CellHead,
    pub(crate) stat: Counts,
}

/// A cell of transactions.
#[repr(C)]
pub(crate) struct TransactionCell {
    pub(crate) head: CellHead,
    pub(crate) read_write: Counts,
    pub(crate) read_only: Counts,
}

/// A cell of statements.
#[repr(C)]
pub(crate) struct StatementCell {
    pub(crate) head: CellHead,
    pub(crate) stat: Counts,
    pub(crate) counters: StatementSums,
}

/// COUNT, SUM, MIN, MAX and bytes of one direction of a file or socket.
#[repr(C)]
pub(crate) struct ByteCounts {
    pub(crate) stat: Counts,
    pub(crate) bytes: AtomicU64,
}

/// The indexes of the parts of an [`IoCounts`].
pub(crate) const READ: usize = 0;
pub(crate) const WRITE: usize = 1;
pub(crate) const MISC: usize = 2;

/// The statistics of READ, WRITE and MISC.
#[repr(C)]
pub(crate) struct IoCounts {
    pub(crate) parts: [ByteCounts; 3],
}

/// What closed files and sockets of one instrument did.
#[repr(C)]
pub(crate) struct IoCell {
    pub(crate) head: CellHead,
    pub(crate) io: IoCounts,
}

// SAFETY: meets `ArenaView`: all fields are atomics, alignment 8, at most 27 words.
#[allow(unsafe_code)]
unsafe impl ArenaView for StatCell {}
// SAFETY: meets `ArenaView`: all fields are atomics, alignment 8, at most 27 words.
#[allow(unsafe_code)]
unsafe impl ArenaView for TransactionCell {}
// SAFETY: meets `ArenaView`: all fields are atomics, alignment 8, at most 27 words.
#[allow(unsafe_code)]
unsafe impl ArenaView for StatementCell {}
// SAFETY: meets `ArenaView`: all fields are atomics, alignment 8, at most 27 words.
#[allow(unsafe_code)]
unsafe impl ArenaView for IoCell {}
// SAFETY: meets `ArenaView`: all fields are atomics, alignment 8, at most 27 words.
#[allow(unsafe_code)]
unsafe impl ArenaView for CellHead {}

/// A cell type that banks hold.
pub(crate) trait Cell: ArenaView {
    fn head(&self) -> &CellHead;
    /// Returns the number of events counted.
    fn events(&self) -> u64;
    /// Returns whether nothing has been counted since the cell was empty.
    fn is_untouched(&self) -> bool {
        self.events() == 0
    }
    /// Returns whether the cell may hold the time of batches without events. It shows only once an event
    /// follows, and is dropped if none does.
    fn holds_vain_time(&self) -> bool {
        false
    }
    /// Returns whether nothing in the cell has to be folded or cleared. One with a histogram is looked at
    /// more closely.
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.is_untouched() && !self.holds_vain_time() && !self.head().has_histogram()
    }
    /// Adds all of `self` to a shared cell.
    fn fold(&self, arena: &Arena, into: &Self);
    /// Adds all of `self` to a cell of the same writer.
    fn append(&self, arena: &Arena, into: &Self);
    /// Empties a cell of the caller's own, and its histogram.
    fn clear(&self, arena: &Arena);
    /// Moves a cell to each of some shared ones; of memory, everything but what is in use. Histograms stay.
    fn drain(&self, arena: &Arena, into: &[Option<&Self>]);
    /// Drops the high and low marks before further folds, because another sum has them. Does nothing except
    /// for memory.
    fn forget_marks(&self) {}
}

impl StatCell {
    /// Returns what a reader sees. The maximum of a thread's own cell may be noted with its histogram.
    pub(crate) fn plain(&self, arena: &Arena) -> Plain {
        let plain = self.stat.plain();
        Plain { max: plain.max.max(histograms::longest(arena, &self.head)), ..plain }
    }
}

impl Cell for StatCell {
    fn head(&self) -> &CellHead {
        &self.head
    }
    fn events(&self) -> u64 {
        self.stat.count.load(Relaxed)
    }
    fn holds_vain_time(&self) -> bool {
        self.stat.sum.load(Relaxed) != 0
    }
    fn fold(&self, arena: &Arena, into: &Self) {
        into.stat.merge_shared(self.plain(arena));
    }
    fn append(&self, arena: &Arena, into: &Self) {
        into.stat.merge_own(self.plain(arena));
    }
    fn clear(&self, arena: &Arena) {
        self.stat.clear();
        histograms::clear(arena, &self.head);
    }
    fn drain(&self, arena: &Arena, into: &[Option<&Self>]) {
        self.stat.max.fetch_max(histograms::longest(arena, &self.head), Relaxed);
        self.stat.drain(into.iter().flatten().map(|to| &to.stat));
    }
}

impl Cell for TransactionCell {
    fn head(&self) -> &CellHead {
        &self.head
    }
    fn events(&self) -> u64 {
        self.read_write.count.load(Relaxed).wrapping_add(self.read_only.count.load(Relaxed))
    }
    fn fold(&self, _: &Arena, into: &Self) {
        into.read_write.merge_shared(self.read_write.plain());
        into.read_only.merge_shared(self.read_only.plain());
    }
    fn append(&self, _: &Arena, into: &Self) {
        into.read_write.merge_own(self.read_write.plain());
        into.read_only.merge_own(self.read_only.plain());
    }
    fn clear(&self, arena: &Arena) {
        self.read_write.clear();
        self.read_only.clear();
        histograms::clear(arena, &self.head);
    }
    fn drain(&self, _: &Arena, into: &[Option<&Self>]) {
        self.read_write.drain(into.iter().flatten().map(|to| &to.read_write));
        self.read_only.drain(into.iter().flatten().map(|to| &to.read_only));
    }
}

impl Cell for StatementCell {
    fn head(&self) -> &CellHead {
        &self.head
    }
    fn events(&self) -> u64 {
        self.stat.count.load(Relaxed)
    }
    fn fold(&self, _: &Arena, into: &Self) {
        into.stat.merge_shared(self.stat.plain());
        into.counters.merge_shared(&self.counters);
    }
    fn append(&self, _: &Arena, into: &Self) {
        into.stat.merge_own(self.stat.plain());
        into.counters.merge_own(&self.counters);
    }
    fn clear(&self, arena: &Arena) {
        self.stat.clear();
        self.counters.clear();
        histograms::clear(arena, &self.head);
    }
    fn drain(&self, _: &Arena, into: &[Option<&Self>]) {
        self.stat.drain(into.iter().flatten().map(|to| &to.stat));
        self.counters.drain(into.iter().flatten().map(|to| &to.counters));
    }
}

impl Cell for IoCell {
    fn head(&self) -> &CellHead {
        &self.head
    }
    fn events(&self) -> u64 {
        0
    }
    fn fold(&self, _: &Arena, into: &Self) {
        self.io.fold(&into.io);
    }
    fn append(&self, _: &Arena, into: &Self) {
        self.io.fold(&into.io);
    }
    fn clear(&self, _: &Arena) {
        self.io.clear_shared();
    }
    fn drain(&self, _: &Arena, into: &[Option<&Self>]) {
        for (at, part) in self.io.parts.iter().enumerate() {
            part.stat.drain(into.iter().flatten().map(|to| &to.io.parts[at].stat));
            let bytes = take_shared(&part.bytes);
            into.iter().flatten().for_each(|to| add_shared(&to.io.parts[at].bytes, bytes));
        }
    }
}

impl IoCounts {
    /// Adds one operation on an object of one thread.
    #[inline(always)]
    pub(crate) fn add(&self, part: usize, ticks: Option<u64>, bytes: u64) {
        let part = &self.parts[part];
        match ticks {
            Some(ticks) => part.stat.add(1, ticks),
            None => part.stat.add_untimed(1),
        }
        bump(&part.bytes, bytes);
    }

    /// Adds one operation that stands for more, on an object of one thread.
    pub(crate) fn add_weighted(&self, part: usize, ticks: Option<u64>, bytes: u64, weight: SampleWeight) {
        let part = &self.parts[part];
        match ticks {
            Some(ticks) => {
                part.stat.add_weighted(1, ticks, weight);
                part.stat.raise(ticks);
            }
            None => part.stat.add_untimed(weight.events),
        }
        bump(&part.bytes, bytes.wrapping_mul(weight.events));
    }

    /// Adds one operation on an object that threads share.
    pub(crate) fn add_shared(&self, part: usize, ticks: Option<u64>, bytes: u64, weight: SampleWeight) {
        let part = &self.parts[part];
        part.stat.add_shared(weight.events, ticks);
        if let Some(ticks) = ticks {
            add_shared(&part.stat.sum, ticks.wrapping_mul(weight.time - 1));
        }
        add_shared(&part.bytes, bytes.wrapping_mul(weight.events));
    }

    pub(crate) fn fold(&self, into: &IoCounts) {
        for (to, from) in into.parts.iter().zip(&self.parts) {
            to.stat.merge_shared(from.stat.plain());
            add_shared(&to.bytes, from.bytes.load(Relaxed));
        }
    }

    pub(crate) fn clear_shared(&self) {
        for part in &self.parts {
            part.stat.clear_shared();
            take_shared(&part.bytes);
        }
    }
}
