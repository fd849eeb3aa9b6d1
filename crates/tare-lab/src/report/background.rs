//! The report's sections on method, machine and raw data.

use maud::{Markup, html};

use super::export::Exports;
use super::parts::heads;
use super::wording::{charged, cpu_source};
use super::{ANALYSIS, DataPlace, FIGURES, SLICES, Study, is_base, unit};
use crate::results::journal;
use crate::results::record::Header;
use crate::verdict::comparison::Comparison;

/// Largest raw data, in bytes, that is embedded in the page; more makes browsers slow.
const MOST_EMBEDDED: usize = 16 << 20;

/// Content of the files, with units.
const OF_FIGURES: &str = "every setting under every workload";
const OF_ANALYSIS: &str = "the whole analysis";
const UNITS: &str = "Times are seconds, memory bytes, differences shares (0.01 is 1%).";

/// Renders the method: the terms that the report uses.
pub(super) fn method(study: &Study<'_>) -> Markup {
    let header = &study.analysis.header;
    html! {
        section #method {
            h2 { "Method" }
            p {
                "All settings are there at once: each on a server of its own with a copy of the same data, or, where it can be "
                "switched at run time, switched. Load goes to one at a time, in short slices" (in_turns(study)) ", in an order that "
                "is drawn anew over and over, so that what drifts (the machine's clock, its neighbours, the size of the data) "
                "meets all settings alike."
            }
            dl {
                dt { "slice" }
                dd { (header.slice_seconds) " s of load on one setting, and what it took." }
                dt { "block" }
                dd {
                    "A slice on every setting. Slices are compared within their block, as ratios to the base's slice. At most "
                    (header.most_blocks) " blocks of a workload and number of connections; servers are started anew after "
                    (header.blocks_per_start) ", and blocks of the same two processes count as one observation, because where "
                    "a process's memory came to lie makes it a little faster or slower for as long as it lives."
                }
                (differences(study))
                dt { "A/A" }
                dd { "A setting identical to the base. Its difference is noise; what is not clearly beyond it is no finding." }
                dt { "margin" }
                dd { (unit::chosen(header.margin)) ": a difference below it does not matter to anyone." }
                dt { "costs, saves" }
                dd { "The interval lies on one side of zero, and does not begin near it." }
                dt { "may cost, may save" }
                dd {
                    "The interval lies on one side of zero, but begins near it: nearer than the A/A pair's interval reaches, or "
                    "within the margin and nearer than half of its own width. The figure is its far end."
                }
                dt { "no more than" }
                dd {
                    "Both intervals, that in calm rounds and that of the mean of all turns, lie within the margin on both sides; the "
                    "figure is the upper end of the one that reaches higher."
                }
                dt { "inconclusive" }
                dd { "Neither. The time named is what the interval would need to become narrow enough." }
                (end(header))
            }
            p.note { "How each figure is computed, with sources, and what the method cannot say: docs/explanation/measuring.md of tare." }
        }
    }
}

/// Explains the two figures of a difference; their intervals depend on what an observation is.
fn differences(study: &Study<'_>) -> Markup {
    let of_starts = rest_on_starts(study);
    // What is not known yet may become either.
    let some = |starts: bool| of_starts.is_empty() || of_starts.contains(&starts);
    html! {
        dt { "difference" }
        dd {
            "In " (charged(study.analysis.header.measure)) ", two figures. Verdicts speak of the one in calm rounds, unless both "
            "intervals have no value in common: then the cost comes in bursts, and they speak of the mean of all turns. Each "
            "interval holds the truth with 95% confidence however often one looks while the study runs."
        }
        dt { "in calm rounds" }
        dd {
            "The logarithm of the ratio in that quarter of a block's rounds of turns in which setting and base together were charged "
            "least; of slices at a stretch, in whole slices. What costs all the time is found exactly, what comes in bursts is left out."
            @if some(false) {
                " Where settings are switched on one server each block is an observation: the figure is the Hodges–Lehmann estimate, "
                "its interval comes from Wilcoxon's signed ranks."
            }
            @if some(true) {
                " Where settings have servers of their own each start of these is an observation: the figure is the mean, its "
                "interval Student's, corrected for skewness after Hall."
            }
        }
        dt { "mean of all turns" }
        dd {
            "The mean of all charges over that of base and A/A control, less one. Nothing is left out, so what comes in bursts is in it. Its "
            "interval is Student's, corrected for skewness after Hall."
        }
    }
}

