//! The page: the question, the verdicts, and then the rest.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::export::{Exports, kind};
use super::{Study, background, is_base, measured, results, unit};
use crate::analysis::{BURSTY, CellAnalysis, SettingAnalysis, Verdict};
use crate::record::{Measure, SettingFacts};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The whole page.
pub(super) fn page(study: &Study<'_>, exports: &Exports) -> Markup {
    let header = &study.analysis.header;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(format!("tare {}", header.tare));
                title { (header.study) ": " (header.question) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    (head(study))
                    (verdicts(study))
                    (results::workloads(study))
                    (results::events(study))
                    (results::flame_graphs(study))
                    (background::method(study))
                    (background::machine(study))
                    (background::data(study, exports))
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
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
                @if !study.calls.is_empty() { a href="#events" { "Events" } }
                @if !study.profiles.is_empty() { a href="#flame-graphs" { "Flame graphs" } }
                a href="#method" { "Method" }
                a href="#machine" { "Machine" }
                a href="#data" { "Data" }
            }
        }
    }
}

/// Where a workload's part is.
pub(super) fn anchor(workload: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    format!("workload-{}", workload.chars().map(plain).collect::<String>())
}

/// Whether settings are compared with different bases, so that it has to be said with which.
pub(super) fn several_bases(study: &Study<'_>) -> bool {
    study.analysis.header.settings.iter().filter(|s| s.name == s.base).count() > 1
}

/// The heads of a table's columns.
pub(super) fn heads(names: &[&str]) -> Markup {
    html! { thead { tr { @for name in names { th scope="col" { (name) } } } } }
}

/// What the verdicts are about.
pub(super) fn charged(measure: Measure) -> &'static str {
    match measure {
        Measure::Cpu => "server CPU per transaction",
        Measure::Time => "time per transaction",
        Measure::P95 => "95th percentile of latency",
    }
}

/// A sign for a kind of verdict: colour alone would not do.
pub(super) fn sign(kind: &str) -> &'static str {
    match kind {
        "costs" => "▲",
        "gains" => "▼",
        "equal" => "≈",
        _ => "?",
    }
}

/// A verdict in words.
pub(super) fn words(verdict: Verdict) -> String {
    match verdict {
        Verdict::Costs { share, plus_minus, bursty } => {
            let how = if bursty { BURSTY } else { "" };
            let verb = if share < 0.0 { "saves" } else { "costs" };
            format!("{verb} {} {}{how}", unit::percent(share, Some(plus_minus)), unit::plus_minus(plus_minus))
        }
        Verdict::NoMoreThan { share } => {
            format!("no more than {}", unit::percent(share.max(0.0), Some(share.max(0.0))))
        }
        Verdict::Inconclusive { needs_minutes: Some(minutes) } => {
            format!("inconclusive: needs about {} more", unit::span(minutes.max(1.0) * 60.0))
        }
        Verdict::Inconclusive { needs_minutes: None } => verdict.to_string(),
    }
}

/// A setting in every cell it was measured in.
fn everywhere<'a>(study: &'a Study<'_>, name: &str) -> Vec<(&'a CellAnalysis, &'a SettingAnalysis)> {
    let cells = study.analysis.cells.iter();
    cells.filter_map(|cell| Some((cell, measured(cell).find(|s| s.name == name)?))).collect()
}

/// The kind that stands for several: what costs somewhere costs, what is unclear somewhere is.
fn worst(verdicts: &[Verdict]) -> &'static str {
    let kinds: Vec<&str> = verdicts.iter().map(|v| kind(*v)).collect();
    ["costs", "unclear", "gains"].into_iter().find(|k| kinds.contains(k)).unwrap_or("equal")
}

