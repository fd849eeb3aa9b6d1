//! Prometheus's text format, version 0.0.4, which promtool and every scraper read.

use std::fmt::Write as _;

use super::histogram;
use super::sample::{MetricDescription, MetricKind, MetricNumber, MetricValue, Samples, Set};

/// The format's content type.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes all families.
#[must_use]
pub fn page(samples: &Samples) -> String {
    let mut page = String::new();
    (0..samples.families()).for_each(|at| write_family(&mut page, samples, at));
    page
}

/// Writes a family.
pub fn write_family(page: &mut String, samples: &Samples, at: usize) {
    let (family, samples) = samples.family(at);
    let _ = write!(page, "# HELP {} ", family.name);
    escape(page, family.help, false);
    let _ = writeln!(page, "\n# TYPE {} {}", family.name, kind(family.kind));
    let bounds: Vec<String> =
        if family.kind == MetricKind::Histogram { histogram::bounds().collect() } else { vec![] };
    for (labels, value) in samples {
        let mut line = |suffix: &str, further: Option<(&'static str, &str)>, figure: MetricNumber| {
            write_line(page, family, suffix, labels.clone().chain(further), figure);
        };
        match value {
            MetricValue::Figure(figure) => line("", None, *figure),
            MetricValue::Summary(summary) => {
                for (name, _, figure) in &summary.quantiles {
                    line("", Some(("quantile", name)), *figure);
                }
                line("_sum", None, summary.sum);
                line("_count", None, summary.count.into());
            }
            MetricValue::Histogram(histogram, sum) => {
                let mut total = 0_u64;
                for (count, bound) in
                    histogram.classic().iter().zip(bounds.iter().map(String::as_str).chain(["+Inf"]))
                {
                    total = total.saturating_add(*count);
                    line("_bucket", Some(("le", bound)), total.into());
                }
                line("_sum", None, *sum);
                line("_count", None, total.into());
            }
        }
    }
}

fn write_line<'a>(
    page: &mut String,
    family: &MetricDescription,
    suffix: &str,
    labels: std::iter::Chain<Set<'a>, std::option::IntoIter<(&'static str, &'a str)>>,
    figure: MetricNumber,
) {
    page.push_str(family.name);
    page.push_str(suffix);
    let mut before = '{';
    for (name, value) in labels {
        page.push(before);
        page.push_str(name);
        page.push_str("=\"");
        escape(page, value, true);
        page.push('"');
        before = ',';
    }
    if before == ',' {
        page.push('}');
    }
    // Writing to a String cannot fail.
    let _ = writeln!(page, " {figure}");
}

fn kind(kind: MetricKind) -> &'static str {
    match kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Summary => "summary",
        MetricKind::Histogram => "histogram",
    }
}

/// Writes a text with a backslash before backslashes, line ends and, in labels, quotes.
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

    static A: MetricDescription = MetricDescription::counter("a_total", "What \"a\" is,\nand \\ where.");
    static B: MetricDescription = MetricDescription::gauge("b", "B.");

    #[test]
    fn families_stand_together_and_texts_are_escaped() {
        let mut samples = Samples::default();
        samples.add(&A, &[("x", "a\"b\\c\nd"), ("y", "é")], u64::MAX);
        samples.add(&B, &[], MetricNumber::Signed(-5));
        samples.add(&A, &[("x", ""), ("y", "")], MetricNumber::seconds(1_500_000_000_000));
        let wanted = "# HELP a_total What \"a\" is,\\nand \\\\ where.\n# TYPE a_total counter\n\
            a_total{x=\"a\\\"b\\\\c\\nd\",y=\"é\"} 18446744073709551615\na_total{x=\"\",y=\"\"} 1.5\n\
            # HELP b B.\n# TYPE b gauge\nb -5\n";
        assert_eq!(page(&samples), wanted);
    }
}
