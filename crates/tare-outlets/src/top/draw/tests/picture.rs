//! A screen as an SVG picture for the documents: plain colours in attributes, so that every viewer shows it.

use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};

use super::*;

/// Width and height of a character.
const CHARACTER: (f64, f64) = (7.2, 18.0);
const FONT_SIZE: f64 = 12.0;
const MARGIN: f64 = 14.0;

/// Colours of a picture.
pub(super) struct Theme {
    pub(super) name: &'static str,
    page: &'static str,
    ink: &'static str,
    soft: &'static str,
    /// In the order of `PALETTE`.
    palette: [&'static str; 6],
}

pub(super) const THEMES: [Theme; 2] = [
    Theme {
        name: "light",
        page: "#ffffff",
        ink: "#1d2126",
        soft: "#5b646e",
        palette: ["#0b62a8", "#9a5200", "#00735a", "#6d6200", "#b03a00", "#93487a"],
    },
    Theme {
        name: "dark",
        page: "#0d1117",
        ink: "#e6e9ec",
        soft: "#a0a9b3",
        palette: ["#5fafff", "#ffaf00", "#2fbf95", "#ffff5f", "#ff7a33", "#d787af"],
    },
];

/// How a cell is drawn. Cells that are drawn alike are one text.
#[derive(Clone, Copy, PartialEq)]
struct Look {
    ink: &'static str,
    ground: &'static str,
    bold: bool,
}

impl Theme {
    fn look(&self, cell: &Cell) -> Look {
        let painted = PALETTE.iter().position(|it| *it == cell.fg).map(|at| self.palette[at]);
        let plain = if cell.modifier.contains(Modifier::DIM) { self.soft } else { self.ink };
        let (ink, bold) = (painted.unwrap_or(plain), cell.modifier.contains(Modifier::BOLD));
        if cell.modifier.contains(Modifier::REVERSED) {
            Look { ink: self.page, ground: ink, bold }
        } else {
            Look { ink, ground: self.page, bold }
        }
    }
}

/// Returns the picture of a screen; `title` is what a screen reader says.
pub(super) fn svg(buffer: &Buffer, theme: &Theme, title: &str) -> String {
    let (columns, lines) = (f64::from(buffer.area.width), f64::from(buffer.area.height));
    let (width, height) = (columns * CHARACTER.0 + 2.0 * MARGIN, lines * CHARACTER.1 + 2.0 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans \
         Mono, monospace\" font-size=\"{FONT_SIZE}\">\n<title>{title}</title>\n\
         <rect x=\"0.5\" y=\"0.5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"6\" fill=\"{}\" stroke=\"{}\"/>\n",
        width - 1.0,
        height - 1.0,
        theme.page,
        theme.soft,
    );
    let mut top = MARGIN;
    for line in buffer.content().chunks(usize::from(buffer.area.width)) {
        let mut left = MARGIN;
        for cells in line.chunk_by(|one, other| theme.look(one) == theme.look(other)) {
            run(&mut out, cells, theme, (left, top));
            left += length(cells.len());
        }
        top += CHARACTER.1;
    }
    out.push_str("</svg>\n");
    out
}

/// Draws cells of one look: their ground, their text word by word, and lines of a tree as lines.
fn run(out: &mut String, cells: &[Cell], theme: &Theme, (left, top): (f64, f64)) {
    let look = theme.look(&cells[0]);
    if look.ground != theme.page {
        let _ = writeln!(
            out,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
            length(cells.len()),
            CHARACTER.1,
            look.ground
        );
    }
    let mut x = left;
    for part in cells.chunk_by(|one, other| is_letter(one) == is_letter(other)) {
        if is_letter(&part[0]) {
            let text: String = part.iter().map(Cell::symbol).collect();
            words(out, &text, look, (x, top));
        } else {
            for (at, cell) in part.iter().enumerate() {
                branch(out, cell.symbol(), look, (x + length(at), top));
            }
        }
        x += length(part.len());
    }
}

/// Draws a text, each word in its place: fonts differ in width, and blanks at both ends are dropped by some
/// viewers.
fn words(out: &mut String, text: &str, look: Look, (left, top): (f64, f64)) {
    let weight = if look.bold { " font-weight=\"600\"" } else { "" };
    let mut at = 0;
    for word in text.split([' ', '\u{a0}']) {
        let count = word.chars().count();
        if count > 0 {
            let escaped = word.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" textLength=\"{:.1}\" lengthAdjust=\"spacingAndGlyphs\" \
                 fill=\"{}\"{weight}>{escaped}</text>",
                left + length(at),
                top + CHARACTER.1 * 0.72,
                length(count),
                look.ink,
            );
        }
        at += count + 1;
    }
}

fn is_letter(cell: &Cell) -> bool {
    !["│", "├", "└", "─"].contains(&cell.symbol())
}

/// Draws a part of a tree, without gaps between lines.
fn branch(out: &mut String, symbol: &str, look: Look, (left, top): (f64, f64)) {
    let (right, bottom) = (left + CHARACTER.0, top + CHARACTER.1);
    let (x, y) = (left + CHARACTER.0 / 2.0, top + CHARACTER.1 / 2.0);
    let path = match symbol {
        "│" => format!("M{x:.1} {top:.1}V{bottom:.1}"),
        "├" => format!("M{x:.1} {top:.1}V{bottom:.1}M{x:.1} {y:.1}H{right:.1}"),
        "└" => format!("M{x:.1} {top:.1}V{y:.1}H{right:.1}"),
        _ => format!("M{left:.1} {y:.1}H{right:.1}"),
    };
    let _ = writeln!(out, "<path d=\"{path}\" fill=\"none\" stroke=\"{}\"/>", look.ink);
}

#[allow(clippy::cast_precision_loss)] // columns of a screen
fn length(columns: usize) -> f64 {
    columns as f64 * CHARACTER.0
}
