//! The protocols between threads that the engine is built on, without locks: a writer never waits, a reader
//! retries.
//!
//! Each protocol is a type of one or two atomic words. These words, and the data they protect, lie where the
//! caller puts them, such as in the engine's arena. All zeros is a valid initial state. All atomics come
//! through one module, [`atomic`], so that `scripts/test.sh` can run this very code under loom: every
//! interleaving, and every stale value that the memory model allows (`src/interleavings/`).
//!
//! | type | two threads … |
//! |---|---|
//! | [`Seqlock`] | a seqlock: one thread changes several words, others copy them |
//! | [`journal`] | one appends records to a block, others copy it |
//! | [`OverwritingRing`] | one appends records to a ring that overwrites its oldest, others copy them |
//! | [`TreiberStack`] | a Treiber stack: take and give back equal elements |
//! | [`Queue`] | push and pop numbers, oldest first |
//! | [`Index`] | insert, find and remove keys |
//! | [`BlockSlots`] | take and give back slots of a block, which may be repurposed |
//! | [`Space`] | cut pieces from blocks that none of them owns |
//! | [`Folds`] | one moves values from one place to another, others add up both |
//! | [`DeferredEvents`] | one defers events, others count them nevertheless |
//! | [`PinnedSlot`], [`Evictions`] | add to a pinned slot, or give it to another owner |
//! | [`stamp`] | change data, and cache it until it changes |
//! | [`Shown`] | publish the best of several buffers, others copy it |
//! | [`ConfigVersion`], [`SeenVersion`], [`Limit`] | one changes settings, others compare one version |

/// Defines `new`, which is `const` except under loom, whose atomics are created at run time.
macro_rules! new {
    ($(#[$attribute:meta])* fn new() = $body:expr) => {
        $(#[$attribute])*
        #[cfg(not(loom))]
        #[must_use]
        pub const fn new() -> Self {
            $body
        }

        $(#[$attribute])*
        #[cfg(loom)]
        #[allow(clippy::new_without_default)]
        pub fn new() -> Self {
            $body
        }
    };
}

/// Implements `Default` with `new`.
macro_rules! default {
    ($($type:ty),*) => {$(
        impl Default for $type {
            fn default() -> Self {
                Self::new()
            }
        }
    )*};
}

pub mod atomic;
pub mod circle;
mod config_version;
mod deferred;
mod folds;
mod index;
#[cfg(all(test, loom))]
mod interleavings;
pub mod journal;
mod overwriting;
mod pinned_slot;
mod queue;
mod seqlock;
mod shown;
mod slots;
mod space;
pub mod stamp;
mod treiber_stack;

pub use config_version::{ConfigVersion, Limit, SeenVersion};
pub use deferred::{DeferredEvents, Room};
pub use folds::Folds;
pub use index::{Index, Inserted};
pub use overwriting::OverwritingRing;
pub use pinned_slot::{Evictions, PinnedSlot, SlotState};
pub use queue::Queue;
pub use seqlock::Seqlock;
pub use shown::Shown;
pub use slots::{BlockSlots, Claimed, Freed, MOST_SLOTS};
pub use space::{CutPiece, Space, keep_first};
pub use treiber_stack::TreiberStack;

default!(
    DeferredEvents,
    ConfigVersion,
    Folds,
    TreiberStack,
    Limit,
    OverwritingRing,
    Queue,
    SeenVersion,
    Shown,
    BlockSlots,
    Space,
    PinnedSlot,
    Evictions,
    Seqlock
);
