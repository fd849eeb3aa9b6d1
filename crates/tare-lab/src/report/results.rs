//! What was measured, workload by workload; what was counted; where the time went.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::chart::{Axis, Box, Interval, Stretch, course};
use super::flame::{self, Profiled, Stacks};
use super::latency::latencies;
use super::page::{anchor, legend, several_bases, verdict_cell};
use super::wording::{charged, contradiction, said};
use super::{Study, is_base, measured, unit};
use crate::analysis::{CellAnalysis, Difference, SettingAnalysis};
use crate::record::{Calls, Profile, Slice};
use crate::statistics::{mean_interval, quantile};

/// More cells of a workload than this are folded up, but for the first.
const OPEN: usize = 3;
/// What is reached in nearly all seconds.
const SLOW_SECONDS: &str = "99% of seconds";

/// A part for every workload.
pub(super) fn workloads(study: &Study<'_>) -> Markup {
    html! { @for (name, cells) in study.workloads() { (workload(study, name, &cells)) } }
}

fn workload(study: &Study<'_>, name: &str, cells: &[&CellAnalysis]) -> Markup {
    html! {
        section id=(anchor(name)) {
            h2 { (name) }
            @if cells.len() > 1 { (by_connections(study, cells)) }
            (intervals(study, cells))
            (figures(study, cells))
            h3 { "Transactions per second" }
            p.note {
                "Every second of every slice. The box is the middle half, its line the median, the whiskers reach to the last value "
                "within 1.5 boxes' lengths, dots are beyond. The upright line is the base's median. Slices take turns, so gaps in "
                "the course of one setting are the others' slices."
            }
            @for (place, cell) in cells.iter().enumerate() {
                details open[place == 0 || cells.len() <= OPEN] {
                    summary { (cell.cell.drive()) }
                    (boxes(study, cell))
                    (courses(study, cell))
                    (latencies(study, cell))
                }
            }
        }
    }
}

/// Settings by numbers of connections.
fn by_connections(study: &Study<'_>, cells: &[&CellAnalysis]) -> Markup {
    let facts = study.analysis.header.settings.iter();
    let names: Vec<&str> = facts
        .map(|s| s.name.as_str())
        .filter(|n| cells.iter().any(|c| measured(c).any(|s| s.name == *n)))
        .collect();
    html! {
        div.wide {
            table {
                caption {
                    "Difference in " (charged(study.analysis.header.measure)) ", by connections; below it transactions per second"
                }
                thead {
                    tr {
                        th scope="col" { "setting" }
                        @for cell in cells { th scope="col" { (cell.cell.users) @if let Some(percent) = cell.cell.percent { " at " (percent) "%" } } }
                    }
                }
                tbody {
                    @for name in names {
                        tr {
                            th scope="row" { (name) }
                            @for cell in cells {
                                (by_name(study, cell, name))
                            }
                        }
                    }
                }
            }
        }
        (legend(study))
    }
}

fn by_name(study: &Study<'_>, cell: &CellAnalysis, name: &str) -> Markup {
    let head = cell.cell.drive();
    match measured(cell).find(|s| s.name == name) {
        Some(s) => {
            verdict_cell(study, &head, (cell, s), html! { span.below { (unit::plain(s.medians.tps)) "/s" } })
        }
        None => html! { td.none data-head=(head) { (unit::NONE) } },
    }
}

/// The twin's interval beside a setting: what noise looks like against the same base.
fn noise(cell: &CellAnalysis, base: &str) -> Option<(f64, f64)> {
    cell.settings.iter().find(|s| s.twin && s.base == base)?.cost?.interval
}

/// Widths and heads of a table whose second column is drawn; the heads are for those who listen.
pub(super) fn plot_heads(third: &str, fourth: &str) -> Markup {
    html! {
        colgroup { col.name; col; col.value; col.words; }
        thead.hidden { tr { @for head in ["setting", "plot", third, fourth] { th scope="col" { (head) } } } }
    }
}

