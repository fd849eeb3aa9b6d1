//! The file of records: appended line by line, and read back.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::error::Tried;
use crate::results::record::{FORMAT, Record};
use crate::{Error, Result};

/// Name of the file in a folder of results.
pub const FILE: &str = "results.jsonl";

/// The open file of a study's records. One process at a time may have it open.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    records: Vec<Record>,
}

impl Journal {
    /// Opens the folder's file, creating both if needed. Drops an incomplete last line.
    pub fn open(folder: &Path) -> Result<Journal> {
        fs::create_dir_all(folder).tried(|| format!("making {}", folder.display()))?;
        let path = folder.join(FILE);
        let what = || format!("opening {}", path.display());
        let file = OpenOptions::new().create(true).read(true).append(true).open(&path).tried(what)?;
        file.try_lock().map_err(|_| Error::InUse(folder.into()))?;
        let (records, whole) = parse(&path)?;
        file.set_len(whole).tried(|| format!("cutting {}", path.display()))?;
        Ok(Journal { file, path, records })
    }

    /// Opens the file of an existing study.
    pub fn of_study(folder: &Path) -> Result<Journal> {
        if folder.join(FILE).exists() { Journal::open(folder) } else { Err(Error::NoResults(folder.into())) }
    }

    /// Returns all records so far.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Appends a record and syncs it to disk.
    pub fn append(&mut self, record: Record) -> Result<()> {
        let mut line = serde_json::to_string(&record).map_err(|e| self.failed(e.into()))?;
        line.push('\n');
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|e| self.failed(e))?;
        self.records.push(record);
        Ok(())
    }

    fn failed(&self, source: std::io::Error) -> Error {
        let folder = self.path.parent().unwrap_or(&self.path).to_owned();
        if source.kind() == ErrorKind::StorageFull {
            return Error::DiskFull { folder };
        }
        Error::Io { what: format!("writing {}", self.path.display()), source }
    }
}

/// Reads the records in a folder of results.
pub fn read(folder: &Path) -> Result<Vec<Record>> {
    let records = parse(&folder.join(FILE))?.0;
    if records.is_empty() { Err(Error::NoResults(folder.into())) } else { Ok(records) }
}

/// Returns the file's records, and the length of its complete lines in bytes.
fn parse(path: &Path) -> Result<(Vec<Record>, u64)> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => vec![],
        Err(e) => return Err(e).tried(|| format!("reading {}", path.display())),
    };
    let whole = text.iter().rposition(|&b| b == b'\n').map_or(0, |last| last + 1);
    let lines = text[..whole].split(|&b| b == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
    let records = lines.map(|(i, line)| {
        serde_json::from_slice(line).map_err(|e| Error::Results {
            path: path.into(),
            line: i + 1,
            why: e.to_string(),
        })
    });
    let records: Vec<Record> = records.collect::<Result<_>>()?;
    if let Some(Record::Header(header)) = records.first()
        && header.format > FORMAT
    {
        let why = format!("its format is {}, this program reads {FORMAT}: use a newer one", header.format);
        return Err(Error::Results { path: path.into(), line: 1, why });
    }
    Ok((records, whole as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::record::Note;

    fn note(at: f64) -> Record {
        Record::Note(Note { at, text: "n".into() })
    }

    #[test]
    fn a_line_cut_short_is_dropped_and_the_rest_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        Journal::open(folder.path()).expect("opens").append(note(1.0)).expect("appends");
        let path = folder.path().join(FILE);
        let mut text = fs::read(&path).expect("text");
        text.extend_from_slice(b"{\"kind\":\"note\",\"at\":2");
        fs::write(&path, text).expect("written");
        let mut journal = Journal::open(folder.path()).expect("opens");
        assert_eq!(journal.records(), [note(1.0)]);
        journal.append(note(3.0)).expect("appends");
        assert_eq!(read(folder.path()).expect("reads"), [note(1.0), note(3.0)]);
    }

    #[test]
    fn two_cannot_write_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let _first = Journal::open(folder.path()).expect("opens");
        assert!(matches!(Journal::open(folder.path()), Err(Error::InUse(_))));
    }

    #[test]
    fn damage_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(FILE), "{\"kind\":\"note\",\"at\":1,\"text\":\"\"}\nrubbish\n")
            .expect("written");
        let error = read(folder.path()).expect_err("damaged").to_string();
        assert!(error.contains("line 2"), "{error}");
        assert!(matches!(read(&folder.path().join("none")), Err(Error::NoResults(_))));
    }

    #[test]
    fn a_full_disk_says_what_to_do() {
        let file = OpenOptions::new().append(true).open("/dev/full").expect("/dev/full");
        let mut journal = Journal { file, path: "/x/results.jsonl".into(), records: vec![] };
        let error = journal.append(note(1.0)).expect_err("full");
        assert!(matches!(&error, Error::DiskFull { .. }) && error.to_string().contains("/x"), "{error}");
    }
}
