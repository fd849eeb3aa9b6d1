//! `tare tables`: files that earlier versions left in a data directory.

use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use tare_mariadb::install;

use crate::page::{self, Column, Grid};

/// Remove or list what earlier versions of tare left in a data directory
///
/// Earlier versions put their tables into the folder `performance_schema`, as small files that a crash left
/// there, and that backups contain. This version puts nothing there, and removes the old files whenever a
/// server starts with it. This command is for a server that is to run without tare from then on. Only tare's
/// files are touched.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare tables list --datadir /var/lib/mysql\n  \
    tare tables remove --datadir /var/lib/mysql")]
pub(crate) struct Tables {
    #[command(subcommand)]
    pub(crate) command: TablesCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TablesCommand {
    /// Remove tare's files
    Remove(DataDirectory),
    /// Show which of tare's table files exist, and which version wrote them
    List(DataDirectory),
}

/// A data directory.
#[derive(Args, Debug)]
pub(crate) struct DataDirectory {
    /// Data directory of the server
    #[arg(long, value_name = "DIR")]
    pub(crate) datadir: PathBuf,
}

/// Runs the command.
pub(crate) fn tables(arguments: &Tables) -> Result<ExitCode> {
    match &arguments.command {
        TablesCommand::Remove(place) => remove(&place.datadir),
        TablesCommand::List(place) => list(&place.datadir),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn remove(datadir: &Path) -> Result<()> {
    let removed = install::remove(datadir)?;
    println!("{} tables' files removed from {}", removed.len(), datadir.display());
    if !removed.is_empty() {
        page::note("A server that runs may go on serving those it has open: FLUSH TABLES.");
    }
    Ok(())
}

fn list(datadir: &Path) -> Result<()> {
    let left = install::list(datadir)?;
    if left.is_empty() {
        println!("no files of tare's in {}", datadir.display());
        return Ok(());
    }
    let mut grid = Grid::new(&[("TABLE", Column::Left), ("WRITTEN BY", Column::Left)]);
    left.into_iter().for_each(|it| grid.row([it.table, it.comment]));
    grid.print();
    Ok(())
}
