//! The report as an HTML page.

use maud::{Markup, html};
use tare_page::unit;

use super::{Cell, Figures, Report, Section, chart, visible};

const STYLE: &str = include_str!("style.css");
/// Length from which a statement is collapsed.
const LONG: usize = 240;

/// Renders the page as a self-contained file.
#[must_use]
pub fn page(report: &Report) -> String {
    let title = format!("{}: {}", report.last.address, span(report));
    let body = html! {
        (head(report))
        @for warning in &report.warnings { p.warning { (visible(warning)) } }
        ul.figures {
            @for figure in &report.figures {
                li { span.value { (cell(&figure.value)) } span.what { (figure.title) } }
            }
        }
        @for part in &report.sections { (section(part)) }
        footer { p { "Made by tare " (env!("CARGO_PKG_VERSION")) "; " code { "tare report --format json" } " has the same figures for programs." } }
    };
    tare_page::page(&visible(&title), &format!("tare {}", env!("CARGO_PKG_VERSION")), STYLE, body, None)
        .into_string()
}

/// Formats the start, end and length of the report.
#[must_use]
pub fn span(report: &Report) -> String {
    let (first, last) = (&report.first.taken_at, &report.last.taken_at);
    format!("{} to {}, {}", moment(first), moment(last), length(report.seconds))
}

/// Formats a duration, with seconds where they matter.
fn length(seconds: f64) -> String {
    let (minutes, rest) = ((seconds.round() / 60.0).floor(), seconds.round() % 60.0);
    if !(1.0..60.0).contains(&minutes) || rest == 0.0 {
        return unit::span(seconds);
    }
    format!("{minutes:.0} min {rest:.0} s")
}

/// Formats `2026-11-23T03:07:46.238Z` as `2026-11-23 03:07:46 UTC`.
fn moment(at: &str) -> String {
    let second = at.split('.').next().unwrap_or(at).trim_end_matches('Z');
    format!("{} UTC", second.replace('T', " "))
}

fn head(report: &Report) -> Markup {
    let last = &report.last;
    let provider = match last.provider.as_str() {
        "tare" => "with tare",
        _ => "with its own Performance Schema",
    };
    html! {
        header {
            p.study { (visible(&last.address)) }
            h1 { "What happened in " (length(report.seconds)) }
            p.facts {
                (span(report)) " · " (visible(&last.version)) " " (provider)
                @if let Some(started) = &last.started_at { " · running since " (moment(started)) }
            }
            nav aria-label="parts of this report" {
                @for part in &report.sections { a href={ "#" (part.key) } { (part.title) } }
            }
        }
    }
}

fn section(part: &Section) -> Markup {
    html! {
        section id=(part.key) {
            h2 { (part.title) }
            @if !part.note.is_empty() { p.note { (part.note) } }
            @if let Some(chart) = &part.chart { (chart::figure(chart)) }
            @for figures in part.tables.iter().filter(|figures| !figures.rows.is_empty()) {
                @if figures.folded {
                    details { summary { (figures.title) ", " (figures.rows.len()) } (table(figures)) }
                } @else {
                    h3 { (figures.title) }
                    (table(figures))
                }
            }
        }
    }
}

fn table(figures: &Figures) -> Markup {
    let heads: Vec<&str> = figures.columns.iter().map(|(_, title)| *title).collect();
    let shown = shown(figures);
    let digest = figures.columns.iter().position(|(key, _)| *key == "digest");
    let more = figures.rows.len() - figures.shown().len();
    html! {
        div.wide {
            table {
                thead {
                    tr { @for at in &shown { th class=[has_words(figures, *at).then_some("words")] scope="col" { (heads[*at]) } } }
                }
                tbody {
                    @for row in figures.shown() {
                        tr {
                            @for at in &shown {
                                @if *at == 0 {
                                    th scope="row" title=[digest.and_then(|at| hint(&row[at]))] { (cell(&row[0])) }
                                } @else {
                                    td class=[is_read(figures, *at, &row[*at]).then_some("words")] data-head=(heads[*at]) { (cell(&row[*at])) }
                                }
                            }
                        }
                    }
                }
            }
            @if more > 0 { p.note { (unit::fixed(count(more), 0)) " more are not shown." } }
        }
    }
}

