//! Histograms of latencies and their percentiles.

use crate::results::record::Latency;

/// Computes percentiles of a histogram, whose buckets are given by their upper bounds; `None` if it is empty.
pub(crate) fn latency(mean: f64, histogram: Vec<(f64, u64)>) -> Option<Latency> {
    let percentile = |share| percentile(&histogram, share);
    Some(Latency { mean, p50: percentile(0.50)?, p95: percentile(0.95)?, p99: percentile(0.99)?, histogram })
}

impl Latency {
    /// Returns a quantile of all latencies; NaN if there are none.
    pub fn at(&self, share: f64) -> f64 {
        percentile(&self.histogram, share).unwrap_or(f64::NAN)
    }

    /// Returns the latencies without transactions of `limit` seconds or more, but leaves out `at_most` of
    /// them, the longest first. The mean is then that of the histogram.
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

/// Rounding error of a bound, in seconds: half of its last digit.
const ROUNDING: f64 = 0.000_000_5;

/// Returns a quantile, interpolated within its bucket.
#[allow(clippy::cast_precision_loss)] // counts of a slice are far below 2^53
fn percentile(histogram: &[(f64, u64)], share: f64) -> Option<f64> {
    let wanted = share * histogram.iter().map(|b| b.1).sum::<u64>() as f64;
    let mut below = (0.0, 0.0);
    for &(bound, count) in histogram {
        let upto = below.1 + count as f64;
        if upto >= wanted {
            // The lower end of a bucket is the bound below it, but no further away than 2%, as buckets grow
            // by a fiftieth.
            let low = f64::max(below.0, bound * 0.98 - ROUNDING);
            return Some(low + (bound - low) * (wanted - below.1) / count as f64);
        }
        below = (bound, upto);
    }
    None
}
