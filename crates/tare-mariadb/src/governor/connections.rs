//! What each connection did between two looks: its events, and the CPU time of its thread.

use std::collections::{BTreeMap, BTreeSet};
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
    /// By the address of the instrument's name, of which there is one.
    events: BTreeMap<usize, (&'static str, u64)>,
}

impl Connections {
    /// Reads them. Where threads serve several connections nobody can tell what they did for which: there are none.
    pub(super) fn read(engine: &Engine, clock: ThreadClock) -> Connections {
        let counted = engine.event_counts_by_connection();
        let threads: BTreeSet<u64> = counted.iter().map(|it| it.os_id).collect();
        if threads.len() < counted.len() {
            return Connections::default();
        }
        let seen = counted.into_iter().filter_map(|it| {
            let cpu = clock(it.os_id)?;
            let mut events = BTreeMap::new();
            for (name, count) in it.events {
                events.entry(name.as_ptr().addr()).or_insert((name, 0)).1 += count;
            }
            Some((it.thread_id, Seen { os_id: it.os_id, cpu, events }))
        });
        Connections(seen.collect())
    }

    /// What those did that were there at an earlier reading. Where one has another thread by now, as of a pool, nobody can
    /// tell of any.
    pub(super) fn since(&self, before: &Connections) -> Vec<Connection> {
        let both = self.0.iter().filter_map(|(id, now)| Some((now, before.0.get(id)?)));
        let both: Vec<(&Seen, &Seen)> = both.collect();
        if both.iter().any(|(now, then)| now.os_id != then.os_id) {
            return vec![];
        }
        both.into_iter().map(|(now, then)| now.since(then)).collect()
    }
}

impl Seen {
    fn since(&self, before: &Seen) -> Connection {
        let since = |(at, (name, now)): (&usize, &(&'static str, u64))| {
            let then = before.events.get(at).map_or(0, |it| it.1);
            // What has fallen was reset in between: what is there now is what is known.
            let count = now.checked_sub(then).unwrap_or(*now);
            #[allow(clippy::cast_precision_loss)] // prices are rough
            (count > 0).then_some(((*name).into(), count as f64))
        };
        let cpu = self.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e9;
        Connection { cpu, events: self.events.iter().filter_map(since).collect() }
    }
}
