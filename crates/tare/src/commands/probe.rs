//! `tare probe`: whether tare supports a server, by the program's file, which is not run.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::exit::{NOT_LOOKED, NOT_SUPPORTED};
use crate::output::CommandOutput;
use crate::program::{Product, ServerProgram, look};

/// Say whether tare supports a server, from its program's file
///
/// The program is read, not run: its version, its exported symbols, and whether it is laid out like the
/// servers tare knows, by the checks of tare's own start-up. Options and the system around a server may still
/// disable tare: `tare doctor`.
///
/// For a server of MySQL's it counts the places that call the functions of each family of events. A family
/// whose function nobody calls by name was made part of its callers by link-time optimisation, and stays with
/// the server's own Performance Schema.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare probe /usr/sbin/mariadbd\n  \
    tare probe /opt/mariadb-12.0/bin/mariadbd --format json\n  \
    tare probe /usr/sbin/mysqld             # which families of events tare can take")]
pub(crate) struct Probe {
    /// The server's program
    #[arg(value_name = "PROGRAM")]
    pub(crate) program: PathBuf,
    #[command(flatten)]
    pub(crate) answer: CommandOutput,
}

/// Runs the command.
pub(crate) fn probe(arguments: &Probe) -> Result<ExitCode> {
    arguments.answer.written(|| show(arguments))
}

/// Returns the version and, in words, whether tare supports it.
fn verdict(program: &ServerProgram) -> String {
    let version = program.version.as_deref().unwrap_or("of no known version");
    let served = if program.supported { "tare serves it" } else { "tare would disable itself" };
    match program.product {
        Some(Product::MySQL) => {
            let all = program.families.len();
            let taken = program.families.iter().filter(|family| family.hindrance.is_none()).count();
            format!(
                "MySQL {version}: {served} (experimental); it can take {taken} of {all} families of events"
            )
        }
        _ => format!("{version}: {served}"),
    }
}

fn show(arguments: &Probe) -> Result<ExitCode> {
    let path = &arguments.program;
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
        println!("{}: {}", path.display(), verdict(&program));
        for line in program.hindrances.iter().chain(&program.notes) {
            println!("  {line}");
        }
        program.families.iter().for_each(|family| println!("  {}", family.line()));
    }
    Ok(if program.supported { ExitCode::SUCCESS } else { ExitCode::from(NOT_SUPPORTED) })
}
