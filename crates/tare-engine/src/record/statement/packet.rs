//! HOT PATH: several statements in one packet.
//!
//! The host gives a statement the text of all that is left of its packet, before it is parsed. When it has parsed one it knows where
//! that ends, and says anew what the thread does: the same text, up to the `;`. A statement alone in its packet is never said anew,
//! and costs nothing more.

use super::record::{OpenStatement, TEXT, TEXT_CUT};
use crate::Engine;
use crate::memory::arena::Own;
use crate::memory::text;
use crate::thread::Thread;

impl Engine {
    /// The host says anew what a thread does: where that is how its outermost statement begins, its text ends there.
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
    /// SQL_TEXT ends behind `sql`, if it begins with that and goes on with `;`.
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
