//! Sums by instrument and by owner, and digests.

use super::{Parts, StatementCounters};
use crate::Spelling;
use crate::histogram::Histogram;

/// COUNT, SUM, MIN, MAX of waits; times in picoseconds. AVG is `sum_ps / count`, 0 where count is 0. Tables
/// show the lower 64 bits of SUM, which wrap after 213 days, as the built-in's do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Stat {
    pub count: u64,
    pub sum_ps: u128,
    pub min_ps: u64,
    pub max_ps: u64,
}

impl Stat {
    fn merge(&mut self, other: Stat) {
        self.count += other.count;
        self.sum_ps += other.sum_ps;
        self.min_ps = match (self.min_ps, other.min_ps) {
            (0, min) | (min, 0) => min,
            (min, other) => min.min(other),
        };
        self.max_ps = self.max_ps.max(other.max_ps);
    }
}

/// Operations with bytes, of files and sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ByteStat {
    pub stat: Stat,
    pub bytes: u64,
}

/// READ, WRITE and MISC of a file or socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct IoStat {
    pub read: ByteStat,
    pub write: ByteStat,
    pub misc: ByteStat,
}

impl IoStat {
    pub(crate) fn merge(&mut self, other: IoStat) {
        let [read, write, misc] = [other.read, other.write, other.misc];
        for (into, part) in [(&mut self.read, read), (&mut self.write, write), (&mut self.misc, misc)] {
            into.stat.merge(part.stat);
            into.bytes += part.bytes;
        }
    }
}

/// A statement summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct StatementStat {
    pub stat: Stat,
    pub sum: StatementCounters,
}

/// A transaction summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TransactionStat {
    pub read_write: Stat,
    pub read_only: Stat,
}

/// A memory summary: counts and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct MemoryStat {
    pub count_alloc: u64,
    pub count_free: u64,
    pub bytes_alloc: u64,
    pub bytes_free: u64,
    pub low_count: i64,
    pub current_count: i64,
    pub high_count: i64,
    pub low_bytes: i64,
    pub current_bytes: i64,
    pub high_bytes: i64,
}

impl MemoryStat {
    /// `low_*` and `high_*`: the lowest and highest values in use
    pub const MARKS: Parts = Parts::part(0);
}

/// An error that the host knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownError {
    /// ERROR_NUMBER.
    pub number: u32,
    /// ERROR_NAME.
    pub name: &'static str,
    /// SQL_STATE.
    pub sqlstate: &'static str,
}

/// A summary of one error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorStat {
    /// The error; `None`: all errors the host does not know, together.
    pub error: Option<KnownError>,
    /// SUM_ERROR_RAISED: number of times it was raised and not handled.
    pub raised: u64,
    /// SUM_ERROR_HANDLED.
    pub handled: u64,
    /// FIRST_SEEN and LAST_SEEN in microseconds since the Unix epoch; `None`: never.
    pub seen_us: Option<(u64, u64)>,
}

/// Grouping of a `*_by_event_name` summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grouping {
    /// `*_by_thread_by_event_name`
    Thread,
    /// `*_by_account_by_event_name`
    Account,
    /// `*_by_user_by_event_name`
    User,
    /// `*_by_host_by_event_name`
    Host,
    /// `*_global_by_event_name`
    Global,
}

/// Owner of a summary row. Fields that the grouping does not have are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// THREAD_ID, when grouped by thread.
    pub thread_id: u64,
    /// USER, when grouped by account or user. `None`: SQL NULL, a background thread.
    pub user: Option<String>,
    /// HOST, when grouped by account or host.
    pub host: Option<String>,
}

/// An account, a user or a host: rows of `accounts`, `users` and `hosts`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionsRow {
    /// USER and HOST, where the grouping has them. `None`: SQL NULL, background threads.
    pub owner: Owner,
    /// CURRENT_CONNECTIONS.
    pub current: u64,
    /// TOTAL_CONNECTIONS: the current ones, and those closed since the last TRUNCATE.
    pub total: u64,
    /// MAX_SESSION_TOTAL_MEMORY: the highest number of bytes that one session had.
    pub max_session_memory: u64,
}

/// Number of events in a connection's thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// THREAD_ID.
    pub thread_id: u64,
    /// THREAD_OS_ID; 0: unknown.
    pub os_id: u64,
    /// Instruments with their number of events, if any. An instrument may occur twice.
    pub events: Vec<(&'static str, u64)>,
}

/// One row of a `*_by_event_name` summary.
#[derive(Clone, Debug)]
pub struct Summary<S> {
    /// Owner of the sums.
    pub owner: Owner,
    /// EVENT_NAME, or the name of the error.
    pub name: &'static str,
    /// The sums.
    pub stat: S,
}

/// A row of `events_statements_summary_by_digest`.
#[derive(Clone, Debug, Default)]
pub struct DigestRow {
    /// SCHEMA_NAME.
    pub schema: Option<String>,
    /// DIGEST and DIGEST_TEXT; `None` in the row for digests without a place.
    pub digest: Option<Spelling>,
    /// COUNT_STAR … SUM_NO_GOOD_INDEX_USED.
    pub stat: StatementStat,
    /// FIRST_SEEN, microseconds since the Unix epoch.
    pub first_seen_us: u64,
    /// LAST_SEEN, microseconds since the Unix epoch.
    pub last_seen_us: u64,
    /// Histogram of durations, in the shape `extended` only.
    pub histogram: Histogram,
    /// QUERY_SAMPLE_*.
    pub sample: Option<StatementSample>,
}

impl DigestRow {
    /// The `schema` field.
    pub const SCHEMA: Parts = Parts::part(0);
    /// The `digest` field, without its text.
    pub const DIGEST: Parts = Parts::part(1);
    /// The text of the `digest` field.
    pub const DIGEST_TEXT: Parts = Parts::part(2);
    /// The `sample` field.
    pub const SAMPLE: Parts = Parts::part(3);
    /// The `histogram` field.
    pub const HISTOGRAM: Parts = Parts::part(4);
    /// The `stat.sum` field.
    pub const COUNTERS: Parts = Parts::part(5);
    /// The `first_seen_us` field.
    pub const FIRST_SEEN: Parts = Parts::part(6);
    /// The `last_seen_us` field.
    pub const LAST_SEEN: Parts = Parts::part(7);
    /// `min_ps` and `max_ps` of `stat.stat`.
    pub const EXTREMES: Parts = Parts::part(8);
    /// The parts that identify the digest in a place.
    pub(crate) const NAMED: Parts =
        DigestRow::SCHEMA.and(DigestRow::DIGEST).and(DigestRow::DIGEST_TEXT).and(DigestRow::SAMPLE);
}

/// A statement that represents all of a digest: the slowest recent one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementSample {
    /// QUERY_SAMPLE_TEXT; a truncated text ends in `...`.
    pub text: Option<String>,
    /// QUERY_SAMPLE_SEEN, microseconds since the Unix epoch.
    pub seen_us: u64,
    /// QUERY_SAMPLE_TIMER_WAIT in picoseconds; 0 if not timed.
    pub wait_ps: u64,
}
