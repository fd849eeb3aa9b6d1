//! The command line.

mod arguments;
mod bench;
mod command_line;
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

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tare_lab::Error;
use tare_lab::interrupt::Interrupt;
use tare_outlets::units;

use crate::arguments::{Arguments, Command};
use crate::output::told;

/// The exit status that a shell reports for a program ended by Ctrl-C.
const INTERRUPTED: u8 = 130;
/// Signals that end a command.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
/// The kernel's data about this process.
const STATUS: &str = "/proc/self/status";

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
    // SIGHUP tells a log that its file has been renamed.
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
        eprintln!("{} {}", console::style("tare:").red().bold().for_stderr(), told(&error));
        ExitCode::FAILURE
    })
}

/// Turns signals into a flag, which every wait checks, so that servers are stopped and folders removed at the
/// end.
fn interrupt(hangs_up: bool) -> anyhow::Result<Interrupt> {
    let interrupt = Interrupt::default();
    for signal in ending(hangs_up) {
        signal_hook::flag::register(signal, interrupt.flag())?;
    }
    Ok(interrupt)
}

/// Returns the signals that end the program. A SIGHUP that was ignored at the start stays ignored, for
/// `nohup`.
pub(crate) fn ending(hangs_up: bool) -> impl Iterator<Item = i32> {
    // Without it, no signal is known to be ignored.
    let status = std::fs::read_to_string(STATUS).unwrap_or_default();
    let hangs_up = hangs_up && !is_ignored(&status, SIGHUP);
    ENDING.into_iter().filter(move |signal| *signal != SIGHUP || hangs_up)
}

/// Returns whether a process ignores a signal, by its [`STATUS`]: bit n-1 of a hexadecimal mask stands for
/// signal n.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    (mask >> (signal - 1)) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_read_from_a_mask() {
        // 1, 2 and 13; blocked or caught signals are not ignored.
        let status =
            "Name:\ttare\nSigBlk:\t0000000000004000\nSigIgn:\t0000000000001003\nSigCgt:\t0000000000004440\n";
        assert_eq!(ENDING.map(|signal| is_ignored(status, signal)), [true, false, true], "INT, TERM, HUP");
        for unknown in ["", "SigIgn:\n", "SigIgn:\tnone\n", "SigCgt:\t0000000000004003\n"] {
            assert_eq!(ENDING.map(|signal| is_ignored(unknown, signal)), [false; 3], "{unknown:?}");
        }
    }

    /// Starts a program as `nohup` does.
    #[test]
    fn a_hangup_that_is_ignored_is_seen_in_what_the_kernel_says() {
        let script = format!("trap '' HUP; exec cat {STATUS}");
        let output = std::process::Command::new("sh").args(["-c", &script]).output().expect("sh runs");
        let status = String::from_utf8_lossy(&output.stdout);
        assert!(is_ignored(&status, SIGHUP), "{status}");
    }
}
