//! `tare lab compare`: several runs of a study side by side.

use anyhow::{Result, ensure};
use console::style;
use serde_json::{Value, json};
use tare_lab::course::{ChangePoint, Estimate, SeriesShape};
use tare_lab::history::{CostSeries, PastRun, RunHistory};
use tare_outlets::units;

use crate::output::OutputFormat;
use crate::page::{self, Column, Grid};
use crate::study::table;

/// Prints the results of every run, changes, and other differences between the runs.
pub(crate) fn print(runs: Vec<PastRun>, format: OutputFormat) -> Result<()> {
    let history = RunHistory::of(runs);
    let Some(history) = history else { anyhow::bail!("one folder is no history: name two or more") };
    if format.is_json() {
        println!("{}", serde_json::to_string_pretty(&object(&history))?);
        return ensure_shared(&history);
    }
    introduce(&history);
    let cells = history.runs.last().map(|run| run.analysis.cells.as_slice()).unwrap_or_default();
    for cell in cells {
        let series: Vec<&CostSeries> = history.series.iter().filter(|s| s.cell == cell.cell).collect();
        let compared = series.iter().filter(|s| s.points.len() > 1).count();
        if compared > 0 {
            page::heading(&cell.cell.to_string(), "cost against each run's base, 95% interval");
            figures(&series);
        }
        series.iter().for_each(|s| say(&history, s));
    }
    ensure_shared(&history)?;
    println!();
    page::note(
        "A change is what intervals do not explain; noise passes for one in at most 5 of 100 histories of a setting. Whether it is the \
         server's or the machine's: see what else differs there, and whether the base's A/A control changes, too.",
    );
    Ok(())
}

/// Fails if no setting was measured in two of the runs.
fn ensure_shared(history: &RunHistory) -> Result<()> {
    ensure!(
        history.series.iter().any(|series| series.points.len() > 1),
        "the runs have no setting under the same workload and connections that can be compared"
    );
    Ok(())
}

/// Makes the object for programs. Runs are counted from 1, as in the tables.
fn object(history: &RunHistory) -> Value {
    let run = |(place, run): (usize, &PastRun)| {
        let header = &run.analysis.header;
        let servers: Vec<&str> = header.servers.iter().map(|s| s.version.as_str()).collect();
        let differs = if place == 0 { vec![] } else { history.differences(place - 1, place) };
        json!({
            "run": place + 1, "begun": header.started, "study": header.study, "servers": servers,
            "results": run.name, "differs_from_previous": differs,
        })
    };
    let series = |series: &CostSeries| {
        let (shape, changes) = course(series);
        let points = series
            .points
            .iter()
            .map(|(run, cost)| json!({ "run": run + 1, "cost": cost.share, "interval": cost.interval }));
        let left_out = series.left_out.iter().map(|(run, why)| json!({ "run": run + 1, "why": why }));
        json!({
            "workload": series.cell.workload, "connections": series.cell.users, "percent": series.cell.percent,
            "setting": series.setting, "control": series.control, "of_mean": series.of_mean,
            "points": points.collect::<Vec<_>>(), "left_out": left_out.collect::<Vec<_>>(),
            "course": shape, "changes": changes,
        })
    };
    json!({
        "runs": history.runs.iter().enumerate().map(run).collect::<Vec<_>>(),
        "series": history.series.iter().map(series).collect::<Vec<_>>(),
    })
}

/// Returns the shape of a history in a word, and its changes or its slope.
fn course(series: &CostSeries) -> (&'static str, Value) {
    let estimate = |it: &Estimate| json!({ "value": it.value, "plus_minus": it.plus_minus() });
    let known = series.known();
    match &series.course {
        SeriesShape::Unknown => ("unknown", Value::Null),
        SeriesShape::Steady(level) => ("steady", json!({ "level": estimate(level) })),
        SeriesShape::Trend(slope) => ("trend", json!({ "per_run": estimate(slope) })),
        SeriesShape::Changes(changes) => {
            let change = |change: &ChangePoint| {
                json!({
                    "run": known[change.at] + 1, "before": estimate(&change.before),
                    "after": estimate(&change.after), "by": estimate(&change.by()),
                })
            };
            ("changes", changes.iter().map(change).collect())
        }
    }
}

