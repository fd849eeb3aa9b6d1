//! Drawing of a state. All information is also readable without colours.

mod strip;

use ratatui::Frame;
use ratatui::layout::Position;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::keys::HELP;
use super::look::View;
use super::page::{Block, Page, Sheet, cut_end, one_line, wide};
use super::state::State;

/// Colours that are distinguishable with colour blindness (those of Okabe and Ito): blue, orange, green,
/// yellow, vermilion, purple.
const PALETTE: [Color; 6] = [
    Color::Indexed(75),
    Color::Indexed(214),
    Color::Indexed(36),
    Color::Indexed(227),
    Color::Indexed(202),
    Color::Indexed(175),
];
/// Characters for the parts of a bar, which differ without colours, too.
const FILLS: [char; 6] = ['█', '▒', '▓', '░', '▚', '▞'];
/// Lines below the page.
const FOOT: usize = 1;
/// Least height of a screen that has room for the strip of active sessions.
const STRIP: usize = 20;
/// Least number of lines of the list, including its titles.
const LIST: usize = 6;
/// Most lines of a note in a list's view.
const NOTE: usize = 4;

/// Whether to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint(pub bool);

impl Paint {
    fn colour(self, at: usize) -> Style {
        if self.0 { Style::new().fg(PALETTE[at % PALETTE.len()]) } else { Style::new() }
    }

    fn titles(self) -> Style {
        self.colour(0).add_modifier(Modifier::BOLD)
    }

    fn note(self) -> Style {
        self.colour(1)
    }
}

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, state: &mut State, paint: Paint) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let mut lines = head(state, width, paint);
    if height >= STRIP && state.ask().about.is_none() && !state.shows_help() {
        let overview = fitting(&state.overview(), width);
        lines.extend((!overview.is_empty()).then(|| Line::raw(overview)));
        lines.extend(strip::lines(&state.strip, width, paint));
    }
    let left = height.saturating_sub(lines.len() + FOOT);
    let page = state.page();
    if state.shows_help() {
        lines.extend(help(width));
    } else if state.shows_stretch() {
        lines.extend(stretch(&page, width, left, paint));
    } else if state.ask().about.is_some() {
        let all = blocks(&page.blocks, width, usize::MAX, paint);
        state.scrolled = state.scrolled.min(all.len().saturating_sub(left));
        lines.extend(all.into_iter().skip(state.scrolled));
    } else {
        lines.extend(list(state, &page, width, left, paint));
    }
    lines.truncate(height.saturating_sub(FOOT));
    lines.resize(height.saturating_sub(FOOT), Line::default());
    lines.push(foot(state, width, paint));
    for (y, line) in (area.top()..area.bottom()).zip(&lines) {
        frame.buffer_mut().set_line(area.left(), y, line, area.width);
    }
    if state.is_typing() {
        let x = u16::try_from(wide(state.filter()) + 1).unwrap_or(u16::MAX).min(area.width.saturating_sub(1));
        frame.set_cursor_position(Position::new(x, area.bottom().saturating_sub(1)));
    }
}

fn head(state: &State, width: usize, paint: Paint) -> Vec<Line<'static>> {
    let server = state.head().map_or("asking the server …".to_owned(), |head| {
        [head.server.as_str(), head.place.as_str()].join("  ").trim_end().to_owned()
    });
    let over = state.between().map(|(seconds, _)| format!("over {seconds:.1} s, ")).unwrap_or_default();
    let pace = if let Some(file) = state.file() {
        cut_end(&one_line(file), width / 2)
    } else if state.is_paused() {
        format!("{over}PAUSED")
    } else {
        format!("{over}every {} s", state.interval().as_secs_f64())
    };
    let left = cut_end(&format!("tare top  {server}"), width.saturating_sub(wide(&pace) + 2));
    let blanks = width.saturating_sub(wide(&left) + wide(&pace));
    let first = format!("{left}{}{pace}", " ".repeat(blanks));
    let totals = state.totals().into_iter().map(|(name, cell)| format!("{} {name}", cell.whole()));
    let totals = match &state.ask().about {
        Some(about) => one_line(&about.to_string()),
        None if state.shows_stretch() => state.stretch().unwrap_or_default(),
        None => totals.collect::<Vec<_>>().join("   "),
    };
    vec![
        Line::styled(cut_end(&first, width), Style::new().add_modifier(Modifier::BOLD)),
        Line::raw(cut_end(&state.remarks().join("  "), width)),
        if state.file().is_some() { Line::raw("active sessions") } else { tabs(state, paint) },
        Line::raw(cut_end(&totals, width)),
    ]
}

