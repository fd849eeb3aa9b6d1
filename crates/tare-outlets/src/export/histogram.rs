//! Histograms of latencies: MySQL's buckets, and Prometheus's classic and native ones made of them.

use std::collections::BTreeMap;

/// Index of MySQL's last bucket. The lowest ends at 10 microseconds, 50 are a factor of ten, and the last has
/// no upper bound.
const LAST: u16 = 449;
/// End of the lowest bucket, in seconds.
pub const LOWEST: f64 = 0.000_01;
/// Number of MySQL's buckets in a classic one: five classic buckets are a factor of ten.
const COARSER: u16 = 10;
/// Number of classic buckets; the last has no upper bound.
const BUCKETS: usize = 45;
/// Resolution of native buckets: 8 are a factor of two. Each is wider than one of MySQL's and narrower than
/// two.
pub const SCHEMA: i32 = 3;

/// Event counts by MySQL's buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketCounts(BTreeMap<u16, u64>);

impl BucketCounts {
    /// Adds events of one of MySQL's buckets.
    pub fn add(&mut self, bucket: u64, count: u64) {
        let into = self.0.entry(u16::try_from(bucket).unwrap_or(LAST).min(LAST)).or_default();
        *into = into.saturating_add(count);
    }

    /// Adds another histogram.
    pub fn merge(&mut self, other: &BucketCounts) {
        other.0.iter().for_each(|(bucket, count)| self.add((*bucket).into(), *count));
    }

    /// Returns the number of all events.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns the number of events of at most 10 microseconds: the lowest bucket, classic or native.
    #[must_use]
    pub fn lowest(&self) -> u64 {
        self.0.get(&0).copied().unwrap_or(0)
    }

    /// Returns the counts of the classic buckets. See also `bound`.
    #[must_use]
    pub fn classic(&self) -> [u64; BUCKETS] {
        let mut counts = [0_u64; BUCKETS];
        for (bucket, count) in &self.0 {
            let into = &mut counts[usize::from(bucket.div_ceil(COARSER)).min(BUCKETS - 1)];
            *into = into.saturating_add(*count);
        }
        counts
    }

    /// Returns the non-empty native buckets above the lowest: number and count. Bucket n ends at 2 to the n/8
    /// seconds. Apart from 1 second no bound of MySQL's is among these, so the events of a bucket count in
    /// the one where it ends: they are shown as slower by at most the width of a bucket, 4.7%.
    #[must_use]
    pub fn native(&self) -> BTreeMap<i32, u64> {
        let mut counts = BTreeMap::new();
        for (bucket, count) in self.0.iter().filter(|(bucket, count)| **bucket > 0 && **count > 0) {
            let into: &mut u64 = counts.entry(native_bucket(*bucket)).or_default();
            *into = into.saturating_add(*count);
        }
        counts
    }
}

#[expect(clippy::cast_possible_truncation, reason = "between -133 and 106")]
fn native_bucket(bucket: u16) -> i32 {
    let end = LOWEST.log2() + f64::from(bucket) / 50.0 * 10_f64.log2();
    // A whole number with a rounding error stays that number.
    (end * f64::from(1 << SCHEMA) - 1e-9).ceil() as i32
}

/// Returns the upper bounds of classic buckets in seconds, as text; the last has none.
pub fn bounds() -> impl Iterator<Item = String> {
    (0..BUCKETS - 1).map(bound)
}

/// Returns an upper bound: 0.00001, 0.00001585, 0.00002512, … Steps of ten have the same digits, rounded up.
fn bound(bucket: usize) -> String {
    const STEPS: [u64; 5] = [1_000, 1_585, 2_512, 3_982, 6_310];
    let steps = STEPS[bucket % STEPS.len()];
    // In hundredths of a microsecond, so that all are whole.
    let hundredths = steps * 10_u64.pow(u32::try_from(bucket / STEPS.len()).unwrap_or_default());
    let text = format!("{}.{:08}", hundredths / 100_000_000, hundredths % 100_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_mysqls_of_every_tenth_bucket() {
        assert_eq!(bound(0), "0.00001");
        assert_eq!(bound(1), "0.00001585");
        assert_eq!(bound(25), "1");
        assert_eq!(bound(26), "1.585");
        assert_eq!(bounds().last().as_deref(), Some("3982"));
    }

    #[test]
    fn a_bucket_ends_where_mysqls_do() {
        let mut histogram = BucketCounts::default();
        // Bucket 0 ends at 10 µs; 10 ends at 15.85 µs, and 11 starts there.
        for bucket in [0, 1, 10, 11, 430, 431, 449] {
            histogram.add(bucket, 1);
        }
        let filled: Vec<(usize, u64)> =
            histogram.classic().into_iter().enumerate().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(0, 1), (1, 2), (2, 1), (43, 1), (44, 2)]);
        assert_eq!((histogram.total(), histogram.lowest()), (7, 1));
    }

    #[test]
    fn a_native_bucket_holds_the_end_of_mysqls_and_no_event_twice() {
        for bucket in 1..=LAST {
            let end = LOWEST * 10_f64.powf(f64::from(bucket) / 50.0);
            let native = native_bucket(bucket);
            let bound = |number: i32| 2_f64.powf(f64::from(number) / 8.0);
            assert!(bound(native - 1) < end && end <= bound(native) * (1.0 + 1e-9), "{bucket}: {native}");
        }
        // 10 µs × 10^5 is a second, the only bound in common.
        assert_eq!(native_bucket(250), 0);
        let mut histogram = BucketCounts::default();
        (0..450).for_each(|bucket| histogram.add(bucket, 2));
        let native: u64 = histogram.native().values().sum();
        assert_eq!(native + histogram.lowest(), histogram.total());
    }
}
