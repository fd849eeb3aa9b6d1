//! The content to show, independent of its form: blocks of figures with their units, for the screen, plain
//! text and JSON.

use crate::units;

/// A figure or text.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Unknown.
    Empty,
    /// A text.
    Text(String),
    /// A count, or a rate per second.
    Count(f64),
    /// A whole number of things that are counted one by one.
    Whole(u64),
    /// A time in picoseconds.
    Time(f64),
    /// Bytes, or a change of them.
    Bytes(f64),
    /// A part of a whole, 0 to 1.
    Share(f64),
    /// The latest values of a figure, oldest first.
    Spark(Vec<f64>),
}

impl Cell {
    /// Makes a text, or an empty cell for `None`.
    #[must_use]
    pub fn text(text: Option<&str>) -> Cell {
        text.map_or(Cell::Empty, |text| Cell::Text(text.to_owned()))
    }

    /// Returns the value to sort by; `None` for texts.
    #[must_use]
    pub fn size(&self) -> Option<f64> {
        match self {
            Cell::Count(value) | Cell::Time(value) | Cell::Bytes(value) | Cell::Share(value) => {
                Some(unsigned_zero(*value))
            }
            Cell::Spark(values) => values.last().copied(),
            #[allow(clippy::cast_precision_loss)] // things are few
            Cell::Whole(count) => Some(*count as f64),
            Cell::Empty | Cell::Text(_) => None,
        }
    }

    /// Formats it for people, within a width in terminal columns.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // shown with four digits
    pub fn shown(&self, width: usize) -> String {
        match self {
            Cell::Empty => "–".into(),
            Cell::Text(text) => one_line(text),
            Cell::Count(value) => units::short(unsigned_zero(*value)),
            Cell::Whole(count) => units::count(*count),
            Cell::Time(value) => time(value.max(0.0) as u64),
            Cell::Bytes(value) if *value < 0.0 => format!("-{}", units::bytes(-value as u64)),
            Cell::Bytes(value) => units::bytes(*value as u64),
            Cell::Share(value) => format!("{:.1}%", unsigned_zero(value * 100.0)),
            Cell::Spark(values) => spark(values, width),
        }
    }

    /// Formats it for a sentence: a small whole number has no decimals.
    #[must_use]
    pub fn whole(&self) -> String {
        match self {
            Cell::Count(value) if value.fract() == 0.0 && *value < 100.0 => {
                format!("{:.0}", unsigned_zero(*value))
            }
            other => other.shown(8),
        }
    }

    /// Converts it for programs: figures as numbers, in the unit of their column's name.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        match self {
            Cell::Empty => serde_json::Value::Null,
            Cell::Text(text) => text.as_str().into(),
            Cell::Spark(values) => values.clone().into(),
            Cell::Whole(count) => (*count).into(),
            other => other.size().unwrap_or(0.0).into(),
        }
    }
}

/// Formats a time in at most seven characters.
fn time(ps: u64) -> String {
    const SECOND: u64 = 1_000_000_000_000;
    // `1.02 min` would have one more, and with its end cut off it looks like milliseconds.
    if ps < 60 * SECOND - SECOND / 20 {
        units::picoseconds(ps)
    } else {
        units::brief((ps + SECOND / 2) / SECOND)
    }
}

/// Makes -0, which is the sum of no values, 0.
fn unsigned_zero(value: f64) -> f64 {
    value + 0.0
}

/// A column of a sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name for programs, with its unit.
    pub name: &'static str,
    /// Title for people.
    pub title: &'static str,
    /// Width in terminal columns; the least one for a column that grows.
    pub width: usize,
    /// Priority for being left out when a line is too short, highest first; 0 always stays.
    pub rank: u8,
    /// Kind of its content, which determines the alignment.
    pub kind: Kind,
}

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Figures, right-aligned.
    Figure,
    /// Text, left-aligned and truncated at the end.
    Text,
    /// Text that takes the remaining width, truncated at the end.
    Rest,
    /// Text that takes the remaining width, truncated at the beginning: names whose end is more specific.
    RestOfName,
}

