//! Histograms: what threads and ended threads counted, less what was there when a histogram was truncated.
//!
//! TRUNCATE of a histogram alone changes nothing that anybody counts: what is there is remembered, and subtracted from then
//! on. With the summary it goes with, a histogram is reset as that is; what was remembered means nothing any more then.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::Engine;
use crate::count::bank::with_cell;
use crate::count::cell::{Cell, CellHead, Family, Viewer};
use crate::count::spread::{self, UNTIMED};
use crate::histogram::Histogram;
use crate::memory::arena::{Arena, Offset};
use crate::setup::instrument::lock;
use crate::snapshot::{ClassId, EventType, Instrument, Kind, Level};
use crate::thread::{BANK_OWN, BANK_UNATTRIBUTED, Thread};

/// How many events there were, and how many of them in each bucket but the lowest.
#[derive(Clone, Default, Debug)]
pub(crate) struct Spread {
    pub(crate) events: u64,
    higher: BTreeMap<u32, u64>,
}

impl Spread {
    /// Of a thread's own cell. Buckets first: an event is counted before it gets into one.
    pub(crate) fn of_own(arena: &Arena, head: &CellHead, events: impl Fn() -> u64) -> Spread {
        let mut spread = Spread::default();
        spread::each(arena, head, |bucket, count| spread.add(bucket, count));
        let (untimed, since) = spread::untimed_events(arena, head);
        spread.events = events();
        let untimed = untimed.saturating_add(since.map_or(0, |since| spread.events.saturating_sub(since)));
        if untimed != 0 {
            spread.add(UNTIMED, untimed);
        }
        spread
    }

    /// Of what threads share, likewise.
    pub(crate) fn of_shared(arena: &Arena, histogram: &AtomicU32, events: impl Fn() -> u64) -> Spread {
        let mut spread = Spread::default();
        spread::each_shared(arena, histogram, |bucket, count| spread.add(bucket, count));
        Spread { events: events(), ..spread }
    }

    fn add(&mut self, bucket: u32, count: u64) {
        *self.higher.entry(bucket).or_default() += count;
    }

    pub(crate) fn merge(&mut self, other: &Spread) {
        self.events += other.events;
        other.higher.iter().for_each(|(bucket, count)| self.add(*bucket, *count));
    }

    /// What has been added to `earlier` since.
    fn since(&self, earlier: &Spread) -> Spread {
        let before = |bucket| earlier.higher.get(bucket).copied().unwrap_or(0);
        let higher =
            self.higher.iter().map(|(bucket, count)| (*bucket, count.saturating_sub(before(bucket))));
        Spread { events: self.events.saturating_sub(earlier.events), higher: higher.collect() }
    }

    /// The buckets of the timed ones: what is in no higher one is in the lowest. They add up to as many as there are, whatever
    /// was just being reset.
    pub(crate) fn histogram(&self) -> Histogram {
        let untimed = self.higher.get(&UNTIMED).copied().unwrap_or(0);
        let mut left = self.events.saturating_sub(untimed);
        let mut counts: Vec<(u16, u64)> = Vec::with_capacity(self.higher.len() + 1);
        for (bucket, count) in self.higher.range(..UNTIMED).rev() {
            let count = left.min(*count);
            left -= count;
            counts.push((*bucket as u16, count));
        }
        counts.push((0, left));
        Histogram::new(counts.into_iter().rev())
    }
}

/// What was there when histograms were truncated.
pub(crate) struct Truncated {
    /// By event type minus one.
    events: Mutex<[Option<Before<ClassId>>; 4]>,
    /// By place and generation; 0 stands for the row without a digest.
    digests: Mutex<Option<Before<Place>>>,
}

type Place = (Offset, u32);
/// The row without a digest.
const NO_DIGEST: Place = (0, 0);

/// It means something while the summary has not been reset since: that has an epoch.
struct Before<K> {
    epoch: u32,
    spreads: HashMap<K, Spread>,
}