/// Several verdicts on one setting, in words.
fn together(verdicts: &[Verdict]) -> String {
    if let [one] = verdicts {
        return words(*one);
    }
    let of = |wanted: &str| verdicts.iter().copied().filter(|v| kind(*v) == wanted).collect::<Vec<_>>();
    let count =
        |n: usize| if n == verdicts.len() { String::new() } else { format!(" in {n} of {}", verdicts.len()) };
    let mut said = vec![];
    for (kind, verb) in [("costs", "costs"), ("gains", "saves")] {
        let mut shares: Vec<(f64, f64)> = of(kind)
            .into_iter()
            .filter_map(|v| {
                if let Verdict::Costs { share, plus_minus, .. } = v {
                    Some((share.abs(), plus_minus))
                } else {
                    None
                }
            })
            .collect();
        shares.sort_by(|a, b| a.0.total_cmp(&b.0));
        if let (Some(low), Some(high)) = (shares.first(), shares.last()) {
            let range = if shares.len() == 1 {
                format!("{} {}", unit::percent(low.0, Some(low.1)), unit::plus_minus(low.1))
            } else {
                format!("{} to {}", unit::percent(low.0, Some(low.1)), unit::percent(high.0, Some(high.1)))
            };
            said.push(format!("{verb} {range}{}", count(shares.len())));
        }
    }
    let bounds = of("equal");
    let bound =
        bounds.iter().filter_map(|v| if let Verdict::NoMoreThan { share } = v { Some(*share) } else { None });
    if let Some(most) = bound.reduce(f64::max) {
        said.push(format!(
            "no more than {}{}",
            unit::percent(most.max(0.0), Some(most.max(0.0))),
            count(bounds.len())
        ));
    }
    if let unclear @ 1.. = of("unclear").len() {
        said.push(format!("inconclusive{}", count(unclear)));
    }
    said.join("; ")
}

fn verdicts(study: &Study<'_>) -> Markup {
    let header = &study.analysis.header;
    let compared = |s: &&SettingFacts| s.name != s.base && !s.twin;
    html! {
        section #verdicts {
            h2 { "Verdicts" }
            p { "In " strong { (charged(header.measure)) } ", against the base, with 95% confidence:" }
            ul.verdicts {
                @for facts in header.settings.iter().filter(compared) { (sentence(study, facts)) }
                @for facts in header.settings.iter().filter(|s| s.twin) { (noise(study, facts)) }
            }
            (overview(study))
        }
    }
}

fn sentence(study: &Study<'_>, facts: &SettingFacts) -> Markup {
    let verdicts: Vec<Verdict> =
        everywhere(study, &facts.name).iter().filter_map(|(_, s)| s.verdict).collect();
    if verdicts.is_empty() {
        return html! {
            li.unclear { span.sign aria-hidden="true" { "?" } div { strong { (facts.name) } " was not measured" } }
        };
    }
    let kind = worst(&verdicts);
    html! {
        li class=(kind) {
            span.sign aria-hidden="true" { (sign(kind)) }
            div {
                strong { (facts.name) } " " (together(&verdicts)) @if several_bases(study) { ", against " (facts.base) }
                @if !facts.meaning.is_empty() { span.meaning { (facts.meaning) } }
            }
        }
    }
}

fn noise(study: &Study<'_>, facts: &SettingFacts) -> Markup {
    let cells = everywhere(study, &facts.name);
    let judged: Vec<(&CellAnalysis, Verdict)> =
        cells.iter().filter_map(|(c, s)| Some((*c, s.verdict?))).collect();
    let differs: Vec<String> = judged
        .iter()
        .filter(|(_, verdict)| matches!(verdict, Verdict::Costs { .. }))
        .map(|(c, verdict)| {
            format!("{}, {}: {}", c.cell.workload, connections(c.cell.users), words(*verdict))
        })
        .collect();
    let widest =
        cells.iter().filter_map(|(_, s)| s.cost?.interval).map(|(low, high)| low.abs().max(high.abs()));
    html! {
        li.noise-floor {
            span.sign aria-hidden="true" { "=" }
            div {
                strong { (facts.name) } " is the base once more, so that its difference is noise: "
                @if !differs.is_empty() {
                    "it differs, so something disturbs this machine (" (differs.join("; ")) ")"
                } @else if let Some(widest) = widest.reduce(f64::max) {
                    "at most " (unit::percent(widest, Some(widest)))
                } @else {
                    "too few blocks"
                }
            }
        }
    }
}

/// A number of connections, in words.
pub(super) fn connections(users: u32) -> String {
    if users == 1 { "1 connection".into() } else { format!("{users} connections") }
}

/// Settings by workloads, each with the range over its numbers of connections.
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
                            @for (_, cells) in &workloads { (range(cells, &facts.name)) }
                        }
                    }
                }
            }
        }
        (legend(study))
    }
}

