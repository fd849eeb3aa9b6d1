//! Statements by digest: what threads have counted and not yet moved to the places all share, and what is there.
//!
//! A server may have thousands of digests and is asked for them again and again. So figures are added up in one array
//! (`tallies`), and one row is filled anew for each digest. Of names only what is asked for is read, and a hash that the host
//! has made of a digest is kept as long as the digest keeps its place. What was read can be looked at again: who wants few
//! digests of many looks at the figures of all, and has names and quantiles made of those few.

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem::offset_of;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};

use super::histogram::{DigestsBefore, Place, Spread, each_bucket};
use super::summary::counters;
use super::tallies::{NO_PLACE, REST, Sum, Tallies};
use super::{Scale, patiently};
use crate::Engine;
use crate::count::cell::{Cell, Family};
use crate::count::counters::PlainCounters;
use crate::count::digest::{DigestCell, DigestMap};
use crate::count::digest_table::{DigestCounts, DigestSlot, DigestTally};
use crate::count::spread;
use crate::memory::arena::{LINE, Offset};
use crate::memory::text;
use crate::record::statement::Counter;
use crate::setup::instrument::lock;
use crate::snapshot::*;
use crate::spelling::push_hex;
use crate::thread::Thread;

/// How far ahead of what is read memory is asked for. Digests are thousands of times a few lines, far from one another: to wait
/// for each was more than half of what reading them took.
const AHEAD: usize = 4;
/// Bytes of a slot with its figures, as far as they tell whether there was an earlier tenant.
const COUNTED: usize = offset_of!(DigestSlot, past) + LINE;
/// Where a slot has the name of the schema, in words.
const SCHEMA: Offset = (offset_of!(DigestSlot, schema) / 8) as Offset;

/// All of them one after the other; one that is a few ahead is given to `expect`.
fn expecting<T>(all: impl Iterator<Item = T> + Clone, expect: impl Fn(T)) -> impl Iterator<Item = T> {
    let mut ahead = all.clone().skip(AHEAD);
    all.inspect(move |_| ahead.next().into_iter().for_each(&expect))
}

/// Hashes that the host made of digests, by number of the place, each with the tenant's generation. To make one takes
/// longer than to read all else of a digest.
pub(crate) struct Hashes(Mutex<Vec<(u32, Hash)>>);

type Hash = [u8; 16];

impl Hashes {
    pub(crate) const fn new() -> Hashes {
        Hashes(Mutex::new(Vec::new()))
    }
}

/// What was read of digests besides their figures, by position in [`Tallies::sums`].
#[derive(Default)]
struct Names {
    known: Vec<Name>,
    /// Schemas and tokens.
    bytes: Vec<u8>,
    samples: Vec<Option<CopiedSample>>,
}

/// What was read of a digest: parts of [`Names::bytes`], and what the tokens are.
#[derive(Clone, Copy, Default)]
struct Name {
    schema: (u32, u32),
    tokens: (u32, u32),
    hash: Option<Hash>,
    charset: u32,
    cut: bool,
}

impl Names {
    fn part(&self, (from, to): (u32, u32)) -> &[u8] {
        &self.bytes[from as usize..to as usize]
    }

    /// Copies a text of a slot's.
    fn copy(&mut self, words: &[AtomicU64], len: &AtomicU32) -> (u32, u32) {
        let from = self.bytes.len();
        text::append(words, len.load(Relaxed) as usize, &mut self.bytes);
        (from as u32, self.bytes.len() as u32)
    }

    /// Reads of a slot what is asked for, but for the sample. Of a generation its hash is known.
    fn read(&mut self, slot: &DigestSlot, (of, hash): &(u32, Hash), parts: Parts) -> Name {
        let mut name = Name::default();
        if parts.has(DigestRow::SCHEMA) {
            name.schema = self.copy(&slot.schema, &slot.schema_len);
        }
        if parts.has(DigestRow::DIGEST) {
            let is_known = *of == slot.tenancy.generation();
            name.hash = if is_known { Some(*hash) } else { slot.whole_hash() };
        }
        if parts.has(DigestRow::DIGEST_TEXT) || parts.has(DigestRow::DIGEST) && name.hash.is_none() {
            name.tokens = self.copy(&slot.tokens, &slot.tokens_len);
            name.charset = slot.charset.load(Relaxed);
            name.cut = slot.cut.load(Relaxed) != 0;
        }
        name
    }
}

