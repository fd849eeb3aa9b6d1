//! The page of a report: the question, the verdicts, and then the rest.

use maud::{Markup, html};

use super::parts::{anchor, legend, verdict_cell};
use super::wording::{self, Claim, VerdictWording, against, charged, everywhere, in_short, said, together};
use super::{DataPlace, Study, background, effort, measured, results, unit};
use crate::results::record::SettingFacts;
use crate::verdict::analysis::{CellAnalysis, SettingAnalysis};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Renders the whole page.
pub(super) fn page(study: &Study<'_>, data: &DataPlace<'_>) -> Markup {
    let header = &study.analysis.header;
    let body = html! {
        (head(study))
        (warnings(study))
        (verdicts(study))
        (results::workloads(study))
        (effort::efforts(study))
        (results::events(study))
        (results::flame_graphs(study))
        (background::method(study))
        (background::machine(study))
        (background::data(study, data))
        footer { p { (in_short(&study.analysis)) } }
    };
    let title = format!("{}: {}", header.study, header.question);
    tare_page::page(&title, &format!("tare {}", header.tare), STYLE, body, Some(SCRIPT))
}

fn head(study: &Study<'_>) -> Markup {
    let (analysis, header) = (&study.analysis, &study.analysis.header);
    let slices = study.all_slices().count();
    let ended = analysis.end.as_ref().map_or_else(
        || "not ended: it runs, or was killed".into(),
        |end| format!("ended after {}: {}", unit::span(end.at), end.reason),
    );
    html! {
        header {
            p.study { (header.study) @if header.quick { " · quick" } }
            h1 { (header.question) }
            p.facts {
                (header.started) " · "
                (header.machine.cpus) " × " (header.machine.cpu_model) " · "
                (slices) " slices of " (header.slice_seconds) " s · " (ended)
            }
            nav aria-label="parts of this report" {
                a href="#verdicts" { "Verdicts" }
                @for (name, _) in study.workloads() { a href={ "#" (anchor(name)) } { (name) } }
                @if effort::is_known(study) { a href="#effort" { "Why" } }
                @if !study.calls.is_empty() { a href="#events" { "Events" } }
                @if !study.profiles.is_empty() { a href="#flame-graphs" { "Flame graphs" } }
                a href="#method" { "Method" }
                a href="#machine" { "Machine" }
                a href="#data" { "Data" }
            }
        }
    }
}

/// Renders warnings, such as that the machine was busy with other work.
fn warnings(study: &Study<'_>) -> Markup {
    html! {
        @for warning in wording::warnings(&study.analysis) { p.warning { (warning) } }
    }
}

fn verdicts(study: &Study<'_>) -> Markup {
    let header = &study.analysis.header;
    let compared = |s: &&SettingFacts| s.name != s.base && !s.control;
    html! {
        section #verdicts {
            h2 { "Verdicts" }
            p {
                "In " strong { (charged(header.measure)) } ". In brackets is the interval that holds the truth with 95% confidence. "
                "A cell is a workload at a number of connections; of several cells the lowest and the highest estimate are "
                "given, and how far their intervals reach."
            }
            ul.verdicts {
                @for facts in header.settings.iter().filter(compared) { (sentence(study, facts)) }
                @for facts in header.settings.iter().filter(|s| s.control) { (noise(study, facts)) }
            }
            (overview(study))
        }
    }
}

fn sentence(study: &Study<'_>, facts: &SettingFacts) -> Markup {
    let all = everywhere(&study.analysis, &facts.name);
    if all.is_empty() {
        return html! {
            li.unclear { span.sign aria-hidden="true" { "?" } div { strong { (facts.name) } " was not measured" } }
        };
    }
    let claim = Claim::worst(all.iter().map(|s| s.claim));
    html! {
        li class=(claim.word()) {
            span.sign aria-hidden="true" { (claim.sign()) }
            div {
                strong { (facts.name) } " " (together(&all)) ", "
                span.against { (against(&study.analysis.header, facts)) }
                @if !facts.meaning.is_empty() { span.meaning { (facts.meaning) } }
            }
        }
    }
}

