//! `tare lab bench`: the overhead of several settings, compared in one run, as a study of the lab.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use tare_lab::interrupt::Interrupt;
use tare_lab::{journal, workload};

use crate::durations;
use crate::exit::wrong;
use crate::names::NameParser;
use crate::page;
use crate::provider::{self, ProviderPrograms};
use crate::study::bench::{Plan, order};
use crate::study::{self, table};

/// Measure the overhead of tare and of the server's own Performance Schema
///
/// A short study: one server per setting on copies of the same data, load on
/// one at a time in short slices, compared within blocks of one slice each. Every one to three blocks the
/// servers are restarted, because the layout of its memory makes a process faster or slower. `off again` is
/// the A/A control: it equals `off`, so its difference is noise.
///
/// CPU time is that of the server's process, read from its CPU clock in nanoseconds (user and system, all
/// threads).
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare lab bench\n  \
    tare lab bench --rounds 60 --workloads oltp_point_select\n  \
    tare lab bench --rounds 6 --slice 1s -o slices.jsonl     # quick, and every slice to look into")]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) programs: ProviderPrograms,
    /// Rounds, 6 to 240: an interval needs 6, and is made of 240 at most; each gives every setting one slice
    #[arg(long, default_value_t = 30, value_name = "N", value_parser = clap::value_parser!(u32).range(6..=240))]
    #[arg(overrides_with = "rounds")]
    pub(crate) rounds: u32,
    /// Duration of a slice
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = durations::seconds("1s", "1h"))]
    pub(crate) slice: u32,
    /// Connections of the load
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) connections: u32,
    /// Rows of the load's table
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..))]
    pub(crate) rows: u32,
    /// sysbench workloads
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        value_parser = NameParser::WORKLOADS,
        hide_possible_values = true,
        default_value = "oltp_read_only,oltp_point_select,oltp_read_write"
    )]
    pub(crate) workloads: Vec<String>,
    /// Also write every slice to this file, as JSON Lines
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn bench(arguments: &Bench, interrupt: &Interrupt) -> Result<ExitCode> {
    for name in &arguments.workloads {
        workload::named(name).map_err(wrong)?;
    }
    let named = arguments.programs.provider.as_deref();
    let tare = match provider::find(named) {
        Ok(_) => true,
        Err(error) if named.is_some() => return Err(error),
        Err(error) => {
            eprintln!("tare itself is left out: {error:#}");
            false
        }
    };
    let plan = Plan {
        rounds: arguments.rounds,
        seconds: arguments.slice,
        users: arguments.connections,
        rows: arguments.rows,
        workloads: &arguments.workloads,
    };
    let folder = tempfile::tempdir().context("making a temporary folder")?;
    let order = order(&plan, arguments.programs.installation()?, named, tare, folder.path())?;
    for setting in &order.definition.settings {
        page::note(&format!("  {:<10} {}", setting.name, setting.meaning));
    }
    let analysis = study::watch(&order, interrupt)?;
    table::print(&analysis);
    table::in_short(&analysis);
    if let Some(file) = &arguments.output {
        let results = folder.path().join(journal::FILE);
        std::fs::copy(results, file).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
