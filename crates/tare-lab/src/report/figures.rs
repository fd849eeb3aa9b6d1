//! The report's tables of figures by setting.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::{Study, measured, unit};
use crate::results::record::Slice;
use crate::statistics::{mean_interval, quantile};
use crate::verdict::analysis::{Amount, CellAnalysis, Difference, SettingAnalysis};

/// A setting in a cell.
type SettingInCell<'s> = (&'s CellAnalysis, &'s SettingAnalysis);

/// A column: its head, the head's meaning, whether a setting has a value, and how that is rendered.
struct SettingColumn<'s> {
    head: String,
    meaning: String,
    is_there: Box<dyn Fn(&SettingAnalysis) -> bool + 's>,
    shown: Box<dyn Fn(SettingInCell<'s>) -> Markup + 's>,
}

/// Makes the column of a figure, which is left out if it is 0 everywhere.
fn figure<'s>(
    head: &str,
    meaning: &str,
    figure: fn(&SettingAnalysis) -> f64,
    shown: fn(f64) -> String,
) -> SettingColumn<'s> {
    SettingColumn {
        head: head.into(),
        meaning: meaning.into(),
        is_there: Box::new(move |s| figure(s).is_finite() && figure(s) != 0.0),
        shown: Box::new(move |(_, s)| html! { (shown(figure(s))) }),
    }
}

/// Makes the column of a difference from the base.
fn against<'s>(
    head: &str,
    meaning: &str,
    of: fn(&SettingAnalysis) -> Option<Difference>,
) -> SettingColumn<'s> {
    SettingColumn {
        head: head.into(),
        meaning: meaning.into(),
        is_there: Box::new(move |s| of(s).is_some()),
        shown: Box::new(move |(_, s)| difference(of(s))),
    }
}

/// Makes the column of a figure that the workload reports itself.
fn own<'s>(study: &'s Study<'_>, name: &'s str) -> SettingColumn<'s> {
    SettingColumn {
        head: spaced(name),
        meaning: "a figure of the workload's own: mean and 95% interval".into(),
        is_there: Box::new(|_| true),
        shown: Box::new(move |(cell, s)| own_figure(study.slices(&cell.cell, &s.name), name)),
    }
}

fn of_processor<'s>() -> Vec<SettingColumn<'s>> {
    vec![
        figure("CPU", "server CPU per transaction", |s| s.medians.cpu, unit::time),
        figure("of it kernel", "part of it in the kernel", |s| s.medians.cpu_system, unit::time),
        figure(
            "CPU share",
            "share of the machine's processors that the server kept busy",
            |s| s.medians.cpu_share,
            |share| unit::percent(share, None),
        ),
        figure(
            "sidecars",
            "CPU of programs beside the server that are charged, per transaction",
            |s| s.medians.cpu_sidecars,
            unit::time,
        ),
        figure(
            "beside",
            "CPU of programs beside the server that are not charged, per transaction",
            |s| s.medians.cpu_beside,
            unit::time,
        ),
    ]
}

fn of_transactions<'s>() -> Vec<SettingColumn<'s>> {
    vec![
        figure("TPS", "transactions per second", |s| s.medians.tps, unit::plain),
        against("TPS against base", "how transactions per second differ", |s| s.throughput),
        SettingColumn {
            head: "98 of 100 seconds".into(),
            meaning: "so many transactions are done in a second: in 1 of 100 fewer than the first figure, in 1 more than the other".into(),
            is_there: Box::new(|s| s.seconds.p99.is_finite()),
            shown: Box::new(|(_, s)| html! { (unit::plain(s.seconds.p1)) " to " (unit::plain(s.seconds.p99)) }),
        },
        figure("QPS", "statements per second", |s| s.medians.qps, unit::plain),
        figure("mean", "mean latency", |s| s.medians.latency, unit::time),
        figure("p95", "95 of 100 transactions take at most this", |s| s.medians.p95, unit::time),
        against("p95 against base", "how the 95th percentile of latency differs", |s| s.p95),
        figure("p99", "99 of 100 transactions take at most this", |s| s.medians.p99, unit::time),
        figure("p99.9", "999 of 1000 transactions take at most this", |s| s.medians.p999, unit::time),
    ]
}

