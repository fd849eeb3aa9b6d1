//! HOT PATH: a long history: the filled blocks of all threads, oldest first, as many as hold the rows that are wanted.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::memory::arena::{Arena, BlockId};
use crate::memory::queue::Queue;

/// Records a block can have at most: no record is shorter than two words.
const MOST_RECORDS: u32 = 256;

/// Blocks of records, the oldest first.
pub(crate) struct LongHistory {
    blocks: Queue,
    /// Rows wanted, and rows there are, more or less: who counts and who takes may overtake each other.
    wanted: AtomicU32,
    rows: AtomicU32,
}

impl LongHistory {
    pub(crate) const fn new() -> LongHistory {
        LongHistory { blocks: Queue::new(), wanted: AtomicU32::new(0), rows: AtomicU32::new(0) }
    }

    /// Makes room for blocks that hold this many rows, where a full block holds `least` of them at least.
    pub(crate) fn map(&self, rows: u32, least: u32) -> Result<(), std::io::Error> {
        self.wanted.store(rows, Relaxed);
        self.blocks.map(rows.div_ceil(least) as usize)
    }

    /// Blocks there are, more or less.
    pub(crate) fn len(&self) -> u32 {
        self.blocks.len()
    }

    /// Asks for what is looked at of the oldest block when it is taken out: nobody has touched it for long.
    pub(crate) fn expect_oldest(&self, arena: &Arena) {
        if let Some(block) = self.blocks.oldest() {
            arena.expect_block(block);
        }
    }

    /// Takes the oldest block out.
    pub(crate) fn pop(&self, arena: &Arena) -> Option<BlockId> {
        let block = self.blocks.pop()?;
        self.rows.fetch_sub(arena.meta(block).records(), Relaxed);
        Some(block)
    }

    /// Puts a filled block in. `Some`: a block to be filled anew, the oldest once it is not needed any more.
    pub(crate) fn exchange(&self, arena: &Arena, block: BlockId) -> Option<BlockId> {
        let records = arena.meta(block).records();
        let full = self.blocks.exchange(block, |oldest| {
            self.rows.fetch_sub(arena.meta(oldest).records(), Relaxed);
            arena.give(oldest);
        });
        match full {
            // It found no place itself.
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
