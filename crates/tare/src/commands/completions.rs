//! `tare completions`: what a shell needs to complete commands, options and names.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::output;

/// Print the completions of a shell: commands, options, names of studies and workloads
///
/// Packages install those of bash, zsh and fish already.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare completions bash > ~/.local/share/bash-completion/completions/tare\n  \
    tare completions zsh > ~/.zfunc/_tare                     in a folder of $fpath\n  \
    tare completions fish > ~/.config/fish/completions/tare.fish")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

/// Runs the command; `command` is the declaration of the command line.
pub(crate) fn completions(arguments: &Completions, mut command: Command) -> Result<ExitCode> {
    let mut text = vec![];
    generate(arguments.shell, &mut command, "tare", &mut text);
    output::print(&String::from_utf8(text).context("completions")?)?;
    Ok(ExitCode::SUCCESS)
}
