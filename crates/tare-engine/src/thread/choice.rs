//! HOT PATH: choice of the statements that are recorded with everything inside them. See
//! [`crate::setup::sampling`].
//!
//! A client's statement is chosen with a probability of 1 in *weight*, independently of every other one, so
//! the gaps between chosen statements are random. Events of sampled instruments inside a chosen statement
//! count `weight` times. In any other statement their calls are skipped at the cost of a thread-local word:
//! how many calls may still be skipped before the clock is read. So a statement notices by itself that it has
//! become slow. From then on it is recorded, with weight 1. A chosen statement counts the same calls, upwards
//! to zero, and reads the clock at the same moments: whatever begins in a slow statement from then on counts
//! once in any case, and whatever began before counts by the choice. So sums stay unbiased.
//!
//! What a client's connection does before its first statement is chosen likewise, with the same probability.

use std::hint::cold_path;
use std::sync::atomic::Ordering::Relaxed;

use crate::Engine;
use crate::clock::{ticks, ticks_at_once};
use crate::layout::cell::{SampleWeight, StatCell};
use crate::layout::cell_list::ListedCell;
use crate::layout::histograms::CellEvents;
use crate::memory::arena::Own;
use crate::setup::instrument::{INSTRUCTION, SAMPLED};
use crate::snapshot::{ClassId, Kind};
use crate::thread::{BANK_OWN, Thread, current, local};

/// Number of calls that are skipped before the clock is read. A point select makes about eighty.
const SKIPS: i32 = 64;

/// Stage label of a stage that only the host knows. See [`crate::record::stage::unreported`].
pub(crate) const UNKNOWN_STAGE: u32 = u32::MAX;

/// Table I/O in progress that is only counted, packed into a word for readers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tallied {
    /// Weak name of the table.
    pub(crate) table: u32,
    /// One of the numbers in [`crate::record::operation`].
    pub(crate) operation: u8,
    pub(crate) index: u8,
}

impl Tallied {
    const THERE: u64 = 1 << 63;

    #[inline(always)]
    pub(crate) const fn word(self) -> u64 {
        Tallied::THERE | (self.operation as u64) << 40 | (self.index as u64) << 32 | self.table as u64
    }

    /// Unpacks a word. `None`: no table I/O is in progress.
    pub(crate) fn of(word: u64) -> Option<Tallied> {
        let tallied =
            Tallied { table: word as u32, operation: (word >> 40) as u8, index: (word >> 32) as u8 };
        (word & Tallied::THERE != 0).then_some(tallied)
    }
}

/// The start of an event that is counted the moment it happens.
pub(crate) const NOW: u64 = u64::MAX;

impl Engine {
    /// Decides whether the client's statement that begins is recorded with everything inside it.
    #[inline(always)]
    pub(crate) fn choose(&self, thread: &Thread) -> bool {
        let chance = self.sampling.chance();
        thread.begun.store(thread.begun.own().wrapping_add(1), Relaxed);
        if thread.draw() <= chance.threshold() {
            thread.weight.store(chance.weight(), Relaxed);
            thread.slow_from.store(0, Relaxed);
            // Where it stands for itself alone, nothing changes when it becomes slow.
            local::set_skips(if chance.weight() > 1 { -SKIPS } else { 0 });
            return true;
        }
        if local::skips() <= 0 {
            self.leave_recording(thread);
        }
        thread.stage_label.store(UNKNOWN_STAGE, Relaxed);
        thread.weight.store(1, Relaxed);
        local::set_skips(SKIPS);
        false
    }

    /// Decides whether a client's connection is recorded until its first statement begins. Called before the
    /// thread runs.
    pub(super) fn choose_connection(&self, thread: &Thread) {
        let chance = self.sampling.chance();
        if chance.weight() == 1 {
            return;
        }
        let skips = if thread.draw() <= chance.threshold() {
            thread.weight.store(chance.weight(), Relaxed);
            -SKIPS
        } else {
            thread.stage_label.store(UNKNOWN_STAGE, Relaxed);
            SKIPS
        };
        // No statement becomes slow before there is one.
        thread.slow_at.store(u64::MAX, Relaxed);
        thread.skips.store(skips.cast_unsigned(), Relaxed);
    }

