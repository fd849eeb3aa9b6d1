//! The shared object that is loaded into the server.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use tare_server::Error;
use tare_server::installation::Installation;

/// The server to start, and the provider to load into it.
#[derive(Args, Debug)]
pub(crate) struct ProviderPrograms {
    /// The server's program [default: the system's mariadbd]
    #[arg(long, value_name = "PATH", env = "TARE_MARIADBD")]
    pub(crate) mariadbd: Option<PathBuf>,
    /// The provider to load [default: libtare_mariadb.so, or for MySQL libtare_mysql.so, beside this program
    /// or in ../lib/tare]
    #[arg(long, value_name = "PATH", env = "TARE_PROVIDER")]
    pub(crate) provider: Option<PathBuf>,
}

impl ProviderPrograms {
    /// Finds the server's programs: those named, or the system's.
    pub(crate) fn installation(&self) -> tare_server::Result<Installation> {
        Installation::find(self.mariadbd.as_deref()).map_err(|error| match error {
            Error::Missing { program, hint } => {
                Error::Missing { program, hint: format!("{hint} (or name it with --mariadbd PATH)") }
            }
            error => error,
        })
    }
}

/// Name of the file for MariaDB's servers.
pub(crate) const FILE: &str = "libtare_mariadb.so";
/// Name of the file for MySQL's servers.
pub(crate) const MYSQL_FILE: &str = "libtare_mysql.so";
/// Names of all files.
pub(crate) const FILES: [&str; 2] = [FILE, MYSQL_FILE];

/// Finds the provider for MariaDB's servers: the given one, or where builds and packages put it relative to
/// this program.
pub(crate) fn find(named: Option<&Path>) -> Result<PathBuf> {
    find_file(FILE, named)
}

/// Finds the provider for a server, which is MySQL's or MariaDB's.
pub(crate) fn find_for(is_mysql: bool, named: Option<&Path>) -> Result<PathBuf> {
    find_file(file_for(is_mysql), named)
}

/// Returns the name of the file for a server, which is MySQL's or MariaDB's.
pub(crate) fn file_for(is_mysql: bool) -> &'static str {
    if is_mysql { MYSQL_FILE } else { FILE }
}

fn find_file(file: &str, named: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = named {
        return path.canonicalize().with_context(|| format!("--provider {}", path.display()));
    }
    let program =
        std::env::current_exe().and_then(|p| p.canonicalize()).context("looking for this program")?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    // The path is written into a unit, so it has no `..` and no links.
    let found =
        candidates(folder, file).into_iter().find(|p| p.is_file()).and_then(|p| p.canonicalize().ok());
    let target = if file == MYSQL_FILE { "provider-mysql" } else { "build" };
    found.with_context(|| {
        format!(
            "{file} was found neither beside {} nor in ../lib/tare; build it with `make {target}` in the source, or name \
             it with --provider PATH",
            program.display()
        )
    })
}

fn candidates(folder: &Path, file: &str) -> [PathBuf; 2] {
    [folder.join(file), folder.join("../lib/tare").join(file)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_the_program_and_where_packages_put_libraries() {
        let places = candidates(Path::new("/usr/bin"), FILE);
        assert_eq!(places[0], Path::new("/usr/bin/libtare_mariadb.so"));
        assert_eq!(places[1], Path::new("/usr/bin/../lib/tare/libtare_mariadb.so"));
    }

    #[test]
    fn a_provider_that_is_not_there_is_named() {
        let error = find(Some(Path::new("/nowhere/x.so"))).expect_err("nothing there");
        assert!(format!("{error:#}").contains("--provider /nowhere/x.so"), "{error:#}");
    }
}
