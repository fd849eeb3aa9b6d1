//! The progress of a study in the terminal: the present step, the estimates so far with their intervals, time
//! left.

use std::time::Duration;

use anyhow::Result;
use console::{pad_str, style, truncate_str};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tare_lab::analysis::{Analysis, CellAnalysis, SettingAnalysis};
use tare_lab::runner::StudyEvent;
use tare_outlets::units;

use super::table;
use crate::page;

/// Steps of the bar.
const STEPS: u64 = 1000;
/// Largest and smallest width of an interval's picture in columns.
const PICTURE: usize = 41;
const TOO_FEW: usize = 9;
/// Columns of a line besides the setting's name and the picture.
const FIGURES: usize = 30;

/// The progress of a study; without a terminal it prints a line per block.
pub(crate) struct StudyProgress {
    bar: ProgressBar,
    doing: String,
    /// Estimates after the last complete block, below the bar.
    estimates: String,
}

impl StudyProgress {
    pub(crate) fn new() -> Result<StudyProgress> {
        let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template("{bar:30} {percent}%  {prefix}\n{msg}")?);
        bar.enable_steady_tick(Duration::from_millis(250));
        Ok(StudyProgress { bar, doing: String::new(), estimates: String::new() })
    }

    /// Shows an event of the study.
    pub(crate) fn hear(&mut self, event: &StudyEvent<'_>) {
        match event {
            StudyEvent::Doing(what) => self.doing = (*what).to_owned(),
            StudyEvent::Slice { cell, setting, measured } => {
                let how = if *measured { "" } else { ", warming up" };
                self.doing = format!("{cell}: {setting}{how}");
            }
            StudyEvent::Second(progress) => {
                let rate = units::rate(progress.transactions_per_second);
                let doing = self.doing.split("  ").next().unwrap_or_default();
                self.doing = format!("{doing}  {rate} transactions/s");
            }
            StudyEvent::Note(text) => self.bar.suspend(|| page::aside(text)),
            StudyEvent::Block { analysis, done, left } => self.block(analysis, *done, *left),
        }
        let doing = truncate_str(&self.doing, page::width().saturating_sub(1), "…").into_owned();
        self.bar.set_message(format!("{doing}{}", self.estimates));
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // a share
    fn block(&mut self, analysis: &Analysis, done: f64, left: Duration) {
        self.bar.set_position((done * STEPS as f64) as u64);
        self.bar.set_prefix(format!("at most {:.0} min left", (left.as_secs_f64() / 60.0).ceil()));
        // The cell that was measured last.
        let latest = |c: &&CellAnalysis| {
            let at = c.settings.iter().flat_map(|s| s.blocks_cost.last()).map(|b| b.at);
            at.fold(0.0, f64::max).to_bits()
        };
        let Some(cell) = analysis.cells.iter().max_by_key(latest) else { return };
        if self.bar.is_hidden() {
            eprintln!("{}", line(cell));
        }
        self.estimates = picture(cell);
    }

    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// Formats a cell's estimates in a line, for logs.
fn line(cell: &CellAnalysis) -> String {
    let blocks = cell.settings.iter().map(|s| s.blocks).max().unwrap_or(0);
    let each = cell.settings.iter().filter_map(|s| {
        let cost = s.cost?;
        let interval = cost.interval.map_or(String::new(), |_| format!(" ({})", table::range(cost)));
        Some(format!("{} {}{interval}", s.name, units::change(cost.share)))
    });
    let each: Vec<String> = each.collect();
    format!("{}, block {blocks}: {}", cell.cell, each.join("; "))
}

/// Formats a line per setting: its estimate, and its interval drawn to a common scale.
fn picture(cell: &CellAnalysis) -> String {
    let intervals = cell.settings.iter().filter_map(|s| s.cost?.interval);
    let reach = intervals.flat_map(|(low, high)| [low.abs(), high.abs()]).fold(0.01, f64::max);
    let name = page::longest(cell.settings.iter().map(|s| &s.name));
    let columns = page::width().saturating_sub(name + FIGURES).min(PICTURE);
    let rows = cell.settings.iter().filter(|s| s.cost.is_some()).map(|s| row(s, name, reach, columns));
    let rows: String = rows.collect();
    let cell = style(&cell.cell).bold();
    format!("\n{cell}{rows}")
}

fn row(setting: &SettingAnalysis, name: usize, reach: f64, columns: usize) -> String {
    let Some(cost) = setting.cost else { return String::new() };
    let drawn = cost.interval.filter(|_| columns > TOO_FEW);
    let drawn = drawn.map_or(String::new(), |(low, high)| interval((low, cost.share, high), reach, columns));
    let range = table::range(cost);
    let mark = if setting.reached { style("✓").green() } else { style(" ") };
    let share = units::change(cost.share);
    let line = format!(
        "{mark} {} {share:>7} {range:<17} {drawn}",
        pad_str(&setting.name, name, console::Alignment::Left, None)
    );
    format!("\n{}", truncate_str(line.trim_end(), page::width().saturating_sub(1), "…"))
}

/// Draws ` │ ├──●──┤ `: zero, and an interval with its estimate.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // columns
fn interval((low, value, high): (f64, f64, f64), reach: f64, columns: usize) -> String {
    let place = |x: f64| (((x / reach + 1.0) / 2.0).clamp(0.0, 1.0) * (columns - 1) as f64).round() as usize;
    let (low, value, high) = (place(low), place(value), place(high));
    let sign = |i: usize| match i {
        i if i == value => '●',
        i if i == low => '├',
        i if i == high => '┤',
        i if i > low && i < high => '─',
        i if i == columns / 2 => '│',
        _ => ' ',
    };
    (0..columns).map(sign).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_drawn_to_scale() {
        assert_eq!(interval((0.5, 0.75, 1.0), 1.0, PICTURE), "                    │         ├────●────┤");
        assert_eq!(interval((-1.0, 0.0, 1.0), 1.0, PICTURE), "├───────────────────●───────────────────┤");
    }
}
