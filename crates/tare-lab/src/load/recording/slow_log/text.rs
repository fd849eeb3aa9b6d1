//! Parser of slow logs as text, by their grammar:
//!
//! ```text
//! log       banner | record …
//! record    [# Time: …] # User@Host: … attributes [# Warnings messages] [use …;] SET timestamp=…; text;
//! ```
//!
//! A text and the messages of warnings may contain lines that look like the log's own, byte by byte. A record
//! ends where its text ends as SQL does and another record starts. If a text does not end there, it was
//! invalid, or it quotes what follows. The server's figures (rows, length of the answer) decide; if they
//! cannot, what may be quoted is left out and counted.

use std::collections::BTreeMap;
use std::io::{BufRead, Result};

use super::LOST;
use super::header::{Boundary, boundary, is_attributes, timestamp};
use super::record::{ParseSuccess, RecordHead};
use crate::load::recording::boundary::BoundaryParser as Statements;
use crate::load::recording::line::{Lines, LogLine};
use crate::load::recording::moment::{LogTime, Spread};
use crate::load::recording::take::{QUOTED, Sighting, Take};
use crate::load::recording::token::{Dialect, tokens, used_schema};

/// Prefix of a record that is no statement.
const COMMAND: &[u8] = b"# administrator command: ";
/// Number of records after an unterminated text from which it counts as invalid, not as a quotation.
const QUOTATION: u64 = 100;
/// Most places at which the text of a record with warnings may start.
const BEGINNINGS: usize = 32;

/// The parser's state.
struct SlowLogParser<R> {
    lines: Lines<R>,
    take: Take,
    spread: Spread<Sighting>,
    /// The last `# Time:`; MariaDB writes it once for all records of a second.
    time: Option<LogTime>,
    /// The last `use`.
    schema: Option<String>,
    dialect: Dialect,
    /// Dialects of the connections that changed theirs.
    dialects: BTreeMap<u64, Dialect>,
    /// Connections whose last statement was run by the next one.
    executed: BTreeMap<u64, bool>,
}

/// Parses a log; `None` if it is no slow log.
pub(super) fn read(log: impl BufRead, dialect: Dialect) -> Result<Option<Take>> {
    let mut reader = SlowLogParser {
        lines: Lines::new(log),
        take: Take::default(),
        spread: Spread::default(),
        time: None,
        schema: None,
        dialect,
        dialects: BTreeMap::new(),
        executed: BTreeMap::new(),
    };
    let mut is_slow_log = false;
    while let Some(line) = reader.next()? {
        match boundary(&line.text) {
            Some(Boundary::Time(time)) => (is_slow_log, reader.time) = (true, time),
            Some(Boundary::Account) => {
                is_slow_log = true;
                reader.record(&line.text)?;
            }
            Some(Boundary::Banner) => {
                reader.take.end_all();
                reader.dialects.clear();
            }
            None => {}
        }
    }
    let rest = reader.spread.rest();
    reader.place(rest);
    Ok(is_slow_log.then_some(reader.take))
}

/// The result of reading a record's text.
enum RecordText {
    /// The text.
    Text(Vec<u8>),
    /// There is no text; the reason has been counted.
    None,
}

/// A text that is being read.
struct Body {
    text: Vec<u8>,
    /// Places where it may start, and its statements from there.
    beginnings: Vec<(usize, Statements)>,
}

/// State of a text that could end here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It is complete, and starts there.
    Whole(usize),
    /// It may be one of several.
    Ambiguous,
    /// It ends inside quotes or a comment, or without `;`.
    Quoting,
    /// It ends inside a block.
    Nested,
    /// It consists of several statements.
    Several,
}

/// The lines after a text that did not end where a record starts.
struct Doubt {
    /// Length of the text up to there, in bytes.
    length: usize,
    lines: Vec<LogLine>,
    records: u64,
}

impl Body {
    fn new(dialect: Dialect) -> Body {
        Body { text: vec![], beginnings: vec![(0, Statements::new(dialect))] }
    }

    fn push(&mut self, line: &LogLine) {
        self.text.extend_from_slice(&line.text);
        self.text.push(b'\n');
    }

