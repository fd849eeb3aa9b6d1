//! Host statements that read several tables about current thread activity, all from one moment.
//!
//! FEDERATED asks for one table after the other, or for a thread's rows again and again, but everything that
//! one statement reads comes over one connection. Before it reads, it asks for the status of each of the
//! statement's tables. So the tables of a join are known in advance, and the next status request after a read
//! begins a new statement, which sees none of the kept rows. A statement that reads only one such table reads
//! it directly.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use tare_engine::Engine;
use tare_engine::snapshot::{Present, PresentTables};
use tare_tables::{Query, RowSink, Table};

use crate::sql::statement::Select;

/// The most bytes of rows kept for a statement. Beyond that, each table is read when it is asked for.
const MOST_KEPT: usize = 4 << 20;

/// The tables and rows of the host's current statement.
#[derive(Default)]
pub(crate) struct HostStatement {
    announced: PresentTables,
    is_reading: bool,
    /// The activity of threads when this statement first asked for them, by THREAD_ID.
    threads: BTreeMap<u64, Present>,
    size: usize,
    /// Whether all threads have been kept.
    is_whole: bool,
    /// Whether keeping was given up because the rows were too many.
    is_given_up: bool,
}

/// The threads whose rows answer a SELECT; `None`: all that were kept.
pub(super) type Threads = Option<Vec<u64>>;

impl HostStatement {
    /// Notes that a statement is going to read a table whose status is asked for.
    pub(super) fn announce(&mut self, table: &dyn Table) {
        if self.is_reading {
            *self = HostStatement::default();
        }
        table.present().into_iter().for_each(|table| self.announced.add(table.table()));
    }

    /// Drops the kept rows because the statement changes something; later reads show the change.
    pub(super) fn forget(&mut self) {
        *self = HostStatement { announced: self.announced, is_reading: true, ..HostStatement::default() };
    }

    /// Keeps what a SELECT asks for if its statement reads several such tables. Returns the threads whose
    /// rows answer it; `None` if it must read the table directly.
    pub(super) fn read(&mut self, engine: &Engine, select: &Select) -> Option<Threads> {
        self.is_reading = true;
        let table = select.table.present()?;
        if self.is_given_up || !self.announced.are_several() || !self.announced.has(table.table()) {
            return None;
        }
        let threads = table.threads(engine, &select.filter.hints(select.table.columns()));
        if !self.is_whole {
            let wanted = threads.clone().unwrap_or_else(|| engine.live_thread_ids());
            for thread in wanted {
                if !self.threads.contains_key(&thread) {
                    let present = engine.present(thread, self.announced);
                    self.size += present.size();
                    self.threads.insert(thread, present);
                }
                if self.size > MOST_KEPT {
                    self.threads.clear();
                    self.is_given_up = true;
                    return None;
                }
            }
            self.is_whole = threads.is_none();
        }
        Some(threads)
    }

    /// Calls `sink` with the kept rows that a SELECT may ask for until it breaks.
    pub(super) fn scan(&self, table: &dyn Table, threads: &Threads, query: &Query<'_>, sink: RowSink<'_>) {
        let Some(table) = table.present() else { return };
        let mut scan = |present: &Present| table.scan_present(present, query, &mut *sink);
        let _all_or_some: ControlFlow<()> = match threads {
            Some(threads) => threads.iter().filter_map(|id| self.threads.get(id)).try_for_each(&mut scan),
            None => self.threads.values().try_for_each(&mut scan),
        };
    }
}
