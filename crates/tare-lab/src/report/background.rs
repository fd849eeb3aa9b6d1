//! How it was measured, on what, and the raw numbers.

use maud::{Markup, html};

use super::export::Exports;
use super::page::heads;
use super::wording::{charged, cpu_source};
use super::{ANALYSIS, Data, FIGURES, SLICES, Study, unit};
use crate::journal;

/// Raw data larger than this is not put into the page: browsers become slow.
const MOST_EMBEDDED: usize = 16 << 20;

/// What the files hold, and in which units.
const OF_FIGURES: &str = "every setting under every workload";
const OF_ANALYSIS: &str = "the whole analysis";
const UNITS: &str = "Times are seconds, memory bytes, differences shares (0.01 is 1%).";

/// The words this report uses.
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
                dt { "difference" }
                dd {
                    "In " (charged(header.measure)) ": the Hodges–Lehmann estimate of the logarithms of the ratios, with an "
                    "interval from Wilcoxon's signed ranks that holds the truth with 95% confidence however often one looks "
                    "while the study runs."
                }
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
                dd { "The interval lies within the margin on both sides; the figure is its upper end." }
                dt { "inconclusive" }
                dd { "Neither. The time named is what the interval would need to become narrow enough." }
                dt { "precision" }
                dd {
                    "The study goes on until intervals reach no more than " (unit::chosen(header.precision)) " to either side, or lie "
                    "within the margin, or its time is over."
                }
            }
            p.note { "How each figure is computed, with sources, and what the method cannot say: docs/method.md of tare." }
        }
    }
}

/// That slices were taken in turns, and how long these were, if they were.
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

/// Machine, servers, settings, and what happened.
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
                                    @if s.twin { ", as its twin" }
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

/// The numbers, to take away.
pub(super) fn data(study: &Study<'_>, data: &Data<'_>) -> Markup {
    html! {
        section #data {
            h2 { "Data" }
            @match data {
                Data::Within { exports, raw } => (within(study, exports, raw)),
                Data::Beside => {
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

/// Buttons, and behind each what it gives.
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
