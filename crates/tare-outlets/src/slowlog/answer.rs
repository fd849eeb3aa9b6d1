//! The endpoint's answers: rows, or the blocks in which statements were recorded.
//!
//! Blocks cost the server least: it copies them, and they are decoded here. Rows are requested where the
//! server is to filter (WHERE), and from a server whose records have another layout.

use std::borrow::Cow;
use std::collections::HashMap;

use tare_engine::{RecordedStatement, Scale};

use super::choice::Share;
use super::form::{SlowLogFormat, Text};
use super::statement::{self, LoggedStatement, RequestedColumns, ask};
use crate::{Error, Row, Source};

/// The endpoint's tables.
pub(super) const STREAM: &str = "tare_stream_statements";
const BLOCKS: &str = "tare_stream_statement_blocks";

/// The columns of blocks that are always requested.
const COLUMNS: [&str; 15] = [
    "LOST",
    "EVENTS",
    "MORE",
    "POSITION",
    "TYPE",
    "NUMBER",
    "EVENT_NAME",
    "THREAD_ID",
    "PROCESSLIST_ID",
    "PROCESSLIST_USER",
    "PROCESSLIST_HOST",
    "OPENED",
    "NEW_FROM",
    "RECORDS",
    "DIGEST_CHARSET",
];
/// The columns that are requested once.
const SERVER: [&str; 5] = ["POSITION", "FORMAT", "TICK", "STARTED", "STARTED_AT"];
/// Least number of recent digests that are remembered; the endpoint repeats older ones.
const DIGESTS: usize = 50_000;

/// Requests new statements.
pub(super) struct StatementRequests {
    asked: RequestedColumns,
    /// How blocks are requested and decoded; `None`: rows are requested.
    blocks: Option<Blocks>,
}

/// The state for decoding blocks.
struct Blocks {
    /// Scale of the server's clock.
    scale: Scale,
    columns: Vec<&'static str>,
    has_sql: bool,
    digest: Option<usize>,
    has_message: bool,
    names: HashMap<u64, String>,
    digests: DigestTexts,
    /// Digests received before those in `digests`.
    older: DigestTexts,
}

/// DIGEST and DIGEST_TEXT by the key that records have instead.
type DigestTexts = HashMap<[u64; 2], [Option<String>; 2]>;

/// The last row of an answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastRow {
    pub(super) lost: u64,
    pub(super) events: u64,
    pub(super) has_more: bool,
    pub(super) position: u64,
}

/// New statements.
pub(super) struct NewStatements {
    pub(super) end: LastRow,
    rows: Vec<Row>,
    blocks: Vec<ThreadBlock>,
}

/// The statements of one thread.
#[derive(Debug, Default)]
pub(super) struct ThreadBlock {
    thread_id: u64,
    connection_id: Option<u64>,
    user: Option<String>,
    host: Option<String>,
    opened: u64,
    first: u64,
    new_from: u64,
    words: Vec<u64>,
}

/// A statement of an answer.
#[expect(clippy::large_enum_variant, reason = "an answer has entries of one kind")]
pub(super) enum AnsweredStatement<'a> {
    Row(&'a Row),
    Recorded(&'a ThreadBlock, RecordedStatement<'a>),
}

impl StatementRequests {
    pub(super) fn new(form: SlowLogFormat, text: Text, share: Share) -> StatementRequests {
        StatementRequests { asked: RequestedColumns::new(form, text, share), blocks: None }
    }

    /// Starts at the server's current position, and returns that; `None` if it has no such stream.
    pub(super) fn begin(&mut self, source: &mut Source, filter: &str) -> Result<Option<u64>, Error> {
        let columns = source.columns(STREAM)?;
        if columns.is_empty() {
            return Ok(None);
        }
        if !statement::SENT.iter().all(|name| columns.iter().any(|column| column == name)) {
            self.asked.ask_for_text_only();
        }
        self.blocks = None;
        if filter.is_empty() && !source.columns(BLOCKS)?.is_empty() {
            let begun = source.rows(BLOCKS, &SERVER, "")?;
            if let Some(last) = begun.last().filter(|last| last.count(1) == RecordedStatement::FORMAT) {
                let scale = Scale { rate: last.count(2), start: last.count(3), start_us: last.count(4) };
                self.blocks = Some(Blocks::new(&self.asked, scale));
                return Ok(Some(last.count(0)));
            }
        }
        // The filter says what the server is to record from now on.
        let begun = source.rows(STREAM, &["POSITION"], filter)?;
        Ok(Some(begun.last().map_or(0, |row| row.count(0))))
    }

