//! HOT PATH: stages. One clock reading ends a stage and begins the next.

pub(crate) mod unreported;

use std::hint::cold_path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::Engine;
use crate::clock::{cycles, ticks};
use crate::histogram::Lowest;
use crate::layout::bank::{READY, SUMMED, UNTIMED, place};
use crate::layout::cell::{StatCell, SummaryFamily};
use crate::layout::histograms::CellEvents;
use crate::layout::journal::{ComingRecord, parent};
use crate::layout::ring::{RECORD_TIMED, STAGES};
use crate::layout::stage::{
    BegunStage, CLASS, EndedStage, MOST_WORDS, REACH, USUAL_WORDS, begin_of, write_begin, write_end,
    write_near_begin, write_near_end, write_progress, write_source, written_source,
};
use crate::memory::arena::{Base, Offset, Own};
use crate::record::Start;
use crate::record::wait::{Source, kept};
use crate::setup::filter::{ATTRIBUTED, is_event};
use crate::setup::instrument::{ENABLED, PROGRESS, TIMED};
use crate::snapshot::{ClassId, EventType, Kind};
use crate::thread::settings::SUMMED_UP;
use crate::thread::{BANK_OWN, BANK_UNATTRIBUTED, Thread, current};

/// WORK_COMPLETED and WORK_ESTIMATED of the stage in progress, written by the host.
pub type Progress = &'static [AtomicU64; 2];

impl Engine {
    /// Begins a stage of the calling thread, ending the previous one. Returns its progress, if it reports
    /// one.
    pub fn start_stage(&self, class: ClassId, source: Source) -> Option<Progress> {
        if let Start::Began(progress) = self.start_stage_fast(class, source) {
            return progress;
        }
        match self.start_unrecorded_stage_fast(class) {
            Start::Slow => self.start_stage_slow(class, source),
            Start::Began(()) | Start::Off => None,
        }
    }

    /// Begins a recorded stage on the fast path, ending the previous one. On `Slow`, call
    /// [`Engine::start_unrecorded_stage_fast`].
    #[inline(always)]
    pub fn start_stage_fast(&self, class: ClassId, source: Source) -> Start<Option<Progress>> {
        let Some(thread) = current() else { return Start::Slow };
        let journal = &thread.stages;
        let Some(at) = journal.usual_place() else { return Start::Slow };
        let base = self.arena.base();
        let entry = thread.banks[BANK_OWN].settled_entry(base, class);
        if entry & READY == 0 {
            cold_path();
            return Start::Slow;
        }
        write_source(base, at, source.0);
        let now = cycles();
        let what = || {
            // From here on, no register holds the class.
            thread.stage_label.store(u32::from(class), Relaxed);
            u64::from(class) << CLASS | u64::from(thread.usual_stages.own())
        };
        if !write_near_begin(journal, base, at, now, what, || thread.event_id.own()) {
            return Start::Began(self.begin_far_stage(thread, class));
        }
        // Loaded again, as the path has no registers to keep it.
        let before = thread.stage_cell.own();
        if before != 0 {
            let start = thread.stage_start.own();
            if base.at::<StatCell>(before).add_usual(thread, 1, start, now).is_none() {
                return Start::Began(self.begin_after_long_stage(thread, entry, now));
            }
        }
        thread.begin_recorded_stage(entry, now);
        Start::Began(None)
    }

    /// Begins a stage that is out of reach of the journal's base; its source has been written already. The
    /// fast path tail-calls this function, which therefore has the host's calling convention and result.
    #[cold]
    #[inline(never)]
    extern "C" fn begin_far_stage(&self, thread: &'static Thread, class: ClassId) -> Option<Progress> {
        let source = Source(written_source(&thread.stages, self.arena.base()));
        let progress = self.start_unusual_stage(thread, class, source, true);
        self.open_short_way(thread);
        progress
    }

