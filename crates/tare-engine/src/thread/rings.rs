//! HOT PATH: a thread's rings and journals: a new block when one is full, and marks before a record.

use std::sync::atomic::Ordering::Relaxed;

use crate::Engine;
use crate::layout::journal::{ComingRecord, EventJournal, MARKS, RecordReach};
use crate::layout::ring::{self, Advance, Ring, RingKind};
use crate::memory::history::LongHistory;
use crate::setup::filter;

use super::Thread;

impl Engine {
    /// Returns the long history of `kind` if the consumers want it.
    pub(crate) fn long_history(&self, thread: &Thread, kind: &RingKind) -> Option<&LongHistory> {
        // An ended thread has no mask any more, but what it recorded for the long history must survive.
        let mask = match thread.mask() {
            0 => filter::mask(self.consumers.load(Relaxed), true, thread.history.load(Relaxed) != 0),
            mask => mask,
        };
        (Thread::bits(mask, kind.event) & filter::LONG != 0)
            .then(|| &self.arena.shares.long[kind.event as usize - 1])
    }

    /// Begins a new block of a ring. Returns false if there is no memory, which is counted.
    #[cold]
    pub(crate) fn advance(&self, thread: &Thread, ring: &Ring, kind: &RingKind) -> bool {
        let how = Advance {
            arena: &self.arena,
            kind,
            thread_id: thread.thread_id.load(Relaxed),
            session: self.session_name(thread),
            history_size: self.history_size[kind.event as usize - 1].load(Relaxed),
            long: self.long_history(thread, kind),
        };
        let blocks = &thread.ring_blocks[kind.event as usize - 1];
        let done = ring::advance(ring, blocks, &how);
        if !done {
            self.losses.count(kind.lost);
            blocks.number(1);
        }
        done
    }

    /// Prepares a journal for a record: room, a base within reach, the parent. Returns false if there is no
    /// memory; the event is then counted as lost.
    #[cold]
    #[inline(never)]
    pub(crate) fn prepare_journal(
        &self,
        thread: &Thread,
        journal: &EventJournal,
        kind: &RingKind,
        reach: &RecordReach,
        coming: &ComingRecord,
    ) -> bool {
        thread.expect_stage_ids();
        let full = journal.place(MARKS + coming.words).is_none();
        if full && !self.advance(thread, &journal.ring, kind) {
            return false;
        }
        let base = self.arena.base();
        let within = reach.has(journal.id(coming.id), journal.time(coming.time));
        if full || coming.gap || !within {
            journal.mark(base, coming);
        }
        if full {
            // The block begins with a parent, whatever the previous block said.
            journal.parent.store(0, Relaxed);
        }
        journal.place_in(base, 0, coming.parent, || coming.parent_began).is_some()
    }
}