impl Truncated {
    pub(crate) const fn new() -> Truncated {
        Truncated { events: Mutex::new([const { None }; 4]), digests: Mutex::new(None) }
    }
}

/// What digests had counted when their histograms were truncated; `None` without histograms.
pub(crate) struct DigestsBefore(Option<HashMap<Place, Spread>>);

impl DigestsBefore {
    /// What a digest's histogram shows.
    pub(crate) fn take(&mut self, place: Place, spread: &Spread) -> Histogram {
        let Some(before) = &mut self.0 else { return Histogram::default() };
        match before.remove(&place) {
            Some(before) => spread.since(&before).histogram(),
            None => spread.histogram(),
        }
    }

    /// What that of the row without a digest shows, once all others have been asked for: what was remembered of digests that
    /// are there no more is of those it collects.
    pub(crate) fn take_rest(self, spread: &Spread) -> Histogram {
        let Some(evicted) = self.0 else { return Histogram::default() };
        let mut before = Spread::default();
        evicted.values().for_each(|evicted| before.merge(evicted));
        spread.since(&before).histogram()
    }
}

/// The family whose cells have the histograms of an event type.
fn family(of: EventType) -> Family {
    match of {
        EventType::Transaction => Family::Transactions,
        EventType::Statement => Family::Statements,
        EventType::Stage => Family::Stages,
        EventType::Wait => Family::Waits,
    }
}

impl Engine {
    /// The histogram of every instrument of a type that has timed events; nothing where there are none.
    pub fn event_histograms(&self, of: EventType) -> Vec<(&'static str, Histogram)> {
        if !self.buckets.are_told() {
            return Vec::new();
        }
        let (epoch, spreads) = self.event_spreads(of);
        let truncated = lock(&self.truncated.events);
        let before = truncated[of as usize - 1].as_ref().filter(|before| before.epoch == epoch);
        let histogram = |(instrument, spread): (Instrument, Spread)| {
            let before = before.and_then(|before| before.spreads.get(&instrument.id));
            let spread = before.map_or_else(|| spread.clone(), |before| spread.since(before));
            (instrument.name, spread.histogram())
        };
        spreads.into_iter().map(histogram).filter(|(_, histogram)| histogram.total() != 0).collect()
    }

    /// The histogram of all statements together.
    pub fn statement_histogram(&self) -> Histogram {
        let all = self.event_histograms(EventType::Statement);
        let mut counts: BTreeMap<u16, u64> = BTreeMap::new();
        for bucket in all.iter().flat_map(|(_, histogram)| histogram.filled()) {
            *counts.entry(bucket.number as u16).or_default() += bucket.count;
        }
        Histogram::new(counts)
    }

    /// TRUNCATE of the histograms of an event type.
    pub(crate) fn truncate_event_histograms(&self, of: EventType) {
        let (epoch, spreads) = self.event_spreads(of);
        let spreads = spreads.into_iter().map(|(instrument, spread)| (instrument.id, spread)).collect();
        lock(&self.truncated.events)[of as usize - 1] = Some(Before { epoch, spreads });
    }

    /// TRUNCATE of the digests' histograms.
    pub(crate) fn truncate_digest_histograms(&self) {
        let epoch = self.epochs[Family::Digests as usize].load(Relaxed);
        let (digests, rest) = self.unfolding(|| self.digest_tallies());
        let spreads = digests.into_iter().map(|(place, (generation, sum))| ((place, generation), sum.spread));
        let spreads = spreads.chain([(NO_DIGEST, rest.spread)]).collect();
        *lock(&self.truncated.digests) = Some(Before { epoch, spreads });
    }

    pub(crate) fn digests_before(&self) -> DigestsBefore {
        if !self.buckets.are_told() {
            return DigestsBefore(None);
        }
        let epoch = self.epochs[Family::Digests as usize].load(Relaxed);
        let truncated = lock(&self.truncated.digests);
        let before = truncated.as_ref().filter(|before| before.epoch == epoch);
        DigestsBefore(Some(before.map_or_else(HashMap::new, |before| before.spreads.clone())))
    }