/// Joins the first parts that fit into a line.
fn fitting(parts: &[String], width: usize) -> String {
    let mut line = String::new();
    for part in parts {
        let longer = if line.is_empty() { part.clone() } else { format!("{line}  {part}") };
        if wide(&longer) > width {
            break;
        }
        line = longer;
    }
    line
}

fn tabs(state: &State, paint: Paint) -> Line<'static> {
    let mut spans = vec![];
    // While a stretch of the past is shown, it is none of the views.
    let shown = (!state.shows_stretch()).then(|| state.view());
    for (at, view) in View::ALL.iter().enumerate() {
        // Brackets, for terminals without reverse video.
        let (text, style) = if Some(*view) == shown {
            let style = paint.titles().add_modifier(Modifier::REVERSED);
            (format!("[{} {}]", at + 1, view.name()), style)
        } else {
            (format!(" {} {} ", at + 1, view.name()), Style::new())
        };
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}

fn foot(state: &State, width: usize, paint: Paint) -> Line<'static> {
    if state.is_typing() {
        return Line::raw(cut_end(&format!("/{}", state.filter()), width));
    }
    if let Some(message) = state.message() {
        let style = paint.note().add_modifier(Modifier::REVERSED);
        return Line::styled(cut_end(&one_line(message), width), style);
    }
    let text = if state.shows_stretch() {
        let back = if state.file().is_some() { "" } else { "  Esc now" };
        format!("← → along  Shift faster  s S longer, shorter  + - zoom{back}  ? help  q quit")
    } else if state.ask().about.is_some() {
        "Esc back  ↑↓ scroll  p pause  ? help  q quit".to_owned()
    } else if state.filter().is_empty() {
        "? help  Enter look into  ← past  s order  / filter  p pause  q quit".to_owned()
    } else {
        format!("only rows with “{}”, Esc: all", state.filter())
    };
    Line::styled(cut_end(&text, width), Style::new().add_modifier(Modifier::DIM))
}

fn help(width: usize) -> Vec<Line<'static>> {
    let line = |(key, what): &(&str, &str)| Line::raw(cut_end(&format!("  {key:<16}{what}"), width));
    [Line::default()].into_iter().chain(HELP.iter().map(line)).collect()
}

/// Returns the lines of a view's page: the blocks above the list, and as much of the list as fits, with the
/// chosen row.
fn list(state: &mut State, page: &Page, width: usize, height: usize, paint: Paint) -> Vec<Line<'static>> {
    let Some(sheet) = page.sheet() else { return vec![] };
    let above = page.blocks.iter().rposition(|block| matches!(block, Block::Sheet(_))).unwrap_or(0);
    let mut lines = blocks(&page.blocks[..above], width, NOTE, paint);
    lines.truncate(height.saturating_sub(LIST));
    let fit = sheet.fit(width);
    lines.push(Line::styled(sheet.titles(&fit), paint.titles()));
    let room = height.saturating_sub(lines.len());
    state.height = room;
    let chosen = state.place(page);
    let first = chosen.saturating_sub(room.saturating_sub(1));
    for (at, row) in sheet.rows.iter().enumerate().skip(first).take(room) {
        let style = if at == chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        let text = sheet.row(row, &fit);
        let blanks = " ".repeat(width.saturating_sub(wide(&text)));
        lines.push(Line::styled(format!("{text}{blanks}"), style));
    }
    lines
}