/// Returns, for each setting under each load that has observations, whether these are starts of servers
/// rather than blocks, by the rule of the analysis.
fn rest_on_starts(study: &Study<'_>) -> Vec<bool> {
    let of_cells = study.analysis.cells.iter().flat_map(|cell| cell.settings.iter().map(move |s| (cell, s)));
    let compared = of_cells.filter(|(_, s)| s.units > 0 && !is_base(s));
    let starts = compared.map(|(cell, s)| {
        let slices = |name: &str| study.slices(&cell.cell, name);
        Comparison::of(slices(&s.name), slices(&s.base), &[]).is_of_processes()
    });
    starts.collect()
}

/// Explains when the study ends.
fn end(header: &Header) -> Markup {
    let limits = "or its blocks or its time are used up.";
    html! {
        @if let Some(budget) = header.budget {
            dt { "budget" }
            dd {
                "The study goes on until of every setting it is known whether it costs more than " (budget) ", " (limits) " It is above "
                "when the whole interval that its verdict speaks of is, and below when both intervals are. Neither precision nor "
                "margin ends the study."
            }
        } @else {
            dt { "precision" }
            dd {
                "The study goes on until intervals reach no more than " (unit::chosen(header.precision)) " to either side (or than a "
                "twentieth of the cost, if that is more), or lie within the margin, " (limits)
            }
        }
    }
}

/// Describes the turns of slices and their length, if there are any.
fn in_turns(study: &Study<'_>) -> String {
    let cells = study.analysis.cells.iter();
    let slices = cells.flat_map(|cell| cell.settings.iter().flat_map(|s| study.slices(&cell.cell, &s.name)));
    let lengths: Vec<f64> = slices.flat_map(|s| s.turns.iter().map(|t| t.seconds)).collect();
    if lengths.is_empty() {
        return String::new();
    }
    let typical = unit::time(crate::statistics::median(&lengths));
    format!(" that take turns of {typical} and are compared turn by turn")
}

/// Renders machine, servers, settings, and notes.
pub(super) fn machine(study: &Study<'_>) -> Markup {
    let header = &study.analysis.header;
    let machine = &header.machine;
    html! {
        section #machine {
            h2 { "Machine, servers, settings" }
            dl {
                dt { "processor" } dd { (machine.cpus) " × " (machine.cpu_model) }
                @if machine.clock_mhz > 0.0 {
                    dt { "clock" }
                    dd {
                        (unit::plain(machine.clock_mhz)) " MHz"
                        @if let Some(governor) = &machine.governor { ", governor " (governor) }
                    }
                }
                dt { "memory" } dd { (unit::bytes(memory(machine.memory_bytes))) }
                dt { "system" } dd { (machine.system) ", kernel " (machine.kernel) }
                dt { "hypervisor" } dd { (machine.hypervisor.as_deref().unwrap_or("none seen")) }
                @if !machine.vulnerabilities.is_empty() { dt { "mitigations" } dd { (machine.mitigations()) } }
                dt { "before it began" }
                dd {
                    "load average " (unit::plain(machine.others.load)) ", others took " (unit::percent(machine.others.busy, None))
                    " of the processors' time, the hypervisor " (unit::percent(machine.others.steal, None))
                }
                @for server in &header.servers {
                    dt { "server " (server.name) }
                    dd { (server.version) ", " (server.version_comment) "; " (cpu_source(server.cpu)) }
                }
                @if let Some(driver) = &header.driver { dt { "load from" } dd { code { (driver) } } }
                dt { "measured with" } dd { "tare " (header.tare) ", seed " (header.seed) }
            }
            div.wide {
                table.words {
                    (heads(&["setting", "meaning", "server", "made by", "compared with"]))
                    tbody {
                        @for s in &header.settings {
                            tr {
                                th scope="row" { (s.name) }
                                td data-head="meaning" { (s.meaning) }
                                td data-head="server" { (s.server) }
                                td data-head="made by" { @for made in &s.made_by { code { (made) } " " } }
                                td data-head="compared with" {
                                    @if s.name == s.base { "is a base" } @else { (s.base) }
                                    @if s.control { ", as its A/A control" }
                                }
                            }
                        }
                    }
                }
            }
            @if !study.analysis.notes.is_empty() {
                h3 { "What happened" }
                ul {
                    @for note in &study.analysis.notes {
                        li { span.meaning { (unit::span(note.at)) } " " (note.text) }
                    }
                }
            }
            details { summary { "The study's file" } pre { (header.definition) } }
        }
    }
}

#[allow(clippy::cast_precision_loss)] // shown with three digits
fn memory(bytes: u64) -> f64 {
    bytes as f64
}

/// Renders the downloads.
pub(super) fn data(study: &Study<'_>, data: &DataPlace<'_>) -> Markup {
    html! {
        section #data {
            h2 { "Data" }
            @match data {
                DataPlace::Within { exports, raw } => (within(study, exports, raw)),
                DataPlace::Beside => {
                    p.note { "Beside this page, without the raw records. " (UNITS) }
                    ul.downloads {
                        @for (name, meaning) in [(FIGURES, OF_FIGURES), (ANALYSIS, OF_ANALYSIS)] {
                            li { a href=(name) { (name) } " " (meaning) }
                        }
                    }
                }
            }
        }
    }
}