    /// Begins a stage of the fast path after counting the previous one, however long that took. If it is
    /// recorded, it is in the journal already. Everything else is done here, so that the fast path keeps
    /// nothing across a call.
    #[cold]
    #[inline(never)]
    extern "C" fn begin_after_long_stage(&self, thread: &Thread, entry: u32, now: u64) -> Option<Progress> {
        let before: &StatCell = self.arena.at(thread.stage_cell.own());
        before.add_span(self, thread, CellEvents::STAGE, 1, thread.stage_start.own(), now);
        match entry & (READY | SUMMED) {
            READY => thread.begin_recorded_stage(entry, now),
            SUMMED => begin_timed_stage(thread, entry, now),
            _ => count_stage(self.arena.base(), thread, entry),
        }
        // Through `black_box`, so that the fast path tail-calls this function and saves no register.
        std::hint::black_box(None)
    }

    /// Begins a stage that is not recorded on the fast path. It is separate from [`Engine::start_stage_fast`]
    /// so that both have enough registers. On `Slow`, call [`Engine::start_stage`].
    #[inline(always)]
    pub fn start_unrecorded_stage_fast(&self, class: ClassId) -> Start {
        let Some(thread) = current() else { return Start::Slow };
        if !self.is_settled(thread) {
            return Start::Slow;
        }
        let entry = thread.banks[BANK_OWN].settled_entry(self.arena.base(), class);
        if entry & (SUMMED | UNTIMED) != 0 {
            return start_summed_stage(self, thread, class, entry);
        }
        match class {
            // No stage follows: this is [`Engine::end_stage`].
            0 => Start::Slow,
            _ if self.is_off(class) || thread.mask() == 0 => thread.pass_stage(class),
            _ => Start::Slow,
        }
    }

    /// Notes a stage of the calling thread, for hosts that know that no stage is enabled: what remains is the
    /// thread's state. Class 0 means that no stage follows. On `Slow`, a stage from before is in progress:
    /// call [`Engine::start_stage`], or [`Engine::end_stage`] for class 0.
    #[inline(always)]
    pub fn pass_stage_fast(&self, class: ClassId) -> Start {
        let Some(thread) = current() else { return Start::Slow };
        if thread.stage_cell.own() | thread.stage_class.own() != 0 {
            return Start::Slow;
        }
        thread.stage_label.store(u32::from(class), Relaxed);
        Start::Off
    }

    #[cold]
    #[inline(never)]
    fn start_stage_slow(&self, class: ClassId, source: Source) -> Option<Progress> {
        let thread = current()?;
        if class == 0 {
            // No stage follows.
            self.end_stage();
            return None;
        }
        if !self.is_settled(thread) {
            self.settle(thread);
        }
        let mut has_room = true;
        if is_usual(thread) {
            // Perhaps only the journal was not ready.
            has_room = self.prepare_stages(thread, (thread.event_id.own(), cycles()));
            self.open_short_way(thread);
            if has_room && let Start::Began(progress) = self.start_stage_fast(class, source) {
                return progress;
            }
        }
        let progress = self.start_unusual_stage(thread, class, source, has_room);
        self.open_short_way(thread);
        progress
    }

    /// Opens the fast path for the next stage if all its conditions hold.
    fn open_short_way(&self, thread: &Thread) {
        let end = if is_usual(thread) { thread.stages.ring.end() } else { 0 };
        thread.stages.limit.open(end.saturating_sub(USUAL_WORDS), &thread.settled, &self.settings);
    }

    fn start_unusual_stage(
        &self,
        thread: &'static Thread,
        class: ClassId,
        source: Source,
        has_room: bool,
    ) -> Option<Progress> {
        thread.leave_short_way();
        thread.stage_label.store(u32::from(class), Relaxed);
        let mask = thread.mask();
        thread.has_progress.store(0, Relaxed);
        if mask == 0 {
            return None;
        }
        let now = self.close_stage(thread, mask);
        let switches = self.registry.switches(class);
        if switches & ENABLED == 0 || class == 0 {
            return None;
        }
        let start = match now {
            _ if switches & TIMED == 0 => 0,
            0 => ticks(),
            now => now,
        };
        thread.stage_class.store(u32::from(class) | u32::from(switches) << 16, Relaxed);
        let bits = Thread::bits(mask, EventType::Stage);
        let wanted = is_event(mask, EventType::Stage, switches);
        let timed = if switches & TIMED != 0 { RECORD_TIMED } else { 0 };
        let what = u64::from(begin_of(timed | kept(bits)));
        let began = (thread.event_id.own(), start);
        let recorded = wanted && has_room && self.write_unready_begin(thread, what, class, began, source);
        thread.begin_stage(began, recorded);
        if recorded == wanted
            && let Some((cell, mark)) =
                self.make_ready(thread, &thread.usual_stages, class, SummaryFamily::Stages)
            && mark != UNTIMED
        {
            thread.stage_cell.store(cell, Relaxed);
            thread.stage_class.store(0, Relaxed);
        }
        if switches & PROGRESS == 0 {
            return None;
        }
        thread.progress[0].store(0, Relaxed);
        thread.progress[1].store(0, Relaxed);
        thread.has_progress.store(1, Relaxed);
        Some(&thread.progress)
    }

