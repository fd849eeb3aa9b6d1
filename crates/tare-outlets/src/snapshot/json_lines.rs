//! A snapshot as JSON Lines: a line of header, then tables. A table is a line with its columns, a line for each row, and
//! a line that says when it was read. The last line says that all of it is there.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::{Column, Head, Header, Tail, Totals, Value};

/// A line, told by its keys.
#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(super) enum Line {
    /// The first.
    Header { snapshot: Header },
    /// A row.
    Row { table: String, row: Map<String, Json> },
    /// A table begins.
    Head(Head),
    /// A table ends.
    Tail(Tail),
    /// The last.
    End { end: Totals },
}

/// What lines are written to: as they are, or compressed.
pub(super) enum Lines<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
}

impl<W: Write> Lines<W> {
    pub(super) fn new(to: W, compress: bool) -> Self {
        if compress { Lines::Gzip(GzEncoder::new(to, Compression::fast())) } else { Lines::Plain(to) }
    }

    fn to(&mut self) -> &mut dyn Write {
        match self {
            Lines::Plain(to) => to,
            Lines::Gzip(to) => to,
        }
    }

    pub(super) fn line(&mut self, line: &Line) -> io::Result<()> {
        serde_json::to_writer(self.to(), line)?;
        self.to().write_all(b"\n")
    }

    pub(super) fn row(&mut self, table: &str, columns: &[Column], row: &[Value]) -> io::Result<()> {
        let row =
            columns.iter().zip(row).map(|(column, value)| (column.name.clone(), value.to_json())).collect();
        self.line(&Line::Row { table: table.to_owned(), row })
    }

    /// Writes what is still to be written. No line may follow.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        if let Lines::Gzip(to) = self {
            to.try_finish()?;
        }
        match self {
            Lines::Plain(to) => to.flush(),
            Lines::Gzip(to) => to.get_mut().flush(),
        }
    }
}
