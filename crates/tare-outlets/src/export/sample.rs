//! The samples of a scrape: figures by family, with their labels, independent of the format.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher as _;
use std::ops::Range;

use super::histogram::BucketCounts;

/// The type of a family's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A value that only rises, until the server restarts or a table is truncated.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// Quantiles, a count and a sum.
    Summary,
    /// Buckets, a count and a sum.
    Histogram,
}

/// A metric: its name, description and type.
#[derive(Debug, PartialEq, Eq)]
pub struct MetricDescription {
    /// Name of the metric.
    pub name: &'static str,
    /// Description in a line, with the unit.
    pub help: &'static str,
    /// Type of its figures.
    pub kind: MetricKind,
}

impl MetricDescription {
    /// Makes a counter.
    #[must_use]
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: MetricKind::Counter }
    }

    /// Makes a gauge.
    #[must_use]
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: MetricKind::Gauge }
    }
}

/// A figure. Counts stay whole, so that no digit is lost on output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricNumber {
    /// A count, or bytes.
    Whole(u64),
    /// A count that may be negative.
    Signed(i64),
    /// Any other number.
    Real(f64),
}

impl MetricNumber {
    /// Converts picoseconds, the Performance Schema's unit, to seconds. Their sums exceed 64 bits.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure of Prometheus's is a double")]
    pub fn seconds(picoseconds: u128) -> Self {
        MetricNumber::Real(picoseconds as f64 / 1e12)
    }

    /// Converts a sum of counts: whole up to 64 bits, and never less than before.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure of Prometheus's is a double")]
    pub fn count(sum: u128) -> Self {
        u64::try_from(sum).map_or(MetricNumber::Real(sum as f64), MetricNumber::Whole)
    }

    /// Returns the sum of two figures.
    fn plus(self, other: MetricNumber) -> MetricNumber {
        match (self, other) {
            (MetricNumber::Whole(one), MetricNumber::Whole(other)) => {
                MetricNumber::count(u128::from(one) + u128::from(other))
            }
            (MetricNumber::Signed(one), MetricNumber::Signed(other)) => {
                MetricNumber::Signed(one.saturating_add(other))
            }
            (one, other) => MetricNumber::Real(one.real() + other.real()),
        }
    }

    /// Returns it as a double.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure of Prometheus's is a double")]
    pub fn real(self) -> f64 {
        match self {
            MetricNumber::Whole(count) => count as f64,
            MetricNumber::Signed(count) => count as f64,
            MetricNumber::Real(number) => number,
        }
    }
}

impl From<u64> for MetricNumber {
    fn from(count: u64) -> Self {
        MetricNumber::Whole(count)
    }
}

impl From<bool> for MetricNumber {
    fn from(truth: bool) -> Self {
        MetricNumber::Whole(truth.into())
    }
}

impl fmt::Display for MetricNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetricNumber::Whole(count) => write!(f, "{count}"),
            MetricNumber::Signed(count) => write!(f, "{count}"),
            MetricNumber::Real(number) => write!(f, "{number}"),
        }
    }
}

/// Latencies by quantile.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSummary {
    /// Each quantile as text and as a share, with its latency.
    pub quantiles: Vec<(&'static str, f64, MetricNumber)>,
    /// Sum over all events, in seconds.
    pub sum: MetricNumber,
    /// Number of events.
    pub count: u64,
}

impl MetricSummary {
    /// Adds another summary: each quantile is the higher of the two, which is an upper bound for both
    /// together.
    fn merge(&mut self, other: MetricSummary) {
        for ((.., time), (.., of_other)) in self.quantiles.iter_mut().zip(other.quantiles) {
            if of_other.real() > time.real() {
                *time = of_other;
            }
        }
        self.sum = self.sum.plus(other.sum);
        self.count = self.count.saturating_add(other.count);
    }
}

/// The value of a sample.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValue {
    /// Value of a counter or a gauge.
    Figure(MetricNumber),
    /// Value of a summary.
    Summary(Box<MetricSummary>),
    /// Buckets of a histogram, and the sum of all events in seconds.
    Histogram(Box<BucketCounts>, MetricNumber),
}

impl MetricValue {
    /// Adds another value of the same family.
    fn merge(&mut self, other: MetricValue) {
        match (self, other) {
            (MetricValue::Figure(figure), MetricValue::Figure(other)) => *figure = figure.plus(other),
            (MetricValue::Summary(summary), MetricValue::Summary(other)) => summary.merge(*other),
            (MetricValue::Histogram(histogram, sum), MetricValue::Histogram(other, more)) => {
                histogram.merge(&other);
                *sum = sum.plus(more);
            }
            // A family's samples are of its kind.
            _ => {}
        }
    }
}

/// Names and values of a sample's labels.
pub type Labels<'a> = &'a [(&'static str, &'a str)];

