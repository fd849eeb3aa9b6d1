//! The report's results: measurements by workload, events, and flame graphs.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::chart::{Axis, Interval};
use super::figures::{difference, figures};
use super::flame::{self, Profiled, Stacks};
use super::latency::latencies;
use super::parts::{anchor, legend, plot_heads, several_bases, verdict_cell};
use super::wording::{charged, contradiction, said};
use super::{Study, curves, is_base, measured, throughput, unit};
use crate::results::record::{Calls, Profile};
use crate::verdict::analysis::{CellAnalysis, SettingAnalysis};

/// Most cells of a workload that are shown open; of more, only the first is.
const OPEN: usize = 3;

/// Renders a section for every workload.
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
            (throughput::as_runs(study, cells))
            h3 { "Transactions per second" }
            (curves::curves(study, cells))
            p.note {
                "Every second of every slice; a slice taken in turns counts as one. The box is the middle half, its line the median, the "
                "whiskers reach to the last value within 1.5 boxes' lengths, dots are beyond. The upright line is the base's median."
            }
            @for (place, cell) in cells.iter().enumerate() {
                details open[place == 0 || cells.len() <= OPEN] {
                    summary { (cell.cell.drive()) }
                    (throughput::boxes(study, cell))
                    (throughput::scatters(study, cell))
                    (latencies(study, cell))
                }
            }
        }
    }
}

/// Renders a table of settings by numbers of connections.
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

/// Returns the interval of the A/A control of a base: the size of noise.
pub(super) fn noise(cell: &CellAnalysis, base: &str) -> Option<(f64, f64)> {
    cell.settings.iter().find(|s| s.control && s.base == base)?.cost?.interval
}

/// Renders the interval plot: an estimate with its interval for every setting.
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

/// Renders the bases of the cell's settings, with their charges.
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
                @if s.control { span.meaning { "A/A" } }
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

/// Renders the events that the Performance Schema counted, and the cost of an event.
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

/// Returns how many instruments a setting has enabled, of how many.
fn instruments_of(calls: &Calls) -> String {
    calls.instruments.map_or_else(|| unit::NONE.to_owned(), |i| format!("{} of {}", i.enabled, i.all))
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
                    @if calls.iter().any(|c| c.instruments.is_some()) {
                        tr {
                            th scope="row" { "instruments on" }
                            @for c in calls { td data-head=(c.setting) { (instruments_of(c)) } }
                        }
                    }
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

/// Renders flame graphs by setting, and their differences from the base.
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
