//! HOT PATH: what has been settled. Whether an event may take the short way depends on its instrument's switches, on its
//! thread's mask and on resets of the sums. All of these change rarely, and each change bumps one number; a thread that
//! finds the number unchanged asks nothing else: the cells it marked ready are of instruments whose events are usual.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, Release},
};

use crate::Engine;
use crate::count::bank::{READY, SUMMED};
use crate::count::cell::{Cell, Family, StatCell};
use crate::memory::arena::{Base, Offset, Own};
use crate::record::ring::StageRecord;
use crate::setup::instrument::{ENABLED, TIMED, USUAL};
use crate::snapshot::{ClassId, EventType};
use crate::thread::filter;
use crate::thread::{BANK_OWN, Thread};

impl Engine {
    /// Whether what the thread has marked ready still is.
    #[inline(always)]
    pub(crate) fn is_settled(&self, thread: &Thread) -> bool {
        thread.settled.is(&self.settings)
    }

    /// Something that decides how events are recorded has changed, for every thread. After the change.
    pub(crate) fn change_settings(&self) {
        self.settings.announce();
    }

    /// The calling thread looks again: nothing is ready any more.
    #[cold]
    #[inline(never)]
    pub(crate) fn settle(&self, thread: &Thread) {
        thread.settled.settle(&self.settings);
        let mask = thread.mask();
        thread.usual_waits.store(filter::usual(mask, EventType::Wait), Relaxed);
        thread.usual_stages.store(filter::usual(mask, EventType::Stage), Relaxed);
        thread.banks[BANK_OWN].unready(&self.arena);
        self.leave_short_way(thread, self.arena.base());
    }

    /// The stage in progress, if it began on the short way, will not end there.
    #[inline(always)]
    pub(crate) fn leave_short_way(&self, thread: &Thread, base: Base) {
        if thread.stage_cell.own() == 0 {
            return;
        }
        let class = match thread.stage_record.own() {
            // Of one that is summed the thread knows class and start.
            0 => thread.stage_label.own(),
            record => {
                let record: &StageRecord = base.at(record);
                thread.stage_start.store(record.start.own(), Relaxed);
                record.class()
            }
        };
        thread.stage_class.store(class | u32::from(ENABLED | TIMED) << 16, Relaxed);
        thread.stage_cell.store(0, Relaxed);
    }

    /// Marks the cell of an instrument ready (or summed), if there is one and its events are usual in the calling thread, which
    /// has settled. Returns it then.
    pub(crate) fn make_ready(
        &self,
        thread: &Thread,
        usual: &AtomicU32,
        class: ClassId,
        family: Family,
    ) -> Option<Offset> {
        if usual.own() == 0 || self.registry.switches(class) & USUAL == 0 {
            return None;
        }
        let bank = &thread.banks[BANK_OWN];
        let entry = bank.entry(&self.arena, class)?;
        let cell = bank.cell::<StatCell>(&self.arena, class)?;
        if cell.head().epoch.own() != self.epochs[family as usize].load(Relaxed) {
            return None;
        }
        let mark = if usual.own() == filter::SUMMED { SUMMED } else { READY };
        entry.store(entry.own() | mark, Release);
        Some(self.arena.offset_of(cell))
    }
}

impl Thread {
    /// Something that decides how the thread's events are recorded has changed. After the change; by any thread.
    pub(crate) fn unsettle(&self) {
        self.settled.unsettle();
    }
}
