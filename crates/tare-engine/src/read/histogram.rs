//! Histograms: what live and ended threads counted, less what was there when a histogram was truncated.
//!
//! TRUNCATE of a histogram alone changes nothing that anybody counts: the present values are stored and
//! subtracted from then on. A histogram is also reset with its summary; then the stored values are void.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::Engine;
use crate::histogram::{Histogram, Lowest};
use crate::layout::bank::with_cell;
use crate::layout::cell::{Cell, CellHead, SummaryFamily, Viewer};
use crate::layout::histograms::{self, UNTIMED};
use crate::memory::arena::Arena;
use crate::setup::instrument::lock;
use crate::snapshot::{ClassId, EventType, Grouping, Instrument, Kind};
use crate::thread::{BANK_OWN, BANK_UNATTRIBUTED, Thread};

/// A histogram before it is shown: the number of events, and the counts of all buckets except the lowest.
#[derive(Clone, Default, Debug)]
pub(crate) struct HistogramCounts {
    pub(crate) events: u64,
    /// In ascending order of buckets.
    higher: Vec<(u32, u64)>,
}

impl Engine {
    /// Appends the buckets of a thread's own cell except the lowest, possibly repeated, untimed events last.
    /// Returns the number of events. Buckets are read first, because an event is counted before it gets into
    /// its bucket.
    pub(crate) fn own_buckets(
        &self,
        (thread, head): (&Thread, &CellHead),
        events: impl Fn() -> u64,
        buckets: &mut Vec<(u32, u64)>,
    ) -> u64 {
        let from = buckets.len();
        self.with_deferred(thread, |words| {
            buckets.truncate(from);
            histograms::each(&self.arena, head, |bucket, count| buckets.push((bucket, count)));
            self.each_deferred(words, head, |bucket| buckets.push((bucket, 1)));
        });
        let (untimed, since) = histograms::untimed_events(&self.arena, head);
        let events = events();
        let untimed = untimed.saturating_add(since.map_or(0, |since| events.saturating_sub(since)));
        if untimed != 0 {
            buckets.push((UNTIMED, untimed));
        }
        events
    }
}

impl HistogramCounts {
    /// Replaces the contents by buckets in any order, possibly repeated.
    pub(crate) fn become_of(&mut self, events: u64, buckets: impl Iterator<Item = (u32, u64)>) {
        self.events = events;
        self.higher.clear();
        self.higher.extend(buckets);
        self.higher.sort_unstable_by_key(|(bucket, _)| *bucket);
        self.higher.dedup_by(|(bucket, count), (kept, sum)| {
            let same = bucket == kept;
            *sum += if same { *count } else { 0 };
            same
        });
    }

    /// Reads a thread's own cell.
    fn of_own(
        engine: &Engine,
        thread: &Thread,
        head: &CellHead,
        events: impl Fn() -> u64,
    ) -> HistogramCounts {
        let (mut histograms, mut buckets) = (HistogramCounts::default(), Vec::new());
        let events = engine.own_buckets((thread, head), events, &mut buckets);
        histograms.become_of(events, buckets.into_iter());
        histograms
    }

    /// Reads a shared histogram. Buckets are read first, because an event is counted before it gets into its
    /// bucket.
    pub(crate) fn of_shared(
        arena: &Arena,
        histogram: &AtomicU32,
        events: impl Fn() -> u64,
    ) -> HistogramCounts {
        let mut histograms = HistogramCounts::default();
        histograms::each_shared(arena, histogram, |bucket, count| histograms.add(bucket, count));
        HistogramCounts { events: events(), ..histograms }
    }

    fn add(&mut self, bucket: u32, count: u64) {
        match self.at(bucket) {
            Ok(at) => self.higher[at].1 += count,
            Err(at) => self.higher.insert(at, (bucket, count)),
        }
    }

    /// Returns the position of a bucket, or where to insert it.
    fn at(&self, bucket: u32) -> Result<usize, usize> {
        self.higher.binary_search_by_key(&bucket, |(bucket, _)| *bucket)
    }

    fn count(&self, bucket: u32) -> u64 {
        self.at(bucket).map_or(0, |at| self.higher[at].1)
    }

    pub(crate) fn merge(&mut self, other: &HistogramCounts) {
        self.events += other.events;
        other.higher.iter().for_each(|(bucket, count)| self.add(*bucket, *count));
    }

    /// Subtracts an earlier state.
    pub(crate) fn subtract(&mut self, earlier: &HistogramCounts) {
        self.events = self.events.saturating_sub(earlier.events);
        for (bucket, count) in &mut self.higher {
            *count = count.saturating_sub(earlier.count(*bucket));
        }
    }

