//! HOT PATH: the register of a thread's bank: its cells as they were made, and where each of them is folded to.
//!
//! For the bank's own thread. A connection that ends folds some sixty cells into two sums each: it finds them one behind the
//! other, and its sums where the connection before it found them, as long as that was of the same account.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::memory::arena::{Arena, LINE, Offset, Own, View};
use crate::snapshot::ClassId;

/// Cells of a page.
const CELLS: usize = 15;
/// Words of a page, which begins with a line.
pub(crate) const PAGE_WORDS: u32 = (size_of::<Page>() / 8) as u32;

/// Some of a bank's cells, on lines of their own.
#[repr(C)]
struct Page {
    /// The page that was filled before.
    before: AtomicU32,
    len: AtomicU32,
    _pad: AtomicU64,
    cells: [Registered; CELLS],
}

// SAFETY: atomics only, alignment 8, checked below to be whole lines.
#[allow(unsafe_code)]
unsafe impl View for Page {}
const _: () = assert!(size_of::<Page>() == 4 * LINE);

/// A cell.
#[repr(C)]
pub(crate) struct Registered {
    cell: AtomicU32,
    class: AtomicU32,
    /// Its cell in the account's sums, and in the sums of all; 0: nobody has looked.
    pub(crate) account: AtomicU32,
    pub(crate) all: AtomicU32,
}

impl Registered {
    pub(crate) fn class(&self) -> ClassId {
        self.class.own() as ClassId
    }

    /// Where it is.
    pub(crate) fn cell(&self) -> Offset {
        self.cell.own()
    }
}

/// Where the newest page is; 0: there is none.
#[repr(transparent)]
pub(crate) struct Register(AtomicU32);

impl Register {
    fn newest(&self, arena: &Arena) -> Option<&'static Page> {
        page(arena, self.0.own())
    }

    /// Whether another cell can be registered.
    pub(crate) fn has_room(&self, arena: &Arena) -> bool {
        self.newest(arena).is_some_and(|page| page.len.own() < CELLS as u32)
    }

    /// Goes on with a page at a place of [`PAGE_WORDS`], all zero.
    pub(crate) fn add_page(&self, arena: &Arena, place: Offset) {
        arena.at::<Page>(place).before.store(self.0.own(), Relaxed);
        self.0.store(place, Relaxed);
    }

    /// Registers a cell, for which there is room.
    pub(crate) fn add(&self, arena: &Arena, class: ClassId, cell: Offset) {
        let Some(page) = self.newest(arena) else { return };
        let len = page.len.own();
        if let Some(free) = page.cells.get(len as usize) {
            free.cell.store(cell, Relaxed);
            free.class.store(class.into(), Relaxed);
            page.len.store(len + 1, Relaxed);
        }
    }

    /// Every cell.
    #[inline(always)]
    pub(crate) fn cells(&self, arena: &Arena) -> impl Iterator<Item = &'static Registered> {
        let pages = std::iter::successors(self.newest(arena), |of| page(arena, of.before.own()));
        pages.flat_map(|page| page.cells.iter().take(page.len.own() as usize))
    }

    /// Where the newest page is, for a slab that another thread gets.
    pub(crate) fn place(&self) -> Offset {
        self.0.own()
    }

    /// As it was when this was its [`Register::place`].
    pub(crate) fn restore(&self, place: Offset) {
        self.0.store(place, Relaxed);
    }
}

fn page(arena: &Arena, place: Offset) -> Option<&'static Page> {
    (place != 0).then(|| arena.at(place))
}