impl Column {
    pub(super) const fn figure(name: &'static str, title: &'static str, width: usize, rank: u8) -> Column {
        Column { name, title, width, rank, kind: Kind::Figure }
    }

    pub(super) const fn text(name: &'static str, title: &'static str, width: usize, rank: u8) -> Column {
        Column { name, title, width, rank, kind: Kind::Text }
    }

    pub(super) const fn rest(name: &'static str, title: &'static str) -> Column {
        Column { name, title, width: 24, rank: 0, kind: Kind::Rest }
    }

    pub(super) const fn name(name: &'static str, title: &'static str) -> Column {
        Column { name, title, width: 34, rank: 0, kind: Kind::RestOfName }
    }
}

/// A row of a sheet, with its key.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Unique in its sheet as long as the subject exists.
    pub key: Vec<String>,
    /// A cell for each column of the sheet.
    pub cells: Vec<Cell>,
}

/// A table with titles.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// Name for programs.
    pub name: &'static str,
    /// Its columns.
    pub columns: &'static [Column],
    /// Rows in the order of display.
    pub rows: Vec<Row>,
    /// Column that the rows are sorted by, if any.
    pub sorted: Option<usize>,
}

impl Sheet {
    pub(super) fn new(name: &'static str, columns: &'static [Column], rows: Vec<Row>) -> Sheet {
        debug_assert!(rows.iter().all(|row| row.cells.len() == columns.len()));
        Sheet { name, columns, rows, sorted: None }
    }

    /// Sorts the rows: figures in descending order, texts in ascending order, empty cells last.
    #[must_use]
    pub fn sorted_by(mut self, column: usize) -> Sheet {
        self.rows.sort_by(|a, b| {
            let (x, y) = (&a.cells[column], &b.cells[column]);
            let by_text = || match (x, y) {
                (Cell::Text(x), Cell::Text(y)) => x.cmp(y),
                _ => (*x == Cell::Empty).cmp(&(*y == Cell::Empty)),
            };
            let by_size =
                y.size().unwrap_or(f64::NEG_INFINITY).total_cmp(&x.size().unwrap_or(f64::NEG_INFINITY));
            by_size.then_with(by_text).then_with(|| a.key.cmp(&b.key))
        });
        self.sorted = Some(column);
        self
    }

    /// Keeps the rows that contain the text in any cell.
    #[must_use]
    pub fn with_text(mut self, text: &str) -> Sheet {
        let text = text.to_lowercase();
        let has = |cell: &Cell| matches!(cell, Cell::Text(value) if value.to_lowercase().contains(&text));
        self.rows.retain(|row| text.is_empty() || row.cells.iter().any(has));
        self
    }

    /// Returns the columns that fit into a line, each with its position and width. Empty columns are left
    /// out; then those with the highest rank; the growing column takes the remaining width.
    #[must_use]
    pub fn fit(&self, line: usize) -> Fit {
        let holds = |at: usize| {
            self.columns[at].rank == 0
                || self.rows.is_empty()
                || self.rows.iter().any(|row| row.cells[at] != Cell::Empty)
        };
        let all = self.columns.iter().map(|column| column.width).enumerate();
        let mut shown: Vec<(usize, usize)> = all.filter(|(at, _)| holds(*at)).collect();
        let total = |shown: &[(usize, usize)]| shown.iter().map(|(_, width)| width + GAP).sum::<usize>();
        while total(&shown) > line + GAP {
            let last = shown.iter().map(|(at, _)| self.columns[*at].rank).max().unwrap_or(0);
            let Some(place) = shown.iter().rposition(|(at, _)| self.columns[*at].rank == last) else { break };
            if last == 0 {
                break;
            }
            shown.remove(place);
        }
        let left = (line + GAP).saturating_sub(total(&shown));
        let grows = |at: usize| matches!(self.columns[at].kind, Kind::Rest | Kind::RestOfName);
        if let Some((_, width)) = shown.iter_mut().find(|(at, _)| grows(*at)) {
            *width += left;
        }
        Fit { columns: shown, line }
    }

