//! HOT PATH: rings of recorded events. A thread fills blocks of its own, record by record.
//!
//! A thread keeps ("pins") as many blocks as its history needs. The oldest one beyond that is refilled by the
//! same thread or, when the long history is enabled, exchanged for the oldest block of that. So an event is
//! written once and stays in its place, and no thread ever writes to another thread's block.
//!
//! Records are appended as described in [`tare_sync::journal`]. A block's generation rises before it is
//! refilled. A reader copies the block first, then checks that the generation is unchanged.

use std::hint::cold_path;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use tare_sync::journal;

use crate::clock::ticks;
use crate::memory::arena::{Arena, Base, BlockId, BlockUse, Offset, Own, WORDS};
use crate::memory::history::LongHistory;
use crate::memory::lost::Lost;
use crate::snapshot::EventType;

/// The blocks a thread can pin per event type. A history is never longer than what they hold: 63 of the
/// longest statements, thousands of waits.
const PINS: usize = 64 + BATCH;
/// The blocks a thread exchanges with the long history at a time. All threads share its queue, so each visit
/// costs cache lines from other processors.
const BATCH: usize = 4;
/// The maximum depth of recorded waits. Waits nested deeper are only counted.
pub(crate) const WAIT_DEPTH: usize = 8;

/// The flags of a record: its times were measured; it belongs to the thread's history; it belongs to the long
/// history.
pub(crate) const RECORD_TIMED: u8 = 1;
pub(crate) const RECORD_HISTORY: u8 = 2;
pub(crate) const RECORD_LONG: u8 = 4;

/// One event type's position in its current block: what every event needs.
#[repr(C)]
pub(crate) struct Ring {
    /// The next free word of the current block.
    next: AtomicU32,
    /// One past the last word of the current block.
    end: AtomicU32,
    /// The number of events in the current block.
    records: AtomicU32,
}

/// The blocks of a ring: what is needed once per block.
#[repr(C)]
pub(crate) struct RingBlocks {
    count: AtomicU32,
    /// Records in all blocks before the current one, including those for which there was no memory.
    closed: AtomicU64,
    /// Blocks from the long history, not yet begun. Their contents still belong to it.
    spares: AtomicU32,
    spare: [AtomicU32; BATCH],
    pinned: [AtomicU32; PINS],
}

/// The words that are copied at a time.
pub(crate) const CHUNK: usize = 4;
/// The words that may be written behind a record: the new end, and the excess of the last chunk.
pub(crate) const BEHIND: usize = CHUNK - 1;

/// A record of any length that is being appended: its words except the first, in order, no more than were
/// requested.
pub(crate) struct Appending<'a> {
    ring: &'a Ring,
    base: Base,
    first: usize,
    next: usize,
    /// One past the last word there is room for.
    end: usize,
}

impl Appending<'_> {
    #[inline(always)]
    pub(crate) fn put(&mut self, word: u64) {
        self.put_all([word]);
    }

    /// Appends several words.
    #[inline(always)]
    pub(crate) fn put_all<const N: usize>(&mut self, words: [u64; N]) {
        debug_assert!(self.next + N <= self.end);
        for (at, word) in words.into_iter().enumerate() {
            self.base.word(self.next + at).store(word, Relaxed);
        }
        self.next += N;
    }

    /// Appends the first words of a text of the calling thread, in whole chunks. The excess is overwritten,
    /// or lies behind the end.
    #[inline(always)]
    pub(crate) fn copy(&mut self, from: &[[AtomicU64; CHUNK]], words: usize) {
        if words != 0 {
            self.copy_out_of_line(from, words);
        }
    }

    /// Appends the first words of a text. Not inlined, so that all texts share these lines of code.
    #[inline(never)]
    fn copy_out_of_line(&mut self, from: &[[AtomicU64; CHUNK]], words: usize) {
        self.copy_here(from, words);
    }

    /// Appends the first words of a text, like `copy`, but inlined: for a caller that does so once and calls
    /// nothing else.
    #[inline(always)]
    pub(crate) fn copy_here(&mut self, from: &[[AtomicU64; CHUNK]], words: usize) {
        let next = self.next + words;
        debug_assert!(next <= self.end);
        for (at, from) in (self.next..next).step_by(CHUNK).zip(from) {
            for (word, from) in from.iter().enumerate() {
                self.base.word(at + word).store(from.own(), Relaxed);
            }
        }
        self.next = next;
    }

    /// Shows the record to readers.
    #[inline(always)]
    pub(crate) fn show(self, first: u64) {
        let Appending { ring, base, first: place, next, .. } = self;
        journal::show(base.word(place), first, base.word(next));
        ring.set_next(next as Offset);
        ring.count();
        // The next record will be about as long.
        base.expect_write_behind(next as Offset);
    }
}

