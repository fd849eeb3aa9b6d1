//! The report's transactions per second: their distribution, every second, and their means as other studies
//! report them.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::chart::{Axis, Box, Scatter, Second};
use super::figures::{difference, spaced};
use super::parts::plot_heads;
use super::{Study, is_base, measured, unit};
use crate::results::record::{Measure, Slice};
use crate::statistics::quantile;
use crate::verdict::analysis::{CellAnalysis, SettingAnalysis, THROUGHPUT, every_second};

/// Returns the transactions of every second of every slice.
pub(super) fn seconds(study: &Study<'_>, cell: &CellAnalysis, s: &SettingAnalysis) -> Vec<f64> {
    every_second(study.slices(&cell.cell, &s.name))
}

/// Returns the median of the base's seconds.
fn base_median(cell: &CellAnalysis, s: &SettingAnalysis) -> Option<f64> {
    Some(cell.setting(&s.base)?.seconds.p50).filter(|median| median.is_finite())
}

/// Renders a box for each setting.
pub(super) fn boxes(study: &Study<'_>, cell: &CellAnalysis) -> Markup {
    let boxes: Vec<(&SettingAnalysis, Box)> =
        measured(cell).filter_map(|s| Some((s, Box::of(&seconds(study, cell, s))?))).collect();
    let axis = Axis::holding(boxes.iter().flat_map(|(_, b)| b.extent()));
    html! {
        table.plot {
            (plot_heads("median", "middle half"))
            tbody {
                @for (s, figure) in &boxes {
                    tr {
                        th scope="row" { (s.name) }
                        td.chart { (figure.row(&axis, base_median(cell, s))) }
                        td.figure { (unit::plain(figure.median)) "/s" }
                        td.said { (unit::plain(figure.first)) " to " (unit::plain(figure.third)) }
                    }
                }
            }
            tfoot { tr { td {} td { (axis.labels(|tick| axis.number(tick))) } td {} td {} } }
        }
    }
}

/// Returns the unit of a time axis: its length in seconds, and its name.
fn time_unit(seconds: f64) -> (f64, &'static str) {
    if seconds > 3.0 * 3600.0 {
        (3600.0, "h")
    } else if seconds > 180.0 {
        (60.0, "min")
    } else {
        (1.0, "s")
    }
}

/// The seconds of a setting's load, slices end to end: the time and value of each, and the times of scrapes.
struct ThroughputSeries {
    points: Vec<Second>,
    scrapes: Vec<f64>,
    length: f64,
}

impl ThroughputSeries {
    /// Joins slices. The driver does not always report a slice's last second. A slice in turns counts as a
    /// single second.
    #[allow(clippy::cast_precision_loss)] // seconds of a slice
    fn of(slices: &[&Slice]) -> ThroughputSeries {
        let mut course = ThroughputSeries { points: vec![], scrapes: vec![], length: 0.0 };
        for slice in slices {
            let each = if slice.turns.is_empty() { 1.0 } else { slice.seconds };
            let begun = course.length;
            let middle = |place: usize| begun + (place as f64 + 0.5) * each;
            course.points.extend(slice.per_second.iter().enumerate().map(|(i, done)| (middle(i), *done)));
            course.scrapes.extend(slice.scrapes.iter().map(|at| begun + at));
            course.length += slice.seconds;
        }
        course
    }

    /// Makes a scatter on an axis whose unit has so many seconds.
    fn scatter(&self, unit: f64, base: Option<f64>, limits: [f64; 2], said: String) -> Scatter {
        Scatter {
            points: self.points.iter().map(|(at, done)| (at / unit, *done)).collect(),
            scrapes: self.scrapes.iter().map(|at| at / unit).collect(),
            second: 1.0 / unit,
            base,
            limits,
            said,
        }
    }
}

/// Renders a scatter for each setting.
pub(super) fn scatters(study: &Study<'_>, cell: &CellAnalysis) -> Markup {
    let courses: Vec<(&SettingAnalysis, ThroughputSeries)> =
        measured(cell).map(|s| (s, ThroughputSeries::of(study.slices(&cell.cell, &s.name)))).collect();
    let longest = courses.iter().map(|(_, c)| c.length).fold(0.0, f64::max);
    let (length, name) = time_unit(longest);
    let time = Axis::holding([0.0, longest / length]);
    let value = Axis::holding(courses.iter().flat_map(|(_, c)| c.points.iter().map(|p| p.1)));
    let (low, high) = value.ends();
    let asked = courses.iter().any(|(_, c)| !c.scrapes.is_empty());
    html! {
        table.plot.courses {
            colgroup { col.name; col; col.value; col.words; }
            caption.note {
                "Every second, from " (unit::plain(low)) " to " (unit::plain(high)) " transactions, over the time a setting had load: its "
                "slices end to end. The level line is the base's median; between the dashed ones are 98 of 100 seconds: 1 is below, "
                "1 above (p99 of transactions per second)."
                @if asked {
                    " " span.asked-key { "Marks below are scrapes" } ", and the seconds they fell into have their colour."
                }
            }
            tbody {
                @for (s, course) in &courses {
                    @let done = seconds(study, cell, s);
                    @let limits = [s.seconds.p1, s.seconds.p99];
                    @let scatter = course.scatter(length, base_median(cell, s), limits, in_words(&s.name, &done));
                    tr {
                        th scope="row" {
                            (s.name)
                            span.below { "p99 " (unit::plain(limits[1])) "/s, 99% at least " (unit::plain(limits[0])) "/s" }
                            (while_asked(&scatter))
                        }
                        td.chart colspan="3" { (scatter.drawn(&time, &value)) }
                    }
                }
            }
            tfoot {
                tr { td {} td colspan="3" { (time.labels(|tick| format!("{} {name}", time.number(tick)))) } }
            }
        }
    }
}