/// The interval plot: an estimate with its interval for every setting.
fn intervals(study: &Study<'_>, cells: &[&CellAnalysis]) -> Markup {
    let header = &study.analysis.header;
    let all = || cells.iter().flat_map(|c| measured(c)).filter_map(|s| s.cost);
    let ends = all().flat_map(|c| {
        let (low, high) = c.interval.unwrap_or((c.share, c.share));
        [low, high, c.share]
    });
    let axis = Axis::holding(ends.chain([-header.margin, header.margin]));
    html! {
        h3 { "Difference in " (charged(header.measure)) }
        table.plot {
            caption.note {
                "Estimate and 95% interval in calm rounds; below the figure the mean of all turns, which has in it what comes in "
                "bursts. Shaded: the A/A pair's interval, which is noise. Dashed: the margin of "
                (unit::chosen(header.margin)) ", below which a difference does not matter."
            }
            (plot_heads("difference", "verdict"))
            @for cell in cells {
                tbody {
                    tr.group { th colspan="4" scope="rowgroup" { (cell.cell.drive()) (bases(cell)) } }
                    @for s in measured(cell).filter(|s| !is_base(s)) { (interval(study, cell, s, &axis)) }
                }
            }
            tfoot { tr { td {} td { (axis.labels(|tick| axis.change(tick))) } td {} td {} } }
        }
    }
}

/// What the cell's settings are compared with, and what it takes.
fn bases(cell: &CellAnalysis) -> Markup {
    html! {
        span.meaning {
            @for base in measured(cell).filter(|s| is_base(s)) {
                (base.name) ": " (unit::time(base.medians.charged)) ", " (unit::plain(base.medians.tps)) " transactions/s "
            }
        }
    }
}

fn interval(study: &Study<'_>, cell: &CellAnalysis, s: &SettingAnalysis, axis: &Axis) -> Markup {
    let header = &study.analysis.header;
    let (Some(cost), Some(said)) = (s.cost, said(header, cell, s)) else {
        return html! {
            tr { th scope="row" { (s.name) } td {} td.figure { (unit::NONE) } td.said { "nothing to compare" } }
        };
    };
    let kind = said.claim.word();
    let plot = Interval {
        kind,
        value: cost.share,
        range: cost.interval,
        noise: noise(cell, &s.base),
        margin: header.margin,
    };
    html! {
        tr {
            th scope="row" {
                (s.name)
                @if s.twin { span.meaning { "A/A" } }
                @if several_bases(study) { span.meaning { "against " (s.base) } }
            }
            td.chart { (plot.row(axis)) }
            td.figure {
                (difference(Some(cost)))
                @if let Some(mean) = s.mean { span.meaning { "mean " (difference(Some(mean))) } }
            }
            td class={ "said " (kind) } {
                span.sign aria-hidden="true" { (said.claim.sign()) } (said.words)
                @if let Some(word) = contradiction(header, cell, s) { span.but { "But " (word) "." } }
            }
        }
    }
}

/// A difference with what it is uncertain by.
fn difference(difference: Option<Difference>) -> Markup {
    let Some(d) = difference else { return html! { (unit::NONE) } };
    html! { (unit::change(d.share, d.plus_minus())) " " span.interval { (unit::interval(d)) } }
}

/// A column of the table of figures: its head, what its head means, its figure (to leave out what is nothing everywhere), and
/// how it is shown.
struct Column {
    head: String,
    meaning: &'static str,
    figure: fn(&SettingAnalysis) -> f64,
    shown: fn(f64) -> String,
}

fn column(
    head: &str,
    meaning: &'static str,
    figure: fn(&SettingAnalysis) -> f64,
    shown: fn(f64) -> String,
) -> Column {
    Column { head: head.into(), meaning, figure, shown }
}