/// Prints the runs, and their differences.
fn introduce(history: &RunHistory) {
    page::heading("Runs", "in the order of their beginnings");
    let mut grid = Grid::new(&[
        ("RUN", Column::Right),
        ("BEGUN", Column::Left),
        ("STUDY", Column::CutEnd),
        ("SERVERS", Column::CutEnd),
        ("RESULTS", Column::CutStart),
    ]);
    for (place, run) in history.runs.iter().enumerate() {
        let header = &run.analysis.header;
        let servers: Vec<&str> = header.servers.iter().map(|s| s.version.as_str()).collect();
        grid.row([
            (place + 1).to_string(),
            header.started.clone(),
            header.study.clone(),
            servers.join(", "),
            run.name.clone(),
        ]);
    }
    grid.print();
    for place in 1..history.runs.len() {
        let differences = history.differences(place - 1, place);
        if !differences.is_empty() {
            page::note(&format!("From run {place} to {}: {}.", place + 1, differences.join("; ")));
        }
    }
}

/// Prints the results of each run for a cell's settings.
fn figures(series: &[&CostSeries]) {
    let mut grid = Grid::new(&[
        ("SETTING", Column::CutEnd),
        ("RUN", Column::Right),
        ("COST", Column::Right),
        ("95%", Column::Left),
        ("", Column::Left),
    ]);
    for one in series {
        for (nth, (run, cost)) in one.points.iter().enumerate() {
            let name = if nth == 0 { one.setting.clone() } else { String::new() };
            let known = one.known().iter().position(|place| place == run);
            let changed =
                matches!(&one.course, SeriesShape::Changes(all) if all.iter().any(|c| Some(c.at) == known));
            let mark = if changed { style("◀ change").yellow().to_string() } else { String::new() };
            grid.row([name, (run + 1).to_string(), units::change(cost.share), table::range(*cost), mark]);
        }
    }
    grid.print();
}

/// Describes the history of a setting, and why runs are left out.
fn say(history: &RunHistory, series: &CostSeries) {
    let name = style(&series.setting).bold();
    if series.of_mean && series.points.len() > 1 {
        page::note(&format!(
            "{}, {}: these are means of all turns, of every run, as it comes in bursts.",
            series.cell, series.setting
        ));
    }
    for (run, why) in &series.left_out {
        page::note(&format!("{}, {}: run {} does not count: {why}.", series.cell, series.setting, run + 1));
    }
    let known = series.known();
    match &series.course {
        SeriesShape::Unknown => {}
        SeriesShape::Steady(level) => page::paragraph(&format!(
            "{name}: no change; {} in all of {} runs ({})",
            units::change(level.value),
            known.len(),
            reach(*level)
        )),
        SeriesShape::Trend(slope) => page::paragraph(&format!(
            "{name}: a trend of {} from run to run ({}), over {} runs",
            points(slope.value),
            reach_of(*slope, points),
            known.len()
        )),
        SeriesShape::Changes(changes) => {
            for change in changes {
                let (from, to) = (known[change.at - 1], known[change.at]);
                let by = change.by();
                let besides: Vec<String> =
                    (from..to).flat_map(|run| history.differences(run, run + 1)).collect();
                let besides = match besides.as_slice() {
                    [] => "nothing else is known to differ".into(),
                    all => format!("there, too: {}", all.join("; ")),
                };
                page::paragraph(&format!(
                    "{name}: changes from run {} to {} by {} ({}), from {} to {}; {besides}",
                    from + 1,
                    to + 1,
                    points(by.value),
                    reach_of(by, points),
                    units::change(change.before.value),
                    units::change(change.after.value)
                ));
            }
        }
    }
}

fn reach(estimate: Estimate) -> String {
    reach_of(estimate, units::change)
}

fn reach_of(estimate: Estimate, shown: fn(f64) -> String) -> String {
    let half = estimate.plus_minus();
    format!("{} … {}", shown(estimate.value - half), shown(estimate.value + half))
}

/// Formats a difference of two shares.
fn points(share: f64) -> String {
    units::change(share).replace('%', " points")
}
