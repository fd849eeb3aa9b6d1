//! What each connection did between two looks: its events, and the CPU time of its thread.

use std::collections::BTreeMap;
use std::time::Duration;

use tare_budget::Connection;
use tare_engine::Engine;

/// Who knows what CPU time a thread of this process has used, by its THREAD_OS_ID.
pub(super) type ThreadClock = fn(u64) -> Option<Duration>;

/// The connections there are, by THREAD_ID.
#[derive(Debug, Default)]
pub(super) struct Connections(BTreeMap<u64, Seen>);

#[derive(Debug)]
struct Seen {
    os_id: u64,
    cpu: Duration,
    events: BTreeMap<&'static str, u64>,
}

impl Connections {
    /// Reads them. A thread that serves several connections is left out: nobody can tell what it did for which.
    pub(super) fn read(engine: &Engine, clock: ThreadClock) -> Connections {
        let counted = engine.event_counts_by_connection();
        let mut threads: BTreeMap<u64, usize> = BTreeMap::new();
        counted.iter().for_each(|it| *threads.entry(it.os_id).or_default() += 1);
        let seen = counted.into_iter().filter_map(|it| {
            let cpu = clock(it.os_id).filter(|_| threads.get(&it.os_id) == Some(&1))?;
            let mut events = BTreeMap::new();
            it.events.into_iter().for_each(|(name, count)| *events.entry(name).or_default() += count);
            Some((it.thread_id, Seen { os_id: it.os_id, cpu, events }))
        });
        Connections(seen.collect())
    }

    /// What those did that were there at an earlier reading, on the same thread.
    pub(super) fn since(&self, before: &Connections) -> Vec<Connection> {
        let both = self.0.iter().filter_map(|(id, now)| Some((now, before.0.get(id)?)));
        both.filter(|(now, then)| now.os_id == then.os_id).map(|(now, then)| now.since(then)).collect()
    }
}

impl Seen {
    fn since(&self, before: &Seen) -> Connection {
        let since = |(name, now): (&&'static str, &u64)| {
            let then = before.events.get(name).copied().unwrap_or(0);
            // What has fallen was reset in between: what is there now is what is known.
            let count = now.checked_sub(then).unwrap_or(*now);
            #[allow(clippy::cast_precision_loss)] // prices are rough
            (count > 0).then_some(((*name).into(), count as f64))
        };
        let cpu = self.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e9;
        Connection { cpu, events: self.events.iter().filter_map(since).collect() }
    }
}
