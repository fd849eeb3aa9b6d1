//! The stacked chart of active sessions: average by group over time, with a line at the number of processors.

use std::collections::BTreeMap;
use std::fmt::Write;

use maud::{Markup, html};
use serde::{Serialize, Serializer};
use tare_page::unit;

use crate::sessions::{Column, GROUPS, Stretch, average, clock, day, rfc3339};

/// Colours of the groups, after Okabe and Ito, for light pages and for dark ones.
const COLOURS: [&str; GROUPS.len()] =
    ["#0072b2", "#e69f00", "#009e73", "#f0e442", "#d55e00", "#cc79a7", "#999999"];
/// Height of the chart, and its margins, in pixels.
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 30.0;
/// Widths of the chart, for wide and for narrow pages.
pub(super) const WIDE: f64 = 1100.0;
pub(super) const NARROW: f64 = 420.0;
/// Pixels that a label of the time needs.
const LABEL: f64 = 90.0;
/// Times as many processors as sessions from which the line is left out: the areas would be too flat.
const FAR: f64 = 4.0;
/// Distances of ticks of the time, in seconds.
const TICKS: [u64; 18] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];

/// A chart of active sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Number of the server's processors, if known.
    pub processors: Option<u64>,
    /// Its columns.
    pub columns: Vec<Column>,
}

impl Serialize for Chart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let column = |column: &Column| {
            let sessions: BTreeMap<&str, f64> =
                GROUPS.iter().map(|(name, _)| *name).zip(column.sessions()).collect();
            serde_json::json!({
                "from": rfc3339(column.stretch.from),
                "seconds": column.stretch.seconds(),
                "sessions": sessions,
            })
        };
        let columns: Vec<_> = self.columns.iter().map(column).collect();
        serde_json::json!({ "processors": self.processors, "columns": columns }).serialize(serializer)
    }
}

/// What a picture depends on: colours besides those of the groups, and whether it is a file of its own.
#[derive(Clone, Copy)]
pub(super) struct Ink {
    pub(super) page: &'static str,
    pub(super) ink: &'static str,
    pub(super) soft: &'static str,
    pub(super) line: &'static str,
    /// Namespace that a file needs, but not a part of a page.
    pub(super) namespace: Option<&'static str>,
}

impl Ink {
    /// Returns those of the light theme.
    pub(super) fn light() -> Ink {
        let of = tare_page::light;
        Ink { page: of("page"), ink: of("ink"), soft: of("soft"), line: of("line"), namespace: None }
    }
}

/// Renders the chart for the page: in two widths, one of which is shown, and what its colours mean.
pub(super) fn figure(chart: &Chart) -> Markup {
    html! {
        figure.sessions {
            div.at-wide { (svg(chart, WIDE, Ink::light())) }
            div.at-narrow style="display:none" { (svg(chart, NARROW, Ink::light())) }
            figcaption.key {
                @for (group, sessions) in averages(chart).into_iter().rev() {
                    span {
                        svg width="12" height="12" aria-hidden="true" { rect width="12" height="12" fill=(COLOURS[group]) {} }
                        " " (GROUPS[group].0) " " (unit::plain(sessions))
                    }
                }
                @if let Some(processors) = chart.processors {
                    span {
                        svg width="16" height="12" aria-hidden="true" { line.processors stroke=(Ink::light().ink) stroke-dasharray="5 3" x1="0" x2="16" y1="6" y2="6" {} }
                        " " (processors) " processors"
                    }
                }
            }
        }
    }
}

/// Returns the groups that took time, with their average number of sessions, from the bottom up.
fn averages(chart: &Chart) -> Vec<(usize, f64)> {
    let length: u64 = chart.columns.iter().map(|column| column.stretch.length()).sum();
    let us = |group: usize| chart.columns.iter().map(|column| column.times[group]).sum::<u64>();
    (0..GROUPS.len())
        .map(|group| (group, us(group)))
        .filter(|(_, us)| *us > 0)
        .map(|(group, us)| (group, average(us, length)))
        .collect()
}

