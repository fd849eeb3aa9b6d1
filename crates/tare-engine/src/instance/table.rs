//! HOT PATH: open tables, and what is done through them.

use std::hint::cold_path;
use std::mem::offset_of;
use std::sync::atomic::{
    AtomicU8, AtomicU32, AtomicU64,
    Ordering::{Relaxed, Release},
};

use crate::Engine;
use crate::histogram::Lowest;
use crate::layout::cell::{Counts, SummaryFamily};
use crate::memory::arena::{ArenaView, Base, LINE};
use crate::memory::lost::Lost;
use crate::memory::pool::{self, Pool, SlotHead};
use crate::memory::text;
use crate::record::wait::{Source, Wait, WaitKind, WaitObject, WaitTotals};
use crate::record::{Start, operation};
use crate::setup::instrument::fixed;
use crate::snapshot::{ClassId, Kind};
use crate::thread::choice::Tallied;
use crate::thread::current;

use super::{MAX_INDEXES, ShareSlot, TableShareRef, WATCHED, add};
use crate::layout::reference::reference;

/// Counts of FETCH, INSERT, UPDATE and DELETE for one index of one handle or share.
#[repr(C)]
pub(crate) struct TableIo {
    pub(crate) head: SlotHead,
    pub(crate) epoch: AtomicU32,
    _pad: [AtomicU32; 3],
    pub(crate) parts: [Counts; 4],
}

// SAFETY: consists of atomics only, alignment 8, smaller than a block.
#[allow(unsafe_code)]
unsafe impl ArenaView for TableIo {}

/// Number of kinds of table locks.
pub(crate) const LOCK_KINDS: usize = 11;

/// Counts of locks of one handle or share, by kind.
#[repr(C)]
pub(crate) struct TableLocks {
    pub(crate) head: SlotHead,
    pub(crate) epoch: AtomicU32,
    _pad: [AtomicU32; 3],
    pub(crate) parts: [Counts; LOCK_KINDS],
}

// SAFETY: consists of atomics only, alignment 8, smaller than a block.
#[allow(unsafe_code)]
unsafe impl ArenaView for TableLocks {}

/// Counts of one handle or share, in a slot of their own that is made when first needed. Each part lies on
/// one line.
pub(crate) trait TableCounts: ArenaView {
    /// Number of words before the parts.
    const PARTS: usize;
    const POOL: Pool;
    const FAMILY: SummaryFamily;
    const LOST: Lost;
    fn head(&self) -> &SlotHead;
    fn epoch(&self) -> &AtomicU32;
    fn parts(&self) -> &[Counts];
}

macro_rules! table_counts {
    ($type:ident, $family:ident, $lost:ident) => {
        impl TableCounts for $type {
            const PARTS: usize = offset_of!($type, parts) / 8;
            const POOL: Pool = Pool::$type;
            const FAMILY: SummaryFamily = SummaryFamily::$family;
            const LOST: Lost = Lost::$lost;
            fn head(&self) -> &SlotHead {
                &self.head
            }
            fn epoch(&self) -> &AtomicU32 {
                &self.epoch
            }
            fn parts(&self) -> &[Counts] {
                &self.parts
            }
        }
    };
}
table_counts!(TableIo, TableIo, IndexStats);
table_counts!(TableLocks, TableLock, TableLockStats);
/// Words of a part.
const PART: usize = size_of::<Counts>() / 8;
const _: () = assert!(TableIo::PARTS.is_multiple_of(PART) && TableLocks::PARTS.is_multiple_of(PART));

/// An open table. One thread at a time uses it.
#[repr(C)]
pub(crate) struct TableHandle {
    pub(crate) head: SlotHead,
    pub(crate) share: AtomicU32,
    pub(crate) share_generation: AtomicU32,
    pub(crate) identity: AtomicU64,
    pub(crate) owner_thread: AtomicU64,
    pub(crate) owner_event: AtomicU64,
    /// Lock kind plus one; 0: none.
    pub(crate) internal_lock: AtomicU8,
    pub(crate) external_lock: AtomicU8,
    _pad: [AtomicU8; 2],
    pub(crate) locks: AtomicU32,
    pub(crate) io: [AtomicU32; MAX_INDEXES + 1],
}

reference! {
    /// Reference to an open table.
    TableRef, TableHandleHandle, TableHandle
}

/// The index the built-in reports for table locks: the first one.
const LOCKED_INDEX: u8 = 0;