/// Renders the medians of seconds with a scrape, and of those without.
fn while_asked(scatter: &Scatter) -> Markup {
    let (asked, others) = scatter.by_asked();
    let median = |points: &[Second]| quantile(&points.iter().map(|p| p.1).collect::<Vec<_>>(), 0.5);
    html! {
        @if !asked.is_empty() {
            span.below {
                "with a scrape " (unit::plain(median(&asked))) "/s"
                @if !others.is_empty() { ", without " (unit::plain(median(&others))) "/s" }
            }
        }
    }
}

fn in_words(setting: &str, seconds: &[f64]) -> String {
    let [lowest, median, highest] = [0.0, 0.5, 1.0].map(|q| unit::plain(quantile(seconds, q)));
    format!(
        "transactions per second of {setting} over time: median {median}, lowest {lowest}, highest {highest}"
    )
}

/// Renders means with their standard errors beside the difference within blocks; collapsed unless the study
/// is about throughput.
pub(super) fn as_runs(study: &Study<'_>, cells: &[&CellAnalysis]) -> Markup {
    let all = || cells.iter().flat_map(|c| measured(c)).flat_map(|s| s.runs.keys());
    let own: BTreeSet<&String> = all().filter(|name| *name != THROUGHPUT).collect();
    if all().next().is_none() {
        return html! {};
    }
    html! {
        details.runs open[study.analysis.header.measure == Measure::Time] {
            summary { "Means and standard errors" }
            div.wide {
                table.figures {
                    caption.note {
                        "As studies say it that repeat a run some times: mean ± standard error, each slice as a run, and in brackets the share "
                        "of the base's mean. What drifts from slice to slice is in these errors, and no interval follows from them. "
                        "Beside them the difference within blocks, with its 95% interval."
                    }
                    thead {
                        tr {
                            th scope="col" { "setting" }
                            th scope="col" { "slices" }
                            th scope="col" { "TPS" }
                            th scope="col" { "TPS within blocks" }
                            @for name in &own { th scope="col" { (spaced(name)) } }
                        }
                    }
                    @for cell in cells {
                        tbody {
                            @if cells.len() > 1 {
                                tr.group { th colspan=(own.len() + 4) scope="rowgroup" { (cell.cell.drive()) } }
                            }
                            @for s in measured(cell) {
                                tr {
                                    th scope="row" { (s.name) }
                                    td data-head="slices" { (s.blocks) }
                                    td data-head="TPS" { (mean(cell, s, THROUGHPUT)) }
                                    td data-head="TPS within blocks" { (difference(s.throughput)) }
                                    @for name in &own { td data-head=(spaced(name)) { (mean(cell, s, name)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Renders a mean with its standard error, and its ratio to the base's.
fn mean(cell: &CellAnalysis, s: &SettingAnalysis, name: &str) -> Markup {
    let Some(own) = s.runs.get(name) else { return html! { (unit::NONE) } };
    let base = cell.setting(&s.base).filter(|_| !is_base(s)).and_then(|base| base.runs.get(name));
    html! {
        (unit::mean(*own))
        @if let Some(base) = base { " " span.interval { "(" (unit::fixed(own.value / base.value, 2)) ")" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a slice of 5 seconds, of which the driver reported 4, with scrapes in the fourth and in the
    /// unreported one.
    fn slice() -> Slice {
        let record = serde_json::json!({
            "workload": "w", "users": 1, "setting": "s", "block": 0, "turn": 0, "at": 100.0, "seconds": 5.0, "transactions": 50,
            "queries": 50, "errors": 0, "cpu_user": 1.0, "cpu_system": 0.0, "cpu_sidecars": 0.0, "resident_bytes": 1,
            "context_switches": 0, "logged_bytes": 0, "steal": 0.0, "load": 0.0,
            "latency": { "mean": 0.1, "p50": 0.1, "p95": 0.1, "p99": 0.1, "histogram": [] },
            "per_second": [10.0, 10.0, 10.0, 4.0], "scrapes": [3.1, 4.9],
        });
        serde_json::from_value(record).expect("a slice")
    }

    #[test]
    fn seconds_stay_where_they_were_though_the_last_one_is_not_told() {
        let (first, second) = (slice(), slice());
        let course = ThroughputSeries::of(&[&first, &second]);
        let middles: Vec<f64> = course.points.iter().map(|p| p.0).collect();
        assert_eq!(middles, [0.5, 1.5, 2.5, 3.5, 5.5, 6.5, 7.5, 8.5], "slices end to end");
        assert_eq!((course.scrapes.len(), course.length), (4, 10.0));
        let (asked, others) = course.scatter(1.0, None, [0.0, 1.0], String::new()).by_asked();
        assert_eq!(asked, [(3.5, 4.0), (8.5, 4.0)]);
        assert_eq!(others.len(), 6);
    }
}