/// The scales of a picture.
struct ChartScale {
    stretch: Stretch,
    most: f64,
    width: f64,
}

impl ChartScale {
    fn x(&self, at: u64) -> f64 {
        let past = Stretch { from: self.stretch.from, to: at }.seconds();
        LEFT + past / self.stretch.seconds().max(f64::MIN_POSITIVE) * (self.width - LEFT - RIGHT)
    }

    fn y(&self, sessions: f64) -> f64 {
        HEIGHT - BOTTOM - sessions / self.most * (HEIGHT - TOP - BOTTOM)
    }
}

/// Renders the picture of a chart.
pub(super) fn svg(chart: &Chart, width: f64, ink: Ink) -> Markup {
    let (Some(first), Some(last)) = (chart.columns.first(), chart.columns.last()) else { return html! {} };
    let stretch = Stretch { from: first.stretch.from, to: last.stretch.to };
    let highest = chart.columns.iter().map(|it| it.sessions().iter().sum::<f64>()).fold(0.0, f64::max);
    #[allow(clippy::cast_precision_loss)] // few
    let processors = chart.processors.map(|count| count as f64).filter(|it| *it <= FAR * highest.max(0.25));
    let each = tick(highest.max(processors.unwrap_or(0.0)).max(0.1));
    let most = (highest.max(processors.unwrap_or(0.0)) * 1.02 / each).ceil().max(1.0) * each;
    let scale = ChartScale { stretch, most, width };
    let (right, bottom) = (width - RIGHT, HEIGHT - BOTTOM);
    html! {
        svg.sessions xmlns=[ink.namespace] viewBox=(format!("0 0 {width:.0} {HEIGHT:.0}")) role="img"
            aria-label=(description(chart, stretch)) fill=(ink.ink) font-family="system-ui, sans-serif" font-size="12" {
            @for level in levels(each, most) {
                @let y = scale.y(level);
                line.grid stroke=(ink.line) x1=(px(LEFT)) x2=(px(right)) y1=(px(y)) y2=(px(y)) {}
                text.soft fill=(ink.soft) x=(px(LEFT - 7.0)) y=(px(y + 4.0)) text-anchor="end" { (level_label(level, each)) }
            }
            @for (at, label) in times(stretch, width) {
                @let x = scale.x(at);
                line.grid stroke=(ink.line) x1=(px(x)) x2=(px(x)) y1=(px(bottom)) y2=(px(bottom + 5.0)) {}
                text.soft fill=(ink.soft) x=(px(x)) y=(px(HEIGHT - 9.0)) text-anchor="middle" { (label) }
            }
            @for (group, sessions) in averages(chart) {
                path.area fill=(COLOURS[group]) stroke=(ink.page) stroke-width="0.6" d=(area(chart, group, &scale)) {
                    title { (GROUPS[group].0) ": " (unit::plain(sessions)) " on average" }
                }
            }
            line.axis stroke=(ink.soft) x1=(px(LEFT)) x2=(px(right)) y1=(px(bottom)) y2=(px(bottom)) {}
            @if let Some(processors) = processors {
                @let y = scale.y(processors);
                line.halo stroke=(ink.page) stroke-width="4" x1=(px(LEFT)) x2=(px(right)) y1=(px(y)) y2=(px(y)) {}
                line.processors stroke=(ink.ink) stroke-width="1.5" stroke-dasharray="6 4" x1=(px(LEFT)) x2=(px(right)) y1=(px(y)) y2=(px(y)) {
                    title { (unit::plain(processors)) " processors" }
                }
            }
        }
    }
}

