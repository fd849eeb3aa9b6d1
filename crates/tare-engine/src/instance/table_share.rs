//! Table shares: tables as the host defines them, with the counts of their closed handles.
//!
//! Several threads may want to change a share's counts at once: one that closes a handle, one that finds the
//! table with other keys, one that drops it. The lock [`Engine::share_changes`] orders them. The host takes
//! it where it opens and closes tables, not where it uses them.

use std::sync::atomic::{
    AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use tare_sync::Seqlock;

use super::{MAX_INDEXES, TableCounts, TableIo, TableLocks, TableRef};
use crate::Engine;
use crate::layout::cell::{Counts, Viewer};
use crate::layout::program::{NameWords, Program};
use crate::layout::reference::reference;
use crate::layout::statement::NAME_WORDS;
use crate::memory::arena::{ArenaView, Offset};
use crate::memory::index::Inserted;
use crate::memory::lost::Lost;
use crate::memory::pool::{Pool, SlotHead, USED, held};
use crate::memory::text;
use crate::setup::instrument::{ENABLED, TIMED, lock};
use crate::setup::objects::{self, ObjectRule};

/// A table's definition in use.
#[repr(C)]
pub(crate) struct ShareSlot {
    pub(crate) head: SlotHead,
    pub(crate) hash: AtomicU64,
    pub(crate) temporary: AtomicU8,
    /// ENABLED and TIMED, as decided by `setup_objects`.
    pub(crate) watch: AtomicU8,
    pub(crate) keys: AtomicU8,
    /// Whether the host decides about the switches. Then the table has rows even if it is disabled.
    pub(crate) is_of_host: AtomicU8,
    /// Seqlock of the keys, number and names. The lock [`Engine::share_changes`] makes one writer of many.
    pub(crate) key_version: Seqlock,
    pub(crate) schema_len: AtomicU32,
    pub(crate) name_len: AtomicU32,
    pub(crate) schema: [AtomicU64; NAME_WORDS],
    pub(crate) name: [AtomicU64; NAME_WORDS],
    /// Places of [`TableIo`] slots by index; the last is for access without an index.
    pub(crate) io: [AtomicU32; MAX_INDEXES + 1],
    pub(crate) locks: AtomicU32,
    /// Places of [`KeyNames`] slots.
    pub(crate) key_names: [AtomicU32; MAX_INDEXES / KEYS_PER_SLOT],
}

reference! {
    /// Reference to a table's definition in use.
    TableShareRef, TableShareHandle, ShareSlot
}

impl ShareSlot {
    pub(crate) fn name_words(&self) -> NameWords<'_> {
        let (schema, name) = (self.schema_len.load(Relaxed), self.name_len.load(Relaxed));
        (&self.schema, schema as usize, &self.name, name as usize)
    }
}

/// Number of names in a slot of key names.
pub(crate) const KEYS_PER_SLOT: usize = 4;

/// Names of some of a table's keys.
#[repr(C)]
pub(crate) struct KeyNames {
    pub(crate) head: SlotHead,
    pub(crate) lens: [AtomicU16; KEYS_PER_SLOT],
    pub(crate) names: [[AtomicU64; NAME_WORDS]; KEYS_PER_SLOT],
}

// SAFETY: consists of atomics only, alignment 8, smaller than a block.
#[allow(unsafe_code)]
unsafe impl ArenaView for KeyNames {}

/// The host's description of a table when it is first used.
pub struct TableName<'a> {
    /// Whether this is a temporary table.
    pub temporary: bool,
    /// OBJECT_SCHEMA.
    pub schema: &'a [u8],
    /// OBJECT_NAME.
    pub name: &'a [u8],
}

impl TableName<'_> {
    fn hash(&self) -> u64 {
        text::hash(text::hash(2 + u64::from(self.temporary), self.schema), self.name)
    }

    fn is(&self, share: &ShareSlot) -> bool {
        share.head.state() == USED
            && share.temporary.load(Relaxed) == u8::from(self.temporary)
            && text::equals(&share.name, share.name_len.load(Relaxed) as usize, self.name)
            && text::equals(&share.schema, share.schema_len.load(Relaxed) as usize, self.schema)
    }
}

