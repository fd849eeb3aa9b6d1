//! Prometheus's protobuf format, which Prometheus requests for native histograms. Histograms have classic and
//! native buckets; all else is as in the text format.
//!
//! The messages are the used parts of `io.prometheus.client`.

use prost::Message;

use super::histogram::{self, BucketCounts};
use super::sample::{MetricKind, MetricNumber, MetricSummary, MetricValue, Samples, Set};

/// The format's content type.
pub const CONTENT_TYPE: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// `MetricFamily`
#[derive(Clone, PartialEq, Message)]
pub struct MetricFamily {
    /// Name of the family.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// Description in a line.
    #[prost(string, optional, tag = "2")]
    pub help: Option<String>,
    /// Type of its metrics, a [`MetricType`].
    #[prost(enumeration = "MetricType", optional, tag = "3")]
    pub kind: Option<i32>,
    /// Its metrics.
    #[prost(message, repeated, tag = "4")]
    pub metrics: Vec<Metric>,
}

/// `MetricType`
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum MetricType {
    /// A value that only rises.
    Counter = 0,
    /// A value that rises and falls.
    Gauge = 1,
    /// Quantiles.
    Summary = 2,
    /// Buckets.
    Histogram = 4,
}

/// `Metric`
#[derive(Clone, PartialEq, Message)]
pub struct Metric {
    /// Labels of the metric.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<LabelPair>,
    /// Value, if it is a gauge.
    #[prost(message, optional, tag = "2")]
    pub gauge: Option<Single>,
    /// Value, if it is a counter.
    #[prost(message, optional, tag = "3")]
    pub counter: Option<Single>,
    /// Value, if it is a summary.
    #[prost(message, optional, tag = "4")]
    pub summary: Option<Quantiles>,
    /// Value, if it is a histogram.
    #[prost(message, optional, tag = "7")]
    pub histogram: Option<Buckets>,
}

/// `LabelPair`
#[derive(Clone, PartialEq, Message)]
pub struct LabelPair {
    /// Name of the label.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// Value of the label.
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// `Gauge` and `Counter`
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Single {
    /// The value.
    #[prost(double, optional, tag = "1")]
    pub value: Option<f64>,
}

/// `MetricSummary`
#[derive(Clone, PartialEq, Message)]
pub struct Quantiles {
    /// Number of events.
    #[prost(uint64, optional, tag = "1")]
    pub count: Option<u64>,
    /// Sum of all events.
    #[prost(double, optional, tag = "2")]
    pub sum: Option<f64>,
    /// Values by quantile.
    #[prost(message, repeated, tag = "3")]
    pub quantiles: Vec<Quantile>,
}

/// `Quantile`
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Quantile {
    /// The quantile.
    #[prost(double, optional, tag = "1")]
    pub quantile: Option<f64>,
    /// Its value.
    #[prost(double, optional, tag = "2")]
    pub value: Option<f64>,
}

/// `BucketCounts`
#[derive(Clone, PartialEq, Message)]
pub struct Buckets {
    /// Number of events.
    #[prost(uint64, optional, tag = "1")]
    pub count: Option<u64>,
    /// Sum of all events.
    #[prost(double, optional, tag = "2")]
    pub sum: Option<f64>,
    /// Classic buckets.
    #[prost(message, repeated, tag = "3")]
    pub classic: Vec<Bucket>,
    /// Resolution of native buckets.
    #[prost(sint32, optional, tag = "5")]
    pub schema: Option<i32>,
    /// End of the lowest native bucket.
    #[prost(double, optional, tag = "6")]
    pub zero_threshold: Option<f64>,
    /// Count of the lowest native bucket.
    #[prost(uint64, optional, tag = "7")]
    pub zero_count: Option<u64>,
    /// Runs of adjacent native buckets.
    #[prost(message, repeated, tag = "12")]
    pub spans: Vec<BucketSpan>,
    /// Difference of each native bucket's count from the previous one.
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    pub deltas: Vec<i64>,
}

/// `Bucket`
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Bucket {
    /// Number of events in it and in lower ones.
    #[prost(uint64, optional, tag = "1")]
    pub cumulative_count: Option<u64>,
    /// Upper bound.
    #[prost(double, optional, tag = "2")]
    pub upper_bound: Option<f64>,
}

/// `BucketSpan`: a run of adjacent buckets.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct BucketSpan {
    /// Distance from the previous run, or from bucket 0.
    #[prost(sint32, optional, tag = "1")]
    pub offset: Option<i32>,
    /// Number of buckets.
    #[prost(uint32, optional, tag = "2")]
    pub length: Option<u32>,
}

