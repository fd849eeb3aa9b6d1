//! Readers of ended statements, and which of them they want.
//!
//! While a server samples, a statement that was not chosen leaves no record, unless it failed, waited or was
//! slow. A reader of the stream of statements misses those without knowing. So it registers here, with the
//! least time of the statements it wants. While it does, whatever ends after such a time is recorded, chosen
//! or not. Only the test at a statement's end knows of it: what is inside a statement, and its weight, stay
//! what they are.

use std::collections::BTreeMap;

use crate::Engine;

/// The least times of statements that readers want, in picoseconds.
pub(super) struct StatementReaders {
    next: u64,
    wanted_ps: BTreeMap<u64, u64>,
}

impl StatementReaders {
    pub(super) const NONE: StatementReaders = StatementReaders { next: 0, wanted_ps: BTreeMap::new() };

    /// Returns the least time that any of them wants; `None`: there is no reader.
    pub(super) fn least_ps(&self) -> Option<u64> {
        self.wanted_ps.values().min().copied()
    }
}

/// A reader of ended statements: while it exists, the statements it wants are recorded when they end, chosen
/// or not. It forgets itself when it is dropped.
pub struct StatementReader {
    engine: &'static Engine,
    id: u64,
}

impl std::fmt::Debug for StatementReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatementReader").field("id", &self.id).finish_non_exhaustive()
    }
}

impl StatementReader {
    /// Sets the least time of statements it wants from now on, in picoseconds; 0: every one. `u64::MAX`: only
    /// those that are recorded without it.
    pub fn want_from(&self, ps: u64) {
        let mut control = self.engine.sampling.control();
        if control.readers.wanted_ps.insert(self.id, ps) != Some(ps) {
            self.engine.record_as_readers_want(&control);
        }
    }
}

impl Drop for StatementReader {
    fn drop(&mut self) {
        let mut control = self.engine.sampling.control();
        control.readers.wanted_ps.remove(&self.id);
        self.engine.record_as_readers_want(&control);
    }
}

impl Engine {
    /// Adds a reader of ended statements that take this many picoseconds or more.
    #[must_use = "it is a reader until it is dropped"]
    pub fn read_statements_from(&'static self, ps: u64) -> StatementReader {
        let reader = {
            let mut control = self.sampling.control();
            let id = control.readers.next;
            control.readers.next += 1;
            StatementReader { engine: self, id }
        };
        reader.want_from(ps);
        reader
    }
}
