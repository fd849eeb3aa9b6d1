//! The event counts of every instrument, and the activity of clients and sessions: statements, calls of
//! storage engines, connections.

use std::collections::BTreeMap;

use tare_budget::{Done, counted_since, handler, is_table_io};
use tare_engine::Engine;
use tare_engine::snapshot::Grouping;

use super::Governed;

/// The session counter of clients' statements, which counts whether or not they are recorded.
const QUESTIONS: &str = "Questions";
/// The session counters of written rows. No counter of sessions has the statements that wrote, and MariaDB
/// counts rows of temporary tables elsewhere.
const WRITTEN: [&str; 3] = ["Handler_write", "Handler_update", "Handler_delete"];

/// What clients and sessions did since the server's start, or since their counters were reset. Of each,
/// `None`: it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerWork {
    /// The statements of clients.
    pub statements: Option<u64>,
    /// The storage engine calls that begin a read or write a row.
    pub calls: Option<u64>,
    /// The rows that a wait had besides its first one, instead of `calls`.
    pub further_rows: Option<u64>,
    /// The rows written.
    pub written: Option<u64>,
}

impl ServerWork {
    /// Returns what the counters of sessions say, for a host that reports them to the engine.
    pub fn of_sessions(engine: &Engine) -> ServerWork {
        let [statements, calls, written] = sums(engine, [&[QUESTIONS], &handler::BEGINNINGS, &WRITTEN]);
        ServerWork { statements, calls, further_rows: None, written }
    }
}

/// The counts since the server's start, or since a table was reset.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EngineCounts {
    /// The events by instrument; instruments without events are missing.
    events: BTreeMap<&'static str, u64>,
    work: ServerWork,
    /// The connections made.
    connected: u64,
}

impl EngineCounts {
    /// Reads the counts. Takes no locks other than the engine's own.
    pub(super) fn read(engine: &Engine, server: &dyn Governed) -> EngineCounts {
        let mut events = BTreeMap::new();
        for (name, count) in engine.event_counts() {
            *events.entry(name).or_default() += count;
        }
        let connected = engine.connections(Grouping::Host).iter().map(|row| row.total).sum();
        EngineCounts { work: server.work(engine), events, connected }
    }

    /// Returns the events by instrument since an earlier reading.
    pub(super) fn since(&self, before: &EngineCounts) -> BTreeMap<String, f64> {
        let since = |(name, now): (&&str, &u64)| {
            let events = counted_since(*now, before.events.get(*name).copied());
            ((*name).to_owned(), events)
        };
        self.events.iter().map(since).filter(|(_, events)| *events > 0.0).collect()
    }

    /// Returns the connections made since an earlier reading.
    pub(super) fn connected_since(&self, before: &EngineCounts) -> f64 {
        counted_since(self.connected, Some(before.connected))
    }

    /// Returns what sessions did since an earlier reading; nothing if their counters were reset. A writing
    /// statement is assumed to write one row.
    #[allow(clippy::cast_precision_loss)] // prices are rough
    pub(super) fn done_since(&self, before: &EngineCounts) -> Done {
        let since = |now: Option<u64>, before: Option<u64>| now?.checked_sub(before?).map(|done| done as f64);
        let (written, statements) =
            (since(self.work.written, before.work.written), self.statements_since(before));
        let writes = written.zip(statements).map(|(rows, statements)| rows.min(statements));
        // Nothing was read before the first reading.
        let further = since(self.work.further_rows, before.work.further_rows.or(Some(0)));
        let waits = further.map(|further| (self.rows_since(before) - further).max(0.0));
        Done { calls: waits.or_else(|| since(self.work.calls, before.work.calls)), writes }
    }

    /// Returns the rows of table I/O since an earlier reading.
    fn rows_since(&self, before: &EngineCounts) -> f64 {
        let rows = self.events.iter().filter(|(name, _)| is_table_io(name));
        rows.map(|(name, now)| counted_since(*now, before.events.get(name).copied())).sum()
    }

    /// Returns the statements since an earlier reading; `None` if they are not reported.
    pub(super) fn statements_since(&self, before: &EngineCounts) -> Option<f64> {
        Some(counted_since(self.work.statements?, Some(before.work.statements?)))
    }
}

/// Returns the sums of session counters with these names over all sessions, past and present; `None` if a
/// name is unknown.
fn sums(engine: &Engine, names: [&[&str]; 3]) -> [Option<u64>; 3] {
    let known = engine.session_counter_names();
    let sessions = engine.session_sums(Grouping::Host);
    let sum = |name: &&str| -> Option<u64> {
        let at = known.iter().position(|counter| counter.name == *name)?;
        Some(sessions.iter().map(|row| row.counters[at]).sum())
    };
    // Without hosts there is nothing to sum up, and 0 would be wrong.
    names.map(|names| names.iter().map(sum).sum::<Option<u64>>().filter(|_| !sessions.is_empty()))
}