    /// Replaces the contents of `histogram` by the timed events. Events in no higher bucket are in the
    /// lowest. The buckets always add up to the number of timed events, even during a reset.
    pub(crate) fn put(&self, histogram: &mut Histogram) {
        let mut left = self.events.saturating_sub(self.count(UNTIMED));
        histogram.begin();
        for (bucket, count) in self.higher.iter().rev().filter(|(bucket, _)| *bucket < UNTIMED) {
            let count = left.min(*count);
            left -= count;
            histogram.add_lower(*bucket as u16, count);
        }
        histogram.add_lower(0, left);
        histogram.end();
    }

    /// Returns the timed events as a new histogram.
    pub(crate) fn histogram(&self, lowest: Lowest) -> Histogram {
        let mut histogram = Histogram::empty(lowest);
        self.put(&mut histogram);
        histogram
    }
}

/// State of histograms when they were truncated.
pub(crate) struct Truncated {
    /// States by event type minus one.
    events: Mutex<[Option<TruncatedHistograms<ClassId>>; 4]>,
    /// State of digests, including the row without a digest.
    digests: Mutex<Option<TruncatedHistograms<DigestPosition>>>,
}

/// Number of a digest's place, and generation of its owner.
pub(crate) type DigestPosition = (u32, u32);
/// The place of what belongs to no digest.
pub(crate) const NO_DIGEST: DigestPosition = (u32::MAX, 0);

/// State at a TRUNCATE. Valid while the summary's epoch is the same, that is, until the summary is reset.
struct TruncatedHistograms<K> {
    epoch: u32,
    histograms: HashMap<K, HistogramCounts>,
}

impl Truncated {
    pub(crate) const fn new() -> Truncated {
        Truncated { events: Mutex::new([const { None }; 4]), digests: Mutex::new(None) }
    }
}

/// Counts of digests when their histograms were truncated.
pub(crate) struct DigestsBefore(HashMap<DigestPosition, HistogramCounts>);

impl DigestsBefore {
    /// Returns the counts of a digest.
    pub(crate) fn of(&self, place: DigestPosition) -> Option<&HistogramCounts> {
        self.0.get(&place)
    }

    /// Returns the sum over all digests except these. What is stored of digests that have gone belongs to the
    /// row without a digest.
    pub(crate) fn of_others(&self, there: impl Iterator<Item = DigestPosition>) -> HistogramCounts {
        let mut others = HistogramCounts::default();
        if !self.0.is_empty() {
            let there: HashSet<DigestPosition> = there.filter(|place| *place != NO_DIGEST).collect();
            let gone = self.0.iter().filter(|(place, _)| !there.contains(place));
            gone.for_each(|(_, histograms)| others.merge(histograms));
        }
        others
    }
}

/// Returns the family whose cells have the histograms of an event type.
fn family(of: EventType) -> SummaryFamily {
    match of {
        EventType::Transaction => SummaryFamily::Transactions,
        EventType::Statement => SummaryFamily::Statements,
        EventType::Stage => SummaryFamily::Stages,
        EventType::Wait => SummaryFamily::Waits,
    }
}

impl Engine {
    /// Returns the histogram of every instrument of a type that has timed events. Empty if histograms are not
    /// counted.
    pub fn event_histograms(&self, of: EventType) -> Vec<(&'static str, Histogram)> {
        if !self.buckets.are_enabled() {
            return Vec::new();
        }
        let (epoch, histograms) = self.counted_events(of);
        let truncated = lock(&self.truncated.events);
        let before = truncated[of as usize - 1].as_ref().filter(|before| before.epoch == epoch);
        let histogram = |(instrument, mut histograms): (Instrument, HistogramCounts)| {
            let before = before.and_then(|before| before.histograms.get(&instrument.id));
            before.inspect(|before| histograms.subtract(before));
            (instrument.name, histograms.histogram(instrument.kind.lowest()))
        };
        histograms.into_iter().map(histogram).filter(|(_, histogram)| histogram.total() != 0).collect()
    }

    /// Returns the histogram of all statements together.
    pub fn statement_histogram(&self) -> Histogram {
        let all = self.event_histograms(EventType::Statement);
        let mut counts: BTreeMap<u16, u64> = BTreeMap::new();
        for bucket in all.iter().flat_map(|(_, histogram)| histogram.filled()) {
            *counts.entry(bucket.number as u16).or_default() += bucket.count;
        }
        Histogram::new(counts)
    }

    /// Implements TRUNCATE of the histograms of an event type.
    pub(crate) fn truncate_event_histograms(&self, of: EventType) {
        let (epoch, histograms) = self.counted_events(of);
        let histograms =
            histograms.into_iter().map(|(instrument, histograms)| (instrument.id, histograms)).collect();
        lock(&self.truncated.events)[of as usize - 1] = Some(TruncatedHistograms { epoch, histograms });
    }