    /// Formats the titles; the column that rows are sorted by has a mark.
    #[must_use]
    pub fn titles(&self, fit: &Fit) -> String {
        self.line(fit, |at, _| {
            let mark = if self.sorted == Some(at) { "▼" } else { "" };
            format!("{}{mark}", self.columns[at].title)
        })
    }

    /// Formats a row.
    #[must_use]
    pub fn row(&self, row: &Row, fit: &Fit) -> String {
        self.line(fit, |at, width| row.cells[at].shown(width))
    }

    fn line(&self, fit: &Fit, text: impl Fn(usize, usize) -> String) -> String {
        let cells: Vec<String> = fit
            .columns
            .iter()
            .map(|(at, width)| stand(&text(*at, *width), self.columns[*at].kind, *width))
            .collect();
        cut_end(&cells.join(&" ".repeat(GAP)), fit.line)
    }
}

/// The columns that fit into a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Index among the sheet's columns, and width.
    pub columns: Vec<(usize, usize)>,
    line: usize,
}

/// Blanks between columns.
const GAP: usize = 1;

/// A block of a page.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A heading for the following blocks.
    Heading(String),
    /// A text that is wrapped at the end of the line.
    Text(String),
    /// A note about missing data or an event.
    Note(String),
    /// Rows.
    Sheet(Sheet),
    /// Parts of a whole, drawn as one bar with its legend: each with its share.
    Bar(Vec<(String, f64)>),
}

/// Everything below the head of the screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Blocks from top to bottom. Rows are chosen from the last sheet.
    pub blocks: Vec<Block>,
}

impl Page {
    /// Returns the sheet that rows are chosen from.
    #[must_use]
    pub fn sheet(&self) -> Option<&Sheet> {
        self.blocks.iter().rev().find_map(|block| match block {
            Block::Sheet(sheet) => Some(sheet),
            _ => None,
        })
    }
}

/// Returns the width of a text in terminal columns.
pub(super) fn wide(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

/// Replaces line breaks, tabs and other characters that move the cursor by blanks. Non-breaking blanks, used
/// in trees, stay.
pub(super) fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let moves = c.is_control() || c.is_whitespace() && c != '\u{a0}';
        let c = if moves { ' ' } else { c };
        if c != ' ' || !out.ends_with(' ') {
            out.push(c);
        }
    }
    out
}

fn stand(text: &str, kind: Kind, width: usize) -> String {
    let cut = if kind == Kind::RestOfName { cut_begin(text, width) } else { cut_end(text, width) };
    let blanks = " ".repeat(width.saturating_sub(wide(&cut)));
    if kind == Kind::Figure { format!("{blanks}{cut}") } else { format!("{cut}{blanks}") }
}

pub(super) fn cut_end(text: &str, width: usize) -> String {
    if wide(text) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if wide(&kept) >= width {
            kept.pop();
            break;
        }
    }
    kept.push('…');
    kept
}

fn cut_begin(text: &str, width: usize) -> String {
    if wide(text) <= width {
        return text.to_owned();
    }
    let mut from = text.len();
    for (at, _) in text.char_indices().rev() {
        if wide(&text[at..]) >= width {
            break;
        }
        from = at;
    }
    format!("…{}", &text[from..])
}

