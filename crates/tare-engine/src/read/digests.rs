//! Statements by digest: the sum of what threads have counted and not yet moved to the shared places, and of
//! what is there.
//!
//! A server may have thousands of digests and is asked for them again and again. So counts are added up in
//! one array (`tallies`), names are mostly known already (`names`), and one row is refilled for each digest.
//! The result can be read more than once: a reader that wants few of many digests looks at the counts of all
//! and then requests the histograms of those few, which take longest to read.

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem::offset_of;
use std::ops::ControlFlow;
use std::sync::atomic::{
    Ordering::{Acquire, Relaxed},
    fence,
};

use super::histogram::{DigestPosition, DigestsBefore, HistogramCounts};
use super::names::DigestNames;
use super::summary::counters;
use super::tallies::{NO_PLACE, REST, Sum, Tallies};
use super::{Scale, patiently};
use crate::Engine;
use crate::count::digest::{DigestCell, DigestMap};
use crate::count::digest_table::{DigestCounts, DigestSlot, DigestTally};
use crate::layout::cell::{Cell, SummaryFamily};
use crate::layout::counters::PlainCounters;
use crate::layout::histograms;
use crate::memory::arena::LINE;
use crate::memory::text;
use crate::record::statement::Counter;
use crate::snapshot::*;
use crate::thread::Thread;

/// Number of items by which prefetching runs ahead. Digests are thousands of times a few lines, far from one
/// another. Without prefetching, waiting for each took more than half of the time.
const AHEAD: usize = 4;
/// How often digests are read anew because of a TRUNCATE meanwhile.
const TRIES: u32 = 3;
/// Bytes of a slot up to and including its counts, up to where it shows whether there was an earlier owner.
const COUNTED: usize = offset_of!(DigestSlot, past) + LINE;

/// Yields all items in order and passes to `expect`, for prefetching, the item [`AHEAD`] positions further.
pub(super) fn expecting<T>(
    all: impl Iterator<Item = T> + Clone,
    expect: impl Fn(T),
) -> impl Iterator<Item = T> {
    let mut ahead = all.clone().skip(AHEAD);
    all.inspect(move |_| ahead.next().into_iter().for_each(&expect))
}

/// The digests to read.
#[derive(Clone, Copy)]
enum Which<'w> {
    All,
    /// Those whose place has `true` at its number.
    Those(&'w [bool]),
}

impl Which<'_> {
    fn has(self, number: u32) -> bool {
        match self {
            Which::All => true,
            Which::Those(wanted) => wanted.get(number as usize).is_some_and(|is_wanted| *is_wanted),
        }
    }
}

/// Histograms that are read after the counts.
enum Later {
    /// None: histograms were read together with the counts.
    Never,
    /// None yet.
    Nothing,
    /// Those of the requested digests.
    Some(Tallies),
    All(Tallies),
}

/// All digests at one point in time, and the sum of what belongs to no digest. Rows can be read more than
/// once; each read refills the same row.
pub struct DigestSnapshot<'e> {
    engine: &'e Engine,
    scale: Scale,
    tallies: Tallies,
    names: DigestNames,
    /// Positions of the rows in the tallies.
    order: Vec<u32>,
    later: Later,
    /// Counts at the time when histograms were truncated: by digest, and without one.
    before: Option<(DigestsBefore, HistogramCounts)>,
    row: DigestRow,
    /// Number of the schema in `row`.
    schema: u32,
    histograms: HistogramCounts,
}