    /// Writes that a stage begins, after preparing the journal. Returns false if there is no memory, and the
    /// event is lost.
    fn write_unready_begin(
        &self,
        thread: &Thread,
        what: u64,
        class: ClassId,
        began: (u64, u64),
        source: Source,
    ) -> bool {
        let (id, start) = began;
        let (journal, base) = (&thread.stages, self.arena.base());
        self.prepare_stages(thread, began)
            && journal.place(2).is_some_and(|place| {
                write_source(base, place, source.0);
                write_begin(journal, base, place, BegunStage { what, class, id, start })
            })
    }

    /// Prepares the journal for any record. Returns false if there is no memory, and an event is lost.
    fn prepare_stages(&self, thread: &Thread, (id, time): (u64, u64)) -> bool {
        // A stage that was in progress, but not recorded to its end, must not be ended by what follows.
        let gap = thread.stage_recorded.own() == 0;
        // The limit may be that of a full block. It is opened again once the fast path applies.
        thread.stages.limit.close();
        let coming = ComingRecord {
            words: MOST_WORDS,
            id,
            time,
            parent: thread.stage_parent.own(),
            parent_began: 0,
            gap,
        };
        self.prepare_journal(thread, &thread.stages, &STAGES, &REACH, &coming)
    }

    /// Ends the stage in progress.
    #[inline(always)]
    pub fn end_stage(&self) {
        if let Some(thread) = current()
            && !self.end_stage_fast()
            && !self.end_unrecorded_stage_fast()
        {
            self.end_stage_slow(thread);
        }
    }

    /// Ends a recorded stage on the fast path. Returns false if nothing has happened: call
    /// [`Engine::end_unrecorded_stage_fast`].
    #[inline(always)]
    pub fn end_stage_fast(&self) -> bool {
        let Some(thread) = current() else { return false };
        let cell = thread.stage_cell.own();
        if cell == 0 || thread.stage_recorded.own() == 0 {
            cold_path();
            return false;
        }
        let Some(at) = thread.stages.usual_place() else { return false };
        let (base, now) = (self.arena.base(), cycles());
        if !write_near_end(&thread.stages, base, at, now, || thread.event_id.own()) {
            return false;
        }
        thread.stage_recorded.store(0, Relaxed);
        thread.stage_label.store(0, Relaxed);
        thread.stage_cell.store(0, Relaxed);
        self.nest_in_statement(thread);
        base.at::<StatCell>(cell).add_span(self, thread, CellEvents::STAGE, 1, thread.stage_start.own(), now);
        true
    }

    /// Ends a stage that is only summed up, or none, on the fast path. Returns false if [`Engine::end_stage`]
    /// must be called.
    #[inline(always)]
    pub fn end_unrecorded_stage_fast(&self) -> bool {
        let Some(thread) = current() else { return true };
        match thread.stage_cell.own() {
            0 => thread.has_no_stage(),
            cell if thread.stage_recorded.own() == 0 => self.end_summed_stage(thread, cell),
            _ => false,
        }
    }

    /// Ends a stage that is summed up in this cell. Returns false if the configuration has changed.
    #[inline(always)]
    fn end_summed_stage(&self, thread: &Thread, cell: Offset) -> bool {
        if !self.is_settled(thread) {
            return false;
        }
        thread.stage_label.store(0, Relaxed);
        thread.stage_cell.store(0, Relaxed);
        let cell: &StatCell = self.arena.at(cell);
        cell.add_span(self, thread, CellEvents::STAGE, 1, thread.stage_start.own(), cycles());
        true
    }

