//! `tare probe`: whether tare supports a server, by the program's file, which is not run.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::output::Output;
use crate::program::look;

/// Exit status if tare would disable itself.
const NOT_SUPPORTED: u8 = 1;
/// Exit status if the file cannot be analysed.
const NOT_LOOKED: u8 = 2;

/// Say whether tare supports a server, from its program's file
///
/// The program is read, not run: its version, its exported symbols, and whether it is laid out like the
/// servers tare knows, by the checks of tare's own start-up. Options and the system around a server may still
/// disable tare: `tare doctor`.
///
/// Exit status: 0 supported, 1 not supported, 2 the file could not be read.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare probe /usr/sbin/mariadbd\n  \
    tare probe /opt/mariadb-12.0/bin/mariadbd --output json")]
pub(crate) struct Probe {
    /// The server's program
    #[arg(value_name = "PROGRAM")]
    pub(crate) mariadbd: PathBuf,
    /// Format of the output
    #[arg(long, value_enum, default_value_t = Output::Text, value_name = "FORMAT")]
    pub(crate) output: Output,
}

/// Runs the command.
pub(crate) fn probe(arguments: &Probe) -> Result<ExitCode> {
    let path = &arguments.mariadbd;
    let program = match look(path) {
        Ok(program) => program,
        Err(error) => {
            eprintln!("tare: {error}");
            return Ok(ExitCode::from(NOT_LOOKED));
        }
    };
    if arguments.output.is_json() {
        println!("{}", serde_json::to_string_pretty(&program)?);
    } else {
        let version = program.version.as_deref().unwrap_or("of no known version");
        let verdict = if program.supported { "tare serves it" } else { "tare would disable itself" };
        println!("{}: {version}: {verdict}", path.display());
        for line in program.hindrances.iter().chain(&program.notes) {
            println!("  {line}");
        }
    }
    Ok(if program.supported { ExitCode::SUCCESS } else { ExitCode::from(NOT_SUPPORTED) })
}