    /// Stops recording in the thread: ends its stage and forgets its read locks, whose ends would not be
    /// reported.
    #[cold]
    #[inline(never)]
    fn leave_recording(&self, thread: &Thread) {
        if thread.is_in_stage() {
            self.end_stage();
        }
        thread.read_locks.forget();
    }

    /// Returns whether to skip an event that begins in the calling thread. For sampled instruments only.
    #[inline(always)]
    pub fn skips(&self) -> bool {
        self.skips_as::<false>()
    }

    /// Returns whether to skip a stage that begins. The stage before, which it ends, is not resumed.
    #[inline(always)]
    pub fn skips_stage(&self) -> bool {
        self.skips_as::<true>()
    }

    /// Returns whether to skip an event that begins in the calling thread, and the clock need not be read. If
    /// not, ask [`Engine::skips`] or [`Engine::skips_stage`]. For sampled instruments only.
    #[inline(always)]
    pub fn skips_at_once(&self) -> bool {
        local::take_skip()
    }

    #[inline(always)]
    fn skips_as<const STAGE: bool>(&self) -> bool {
        self.skips_at_once()
            || self.looks_for_slowness() && {
                cold_path();
                self.skips_unless_slow::<STAGE>()
            }
    }

    /// Returns whether to skip an event for which the clock may have to be read, or which a chosen statement
    /// counts.
    #[cold]
    #[inline(never)]
    fn skips_unless_slow<const STAGE: bool>(&self) -> bool {
        if self.is_skipping() {
            return self.skips_on::<STAGE>();
        }
        self.count_down_chosen::<STAGE>();
        false
    }

    /// Counts a call in a chosen statement that another statement would skip.
    fn count_down_chosen<const STAGE: bool>(&self) {
        match local::skips() + 1 {
            0 => self.weigh_on::<STAGE>(),
            left => local::set_skips(left),
        }
    }

    /// Reads the clock in a chosen statement, at the calls at which [`Engine::skips_on`] does in others. In
    /// one that has become slow, whatever begins from now on counts once.
    #[cold]
    #[inline(never)]
    fn weigh_on<const STAGE: bool>(&self) {
        let Some(thread) = current() else { return };
        let now = ticks();
        if !self.is_slow_at(thread, now) {
            return local::set_skips(-SKIPS);
        }
        if !STAGE {
            self.split_stage(thread, now);
        }
        thread.slow_from.store(now.max(1), Relaxed);
        local::set_skips(0);
    }

    /// Returns whether to skip an event that may follow a pause; always reads the clock. For sampled
    /// instruments only.
    #[inline(always)]
    pub fn skips_after_pause(&self) -> bool {
        self.looks_for_slowness() && {
            cold_path();
            self.skips_on_after_pause()
        }
    }

    /// Decides as [`Engine::skips_after_pause`] where one reading of the clock is enough. `None`: ask that.
    #[inline(always)]
    pub fn skips_early(&self) -> Option<bool> {
        if !self.looks_for_slowness() {
            return Some(false);
        }
        let thread = current()?;
        if ticks_at_once()? >= thread.slow_at.own() {
            return None;
        }
        let is_skipping = self.is_skipping();
        if is_skipping {
            local::set_skips(SKIPS);
        }
        Some(is_skipping)
    }

    /// Returns whether to skip an event that may follow a pause, where one reading of the clock tells that
    /// and no call is needed. If not, ask [`Engine::skips_after_pause`]. For sampled instruments only.
    #[inline(always)]
    pub fn skips_after_short_pause(&self) -> bool {
        if !self.is_skipping() {
            return false;
        }
        let (Some(thread), Some(now)) = (current(), ticks_at_once()) else { return false };
        let is_short = now < thread.slow_at.own();
        if is_short {
            local::set_skips(SKIPS);
        }
        is_short
    }