fn of_machine<'s>() -> Vec<SettingColumn<'s>> {
    vec![
        figure("memory", "resident memory of the server", |s| s.medians.resident_bytes, unit::bytes),
        SettingColumn {
            head: "memory against base".into(),
            meaning: "by how much the server's resident memory differs".into(),
            is_there: Box::new(|s| s.memory.is_some()),
            shown: Box::new(|(_, s)| memory(s.memory)),
        },
        figure(
            "memory beside",
            "resident memory of programs beside the server",
            |s| s.medians.resident_sidecars,
            unit::bytes,
        ),
        figure("switches", "context switches per transaction", |s| s.medians.context_switches, unit::plain),
        figure(
            "logged",
            "what the setting's logs grew by",
            |s| s.medians.logged_bytes,
            unit::bytes_per_second,
        ),
        figure("errors/s", "errors the driver met and ignored", |s| s.medians.errors, unit::plain),
        figure(
            "steal",
            "share of the machine's time given to others",
            |s| s.medians.steal,
            |share| unit::percent(share, None),
        ),
    ]
}

/// Renders the tables of a workload, medians over slices: what its transactions were like, and what they
/// used.
pub(super) fn figures(study: &Study<'_>, cells: &[&CellAnalysis]) -> Markup {
    let all = || cells.iter().flat_map(|c| measured(c));
    let names: BTreeSet<&String> = all().flat_map(|s| s.medians.figures.keys()).collect();
    let mut transactions = of_transactions();
    transactions.extend(names.iter().map(|name| own(study, name)));
    let machine = of_processor().into_iter().chain(of_machine()).collect();
    html! {
        h3 { "Figures" }
        (table(cells, transactions, html! {
            "Transactions: medians over slices; differences have their 95% interval. 98 of 100 seconds: so many transactions; 1 of 100 has "
            "fewer, 1 more. "
            @if !names.is_empty() { "The workload's own figures are means with a 95% interval." }
        }))
        (table(cells, machine, html! { "Server and machine: medians over slices; differences have their 95% interval." }))
    }
}

/// Renders a table of the columns that have values.
fn table<'s>(cells: &[&'s CellAnalysis], columns: Vec<SettingColumn<'s>>, caption: Markup) -> Markup {
    let is_there = |c: &SettingColumn<'_>| cells.iter().flat_map(|c| measured(c)).any(|s| (c.is_there)(s));
    let columns: Vec<SettingColumn<'_>> = columns.into_iter().filter(is_there).collect();
    html! {
        div.wide {
            table.figures {
                caption.note { (caption) }
                thead {
                    tr {
                        th scope="col" { "setting" }
                        @for c in &columns { th scope="col" { abbr title=(c.meaning) { (c.head) } } }
                    }
                }
                @for cell in cells {
                    tbody {
                        @if cells.len() > 1 {
                            tr.group { th colspan=(columns.len() + 1) scope="rowgroup" { (cell.cell.drive()) } }
                        }
                        @for s in measured(cell) {
                            tr {
                                th scope="row" { (s.name) }
                                @for c in &columns { td data-head=(c.head) { ((c.shown)((*cell, s))) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Renders a difference with its uncertainty.
pub(super) fn difference(difference: Option<Difference>) -> Markup {
    let Some(d) = difference else { return html! { (unit::NONE) } };
    html! { (unit::change(d.share, d.plus_minus())) " " span.interval { (unit::interval(d)) } }
}

fn memory(amount: Option<Amount>) -> Markup {
    let Some(amount) = amount else { return html! { (unit::NONE) } };
    html! {
        (unit::more_bytes(amount.value))
        @if let Some(ends) = amount.interval { " " span.interval { (unit::more_bytes_between(ends)) } }
    }
}

fn own_figure(slices: &[&Slice], name: &str) -> Markup {
    let values: Vec<f64> = slices.iter().filter_map(|s| s.figures.get(name).copied()).collect();
    let Some(mean) = mean_interval(&values) else { return html! { (unit::plain(quantile(&values, 0.5))) } };
    html! { (unit::plain(mean.value)) " " span.interval { (unit::plain(mean.low)) " … " (unit::plain(mean.high)) } }
}

/// Returns a figure's name as a head that can be wrapped: `retries per transaction`.
pub(super) fn spaced(name: &str) -> String {
    name.replace('_', " ")
}
