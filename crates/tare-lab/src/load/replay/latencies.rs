//! A histogram of latencies whose buckets grow by 2%, from a microsecond.

use std::collections::BTreeMap;

const GROWTH: f64 = 1.02;
const LEAST: f64 = 1e-6;

/// Latencies of statements.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    buckets: BTreeMap<u32, u64>,
    sum: f64,
    count: u64,
}

impl Latencies {
    /// Adds a latency in seconds.
    pub fn take(&mut self, seconds: f64) {
        let seconds = seconds.max(LEAST);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some thousand at most
        let bucket = ((seconds / LEAST).ln() / GROWTH.ln()).ceil() as u32;
        *self.buckets.entry(bucket).or_default() += 1;
        self.sum += seconds;
        self.count += 1;
    }

    /// Adds another histogram.
    pub fn add(&mut self, other: &Latencies) {
        for (bucket, count) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += count;
        }
        self.sum += other.sum;
        self.count += other.count;
    }

    /// Returns the upper bounds of buckets in seconds with their counts, without empty buckets.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        self.buckets.iter().map(|(bucket, count)| (LEAST * GROWTH.powf(f64::from(*bucket)), *count))
    }

    /// Returns the sum of all latencies in seconds, and their number.
    pub fn sum(&self) -> (f64, u64) {
        (self.sum, self.count)
    }

    /// Returns a quantile, precise to a bucket's width; 0 if there are none.
    #[allow(clippy::cast_precision_loss)] // counts of a replay
    pub fn at(&self, share: f64) -> f64 {
        let wanted = share * self.count as f64;
        let mut below = 0.0;
        let found = self.buckets().find(|(_, count)| {
            below += *count as f64;
            below >= wanted
        });
        found.map_or(0.0, |(bound, _)| bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_told_to_two_percent() {
        let (mut some, mut others) = (Latencies::default(), Latencies::default());
        (1..=90).for_each(|_| some.take(0.001));
        (1..=10).for_each(|_| others.take(0.2));
        some.add(&others);
        assert!(
            (0.001..0.001_021).contains(&some.at(0.5)) && (0.2..0.205).contains(&some.at(0.95)),
            "{some:?}"
        );
        assert_eq!((some.sum().1, (some.sum().0 * 1000.0).round()), (100, 2090.0));
        assert_eq!(Latencies::default().at(0.5), 0.0);
    }
}
