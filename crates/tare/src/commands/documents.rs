//! Manual pages and shell completions for packages, generated from the command line's declaration.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::{Generator, Shell};

use super::completions;
use crate::manual;

/// Write manual pages and completions, as packages hold them
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  tare documents target/documents")]
pub(crate) struct Documents {
    /// The folder to write into
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

/// Runs the command; `command` is the declaration of the command line.
pub(crate) fn documents(arguments: &Documents, command: &Command) -> Result<ExitCode> {
    let folder = |name: &str| {
        let folder = arguments.folder.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok::<_, anyhow::Error>(folder)
    };
    manual::page::write(command, &folder("man")?).context("writing manual pages")?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let path = folder("completions")?.join(shell.file_name("tare"));
        fs::write(&path, completions::text(shell, command)?)
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
