//! The figures of a study as tables.

use tare_lab::analysis::{Analysis, CellAnalysis, Difference, SettingAnalysis, THROUGHPUT};
use tare_lab::budget::{Budget, Judgement};
use tare_lab::record::{CpuSource, Header, Measure};
use tare_lab::report::judged::{all_in_words, words};
use tare_lab::report::wording;
use tare_outlets::units;

use super::effort::{self, NONE};
use crate::page::{self, Column, Grid};

/// Prints everything: tables per cell, remarks, and why the study ended.
pub(crate) fn print(analysis: &Analysis) {
    let header = &analysis.header;
    page::heading(&header.question, &format!("{} on {}", header.study, servers(header)));
    page::note(&machine(header));
    for server in header.servers.iter().filter(|s| s.cpu != CpuSource::Process) {
        page::note(&format!("server {}: {}", server.name, wording::cpu_source(server.cpu)));
    }
    header.driver.iter().for_each(|driver| page::note(&format!("load from: {driver}")));
    analysis.cells.iter().for_each(|c| cell(header, c));
    println!();
    page::note(&format!(
        "{} against the base in the same block; 95% intervals that allow for looking at any time; differences below {} \
         do not matter here (the study's margin).",
        charge(header.measure),
        units::change(header.margin).trim_start_matches('+')
    ));
    analysis.notes.iter().for_each(|n| page::note(&format!("at {:.0} s: {}", n.at, n.text)));
    wording::warnings(analysis).iter().for_each(|warning| page::paragraph(warning));
    match &analysis.end {
        Some(end) => page::paragraph(&format!("Ended after {:.1} minutes: {}.", end.at / 60.0, end.reason)),
        None => page::paragraph("Not ended yet."),
    }
}

/// Prints a summary in a line, which is read last.
pub(crate) fn in_short(analysis: &Analysis) {
    println!();
    page::paragraph(&wording::in_short(analysis));
}

/// Prints the outcome of a budget, with a summary as the last line.
pub(crate) fn budget(budget: Budget, judgements: &[Judgement]) {
    page::heading(&format!("Budget of {budget}"), "judged on whole intervals");
    for judgement in judgements {
        let (outcome, setting) = (judgement.outcome.to_string(), &judgement.setting);
        page::paragraph(&format!("{outcome:<8}{}, {setting}: {}", judgement.cell, words(budget, judgement)));
    }
    println!();
    page::paragraph(&all_in_words(budget, judgements));
}

fn servers(header: &Header) -> String {
    let each: Vec<String> = header.servers.iter().map(|s| format!("{} {}", s.name, s.version)).collect();
    each.join(", ")
}

/// Describes the conditions besides the settings.
fn machine(header: &Header) -> String {
    let m = &header.machine;
    let mut said = vec![format!("{} × {}", m.cpus, m.cpu_model)];
    if m.clock_mhz > 0.0 {
        said.push(format!("{:.0} MHz", m.clock_mhz));
    }
    said.extend(m.governor.iter().map(|governor| format!("governor {governor}")));
    said.push(format!("kernel {}", m.kernel));
    said.extend(Some(m.mitigations()).filter(|mitigations| !mitigations.is_empty()));
    said.join("; ")
}

/// Words what is charged.
pub(crate) fn charge(measure: Measure) -> &'static str {
    match measure {
        Measure::Cpu => "CPU time per transaction (server, and sidecars that are charged)",
        Measure::Time => "Time per transaction",
        Measure::P95 => "95th percentile of latency",
    }
}

/// Prints a cell's tables: measurements and verdicts.
pub(crate) fn cell(header: &Header, cell: &CellAnalysis) {
    let title = cell.cell.to_string();
    let noise = cell.noise().and_then(|n| n.interval);
    let about = noise.map_or(String::new(), |(low, high)| {
        format!("noise (the base against itself): {} … {}", units::change(low), units::change(high))
    });
    page::heading(&title, &about);
    if let Some(rate) = cell.rate {
        page::note(&format!(
            "{} transactions arrive per second; latency counts from when each was to begin",
            units::rate(rate)
        ));
    }
    measured(header, cell).print();
    println!();
    judged(header, cell).print();
    let as_runs = runs(cell);
    if header.measure == Measure::Time && !as_runs.is_empty() {
        println!();
        page::note(
            "As runs: mean ± standard error over slices. Beside it what the lab says of transactions per second, within blocks:",
        );
        as_runs.print();
    }
    effort::print(cell);
    for setting in &cell.settings {
        if let Some(word) = wording::contradiction(header, cell, setting) {
            page::note(&format!("{}: {word}.", setting.name));
        }
    }
}

/// Makes the table of measurements by setting.
fn measured(header: &Header, cell: &CellAnalysis) -> Grid {
    let extra = Extra::of(header, cell);
    let mut columns = vec![
        ("SETTING", Column::CutEnd),
        ("CPU/TX", Column::Right),
        ("TX/S", Column::Right),
        ("P95", Column::Right),
    ];
    columns.extend(
        extra.tail.then_some([("P99", Column::Right), ("P99.9", Column::Right)]).into_iter().flatten(),
    );
    columns.push(("RESIDENT", Column::Right));
    columns.extend(extra.columns());
    let mut grid = Grid::new(&columns);
    for setting in &cell.settings {
        grid.row(row(setting, extra));
    }
    grid
}

