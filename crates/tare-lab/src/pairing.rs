//! Blocks in random order, compared within their round.

use serde::Serialize;

use crate::sample::Sample;
use crate::statistics::{Change, Estimate, bootstrap_rows, median};

/// Samples of a study: one per setting in each round, in the settings' order.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Pairing {
    rounds: Vec<Vec<Sample>>,
}

/// The order in which a round gives load to `settings` settings.
pub fn order(settings: usize, random: &mut fastrand::Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..settings).collect();
    random.shuffle(&mut order);
    order
}

impl Pairing {
    /// Adds a round: one sample per setting, in the settings' order.
    pub fn push(&mut self, round: Vec<Sample>) {
        debug_assert!(self.rounds.iter().all(|r| r.len() == round.len()));
        self.rounds.push(round);
    }

    /// Adds the rounds of another part of the same study.
    pub fn append(&mut self, other: Pairing) {
        other.rounds.into_iter().for_each(|round| self.push(round));
    }

    /// Rounds measured.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// Samples of one setting.
    pub fn samples(&self, setting: usize) -> impl Iterator<Item = &Sample> {
        self.rounds.iter().map(move |r| &r[setting])
    }

    /// Median CPU time per transaction of a setting, in seconds.
    pub fn cpu_per_transaction(&self, setting: usize) -> f64 {
        median(&self.samples(setting).map(Sample::cpu_per_transaction).collect::<Vec<_>>())
    }

    /// Median transactions per second of a setting.
    pub fn per_second(&self, setting: usize) -> f64 {
        median(&self.samples(setting).map(|s| s.per_second).collect::<Vec<_>>())
    }

    /// How `setting`'s CPU time per transaction differs from `base`'s; `None` with fewer than two rounds.
    pub fn cpu_change(&self, setting: usize, base: usize) -> Option<Change> {
        Change::of(&self.log_ratios(setting, base, Sample::cpu_per_transaction))
    }

    /// How `setting`'s throughput differs from `base`'s; `None` with fewer than two rounds.
    pub fn throughput_change(&self, setting: usize, base: usize) -> Option<Change> {
        Change::of(&self.log_ratios(setting, base, |s| s.per_second))
    }

    /// How many times as much CPU `dear` adds over `base` as `cheap` does: the ratio of the two added costs.
    /// `None` where `cheap`'s cost cannot be told from zero, so that no such figure exists.
    pub fn times_dearer(&self, dear: usize, cheap: usize, base: usize) -> Option<Estimate> {
        let of = |s| self.log_ratios(s, base, Sample::cpu_per_transaction);
        let added = Change::of(&of(cheap))?;
        if added.median.low <= 0.0 || added.mean.low <= 0.0 {
            return None;
        }
        let rows: Vec<(f64, f64)> = of(dear).into_iter().zip(of(cheap)).collect();
        Some(bootstrap_rows(&rows, |rows| {
            let column = |f: fn(&(f64, f64)) -> f64| median(&rows.iter().map(f).collect::<Vec<_>>()).exp_m1();
            column(|r| r.0) / column(|r| r.1)
        }))
    }

    fn log_ratios(&self, setting: usize, base: usize, figure: impl Fn(&Sample) -> f64) -> Vec<f64> {
        self.rounds.iter().map(|r| (figure(&r[setting]) / figure(&r[base])).ln()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sample(micros: u64) -> Sample {
        Sample {
            cpu: Duration::from_micros(micros * 100),
            transactions: 100,
            per_second: 1e6 / micros as f64,
        }
    }

    /// A machine that gets slower all the time, and settings that cost +0%, +1% and +10% on it.
    fn drifting() -> Pairing {
        let mut pairing = Pairing::default();
        for round in 0..20 {
            let base = 10_000 + round * 1000;
            pairing.push(vec![sample(base), sample(base * 101 / 100), sample(base * 110 / 100)]);
        }
        pairing
    }

    #[test]
    fn drift_cancels_within_a_round() {
        let pairing = drifting();
        let change = pairing.cpu_change(2, 0).expect("rounds");
        assert!((change.median.value - 0.10).abs() < 1e-6, "{change:?}");
        assert!(change.mean.half_width() < 1e-6, "{change:?}");
        let slower = pairing.throughput_change(2, 0).expect("rounds");
        assert!((slower.median.value - (1.0 / 1.1 - 1.0)).abs() < 1e-6, "{slower:?}");
    }

    #[test]
    fn dearer_is_a_ratio_of_added_costs() {
        let times = drifting().times_dearer(2, 1, 0).expect("a cost above zero");
        assert!((times.value - 10.0).abs() < 0.01, "{times:?}");
        assert!(drifting().times_dearer(2, 0, 0).is_none(), "nothing is dearer than nothing");
    }

    #[test]
    fn every_setting_has_its_turn_in_every_round() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut firsts = [0; 3];
        for _ in 0..300 {
            let mut order = order(3, &mut random);
            firsts[order[0]] += 1;
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2]);
        }
        assert!(firsts.iter().all(|&n| n > 60), "{firsts:?}");
    }
}
