//! `tare demo`: a demonstration on a server of its own.

mod section;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use console::style;
use indicatif::{ProgressBar, ProgressStyle};
use mysql::prelude::Queryable;
use tare_lab::bench::{Bench, Template};
use tare_lab::interrupt::Interrupt;
use tare_lab::load::{DriverEvent, DriverReport, Load};
use tare_lab::machine;
use tare_lab::record::Others;
use tare_lab::server::LaunchedServer;
use tare_lab::setting::Setting;
use tare_lab::workload::SysbenchScript;
use tare_outlets::units;
use tare_server::installation::Installation;

use crate::durations;
use crate::provider::{self, ProviderPrograms};
use crate::study::bench::{self, Plan};
use crate::study::{self, table};
use crate::{endpoint, page};
use section::SECTIONS;

/// Show what tare sees, on a server of its own under load
///
/// Starts a stock server with tare loaded and everything instrumented, drives sysbench's oltp_read_write
/// against it, and shows by SQL, through the server's normal socket, what was seen: statements, waits,
/// tables, files, memory, what was lost, and what it cost. The server's data is in a temporary folder;
/// nothing of the system's is touched, no port is opened, and everything is removed at the end and on Ctrl-C.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare demo\n  \
    tare demo --for 60s --connections 16\n  \
    tare demo --cost-rounds 0     # leave the comparison of costs out")]
pub(crate) struct Demo {
    #[command(flatten)]
    pub(crate) programs: ProviderPrograms,
    /// Time under load
    #[arg(long = "for", default_value = "20s", value_name = "TIME", value_parser = durations::seconds("1s", "1d"))]
    pub(crate) seconds: u32,
    /// Connections of the load
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) connections: u32,
    /// Rounds of the paired comparison of costs, 6 to 240; 0 leaves it out
    #[arg(long, default_value_t = 9, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=240))]
    pub(crate) cost_rounds: u32,
}

/// The workload, on which costs are also compared.
const WORKLOAD: &str = "oltp_read_write";
/// Tables of the load, and rows in each.
const TABLES: u32 = 2;
const ROWS: u32 = 50_000;
/// Seconds of a slice in the comparison of costs.
const SLICE: u32 = 1;
/// Fewest rounds for an interval.
const LEAST_ROUNDS: u32 = 6;

/// Runs the command.
pub(crate) fn demo(arguments: &Demo, interrupt: Interrupt) -> Result<ExitCode> {
    let provider = provider::find(arguments.programs.provider.as_deref())?;
    let installation = arguments.programs.installation()?;
    if installation.is_mysql() {
        bail!(
            "{} is a server of MySQL's, which has no demo yet: `tare run --mariadbd PATH` starts it with tare",
            installation.mariadbd.display()
        );
    }
    if !installation.has_federated() {
        bail!(
            "ha_federatedx.so is not in {}: without it the tables cannot be read through the server's SQL; on Debian, \
             `apt-get install mariadb-server` brings it",
            installation.plugin_dir.display()
        );
    }
    // Before the demo runs anything itself, which would count as activity of others.
    let others = match arguments.cost_rounds {
        0 => None,
        _ => Some(step("checking what else runs here", || Ok(machine::others(0.0, &interrupt)?))?),
    };
    let load = Load {
        script: SysbenchScript::Stock(WORKLOAD),
        schema: "sbtest".into(),
        users: arguments.connections,
        options: [("tables", TABLES), ("table-size", ROWS)].map(|(n, v)| (n.into(), v.to_string())).into(),
        // As text, so that the statements have digests to show.
        prepared: false,
        arrivals: None,
    };
    let bench = Bench::new(interrupt)?;
    let options = ["--innodb-buffer-pool-size=256M", "--innodb-flush-log-at-trx-commit=0"].map(Into::into);
    let loads = std::slice::from_ref(&load);
    let template = step("making a data directory and the load's tables", || {
        Ok(bench.prepare(&installation, &options, loads, &mut |_| {})?)
    })?;
    let level = watch(&bench, &template, &load, &Setting::tare(&provider), arguments.seconds)?;
    if let Some(others) = others {
        compare(arguments, installation, &provider, others, &bench.interrupt)?;
    }
    farewell(&level);
    Ok(ExitCode::SUCCESS)
}

/// Starts the server, gives it load, and shows the results; returns the level of recording, in words.
fn watch(bench: &Bench, template: &Template, load: &Load, setting: &Setting, seconds: u32) -> Result<String> {
    let mut server = step("starting a stock server with tare", || Ok(bench.start_copy(template, setting)?))?;
    introduce(template, &server)?;
    let done = drive(bench, load, &server, seconds)?;
    #[allow(clippy::cast_precision_loss)] // far below 2^53
    let per_second = done.transactions as f64 / done.seconds;
    page::paragraph(&format!(
        "{WORKLOAD}, {} connections, {seconds} s: {} transactions ({}/s), {} statements",
        load.users,
        units::count(done.transactions),
        units::rate(per_second),
        units::count(done.queries)
    ));
    let mut session = server.connect()?;
    for section in SECTIONS {
        section.show(&mut session).with_context(|| format!("reading {}", section.source))?;
        bench.interrupt.check()?;
    }
    lost(&mut session)?;
    let level = level(&mut session)?;
    drop(session);
    step("shutting the server down", || Ok(server.stop()?))?;
    Ok(level)
}

