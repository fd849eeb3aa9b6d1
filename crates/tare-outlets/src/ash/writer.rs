//! Writing of the file: samples as JSON Lines, below a header with each start, restart of the server, and rotation.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::time::SystemTime;

use humantime::format_rfc3339_millis;

use super::columns::{
    COLUMNS, DIGEST_COLUMNS, DIGESTS, HISTORY, LATE, LATE_COLUMNS, STATUS, STATUS_COLUMNS, head, place,
};
use super::{AshError, Sample};
use crate::destination::{Control, Destination, Sink};
use crate::snapshot::json_lines::{JsonLines, Line};
use crate::snapshot::{Column, Head, Header, Tail, Totals, Value};

/// Most texts of digests that are remembered.
const MOST_TEXTS: usize = 20_000;

/// The open file.
pub(super) struct Writer<'a> {
    sink: Sink<'a>,
    destination: Destination,
    control: &'a dyn Control,
    heads: [Head; 4],
    /// The beginning of each file; `None` before the first server has answered.
    begin: Option<(Header, Vec<(&'static str, String)>)>,
    /// Texts of digests, and the digests whose texts are in this file.
    texts: BTreeMap<String, String>,
    told: HashSet<(Option<String>, String)>,
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
        let was_cut = was_cut(destination).map_err(failed)?;
        let Some(mut sink) = Sink::open(destination, "samples", control).map_err(failed)? else {
            return Ok(None);
        };
        if was_cut {
            sink.put("\n", 0);
        }
        Ok(Some(Writer {
            sink,
            destination: destination.clone(),
            control,
            heads: [
                head(STATUS, &STATUS_COLUMNS),
                head(DIGESTS, &DIGEST_COLUMNS),
                head(HISTORY, &COLUMNS),
                head(LATE, &LATE_COLUMNS),
            ],
            begin: None,
            texts: BTreeMap::new(),
            told: HashSet::new(),
            has_gap: false,
            rows: 0,
            samples: 0,
            all_rows: 0,
            unwritten: 0,
        }))
    }

    /// Begins with a server, which may be another one or another life of it than before.
    pub(super) fn begin(&mut self, header: Header, status: Vec<(&'static str, String)>) {
        self.finish();
        self.begin = Some((header, status));
        self.write_begin();
        self.flush();
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
        self.samples += u64::from(!sample.rows.is_empty());
        self.rows += sample.rows.len() as u64;
        self.all_rows += sample.rows.len() as u64;
        self.flush();
    }

    /// Ends the file with the lines that mark it as complete.
    pub(super) fn end(&mut self) {
        self.finish();
        self.flush();
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

    fn write_begin(&mut self) {
        let Some((header, status)) = &mut self.begin else { return };
        header.taken_at = format_rfc3339_millis(SystemTime::now()).to_string();
        let mut record = vec![];
        add_line(&mut record, &Line::Header { snapshot: header.clone() });
        for head in &self.heads {
            add_line(&mut record, &Line::Head(head.clone()));
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
        add_line(&mut record, &Line::Tail(tail));
        add_line(&mut record, &Line::End { end: Totals { tables: 1, rows: self.rows, unread: 0 } });
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
        self.write_begin();
    }

    fn reopen(&mut self) {
        self.end();
        if let Err(error) = self.sink.reopen() {
            self.control.tell(&format!("{}: {error}; it goes on in the file it had", self.destination));
        }
        self.write_begin();
    }

    fn flush(&mut self) {
        let flushed = self.sink.flush();
        self.unwritten += flushed.unwritten;
        if flushed.unwritten > 0 {
            // A header or texts may be among it.
            self.has_gap = true;
        }
        if let Some(line) = flushed.news {
            self.control.tell(&line);
        }
    }
}

/// Returns whether a file's last line is incomplete. What is added must not become a part of it.
fn was_cut(destination: &Destination) -> io::Result<bool> {
    let Destination::File(path, _) = destination else { return Ok(false) };
    let mut file = match File::open(path) {
        Ok(file) if file.metadata()?.is_file() => file,
        Ok(_) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

fn add_line(to: &mut Vec<u8>, line: &Line) {
    let mut lines = JsonLines::new(to, false);
    // Memory takes everything.
    let _never_fails = lines.line(line);
}

/// Adds a row without its NULLs, which a reader knows by their absence.
fn add_row(to: &mut Vec<u8>, head: &Head, row: &[Value]) {
    let (columns, values): (Vec<Column>, Vec<Value>) = head
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
