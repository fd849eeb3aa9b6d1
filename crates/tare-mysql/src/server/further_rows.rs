//! HOT PATH: the rows that a wait of table I/O had besides its first one. The engine counts rows, and what
//! the governor charges are waits.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::thread::ServerThread;

/// A number on a cache line of its own.
#[repr(align(64))]
struct Counter(AtomicU64);

/// Threads share counters, so that there are few.
static COUNTERS: [Counter; 16] = [const { Counter(AtomicU64::new(0)) }; 16];

/// Counts the rows of a wait besides the first one.
#[inline(never)]
pub(crate) extern "C" fn count(thread: ServerThread, rows: u64) {
    COUNTERS[thread.id() as usize % COUNTERS.len()].0.fetch_add(rows, Relaxed);
}

/// Returns the sum.
pub(super) fn sum() -> u64 {
    COUNTERS.iter().fold(0, |sum, counter| sum.wrapping_add(counter.0.load(Relaxed)))
}