    #[cold]
    #[inline(never)]
    fn skips_on_after_pause(&self) -> bool {
        if self.is_skipping() {
            return self.skips_on::<false>();
        }
        self.weigh_on::<false>();
        false
    }

    /// Returns whether to skip an event of `class`, which need not be sampled.
    #[inline(always)]
    pub fn skips_class(&self, class: ClassId) -> bool {
        self.looks_for_slowness() && self.is_class_sampled(class) && self.skips()
    }

    /// Returns whether to skip a stage of `class`, which need not be sampled.
    #[inline(always)]
    pub fn skips_stage_class(&self, class: ClassId) -> bool {
        self.looks_for_slowness() && self.is_class_sampled(class) && self.skips_stage()
    }

    /// Returns whether to skip an instruction of a stored program. SQL statements are never skipped.
    #[inline(always)]
    pub fn skips_instruction(&self, class: ClassId) -> bool {
        const SKIPPED: u8 = SAMPLED | INSTRUCTION;
        self.looks_for_slowness() && self.registry.switches(class) & SKIPPED == SKIPPED && self.skips()
    }

    /// Returns whether the calling thread's statement was not chosen and has not become slow. For sampled
    /// instruments whose events are counted even then.
    #[inline(always)]
    pub fn is_skipping(&self) -> bool {
        local::is_skipping()
    }

    /// Returns whether the calling thread's statement is counted differently once it is slow: it is skipping,
    /// or it was chosen and counts for others.
    #[inline(always)]
    pub fn looks_for_slowness(&self) -> bool {
        local::skips() != 0
    }

    /// Returns whether sampled events of the calling thread count more than once.
    #[inline(always)]
    pub fn is_weighing(&self) -> bool {
        local::skips() < 0
    }

    /// Reads the clock and returns whether to go on skipping. A statement that has become slow is recorded
    /// from now on.
    #[cold]
    #[inline(never)]
    fn skips_on<const STAGE: bool>(&self) -> bool {
        let Some(thread) = current() else { return false };
        let has_become_slow = self.is_slow_at(thread, ticks());
        if has_become_slow {
            self.record_from_now_on(thread);
            if !STAGE {
                self.resume_stage(thread);
            }
        } else {
            local::set_skips(SKIPS);
        }
        !has_become_slow
    }

    /// Returns whether the calling thread's statement is slow at `now`, in ticks.
    fn is_slow_at(&self, thread: &Thread, now: u64) -> bool {
        let start = self.outermost_start(thread);
        start != 0 && now.saturating_sub(start) >= self.sampling.slow_after_ticks()
    }

    /// Starts recording the calling thread's statement, which was not chosen, with weight 1.
    pub(crate) fn record_from_now_on(&self, thread: &Thread) {
        local::set_skips(0);
        thread.weight.store(1, Relaxed);
        self.keep_unchosen(thread);
        thread.set_stage_parent(self.arena.base(), thread.parent.own());
    }

    /// Makes sure that the statement around an ended wait is recorded, because the wait is, chosen or not.
    /// Reads the clock in statements that were not chosen.
    #[inline(always)]
    pub fn has_waited(&self) {
        if self.looks_for_slowness() {
            cold_path();
            self.keep_waiting_statement();
        }
    }

    #[cold]
    #[inline(never)]
    fn keep_waiting_statement(&self) {
        if self.skips_on_after_pause()
            && let Some(thread) = current()
        {
            self.keep_unchosen(thread);
        }
    }