    /// Writes that the recorded stage in progress ends.
    #[inline(always)]
    fn write_stage_end(&self, thread: &Thread, time: Option<u64>) {
        let ended = EndedStage { next_id: thread.event_id.own(), time, dropped: false };
        if !write_end(&thread.stages, self.arena.base(), ended) {
            self.write_unready_end(thread, ended);
        }
    }

    /// Writes the end of a stage, after preparing the journal.
    #[cold]
    #[inline(never)]
    fn write_unready_end(&self, thread: &Thread, ended: EndedStage) {
        if self.prepare_stages(thread, (ended.next_id, ended.time.unwrap_or_else(ticks))) {
            write_end(&thread.stages, self.arena.base(), ended);
        }
    }

    /// Drops the recorded stage in progress, as if it had never begun.
    pub(crate) fn drop_stage(&self, thread: &Thread) {
        if thread.stage_recorded.own() != 0 {
            let ended = EndedStage { next_id: thread.event_id.own(), time: None, dropped: true };
            self.write_unready_end(thread, ended);
        }
        thread.has_progress.store(0, Relaxed);
        leave_stage(thread);
    }

    #[cold]
    #[inline(never)]
    fn end_stage_slow(&self, thread: &'static Thread) {
        thread.leave_short_way();
        thread.stage_label.store(0, Relaxed);
        thread.has_progress.store(0, Relaxed);
        let mask = thread.mask();
        if mask != 0 {
            self.close_stage(thread, mask);
        }
    }

    /// Makes new waits nest in the outermost statement until the next stage begins, as in the built-in.
    #[inline(always)]
    pub(crate) fn nest_in_statement(&self, thread: &Thread) {
        thread.parent.store(thread.outermost.own(), Relaxed);
    }

    /// Returns the progress of the stage in progress.
    pub fn current_stage_progress(&self) -> Option<Progress> {
        current().filter(|thread| thread.has_progress.load(Relaxed) != 0).map(|thread| &thread.progress)
    }

    /// Ends the stage in progress, if there is one. Returns the time in ticks, or 0 if the clock was not
    /// read.
    fn close_stage(&self, thread: &'static Thread, mask: u32) -> u64 {
        let stage = thread.stage_class.load(Relaxed);
        let (class, switches) = (stage as ClassId, (stage >> 16) as u8);
        if class == 0 {
            return 0;
        }
        if self.unreported.hid_end_of(thread.stage_start.own()) {
            self.drop_stage(thread);
            return 0;
        }
        let bank = if mask & ATTRIBUTED != 0 { BANK_OWN } else { BANK_UNATTRIBUTED };
        let cell = self.cell::<StatCell>(thread, bank, class, SummaryFamily::Stages);
        let timed = switches & TIMED != 0;
        let now = if timed { ticks() } else { 0 };
        if let Some(cell) = cell {
            let taken = timed.then(|| now.saturating_sub(thread.stage_start.own()));
            cell.add_unusual(self, thread, CellEvents::new(Lowest::Wide, class), 1, taken);
        }
        if thread.stage_recorded.own() != 0 {
            if switches & PROGRESS != 0 {
                self.write_stage_progress(thread, now);
            }
            self.write_stage_end(thread, timed.then_some(now));
            self.nest_in_statement(thread);
        }
        leave_stage(thread);
        if !self.has_demand(Kind::Stage) {
            self.stop_reporting_stages_if_last();
        }
        now
    }

    fn write_stage_progress(&self, thread: &Thread, now: u64) {
        let (journal, base) = (&thread.stages, self.arena.base());
        let [completed, estimated] = thread.progress.each_ref().map(|word| word.load(Relaxed));
        if !write_progress(journal, base, completed, estimated)
            && self.prepare_stages(thread, (thread.event_id.own(), now))
        {
            write_progress(journal, base, completed, estimated);
        }
    }
}

impl Thread {
    /// Begins the stage of the label. `began` is its id, if its record has been written, and its start.
    #[inline(always)]
    fn begin_stage(&self, (id, now): (u64, u64), recorded: bool) {
        self.stage_start.store(now, Relaxed);
        self.stage_recorded.store(u32::from(recorded), Relaxed);
        if recorded {
            self.event_id.store(id + 1, Relaxed);
            self.parent.store(parent(id, EventType::Stage as u32), Relaxed);
        }
    }

