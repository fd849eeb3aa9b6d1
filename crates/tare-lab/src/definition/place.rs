//! Positions in a study's file, so that errors name the line.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use crate::Error;

/// A position in a file: keys and indexes in lists.
pub(crate) type FilePosition = Vec<PositionStep>;

#[derive(Clone, Debug)]
pub(crate) enum PositionStep {
    /// A key.
    Key(&'static str),
    /// An index in a list.
    Nth(usize),
}

/// A position in the file, and what is wrong there.
pub(crate) type DefinitionMistake = (FilePosition, String);

/// Returns the position of a key in a list's entry.
pub(crate) fn at(list: &'static str, nth: usize, key: &'static str) -> FilePosition {
    vec![PositionStep::Key(list), PositionStep::Nth(nth), PositionStep::Key(key)]
}

/// Makes the error message for a position.
pub(crate) fn error(text: &str, file: &str, span: Option<Range<usize>>, why: String) -> Error {
    let start = span.map_or(0, |s| s.start.min(text.len()));
    let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
    let line = text[line_start..].lines().next().unwrap_or("");
    let key = line.split('=').next().unwrap_or("").trim().to_owned();
    Error::Study { file: file.into(), line: text[..start].matches('\n').count() + 1, key, why }
}

/// Returns the range of a position in the text; that of its parent if the file does not have it.
pub(crate) fn locate(text: &str, place: &[PositionStep]) -> Option<Range<usize>> {
    let document = DeTable::parse(text).ok()?;
    let mut span = document.span();
    let mut table = Some(document.get_ref());
    let mut list = None;
    for step in place {
        let found = match step {
            PositionStep::Key(key) => table.and_then(|t| t.get(*key)),
            PositionStep::Nth(nth) => list.and_then(|l: &toml::de::DeArray<'_>| l.get(*nth)),
        };
        let Some(found) = found else { break };
        span = found.span();
        table = match found.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => None,
        };
        list = match found.get_ref() {
            DeValue::Array(array) => Some(array),
            _ => None,
        };
    }
    Some(span)
}
