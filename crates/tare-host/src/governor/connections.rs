//! The event counts of each connection, and the CPU time of its thread.

use std::time::Duration;

use tare_budget::Connections;
use tare_engine::Engine;

/// A function that returns the CPU time that a thread of this process has used, by its THREAD_OS_ID.
pub(super) type ThreadClock = fn(u64) -> Option<Duration>;

/// Reads the counts and the CPU time of all connections.
pub(super) fn read(engine: &Engine, clock: ThreadClock) -> Connections {
    let counted = engine.event_counts_by_connection();
    let mut connections = Connections::of(counted.iter().map(|it| (it.thread_id, it.os_id)), clock);
    for it in counted {
        it.events.into_iter().for_each(|(name, count)| connections.add(it.thread_id, name, count));
    }
    connections
}