/// A sample: the number of its label set, and its value.
#[derive(Debug)]
struct MetricSample {
    labels: u32,
    value: MetricValue,
}

/// Samples by family. A family's samples are adjacent in any order of arrival, and no two of them have equal
/// labels, or Prometheus would refuse the whole page. Samples whose labels become equal (because names are
/// shortened, or not valid text) are added up.
#[derive(Debug, Default)]
pub struct Samples {
    /// Each family's samples, ordered by the numbers of their label sets.
    families: Vec<(&'static MetricDescription, Vec<MetricSample>)>,
    labels: LabelSets,
}

impl Samples {
    /// Adds a figure.
    pub fn add(
        &mut self,
        family: &'static MetricDescription,
        labels: Labels<'_>,
        figure: impl Into<MetricNumber>,
    ) {
        self.put(family, labels, MetricValue::Figure(figure.into()));
    }

    /// Adds a value of any type.
    pub fn put(&mut self, family: &'static MetricDescription, labels: Labels<'_>, value: MetricValue) {
        let labels = self.labels.number(labels);
        self.put_sample(family, MetricSample { labels, value });
    }

    fn put_sample(&mut self, family: &'static MetricDescription, sample: MetricSample) {
        let at = self.families.iter().position(|(it, _)| std::ptr::eq(*it, family));
        let at = at.unwrap_or_else(|| {
            self.families.push((family, vec![]));
            self.families.len() - 1
        });
        let samples = &mut self.families[at].1;
        // Rows arrive one after the other, and so do the numbers of their labels.
        if samples.last().is_none_or(|last| last.labels < sample.labels) {
            samples.push(sample);
            return;
        }
        match samples.binary_search_by_key(&sample.labels, |it| it.labels) {
            Ok(at) => samples[at].value.merge(sample.value),
            Err(at) => samples.insert(at, sample),
        }
    }

    /// Adds all samples of `others`.
    pub fn extend(&mut self, others: Samples) {
        let sets = 0..others.labels.count();
        let numbers: Vec<u32> =
            sets.map(|set| self.labels.number(&others.labels.set(set).collect::<Vec<_>>())).collect();
        for (family, samples) in others.families {
            for mut sample in samples {
                sample.labels = numbers[sample.labels as usize];
                self.put_sample(family, sample);
            }
        }
    }

    /// Returns the number of families.
    #[must_use]
    pub fn families(&self) -> usize {
        self.families.len()
    }

    /// Returns a family with the labels and values of its samples.
    pub fn family(
        &self,
        at: usize,
    ) -> (&'static MetricDescription, impl Iterator<Item = (Set<'_>, &MetricValue)>) {
        let (family, samples) = &self.families[at];
        (*family, samples.iter().map(|it| (self.labels.set(it.labels), &it.value)))
    }
}

/// The labels of a sample, in order.
#[derive(Clone, Debug)]
pub struct Set<'a> {
    sets: &'a LabelSets,
    labels: Range<usize>,
}

impl<'a> Iterator for Set<'a> {
    type Item = (&'static str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        self.labels.next().map(|at| self.sets.label(at))
    }
}

/// Label sets without duplicates, as the figures of a row share them. So thousands of rows need memory for
/// their labels once, and a word or two per figure.
#[derive(Debug, Default)]
struct LabelSets {
    values: String,
    /// Name of each label, and the end of its value.
    labels: Vec<(&'static str, usize)>,
    /// End of each set.
    sets: Vec<usize>,
    /// The last set with each hash.
    by_hash: HashMap<u64, u32>,
    /// For each set, the previous one with the same hash.
    before: Vec<Option<u32>>,
    hash: RandomState,
}

impl LabelSets {
    /// Returns the number of sets.
    fn count(&self) -> u32 {
        u32::try_from(self.sets.len()).expect("fewer sets than rows of a server")
    }

    /// Returns the number of these labels: 0, 1 …, in the order of their first occurrence.
    fn number(&mut self, labels: Labels<'_>) -> u32 {
        let next = self.count();
        if let Some(last) = next.checked_sub(1)
            && self.set(last).eq(labels.iter().copied())
        {
            return last;
        }
        let hash = self.hash.hash_one(labels);
        let same_hash = self.by_hash.get(&hash).copied();
        let mut known = same_hash;
        while let Some(number) = known {
            if self.set(number).eq(labels.iter().copied()) {
                return number;
            }
            known = self.before[number as usize];
        }
        self.by_hash.insert(hash, next);
        self.before.push(same_hash);
        for (name, value) in labels {
            self.values.push_str(value);
            self.labels.push((name, self.values.len()));
        }
        self.sets.push(self.labels.len());
        next
    }

    fn set(&self, number: u32) -> Set<'_> {
        let number = number as usize;
        let begin = number.checked_sub(1).map_or(0, |before| self.sets[before]);
        Set { sets: self, labels: begin..self.sets[number] }
    }

