//! The way of a query. Everything here runs on a reader's thread, takes its time, and waits for nobody.
//!
//! A reader copies what writers publish. Where several words belong together it copies first and checks the
//! version, the generation or the event id after; what changed meanwhile is read again or left out.

mod counts;
mod digests;
mod events;
mod figures;
pub(crate) mod histogram;
mod names;
mod objects;
mod observed;
mod parties;
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
use crate::count::cell::Plain;
use crate::memory::arena::{Use, WORDS};
use crate::snapshot::{Stat, Summary};
use crate::thread::Thread;

pub use digests::Digests;
pub use events::{
    BlockRow, BlockTexts, Cursor, Each, EachStatement, Origin, Piece, RecordedStatement, RunningTokens,
    StatementBlock, StreamedStatement,
};
pub(crate) use figures::Figures;
pub(crate) use names::Tenants;
pub use observed::{ApplierRow, CachedHost, Replica, ReplicaError, ReplicaRow, ReplicaThread, ReplicaWorker};
pub use sessions::{SessionCountersRow, SessionValue, SessionVariableRow};

/// Receives the rows of a summary one by one.
pub type Sink<'a, S> = &'a mut dyn FnMut(Summary<S>) -> ControlFlow<()>;

impl Engine {
    /// Every thread that lives, in the order of THREAD_ID.
    pub(crate) fn live_threads(&self) -> Vec<&'static Thread> {
        self.live_threads_where(|_| true)
    }

    /// The one of this THREAD_ID, or all of them.
    pub(crate) fn live_threads_of(&self, thread: Option<u64>) -> Vec<&'static Thread> {
        self.live_threads_where(|it| thread.is_none_or(|id| it.thread_id.load(Relaxed) == id))
    }

    /// Those this is true of. None of the others' memory is looked at beyond the slab's head.
    pub(crate) fn live_threads_where(&self, wanted: impl Fn(&Thread) -> bool) -> Vec<&'static Thread> {
        let is_wanted = |thread: &&Thread| thread.alive.load(Acquire) == 1 && wanted(thread);
        let with_id = |thread: &'static Thread| (thread.thread_id.load(Relaxed), thread);
        let mut threads: Vec<(u64, &'static Thread)> = self.slabs().filter(is_wanted).map(with_id).collect();
        // The ids are read once: threads come and go meanwhile, and a sort whose keys change panics.
        threads.sort_by_key(|(id, _)| *id);
        threads.into_iter().map(|(_, thread)| thread).collect()
    }

    /// Reads sums that folding moves about: again, if something folded meanwhile. Under a storm of folds the
    /// last try stands: it may miss or repeat what was just moving.
    pub(crate) fn unfolding<T>(&self, read: impl Fn() -> T) -> T {
        persistently(|| self.folds.read(&read), || self.folds.is_busy()).unwrap_or_else(read)
    }

    /// Reads buckets of a thread, together with what it puts off: likewise. A thread that has ended is not waited for.
    pub(crate) fn with_put_off<T>(&self, thread: &Thread, mut read: impl FnMut(&[AtomicU64]) -> T) -> T {
        let is_busy = || thread.backlog.is_busy() && thread.alive.load(Relaxed) == 1;
        persistently(|| thread.read_put_off(&mut read), is_busy).unwrap_or_else(|| read(&[]))
    }

    /// Whether what was read through a slab is `thread_id`'s: asked after reading. A slab whose thread has
    /// ended may hold anything by then.
    pub(crate) fn still_lives(&self, thread: &Thread, thread_id: u64) -> bool {
        std::sync::atomic::fence(Acquire);
        let block = self.arena.offset_of(thread) / WORDS as u32;
        self.arena.used(block) == Use::Thread as u8
            && thread.alive.load(Acquire) == 1
            && thread.thread_id.load(Relaxed) == thread_id
    }
}

/// What `read` gives once whoever is changing it is done, who may have lost its processor in the middle of it. `None`: others
/// came again and again.
fn persistently<T>(mut read: impl FnMut() -> Option<T>, is_busy: impl Fn() -> bool) -> Option<T> {
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

/// What `read` gives once whoever is changing it is done; `None`: it was not waited for any longer.
pub(crate) fn patiently<T>(mut read: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..TRIES {
        if let Some(value) = read() {
            return Some(value);
        }
        std::thread::yield_now();
    }
    None
}

/// How often what changed while it was read is read again.
const TRIES: u32 = 200;
/// How often, and how long each time, one who is busy is waited for. Together a second or two: on a machine that has more to
/// do than it can, a thread is without a processor for that long.
const PAUSES: u32 = 10_000;
const PAUSE: std::time::Duration = std::time::Duration::from_micros(50);

/// What readers make of what writers count in ticks.
impl Scale {
    pub(crate) fn of(engine: &Engine) -> Scale {
        engine.clock.scale()
    }

    /// As [`Scale::stat`], without MIN and MAX.
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
