//! Charts as inline SVG.
//!
//! Positions along a chart's axis are in percent of its width, those across it in pixels. So a chart fills
//! the page's width, while lines, marks and text keep their size. Labels of axes are text of the page.
//! Colours come from the page's style sheet by class, for light and dark.

use maud::{Markup, html};

use super::unit;
use crate::statistics::quantile;

/// Height of a row of an interval plot or box plot, in pixels.
const ROW: f64 = 26.0;
/// Height of a scatter over time, and of the marks below it, in pixels.
const SCATTER: f64 = 84.0;
const SCRAPE: f64 = 7.0;
/// Most points of a scatter.
const MOST_POINTS: usize = 4000;
/// Most outliers of a box.
const MOST_OUTLIERS: usize = 40;
/// Share of a distribution below which nothing is drawn.
const FEWEST: f64 = 1e-5;
/// Space at the ends of an axis, as a share of its range.
const ROOM: f64 = 0.03;
/// Distance in percent from an end of the axis, below which a label would stick out.
const LABEL: f64 = 6.0;
/// Approximate number of an axis's ticks.
const TICKS: f64 = 5.0;

/// A range of values along a chart.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    step: f64,
}

impl Axis {
    /// Makes an axis for all finite values, with a little space at both ends; no space below 0 if no value is
    /// negative.
    pub(super) fn holding(values: impl IntoIterator<Item = f64>) -> Axis {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.into_iter().filter(|v| v.is_finite()) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let room = ((high - low) * ROOM).max(high.abs() * 1e-3).max(1e-9);
        (low, high) = (if low < 0.0 { low - room } else { (low - room).max(0.0) }, high + room);
        Axis { low, high, step: round_step((high - low) / TICKS) }
    }

    /// Makes an axis of logarithms to base 10, whose ticks are whole powers.
    pub(super) fn of_powers(logarithms: impl IntoIterator<Item = f64>) -> Axis {
        let axis = Axis::holding(logarithms);
        let (low, high) = (axis.low.floor(), axis.high.ceil());
        Axis { low, high, step: round_step(((high - low) / TICKS).max(1.0)) }
    }

    /// Returns a value's position in percent; the nearest end if it is outside.
    pub(super) fn place(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0) * 100.0
    }

    /// Returns its round values.
    pub(super) fn ticks(&self) -> Vec<f64> {
        #[allow(clippy::cast_possible_truncation)] // a handful, next to each other
        let (first, last) = ((self.low / self.step).ceil() as i64, (self.high / self.step).floor() as i64);
        #[allow(clippy::cast_precision_loss)]
        (first..=last).map(|n| n as f64 * self.step).collect()
    }

    /// Returns its ends.
    pub(super) fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Returns the decimals that tell its ticks apart.
    fn decimals(&self, of: f64) -> usize {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let decimals = (-(self.step / of).log10() - 1e-9).ceil().max(0.0) as usize;
        decimals
    }

    /// Formats a tick with only the decimals that it needs.
    pub(super) fn number(&self, tick: f64) -> String {
        unit::fixed(tick, self.decimals(1.0))
    }

    /// Formats a tick as a percentage with its sign.
    pub(super) fn change(&self, tick: f64) -> String {
        unit::signed(tick, self.decimals(0.01))
    }

    /// Renders the ticks' labels below a chart.
    pub(super) fn labels(&self, label: impl Fn(f64) -> String) -> Markup {
        html! {
            div.ticks aria-hidden="true" {
                @for tick in self.ticks() { (at(self.place(tick), &label(tick))) }
            }
        }
    }
}

/// Renders a label centred below its tick; at the ends of the axis it stays inside.
pub(super) fn at(place: f64, label: &str) -> Markup {
    let shift = if place < LABEL {
        0
    } else if place > 100.0 - LABEL {
        -100
    } else {
        -50
    };
    html! { span style=(format!("left:{};transform:translateX({shift}%)", percent(place))) { (label) } }
}

/// Returns 1, 2 or 5 times a power of ten, at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let part = step / power;
    power
        * if part <= 1.0 {
            1.0
        } else if part <= 2.0 {
            2.0
        } else if part <= 5.0 {
            5.0
        } else {
            10.0
        }
}

pub(super) fn percent(place: f64) -> String {
    format!("{place:.2}%")
}

pub(super) fn pixels(place: f64) -> String {
    format!("{place:.1}")
}