/// Makes the table of each setting's cost against its base.
fn judged(header: &Header, cell: &CellAnalysis) -> Grid {
    let mut grid = Grid::new(&[
        ("SETTING", Column::CutEnd),
        ("BLOCKS", Column::Right),
        ("COST", Column::Right),
        ("95%", Column::Left),
        ("VERDICT", Column::Left),
    ]);
    for setting in &cell.settings {
        let said = wording::said(header, cell, setting);
        grid.row([
            setting.name.clone(),
            setting.blocks.to_string(),
            setting.cost.map_or(String::new(), |c| units::change(c.share)),
            setting.cost.map_or(String::new(), range),
            said.map_or_else(|| if setting.blocks == 0 { NONE.into() } else { "base".into() }, |s| s.short),
        ]);
        if let Some(mean) = setting.mean {
            grid.row([
                "  mean of turns".into(),
                String::new(),
                units::change(mean.share),
                range(mean),
                String::new(),
            ]);
        }
    }
    grid
}

/// Makes the table of throughput in the form of studies that repeat a run, beside the lab's own.
fn runs(cell: &CellAnalysis) -> Grid {
    let mut grid = Grid::new(&[
        ("SETTING", Column::CutEnd),
        ("MEAN ± ERROR", Column::Right),
        ("OF BASE", Column::Right),
        ("WITHIN BLOCKS", Column::Right),
        ("95%", Column::Left),
    ]);
    let of_base = |setting: &SettingAnalysis, name: &str, value: f64| {
        let base = cell.setting(&setting.base).filter(|base| base.name != setting.name);
        base.and_then(|base| base.runs.get(name))
            .map_or(String::new(), |base| format!("{:.2}", value / base.value))
    };
    for setting in &cell.settings {
        for (name, label) in [(THROUGHPUT, setting.name.as_str()), ("notpm", "  NOTPM")] {
            let Some(run) = setting.runs.get(name) else { continue };
            let ours = setting.throughput.filter(|_| name == THROUGHPUT);
            grid.row([
                label.to_owned(),
                format!("{} ± {}", units::rate(run.value), units::short(run.error)),
                of_base(setting, name, run.value),
                ours.map_or(String::new(), |d| units::change(d.share)),
                ours.map_or(String::new(), range),
            ]);
        }
    }
    grid
}

/// Columns that only some studies need.
#[derive(Clone, Copy, Debug)]
struct Extra {
    /// 99th and 99.9th percentile of latency, where transactions come at a rate.
    tail: bool,
    notpm: bool,
    logged: bool,
    sidecars: bool,
    beside: bool,
}

impl Extra {
    fn of(header: &Header, cell: &CellAnalysis) -> Extra {
        let any = |f: &dyn Fn(&SettingAnalysis) -> bool| cell.settings.iter().any(f);
        Extra {
            tail: header.cells.iter().any(|c| c.percent.is_some()),
            notpm: any(&|s| s.medians.figures.contains_key("notpm")),
            logged: any(&|s| s.medians.logged_bytes > 0.0),
            sidecars: any(&|s| s.medians.cpu_sidecars > 0.0),
            beside: any(&|s| s.medians.cpu_beside > 0.0),
        }
    }

    fn columns(self) -> impl Iterator<Item = (&'static str, Column)> {
        let named = [
            (self.notpm, "NOTPM"),
            (self.logged, "LOGGED/S"),
            (self.sidecars, "SIDECARS"),
            (self.beside, "BESIDE/TX"),
            (self.sidecars || self.beside, "THEIR MEMORY"),
        ];
        named.into_iter().filter(|(there, _)| *there).map(|(_, name)| (name, Column::Right))
    }

    fn cells(self, setting: &SettingAnalysis) -> impl Iterator<Item = String> {
        let m = &setting.medians;
        let named = [
            (self.notpm, m.figures.get("notpm").map_or(String::new(), |n| units::rate(*n))),
            (self.logged, bytes(m.logged_bytes)),
            (self.sidecars, units::seconds(m.cpu_sidecars)),
            (self.beside, units::seconds(m.cpu_beside)),
            (self.sidecars || self.beside, bytes(m.resident_sidecars)),
        ];
        named.into_iter().filter(|(there, _)| *there).map(|(_, text)| text)
    }
}

fn row(setting: &SettingAnalysis, extra: Extra) -> Vec<String> {
    let m = &setting.medians;
    let mut row = vec![setting.name.clone()];
    if setting.blocks == 0 {
        row.extend(std::iter::repeat_n(NONE.to_owned(), if extra.tail { 6 } else { 4 }));
        row.extend(extra.columns().map(|_| String::new()));
    } else {
        // Nothing is known of a process that cannot be seen.
        let seen = |figure: f64, text: String| if figure > 0.0 { text } else { NONE.into() };
        row.extend([
            seen(m.cpu, units::seconds(m.cpu + m.cpu_sidecars)),
            units::rate(m.tps),
            units::seconds(m.p95),
        ]);
        row.extend(extra.tail.then_some([m.p99, m.p999].map(units::seconds)).into_iter().flatten());
        row.push(seen(m.resident_bytes, bytes(m.resident_bytes)));
        row.extend(extra.cells(setting));
    }
    row
}

/// Formats an interval, or says that there is none yet.
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