/// The parameters of the rings of the four types of events.
pub(crate) struct RingKind {
    pub(crate) used: BlockUse,
    pub(crate) event: EventType,
    pub(crate) lost: Lost,
}

/// The rings of transactions, statements, stages and waits.
pub(crate) const TRANSACTIONS: RingKind =
    RingKind { used: BlockUse::Transactions, event: EventType::Transaction, lost: Lost::TransactionEvents };
pub(crate) const STATEMENTS: RingKind =
    RingKind { used: BlockUse::Statements, event: EventType::Statement, lost: Lost::StatementEvents };
pub(crate) const STAGES: RingKind =
    RingKind { used: BlockUse::Stages, event: EventType::Stage, lost: Lost::StageEvents };
pub(crate) const WAITS: RingKind =
    RingKind { used: BlockUse::Waits, event: EventType::Wait, lost: Lost::WaitEvents };

/// The rings of the four types of events, by type minus one.
pub(crate) const RINGS: [&RingKind; 4] = [&TRANSACTIONS, &STATEMENTS, &STAGES, &WAITS];

impl Ring {
    /// Returns the next free word of the current block.
    #[inline(always)]
    pub(crate) fn next(&self) -> Offset {
        self.next.own()
    }

    /// Returns one past the last word of the current block; 0: there is none.
    #[inline(always)]
    pub(crate) fn end(&self) -> Offset {
        self.end.own()
    }

    /// Sets the next free word, after a record has been written.
    #[inline(always)]
    pub(crate) fn set_next(&self, next: Offset) {
        self.next.store(next, Relaxed);
    }

    /// Counts an event that has been written.
    #[inline(always)]
    pub(crate) fn count(&self) {
        self.records.store(self.records.own() + 1, Relaxed);
    }

    /// Uncounts the last event.
    pub(crate) fn uncount(&self) {
        self.records.store(self.records.own().saturating_sub(1), Relaxed);
    }

    /// Begins to append a record of at most `most` words; `None`: the block is full.
    #[inline(always)]
    pub(crate) fn append(&self, base: Base, most: usize) -> Option<Appending<'_>> {
        let (first, end) = (self.next() as usize, self.end() as usize);
        if first + most + BEHIND > end {
            cold_path();
            return None;
        }
        Some(Appending { ring: self, base, first, next: first + 1, end: first + most })
    }

    /// Closes the current block to further records: the next one begins another block.
    pub(crate) fn seal(&self) {
        self.end.store(self.next.own(), Relaxed);
    }

    /// Returns the number of the thread's next record. For other threads it is a lower bound while that
    /// thread writes.
    pub(crate) fn recorded(&self, blocks: &RingBlocks) -> u64 {
        blocks.closed.load(Acquire) + u64::from(self.records.load(Relaxed))
    }

    /// Makes a block the current one.
    fn begin(&self, block: BlockId) {
        let start = block * WORDS as u32;
        self.next.store(start, Relaxed);
        self.end.store(start + WORDS as u32, Relaxed);
        self.records.store(0, Relaxed);
    }

    /// Leaves the ring without a current block.
    fn stop(&self) {
        self.next.store(0, Relaxed);
        self.end.store(0, Relaxed);
    }

    /// Gives all blocks to the long history or back to the arena.
    pub(crate) fn release(&self, blocks: &RingBlocks, arena: &Arena, long: Option<&LongHistory>) {
        self.close(blocks, arena);
        blocks.release(arena, long);
        self.stop();
    }

    /// Notes the number of events in the current block, once.
    fn close(&self, blocks: &RingBlocks, arena: &Arena) {
        let records = self.records.own();
        if let Some(current) = blocks.pinned().last()
            && records != 0
        {
            arena.meta(current).close(records);
            // In this order, a reader in between sees too few, not twice as many.
            self.records.store(0, Relaxed);
            blocks.number(records);
        }
    }
}

