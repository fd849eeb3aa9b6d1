//! HOT PATH: prepared statements.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::Engine;
use crate::layout::cell::{Counts, SummaryFamily};
use crate::layout::counters::StatementSums;
use crate::layout::program::ProgramRef;
use crate::layout::reference::named;
use crate::layout::statement::NAME_WORDS;
use crate::memory::arena::{LINE, Own};
use crate::memory::lost::Lost;
use crate::memory::pool::{Pool, SlotHead, USED};
use crate::memory::text;
use crate::record::statement::EndedStatement;
use crate::thread::current;

use super::add;
use super::execution::executed_by;
use super::prepared_digest::DigestPlace;

/// Words of a prepared statement's text (1,024 bytes, as in the built-in).
pub(crate) const PREPARED_WORDS: usize = 128;

/// A prepared statement.
#[repr(C)]
pub(crate) struct Prepared {
    pub(crate) head: SlotHead,
    pub(crate) identity: AtomicU64,
    pub(crate) statement_id: AtomicU64,
    pub(crate) owner_thread: AtomicU64,
    pub(crate) owner_event: AtomicU64,
    pub(crate) program: AtomicU32,
    pub(crate) program_generation: AtomicU32,
    pub(crate) name_len: AtomicU32,
    pub(crate) text_len: AtomicU32,
    pub(crate) epoch: AtomicU32,
    /// 1 if the text is truncated.
    text_cut: AtomicU32,
    pub(super) place: DigestPlace,
    /// 1 if deallocated during its own execution, whose end gives the slot back.
    leaving: AtomicU32,
    _pad: AtomicU32,
    pub(crate) text: [AtomicU64; PREPARED_WORDS],
    pub(crate) name: [AtomicU64; NAME_WORDS],
    pub(crate) prepare: Counts,
    pub(crate) reprepare: Counts,
    pub(crate) execute: Counts,
    pub(crate) counters: StatementSums,
}

named! {
    /// Reference to a prepared statement.
    PreparedRef, Prepared
}

impl Prepared {
    /// Returns the text: words, number of bytes, and whether it is truncated.
    #[inline(always)]
    pub(crate) fn sql(&self) -> (&[AtomicU64], usize, bool) {
        (&self.text, self.text_len.own() as usize, self.text_cut.own() != 0)
    }
}

impl Engine {
    /// Creates a prepared statement for the calling thread. `None`: no memory.
    pub fn create_prepared(
        &self,
        identity: usize,
        statement_id: u64,
        name: &[u8],
        event_id: u64,
        program: Option<ProgramRef>,
    ) -> Option<PreparedRef> {
        let thread = current()?;
        let Some(slot) = self.pools.take::<Prepared>(&self.arena, Pool::Prepared, 0) else {
            self.losses.count(Lost::PreparedStatements);
            return None;
        };
        slot.identity.store(identity as u64, Relaxed);
        slot.statement_id.store(statement_id, Relaxed);
        slot.owner_thread.store(thread.thread_id.load(Relaxed), Relaxed);
        slot.owner_event.store(event_id, Relaxed);
        slot.epoch.store(self.epochs[SummaryFamily::Prepared as usize].load(Relaxed), Relaxed);
        slot.name_len.store(text::write(&slot.name, name) as u32, Relaxed);
        if let Some(program) = program {
            slot.program.store(self.arena.offset_of(program), Relaxed);
            slot.program_generation.store(program.slot(self).head.generation(), Relaxed);
        }
        self.publish(Pool::Prepared, slot, Lost::PreparedStatements).map(PreparedRef)
    }

    /// Sets the text of a prepared statement.
    pub fn set_prepared_text(&self, prepared: PreparedRef, sql: &[u8]) {
        let slot = prepared.slot(self);
        if let Some(_held) = self.arena.hold(Pool::Prepared, slot) {
            let kept = text::write(&slot.text, sql);
            slot.text_len.store(kept as u32, Relaxed);
            slot.text_cut.store(u32::from(kept < sql.len()), Relaxed);
        }
    }

    /// Prefetches the lines that the end of an execution writes. Called when the calling thread begins to
    /// execute.
    #[inline(always)]
    pub fn expect_prepared(&self, prepared: PreparedRef) {
        let (base, at) = (self.arena.base(), prepared.object().offset() as usize);
        base.expect_write(at, LINE);
        base.expect_write(at + offset_of!(Prepared, execute) / 8, size_of::<Counts>() + LINE);
    }

    /// Counts a prepare or an execution that ended. Nothing is counted if the statement has been deallocated
    /// meanwhile, even if its slot is in use again.
    ///
    /// Only its own session uses and deallocates a prepared statement, so its block need not be held here:
    /// the slot is unchanged if it is in use under the same name.
    pub fn count_prepared(&self, prepared: PreparedRef, preparing: bool, ended: EndedStatement) {
        let slot = prepared.slot(self);
        if slot.head.state() != USED || slot.head.object() != prepared.object() {
            return;
        }
        let today = self.epochs[SummaryFamily::Prepared as usize].load(Relaxed);
        if preparing || slot.epoch.load(Relaxed) != today || slot.leaving.own() != 0 {
            return self.count_prepared_first(slot, preparing, ended);
        }
        ended.count(&slot.execute, &slot.counters);
    }

    /// Ends an execution that is not counted. Gives the slot back if it was deallocated meanwhile.
    #[cold]
    pub fn leave_prepared(&self, prepared: PreparedRef) {
        let slot = prepared.slot(self);
        if slot.head.object() == prepared.object() && slot.leaving.own() != 0 {
            self.give_prepared(slot);
        }
    }

    /// Counts a prepare, the first event after TRUNCATE, or the last event of a deallocated statement.
    #[cold]
    #[inline(never)]
    fn count_prepared_first(&self, slot: &'static Prepared, preparing: bool, ended: EndedStatement) {
        self.renew_prepared(slot);
        if preparing {
            add(&slot.prepare, 1, ended.taken());
        } else {
            ended.count(&slot.execute, &slot.counters);
        }
        if slot.leaving.own() != 0 {
            self.give_prepared(slot);
        }
    }

    /// Counts a re-prepare.
    pub fn count_reprepare(&self, prepared: PreparedRef) {
        let slot = prepared.slot(self);
        if let Some(_held) = self.arena.hold(Pool::Prepared, slot) {
            self.renew_prepared(slot);
            slot.reprepare.add_untimed(1);
        }
    }

    /// Clears what was counted before the last TRUNCATE. Called by the statement's own session only.
    fn renew_prepared(&self, slot: &Prepared) {
        let now = self.epochs[SummaryFamily::Prepared as usize].load(Relaxed);
        if slot.epoch.load(Relaxed) != now {
            [&slot.prepare, &slot.reprepare, &slot.execute].into_iter().for_each(Counts::clear);
            slot.counters.clear();
            slot.epoch.store(now, Relaxed);
        }
    }

    /// Deallocates a prepared statement. If its session still executes it, as EXECUTE IMMEDIATE does, slot
    /// and digest stay until the execution has been counted.
    pub fn destroy_prepared(&self, prepared: PreparedRef) {
        let slot = prepared.slot(self);
        let executed = current().and_then(|thread| executed_by(self, thread));
        if executed.is_some_and(|(_, object)| object == prepared.object()) {
            slot.leaving.store(1, Relaxed);
        } else {
            self.give_prepared(slot);
        }
    }

    fn give_prepared(&self, slot: &'static Prepared) {
        self.give_prepared_digest(slot);
        self.pools.give(&self.arena, Pool::Prepared, slot);
    }
}
