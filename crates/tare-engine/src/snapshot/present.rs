//! Rows of several tables, read at the same time.

use super::{StageRow, StatementRow, ThreadRow, TransactionRow, WaitRow};

/// A table of what live threads are doing. Clients join these tables by THREAD_ID.
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

/// A set of these tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PresentTables(u8);

impl PresentTables {
    /// Adds a table.
    pub fn add(&mut self, table: PresentTable) {
        self.0 |= 1 << table as u8;
    }

    /// Returns whether the set contains a table.
    #[must_use]
    pub fn has(self, table: PresentTable) -> bool {
        self.0 & 1 << table as u8 != 0
    }

    /// Returns whether the set has more than one table, so that rows can be joined.
    #[must_use]
    pub fn are_several(self) -> bool {
        self.0.count_ones() > 1
    }
}

/// Consistent rows of a live thread in the requested tables.
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
    /// Returns the approximate size of the rows in bytes, including long texts.
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
