//! A stand-alone picture of a study: the cost of every setting under every workload, as SVG, light and dark.
//!
//! The report shows the same in tables ([`super::results`]), which wrap with the page. This picture is for
//! other pages: everything is in units of its own width.

use maud::{Markup, PreEscaped, html};
use tare_page::{COLOURS, light};

use super::chart::{Axis, pixels};
use super::results::noise;
use super::wording::{Claim, charged, said};
use super::{Study, is_base, measured, unit};
use crate::verdict::analysis::{CellAnalysis, Difference};

/// Width of the picture, and the start and end of its plot.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 250.0;
const RIGHT: f64 = 735.0;
/// Height of a setting's line for a number of connections, and of the space around its lines.
const LINE: f64 = 11.0;
const AROUND: f64 = 12.0;
/// Height of a workload's heading, and of the space above the first and below the last.
const HEADING: f64 = 44.0;
const ABOVE: f64 = 34.0;
const BELOW: f64 = 34.0;
/// How far the axis extends beyond the estimates, as a share of their range. Longer intervals are cut off.
const BEYOND: f64 = 0.25;

/// Overrides the presentation attributes where the viewer supports custom properties.
const STYLE: &str = "@supports (fill: var(--ink)) {\
    svg { background: var(--page); font: 14px var(--sans); font-variant-numeric: tabular-nums; }\
    .page { fill: var(--page); }\
    text { fill: var(--ink); } .soft { fill: var(--soft); font-size: 12.5px; font-weight: 400; } .heading { font-weight: 650; }\
    .costs, .may-cost { --kind: var(--costs); } .gains, .may-gain { --kind: var(--gains); }\
    .equal { --kind: var(--equal); } .unclear { --kind: var(--unclear); }\
    .figure { fill: var(--kind, var(--ink)); font-weight: 650; }\
    .grid { stroke: var(--line); } .zero { stroke: var(--ink); } .margin { stroke: var(--soft); }\
    .noise { fill: var(--noise); } .range { stroke: var(--kind); }\
    .estimate { fill: var(--kind); stroke: var(--page); }\
    :is(.unclear, .may-cost, .may-gain) .estimate { fill: var(--page); stroke: var(--kind); } }";
/// Fonts for viewers that take none from the style sheet.
const SANS: &str = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

/// The part of a workload.
struct Panel<'s> {
    name: &'s str,
    /// `16, 32, 64 connections, from top to bottom`.
    connections: String,
    rows: Vec<PlottedSetting<'s>>,
}

/// A setting under a workload, with a point per number of connections.
struct PlottedSetting<'s> {
    name: &'s str,
    points: Vec<Point>,
}

/// A difference at a number of connections.
struct Point {
    claim: Claim,
    cost: Difference,
    noise: Option<(f64, f64)>,
}

/// Renders the picture of a study.
pub(super) fn picture(study: &Study<'_>) -> Markup {
    let header = &study.analysis.header;
    let workloads = study.workloads();
    let several = workloads.iter().any(|(_, cells)| cells.len() > 1);
    let panel = |(name, cells): (_, Vec<&CellAnalysis>)| Panel {
        name,
        connections: connections(&cells),
        rows: rows(study, &cells),
    };
    let panels: Vec<Panel<'_>> = workloads.into_iter().map(panel).collect();
    let axis = axis(panels.iter().flat_map(|panel| &panel.rows), header.margin);
    let (tops, bottom) = places(panels.iter().map(Panel::height), ABOVE);
    let height = bottom + BELOW;
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {height}")) width=(WIDTH) height=(height) role="img"
            fill=(light("ink")) font-family=(SANS) font-size="14" {
            title { (header.question) }
            style { (PreEscaped(COLOURS)) (PreEscaped(STYLE)) }
            rect.page fill=(light("page")) width=(WIDTH) height=(height) {}
            text.soft fill=(light("soft")) font-size="12.5" x="16" y="22" {
                "Difference in " (charged(header.measure)) ", with the 95% interval"
                @if several { "; a line for each number of connections" }
                ". Shaded: noise (A/A)"
            }
            @for (panel, top) in panels.iter().zip(tops) { (panel.drawn(&axis, header.margin, top)) }
            @for tick in axis.ticks() {
                text.soft fill=(light("soft")) font-size="12.5" x=(pixels(place(&axis, tick))) y=(bottom + 20.0) text-anchor="middle" { (axis.change(tick)) }
            }
        }
    }
}

