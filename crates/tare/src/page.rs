//! Printing of headings and aligned tables that fit the terminal.

use console::{measure_text_width, style};

/// Width where the output is not a terminal.
const WIDTH_ELSEWHERE: usize = 100;
/// Largest width, as longer lines are hard to read.
const WIDTH_MOST: usize = 132;
/// Blanks between columns.
const GAP: usize = 2;
/// Narrowest width of a truncated column in a small terminal.
const NARROWEST: usize = 12;

/// The alignment of a column, and whether it may be truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// Text, left-aligned, never truncated.
    Left,
    /// Figures, right-aligned, never truncated.
    Right,
    /// Text, truncated at its end where the line would be too long.
    CutEnd,
    /// Text, truncated at its beginning (names whose end is more specific).
    CutStart,
}

/// A table to print.
#[derive(Debug)]
pub(crate) struct Grid {
    columns: Vec<(&'static str, Column)>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    pub(crate) fn new(columns: &[(&'static str, Column)]) -> Grid {
        Grid { columns: columns.to_vec(), rows: vec![] }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let row: Vec<String> = cells.into_iter().collect();
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.push(row);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Prints it as wide as the terminal allows.
    pub(crate) fn print(&self) {
        let mut lines = self.lines(width()).into_iter();
        if let Some(header) = lines.next() {
            println!("{}", style(header).dim());
        }
        lines.for_each(|line| println!("{line}"));
    }

    /// Returns header and rows, none wider than `width` unless the columns that are never truncated are.
    pub(crate) fn lines(&self, width: usize) -> Vec<String> {
        let widths = self.widths(width);
        let header = self.columns.iter().map(|&(title, _)| title.to_owned()).collect();
        let cells = std::iter::once(&header).chain(&self.rows);
        cells.map(|row| self.line(row, &widths)).collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((cell, &(_, column)), &width) in row.iter().zip(&self.columns).zip(widths) {
            let text = match column {
                Column::CutEnd => cut_end(cell, width),
                Column::CutStart => cut_start(cell, width),
                Column::Left | Column::Right => cell.clone(),
            };
            let blanks = " ".repeat(width.saturating_sub(measure_text_width(&text)));
            let (before, after) =
                if column == Column::Right { (blanks, String::new()) } else { (String::new(), blanks) };
            line.push_str(&format!("{before}{text}{after}{}", " ".repeat(GAP)));
        }
        line.trim_end().to_owned()
    }

    fn widths(&self, width: usize) -> Vec<usize> {
        let longest = |i: usize| self.rows.iter().map(|r| measure_text_width(&r[i])).max().unwrap_or(0);
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(i, (title, _))| longest(i).max(measure_text_width(title)))
            .collect();
        let total = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        let mut excess = total.saturating_sub(width);
        for (w, (_, column)) in widths.iter_mut().zip(&self.columns) {
            if matches!(column, Column::CutEnd | Column::CutStart) {
                let less = excess.min(w.saturating_sub(NARROWEST));
                *w -= less;
                excess -= less;
            }
        }
        widths
    }
}

/// Returns the width of a line in columns.
pub(crate) fn width() -> usize {
    console::Term::stdout()
        .size_checked()
        .map_or(WIDTH_ELSEWHERE, |(_, columns)| columns.into())
        .min(WIDTH_MOST)
}

/// Prints a section's title with its source, on two lines if one is too short.
pub(crate) fn heading(title: &str, source: &str) {
    let fits = measure_text_width(title) + GAP + measure_text_width(source) <= width();
    let between = if fits { "  " } else { "\n" };
    println!("\n{}{between}{}", style(title).bold(), style(source).dim());
}

/// Prints a paragraph, wrapped at words to fit the terminal.
pub(crate) fn paragraph(text: &str) {
    broken(text, width()).iter().for_each(|line| println!("{line}"));
}

/// Prints a paragraph on standard error, such as a warning while something runs.
pub(crate) fn aside(text: &str) {
    broken(text, width()).iter().for_each(|line| eprintln!("{line}"));
}

/// Returns the characters of the longest name, which is a column's width.
pub(crate) fn longest<'a>(names: impl IntoIterator<Item = &'a String>) -> usize {
    names.into_iter().map(|name| name.chars().count()).max().unwrap_or(0)
}

/// Prints a paragraph of explanation.
pub(crate) fn note(text: &str) {
    broken(text, width()).iter().for_each(|line| println!("{}", style(line).dim()));
}

/// Wraps a text at words; further lines are indented like the first.
pub(crate) fn broken(text: &str, width: usize) -> Vec<String> {
    let words = text.trim_start();
    let indent = &text[..text.len() - words.len()];
    let mut lines: Vec<String> = vec![];
    // Blanks within the text are kept, because they align columns.
    for word in words.split(' ') {
        match lines.last_mut() {
            Some(line) if measure_text_width(line) + 1 + measure_text_width(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{indent}{word}")),
        }
    }
    lines
}

fn cut_end(text: &str, width: usize) -> String {
    console::truncate_str(text, width, "…").into_owned()
}

fn cut_start(text: &str, width: usize) -> String {
    if measure_text_width(text) <= width {
        return text.to_owned();
    }
    let mut kept: Vec<char> = vec![];
    for c in text.chars().rev() {
        kept.push(c);
        if measure_text_width(&kept.iter().collect::<String>()) >= width {
            kept.pop();
            break;
        }
    }
    std::iter::once('…').chain(kept.into_iter().rev()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let mut grid =
            Grid::new(&[("what", Column::CutEnd), ("file", Column::CutStart), ("n", Column::Right)]);
        grid.row(["SELECT a FROM a_long_table_name".into(), "/a/long/path/to/a/file.ibd".into(), "5".into()]);
        grid.row(["short".into(), "x".into(), "1,234".into()]);
        grid
    }

    #[test]
    fn columns_are_aligned_and_nothing_is_cut_where_there_is_room() {
        let lines = grid().lines(200);
        assert_eq!(lines[0], "what                             file                            n");
        assert_eq!(lines[1], "SELECT a FROM a_long_table_name  /a/long/path/to/a/file.ibd      5");
        assert_eq!(lines[2], "short                            x                           1,234");
    }

    #[test]
    fn paragraphs_break_at_words() {
        assert_eq!(broken("  one two three", 9), ["  one two", "  three"]);
        assert_eq!(broken("a  b", 80), ["a  b"]);
        assert_eq!(broken("unbreakable", 5), ["unbreakable"]);
    }

    #[test]
    fn a_narrow_terminal_cuts_only_what_gives_way() {
        for width in [40, 50, 60] {
            for line in grid().lines(width) {
                assert!(measure_text_width(&line) <= width, "{line:?} is wider than {width}");
            }
        }
        let lines = grid().lines(40);
        assert!(
            lines[1].contains("SELECT") && lines[1].contains('…') && lines[1].ends_with("    5"),
            "{lines:?}"
        );
        assert!(lines[1].contains("file.ibd"), "{lines:?}");
    }
}
