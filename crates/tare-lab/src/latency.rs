//! Histograms of latencies, and what can be told from them.

use crate::record::Latency;

/// Of a mean and a histogram, buckets by their upper bounds; `None` of an empty one.
pub(crate) fn latency(mean: f64, histogram: Vec<(f64, u64)>) -> Option<Latency> {
    let percentile = |share| percentile(&histogram, share);
    Some(Latency { mean, p50: percentile(0.50)?, p95: percentile(0.95)?, p99: percentile(0.99)?, histogram })
}

impl Latency {
    /// What a share of all are at most; not a number where there is none.
    pub fn at(&self, share: f64) -> f64 {
        percentile(&self.histogram, share).unwrap_or(f64::NAN)
    }

    /// What is left without transactions of `limit` seconds or more, of which at most so many are left out, the longest first.
    /// The mean is then that of the histogram.
    #[must_use]
    pub fn without(&self, limit: f64, at_most: u64) -> Latency {
        let (mut histogram, mut left) = (self.histogram.clone(), at_most);
        for (_, count) in histogram.iter_mut().rev().take_while(|(bound, _)| *bound >= limit) {
            let out = left.min(*count);
            *count -= out;
            left -= out;
        }
        histogram.retain(|(_, count)| *count > 0);
        #[allow(clippy::cast_precision_loss)] // counts of a slice are far below 2^53
        let (sum, all) =
            histogram.iter().fold((0.0, 0.0), |(sum, all), &(v, n)| (sum + v * n as f64, all + n as f64));
        latency(sum / all, histogram).unwrap_or_else(|| self.clone())
    }
}

/// What a bound may be off by, in seconds: half of its last digit.
const ROUNDING: f64 = 0.000_000_5;

/// The value that a share of a histogram is at most, interpolated within its bucket.
#[allow(clippy::cast_precision_loss)] // counts of a slice are far below 2^53
fn percentile(histogram: &[(f64, u64)], share: f64) -> Option<f64> {
    let wanted = share * histogram.iter().map(|b| b.1).sum::<u64>() as f64;
    let mut below = (0.0, 0.0);
    for &(bound, count) in histogram {
        let upto = below.1 + count as f64;
        if upto >= wanted {
            // What is known of a bucket's lower end is its neighbour; buckets grow by a fiftieth.
            let low = f64::max(below.0, bound * 0.98 - ROUNDING);
            return Some(low + (bound - low) * (wanted - below.1) / count as f64);
        }
        below = (bound, upto);
    }
    None
}
