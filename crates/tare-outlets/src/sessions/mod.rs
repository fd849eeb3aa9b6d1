//! Active sessions: rows of `tare_active_session_history`, and the time of any stretch by what it went to.
//!
//! A [`History`] takes rows from a server or from a file. [`History::sums`] adds up a [`Stretch`] of it by
//! wait class, statement, wait, blocker and session; [`History::columns`] makes the columns of a chart. Both
//! count a row with the part of its time, the USECS_PER_ROW before its SAMPLE_TIME, that lies in the stretch.
//! So they have the same sums, and a session that is always active is one session in any stretch. SQL with
//! `WHERE SAMPLE_TIME >= from AND SAMPLE_TIME < to` counts whole rows: it differs by up to one row per
//! session at either end.

mod columns;
mod history;
mod moment;
mod recorded;
mod sums;
mod words;

#[cfg(test)]
pub(crate) use history::tests as history_tests;

/// The table with the history.
pub use crate::snapshot::ACTIVE_SESSIONS as TABLE;

/// The table of statements in progress. It has the text of a digest before the summary by digest, which
/// counts a statement when it has ended.
pub const RUNNING: &str = "events_statements_current";
pub use columns::{Column, step};
pub use history::{COLUMNS, Filling, History, Values};
pub use moment::{Moment, clock, day, microseconds, rfc3339};
pub use recorded::{Recorded, read};
pub use sums::{Blocker, Digest, Session, Statement, Sums, Wait, account};

/// Groups of wait classes, as charts show them: their names, and the classes. What is in none is in the last.
pub const GROUPS: [(&str, &[&str]); 7] = [
    ("cpu", &["CPU"]),
    ("row locks", &["ROW LOCK"]),
    ("metadata locks", &["METADATA LOCK"]),
    ("file I/O", &["FILE IO"]),
    ("mutexes", &["MUTEX"]),
    ("network", &["NETWORK"]),
    ("other", &[]),
];

/// Microseconds by group, in the order of [`GROUPS`].
pub type Times = [u64; GROUPS.len()];

/// Returns the index of the group of a wait class.
#[must_use]
pub fn group(class: &str) -> usize {
    GROUPS.iter().position(|(_, classes)| classes.contains(&class)).unwrap_or(GROUPS.len() - 1)
}

/// A stretch of time, in microseconds since 1970: from `from`, up to and without `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Its beginning.
    pub from: u64,
    /// Its end, which does not belong to it.
    pub to: u64,
}

impl Stretch {
    /// Returns its length in microseconds.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    /// Returns its length in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        seconds(self.length())
    }

    /// Returns the part of it that is also in `other`, empty if there is none.
    #[must_use]
    pub fn within(&self, other: Stretch) -> Stretch {
        let from = self.from.max(other.from);
        Stretch { from, to: self.to.min(other.to).max(from) }
    }
}

/// Converts microseconds to seconds.
#[must_use]
#[allow(clippy::cast_precision_loss)] // exact for 285 years
pub fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// Returns the average number of sessions that spend `us` in `length`, both in microseconds; 0 without a
/// length.
#[must_use]
pub fn average(us: u64, length: u64) -> f64 {
    if length == 0 { 0.0 } else { seconds(us) / seconds(length) }
}
