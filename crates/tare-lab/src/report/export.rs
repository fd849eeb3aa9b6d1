//! The report's figures as files for other programs.

use std::collections::BTreeSet;

use super::wording::said;
use super::{Study, measured};
use crate::results::record::{Cell, Header, Slice};
use crate::verdict::analysis::{Difference, SettingAnalysis, THROUGHPUT};
use crate::verdict::effort;

/// The files beside a report's page; the page contains them, too.
pub(super) struct Exports {
    /// A line for each setting under each workload.
    pub(super) figures: String,
    /// A line for each slice.
    pub(super) slices: String,
    /// The whole analysis as JSON.
    pub(super) analysis: String,
}

impl Exports {
    pub(super) fn of(study: &Study<'_>) -> Exports {
        // It cannot fail: the keys of maps are texts, and figures that are not finite become null.
        let analysis = serde_json::to_string_pretty(&study.analysis).unwrap_or_default();
        Exports { figures: figures(study), slices: slices(study), analysis }
    }
}

/// A figure: its name (with the unit) and how to read it.
type ExportedMetric<T> = (&'static str, fn(&T) -> f64);

/// Figures of a setting.
const FIGURES: [ExportedMetric<SettingAnalysis>; 22] = [
    ("charged_s", |s| s.medians.charged),
    ("cpu_s_per_transaction", |s| s.medians.cpu),
    ("cpu_system_s_per_transaction", |s| s.medians.cpu_system),
    ("cpu_share", |s| s.medians.cpu_share),
    ("cpu_sidecars_s_per_transaction", |s| s.medians.cpu_sidecars),
    ("cpu_beside_s_per_transaction", |s| s.medians.cpu_beside),
    ("resident_sidecars_bytes", |s| s.medians.resident_sidecars),
    ("transactions_per_s", |s| s.medians.tps),
    ("second_p1_transactions", |s| s.seconds.p1),
    ("second_p50_transactions", |s| s.seconds.p50),
    ("second_p99_transactions", |s| s.seconds.p99),
    ("queries_per_s", |s| s.medians.qps),
    ("latency_mean_s", |s| s.medians.latency),
    ("latency_p50_s", |s| s.medians.p50),
    ("latency_p95_s", |s| s.medians.p95),
    ("latency_p99_s", |s| s.medians.p99),
    ("latency_p999_s", |s| s.medians.p999),
    ("resident_bytes", |s| s.medians.resident_bytes),
    ("context_switches_per_transaction", |s| s.medians.context_switches),
    ("logged_bytes_per_s", |s| s.medians.logged_bytes),
    ("steal_share", |s| s.medians.steal),
    ("errors_per_s", |s| s.medians.errors),
];

/// Figures of a slice.
const OF_SLICE: [ExportedMetric<Slice>; 25] = [
    ("block", |s| f64::from(s.block)),
    ("turn", |s| f64::from(s.turn)),
    ("process", |s| s.process.map_or(f64::NAN, f64::from)),
    ("at_s", |s| s.at),
    ("seconds", |s| s.seconds),
    ("rate_per_s", |s| s.rate.unwrap_or(f64::NAN)),
    ("transactions", |s| count(s.transactions)),
    ("queries", |s| count(s.queries)),
    ("errors", |s| count(s.errors)),
    ("cpu_user_s", |s| s.cpu_user),
    ("cpu_system_s", |s| s.cpu_system),
    ("cpu_sidecars_s", |s| s.cpu_sidecars),
    ("cpu_beside_s", |s| s.cpu_beside),
    ("resident_sidecars_bytes", |s| count(s.resident_sidecars)),
    ("resident_bytes", |s| count(s.resident_bytes)),
    ("context_switches", |s| count(s.context_switches)),
    ("logged_bytes", |s| count(s.logged_bytes)),
    ("steal_share", |s| s.steal),
    ("load", |s| s.load),
    ("scrapes", |s| if s.turns.is_empty() { count(s.scrapes.len() as u64) } else { f64::NAN }),
    ("latency_mean_s", |s| s.latency.mean),
    ("latency_p50_s", |s| s.latency.p50),
    ("latency_p95_s", |s| s.latency.p95),
    ("latency_p99_s", |s| s.latency.p99),
    ("latency_p999_s", |s| s.latency.at(0.999)),
];

#[allow(clippy::cast_precision_loss)] // counts of a slice are far below 2^53
fn count(number: u64) -> f64 {
    number as f64
}

fn figures(study: &Study<'_>) -> String {
    let header = &study.analysis.header;
    let own: BTreeSet<&String> = study
        .analysis
        .cells
        .iter()
        .flat_map(|c| &c.settings)
        .flat_map(|s| s.medians.figures.keys())
        .collect();
    let mut head: Vec<String> = [
        "workload",
        "users",
        "rate_percent",
        "setting",
        "base",
        "server",
        "server_version",
        "control",
        "blocks",
        "units",
    ]
    .map(String::from)
    .into();
    for difference in ["cost", "mean_cost", "throughput_change", "p95_change"] {
        head.extend(["", "_low", "_high"].map(|end| format!("{difference}{end}_share")));
    }
    head.extend(["", "_low", "_high"].map(|end| format!("memory_change{end}_bytes")));
    head.extend(["verdict".into(), "verdict_kind".into()]);
    head.extend(FIGURES.iter().map(|(name, _)| (*name).to_owned()));
    head.extend(own.iter().map(|name| (*name).clone()));
    let runs: Vec<&str> = std::iter::once(THROUGHPUT).chain(own.iter().map(|name| name.as_str())).collect();
    head.extend(runs.iter().flat_map(|name| ["mean", "standard_error"].map(|of| format!("{name}_{of}"))));
    head.extend(effort::FIGURES.iter().map(|figure| figure.column()));
    let mut text = line(head);
    for cell in &study.analysis.cells {
        for s in measured(cell) {
            let mut fields =
                vec![cell.cell.workload.clone(), cell.cell.users.to_string(), percent(&cell.cell)];
            fields.extend([s.name.clone(), s.base.clone()]);
            fields.extend(server(header, &s.name));
            fields.extend([s.control.to_string(), s.blocks.to_string(), s.units.to_string()]);
            fields.extend([s.cost, s.mean, s.throughput, s.p95].into_iter().flat_map(difference));
            fields.extend(ends(s.memory.map(|m| (m.value, m.interval))));
            let said = said(header, cell, s);
            fields.push(said.as_ref().map(ToString::to_string).unwrap_or_default());
            fields.push(said.map(|s| s.claim.word()).unwrap_or_default().into());
            fields.extend(FIGURES.iter().map(|(_, figure)| number(figure(s))));
            fields.extend(
                own.iter().map(|name| number(s.medians.figures.get(*name).copied().unwrap_or(f64::NAN))),
            );
            fields.extend(runs.iter().flat_map(|name| {
                let run = s.runs.get(*name).copied();
                [run.map(|r| r.value), run.map(|r| r.error)]
                    .map(|figure| figure.map(number).unwrap_or_default())
            }));
            fields.extend(effort::FIGURES.iter().map(|f| number(f.of_setting(s))));
            text.push_str(&line(fields));
        }
    }
    text
}

/// Returns the rate of arrival in percent of the maximum; empty without a rate.
fn percent(cell: &Cell) -> String {
    cell.percent.map(|percent| percent.to_string()).unwrap_or_default()
}

/// Returns the name and version of a setting's server.
fn server(header: &Header, setting: &str) -> [String; 2] {
    let name =
        header.settings.iter().find(|s| s.name == setting).map(|s| s.server.clone()).unwrap_or_default();
    let version = header.servers.iter().find(|s| s.name == name).map(|s| s.version.clone());
    [name, version.unwrap_or_default()]
}

fn difference(difference: Option<Difference>) -> [String; 3] {
    ends(difference.map(|d| (d.share, d.interval)))
}

/// Formats a figure and the ends of its interval.
fn ends(figure: Option<(f64, Option<(f64, f64)>)>) -> [String; 3] {
    let Some((value, interval)) = figure else { return Default::default() };
    let end = |end: Option<f64>| end.map(number).unwrap_or_default();
    [number(value), end(interval.map(|i| i.0)), end(interval.map(|i| i.1))]
}

fn slices(study: &Study<'_>) -> String {
    let mut all: Vec<&Slice> = study.all_slices().collect();
    let own: BTreeSet<&String> = all.iter().flat_map(|s| s.figures.keys()).collect();
    let mut head: Vec<String> = ["workload", "users", "rate_percent", "setting"].map(String::from).into();
    head.extend(OF_SLICE.iter().map(|(name, _)| (*name).to_owned()));
    head.extend(own.iter().map(|name| (*name).clone()));
    let mut text = line(head);
    all.sort_by(|a, b| a.at.total_cmp(&b.at));
    for slice in all {
        let mut fields = vec![
            slice.cell.workload.clone(),
            slice.cell.users.to_string(),
            percent(&slice.cell),
            slice.setting.clone(),
        ];
        fields.extend(OF_SLICE.iter().map(|(_, figure)| number(figure(slice))));
        fields.extend(own.iter().map(|name| number(slice.figures.get(*name).copied().unwrap_or(f64::NAN))));
        text.push_str(&line(fields));
    }
    text
}

/// Formats a number for programs; empty if it is not finite.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{value}") } else { String::new() }
}

/// Formats a line of CSV (RFC 4180, but with LF at the end, in the page and in the file).
fn line(fields: Vec<String>) -> String {
    let quoted = fields.into_iter().map(|field| {
        if field.contains(['"', ',', '\n', '\r']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field
        }
    });
    quoted.collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_would_break_a_line_are_quoted() {
        let fields = ["on, \"default\"", "x", ""].map(String::from).into();
        assert_eq!(line(fields), "\"on, \"\"default\"\"\",x,\n");
        assert_eq!([number(0.25), number(f64::NAN)], ["0.25", ""]);
    }
}
