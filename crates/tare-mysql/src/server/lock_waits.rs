//! HOT PATH: which sessions wait for a lock within InnoDB: on a row, or on a table there.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::thread::ServerThread;

/// The number of places. Of two sessions that wait and share one, the first is not known to wait.
const PLACES: usize = 1 << 16;
/// The numbers of threads that wait, each at the rest of its number by [`PLACES`].
static WAITING: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];

fn place(id: u64) -> &'static AtomicU64 {
    &WAITING[id as usize % PLACES]
}

/// Notes that a thread begins to wait.
pub(crate) fn begin(thread: ServerThread) {
    let id = thread.id();
    place(id).store(id, Relaxed);
}

/// Notes that a thread does not wait any more, if it did.
pub(crate) fn end(thread: ServerThread) {
    let id = thread.id();
    let place = place(id);
    if place.load(Relaxed) == id {
        place.store(0, Relaxed);
    }
}

/// Returns whether a thread waits.
pub(crate) fn waits(thread: ServerThread) -> bool {
    let id = thread.id();
    place(id).load(Relaxed) == id
}
