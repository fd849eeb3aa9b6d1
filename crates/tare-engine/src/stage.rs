//! HOT PATH: stages. One clock reading ends a stage and begins the next.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};

use crate::Engine;
use crate::arena::Offset;
use crate::cell::{Family, StatCell};
use crate::clock::ticks;
use crate::filter::{ATTRIBUTED, CURRENT};
use crate::instrument::{ENABLED, PROGRESS, TIMED};
use crate::ring::{RECORD_TIMED, STAGES, StageRecord};
use crate::snapshot::{ClassId, EventType};
use crate::thread::{BANK_OWN, BANK_UNATTRIBUTED, Thread, current};
use crate::wait::{Source, kept};

/// WORK_COMPLETED and WORK_ESTIMATED of the stage in progress; the host writes them.
pub type Progress = &'static [AtomicU64; 2];

impl Engine {
    /// Begins a stage of the calling thread, ending the one before. Returns its progress, if it reports one.
    #[inline(always)]
    pub fn start_stage(&self, class: ClassId, source: Source) -> Option<Progress> {
        let thread = current()?;
        thread.stage_label.store(u32::from(class), Relaxed);
        thread.has_progress.store(0, Relaxed);
        let mask = thread.mask.load(Relaxed);
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
        if Thread::bits(mask, EventType::Stage) & CURRENT != 0 {
            self.open_stage(thread, class, switches, start, source);
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
        thread.stage_label.store(0, Relaxed);
        thread.has_progress.store(0, Relaxed);
        let mask = thread.mask.load(Relaxed);
        if mask != 0 {
            self.close_stage(thread, mask);
        }
    }

    /// Progress of the stage in progress.
    pub fn current_stage_progress(&self) -> Option<Progress> {
        current().filter(|thread| thread.has_progress.load(Relaxed) != 0).map(|thread| &thread.progress)
    }

    #[inline(always)]
    fn open_stage(&self, thread: &'static Thread, class: ClassId, switches: u8, start: u64, source: Source) {
        let Some(offset) = thread.stages.line().or_else(|| self.next_stage_block(thread)) else { return };
        let event_id = thread.next_event_id();
        let record: &StageRecord = self.arena.at(offset);
        record.start.store(start, Relaxed);
        record.end.store(0, Relaxed);
        record.source.store(source.0, Relaxed);
        record.nesting_id.store(thread.stage_parent.load(Relaxed), Relaxed);
        record.class.store(class, Relaxed);
        record.nesting_type.store(EventType::Statement as u8, Relaxed);
        record.flags.store(if switches & TIMED != 0 { RECORD_TIMED } else { 0 }, Relaxed);
        record.event_id.store(event_id, Release);
        thread.stage_record.store(offset, Relaxed);
        thread.parent_id.store(event_id, Relaxed);
        thread.parent_type.store(EventType::Stage as u32, Relaxed);
    }

    #[cold]
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
                cell.stat.add(1, now.saturating_sub(thread.stage_start.load(Relaxed)));
            } else {
                cell.stat.add_untimed(1);
            }
        }
        let offset = thread.stage_record.load(Relaxed);
        if offset != 0 {
            self.finish_stage(thread, mask, self.arena.at(offset), switches, now);
            thread.stage_record.store(0, Relaxed);
        }
        thread.stage_class.store(0, Relaxed);
        now
    }

    #[inline(always)]
    fn finish_stage(&self, thread: &'static Thread, mask: u32, record: &StageRecord, switches: u8, now: u64) {
        let delta = thread.event_id.load(Relaxed).wrapping_sub(record.event_id.load(Relaxed) + 1);
        record.end_delta.store(delta.min(u64::from(u32::MAX)) as u32, Relaxed);
        let mut flags = record.flags.load(Relaxed) | kept(Thread::bits(mask, EventType::Stage));
        if switches & PROGRESS != 0 {
            record.work_completed.store(thread.progress[0].load(Relaxed), Relaxed);
            record.work_estimated.store(thread.progress[1].load(Relaxed), Relaxed);
            flags |= RECORD_PROGRESS;
        }
        record.flags.store(flags, Relaxed);
        record.end.store(now | u64::from(now == 0), Release);
        // New waits nest in the outermost statement until the next stage begins, as in the reference.
        let (id, of) = self.outermost_statement(thread);
        thread.parent_id.store(id, Relaxed);
        thread.parent_type.store(of, Relaxed);
    }
}

/// The record's stage reports progress.
pub(crate) const RECORD_PROGRESS: u8 = 8;
