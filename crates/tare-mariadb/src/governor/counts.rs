//! How many events every instrument has had, how many statements clients have sent, and how many connections were made.

use std::collections::BTreeMap;

use tare_budget::counted_since;
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
        Counts { events, questions: questions(engine), connected }
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

    /// Statements since an earlier reading; `None`: nobody says.
    pub(super) fn questions_since(&self, before: &Counts) -> Option<f64> {
        Some(counted_since(self.questions?, Some(before.questions?)))
    }
}

/// The sum over all sessions there are and have been.
fn questions(engine: &Engine) -> Option<u64> {
    let at = engine.session_counter_names().iter().position(|counter| counter.name == QUESTIONS)?;
    let sessions = engine.session_sums(Grouping::Host);
    // Where hosts are not kept there is nothing to add up, and 0 would be a lie.
    (!sessions.is_empty()).then(|| sessions.iter().map(|row| row.counters[at]).sum())
}