    fn label(&self, at: usize) -> (&'static str, &str) {
        let begin = at.checked_sub(1).map_or(0, |before| self.labels[before].1);
        let (name, end) = self.labels[at];
        (name, &self.values[begin..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static A: MetricDescription = MetricDescription::counter("a_total", "A.");
    static B: MetricDescription = MetricDescription::gauge("b", "B.");
    static C: MetricDescription = MetricDescription::gauge("c", "C.");

    fn shown(samples: &Samples) -> Vec<String> {
        let mut found = vec![];
        for at in 0..samples.families() {
            let (family, all) = samples.family(at);
            for (labels, value) in all {
                found.push(format!("{} {:?} {value:?}", family.name, labels.collect::<Vec<_>>()));
            }
        }
        found
    }

    #[test]
    fn families_stand_together_and_rows_share_their_labels() {
        let mut samples = Samples::default();
        for (row, count) in [("x", 1), ("y", 2), ("z", 3)] {
            samples.add(&A, &[("row", row), ("of", "")], count);
            samples.add(&B, &[("row", row), ("of", "")], count + 10);
        }
        assert_eq!(samples.labels.sets.len(), 3);
        let mut others = Samples::default();
        others.add(&C, &[], true);
        others.add(&C, &[("row", "y"), ("of", "")], false);
        samples.extend(others);
        assert_eq!(samples.labels.sets.len(), 4, "what both have is kept once");
        let wanted = [
            r#"a_total [("row", "x"), ("of", "")] Figure(Whole(1))"#,
            r#"a_total [("row", "y"), ("of", "")] Figure(Whole(2))"#,
            r#"a_total [("row", "z"), ("of", "")] Figure(Whole(3))"#,
            r#"b [("row", "x"), ("of", "")] Figure(Whole(11))"#,
            r#"b [("row", "y"), ("of", "")] Figure(Whole(12))"#,
            r#"b [("row", "z"), ("of", "")] Figure(Whole(13))"#,
            r#"c [("row", "y"), ("of", "")] Figure(Whole(0))"#,
            "c [] Figure(Whole(1))",
        ];
        assert_eq!(shown(&samples), wanted);
    }

    #[test]
    fn what_has_the_same_labels_is_added_up() {
        let (most, real) = (u64::MAX, |number| MetricNumber::Real(number));
        let mut samples = Samples::default();
        let mut others = Samples::default();
        for row in ["x", "y", "x"] {
            samples.add(&A, &[("row", row)], 2_u64);
            samples.add(&B, &[("row", row)], MetricNumber::Signed(-3));
        }
        others.add(&A, &[("row", "y")], most);
        others.add(&A, &[("row", "z")], most);
        samples.extend(others);
        samples.add(&C, &[], real(0.5));
        samples.add(&C, &[], real(1.0));
        let wanted = [
            r#"a_total [("row", "x")] Figure(Whole(4))"#,
            r#"a_total [("row", "y")] Figure(Real(1.8446744073709552e19))"#,
            r#"a_total [("row", "z")] Figure(Whole(18446744073709551615))"#,
            r#"b [("row", "x")] Figure(Signed(-6))"#,
            r#"b [("row", "y")] Figure(Signed(-3))"#,
            "c [] Figure(Real(1.5))",
        ];
        assert_eq!(shown(&samples), wanted);
    }

    #[test]
    fn summaries_and_histograms_of_the_same_labels_are_one() {
        let mut samples = Samples::default();
        for (count, time) in [(3, 0.25), (5, 0.125)] {
            let quantiles = vec![("95", 0.95, MetricNumber::Real(time))];
            let summary = MetricSummary { quantiles, sum: MetricNumber::Real(1.0), count };
            samples.put(&A, &[("schema", "s")], MetricValue::Summary(Box::new(summary)));
            let mut histogram = BucketCounts::default();
            histogram.add(7, count);
            histogram.add(8, 1);
            samples.put(
                &B,
                &[("schema", "s")],
                MetricValue::Histogram(Box::new(histogram), MetricNumber::Real(1.0)),
            );
        }
        let mut histogram = BucketCounts::default();
        histogram.add(7, 8);
        histogram.add(8, 2);
        let quantiles = vec![("95", 0.95, MetricNumber::Real(0.25))];
        let summary = MetricSummary { quantiles, sum: MetricNumber::Real(2.0), count: 8 };
        let found: Vec<&MetricValue> =
            (0..2).flat_map(|at| samples.family(at).1.map(|(_, value)| value)).collect();
        let histogram = MetricValue::Histogram(Box::new(histogram), MetricNumber::Real(2.0));
        assert_eq!(found, [&MetricValue::Summary(Box::new(summary)), &histogram]);
    }
}
