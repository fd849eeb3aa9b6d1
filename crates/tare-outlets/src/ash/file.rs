//! Reader of the file that `tare ash` writes, and of those that rotation has renamed: `FILE.2`, `FILE.1`,
//! `FILE`.
//!
//! The file may still be written, and a power loss may have cut it. Then it ends with an incomplete line, or
//! has one before the header of the next start. Everything up to the last complete row is read.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::columns::{HISTORY, LATE, head, place};
use crate::snapshot::json_lines::SnapshotLine;
use crate::snapshot::{Error, LONGEST_LINE, Snapshot, SnapshotHeader, SnapshotTable, TableHead, Tail, Value};

/// Bytes that contain the first two lines: two headers.
const FIRST_LINES: usize = 16 << 10;
/// How a header begins.
const HEADER: &[u8] = b"{\"snapshot\":";

/// Returns whether a path names a history that `tare ash` writes, perhaps at this moment, and not a snapshot.
#[must_use]
pub fn is_history(path: &Path) -> bool {
    HistoryReader::open(path).is_ok()
}

/// Reads a history with all of its rotated files, or a snapshot, with the rows that `wanted` selects. It is
/// called for each table first, without a row. Tables of a history: [`HISTORY`], its rows in the order of
/// time; the texts of its digests; accounts of sessions that others waited for; and `tare_status`.
///
/// # Errors
/// [`Error::Read`], with the line or the file that is wrong.
pub fn read(path: &Path, wanted: &dyn Fn(&TableHead, Option<&[Value]>) -> bool) -> Result<Snapshot, Error> {
    match HistoryReader::open(path) {
        Ok(reader) => collect(reader, wanted),
        Err(_) => Snapshot::read(path, wanted),
    }
}

/// Rows of one table, while they are read.
struct Collected {
    head: Arc<TableHead>,
    is_wanted: bool,
    rows: Vec<Vec<Value>>,
}

fn collect(
    mut reader: HistoryReader,
    wanted: &dyn Fn(&TableHead, Option<&[Value]>) -> bool,
) -> Result<Snapshot, Error> {
    let mut tables: BTreeMap<String, Collected> = BTreeMap::new();
    // Each file begins with the other tables again.
    let mut places: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut late = LateDigests::default();
    while let Some(entry) = reader.next() {
        let (head, row) = entry?;
        if head.table == LATE {
            if let Some(history) = tables.get_mut(HISTORY) {
                late.fill_in(reader.header(), &row, &mut history.rows);
            }
            continue;
        }
        let table = tables.entry(head.table.clone()).or_insert_with(|| {
            let is_wanted = wanted(&head, None);
            Collected { head: Arc::clone(&head), is_wanted, rows: vec![] }
        });
        if !table.is_wanted || !wanted(&head, Some(&row)) {
            continue;
        }
        if head.table == HISTORY {
            late.note(reader.header(), &row, table.rows.len());
            table.rows.push(row);
            continue;
        }
        let key = (head.table.clone(), format!("{:?}", row.split_last().map(|(_, key)| key)));
        match places.get(&key) {
            Some(at) => table.rows[*at] = row,
            None => {
                places.insert(key, table.rows.len());
                table.rows.push(row);
            }
        }
    }
    if !tables.contains_key(HISTORY) {
        let head = head(HISTORY, &super::columns::COLUMNS);
        let is_wanted = wanted(&head, None);
        tables.insert(HISTORY.to_owned(), Collected { head: Arc::new(head), is_wanted, rows: vec![] });
    }
    let header = reader.header().clone();
    let read_at = reader.written_at.unwrap_or_else(|| header.taken_at.clone());
    let table = |(name, Collected { head, rows, .. }): (String, Collected)| {
        let tail = Tail {
            table: name.clone(),
            read_at: read_at.clone(),
            seconds: 0.0,
            rows: rows.len() as u64,
            error: None,
        };
        (name, SnapshotTable { head: TableHead::clone(&head), tail, rows })
    };
    Ok(Snapshot { header, tables: tables.into_iter().map(table).collect() })
}

/// Rows of the history without a digest, by THREAD_ID and STATEMENT_EVENT_ID, of one life of a server.
#[derive(Default)]
struct LateDigests {
    started_at: Option<String>,
    rows: HashMap<(u64, u64), Vec<usize>>,
}

impl LateDigests {
    /// Forgets the rows of an earlier life: there the same numbers were other statements.
    fn live(&mut self, header: &SnapshotHeader) {
        if self.started_at != header.started_at {
            self.started_at.clone_from(&header.started_at);
            self.rows.clear();
        }
    }

    fn note(&mut self, header: &SnapshotHeader, row: &[Value], at: usize) {
        self.live(header);
        if row[place("DIGEST")] == Value::Null
            && let (Some(thread), Some(event)) =
                (row[place("THREAD_ID")].count(), row[place("STATEMENT_EVENT_ID")].count())
        {
            self.rows.entry((thread, event)).or_default().push(at);
        }
    }

