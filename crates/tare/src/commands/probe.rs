//! `tare probe`: whether tare supports a server, by the program's file, which is not run.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::exit::{NOT_LOOKED, NOT_SUPPORTED};
use crate::output::Answer;
use crate::program::look;

/// Say whether tare supports a server, from its program's file
///
/// The program is read, not run: its version, its exported symbols, and whether it is laid out like the
/// servers tare knows, by the checks of tare's own start-up. Options and the system around a server may still
/// disable tare: `tare doctor`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare probe /usr/sbin/mariadbd\n  \
    tare probe /opt/mariadb-12.0/bin/mariadbd --format json")]
pub(crate) struct Probe {
    /// The server's program
    #[arg(value_name = "PROGRAM")]
    pub(crate) mariadbd: PathBuf,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

/// Runs the command.
pub(crate) fn probe(arguments: &Probe) -> Result<ExitCode> {
    arguments.answer.written(|| show(arguments))
}

fn show(arguments: &Probe) -> Result<ExitCode> {
    let path = &arguments.mariadbd;
    let program = match look(path) {
        Ok(program) => program,
        Err(error) => {
            eprintln!("tare: {error}");
            return Ok(ExitCode::from(NOT_LOOKED));
        }
    };
    if arguments.answer.format.is_json() {
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