impl Engine {
    /// Returns the share of this table; makes it if needed. `keys` are the names of its indexes. If they have
    /// changed, its row counts start anew, because the index numbers have changed meaning. Lock counts stay:
    /// locks have no index.
    pub fn table_share<'a>(
        &self,
        table: &TableName<'_>,
        keys: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
    ) -> Option<TableShareRef> {
        let _turn = lock(&self.share_changes);
        let hash = table.hash();
        let is = |offset: Offset| table.is(self.arena.at(offset));
        if let Some(offset) = self.tables.find(hash, is) {
            let (_held, share) = held::<TableShareHandle>(&self.arena, Pool::Tables, offset)?;
            let slot = share.slot(self);
            if self.has_other_keys(slot, keys.clone()) {
                self.folds.begin();
                self.free_io(slot);
                self.set_key_names(slot, keys);
                self.folds.end();
            }
            return Some(share);
        }
        let Some(share) = self.pools.take::<TableShareHandle>(&self.arena, Pool::Tables, 0) else {
            self.losses.count(Lost::TableInstances);
            return None;
        };
        let slot = share.slot(self);
        slot.hash.store(hash, Relaxed);
        slot.temporary.store(u8::from(table.temporary), Relaxed);
        slot.is_of_host.store(0, Relaxed);
        slot.schema_len.store(text::write(&slot.schema, table.schema) as u32, Relaxed);
        slot.name_len.store(text::write(&slot.name, table.name) as u32, Relaxed);
        self.set_key_names(slot, keys);
        slot.head.publish();
        self.decide_object(&slot.watch, objects::TABLE, table.schema, table.name);
        match self.tables.insert(hash, self.arena.offset_of(share), is) {
            Inserted::Here => Some(share),
            Inserted::There(first) => {
                self.free_share(share);
                held::<TableShareHandle>(&self.arena, Pool::Tables, first).map(|(_held, share)| share)
            }
            Inserted::Full => {
                self.losses.count(Lost::TableInstances);
                self.free_share(share);
                None
            }
        }
    }

    /// Sets whether a table is instrumented, and timed, where the host decides that itself. Such a table has
    /// rows even if it is disabled, and keeps the counts of closed handles.
    pub fn set_table_share_switches(&self, share: TableShareRef, enabled: bool, timed: bool) {
        let now = if !enabled { 0 } else { ENABLED | if timed { TIMED } else { 0 } };
        let slot = share.slot(self);
        slot.is_of_host.store(1, Relaxed);
        slot.watch.store(now, Relaxed);
    }

    /// Forgets a dropped table and its statistics.
    pub fn drop_table_share(&self, table: &TableName<'_>) {
        let _turn = lock(&self.share_changes);
        let hash = table.hash();
        if let Some(offset) = self.tables.find(hash, |at| table.is(self.arena.at(at))) {
            self.tables.remove(hash, offset);
            self.folds.begin();
            self.free_share(self.arena.at(offset));
            self.folds.end();
        }
    }

    fn free_share(&self, share: TableShareRef) {
        let slot = share.slot(self);
        let Some(_held) = self.arena.hold(Pool::Tables, share).filter(|_| slot.head.end()) else { return };
        self.free_io(slot);
        self.free_table_counts::<TableLocks>(&slot.locks);
        for names in slot.key_names.iter().map(|names| names.swap(0, Relaxed)).filter(|names| *names != 0) {
            self.pools.give(&self.arena, Pool::Names, self.arena.at::<KeyNames>(names));
        }
        self.pools.put_back(&self.arena, Pool::Tables, share);
    }

    fn free_io(&self, share: &ShareSlot) {
        share.io.iter().for_each(|io| self.free_table_counts::<TableIo>(io));
    }

    /// Gives back a slot of the counts of closed handles.
    fn free_table_counts<C: TableCounts>(&self, place: &AtomicU32) {
        let offset = place.swap(0, Relaxed);
        if offset != 0 {
            self.pools.give(&self.arena, C::POOL, self.arena.at::<C>(offset));
            self.table_stats[C::FAMILY as usize].fetch_sub(1, Relaxed);
        }
    }

    fn has_other_keys<'a>(&self, share: &ShareSlot, keys: impl ExactSizeIterator<Item = &'a [u8]>) -> bool {
        let is_other = |(at, key): (usize, &[u8])| {
            let names: &KeyNames = match share.key_names[at / KEYS_PER_SLOT].load(Relaxed) {
                0 => return false,
                names => self.arena.at(names),
            };
            let (name, len) = (&names.names[at % KEYS_PER_SLOT], &names.lens[at % KEYS_PER_SLOT]);
            !text::equals(name, len.load(Relaxed) as usize, &key[..key.len().min(size_of_val(name))])
        };
        keys.len().min(MAX_INDEXES) != usize::from(share.keys.load(Relaxed))
            || keys.take(MAX_INDEXES).enumerate().any(is_other)
    }

    fn set_key_names<'a>(&self, slot: &ShareSlot, keys: impl ExactSizeIterator<Item = &'a [u8]>) {
        slot.key_version.change(|| self.write_key_names(slot, keys));
    }

    fn write_key_names<'a>(&self, slot: &ShareSlot, keys: impl ExactSizeIterator<Item = &'a [u8]>) {
        let count = keys.len().min(MAX_INDEXES);
        slot.keys.store(count as u8, Relaxed);
        for (at, key) in keys.take(MAX_INDEXES).enumerate() {
            let place = &slot.key_names[at / KEYS_PER_SLOT];
            if place.load(Relaxed) == 0 {
                let Some(names) = self.pools.take::<KeyNames>(&self.arena, Pool::Names, 0) else {
                    self.losses.count(Lost::IndexStats);
                    return;
                };
                names.head.publish();
                place.store(self.arena.offset_of(names), Release);
            }
            let names: &KeyNames = self.arena.at(place.load(Relaxed));
            let len = text::write(&names.names[at % KEYS_PER_SLOT], key);
            names.lens[at % KEYS_PER_SLOT].store(len as u16, Relaxed);
        }
    }

    /// Closes a table: moves the counts of the handle to its share.
    pub fn close_table(&self, table: TableRef) {
        self.end_table(table, true);
    }

    /// Forgets an open table with its counts, as the built-in does with one that is disabled.
    pub fn discard_table(&self, table: TableRef) {
        self.end_table(table, false);
    }

    fn end_table(&self, table: TableRef, keeps_counts: bool) {
        let _turn = lock(&self.share_changes);
        let slot = table.slot(self);
        self.folds.begin();
        let held = held::<ShareSlot>(&self.arena, Pool::Tables, slot.share.load(Relaxed));
        let generation = slot.share_generation.load(Relaxed);
        let share = held
            .as_ref()
            .map(|(_held, share)| *share)
            .filter(|share| keeps_counts && share.head.is_still(generation));
        for (at, from) in slot.io.iter().enumerate() {
            self.fold_table_counts::<TableIo>(from.load(Relaxed), share.map(|share| &share.io[at]));
        }
        self.fold_table_counts::<TableLocks>(slot.locks.load(Relaxed), share.map(|share| &share.locks));
        self.pools.give(&self.arena, Pool::Handles, table);
        self.folds.end();
    }

    fn fold_table_counts<C: TableCounts>(&self, from: Offset, to: Option<&AtomicU32>) {
        if from == 0 {
            return;
        }
        let counts: &'static C = self.arena.at(from);
        let valid = self.counts_for(C::FAMILY, Viewer::Global, counts.epoch().load(Relaxed));
        let held = &self.table_stats[C::FAMILY as usize];
        match to.filter(|_| valid).map(|to| (to, to.load(Acquire))) {
            None => {}
            Some((_, 0)) if !self.losses.allow(C::LOST, held.load(Relaxed)) => self.losses.count(C::LOST),
            // The share has none yet: the slot itself moves.
            Some((to, 0)) => {
                to.store(from, Release);
                held.fetch_add(1, Relaxed);
                return;
            }
            Some((_, into)) => {
                let into: &C = self.arena.at(into);
                // It moved here during a TRUNCATE, so what it holds is older than the reset.
                if !self.counts_for(C::FAMILY, Viewer::Global, into.epoch().load(Relaxed)) {
                    into.parts().iter().for_each(Counts::clear);
                    into.epoch().store(counts.epoch().load(Relaxed), Relaxed);
                }
                let parts = into.parts().iter().zip(counts.parts());
                parts.for_each(|(into, from)| into.merge_own(from.plain()));
            }
        }
        self.pools.give(&self.arena, C::POOL, counts);
    }
}

impl Engine {
    /// Applies the rules of `setup_objects` to every object. A table that is disabled by this loses the
    /// counts of closed handles, as in the built-in.
    pub(crate) fn apply_object_rules(&self, rules: &[ObjectRule]) {
        // Returns whether the object was enabled and no longer is.
        let anew = |watch: &AtomicU8, object_type, (schema, schema_len, name, name_len): NameWords<'_>| {
            let (schema, name) = (text::read(schema, schema_len), text::read(name, name_len));
            let now = objects::decide(rules, object_type, &schema, &name);
            watch.swap(now, Relaxed) != 0 && now == 0
        };
        self.pools.each::<ShareSlot>(&self.arena, Pool::Tables, |share| {
            if anew(&share.watch, objects::TABLE, share.name_words()) {
                self.clear_table_io(share);
                self.clear_table_locks(share);
            }
        });
        self.pools.each::<Program>(&self.arena, Pool::Programs, |program| {
            anew(&program.watch, program.object_type(), program.name_words());
        });
    }
}
