//! A snapshot as JSON Lines: a header, then tables. A table is a line with its columns, a line for each row,
//! and a line with the time of reading. The last line marks it as complete.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::{SnapshotColumn, SnapshotHeader, SnapshotTotals, TableHead, Tail, Value};

/// A line, whose type follows from its keys.
#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum SnapshotLine {
    /// The first line.
    Header { snapshot: SnapshotHeader },
    /// A row.
    Row { table: String, row: Map<String, Json> },
    /// The start of a table.
    Head(TableHead),
    /// The end of a table.
    Tail(Tail),
    /// The last line.
    End { end: SnapshotTotals },
}

/// A writer of lines, plain or compressed.
pub(crate) enum JsonLines<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
}

impl<W: Write> JsonLines<W> {
    pub(crate) fn new(to: W, compress: bool) -> Self {
        if compress { JsonLines::Gzip(GzEncoder::new(to, Compression::fast())) } else { JsonLines::Plain(to) }
    }

    fn to(&mut self) -> &mut dyn Write {
        match self {
            JsonLines::Plain(to) => to,
            JsonLines::Gzip(to) => to,
        }
    }

    pub(crate) fn line(&mut self, line: &SnapshotLine) -> io::Result<()> {
        serde_json::to_writer(self.to(), line)?;
        self.to().write_all(b"\n")
    }

    /// Writes a row with its columns in order.
    pub(crate) fn row(&mut self, table: &str, columns: &[SnapshotColumn], row: &[Value]) -> io::Result<()> {
        let to = self.to();
        to.write_all(b"{\"table\":")?;
        serde_json::to_writer(&mut *to, table)?;
        let mut before: &[u8] = b",\"row\":{";
        for (column, value) in columns.iter().zip(row) {
            to.write_all(before)?;
            serde_json::to_writer(&mut *to, &column.name)?;
            to.write_all(b":")?;
            serde_json::to_writer(&mut *to, &value.to_json())?;
            before = b",";
        }
        to.write_all(if columns.is_empty() { b",\"row\":{}}\n" } else { b"}}\n" })
    }

    /// Flushes everything. No line may follow.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        if let JsonLines::Gzip(to) = self {
            to.try_finish()?;
        }
        match self {
            JsonLines::Plain(to) => to.flush(),
            JsonLines::Gzip(to) => to.get_mut().flush(),
        }
    }
}
