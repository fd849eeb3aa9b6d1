//! Selection and order of the logged statements that can be replayed.

use std::collections::BTreeMap;

use super::boundary::split;
use super::token::{Dialect, Token, TrimSuffix, tokens};
use super::{SessionStatement, StatementRecording};

/// Suffix of a truncated text.
const CUT: &[u8] = b"...";
/// Reason for leaving out a truncated statement, which would do something else.
const CUT_SHORT: &str = "their text was cut short";
/// Reason for leaving out an execution that was sent as numbers and values.
const NO_VALUES: &str = "values of a prepared statement are not told";
/// Reason for leaving out what may be part of another statement's text: a replay would run what somebody
/// quoted.
pub(super) const QUOTED: &str = "another statement may quote them";

/// A statement as a log shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sighting {
    /// Number of the session, from [`Take::session`].
    pub session: u32,
    /// Duration in seconds, if known.
    pub took: Option<f64>,
    /// Current schema.
    pub schema: Option<String>,
    /// Character set of the text, if logged.
    pub charset: Option<String>,
    /// Whether it was in the same packet as the previous one.
    pub is_joined: bool,
    /// How the text is parsed.
    pub dialect: Dialect,
    /// The bytes that were sent, according to the log.
    pub text: Vec<u8>,
}

/// A recording in progress. Statements of a session must be added in order.
#[derive(Debug, Default)]
pub struct Take {
    statements: Vec<SessionStatement>,
    /// Sessions of the current connections.
    there: BTreeMap<u64, u32>,
    sessions: u32,
    left_out: BTreeMap<String, u64>,
}

impl Take {
    /// Returns the session of a connection, by its number or its thread's.
    pub fn session(&mut self, connection: u64) -> u32 {
        *self.there.entry(connection).or_insert_with(|| {
            self.sessions += 1;
            self.sessions
        })
    }

    /// Adds a statement that started at `at`, in seconds since some fixed time. Of a text with several, as
    /// after one that was not parsed, only the first is added.
    pub fn add(&mut self, at: f64, seen: Sighting) {
        let dialect = seen.dialect.with_charset(seen.charset.as_deref());
        let text = seen.text.trim_suffix_all(b';');
        if text.ends_with(CUT) {
            return self.leave_out_cut();
        }
        let first = split(text, dialect).first().copied().unwrap_or_default();
        let mut pieces = tokens(first, dialect).peekable();
        if pieces.peek().is_none() {
            return self.leave_out("they have no text", 1);
        }
        if pieces.any(|token| token == Token::Placeholder) {
            return self.leave_out_execution();
        }
        self.statements.push(SessionStatement {
            session: seen.session,
            at,
            took: seen.took,
            schema: seen.schema.filter(|schema| !schema.is_empty()),
            charset: seen.charset,
            is_joined: seen.is_joined,
            text: first.to_owned(),
        });
    }

    /// Counts statements that cannot be replayed, by reason.
    pub fn leave_out(&mut self, why: &str, count: u64) {
        *self.left_out.entry(why.into()).or_default() += count;
    }

    /// Counts a truncated statement.
    pub fn leave_out_cut(&mut self) {
        self.leave_out(CUT_SHORT, 1);
    }

    /// Counts an execution of a prepared statement whose values are not logged.
    pub fn leave_out_execution(&mut self) {
        self.leave_out(NO_VALUES, 1);
    }

    /// Ends a connection; its number may be used again.
    pub fn end(&mut self, connection: u64) {
        self.there.remove(&connection);
    }

    /// Ends all connections, as after a restart of the server.
    pub fn end_all(&mut self) {
        self.there.clear();
    }

    /// Returns the recording. `since_1970`: whether times count from then.
    pub fn finish(mut self, source: String, since_1970: bool) -> StatementRecording {
        // A session sends a statement after its previous one has ended, even if a log's coarse times differ.
        let mut free: BTreeMap<u32, f64> = BTreeMap::new();
        for statement in &mut self.statements {
            let free = free.entry(statement.session).or_insert(f64::NEG_INFINITY);
            statement.at = statement.at.max(*free);
            *free = statement.at + statement.took.unwrap_or(0.0);
        }
        self.statements.sort_by(|a, b| a.at.total_cmp(&b.at));
        let begun = self.statements.first().map(|first| first.at);
        let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
        for statement in &mut self.statements {
            statement.at = to_microseconds(statement.at - begun.unwrap_or(0.0));
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX).saturating_add(1);
            statement.session = *numbers.entry(statement.session).or_insert(next);
        }
        StatementRecording {
            source,
            begun: begun.filter(|_| since_1970),
            statements: self.statements,
            left_out: self.left_out,
        }
    }
}

fn to_microseconds(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(session: u32, took: f64, text: &str) -> Sighting {
        Sighting { session, took: Some(took), text: text.into(), ..Sighting::default() }
    }

    #[test]
    fn a_session_keeps_its_order_whatever_the_times_say() {
        let mut take = Take::default();
        take.add(10.0, seen(7, 0.5, "begin"));
        take.add(9.8, seen(8, 0.1, "select 2"));
        take.add(10.1, seen(7, 0.1, "commit;"));
        let recording = take.finish("a test".into(), true);
        let all: Vec<_> = recording.statements.iter().map(|s| (s.session, s.at, s.shown())).collect();
        let expected = [(1, 0.0, "select 2"), (2, 0.2, "begin"), (2, 0.7, "commit")];
        assert_eq!(all, expected.map(|(session, at, text)| (session, at, text.into())));
        assert_eq!(recording.begun, Some(9.8));
    }

    #[test]
    fn a_number_used_again_is_another_session() {
        let mut take = Take::default();
        let first = take.session(7);
        assert_eq!(take.session(7), first);
        take.end(7);
        let second = take.session(7);
        take.end_all();
        let third = take.session(7);
        assert!(first != second && second != third && third != first);
    }

    #[test]
    fn what_cannot_be_replayed_is_counted() {
        let mut take = Take::default();
        for text in
            ["select * from t where a in (1,2...", "select ?", "/* statement/com/Ping */", "select '?...' "]
        {
            take.add(0.0, seen(1, 0.0, text));
        }
        take.add(0.0, Sighting { text: b"select '\xff';".to_vec(), ..Sighting::default() });
        take.add(0.0, seen(1, 0.0, "selec 1; delete from t"));
        let recording = take.finish(String::new(), false);
        let texts: Vec<&[u8]> = recording.statements.iter().map(|s| s.text.as_slice()).collect();
        assert_eq!(texts, [&b"select '?...'"[..], b"select '\xff'", b"selec 1"]);
        assert_eq!(recording.left_out.values().copied().collect::<Vec<_>>(), [1, 1, 1]);
    }
}
