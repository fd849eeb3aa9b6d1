//! `tare bench`: what watching costs, side by side in one run.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tare_lab::installation::Installation;
use tare_lab::interrupt::Interrupt;
use tare_lab::load::Load;
use tare_lab::pairing::Pairing;
use tare_lab::setting::Setting;
use tare_lab::study::{self, Study};

use crate::arguments::Bench;
use crate::page::{self, Column, Grid};
use crate::{cost, provider, units};

/// Everything measured, for `--json`.
#[derive(Serialize)]
struct Record<'a> {
    server: &'a str,
    threads: u32,
    rows: u32,
    seconds: u64,
    settings: Vec<&'a str>,
    workloads: Vec<Measured<'a>>,
}

/// One workload's samples.
#[derive(Serialize)]
struct Measured<'a> {
    workload: &'a str,
    #[serde(flatten)]
    pairing: Pairing,
}

/// Runs the command.
pub(crate) fn bench(arguments: &Bench, interrupt: Interrupt) -> Result<ExitCode> {
    let load = Load::new(arguments.threads, arguments.rows)?;
    let bench = study::Bench::new(Installation::find(arguments.programs.mariadbd.as_deref())?, interrupt)?;
    let settings = settings(arguments.programs.provider.as_deref(), bench.installation.has_federated())?;
    announce(arguments, &bench, &settings);

    let rounds = usize::try_from(arguments.rounds).context("--rounds")?;
    let bar = progress((cost::blocks(rounds, &settings) * arguments.workloads.len()) as u64);
    bar.set_message("preparing data");
    let template = bench.prepare(&load)?;
    bar.set_message("starting servers");
    let mut study = cost::start(&bench, &template, load, &settings)?;
    let mut measured = vec![];
    for workload in &arguments.workloads {
        bar.set_message(workload.clone());
        let mut done = || bar.inc(1);
        let pairing = cost::measure(&mut study, &settings, workload, rounds, arguments.secs, &mut done)?;
        bar.suspend(|| report(workload, &settings, &pairing));
        measured.push(Measured { workload, pairing });
    }
    bar.finish_and_clear();
    memory(&study, &settings)?;
    study.stop()?;
    if let Some(file) = &arguments.json {
        write(file, arguments, &bench.installation.version, &settings, measured)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is compared: without a provider the rest still is, and the reason is said.
fn settings(named: Option<&Path>, federated: bool) -> Result<Vec<Setting>> {
    let mut settings = vec![Setting::off("off"), Setting::off("off again")];
    match provider::find(named) {
        Ok(provider) => settings.push(Setting::tare(&provider, federated)),
        Err(error) if named.is_some() => return Err(error),
        Err(error) => eprintln!("tare itself is left out: {error:#}"),
    }
    settings.push(Setting::builtin_all());
    Ok(settings)
}

fn announce(arguments: &Bench, bench: &study::Bench, settings: &[Setting]) {
    page::paragraph(&format!(
        "MariaDB {}, {} connections, {} rows, {} rounds of {} s blocks, CPU time from the server's process clock",
        bench.installation.version,
        arguments.threads,
        units::count(arguments.rows.into()),
        arguments.rounds,
        arguments.secs
    ));
    for setting in settings {
        page::note(&format!("  {:<10} {}", setting.name, setting.meaning));
    }
}

fn report(workload: &str, settings: &[Setting], pairing: &Pairing) {
    page::heading(workload, "server CPU per transaction, against `off` in the same round");
    cost::print(settings, pairing);
    if let Some(comparison) = cost::compare(settings, pairing) {
        page::paragraph(&comparison);
    }
    if let Some(noise) = pairing.cpu_change(1, 0) {
        let largest = [noise.median.low.abs(), noise.median.high.abs()].into_iter().fold(0.0, f64::max);
        page::note(&format!(
            "Noise (off against off): differences below {:.1}% mean nothing here.",
            largest * 100.0
        ));
    }
}

fn memory(study: &Study<'_>, settings: &[Setting]) -> Result<()> {
    page::heading("Resident memory", "VmRSS of the server's process");
    let mut grid = Grid::new(&[
        ("SETTING", Column::Left),
        ("IDLE", Column::Right),
        ("MORE THAN OFF", Column::Right),
        ("AT THE END", Column::Right),
        ("MORE THAN OFF", Column::Right),
    ]);
    let base = study.resident(0)?;
    for (i, setting) in settings.iter().enumerate() {
        let now = study.resident(i)?;
        let more = |value: u64, base: u64| match value.checked_sub(base) {
            Some(more) => units::bytes(more),
            None => format!("-{}", units::bytes(base - value)),
        };
        grid.row([
            setting.name.clone(),
            units::bytes(now.0),
            more(now.0, base.0),
            units::bytes(now.1),
            more(now.1, base.1),
        ]);
    }
    grid.print();
    Ok(())
}

fn write(
    file: &Path,
    arguments: &Bench,
    server: &str,
    settings: &[Setting],
    workloads: Vec<Measured<'_>>,
) -> Result<()> {
    let record = Record {
        server,
        threads: arguments.threads,
        rows: arguments.rows,
        seconds: arguments.secs,
        settings: settings.iter().map(|s| s.name.as_str()).collect(),
        workloads,
    };
    let text = serde_json::to_string_pretty(&record)?;
    std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}

fn progress(blocks: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} blocks, {eta} left  {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(blocks).with_style(style)
}
