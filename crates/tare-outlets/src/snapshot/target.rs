//! The destination of a snapshot: a file, a folder or a stream. It is written under a temporary name beside
//! and renamed at the end, so it appears completely or not at all.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempDir};

use super::json_lines::{JsonLines, SnapshotLine};
use super::{
    Error, SnapshotColumn, SnapshotHeader, SnapshotSink, SnapshotTotals, TableHead, Tail, Value, parquet,
};

/// The index of a folder: a snapshot as JSON Lines, without the rows.
pub(super) const INDEX: &str = "snapshot.jsonl";
/// Prefix of temporary names.
const UNFINISHED: &str = ".tare-snapshot-";
/// Mode of what is written: statements may contain secrets.
const PRIVATE: u32 = 0o700;

/// The destination of a snapshot, which implies the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotTarget {
    /// Standard output, as JSON Lines.
    Output,
    /// A file of JSON Lines.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Whether it is compressed.
        compress: bool,
    },
    /// A folder with a Parquet file for each table.
    Folder(PathBuf),
}

impl SnapshotTarget {
    /// Returns the target for a name: `-`, NAME.jsonl, NAME.jsonl.gz, NAME.parquet.
    ///
    /// # Errors
    /// [`Error::Name`] for any other.
    pub fn named(path: &Path) -> Result<Self, Error> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match name {
            "-" => Ok(SnapshotTarget::Output),
            _ if name.ends_with(".jsonl") => Ok(SnapshotTarget::File { path: path.into(), compress: false }),
            _ if name.ends_with(".jsonl.gz") => {
                Ok(SnapshotTarget::File { path: path.into(), compress: true })
            }
            _ if name.ends_with(".parquet") => Ok(SnapshotTarget::Folder(path.into())),
            _ => Err(Error::Name { path: path.into() }),
        }
    }

    /// Checks that nothing exists there that `force` may not replace.
    ///
    /// # Errors
    /// [`Error::Exists`], and [`Error::Foreign`] for a folder with other content.
    pub fn check(&self, force: bool) -> Result<(), Error> {
        let (SnapshotTarget::File { path, .. } | SnapshotTarget::Folder(path)) = self else { return Ok(()) };
        match path.symlink_metadata() {
            Err(_) => Ok(()),
            Ok(_) if !force => Err(Error::Exists { path: path.clone() }),
            Ok(there)
                if there.is_dir() && !(matches!(self, SnapshotTarget::Folder(_)) && is_snapshot(path)) =>
            {
                Err(Error::Foreign { path: path.clone() })
            }
            Ok(_) => Ok(()),
        }
    }
}

/// Returns whether a folder contains a snapshot and nothing else.
fn is_snapshot(folder: &Path) -> bool {
    let ours = |name: &str| name == INDEX || name.ends_with(".parquet");
    let mut names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    folder.join(INDEX).is_file() && names.all(|name| name.to_str().is_some_and(ours))
}

