//! Manual pages and shell completions for packages, generated from the command line's declaration.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap_complete::{Shell, generate_to};

use crate::arguments::Documents;
use crate::command_line;

/// Runs the command.
pub(crate) fn documents(arguments: &Documents) -> Result<ExitCode> {
    let folder = |name: &str| {
        let folder = arguments.folder.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok::<_, anyhow::Error>(folder)
    };
    clap_mangen::generate_to(command_line::command().disable_help_subcommand(true), folder("man")?)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut command_line::command(), "tare", folder("completions")?)?;
    }
    Ok(ExitCode::SUCCESS)
}
