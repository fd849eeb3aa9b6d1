//! The effort of settings as a table: the work of their servers per transaction.

use tare_lab::analysis::{CellAnalysis, SettingAnalysis};
use tare_lab::effort::EffortMetric;
use tare_outlets::units;

use crate::page::{self, Column, Grid};

/// Placeholder for a missing figure.
pub(crate) const NONE: &str = "—";

/// Figures that a terminal may have room for, most important first; the report has all.
const SHOWN: [(&str, &str); 8] = [
    ("instructions", "INSTR"),
    ("instructions_per_cycle", "IPC"),
    ("cache_misses", "MISSES"),
    ("page_faults", "FAULTS"),
    ("events", "EVENTS"),
    ("handler_calls", "HANDLER"),
    ("bytes_received", "RECEIVED"),
    ("bytes_sent", "SENT"),
];

/// Width of a setting's name, and of a column with its gap.
const NAME: usize = 20;
const COLUMN: usize = 10;

/// Prints what is known for a cell, if anything is.
pub(crate) fn print(cell: &CellAnalysis) {
    let known = EffortMetric::known(cell.settings.iter());
    // One column is for context switches.
    let room = (page::width().saturating_sub(NAME) / COLUMN).saturating_sub(1);
    let shown: Vec<(EffortMetric, &'static str)> = SHOWN
        .iter()
        .filter_map(|(name, head)| Some((known.iter().copied().find(|figure| figure.name == *name)?, *head)))
        .take(room)
        .collect();
    if shown.is_empty() {
        return;
    }
    println!();
    page::note("Why, per transaction; the report has more:");
    let mut columns = vec![("SETTING", Column::CutEnd), ("SWITCHES", Column::Right)];
    columns.extend(shown.iter().map(|(_, head)| (*head, Column::Right)));
    let mut grid = Grid::new(&columns);
    for setting in cell.settings.iter().filter(|s| !s.effort.is_empty()) {
        let mut row = vec![setting.name.clone(), units::short(setting.medians.context_switches)];
        row.extend(shown.iter().map(|(figure, _)| value(*figure, setting)));
        grid.row(row);
    }
    grid.print();
}

/// Formats a figure in few characters.
fn value(figure: EffortMetric, setting: &SettingAnalysis) -> String {
    let value = figure.of_setting(setting);
    match () {
        () if value.is_nan() => NONE.into(),
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // sizes are small and positive
        () if figure.is_bytes() => units::bytes(value.round() as u64),
        () => units::short(value),
    }
}