impl DigestSnapshot<'_> {
    /// Returns the number of rows.
    #[must_use]
    pub fn count(&self) -> usize {
        self.order.len()
    }

    /// Returns the number of a row's schema, if names were read. Rows with the same number have the same
    /// schema.
    #[must_use]
    pub fn schema(&self, position: usize) -> u32 {
        self.names.schema(self.order[position] as usize)
    }

    /// Announces that these parts of the rows at these positions will be read. Reads the histograms that were
    /// deferred.
    pub fn expect(&mut self, positions: &[usize], parts: Parts) {
        if !parts.has(DigestRow::HISTOGRAM) || matches!(self.later, Later::Never | Later::All(_)) {
            return;
        }
        let mut wanted = vec![false; self.tallies.at.len()];
        let mut all = positions.len() >= self.order.len();
        for position in positions {
            match wanted.get_mut(self.tallies.sums[self.order[*position] as usize].number as usize) {
                Some(is_wanted) => *is_wanted = true,
                // The row without a digest has the counts of all that lost their place.
                None => all = true,
            }
        }
        let read = |which| self.engine.unfolding(|| self.engine.digest_tallies(DigestRow::HISTOGRAM, which));
        self.later =
            if all { Later::All(read(Which::All)) } else { Later::Some(read(Which::Those(&wanted))) };
    }

    /// Returns a row by its position, with those of `parts` that were read. `None`: the digest lost its place
    /// before its histogram was read, or the histogram was not announced to [`DigestSnapshot::expect`].
    ///
    /// # Panics
    ///
    /// Panics if there is no row at this position.
    pub fn row(&mut self, position: usize, parts: Parts) -> Option<&DigestRow> {
        let at = self.order[position] as usize;
        let DigestSnapshot { scale, tallies, names, row, .. } = self;
        let sum = &tallies.sums[at];
        let stat = &sum.tally.stat;
        row.stat.stat = if parts.has(DigestRow::EXTREMES) { scale.stat(*stat) } else { scale.total(stat) };
        if parts.has(DigestRow::COUNTERS) {
            row.stat.sum = counters(sum.tally.counters);
        }
        if parts.has(DigestRow::FIRST_SEEN) {
            row.first_seen_us = scale.wall_us(sum.tally.first_seen);
        }
        if parts.has(DigestRow::LAST_SEEN) {
            row.last_seen_us = scale.wall_us(sum.tally.last_seen.max(sum.tally.first_seen));
        }
        if parts.has(DigestRow::SCHEMA.and(DigestRow::DIGEST)) {
            names.fill(self.engine, (row, &mut self.schema), at, parts);
        }
        if parts.has(DigestRow::SAMPLE) {
            let sample = names.samples.get(at).and_then(Option::as_ref);
            row.sample = sample.map(|sample| self.engine.statement_sample(scale, sample));
        }
        if parts.has(DigestRow::HISTOGRAM) { self.with_histogram(at) } else { Some(&self.row) }
    }

    /// Adds the histogram of the sum at `at` to the row. The histogram adds up to the row's count, whenever
    /// it was read.
    fn with_histogram(&mut self, at: usize) -> Option<&DigestRow> {
        if let Some((before, rest_before)) = &self.before {
            let sum = &self.tallies.sums[at];
            let before = if at == REST { Some(rest_before) } else { before.of(self.tallies.place(at)) };
            let (tallies, of) = match &self.later {
                Later::Never => (&self.tallies, sum),
                Later::Nothing => return None,
                Later::Some(later) | Later::All(later) => (later, later.same(sum)?),
            };
            tallies.histograms(of, sum.tally.stat.count, &mut self.histograms);
            before.inspect(|before| self.histograms.subtract(before));
            self.histograms.put(&mut self.row.histogram);
        }
        Some(&self.row)
    }

    /// Returns rows whose counts and sums add up to those of all digests: one row, or as many as are needed
    /// to hold them. Only the sums have a meaning.
    #[must_use]
    pub fn totals(&self) -> Vec<DigestRow> {
        let mut totals = vec![Total::default()];
        for at in &self.order {
            let tally = &self.tallies.sums[*at as usize].tally;
            let sum_ps = self.scale.sum_ps(tally.stat.sum);
            if totals.last_mut().is_none_or(|last| !last.add(tally, sum_ps)) {
                let mut next = Total::default();
                next.add(tally, sum_ps);
                totals.push(next);
            }
        }
        totals.iter().map(Total::row).collect()
    }

    /// Sorts the rows by FIRST_SEEN.
    fn sort(&mut self) {
        let sums = &self.tallies.sums;
        let key = |at: &u32| (sums[*at as usize].tally.first_seen, *at);
        let mut order: Vec<(u64, u32)> = self.order.iter().map(key).collect();
        // The rows are in the order of their places and the sort is stable, so equal ones stay in that order.
        order.sort_by_key(|(first_seen, _)| *first_seen);
        self.order = order.into_iter().map(|(_, at)| at).collect();
    }
}

