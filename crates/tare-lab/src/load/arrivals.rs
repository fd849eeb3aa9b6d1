//! An open loop: transactions start at times that do not depend on how fast the server answers.
//!
//! Arrivals are a Poisson process, as of many independent clients. At each arrival its time goes into a pipe.
//! The first idle connection takes it (`workloads/paced.lua`); without an idle one it waits in the pipe.
//! Latency counts from the arrival, so a stall is charged to all transactions that waited for it. sysbench's
//! own `--rate` is similar, but its idle connections sleep for half the time between two of their arrivals,
//! and that counts as latency: point selects that take 0.2 ms, 100 per second on 4 connections, had 6 ms on
//! average.

use std::io::Write;
use std::process::ChildStdin;
use std::time::Duration;

use nix::sys::prctl;
use nix::time::{ClockId, clock_gettime};

use crate::results::latency::latency;
use crate::results::record::Latency;

/// Prefix of the driver's lines about latencies.
const MARK: &str = "paced ";

/// Expected arrivals of a slice that must have some: one slice in twenty thousand has none.
const EXPECTED: f64 = 10.0;

/// A rate of arrivals and the seed of their times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    /// Arrivals per second, on average.
    pub rate: f64,
    /// Seed of the times between them; equal seeds give equal times.
    pub seed: u64,
}

impl Arrivals {
    /// Returns the arrivals of a slice after so many failed attempts. Each attempt has times of its own.
    pub(crate) fn drawn(rate: f64, mut random: fastrand::Rng, failed: usize) -> Arrivals {
        let seed = std::iter::repeat_with(|| random.u64(..)).nth(failed).unwrap_or_default();
        Arrivals { rate, seed }
    }

    /// Returns the length of a slice: `seconds`, or more where the rate is so low that no transaction might
    /// arrive.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some seconds
    pub(crate) fn enough(seconds: u32, rate: Option<f64>) -> u32 {
        rate.map_or(seconds, |rate| seconds.max((EXPECTED / rate).ceil() as u32))
    }

    /// Returns the arrival times, counted from the load's start.
    fn times(self, seconds: u32) -> impl Iterator<Item = Duration> {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut at = 0.0;
        let next = move || {
            at += -(1.0 - random.f64()).ln() / self.rate;
            (at < f64::from(seconds)).then(|| Duration::from_secs_f64(at))
        };
        std::iter::from_fn(next)
    }

    /// Starts to write the arrivals of `seconds` into the driver's pipe, and closes it after the last one.
    /// Stops early if the driver ends.
    pub(crate) fn feed(self, seconds: u32, mut pipe: ChildStdin) {
        std::thread::spawn(move || {
            let _ = prctl::set_timerslack(1); // without it the kernel wakes us some 50 µs late
            let begun = now();
            for time in self.times(seconds) {
                let due = begun + time;
                std::thread::sleep(due.saturating_sub(now()));
                #[allow(clippy::cast_possible_truncation)] // 584 years
                let nanoseconds = due.as_nanos() as u64;
                if pipe.write_all(&nanoseconds.to_ne_bytes()).is_err() {
                    return;
                }
            }
        });
    }
}

/// Returns the time since the machine's start (`CLOCK_MONOTONIC`).
fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from)
}

/// Parses the latencies of every connection that a paced driver printed: `paced sum 1.234 5678`, `paced
/// 0.001023 417`. `None` for output of other drivers.
pub(crate) fn latency_of(output: &str) -> Option<Latency> {
    let (mut sum, mut all) = (0.0, 0);
    let mut histogram: Vec<(f64, u64)> = vec![];
    for line in output.lines().filter_map(|line| line.strip_prefix(MARK)) {
        let (what, count) = line.rsplit_once(' ')?;
        let count: u64 = count.parse().ok()?;
        match what.strip_prefix("sum ") {
            Some(seconds) => (sum, all) = (sum + seconds.parse::<f64>().ok()?, all + count),
            None => histogram.push((what.parse().ok()?, count)),
        }
    }
    histogram.sort_by(|a, b| a.0.total_cmp(&b.0));
    histogram.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        kept.1 += if same { next.1 } else { 0 };
        same
    });
    #[allow(clippy::cast_precision_loss)] // counts of a slice are far below 2^53
    let mean = sum / all as f64;
    (all > 0).then(|| latency(mean, histogram)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_come_at_the_rate_whatever_is_done_with_them() {
        let arrivals = Arrivals { rate: 500.0, seed: 7 };
        let times: Vec<Duration> = arrivals.times(20).collect();
        // 10,000 plus or minus six standard deviations.
        assert!((9_400..10_600).contains(&times.len()), "{}", times.len());
        assert!(times.is_sorted() && times.last() < Some(&Duration::from_secs(20)));
        // In an exponential distribution, 1 in e is longer than the mean.
        let longer = times.windows(2).filter(|pair| pair[1] - pair[0] > Duration::from_millis(2)).count();
        assert!((3_300..4_060).contains(&longer), "{longer}");
        assert_eq!(times, arrivals.times(20).collect::<Vec<_>>(), "the same seed, the same times");
    }

    #[test]
    fn a_slice_at_a_low_rate_lasts_until_some_have_arrived() {
        assert_eq!(Arrivals::enough(1, None), 1);
        assert_eq!([0.5, 3.0, 10.0, 500.0].map(|rate| Arrivals::enough(1, Some(rate))), [20, 4, 1, 1]);
        assert_eq!(Arrivals::enough(5, Some(3.0)), 5);
        for rate in [0.5, 3.0] {
            let some = |seed| Arrivals { rate, seed }.times(Arrivals::enough(1, Some(rate))).next().is_some();
            assert!((0..1000).all(some), "at {rate} a second");
        }
    }

    #[test]
    fn what_is_tried_again_has_other_arrivals() {
        let drawn = |failed| Arrivals::drawn(2.0, fastrand::Rng::with_seed(3), failed).times(60);
        let first: Vec<Duration> = drawn(0).collect();
        assert_eq!(first, drawn(0).collect::<Vec<_>>(), "of all settings of a block");
        assert_ne!(first, drawn(1).collect::<Vec<_>>());
        assert_ne!(drawn(1).collect::<Vec<_>>(), drawn(2).collect::<Vec<_>>());
    }

    #[test]
    fn latencies_of_all_connections_are_put_together() {
        let output = "Threads started!\npaced sum 0.030 20\npaced 0.001000 10\npaced 0.002000 10\n\
                      paced sum 0.200 1\npaced 0.200000 1\npaced sum 0.004 4\npaced 0.001000 4\n";
        let latency = latency_of(output).expect("latencies");
        assert_eq!(latency.histogram, [(0.001, 14), (0.002, 10), (0.2, 1)]);
        assert!((latency.mean - 0.234 / 25.0).abs() < 1e-12, "{latency:?}");
        assert!(latency.p95 <= 0.002 && latency.p99 > 0.002, "{latency:?}");
        assert_eq!(latency_of("Threads started!\n"), None);
        assert_eq!(latency_of("paced sum 0 0\n"), None);
    }
}
