//! Reader of snapshots in both formats, which selects tables and rows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use flate2::read::MultiGzDecoder;
use humantime::parse_rfc3339;

use super::json_lines::SnapshotLine;
use super::target::{INDEX, file_name};
use super::{Error, SnapshotHeader, TableHead, Tail, Value, parquet};

/// The first bytes of a compressed file.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Longest line of JSON, which would be read into memory. No snapshot has a longer one.
pub(crate) const LONGEST_LINE: u64 = 64 << 20;

/// A table of a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotTable {
    /// Name and columns.
    pub head: TableHead,
    /// Time of reading, and the error if it is incomplete.
    pub tail: Tail,
    /// Selected rows.
    pub rows: Vec<Vec<Value>>,
}

impl SnapshotTable {
    /// Returns the position of a column, ignoring case.
    #[must_use]
    pub fn place(&self, column: &str) -> Option<usize> {
        self.head.columns.iter().position(|it| it.name.eq_ignore_ascii_case(column))
    }

    /// Returns when it was read.
    #[must_use]
    pub fn read_at(&self) -> Option<SystemTime> {
        parse_rfc3339(&self.tail.read_at).ok()
    }
}

/// The selected parts of a snapshot.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Head of the snapshot.
    pub header: SnapshotHeader,
    /// Tables by name.
    pub tables: BTreeMap<String, SnapshotTable>,
}

impl Snapshot {
    /// Reads a file or a folder, with the rows that `wanted` selects. It is called for each table first,
    /// without a row.
    ///
    /// # Errors
    /// [`Error::Read`], with the line or the file that is wrong.
    pub fn read(path: &Path, wanted: &dyn Fn(&TableHead, Option<&[Value]>) -> bool) -> Result<Self, Error> {
        let folder = path.is_dir().then(|| path.to_owned());
        let file = folder.as_ref().map_or_else(|| path.to_owned(), |folder| folder.join(INDEX));
        let failed = |why: String| Error::Read { path: file.clone(), why };
        let mut input = BufReader::new(File::open(&file).map_err(|error| failed(error.to_string()))?);
        let compressed = input.fill_buf().is_ok_and(|begin| begin.starts_with(&GZIP));
        let input: Box<dyn BufRead> =
            if compressed { Box::new(BufReader::new(MultiGzDecoder::new(input))) } else { Box::new(input) };
        let mut reading = SnapshotReader {
            folder,
            wanted,
            header: None,
            tables: BTreeMap::new(),
            open: None,
            whole: false,
        };
        reading.lines(input).map_err(failed)?;
        if !reading.whole {
            return Err(failed("it ends too early: it was cut off".into()));
        }
        let header = reading.header.ok_or_else(|| failed("it is empty".into()))?;
        Ok(Snapshot { header, tables: reading.tables })
    }

    /// Returns a table, if it exists and could be read.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<&SnapshotTable> {
        self.tables.get(name).filter(|table| table.tail.error.is_none())
    }

    /// Returns when the snapshot was started.
    #[must_use]
    pub fn taken_at(&self) -> Option<SystemTime> {
        parse_rfc3339(&self.header.taken_at).ok()
    }
}

/// The state of reading.
struct SnapshotReader<'a> {
    /// Folder with the rows, if they are not between the lines.
    folder: Option<PathBuf>,
    wanted: &'a dyn Fn(&TableHead, Option<&[Value]>) -> bool,
    header: Option<SnapshotHeader>,
    tables: BTreeMap<String, SnapshotTable>,
    /// The table in progress, with its rows, and whether they are wanted.
    open: Option<(TableHead, Vec<Vec<Value>>, bool)>,
    whole: bool,
}

impl SnapshotReader<'_> {
    fn lines(&mut self, mut input: Box<dyn BufRead>) -> Result<(), String> {
        let (mut line, mut number) = (vec![], 0);
        loop {
            number += 1;
            line.clear();
            let read = (&mut input).take(LONGEST_LINE).read_until(b'\n', &mut line);
            if read.map_err(|error| format!("line {number}: {error}"))? == 0 {
                return Ok(());
            }
            self.line(&line).map_err(|why| format!("line {number}: {why}"))?;
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let line = serde_json::from_slice(line).map_err(|error| match self.header {
            Some(_) => format!("no line of a snapshot: {error}"),
            None => "this is no snapshot; `tare snapshot` and `tare ash` make them".to_owned(),
        })?;
        match line {
            SnapshotLine::Header { snapshot } => {
                self.header = Some(snapshot.known()?);
                Ok(())
            }
            _ if self.header.is_none() => Err("a snapshot begins with its header".into()),
            SnapshotLine::Head(head) => {
                let wanted = (self.wanted)(&head, None);
                self.open = Some((head, vec![], wanted));
                Ok(())
            }
            SnapshotLine::Row { table, mut row } => {
                let Some((head, rows, wanted)) = self.open.as_mut().filter(|(head, ..)| head.table == table)
                else {
                    return Err(format!("a row of {table}, which has not begun"));
                };
                if !*wanted {
                    return Ok(());
                }
                let value = |column: &super::SnapshotColumn| {
                    let value = row.remove(&column.name).unwrap_or_default();
                    column
                        .kind
                        .of_json(value)
                        .ok_or_else(|| format!("{table}.{}: no such value", column.name))
                };
                let row: Vec<Value> = head.columns.iter().map(value).collect::<Result<_, _>>()?;
                if (self.wanted)(head, Some(&row)) {
                    rows.push(row);
                }
                Ok(())
            }
            SnapshotLine::Tail(tail) => self.close(tail),
            SnapshotLine::End { .. } => {
                self.whole = true;
                Ok(())
            }
        }
    }

    fn close(&mut self, tail: Tail) -> Result<(), String> {
        let open = self.open.take().filter(|(head, ..)| head.table == tail.table);
        let Some((head, mut rows, wanted)) = open else {
            // Not even its columns could be read.
            let head = TableHead { table: tail.table.clone(), columns: vec![] };
            self.tables.insert(tail.table.clone(), SnapshotTable { head, tail, rows: vec![] });
            return Ok(());
        };
        if let Some(folder) = self.folder.as_ref().filter(|_| wanted) {
            let name = file_name(&head.table).map_err(|error| error.to_string())?;
            parquet::read(&folder.join(&name), &head, |row| {
                if (self.wanted)(&head, Some(&row)) {
                    rows.push(row);
                }
                Ok(())
            })
            .map_err(|why| format!("{name}: {why}"))?;
        }
        self.tables.insert(tail.table.clone(), SnapshotTable { head, tail, rows });
        Ok(())
    }
}
