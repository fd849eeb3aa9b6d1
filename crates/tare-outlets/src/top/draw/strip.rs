//! The strip: average active sessions of the last minutes, by what they did, against the number of processors.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::{FILLS, Paint, cut_end, wide};
use crate::top::activity::{Activity, SECONDS, Sessions};
use crate::units;

/// Lines of the columns.
const HEIGHT: usize = 5;
/// Room to the left of the columns, for figures.
const LEFT: usize = 7;
/// The fill of the last group, which has no colour.
const OTHER: char = '·';

/// Returns the lines of the strip; none while there is nothing to show.
pub(super) fn lines(activity: &Activity, width: usize, paint: Paint) -> Vec<Line<'static>> {
    let columns = activity.columns(width.saturating_sub(LEFT + 1));
    if columns.is_empty() {
        return vec![];
    }
    #[allow(clippy::cast_precision_loss)] // few
    let processors = activity.processors.map(|count| count as f64);
    let most = columns.iter().map(|it| it.iter().sum::<f64>()).fold(processors.unwrap_or(1.0), f64::max);
    let mut lines: Vec<Line<'static>> =
        (0..HEIGHT).map(|at| row(&columns, most, processors, at, paint)).collect();
    lines.push(legend(activity, columns.len(), width, paint));
    lines
}

/// Returns the number of sessions that a cell of a line stands for, counted from the top.
#[allow(clippy::cast_precision_loss)] // few
fn level(most: f64, at: usize) -> f64 {
    most * ((HEIGHT - at) as f64 - 0.5) / HEIGHT as f64
}

fn row(columns: &[Sessions], most: f64, processors: Option<f64>, at: usize, paint: Paint) -> Line<'static> {
    let level = level(most, at);
    #[allow(clippy::cast_precision_loss)] // few
    let half = most / HEIGHT as f64 / 2.0;
    let is_limit = processors.is_some_and(|it| it > level - half && it <= level + half);
    let label = match (at, is_limit) {
        (_, true) => processors.map(|it| format!("{it:.0} cpus")).unwrap_or_default(),
        (0, _) => units::short(most),
        _ => String::new(),
    };
    let mut spans = vec![Span::raw(format!("{:>1$} ", cut_end(&label, LEFT - 1), LEFT - 1))];
    for column in columns {
        spans.push(match group(column, level) {
            Some(group) => fill(group, paint),
            None if is_limit => Span::styled("─", Style::new().add_modifier(Modifier::DIM)),
            None => Span::raw(" "),
        });
    }
    Line::from(spans)
}

/// Returns the group that a column has at this height.
fn group(column: &Sessions, level: f64) -> Option<usize> {
    let mut sum = 0.0;
    column.iter().position(|sessions| {
        sum += sessions;
        sum > level
    })
}

fn fill(group: usize, paint: Paint) -> Span<'static> {
    match FILLS.get(group) {
        Some(fill) => Span::styled(fill.to_string(), paint.colour(group)),
        None => Span::raw(OTHER.to_string()),
    }
}

fn legend(activity: &Activity, columns: usize, width: usize, paint: Paint) -> Line<'static> {
    let minutes = (columns as u64 * SECONDS).div_ceil(60);
    let text = format!("active sessions, {minutes} min; now");
    let mut used = wide(&text);
    let mut spans = vec![Span::raw(text)];
    for (at, (name, sessions)) in activity.now().into_iter().enumerate().filter(|(_, (_, it))| *it > 0.0) {
        let text = format!(" {} {name}", units::short(sessions));
        used += 3 + wide(&text);
        if used > width {
            break;
        }
        spans.extend([Span::raw("  "), fill(at, paint), Span::raw(text)]);
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &[Line<'_>]) -> Vec<String> {
        let of = |line: &Line<'_>| line.spans.iter().map(|span| span.content.as_ref()).collect::<String>();
        lines.iter().map(|line| of(line).trim_end().to_owned()).collect()
    }

    #[test]
    fn columns_are_stacked_below_the_number_of_processors() {
        let mut activity = Activity::of_processors(2);
        for second in 0..50u64 {
            let time = format!("2026-01-02 03:00:{second:02}.000000");
            activity.add(&time, "CPU", 1_000_000);
            if second >= 20 {
                activity.add(&time, "ROW LOCK", 9_000_000);
            }
        }
        let lines = text(&lines(&activity, 80, Paint(false)));
        assert_eq!(lines.len(), HEIGHT + 1);
        assert!(lines[0].ends_with("  ▒▒") && lines[0].trim_start().starts_with("10"), "{lines:#?}");
        assert_eq!(lines[4], "2 cpus ──▒▒", "{lines:#?}");
        assert!(
            lines[5].starts_with("active sessions, 1 min; now") && lines[5].contains("row locks"),
            "{lines:#?}"
        );
        assert!(text(&super::lines(&activity, 30, Paint(false))).iter().all(|line| wide(line) <= 30));
        assert!(super::lines(&Activity::default(), 80, Paint(false)).is_empty());
    }
}