    /// Returns whether blocks are requested.
    pub(super) fn reads_blocks(&self) -> bool {
        self.blocks.is_some()
    }

    /// Requests new statements; of rows only those that match the filter.
    pub(super) fn ask(&mut self, source: &mut Source, filter: &str) -> Result<NewStatements, Error> {
        let Some(blocks) = &mut self.blocks else {
            let mut rows = source.rows(STREAM, &self.asked.columns, filter)?;
            let end = rows.pop().map_or_else(LastRow::default, |last| LastRow::read(&last));
            return Ok(NewStatements { end, rows, blocks: vec![] });
        };
        let columns = blocks.columns.clone();
        let mut answer = NewStatements { end: LastRow::default(), rows: vec![], blocks: vec![] };
        source.each(BLOCKS, &columns, "", &mut |row| blocks.take(&row, &mut answer))?;
        Ok(answer)
    }

    /// Returns an answer's statements, those of one thread in order, and the end time of each.
    pub(super) fn entries<'a>(&self, answer: &'a NewStatements) -> (Vec<AnsweredStatement<'a>>, Vec<u64>) {
        let mut entries: Vec<AnsweredStatement<'a>> =
            answer.rows.iter().map(AnsweredStatement::Row).collect();
        let mut ended: Vec<u64> = answer.rows.iter().map(|row| row.count(statement::ENDED)).collect();
        let scale = self.blocks.as_ref().map_or_else(Scale::default, |blocks| blocks.scale);
        for block in &answer.blocks {
            RecordedStatement::read(&block.words, block.first, |of| {
                if of.number >= block.new_from {
                    ended.push(block.ended_us(&of, &scale));
                    entries.push(AnsweredStatement::Recorded(block, of));
                }
            });
        }
        (entries, ended)
    }

    /// Returns the digest of a statement, or its instrument if it has none.
    pub(super) fn digest<'a>(&'a self, entry: &AnsweredStatement<'a>) -> Cow<'a, str> {
        match (entry, &self.blocks) {
            (AnsweredStatement::Row(row), _) => self.asked.digest(row),
            (AnsweredStatement::Recorded(_, of), Some(blocks)) => {
                blocks.digest(of)[0].or_else(|| blocks.name(of)).unwrap_or_default().into()
            }
            (AnsweredStatement::Recorded(..), None) => Cow::default(),
        }
    }

    /// Returns the parts of a statement that are written.
    pub(super) fn statement<'a>(&'a self, entry: &AnsweredStatement<'a>) -> LoggedStatement<'a> {
        match (entry, &self.blocks) {
            (AnsweredStatement::Row(row), _) => LoggedStatement::read(row, &self.asked),
            (AnsweredStatement::Recorded(block, of), Some(blocks)) => {
                let [digest, digest_text] = blocks.digest(of);
                LoggedStatement {
                    event_name: blocks.name(of).unwrap_or_default().into(),
                    sql: if blocks.has_sql { of.sql_bytes() } else { None },
                    charset: of.charset().into(),
                    message: if blocks.has_message { of.message_text() } else { None },
                    digest: digest.map(Cow::from),
                    digest_text: digest_text.map(Cow::from),
                    ..block.statement(of, &blocks.scale)
                }
            }
            (AnsweredStatement::Recorded(..), None) => LoggedStatement::default(),
        }
    }
}