/// Encodes a family: its length, then the message.
#[must_use]
pub fn family(samples: &Samples, at: usize) -> Vec<u8> {
    let (family, samples) = samples.family(at);
    let kind = match family.kind {
        MetricKind::Counter => MetricType::Counter,
        MetricKind::Gauge => MetricType::Gauge,
        MetricKind::Summary => MetricType::Summary,
        MetricKind::Histogram => MetricType::Histogram,
    };
    let message = MetricFamily {
        name: Some(family.name.to_owned()),
        help: Some(family.help.to_owned()),
        kind: Some(kind.into()),
        metrics: samples.map(|(labels, value)| metric(kind, labels, value)).collect(),
    };
    message.encode_length_delimited_to_vec()
}

fn metric(kind: MetricType, labels: Set<'_>, value: &MetricValue) -> Metric {
    let pair = |(name, value): (&str, &str)| LabelPair {
        name: Some(name.to_owned()),
        value: Some(value.to_owned()),
    };
    let mut metric = Metric { labels: labels.map(pair).collect(), ..Metric::default() };
    match value {
        MetricValue::Figure(figure) if kind == MetricType::Counter => metric.counter = Some(single(*figure)),
        MetricValue::Figure(figure) => metric.gauge = Some(single(*figure)),
        MetricValue::Summary(summary) => metric.summary = Some(quantiles(summary)),
        MetricValue::Histogram(histogram, sum) => metric.histogram = Some(buckets(histogram, *sum)),
    }
    metric
}

fn single(figure: MetricNumber) -> Single {
    Single { value: Some(figure.real()) }
}

/// Converts a summary. The quantile is the number in the label, as with mysqld_exporter: 95, not 0.95.
fn quantiles(summary: &MetricSummary) -> Quantiles {
    let quantile = |(name, _, figure): &(&str, f64, MetricNumber)| Quantile {
        quantile: name.parse().ok(),
        value: Some(figure.real()),
    };
    Quantiles {
        count: Some(summary.count),
        sum: Some(summary.sum.real()),
        quantiles: summary.quantiles.iter().map(quantile).collect(),
    }
}

fn buckets(histogram: &BucketCounts, sum: MetricNumber) -> Buckets {
    let bounds = histogram::bounds().map(|bound| bound.parse().unwrap_or(f64::INFINITY));
    let mut total = 0_u64;
    let classic = histogram.classic().into_iter().zip(bounds.chain([f64::INFINITY])).map(|(count, bound)| {
        total = total.saturating_add(count);
        Bucket { cumulative_count: Some(total), upper_bound: Some(bound) }
    });
    let classic = classic.collect();
    let (spans, deltas) = native(histogram);
    Buckets {
        count: Some(histogram.total()),
        sum: Some(sum.real()),
        classic,
        schema: Some(histogram::SCHEMA),
        zero_threshold: Some(histogram::LOWEST),
        zero_count: Some(histogram.lowest()),
        spans,
        deltas,
    }
}

/// Encodes native buckets as runs and differences of counts.
fn native(histogram: &BucketCounts) -> (Vec<BucketSpan>, Vec<i64>) {
    let (mut spans, mut deltas) = (Vec::<BucketSpan>::new(), vec![]);
    let (mut next, mut before) = (0, 0);
    for (number, count) in histogram.native() {
        match spans.last_mut() {
            Some(span) if number == next => span.length = span.length.map(|length| length + 1),
            _ => spans.push(BucketSpan { offset: Some(number - next), length: Some(1) }),
        }
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        deltas.push(count - before);
        (next, before) = (number + 1, count);
    }
    (spans, deltas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_say_which_buckets_there_are_and_deltas_what_is_in_them() {
        let mut histogram = BucketCounts::default();
        // The lowest, then buckets that end at 1 s (native 0), at 1.047 s (1) and at 10 s (27).
        for (bucket, count) in [(0, 7), (250, 5), (251, 2), (300, 4)] {
            histogram.add(bucket, count);
        }
        let message = buckets(&histogram, MetricNumber::Real(1.5));
        let spans: Vec<_> = message.spans.iter().map(|it| (it.offset(), it.length())).collect();
        assert_eq!(spans, [(0, 2), (25, 1)]);
        assert_eq!(message.deltas, [5, -3, 2]);
        assert_eq!((message.count(), message.zero_count(), message.zero_threshold()), (18, 7, 0.000_01));
        assert_eq!(message.classic.last().map(Bucket::cumulative_count), Some(18));
    }
}