    /// Returns the text's state. `is_doubtful`: a record may have started inside it. `may_be_cut`: it may be
    /// the beginning of a longer text, written by `tare slowlog`.
    fn standing(&mut self, is_doubtful: bool, may_be_cut: bool) -> Standing {
        let text = self.text.trim_ascii_end();
        if !text.ends_with(b";") {
            return Standing::Quoting;
        }
        if may_be_cut && !is_doubtful && text.ends_with(b"...;") {
            return Standing::Whole(0);
        }
        let is_single = self.beginnings.len() == 1;
        let (mut whole, mut is_nested, mut is_several) = (vec![], false, false);
        for (from, statements) in &mut self.beginnings {
            statements.read(&self.text[*from..], |_| {});
            is_nested |= statements.is_nested() && !statements.is_quoting();
            let is_whole = !statements.is_quoting() && !statements.is_nested();
            let is_one = statements.ended() <= 1;
            is_several |= is_whole && !is_one;
            if is_whole && (is_one || is_single && !is_doubtful) {
                whole.push(*from);
            }
        }
        match whole[..] {
            [] if is_single && is_several => Standing::Several,
            [from] => Standing::Whole(from),
            [] if is_single && is_nested => Standing::Nested,
            [] => Standing::Quoting,
            _ => Standing::Ambiguous,
        }
    }

    /// Returns what was sent: the text without the `;` that the server appended.
    fn sent(mut self, from: usize) -> Vec<u8> {
        self.text.drain(..from);
        let end = self.text.trim_ascii_end().len();
        self.text.truncate(end);
        self.text
    }
}

impl<R: BufRead> SlowLogParser<R> {
    fn next(&mut self) -> Result<Option<LogLine>> {
        self.lines.next(|line| boundary(line).is_some())
    }

    /// Reads the record that starts with this line.
    fn record(&mut self, line: &[u8]) -> Result<()> {
        let mut record = RecordHead::begin(line, self.time);
        if !self.head(&mut record)? {
            return Ok(());
        }
        if record.lost > 0 {
            self.take.leave_out(LOST, record.lost);
        }
        let end = match record.text_bytes {
            Some(length) => self.counted(usize::try_from(length).unwrap_or(usize::MAX))?,
            None => self.body(&record)?,
        };
        if let RecordText::Text(text) = end {
            self.end(record, text);
        }
        Ok(())
    }

    /// Reads up to the text; returns false if there is none.
    fn head(&mut self, record: &mut RecordHead) -> Result<bool> {
        while let Some(line) = self.next()? {
            let text = &line.text[..];
            if let Some(second) = timestamp(text) {
                record.second = Some(second);
                return Ok(true);
            }
            if record.has_warnings {
                continue;
            }
            if boundary(text).is_some() {
                self.lines.give_back(line);
                return Ok(false);
            }
            if text.starts_with(b"use ") {
                self.schema = used_schema(text);
            } else if is_attributes(text) && !text.starts_with(COMMAND) {
                record.describe(text);
            } else {
                // Every server logs the time, so what looked like the start of a record was a line of a text.
                self.lines.give_back(line);
                self.take.leave_out(QUOTED, 1);
                return Ok(false);
            }
        }
        self.take.leave_out_cut();
        Ok(false)
    }

    /// Reads a text whose length is logged.
    fn counted(&mut self, length: usize) -> Result<RecordText> {
        let mut text = vec![];
        while text.len() <= length {
            let Some(line) = self.next()? else { break };
            text.extend_from_slice(&line.text);
            text.push(b'\n');
        }
        if text.get(length..) == Some(b";\n") {
            return Ok(RecordText::Text(text[..=length].to_vec()));
        }
        self.take.leave_out_cut();
        Ok(RecordText::None)
    }

    /// Reads a text to its end.
    fn body(&mut self, record: &RecordHead) -> Result<RecordText> {
        let dialect = self.dialect_of(record).with_charset(record.seen.charset.as_deref());
        let mut body = Body::new(dialect);
        let mut doubt: Option<Doubt> = None;
        while let Some(line) = self.next()? {
            if let Some(begun) = boundary(&line.text) {
                let standing = body.standing(doubt.is_some(), record.may_be_cut());
                if let Standing::Whole(_) | Standing::Ambiguous | Standing::Several = standing {
                    self.lines.give_back(line);
                    return Ok(self.decide(record, body, standing, doubt));
                }
                let length = body.text.len();
                let is_broken =
                    length == 0 || standing == Standing::Nested && record.parsed() == ParseSuccess::No;
                let doubt = doubt.get_or_insert_with(|| Doubt { length, lines: vec![], records: 0 });
                doubt.records += u64::from(begun == Boundary::Account);
                if is_broken && doubt.lines.is_empty() || doubt.records > QUOTATION {
                    return Ok(self.broken(body, std::mem::take(&mut doubt.lines), doubt.length, Some(line)));
                }
            } else if record.has_warnings
                && timestamp(&line.text).is_some()
                && body.beginnings.len() < BEGINNINGS
            {
                let from = body.text.len() + line.text.len() + 1;
                body.beginnings.push((from, Statements::new(dialect)));
            }
            body.push(&line);
            if let Some(doubt) = &mut doubt {
                doubt.lines.push(line);
            }
        }
        let standing = body.standing(doubt.is_some(), record.may_be_cut());
        Ok(self.decide(record, body, standing, doubt))
    }

