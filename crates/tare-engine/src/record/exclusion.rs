//! HOT PATH: statements that are left out. The host may learn what a statement is only while it runs: what was recorded
//! of it by then stays, and from then on until it ends its thread records nothing.

use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::Engine;
use crate::record::ring::StageRecord;
use crate::record::statement::Statement;
use crate::thread::{Thread, current};

impl Engine {
    /// The calling thread's innermost statement is to be recorded and counted nowhere, and neither is what the thread
    /// does until it ends: other statements inside it, stages, waits, memory. The host ends it with
    /// [`Engine::end_excluded_statement`].
    pub fn exclude_statement(&self) {
        let Some(thread) = current() else { return };
        let depth = thread.statement_depth.load(Relaxed) as usize;
        if depth == 0 || thread.mask() == 0 {
            return;
        }
        thread.mute();
        thread.unsettle();
        self.drop_stage(thread);
        self.hide_statement(thread, depth - 1);
        thread.stage_parent.store(0, Relaxed);
        thread.parent_id.store(0, Relaxed);
        thread.parent_type.store(0, Relaxed);
    }

    /// Ends the statement if it was excluded; false if not: it ends as usual.
    pub fn end_excluded_statement(&self, statement: Statement) -> bool {
        let thread = statement.thread();
        if !thread.unmute() {
            return false;
        }
        thread.unsettle();
        self.discard_statement(statement);
        self.nest_in_statement(thread);
        thread.stage_parent.store(thread.parent_id.load(Relaxed), Relaxed);
        true
    }

    /// The stage in progress never was.
    fn drop_stage(&self, thread: &Thread) {
        let record = thread.stage_record.load(Relaxed);
        if record != 0 {
            // A line without an event.
            self.arena.at::<StageRecord>(record).stamp.store(0, Release);
        }
        thread.has_progress.store(0, Relaxed);
        crate::record::stage::leave_stage(thread);
    }
}