/// Every digest at one moment, and what has no place, or has it no more. Rows can be looked at again: one is filled anew for
/// each look.
pub struct Digests<'e> {
    engine: &'e Engine,
    scale: Scale<'e>,
    tallies: Tallies,
    names: Names,
    /// Where in the tallies the rows are.
    order: Vec<u32>,
    /// What was counted when histograms were truncated: by digest, and without one.
    before: Option<(DigestsBefore, Spread)>,
    row: DigestRow,
    spread: Spread,
}

impl Digests<'_> {
    /// How many rows there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.order.len()
    }

    /// A row by its position, with those of its parts that were read.
    ///
    /// # Panics
    ///
    /// If there is none at this position.
    pub fn row(&mut self, position: usize, parts: Parts) -> &DigestRow {
        let at = self.order[position] as usize;
        let Digests { engine, scale, tallies, names, row, .. } = self;
        let sum = &tallies.sums[at];
        row.stat.stat = scale.stat(sum.tally.stat);
        if parts.has(DigestRow::COUNTERS) {
            row.stat.sum = counters(sum.tally.counters);
        }
        row.first_seen_us = scale.wall_us(sum.tally.first_seen);
        row.last_seen_us = scale.wall_us(sum.tally.last_seen.max(sum.tally.first_seen));
        if let Some(name) = names.known.get(at) {
            engine.name_row(row, names, name, parts);
        }
        if parts.has(DigestRow::SAMPLE) {
            let sample = names.samples.get(at).and_then(Option::as_ref);
            row.sample = sample.map(|sample| engine.statement_sample(scale, sample));
        }
        if parts.has(DigestRow::HISTOGRAM)
            && let Some((before, rest_before)) = &self.before
        {
            let before = if at == REST { Some(rest_before) } else { before.of(tallies.place(at)) };
            tallies.spread(sum, &mut self.spread);
            before.inspect(|before| self.spread.subtract(before));
            self.spread.put(&mut row.histogram);
        }
        row
    }

    /// Rows whose counts and sums come to what those of all come to: one, or as many as can hold that. Of nothing else do
    /// they mean anything.
    #[must_use]
    pub fn totals(&self) -> Vec<DigestRow> {
        let mut totals = vec![Total::default()];
        for at in &self.order {
            let tally = &self.tallies.sums[*at as usize].tally;
            let sum_ps = self.scale.ps(tally.stat.sum);
            if totals.last_mut().is_none_or(|last| !last.add(tally, sum_ps)) {
                let mut next = Total::default();
                next.add(tally, sum_ps);
                totals.push(next);
            }
        }
        totals.iter().map(Total::row).collect()
    }

    /// Puts those first that were seen first.
    fn sort(&mut self) {
        let sums = &self.tallies.sums;
        let key = |at: &u32| (sums[*at as usize].tally.first_seen, *at);
        let mut order: Vec<(u64, u32)> = self.order.iter().map(key).collect();
        // They are in the order of their places: of those seen at once the first place comes first.
        order.sort_by_key(|(first_seen, _)| *first_seen);
        self.order = order.into_iter().map(|(_, at)| at).collect();
    }
}

/// What several digests come to.
#[derive(Default)]
struct Total {
    count: u64,
    sum_ps: u64,
    counters: PlainCounters,
}