    /// Returns the factors by which the calling thread counts an event that began at `began` in one of its
    /// own cells.
    #[inline(always)]
    pub(crate) fn weight_in(
        &self,
        thread: &Thread,
        cell: &StatCell,
        of: CellEvents,
        began: u64,
    ) -> SampleWeight {
        if !thread.is_weighted() {
            return SampleWeight::ONE;
        }
        let (kind, class) = match of.class {
            0 if self.is_all_sampled(Kind::Stage) => (Kind::Stage, 0),
            0 => (Kind::Stage, self.class_of(thread, cell)),
            class => (self.registry.kind(class), class),
        };
        self.weight(thread, kind, class, began)
    }

    /// Returns the instrument of one of a thread's own cells.
    #[cold]
    #[inline(never)]
    fn class_of(&self, thread: &Thread, cell: &StatCell) -> ClassId {
        let place = self.arena.offset_of(cell);
        thread.cells(self, BANK_OWN).find(|it| it.cell() == place).map_or(0, ListedCell::class)
    }

    /// Adds an uncontended lock of the calling thread to its cell: once, or at level sampled as often as the
    /// statement's weight says.
    #[inline(always)]
    pub(crate) fn count_free_in(&self, thread: &Thread, cell: &StatCell, class: ClassId) {
        if thread.is_weighted() {
            cold_path();
            return self.count_weighted_free(thread, cell, class);
        }
        cell.stat.count_free();
    }

    #[cold]
    #[inline(never)]
    fn count_weighted_free(&self, thread: &Thread, cell: &StatCell, class: ClassId) {
        cell.stat.count_free();
        if self.is_sampled(self.registry.kind(class), class) {
            cell.stat.add_untimed(thread.weight_at(NOW) - 1);
        }
    }

    /// Returns the factors by which the calling thread counts an event that began at `began`. `class` decides
    /// where only some instruments of `kind` are sampled.
    #[cold]
    #[inline(never)]
    pub(crate) fn weight_of(&self, thread: &Thread, kind: Kind, class: ClassId, began: u64) -> SampleWeight {
        self.weight(thread, kind, class, began)
    }

    /// Does what [`Engine::weight_of`] does, inlined.
    #[inline(always)]
    fn weight(&self, thread: &Thread, kind: Kind, class: ClassId, began: u64) -> SampleWeight {
        if !self.is_sampled(kind, class) {
            return SampleWeight::ONE;
        }
        let weight = thread.weight_at(began);
        match kind {
            // All of them are counted, and only these are timed.
            Kind::TableIo => SampleWeight { events: 1, time: weight },
            Kind::Mutex | Kind::Rwlock | Kind::Sxlock if self.reports_free_locks.load(Relaxed) => {
                SampleWeight { events: weight, time: weight }
            }
            // The host reports these only when they really waited.
            Kind::Mutex | Kind::Rwlock | Kind::Sxlock | Kind::Cond | Kind::File | Kind::Metadata => {
                SampleWeight::ONE
            }
            _ => SampleWeight { events: weight, time: weight },
        }
    }

    /// Returns whether the events of an instrument are sampled, by its kind or by its own level.
    #[inline(always)]
    pub fn is_sampled(&self, kind: Kind, class: ClassId) -> bool {
        self.is_all_sampled(kind) || self.is_class_sampled(class)
    }

    /// Returns whether the instrument's own level is the sampling one.
    #[inline(always)]
    pub fn is_class_sampled(&self, class: ClassId) -> bool {
        self.registry.switches(class) & SAMPLED != 0
    }
}

impl Thread {
    /// Returns the next random number.
    #[inline(always)]
    fn draw(&self) -> u32 {
        let random =
            self.random.own().wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        self.random.store(random, Relaxed);
        (random >> 32) as u32
    }

    /// Returns whether an event that the thread counts now may count more than once.
    #[inline(always)]
    pub(crate) fn is_weighted(&self) -> bool {
        self.weight.own() != 1
    }

    /// Returns how many times a sampled event counts that began at `began`, in ticks.
    pub(crate) fn weight_at(&self, began: u64) -> u64 {
        match self.slow_from.own() {
            slow_from if slow_from != 0 && began >= slow_from => 1,
            _ => u64::from(self.weight.own()),
        }
    }
}
