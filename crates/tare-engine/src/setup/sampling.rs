//! Sampling of statements: how many are chosen, and how many a chosen one stands for.
//!
//! The setting is a rate: so many chosen statements per second in the whole server. A few times per second
//! the host calls [`Engine::adjust_sampling`]. It counts the statements since the last call and sets the
//! *weight*: one statement in that many is chosen. While the server runs fewer statements than the rate, the
//! weight is 1: every statement is chosen, and nothing is estimated. What a client's connection does before
//! its first statement is chosen in the same way.
//!
//! Whoever reads ended statements as a stream wants those, too, that were not chosen: see [`super::readers`].

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::readers::StatementReaders;
use crate::Engine;

/// Setting for the choice of statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SampleRate {
    /// About so many per second in the whole server.
    PerSecond(u32),
    /// One in so many, whatever the load. For measurements.
    OneIn(u32),
}

/// State of sampling, for readers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SamplingState {
    /// The rate that was set.
    pub rate: SampleRate,
    /// The rate in effect: lower than `rate` if [`Engine::limit_sampling`] limits it.
    pub rate_now: SampleRate,
    /// Number of statements a chosen one stands for now; 1: every statement is chosen.
    pub weight: u32,
    /// The largest weight since the engine started.
    pub largest_weight: u32,
    /// Run time after which a statement that was not chosen is recorded from then on.
    pub slow_after: Duration,
    /// Run time from which an ended statement is recorded, chosen or not: `slow_after`, or less while
    /// somebody reads the stream of statements.
    pub recorded_from: Duration,
    /// Number of statements begun, as of the last [`Engine::adjust_sampling`].
    pub begun: u64,
    /// Expected number of chosen statements among them, according to the weights.
    pub chosen: f64,
}

/// Largest weight: sums at as many as 2^32 statements per second still grow by less than 2^64 in a year.
const MAX_WEIGHT: u32 = 1 << 20;