/// Renders buttons with the data behind them.
fn within(study: &Study<'_>, exports: &Exports, raw: &str) -> Markup {
    let files = [
        (FIGURES, "text/csv", OF_FIGURES, exports.figures.as_str()),
        (SLICES, "text/csv", "every slice", &exports.slices),
        (ANALYSIS, "application/json", OF_ANALYSIS, &exports.analysis),
        (
            journal::FILE,
            "application/jsonl",
            "the raw records, from which all of this can be made again",
            raw,
        ),
    ];
    let id = |place: usize| format!("data-{place}");
    let prefix = &study.analysis.header.study;
    html! {
        p.note { "In this page, and as files beside it. " (UNITS) }
        ul.downloads {
            @for (place, (name, kind, meaning, text)) in files.iter().enumerate() {
                li {
                    @if text.len() <= MOST_EMBEDDED {
                        button type="button" data-from=(id(place)) data-name={ (prefix) "-" (name) } data-kind=(kind) { (name) }
                    } @else {
                        code { (name) } " (too large for this page: see the file beside it)"
                    }
                    " " (meaning)
                }
            }
        }
        @for (place, (.., text)) in files.iter().enumerate() {
            @if text.len() <= MOST_EMBEDDED { div hidden id=(id(place)) { (text) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;
    use crate::results::record::{Machine, Record};

    /// Returns the page's text for a study of six blocks, with servers started for each, or all on one.
    fn said(starts: bool, budget: Option<f64>) -> String {
        let record = |value: Value| serde_json::from_value::<Record>(value).expect("a record of this format");
        let facts = |name: &str, control: bool| {
            json!({
                "name": name, "meaning": "", "server": "s", "made_by": [], "base": "off", "control": control,
            })
        };
        let mut header = json!({
            "kind": "header", "format": 1, "tare": "0", "started": "", "study": "test", "question": "", "quick": false,
            "seed": 1, "slice_seconds": 1.0, "precision": 0.005, "margin": 0.01, "most_blocks": 6, "blocks_per_start": 1,
            "definition": "", "machine": Machine::default(), "servers": [], "cells": [{ "workload": "w", "users": 2 }],
            "settings": [facts("off", false), facts("off again", true), facts("on", false)],
        });
        if let Some(share) = budget {
            header["budget"] = share.into();
        }
        let slice = |block: u32, place: u32, setting: &str| {
            json!({
                "kind": "slice", "workload": "w", "users": 2, "setting": setting, "block": block, "turn": place,
                "process": if starts { block * 3 + place } else { 0 }, "at": 3 * block + place, "seconds": 1.0,
                "transactions": 1000, "queries": 1000, "errors": 0, "cpu_user": 1.0 + f64::from(place) / 10.0,
                "cpu_system": 0.0, "cpu_sidecars": 0.0, "resident_bytes": 1, "context_switches": 1, "logged_bytes": 0,
                "steal": 0.0, "load": 0.0, "per_second": [1000.0],
                "latency": { "mean": 0.001, "p50": 0.001, "p95": 0.001, "p99": 0.001, "histogram": [] },
            })
        };
        let mut records = vec![record(header)];
        for block in 0..6 {
            for (place, setting) in (0..).zip(["off", "off again", "on"]) {
                records.push(record(slice(block, place, setting)));
            }
        }
        method(&Study::of(&records, Path::new("nowhere")).expect("a header")).into_string()
    }

    /// Guards against a page that described ranks for every study.
    #[test]
    fn the_method_is_that_of_the_observations_there_are() {
        let (blocks, starts) = (said(false, None), said(true, None));
        for (page, ranks) in [(&blocks, true), (&starts, false)] {
            for word in ["each block is an observation", "Hodges–Lehmann", "Wilcoxon"] {
                assert_eq!(page.contains(word), ranks, "{word}: {page}");
            }
            assert_eq!(page.contains("each start of these is an observation"), !ranks, "{page}");
            assert!(page.contains("mean of all turns") && page.contains("Both intervals"), "{page}");
        }
    }

    #[test]
    fn a_study_with_a_budget_says_that_it_ends_by_it() {
        let (with, without) = (said(false, Some(0.03)), said(false, None));
        let (by_budget, by_precision) = ("costs more than 3%", "reach no more than 0.5%");
        assert!(with.contains(by_budget) && !with.contains(by_precision), "{with}");
        assert!(without.contains(by_precision) && !without.contains(by_budget), "{without}");
    }
}
