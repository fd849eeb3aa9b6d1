//! Lines of a slow log other than statement texts, recognized by their grammar.

use crate::load::recording::moment::{LogTime, moment_of};

/// A line that starts a record, or the server's banner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Boundary {
    /// `# Time: 261123 9:54:29`; `None` if it cannot be parsed.
    Time(Option<LogTime>),
    /// `# User@Host: root[root] @ localhost []`
    Account,
    /// `mariadbd, Version: 10.11 … started with:`
    Banner,
}

/// Returns what a line starts, if it may start a record or banner.
pub(super) fn boundary(line: &[u8]) -> Option<Boundary> {
    if let Some(time) = line.strip_prefix(b"# Time: ") {
        let time = moment_of(&String::from_utf8_lossy(time));
        return time.map(|time| Boundary::Time(Some(time)));
    }
    if let Some(account) = line.strip_prefix(b"# User@Host: ") {
        let has = |part: &[u8]| account.windows(part.len()).any(|it| it == part);
        return (has(b"[") && has(b"] @ ") && account.contains(&b']')).then_some(Boundary::Account);
    }
    is_banner(line).then_some(Boundary::Banner)
}

/// Returns whether it is the first line that a server writes into a log.
pub(in crate::load::recording) fn is_banner(line: &[u8]) -> bool {
    line.ends_with(b"started with:") && line.windows(11).any(|part| part == b", Version: ")
}

/// Returns whether it belongs to a record's head: a comment, or names and values that some servers write
/// without `#` (`Schema: shop Last_errno: 0 Killed: 0`).
pub(super) fn is_attributes(line: &[u8]) -> bool {
    line.starts_with(b"#") || {
        let key = line.trim_ascii_start();
        let end = key.iter().position(|b| *b == b':').unwrap_or(0);
        let is_key = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
        let blank = key.get(end + 1).is_none_or(|b| *b == b' ');
        end > 1 && blank && key[0].is_ascii_uppercase() && key[..end].iter().all(is_key)
    }
}

/// Parses `SET timestamp=1795427669;`, which may also set `last_insert_id` and `insert_id`.
pub(super) fn timestamp(line: &[u8]) -> Option<f64> {
    let set = std::str::from_utf8(line).ok()?.strip_prefix("SET ")?.strip_suffix(';')?;
    let (before, value) = set.rsplit_once("timestamp=")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "_=,".contains(c);
    before.chars().all(plain).then(|| value.parse().ok())?
}

/// Returns the number after a word of a head.
pub(super) fn number_behind(line: &[u8], word: &str) -> Option<f64> {
    let text = String::from_utf8_lossy(line);
    // `Rows_sent:` must not match inside another word.
    let mut at = text.match_indices(word).map(|(at, _)| at);
    let at = at.find(|at| !text[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))?;
    text[at + word.len()..].split_whitespace().next()?.parse().ok()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // numbers of connections, of rows, of bytes
pub(super) fn as_number(number: f64) -> u64 {
    number as u64
}