    /// Decides about a text that ends here, or that is unterminated at the end of the log.
    fn decide(
        &mut self,
        record: &RecordHead,
        body: Body,
        standing: Standing,
        doubt: Option<Doubt>,
    ) -> RecordText {
        let parsed = record.parsed();
        match (standing, doubt) {
            (Standing::Whole(from), None) => RecordText::Text(body.sent(from)),
            (Standing::Whole(from), Some(doubt)) if parsed != ParseSuccess::No => {
                self.take.leave_out(QUOTED, doubt.records);
                RecordText::Text(body.sent(from))
            }
            (Standing::Whole(_) | Standing::Ambiguous, doubt) => {
                self.take.leave_out(QUOTED, doubt.map_or(0, |doubt| doubt.records) + 1);
                RecordText::None
            }
            (Standing::Several, Some(doubt)) => self.broken(body, doubt.lines, doubt.length, None),
            (Standing::Quoting | Standing::Nested, Some(doubt)) if parsed == ParseSuccess::No => {
                self.broken(body, doubt.lines, doubt.length, None)
            }
            (Standing::Quoting | Standing::Nested, Some(doubt)) => {
                self.take.leave_out(QUOTED, doubt.records);
                self.take.leave_out_cut();
                RecordText::None
            }
            (_, None) if parsed == ParseSuccess::No && body.text.trim_ascii_end().ends_with(b";") => {
                RecordText::Text(body.sent(0))
            }
            (_, None) => {
                self.take.leave_out_cut();
                RecordText::None
            }
        }
    }

    /// Treats a text as invalid, and what follows as records. Without `;` it is also truncated.
    fn broken(
        &mut self,
        mut body: Body,
        lines: Vec<LogLine>,
        length: usize,
        last: Option<LogLine>,
    ) -> RecordText {
        lines.into_iter().chain(last).rev().for_each(|line| self.lines.give_back(line));
        body.text.truncate(length);
        if body.text.trim_ascii_end().ends_with(b";") {
            return RecordText::Text(body.sent(0));
        }
        self.take.leave_out_cut();
        RecordText::None
    }

    fn dialect_of(&self, record: &RecordHead) -> Dialect {
        self.dialects.get(&record.connection).copied().unwrap_or(self.dialect)
    }

    /// Processes a complete record.
    fn end(&mut self, mut record: RecordHead, text: Vec<u8>) {
        if record.inner {
            return; // the CALL that it is part of is there, too
        }
        let connection = record.connection;
        if let Some(command) = text.strip_prefix(COMMAND) {
            if command.starts_with(b"Quit") {
                self.take.end(connection);
                self.dialects.remove(&connection);
            } else if command.starts_with(b"Execute") {
                self.take.leave_out_execution();
            }
            return;
        }
        let dialect = self.dialect_of(&record);
        let was_executed = self.executed.insert(connection, record.is_executed_by_another());
        if was_executed == Some(true) && executes_immediately(&text, dialect) {
            return; // what it executed is there, too
        }
        self.dialects.insert(connection, dialect.after(&text));
        record.seen.schema = record.seen.schema.or_else(|| self.schema.clone());
        let by_second = record.second.map(LogTime::Second);
        let Some(ended) = record.ended.or(by_second).or(self.time) else {
            return self.take.leave_out("when they ran is not told", 1);
        };
        let session = self.take.session(connection);
        let placed = self.spread.add(ended, Sighting { session, text, dialect, ..record.seen });
        self.place(placed);
    }

    fn place(&mut self, placed: Vec<(f64, Sighting)>) {
        for (ended, seen) in placed {
            self.take.add(ended - seen.took.unwrap_or(0.0), seen);
        }
    }
}

/// Returns whether it is `EXECUTE IMMEDIATE …`.
fn executes_immediately(text: &[u8], dialect: Dialect) -> bool {
    let mut all = tokens(text, dialect);
    all.next().is_some_and(|it| it.is("EXECUTE")) && all.next().is_some_and(|it| it.is("IMMEDIATE"))
}
