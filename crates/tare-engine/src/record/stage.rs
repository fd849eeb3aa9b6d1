//! HOT PATH: stages. One clock reading ends a stage and begins the next.

use std::hint::cold_path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tare_sync::record;

use crate::Engine;
use crate::clock::{cycles, ticks};
use crate::count::bank::{READY, SUMMED, place};
use crate::count::cell::{Family, StatCell};
use crate::memory::arena::{Base, Offset, Own};
use crate::record::ring::{RECORD_TIMED, STAGES, StageRecord};
use crate::record::wait::{Source, kept};
use crate::setup::instrument::{ENABLED, PROGRESS, TIMED};
use crate::snapshot::{ClassId, EventType};
use crate::thread::filter::{ATTRIBUTED, CURRENT};
use crate::thread::{BANK_OWN, BANK_UNATTRIBUTED, Thread, current};

/// WORK_COMPLETED and WORK_ESTIMATED of the stage in progress; the host writes them.
pub type Progress = &'static [AtomicU64; 2];

impl Engine {
    /// Begins a stage of the calling thread, ending the one before. Returns its progress, if it reports one.
    #[inline(always)]
    pub fn start_stage(&self, class: ClassId, source: Source) -> Option<Progress> {
        if self.start_usual_stage(class, source) {
            return None;
        }
        self.start_unusual_stage(class, source)
    }

    /// As [`Engine::start_stage`], if all is as usual: settled, and the stage before, too, reports no progress. False
    /// means that nothing has happened.
    #[inline(always)]
    pub fn start_usual_stage(&self, class: ClassId, source: Source) -> bool {
        let Some(thread) = current() else { return false };
        if !self.is_settled(thread) {
            return false;
        }
        let base = self.arena.base();
        let entry = thread.banks[BANK_OWN].settled_entry(base, class);
        if entry & READY == 0 {
            cold_path();
            return match class {
                // No stage follows.
                0 => self.end_usual_stage(thread),
                _ if entry & SUMMED != 0 => start_summed_stage(thread, base, class, entry),
                _ => self.pass_stage(thread, class),
            };
        }
        let cell = place(entry);
        let before = thread.stage_cell.own();
        if before == 0 && thread.stage_class.own() != 0 {
            return false;
        }
        let Some(offset) = thread.stages.line() else { return false };
        let now = cycles();
        if before != 0 {
            let record: &StageRecord = base.at(thread.stage_record.own());
            base.at::<StatCell>(before).stat.add_span(1, record.start.own(), now);
            end_record(thread, record, now);
        }
        thread.stage_cell.store(cell, Relaxed);
        fill_stage(thread, base, offset, u32::from(class) | thread.usual_stages.own(), now, source);
        true
    }

    /// Begins a stage that is switched off where none is in progress: it is the thread's state, and nothing else. False
    /// means that nothing has happened.
    #[inline(always)]
    fn pass_stage(&self, thread: &Thread, class: ClassId) -> bool {
        let idle = thread.stage_cell.own() == 0 && thread.stage_class.own() == 0;
        if !idle || !self.is_off(class) {
            return false;
        }
        thread.stage_label.store(u32::from(class), Relaxed);
        thread.has_progress.store(0, Relaxed);
        true
    }