fn description(chart: &Chart, stretch: Stretch) -> String {
    let parts: Vec<String> = averages(chart)
        .into_iter()
        .map(|(group, sessions)| format!("{} {}", unit::plain(sessions), GROUPS[group].0))
        .collect();
    format!(
        "Active sessions from {} to {} UTC, on average: {}",
        day(stretch.from),
        day(stretch.to),
        parts.join(", ")
    )
}

/// Returns the outline of a group: its upper edge, and then its lower one backwards. Columns are steps.
fn area(chart: &Chart, group: usize, scale: &ChartScale) -> String {
    let edge = |column: &Column, groups: usize| scale.y(column.sessions()[..groups].iter().sum());
    let mut path = String::new();
    for column in &chart.columns {
        let command = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1} {:.1}", scale.x(column.stretch.from), edge(column, group + 1));
        let _ = write!(path, "H{:.1}", scale.x(column.stretch.to));
    }
    for column in chart.columns.iter().rev() {
        let _ = write!(path, "L{:.1} {:.1}", scale.x(column.stretch.to), edge(column, group));
        let _ = write!(path, "H{:.1}", scale.x(column.stretch.from));
    }
    path + "Z"
}

/// Returns the distance of ticks of an axis that reaches `most`: 1, 2 or 5 times a power of ten, about five
/// ticks.
fn tick(most: f64) -> f64 {
    let rough = most / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0]
        .map(|times| times * power)
        .into_iter()
        .find(|it| *it >= rough * 0.999)
        .unwrap_or(10.0 * power)
}

/// Formats a level with as many decimals as its distance to the next one needs.
fn level_label(level: f64, each: f64) -> String {
    let decimals = [1.0, 0.1, 0.01].iter().position(|least| each >= least * 0.999);
    unit::fixed(level, decimals.unwrap_or(3))
}

fn levels(each: f64, most: f64) -> Vec<f64> {
    (1..=20_u8).map(|at| f64::from(at) * each).take_while(|level| *level <= most * 1.0001).collect()
}

/// Returns times at which there is a label, and the labels.
fn times(stretch: Stretch, width: f64) -> Vec<(u64, String)> {
    const SECOND: u64 = 1_000_000;
    let room = (width - LEFT - RIGHT) / LABEL;
    let least = stretch.seconds() / room;
    #[allow(clippy::cast_precision_loss)] // small
    let each = TICKS.into_iter().find(|it| *it as f64 >= least);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // days
    let each = each.unwrap_or_else(|| (least / 86_400.0).ceil() as u64 * 86_400) * SECOND;
    let mut found = vec![];
    let mut at = stretch.from.div_ceil(each) * each;
    while at < stretch.to {
        let label = match (each / SECOND, at % (86_400 * SECOND)) {
            (86_400.., _) => day(at)[..10].to_owned(),
            (60.., 0) if stretch.length() > 86_400 * SECOND => day(at)[..10].to_owned(),
            (60.., _) => clock(at)[..5].to_owned(),
            _ => clock(at),
        };
        found.push((at, label));
        at += each;
    }
    found
}