impl RingBlocks {
    /// Returns the blocks this thread holds, oldest first.
    pub(crate) fn pinned(&self) -> impl Iterator<Item = BlockId> + '_ {
        let count = (self.count.load(Relaxed) as usize).min(PINS);
        self.pinned[..count].iter().map(|block| block.load(Relaxed))
    }

    /// Begins with no records and no blocks, whatever its words are. Blocks of the thread before have been
    /// given back.
    pub(crate) fn begin(&self) {
        self.count.store(0, Relaxed);
        self.spares.store(0, Relaxed);
        self.closed.store(0, Relaxed);
    }

    /// Returns whether the thread holds a block.
    #[inline(always)]
    pub(crate) fn holds_any(&self) -> bool {
        self.count.load(Relaxed) | self.spares.load(Relaxed) != 0
    }

    /// Adds records to those that have numbers.
    pub(crate) fn number(&self, records: u32) {
        self.closed.store(self.closed.own() + u64::from(records), Release);
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

    /// Returns how many of the oldest blocks are not needed to hold `wanted` records; a batch if all pins are
    /// in use.
    fn surplus(&self, arena: &Arena, wanted: usize) -> usize {
        let count = self.count.load(Relaxed) as usize;
        if count >= PINS {
            return BATCH;
        }
        let mut held = 0;
        // Newest first: once these hold enough, older ones are not needed.
        let needed = self.pinned[..count].iter().rev().position(|block| {
            let enough = held >= wanted;
            if !enough {
                held += arena.meta(block.load(Relaxed)).records() as usize;
            }
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

/// The thread and the settings, as [`advance`] needs them.
pub(crate) struct Advance<'a> {
    pub(crate) arena: &'a Arena,
    pub(crate) kind: &'a RingKind,
    pub(crate) thread_id: u64,
    /// The session, encoded by `session_name`.
    pub(crate) session: u64,
    pub(crate) history_size: u32,
    /// The long history, if this thread feeds it.
    pub(crate) long: Option<&'a LongHistory>,
}

/// Begins a new block. Returns false if there is no memory: the caller counts the event as lost.
#[cold]
pub(crate) fn advance(ring: &Ring, blocks: &RingBlocks, how: &Advance<'_>) -> bool {
    let arena = how.arena;
    ring.close(blocks, arena);
    if let Some(current) = blocks.pinned().last() {
        arena.meta(current).set_continued();
    }
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
            // The cap is reached and the long histories have given up their blocks, so the thread reuses one
            // of its own.
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
    let meta = arena.meta(block);
    meta.owner.store(how.thread_id, Relaxed);
    meta.opened.store(ticks(), Relaxed);
    meta.first.store(blocks.closed.own(), Relaxed);
    meta.session.store(how.session, Relaxed);
    blocks.pin(block);
    ring.begin(block);
    true
}

/// Empties a filled block.
fn recycle(arena: &Arena, block: BlockId) -> BlockId {
    arena.meta(block).throw_away(|| journal::end(&arena.words(block)[0]));
    block
}