fn vertical(axis: &Axis, class: &str, value: f64) -> Markup {
    let x = percent(axis.place(value));
    html! { line class=(class) x1=(x) x2=(x) y1="0" y2="100%" {} }
}

fn across(axis: &Axis, class: &str, low: f64, high: f64, y: f64, height: f64) -> Markup {
    let (left, right) = (axis.place(low), axis.place(high));
    html! {
        rect class=(class) x=(percent(left)) width=(percent(right - left)) y=(pixels(y)) height=(pixels(height)) {}
    }
}

/// Renders a short line across the axis; a rectangle without width would not be drawn.
fn upright(axis: &Axis, class: &str, value: f64, y: f64, height: f64) -> Markup {
    let x = percent(axis.place(value));
    html! { line class=(class) x1=(x) x2=(x) y1=(pixels(y)) y2=(pixels(y + height)) {} }
}

/// An estimate with its interval, drawn over the noise band, the margin and zero.
pub(super) struct Interval<'a> {
    /// Kind of verdict: a class of the style sheet.
    pub(super) kind: &'a str,
    pub(super) value: f64,
    pub(super) range: Option<(f64, f64)>,
    /// Interval of the A/A control, if there is one.
    pub(super) noise: Option<(f64, f64)>,
    /// Differences below this do not matter.
    pub(super) margin: f64,
}

impl Interval<'_> {
    /// Renders a row of an interval plot. The text beside it says the same.
    pub(super) fn row(&self, axis: &Axis) -> Markup {
        let middle = ROW / 2.0;
        let y = pixels(middle);
        html! {
            svg.chart height=(ROW) aria-hidden="true" {
                @if let Some((low, high)) = self.noise { (across(axis, "noise", low, high, 0.0, ROW)) }
                @for tick in axis.ticks() { (vertical(axis, "grid", tick)) }
                (vertical(axis, "margin", -self.margin))
                (vertical(axis, "margin", self.margin))
                (vertical(axis, "zero", 0.0))
                g class=(self.kind) {
                    @if let Some((low, high)) = self.range {
                        (across(axis, "range", low, high, middle - 1.5, 3.0))
                        (upright(axis, "end", low, middle - 5.0, 10.0))
                        (upright(axis, "end", high, middle - 5.0, 10.0))
                    }
                    circle.estimate cx=(percent(axis.place(self.value))) cy=(y) r="4.5" {}
                }
            }
        }
    }
}

/// A box plot of a sample: quartiles and median, whiskers to the last values within 1.5 interquartile ranges,
/// outliers.
#[derive(Debug)]
pub(super) struct Box {
    pub(super) low: f64,
    pub(super) first: f64,
    pub(super) median: f64,
    pub(super) third: f64,
    pub(super) high: f64,
    outliers: Vec<f64>,
}

impl Box {
    /// Makes the box of values; `None` without any.
    pub(super) fn of(values: &[f64]) -> Option<Box> {
        if values.is_empty() {
            return None;
        }
        let [first, median, third] = [0.25, 0.5, 0.75].map(|q| quantile(values, q));
        let reach = (third - first) * 1.5;
        let inside = |v: f64| v >= first - reach && v <= third + reach;
        let within = || values.iter().copied().filter(|v| inside(*v));
        let mut outliers: Vec<f64> = values.iter().copied().filter(|v| !inside(*v)).collect();
        // If there are too many, the farthest are drawn.
        outliers.sort_by(|a, b| (b - median).abs().total_cmp(&(a - median).abs()));
        outliers.truncate(MOST_OUTLIERS);
        let low = within().fold(first, f64::min);
        let high = within().fold(third, f64::max);
        Some(Box { low, first, median, third, high, outliers })
    }

    /// Returns all drawn values.
    pub(super) fn extent(&self) -> impl Iterator<Item = f64> {
        [self.low, self.high].into_iter().chain(self.outliers.iter().copied())
    }