impl Total {
    /// Adds a digest's, or nothing where that is more than a row can say.
    fn add(&mut self, tally: &DigestTally, sum_ps: u64) -> bool {
        // In a row these are picoseconds.
        let times = [(Counter::LockTime, 1_000_000), (Counter::CpuTime, 1_000)];
        let is_told = |(of, ps): (Counter, u64)| {
            let (here, there) = (self.counters.0[of as usize], tally.counters.0[of as usize]);
            here.checked_add(there).is_some_and(|sum| sum <= u64::MAX / ps)
        };
        let sum =
            self.sum_ps.checked_add(sum_ps).filter(|_| self.count == 0 || times.into_iter().all(is_told));
        let Some(sum_ps) = sum else { return false };
        self.sum_ps = sum_ps;
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
    /// Every digest, in the order in which they were first seen: one row, filled anew for each.
    pub fn digests(&self, parts: Parts, each: &mut dyn FnMut(&DigestRow) -> ControlFlow<()>) {
        let mut now = self.digests_now(parts);
        now.sort();
        let _ = (0..now.count()).try_for_each(|position| each(now.row(position, parts)));
    }

    /// Every digest as it is now, in an order that stays. Those parts of rows are read.
    #[must_use]
    pub fn digests_now(&self, parts: Parts) -> Digests<'_> {
        let before = if parts.has(DigestRow::HISTOGRAM) { self.digests_before() } else { None };
        let mut tallies = self.unfolding(|| self.digest_tallies(parts));
        let names = self.digest_names(&mut tallies, parts);
        let order = tallies.by_place();
        let before = before.map(|before| {
            let of_rest = before.of_others(order.iter().map(|at| tallies.place(*at as usize)));
            (before, of_rest)
        });
        let (row, spread) = Default::default();
        Digests { engine: self, scale: Scale::of(self), tallies, names, order, before, row, spread }
    }

    fn name_row(&self, row: &mut DigestRow, names: &Names, name: &Name, parts: Parts) {
        if parts.has(DigestRow::SCHEMA) {
            let schema = names.part(name.schema);
            // Most have that of the one before.
            if row.schema.as_ref().map_or(&[][..], String::as_bytes) != schema {
                row.schema = (!schema.is_empty()).then(|| text::shown(schema));
            }
        }
        if parts.has(DigestRow::DIGEST) {
            row.digest = name.hash.map(|hash| {
                let mut digest = row.digest.take().unwrap_or_default();
                digest.begin(&hash);
                if parts.has(DigestRow::DIGEST_TEXT)
                    && let Some(host) = self.host.get()
                {
                    digest.of(*host, names.part(name.tokens), name.charset, name.cut && self.is_extended());
                }
                digest
            });
        }
    }

    /// Digests that lost their place to others; what they counted is in the row without a digest.
    pub fn evicted_digests(&self) -> u64 {
        self.digests.evicted()
    }

    /// How the events of all digests spread now.
    pub(crate) fn digest_spreads(&self) -> HashMap<Place, Spread> {
        let tallies = self.unfolding(|| self.digest_tallies(DigestRow::HISTOGRAM));
        let spread = |at: usize| {
            let mut spread = Spread::default();
            tallies.spread(&tallies.sums[at], &mut spread);
            (tallies.place(at), spread)
        };
        tallies.by_place().into_iter().map(|at| spread(at as usize)).collect()
    }

