//! HOT PATH: a thread's list of cells, for each bank: the cells in the order of their creation, and the
//! places where each of them is folded to.
//!
//! Only the bank's own thread uses it. A connection that ends folds some sixty cells into two sums each. It
//! finds them one after the other, and their sums where the previous connection found them, if that was of
//! the same account.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::memory::arena::{Arena, LINE, Offset, Own, View};
use crate::snapshot::ClassId;

/// The cells of a page.
const CELLS: usize = 15;
/// The words of a page, which begins with a cache line.
pub(crate) const PAGE_WORDS: u32 = (size_of::<Page>() / 8) as u32;

/// Some of a bank's cells, on cache lines of their own.
#[repr(C)]
struct Page {
    /// The page that was filled before.
    before: AtomicU32,
    len: AtomicU32,
    _pad: AtomicU64,
    cells: [ListedCell; CELLS],
}

// SAFETY: meets `View`: atomics only, alignment 8, checked below to be whole cache lines.
#[allow(unsafe_code)]
unsafe impl View for Page {}
const _: () = assert!(size_of::<Page>() == 4 * LINE);

/// An element of the list: a cell and the cells it is folded into.
#[repr(C)]
pub(crate) struct ListedCell {
    cell: AtomicU32,
    class: AtomicU32,
    /// The places of its cells in the sums of the account and (`all`) of all; 0: not looked up yet.
    pub(crate) account: AtomicU32,
    pub(crate) all: AtomicU32,
}

impl ListedCell {
    pub(crate) fn class(&self) -> ClassId {
        self.class.own() as ClassId
    }

    /// Returns the cell's place.
    pub(crate) fn cell(&self) -> Offset {
        self.cell.own()
    }
}

/// The head of the list: the place of the newest page; 0: there is none.
#[repr(transparent)]
pub(crate) struct CellList(AtomicU32);

impl CellList {
    fn newest(&self, arena: &Arena) -> Option<&'static Page> {
        page(arena, self.0.own())
    }

    /// Returns whether the newest page has room for another cell.
    pub(crate) fn has_room(&self, arena: &Arena) -> bool {
        self.newest(arena).is_some_and(|page| page.len.own() < CELLS as u32)
    }

    /// Adds a page at a place of [`PAGE_WORDS`] zeros.
    pub(crate) fn add_page(&self, arena: &Arena, place: Offset) {
        arena.at::<Page>(place).before.store(self.0.own(), Relaxed);
        self.0.store(place, Relaxed);
    }

    /// Adds a cell to the newest page, which must have room.
    pub(crate) fn add(&self, arena: &Arena, class: ClassId, cell: Offset) {
        let Some(page) = self.newest(arena) else { return };
        let len = page.len.own();
        if let Some(free) = page.cells.get(len as usize) {
            free.cell.store(cell, Relaxed);
            free.class.store(class.into(), Relaxed);
            page.len.store(len + 1, Relaxed);
        }
    }

    /// Returns every cell.
    #[inline(always)]
    pub(crate) fn cells(&self, arena: &Arena) -> impl Iterator<Item = &'static ListedCell> {
        let pages = std::iter::successors(self.newest(arena), |of| page(arena, of.before.own()));
        pages.flat_map(|page| page.cells.iter().take(page.len.own() as usize))
    }

    /// Returns the place of the newest page, for a slab that another thread takes over.
    pub(crate) fn place(&self) -> Offset {
        self.0.own()
    }

    /// Restores the list as it was when [`CellList::place`] returned `place`.
    pub(crate) fn restore(&self, place: Offset) {
        self.0.store(place, Relaxed);
    }
}

fn page(arena: &Arena, place: Offset) -> Option<&'static Page> {
    (place != 0).then(|| arena.at(place))
}
