//! The path of a query. Everything here runs on a reader's thread; writers never wait for it.
//!
//! A reader copies what writers publish. Where several words belong together it copies first and then checks
//! the seqlock, the generation or the event id. What changed meanwhile is read again or left out.

mod counts;
mod digests;
mod events;
mod figures;
pub(crate) mod histogram;
mod names;
mod objects;
mod observed;
mod parties;
mod present;
mod programs;
mod sessions;
mod setup;
mod summary;
mod tallies;

use std::ops::ControlFlow;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed},
};

use crate::Engine;
pub(crate) use crate::clock::Scale;
use crate::layout::cell::Plain;
use crate::snapshot::{Stat, Summary};
use crate::thread::{FoundThread, Thread};

pub use digests::DigestSnapshot;
pub use events::{
    BlockRow, BlockTexts, Cursor, Each, EachStatement, EventOrigin, RecordedStatement, RunningTokens,
    StatementBlock, StreamPart, StreamedStatement,
};
pub(crate) use events::{RunningStatement, RunningTransaction};
pub(crate) use figures::SumCache;
pub(crate) use names::OwnerCache;
pub(crate) use objects::lock_object;
pub use observed::{ApplierRow, CachedHost, Replica, ReplicaError, ReplicaRow, ReplicaThread, ReplicaWorker};
pub use sessions::{SessionCountersRow, SessionValue, SessionVariableRow};

/// Callback that receives the rows of a summary one by one.
pub type SummarySink<'a, S> = &'a mut dyn FnMut(Summary<S>) -> ControlFlow<()>;

impl Engine {
    /// Returns every live thread, in the order of THREAD_ID.
    pub(crate) fn live_threads(&self) -> Vec<FoundThread> {
        self.live_threads_where(|_, _| true)
    }

    /// Returns the live thread with this THREAD_ID, or all live threads.
    pub(crate) fn live_threads_of(&self, thread: Option<u64>) -> Vec<FoundThread> {
        let Some(id) = thread else { return self.live_threads() };
        let before: Option<&'static Thread> = self.arena.get(self.found.load(Relaxed));
        if let Some(thread) = before.filter(|thread| self.still_lives(thread, id)) {
            return vec![(id, thread)];
        }
        let found = self.live_threads_where(|found, _| found == id);
        if let [(_, thread)] = found[..] {
            self.found.store(self.arena.offset_of(thread), Relaxed);
        }
        found
    }

    /// Returns the live threads that satisfy `wanted`. Reads nothing of the others beyond their slab's head.
    pub(crate) fn live_threads_where(&self, wanted: impl Fn(u64, &Thread) -> bool) -> Vec<FoundThread> {
        let found = |thread: &'static Thread| {
            if thread.alive.load(Acquire) != 1 {
                return None;
            }
            Some(thread.found()).filter(|(id, _)| wanted(*id, thread))
        };
        let mut threads: Vec<FoundThread> = self.slabs().filter_map(found).collect();
        threads.sort_by_key(|(id, _)| *id);
        threads
    }

    /// Reads sums that folding moves about, again if a fold ran meanwhile. If folds never stop, the last
    /// attempt stands: it may miss or repeat what was being moved.
    pub(crate) fn unfolding<T>(&self, read: impl Fn() -> T) -> T {
        persistently(|| self.folds.read(&read), || self.folds.is_busy()).unwrap_or_else(read)
    }

    /// Reads buckets of a thread together with its deferred events, again if they changed meanwhile. Does not
    /// wait for a thread that has ended.
    pub(crate) fn with_deferred<T>(&self, thread: &Thread, mut read: impl FnMut(&[AtomicU64]) -> T) -> T {
        let is_busy = || thread.deferred.is_busy() && thread.alive.load(Relaxed) == 1;
        persistently(|| thread.read_deferred(&mut read), is_busy).unwrap_or_else(|| read(&[]))
    }
}

/// Repeats `read` until it succeeds. Waits longer while a writer is busy, which may have lost its processor
/// in the middle of a change. `None`: writers came again and again.
pub(crate) fn persistently<T>(mut read: impl FnMut() -> Option<T>, is_busy: impl Fn() -> bool) -> Option<T> {
    let (mut tries, mut pauses) = (TRIES, PAUSES);
    while tries > 0 && pauses > 0 {
        if let Some(value) = read() {
            return Some(value);
        }
        if is_busy() {
            std::thread::sleep(PAUSE);
            pauses -= 1;
        } else {
            tries -= 1;
        }
    }
    None
}

/// Repeats `read` until it succeeds. `None`: it did not within [`TRIES`] attempts.
pub(crate) fn patiently<T>(mut read: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..TRIES {
        if let Some(value) = read() {
            return Some(value);
        }
        std::thread::yield_now();
    }
    None
}

/// Maximum number of attempts to read what changes.
const TRIES: u32 = 200;
/// Number and length of the pauses for a busy writer, together a second or two. On an overloaded machine a
/// thread may be without a processor for that long.
const PAUSES: u32 = 10_000;
const PAUSE: std::time::Duration = std::time::Duration::from_micros(50);

/// Conversions of what writers count in ticks.
impl Scale {
    pub(crate) fn of(engine: &Engine) -> Scale {
        engine.clock.scale()
    }

    /// Converts COUNT and SUM; MIN and MAX stay 0. See also [`Scale::stat`].
    pub(crate) fn total(&self, plain: &Plain) -> Stat {
        Stat { count: plain.count, sum_ps: self.sum_ps(plain.sum), ..Stat::default() }
    }

    pub(crate) fn stat(&self, plain: Plain) -> Stat {
        if plain.count == 0 {
            return Stat::default();
        }
        let min = if plain.min_inverted == 0 { 0 } else { !plain.min_inverted };
        Stat { min_ps: self.ps(min), max_ps: self.ps(plain.max), ..self.total(&plain) }
    }
}
