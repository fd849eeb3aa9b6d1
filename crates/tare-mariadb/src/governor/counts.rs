//! How many events every instrument has had, and what clients and sessions did: statements, calls of storage engines, connections.

use std::collections::BTreeMap;

use tare_budget::{counted_since, handler};
use tare_engine::Engine;
use tare_engine::snapshot::Grouping;

/// The counter of sessions that counts statements of clients, whatever is recorded of them.
const QUESTIONS: &str = "Questions";

/// Counts since the server's start, or since somebody reset a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counts {
    /// By instrument; those without events are not in it.
    events: BTreeMap<&'static str, u64>,
    /// Statements of clients; `None`: the host does not say.
    questions: Option<u64>,
    /// Calls of storage engines that begin to read, or write a row; `None`: likewise.
    calls: Option<u64>,
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
        let [questions, calls] = sums(engine, [&[QUESTIONS], &handler::BEGINNINGS]);
        Counts { events, questions, calls, connected }
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

    /// Calls of storage engines since an earlier reading; `None`: nobody says, as they were reset.
    pub(super) fn calls_since(&self, before: &Counts) -> Option<f64> {
        #[allow(clippy::cast_precision_loss)] // prices are rough
        self.calls?.checked_sub(before.calls?).map(|calls| calls as f64)
    }

    /// Statements since an earlier reading; `None`: nobody says.
    pub(super) fn questions_since(&self, before: &Counts) -> Option<f64> {
        Some(counted_since(self.questions?, Some(before.questions?)))
    }
}

/// What counters of those names come to, over all sessions there are and have been; `None`: some have none of these names.
fn sums(engine: &Engine, names: [&[&str]; 2]) -> [Option<u64>; 2] {
    let known = engine.session_counter_names();
    let sessions = engine.session_sums(Grouping::Host);
    let sum = |name: &&str| -> Option<u64> {
        let at = known.iter().position(|counter| counter.name == *name)?;
        Some(sessions.iter().map(|row| row.counters[at]).sum())
    };
    // Where hosts are not kept there is nothing to add up, and 0 would be a lie.
    names.map(|names| names.iter().map(sum).sum::<Option<u64>>().filter(|_| !sessions.is_empty()))
}
