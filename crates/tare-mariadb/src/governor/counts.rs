//! How many events every instrument has had, and how many statements clients have sent.

use std::collections::BTreeMap;

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
}

impl Counts {
    /// Reads them. Takes no lock but the engine's own.
    pub(super) fn read(engine: &Engine) -> Counts {
        let mut events = BTreeMap::new();
        for (name, count) in engine.event_counts() {
            *events.entry(name).or_default() += count;
        }
        Counts { events, questions: questions(engine) }
    }

    /// Events since an earlier reading. What has fallen was reset in between: what is there now is what is known.
    pub(super) fn since(&self, before: &Counts) -> BTreeMap<String, f64> {
        let since = |name: &str, now: u64| {
            let then = before.events.get(name).copied().unwrap_or(0);
            now.checked_sub(then).unwrap_or(now)
        };
        let events = self.events.iter().map(|(name, now)| (*name, since(name, *now)));
        #[allow(clippy::cast_precision_loss)] // prices are rough
        events.filter(|(_, count)| *count > 0).map(|(name, count)| (name.to_owned(), count as f64)).collect()
    }

    /// Statements since an earlier reading; `None`: nobody says.
    pub(super) fn questions_since(&self, before: &Counts) -> Option<f64> {
        let (now, then) = (self.questions?, before.questions?);
        #[allow(clippy::cast_precision_loss)] // a load is told by its logarithm
        Some(now.checked_sub(then).unwrap_or(now) as f64)
    }
}

/// The sum over all sessions there are and have been.
fn questions(engine: &Engine) -> Option<u64> {
    let at = engine.session_counter_names().iter().position(|counter| counter.name == QUESTIONS)?;
    let sessions = engine.session_sums(Grouping::Host);
    // Where hosts are not kept there is nothing to add up, and 0 would be a lie.
    (!sessions.is_empty()).then(|| sessions.iter().map(|row| row.counters[at]).sum())
}
