//! HOT PATH: stored programs: their slots, and what is counted of them.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::layout::cell::{Counts, Plain};
use crate::layout::counters::{PlainCounters, StatementSums};
use crate::layout::reference::reference;
use crate::layout::statement::NAME_WORDS;
use crate::memory::pool::SlotHead;

/// Schema and name of an object, each as words and number of bytes.
pub(crate) type NameWords<'a> = (&'a [AtomicU64], usize, &'a [AtomicU64], usize);

/// A stored program.
#[repr(C)]
pub(crate) struct Program {
    pub(crate) head: SlotHead,
    pub(crate) hash: AtomicU64,
    /// ENABLED and TIMED, as decided by `setup_objects`.
    pub(crate) watch: AtomicU8,
    pub(crate) object_type: AtomicU8,
    _pad: [AtomicU8; 6],
    pub(crate) schema_len: AtomicU32,
    pub(crate) name_len: AtomicU32,
    pub(crate) schema: [AtomicU64; NAME_WORDS],
    pub(crate) name: [AtomicU64; NAME_WORDS],
    /// Sums moved here from the threads that counted them.
    pub(crate) counts: ProgramCounts,
}

reference! {
    /// Reference to a stored program.
    ProgramRef, ProgramHandle, Program
}

impl Program {
    pub(crate) fn object_type(&self) -> u8 {
        self.object_type.load(Relaxed)
    }

    pub(crate) fn name_words(&self) -> NameWords<'_> {
        let (schema, name) = (self.schema_len.load(Relaxed), self.name_len.load(Relaxed));
        (&self.schema, schema as usize, &self.name, name as usize)
    }
}

/// The counts of one program, by one thread or by all that left their threads.
#[repr(C)]
pub(crate) struct ProgramCounts {
    pub(crate) calls: Counts,
    pub(crate) statements: Counts,
    pub(crate) counters: StatementSums,
}

/// The values of a [`ProgramCounts`], for readers.
#[derive(Clone, Copy, Default)]
pub(crate) struct ProgramTally {
    pub(crate) calls: Plain,
    pub(crate) statements: Plain,
    pub(crate) counters: PlainCounters,
}

impl ProgramTally {
    pub(crate) fn merge(&mut self, other: &ProgramTally) {
        self.calls.merge(other.calls);
        self.statements.merge(other.statements);
        self.counters.merge(&other.counters);
    }
}

impl ProgramCounts {
    pub(crate) fn plain(&self) -> ProgramTally {
        ProgramTally {
            calls: self.calls.plain(),
            statements: self.statements.plain(),
            counters: self.counters.plain(),
        }
    }

    /// Empties counts that several threads fold into.
    pub(crate) fn clear_shared(&self) {
        self.calls.clear_shared();
        self.statements.clear_shared();
        self.counters.clear();
    }

    /// Adds all of `other`; several threads may call it.
    pub(crate) fn merge_shared(&self, other: &ProgramCounts) {
        self.calls.merge_shared(other.calls.plain());
        self.statements.merge_shared(other.statements.plain());
        self.counters.merge_shared(&other.counters);
    }

    /// Empties the counts; the caller is the only writer.
    pub(crate) fn clear(&self) {
        self.calls.clear();
        self.statements.clear();
        self.counters.clear();
    }
}
