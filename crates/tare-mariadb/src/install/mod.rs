//! The tables in a server's data directory: `.frm` files in its `performance_schema` folder.
//!
//! A server serves such a file as a FEDERATED table under that name, in place of its own table of the same name.
//! FEDERATED then asks the provider's endpoint for the rows ([`federated`]; `FEDERATED.md` holds what it sends).
//! A table whose rows are the server's own is a view, in a file of the same kind of name (`view`).
//!
//! # When a server sees a change
//! A server looks at the folder when it opens a table that is not in its table definition cache. So:
//! - before the server serves its first client: always, at once;
//! - on a running server: at once for tables not opened since it started (or since they left the cache), else after
//!   `FLUSH TABLES` (or `FLUSH TABLES performance_schema.threads`). `SHOW TABLES` reads the folder every time.
//!
//! # When files come and go
//! The provider installs at every start and removes at every clean exit, so a server started without it finds its
//! folder as it was made. After a crash the files stay until the provider's next start, or until `tare tables remove`
//! (or `rm performance_schema/*.frm`: a stock folder holds none). `FEDERATED.md`, "Leftovers", says what a server makes
//! of them without the provider.
//!
//! # What is never done
//! No file is written over, or removed, that does not carry the mark: a FEDERATED table of that name, user and schema
//! in its connect string, and `tare` in its comment; or a view with `tare` and that name in its source. Files appear whole or not at all, also across a power failure.

mod column;
mod definition;
pub mod federated;
mod frm;
mod secret;
mod view;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddrV4;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use tare_tables::Table;

pub use definition::{Collation, Default, Definition, Field, Key};
pub use frm::{FrmError, write};
pub use secret::{Names, Secret};

/// COMMENT of every installed table: whose it is, and which version.
pub const COMMENT: &str = concat!("tare ", env!("CARGO_PKG_VERSION"));

/// No `.frm` is larger.
const LARGEST: u64 = 512 * 1024;
/// What a file is called until it is whole. The server takes only names in `.frm` for tables.
const UNFINISHED: &str = "tare-new";

/// Why tables could not be installed, removed or listed.
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

/// What [`install`] did, by table names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Written now.
    pub written: Vec<String>,
    /// There before, with the same bytes.
    pub unchanged: Vec<String>,
    /// Of another version of the provider, which served a table this one does not.
    pub removed: Vec<String>,
    /// Not touched: a file of this name is somebody else's.
    pub foreign: Vec<String>,
}

/// An installed table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Its name.
    pub table: String,
    /// `tare` and the version that wrote it: its COMMENT, or what its source as a view begins with.
    pub comment: String,
    /// Its CONNECTION; a view has none.
    pub connection: Option<String>,
}

impl Installed {
    /// The secret in its connection; a view has none, nor has a table of an older version.
    fn secret(&self) -> Option<Secret> {
        let name = federated::name_in(self.connection.as_deref()?, &self.table)?;
        Some(federated::named(name)?.1)
    }
}

/// Puts these tables, and no other ones of the provider's, into a data directory.
///
/// # Errors
/// When the directory is not a server's, or files in it cannot be read or written. Tables may then be installed in
/// part; doing it again goes on from there.
pub fn install(
    datadir: &Path,
    tables: &[&dyn Table],
    endpoint: SocketAddrV4,
) -> Result<Report, InstallError> {
    let folder = Folder::open(datadir)?;
    folder.clear_unfinished()?;
    let mut report = Report::default();
    let mut fresh = Vec::new();
    for table in tables {
        let name = table.name();
        let content = folder.read(name)?;
        let image = image(*table, endpoint, &content)?;
        match content {
            Content::Ours(file, _) if file == image => report.unchanged.push(name.into()),
            Content::Ours(..) | Content::Absent => fresh.push((name, image)),
            Content::Foreign => report.foreign.push(name.into()),
        }
    }
    for installed in folder.installed()? {
        if !tables.iter().any(|table| table.name() == installed.table) {
            folder.remove(&installed.table)?;
            report.removed.push(installed.table);
        }
    }
    folder.put(&fresh)?;
    report.written.extend(fresh.into_iter().map(|(name, _)| name.to_owned()));
    Ok(report)
}

/// Takes every table of the provider's out of a data directory; returns their names.
///
/// # Errors
/// When the directory is not a server's, or files in it cannot be read or removed.
pub fn remove(datadir: &Path) -> Result<Vec<String>, InstallError> {
    let folder = Folder::open(datadir)?;
    folder.clear_unfinished()?;
    let installed = folder.installed()?;
    installed.iter().try_for_each(|it| folder.remove(&it.table))?;
    Ok(installed.into_iter().map(|it| it.table).collect())
}

/// The tables of the provider's in a data directory, by name.
///
/// # Errors
/// When the directory is not a server's or cannot be read.
pub fn list(datadir: &Path) -> Result<Vec<Installed>, InstallError> {
    Folder::open(datadir)?.installed()
}

/// The `.frm` of a table or view. It keeps the secret of the file it takes the place of: a server may have that open.
fn image(table: &dyn Table, endpoint: SocketAddrV4, before: &Content) -> Result<Vec<u8>, InstallError> {
    if let Some(body) = table.body() {
        return Ok(view::write(table.name(), &body));
    }
    let kept = match before {
        Content::Ours(_, installed) => installed.secret(),
        Content::Absent | Content::Foreign => None,
    };
    let secret = kept.map_or_else(Secret::random, Ok)?;
    let connection = federated::connection(endpoint, table.name(), &secret);
    write(&Definition::of(table, &connection, COMMENT))
        .map_err(|source| InstallError::Frm { table: table.name(), source })
}