    /// Renders a row of a box plot, with the base's median as a line. The text beside it says the same.
    pub(super) fn row(&self, axis: &Axis, base: Option<f64>) -> Markup {
        let middle = ROW / 2.0;
        html! {
            svg.chart height=(ROW) aria-hidden="true" {
                @for tick in axis.ticks() { (vertical(axis, "grid", tick)) }
                @if let Some(base) = base { (vertical(axis, "zero", base)) }
                g.box {
                    (across(axis, "whisker", self.low, self.high, middle - 0.75, 1.5))
                    (upright(axis, "end", self.low, middle - 4.0, 8.0))
                    (upright(axis, "end", self.high, middle - 4.0, 8.0))
                    (across(axis, "quartiles", self.first, self.third, middle - 7.0, 14.0))
                    (upright(axis, "median", self.median, middle - 7.0, 14.0))
                    @for outlier in &self.outliers {
                        circle.outlier cx=(percent(axis.place(*outlier))) cy=(pixels(middle)) r="2" {}
                    }
                }
            }
        }
    }
}

/// Renders a row of a distribution: bars of equal width, each as high as the logarithm of its share, and
/// marks. The text beside it says the same.
pub(super) fn distribution(bars: &[(f64, f64)], width: f64, marks: &[f64], axis: &Axis) -> Markup {
    let height =
        |share: f64| ((share / FEWEST).log10() / (1.0 / FEWEST).log10()).clamp(0.02, 1.0) * (ROW - 4.0);
    html! {
        svg.chart height=(ROW) aria-hidden="true" {
            @for tick in axis.ticks() { (vertical(axis, "grid", tick)) }
            g.box {
                @for &(low, share) in bars {
                    (across(axis, "quartiles", low, low + width, ROW - height(share), height(share)))
                }
                @for mark in marks.iter().filter(|mark| mark.is_finite()) { (upright(axis, "median", *mark, 0.0, ROW)) }
            }
        }
    }
}

/// The middle of a second on the time axis, and its value.
pub(super) type Second = (f64, f64);

/// Values of every second under load.
pub(super) struct Scatter {
    pub(super) points: Vec<Second>,
    /// Times of scrapes on the time axis; each marks the second it lies in.
    pub(super) scrapes: Vec<f64>,
    /// Length of a second on the time axis.
    pub(super) second: f64,
    /// Median of the base.
    pub(super) base: Option<f64>,
    /// Levels between which nearly all seconds lie.
    pub(super) limits: [f64; 2],
    /// Description of the chart in words.
    pub(super) said: String,
}

impl Scatter {
    /// Renders it over a time axis and a value axis.
    pub(super) fn drawn(&self, time: &Axis, value: &Axis) -> Markup {
        let (asked, others) = self.by_asked();
        let level = |class: &str, at: f64| {
            let y = pixels(100.0 - value.place(at));
            html! { line class=(class) x1="0" x2="1000" y1=(y) y2=(y) {} }
        };
        html! {
            svg.chart height=(SCATTER) role="img" aria-label=(self.said) {
                @for tick in time.ticks() { (vertical(time, "grid", tick)) }
                svg width="100%" height="100%" viewBox="0 0 1000 100" preserveAspectRatio="none" {
                    @for limit in self.limits.into_iter().filter(|l| l.is_finite()) { (level("limit", limit)) }
                    @if let Some(base) = self.base { (level("zero", base)) }
                    path.dots d=(dots(&others, time, value)) {}
                    path.dots.asked d=(dots(&asked, time, value)) {}
                }
                @if !self.scrapes.is_empty() {
                    svg y=(SCATTER - SCRAPE) width="100%" height=(SCRAPE) viewBox="0 0 1000 1" preserveAspectRatio="none" {
                        path.scrape d=(self.marks(time)) {}
                    }
                }
            }
        }
    }

    /// Splits the seconds into those with a scrape and the others.
    pub(super) fn by_asked(&self) -> (Vec<Second>, Vec<Second>) {
        self.points.iter().partition(|(at, _)| self.is_asked(*at))
    }

    fn is_asked(&self, at: f64) -> bool {
        let half = self.second / 2.0;
        let next = self.scrapes.partition_point(|scrape| *scrape < at - half);
        self.scrapes.get(next).is_some_and(|scrape| *scrape < at + half)
    }

    /// Returns the path of the marks; those at the same place are drawn once.
    fn marks(&self, time: &Axis) -> String {
        let mut places: Vec<String> = self.scrapes.iter().map(|at| pixels(time.place(*at) * 10.0)).collect();
        places.dedup();
        places.iter().map(|x| format!("M{x} 0v1")).collect()
    }
}