    fn digest_tallies(&self, parts: Parts) -> Tallies {
        let epoch = self.epochs[Family::Digests as usize].load(Relaxed);
        let mut tallies = Tallies::of(self.digests.size(), self.digests.places().count());
        let (mut own, mut buckets) = (Vec::new(), Vec::new());
        // Threads first: what they count for a slot they found is not newer than the slot's tenant, then.
        for thread in self.live_threads() {
            let id = thread.thread_id.load(Relaxed);
            own.clear();
            buckets.clear();
            self.thread_digests(thread, epoch, parts, &mut own, &mut buckets);
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
        if let Some(overflow) = self.arena.get::<DigestSlot>(self.digests.overflow()) {
            buckets.clear();
            self.read_shared(&overflow.own, parts, &mut sum.tally, &mut buckets);
            tallies.add(&sum, &buckets);
        }
        let (mut past, mut past_buckets) = (sum, Vec::new());
        let expect = |(_, place)| self.arena.expect_read(place, COUNTED);
        for (number, offset) in expecting(self.digests.places(), expect) {
            let slot: &DigestSlot = self.arena.at(offset);
            let read = patiently(|| {
                buckets.clear();
                past_buckets.clear();
                slot.tenancy.read(|| {
                    self.read_shared(&slot.own, parts, &mut sum.tally, &mut buckets);
                    // Most places have had one tenant.
                    let has_past = slot.past.stat.count.load(Relaxed) != 0;
                    if has_past {
                        self.read_shared(&slot.past, parts, &mut past.tally, &mut past_buckets);
                    }
                    has_past
                })
            });
            let Some((tenant, has_past)) = read else {
                tallies.leave_place(number);
                continue;
            };
            sum.number = number;
            sum.generation = tenant.generation();
            tallies.add(&sum, &buckets);
            if !tenant.is_let() {
                // Entered, and forgotten by TRUNCATE.
                tallies.leave_place(number);
            }
            if has_past {
                tallies.add(&past, &past_buckets);
            }
        }
        tallies
    }

    /// Reads what is in a place, or was. Buckets first: an event is counted before it gets into one.
    #[inline]
    fn read_shared(
        &self,
        counts: &DigestCounts,
        parts: Parts,
        tally: &mut DigestTally,
        buckets: &mut Vec<(u32, u64)>,
    ) {
        if parts.has(DigestRow::HISTOGRAM) {
            spread::each_shared(&self.arena, &counts.histogram, |bucket, count| {
                buckets.push((bucket, count))
            });
        }
        *tally = counts.plain();
    }

    /// What a thread has counted and not yet moved to the places. The buckets of all follow one another.
    fn thread_digests(
        &self,
        thread: &Thread,
        epoch: u32,
        parts: Parts,
        own: &mut Vec<Sum>,
        buckets: &mut Vec<(u32, u64)>,
    ) {
        let map = thread.digest_map.load(Acquire);
        let Some(map) = self.arena.get::<DigestMap>(map) else { return };
        if thread.digest_epoch.load(Relaxed) != epoch {
            return;
        }
        let expect = |cell| self.arena.expect_read(cell, size_of::<DigestCell>());
        let cells: Vec<&DigestCell> = expecting(map.cells(), expect)
            .filter_map(|cell| self.arena.get::<DigestCell>(cell))
            .inspect(|cell| self.arena.expect_read(cell.slot.load(Relaxed), LINE))
            .collect();
        for cell in cells {
            let from = buckets.len();
            if parts.has(DigestRow::HISTOGRAM) {
                let events = || cell.cell.events();
                each_bucket(&self.arena, &cell.cell.head, events, |bucket, count| {
                    buckets.push((bucket, count))
                });
            }
            let tally = DigestTally {
                stat: cell.cell.stat.plain(),
                counters: cell.cell.counters.plain(),
                first_seen: 0,
                last_seen: cell.last_seen.load(Relaxed),
            };
            let generation = cell.generation.load(Relaxed);
            let slot = self.arena.get::<DigestSlot>(cell.slot.load(Relaxed));
            let number = slot.map_or(NO_PLACE, DigestSlot::number);
            own.push(Sum { number, generation, buckets: (buckets.len() - from) as u32, tally });
        }
    }

    /// Who the tenants are that have counted anything. One that has been evicted meanwhile leaves its place.
    fn digest_names(&self, tallies: &mut Tallies, parts: Parts) -> Names {
        let mut names = Names::default();
        if !parts.has(DigestRow::NAMED) {
            return names;
        }
        names.known.resize(tallies.sums.len(), Name::default());
        if parts.has(DigestRow::SAMPLE) {
            names.samples.resize_with(tallies.sums.len(), || None);
        }
        let mut hashes = lock(&self.hashes.0);
        if hashes.is_empty() {
            // No generation is 0.
            hashes.resize(tallies.at.len(), (0, Hash::default()));
        }
        let expect = |(_, place)| {
            self.arena.expect_read(place, LINE);
            self.arena.expect_read(place + SCHEMA, LINE);
        };
        for (number, offset) in expecting(self.digests.places(), expect) {
            let at = tallies.at[number as usize] as usize;
            let Sum { generation, tally: DigestTally { stat, .. }, .. } = &tallies.sums[at];
            if at == REST || stat.count == 0 {
                continue;
            }
            let generation = *generation;
            let slot: &DigestSlot = self.arena.at(offset);
            let known = &mut hashes[number as usize];
            let read = slot.read(|| {
                if let Some(sample) = names.samples.get_mut(at) {
                    *sample = self.sample_of(slot);
                }
                names.read(slot, known, parts)
            });
            let Some((_, mut name)) = read.filter(|(now, _)| *now == generation) else {
                tallies.leave(at);
                continue;
            };
            if parts.has(DigestRow::DIGEST) && name.hash.is_none() {
                name.hash = self.hash_of(names.part(name.tokens), name.charset);
            }
            if let Some(hash) = name.hash
                && known.0 != generation
            {
                *known = (generation, hash);
            }
            names.known[at] = name;
        }
        if let Some(overflow) = self.arena.get::<DigestSlot>(self.digests.overflow())
            && let Some(kept) = names.samples.get_mut(REST)
        {
            *kept = self.sample_of(overflow);
        }
        names
    }

    /// What the host makes of tokens for DIGEST.
    fn hash_of(&self, tokens: &[u8], charset: u32) -> Option<Hash> {
        if tokens.is_empty() { None } else { self.host.get()?.digest(tokens, charset) }
    }

    /// DIGEST and DIGEST_TEXT, as the host spells them. Only in the extended shape a text that was cut says so.
    pub(crate) fn spell(&self, tokens: &KeptTokens) -> Option<DigestText> {
        let KeptTokens { bytes, whole, charset, cut } = tokens;
        let hash = whole.or_else(|| self.hash_of(bytes, *charset))?;
        let text = self.host.get()?.digest_text(bytes, *charset, *cut && self.is_extended())?;
        let mut digest = String::new();
        push_hex(&mut digest, &hash);
        Some(DigestText { digest, text })
    }

    fn sample_of(&self, slot: &DigestSlot) -> Option<CopiedSample> {
        self.digests.samples.read(&self.arena, &slot.sample, |head, words| CopiedSample {
            text: text::read(words, (head.len.load(Relaxed) as usize).min(words.len() * 8)),
            charset: head.charset.load(Relaxed),
            cut: head.cut.load(Relaxed) != 0,
            wait: head.wait.load(Relaxed),
            seen: head.seen.load(Relaxed),
        })
    }

    fn statement_sample(&self, scale: &Scale<'_>, sample: &CopiedSample) -> StatementSample {
        StatementSample {
            text: self.sql_text(&sample.text, sample.charset, sample.cut).map(Cow::into_owned),
            seen_us: scale.wall_us(sample.seen),
            wait_ps: scale.ps(sample.wait),
        }
    }
}

/// A digest's sample as it was copied.
struct CopiedSample {
    text: Vec<u8>,
    charset: u32,
    cut: bool,
    wait: u64,
    seen: u64,
}

/// A copy of a slot's tokens. The host sees only what was read whole.
pub(crate) struct KeptTokens {
    pub(crate) bytes: Vec<u8>,
    pub(crate) whole: Option<Hash>,
    /// What they are spelled in.
    pub(crate) charset: u32,
    pub(crate) cut: bool,
}

impl KeptTokens {
    pub(crate) fn of(slot: &DigestSlot) -> KeptTokens {
        KeptTokens {
            whole: slot.whole_hash(),
            bytes: text::read(&slot.tokens, slot.tokens_len.load(Relaxed) as usize),
            charset: slot.charset.load(Relaxed),
            cut: slot.cut.load(Relaxed) != 0,
        }
    }
}

impl DigestSlot {
    /// The host's hash of all tokens, where it kept more than the slot.
    fn whole_hash(&self) -> Option<Hash> {
        let [low, high] = self.whole().map(u128::from);
        (low | high != 0).then(|| (high << 64 | low).to_le_bytes())
    }
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
        assert!(total.add(&tally(1, MOST_LOCK, 5), u64::MAX - 1));
        for (more, sum_ps) in [(tally(1, 1, 0), 0), (tally(1, 0, u64::MAX / 1000), 0), (tally(1, 0, 0), 2)] {
            assert!(!total.add(&more, sum_ps));
        }
        assert!(total.add(&tally(2, 0, 1), 1));
        let stat = total.row().stat;
        assert_eq!((stat.stat.count, stat.stat.sum_ps), (3, u64::MAX));
        assert_eq!((stat.sum.lock_time_ps, stat.sum.cpu_time_ps), (MOST_LOCK * 1_000_000, 6000));
    }
}
