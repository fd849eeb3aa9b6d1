//! HOT PATH: rings of recorded events. A thread fills blocks of its own, line by line.
//!
//! A thread keeps ("pins") as many blocks as its history needs; the oldest one beyond that is either filled
//! again by the same thread or, when the long history is on, handed to a queue of blocks whose oldest comes
//! back instead. So an event is written once, where it stays, and no thread ever writes to another's block.
//!
//! A record's first word is not 0 and is written last; a word of 0 after the last record ends the block. A block's generation
//! rises before it is filled again: a reader copies first and then asks whether the generation is still the same.

use std::sync::atomic::{
    AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    Ordering::{Relaxed, Release},
};

use tare_sync::{journal, record};

use crate::clock::ticks;
use crate::count::cell::COUNTERS;
use crate::memory::arena::{Arena, BlockId, LINE, Offset, Own, Use, View, WORDS};
use crate::memory::history::LongHistory;
use crate::memory::lost::Lost;
use crate::snapshot::EventType;

/// Blocks a thread can pin per event type: a history is never longer than what they hold (63 of the longest
/// statements, thousands of waits).
const PINS: usize = 64 + BATCH;
/// Blocks a thread exchanges with the long history at a time: its queue is every thread's, so each visit costs lines that
/// come from other processors.
const BATCH: usize = 4;
/// Words of a line.
pub(crate) const LINE_WORDS: u32 = (LINE / 8) as u32;
/// Waits nested deeper are counted but not recorded.
pub(crate) const WAIT_DEPTH: usize = 8;

/// Flags of a record: its times were measured; it belongs to the history; to the long history.
pub(crate) const RECORD_TIMED: u8 = 1;
pub(crate) const RECORD_HISTORY: u8 = 2;
pub(crate) const RECORD_LONG: u8 = 4;

/// The fixed part of a statement's record; schema, program, message and text follow.
#[repr(C)]
pub(crate) struct StatementRecord {
    pub(crate) event_id: AtomicU64,
    pub(crate) lines: AtomicU32,
    pub(crate) nesting_level: AtomicU16,
    pub(crate) nesting_type: AtomicU8,
    pub(crate) flags: AtomicU8,
    pub(crate) start: AtomicU64,
    pub(crate) end: AtomicU64,
    pub(crate) source: AtomicU64,
    pub(crate) end_event_id: AtomicU64,
    pub(crate) nesting_id: AtomicU64,
    pub(crate) class: AtomicU16,
    pub(crate) sqlstate_len: AtomicU8,
    pub(crate) object_type: AtomicU8,
    pub(crate) errno: AtomicU32,
    pub(crate) digest: AtomicU32,
    pub(crate) digest_generation: AtomicU32,
    pub(crate) sqlstate: AtomicU64,
    pub(crate) schema_len: AtomicU16,
    pub(crate) message_len: AtomicU16,
    pub(crate) object_schema_len: AtomicU16,
    pub(crate) object_name_len: AtomicU16,
    pub(crate) text_len: AtomicU32,
    pub(crate) text_cut: AtomicU32,
    pub(crate) counters: [AtomicU64; COUNTERS],
    /// Number of the character set of SQL_TEXT.
    pub(crate) charset: AtomicU32,
    /// Number of the character set of the digest's identifiers.
    pub(crate) digest_charset: AtomicU32,
}

/// Words of the fixed part.
pub(crate) const STATEMENT_WORDS: usize = size_of::<StatementRecord>() / 8;

/// Bytes of an XA identifier's two parts together.
pub(crate) const XID_BYTES: usize = 128;

/// A transaction, four lines.
#[repr(C)]
pub(crate) struct TransactionRecord {
    pub(crate) event_id: AtomicU64,
    pub(crate) start: AtomicU64,
    pub(crate) end: AtomicU64,
    pub(crate) source: AtomicU64,
    pub(crate) end_event_id: AtomicU64,
    pub(crate) nesting_id: AtomicU64,
    pub(crate) class: AtomicU16,
    pub(crate) nesting_type: AtomicU8,
    pub(crate) flags: AtomicU8,
    pub(crate) state: AtomicU8,
    pub(crate) isolation: AtomicU8,
    pub(crate) xa: AtomicU8,
    pub(crate) xa_state: AtomicU8,
    pub(crate) read_only: AtomicU8,
    pub(crate) autocommit: AtomicU8,
    pub(crate) has_gtid: AtomicU8,
    pub(crate) _pad: AtomicU8,
    pub(crate) xid_format: AtomicU32,
    pub(crate) trx_id: AtomicU64,
    pub(crate) savepoints: AtomicU64,
    pub(crate) rollbacks: AtomicU64,
    pub(crate) releases: AtomicU64,
    pub(crate) gtrid_len: AtomicU16,
    pub(crate) bqual_len: AtomicU16,
    pub(crate) gtid_domain: AtomicU32,
    pub(crate) gtid_server: AtomicU64,
    pub(crate) gtid_sequence: AtomicU64,
    pub(crate) xid: [AtomicU64; XID_BYTES / 8],
}

