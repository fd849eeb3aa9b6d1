//! The head of a record: a slow log's data about a statement.

use super::header::{as_number, number_behind};
use crate::load::recording::moment::LogTime;
use crate::load::recording::take::Sighting;

/// Shortest answer, in bytes, that reports a syntax error; most other answers without rows are shorter.
const SYNTAX_ERROR_BYTES: u64 = 140;
/// `ER_PARSE_ERROR`
const SYNTAX_ERROR: u64 = 1064;

/// Whether the server could parse a statement, judged by its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParseSuccess {
    /// It had rows, or another result than a syntax error.
    Yes,
    /// It had no rows, and an answer like that of a syntax error.
    No,
    /// The log does not tell.
    Unknown,
}

/// The data of a record's head.
#[derive(Debug, Default)]
pub(super) struct RecordHead {
    pub(super) connection: u64,
    pub(super) seen: Sighting,
    /// End of the statement, if its start is logged with microseconds.
    pub(super) ended: Option<LogTime>,
    /// Whole second in which it ended, by its `SET timestamp`.
    pub(super) second: Option<f64>,
    /// Number of statements missing before it.
    pub(super) lost: u64,
    /// Whether it was part of a stored program.
    pub(super) inner: bool,
    /// Whether warnings follow, whose messages may have any line.
    pub(super) has_warnings: bool,
    /// Length of the text, if the log has it.
    pub(super) text_bytes: Option<u64>,
    rows: u64,
    bytes_sent: Option<u64>,
    errno: Option<u64>,
}

impl RecordHead {
    /// Starts with `# User@Host: …`; `time` is the last `# Time:`.
    pub(super) fn begin(line: &[u8], time: Option<LogTime>) -> RecordHead {
        let connection = as_number(number_behind(line, "Id:").unwrap_or(0.0));
        let ended = time.filter(|time| matches!(time, LogTime::Exact(_)));
        RecordHead { connection, ended, ..RecordHead::default() }
    }

    /// Parses `# Thread_id: 8 Schema: shop QC_hit: No` and the like, with or without `#`.
    pub(super) fn describe(&mut self, line: &[u8]) {
        if line.starts_with(b"# explain:") {
            return;
        }
        self.has_warnings |= line == b"# Warnings";
        for word in ["Thread_id:", "Id:"] {
            if let Some(connection) = number_behind(line, word) {
                self.connection = as_number(connection);
            }
        }
        if let Some(took) = number_behind(line, "Query_time:") {
            self.seen.took = Some(took);
        }
        let number = |word: &str| number_behind(line, word).map(as_number);
        self.rows +=
            ["Rows_sent:", "Rows_examined:", "Rows_affected:"].into_iter().filter_map(number).sum::<u64>();
        self.bytes_sent = number("Bytes_sent:").or(self.bytes_sent);
        self.errno = number("Last_errno:").or(number("Errno:")).or(self.errno);
        self.text_bytes = number("Text_bytes:").or(self.text_bytes);
        self.lost += number("Lost:").unwrap_or(0);
        let text = String::from_utf8_lossy(line);
        if let Some((_, behind)) = text.split_once("Schema: ") {
            self.seen.schema = Some(behind.split("  ").next().unwrap_or_default().trim().to_owned());
        }
        if let Some((_, charset)) = text.split_once("Character_set: ") {
            self.seen.charset = Some(charset.trim().to_owned());
        }
        self.inner |= text.contains("Stored_routine: ");
    }

    /// Returns whether the server could parse it.
    pub(super) fn parsed(&self) -> ParseSuccess {
        match (self.rows, self.errno, self.bytes_sent) {
            (0, Some(SYNTAX_ERROR), _) | (0, None, Some(SYNTAX_ERROR_BYTES..)) => ParseSuccess::No,
            (0, None, None) => ParseSuccess::Unknown,
            _ => ParseSuccess::Yes,
        }
    }

    /// Returns whether its text may be truncated: servers write it whole, and also write the bytes they sent.
    pub(super) fn may_be_cut(&self) -> bool {
        self.bytes_sent.is_none()
    }

    /// Returns whether another statement ran it, so that nothing was sent for it.
    pub(super) fn is_executed_by_another(&self) -> bool {
        self.bytes_sent == Some(0)
    }
}
