//! Slow logs: MariaDB's, MySQL's, and what `tare slowlog` writes, in either of its forms.
//!
//! MariaDB's says when a statement ended in whole seconds, so statements of a second are spread over it evenly, in their order;
//! MySQL's and JSON say it to the microsecond. A statement began when it ended less what it took.

use std::io::BufRead;

use serde::Deserialize;

use super::moment::{Moment, Spread, moment_of};
use super::take::{Sighting, Take};

/// What a record's statement is when it is none.
const COMMAND: &[u8] = b"# administrator command: ";

/// Reads a log; `None` if it is no slow log.
pub fn read(mut log: impl BufRead) -> std::io::Result<Option<Take>> {
    if log.fill_buf()?.first() == Some(&b'{') { read_json(log) } else { read_text(log) }
}

/// A record while it is read.
#[derive(Debug, Default)]
struct Record {
    connection: u64,
    seen: Sighting,
    /// When it ended, if its beginning says so to the microsecond.
    ended: Option<Moment>,
    /// The whole second in which it ended, by its `SET timestamp`.
    second: Option<f64>,
    /// Whether it was part of a stored program.
    inner: bool,
    /// Whether the lines that describe it are over.
    in_text: bool,
}

/// What a log has said so far.
#[derive(Debug, Default)]
struct Reader {
    take: Take,
    spread: Spread<Sighting>,
    /// The last `# Time:`; MariaDB writes it once for all records of a second.
    time: Option<Moment>,
    /// The last `use`.
    schema: Option<String>,
    record: Option<Record>,
}

fn read_text(log: impl BufRead) -> std::io::Result<Option<Take>> {
    let (mut reader, mut is_slow_log, mut in_banner) = (Reader::default(), false, false);
    for line in log.split(b'\n') {
        let line = line?;
        if let Some(time) = line.strip_prefix(b"# Time: ") {
            (is_slow_log, in_banner) = (true, false);
            reader.end_record();
            reader.time = moment_of(&String::from_utf8_lossy(time));
        } else if line.starts_with(b"# User@Host: ") {
            (is_slow_log, in_banner) = (true, false);
            reader.end_record();
            reader.begin_record(&line);
        } else if line.ends_with(b"started with:") && line.windows(11).any(|part| part == b", Version: ") {
            reader.end_record();
            reader.take.end_all();
            in_banner = true;
        } else if !in_banner {
            reader.line(&line);
        }
    }
    reader.end_record();
    let rest = reader.spread.rest();
    reader.place(rest);
    Ok(is_slow_log.then_some(reader.take))
}

impl Reader {
    fn begin_record(&mut self, line: &[u8]) {
        let exact = self.time.filter(|time| matches!(time, Moment::Exact(_)));
        let connection = number_behind(line, "Id:").unwrap_or(0.0);
        let mut record = Record { ended: exact, ..Record::default() };
        record.connection = as_number(connection);
        self.record = Some(record);
    }

    fn line(&mut self, line: &[u8]) {
        let Some(record) = &mut self.record else { return };
        if record.in_text {
            if !record.seen.text.is_empty() {
                record.seen.text.push(b'\n');
            }
            record.seen.text.extend_from_slice(line);
        } else if line.starts_with(b"#") && !line.starts_with(COMMAND) {
            record.describe(line);
        } else if let Some(second) = timestamp_of(line) {
            record.second = Some(second);
            record.in_text = true;
        } else if line.starts_with(b"use ") {
            self.schema = super::token::used_schema(&String::from_utf8_lossy(line));
        } else {
            record.in_text = true;
            record.seen.text.extend_from_slice(line);
        }
    }

    fn end_record(&mut self) {
        let Some(mut record) = self.record.take() else { return };
        if record.inner {
            return; // the CALL that it is part of is there, too
        }
        if let Some(command) = record.seen.text.strip_prefix(COMMAND) {
            if command.starts_with(b"Quit") {
                self.take.end(record.connection);
            }
            return;
        }
        record.seen.schema = record.seen.schema.or_else(|| self.schema.clone());
        let by_second = record.second.map(Moment::Second);
        let Some(ended) = record.ended.or(by_second).or(self.time) else {
            return self.take.leave_out("when they ran is not told", 1);
        };
        record.seen.session = self.take.session(record.connection);
        let placed = self.spread.add(ended, record.seen);
        self.place(placed);
    }

    fn place(&mut self, placed: Vec<(f64, Sighting)>) {
        for (ended, seen) in placed {
            self.take.add(ended - seen.took.unwrap_or(0.0), seen);
        }
    }
}

impl Record {
    /// Reads `# Thread_id: 8  Schema: shop  QC_hit: No` and its like.
    fn describe(&mut self, line: &[u8]) {
        if let Some(connection) = number_behind(line, "Thread_id:") {
            self.connection = as_number(connection);
        }
        if let Some(took) = number_behind(line, "Query_time:") {
            self.seen.took = Some(took);
        }
        let text = String::from_utf8_lossy(line);
        if let Some((_, behind)) = text.split_once("Schema: ") {
            let schema = behind.split("  ").next().unwrap_or_default().trim_end();
            self.seen.schema = Some(schema.to_owned());
        }
        self.inner |= text.starts_with("# Stored_routine: ");
    }
}

/// Reads `SET timestamp=1795427669;`, which may also set `last_insert_id` and `insert_id`.
fn timestamp_of(line: &[u8]) -> Option<f64> {
    let set = std::str::from_utf8(line).ok()?.strip_prefix("SET ")?.strip_suffix(';')?;
    let (before, value) = set.rsplit_once("timestamp=")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "_=,".contains(c);
    before.chars().all(plain).then(|| value.parse().ok())?
}

/// The number behind a word.
fn number_behind(line: &[u8], word: &str) -> Option<f64> {
    let text = std::str::from_utf8(line).ok()?;
    text.split_once(word)?.1.split_whitespace().next()?.parse().ok()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // numbers of connections
fn as_number(number: f64) -> u64 {
    number as u64
}

/// A line of `tare slowlog --format json`, as far as it matters.
#[derive(Deserialize)]
struct Line {
    time: String,
    thread_id: u64,
    connection_id: Option<u64>,
    schema: Option<String>,
    event_name: String,
    query_time_s: Option<f64>,
    level: u64,
    text: Option<String>,
    #[serde(default)]
    lost_before: u64,
}

fn read_json(log: impl BufRead) -> std::io::Result<Option<Take>> {
    let mut take = Take::default();
    for line in log.split(b'\n') {
        let line = line?;
        if line.is_empty() {
            continue;
        }
        let Ok(line) = serde_json::from_slice::<Line>(&line) else { return Ok(None) };
        let Some(Moment::Exact(ended)) = moment_of(&line.time) else { return Ok(None) };
        let connection = line.connection_id.unwrap_or(line.thread_id);
        if line.lost_before > 0 {
            take.leave_out("the log lacks them", line.lost_before);
        }
        if line.event_name == "statement/com/Quit" {
            take.end(connection);
        }
        // Parts of stored programs come with the CALL; commands have no text.
        let Some(text) = line.text.filter(|_| line.level == 0 && line.event_name != "statement/com/Prepare") else {
            continue;
        };
        let session = take.session(connection);
        let seen = Sighting { session, took: line.query_time_s, schema: line.schema, text: text.into_bytes() };
        take.add(ended - seen.took.unwrap_or(0.0), seen);
    }
    Ok(Some(take))
}