/// Returns the lines of a stretch's page: as many rows of each sheet as there is room for, the first sheets
/// with more.
fn stretch(page: &Page, width: usize, height: usize, paint: Paint) -> Vec<Line<'static>> {
    let sheets: Vec<&Sheet> = page
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::Sheet(sheet) if !sheet.rows.is_empty() => Some(sheet),
            _ => None,
        })
        .collect();
    let mut room = height.saturating_sub(sheets.len());
    let mut lines = vec![];
    if sheets.is_empty() {
        lines.push(Line::raw("Nobody was active then."));
    }
    for (at, sheet) in sheets.iter().enumerate() {
        // Half of what is left, or what the others do not need.
        let others: usize = sheets[at + 1..].iter().map(|sheet| sheet.rows.len()).sum();
        let rows = sheet.rows.len().min(room.div_ceil(2).max(room.saturating_sub(others)));
        room -= rows;
        let fit = sheet.fit(width);
        lines.push(Line::styled(sheet.titles(&fit), paint.titles()));
        lines.extend(sheet.rows.iter().take(rows).map(|row| Line::raw(sheet.row(row, &fit))));
    }
    lines
}

fn blocks(blocks: &[Block], width: usize, note: usize, paint: Paint) -> Vec<Line<'static>> {
    let mut lines = vec![];
    for block in blocks {
        match block {
            Block::Heading(text) => {
                lines.push(Line::styled(cut_end(&one_line(text), width), paint.titles()));
            }
            Block::Text(text) => lines.extend(broken(text, width).into_iter().map(Line::raw)),
            Block::Note(text) => {
                let mut parts = broken(text, width);
                if parts.len() > note {
                    parts.truncate(note);
                    if let Some(last) = parts.last_mut() {
                        *last = cut_end(&format!("{last} …"), width);
                    }
                }
                lines.extend(parts.into_iter().map(|part| Line::styled(part, paint.note())));
            }
            Block::Sheet(sheet) => lines.extend(whole(sheet, width, paint)),
            Block::Bar(parts) => lines.extend(bar(parts, width, paint)),
        }
    }
    lines
}

fn whole(sheet: &Sheet, width: usize, paint: Paint) -> Vec<Line<'static>> {
    let fit = sheet.fit(width);
    let titles = Line::styled(sheet.titles(&fit), paint.titles());
    let rows = sheet.rows.iter().map(|row| Line::raw(sheet.row(row, &fit)));
    [titles].into_iter().chain(rows).collect()
}

/// Returns shares as one bar, with a legend below it.
fn bar(parts: &[(String, f64)], width: usize, paint: Paint) -> Vec<Line<'static>> {
    let mut bar = vec![];
    let mut end = 0.0;
    let mut drawn = 0;
    let mut legend: Vec<Vec<Span<'static>>> = vec![vec![]];
    let mut used = 0;
    for (at, (name, share)) in parts.iter().enumerate() {
        end += share;
        let cells = columns(end, width).saturating_sub(drawn);
        drawn += cells;
        let fill = FILLS[at % FILLS.len()];
        bar.push(Span::styled(fill.to_string().repeat(cells), paint.colour(at)));
        let text = cut_end(&format!(" {} {:.1}%  ", one_line(name), share * 100.0), width.saturating_sub(1));
        if used + 1 + wide(&text) > width && used > 0 {
            legend.push(vec![]);
            used = 0;
        }
        used += 1 + wide(&text);
        if let Some(line) = legend.last_mut() {
            line.extend([Span::styled(fill.to_string(), paint.colour(at)), Span::raw(text)]);
        }
    }
    [Line::from(bar)].into_iter().chain(legend.into_iter().map(Line::from)).collect()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // a part of a line
fn columns(share: f64, width: usize) -> usize {
    ((share * width as f64).round() as usize).min(width)
}

/// Wraps a text at blanks where possible.
pub(super) fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    for word in one_line(text).split(' ') {
        match lines.last_mut() {
            Some(line) if wide(line) + 1 + wide(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
        // A word longer than a line continues in the next.
        while let Some(rest) = lines.last_mut().and_then(|line| overhang(line, width)) {
            lines.push(rest);
        }
    }
    lines
}

/// Cuts off and returns what does not fit into a line; `None` if it fits, or if not even a character does.
fn overhang(line: &mut String, width: usize) -> Option<String> {
    if wide(line) <= width {
        return None;
    }
    let ends = line.char_indices().map(|(at, _)| at).skip(1);
    let end = ends.take_while(|end| wide(&line[..*end]) <= width).last()?;
    Some(line.split_off(end))
}

#[cfg(test)]
mod tests;
