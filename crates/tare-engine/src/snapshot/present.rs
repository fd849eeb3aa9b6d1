//! Rows of several tables that belong together.

use super::{StageRow, StatementRow, ThreadRow, TransactionRow, WaitRow};

/// A table of what live threads are doing, which clients join with the others by THREAD_ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PresentTable {
    /// `threads`
    Threads,
    /// `events_transactions_current`
    Transactions,
    /// `events_statements_current`
    Statements,
    /// `events_stages_current`
    Stages,
    /// `events_waits_current`
    Waits,
}

/// Some of these tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PresentTables(u8);

impl PresentTables {
    /// Adds one.
    pub fn add(&mut self, table: PresentTable) {
        self.0 |= 1 << table as u8;
    }

    /// Whether it is among them.
    #[must_use]
    pub fn has(self, table: PresentTable) -> bool {
        self.0 & 1 << table as u8 != 0
    }

    /// Whether there is more than one, whose rows can be joined.
    #[must_use]
    pub fn are_several(self) -> bool {
        self.0.count_ones() > 1
    }
}

/// What a live thread was doing at one moment: its rows of those tables that were asked for.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Present {
    pub threads: Vec<ThreadRow>,
    pub transactions: Vec<TransactionRow>,
    pub statements: Vec<StatementRow>,
    pub stages: Vec<StageRow>,
    pub waits: Vec<WaitRow>,
}

impl Present {
    /// About how many bytes the rows take, long texts included.
    #[must_use]
    pub fn size(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let texts = self.threads.iter().map(|row| text(&row.info)).sum::<usize>()
            + self.statements.iter().map(|row| text(&row.sql_text) + text(&row.message_text)).sum::<usize>();
        texts
            + size_of_val(&*self.threads)
            + size_of_val(&*self.transactions)
            + size_of_val(&*self.statements)
            + size_of_val(&*self.stages)
            + size_of_val(&*self.waits)
    }
}
