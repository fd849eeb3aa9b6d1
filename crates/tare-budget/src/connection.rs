//! Activity of connections: their events and the CPU time they used themselves.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Nanoseconds per second.
pub(crate) const SECOND: f64 = 1e9;

/// Activity of a connection between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConnectionEvents {
    /// CPU time used, in nanoseconds.
    pub cpu: f64,
    /// Number of events by instrument.
    pub events: Vec<(Cow<'static, str>, f64)>,
}

/// Connections at one point in time, by THREAD_ID: their counts, and the CPU time of their threads.
#[derive(Debug, Default)]
pub struct Connections(BTreeMap<u64, CountedConnection>);

#[derive(Debug)]
struct CountedConnection {
    /// THREAD_OS_ID.
    os_id: u64,
    cpu: Duration,
    events: BTreeMap<Cow<'static, str>, u64>,
}

impl Connections {
    /// Creates the connections from pairs of THREAD_ID and THREAD_OS_ID; `cpu` returns the CPU time of a
    /// thread. Empty if threads serve several connections: then nobody can tell what they did for which.
    pub fn of(
        threads: impl IntoIterator<Item = (u64, u64)>,
        cpu: impl Fn(u64) -> Option<Duration>,
    ) -> Connections {
        let threads: Vec<(u64, u64)> = threads.into_iter().collect();
        if threads.iter().map(|it| it.1).collect::<BTreeSet<_>>().len() < threads.len() {
            return Connections::default();
        }
        let counted = threads.into_iter().filter_map(|(id, os_id)| {
            Some((id, CountedConnection { os_id, cpu: cpu(os_id)?, events: BTreeMap::new() }))
        });
        Connections(counted.collect())
    }

    /// Adds a connection's count. Ignores a connection that is not known.
    pub fn add(&mut self, id: u64, instrument: impl Into<Cow<'static, str>>, count: u64) {
        if let Some(connection) = self.0.get_mut(&id) {
            *connection.events.entry(instrument.into()).or_default() += count;
        }
    }

    /// Returns the activity of the connections that were already there in `before`. Empty if one has changed
    /// its thread, as with a thread pool: then nobody can tell for any.
    #[must_use]
    pub fn since(&self, before: &Connections) -> Vec<ConnectionEvents> {
        let both = self.0.iter().filter_map(|(id, now)| Some((now, before.0.get(id)?)));
        let both: Vec<(&CountedConnection, &CountedConnection)> = both.collect();
        if both.iter().any(|(now, then)| now.os_id != then.os_id) {
            return vec![];
        }
        both.into_iter().map(|(now, then)| now.since(then)).collect()
    }
}

impl CountedConnection {
    fn since(&self, before: &CountedConnection) -> ConnectionEvents {
        let since = |(name, now): (&Cow<'static, str>, &u64)| {
            let events = counted_since(*now, before.events.get(name).copied());
            (events > 0.0).then(|| (name.clone(), events))
        };
        let cpu = self.cpu.saturating_sub(before.cpu).as_secs_f64() * SECOND;
        ConnectionEvents { cpu, events: self.events.iter().filter_map(since).collect() }
    }
}

/// Returns the events since an earlier count. If the count has fallen, it was reset in between, and the
/// present value is returned.
#[must_use]
#[allow(clippy::cast_precision_loss)] // prices are rough
pub fn counted_since(now: u64, before: Option<u64>) -> f64 {
    now.checked_sub(before.unwrap_or(0)).unwrap_or(now) as f64
}
