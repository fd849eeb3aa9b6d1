//! A load of one's own: statements as clients sent them, session by session, with the times at which they began.
//!
//! A recording is made from a [`slow_log`], a [`general_log`] or the server's memory of statements ([`history`]); [`take`] says what
//! of it can be replayed. [`mod@file`] keeps it in a file, [`kind`] says what its statements do to data, and [`crate::replay`] sends
//! them again.

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

use kind::Kind;

/// Statements of sessions, in the order of their beginnings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// What it was made from: `slow log /var/log/mysql/slow.log`.
    pub source: String,
    /// When its first statement began, in seconds since 1970, where that is known.
    pub begun: Option<f64>,
    /// The statements. Those of a session are in the order in which it sent them.
    pub statements: Vec<Statement>,
    /// What was left out and how often, by reason.
    pub left_out: BTreeMap<String, u64>,
}

/// A statement of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statement {
    /// The session's number, from 1, in the order of their first statements.
    pub session: u32,
    /// When it began, in seconds since the recording's first statement did.
    pub at: f64,
    /// How long it took then, in seconds, where that is known.
    pub took: Option<f64>,
    /// The session's current schema.
    pub schema: Option<String>,
    /// The character set of its text, where that is known and not UTF-8.
    pub charset: Option<String>,
    /// Whether it came in one packet with the one before it in its session, and so is not sent where that one fails.
    pub is_joined: bool,
    /// What was sent: bytes of the client's character set.
    pub text: Vec<u8>,
}

impl Statement {
    /// Its text, with `�` in place of what is not UTF-8.
    #[must_use]
    pub fn shown(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.text)
    }
}

impl Recording {
    /// Sessions it has.
    pub fn sessions(&self) -> usize {
        self.statements.iter().map(|s| s.session).collect::<BTreeSet<_>>().len()
    }

    /// Most sessions that had begun and not yet sent their last statement at one time.
    pub fn most_at_once(&self) -> usize {
        let mut bounds: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for statement in &self.statements {
            let end = statement.at + statement.took.unwrap_or(0.0);
            let bound = bounds.entry(statement.session).or_insert((statement.at, end));
            bound.1 = bound.1.max(end);
        }
        let mut moments: Vec<(f64, i64)> =
            bounds.values().flat_map(|&(from, to)| [(from, 1), (to, -1)]).collect();
        // Where one begins as another ends both are there.
        moments.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let there = moments.iter().scan(0_i64, |there, moment| {
            *there += moment.1;
            Some(*there)
        });
        usize::try_from(there.max().unwrap_or(0)).unwrap_or(0)
    }

    /// Seconds from its first statement's beginning to its last one's end.
    pub fn seconds(&self) -> f64 {
        self.statements.iter().map(|s| s.at + s.took.unwrap_or(0.0)).fold(0.0, f64::max)
    }

    /// The schemas that sessions were in.
    pub fn schemas(&self) -> BTreeSet<&str> {
        self.statements.iter().filter_map(|s| s.schema.as_deref()).collect()
    }

    /// How many statements of each kind there are.
    pub fn kinds(&self) -> BTreeMap<Kind, u64> {
        let mut kinds = BTreeMap::new();
        for statement in &self.statements {
            *kinds.entry(Kind::of(&statement.text)).or_default() += 1;
        }
        kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_at_once_are_those_that_overlap() {
        let of = |session, at, took| Statement { session, at, took: Some(took), ..Statement::default() };
        let statements = vec![of(1, 0.0, 0.1), of(2, 0.5, 0.1), of(1, 1.0, 0.5), of(3, 2.0, 0.1)];
        let recording = Recording { statements, ..Recording::default() };
        assert_eq!((recording.sessions(), recording.most_at_once(), recording.seconds()), (3, 2, 2.1));
        assert_eq!(Recording::default().most_at_once(), 0);
    }
}