fn columns() -> Vec<Column> {
    vec![
        column("CPU", "server CPU per transaction", |s| s.medians.cpu, unit::time),
        column("of it kernel", "part of it in the kernel", |s| s.medians.cpu_system, unit::time),
        column(
            "sidecars",
            "CPU of programs beside the server that are charged, per transaction",
            |s| s.medians.cpu_sidecars,
            unit::time,
        ),
        column(
            "beside",
            "CPU of programs beside the server that are not charged, per transaction",
            |s| s.medians.cpu_beside,
            unit::time,
        ),
        column("TPS", "transactions per second", |s| s.medians.tps, unit::plain),
        column("QPS", "statements per second", |s| s.medians.qps, unit::plain),
        column("mean", "mean latency", |s| s.medians.latency, unit::time),
        column("p95", "95 of 100 transactions take at most this", |s| s.medians.p95, unit::time),
        column("p99", "99 of 100 transactions take at most this", |s| s.medians.p99, unit::time),
        column("p99.9", "999 of 1000 transactions take at most this", |s| s.medians.p999, unit::time),
        column("memory", "resident memory of the server", |s| s.medians.resident_bytes, unit::bytes),
        column(
            "memory beside",
            "resident memory of programs beside the server",
            |s| s.medians.resident_sidecars,
            unit::bytes,
        ),
        column("switches", "context switches per transaction", |s| s.medians.context_switches, unit::plain),
        column(
            "logged",
            "what the setting's logs grew by",
            |s| s.medians.logged_bytes,
            unit::bytes_per_second,
        ),
        column("errors/s", "errors the driver met and ignored", |s| s.medians.errors, unit::plain),
        column(
            "steal",
            "share of the machine's time given to others",
            |s| s.medians.steal,
            |v| unit::percent(v, None),
        ),
    ]
}

