//! HOT PATH: several statements in one packet.
//!
//! Before it parses a statement, the host gives it the text of all that is left in its packet. After parsing
//! one, it knows where that ends, and reports again what the thread does: the same text, up to the `;`. For a
//! statement alone in its packet it does not, so that costs nothing.

use crate::Engine;
use crate::layout::statement::{OpenStatement, TEXT, TEXT_CUT};
use crate::memory::arena::Own;
use crate::memory::text;
use crate::thread::Thread;

impl Engine {
    /// Cuts the text of a thread's outermost statement, if the host reports again what the thread does and
    /// that is a beginning of the text.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_statement_text(&self, thread: &Thread, info: &[u8]) {
        let [level, ..] = &thread.statement_levels;
        if let (1, level @ 1..) = (thread.statement_depth.own(), level.own()) {
            self.arena.at::<OpenStatement>(level).end_text(info);
        }
    }
}

impl OpenStatement {
    /// Cuts SQL_TEXT after `sql`, if it begins with that and continues with `;`.
    fn end_text(&self, sql: &[u8]) {
        let lengths = self.lengths.own();
        let text = self.text(lengths);
        let byte = |at: usize| text.get(at / 8).map(|word| word.own().to_le_bytes()[at % 8]);
        let goes_on = match TEXT.of(lengths) {
            len if sql.len() == len => lengths & TEXT_CUT != 0,
            len => sql.len() < len && byte(sql.len()) == Some(b';'),
        };
        if goes_on && text::begins(text, sql) {
            self.set_text(sql, sql.len());
        }
    }
}
