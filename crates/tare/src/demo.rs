//! `tare demo`: the main job on a server of its own, start to end.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use console::style;
use indicatif::{ProgressBar, ProgressStyle};
use mysql::prelude::Queryable;
use tare_lab::installation::Installation;
use tare_lab::interrupt::Interrupt;
use tare_lab::load::{Load, Progress, Report};
use tare_lab::server::Server;
use tare_lab::setting::Setting;
use tare_lab::study::{Bench, Template};

use crate::arguments::Demo;
use crate::section::SECTIONS;
use crate::{cost, page, provider, status, units};

/// What the load does; also what the costs are compared on.
const WORKLOAD: &str = "oltp_read_write";
/// Tables of the load, and rows in each.
const TABLES: u32 = 2;
const ROWS: u32 = 50_000;
/// Seconds of a block when costs are compared.
const BLOCK: u64 = 1;

/// Runs the command.
pub(crate) fn demo(arguments: &Demo, interrupt: Interrupt) -> Result<ExitCode> {
    let provider = provider::find(arguments.programs.provider.as_deref())?;
    let installation = Installation::find(arguments.programs.mariadbd.as_deref())?;
    if !installation.has_federated() {
        bail!(
            "ha_federatedx.so is not in {}: without it the tables cannot be read through the server's SQL; on Debian, \
             `apt-get install mariadb-server` brings it",
            installation.plugin_dir.display()
        );
    }
    let mut load = Load::new(arguments.threads, ROWS)?;
    load.tables = TABLES;
    // As text, so that the statements have digests to show.
    load.prepared = false;
    let bench = Bench::new(installation, interrupt)?;
    let settings = [Setting::off("off"), Setting::tare(&provider, true), Setting::builtin_all()];
    let template = step("making a data directory and the load's tables", || Ok(bench.prepare(&load)?))?;
    watch(&bench, &template, &load, &settings[1], arguments.secs)?;
    if arguments.cost_rounds > 0 {
        compare(&bench, &template, load, &settings, arguments.cost_rounds)?;
    }
    farewell();
    Ok(ExitCode::SUCCESS)
}

/// Starts the server, gives it load, and shows what was seen.
fn watch(bench: &Bench, template: &Template, load: &Load, setting: &Setting, seconds: u64) -> Result<()> {
    let mut server = step("starting a stock server with tare", || Ok(bench.start_copy(template, setting)?))?;
    introduce(bench, &server)?;
    let done = drive(bench, load, &server, seconds)?;
    page::paragraph(&format!(
        "{WORKLOAD}, {} connections, {seconds} s: {} transactions ({}/s), {} statements",
        load.threads,
        units::count(done.transactions),
        units::rate(done.per_second),
        units::count(done.queries)
    ));
    let mut session = server.connect()?;
    for section in SECTIONS {
        section.show(&mut session).with_context(|| format!("reading {}", section.source))?;
        bench.interrupt.check()?;
    }
    lost(&mut session)?;
    drop(session);
    step("shutting the server down", || Ok(server.stop()?)).map(drop)
}

/// Says what runs, and stops here when tare is not in it.
fn introduce(bench: &Bench, server: &Server) -> Result<()> {
    status::require_active(server)?;
    server
        .execute("SELECT 1 FROM performance_schema.tare_status LIMIT 1")
        .context("tare serves, but its tables cannot be read through the server's SQL")?;
    println!("{} {}, stock, with tare loaded", style("MariaDB").bold(), bench.installation.version);
    if let Some(line) = status::line_in_log(server.log()) {
        page::note(&format!("  {line}"));
    }
    page::note(&format!("  server's socket  {}", server.socket().display()));
    Ok(())
}

fn drive(bench: &Bench, load: &Load, server: &Server, seconds: u64) -> Result<Report> {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} s  {msg}")?;
    let bar = ProgressBar::new(seconds).with_style(style).with_message(format!("sysbench {WORKLOAD}"));
    bar.tick();
    let report = load.run(WORKLOAD, server.socket(), seconds, &bench.interrupt, &mut |p: Progress| {
        bar.set_position(p.second);
        let (t, q) = (units::rate(p.transactions_per_second), units::rate(p.queries_per_second));
        bar.set_message(format!("{t} transactions/s, {q} statements/s"));
    });
    bar.finish_and_clear();
    Ok(report?)
}

/// Shows every counter of what did not fit, or that there is none.
fn lost(session: &mut mysql::Conn) -> Result<()> {
    page::heading("Lost", "tare_status");
    let counters: Vec<(String, String)> = session.query(
        "SELECT NAME, VALUE FROM performance_schema.tare_status WHERE NAME LIKE '%lost%' AND VALUE REGEXP '^[0-9]+$'",
    )?;
    if counters.is_empty() {
        bail!("tare_status has no counters of what was lost");
    }
    let lost: Vec<_> = counters.iter().filter(|(_, value)| value != "0").collect();
    if lost.is_empty() {
        println!("Nothing: {} counters of what did not fit, all 0.", counters.len());
    }
    for (name, value) in lost {
        println!("{name}  {value}");
    }
    Ok(())
}

/// A short paired run: what it cost.
fn compare(
    bench: &Bench,
    template: &Template,
    load: Load,
    settings: &[Setting],
    rounds: usize,
) -> Result<()> {
    page::heading("What it cost", "server CPU per transaction, load on one of three servers at a time");
    let threads = load.threads;
    let mut study = step("starting three servers", || cost::start(bench, template, load, settings))?;
    let bar = ProgressBar::new(cost::blocks(rounds, settings) as u64)
        .with_style(ProgressStyle::with_template("{bar:30} {pos}/{len} blocks, {eta} left")?);
    let measured = cost::measure(&mut study, settings, WORKLOAD, rounds, BLOCK, &mut || bar.inc(1));
    bar.finish_and_clear();
    let pairing = measured?;
    cost::print(settings, &pairing);
    for setting in settings {
        page::note(&format!("  {:<10} {}", setting.name, setting.meaning));
    }
    page::note(&format!(
        "  {WORKLOAD}, {threads} connections, {rounds} rounds of {BLOCK} s blocks. This is a first look; `tare bench` takes the time \
         to measure."
    ));
    if let Some(comparison) = cost::compare(settings, &pairing) {
        page::paragraph(&comparison);
    }
    Ok(study.stop()?)
}

fn farewell() {
    let program = std::env::args().next().unwrap_or_else(|| "tare".into());
    println!("\nEverything was stopped and removed. To keep such a server and look around:");
    println!("  {program} run\n");
}

/// Does something that takes a moment, and says so meanwhile.
fn step<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let spinner = ProgressBar::new_spinner().with_message(format!("{what} …"));
    spinner.enable_steady_tick(std::time::Duration::from_millis(100));
    let result = work();
    spinner.finish_and_clear();
    result
}