impl TableHandleHandle {
    #[inline(always)]
    fn share(&self, base: Base) -> &'static ShareSlot {
        base.at(self.slot.share.load(Relaxed))
    }

    /// Returns the object of a wait for the table.
    #[inline(always)]
    fn object(&self, engine: &Engine, index: u8, operation: u8) -> WaitObject {
        let address = self.slot.identity.load(Relaxed) as usize;
        WaitObject { address, name: pool::name(&self.share(engine.arena.base()).head), index, operation }
    }
}

impl Engine {
    /// Opens a table. `None`: no memory.
    pub fn open_table(&self, share: TableShareRef, identity: usize) -> Option<TableRef> {
        let Some(table) = self.pools.take::<TableHandleHandle>(&self.arena, Pool::Handles, 0) else {
            self.losses.count(Lost::TableHandles);
            return None;
        };
        let slot = &table.slot;
        slot.share.store(self.arena.offset_of(share), Relaxed);
        slot.share_generation.store(share.slot(self).head.generation(), Relaxed);
        self.rebind_table(table, identity);
        slot.head.publish();
        Some(table)
    }

    /// Returns whether an open table is in this schema.
    pub fn is_in_schema(&self, table: TableRef, schema: &[u8]) -> bool {
        self.share_is_in_schema(self.arena.at(table.slot.share.load(Relaxed)), schema)
    }

    /// Returns whether a table, open or not, is in this schema.
    pub fn share_is_in_schema(&self, share: TableShareRef, schema: &[u8]) -> bool {
        let share = share.slot(self);
        text::equals(&share.schema, share.schema_len.load(Relaxed) as usize, schema)
    }

    /// Makes the calling thread the user of an open table.
    #[inline(always)]
    pub fn rebind_table(&self, table: TableRef, identity: usize) {
        let slot = &table.slot;
        slot.identity.store(identity as u64, Relaxed);
        if let Some(thread) = current() {
            slot.owner_thread.store(thread.thread_id.load(Relaxed), Relaxed);
            slot.owner_event.store(thread.event_id.load(Relaxed), Relaxed);
        }
    }

    /// Clears the user of an open table, which goes back to the host's cache.
    pub fn unbind_table(&self, table: TableRef) {
        table.slot.owner_thread.store(0, Relaxed);
        table.slot.owner_event.store(0, Relaxed);
    }

    /// Begins table I/O. `index` is [`MAX_INDEXES`] for access without an index.
    pub fn start_table_io_wait(
        &self,
        table: TableRef,
        operation: u8,
        index: usize,
        source: Source,
    ) -> Option<Wait> {
        match self.start_table_io_wait_fast(table, operation, index, source) {
            Start::Began(wait) => Some(wait),
            Start::Off => None,
            Start::Slow => {
                let object = table.object(self, index as u8, operation::TABLE_IO + (operation & 3));
                self.start_table_wait(fixed::TABLE_IO, table, object, source)
            }
        }
    }

    /// Begins table I/O. Fast path only; on `Slow` call [`Engine::start_table_io_wait`].
    #[inline(always)]
    pub fn start_table_io_wait_fast(
        &self,
        table: TableRef,
        operation: u8,
        index: usize,
        source: Source,
    ) -> Start<Wait> {
        let part = operation & 3;
        if let Some(place) = table.slot.io.get(index) {
            self.expect_counts::<TableIo>(place, part);
        }
        let what = WaitKind::new(fixed::TABLE_IO, operation::TABLE_IO + part, index as u8);
        self.start_table_wait_fast(what, table, source)
    }

    /// Begins table I/O that is counted but not timed.
    pub fn start_untimed_table_io_wait(
        &self,
        table: TableRef,
        operation: u8,
        index: usize,
        source: Source,
    ) -> Option<Wait> {
        let object = table.object(self, index as u8, operation::TABLE_IO + (operation & 3));
        self.start_untimed_wait(fixed::TABLE_IO, object, source)
    }

    /// Begins a table lock that is counted but not timed.
    pub fn start_untimed_table_lock_wait(&self, table: TableRef, kind: u8, source: Source) -> Option<Wait> {
        let object = table.object(self, LOCKED_INDEX, operation::TABLE_LOCK + kind);
        self.start_untimed_wait(fixed::TABLE_LOCK, object, source)
    }

    /// Begins a wait for a table if `setup_objects` enables it.
    fn start_table_wait(
        &self,
        class: ClassId,
        table: TableRef,
        object: WaitObject,
        source: Source,
    ) -> Option<Wait> {
        match table.share(self.arena.base()).watch.load(Relaxed) {
            WATCHED => self.start_wait(class, object, source),
            0 => None,
            _ => self.start_untimed_wait(class, object, source),
        }
    }

