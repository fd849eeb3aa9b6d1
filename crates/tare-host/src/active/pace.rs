//! How often samples are taken, so that they use no more of a processor than they may.

use std::time::Duration;

/// The number of samples over which their cost is averaged. The interval must not follow a single sample: one
/// that finds many active sessions takes long, and what comes after it would be seen less often.
const AVERAGED: u32 = 32;
/// The longest interval to which the budget leads, as long as any that may be asked for.
const LONGEST: Duration = Duration::from_secs(60);

/// What samples cost, and how often they may be taken for that.
pub(super) struct Pace {
    /// CPU time of a sample, averaged.
    cost: Duration,
    /// The share of one processor that samples may use; `None`: any.
    budget: Option<f64>,
}

impl Pace {
    pub(super) const fn new(budget: Option<f64>) -> Pace {
        Pace { cost: Duration::ZERO, budget }
    }

    /// Notes the CPU time that a sample took.
    pub(super) fn took(&mut self, cost: Duration) {
        self.cost = (self.cost * (AVERAGED - 1) + cost) / AVERAGED;
    }

    /// Returns the interval, in whole milliseconds, for samples that are to be taken at this one; 0: never.
    pub(super) fn interval(&self, wanted: Duration) -> Duration {
        match self.budget {
            Some(share) if !wanted.is_zero() => {
                let affordable = self.cost.as_secs_f64() / share * 1000.0;
                wanted.max(Duration::from_millis(affordable.ceil() as u64).min(LONGEST))
            }
            _ => wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Duration = Duration::from_millis(10);

    /// Returns the share of one processor that samples of these costs take.
    fn share(pace: &mut Pace, costs: impl Iterator<Item = Duration>) -> f64 {
        let (mut spent, mut passed) = (Duration::ZERO, Duration::ZERO);
        for cost in costs {
            pace.took(cost);
            spent += cost;
            passed += pace.interval(WANTED);
        }
        spent.div_duration_f64(passed)
    }

    #[test]
    fn samples_take_at_most_a_hundredth_of_a_processor() {
        let steady = |micros| std::iter::repeat_n(Duration::from_micros(micros), 10_000);
        assert!((share(&mut Pace::new(Some(0.01)), steady(50)) - 0.005).abs() < 1e-9, "as often as wanted");
        for micros in [200, 5_000] {
            let share = share(&mut Pace::new(Some(0.01)), steady(micros));
            assert!((0.0097..0.0101).contains(&share), "{share}");
        }
        let changing = (0..10_000).map(|it| Duration::from_micros(if it % 7 == 0 { 2_000 } else { 30 }));
        let changing = share(&mut Pace::new(Some(0.01)), changing);
        assert!((0.0097..0.0101).contains(&changing), "{changing}");
        assert!(share(&mut Pace::new(None), steady(200)) > 0.019);
        let mut tiny = Pace::new(Some(1e-6));
        share(&mut tiny, steady(200).take(100));
        assert_eq!(tiny.interval(WANTED), LONGEST);
    }

    /// Bursts in which a sample takes fifty times as long as between them, of 50 ms on average: as long as
    /// the interval has to be. Each sample stands for the time since the last.
    #[test]
    fn bursts_are_neither_over_nor_underestimated() {
        const STEP: Duration = Duration::from_micros(100);
        let mut random = 1_u64;
        let mut may_change = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33).is_multiple_of(500)
        };
        let (mut pace, mut is_burst) = (Pace::new(Some(0.01)), false);
        let (mut bursts, mut seen, mut passed, mut since) =
            (Duration::ZERO, Duration::ZERO, Duration::ZERO, Duration::ZERO);
        for _ in 0..20_000_000 {
            is_burst ^= may_change();
            passed += STEP;
            since += STEP;
            bursts += if is_burst { STEP } else { Duration::ZERO };
            if since >= pace.interval(WANTED) {
                seen += if is_burst { since } else { Duration::ZERO };
                pace.took(Duration::from_micros(if is_burst { 1_000 } else { 20 }));
                since = Duration::ZERO;
            }
        }
        let (truth, estimate) = (bursts.div_duration_f64(passed), seen.div_duration_f64(passed));
        assert!((truth - estimate).abs() < 0.01 && (0.48..0.52).contains(&truth), "{truth} {estimate}");
    }

    #[test]
    fn one_long_sample_hardly_counts_and_is_forgotten() {
        let mut pace = Pace::new(Some(0.01));
        pace.took(Duration::from_millis(1));
        assert_eq!(pace.interval(WANTED), WANTED);
        pace.took(Duration::from_millis(20));
        assert!(pace.interval(WANTED) > WANTED);
        (0..200).for_each(|_| pace.took(Duration::from_micros(20)));
        assert_eq!(pace.interval(WANTED), WANTED);
        assert_eq!(pace.interval(Duration::ZERO), Duration::ZERO, "off stays off");
    }
}
