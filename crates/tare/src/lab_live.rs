//! A study's progress in the terminal: what runs, the estimates so far with their intervals narrowing, time left.

use std::time::Duration;

use anyhow::Result;
use console::{pad_str, style, truncate_str};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tare_lab::analysis::{Analysis, CellAnalysis, SettingAnalysis};
use tare_lab::runner::Event;

use crate::{page, units};

/// Steps of the bar.
const STEPS: u64 = 1000;
/// Columns of an interval's picture.
const PICTURE: usize = 41;

/// The progress of a study; on something else than a terminal it prints a line per block.
pub(crate) struct Live {
    bar: ProgressBar,
    doing: String,
    /// What the last whole block left, below the bar.
    estimates: String,
}

impl Live {
    pub(crate) fn new() -> Result<Live> {
        let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template("{bar:30} {percent}%  {prefix}\n{msg}")?);
        bar.enable_steady_tick(Duration::from_millis(250));
        Ok(Live { bar, doing: String::new(), estimates: String::new() })
    }

    /// Takes the study's word.
    pub(crate) fn hear(&mut self, event: &Event<'_>) {
        match event {
            Event::Doing(what) => self.doing = (*what).to_owned(),
            Event::Slice { cell, setting, measured } => {
                let how = if *measured { "" } else { ", warming up" };
                self.doing = format!("{}, {} connections: {setting}{how}", cell.workload, cell.users);
            }
            Event::Second(progress) => {
                let rate = units::rate(progress.transactions_per_second);
                let doing = self.doing.split("  ").next().unwrap_or_default();
                self.doing = format!("{doing}  {rate} transactions/s");
            }
            Event::Note(text) => self.bar.suspend(|| eprintln!("{text}")),
            Event::Block { analysis, done, left } => self.block(analysis, *done, *left),
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

/// A cell's estimates in a line, for logs.
fn line(cell: &CellAnalysis) -> String {
    let blocks = cell.settings.iter().map(|s| s.blocks).max().unwrap_or(0);
    let each = cell.settings.iter().filter_map(|s| {
        let cost = s.cost?;
        let half = cost.plus_minus().map_or(String::new(), |h| format!(" ± {:.1}", h * 100.0));
        Some(format!("{} {}{half}", s.name, units::change(cost.share)))
    });
    let each: Vec<String> = each.collect();
    format!("{}, {} connections, block {blocks}: {}", cell.cell.workload, cell.cell.users, each.join("; "))
}

/// A line per setting: its estimate, and its interval drawn to a scale that all share.
fn picture(cell: &CellAnalysis) -> String {
    let intervals = cell.settings.iter().filter_map(|s| s.cost?.interval);
    let reach = intervals.flat_map(|(low, high)| [low.abs(), high.abs()]).fold(0.01, f64::max);
    let name = cell.settings.iter().map(|s| s.name.chars().count()).max().unwrap_or(0);
    let rows = cell.settings.iter().filter(|s| s.cost.is_some()).map(|s| row(s, name, reach));
    let rows: String = rows.collect();
    let cell = style(format!("{}, {} connections", cell.cell.workload, cell.cell.users)).bold();
    format!("\n{cell}{rows}")
}

fn row(setting: &SettingAnalysis, name: usize, reach: f64) -> String {
    let Some(cost) = setting.cost else { return String::new() };
    let (half, drawn) = match cost.interval {
        Some((low, high)) => {
            (format!("± {:.1}", (high - low) * 50.0), interval(low, cost.share, high, reach))
        }
        None => ("too few blocks".into(), String::new()),
    };
    let mark = if setting.reached { style("✓").green() } else { style(" ") };
    let share = units::change(cost.share);
    format!(
        "\n{} {} {share:>7} {half:<7} {drawn}",
        mark,
        pad_str(&setting.name, name, console::Alignment::Left, None)
    )
}

/// `      │ ├──●──┤      `: zero, and an interval with its estimate.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // columns
fn interval(low: f64, value: f64, high: f64, reach: f64) -> String {
    let place = |x: f64| (((x / reach + 1.0) / 2.0).clamp(0.0, 1.0) * (PICTURE - 1) as f64).round() as usize;
    let (low, value, high) = (place(low), place(value), place(high));
    let sign = |i: usize| match i {
        i if i == value => '●',
        i if i == low => '├',
        i if i == high => '┤',
        i if i > low && i < high => '─',
        i if i == PICTURE / 2 => '│',
        _ => ' ',
    };
    (0..PICTURE).map(sign).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_drawn_to_scale() {
        assert_eq!(interval(0.5, 0.75, 1.0, 1.0), "                    │         ├────●────┤");
        assert_eq!(interval(-1.0, 0.0, 1.0, 1.0), "├───────────────────●───────────────────┤");
    }
}
