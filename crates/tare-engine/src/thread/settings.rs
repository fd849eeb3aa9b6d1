//! HOT PATH: the configuration version. Whether an event may take the fast path depends on its instrument's
//! switches, its thread's mask and resets of the sums. All of these change rarely, and each change increments
//! one number. A thread that finds the number unchanged checks nothing else: the cells it marked ready belong
//! to instruments on the fast path.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::Engine;
use crate::layout::bank::{MARKS, READY, SUMMED, UNTIMED, entry_of, place};
use crate::layout::cell::{Cell, StatCell, SummaryFamily};
use crate::layout::histograms;
use crate::layout::stage::begin_of;
use crate::layout::wait::leaf_of;
use crate::memory::arena::{Offset, Own};
use crate::setup::demand::holder;
use crate::setup::filter::{self, Usual};
use crate::setup::instrument::{ENABLED, PROGRESS, TIMED, UNRECORDED, USUAL};
use crate::snapshot::{ClassId, EventType, Kind, Recording};
use crate::thread::{BANK_OWN, Thread};

/// Value in place of the mask's bits in records: events are summed and not recorded.
pub(crate) const SUMMED_UP: u32 = 1 << 31;

impl Engine {
    /// Returns whether the thread has seen the current configuration version, so that its ready marks are
    /// valid.
    #[inline(always)]
    pub(crate) fn is_settled(&self, thread: &Thread) -> bool {
        thread.settled.is(&self.settings)
    }

    /// Announces to every thread that the configuration has changed. Called after the change, under the lock
    /// of the filters, so that no slab is given back meanwhile.
    pub(crate) fn change_settings(&self) {
        self.settings.announce();
        self.choose_all_if_none_is_sampled();
        let live = self.slabs().filter(|thread| thread.alive.load(Acquire) == 1);
        live.for_each(|thread| thread.stages.limit.close());
    }

    /// Adopts the current configuration version. Ready marks stay only if they were made for the same version
    /// and mask. Called by the thread itself.
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
        let activation = self.demands.activation();
        thread.holder.store(holder(thread.thread_id.own(), activation), Relaxed);
        thread.read_locks.settle(&self.demands, activation);
        thread.leave_short_way();
        self.forget_unreported_stage(thread);
    }

    /// Clears the ready marks of all cells.
    fn unready(&self, thread: &Thread) {
        for entry in thread.entries(self, BANK_OWN) {
            let was = entry.own();
            if was & MARKS == UNTIMED {
                histograms::end_counting::<StatCell>(&self.arena, self.arena.at(place(was)));
            }
            entry.store(was & !MARKS, Relaxed);
        }
    }

    /// Clears the marks of cells that are only counted.
    pub(super) fn uncount(&self, thread: &Thread) {
        let counted = thread.entries(self, BANK_OWN).filter(|entry| entry.own() & MARKS == UNTIMED);
        counted.for_each(|entry| entry.store(entry.own() & !MARKS, Relaxed));
    }

    /// Marks the cell of an instrument ready and returns cell and mark. `None`: there is no current cell, or
    /// its events do not take the fast path. Called by the thread itself, after [`Engine::settle`].
    pub(crate) fn make_ready(
        &self,
        thread: &Thread,
        usual: &AtomicU32,
        class: ClassId,
        family: SummaryFamily,
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
            // Counted only.
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
    /// Announces that the thread's configuration has changed. Called after the change, by any thread.
    pub(crate) fn unsettle(&self) {
        self.settled.unsettle();
        self.stages.limit.close();
    }
}
