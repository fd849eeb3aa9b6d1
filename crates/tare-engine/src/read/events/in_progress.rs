//! What one thread is in the middle of, read from its slab and the current block of its waits: for a sampler,
//! which cannot afford to look at the blocks of all threads.

use std::sync::atomic::{
    Ordering::{Acquire, Relaxed},
    fence,
};

use tare_sync::journal;

use super::{CopiedBlock, EventFacts};
use crate::layout::ring::RECORD_TIMED;
use crate::layout::ring::RINGS;
use crate::layout::statement::OpenStatement;
use crate::layout::wait::{OpenWait, WaitEvent, may_last};
use crate::memory::arena::{Offset, WORDS};
use crate::record::statement::decode::StatementEvent;
use crate::record::statement::parsed::TokenLocation;
use crate::snapshot::EventType;
use crate::thread::Thread;
use crate::{DigestHash, Engine};

/// A statement in progress.
pub(crate) struct RunningStatement {
    /// EVENT_ID; 0: it is only summed up, and no event.
    pub(crate) id: u64,
    /// Its start in ticks; `None`: it is not timed.
    pub(crate) start: Option<u64>,
    /// The default schema.
    pub(crate) schema: Vec<u8>,
    level: Offset,
    event: StatementEvent,
    parsed: Option<TokenLocation>,
}

/// A transaction in progress.
pub(crate) struct RunningTransaction {
    /// TRX_ID; 0: it has none.
    pub(crate) trx_id: u64,
    /// Its start in ticks; `None`: it is not timed.
    pub(crate) start: Option<u64>,
}

fn start_of(start: u64, flags: u8) -> Option<u64> {
    (start != 0 && flags & RECORD_TIMED != 0).then_some(start)
}

impl Engine {
    /// Returns the waits that a thread is in, outermost first. Waits of statements that were not chosen are
    /// there if they are always reported.
    pub(crate) fn waits_in_progress(&self, thread: &Thread) -> Vec<WaitEvent> {
        let mut waits: Vec<WaitEvent> = thread.open.iter().filter_map(OpenWait::read).collect();
        if waits.is_empty() {
            waits.extend(self.tallied_wait(thread));
        }
        if let Some(leaf) = self.leaf_in_progress(thread) {
            // One that began before the statement, or outside the wait around it, was abandoned.
            let is_inner = waits.iter().all(|wait| wait.id < leaf.id);
            let begun = thread.statement_start.load(Relaxed);
            let is_of_now = thread.statement_depth.load(Relaxed) == 0 || leaf.start >= begun;
            waits.extend(Some(leaf).filter(|_| is_inner && is_of_now));
        }
        waits.sort_by_key(|wait| wait.id);
        waits
    }

    /// Returns the leaf that a thread is in: the last record of its waits, if that has not ended.
    fn leaf_in_progress(&self, thread: &Thread) -> Option<WaitEvent> {
        let block = thread.waits.ring.end().checked_sub(1)? / WORDS as u32;
        let used = RINGS[EventType::Wait as usize - 1].used;
        if block == 0 || self.arena.used(block) != used as u8 {
            return None;
        }
        let (words, meta) = (self.arena.words(block), self.arena.meta(block));
        // A thread is in no leaf most of the time; its block is in the cache of another processor.
        let next = thread.waits.ring.next().wrapping_sub(block * WORDS as u32) as usize;
        if !may_last(words, next) {
            return None;
        }
        let copy = |_| {
            // Ends behind the leaf, whatever has begun since.
            let mut copied = vec![0; WORDS.min(next + 1)];
            journal::copy(&words[..WORDS.min(next)], &mut copied);
            (copied, meta.owner.load(Relaxed), meta.opened.load(Relaxed))
        };
        let (words, thread_id, opened) = meta.generation.read(copy)?;
        if self.arena.used(block) != used as u8 || thread_id != thread.thread_id.load(Relaxed) {
            return None;
        }
        let (_, last) = WaitEvent::decode(&[CopiedBlock { thread_id, opened, words }]).pop()?;
        (last.end() == 0).then_some(last)
    }

    /// Returns the statements that a thread is in, outermost first.
    pub(crate) fn statements_in_progress(&self, thread: &Thread) -> Vec<RunningStatement> {
        let depth = thread.statement_depth.load(Relaxed) as usize;
        let read = |level: Offset| {
            let (event, schema, parsed) = self.statement_on(thread, level)?;
            let start = start_of(event.start, event.flags);
            Some(RunningStatement { id: event.id, start, schema, level, event, parsed })
        };
        let levels = thread.statement_levels.iter().take(depth).map(|level| level.load(Acquire));
        levels.map_while(read).collect()
    }

    /// Returns whether a thread is still in the innermost of these statements, so that what was read
    /// meanwhile belongs to it. Of statements that have neither a number nor a time nobody can tell.
    pub(crate) fn is_still_in(&self, thread: &Thread, statements: &[RunningStatement]) -> bool {
        fence(Acquire);
        let Some(innermost) = statements.last() else { return true };
        let open = self.arena.get::<OpenStatement>(innermost.level);
        thread.statement_depth.load(Relaxed) as usize == statements.len()
            && open.is_some_and(|open| open.is_running(innermost.id, innermost.event.start))
    }

    /// Returns the hash that becomes DIGEST of a statement in progress. `None`: it is not parsed yet, or has
    /// ended.
    pub(crate) fn digest_in_progress(
        &self,
        thread: &Thread,
        statement: &RunningStatement,
    ) -> Option<DigestHash> {
        let found = thread.found();
        let runs = || self.runs_still(found, statement.level, &statement.event);
        self.running_hash(statement.parsed?, runs)
    }

    /// Returns the transaction that a thread is in.
    pub(crate) fn transaction_in_progress(&self, thread: &Thread) -> Option<RunningTransaction> {
        let event = self.transaction_of(thread)?;
        (event.id != 0 && event.end == 0)
            .then(|| RunningTransaction { trx_id: event.trx_id, start: start_of(event.start, event.flags) })
    }
}
