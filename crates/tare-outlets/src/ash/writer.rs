//! Writing of the file: samples as JSON Lines, below a header with each start, restart of the server, and
//! rotation.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

use humantime::format_rfc3339_millis;

use super::columns::{
    COLUMNS, DIGEST_COLUMNS, DIGESTS, HISTORY, LATE, LATE_COLUMNS, STATUS, STATUS_COLUMNS, THREAD_COLUMNS,
    THREADS, head, place,
};
use super::file::may_go_on;
use super::holders::Holder;
use super::{AshError, Sample};
use crate::destination::{Control, Destination, DestinationWriter};
use crate::snapshot::json_lines::{JsonLines, SnapshotLine};
use crate::snapshot::{SnapshotColumn, SnapshotHeader, SnapshotTotals, TableHead, Tail, Value};

/// Most texts of digests that are remembered.
const MOST_TEXTS: usize = 20_000;

/// The open file.
pub(super) struct Writer<'a> {
    sink: DestinationWriter<'a>,
    destination: Destination,
    /// The open file, locked.
    lock: Option<File>,
    control: &'a dyn Control,
    heads: [TableHead; 5],
    /// The beginning of each file; `None` before the first server has answered.
    begin: Option<(SnapshotHeader, Vec<(&'static str, String)>)>,
    /// Texts of digests, and the digests whose texts are in this file.
    texts: BTreeMap<String, String>,
    told: HashSet<(Option<String>, String)>,
    /// Sessions that others waited for, by THREAD_ID, and those that are in this file.
    holders: BTreeMap<u64, Holder>,
    told_holders: HashSet<u64>,
    /// Whether something is missing, so that a header has to come next.
    has_gap: bool,
    /// Number of rows of the history since the last header.
    rows: u64,
    /// Samples and rows written in all, and samples that could not be written.
    pub(super) samples: u64,
    pub(super) all_rows: u64,
    pub(super) unwritten: u64,
}

impl<'a> Writer<'a> {
    /// Opens the destination. `None` if it is a pipe, and the end comes before somebody reads it.
    pub(super) fn open(
        destination: &Destination,
        control: &'a dyn Control,
    ) -> Result<Option<Writer<'a>>, AshError> {
        let place = destination.to_string();
        if !destination.can_make_way() {
            return Err(AshError::NoRotation(place));
        }
        let failed = |error| AshError::Destination { place: place.clone(), error };
        let was_cut = match state(destination).map_err(failed)? {
            State::Foreign => return Err(AshError::Foreign(place)),
            State::Cut => true,
            State::Whole => false,
        };
        let Some(mut sink) = DestinationWriter::open(destination, "samples", control).map_err(failed)? else {
            return Ok(None);
        };
        let lock = match locked(destination) {
            Locked::By(own) => own,
            Locked::ByAnother => return Err(AshError::Busy(place)),
        };
        if was_cut {
            sink.put("\n", 0);
        }
        Ok(Some(Writer {
            sink,
            destination: destination.clone(),
            lock,
            control,
            heads: [
                head(STATUS, &STATUS_COLUMNS),
                head(DIGESTS, &DIGEST_COLUMNS),
                head(HISTORY, &COLUMNS),
                head(LATE, &LATE_COLUMNS),
                head(THREADS, &THREAD_COLUMNS),
            ],
            begin: None,
            texts: BTreeMap::new(),
            told: HashSet::new(),
            holders: BTreeMap::new(),
            told_holders: HashSet::new(),
            has_gap: false,
            rows: 0,
            samples: 0,
            all_rows: 0,
            unwritten: 0,
        }))
    }

    /// Begins with a server, which may be another one or another life of it than before.
    pub(super) fn begin(&mut self, header: SnapshotHeader, status: Vec<(&'static str, String)>) {
        self.finish();
        self.begin = Some((header, status));
        // Of another life of the server they would be others.
        self.holders.clear();
        self.write_begin();
        let _without_samples = self.flush();
    }

    /// Adds a sample. Samples without a row leave no trace.
    pub(super) fn write(&mut self, sample: &Sample) {
        if self.control.reopens() {
            self.reopen();
        }
        if sample.rows.is_empty() && sample.late.is_empty() {
            return;
        }
        let now = now_us();
        if self.sink.is_due(now) {
            self.rotate(now);
        }
        if std::mem::take(&mut self.has_gap) {
            self.write_begin();
        }
        if self.texts.len() > MOST_TEXTS {
            self.texts.clear();
        }
        if self.holders.len() > MOST_TEXTS {
            self.holders.clear();
        }
        for holder in &sample.holders {
            self.holders.extend(holder[0].count().map(|thread| (thread, holder.clone())));
        }
        for (digest, text) in &sample.texts {
            if !self.texts.contains_key(digest) {
                self.texts.insert(digest.clone(), text.clone());
            }
        }
        let mut record = vec![];
        for row in &sample.rows {
            let of = |column: &str| row[place(column)].text().map(str::to_owned);
            if let Some(digest) = of("DIGEST") {
                self.add_text(of("SCHEMA_NAME"), digest, &mut record);
            }
            if let Some(thread) = row[place("BLOCKING_THREAD_ID")].count() {
                self.add_holder(thread, &mut record);
            }
            add_row(&mut record, &self.heads[2], row);
        }
        for late in &sample.late {
            self.texts.entry(late.digest.clone()).or_insert_with(|| late.text.clone());
            self.add_text(late.schema.clone(), late.digest.clone(), &mut record);
            let key = [
                Value::Unsigned(late.thread),
                Value::Unsigned(late.event_id),
                Value::Text(late.digest.clone()),
            ];
            add_row(&mut record, &self.heads[3], &key);
        }
        self.sink.put(record, 0);
        self.rows += sample.rows.len() as u64;
        let is_written = self.flush();
        let of_sample = u64::from(!sample.rows.is_empty());
        if is_written {
            self.samples += of_sample;
            self.all_rows += sample.rows.len() as u64;
        } else {
            self.unwritten += of_sample;
        }
    }

    /// Ends the file with the lines that mark it as complete.
    pub(super) fn end(&mut self) {
        self.finish();
        let _without_samples = self.flush();
    }

    /// Returns whether nobody reads it any more.
    pub(super) fn is_gone(&self) -> bool {
        self.sink.is_gone()
    }

    /// Adds the text of a digest, once in each file.
    fn add_text(&mut self, schema: Option<String>, digest: String, record: &mut Vec<u8>) {
        let Some(text) = self.texts.get(&digest) else { return };
        let key = (schema, digest);
        if self.told.contains(&key) {
            return;
        }
        let schema = key.0.clone().map_or(Value::Null, Value::Text);
        let values = [schema, Value::Text(key.1.clone()), Value::Text(text.clone())];
        add_row(record, &self.heads[1], &values);
        self.told.insert(key);
    }

    /// Adds the account of a session that another waits for, once in each file.
    fn add_holder(&mut self, thread: u64, record: &mut Vec<u8>) {
        if let Some(holder) = self.holders.get(&thread)
            && self.told_holders.insert(thread)
        {
            add_row(record, &self.heads[4], holder);
        }
    }

    fn write_begin(&mut self) {
        let Some((header, status)) = &mut self.begin else { return };
        header.taken_at = format_rfc3339_millis(SystemTime::now()).to_string();
        let mut record = vec![];
        add_line(&mut record, &SnapshotLine::Header { snapshot: header.clone() });
        for head in &self.heads {
            add_line(&mut record, &SnapshotLine::Head(head.clone()));
        }
        for (name, value) in status.iter() {
            add_row(
                &mut record,
                &self.heads[0],
                &[Value::Text((*name).to_owned()), Value::Text(value.clone())],
            );
        }
        self.sink.put(record, 0);
        self.told.clear();
        self.told_holders.clear();
        self.rows = 0;
    }

    /// Adds the lines that end what the last header began.
    fn finish(&mut self) {
        if self.begin.is_none() {
            return;
        }
        let read_at = format_rfc3339_millis(SystemTime::now()).to_string();
        let tail = Tail { table: HISTORY.to_owned(), read_at, seconds: 0.0, rows: self.rows, error: None };
        let mut record = vec![];
        add_line(&mut record, &SnapshotLine::Tail(tail));
        add_line(
            &mut record,
            &SnapshotLine::End { end: SnapshotTotals { tables: 1, rows: self.rows, unread: 0 } },
        );
        self.sink.put(record, 0);
    }

    fn rotate(&mut self, now_us: u64) {
        self.end();
        if let Err(error) = self.sink.rotate(now_us) {
            self.control.tell(&format!(
                "{}: {error}; it goes on in the file it has, and makes way when that has grown as much again",
                self.destination
            ));
        }
        self.lock_again();
        self.write_begin();
    }

    fn reopen(&mut self) {
        self.end();
        if let Err(error) = self.sink.reopen() {
            self.control.tell(&format!("{}: {error}; it goes on in the file it had", self.destination));
        }
        self.lock_again();
        self.write_begin();
    }

    /// Locks the file that was just begun.
    fn lock_again(&mut self) {
        match locked(&self.destination) {
            Locked::By(own) => self.lock = own,
            // It may be the file it had.
            Locked::ByAnother if self.lock.as_ref().is_some_and(|own| is_at(own, &self.destination)) => {}
            Locked::ByAnother => {
                self.control.tell(&format!("{}: another process records into it, too", self.destination));
            }
        }
    }

    /// Writes what has been put, and returns whether all of it was written.
    fn flush(&mut self) -> bool {
        let flushed = self.sink.flush();
        if flushed.unwritten > 0 {
            // A header or texts may be among it.
            self.has_gap = true;
        }
        if let Some(line) = flushed.news {
            self.control.tell(&line);
        }
        flushed.unwritten == 0
    }
}

/// Contents of the destination before anything is written.
enum State {
    Whole,
    /// Its last line is incomplete. What is added must not become a part of it.
    Cut,
    /// It is something else.
    Foreign,
}

/// Opens the destination for reading; `None`: there is no such regular file.
fn regular(destination: &Destination) -> io::Result<Option<File>> {
    let Destination::File(path, _) = destination else { return Ok(None) };
    // A pipe would be waited for.
    match fs::metadata(path) {
        Ok(about) if about.is_file() => File::open(path).map(Some),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn state(destination: &Destination) -> io::Result<State> {
    let Some(mut file) = regular(destination)? else { return Ok(State::Whole) };
    if file.metadata()?.len() == 0 {
        return Ok(State::Whole);
    }
    if !may_go_on(&file)? {
        return Ok(State::Foreign);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(if last == *b"\n" { State::Whole } else { State::Cut })
}

/// Who has the lock of a file that has one writer.
enum Locked {
    /// This process; `None`: it is no regular file, or its file system has no locks.
    By(Option<File>),
    ByAnother,
}

fn locked(destination: &Destination) -> Locked {
    let Ok(Some(file)) = regular(destination) else { return Locked::By(None) };
    match file.try_lock() {
        Ok(()) => Locked::By(Some(file)),
        Err(TryLockError::WouldBlock) => Locked::ByAnother,
        Err(TryLockError::Error(_)) => Locked::By(None),
    }
}

fn is_at(file: &File, destination: &Destination) -> bool {
    let Destination::File(path, _) = destination else { return false };
    let (Ok(own), Ok(there)) = (file.metadata(), fs::metadata(path)) else { return false };
    (own.dev(), own.ino()) == (there.dev(), there.ino())
}

fn add_line(to: &mut Vec<u8>, line: &SnapshotLine) {
    let mut lines = JsonLines::new(to, false);
    // Memory takes everything.
    let _never_fails = lines.line(line);
}

/// Adds a row without its NULLs, which a reader knows by their absence.
fn add_row(to: &mut Vec<u8>, head: &TableHead, row: &[Value]) {
    let (columns, values): (Vec<SnapshotColumn>, Vec<Value>) = head
        .columns
        .iter()
        .zip(row)
        .filter(|(_, value)| **value != Value::Null)
        .map(|(column, value)| (column.clone(), value.clone()))
        .unzip();
    let _never_fails = JsonLines::new(to, false).row(&head.table, &columns, &values);
}

fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}
