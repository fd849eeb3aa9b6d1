//! Rows, looked up.

use std::ops::ControlFlow;

use tare_engine::ThreadRef;
use tare_engine::snapshot::{
    ErrorStat, EventHead, Grouping, MemoryStat, Scope, Stat, StatementStat, Summary, TransactionStat,
};

use crate::{Rig, TRANSACTION};

/// Rows of a summary.
macro_rules! summaries {
    ($($method:ident, $reader:ident, $stat:ty;)*) => {
        $(
            #[doc = concat!("Returns all rows of `", stringify!($reader), "`.")]
            pub fn $method(&self, level: Grouping) -> Vec<Summary<$stat>> {
                let mut rows = Vec::new();
                self.engine.$reader(level, &mut |row| {
                    rows.push(row);
                    ControlFlow::Continue(())
                });
                rows
            }
        )*
    };
}

/// Rows of a summary or of an instrument, and ids of events.
impl Rig {
    summaries! {
        wait_rows, wait_summary, Stat;
        stage_rows, stage_summary, Stat;
        statement_rows, statement_summary, StatementStat;
        transaction_rows, transaction_summary, TransactionStat;
        memory_rows, memory_summary, MemoryStat;
        error_rows, error_summary, ErrorStat;
    }

    /// Returns the global sum of an instrument.
    pub fn global_wait(&self, name: &str) -> Stat {
        find(self.wait_rows(Grouping::Global), None, name)
    }
    /// Returns the sum of an instrument in one thread.
    pub fn thread_wait(&self, thread: ThreadRef, name: &str) -> Stat {
        find(self.wait_rows(Grouping::Thread), Some(thread), name)
    }
    /// Returns the global sum of an instrument.
    pub fn global_stage(&self, name: &str) -> Stat {
        find(self.stage_rows(Grouping::Global), None, name)
    }
    /// Returns the sum of an instrument in one thread.
    pub fn thread_stage(&self, thread: ThreadRef, name: &str) -> Stat {
        find(self.stage_rows(Grouping::Thread), Some(thread), name)
    }
    /// Returns the global sum of an instrument.
    pub fn global_statement(&self, name: &str) -> StatementStat {
        find(self.statement_rows(Grouping::Global), None, name)
    }
    /// Returns the sum of an instrument in one thread.
    pub fn thread_statement(&self, thread: ThreadRef, name: &str) -> StatementStat {
        find(self.statement_rows(Grouping::Thread), Some(thread), name)
    }
    /// Returns the global sum of transactions.
    pub fn global_transaction(&self) -> TransactionStat {
        find(self.transaction_rows(Grouping::Global), None, TRANSACTION)
    }
    /// Returns the sum of transactions in one thread.
    pub fn thread_transaction(&self, thread: ThreadRef) -> TransactionStat {
        find(self.transaction_rows(Grouping::Thread), Some(thread), TRANSACTION)
    }
    /// Returns the global sum of an instrument.
    pub fn global_memory(&self, name: &str) -> MemoryStat {
        find(self.memory_rows(Grouping::Global), None, name)
    }
    /// Returns the sum of an instrument in one thread.
    pub fn thread_memory(&self, thread: ThreadRef, name: &str) -> MemoryStat {
        find(self.memory_rows(Grouping::Thread), Some(thread), name)
    }

    /// Returns how much of this kind was lost.
    pub fn losses_of(&self, name: &str) -> u64 {
        let rows = self.lost();
        rows.iter().find(|row| row.name == name).expect("a known loss").lost
    }

    /// Returns how much was lost, for whatever reason.
    pub fn losses(&self) -> u64 {
        self.lost().iter().map(|row| row.lost).sum()
    }

    /// Returns the event ids of a thread's waits, in the order in which they come.
    pub fn wait_ids(&self, thread: ThreadRef, scope: Scope) -> Vec<u64> {
        ids(thread, self.waits(scope).iter().map(|row| &row.head))
    }
    /// Returns the event ids of a thread's stages, in the order in which they come.
    pub fn stage_ids(&self, thread: ThreadRef, scope: Scope) -> Vec<u64> {
        ids(thread, self.stages(scope).iter().map(|row| &row.head))
    }
    /// Returns the event ids of a thread's statements, in the order in which they come.
    pub fn statement_ids(&self, thread: ThreadRef, scope: Scope) -> Vec<u64> {
        ids(thread, self.statements(scope).iter().map(|row| &row.head))
    }
    /// Returns the event ids of a thread's transactions, in the order in which they come.
    pub fn transaction_ids(&self, thread: ThreadRef, scope: Scope) -> Vec<u64> {
        ids(thread, self.transactions(scope).iter().map(|row| &row.head))
    }
}

fn ids<'a>(thread: ThreadRef, heads: impl Iterator<Item = &'a EventHead>) -> Vec<u64> {
    heads.filter(|head| head.thread_id == thread.thread_id()).map(|head| head.event_id).collect()
}

fn find<S>(rows: Vec<Summary<S>>, thread: Option<ThreadRef>, name: &str) -> S {
    let owner = thread.map_or(0, |thread| thread.thread_id());
    let mut found = rows.into_iter().filter(|row| row.name == name && row.owner.thread_id == owner);
    let row = found.next().unwrap_or_else(|| panic!("no row of {name} for thread {owner}"));
    assert!(found.next().is_none(), "two rows of {name} for thread {owner}");
    row.stat
}
