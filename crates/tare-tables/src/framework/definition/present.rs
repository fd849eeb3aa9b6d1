//! Tables of what threads are doing. A join of them by THREAD_ID gets the rows of all of them from one point
//! in time.

use std::ops::ControlFlow;

use tare_engine::Engine;
use tare_engine::snapshot::{Present, PresentTable, ThreadKey};

use super::TableDef;
use crate::table::{Condition, PresentRows, Query, RowSink};

/// The table that a declaration stands for, and its rows among those of a thread.
pub(super) type Showing<R> = (PresentTable, fn(&Present) -> &[R]);

impl<R: 'static> TableDef<R> {
    /// Returns the table as one of what threads are doing; `None` if it shows something else.
    pub(super) fn as_present(&self) -> Option<&dyn PresentRows> {
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

    fn scan_present(&self, present: &Present, query: &Query<'_>, sink: RowSink<'_>) -> ControlFlow<()> {
        let Some((_, rows)) = self.showing else { return ControlFlow::Continue(()) };
        rows(present).iter().try_for_each(|row| self.emit(row, query.conditions, &mut *sink))
    }
}
