//! HOT PATH: prepared statements.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::Engine;
use crate::count::cell::{Counts, Family};
use crate::count::counters::Counters;
use crate::memory::lost::Lost;
use crate::memory::pool::{Pool, SlotHead};
use crate::memory::text;
use crate::record::statement::{EndedStatement, NAME_WORDS};
use crate::thread::current;

use super::{ProgramRef, add, reference};

/// Words of a prepared statement's text (1,024 bytes, as the built-in).
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
    _pad: AtomicU32,
    pub(crate) name: [AtomicU64; NAME_WORDS],
    pub(crate) text: [AtomicU64; PREPARED_WORDS],
    pub(crate) prepare: Counts,
    pub(crate) reprepare: Counts,
    pub(crate) execute: Counts,
    pub(crate) counters: Counters,
}

reference! {
    /// A prepared statement.
    PreparedRef, PreparedHandle, Prepared
}

impl PreparedHandle {
    /// Tells it from those that had its place before, and will have it.
    #[inline(always)]
    pub fn generation(&'static self) -> u32 {
        self.slot.head.generation()
    }
}

/// Prepared statements.
impl Engine {
    /// A statement is prepared by the calling thread.
    pub fn create_prepared(
        &self,
        identity: usize,
        statement_id: u64,
        name: &[u8],
        event_id: u64,
        program: Option<ProgramRef>,
    ) -> Option<PreparedRef> {
        let thread = current()?;
        let Some(prepared) = self.pools.take::<PreparedHandle>(&self.arena, Pool::Prepared, 0) else {
            self.losses.count(Lost::PreparedStatements);
            return None;
        };
        let slot = &prepared.slot;
        slot.identity.store(identity as u64, Relaxed);
        slot.statement_id.store(statement_id, Relaxed);
        slot.owner_thread.store(thread.thread_id.load(Relaxed), Relaxed);
        slot.owner_event.store(event_id, Relaxed);
        slot.epoch.store(self.epochs[Family::Prepared as usize].load(Relaxed), Relaxed);
        slot.name_len.store(text::write(&slot.name, name) as u32, Relaxed);
        if let Some(program) = program {
            slot.program.store(self.arena.offset_of(program), Relaxed);
            slot.program_generation.store(program.slot(self).head.generation(), Relaxed);
        }
        slot.head.publish();
        Some(prepared)
    }

    /// Its text.
    pub fn set_prepared_text(&self, prepared: PreparedRef, sql: &[u8]) {
        let slot = &prepared.slot;
        if let Some(_held) = self.arena.hold(Pool::Prepared, prepared) {
            slot.text_len.store(text::write(&slot.text, sql) as u32, Relaxed);
        }
    }

    /// Counts a prepare or an execution that ended, of the statement that had this [`PreparedHandle::generation`] when it began:
    /// one that is deallocated meanwhile, and its place maybe used again, counts no more.
    ///
    /// Only the session of a prepared statement uses it and deallocates it. So nobody need hold it here: it is what it was when
    /// it is in use and its generation is the same.
    pub fn count_prepared(
        &self,
        prepared: PreparedRef,
        generation: u32,
        preparing: bool,
        ended: EndedStatement,
    ) {
        let slot = &prepared.slot;
        if !slot.head.is_still(generation) {
            return;
        }
        let today = self.epochs[Family::Prepared as usize].load(Relaxed);
        if preparing || slot.epoch.load(Relaxed) != today {
            return self.count_prepared_first(prepared, preparing, ended);
        }
        ended.count(&slot.execute, &slot.counters);
    }

    /// As [`Engine::count_prepared`], of a prepare, or of what comes first after TRUNCATE.
    #[cold]
    #[inline(never)]
    fn count_prepared_first(&self, prepared: PreparedRef, preparing: bool, ended: EndedStatement) {
        let slot = self.prepared_of_today(prepared);
        if preparing {
            add(&slot.prepare, 1, ended.taken());
        } else {
            ended.count(&slot.execute, &slot.counters);
        }
    }

    /// Counts a re-prepare.
    pub fn count_reprepare(&self, prepared: PreparedRef) {
        if let Some(_held) = self.arena.hold(Pool::Prepared, prepared) {
            self.prepared_of_today(prepared).reprepare.add_untimed(1);
        }
    }

    /// A prepared statement, without what it counted before the last TRUNCATE. Only its own session uses it.
    fn prepared_of_today(&self, prepared: PreparedRef) -> &'static Prepared {
        let slot = &prepared.slot;
        let now = self.epochs[Family::Prepared as usize].load(Relaxed);
        if slot.epoch.load(Relaxed) != now {
            [&slot.prepare, &slot.reprepare, &slot.execute].into_iter().for_each(Counts::clear);
            slot.counters.clear();
            slot.epoch.store(now, Relaxed);
        }
        slot
    }

    /// It is deallocated.
    pub fn destroy_prepared(&self, prepared: PreparedRef) {
        self.pools.give(&self.arena, Pool::Prepared, prepared);
    }
}