    /// Gives the rows of a statement the digest that a row of [`LATE`] has.
    fn fill_in(&mut self, header: &SnapshotHeader, late: &[Value], rows: &mut [Vec<Value>]) {
        self.live(header);
        let [thread, event, digest] = late else { return };
        let Some(key) = thread.count().zip(event.count()) else { return };
        for at in self.rows.remove(&key).unwrap_or_default() {
            rows[at][place("DIGEST")] = digest.clone();
        }
    }
}

/// A reader of all rows of a history, from the oldest file to the youngest.
pub struct HistoryReader {
    /// Files that have not been begun, the next one last.
    files: Vec<(PathBuf, File)>,
    open: Option<OpenFile>,
    header: SnapshotHeader,
    /// End of the last segment that has one.
    written_at: Option<String>,
    has_failed: bool,
}

/// The file being read.
struct OpenFile {
    path: PathBuf,
    input: BufReader<File>,
    line: Vec<u8>,
    /// Number of the line.
    number: u64,
    /// Tables of the segment.
    heads: BTreeMap<String, Arc<TableHead>>,
    has_header: bool,
    /// Number of an incomplete line, and what is wrong with it.
    broken: Option<(u64, String)>,
}

/// A row and its table.
type Entry = (Arc<TableHead>, Vec<Value>);

impl HistoryReader {
    /// Opens a history: the file of this name, and those that rotation has renamed.
    ///
    /// # Errors
    /// [`Error::Read`] if none of them can be read, or it is something else.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |why: String| Error::Read { path: path.to_owned(), why };
        let files = series(path).map_err(|error| failed(error.to_string()))?;
        let mut header = None;
        for (path, file) in &files {
            let begin = first_lines(file).map_err(|error| failed(error.to_string()))?;
            match of_first_lines(&begin) {
                None => {}
                Some(SnapshotLine::Header { snapshot }) if snapshot.history => {
                    header = Some(snapshot.known().map_err(failed)?);
                }
                Some(_) => return Err(foreign(path)),
            }
        }
        let header = header.ok_or_else(|| foreign(path))?;
        Ok(HistoryReader { files, open: None, header, written_at: None, has_failed: false })
    }

    /// Returns the header that the last row is below; before the first row that of the oldest file. Each
    /// start of `tare ash` and each restart of the server adds one.
    #[must_use]
    pub fn header(&self) -> &SnapshotHeader {
        &self.header
    }

    /// Returns the next row; `None` at the end.
    fn entry(&mut self) -> Result<Option<Entry>, Error> {
        loop {
            let Some(open) = &mut self.open else {
                let Some((path, file)) = self.files.pop() else { return Ok(None) };
                self.open = Some(OpenFile::new(path, file));
                continue;
            };
            match open.next().map_err(|why| Error::Read { path: open.path.clone(), why })? {
                None => self.open = None,
                Some(Part::Header(header)) => self.header = *header,
                Some(Part::Tail(tail)) => self.written_at = Some(tail.read_at),
                Some(Part::Row(row)) => return Ok(Some(row)),
            }
        }
    }
}

impl Iterator for HistoryReader {
    type Item = Result<Entry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let entry = self.entry();
        self.has_failed = entry.is_err();
        entry.transpose()
    }
}

/// What a line has for the reader.
enum Part {
    Header(Box<SnapshotHeader>),
    Row(Entry),
    Tail(Tail),
}

/// A row, which most lines are.
#[derive(Deserialize)]
struct RowLine {
    table: String,
    row: Map<String, Json>,
}

impl OpenFile {
    fn new(path: PathBuf, file: File) -> Self {
        let input = BufReader::new(file);
        OpenFile {
            path,
            input,
            line: vec![],
            number: 0,
            heads: BTreeMap::new(),
            has_header: false,
            broken: None,
        }
    }

    /// Returns what the next lines have; `None` at the end. An error says in which line it is.
    fn next(&mut self) -> Result<Option<Part>, String> {
        loop {
            self.number += 1;
            self.line.clear();
            let read = (&mut self.input).take(LONGEST_LINE).read_until(b'\n', &mut self.line);
            if read.map_err(|error| format!("line {}: {error}", self.number))? == 0 {
                return Ok(None);
            }
            let line = parse(without_zeros(&self.line));
            if let Some((number, why)) = self.broken.take()
                && !matches!(line, Ok(SnapshotLine::Header { .. }))
            {
                return Err(format!("line {number}: no line of a history: {why}"));
            }
            match line {
                Ok(line) => {
                    let part = self.part(line).map_err(|why| format!("line {}: {why}", self.number))?;
                    if part.is_some() {
                        return Ok(part);
                    }
                }
                // It is allowed to be the last one, and to stand before a header.
                Err(error) => self.broken = Some((self.number, error.to_string())),
            }
        }
    }

