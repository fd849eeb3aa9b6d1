//! HOT PATH: a thread's list of cells, for each bank: the cells in the order of their creation, and the
//! places where each of them is folded to.
//!
//! Only the bank's own thread uses it. A connection that ends folds its cells into two sums each. It finds
//! them one after the other, and their sums where the previous connection found them, if that was of the same
//! account. A cell in which several threads in a row counted nothing leaves the list, until an event needs it
//! again: so what a thread's end costs depends on what connections do, not on what one of them once did.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::memory::arena::{Arena, ArenaView, LINE, Offset, Own};
use crate::setup::instrument::KINDS;
use crate::snapshot::{ClassId, Kind};

/// The cells of a page.
const CELLS: usize = 15;
/// The words of a page, which begins with a cache line.
pub(crate) const PAGE_WORDS: u32 = (size_of::<CellPage>() / 8) as u32;

/// The position of the number of threads in a row without events, in the word of a class.
const IDLE: u32 = 24;
/// The number of threads without events of a cell after which it leaves the list.
const MOST_IDLE: u32 = 15;

/// Some of a bank's cells, on cache lines of their own.
#[repr(C)]
struct CellPage {
    /// The page that was filled before.
    before: AtomicU32,
    len: AtomicU32,
    /// An emptied page that comes after this one when this one is full; 0: none.
    spare: AtomicU32,
    _pad: AtomicU32,
    cells: [ListedCell; CELLS],
}

// SAFETY: meets `ArenaView`: atomics only, alignment 8, checked below to be whole cache lines.
#[allow(unsafe_code)]
unsafe impl ArenaView for CellPage {}
const _: () = assert!(size_of::<CellPage>() == 4 * LINE);

/// An element of the list: a cell and the cells it is folded into.
#[repr(C)]
pub(crate) struct ListedCell {
    cell: AtomicU32,
    /// Class in the lower half; its kind above, and from bit [`IDLE`] on the threads in a row that have not
    /// counted in it.
    class: AtomicU32,
    /// The places of its cells in the sums of the account and (`all`) of all; 0: not looked up yet.
    pub(crate) account: AtomicU32,
    pub(crate) all: AtomicU32,
}

impl ListedCell {
    #[inline(always)]
    pub(crate) fn class(&self) -> ClassId {
        self.class.own() as ClassId
    }

    /// Returns the class's kind, for which nothing else has to be looked up.
    #[inline(always)]
    pub(crate) fn kind(&self) -> Kind {
        KINDS[(self.class.own() >> 16 & 0xFF) as usize % KINDS.len()]
    }

    /// Notes whether the thread that ends has counted in the cell. Returns false once [`MOST_IDLE`] threads
    /// in a row have not.
    #[inline(always)]
    pub(crate) fn note_use(&self, is_used: bool) -> bool {
        let word = self.class.own();
        match is_used {
            true if word >> IDLE == 0 => true,
            true => {
                self.class.store(word & ((1 << IDLE) - 1), Relaxed);
                true
            }
            false if word >> IDLE < MOST_IDLE => {
                self.class.store(word + (1 << IDLE), Relaxed);
                true
            }
            false => false,
        }
    }

    /// Returns the cell's place.
    #[inline(always)]
    pub(crate) fn cell(&self) -> Offset {
        self.cell.own()
    }
}

/// The head of the list: the place of the newest page; 0: there is none.
#[repr(transparent)]
pub(crate) struct CellList(AtomicU32);

impl CellList {
    fn newest(&self, arena: &Arena) -> Option<&'static CellPage> {
        page(arena, self.0.own())
    }

    /// Returns whether the newest page has room for another cell.
    pub(crate) fn has_room(&self, arena: &Arena) -> bool {
        self.newest(arena).is_some_and(|page| page.len.own() < CELLS as u32)
    }

    /// Makes room for another cell by a page that was emptied. Returns false if there is none.
    pub(crate) fn has_spare_room(&self, arena: &Arena) -> bool {
        let Some(spare) = self.newest(arena).map(|page| page.spare.own()).filter(|spare| *spare != 0) else {
            return false;
        };
        self.0.store(spare, Relaxed);
        true
    }

    /// Adds a page at a place of [`PAGE_WORDS`] zeros.
    pub(crate) fn add_page(&self, arena: &Arena, place: Offset) {
        arena.at::<CellPage>(place).before.store(self.0.own(), Relaxed);
        self.0.store(place, Relaxed);
    }

    /// Adds a cell to the newest page, which must have room.
    pub(crate) fn add(&self, arena: &Arena, class: ClassId, kind: Kind, cell: Offset) {
        let Some(page) = self.newest(arena) else { return };
        let len = page.len.own();
        if let Some(free) = page.cells.get(len as usize) {
            free.cell.store(cell, Relaxed);
            free.class.store((kind as u32) << 16 | u32::from(class), Relaxed);
            page.len.store(len + 1, Relaxed);
        }
    }

    /// Calls `keep` with every cell, and takes those from the list for which it returns false.
    #[inline(always)]
    pub(crate) fn retain(&self, arena: &Arena, mut keep: impl FnMut(&'static ListedCell) -> bool) {
        let mut at = self.newest(arena);
        while let Some(of) = at {
            at = page(arena, of.before.own());
            for cell in of.cells.iter().take(of.len.own() as usize).rev() {
                if !keep(cell) {
                    self.remove(arena, cell);
                }
            }
        }
    }

    /// Puts the newest cell in the place of one that leaves.
    #[cold]
    #[inline(never)]
    fn remove(&self, arena: &Arena, cell: &ListedCell) {
        let Some(page) = self.newest(arena) else { return };
        let left = page.len.own().saturating_sub(1);
        let last = &page.cells[left as usize % CELLS];
        for (to, from) in [
            (&cell.cell, &last.cell),
            (&cell.class, &last.class),
            (&cell.account, &last.account),
            (&cell.all, &last.all),
        ] {
            to.store(from.own(), Relaxed);
            from.store(0, Relaxed);
        }
        page.len.store(left, Relaxed);
        if left == 0 && page.before.own() != 0 {
            let emptied = self.0.own();
            self.0.store(page.before.own(), Relaxed);
            if let Some(newest) = self.newest(arena) {
                newest.spare.store(emptied, Relaxed);
            }
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

fn page(arena: &Arena, place: Offset) -> Option<&'static CellPage> {
    (place != 0).then(|| arena.at(place))
}
