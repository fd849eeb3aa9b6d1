//! HOT PATH: what has been settled. Whether an event may take the short way depends on its instrument's switches, on its
//! thread's mask and on resets of the sums. All of these change rarely, and each change bumps one number; a thread that
//! finds the number unchanged asks nothing else: the cells it marked ready are of instruments whose events are usual.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::Engine;
use crate::count::bank::{MARKS, READY, SUMMED, UNTIMED, entry_of, place};
use crate::count::cell::{Cell, Family, StatCell};
use crate::count::spread;
use crate::memory::arena::{Offset, Own};
use crate::record::stage::record::begin_of;
use crate::record::wait::record::leaf_of;
use crate::setup::instrument::{ENABLED, PROGRESS, TIMED, UNRECORDED, USUAL};
use crate::setup::level::Recording;
use crate::setup::wanted::holder;
use crate::snapshot::{ClassId, EventType, Kind};
use crate::thread::filter::{self, Usual};
use crate::thread::{BANK_OWN, Thread};

/// In the place of what records keep of the mask: events are summed up and not recorded.
pub(crate) const SUMMED_UP: u32 = 1 << 31;

impl Engine {
    /// Whether what the thread has marked ready still is.
    #[inline(always)]
    pub(crate) fn is_settled(&self, thread: &Thread) -> bool {
        thread.settled.is(&self.settings)
    }

    /// Something that decides how events are recorded has changed, for every thread. After the change, under the lock of the
    /// filters: so no slab is given back meanwhile.
    pub(crate) fn change_settings(&self) {
        self.settings.announce();
        self.choose_all_if_none_is_sampled();
        let live = self.slabs().filter(|thread| thread.alive.load(Acquire) == 1);
        live.for_each(|thread| thread.stages.limit.close());
    }

    /// The calling thread looks again. What it marked ready for the same settings and the same mask still is, nothing else.
    #[cold]
    #[inline(never)]
    pub(crate) fn settle(&self, thread: &Thread) {
        let changes = thread.settled.settle(&self.settings);
        let mask = thread.mask();
        let usual = |of, recorded: fn(u8) -> u32| match filter::usual(mask, of) {
            Usual::Not => 0,
            Usual::Summed => SUMMED_UP,
            Usual::Recorded(flags) => recorded(flags),
        };
        thread.usual_waits.store(usual(EventType::Wait, leaf_of), Relaxed);
        thread.usual_stages.store(usual(EventType::Stage, begin_of), Relaxed);
        let settled_for = [changes, mask];
        if thread.ready_for.each_ref().map(Own::own) != settled_for {
            self.unready(thread);
            thread.ready_for.iter().zip(settled_for).for_each(|(word, now)| word.store(now, Relaxed));
        }
        let turn = self.wanted.turn();
        thread.holder.store(holder(thread.thread_id.own(), turn), Relaxed);
        thread.read_locks.settle(&self.wanted, turn);
        thread.leave_short_way();
        self.forget_untold_stage(thread);
    }

    /// No cell is ready any more.
    fn unready(&self, thread: &Thread) {
        for entry in thread.entries(self, BANK_OWN) {
            let was = entry.own();
            if was & MARKS == UNTIMED {
                spread::end_counting::<StatCell>(&self.arena, self.arena.at(place(was)));
            }
            entry.store(was & !MARKS, Relaxed);
        }
    }

    /// No cell is marked as only counted any more.
    pub(super) fn uncount(&self, thread: &Thread) {
        let counted = thread.entries(self, BANK_OWN).filter(|entry| entry.own() & MARKS == UNTIMED);
        counted.for_each(|entry| entry.store(entry.own() & !MARKS, Relaxed));
    }

    /// Marks the cell of an instrument, if there is one and its events are usual in the calling thread, which has settled.
    /// Returns cell and mark then.
    pub(crate) fn make_ready(
        &self,
        thread: &Thread,
        usual: &AtomicU32,
        class: ClassId,
        family: Family,
    ) -> Option<(Offset, u32)> {
        let mark = self.mark(usual.own(), class)?;
        let bank = &thread.banks[BANK_OWN];
        let entry = bank.entry(&self.arena, class)?;
        let cell = bank.cell::<StatCell>(&self.arena, class)?;
        if cell.head().epoch.own() != self.epochs[family as usize].load(Relaxed) {
            return None;
        }
        if mark == UNTIMED {
            self.begin_counting(thread, cell);
        }
        let cell = self.arena.offset_of(cell);
        entry.store(entry_of(cell, mark), Release);
        Some((cell, mark))
    }

    fn mark(&self, usual: u32, class: ClassId) -> Option<u32> {
        let switches = self.registry.switches(class);
        match switches & (ENABLED | TIMED | USUAL | UNRECORDED) {
            _ if usual == 0 => None,
            // Only counted.
            counted if counted == ENABLED | UNRECORDED && switches & PROGRESS == 0 => Some(UNTIMED),
            other if other & USUAL == 0 => None,
            other => {
                let recorded = usual != SUMMED_UP && other & UNRECORDED == 0;
                let is_lock = matches!(self.registry.kind(class), Kind::Mutex | Kind::Rwlock | Kind::Sxlock);
                let untimed = is_lock && self.registry.level(class) != Recording::Exact;
                Some(if recorded { READY } else { SUMMED } | if untimed { UNTIMED } else { 0 })
            }
        }
    }
}

impl Thread {
    /// Something that decides how the thread's events are recorded has changed. After the change; by any thread.
    pub(crate) fn unsettle(&self) {
        self.settled.unsettle();
        self.stages.limit.close();
    }
}