/// Sum over several digests.
#[derive(Default)]
struct Total {
    count: u64,
    sum_ps: u128,
    counters: PlainCounters,
}

impl Total {
    /// Adds a digest. Returns false, and adds nothing, if the sum exceeds what a row can hold.
    fn add(&mut self, tally: &DigestTally, sum_ps: u128) -> bool {
        // These are picoseconds in a row.
        let times = [(Counter::LockTime, 1_000_000), (Counter::CpuTime, 1_000)];
        let is_told = |(of, ps): (Counter, u64)| {
            let (here, there) = (self.counters.0[of as usize], tally.counters.0[of as usize]);
            here.checked_add(there).is_some_and(|sum| sum <= u64::MAX / ps)
        };
        if self.count > 0 && !times.into_iter().all(is_told) {
            return false;
        }
        self.sum_ps += sum_ps;
        self.counters.merge(&tally.counters);
        self.count += tally.stat.count;
        true
    }

    fn row(&self) -> DigestRow {
        let stat = Stat { count: self.count, sum_ps: self.sum_ps, ..Stat::default() };
        let stat = StatementStat { stat, sum: counters(self.counters) };
        DigestRow { stat, ..DigestRow::default() }
    }
}

impl Engine {
    /// Calls `each` with every digest, in the order of FIRST_SEEN. One row is refilled for each call.
    pub fn digests(&self, parts: Parts, each: &mut dyn FnMut(&DigestRow) -> ControlFlow<()>) {
        let mut now = self.read_digests(parts, parts, Later::Never);
        now.sort();
        let _ = (0..now.count()).try_for_each(|position| match now.row(position, parts) {
            Some(row) => each(row),
            None => ControlFlow::Continue(()),
        });
    }