fn noise(study: &Study<'_>, facts: &SettingFacts) -> Markup {
    let header = &study.analysis.header;
    let cells = study.analysis.cells.iter();
    let cells: Vec<(&CellAnalysis, &SettingAnalysis)> =
        cells.filter_map(|cell| Some((cell, measured(cell).find(|s| s.name == facts.name)?))).collect();
    let judged = cells.iter().filter_map(|(cell, s)| Some((*cell, said(header, cell, s)?)));
    let differs: Vec<String> = judged
        .filter(|(_, said)| !matches!(said.claim, Claim::Equal | Claim::Unclear))
        .map(|(c, said)| format!("{}: {said}", c.cell))
        .collect();
    let widest = cells.iter().filter_map(|(_, s)| wording::reach(s)).reduce(f64::max);
    html! {
        li.noise-floor {
            span.sign aria-hidden="true" { "=" }
            div {
                strong { (facts.name) } " is the base once more, so that its difference is noise: "
                @if !differs.is_empty() {
                    "it differs, so something disturbs this machine (" (differs.join("; ")) ")"
                } @else if let Some(widest) = widest {
                    "within " (unit::percent(widest, Some(widest)))
                } @else {
                    "too few blocks"
                }
            }
        }
    }
}

/// Renders a table of settings by workloads, each with the range over its numbers of connections.
fn overview(study: &Study<'_>) -> Markup {
    let workloads = study.workloads();
    if workloads.iter().all(|(_, cells)| cells.len() == 1) && workloads.len() < 2 {
        return html! {}; // the workload's own table says it all
    }
    html! {
        div.wide {
            table {
                caption { "By workload, lowest to highest over the numbers of connections" }
                thead {
                    tr {
                        th scope="col" { "setting" }
                        @for (name, _) in &workloads {
                            th scope="col" { a href={ "#" (anchor(name)) } { (name) } }
                        }
                    }
                }
                tbody {
                    @for facts in study.analysis.header.settings.iter().filter(|s| s.name != s.base) {
                        tr {
                            th scope="row" { (facts.name) }
                            @for (name, cells) in &workloads { (range(study, name, cells, &facts.name)) }
                        }
                    }
                }
            }
        }
        (legend(study))
    }
}

/// Renders the verdicts of a setting in several cells. `head` is the column's head, shown beside the cell
/// where the page is too narrow for columns.
fn range(study: &Study<'_>, head: &str, cells: &[&CellAnalysis], name: &str) -> Markup {
    let header = &study.analysis.header;
    let of: Vec<(&CellAnalysis, &SettingAnalysis)> =
        cells.iter().filter_map(|c| Some((*c, c.setting(name)?))).filter(|(_, s)| s.blocks > 0).collect();
    if let [(cell, one)] = of.as_slice() {
        return verdict_cell(study, head, (cell, one), html! {});
    }
    let all: Vec<VerdictWording> = of.iter().filter_map(|(cell, s)| said(header, cell, s)).collect();
    let mut costs: Vec<(f64, Option<f64>)> =
        of.iter().filter_map(|(_, s)| Some((s.cost?.share, s.cost?.plus_minus()))).collect();
    costs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some(low), Some(high)) = (costs.first(), costs.last()) else {
        return html! { td.none data-head=(head) { (unit::NONE) } };
    };
    let claim = Claim::worst(all.iter().map(|s| s.claim));
    html! {
        td class={ "verdict " (claim.word()) } data-head=(head) {
            span.sign aria-hidden="true" { (claim.sign()) }
            span.figure { (unit::change(low.0, low.1)) " … " (unit::change(high.0, high.1)) }
            span.said { (together(&all)) }
        }
    }
}
