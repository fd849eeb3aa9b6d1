//! HOT PATH: statements that execute a prepared one, whose text and digest they have.

use std::hint::cold_path;
use std::sync::atomic::Ordering::Relaxed;

use crate::Engine;
use crate::count::digest::DigestCell;
use crate::layout::statement::OpenStatement;
use crate::layout::statement_flags::StatementFlags;
use crate::memory::arena::Own;
use crate::memory::pool::Object;
use crate::memory::text;
use crate::record::statement::end::seen_at;
use crate::record::statement::{EndedStatement, Statement};
use crate::thread::Thread;

use super::{PREPARED_WORDS, Prepared, PreparedRef};

/// The flags of an execution that leaves its text where it was prepared.
const LEAVES_TEXT: StatementFlags =
    StatementFlags::RECORDED.with(StatementFlags::UNCHOSEN).with(StatementFlags::WITH_DIGEST);

/// Returns the innermost statement of a thread and the prepared statement it executes, if it does.
pub(crate) fn executed_by(engine: &Engine, thread: &Thread) -> Option<(&'static OpenStatement, Object)> {
    let depth = (thread.statement_depth.own() as usize).checked_sub(1)?;
    let open: &OpenStatement = engine.arena.get(thread.statement_levels.get(depth)?.own())?;
    Some((open, open.executed()?))
}

impl Engine {
    /// Makes a statement the execution of a prepared one: it gets its text, and counts for its digest when it
    /// ends.
    #[inline(always)]
    pub fn execute_prepared(&self, statement: Statement, prepared: PreparedRef) {
        let Statement { open, .. } = statement;
        let (object, slot) = (prepared.object(), prepared.slot(self));
        if slot.head.object() != object {
            return cold_path();
        }
        let flags = open.flags();
        let leaves_text = flags.among(LEAVES_TEXT) == LEAVES_TEXT;
        if slot.has_digest() {
            open.set_execution(object, leaves_text);
            if leaves_text {
                return;
            }
        }
        if flags.has(StatementFlags::RECORDED) {
            open.copy_text(slot.sql(), self.sql_text_size.load(Relaxed) as usize);
        }
    }

    /// Returns whether an ended statement is recorded, chosen or not, or may become its digest's sample.
    #[inline(always)]
    fn wants_text(&self, open: &OpenStatement, digest: Option<&DigestCell>) -> bool {
        let is_sample = |digest: &DigestCell| open.taken() >= digest.sample_from.own();
        self.is_recorded(open) || digest.is_some_and(is_sample)
    }

    /// Copies the text of an execution that has left it where it was prepared.
    #[cold]
    #[inline(never)]
    fn fetch_text(&self, open: &OpenStatement, prepared: &Prepared) {
        open.copy_text(prepared.sql(), self.sql_text_size.load(Relaxed) as usize);
    }

    /// Counts an ended execution under the digest of its prepared statement.
    #[inline(never)]
    pub fn count_execution_digest(&self, statement: Statement) {
        let Statement { open, thread } = statement;
        let Some(object) = open.executed() else { return };
        // The prepared statement exists while it is executed: see `Engine::destroy_prepared`.
        let prepared: &Prepared = self.arena.base().at(object.offset());
        let now = seen_at(open);
        let digest = self.prepared_digest_cell(thread, prepared, now);
        if open.has_left_text() && self.wants_text(open, digest) {
            self.fetch_text(open, prepared);
        }
        if let Some(digest) = digest {
            let charset = self.prepared_digest_charset(prepared);
            self.count_under_digest(thread, EndedStatement::of_sql(open), digest, charset, now);
        }
    }

    /// Sets the text that the host shows for the thread, if its innermost statement is an execution: the
    /// prepared text with values in place of `?`.
    #[inline(always)]
    pub(crate) fn set_execution_text(&self, thread: &Thread, text: &[u8]) {
        if let Some((open, object)) = executed_by(self, thread) {
            self.expand_execution(open, object, text);
        }
    }

    #[cold]
    #[inline(never)]
    fn expand_execution(&self, open: &OpenStatement, object: Object, expanded: &[u8]) {
        let prepared: &Prepared = self.arena.base().at(object.offset());
        let mut room = [0; PREPARED_WORDS * 8];
        let (words, len, _) = prepared.sql();
        let known = text::copy(words, len, &mut room);
        let fixed = known.iter().position(|byte| *byte == b'?').unwrap_or(known.len());
        // For a routine it calls, the host shows other texts, and while it prepares again, the text with `?`.
        let is_expanded = expanded.starts_with(&known[..fixed]) && !expanded.starts_with(known);
        if is_expanded && open.flags().has(StatementFlags::RECORDED) {
            open.set_text(expanded, self.sql_text_size.load(Relaxed) as usize);
        }
    }
}
