//! Files that earlier versions wrote into a data directory and that a crash or a copy of the directory left
//! there.
//!
//! Only files with tare's mark are removed: a FEDERATED table of that name with tare's user and schema in its
//! connect string and `tare` in its comment, or a view with `tare` and that name in its source.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{EXTENSION, InstallError, failure, federated, frm, view};

/// The largest file of a definition in bytes.
const LARGEST: u64 = 512 * 1024;
/// The extension that a file had until it was complete.
const UNFINISHED: &str = "tare-new";

/// A file of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The table's name.
    pub table: String,
    /// The text `tare` and the version that wrote the file: its COMMENT, or the beginning of its source as a
    /// view.
    pub comment: String,
}

/// Removes every file of the provider from a data directory; returns the tables' names.
///
/// # Errors
///
/// When the directory is not a server's, or files in it cannot be read or removed.
pub fn remove(datadir: &Path) -> Result<Vec<String>, InstallError> {
    let folder = SchemaFolder::open(datadir)?;
    folder.names(UNFINISHED)?.iter().try_for_each(|table| delete(&folder.file(table, UNFINISHED)))?;
    let leftovers = folder.leftovers()?;
    leftovers.iter().try_for_each(|it| delete(&folder.file(&it.table, EXTENSION)))?;
    Ok(leftovers.into_iter().map(|it| it.table).collect())
}

/// Returns the provider's files in a data directory, by table name.
///
/// # Errors
///
/// When the directory is not a server's or cannot be read.
pub fn list(datadir: &Path) -> Result<Vec<Leftover>, InstallError> {
    SchemaFolder::open(datadir)?.leftovers()
}

/// Returns whether a foreign file has this table's name in a data directory.
///
/// # Errors
///
/// When the directory is not a server's or cannot be read.
pub fn foreign(datadir: &Path, table: &str) -> Result<bool, InstallError> {
    Ok(matches!(SchemaFolder::open(datadir)?.read(table)?, FolderContent::Foreign))
}

/// The kind of file that has a table's name.
enum FolderContent {
    Absent,
    Ours(Leftover),
    Foreign,
}

/// The `performance_schema` folder of a server.
struct SchemaFolder(PathBuf);

impl SchemaFolder {
    fn open(datadir: &Path) -> Result<SchemaFolder, InstallError> {
        if !is_directory(datadir)? {
            return Err(InstallError::NoDirectory(datadir.into()));
        }
        // Every data directory has the first folder, and only data directories have the second.
        for missing in ["mysql", federated::SCHEMA] {
            if !is_directory(&datadir.join(missing))? {
                return Err(InstallError::NotADataDirectory { path: datadir.into(), missing });
            }
        }
        Ok(SchemaFolder(datadir.join(federated::SCHEMA)))
    }

    fn file(&self, table: &str, extension: &str) -> PathBuf {
        self.0.join(format!("{table}.{extension}"))
    }

    /// Returns the names of the folder's files with this extension, without it.
    fn names(&self, extension: &str) -> Result<Vec<String>, InstallError> {
        let failed = || failure("read", &self.0);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(failed())? {
            let path = entry.map_err(failed())?.path();
            let named = path.extension().is_some_and(|it| it == extension);
            if let (true, Some(stem)) = (named, path.file_stem().and_then(|stem| stem.to_str())) {
                names.push(stem.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn leftovers(&self) -> Result<Vec<Leftover>, InstallError> {
        let mut leftovers = Vec::new();
        for name in self.names(EXTENSION)? {
            if let FolderContent::Ours(it) = self.read(&name)? {
                leftovers.push(it);
            }
        }
        Ok(leftovers)
    }

    fn read(&self, table: &str) -> Result<FolderContent, InstallError> {
        let path = self.file(table, EXTENSION);
        match fs::symlink_metadata(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(FolderContent::Absent),
            Err(e) => return Err(failure("read", &path)(e)),
            Ok(metadata) if !metadata.is_file() || metadata.len() > LARGEST => {
                return Ok(FolderContent::Foreign);
            }
            Ok(_) => {}
        }
        let file = fs::read(&path).map_err(failure("read", &path))?;
        let comment = mark(&file, table);
        Ok(comment.map_or(FolderContent::Foreign, |comment| {
            FolderContent::Ours(Leftover { table: table.into(), comment })
        }))
    }
}

fn is_directory(path: &Path) -> Result<bool, InstallError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
        Err(e) => Err(failure("read", path)(e)),
    }
}

/// Removes a file that may not exist any more.
fn delete(path: &Path) -> Result<(), InstallError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failure("remove", path)(e)),
        _ => Ok(()),
    }
}

/// Returns the comment in a file that the provider wrote for this table.
fn mark(file: &[u8], table: &str) -> Option<String> {
    if let Some(comment) = view::read_mark(file, table) {
        return Some(comment);
    }
    let mark = frm::read_mark(file)?;
    let connection = String::from_utf8_lossy(&mark.connection);
    let ours = mark.comment.starts_with("tare ") && federated::is_of(&connection, table);
    ours.then_some(mark.comment)
}
