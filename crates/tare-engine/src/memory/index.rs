//! HOT PATH: a lock-free hash table from hashes to slots, with a mapping of its own. Files, tables, programs
//! and digests use it.

pub(crate) use tare_sync::Inserted;

use crate::memory::arena::{Offset, Table};

pub(crate) struct NameIndex {
    entries: Table,
}

impl NameIndex {
    pub(crate) const fn new() -> NameIndex {
        NameIndex { entries: Table::new() }
    }

    /// Reserves room for `keys` at half load.
    pub(crate) fn map(&self, keys: usize) -> Result<(), std::io::Error> {
        self.entries.map((keys * 2).next_power_of_two().max(1024))
    }

    #[inline(always)]
    fn shared(&self) -> tare_sync::Index<'static> {
        tare_sync::Index(self.entries.words())
    }

    /// Returns the slot under `hash` that `is` accepts.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is: impl Fn(Offset) -> bool) -> Option<Offset> {
        self.shared().find(hash, is)
    }

    /// Inserts a slot whose contents are complete.
    pub(crate) fn insert(&self, hash: u64, offset: Offset, is: impl Fn(Offset) -> bool) -> Inserted {
        self.shared().insert(hash, offset, is)
    }

    /// Resolves duplicates after an insertion into a table from which others remove. See also
    /// [`tare_sync::Index::settle`].
    pub(crate) fn settle(
        &self,
        hash: u64,
        is: impl Fn(Offset) -> bool,
        lost: impl Fn(Offset),
    ) -> Option<Offset> {
        self.shared().settle(hash, is, lost)
    }

    /// Removes the entry of a slot.
    pub(crate) fn remove(&self, hash: u64, offset: Offset) {
        self.shared().remove(hash, offset);
    }
}
