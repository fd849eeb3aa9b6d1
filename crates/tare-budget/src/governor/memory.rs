//! Memory of event rates: how many events an instrument would have if it were on, judged by a similar load.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::connection::SECOND;

/// The age up to which a remembered rate counts in full, and the half-life of its weight beyond that.
const BELIEVED: Duration = Duration::from_secs(600);

/// Similarity of loads: CPU time per statement, as a power of two nanoseconds. Loads that differ by at most 1
/// are similar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Likeness(i32);

/// The load of one sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampledLoad {
    pub(crate) now: Duration,
    pub(crate) cpu: f64,
    pub(crate) statements: f64,
}

impl SampledLoad {
    pub(crate) fn likeness(&self) -> Likeness {
        let per_statement = self.cpu.max(1.0) / self.statements.max(1.0);
        #[allow(clippy::cast_possible_truncation)] // an exponent
        Likeness(per_statement.log2().round() as i32)
    }
}

impl SampledLoad {
    /// Scales the load to one second of CPU time.
    pub(crate) fn of_a_second(self) -> SampledLoad {
        let times = SECOND / self.cpu.max(1.0);
        SampledLoad { cpu: self.cpu * times, statements: self.statements * times, ..self }
    }
}

impl Likeness {
    pub(crate) fn is_like(self, other: Likeness) -> bool {
        self.0.abs_diff(other.0) <= 1
    }
}

#[derive(Clone, Copy, Debug)]
struct Rate {
    per_cpu: f64,
    per_statement: f64,
    /// Time at which the rate was so high.
    at: Duration,
    /// Time at which the rate was last seen, as high or lower.
    seen: Duration,
}

impl Rate {
    fn faded(self, now: Duration) -> Rate {
        let late = now.saturating_sub(self.at).saturating_sub(BELIEVED);
        let by = 0.5f64.powf(late.as_secs_f64() / BELIEVED.as_secs_f64());
        Rate { per_cpu: self.per_cpu * by, per_statement: self.per_statement * by, ..self }
    }
}

/// Rates of every instrument, by similarity of the load.
#[derive(Clone, Debug, Default)]
pub(crate) struct RatesByLoad {
    rates: BTreeMap<String, BTreeMap<Likeness, Rate>>,
}

impl RatesByLoad {
    /// Records the events of an instrument. The highest rate counts until it has faded, so that what is near
    /// the budget now and then is not switched back and forth. A rate that was not seen for long is replaced.
    pub(crate) fn learn(&mut self, name: &str, events: f64, load: SampledLoad) {
        let seen = Rate {
            per_cpu: events / load.cpu.max(1.0),
            per_statement: events / load.statements.max(1.0),
            at: load.now,
            seen: load.now,
        };
        let rates = self.rates.entry(name.to_owned()).or_default();
        let rate = rates.entry(load.likeness()).or_insert(seen);
        let is_new = load.now.saturating_sub(rate.seen) > BELIEVED;
        if is_new || seen.per_cpu >= rate.faded(load.now).per_cpu {
            *rate = seen;
        }
        rate.seen = load.now;
    }

    /// Predicts the number of events under a load; `None` if the instrument was never seen.
    ///
    /// Under a similar load it uses the rate per CPU time seen then. Under a new kind of load it takes the
    /// lowest number that the nearest load suggests, because only a trial can tell.
    pub(crate) fn predict(&self, name: &str, load: SampledLoad) -> Option<f64> {
        self.known(name, load)?.events(load)
    }

    /// Returns the number of events by the rate last seen, however long ago that is. `None` if the instrument
    /// was never seen.
    pub(crate) fn recall(&self, name: &str, load: SampledLoad) -> Option<f64> {
        let known = self.known(name, load)?;
        known.events(SampledLoad { now: known.last_seen()?, ..load })
    }

    /// Returns the time at which the rate for such a load was last seen.
    pub(crate) fn last_seen(&self, name: &str, load: SampledLoad) -> Option<Duration> {
        self.known(name, load)?.last_seen()
    }

    fn known(&self, name: &str, load: SampledLoad) -> Option<SimilarRates> {
        let rates = self.rates.get(name)?;
        let likeness = load.likeness();
        let alike: Vec<Rate> =
            rates.iter().filter(|(it, _)| it.is_like(likeness)).map(|(_, rate)| *rate).collect();
        if !alike.is_empty() {
            return Some(SimilarRates { rates: alike, are_alike: true });
        }
        let nearest = rates.iter().min_by_key(|(it, _)| it.0.abs_diff(likeness.0))?;
        Some(SimilarRates { rates: vec![*nearest.1], are_alike: false })
    }
}

/// Rates of an instrument under similar loads, or the one under the nearest load.
struct SimilarRates {
    rates: Vec<Rate>,
    are_alike: bool,
}

impl SimilarRates {
    fn events(&self, load: SampledLoad) -> Option<f64> {
        let of = |rate: &Rate| {
            let rate = rate.faded(load.now);
            let events = rate.per_cpu * load.cpu;
            if self.are_alike { events } else { events.min(rate.per_statement * load.statements) }
        };
        self.rates.iter().map(of).reduce(f64::max)
    }

    fn last_seen(&self) -> Option<Duration> {
        self.rates.iter().map(|rate| rate.seen).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(seconds: u64, cpu: f64, statements: f64) -> SampledLoad {
        SampledLoad { now: Duration::from_secs(seconds), cpu, statements }
    }

    #[test]
    fn a_load_like_one_seen_has_its_rate_and_a_new_one_the_least() {
        let mut memory = RatesByLoad::default();
        assert_eq!(memory.predict("m", load(0, 1e9, 1e5)), None);
        memory.learn("m", 1e6, load(0, 1e9, 1e5));
        assert_eq!(memory.predict("m", load(5, 2e9, 2e5)), Some(2e6));
        assert_eq!(memory.predict("m", load(5, 1e9, 10.0)), Some(100.0), "by statements");
        memory.learn("m", 7.0, load(5, 1e9, 10.0));
        assert_eq!(memory.predict("m", load(6, 1e9, 10.0)), Some(7.0));
        assert_eq!(memory.predict("m", load(6, 1e9, 1e5)), Some(1e6));
    }

    #[test]
    fn the_highest_rate_is_believed_until_it_has_faded() {
        let mut memory = RatesByLoad::default();
        memory.learn("m", 1e6, load(0, 1e9, 1e5));
        memory.learn("m", 1e3, load(600, 1e9, 1e5));
        assert_eq!(memory.predict("m", load(600, 1e9, 1e5)), Some(1e6));
        assert_eq!(memory.predict("m", load(1200, 1e9, 1e5)), Some(5e5));
        assert_eq!(memory.recall("m", load(1200, 1e9, 1e5)), Some(1e6));
        memory.learn("m", 6e5, load(1200, 1e9, 1e5));
        assert_eq!(memory.predict("m", load(1800, 1e9, 1e5)), Some(6e5));
        assert_eq!(memory.recall("m", load(7200, 1e9, 1e5)), Some(6e5));
    }

    #[test]
    fn what_was_seen_last_is_recalled_under_loads_alike() {
        let mut memory = RatesByLoad::default();
        memory.learn("m", 1e6, load(0, 1e9, 1e5));
        memory.learn("m", 1e3, load(7200, 1e9, 6e4));
        assert_eq!(memory.last_seen("m", load(9000, 1e9, 1e5)), Some(Duration::from_secs(7200)));
        assert!(memory.recall("m", load(9000, 1e9, 1e5)).is_some_and(|it| it < 2e3));
        assert_eq!(memory.last_seen("other", load(9000, 1e9, 1e5)), None);
    }
}
