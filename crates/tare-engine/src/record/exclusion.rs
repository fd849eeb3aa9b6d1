//! HOT PATH: excluded statements. The host may learn what a statement is only while it runs. What was
//! recorded of it by then stays; from then until it ends, its thread records nothing.

use std::sync::atomic::Ordering::Relaxed;

use crate::Engine;
use crate::layout::journal::parent;
use crate::memory::arena::Own;
use crate::record::statement::Statement;
use crate::thread::current;

impl Engine {
    /// Returns whether the calling thread has a statement in progress that could be excluded.
    pub fn is_in_statement(&self) -> bool {
        current().is_some_and(|thread| thread.statement_depth.own() != 0)
    }

    /// Excludes the calling thread's innermost statement. Nothing is recorded or counted of it, nor of what
    /// the thread does until it ends: nested statements, stages, waits, memory. The host ends it with
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
        thread.set_stage_parent(self.arena.base(), parent(0, 0));
        thread.parent.store(parent(0, 0), Relaxed);
    }

    /// Ends the statement if it was excluded. Returns false if it was not: it ends like any other.
    pub fn end_excluded_statement(&self, statement: Statement) -> bool {
        let thread = statement.thread();
        if !thread.unmute() {
            return false;
        }
        thread.unsettle();
        self.discard_statement(statement);
        self.nest_in_statement(thread);
        thread.set_stage_parent(self.arena.base(), thread.parent.load(Relaxed));
        true
    }
}