/// Returns the columns to show: those with values, so no p95 without histograms, for instance.
fn shown(figures: &Figures) -> Vec<usize> {
    let is_known = |at: usize| figures.shown().iter().any(|row| row[at] != Cell::None);
    (0..figures.columns.len()).filter(|at| figures.columns[*at].0 != "digest" && is_known(*at)).collect()
}

/// Returns a digest to show as a tooltip.
fn hint(cell: &Cell) -> Option<String> {
    match cell {
        Cell::Name(name) => Some(format!("digest {}", visible(name))),
        _ => None,
    }
}

/// Returns whether a column has words rather than figures, and is left-aligned.
fn has_words(figures: &Figures, column: usize) -> bool {
    figures.shown().iter().any(|row| is_word(&row[column]))
}

/// Returns whether a cell is left-aligned: a word, or an empty cell among words.
fn is_read(figures: &Figures, column: usize, cell: &Cell) -> bool {
    is_word(cell) || (*cell == Cell::None && has_words(figures, column))
}

fn is_word(cell: &Cell) -> bool {
    matches!(cell, Cell::Name(_) | Cell::Code(_))
}

#[allow(clippy::cast_precision_loss)] // shown with all its digits as far as a person reads them
fn count(count: usize) -> f64 {
    count as f64
}

#[allow(clippy::cast_precision_loss)] // shown with three digits, counts with all
fn cell(cell: &Cell) -> Markup {
    match cell {
        Cell::None => html! { span.none { (unit::NONE) } },
        Cell::Name(name) => html! { bdi { (visible(name)) } },
        Cell::Code(text) => code(&visible(text)),
        Cell::Count(count) => html! { (unit::fixed(*count as f64, 0)) },
        Cell::Rate(number) | Cell::Number(number) => html! { (unit::plain(*number)) },
        Cell::Time(seconds) => html! { (unit::time(*seconds)) },
        Cell::Bytes(bytes) => html! { (unit::bytes(*bytes as f64)) },
        Cell::Share(share) => html! {
            span.share { (unit::fixed(share * 100.0, 1)) "%" }
            span.bar aria-hidden="true" { span style=(format!("width:{:.1}%", share.clamp(0.0, 1.0) * 100.0)) {} }
        },
    }
}

fn code(text: &str) -> Markup {
    let Some((cut, _)) = text.char_indices().nth(LONG) else {
        return html! { code { (text) } };
    };
    html! {
        details.statement {
            summary { code { (text[..cut]) "…" } }
            code { (text) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_told_to_the_second_below_an_hour() {
        let told = [45.0, 96.2, 119.7, 120.0, 1000.0, 9000.0].map(length);
        assert_eq!(told, ["45 s", "1 min 36 s", "2 min", "2 min", "16 min 40 s", "2 h 30 min"]);
    }

    #[test]
    fn what_nobody_knows_has_no_column() {
        let columns: &[(&str, &str)] = &[("what", "what"), ("p95_seconds", "p95"), ("digest", "digest")];
        let row = |p95| vec![Cell::Name("x".into()), p95, Cell::Name("0123".into())];
        let of = |rows| shown(&Figures::new("key", "title", columns, rows, 10));
        assert_eq!(of(vec![row(Cell::None), row(Cell::None)]), [0]);
        assert_eq!(of(vec![row(Cell::None), row(Cell::Time(1.0))]), [0, 1]);
    }

    #[test]
    fn what_is_missing_stands_where_the_others_do() {
        let columns: &[(&str, &str)] = &[("what", "what"), ("schema", "schema"), ("count", "count")];
        let row = |schema, count| vec![Cell::Name("x".into()), schema, count];
        let rows = vec![row(Cell::Name("shop".into()), Cell::Count(1)), row(Cell::None, Cell::None)];
        let figures = Figures::new("key", "title", columns, rows, 10);
        let [with, without] = [1, 2].map(|at| is_read(&figures, at, &figures.rows[1][at]));
        assert!(with && !without);
    }
}
