//! The command line.

mod change;
mod changelog;
mod checks;
mod command_line;
mod commands;
mod control;
mod durations;
mod endpoint;
mod exit;
mod last_run;
mod manual;
mod names;
mod old_spellings;
mod outlet;
mod output;
mod page;
mod prices;
mod program;
mod provider;
mod server;
mod signals;
mod state;
mod study;

use std::process::ExitCode;

use tare_lab::Error;

use crate::commands::{Arguments, Command};
use crate::exit::{INTERRUPTED, Misuse, WRONG};
use crate::output::told;
use crate::signals::interrupt;

fn main() -> ExitCode {
    quiet_while_connecting();
    let arguments = command_line::parse();
    output::until_closed(|| run(arguments))
}

/// Silences panics while connecting, which become errors with more detail.
fn quiet_while_connecting() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !tare_connect::is_connecting() {
            usual(panic);
        }
    }));
}

/// Runs a command.
fn run(arguments: Arguments) -> ExitCode {
    // SIGHUP tells what writes a file that it has been renamed.
    let hangs_up = !matches!(arguments.command, Command::SlowLog(_) | Command::Ash(_));
    let result = interrupt(hangs_up).and_then(|interrupt| match arguments.command {
        Command::Demo(a) => commands::demo::demo(&a, interrupt),
        Command::Run(a) => commands::run::run(&a, &interrupt),
        Command::Status(a) => commands::status::status(&a),
        Command::Ash(a) => commands::ash::ash(&a, &interrupt),
        Command::SlowLog(a) => commands::slowlog::slowlog(&a, &interrupt),
        Command::Doctor(a) => commands::doctor::doctor(&a),
        Command::Install(a) => commands::install::install(&a, &interrupt),
        Command::Uninstall(a) => commands::install::uninstall(&a, &interrupt),
        Command::Report(a) => commands::report::report(&a),
        Command::Snapshot(a) => commands::snapshot::snapshot(&a, &interrupt),
        Command::Preload(a) => commands::preload::preload(&a),
        Command::Probe(a) => commands::probe::probe(&a),
        Command::Documents(a) => commands::documents::documents(&a, &command_line::command()),
        Command::Completions(a) => commands::completions::completions(&a, &command_line::command()),
        Command::Top(a) => commands::top::top(&a, &interrupt),
        Command::Tables(a) => commands::tables::tables(&a),
        Command::Export(a) => commands::export::export(*a, &interrupt),
        Command::Lab(a) => commands::lab::lab(&a, &interrupt),
        Command::Govern(a) => commands::govern::govern(&a, &interrupt),
        Command::Price(a) => commands::price::price(&a, &interrupt),
        Command::Weigh(a) => commands::weigh::run(&a, &interrupt),
    });
    result.unwrap_or_else(|error| {
        if matches!(error.downcast_ref(), Some(Error::Interrupted)) {
            eprintln!("interrupted; everything that was started has been stopped and removed");
            return ExitCode::from(INTERRUPTED);
        }
        eprintln!("{} {}", console::style("tare:").red().bold().for_stderr(), told(&error));
        if error.is::<Misuse>() { ExitCode::from(WRONG) } else { ExitCode::FAILURE }
    })
}
