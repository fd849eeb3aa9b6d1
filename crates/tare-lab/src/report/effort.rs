//! The report's section on effort: the work of a server per transaction, which explains costs.

use maud::{Markup, html};

use super::{Study, is_base, measured, unit};
use crate::verdict::analysis::{CellAnalysis, SettingAnalysis};
use crate::verdict::effort::EffortMetric;

/// Returns whether any effort is known.
pub(super) fn is_known(study: &Study<'_>) -> bool {
    study.analysis.cells.iter().flat_map(|cell| &cell.settings).any(|s| !s.effort.is_empty())
}

/// Renders a table for each cell: figures per transaction, and their difference from the base.
pub(super) fn efforts(study: &Study<'_>) -> Markup {
    if !is_known(study) {
        return html! {};
    }
    html! {
        section #effort {
            h2 { "Why it costs" }
            p.note {
                "What a transaction makes the server do, and by how much that is more than in the base. Counted once, over a slice that was "
                "not measured, soon after the server's start unless flame graphs were taken; CPU time and switches are medians over the "
                "measured slices. Instructions and misses are there where the processor shows its counters: the notes say if it does not."
            }
            @for cell in &study.analysis.cells {
                @if measured(cell).any(|s| !s.effort.is_empty()) { (table(cell)) }
            }
        }
    }
}

/// A column: its figure, and the value for a setting.
struct EffortColumn<'c> {
    head: &'c str,
    meaning: &'c str,
    value: Box<dyn Fn(&SettingAnalysis) -> f64>,
    shown: fn(f64) -> String,
}

fn columns(cell: &CellAnalysis) -> Vec<EffortColumn<'static>> {
    let median = |head, meaning, value: fn(&SettingAnalysis) -> f64, shown| EffortColumn {
        head,
        meaning,
        value: Box::new(value),
        shown,
    };
    let mut columns = vec![
        median(
            "CPU, user",
            "CPU time of the server outside of the kernel",
            |s| s.medians.cpu - s.medians.cpu_system,
            unit::time,
        ),
        median("CPU, kernel", "CPU time of the server in the kernel", |s| s.medians.cpu_system, unit::time),
        median("switches", "context switches", |s| s.medians.context_switches, unit::plain),
    ];
    columns.extend(EffortMetric::known(measured(cell)).into_iter().map(|figure| EffortColumn {
        head: figure.head,
        meaning: figure.meaning,
        value: Box::new(move |s| figure.of_setting(s)),
        shown: if figure.is_bytes() { unit::bytes } else { unit::plain },
    }));
    columns
}

fn table(cell: &CellAnalysis) -> Markup {
    let columns = columns(cell);
    html! {
        div.wide {
            table.figures {
                caption { (cell.cell) ": per transaction" }
                thead {
                    tr {
                        th scope="col" { "setting" }
                        @for c in &columns { th scope="col" { abbr title=(c.meaning) { (c.head) } } }
                    }
                }
                tbody {
                    @for s in measured(cell) {
                        tr {
                            th scope="row" { (s.name) }
                            @for c in &columns { td data-head=(c.head) { (figure(cell, s, c)) } }
                        }
                    }
                }
            }
        }
    }
}

/// Renders a figure and its difference from the base.
fn figure(cell: &CellAnalysis, s: &SettingAnalysis, column: &EffortColumn<'_>) -> Markup {
    let value = (column.value)(s);
    let base = cell.setting(&s.base).filter(|_| !is_base(s)).map(|base| (column.value)(base));
    let more = base.map(|base| value / base - 1.0).filter(|more| more.is_finite());
    html! {
        ((column.shown)(value))
        @if let Some(more) = more { " " span.interval { (unit::change(more, None)) } }
    }
}