/// Returns a path of lines without length, which show as dots because their ends are round. Of too many
/// points, the highest and lowest are drawn.
fn dots(points: &[Second], time: &Axis, value: &Axis) -> String {
    let together = (points.len() * 2).div_ceil(MOST_POINTS).max(2);
    let mut path = String::new();
    let mut dot = |(at, value_at): &(f64, f64)| {
        path.push_str(&format!("M{:.1} {:.1}h0", time.place(*at) * 10.0, 100.0 - value.place(*value_at)));
    };
    for chunk in points.chunks(together) {
        if chunk.len() <= 2 {
            chunk.iter().for_each(&mut dot);
            continue;
        }
        let by_value = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        chunk.iter().min_by(by_value).into_iter().chain(chunk.iter().max_by(by_value)).for_each(&mut dot);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_holds_all_and_has_round_ticks() {
        let axis = Axis::holding([-0.004, 0.031, f64::NAN]);
        let labels: Vec<String> = axis.ticks().into_iter().map(|t| axis.change(t)).collect();
        assert_eq!(labels, ["0%", "+1%", "+2%", "+3%"]);
        assert!(
            axis.place(-0.004) > 0.0 && axis.place(0.031) < 100.0 && axis.place(-0.004) < 5.0,
            "{axis:?}"
        );
        assert!((axis.place(7.0) - 100.0).abs() < 1e-9, "what is outside is at the end");
        let fine = Axis::holding([0.001, 0.0022]);
        assert_eq!(fine.ticks().into_iter().map(|t| fine.change(t)).next().as_deref(), Some("+0.10%"));
        let minutes = Axis::holding([0.0, 13.0]);
        assert_eq!(
            minutes.ticks().into_iter().map(|t| minutes.number(t)).collect::<Vec<_>>(),
            ["0", "5", "10"]
        );
    }

    #[test]
    fn what_is_never_below_zero_has_no_axis_below_it() {
        // It once read "from −28.2 to 969 per second", for seconds without transactions.
        assert_eq!(Axis::holding([0.0, 940.0]).ends().0, 0.0);
        assert!(Axis::holding([-1.0, 940.0]).ends().0 < -1.0);
    }

    #[test]
    fn an_axis_of_one_value_or_none_has_a_width() {
        for values in [vec![], vec![5.0], vec![0.0], vec![f64::INFINITY]] {
            let axis = Axis::holding(values);
            assert!(axis.place(axis.low) < axis.place(axis.high) && !axis.ticks().is_empty(), "{axis:?}");
        }
    }

    #[test]
    fn a_box_tells_outliers_from_the_rest() {
        let values: Vec<f64> = (1..=20).map(f64::from).chain([100.0]).collect();
        let figure = Box::of(&values).expect("a box");
        assert_eq!(
            (figure.median, figure.high, figure.outliers.as_slice()),
            (11.0, 20.0, [100.0].as_slice())
        );
        assert!(Box::of(&[]).is_none());
    }

    fn scatter(points: Vec<(f64, f64)>, scrapes: Vec<f64>) -> String {
        let axis = |of: fn(&(f64, f64)) -> f64| Axis::holding(points.iter().map(of));
        let (time, value) = (axis(|p| p.0), axis(|p| p.1));
        let scatter =
            Scatter { points, scrapes, second: 1.0, base: None, limits: [0.0, 1.0], said: String::new() };
        scatter.drawn(&time, &value).into_string()
    }

    #[test]
    fn of_very_many_seconds_the_outliers_stay() {
        let mut long: Vec<(f64, f64)> = (0..3 * 4000).map(|at| (f64::from(at), 10.0)).collect();
        long[7000].1 = 0.0;
        let drawn = scatter(long, vec![]);
        let count = drawn.matches("h0").count();
        assert!((MOST_POINTS / 2..=MOST_POINTS).contains(&count), "{count}");
        assert!(drawn.contains(" 100.0h0"), "the second in which nothing was done is there");
    }

    #[test]
    fn seconds_in_which_somebody_asked_are_told_from_the_others() {
        let points = (0..10).map(|second| (f64::from(second) + 0.5, 1.0)).collect();
        // Two are in the same second, one at its very start.
        let drawn = scatter(points, vec![2.1, 2.9, 7.0]);
        let asked =
            drawn.split("dots asked").nth(1).expect("a path").split("</path>").next().expect("its end");
        assert_eq!((asked.matches("h0").count(), drawn.matches("h0").count()), (2, 10), "{drawn}");
        assert_eq!(drawn.matches("v1").count(), 3);
    }
}
