//! A study's figures as tables.

use tare_lab::analysis::{Analysis, CellAnalysis, Difference, SettingAnalysis};
use tare_lab::record::{Header, Measure};

use crate::page::{self, Column, Grid};
use crate::units;

/// Prints everything: a table per cell, verdicts, what was noted, and what limited it.
pub(crate) fn print(analysis: &Analysis) {
    let header = &analysis.header;
    page::heading(&header.question, &format!("{} on {}", header.study, servers(header)));
    analysis.cells.iter().for_each(cell);
    println!();
    page::note(&format!(
        "{} against the base in the same block; 95% intervals that allow for looking at any time; differences below {} \
         do not matter here (the study's margin).",
        charge(header.measure),
        units::change(header.margin).trim_start_matches('+')
    ));
    analysis.notes.iter().for_each(|n| page::note(&format!("at {:.0} s: {}", n.at, n.text)));
    match &analysis.end {
        Some(end) => page::paragraph(&format!("Ended after {:.1} minutes: {}.", end.at / 60.0, end.reason)),
        None => page::paragraph("Not ended yet."),
    }
}

fn servers(header: &Header) -> String {
    let each: Vec<String> = header.servers.iter().map(|s| format!("{} {}", s.name, s.version)).collect();
    each.join(", ")
}

/// What is charged, in words.
pub(crate) fn charge(measure: Measure) -> &'static str {
    match measure {
        Measure::Cpu => "CPU time per transaction (server and sidecars)",
        Measure::Time => "Time per transaction",
        Measure::P95 => "95th percentile of latency",
    }
}

/// Prints a cell's table.
pub(crate) fn cell(cell: &CellAnalysis) {
    let title = format!("{}, {} connections", cell.cell.workload, cell.cell.users);
    let noise = cell.noise().and_then(|n| n.interval);
    let about = noise.map_or(String::new(), |(low, high)| {
        format!("noise (the base against itself): {} … {}", units::change(low), units::change(high))
    });
    page::heading(&title, &about);
    let mut columns = vec![
        ("SETTING", Column::Left),
        ("CPU/TX", Column::Right),
        ("TX/S", Column::Right),
        ("P95", Column::Right),
        ("RESIDENT", Column::Right),
    ];
    let extra = Extra::of(cell);
    columns.extend(extra.columns());
    columns.extend([
        ("BLOCKS", Column::Right),
        ("", Column::Right),
        ("95%", Column::Left),
        ("MEAN OF ALL TURNS", Column::Left),
        ("VERDICT", Column::Left),
    ]);
    let mut grid = Grid::new(&columns);
    for setting in &cell.settings {
        grid.row(row(setting, extra));
    }
    grid.print();
}

/// Columns that only some studies fill.
#[derive(Clone, Copy, Debug)]
struct Extra {
    notpm: bool,
    logged: bool,
    sidecars: bool,
}

impl Extra {
    fn of(cell: &CellAnalysis) -> Extra {
        let any = |f: &dyn Fn(&SettingAnalysis) -> bool| cell.settings.iter().any(f);
        Extra {
            notpm: any(&|s| s.medians.figures.contains_key("notpm")),
            logged: any(&|s| s.medians.logged_bytes > 0.0),
            sidecars: any(&|s| s.medians.cpu_sidecars > 0.0),
        }
    }

    fn columns(self) -> impl Iterator<Item = (&'static str, Column)> {
        let named = [(self.notpm, "NOTPM"), (self.logged, "LOGGED/S"), (self.sidecars, "OF IT SIDECARS")];
        named.into_iter().filter(|(there, _)| *there).map(|(_, name)| (name, Column::Right))
    }

    fn cells(self, setting: &SettingAnalysis) -> impl Iterator<Item = String> {
        let m = &setting.medians;
        let named = [
            (self.notpm, m.figures.get("notpm").map_or(String::new(), |n| units::rate(*n))),
            (self.logged, bytes(m.logged_bytes)),
            (self.sidecars, units::seconds(m.cpu_sidecars)),
        ];
        named.into_iter().filter(|(there, _)| *there).map(|(_, text)| text)
    }
}

fn row(setting: &SettingAnalysis, extra: Extra) -> Vec<String> {
    let m = &setting.medians;
    let mut row = vec![setting.name.clone()];
    if setting.blocks == 0 {
        row.extend([(); 4].map(|()| "—".to_owned()));
        row.extend(extra.columns().map(|_| String::new()));
    } else {
        row.extend([
            units::seconds(m.cpu + m.cpu_sidecars),
            units::rate(m.tps),
            units::seconds(m.p95),
            bytes(m.resident_bytes),
        ]);
        row.extend(extra.cells(setting));
    }
    row.push(setting.blocks.to_string());
    row.push(setting.cost.map_or(String::new(), |c| units::change(c.share)));
    row.push(setting.cost.map_or(String::new(), range));
    row.push(setting.mean.map_or(String::new(), |m| format!("{} ({})", units::change(m.share), range(m))));
    row.push(setting.verdict.map_or_else(|| "base".into(), |v| v.to_string()));
    row
}

/// An interval in words, or that there is none yet.
pub(crate) fn range(difference: Difference) -> String {
    difference.interval.map_or_else(
        || "too few blocks".into(),
        |(low, high)| format!("{} … {}", units::change(low), units::change(high)),
    )
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // sizes are small and positive
fn bytes(n: f64) -> String {
    units::bytes(n.round() as u64)
}