fn range(cells: &[&CellAnalysis], name: &str) -> Markup {
    let of: Vec<&SettingAnalysis> =
        cells.iter().filter_map(|c| c.setting(name)).filter(|s| s.blocks > 0).collect();
    let verdicts: Vec<Verdict> = of.iter().filter_map(|s| s.verdict).collect();
    if let [one] = of.as_slice() {
        return verdict_cell(one, html! {});
    }
    let mut costs: Vec<(f64, Option<f64>)> =
        of.iter().filter_map(|s| Some((s.cost?.share, s.cost?.plus_minus()))).collect();
    costs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some(low), Some(high)) = (costs.first(), costs.last()) else {
        return html! { td.none { (unit::NONE) } };
    };
    let all_cost = verdicts.iter().all(|v| kind(*v) == "costs");
    let kind = worst(&verdicts);
    html! {
        td class={ "verdict " (kind) } {
            span.sign aria-hidden="true" { (sign(kind)) }
            span.figure { (unit::change(low.0, low.1)) " … " (unit::change(high.0, high.1)) }
            @if !all_cost { span.said { (together(&verdicts)) } }
        }
    }
}

/// A setting's verdict as a cell of a table, with something below it.
pub(super) fn verdict_cell(setting: &SettingAnalysis, below: Markup) -> Markup {
    if is_base(setting) {
        return html! { td.base { "base" (below) } };
    }
    let (Some(verdict), Some(cost)) = (setting.verdict, setting.cost) else {
        return html! { td.none { (unit::NONE) (below) } };
    };
    let kind = kind(verdict);
    html! {
        td class={ "verdict " (kind) } {
            span.sign aria-hidden="true" { (sign(kind)) }
            span.figure { (unit::change(cost.share, cost.plus_minus())) }
            @if let Some(plus_minus) = cost.plus_minus() { " " span.plus-minus { (unit::plus_minus(plus_minus)) } }
            @match verdict {
                // The figure is the cost.
                Verdict::Costs { .. } => span.hidden { (words(verdict)) },
                _ => span.said { (words(verdict)) },
            }
            (below)
        }
    }
}

/// What the signs mean.
pub(super) fn legend(study: &Study<'_>) -> Markup {
    let margin = unit::chosen(study.analysis.header.margin);
    html! {
        p.legend {
            span.costs { span.sign { "▲" } " costs" } " "
            span.gains { span.sign { "▼" } " saves" } " "
            span.equal { span.sign { "≈" } " within the margin of " (margin) } " "
            span.unclear { span.sign { "?" } " inconclusive" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Verdict = Verdict::Costs { share: 0.031, plus_minus: 0.004, bursty: false };
    const DEAR: Verdict = Verdict::Costs { share: 0.45, plus_minus: 0.02, bursty: false };
    const EQUAL: Verdict = Verdict::NoMoreThan { share: 0.0049 };
    const UNCLEAR: Verdict = Verdict::Inconclusive { needs_minutes: None };

    #[test]
    fn one_verdict_is_said_as_it_is() {
        assert_eq!(together(&[COSTS]), "costs 3.1% ±\u{202f}0.4");
        assert_eq!(
            words(Verdict::Costs { share: -0.02, plus_minus: 0.01, bursty: false }),
            "saves 2.0% ±\u{202f}1.0"
        );
        let unclear = Verdict::Inconclusive { needs_minutes: Some(136.4) };
        assert_eq!(words(unclear), "inconclusive: needs about 2 h 16 min more");
    }

    #[test]
    fn several_are_said_with_their_range_and_how_many_they_are() {
        assert_eq!(together(&[DEAR, COSTS]), "costs 3.1% to 45.0%");
        let all = together(&[DEAR, COSTS, EQUAL, UNCLEAR]);
        assert_eq!(all, "costs 3.1% to 45.0% in 2 of 4; no more than 0.5% in 1 of 4; inconclusive in 1 of 4");
        assert_eq!(worst(&[EQUAL, UNCLEAR]), "unclear");
    }

    #[test]
    fn anchors_are_plain() {
        assert_eq!(anchor("TPC-C, 10 warehouses"), "workload-tpc-c--10-warehouses");
    }
}
