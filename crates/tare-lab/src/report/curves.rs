//! Throughput over the number of connections: a line per setting, with intervals.

use maud::{Markup, html};

use super::chart::{Axis, at, percent, pixels};
use super::{Study, measured};
use crate::results::record::SettingFacts;
use crate::statistics::{Estimate, mean_interval};
use crate::verdict::analysis::{CellAnalysis, SettingAnalysis};

/// Height of a picture, in pixels.
const HEIGHT: f64 = 220.0;
/// Distance in pixels between points of different settings at the same number of connections, so that
/// intervals do not hide each other.
const APART: f64 = 3.0;
/// Half of the length of the line at an interval's end.
const END: f64 = 3.0;
/// Space before the first number of connections and after the last, in doublings.
const ROOM: f64 = 0.35;
/// Number of colours for settings other than base and A/A control.
const COLOURS: usize = 8;
/// Shapes of points, in turn, so that settings can be told apart without colours.
const MARKS: [&str; 4] = [
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
    "M-3.5-3.5h7v7h-7z",
    "M-4.5 3.5L0-4.5L4.5 3.5z",
    "M-5 0L0-5L5 0L0 5z",
];

/// The line of a setting.
struct Curve<'a> {
    name: &'a str,
    /// Colour class of the style sheet.
    class: String,
    mark: &'static str,
    /// Connections with the estimate at each.
    points: Vec<(u32, Estimate)>,
}

/// Renders two pictures of a workload: transactions per second, and their difference from the base. Empty if
/// connections did not vary, or transactions came at a rate.
pub(super) fn curves(study: &Study<'_>, cells: &[&CellAnalysis]) -> Markup {
    let mut cells: Vec<&CellAnalysis> = cells.iter().copied().filter(|c| c.cell.percent.is_none()).collect();
    cells.sort_by_key(|c| c.cell.users);
    if cells.len() < 2 {
        return html! {};
    }
    let throughput = lines(study, &cells, |cell, s| {
        let done = study.slices(&cell.cell, &s.name).iter();
        mean_interval(&done.map(|s| s.tps()).collect::<Vec<_>>())
    });
    let differences = lines(study, &cells, |_, s| {
        let difference = s.throughput?;
        let (low, high) = difference.interval?;
        Some(Estimate { value: difference.share, low, high })
    });
    html! {
        p.note {
            "Transactions per second: means of slices with their 95% interval, in which is all that drifts. "
            @if !differences.is_empty() {
                "Below, by how much a setting differs from the base within blocks, with the 95% interval."
            }
        }
        figure.curves {
            (picture(&cells, &throughput, "transactions per second", Axis::number))
            @if !differences.is_empty() { (picture(&cells, &differences, "difference from the base", Axis::change)) }
            figcaption.key {
                @for curve in &throughput {
                    span class=(curve.class) {
                        svg width="26" height="12" viewBox="-13 -6 26 12" aria-hidden="true" {
                            line.curve x1="-13" x2="13" y1="0" y2="0" {}
                            path.mark d=(curve.mark) {}
                        }
                        (curve.name)
                    }
                }
            }
        }
    }
}

/// Returns the line of every setting that has a point.
fn lines<'s>(
    study: &'s Study<'_>,
    cells: &[&CellAnalysis],
    estimate: impl Fn(&CellAnalysis, &SettingAnalysis) -> Option<Estimate>,
) -> Vec<Curve<'s>> {
    let mut colours = (0..COLOURS).cycle();
    let mut curve = |(place, facts): (usize, &'s SettingFacts)| {
        let class = match facts {
            base if base.name == base.base => "series base".into(),
            control if control.control => "series control".into(),
            _ => format!("series s{}", colours.next().unwrap_or(0)),
        };
        let of_cell = |cell: &&CellAnalysis| {
            let setting = measured(cell).find(|s| s.name == facts.name)?;
            Some((cell.cell.users, estimate(cell, setting)?))
        };
        let points = cells.iter().filter_map(of_cell).collect();
        Curve { name: &facts.name, class, mark: MARKS[place % MARKS.len()], points }
    };
    let settings = study.analysis.header.settings.iter().enumerate();
    settings.map(&mut curve).filter(|curve| !curve.points.is_empty()).collect()
}

/// Returns the position of a number of connections: its logarithm.
fn place_of(users: u32) -> f64 {
    f64::from(users).log2()
}