/// Lines of a transaction's record.
pub(crate) const TRANSACTION_LINES: u32 = size_of::<TransactionRecord>().div_ceil(LINE) as u32;

// SAFETY: atomics only, alignment 8, less than a block.
#[allow(unsafe_code)]
unsafe impl View for StatementRecord {}
// SAFETY: atomics only, alignment 8, less than a block.
#[allow(unsafe_code)]
unsafe impl View for TransactionRecord {}

/// One event type's place in a thread: what every event needs.
#[repr(C)]
pub(crate) struct Ring {
    /// Next free word of the current block.
    next: AtomicU32,
    /// One past its last word.
    end: AtomicU32,
    /// What marks this block's lines as written since it was taken.
    tag: AtomicU32,
    /// Events in the current block.
    records: AtomicU32,
}

/// The blocks of a ring: what every block needs.
#[repr(C)]
pub(crate) struct RingBlocks {
    count: AtomicU32,
    /// Blocks got from the long history and not yet begun: their content is part of it still.
    spares: AtomicU32,
    spare: [AtomicU32; BATCH],
    pinned: [AtomicU32; PINS],
}

/// What distinguishes the rings of the four types of events.
pub(crate) struct RingKind {
    pub(crate) used: Use,
    pub(crate) event: EventType,
    pub(crate) lost: Lost,
}

impl Ring {
    /// The next free word of the current block.
    #[inline(always)]
    pub(crate) fn next(&self) -> Offset {
        self.next.own()
    }

    /// One past the last word of the current block; 0: there is none.
    #[inline(always)]
    pub(crate) fn end(&self) -> Offset {
        self.end.own()
    }

    /// A record has been written up to here.
    #[inline(always)]
    pub(crate) fn set_next(&self, next: Offset) {
        self.next.store(next, Relaxed);
    }

    /// The first word of a line written now.
    #[inline(always)]
    pub(crate) fn stamp(&self, event_id: u64) -> u64 {
        record::stamp(event_id, self.tag.own())
    }

    /// An event has been written.
    #[inline(always)]
    pub(crate) fn count(&self) {
        self.records.store(self.records.own() + 1, Relaxed);
    }

    /// Takes as many words (whole lines) in a row, and ends the block behind them.
    #[inline(always)]
    pub(crate) fn lines(&self, arena: &Arena, words: u32) -> Option<Offset> {
        let next = self.next.load(Relaxed);
        let after = next + words;
        let end = self.end.load(Relaxed);
        if after > end {
            return None;
        }
        if after < end {
            arena.slice(after, 1)[0].store(0, Relaxed);
        }
        self.next.store(after, Relaxed);
        self.count();
        Some(next)
    }

    /// Makes a block the current one.
    fn begin(&self, arena: &Arena, block: BlockId) {
        let start = block * WORDS as u32;
        self.next.store(start, Relaxed);
        self.end.store(start + WORDS as u32, Relaxed);
        self.records.store(0, Relaxed);
        self.tag.store(record::tag(arena.meta(block).generation.now()), Relaxed);
    }

    /// There is no current block.
    fn stop(&self) {
        self.next.store(0, Relaxed);
        self.end.store(0, Relaxed);
    }

    /// Gives every block up: to the long history's queue, or back to the arena.
    pub(crate) fn release(&self, blocks: &RingBlocks, arena: &Arena, long: Option<&LongHistory>) {
        self.close(blocks, arena);
        blocks.release(arena, long);
        self.stop();
    }

    /// Notes how many events the current block has.
    fn close(&self, blocks: &RingBlocks, arena: &Arena) {
        if let Some(current) = blocks.pinned().last() {
            arena.meta(current).records.store(self.records.load(Relaxed), Relaxed);
        }
    }
}