    #[inline(always)]
    fn start_table_wait_fast(&self, what: WaitKind, table: TableRef, source: Source) -> Start<Wait> {
        let look = |base| {
            let share = table.share(base);
            (share, share.watch.load(Relaxed) == WATCHED)
        };
        self.start_wait_fast(what, source, look, |open, share| {
            open.set_object(table.slot.identity.load(Relaxed), pool::name(&share.head));
        })
    }

    /// Begins table I/O that is only counted, in a statement that was not chosen. `None`: it is not even
    /// counted.
    #[inline(always)]
    pub fn start_tallied_table_io(&self, table: TableRef, operation: u8, index: usize) -> Option<Wait> {
        let share = table.share(self.arena.base());
        if share.watch.load(Relaxed) == 0 {
            return None;
        }
        let wait = self.start_tallied_wait(fixed::TABLE_IO)?;
        let operation = operation::TABLE_IO + (operation & 3);
        let tallied = Tallied { table: pool::name(&share.head), operation, index: index as u8 };
        wait.thread.tallied.store(tallied.word(), Relaxed);
        Some(wait)
    }

    /// Ends table I/O that is only counted. Fast path only; on false call [`Engine::end_table_io_wait`].
    #[inline(always)]
    pub fn end_tallied_table_io_fast(
        &self,
        table: TableRef,
        wait: &Wait,
        operation: u8,
        index: usize,
        rows: u64,
    ) -> bool {
        let Some(place) = table.slot.io.get(index) else { return false };
        let (counts, is_of_today) = self.counts_of::<TableIo>(self.arena.base(), place);
        if !is_of_today || !self.end_tallied_wait_fast(wait, rows) {
            return false;
        }
        counts.parts[operation as usize & 3].add_untimed(rows);
        true
    }

    /// Ends table I/O of `rows` rows.
    pub fn end_table_io_wait(&self, table: TableRef, wait: &Wait, operation: u8, index: usize, rows: u64) {
        if self.end_table_io_wait_fast(table, wait, operation, index, rows) {
            return;
        }
        let taken = self.end_wait(wait, rows, Some(rows));
        let place = &table.slot.io[index.min(MAX_INDEXES)];
        self.count_table::<TableIo>(fixed::TABLE_IO, wait, place, operation as usize & 3, rows, taken);
    }

    /// Ends table I/O of `rows` rows. Fast path only; on false call [`Engine::end_table_io_wait`].
    #[inline(always)]
    pub fn end_table_io_wait_fast(
        &self,
        table: TableRef,
        wait: &Wait,
        operation: u8,
        index: usize,
        rows: u64,
    ) -> bool {
        let Some(place) = table.slot.io.get(index) else { return false };
        let base = self.arena.base();
        let (counts, is_of_today) = self.counts_of::<TableIo>(base, place);
        if !is_of_today {
            return false;
        }
        let counts = &counts.parts[operation as usize & 3];
        let brought = WaitTotals { events: rows, amount: Some(rows) };
        self.end_wait_fast(base, fixed::TABLE_IO, wait, Lowest::Usual, brought, |taken| {
            self.add_as(fixed::TABLE_IO, wait, counts, rows, taken);
        })
    }

    /// Prefetches one part of an open table's counts, in the slot at `place`, for writing. The host gives an
    /// open table to another thread with each statement, so the line comes from another processor.
    #[inline(always)]
    fn expect_counts<C: TableCounts>(&self, place: &AtomicU32, part: u8) {
        let slot = place.load(Relaxed) as usize;
        self.arena.base().expect_write(slot + C::PARTS + usize::from(part) * PART, LINE);
    }

    /// Returns the counts of an open table, in the slot at `place`, and whether they exist and belong to the
    /// current epoch.
    #[inline(always)]
    fn counts_of<C: TableCounts>(&self, base: Base, place: &AtomicU32) -> (&'static C, bool) {
        let offset = place.load(Relaxed);
        let counts: &C = base.at_or_zero(offset);
        let now = self.epochs[C::FAMILY as usize].load(Relaxed);
        (counts, offset != 0 && counts.epoch().load(Relaxed) == now)
    }

    /// Counts `n` events of an open table, in the slot at `place`, which is made or cleared if needed.
    fn count_table<C: TableCounts>(
        &self,
        class: ClassId,
        wait: &Wait,
        place: &AtomicU32,
        part: usize,
        n: u64,
        taken: Option<u64>,
    ) {
        let counts = match self.counts_of::<C>(self.arena.base(), place) {
            (counts, true) => Some(counts),
            (_, false) => self.counts_anew::<C>(place),
        };
        if let Some(counts) = counts {
            self.add_as(class, wait, &counts.parts()[part], n, taken);
        }
    }