/// Describes the level of the server's instruments; of several levels, each with its number of instruments.
fn level(session: &mut mysql::Conn) -> Result<String> {
    let levels: Vec<(String, u64)> = session
        .query("SELECT LEVEL, COUNT(*) FROM performance_schema.tare_levels GROUP BY LEVEL ORDER BY COUNT(*) DESC")
        .context("reading tare_levels")?;
    Ok(match levels.as_slice() {
        [(one, _)] => format!("level {one}: {}", meaning(one)),
        all => {
            let each = all.iter().map(|(level, count)| format!("{level} ({count} instruments)"));
            format!("levels {}", each.collect::<Vec<_>>().join(", "))
        }
    })
}

/// Describes what a level keeps of an event.
fn meaning(level: &str) -> &'static str {
    match level {
        "exact" => "every event counted, timed and recorded",
        "lean" => "every event counted and recorded, and timed but for locks that were free",
        "sampled" => {
            "every statement counted and timed, and some 1,000 a second recorded with all that is inside them"
        }
        "sums" => "every event counted and timed, none recorded",
        "counts" => "every event counted",
        _ => "nothing",
    }
}

/// Prints what runs; fails if tare is not active in it.
fn introduce(template: &Template, server: &LaunchedServer) -> Result<()> {
    endpoint::require_active(server)?;
    server
        .execute("SELECT 1 FROM performance_schema.tare_status LIMIT 1")
        .context("tare serves, but its tables cannot be read through the server's SQL")?;
    println!("{} {}, stock, with tare loaded", style("MariaDB").bold(), template.installation.version);
    if let Some(line) = endpoint::last_line(&server.said()) {
        page::note(&format!("  {line}"));
    }
    page::note(&format!("  server's socket  {}", server.socket().display()));
    Ok(())
}

fn drive(bench: &Bench, load: &Load, server: &LaunchedServer, seconds: u32) -> Result<DriverReport> {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} s  {msg}")?;
    let bar = ProgressBar::new(seconds.into()).with_style(style).with_message(format!("sysbench {WORKLOAD}"));
    bar.tick();
    let report = bench.driver.run(load, &server.target(), seconds, &bench.interrupt, &mut |moment| {
        if let DriverEvent::Second(p) = moment {
            bar.set_position(p.second);
            let (t, q) = (units::rate(p.transactions_per_second), units::rate(p.queries_per_second));
            bar.set_message(format!("{t} transactions/s, {q} statements/s"));
        }
        Ok(())
    });
    bar.finish_and_clear();
    Ok(report?)
}

/// Prints every counter of losses, or that there are none.
fn lost(session: &mut mysql::Conn) -> Result<()> {
    page::heading("Lost", "tare_status");
    let counters: Vec<(String, String)> = session.query(
        "SELECT NAME, VALUE FROM performance_schema.tare_status WHERE NAME LIKE '%\\_lost' AND VALUE REGEXP '^[0-9]+$'",
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

/// Runs a short study of the cost.
fn compare(
    arguments: &Demo,
    installation: Installation,
    provider: &Path,
    others: Others,
    interrupt: &Interrupt,
) -> Result<()> {
    page::heading("What it cost", "server CPU per transaction, load on one of four servers at a time");
    let workloads = [WORKLOAD.to_owned()];
    let plan = Plan {
        rounds: arguments.cost_rounds.max(LEAST_ROUNDS),
        seconds: SLICE,
        users: arguments.connections,
        rows: ROWS,
        workloads: &workloads,
    };
    let folder = tempfile::tempdir().context("making a temporary folder")?;
    let order = bench::order(&plan, installation, Some(provider), true, folder.path())?;
    let analysis = study::watch_knowing(&order, Some(others), interrupt)?;
    analysis.cells.iter().for_each(|cell| table::cell(&analysis.header, cell));
    for setting in &order.definition.settings {
        page::note(&format!("  {:<10} {}", setting.name, setting.meaning));
    }
    page::note(&format!(
        "  {} rounds of {SLICE} s slices. This is a first look; `tare lab bench` takes the time to measure.",
        plan.rounds
    ));
    Ok(())
}

fn farewell(level: &str) {
    println!();
    page::paragraph(&format!("tare recorded at {level}. Levels: `level` in [tare], the table tare_levels."));
    let program = std::env::args().next().unwrap_or_else(|| "tare".into());
    println!("\nEverything was stopped and removed. To keep such a server and look around:");
    println!("  {program} run\n");
}

/// Runs a step with a progress message.
fn step<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let spinner = ProgressBar::new_spinner().with_message(format!("{what} …"));
    spinner.enable_steady_tick(std::time::Duration::from_millis(100));
    let result = work();
    spinner.finish_and_clear();
    result
}
