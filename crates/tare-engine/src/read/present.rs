//! Activity of a thread in several tables at one point in time, so that a join by THREAD_ID does not mix two
//! statements.
//!
//! Each table is read separately and without waiting, while the thread goes on. So the enclosing events are
//! read before and after: if they are the same, everything read in between lies within them. Otherwise all is
//! read again.
//!
//! Few events are recorded of a statement that was not chosen, so the last wait of a thread may belong to a
//! much older statement. Whatever ended before the thread's last statement began is left out.

use crate::Engine;
use crate::snapshot::*;

/// Maximum number of attempts for a thread that changes all the time. The last rows stand.
const TRIES: u32 = 100;

/// Number of the first attempts that also require the stage to be the same. Stages are short.
const TRIES_FOR_STAGE: u32 = 10;

/// EVENT_ID and END_EVENT_ID of a thread's events in a table.
type Ids = Vec<(u64, Option<u64>)>;

fn id(head: &EventHead) -> (u64, Option<u64>) {
    (head.event_id, head.end_event_id)
}

/// Removes stages and waits that ended before the statement with this EVENT_ID began.
fn leave_out_older(present: &mut Present, statement: u64) {
    let is_of_now = |head: &EventHead| head.end_event_id.is_none() || head.event_id > statement;
    present.stages.retain(|row| is_of_now(&row.head));
    present.waits.retain(|row| is_of_now(&row.head));
}

impl Engine {
    /// Returns THREAD_ID of every live thread, in ascending order.
    pub fn live_thread_ids(&self) -> Vec<u64> {
        let live = self.live_threads().into_iter();
        live.filter(|(id, thread)| self.still_lives(thread, *id)).map(|(id, _)| id).collect()
    }

    /// Returns a thread's rows of these tables, all from one point in time. Empty if the thread has ended.
    pub fn present(&self, thread: u64, tables: PresentTables) -> Present {
        let mut present = Present::default();
        let mut before = self.enclosing(thread);
        for attempt in 0..TRIES {
            let stages =
                |attempt| if attempt < TRIES_FOR_STAGE { self.stage_ids(thread, tables) } else { Ids::new() };
            let stage = stages(attempt);
            present = self.present_now(thread, tables);
            let is_same_stage = stage == stages(attempt);
            let after = self.enclosing(thread);
            if let Some(&(began, _)) = after[1].first() {
                leave_out_older(&mut present, began);
            }
            if after == before && is_same_stage {
                break;
            }
            before = after;
        }
        present
    }

    fn present_now(&self, thread: u64, tables: PresentTables) -> Present {
        fn some<R>(is_asked: bool, rows: impl FnOnce() -> Vec<R>) -> Vec<R> {
            if is_asked { rows() } else { Vec::new() }
        }
        let asked = ReadRequest { what: Scope::Current, thread: Some(thread), parts: Parts::ALL };
        let has = |table| tables.has(table);
        Present {
            transactions: some(has(PresentTable::Transactions), || self.transactions(asked)),
            statements: some(has(PresentTable::Statements), || self.statements(asked)),
            threads: some(has(PresentTable::Threads), || {
                self.thread_rows(self.live_threads_of(Some(thread)))
            }),
            stages: some(has(PresentTable::Stages), || self.stages(asked)),
            waits: some(has(PresentTable::Waits), || self.waits(asked)),
        }
    }

    /// Returns the transaction and the statements that the thread is in, or was in last.
    fn enclosing(&self, thread: u64) -> [Ids; 2] {
        let asked = ReadRequest { what: Scope::Current, thread: Some(thread), parts: Parts::NONE };
        [
            self.transactions(asked).iter().map(|row| id(&row.head)).collect(),
            self.statements(asked).iter().map(|row| id(&row.head)).collect(),
        ]
    }

    /// Returns the stage that the thread is in, if both stages and waits are requested.
    fn stage_ids(&self, thread: u64, tables: PresentTables) -> Ids {
        if !tables.has(PresentTable::Stages) || !tables.has(PresentTable::Waits) {
            return Ids::new();
        }
        let asked = ReadRequest { what: Scope::Current, thread: Some(thread), parts: Parts::NONE };
        self.stages(asked).iter().map(|row| id(&row.head)).collect()
    }
}
