//! HOT PATH: a long history: the filled blocks of all threads, oldest first, as many as hold the wanted rows.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::memory::arena::{Arena, BlockId};
use crate::memory::queue::NumberQueue;

/// The most records a block can have, as no record is shorter than two words.
const MOST_RECORDS: u32 = 256;

/// Blocks of records, oldest first.
pub(crate) struct LongHistory {
    blocks: NumberQueue,
    /// The number of rows wanted, and the approximate number present: additions and removals may overtake
    /// each other.
    wanted: AtomicU32,
    rows: AtomicU32,
}

impl LongHistory {
    pub(crate) const fn new() -> LongHistory {
        LongHistory { blocks: NumberQueue::new(), wanted: AtomicU32::new(0), rows: AtomicU32::new(0) }
    }

    /// Reserves room for blocks that hold this many rows. A full block holds at least `least`.
    pub(crate) fn map(&self, rows: u32, least: u32) -> Result<(), std::io::Error> {
        self.wanted.store(rows, Relaxed);
        self.blocks.map(rows.div_ceil(least) as usize)
    }

    /// Returns the approximate number of blocks.
    pub(crate) fn len(&self) -> u32 {
        self.blocks.len()
    }

    /// Prefetches what is read of the oldest block when it is removed, as nobody has touched it for long.
    pub(crate) fn expect_oldest(&self, arena: &Arena) {
        if let Some(block) = self.blocks.oldest() {
            arena.expect_block(block);
        }
    }

    /// Removes and returns the oldest block.
    pub(crate) fn pop(&self, arena: &Arena) -> Option<BlockId> {
        let block = self.blocks.pop()?;
        self.rows.fetch_sub(arena.meta(block).records(), Relaxed);
        Some(block)
    }

    /// Adds a filled block. Returns a block to be refilled: the oldest, once it is not needed any more.
    pub(crate) fn exchange(&self, arena: &Arena, block: BlockId) -> Option<BlockId> {
        let records = arena.meta(block).records();
        let full = self.blocks.exchange(block, |oldest| {
            self.rows.fetch_sub(arena.meta(oldest).records(), Relaxed);
            arena.give(oldest);
        });
        match full {
            // There was no room for the block itself.
            Some(back) if back == block => Some(block),
            Some(oldest) => {
                let gone = arena.meta(oldest).records();
                self.rows.fetch_add(records.wrapping_sub(gone), Relaxed);
                Some(oldest)
            }
            None => {
                let rows = self.rows.fetch_add(records, Relaxed).wrapping_add(records).cast_signed();
                let enough = self.wanted.load(Relaxed).saturating_add(MOST_RECORDS);
                if i64::from(rows) >= i64::from(enough) { self.pop(arena) } else { None }
            }
        }
    }
}
