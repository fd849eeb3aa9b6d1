//! HOT PATH: hash → slot, with a mapping of its own for its entries. One mechanism for files, tables, programs and digests.

pub(crate) use tare_sync::Inserted;

use crate::memory::arena::{Offset, Table};

pub(crate) struct Index {
    entries: Table,
}

impl Index {
    pub(crate) const fn new() -> Index {
        Index { entries: Table::new() }
    }

    /// Makes room for `keys` at half load.
    pub(crate) fn map(&self, keys: usize) -> Result<(), std::io::Error> {
        self.entries.map((keys * 2).next_power_of_two().max(1024))
    }

    #[inline(always)]
    fn shared(&self) -> tare_sync::Index<'static> {
        tare_sync::Index(self.entries.words())
    }

    /// The slot under `hash` that `is` recognises.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is: impl Fn(Offset) -> bool) -> Option<Offset> {
        self.shared().find(hash, is)
    }

    /// Enters a filled slot.
    pub(crate) fn insert(&self, hash: u64, offset: Offset, is: impl Fn(Offset) -> bool) -> Inserted {
        self.shared().insert(hash, offset, is)
    }

    /// After an insertion into an index from which others remove: see [`tare_sync::Index::settle`].
    pub(crate) fn settle(
        &self,
        hash: u64,
        is: impl Fn(Offset) -> bool,
        lost: impl Fn(Offset),
    ) -> Option<Offset> {
        self.shared().settle(hash, is, lost)
    }

    /// Takes a slot's entry away.
    pub(crate) fn remove(&self, hash: u64, offset: Offset) {
        self.shared().remove(hash, offset);
    }
}
