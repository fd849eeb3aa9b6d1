//! What a look at a server finds: figures by family, with their labels. In which form they leave is said elsewhere.

use std::fmt;
use std::ops::Range;

use super::histogram::Histogram;

/// What a family's figures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only rises, until its server starts anew or a table is truncated.
    Counter,
    /// It rises and falls.
    Gauge,
    /// Quantiles, a count and a sum.
    Summary,
    /// Buckets, a count and a sum.
    Histogram,
}

/// A metric: its name, what it is, and in which unit.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// A line for people.
    pub help: &'static str,
    /// What its figures are.
    pub kind: Kind,
}

impl Family {
    /// A counter.
    #[must_use]
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: Kind::Counter }
    }

    /// A gauge.
    #[must_use]
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: Kind::Gauge }
    }
}

/// A figure. What is counted stays whole, so that no digit is lost on the way out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// A count, or bytes.
    Whole(u64),
    /// A count that may be negative.
    Signed(i64),
    /// Anything else.
    Real(f64),
}

impl Figure {
    /// Picoseconds, as the Performance Schema has times, in seconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure of Prometheus's is a double")]
    pub fn seconds(picoseconds: u64) -> Self {
        Figure::Real(picoseconds as f64 / 1e12)
    }

    /// As a double.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure of Prometheus's is a double")]
    pub fn real(self) -> f64 {
        match self {
            Figure::Whole(count) => count as f64,
            Figure::Signed(count) => count as f64,
            Figure::Real(number) => number,
        }
    }
}

impl From<u64> for Figure {
    fn from(count: u64) -> Self {
        Figure::Whole(count)
    }
}

impl From<bool> for Figure {
    fn from(truth: bool) -> Self {
        Figure::Whole(truth.into())
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Figure::Whole(count) => write!(f, "{count}"),
            Figure::Signed(count) => write!(f, "{count}"),
            Figure::Real(number) => write!(f, "{number}"),
        }
    }
}

/// Times by quantile.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Each quantile as it is written, as a share, and its time.
    pub quantiles: Vec<(&'static str, f64, Figure)>,
    /// Of all events, in seconds.
    pub sum: Figure,
    /// How many events.
    pub count: u64,
}

/// What a sample says.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a counter or a gauge.
    Figure(Figure),
    /// Of a summary.
    Summary(Box<Summary>),
    /// Of a histogram: what is in its buckets, and the sum of all events in seconds.
    Histogram(Box<Histogram>, Figure),
}

/// Names and values of a sample's labels.
pub type Labels<'a> = &'a [(&'static str, &'a str)];

/// A sample: its labels by number, and what it says.
#[derive(Debug)]
struct Sample {
    labels: u32,
    value: Value,
}

/// Samples by family: however they come, a family's stand together.
#[derive(Debug, Default)]
pub struct Samples {
    families: Vec<(&'static Family, Vec<Sample>)>,
    labels: LabelSets,
}

impl Samples {
    /// Adds a figure.
    pub fn add(&mut self, family: &'static Family, labels: Labels<'_>, figure: impl Into<Figure>) {
        self.put(family, labels, Value::Figure(figure.into()));
    }

    /// Adds what is more than a figure.
    pub fn put(&mut self, family: &'static Family, labels: Labels<'_>, value: Value) {
        let labels = self.labels.number(labels);
        let at = self.families.iter().position(|(it, _)| std::ptr::eq(*it, family));
        let at = at.unwrap_or_else(|| {
            self.families.push((family, vec![]));
            self.families.len() - 1
        });
        self.families[at].1.push(Sample { labels, value });
    }

    /// Adds what others hold, which have no family in common with these.
    pub fn extend(&mut self, others: Samples) {
        let before = self.labels.extend(others.labels);
        for (family, mut samples) in others.families {
            samples.iter_mut().for_each(|it| it.labels += before);
            self.families.push((family, samples));
        }
    }

    /// How many families there are.
    #[must_use]
    pub fn families(&self) -> usize {
        self.families.len()
    }

    /// A family, and its samples: labels and values.
    pub fn family(&self, at: usize) -> (&'static Family, impl Iterator<Item = (Set<'_>, &Value)>) {
        let (family, samples) = &self.families[at];
        (*family, samples.iter().map(|it| (self.labels.set(it.labels), &it.value)))
    }
}

/// The labels of a sample, in their order.
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

/// Labels, each set of them once: figures of a row have the same, and are added one after the other. So what is kept of
/// thousands of rows is their labels and a word or two for a figure.
#[derive(Debug, Default)]
struct LabelSets {
    values: String,
    /// Each label's name, and where its value ends.
    labels: Vec<(&'static str, usize)>,
    /// Where each set ends.
    sets: Vec<usize>,
}

impl LabelSets {
    /// The number of these labels.
    fn number(&mut self, labels: Labels<'_>) -> u32 {
        let number = |sets: usize| u32::try_from(sets - 1).expect("fewer sets than rows of a server");
        if !self.sets.is_empty() && self.set(number(self.sets.len())).eq(labels.iter().copied()) {
            return number(self.sets.len());
        }
        for (name, value) in labels {
            self.values.push_str(value);
            self.labels.push((name, self.values.len()));
        }
        self.sets.push(self.labels.len());
        number(self.sets.len())
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

    /// Adds others, whose numbers rise by what is given back.
    fn extend(&mut self, others: LabelSets) -> u32 {
        let before = u32::try_from(self.sets.len()).expect("fewer sets than rows of a server");
        let (values, labels) = (self.values.len(), self.labels.len());
        self.values.push_str(&others.values);
        self.labels.extend(others.labels.into_iter().map(|(name, end)| (name, values + end)));
        self.sets.extend(others.sets.into_iter().map(|end| labels + end));
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static A: Family = Family::counter("a_total", "A.");
    static B: Family = Family::gauge("b", "B.");
    static C: Family = Family::gauge("c", "C.");

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
        for (row, count) in [("x", 1), ("y", 2), ("y", 3)] {
            samples.add(&A, &[("row", row), ("of", "")], count);
            samples.add(&B, &[("row", row), ("of", "")], count + 10);
        }
        assert_eq!(samples.labels.sets.len(), 2);
        let mut others = Samples::default();
        others.add(&C, &[], true);
        samples.extend(others);
        let wanted = [
            r#"a_total [("row", "x"), ("of", "")] Figure(Whole(1))"#,
            r#"a_total [("row", "y"), ("of", "")] Figure(Whole(2))"#,
            r#"a_total [("row", "y"), ("of", "")] Figure(Whole(3))"#,
            r#"b [("row", "x"), ("of", "")] Figure(Whole(11))"#,
            r#"b [("row", "y"), ("of", "")] Figure(Whole(12))"#,
            r#"b [("row", "y"), ("of", "")] Figure(Whole(13))"#,
            "c [] Figure(Whole(1))",
        ];
        assert_eq!(shown(&samples), wanted);
    }
}