/// Renders curves over the connections of these cells; `labelled` formats a tick of the vertical axis.
fn picture(
    cells: &[&CellAnalysis],
    curves: &[Curve<'_>],
    what: &str,
    labelled: fn(&Axis, f64) -> String,
) -> Markup {
    let users = || cells.iter().map(|c| place_of(c.cell.users));
    let along = Axis::holding(users().flat_map(|place| [place - ROOM, place + ROOM]));
    let points = || curves.iter().flat_map(|c| c.points.iter().map(|p| p.1));
    let up = Axis::holding(points().flat_map(|e| [e.low, e.high]).chain([0.0]));
    let height = |value: f64| HEIGHT * (1.0 - up.place(value) / 100.0);
    #[allow(clippy::cast_precision_loss)] // a handful
    let shift = |place: usize| (place as f64 - (curves.len() - 1) as f64 / 2.0) * APART;
    html! {
        div.panel {
            div.what { (what) ", by connections" }
            div.scale style=(format!("height:{HEIGHT}px")) aria-hidden="true" {
                @for tick in up.ticks() { span style=(format!("top:{}px", pixels(height(tick)))) { (labelled(&up, tick)) } }
            }
            svg.chart height=(HEIGHT) role="img" aria-label=(in_words(what, curves, &up, labelled)) {
                @for tick in up.ticks() {
                    @let y = pixels(height(tick));
                    line class=(if tick == 0.0 { "zero" } else { "grid" }) x1="0" x2="100%" y1=(y) y2=(y) {}
                }
                @for (place, curve) in curves.iter().enumerate() {
                    g class=(curve.class) transform=(format!("translate({} 0)", pixels(shift(place)))) { (curve.drawn(&along, height)) }
                }
            }
            div.ticks aria-hidden="true" {
                @for cell in cells { (at(along.place(place_of(cell.cell.users)), &cell.cell.users.to_string())) }
            }
        }
    }
}

impl Curve<'_> {
    /// Renders points with their intervals, joined by lines. The parts of a point are in pixels around its
    /// position.
    fn drawn(&self, along: &Axis, height: impl Fn(f64) -> f64) -> Markup {
        let x = |users: u32| percent(along.place(place_of(users)));
        html! {
            @for pair in self.points.windows(2) {
                @let [(from, before), (to, after)] = [pair[0], pair[1]];
                line.curve x1=(x(from)) x2=(x(to)) y1=(pixels(height(before.value))) y2=(pixels(height(after.value))) {}
            }
            @for (users, estimate) in &self.points {
                @let [low, middle, high] = [estimate.low, estimate.value, estimate.high].map(|v| pixels(height(v)));
                svg.point x=(x(*users)) width="1" height="1" {
                    path.reach d=(format!("M0 {low}V{high}M-{END} {low}H{END}M-{END} {high}H{END}")) {}
                    path.mark d=(self.mark) transform=(format!("translate(0 {middle})")) {}
                }
            }
        }
    }
}

/// Describes a picture.
fn in_words(what: &str, curves: &[Curve<'_>], up: &Axis, labelled: fn(&Axis, f64) -> String) -> String {
    let ends = |curve: &Curve<'_>| {
        let each = curve.points.iter().map(|(users, e)| format!("{} at {users}", labelled(up, e.value)));
        format!("{}: {}", curve.name, each.collect::<Vec<_>>().join(", "))
    };
    let all: Vec<String> = curves.iter().map(ends).collect();
    format!("{what} by connections. {}", all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u32, f64)]) -> Curve<'static> {
        let estimate = |value: f64| Estimate { value, low: value - 10.0, high: value + 10.0 };
        let points = points.iter().map(|(users, value)| (*users, estimate(*value))).collect();
        Curve { name: "on", class: "series s0".into(), mark: MARKS[0], points }
    }

    #[test]
    fn points_are_joined_and_doublings_are_as_far_apart() {
        let along = Axis::holding([4.0, 9.0]);
        let drawn =
            curve(&[(16, 100.0), (32, 200.0), (64, 150.0)]).drawn(&along, |v| 300.0 - v).into_string();
        assert_eq!((drawn.matches("<line").count(), drawn.matches("class=\"mark\"").count()), (2, 3));
        // Ends of the interval.
        assert!(drawn.contains("M0 210.0V190.0"), "{drawn}");
        let x = |users: u32| along.place(place_of(users));
        assert!((x(64) - x(32) - (x(32) - x(16))).abs() < 1e-9);
        let alone = curve(&[(16, 100.0)]).drawn(&along, |v| v).into_string();
        assert_eq!((alone.matches("<line").count(), alone.matches("class=\"mark\"").count()), (0, 1));
    }

    #[test]
    fn a_picture_says_what_it_shows() {
        let said = in_words(
            "transactions per second",
            &[curve(&[(1, 100.0), (64, 900.0)])],
            &Axis::holding([0.0, 900.0]),
            Axis::number,
        );
        assert_eq!(said, "transactions per second by connections. on: 100 at 1, 900 at 64");
    }
}
