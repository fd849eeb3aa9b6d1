//! Lines of a general log that start a command, by their grammar: `261123 9:54:29\t 3 Query\tselect 1`, where
//! the time may be missing, or `2026-11-23T09:54:29.250000Z\t 8 Query\tselect 1`.

use crate::load::recording::moment::{LogTime, moment_of};

/// Commands with a text.
pub(super) const TEXTS: [&str; 3] = ["Query", "Execute", "Prepare"];
/// Least width of a connection's number.
const WIDTH: usize = 5;

/// A command, as far as it was read.
#[derive(Debug)]
pub(super) struct LoggedCommand {
    pub(super) time: Option<LogTime>,
    pub(super) connection: u64,
    /// `None` for an unknown command.
    pub(super) name: Option<&'static str>,
    pub(super) argument: Vec<u8>,
    /// Whether the log ends inside one of the command's lines, so that its argument may be incomplete.
    pub(super) is_cut: bool,
}

impl LoggedCommand {
    /// Parses a line.
    pub(super) fn of(line: &[u8]) -> Option<LoggedCommand> {
        let tab = line.iter().position(|b| *b == b'\t')?;
        let time = std::str::from_utf8(&line[..tab]).ok()?.trim();
        let rest = &line[tab + 1..];
        let (time, rest) = match time {
            "" => (None, rest.strip_prefix(b"\t").unwrap_or(rest)),
            time => (Some(moment_of(time)?), rest),
        };
        let blanks = rest.iter().take_while(|b| **b == b' ').count();
        let digits = rest[blanks..].iter().take_while(|b| b.is_ascii_digit()).count();
        let connection = std::str::from_utf8(&rest[blanks..blanks + digits]).ok()?.parse().ok()?;
        let is_padded = blanks + digits >= WIDTH;
        let rest = rest[blanks + digits..].strip_prefix(b" ")?;
        let (name, argument) = match rest.iter().position(|b| *b == b'\t') {
            Some(end) => (&rest[..end], &rest[end + 1..]),
            None => (rest.trim_ascii_end(), &rest[rest.len()..]),
        };
        let known = tare_words::command::known(name);
        let could_be = is_padded
            && name.first().is_some_and(u8::is_ascii_uppercase)
            && name.iter().all(|b| b.is_ascii_alphabetic() || b" _".contains(b))
            && rest.contains(&b'\t');
        (known.is_some() || could_be).then(|| LoggedCommand {
            time,
            connection,
            name: known,
            argument: argument.to_vec(),
            is_cut: false,
        })
    }

    /// Returns whether its argument is a statement, which may span lines.
    pub(super) fn has_text(&self) -> bool {
        self.name.is_some_and(|name| TEXTS.contains(&name))
    }
}

/// Returns the schema of `root@localhost on shop using Socket`.
pub(super) fn schema_of(connected: &str) -> Option<String> {
    let behind = connected.rsplit_once(" on ")?.1;
    let schema = behind.split(" using ").next()?.trim();
    (!schema.is_empty() && !behind.starts_with("using ")).then(|| schema.to_owned())
}