/// Returns the settings that are compared with a base, where they were measured.
fn rows<'s>(study: &'s Study<'_>, cells: &[&CellAnalysis]) -> Vec<PlottedSetting<'s>> {
    let header = &study.analysis.header;
    let point = |cell: &&CellAnalysis, name: &str| {
        let setting = measured(cell).find(|s| s.name == name && !is_base(s))?;
        let (said, cost) = (said(header, cell, setting)?, setting.cost?);
        Some(Point { claim: said.claim, cost, noise: noise(cell, &setting.base) })
    };
    let rows = header.settings.iter().filter(|s| !s.control).map(|s| PlottedSetting {
        name: &s.name,
        points: cells.iter().filter_map(|cell| point(cell, &s.name)).collect(),
    });
    rows.filter(|row| !row.points.is_empty()).collect()
}

/// Makes the axis that contains all estimates, and the near parts of the intervals.
fn axis<'r>(rows: impl Iterator<Item = &'r PlottedSetting<'r>>, margin: f64) -> Axis {
    let points: Vec<&Point> = rows.flat_map(|row| &row.points).collect();
    let shares = || points.iter().map(|p| p.cost.share).chain([-margin, margin]);
    let (low, high) = (shares().fold(0.0, f64::min), shares().fold(0.0, f64::max));
    let beyond = (high - low) * BEYOND;
    let intervals = points.iter().flat_map(|p| [p.cost.interval, p.noise]).flatten();
    let ends = intervals.flat_map(|(from, to)| [from, to]);
    Axis::holding(shares().chain(ends.map(|end| end.clamp(low - beyond, high + beyond))))
}

/// Returns the horizontal position of a value.
fn place(axis: &Axis, value: f64) -> f64 {
    LEFT + (RIGHT - LEFT) * axis.place(value) / 100.0
}

/// Returns a claim's colour in the light theme.
fn colour(claim: Claim) -> &'static str {
    light(match claim {
        Claim::Costs | Claim::MayCost => "costs",
        Claim::Saves | Claim::MaySave => "gains",
        Claim::Equal => "equal",
        Claim::Unclear => "unclear",
    })
}

/// Renders vertical lines: ticks, the margin, zero.
fn rules(axis: &Axis, margin: f64, from: f64, to: f64) -> Markup {
    let line = |class: &str, colour: &str, dashes: Option<&str>, value: f64| {
        let (x, from, to) = (pixels(place(axis, value)), pixels(from), pixels(to));
        html! { line class=(class) stroke=(light(colour)) stroke-dasharray=[dashes] x1=(x) x2=(x) y1=(from) y2=(to) {} }
    };
    let edge = |value: f64| line("margin", "soft", Some("3 4"), value);
    html! {
        @for tick in axis.ticks() { (line("grid", "line", None, tick)) }
        (edge(-margin)) (edge(margin)) (line("zero", "ink", None, 0.0))
    }
}

/// Returns the positions of consecutive things with these heights, and the end of the last one.
fn places(heights: impl Iterator<Item = f64>, from: f64) -> (Vec<f64>, f64) {
    let mut at = from;
    let begin = |height: f64| {
        at += height;
        at - height
    };
    let places = heights.map(begin).collect();
    (places, at)
}

/// Describes the numbers of connections: `16, 32, 64 connections, from top to bottom`.
fn connections(cells: &[&CellAnalysis]) -> String {
    if let [one] = cells {
        return one.cell.drive();
    }
    let of_cell = |cell: &&CellAnalysis| match cell.cell.percent {
        Some(percent) => format!("{} at {percent}%", cell.cell.users),
        None => cell.cell.users.to_string(),
    };
    let each: Vec<String> = cells.iter().map(of_cell).collect();
    format!("{} connections, from top to bottom", each.join(", "))
}