    /// Counts `n` events in `counts`, weighted if the thread's statement is.
    #[inline(always)]
    fn add_as(&self, class: ClassId, wait: &Wait, counts: &Counts, n: u64, taken: Option<u64>) {
        if wait.thread.is_weighted() {
            cold_path();
            return self.add_weighted(class, wait, counts, n, taken);
        }
        add(counts, n, taken);
    }

    #[cold]
    #[inline(never)]
    fn add_weighted(&self, class: ClassId, wait: &Wait, counts: &Counts, n: u64, taken: Option<u64>) {
        let weight = self.weight_of(wait.thread, self.registry.kind(class), class, wait.start);
        match taken {
            Some(taken) => {
                counts.add_weighted(n, taken, weight);
                counts.raise(taken);
            }
            None => counts.add_untimed(n * weight.events),
        }
    }

    /// Makes the counts of an open table, or clears them after a reset. `None`: no memory.
    #[cold]
    #[inline(never)]
    fn counts_anew<C: TableCounts>(&self, place: &AtomicU32) -> Option<&'static C> {
        let now = self.epochs[C::FAMILY as usize].load(Relaxed);
        match place.load(Relaxed) {
            0 => {
                let Some(counts) = self.pools.take::<C>(&self.arena, C::POOL, 0) else {
                    self.losses.count(C::LOST);
                    return None;
                };
                let counts: &C = counts;
                counts.epoch().store(now, Relaxed);
                counts.head().publish();
                place.store(self.arena.offset_of(counts), Release);
                Some(counts)
            }
            offset => {
                let counts: &C = self.arena.at(offset);
                counts.parts().iter().for_each(Counts::clear);
                counts.epoch().store(now, Relaxed);
                Some(counts)
            }
        }
    }

    /// Begins a table lock of a kind (0–10, the order of [`operation::TABLE_LOCK`]).
    pub fn start_table_lock_wait(&self, table: TableRef, kind: u8, source: Source) -> Option<Wait> {
        if !self.has_demand(Kind::TableLock) {
            return None;
        }
        match self.start_table_lock_wait_fast(table, kind, source) {
            Start::Began(wait) => Some(wait),
            Start::Off => None,
            Start::Slow => {
                let object = table.object(self, LOCKED_INDEX, operation::TABLE_LOCK + kind);
                self.start_table_wait(fixed::TABLE_LOCK, table, object, source)
            }
        }
    }

    /// Begins a table lock. Fast path only; on `Slow` call [`Engine::start_table_lock_wait`].
    #[inline(always)]
    pub fn start_table_lock_wait_fast(&self, table: TableRef, kind: u8, source: Source) -> Start<Wait> {
        self.expect_counts::<TableLocks>(&table.slot.locks, kind);
        let what = WaitKind::new(fixed::TABLE_LOCK, operation::TABLE_LOCK + (kind & 15), LOCKED_INDEX);
        self.start_table_wait_fast(what, table, source)
    }

    /// Ends a table lock.
    pub fn end_table_lock_wait(&self, table: TableRef, wait: &Wait, kind: u8) {
        if self.end_table_lock_wait_fast(table, wait, kind) {
            return;
        }
        let taken = self.end_wait(wait, 1, None);
        let part = kind as usize % LOCK_KINDS;
        self.count_table::<TableLocks>(fixed::TABLE_LOCK, wait, &table.slot.locks, part, 1, taken);
    }

    /// Ends a table lock. Fast path only; on false call [`Engine::end_table_lock_wait`].
    #[inline(always)]
    pub fn end_table_lock_wait_fast(&self, table: TableRef, wait: &Wait, kind: u8) -> bool {
        let base = self.arena.base();
        let (counts, is_of_today) = self.counts_of::<TableLocks>(base, &table.slot.locks);
        if !is_of_today {
            return false;
        }
        let Some(counts) = counts.parts.get(kind as usize) else { return false };
        let brought = WaitTotals { events: 1, amount: None };
        self.end_wait_fast(base, fixed::TABLE_LOCK, wait, Lowest::Usual, brought, |taken| {
            self.add_as(fixed::TABLE_LOCK, wait, counts, 1, taken);
        })
    }

    /// Sets INTERNAL_LOCK or EXTERNAL_LOCK of an open table to a lock kind, or to none.
    #[inline(always)]
    pub fn set_table_lock(&self, table: TableRef, external: bool, kind: Option<u8>) {
        let place = if external { &table.slot.external_lock } else { &table.slot.internal_lock };
        place.store(kind.map_or(0, |kind| kind + 1), Relaxed);
    }
}
