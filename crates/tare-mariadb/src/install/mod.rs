//! The tables' files, as a server finds them in its folder `performance_schema`.
//!
//! A server serves a `.frm` file there as a table of that name, in place of its own table. The files define
//! FEDERATED tables, which ask the provider's endpoint for the rows ([`federated`]; `FEDERATED.md` lists what
//! they send). A table whose rows are the server's own is a view, in a file with the same kind of name
//! (`view`).
//!
//! The files are created at each start and shown to the server by [`crate::interpose::folder`]. They are on
//! no disk, and the secret names of the tables ([`NameSecret`]) end with the process. Earlier versions wrote
//! them to disk, where a crash or a copy of the data directory left them; [`list`] and [`remove`] handle
//! those.
//!
//! # When a server looks
//!
//! A server looks for the file when it opens a table that is not in its table definition cache. It keeps what
//! it has found, the file or its own table, until the table leaves the cache, at the latest until `FLUSH
//! TABLES`. `SHOW TABLES` reads the folder every time.

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

pub use definition::{Collation, Default, FrmField, KeyDefinition, TableDefinition};
pub use frm::{FrmError, write};
pub use leftover::{Leftover, foreign, list, remove};
pub use secret::{NameSecret, SecretNames};

/// The COMMENT of every table, which identifies tare and its version.
pub const COMMENT: &str = concat!("tare ", env!("CARGO_PKG_VERSION"));

/// The reason files could not be created, removed or listed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The directory does not exist.
    #[error("{} is not a directory", .0.display())]
    NoDirectory(PathBuf),
    /// The directory is not a server's data directory.
    #[error("{} is not a data directory: it has no folder `{missing}`", path.display())]
    NotADataDirectory {
        /// The directory's path.
        path: PathBuf,
        /// The folder that a data directory has and this one lacks.
        missing: &'static str,
    },
    /// The user lacks a permission.
    #[error("no permission to {what} {}", path.display())]
    Permission {
        /// The attempted operation.
        what: &'static str,
        /// The file's path.
        path: PathBuf,
    },
    /// The system reported any other error.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The attempted operation.
        what: &'static str,
        /// The file's path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A table cannot be written as a `.frm`.
    #[error("table {table}: {source}")]
    Frm {
        /// The table's name.
        table: &'static str,
        /// The reason.
        source: FrmError,
    },
}

/// A table's file.
#[derive(Clone, Debug)]
pub struct TableFile {
    /// The table's name.
    pub table: &'static str,
    /// The file's content.
    pub content: Vec<u8>,
}

impl TableFile {
    /// Returns the file's name in the folder.
    pub fn name(&self) -> String {
        format!("{}.{EXTENSION}", self.table)
    }
}

/// The extension of definition files.
const EXTENSION: &str = "frm";

/// Creates the files of these tables, and the secret names by which they ask `endpoint` for rows. The names
/// are new each time.
///
/// # Errors
///
/// When a table does not fit the format, or the system has no random bytes.
pub fn files(
    tables: &[&dyn Table],
    endpoint: SocketAddrV4,
) -> Result<(Vec<TableFile>, SecretNames), InstallError> {
    let mut names = SecretNames::default();
    let file = |table: &&dyn Table| {
        let content = match table.body() {
            Some(body) => view::write(table.name(), &body),
            None => {
                let connection = federated::connection(endpoint, table.name(), names.add(table.name())?);
                write(&TableDefinition::of(*table, &connection, COMMENT))
                    .map_err(|source| InstallError::Frm { table: table.name(), source })?
            }
        };
        Ok(TableFile { table: table.name(), content })
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