    /// Implements TRUNCATE of the histograms of digests.
    pub(crate) fn truncate_digest_histograms(&self) {
        let (epoch, histograms) = self.digest_histograms();
        *lock(&self.truncated.digests) = Some(TruncatedHistograms { epoch, histograms });
    }

    /// Returns the counts at the last TRUNCATE of the digests' histograms. `None`: histograms are not
    /// counted.
    pub(crate) fn digests_before(&self) -> Option<DigestsBefore> {
        if !self.buckets.are_enabled() {
            return None;
        }
        let epoch = self.epochs[SummaryFamily::Digests as usize].load(Relaxed);
        let truncated = lock(&self.truncated.digests);
        let before = truncated.as_ref().filter(|before| before.epoch == epoch);
        Some(DigestsBefore(before.map_or_else(HashMap::new, |before| before.histograms.clone())))
    }

    /// Returns the last reset's epoch, and what every instrument of a type has counted since.
    fn counted_events(&self, of: EventType) -> (u32, Vec<(Instrument, HistogramCounts)>) {
        let family = family(of);
        let mut instruments = self.registry.all_of(|kind| SummaryFamily::of(kind) == family);
        instruments.retain(|it| self.summarised(it, Grouping::Global));
        let kind = instruments.first().map_or(Kind::Mutex, |instrument| instrument.kind);
        let epoch = || self.resets[family as usize][Viewer::Global as usize].load(Relaxed);
        let (epoch, histograms) =
            with_cell!(kind, C => self.unfolding(|| (epoch(), self.histograms::<C>(family, &instruments))));
        (epoch, instruments.into_iter().zip(histograms).collect())
    }

    fn histograms<C: Cell>(&self, family: SummaryFamily, of: &[Instrument]) -> Vec<HistogramCounts> {
        let ended = |instrument: &Instrument| match self.ended.bank.peek::<C>(&self.arena, instrument.id) {
            Some(cell) => HistogramCounts::of_shared(&self.arena, &cell.head().histogram, || cell.events()),
            None => HistogramCounts::default(),
        };
        let mut histograms: Vec<HistogramCounts> = of.iter().map(ended).collect();
        for (id, thread) in self.live_threads() {
            let own = self.thread_histograms::<C>(family, thread, of);
            if self.still_lives(thread, id) {
                own.into_iter().for_each(|(at, own)| histograms[at].merge(&own));
            }
        }
        histograms
    }

    /// Returns the thread's histograms by position of the instrument. The caller checks afterwards that the
    /// thread still lives, else they are meaningless.
    fn thread_histograms<C: Cell>(
        &self,
        family: SummaryFamily,
        thread: &Thread,
        of: &[Instrument],
    ) -> Vec<(usize, HistogramCounts)> {
        let mut histograms = Vec::new();
        for bank in [BANK_OWN, BANK_UNATTRIBUTED].map(|bank| &thread.banks[bank]) {
            bank.peek_places(&self.arena, of.iter().map(|it| it.id), |at, cell| {
                let Some(cell) = self.arena.get::<C>(cell) else { return };
                if self.counts_for(family, Viewer::Global, cell.head().epoch.load(Relaxed)) {
                    histograms
                        .push((at, HistogramCounts::of_own(self, thread, cell.head(), || cell.events())));
                }
            });
        }
        histograms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histograms(events: u64, higher: &[(u32, u64)]) -> HistogramCounts {
        let mut histograms = HistogramCounts::default();
        histograms.become_of(events, higher.iter().copied());
        histograms
    }

    fn filled(histograms: &HistogramCounts) -> Vec<(u32, u64)> {
        histograms.histogram(Lowest::Usual).filled().map(|bucket| (bucket.number, bucket.count)).collect()
    }

    #[test]
    fn what_is_in_no_higher_bucket_is_in_the_lowest_and_what_was_not_timed_in_none() {
        assert_eq!(filled(&histograms(10, &[(3, 4), (UNTIMED, 1)])), [(0, 5), (3, 4)]);
        assert_eq!(filled(&histograms(4, &[(3, 4)])), [(3, 4)]);
        assert_eq!(filled(&histograms(2, &[(UNTIMED, 2)])), []);
    }

    #[test]
    fn buckets_never_hold_more_than_there_are_events() {
        assert_eq!(filled(&histograms(5, &[(3, 4), (9, 3)])), [(3, 2), (9, 3)]);
        assert_eq!(filled(&histograms(1, &[(3, 4), (UNTIMED, 2)])), []);
    }

    #[test]
    fn what_was_there_before_is_subtracted_bucket_by_bucket() {
        let before = histograms(7, &[(3, 2), (UNTIMED, 1)]);
        let mut now = before.clone();
        now.merge(&histograms(5, &[(3, 1), (8, 2)]));
        now.subtract(&before);
        assert_eq!(filled(&now), [(0, 2), (3, 1), (8, 2)]);
    }
}
