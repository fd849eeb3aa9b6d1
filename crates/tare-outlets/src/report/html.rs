//! The report as a page.

use maud::{Markup, html};
use tare_page::unit;

use super::{Cell, Figures, Report, Section, visible};

const STYLE: &str = include_str!("style.css");
/// A statement that is longer is folded up.
const LONG: usize = 240;

/// The page: one file that needs nothing else.
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
        footer { p { "Made by tare " (env!("CARGO_PKG_VERSION")) " of two snapshots; " code { "tare report --output json" } " has the same figures for programs." } }
    };
    tare_page::page(&visible(&title), &format!("tare {}", env!("CARGO_PKG_VERSION")), STYLE, body, None)
        .into_string()
}

/// From when to when, and how long that is.
#[must_use]
pub fn span(report: &Report) -> String {
    let (first, last) = (&report.first.taken_at, &report.last.taken_at);
    format!("{} to {}, {}", moment(first), moment(last), unit::span(report.seconds))
}

/// `2026-11-23T03:07:46.238Z` as `2026-11-23 03:07:46 UTC`.
fn moment(at: &str) -> String {
    let second = at.split('.').next().unwrap_or(at).trim_end_matches('Z');
    format!("{} UTC", second.replace('T', " "))
}

fn head(report: &Report) -> Markup {
    let last = &report.last;
    let provider = match last.provider.as_str() {
        "tare" => "with tare",
        _ => "with its built-in Performance Schema",
    };
    html! {
        header {
            p.study { (visible(&last.address)) }
            h1 { "What happened in " (unit::span(report.seconds)) }
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
    let shown: Vec<usize> = (0..heads.len()).filter(|at| figures.columns[*at].0 != "digest").collect();
    let digest = figures.columns.iter().position(|(key, _)| *key == "digest");
    html! {
        div.wide {
            table {
                thead {
                    tr { @for at in &shown { th class=[has_words(figures, *at).then_some("words")] scope="col" { (heads[*at]) } } }
                }
                tbody {
                    @for row in &figures.rows {
                        tr {
                            @for at in &shown {
                                @if *at == 0 {
                                    th scope="row" title=[digest.and_then(|at| hint(&row[at]))] { (cell(&row[0])) }
                                } @else {
                                    td class=[is_word(&row[*at]).then_some("words")] data-head=(heads[*at]) { (cell(&row[*at])) }
                                }
                            }
                        }
                    }
                }
            }
            @if figures.more > 0 { p.note { (unit::fixed(count(figures.more), 0)) " more are not shown." } }
        }
    }
}

/// A digest, for those who look for it.
fn hint(cell: &Cell) -> Option<String> {
    match cell {
        Cell::Name(name) => Some(format!("digest {}", visible(name))),
        _ => None,
    }
}

/// Whether a column is read, not compared: it stands left.
fn has_words(figures: &Figures, column: usize) -> bool {
    figures.rows.iter().any(|row| is_word(&row[column]))
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
