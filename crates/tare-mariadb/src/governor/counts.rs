//! How many events every instrument has had, and what clients and sessions did: statements, calls of storage engines, connections.

use std::collections::BTreeMap;

use tare_budget::{Done, counted_since, handler};
use tare_engine::Engine;
use tare_engine::snapshot::Grouping;

/// The counter of sessions that counts statements of clients, whatever is recorded of them.
const QUESTIONS: &str = "Questions";
/// Those that count rows which are written. Of sessions nobody counts the statements that did; rows of temporary tables MariaDB
/// counts elsewhere.
const WRITTEN: [&str; 3] = ["Handler_write", "Handler_update", "Handler_delete"];

/// Counts since the server's start, or since somebody reset a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counts {
    /// By instrument; those without events are not in it.
    events: BTreeMap<&'static str, u64>,
    /// Statements of clients; `None`: the host does not say.
    questions: Option<u64>,
    /// Calls of storage engines that begin to read, or write a row; `None`: likewise.
    calls: Option<u64>,
    /// Rows that were written; `None`: likewise.
    written: Option<u64>,
    /// Connections that were made.
    connected: u64,
}

impl Counts {
    /// Reads them. Takes no lock but the engine's own.
    pub(super) fn read(engine: &Engine) -> Counts {
        let mut events = BTreeMap::new();
        for (name, count) in engine.event_counts() {
            *events.entry(name).or_default() += count;
        }
        let connected = engine.connections(Grouping::Host).iter().map(|row| row.total).sum();
        let [questions, calls, written] = sums(engine, [&[QUESTIONS], &handler::BEGINNINGS, &WRITTEN]);
        Counts { events, questions, calls, written, connected }
    }

    /// Events since an earlier reading.
    pub(super) fn since(&self, before: &Counts) -> BTreeMap<String, f64> {
        let since = |(name, now): (&&str, &u64)| {
            let events = counted_since(*now, before.events.get(*name).copied());
            ((*name).to_owned(), events)
        };
        self.events.iter().map(since).filter(|(_, events)| *events > 0.0).collect()
    }

    /// Connections that were made since an earlier reading.
    pub(super) fn connected_since(&self, before: &Counts) -> f64 {
        counted_since(self.connected, Some(before.connected))
    }

    /// What sessions did since an earlier reading; nothing where their counters were reset. A statement that writes is taken for one
    /// that writes one row.
    #[allow(clippy::cast_precision_loss)] // prices are rough
    pub(super) fn done_since(&self, before: &Counts) -> Done {
        let since = |now: Option<u64>, before: Option<u64>| now?.checked_sub(before?).map(|done| done as f64);
        let (written, statements) = (since(self.written, before.written), self.questions_since(before));
        let writes = written.zip(statements).map(|(rows, statements)| rows.min(statements));
        Done { calls: since(self.calls, before.calls), writes }
    }

    /// Statements since an earlier reading; `None`: nobody says.
    pub(super) fn questions_since(&self, before: &Counts) -> Option<f64> {
        Some(counted_since(self.questions?, Some(before.questions?)))
    }
}

/// What counters of those names come to, over all sessions there are and have been; `None`: some have none of these names.
fn sums(engine: &Engine, names: [&[&str]; 3]) -> [Option<u64>; 3] {
    let known = engine.session_counter_names();
    let sessions = engine.session_sums(Grouping::Host);
    let sum = |name: &&str| -> Option<u64> {
        let at = known.iter().position(|counter| counter.name == *name)?;
        Some(sessions.iter().map(|row| row.counters[at]).sum())
    };
    // Where hosts are not kept there is nothing to add up, and 0 would be a lie.
    names.map(|names| names.iter().map(sum).sum::<Option<u64>>().filter(|_| !sessions.is_empty()))
}