/// Renders the latest values as bars; the highest value has a full bar.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 7
fn spark(values: &[f64], width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let last = &values[values.len().saturating_sub(width)..];
    let most = last.iter().copied().fold(0.0, f64::max);
    let bar = |value: &f64| if most > 0.0 { BARS[(value / most * 7.0).ceil() as usize % 8] } else { BARS[0] };
    let bars: String = last.iter().map(bar).collect();
    format!("{}{bars}", " ".repeat(width - last.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 5] = [
        Column::figure("rate", "RATE/s", 7, 0),
        Column::figure("p95_ps", "P95", 7, 3),
        Column::figure("errors", "ERR/s", 6, 2),
        Column::text("schema", "SCHEMA", 8, 1),
        Column { width: 20, ..Column::rest("text", "STATEMENT") },
    ];

    fn row(rate: f64, schema: &str, text: &str) -> Row {
        let cells = vec![
            Cell::Count(rate),
            Cell::Empty,
            Cell::Count(0.0),
            Cell::Text(schema.into()),
            Cell::Text(text.into()),
        ];
        Row { key: vec![text.to_owned()], cells }
    }

    #[test]
    fn a_time_has_room_in_every_column() {
        let shown =
            [59.9, 59.96, 61.5, 599.0, 3599.9, 86_399.0, 1e7].map(|s: f64| Cell::Time(s * 1e12).shown(7));
        assert_eq!(shown, ["59.9 s", "1m 0s", "1m 2s", "9m 59s", "1h 0m", "23h 59m", "115d 17h"]);
        assert!(shown[..6].iter().all(|text| wide(text) <= 7), "{shown:?}");
    }

    #[test]
    fn a_sum_of_nothing_has_no_sign() {
        let nothing: f64 = [0.0; 0].iter().sum();
        for cell in [Cell::Count(nothing), Cell::Share(nothing), Cell::Bytes(nothing), Cell::Time(nothing)] {
            for text in [cell.shown(8), cell.whole(), cell.json().to_string()] {
                assert!(text.starts_with('0'), "{cell:?}: {text}");
            }
        }
    }

    fn sheet() -> Sheet {
        let rows = vec![
            row(5.0, "shop", "SELECT 1"),
            row(12_345.0, "a_long_schema", "SELECT\n\t* FROM `orders` WHERE `id` = ? AND `größe` = ?"),
        ];
        Sheet::new("test", &COLUMNS, rows)
    }

    #[test]
    fn columns_give_way_by_rank_and_no_line_is_longer_than_it_may() {
        for width in [20, 28, 36, 44, 80, 200] {
            let sheet = sheet();
            let fit = sheet.fit(width);
            for line in sheet.rows.iter().map(|row| sheet.row(row, &fit)).chain([sheet.titles(&fit)]) {
                assert!(wide(&line) <= width, "{width}: {line:?}");
            }
        }
        let shown = |width| sheet().fit(width).columns.iter().map(|(at, _)| *at).collect::<Vec<_>>();
        assert_eq!(shown(80), [0, 2, 3, 4], "nothing is known of P95");
        assert_eq!(shown(40), [0, 3, 4], "errors have the highest rank");
        assert_eq!(shown(30), [0, 4]);
    }

    #[test]
    fn rows_stand_in_order_and_are_found() {
        let sorted = sheet().sorted_by(0);
        assert_eq!(sorted.rows[0].cells[0], Cell::Count(12_345.0));
        let fit = sorted.fit(40);
        assert!(sorted.titles(&fit).contains("RATE/s▼"), "{}", sorted.titles(&fit));
        assert_eq!(sorted.row(&sorted.rows[0], &fit), "  12.3k a_long_… SELECT * FROM `orders`…");
        let by_text = sheet().sorted_by(3);
        assert_eq!(by_text.rows[1].cells[3], Cell::Text("shop".into()));
        assert_eq!(sheet().with_text("GRÖSSE").rows.len(), 0);
        assert_eq!(sheet().with_text("GRÖßE").rows.len(), 1);
    }

    #[test]
    fn names_lose_their_beginning_and_sparks_their_past() {
        assert_eq!(cut_begin("wait/synch/mutex/sql/LOCK_open", 12), "…l/LOCK_open");
        assert_eq!(cut_end("größer", 4), "grö…");
        assert_eq!(Cell::Spark(vec![9.0, 0.0, 1.0, 4.0, 8.0]).shown(4), "▁▂▅█");
        assert_eq!(Cell::Spark(vec![0.0]).shown(3), "  ▁");
        assert_eq!(Cell::Bytes(-2048.0).shown(9), "-2.00 KiB");
    }
}
