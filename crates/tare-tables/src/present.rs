//! Tables of what threads are doing: whoever joins them by THREAD_ID has the rows of all of them from one moment.

use std::ops::ControlFlow;

use tare_engine::Engine;
use tare_engine::snapshot::{Present, PresentTable, ThreadKey};

use crate::definition::TableDef;
use crate::table::{Condition, Query, Sink};

/// Which of those tables a declaration is, and its rows among a thread's.
pub(crate) type Showing<R> = (PresentTable, fn(&Present) -> &[R]);

/// A table of what threads are doing.
pub trait PresentRows {
    /// Which one.
    fn table(&self) -> PresentTable;
    /// THREAD_ID of the threads whose rows these conditions may be true of; `None`: of any.
    fn threads(&self, engine: &Engine, conditions: &[Condition]) -> Option<Vec<u64>>;
    /// Calls `sink` with its rows among a thread's until it breaks.
    fn scan_present(&self, present: &Present, query: &Query<'_>, sink: Sink<'_>) -> ControlFlow<()>;
}

impl<R: 'static> TableDef<R> {
    /// This table, if it is one of those.
    pub(crate) fn as_present(&self) -> Option<&dyn PresentRows> {
        self.showing.is_some().then_some(self)
    }
}

impl<R: 'static> PresentRows for TableDef<R> {
    fn table(&self) -> PresentTable {
        self.showing.map_or(PresentTable::Threads, |(table, _)| table)
    }

    fn threads(&self, engine: &Engine, conditions: &[Condition]) -> Option<Vec<u64>> {
        if let Some(thread) = self.pinned(conditions, "THREAD_ID") {
            return Some(vec![thread]);
        }
        let connection = self.pinned(conditions, "PROCESSLIST_ID")?;
        Some(engine.threads_of(ThreadKey::Connection(connection)).iter().map(|row| row.thread_id).collect())
    }

    fn scan_present(&self, present: &Present, query: &Query<'_>, sink: Sink<'_>) -> ControlFlow<()> {
        let Some((_, rows)) = self.showing else { return ControlFlow::Continue(()) };
        rows(present).iter().try_for_each(|row| self.emit(row, query.conditions, &mut *sink))
    }
}
