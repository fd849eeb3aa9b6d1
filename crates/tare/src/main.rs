//! The command line.

mod arguments;
mod bench;
mod demo;
mod doctor;
mod documents;
mod elf;
mod export;
mod govern;
mod install;
mod lab;
mod lab_effort;
mod lab_history;
mod lab_live;
mod lab_record;
mod lab_table;
mod outlet;
mod output;
mod page;
mod preload;
mod price;
mod probe;
mod provider;
mod report;
mod run;
mod section;
mod server;
mod slowlog;
mod snapshot;
mod state;
mod status;
mod tables;
mod top;
mod weigh;

use std::process::ExitCode;

use clap::Parser;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tare_lab::Error;
use tare_lab::interrupt::Interrupt;
use tare_outlets::units;

use crate::arguments::{Arguments, Command};

/// What a shell reports for a program ended by Ctrl-C.
const INTERRUPTED: u8 = 130;
/// Signals that end a command.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    output::until_closed(|| run(arguments))
}

/// Runs a command.
fn run(arguments: Arguments) -> ExitCode {
    // To a log SIGHUP says that its file has been moved away.
    let hangs_up = !matches!(arguments.command, Command::SlowLog(_));
    let result = interrupt(hangs_up).and_then(|interrupt| match arguments.command {
        Command::Demo(a) => demo::demo(&a, interrupt),
        Command::Run(a) => run::run(&a, &interrupt),
        Command::Status(a) => status::status(&a),
        Command::SlowLog(a) => slowlog::slowlog(&a, &interrupt),
        Command::Doctor(a) => doctor::doctor(&a),
        Command::Install(a) => install::install(&a, &interrupt),
        Command::Uninstall(a) => install::uninstall(&a, &interrupt),
        Command::Report(a) => report::report(&a),
        Command::Snapshot(a) => snapshot::snapshot(&a, &interrupt),
        Command::Preload(a) => preload::preload(&a),
        Command::Probe(a) => probe::probe(&a),
        Command::Documents(a) => documents::documents(&a),
        Command::Top(a) => top::top(&a, &interrupt),
        Command::Tables(a) => tables::tables(&a),
        Command::Export(a) => export::export(*a, &interrupt),
        Command::Bench(a) => bench::bench(&a, &interrupt),
        Command::Lab(a) => lab::lab(&a, &interrupt),
        Command::Govern(a) => govern::govern(&a, &interrupt),
        Command::Price(a) => price::price(&a, &interrupt),
        Command::Weigh(a) => weigh::run(&a, &interrupt),
    });
    result.unwrap_or_else(|error| {
        if matches!(error.downcast_ref(), Some(Error::Interrupted)) {
            eprintln!("interrupted; everything that was started has been stopped and removed");
            return ExitCode::from(INTERRUPTED);
        }
        eprintln!("{} {error:#}", console::style("tare:").red().bold().for_stderr());
        ExitCode::FAILURE
    })
}

/// Signals become a flag: whatever waits looks at it, so servers are stopped and folders removed on the way out.
fn interrupt(hangs_up: bool) -> anyhow::Result<Interrupt> {
    let interrupt = Interrupt::default();
    for signal in ENDING.into_iter().filter(|&signal| hangs_up || signal != SIGHUP) {
        signal_hook::flag::register(signal, interrupt.flag())?;
    }
    Ok(interrupt)
}