    fn part(&mut self, line: SnapshotLine) -> Result<Option<Part>, String> {
        match line {
            SnapshotLine::Header { snapshot } => {
                self.has_header = true;
                self.heads.clear();
                Ok(Some(Part::Header(Box::new(snapshot.known()?))))
            }
            _ if !self.has_header => Err("a history begins with its header".into()),
            SnapshotLine::Head(head) => {
                self.heads.insert(head.table.clone(), Arc::new(head));
                Ok(None)
            }
            SnapshotLine::Row { table, mut row } => {
                let head = self.heads.get(&table);
                let head = head.ok_or_else(|| format!("a row of {table}, which has not begun"))?;
                let value = |column: &crate::snapshot::SnapshotColumn| {
                    let value = row.remove(&column.name).unwrap_or_default();
                    let value = column.kind.of_json(value);
                    value.ok_or_else(|| format!("{table}.{}: no such value", column.name))
                };
                let row = head.columns.iter().map(value).collect::<Result<_, _>>()?;
                Ok(Some(Part::Row((Arc::clone(head), row))))
            }
            SnapshotLine::Tail(tail) => Ok(Some(Part::Tail(tail))),
            SnapshotLine::End { .. } => Ok(None),
        }
    }
}

/// Removes what a file system may leave behind the last bytes that were written before a power loss.
fn without_zeros(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|byte| !matches!(byte, b'\0' | b'\n'));
    &line[..end.map_or(0, |end| end + 1)]
}

fn parse(line: &[u8]) -> serde_json::Result<SnapshotLine> {
    if let Ok(RowLine { table, row }) = serde_json::from_slice(line) {
        return Ok(SnapshotLine::Row { table, row });
    }
    serde_json::from_slice(line)
}

/// Opens a file and those that rotation has renamed, the youngest first. The youngest may be missing while
/// others are there: rotation is about to make it.
fn series(path: &Path) -> io::Result<Vec<(PathBuf, File)>> {
    let (mut files, mut seen) = (vec![], HashSet::new());
    // The youngest is opened first: if it is renamed meanwhile, it is met again under its new name.
    let youngest = File::open(path);
    if let Ok(file) = youngest.as_ref().map_err(drop).and_then(|it| it.try_clone().map_err(drop)) {
        note(path.to_owned(), file, &mut files, &mut seen)?;
    }
    for number in numbers(path)? {
        let old = PathBuf::from(format!("{}.{number}", path.display()));
        match File::open(&old) {
            Ok(file) => note(old, file, &mut files, &mut seen)?,
            // It has just been removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    match youngest {
        Err(error) if error.kind() != io::ErrorKind::NotFound || files.is_empty() => Err(error),
        _ => Ok(files),
    }
}

/// Adds a file, unless it is there under another name.
fn note(
    path: PathBuf,
    file: File,
    files: &mut Vec<(PathBuf, File)>,
    seen: &mut HashSet<(u64, u64)>,
) -> io::Result<()> {
    let about = file.metadata()?;
    if about.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if seen.insert((about.dev(), about.ino())) {
        files.push((path, file));
    }
    Ok(())
}

/// Returns the numbers of the renamed files in ascending order: the youngest first.
fn numbers(path: &Path) -> io::Result<Vec<u64>> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(vec![]) };
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = fs::read_dir(folder) else { return Ok(vec![]) };
    let number = |entry: fs::DirEntry| {
        let other = entry.file_name();
        let digits = other.to_str()?.strip_prefix(name)?.strip_prefix('.')?;
        digits.parse::<u64>().ok().filter(|number| number.to_string() == digits)
    };
    let mut numbers: Vec<u64> = entries.filter_map(Result::ok).filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn foreign(path: &Path) -> Error {
    Error::Read { path: path.to_owned(), why: "this is no active session history of tare's".to_owned() }
}

/// Returns the first bytes, without moving the file's position.
fn first_lines(file: &File) -> io::Result<Vec<u8>> {
    let mut begin = vec![0; FIRST_LINES];
    let read = file.read_at(&mut begin, 0)?;
    begin.truncate(read);
    Ok(begin)
}

/// Returns whether a file may be gone on with: it is a history, or nothing but the begin of its first line.
pub(super) fn may_go_on(file: &File) -> io::Result<bool> {
    let begin = first_lines(file)?;
    let first = without_zeros(begin.split(|byte| *byte == b'\n').next().unwrap_or_default());
    Ok(match of_first_lines(&begin) {
        Some(SnapshotLine::Header { snapshot }) => snapshot.history,
        Some(_) => false,
        None => first.starts_with(HEADER) || HEADER.starts_with(first),
    })
}

/// Returns the first line, or the second if a power loss has cut the first. `None` if there is none yet.
fn of_first_lines(begin: &[u8]) -> Option<SnapshotLine> {
    begin.split(|byte| *byte == b'\n').take(2).find_map(|line| parse(without_zeros(line)).ok())
}

#[cfg(test)]
mod tests;
