//! Prometheus's text format, version 0.0.4: what promtool and every scraper read.

use std::fmt::{self, Write as _};

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

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Summary => "summary",
            Kind::Histogram => "histogram",
        }
    }
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

/// Names and values of a sample's labels.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// Samples by family: however they come, a family's stand together.
#[derive(Debug, Default)]
pub struct Samples {
    families: Vec<(&'static Family, String)>,
}

impl Samples {
    /// Adds a sample.
    pub fn add(&mut self, family: &'static Family, labels: Labels<'_>, figure: impl Into<Figure>) {
        self.part(family, "", labels, figure);
    }

    /// Adds a sample of a part of a summary or histogram: `_sum`, `_count`, `_bucket`.
    pub fn part(
        &mut self,
        family: &'static Family,
        suffix: &str,
        labels: Labels<'_>,
        figure: impl Into<Figure>,
    ) {
        let text = match self.families.iter_mut().position(|(it, _)| it.name == family.name) {
            Some(at) => &mut self.families[at].1,
            None => {
                self.families.push((family, String::new()));
                &mut self.families.last_mut().expect("just pushed").1
            }
        };
        text.push_str(family.name);
        text.push_str(suffix);
        for (number, (name, value)) in labels.iter().enumerate() {
            text.push_str(if number == 0 { "{" } else { "," });
            text.push_str(name);
            text.push_str("=\"");
            escape(text, value, true);
            text.push('"');
        }
        if !labels.is_empty() {
            text.push('}');
        }
        // A String takes whatever is written.
        let _ = writeln!(text, " {}", figure.into());
    }

    /// Adds what others hold, which have no family in common with these.
    pub fn extend(&mut self, others: Samples) {
        self.families.extend(others.families);
    }

    /// The page.
    #[must_use]
    pub fn page(self) -> String {
        let size = self.families.iter().map(|(family, text)| text.len() + family.help.len() + 160).sum();
        let mut page = String::with_capacity(size);
        for (family, text) in self.families {
            let _ = write!(page, "# HELP {} ", family.name);
            escape(&mut page, family.help, false);
            let _ = writeln!(page, "\n# TYPE {} {}", family.name, family.kind.name());
            page.push_str(&text);
        }
        page
    }
}

/// Writes a text as the format wants it: a backslash before backslashes, line ends, and, in labels, quotes.
fn escape(text: &mut String, value: &str, quoted: bool) {
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '"' if quoted => text.push_str("\\\""),
            letter => text.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static A: Family = Family::counter("a_total", "What \"a\" is,\nand \\ where.");
    static B: Family = Family::gauge("b", "B.");

    #[test]
    fn families_stand_together_and_texts_are_escaped() {
        let mut samples = Samples::default();
        samples.add(&A, &[("x", "a\"b\\c\nd"), ("y", "é")], u64::MAX);
        samples.add(&B, &[], Figure::Signed(-5));
        samples.add(&A, &[("x", ""), ("y", "")], Figure::seconds(1_500_000_000_000));
        let wanted = "# HELP a_total What \"a\" is,\\nand \\\\ where.\n# TYPE a_total counter\n\
            a_total{x=\"a\\\"b\\\\c\\nd\",y=\"é\"} 18446744073709551615\na_total{x=\"\",y=\"\"} 1.5\n\
            # HELP b B.\n# TYPE b gauge\nb -5\n";
        assert_eq!(samples.page(), wanted);
    }
}
