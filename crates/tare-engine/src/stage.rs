//! HOT PATH: stages. One clock reading ends a stage and begins the next.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};

use crate::Engine;
use crate::arena::Offset;
use crate::cell::{Family, StatCell};
use crate::clock::{cycles, ticks};
use crate::filter::{ATTRIBUTED, CURRENT, CYCLES, shift};
use crate::instrument::{ENABLED, PROGRESS, TIMED};
use crate::ring::{LINE_WORDS, RECORD_TIMED, STAGES, StageRecord};
use crate::snapshot::{ClassId, EventType};
use crate::thread::{BANK_OWN, BANK_UNATTRIBUTED, Thread, current};
use crate::wait::{Source, kept};

/// WORK_COMPLETED and WORK_ESTIMATED of the stage in progress; the host writes them.
pub type Progress = &'static [AtomicU64; 2];

impl Engine {
    /// Begins a stage of the calling thread, ending the one before. Returns its progress, if it reports one.
    ///
    /// What is usual (everything on, both stages timed, room in the ring) is done here, without a call; the
    /// rest elsewhere.
    #[inline(always)]
    pub fn start_stage(&self, class: ClassId, source: Source) -> Option<Progress> {
        let thread = current()?;
        thread.stage_label.store(u32::from(class), Relaxed);
        let mask = thread.mask.load(Relaxed);
        if mask & SHORT == SHORT
            && self.registry.switches(class) & (ENABLED | TIMED | PROGRESS) == ENABLED | TIMED
            && let Some(old) = self.usual_stage_cell(thread)
            && let Some(offset) = thread.stages.line()
        {
            let now = cycles();
            if let Some(old) = old {
                old.stat.add(1, now.saturating_sub(thread.stage_start.load(Relaxed)));
                let before = thread.stage_record.load(Relaxed);
                if before != 0 {
                    end_record(thread, self.arena.at(before), now);
                }
            }
            thread.stage_class.store(u32::from(class) | u32::from(ENABLED | TIMED) << 16, Relaxed);
            thread.stage_start.store(now, Relaxed);
            // CURRENT, HISTORY and LONG stand as the record's flags do, CURRENT in TIMED's place.
            let flags = (mask >> shift(EventType::Stage)) as u8 & 7;
            self.fill_stage(thread, offset, class, flags, now, source);
            return None;
        }
        self.start_unusual_stage(thread, class, source)
    }

    /// The cell of the stage in progress, `Some(None)` where none is; `None` where it needs the long way.
    #[inline(always)]
    fn usual_stage_cell(&self, thread: &'static Thread) -> Option<Option<&'static StatCell>> {
        match thread.stage_class.load(Relaxed) {
            0 => Some(None),
            old if old & OLD == u32::from(ENABLED | TIMED) << 16 => {
                self.usual_cell::<StatCell>(thread, old as ClassId, Family::Stages).map(Some)
            }
            _ => None,
        }
    }

    #[cold]
    #[inline(never)]
    fn start_unusual_stage(
        &self,
        thread: &'static Thread,
        class: ClassId,
        source: Source,
    ) -> Option<Progress> {
        let mask = thread.mask.load(Relaxed);
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
        if bits & CURRENT != 0
            && let Some(offset) = thread.stages.line().or_else(|| self.next_stage_block(thread))
        {
            let timed = if switches & TIMED != 0 { RECORD_TIMED } else { 0 };
            self.fill_stage(thread, offset, class, timed | kept(bits), start, source);
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
    fn fill_stage(
        &self,
        thread: &'static Thread,
        offset: Offset,
        class: ClassId,
        flags: u8,
        start: u64,
        source: Source,
    ) {
        let event_id = thread.next_event_id();
        let record: &StageRecord = self.arena.at(offset);
        record.start.store(start, Relaxed);
        record.end.store(0, Relaxed);
        record.source.store(source.0, Relaxed);
        record.nesting_id.store(thread.stage_parent.load(Relaxed), Relaxed);
        let what = u64::from(class) << 32 | (EventType::Statement as u64) << 48 | u64::from(flags) << 56;
        record.what.store(what, Relaxed);
        record.stamp.store(thread.stages.stamp(event_id), Release);
        self.arena.expect_write(offset + 2 * LINE_WORDS);
        thread.stage_record.store(offset, Relaxed);
        thread.parent_id.store(event_id, Relaxed);
        thread.parent_type.store(EventType::Stage as u32, Relaxed);
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
                cell.stat.add(1, now.saturating_sub(thread.stage_start.load(Relaxed)));
            } else {
                cell.stat.add_untimed(1);
            }
        }
        let offset = thread.stage_record.load(Relaxed);
        if offset != 0 {
            self.finish_stage(thread, self.arena.at(offset), switches, now);
            thread.stage_record.store(0, Relaxed);
        }
        thread.stage_class.store(0, Relaxed);
        now
    }

    fn finish_stage(&self, thread: &'static Thread, record: &StageRecord, switches: u8, now: u64) {
        if switches & PROGRESS != 0 {
            record.work_completed.store(thread.progress[0].load(Relaxed), Relaxed);
            record.work_estimated.store(thread.progress[1].load(Relaxed), Relaxed);
            record.what.store(record.what.load(Relaxed) | u64::from(RECORD_PROGRESS) << 56, Relaxed);
        }
        end_record(thread, record, now);
        // New waits nest in the outermost statement until the next stage begins, as in the reference.
        let (id, of) = self.outermost_statement(thread);
        thread.parent_id.store(id, Relaxed);
        thread.parent_type.store(of, Relaxed);
    }
}

/// The mask of a thread whose stages may take the short way.
const SHORT: u32 = ATTRIBUTED | CYCLES | CURRENT << shift(EventType::Stage);
/// What must be as usual of the stage before.
const OLD: u32 = ((ENABLED | TIMED | PROGRESS) as u32) << 16;

/// The record's stage reports progress.
pub(crate) const RECORD_PROGRESS: u8 = 8;

#[inline(always)]
fn end_record(thread: &Thread, record: &StageRecord, now: u64) {
    // The lower half of the last id given out; the rest of the word keeps what it holds.
    let last = (thread.event_id.load(Relaxed) as u32).wrapping_sub(1);
    record.what.store(record.what.load(Relaxed) | u64::from(last), Relaxed);
    record.end.store(now | u64::from(now == 0), Release);
}