    /// Returns every digest as it is now, in a stable order, with these parts. Histograms are an exception:
    /// they are read later, for the rows passed to [`DigestSnapshot::expect`].
    #[must_use]
    pub fn digests_now(&self, parts: Parts) -> DigestSnapshot<'_> {
        self.read_digests(parts, Parts::NONE, Later::Nothing)
    }

    /// Reads every digest; `with_figures` are the parts to read together with the counts.
    fn read_digests(&self, parts: Parts, with_figures: Parts, later: Later) -> DigestSnapshot<'_> {
        let before = || if parts.has(DigestRow::HISTOGRAM) { self.digests_before() } else { None };
        let read = || {
            let tallies = || self.digest_tallies(with_figures, Which::All);
            let (epoch, before, mut tallies) = self.unfolding(|| (self.digest_epoch(), before(), tallies()));
            let names = self.digest_names(&mut tallies, parts);
            (epoch, (before, tallies, names))
        };
        // TRUNCATE takes the names from what was counted before, as an eviction does, but leaves no row.
        let read_whole = || {
            let (epoch, read) = read();
            fence(Acquire);
            (epoch == self.digest_epoch()).then_some(read)
        };
        let whole = (0..TRIES).find_map(|_| read_whole());
        let (before, tallies, names) = whole.unwrap_or_else(|| read().1);
        let order = tallies.by_place();
        let before = before.map(|before| {
            let of_rest = before.of_others(order.iter().map(|at| tallies.place(*at as usize)));
            (before, of_rest)
        });
        let (row, schema, histograms) = Default::default();
        let scale = Scale::of(self);
        DigestSnapshot { engine: self, scale, tallies, names, order, later, before, row, schema, histograms }
    }

    /// Returns the number of digests that lost their place to others. Their counts are in the row without a
    /// digest.
    pub fn evicted_digests(&self) -> u64 {
        self.digests.evicted()
    }

    /// Returns the current histograms of all digests, and the epoch they belong to.
    pub(crate) fn digest_histograms(&self) -> (u32, HashMap<DigestPosition, HistogramCounts>) {
        let tallies = || self.digest_tallies(DigestRow::HISTOGRAM, Which::All);
        let (epoch, tallies) = self.unfolding(|| (self.digest_epoch(), tallies()));
        let histograms = |at: usize| {
            let (sum, mut histograms) = (&tallies.sums[at], HistogramCounts::default());
            tallies.histograms(sum, sum.tally.stat.count, &mut histograms);
            (tallies.place(at), histograms)
        };
        (epoch, tallies.by_place().into_iter().map(|at| histograms(at as usize)).collect())
    }

    fn digest_epoch(&self) -> u32 {
        self.epochs[SummaryFamily::Digests as usize].load(Relaxed)
    }

    fn digest_tallies(&self, parts: Parts, which: Which<'_>) -> Tallies {
        let epoch = self.digest_epoch();
        let with_buckets = parts.has(DigestRow::HISTOGRAM) && self.buckets.are_enabled();
        let mut known = match which {
            Which::All if !with_buckets => self.figures.take(),
            _ => None,
        };
        let places = self.digests.places().filter(|(number, _)| which.has(*number));
        let mut tallies = Tallies::of(self.digests.size(), places.clone().count());
        let (mut own, mut buckets) = (Vec::new(), Vec::new());
        // Read threads first: then what they count for a slot they found is not newer than the slot's owner.
        for (id, thread) in self.live_threads() {
            own.clear();
            buckets.clear();
            self.thread_digests((thread, epoch), (parts, which), &mut own, &mut buckets);
            if !self.still_lives(thread, id) {
                continue;
            }
            let mut rest = &buckets[..];
            for sum in &own {
                let (of_sum, others) = rest.split_at(sum.buckets as usize);
                tallies.add(sum, of_sum);
                rest = others;
            }
        }
        let mut sum = Sum { number: NO_PLACE, ..Sum::default() };
        if let Some(overflow) = self.arena.get::<DigestSlot>(self.digests.overflow())
            && let Which::All = which
        {
            buckets.clear();
            self.read_shared(&overflow.own, parts, &mut sum.tally, &mut buckets);
            tallies.add(&sum, &buckets);
        }
        let (mut past, mut past_buckets) = (sum, Vec::new());
        let mut others = Vec::new();
        for (number, offset) in places {
            let stamp = self.digests.changes(number);
            match known.as_ref().and_then(|known| known.of(number, stamp)) {
                Some(sum) => tallies.add(sum, &[]),
                None => others.push((number, offset, stamp)),
            }
        }
        let expect = |(_, place, _)| self.arena.expect_read(place, COUNTED);
        for (number, offset, stamp) in expecting(others.iter().copied(), expect) {
            let slot: &DigestSlot = self.arena.at(offset);
            let read = patiently(|| {
                buckets.clear();
                past_buckets.clear();
                slot.pinned_slot.read(|| {
                    self.read_shared(&slot.own, parts, &mut sum.tally, &mut buckets);
                    // Most places have had one owner only.
                    let has_past = slot.past.stat.count.load(Relaxed) != 0;
                    if has_past {
                        self.read_shared(&slot.past, parts, &mut past.tally, &mut past_buckets);
                    }
                    has_past
                })
            });
            let Some((owner, has_past)) = read else {
                tallies.leave_place(number);
                continue;
            };
            sum.number = number;
            sum.generation = owner.generation();
            tallies.add(&sum, &buckets);
            if !owner.has_owner() {
                // The place is taken, but TRUNCATE has removed its digest.
                tallies.leave_place(number);
            }
            if has_past {
                tallies.add(&past, &past_buckets);
            } else if owner.has_owner()
                && let Some(known) = &mut known
            {
                known.keep(stamp, &sum);
            }
        }
        tallies
    }

    /// Reads the present or the past counts of a place. Buckets come first, because an event is counted
    /// before it gets into its bucket.
    #[inline]
    fn read_shared(
        &self,
        counts: &DigestCounts,
        parts: Parts,
        tally: &mut DigestTally,
        buckets: &mut Vec<(u32, u64)>,
    ) {
        if parts.has(DigestRow::HISTOGRAM) {
            histograms::each_shared(&self.arena, &counts.histogram, |bucket, count| {
                buckets.push((bucket, count))
            });
        }
        counts.copy_to(tally);
    }

    /// Reads what a thread has counted and not yet moved to the places. Appends the buckets of all digests to
    /// one list.
    fn thread_digests(
        &self,
        (thread, epoch): (&Thread, u32),
        (parts, which): (Parts, Which<'_>),
        own: &mut Vec<Sum>,
        buckets: &mut Vec<(u32, u64)>,
    ) {
        let map = thread.digest_map.load(Acquire);
        let Some(map) = self.arena.get::<DigestMap>(map) else { return };
        if thread.digest_epoch.load(Relaxed) != epoch {
            return;
        }
        let expect = |cell| self.arena.expect_read(cell, size_of::<DigestCell>());
        let cells = expecting(map.cells(), expect);
        for cell in cells.filter_map(|cell| self.arena.get::<DigestCell>(cell)) {
            let number = cell.number.load(Relaxed);
            // A map may have digests that former threads of the slab counted.
            if !which.has(number) || cell.cell.is_untouched() {
                continue;
            }
            let from = buckets.len();
            if parts.has(DigestRow::HISTOGRAM) {
                self.own_buckets((thread, &cell.cell.head), || cell.cell.events(), buckets);
            }
            let tally = DigestTally {
                stat: cell.cell.stat.plain(),
                counters: cell.cell.counters.plain(),
                first_seen: 0,
                last_seen: cell.last_seen.load(Relaxed),
            };
            let generation = cell.generation.load(Relaxed);
            own.push(Sum { number, generation, buckets: (buckets.len() - from) as u32, tally });
        }
    }

    pub(super) fn sample_of(&self, slot: &DigestSlot) -> Option<CopiedSample> {
        self.digests.samples.read(&self.arena, &slot.sample, |head, words| CopiedSample {
            text: text::read(words, (head.len.load(Relaxed) as usize).min(words.len() * 8)),
            charset: head.charset.load(Relaxed),
            cut: head.cut.load(Relaxed) != 0,
            wait: head.wait.load(Relaxed),
            seen: head.seen.load(Relaxed),
        })
    }

    fn statement_sample(&self, scale: &Scale, sample: &CopiedSample) -> StatementSample {
        StatementSample {
            text: self.sql_text(&sample.text, sample.charset, sample.cut).map(Cow::into_owned),
            seen_us: scale.wall_us(sample.seen),
            wait_ps: scale.ps(sample.wait),
        }
    }
}

/// Copy of a digest's sample.
pub(super) struct CopiedSample {
    text: Vec<u8>,
    charset: u32,
    cut: bool,
    wait: u64,
    seen: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(count: u64, lock_us: u64, cpu_ns: u64) -> DigestTally {
        let mut tally = DigestTally::default();
        tally.stat.count = count;
        tally.counters.0[Counter::LockTime as usize] = lock_us;
        tally.counters.0[Counter::CpuTime as usize] = cpu_ns;
        tally
    }

    #[test]
    fn a_total_takes_what_its_row_can_say() {
        const MOST_LOCK: u64 = u64::MAX / 1_000_000;
        let mut total = Total::default();
        let most = u128::from(u64::MAX);
        assert!(total.add(&tally(1, MOST_LOCK, 5), most));
        for more in [tally(1, 1, 0), tally(1, 0, u64::MAX / 1000)] {
            assert!(!total.add(&more, 0));
        }
        assert!(total.add(&tally(2, 0, 1), most));
        let stat = total.row().stat;
        assert_eq!((stat.stat.count, stat.stat.sum_ps), (3, 2 * most));
        assert_eq!((stat.sum.lock_time_ps, stat.sum.cpu_time_ps), (MOST_LOCK * 1_000_000, 6000));
    }
}