impl Panel<'_> {
    fn height(&self) -> f64 {
        HEADING + self.rows.iter().map(PlottedSetting::height).sum::<f64>()
    }

    fn drawn(&self, axis: &Axis, margin: f64, top: f64) -> Markup {
        let (places, bottom) = places(self.rows.iter().map(PlottedSetting::height), top + HEADING);
        html! {
            text.heading font-weight="600" x="16" y=(pixels(top + 26.0)) {
                (self.name) tspan.soft fill=(light("soft")) font-size="12.5" font-weight="400" dx="10" { (self.connections) }
            }
            @for (row, at) in self.rows.iter().zip(&places) { (row.noise(axis, *at)) }
            (rules(axis, margin, top + HEADING - 6.0, bottom))
            @for (row, at) in self.rows.iter().zip(&places) { (row.drawn(axis, *at)) }
        }
    }
}

impl PlottedSetting<'_> {
    #[allow(clippy::cast_precision_loss)] // a handful
    fn height(&self) -> f64 {
        AROUND + LINE * self.points.len() as f64
    }

    /// Returns each point with the height of its line.
    fn lines(&self, top: f64) -> impl Iterator<Item = (&Point, f64)> {
        #[allow(clippy::cast_precision_loss)] // a handful
        let line = move |place: usize| top + AROUND / 2.0 + LINE * (place as f64 + 0.5);
        self.points.iter().enumerate().map(move |(place, point)| (point, line(place)))
    }

    /// Renders the noise of the same base.
    fn noise(&self, axis: &Axis, top: f64) -> Markup {
        html! {
            @for (point, y) in self.lines(top) {
                @if let Some((low, high)) = point.noise {
                    @let (left, right) = (place(axis, low), place(axis, high));
                    rect.noise fill=(light("noise")) x=(pixels(left)) width=(pixels(right - left)) y=(pixels(y - LINE / 2.0)) height=(pixels(LINE)) {}
                }
            }
        }
    }

    fn drawn(&self, axis: &Axis, top: f64) -> Markup {
        let base_line = pixels(top + self.height() / 2.0 + 5.0);
        let claim = Claim::worst(self.points.iter().map(|p| p.claim));
        html! {
            text x=(pixels(LEFT - 14.0)) y=(base_line) text-anchor="end" { (self.name) }
            @for (point, y) in self.lines(top) { (point.drawn(axis, y)) }
            text class={ "figure " (claim.word()) } fill=(colour(claim)) font-weight="600" x=(pixels(RIGHT + 16.0)) y=(base_line) {
                (self.figure())
            }
        }
    }

    /// Renders the difference, or the lowest and the highest of several.
    fn figure(&self) -> Markup {
        let change = |c: &Difference| unit::change(c.share, c.plus_minus());
        let mut costs: Vec<Difference> = self.points.iter().map(|p| p.cost).collect();
        costs.sort_by(|a, b| a.share.total_cmp(&b.share));
        match costs.as_slice() {
            [one] => html! {
                (change(one)) tspan.soft fill=(light("soft")) font-size="12.5" font-weight="400" dx="7" { (unit::interval(*one)) }
            },
            [low, .., high] => html! { (change(low)) " … " (change(high)) },
            [] => html! {},
        }
    }
}

impl Point {
    fn drawn(&self, axis: &Axis, y: f64) -> Markup {
        let y = pixels(y);
        let (kind, page) = (colour(self.claim), light("page"));
        let hollow = matches!(self.claim, Claim::Unclear | Claim::MayCost | Claim::MaySave);
        let (fill, stroke, width) = if hollow { (page, kind, "2") } else { (kind, page, "1") };
        html! {
            g class=(self.claim.word()) {
                @if let Some((low, high)) = self.cost.interval {
                    line.range stroke=(kind) stroke-width="2.5" x1=(pixels(place(axis, low))) x2=(pixels(place(axis, high))) y1=(y) y2=(y) {}
                }
                circle.estimate fill=(fill) stroke=(stroke) stroke-width=(width) cx=(pixels(place(axis, self.cost.share))) cy=(y) r="4" {}
            }
        }
    }
}