    /// Begins the stage of the label and of this entry, whose record the fast path has written.
    #[inline(always)]
    fn begin_recorded_stage(&self, entry: u32, now: u64) {
        self.stage_cell.store(place(entry), Relaxed);
        self.begin_stage((self.event_id.own(), now), true);
    }

    /// Drops the journal's base if ids that are about to be assigned may be out of reach of a stage's record.
    #[inline(always)]
    pub(crate) fn expect_stage_ids(&self) {
        self.stages.expect_ids(self.event_id.own(), &REACH);
    }

    /// Begins a disabled stage, which is only the thread's state. One in progress must end first, unless the
    /// thread records nothing, as in the built-in.
    #[inline(always)]
    fn pass_stage(&self, class: ClassId) -> Start {
        if self.stage_cell.own() != 0 {
            return Start::Slow;
        }
        if self.stage_class.own() != 0 {
            if self.mask() != 0 {
                return Start::Slow;
            }
            self.has_progress.store(0, Relaxed);
        }
        self.stage_label.store(u32::from(class), Relaxed);
        Start::Off
    }

    /// Returns whether no stage is in progress, and clears the label then. False: one began on the slow path.
    #[inline(always)]
    fn has_no_stage(&self) -> bool {
        let has_none = self.stage_class.own() == 0;
        if has_none {
            self.stage_label.store(0, Relaxed);
        }
        has_none
    }

    /// Leaves the end of a stage that began on the fast path to the slow path.
    pub(crate) fn leave_short_way(&self) {
        if self.stage_cell.own() != 0 {
            let class = self.stage_label.own() | u32::from(ENABLED | TIMED) << 16;
            self.stage_class.store(class, Relaxed);
            self.stages.limit.close();
            self.stage_cell.store(0, Relaxed);
        }
    }
}

/// Returns whether stages are recorded and no stage is in progress that began on the slow path.
fn is_usual(thread: &Thread) -> bool {
    !matches!(thread.usual_stages.own(), 0 | SUMMED_UP) && thread.stage_class.own() == 0
}

/// Begins a stage that is only summed up, or counted, in the cell of its entry. Returns `Slow` if the
/// previous stage ends otherwise.
#[inline(always)]
fn start_summed_stage(engine: &Engine, thread: &Thread, class: ClassId, entry: u32) -> Start {
    let base = engine.arena.base();
    if thread.stage_class.own() != 0 || thread.stage_recorded.own() != 0 {
        return Start::Slow;
    }
    thread.stage_label.store(u32::from(class), Relaxed);
    let before = thread.stage_cell.own();
    if entry & SUMMED == 0 {
        // It is only counted, and so was the previous stage unless the level is new: the clock is not read.
        if before == 0 {
            count_stage(base, thread, entry);
        } else {
            engine.begin_after_long_stage(thread, entry, cycles());
        }
        return Start::Began(());
    }
    let now = cycles();
    if before != 0 {
        let start = thread.stage_start.own();
        if base.at::<StatCell>(before).add_usual(thread, 1, start, now).is_none() {
            engine.begin_after_long_stage(thread, entry, now);
            return Start::Began(());
        }
    }
    begin_timed_stage(thread, entry, now);
    Start::Began(())
}

/// Begins a stage that is summed up, once the previous stage has been counted.
#[inline(always)]
fn begin_timed_stage(thread: &Thread, entry: u32, now: u64) {
    thread.stage_cell.store(place(entry), Relaxed);
    thread.stage_start.store(now, Relaxed);
}

/// Begins a stage that is only counted: now, so that nothing is left to do at its end.
#[inline(always)]
fn count_stage(base: Base, thread: &Thread, entry: u32) {
    thread.stage_cell.store(0, Relaxed);
    base.at::<StatCell>(place(entry)).stat.add_untimed(1);
}

/// Leaves the thread without a stage in progress.
#[inline(always)]
fn leave_stage(thread: &Thread) {
    thread.stage_class.store(0, Relaxed);
    thread.stage_cell.store(0, Relaxed);
    thread.stage_recorded.store(0, Relaxed);
}
