//! The protocols between threads that the engine is made of. No locks: a writer never waits, a reader reads again.
//!
//! Each protocol is a type of one or two atomic words. Those words, and the words it is about, lie wherever its user lays
//! them, such as in the engine's arena; a word of zeros is a valid beginning. All atomics come through one door,
//! [`atomic`], so that `make loom` runs this very code through every interleaving and every stale value that the memory
//! model allows (`src/interleavings/`).
//!
//! | type | two threads … |
//! |---|---|
//! | [`Version`] | one changes several words, others copy them |
//! | [`journal`] | one appends records to a block, others copy it |
//! | [`FreeList`] | take and give back equal things |
//! | [`Queue`] | push and pop numbers, oldest first |
//! | [`Index`] | enter, find and remove keys |
//! | [`Slots`] | take and give back slots of a block, which may become something else |
//! | [`Space`] | cut pieces from blocks that none of them owns |
//! | [`Folds`] | one moves figures from here to there, others add both up |
//! | [`Backlog`] | one puts off what others read all the same |
//! | [`Tenancy`], [`Turns`] | add to a place, and give it to another tenant |
//! | [`stamp`] | change something, and keep a copy of it while it does not change |
//! | [`Shown`] | show the best of several buffers, others copy it |
//! | [`Changes`], [`Settled`], [`Limit`] | one changes settings, the other asks one number whether something changed, or goes as far as it may |

/// `fn new`: const, but for loom, whose atomics are made while it runs.
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

/// A beginning of zeros is the default.
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
mod backlog;
pub mod circle;
mod folds;
mod free_list;
mod index;
#[cfg(all(test, loom))]
mod interleavings;
pub mod journal;
mod queue;
mod settled;
mod shown;
mod slots;
mod space;
pub mod stamp;
mod tenancy;
mod version;

pub use backlog::{Backlog, Room};
pub use folds::Folds;
pub use free_list::FreeList;
pub use index::{Index, Inserted};
pub use queue::Queue;
pub use settled::{Changes, Limit, Settled};
pub use shown::Shown;
pub use slots::{Claimed, Freed, MOST_SLOTS, Slots};
pub use space::{Piece, Space, keep_first};
pub use tenancy::{Moment, Tenancy, Turns};
pub use version::Version;

default!(
    Backlog, Changes, Folds, FreeList, Limit, Queue, Settled, Shown, Slots, Space, Tenancy, Turns, Version
);
