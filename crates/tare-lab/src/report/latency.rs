//! The report's distributions of latency, setting by setting.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::chart::{Axis, distribution};
use super::parts::plot_heads;
use super::{Study, measured, unit};
use crate::verdict::analysis::{CellAnalysis, SettingAnalysis};

/// Number of bars per power of ten.
const BARS: f64 = 10.0;

/// Renders a row for each setting.
pub(super) fn latencies(study: &Study<'_>, cell: &CellAnalysis) -> Markup {
    let rows: Vec<(&SettingAnalysis, Vec<(f64, f64)>)> =
        measured(cell).map(|s| (s, bars(study, cell, s))).filter(|(_, bars)| !bars.is_empty()).collect();
    let axis = Axis::of_powers(rows.iter().flat_map(|(_, bars)| bars.iter().map(|bar| bar.0)));
    html! {
        h3 { "Latency of transactions" }
        table.plot {
            caption.note {
                "All slices together, in logarithms both ways: a bar of full height has all transactions, one of none has fewer than 1 in "
                "100,000. The uprights are the median, and what 99 and 99.9 of 100 take at most (medians over slices)."
                @if let Some(rate) = cell.rate {
                    " Transactions arrive " (unit::plain(rate)) " times a second, however fast the server answers; latency is counted from "
                    "when each was to begin."
                }
            }
            (plot_heads("median", "99% and 99.9%"))
            tbody {
                @for (s, bars) in &rows {
                    @let m = &s.medians;
                    tr {
                        th scope="row" { (s.name) }
                        td.chart { (distribution(bars, 1.0 / BARS, &[m.p50, m.p99, m.p999].map(f64::log10), &axis)) }
                        td.figure { (unit::time(m.p50)) }
                        td.said { (unit::time(m.p99)) " and " (unit::time(m.p999)) }
                    }
                }
            }
            tfoot { tr { td {} td { (axis.labels(|tick| unit::time(10f64.powf(tick)))) } td {} td {} } }
        }
    }
}

/// Returns the bars of a setting: the logarithm of each one's start, and its share of all transactions.
fn bars(study: &Study<'_>, cell: &CellAnalysis, setting: &SettingAnalysis) -> Vec<(f64, f64)> {
    let slices = study.slices(&cell.cell, &setting.name);
    let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
    for &(bound, count) in slices.iter().flat_map(|s| &s.latency.histogram).filter(|(bound, _)| *bound > 0.0)
    {
        #[allow(clippy::cast_possible_truncation)] // some tens
        let bar = (bound.log10() * BARS).floor() as i64;
        *counts.entry(bar).or_default() += count;
    }
    let all: u64 = counts.values().sum();
    #[allow(clippy::cast_precision_loss)] // counts are far below 2^53
    counts.into_iter().map(|(bar, count)| (bar as f64 / BARS, count as f64 / all as f64)).collect()
}