/// Writes a snapshot, which `fill` passes to the sink it gets. On an error nothing is left.
///
/// # Errors
/// Those of `fill`, and what cannot be written.
pub fn write(
    target: &SnapshotTarget,
    header: &SnapshotHeader,
    force: bool,
    fill: impl FnOnce(&mut dyn SnapshotSink) -> Result<SnapshotTotals, Error>,
) -> Result<SnapshotTotals, Error> {
    target.check(force)?;
    match target {
        SnapshotTarget::Output => {
            let out = BufWriter::new(io::stdout().lock());
            fill(&mut JsonStream::new("standard output".into(), out, false, header)?)
        }
        SnapshotTarget::File { path, compress } => {
            let failed = |error| Error::Write { path: path.clone(), error };
            let beside =
                tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(parent(path)).map_err(failed)?;
            let out = BufWriter::new(beside.as_file().try_clone().map_err(failed)?);
            let totals = fill(&mut JsonStream::new(path.clone(), out, *compress, header)?)?;
            beside.as_file().sync_all().map_err(failed)?;
            rename_file(beside, path, force).map(|()| totals)
        }
        SnapshotTarget::Folder(path) => {
            let failed = |error| Error::Write { path: path.clone(), error };
            let beside = tempfile::Builder::new()
                .prefix(UNFINISHED)
                .permissions(Permissions::from_mode(PRIVATE))
                .tempdir_in(parent(path))
                .map_err(failed)?;
            let totals = fill(&mut Folder::new(beside.path(), path, header)?)?;
            rename_folder(beside, path).map_err(failed).map(|()| totals)
        }
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn rename_file(file: NamedTempFile, path: &Path, force: bool) -> Result<(), Error> {
    let renamed = if force { file.persist(path) } else { file.persist_noclobber(path) };
    renamed.map(drop).map_err(|failed| match failed.error.kind() {
        ErrorKind::AlreadyExists => Error::Exists { path: path.into() },
        _ => Error::Write { path: path.into(), error: failed.error },
    })
}

/// Replaces a folder: the old one is renamed first, and restored if the new one cannot take its place.
fn rename_folder(folder: TempDir, path: &Path) -> io::Result<()> {
    let aside = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(parent(path))?;
    let old = aside.path().join("old");
    let was_there = match fs::rename(path, &old) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    if let Err(error) = fs::rename(folder.path(), path) {
        if was_there {
            fs::rename(&old, path)?;
        }
        return Err(error);
    }
    let _ = folder.keep();
    Ok(())
}

/// A stream of JSON Lines.
struct JsonStream<W: Write> {
    path: PathBuf,
    lines: JsonLines<W>,
    head: TableHead,
}

impl<W: Write> JsonStream<W> {
    fn new(path: PathBuf, to: W, compress: bool, header: &SnapshotHeader) -> Result<Self, Error> {
        let head = TableHead { table: String::new(), columns: vec![] };
        let mut file = JsonStream { path, lines: JsonLines::new(to, compress), head };
        file.line(&SnapshotLine::Header { snapshot: header.clone() })?;
        Ok(file)
    }

    fn line(&mut self, line: &SnapshotLine) -> Result<(), Error> {
        self.lines.line(line).map_err(|error| Error::Write { path: self.path.clone(), error })
    }
}

impl<W: Write> SnapshotSink for JsonStream<W> {
    fn begin(&mut self, head: &TableHead) -> Result<(), Error> {
        self.head = head.clone();
        self.line(&SnapshotLine::Head(head.clone()))
    }

    fn row(&mut self, row: &[Value]) -> Result<(), Error> {
        let columns: &[SnapshotColumn] = &self.head.columns;
        let written = self.lines.row(&self.head.table, columns, row);
        written.map_err(|error| Error::Write { path: self.path.clone(), error })
    }

    fn end(&mut self, tail: &Tail) -> Result<(), Error> {
        self.line(&SnapshotLine::Tail(tail.clone()))
    }

    fn finish(&mut self, totals: &SnapshotTotals) -> Result<(), Error> {
        self.line(&SnapshotLine::End { end: totals.clone() })?;
        self.lines.finish().map_err(|error| Error::Write { path: self.path.clone(), error })
    }
}

/// A folder of Parquet files, and their index.
struct Folder<'a> {
    folder: &'a Path,
    /// Final path, for errors.
    named: &'a Path,
    header: &'a SnapshotHeader,
    index: JsonLines<File>,
    table: Option<parquet::ParquetWriter<BufWriter<File>>>,
}

impl<'a> Folder<'a> {
    fn new(folder: &'a Path, named: &'a Path, header: &'a SnapshotHeader) -> Result<Self, Error> {
        let failed = |error| Error::Write { path: named.join(INDEX), error };
        let index = JsonLines::new(File::create(folder.join(INDEX)).map_err(failed)?, false);
        let mut folder = Folder { folder, named, header, index, table: None };
        folder.line(&SnapshotLine::Header { snapshot: header.clone() })?;
        Ok(folder)
    }

    fn line(&mut self, line: &SnapshotLine) -> Result<(), Error> {
        self.index.line(line).map_err(|error| self.failed(INDEX, error))
    }

    fn failed(&self, name: &str, error: io::Error) -> Error {
        Error::Write { path: self.named.join(name), error }
    }
}

/// Returns the file name of a table, if its name is valid for one.
pub(super) fn file_name(table: &str) -> io::Result<String> {
    let plain =
        !table.is_empty() && table.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'$');
    let name = || format!("{table}.parquet");
    plain
        .then(name)
        .ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, format!("no name for a table: {table:?}")))
}

impl SnapshotSink for Folder<'_> {
    fn begin(&mut self, head: &TableHead) -> Result<(), Error> {
        let begun = file_name(&head.table).and_then(|name| {
            let file = BufWriter::new(File::create_new(self.folder.join(name))?);
            parquet::ParquetWriter::new(file, head, self.header)
        });
        self.table = Some(begun.map_err(|error| self.failed(&head.table, error))?);
        self.line(&SnapshotLine::Head(head.clone()))
    }

    fn row(&mut self, row: &[Value]) -> Result<(), Error> {
        let written = self.table.as_mut().map_or(Ok(()), |table| table.row(row));
        written.map_err(|error| self.failed("", error))
    }

    fn end(&mut self, tail: &Tail) -> Result<(), Error> {
        if let Some(table) = self.table.take() {
            let written = table.finish(tail).and_then(|file| file.into_inner()?.sync_all());
            written.map_err(|error| self.failed(&tail.table, error))?;
        }
        self.line(&SnapshotLine::Tail(tail.clone()))
    }

    fn finish(&mut self, totals: &SnapshotTotals) -> Result<(), Error> {
        self.line(&SnapshotLine::End { end: totals.clone() })?;
        let synced = match &mut self.index {
            JsonLines::Plain(file) => file.sync_all(),
            JsonLines::Gzip(_) => Ok(()),
        };
        synced.map_err(|error| self.failed(INDEX, error))
    }
}