/// The table of figures, medians over slices.
fn figures(study: &Study<'_>, cells: &[&CellAnalysis]) -> Markup {
    let all = || cells.iter().flat_map(|c| measured(c));
    let is_there = |c: &Column| all().any(|s| (c.figure)(s).is_finite() && (c.figure)(s) != 0.0);
    let columns: Vec<Column> = columns().into_iter().filter(is_there).collect();
    let own: BTreeSet<&String> = all().flat_map(|s| s.medians.figures.keys()).collect();
    html! {
        h3 { "Figures" }
        div.wide {
            table.figures {
                caption.note {
                    "Medians over slices. 99% of seconds: so many transactions at least were done in 99 of 100 seconds. "
                    @if !own.is_empty() { "The workload's own figures are means with a 95% interval." }
                }
                thead {
                    tr {
                        th scope="col" { "setting" }
                        @for c in &columns {
                            th scope="col" { abbr title=(c.meaning) { (c.head) } }
                            @if c.head == "TPS" {
                                th scope="col" { "against base" }
                                th scope="col" { (SLOW_SECONDS) }
                            }
                            @if c.head == "p95" { th scope="col" { "against base" } }
                        }
                        @for name in &own { th scope="col" { (spaced(name)) } }
                    }
                }
                @for cell in cells {
                    tbody {
                        @if cells.len() > 1 {
                            tr.group {
                                th colspan=(columns.len() + own.len() + 4) scope="rowgroup" { (cell.cell.drive()) }
                            }
                        }
                        @for s in measured(cell) {
                            tr {
                                th scope="row" { (s.name) }
                                @for c in &columns {
                                    td data-head=(c.head) { ((c.shown)((c.figure)(s))) }
                                    @if c.head == "TPS" {
                                        td data-head="TPS against base" { (difference(s.throughput)) }
                                        td data-head=(SLOW_SECONDS) { (unit::plain(quantile(&seconds(study, cell, s), 0.01))) }
                                    }
                                    @if c.head == "p95" { td data-head="p95 against base" { (difference(s.p95)) } }
                                }
                                @for name in &own {
                                    td data-head=(spaced(name)) { (own_figure(study.slices(&cell.cell, &s.name), name)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn own_figure(slices: &[&Slice], name: &str) -> Markup {
    let values: Vec<f64> = slices.iter().filter_map(|s| s.figures.get(name).copied()).collect();
    let Some(mean) = mean_interval(&values) else { return html! { (unit::plain(quantile(&values, 0.5))) } };
    html! { (unit::plain(mean.value)) " " span.interval { (unit::plain(mean.low)) " … " (unit::plain(mean.high)) } }
}

/// A figure's name as a head, which can be broken: `retries per transaction`.
fn spaced(name: &str) -> String {
    name.replace('_', " ")
}

/// Transactions of every second of every slice.
fn seconds(study: &Study<'_>, cell: &CellAnalysis, s: &SettingAnalysis) -> Vec<f64> {
    study.slices(&cell.cell, &s.name).iter().flat_map(|s| s.per_second.iter().copied()).collect()
}

/// The base's median, beside another setting.
fn base_median(study: &Study<'_>, cell: &CellAnalysis, s: &SettingAnalysis) -> Option<f64> {
    let base = cell.setting(&s.base)?;
    Some(quantile(&seconds(study, cell, base), 0.5)).filter(|m| m.is_finite())
}

fn boxes(study: &Study<'_>, cell: &CellAnalysis) -> Markup {
    let boxes: Vec<(&SettingAnalysis, Box)> =
        measured(cell).filter_map(|s| Some((s, Box::of(&seconds(study, cell, s))?))).collect();
    let axis = Axis::holding(boxes.iter().flat_map(|(_, b)| b.extent()));
    html! {
        table.plot {
            (plot_heads("median", "middle half"))
            tbody {
                @for (s, figure) in &boxes {
                    tr {
                        th scope="row" { (s.name) }
                        td.chart { (figure.row(&axis, base_median(study, cell, s))) }
                        td.figure { (unit::plain(figure.median)) "/s" }
                        td.said { (unit::plain(figure.first)) " to " (unit::plain(figure.third)) }
                    }
                }
            }
            tfoot { tr { td {} td { (axis.labels(|tick| axis.number(tick))) } td {} td {} } }
        }
    }
}

/// Seconds of the study, in the unit of its time axis, and that unit.
fn time_unit(seconds: f64) -> (f64, &'static str) {
    if seconds > 3.0 * 3600.0 {
        (3600.0, "h")
    } else if seconds > 180.0 {
        (60.0, "min")
    } else {
        (1.0, "s")
    }
}

fn courses(study: &Study<'_>, cell: &CellAnalysis) -> Markup {
    let slices = |s: &SettingAnalysis| study.slices(&cell.cell, &s.name);
    let all = || measured(cell).flat_map(slices);
    let ends = || all().flat_map(|s| [s.at, s.at + s.seconds]);
    let (length, name) = time_unit(ends().fold(0.0, f64::max));
    let time = Axis::holding(ends().map(|at| at / length));
    let value = Axis::holding(all().flat_map(|s| s.per_second.iter().copied()));
    let (low, high) = value.ends();
    html! {
        table.plot.courses {
            colgroup { col.name; col; col.value; col.words; }
            caption.note {
                "The same over time, from " (unit::plain(low)) " to " (unit::plain(high)) " per second; the level line is the base's median."
            }
            tbody {
                @for s in measured(cell) {
                    @let stretches: Vec<Stretch<'_>> =
                        slices(s).iter().map(|s| (s.at / length, s.per_second.as_slice())).collect();
                    @let said = course_in_words(&s.name, &seconds(study, cell, s));
                    @let base = base_median(study, cell, s);
                    tr {
                        th scope="row" { (s.name) }
                        td.chart colspan="3" { (course(&stretches, 1.0 / length, (&time, &value), base, &said)) }
                    }
                }
            }
            tfoot {
                tr { td {} td colspan="3" { (time.labels(|tick| format!("{} {name}", time.number(tick)))) } }
            }
        }
    }
}

fn course_in_words(setting: &str, seconds: &[f64]) -> String {
    let [lowest, median, highest] = [0.0, 0.5, 1.0].map(|q| unit::plain(quantile(seconds, q)));
    format!(
        "transactions per second of {setting} over time: median {median}, lowest {lowest}, highest {highest}"
    )
}

/// What the Performance Schema counted, and what an event costs.
pub(super) fn events(study: &Study<'_>) -> Markup {
    if study.calls.is_empty() {
        return html! {};
    }
    html! {
        section #events {
            h2 { "Events" }
            p.note {
                "What the Performance Schema of a setting counted in a transaction, by class of instrument. The last line divides "
                "what the setting is charged more than the base by all of them: what an event costs, if they alone are what costs."
            }
            @for cell in &study.analysis.cells {
                @let calls: Vec<&Calls> = cell.settings.iter().filter_map(|s| last_calls(study, cell, &s.name)).collect();
                @if !calls.is_empty() { (calls_of(cell, &calls)) }
            }
        }
    }
}

fn last_calls<'a>(study: &Study<'a>, cell: &CellAnalysis, setting: &str) -> Option<&'a Calls> {
    study.calls.iter().rev().find(|c| c.cell == cell.cell && c.setting == setting).copied()
}

fn calls_of(cell: &CellAnalysis, calls: &[&Calls]) -> Markup {
    let classes: BTreeSet<&String> = calls.iter().flat_map(|c| c.per_transaction.keys()).collect();
    let total = |c: &Calls| c.per_transaction.values().sum::<f64>();
    html! {
        div.wide {
            table {
                caption { (cell.cell) ": events per transaction" }
                thead { tr { th scope="col" { "class" } @for c in calls { th scope="col" { (c.setting) } } } }
                tbody {
                    @for class in classes {
                        tr {
                            th scope="row" { (class) }
                            @for c in calls { td data-head=(c.setting) { (unit::plain(c.per_transaction.get(class).copied().unwrap_or(f64::NAN))) } }
                        }
                    }
                }
                tfoot {
                    tr { th scope="row" { "all" } @for c in calls { td data-head=(c.setting) { (unit::plain(total(c))) } } }
                    tr {
                        th scope="row" { "an event costs" }
                        @for c in calls { td data-head=(c.setting) { (event_cost(cell, &c.setting, total(c))) } }
                    }
                }
            }
        }
    }
}

fn event_cost(cell: &CellAnalysis, setting: &str, events: f64) -> Markup {
    let added = cell.setting(setting).and_then(|s| Some((s.cost?, cell.setting(&s.base)?.medians.charged)));
    let Some((cost, base)) = added.filter(|_| events > 0.0) else { return html! { (unit::NONE) } };
    let nanoseconds = |share: f64| share * base / events * 1e9;
    html! {
        (unit::plain(nanoseconds(cost.share))) " ns "
        @if let Some((low, high)) = cost.interval {
            span.interval { (unit::plain(nanoseconds(low))) " … " (unit::plain(nanoseconds(high))) }
        }
    }
}

/// Where the server's time went, by setting, and how that differs from the base.
pub(super) fn flame_graphs(study: &Study<'_>) -> Markup {
    if study.profiles.is_empty() {
        return html! {};
    }
    html! {
        section #flame-graphs {
            h2 { "Flame graphs" }
            p.note {
                "Where the server's CPU time of a transaction went: callers above, callees below, as wide as their share of the "
                "samples. In a difference " span.more-key { "what takes more time" } " than in the base and "
                span.less-key { "what takes less" } " is coloured. A click widens a frame, a click on one of the first row "
                "widens all again."
            }
            @for (profile, stacks) in &study.profiles { (flame_graph(study, profile, stacks)) }
        }
    }
}

fn flame_graph(study: &Study<'_>, profile: &Profile, stacks: &Stacks) -> Markup {
    let cell = study.analysis.cells.iter().find(|c| c.cell == profile.cell);
    let setting = |name: &str| cell.and_then(|c| c.setting(name));
    let cpu = |name: &str| setting(name).map_or(f64::NAN, |s| s.medians.cpu);
    let base = setting(&profile.setting).filter(|s| !is_base(s)).map(|s| s.base.as_str());
    let before =
        study.profiles.iter().find(|(p, _)| p.cell == profile.cell && Some(p.setting.as_str()) == base);
    let own = Profiled { stacks, cpu: cpu(&profile.setting) };
    html! {
        details open[study.profiles.len() <= OPEN] {
            summary {
                (profile.setting) ": " (profile.cell)
                span.meaning { (stacks.samples()) " samples" }
            }
            (flame::graph(own, None))
            @if let Some((base, stacks)) = before {
                p.note { "Its difference from " (base.setting) }
                (flame::graph(own, Some(Profiled { stacks, cpu: cpu(&base.setting) })))
            }
        }
    }
}
