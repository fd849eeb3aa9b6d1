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
use crate::memory::arena::{Offset, Own};
use crate::record::stage::record::begin_of;
use crate::record::wait::record::leaf_of;
use crate::setup::instrument::USUAL;
use crate::setup::wanted::holder;
use crate::snapshot::{ClassId, EventType};
use crate::thread::filter::{self, Usual};
use crate::thread::{BANK_OWN, Thread};

/// In the place of what records keep of the mask: events are summed up and not recorded.
const SUMMED_UP: u32 = 1 << 31;

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
        let usual = |of, recorded: fn(u8) -> u32| match filter::usual(mask, of) {
            Usual::Not => 0,
            Usual::Summed => SUMMED_UP,
            Usual::Recorded(flags) => recorded(flags),
        };
        thread.usual_waits.store(usual(EventType::Wait, leaf_of), Relaxed);
        thread.usual_stages.store(usual(EventType::Stage, begin_of), Relaxed);
        thread.banks[BANK_OWN].unready(&self.arena);
        let turn = self.wanted.turn();
        thread.holder.store(holder(thread.thread_id.own(), turn), Relaxed);
        thread.read_locks.settle(&self.wanted, turn);
        thread.leave_short_way();
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
        let mark = if usual.own() == SUMMED_UP { SUMMED } else { READY };
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
