//! Threads that a reader has found: whether their slabs are still theirs once they were read.

use std::sync::atomic::{
    Ordering::{Acquire, Relaxed},
    fence,
};

use crate::Engine;
use crate::memory::arena::{BlockUse, WORDS};
use crate::thread::Thread;

/// A thread and its THREAD_ID when it was found. The thread may end at any time, and another one get its
/// slab: whoever has read the slab asks [`Engine::still_lives`] with this THREAD_ID, not with that in the
/// slab by then.
pub(crate) type FoundThread = (u64, &'static Thread);

impl Thread {
    /// Returns the thread with its THREAD_ID, see [`FoundThread`].
    pub(crate) fn found(&self) -> (u64, &Thread) {
        (self.thread_id.load(Relaxed), self)
    }
}

impl Engine {
    /// Returns whether the slab is still that of the live thread `thread_id`. The caller asks after reading:
    /// the slab of an ended thread may hold anything.
    pub(crate) fn still_lives(&self, thread: &Thread, thread_id: u64) -> bool {
        self.is_still(thread, thread_id, |alive| alive == 1)
    }

    /// Returns whether the slab is still that of the thread `thread_id`, which lives, or is ending and has
    /// not left its sums. The caller asks after reading.
    pub(crate) fn still_counts(&self, thread: &Thread, thread_id: u64) -> bool {
        self.is_still(thread, thread_id, |alive| alive != 0)
    }

    fn is_still(&self, thread: &Thread, thread_id: u64, is_meant: impl Fn(u8) -> bool) -> bool {
        fence(Acquire);
        let block = self.arena.offset_of(thread) / WORDS as u32;
        self.arena.used(block) == BlockUse::Thread as u8
            && is_meant(thread.alive.load(Acquire))
            && thread.thread_id.load(Relaxed) == thread_id
    }
}
