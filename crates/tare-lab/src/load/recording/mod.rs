//! Recorded loads: statements as clients sent them, session by session, with their start times.
//!
//! A recording is made from a [`slow_log`], a [`general_log`] or the server's memory of statements
//! ([`history`]); [`take`] selects what can be replayed. [`mod@file`] stores it, [`kind`] tells what its
//! statements do to data, and [`crate::replay`] sends them again.

use std::collections::{BTreeMap, BTreeSet};

pub mod boundary;
pub mod data;
pub mod file;
pub mod general_log;
mod hex;
pub mod history;
pub mod kind;
mod line;
mod moment;
#[cfg(test)]
mod quoting;
pub mod slow_log;
pub mod take;
pub mod token;

use kind::StatementEffect;

/// Statements of sessions, in the order of their starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatementRecording {
    /// Origin of the recording: `slow log /var/log/mysql/slow.log`.
    pub source: String,
    /// Start of its first statement, in seconds since 1970, if known.
    pub begun: Option<f64>,
    /// The statements; those of a session are in the order in which it sent them.
    pub statements: Vec<SessionStatement>,
    /// Number of statements that were left out, by reason.
    pub left_out: BTreeMap<String, u64>,
}

/// A statement of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionStatement {
    /// Number of the session, from 1, in the order of their first statements.
    pub session: u32,
    /// Start in seconds since the recording's first statement.
    pub at: f64,
    /// Duration in seconds, if known.
    pub took: Option<f64>,
    /// The session's current schema.
    pub schema: Option<String>,
    /// Character set of its text, if known and not UTF-8.
    pub charset: Option<String>,
    /// Whether it was in the same packet as the previous one of its session, and is not sent if that one
    /// fails.
    pub is_joined: bool,
    /// The bytes that were sent, in the client's character set.
    pub text: Vec<u8>,
}

impl SessionStatement {
    /// Returns its text, with `�` for invalid UTF-8.
    #[must_use]
    pub fn shown(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.text)
    }
}

impl StatementRecording {
    /// Returns the number of sessions.
    pub fn sessions(&self) -> usize {
        self.statements.iter().map(|s| s.session).collect::<BTreeSet<_>>().len()
    }

    /// Returns the highest number of sessions between their first and last statements at one time.
    pub fn most_at_once(&self) -> usize {
        let mut bounds: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for statement in &self.statements {
            let end = statement.at + statement.took.unwrap_or(0.0);
            let bound = bounds.entry(statement.session).or_insert((statement.at, end));
            bound.1 = bound.1.max(end);
        }
        let mut moments: Vec<(f64, i64)> =
            bounds.values().flat_map(|&(from, to)| [(from, 1), (to, -1)]).collect();
        // A session that starts as another ends overlaps with it.
        moments.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let there = moments.iter().scan(0_i64, |there, moment| {
            *there += moment.1;
            Some(*there)
        });
        usize::try_from(there.max().unwrap_or(0)).unwrap_or(0)
    }

    /// Returns the seconds from the first statement's start to the last one's end.
    pub fn seconds(&self) -> f64 {
        self.statements.iter().map(|s| s.at + s.took.unwrap_or(0.0)).fold(0.0, f64::max)
    }

    /// Returns the current schemas of all sessions.
    pub fn schemas(&self) -> BTreeSet<&str> {
        self.statements.iter().filter_map(|s| s.schema.as_deref()).collect()
    }

    /// Returns the number of statements of each kind.
    pub fn kinds(&self) -> BTreeMap<StatementEffect, u64> {
        let mut kinds = BTreeMap::new();
        for statement in &self.statements {
            *kinds.entry(StatementEffect::of(&statement.text)).or_default() += 1;
        }
        kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_at_once_are_those_that_overlap() {
        let of = |session, at, took| SessionStatement {
            session,
            at,
            took: Some(took),
            ..SessionStatement::default()
        };
        let statements = vec![of(1, 0.0, 0.1), of(2, 0.5, 0.1), of(1, 1.0, 0.5), of(3, 2.0, 0.1)];
        let recording = StatementRecording { statements, ..StatementRecording::default() };
        assert_eq!((recording.sessions(), recording.most_at_once(), recording.seconds()), (3, 2, 2.1));
        assert_eq!(StatementRecording::default().most_at_once(), 0);
    }
}
