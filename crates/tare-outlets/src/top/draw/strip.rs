//! The strip: average active sessions over time, by what they did, against the number of processors.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::{FILLS, Paint, cut_end, wide};
use crate::sessions::{Column, GROUPS, clock};
use crate::top::strip::Strip;
use crate::units;

/// Lines of the columns.
const HEIGHT: usize = 5;
/// Room to the left of the columns, for figures.
const LEFT: usize = 7;
/// The fill of the last group, which has no colour.
const OTHER: char = '·';

/// A column as it is drawn.
struct Drawn {
    sessions: [f64; GROUPS.len()],
    is_chosen: bool,
}

/// Returns the lines of the strip; none while there is nothing to show.
pub(super) fn lines(strip: &Strip, width: usize, paint: Paint) -> Vec<Line<'static>> {
    let columns = strip.columns(width.saturating_sub(LEFT + 1));
    if columns.is_empty() {
        return vec![];
    }
    let chosen = strip.stretch();
    let drawn = |column: &Column| Drawn {
        sessions: column.sessions(),
        is_chosen: chosen.is_some_and(|it| column.stretch.within(it).length() > 0),
    };
    let drawn: Vec<Drawn> = columns.iter().map(drawn).collect();
    #[allow(clippy::cast_precision_loss)] // few
    let processors = strip.processors().map(|count| count as f64);
    let most =
        drawn.iter().map(|it| it.sessions.iter().sum::<f64>()).fold(processors.unwrap_or(1.0), f64::max);
    let mut lines: Vec<Line<'static>> =
        (0..HEIGHT).map(|at| row(&drawn, most, processors, at, paint)).collect();
    lines.push(times(&columns, &drawn, width));
    lines.push(legend(strip, width, paint));
    lines
}

/// Returns the number of sessions that a cell of a line stands for, counted from the top.
#[allow(clippy::cast_precision_loss)] // few
fn level(most: f64, at: usize) -> f64 {
    most * ((HEIGHT - at) as f64 - 0.5) / HEIGHT as f64
}

fn row(columns: &[Drawn], most: f64, processors: Option<f64>, at: usize, paint: Paint) -> Line<'static> {
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
            // A beam above what is chosen.
            None if column.is_chosen => Span::styled(" ", Style::new().add_modifier(Modifier::REVERSED)),
            None if is_limit => Span::styled("─", Style::new().add_modifier(Modifier::DIM)),
            None => Span::raw(" "),
        });
    }
    Line::from(spans)
}

/// Returns the group that a column has at this height.
fn group(column: &Drawn, level: f64) -> Option<usize> {
    let mut sum = 0.0;
    column.sessions.iter().position(|sessions| {
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

/// Returns the line below the columns: the time of the first one, `now` or the time of the last one, and
/// marks below the chosen ones.
fn times(columns: &[Column], drawn: &[Drawn], width: usize) -> Line<'static> {
    let mut text: Vec<char> = vec![' '; columns.len().max(5)];
    let mut write = |at: usize, what: &str| {
        if at + what.chars().count() <= text.len()
            && text[at..].iter().take(what.len() + 1).all(|it| *it == ' ')
        {
            what.chars().enumerate().for_each(|(offset, c)| text[at + offset] = c);
        }
    };
    let first = drawn.iter().position(|it| it.is_chosen);
    let marks = drawn.iter().filter(|it| it.is_chosen).count();
    if let Some(first) = first {
        write(first, &"▲".repeat(marks));
    }
    let (Some(begin), Some(end)) = (columns.first(), columns.last()) else { return Line::default() };
    let (begin, end) = (clock(begin.stretch.from), clock(end.stretch.to));
    write(0, &begin[..5]);
    write(columns.len().saturating_sub(5), &end[..5]);
    let text: String = text.into_iter().collect();
    let style = Style::new().add_modifier(Modifier::DIM);
    Line::styled(cut_end(&format!("{}{text}", " ".repeat(LEFT)), width), style)
}

fn legend(strip: &Strip, width: usize, paint: Paint) -> Line<'static> {
    let what = if strip.is_chosen() { "marked stretch" } else { "last minute" };
    let text = format!("active sessions, {what}:");
    let mut used = wide(&text);
    let mut spans = vec![Span::raw(text)];
    for (at, (name, sessions)) in strip.averages().into_iter().enumerate().filter(|(_, (_, it))| *it > 0.0) {
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
    use crate::sessions::History;
    use crate::sessions::history_tests::row;

    fn text(lines: &[Line<'_>]) -> Vec<String> {
        let of = |line: &Line<'_>| line.spans.iter().map(|span| span.content.as_ref()).collect::<String>();
        lines.iter().map(|line| of(line).trim_end().to_owned()).collect()
    }

    fn strip() -> Strip {
        let mut fresh = History::default();
        fresh.extend((0..=50).map(|second| row(second, 1, "CPU", &[])));
        fresh.extend(
            (21..=50).flat_map(|second| (2..11).map(move |thread| row(second, thread, "ROW LOCK", &[]))),
        );
        fresh.processors = Some(2);
        let mut strip = Strip::default();
        strip.take(&fresh, None);
        strip
    }

    #[test]
    fn columns_are_stacked_below_the_number_of_processors() {
        let lines = text(&lines(&strip(), 80, Paint(false)));
        assert_eq!(lines.len(), HEIGHT + 2);
        assert!(lines[0].ends_with("  ▒▒▒") && lines[0].trim_start().starts_with("10"), "{lines:#?}");
        assert_eq!(lines[4], "2 cpus ──▒▒▒", "{lines:#?}");
        assert!(
            lines[6].starts_with("active sessions, last minute:") && lines[6].contains("row locks"),
            "{lines:#?}"
        );
        assert!(text(&super::lines(&strip(), 30, Paint(false))).iter().all(|line| wide(line) <= 30));
        assert!(super::lines(&Strip::default(), 80, Paint(false)).is_empty());
    }

    #[test]
    fn the_chosen_stretch_is_marked_without_colours() {
        let mut strip = strip();
        strip.step(-1);
        assert_eq!(text(&lines(&strip, 80, Paint(false)))[5], "           ▲");
        strip.first();
        let lines = lines(&strip, 80, Paint(false));
        assert_eq!(text(&lines)[5], "       ▲", "below the first: {:#?}", text(&lines));
        let reversed = lines.iter().flat_map(|line| &line.spans);
        assert_eq!(
            reversed.filter(|span| span.style.add_modifier.contains(Modifier::REVERSED)).count(),
            HEIGHT
        );
        assert!(text(&lines)[6].contains("marked stretch"));
    }
}