/// What lies under a table's name.
enum Content {
    Absent,
    Ours(Vec<u8>, Installed),
    Foreign,
}

/// A server's folder of `performance_schema`.
struct Folder {
    path: PathBuf,
    /// Its user and group: the server's.
    owner: (u32, u32),
}

impl Folder {
    fn open(datadir: &Path) -> Result<Folder, InstallError> {
        directory(datadir)?.ok_or_else(|| InstallError::NoDirectory(datadir.into()))?;
        let part = |name: &'static str| {
            let missing = || InstallError::NotADataDirectory { path: datadir.into(), missing: name };
            directory(&datadir.join(name))?.ok_or_else(missing)
        };
        // Every data directory has the first, and nothing else that has the second.
        part("mysql")?;
        let folder = part(federated::SCHEMA)?;
        Ok(Folder { path: datadir.join(federated::SCHEMA), owner: (folder.uid(), folder.gid()) })
    }

    fn file(&self, table: &str) -> PathBuf {
        self.path.join(format!("{table}.frm"))
    }

    fn unfinished(&self, table: &str) -> PathBuf {
        self.path.join(format!("{table}.{UNFINISHED}"))
    }

    /// Names in the folder with this extension, without it.
    fn names(&self, extension: &str) -> Result<Vec<String>, InstallError> {
        let failed = || failure("read", &self.path);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed())? {
            let path = entry.map_err(failed())?.path();
            let named = path.extension().is_some_and(|it| it == extension);
            if let (true, Some(stem)) = (named, path.file_stem().and_then(|stem| stem.to_str())) {
                names.push(stem.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn installed(&self) -> Result<Vec<Installed>, InstallError> {
        let mut installed = Vec::new();
        for name in self.names("frm")? {
            if let Content::Ours(_, it) = self.read(&name)? {
                installed.push(it);
            }
        }
        Ok(installed)
    }

    fn read(&self, table: &str) -> Result<Content, InstallError> {
        let path = self.file(table);
        match fs::symlink_metadata(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Content::Absent),
            Err(e) => return Err(failure("read", &path)(e)),
            Ok(metadata) if !metadata.is_file() || metadata.len() > LARGEST => return Ok(Content::Foreign),
            Ok(_) => {}
        }
        let file = fs::read(&path).map_err(failure("read", &path))?;
        Ok(match mark(&file, table) {
            Some(installed) => Content::Ours(file, installed),
            None => Content::Foreign,
        })
    }

    /// Writes all, then names all: a power failure leaves each whole or absent, and one wait for the disk does for all.
    fn put(&self, files: &[(&str, Vec<u8>)]) -> Result<(), InstallError> {
        if files.is_empty() {
            return Ok(());
        }
        let open = |(table, image): &(&str, Vec<u8>)| self.write_unfinished(table, image);
        let opened = files.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        for (file, (table, _)) in opened.iter().zip(files) {
            file.sync_data().map_err(failure("write", &self.unfinished(table)))?;
        }
        for (table, _) in files {
            fs::rename(self.unfinished(table), self.file(table))
                .map_err(failure("name", &self.file(table)))?;
        }
        File::open(&self.path).and_then(|folder| folder.sync_all()).map_err(failure("write", &self.path))
    }

    fn write_unfinished(&self, table: &str, image: &[u8]) -> Result<File, InstallError> {
        let path = self.unfinished(table);
        let write = || -> io::Result<File> {
            // Only a new file: nothing that lies there, no link either, is written through.
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o660).open(&path)?;
            let metadata = file.metadata()?;
            if (metadata.uid(), metadata.gid()) != self.owner {
                fchown(&file, Some(self.owner.0), Some(self.owner.1))?;
            }
            // Whatever the umask.
            file.set_permissions(fs::Permissions::from_mode(0o660))?;
            file.write_all(image)?;
            Ok(file)
        };
        write().map_err(failure("write", &path))
    }

    fn remove(&self, table: &str) -> Result<(), InstallError> {
        delete(&self.file(table))
    }

    /// What an interrupted installation left.
    fn clear_unfinished(&self) -> Result<(), InstallError> {
        self.names(UNFINISHED)?.iter().try_for_each(|table| delete(&self.unfinished(table)))
    }
}

/// A directory's metadata; `None` when there is none of this name.
fn directory(path: &Path) -> Result<Option<fs::Metadata>, InstallError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_dir().then_some(metadata)),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(failure("read", path)(e)),
    }
}

/// Removes a file that may be gone already.
fn delete(path: &Path) -> Result<(), InstallError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failure("remove", path)(e)),
        _ => Ok(()),
    }
}

/// Whether this is a file the provider wrote for this table.
fn mark(file: &[u8], table: &str) -> Option<Installed> {
    if let Some(comment) = view::read_mark(file, table) {
        return Some(Installed { table: table.into(), comment, connection: None });
    }
    let mark = frm::read_mark(file)?;
    let connection = String::from_utf8_lossy(&mark.connection).into_owned();
    let ours = mark.comment.starts_with("tare ") && federated::name_in(&connection, table).is_some();
    ours.then(|| Installed { table: table.into(), comment: mark.comment, connection: Some(connection) })
}

fn failure(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> InstallError {
    let path = path.to_path_buf();
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied => InstallError::Permission { what, path },
        _ => InstallError::Io { what, path, source },
    }
}
