//! HOT PATH: instances: one mutex, file, socket, table, handle, metadata lock, program, prepared statement.
//!
//! The host keeps a reference to an instance for as long as the object lives. All instances are slots of
//! pools and are never unmapped, so a stale reference reads a free slot, never a fault. A block may leave its
//! pool unless [`Pool::stays`]. While it may, whoever writes through a reference of the host holds the block.
//! Prepared statements, which only their own session uses, say where that is not needed.

mod execution;
mod file;
mod metadata;
mod prepared;
mod prepared_digest;
mod program;
mod socket;
mod synch;
mod table;
mod table_share;

use std::num::NonZeroU64;

use crate::Engine;
use crate::layout::cell::Counts;
use crate::memory::arena::ArenaView;
use crate::memory::lost::Lost;
use crate::memory::pool::{Pool, SlotHead};
use crate::setup::instrument::{ENABLED, TIMED};

pub use file::{FileHandle, FileRef};
pub use metadata::{MetadataHandle, MetadataName, MetadataRef};
pub use prepared::PreparedRef;
pub use socket::{SocketHandle, SocketRef};
pub use synch::SynchRef;
pub use table::{TableHandleHandle, TableRef};
pub use table_share::{TableName, TableShareHandle, TableShareRef};

pub(crate) use file::File;
pub(crate) use metadata::MetadataSlot;
pub(crate) use prepared::{PREPARED_WORDS, Prepared};
pub(crate) use prepared_digest::PreparedDigest;
pub(crate) use socket::SocketSlot;
pub(crate) use synch::Synch;
pub(crate) use table::{LOCK_KINDS, TableCounts, TableHandle, TableIo, TableLocks};
pub(crate) use table_share::{KEYS_PER_SLOT, KeyNames, ShareSlot};

impl Engine {
    /// Publishes a filled slot and returns the word that the host keeps. `None`: the slot lies beyond the
    /// reach of weak names and is given back.
    fn publish<T: ArenaView>(&self, pool: Pool, slot: &'static T, lost: Lost) -> Option<NonZeroU64> {
        let head: &SlotHead = self.arena.at(self.arena.offset_of(slot));
        head.publish();
        let object = head.object();
        if object.offset() == 0 {
            self.pools.give(&self.arena, pool, slot);
            self.losses.count(lost);
            return None;
        }
        NonZeroU64::new(object.0)
    }
}

/// Maximum number of indexes of a table. One more entry counts access without an index.
pub const MAX_INDEXES: usize = 64;

/// The `watch` of an object that is enabled and timed.
const WATCHED: u8 = ENABLED | TIMED;

#[inline(always)]
fn add(counts: &Counts, n: u64, taken: Option<u64>) {
    match taken {
        Some(taken) => counts.add(n, taken),
        None => counts.add_untimed(n),
    }
}