impl Blocks {
    fn new(asked: &RequestedColumns, scale: Scale) -> Blocks {
        let mut columns = COLUMNS.to_vec();
        let has_digest = asked.has("DIGEST") || asked.has("DIGEST_TEXT");
        let digest = ask(&mut columns, &["DIGEST", "DIGEST_TEXT"], has_digest);
        let has_message = asked.has("MESSAGE_TEXT");
        // Records have it, so nothing is requested.
        let has_sql = asked.has("SQL_BYTES") || asked.has("SQL_TEXT");
        let [digests, older] = Default::default();
        Blocks { scale, columns, has_sql, digest, has_message, names: HashMap::new(), digests, older }
    }

    fn name(&self, of: &RecordedStatement<'_>) -> Option<&str> {
        self.names.get(&of.class().into()).map(String::as_str)
    }

    fn digest(&self, of: &RecordedStatement<'_>) -> [Option<&str>; 2] {
        let told = |digest| self.digests.get(&digest).or_else(|| self.older.get(&digest));
        of.digest().and_then(told).map_or([None, None], |of| of.each_ref().map(Option::as_deref))
    }

    fn take(&mut self, row: &Row, answer: &mut NewStatements) {
        let number = row.count(5);
        match row.str(4).as_deref() {
            Some("NAME") => {
                self.names.insert(number, row.text(6).unwrap_or_default());
            }
            Some("DIGEST") => {
                if self.digests.len() >= DIGESTS {
                    self.older = std::mem::take(&mut self.digests);
                }
                let texts = self.digest.map_or([None, None], |at| [row.text(at), row.text(at + 1)]);
                self.digests.insert([number, row.count(14)], texts);
            }
            Some("BLOCK") => answer.blocks.push(ThreadBlock::read(row)),
            _ => answer.end = LastRow::read(row),
        }
    }
}

impl LastRow {
    /// Parses the last row of an answer; these columns come first in both tables.
    fn read(last: &Row) -> LastRow {
        LastRow {
            lost: last.count(statement::LOST),
            events: last.count(statement::EVENTS),
            has_more: last.str(statement::MORE).as_deref() == Some("YES"),
            position: last.count(statement::POSITION),
        }
    }
}

impl ThreadBlock {
    fn read(row: &Row) -> ThreadBlock {
        let (words, _rest) = row.bytes(13).unwrap_or_default().as_chunks();
        ThreadBlock {
            thread_id: row.count(7),
            connection_id: row.number(8),
            user: row.text(9),
            host: row.text(10),
            opened: row.count(11),
            first: row.count(5),
            new_from: row.count(12),
            words: words.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect(),
        }
    }

    /// Returns when a statement ended, in microseconds since 1970.
    fn ended_us(&self, of: &RecordedStatement<'_>, scale: &Scale) -> u64 {
        scale.wall_us(of.end().unwrap_or(self.opened))
    }

    /// Returns the parts of a statement that need only the record.
    fn statement<'a>(&'a self, of: &RecordedStatement<'a>, scale: &Scale) -> LoggedStatement<'a> {
        let counters = of.counters();
        LoggedStatement {
            thread_id: self.thread_id,
            time_ps: of.wait().map(|ticks| scale.ps(ticks)),
            lock_ps: counters.lock_time_ps,
            schema: of.current_schema(),
            program: of.program().map(|names| names.map(Option::unwrap_or_default).join(".")),
            errno: of.errno().into(),
            errors: counters.errors,
            warnings: counters.warnings,
            rows_affected: counters.rows_affected,
            rows_sent: counters.rows_sent,
            rows_examined: counters.rows_examined,
            tmp_disk_tables: counters.created_tmp_disk_tables,
            tmp_tables: counters.created_tmp_tables,
            full_join: counters.select_full_join,
            full_scan: counters.select_scan,
            merge_passes: counters.sort_merge_passes,
            sorts: counters.sort_range + counters.sort_rows + counters.sort_scan,
            no_index_used: counters.no_index_used,
            level: of.nesting_level(),
            connection_id: self.connection_id,
            user: self.user.as_deref().map(Cow::from),
            host: self.host.as_deref().map(Cow::from),
            ended_us: self.ended_us(of, scale),
            ..LoggedStatement::default()
        }
    }
}