/// Probability with which a statement is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    const fn one_in(weight: u32) -> Chance {
        Chance((weight as u64) << 32 | (u32::MAX / weight) as u64)
    }

    /// Returns the largest of the 2^32 random numbers that chooses.
    #[inline(always)]
    pub(crate) fn threshold(self) -> u32 {
        self.0 as u32
    }

    /// Returns the number of statements that a chosen one stands for.
    #[inline(always)]
    pub(crate) fn weight(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// State of the control of the rate.
pub(super) struct SamplingControl {
    rate: SampleRate,
    /// Maximum per second, whatever the rate; `None`: no limit.
    limit: Option<u32>,
    slow_after: Duration,
    /// Those who read ended statements now.
    pub(super) readers: StatementReaders,
    /// Time of the last count of statements, and their number.
    last: Option<(Instant, u32)>,
    /// Statements per second, smoothed.
    per_second: f64,
    /// Same meaning as in [`SamplingState`].
    begun: u64,
    chosen: f64,
}

/// Sampling state of the engine. The words that threads read are on a line of their own.
#[repr(C, align(64))]
pub(crate) struct SamplingSettings {
    chance: AtomicU64,
    slow_after_ticks: AtomicU64,
    /// Least time of an ended statement that is recorded although it was not chosen; `slow_after_ticks` at
    /// most.
    record_from_ticks: AtomicU64,
    /// Statements of threads that have ended; see `begun` of [`crate::thread::Thread`].
    pub(crate) departed: AtomicU32,
    largest_weight: AtomicU32,
    control: Mutex<SamplingControl>,
}

impl SamplingSettings {
    pub(crate) const fn new() -> SamplingSettings {
        SamplingSettings {
            chance: AtomicU64::new(Chance::one_in(1).0),
            slow_after_ticks: AtomicU64::new(u64::MAX),
            record_from_ticks: AtomicU64::new(u64::MAX),
            departed: AtomicU32::new(0),
            largest_weight: AtomicU32::new(1),
            control: Mutex::new(SamplingControl {
                rate: SampleRate::PerSecond(1000),
                limit: None,
                slow_after: Duration::from_millis(10),
                readers: StatementReaders::NONE,
                last: None,
                per_second: 0.0,
                begun: 0,
                chosen: 0.0,
            }),
        }
    }

    #[inline(always)]
    pub(crate) fn chance(&self) -> Chance {
        Chance(self.chance.load(Relaxed))
    }

    #[inline(always)]
    pub(crate) fn slow_after_ticks(&self) -> u64 {
        self.slow_after_ticks.load(Relaxed)
    }

    /// Returns the least time, in ticks, of an ended statement that is recorded although it was not chosen.
    #[inline(always)]
    pub(crate) fn record_from_ticks(&self) -> u64 {
        self.record_from_ticks.load(Relaxed)
    }

    fn set_weight(&self, weight: u32) {
        let weight = weight.clamp(1, MAX_WEIGHT);
        self.chance.store(Chance::one_in(weight).0, Relaxed);
        self.largest_weight.fetch_max(weight, Relaxed);
    }

    pub(super) fn control(&self) -> std::sync::MutexGuard<'_, SamplingControl> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SamplingControl {
    /// Returns the weight for the coming interval, given the statements begun in the last one and its length.
    fn weight_after(&mut self, statements: u64, seconds: f64) -> u32 {
        let now = statements as f64 / seconds;
        let has_jumped = now > 2.0 * self.per_second || now < self.per_second / 2.0;
        self.per_second = if has_jumped { now } else { (self.per_second + now) / 2.0 };
        self.weight()
    }

    /// Returns the weight for the recent number of statements per second.
    fn weight(&self) -> u32 {
        let of_rate = match self.rate {
            SampleRate::OneIn(weight) => weight,
            SampleRate::PerSecond(rate) => self.weight_of(rate),
        };
        of_rate.max(self.limit.map_or(1, |limit| self.weight_of(limit)))
    }

    /// Returns the weight at which `rate` statements per second are chosen.
    fn weight_of(&self, rate: u32) -> u32 {
        let weight = (self.per_second / f64::from(rate.max(1))).ceil();
        weight.clamp(1.0, f64::from(MAX_WEIGHT)) as u32
    }

    /// Returns the rate that decides on the weight.
    fn rate_now(&self) -> SampleRate {
        match (self.rate, self.limit) {
            (SampleRate::PerSecond(rate), Some(limit)) => SampleRate::PerSecond(rate.min(limit)),
            (SampleRate::OneIn(weight), Some(limit)) if self.weight_of(limit) > weight => {
                SampleRate::PerSecond(limit)
            }
            (rate, _) => rate,
        }
    }
}

impl Engine {
    /// Sets how statements are chosen, and after which run time one is recorded from then on.
    pub fn set_sampling(&self, rate: SampleRate, slow_after: Duration) {
        let mut control = self.sampling.control();
        control.rate = rate;
        control.slow_after = slow_after;
        self.set_weight_now(&control);
    }

    /// Limits the number of chosen statements per second, whatever rate was set. `None` removes the limit.
    pub fn limit_sampling(&self, limit: Option<u32>) {
        let mut control = self.sampling.control();
        control.limit = limit;
        self.set_weight_now(&control);
    }

    /// Sets the weight for the recent number of statements per second.
    fn set_weight_now(&self, control: &SamplingControl) {
        self.sampling.set_weight(if self.registry.has_sampled() { control.weight() } else { 1 });
    }

    /// Sets the weight for the number of statements since the last call. The host calls this a few times per
    /// second. The first call converts `slow_after` to ticks; until then no statement is slow.
    pub fn adjust_sampling(&self) {
        let mut control = self.sampling.control();
        let slow_after_ps = control.slow_after.as_nanos().saturating_mul(1000);
        self.sampling.slow_after_ticks.store(self.ticks_of(slow_after_ps), Relaxed);
        self.record_as_readers_want(&control);
        let (now, seen) = (Instant::now(), self.statements_begun());
        let Some((then, before)) = control.last.replace((now, seen)) else { return };
        let seconds = now.duration_since(then).as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        let begun = u64::try_from(seen.wrapping_sub(before).cast_signed()).unwrap_or(0);
        control.begun += begun;
        control.chosen += begun as f64 / f64::from(self.sampling.chance().weight());
        control.weight_after(begun, seconds);
        // While nothing is estimated there is nothing to choose.
        self.set_weight_now(&control);
    }

    /// Sets from which time on ended statements are recorded, for the readers there are.
    pub(super) fn record_as_readers_want(&self, control: &SamplingControl) {
        let wanted = control.readers.least_ps().map_or(u64::MAX, |ps| self.ticks_of(ps.into()));
        self.sampling.record_from_ticks.store(wanted.min(self.sampling.slow_after_ticks()), Relaxed);
    }

    /// Returns a time in whole ticks, rounded down.
    fn ticks_of(&self, ps: u128) -> u64 {
        u64::try_from((ps << 32) / u128::from(self.clock.rate().max(1))).unwrap_or(u64::MAX)
    }

    /// Sets the weight to 1 if no instrument is sampled.
    pub(crate) fn choose_all_if_none_is_sampled(&self) {
        if !self.registry.has_sampled() {
            self.sampling.set_weight(1);
        }
    }

    /// Returns the state of sampling.
    pub fn sampling(&self) -> SamplingState {
        let control = self.sampling.control();
        let wanted = control.readers.least_ps().map_or(Duration::MAX, |ps| Duration::from_nanos(ps / 1000));
        SamplingState {
            rate: control.rate,
            rate_now: control.rate_now(),
            weight: self.sampling.chance().weight(),
            largest_weight: self.sampling.largest_weight.load(Relaxed),
            slow_after: control.slow_after,
            recorded_from: wanted.min(control.slow_after),
            begun: control.begun,
            chosen: control.chosen,
        }
    }

    /// Returns the number of statements that clients have begun.
    fn statements_begun(&self) -> u32 {
        self.unfolding(|| {
            let departed = self.sampling.departed.load(Relaxed);
            self.live_threads().iter().fold(departed, |sum, (id, thread)| {
                let begun = thread.begun.load(Relaxed);
                if self.still_lives(thread, *id) { sum.wrapping_add(begun) } else { sum }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(rate: SampleRate) -> SamplingControl {
        let (limit, slow_after, readers, last) = (None, Duration::ZERO, StatementReaders::NONE, None);
        SamplingControl { rate, limit, slow_after, readers, last, per_second: 0.0, begun: 0, chosen: 0.0 }
    }

    #[test]
    fn below_the_rate_every_statement_is_chosen() {
        let mut control = control(SampleRate::PerSecond(1000));
        for statements in [0, 1, 200, 249, 250] {
            assert_eq!(control.weight_after(statements, 0.25), 1, "{statements}");
        }
    }

    #[test]
    fn the_weight_rises_and_falls_with_the_load() {
        let mut control = control(SampleRate::PerSecond(1000));
        assert_eq!(control.weight_after(16_000, 0.25), 64);
        assert_eq!(control.weight_after(16_000, 0.25), 64);
        assert_eq!(control.weight_after(18_000, 0.25), 68, "half of what is new");
        assert_eq!(control.weight_after(100, 0.25), 1);
    }

    #[test]
    fn a_limit_lowers_the_rate_and_never_raises_it() {
        let mut control = control(SampleRate::PerSecond(1000));
        control.limit = Some(10);
        assert_eq!(control.weight_after(16_000, 0.25), 6400);
        assert_eq!(control.rate_now(), SampleRate::PerSecond(10));
        control.limit = Some(2000);
        assert_eq!((control.weight(), control.rate_now()), (64, SampleRate::PerSecond(1000)));
        control.rate = SampleRate::OneIn(16);
        assert_eq!((control.weight(), control.rate_now()), (32, SampleRate::PerSecond(2000)));
        control.rate = SampleRate::OneIn(64);
        assert_eq!((control.weight(), control.rate_now()), (64, SampleRate::OneIn(64)));
    }

    #[test]
    fn a_chance_is_as_large_as_its_weight_says() {
        for weight in [1, 2, 3, 16, 64, 1000, MAX_WEIGHT] {
            let chance = Chance::one_in(weight);
            let of_all = (f64::from(chance.threshold()) + 1.0) / 2f64.powi(32) * f64::from(weight);
            assert_eq!(chance.weight(), weight);
            assert!((of_all - 1.0).abs() < 0.001, "{weight}: {of_all}");
        }
    }
}