    #[cold]
    #[inline(never)]
    fn start_unusual_stage(&self, class: ClassId, source: Source) -> Option<Progress> {
        let thread = current()?;
        if class == 0 {
            // No stage follows.
            self.end_stage();
            return None;
        }
        if !self.is_settled(thread) {
            self.settle(thread);
        }
        self.leave_short_way(thread, self.arena.base());
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
        thread.stage_start.store(start, Relaxed);
        let bits = Thread::bits(mask, EventType::Stage);
        let wanted = bits & CURRENT != 0;
        let line = || thread.stages.line().or_else(|| self.next_stage_block(thread));
        let line = wanted.then(line).flatten();
        if let Some(offset) = line {
            let timed = if switches & TIMED != 0 { RECORD_TIMED } else { 0 };
            let flags = u32::from(timed | kept(bits)) << 24;
            let what = u32::from(class) | (EventType::Statement as u32) << 16 | flags;
            fill_stage(thread, self.arena.base(), offset, what, start, source);
        }
        if line.is_some() == wanted
            && let Some(cell) = self.make_ready(thread, &thread.usual_stages, class, Family::Stages)
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

    /// Ends the stage in progress.
    #[inline(always)]
    pub fn end_stage(&self) {
        let Some(thread) = current() else { return };
        if !self.end_usual_stage(thread) {
            self.end_unusual_stage(thread);
        }
    }

    /// Ends the stage in progress, if all is as usual or there is none. False means that it has not ended.
    #[inline(always)]
    fn end_usual_stage(&self, thread: &'static Thread) -> bool {
        let base = self.arena.base();
        let cell = thread.stage_cell.own();
        if cell != 0 && !self.is_settled(thread) {
            return false;
        }
        thread.stage_label.store(0, Relaxed);
        if cell == 0 {
            return thread.stage_class.own() == 0;
        }
        let (now, cell) = (cycles(), base.at::<StatCell>(cell));
        let record = thread.stage_record.own();
        if record == 0 {
            cell.stat.add_span(1, thread.stage_start.own(), now);
        } else {
            let record: &StageRecord = base.at(record);
            cell.stat.add_span(1, record.start.own(), now);
            end_record(thread, record, now);
            self.nest_in_statement(thread);
        }
        leave_stage(thread);
        true
    }

    #[cold]
    #[inline(never)]
    fn end_unusual_stage(&self, thread: &'static Thread) {
        self.leave_short_way(thread, self.arena.base());
        thread.stage_label.store(0, Relaxed);
        thread.has_progress.store(0, Relaxed);
        let mask = thread.mask();
        if mask != 0 {
            self.close_stage(thread, mask);
        }
    }

    /// Until the next stage begins, new waits nest in the outermost statement, as in the reference.
    #[inline(always)]
    pub(crate) fn nest_in_statement(&self, thread: &Thread) {
        let (id, of) = self.outermost_statement(thread);
        thread.parent_id.store(id, Relaxed);
        thread.parent_type.store(of, Relaxed);
    }

    /// Progress of the stage in progress.
    pub fn current_stage_progress(&self) -> Option<Progress> {
        current().filter(|thread| thread.has_progress.load(Relaxed) != 0).map(|thread| &thread.progress)
    }

    #[cold]
    #[inline(never)]
    fn next_stage_block(&self, thread: &'static Thread) -> Option<Offset> {
        // The stage before has ended: nothing is open.
        if self.advance(thread, &thread.stages, &STAGES, &[]) { thread.stages.line() } else { None }
    }

    /// Ends the stage in progress, if there is one. Returns the clock, or 0 where it was not read.
    #[inline(always)]
    fn close_stage(&self, thread: &'static Thread, mask: u32) -> u64 {
        let stage = thread.stage_class.load(Relaxed);
        let (class, switches) = (stage as ClassId, (stage >> 16) as u8);
        if class == 0 {
            return 0;
        }
        let bank = if mask & ATTRIBUTED != 0 { BANK_OWN } else { BANK_UNATTRIBUTED };
        let cell = self.cell::<StatCell>(thread, bank, class, Family::Stages);
        let now = if switches & TIMED != 0 { ticks() } else { 0 };
        if let Some(cell) = cell {
            if switches & TIMED != 0 {
                cell.stat.add_span(1, thread.stage_start.own(), now);
            } else {
                cell.stat.add_untimed(1);
            }
        }
        let offset = thread.stage_record.load(Relaxed);
        if offset != 0 {
            self.finish_stage(thread, self.arena.at(offset), switches, now);
        }
        leave_stage(thread);
        now
    }

    fn finish_stage(&self, thread: &'static Thread, record: &StageRecord, switches: u8, now: u64) {
        if switches & PROGRESS != 0 {
            record.work_completed.store(thread.progress[0].load(Relaxed), Relaxed);
            record.work_estimated.store(thread.progress[1].load(Relaxed), Relaxed);
            record.what.store(record.what.load(Relaxed) | u32::from(RECORD_PROGRESS) << 24, Relaxed);
        }
        end_record(thread, record, now | u64::from(now == 0));
        self.nest_in_statement(thread);
    }
}

/// Begins a stage that is only summed up, in the cell that its entry names. False where the stage before ends otherwise.
#[inline(always)]
fn start_summed_stage(thread: &Thread, base: Base, class: ClassId, entry: u32) -> bool {
    let before = thread.stage_cell.own();
    if thread.stage_class.own() != 0 || thread.stage_record.own() != 0 {
        return false;
    }
    let now = cycles();
    if before != 0 {
        base.at::<StatCell>(before).stat.add_span(1, thread.stage_start.own(), now);
    }
    thread.stage_cell.store(place(entry), Relaxed);
    thread.stage_start.store(now, Relaxed);
    thread.stage_label.store(u32::from(class), Relaxed);
    true
}

/// No stage is in progress.
#[inline(always)]
pub(crate) fn leave_stage(thread: &Thread) {
    thread.stage_class.store(0, Relaxed);
    thread.stage_cell.store(0, Relaxed);
    thread.stage_record.store(0, Relaxed);
}

/// The record's stage reports progress.
pub(crate) const RECORD_PROGRESS: u8 = 8;

/// Writes the record of a stage that begins; `what` is its class, nesting type and flags, as [`StageRecord`] has them.
#[inline(always)]
fn fill_stage(thread: &Thread, base: Base, offset: Offset, what: u32, start: u64, source: Source) {
    let event_id = thread.next_event_id();
    let record: &StageRecord = base.at(offset);
    record.start.store(start, Relaxed);
    record.end.store(0, Relaxed);
    record.source.store(source.0, Relaxed);
    record.nesting_id.store(thread.stage_parent.own(), Relaxed);
    record.what.store(what, Relaxed);
    record::publish(&record.stamp, thread.stages.stamp(event_id));
    base.expect_write_behind(offset);
    thread.stage_record.store(offset, Relaxed);
    thread.parent_id.store(event_id, Relaxed);
    thread.parent_type.store(EventType::Stage as u32, Relaxed);
}

/// `now` is not 0.
#[inline(always)]
fn end_record(thread: &Thread, record: &StageRecord, now: u64) {
    // The lower half of the last id given out.
    record.end_event_id.store((thread.event_id.own() as u32).wrapping_sub(1), Relaxed);
    record::end(&record.end, now);
}