fn px(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::sessions::{History, history_tests, step};

    const FILE: Option<&str> = Some("http://www.w3.org/2000/svg");
    const DARK: Ink =
        Ink { page: "#15181c", ink: "#e6e9ec", soft: "#a0a9b3", line: "#363d45", namespace: FILE };

    fn chart(history: &History) -> Chart {
        let whole = history.whole().expect("rows");
        let columns = history.columns(whole, step(whole.length(), 240));
        Chart { processors: history.processors, columns }
    }

    /// The picture of the documents, once for each theme. `TARE_UPDATE_PICTURES=1` writes it anew.
    #[test]
    fn the_documents_picture_is_what_a_report_shows() {
        let chart = chart(&history_tests::incident());
        for (name, ink) in [("light", Ink { namespace: FILE, ..Ink::light() }), ("dark", DARK)] {
            let picture = svg(&chart, WIDE, ink).into_string() + "\n";
            for feature in ["var(", "currentColor", "<script", "style"] {
                assert!(!picture.contains(feature), "{feature}");
            }
            let file = format!("../../docs/pictures/report-sessions-{name}.svg");
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
            if std::env::var_os("TARE_UPDATE_PICTURES").is_some() {
                std::fs::write(&file, &picture).expect("written");
            }
            let expected = std::fs::read_to_string(&file).unwrap_or_default();
            assert_eq!(picture, expected, "{} (TARE_UPDATE_PICTURES=1 writes it anew)", file.display());
        }
    }

    /// Returns the area of an outline: of a polygon, whose points are given by `M`, `L` and `H`.
    fn area_of(path: &str) -> f64 {
        let mut points: Vec<(f64, f64)> = vec![];
        for command in path.trim_end_matches('Z').split(['M', 'L']) {
            for (at, part) in command.split('H').enumerate().filter(|(_, part)| !part.is_empty()) {
                let numbers: Vec<f64> = part.split(' ').map(|it| it.parse().expect("a number")).collect();
                match at {
                    0 => points.push((numbers[0], numbers[1])),
                    _ => points.push((numbers[0], points[points.len() - 1].1)),
                }
            }
        }
        let next = points.iter().cycle().skip(1);
        points.iter().zip(next).map(|(one, other)| one.0 * other.1 - other.0 * one.1).sum::<f64>().abs() / 2.0
    }

    #[test]
    fn an_area_is_as_large_as_the_time_of_its_rows() {
        let history = history_tests::incident();
        let chart = chart(&history);
        let whole = history.whole().expect("rows");
        let scale = ChartScale { stretch: whole, most: 20.0, width: WIDE };
        let of_a_session_second =
            (scale.x(whole.from + 1_000_000) - scale.x(whole.from)) * (scale.y(0.0) - scale.y(1.0));
        for (group, us) in history.times(whole).into_iter().enumerate().filter(|(_, us)| *us > 0) {
            let drawn = area_of(&area(&chart, group, &scale)) / of_a_session_second;
            let time = crate::sessions::seconds(us);
            // Coordinates have one decimal.
            assert!((drawn - time).abs() < 0.03 * time + 1.0, "{}: {drawn} and {time}", GROUPS[group].0);
        }
    }

    #[test]
    fn ticks_are_round_and_labels_have_room() {
        assert_eq!(
            [(10.0, 5.0), (0.4, 0.2), (0.04, 0.02)].map(|(it, each)| level_label(it, each)),
            ["10", "0.4", "0.04"]
        );
        assert_eq!([0.1, 1.0, 7.0, 12.3, 800.0].map(tick), [0.02, 0.2, 2.0, 5.0, 200.0]);
        let from = crate::sessions::microseconds("2026-01-02 23:59:58").expect("a time");
        for (seconds, first) in
            [(5, "23:59:58"), (600, "00:00"), (86_400 * 3, "2026-01-03"), (86_400 * 60, "2026-01-")]
        {
            let stretch = Stretch { from, to: from + seconds * 1_000_000 };
            for width in [WIDE, NARROW] {
                let labels = times(stretch, width);
                assert!(labels[0].1.starts_with(first), "{labels:?}");
                #[allow(clippy::cast_precision_loss)] // few
                let count = labels.len() as f64;
                assert!(count >= 1.0 && count <= width / LABEL + 1.0, "{labels:?}");
            }
        }
    }

    #[test]
    fn the_line_of_many_processors_does_not_flatten_the_areas() {
        let mut chart = chart(&history_tests::incident());
        let has_line = |chart: &Chart| svg(chart, WIDE, DARK).into_string().contains("class=\"processors\"");
        assert!(has_line(&chart));
        chart.processors = Some(128);
        assert!(!has_line(&chart));
        let text = figure(&chart).into_string();
        assert!(text.contains("128 processors"), "the key says it");
        chart.columns.clear();
        assert!(svg(&chart, WIDE, DARK).into_string().is_empty());
    }
}
