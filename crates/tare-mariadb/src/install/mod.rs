//! The tables' files: what a server finds of them in its folder `performance_schema`.
//!
//! A server serves a `.frm` file there as a table under its name, in place of its own table of that name. The files are
//! of FEDERATED tables, which ask the provider's endpoint for the rows ([`federated`]; `FEDERATED.md` holds what they
//! send). A table whose rows are the server's own is a view, in a file of the same kind of name (`view`).
//!
//! They are made at each start and shown to the server by [`crate::folder`]: they are on no disk, and the names behind the
//! tables ([`Secret`]) end with the process. Earlier versions put
//! them on the disk, and a crash, or a copy of the data directory, left them there: [`list`] and [`remove`] are about those.
//!
//! # When a server looks
//! A server looks for the file when it opens a table that is not in its table definition cache. What it has found, be it the
//! file or its own table, it keeps until the table leaves the cache, at the latest until `FLUSH TABLES`. `SHOW TABLES` reads
//! the folder every time.

mod column;
mod definition;
pub mod federated;
mod frm;
mod leftover;
mod secret;
mod view;

use std::io;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};

use tare_tables::Table;

pub use definition::{Collation, Default, Definition, Field, Key};
pub use frm::{FrmError, write};
pub use leftover::{Leftover, foreign, list, remove};
pub use secret::{Names, Secret};

/// COMMENT of every table: whose it is, and which version.
pub const COMMENT: &str = concat!("tare ", env!("CARGO_PKG_VERSION"));

/// Why files could not be made, removed or listed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// There is no such directory.
    #[error("{} is not a directory", .0.display())]
    NoDirectory(PathBuf),
    /// The directory is not one of a server.
    #[error("{} is not a data directory: it has no folder `{missing}`", path.display())]
    NotADataDirectory {
        /// The directory.
        path: PathBuf,
        /// What a data directory has and this one has not.
        missing: &'static str,
    },
    /// The user who runs this may not.
    #[error("no permission to {what} {}", path.display())]
    Permission {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
    },
    /// The system said no in another way.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A table cannot be written as a `.frm`.
    #[error("table {table}: {source}")]
    Frm {
        /// Its name.
        table: &'static str,
        /// Why not.
        source: FrmError,
    },
}

/// A table's file.
#[derive(Clone, Debug)]
pub struct File {
    /// The table's name.
    pub table: &'static str,
    /// What is in it.
    pub content: Vec<u8>,
}

impl File {
    /// What it is called in the folder.
    pub fn name(&self) -> String {
        format!("{}.{EXTENSION}", self.table)
    }
}

/// How the names of definitions' files end.
const EXTENSION: &str = "frm";

/// Makes the files of these tables, and the names by which they ask `endpoint` for rows: new ones each time.
///
/// # Errors
/// When a table does not fit the format, or the system gives no randomness.
pub fn files(tables: &[&dyn Table], endpoint: SocketAddrV4) -> Result<(Vec<File>, Names), InstallError> {
    let mut names = Names::default();
    let file = |table: &&dyn Table| {
        let content = match table.body() {
            Some(body) => view::write(table.name(), &body),
            None => {
                let connection = federated::connection(endpoint, table.name(), names.add(table.name())?);
                write(&Definition::of(*table, &connection, COMMENT))
                    .map_err(|source| InstallError::Frm { table: table.name(), source })?
            }
        };
        Ok(File { table: table.name(), content })
    };
    let files = tables.iter().map(file).collect::<Result<Vec<_>, _>>()?;
    Ok((files, names))
}

fn failure(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> InstallError {
    let path = path.to_path_buf();
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied => InstallError::Permission { what, path },
        _ => InstallError::Io { what, path, source },
    }
}