impl RingBlocks {
    /// The blocks this thread holds, oldest first.
    pub(crate) fn pinned(&self) -> impl Iterator<Item = BlockId> + '_ {
        let count = (self.count.load(Relaxed) as usize).min(PINS);
        self.pinned[..count].iter().map(|block| block.load(Relaxed))
    }

    fn take_spare(&self) -> Option<BlockId> {
        let left = self.spares.load(Relaxed).checked_sub(1)?;
        self.spares.store(left, Relaxed);
        Some(self.spare[left as usize % BATCH].load(Relaxed))
    }

    fn add_spare(&self, block: BlockId) {
        let spares = self.spares.load(Relaxed);
        self.spare[spares as usize % BATCH].store(block, Relaxed);
        self.spares.store(spares + 1, Relaxed);
    }

    fn unpin_oldest(&self) -> BlockId {
        let oldest = self.pinned[0].load(Relaxed);
        let count = self.count.load(Relaxed) as usize;
        for at in 1..count {
            self.pinned[at - 1].store(self.pinned[at].load(Relaxed), Relaxed);
        }
        self.count.store(count as u32 - 1, Relaxed);
        oldest
    }

    /// How many of the oldest blocks are not needed to hold `wanted` records: as many as may go at once, at most.
    fn surplus(&self, arena: &Arena, wanted: usize) -> usize {
        let count = self.count.load(Relaxed) as usize;
        if count >= PINS {
            return BATCH;
        }
        let mut held = 0;
        // Newest first: when these hold enough, what is older is not needed.
        let needed = self.pinned[..count].iter().rev().position(|block| {
            let enough = held >= wanted;
            held += arena.meta(block.load(Relaxed)).records.load(Relaxed) as usize;
            enough
        });
        needed.map_or(0, |needed| count - needed)
    }

    fn pin(&self, block: BlockId) {
        let count = self.count.load(Relaxed) as usize;
        self.pinned[count].store(block, Relaxed);
        self.count.store(count as u32 + 1, Release);
    }

    fn release(&self, arena: &Arena, long: Option<&LongHistory>) {
        while let Some(spare) = self.take_spare() {
            arena.give(spare);
        }
        while self.count.load(Relaxed) > 0 {
            let block = self.unpin_oldest();
            let spare = match long {
                Some(history) => history.exchange(arena, block),
                None => Some(block),
            };
            if let Some(block) = spare {
                arena.give(block);
            }
        }
    }
}

/// What [`advance`] needs to know of the thread and the settings.
pub(crate) struct Advance<'a> {
    pub(crate) arena: &'a Arena,
    pub(crate) kind: &'a RingKind,
    pub(crate) thread_id: u64,
    pub(crate) history_size: u32,
    /// The long history, when this thread feeds it.
    pub(crate) long: Option<&'a LongHistory>,
}

/// Begins a new block. False when no memory is left: the caller counts the event as lost.
#[cold]
pub(crate) fn advance(ring: &Ring, blocks: &RingBlocks, how: &Advance<'_>) -> bool {
    let arena = how.arena;
    ring.close(blocks, arena);
    if blocks.spares.load(Relaxed) == 0 {
        let batch = if how.long.is_some() { BATCH } else { 1 };
        if blocks.surplus(arena, how.history_size as usize) >= batch {
            for _ in 0..batch {
                let oldest = blocks.unpin_oldest();
                let spare = match how.long {
                    Some(history) => history.exchange(arena, oldest),
                    None => Some(oldest),
                };
                if let Some(block) = spare {
                    arena.expect_block(block);
                    blocks.add_spare(block);
                }
            }
        }
    }
    let block = match blocks.take_spare() {
        Some(block) => recycle(arena, block),
        None => match arena.take(how.kind.used, 0) {
            Some(block) => block,
            // The cap is reached, and the long histories have given way: the thread's own must.
            None if blocks.count.load(Relaxed) > 0 => {
                let oldest = blocks.unpin_oldest();
                recycle(arena, oldest)
            }
            None => {
                ring.stop();
                return false;
            }
        },
    };
    arena.meta(block).owner.store(how.thread_id, Relaxed);
    arena.meta(block).opened.store(ticks(), Relaxed);
    blocks.pin(block);
    ring.begin(arena, block);
    true
}

/// Makes a filled block empty.
fn recycle(arena: &Arena, block: BlockId) -> BlockId {
    arena.meta(block).throw_away(|| journal::end(&arena.words(block)[0]));
    block
}
