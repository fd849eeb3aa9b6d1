//! Statements of the host's that read several tables of what threads are doing: all of them show one moment.
//!
//! FEDERATED asks for one table after the other, or for a thread's rows of a table again and again, but all that one statement reads
//! comes over one connection. Before it reads anything it asks for the status of each of the statement's tables. So the tables that
//! are going to be joined are known in advance, and the next status asked for after rows were read begins another statement: nothing
//! that was kept is ever shown to it. A statement that reads one such table has its rows from where they are, at once.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use tare_engine::Engine;
use tare_engine::snapshot::{Present, PresentTables};
use tare_tables::{Query, Sink, Table};

use crate::sql::statement::Select;

/// Most bytes of rows that are kept for a statement. Where they would be more, each table is read when it is asked for.
const MOST_KEPT: usize = 4 << 20;

/// What a statement of the host's reads, and has read.
#[derive(Default)]
pub(crate) struct HostStatement {
    announced: PresentTables,
    is_reading: bool,
    /// What threads were doing when this statement first asked for them, by THREAD_ID.
    threads: BTreeMap<u64, Present>,
    size: usize,
    /// All threads have been asked for: there are no others.
    is_whole: bool,
    /// They were too many to keep.
    is_given_up: bool,
}

/// The threads whose rows a SELECT is answered with; `None`: all that were kept.
pub(super) type Threads = Option<Vec<u64>>;

impl HostStatement {
    /// The status of a table is asked for: a statement is going to read it.
    pub(super) fn announce(&mut self, table: &dyn Table) {
        if self.is_reading {
            *self = HostStatement::default();
        }
        table.present().into_iter().for_each(|table| self.announced.add(table.table()));
    }

    /// Something is changed: what is read from now on shows it.
    pub(super) fn forget(&mut self) {
        *self = HostStatement { announced: self.announced, is_reading: true, ..HostStatement::default() };
    }

    /// Keeps what a SELECT asks for, if its statement reads several such tables; returns whose rows it is answered with.
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

    /// Calls `sink` with the rows a SELECT may ask for until it breaks.
    pub(super) fn scan(&self, table: &dyn Table, threads: &Threads, query: &Query<'_>, sink: Sink<'_>) {
        let Some(table) = table.present() else { return };
        let mut scan = |present: &Present| table.scan_present(present, query, &mut *sink);
        let _all_or_some: ControlFlow<()> = match threads {
            Some(threads) => threads.iter().filter_map(|id| self.threads.get(id)).try_for_each(&mut scan),
            None => self.threads.values().try_for_each(&mut scan),
        };
    }
}
