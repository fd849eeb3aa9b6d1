//! `tare tables`: files that earlier versions left in a data directory.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use tare_mariadb::install;

use crate::arguments::{Tables, TablesCommand};
use crate::page::{self, Column, Grid};

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