    /// What every instrument of a type has counted since the epoch that is returned, too.
    fn event_spreads(&self, of: EventType) -> (u32, Vec<(Instrument, Spread)>) {
        let family = family(of);
        let epoch = self.resets[family as usize][Viewer::Global as usize].load(Relaxed);
        let is_of = |it: &Instrument| Family::of(it.kind) == family && self.summarised(it, Level::Global);
        let instruments: Vec<Instrument> = self.registry.all().into_iter().filter(is_of).collect();
        let kind = instruments.first().map_or(Kind::Mutex, |instrument| instrument.kind);
        let spreads = with_cell!(kind, C => self.unfolding(|| self.spreads::<C>(family, &instruments)));
        (epoch, instruments.into_iter().zip(spreads).collect())
    }

    fn spreads<C: Cell>(&self, family: Family, of: &[Instrument]) -> Vec<Spread> {
        let ended = |instrument: &Instrument| match self.ended.bank.peek::<C>(&self.arena, instrument.id) {
            Some(cell) => Spread::of_shared(&self.arena, &cell.head().histogram, || cell.events()),
            None => Spread::default(),
        };
        let mut spreads: Vec<Spread> = of.iter().map(ended).collect();
        for thread in self.live_threads() {
            let id = thread.thread_id.load(Relaxed);
            let own = self.thread_spreads::<C>(family, thread, of);
            if self.still_lives(thread, id) {
                own.into_iter().for_each(|(at, own)| spreads[at].merge(&own));
            }
        }
        spreads
    }

    /// By position of the instrument; means nothing if the thread no longer lives afterwards.
    fn thread_spreads<C: Cell>(
        &self,
        family: Family,
        thread: &Thread,
        of: &[Instrument],
    ) -> Vec<(usize, Spread)> {
        let mut spreads = Vec::new();
        for bank in [BANK_OWN, BANK_UNATTRIBUTED].map(|bank| &thread.banks[bank]) {
            for (at, instrument) in of.iter().enumerate() {
                let Some(cell) = bank.peek::<C>(&self.arena, instrument.id) else { continue };
                if self.counts_for(family, Viewer::Global, cell.head().epoch.load(Relaxed)) {
                    spreads.push((at, Spread::of_own(&self.arena, cell.head(), || cell.events())));
                }
            }
        }
        spreads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(events: u64, higher: &[(u32, u64)]) -> Spread {
        Spread { events, higher: higher.iter().copied().collect() }
    }

    fn filled(spread: &Spread) -> Vec<(u32, u64)> {
        spread.histogram().filled().map(|bucket| (bucket.number, bucket.count)).collect()
    }

    #[test]
    fn what_is_in_no_higher_bucket_is_in_the_lowest_and_what_was_not_timed_in_none() {
        assert_eq!(filled(&spread(10, &[(3, 4), (UNTIMED, 1)])), [(0, 5), (3, 4)]);
        assert_eq!(filled(&spread(4, &[(3, 4)])), [(3, 4)]);
        assert_eq!(filled(&spread(2, &[(UNTIMED, 2)])), []);
    }

    #[test]
    fn buckets_never_hold_more_than_there_are_events() {
        assert_eq!(filled(&spread(5, &[(3, 4), (9, 3)])), [(3, 2), (9, 3)]);
        assert_eq!(filled(&spread(1, &[(3, 4), (UNTIMED, 2)])), []);
    }

    #[test]
    fn what_was_there_before_is_subtracted_bucket_by_bucket() {
        let before = spread(7, &[(3, 2), (UNTIMED, 1)]);
        let mut now = before.clone();
        now.merge(&spread(5, &[(3, 1), (8, 2)]));
        assert_eq!(filled(&now.since(&before)), [(0, 2), (3, 1), (8, 2)]);
    }
}
