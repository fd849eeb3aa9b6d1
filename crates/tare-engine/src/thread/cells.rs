//! HOT PATH: the cells a thread counts in, and the blocks that hold them.

use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::Engine;
use crate::layout::bank::{MAP_ENTRIES, MAPS, MARKS, cell_words, entry_of, place};
use crate::layout::cell::{Cell, CellHead, RETIRED, SummaryFamily};
use crate::layout::cell_list::{CellList, PAGE_WORDS};
use crate::memory::arena::{Base, BlockUse, LINE, Offset, Own, WORDS};
use crate::memory::lost::Lost;
use crate::snapshot::{ClassId, Kind};

use super::{BANK_OWN, CELL_BLOCKS, Thread};

impl Engine {
    /// Returns the current cell of `class` in one of the thread's banks; makes it if needed. `None`: no
    /// memory left.
    #[inline(always)]
    pub(crate) fn cell<C: Cell>(
        &self,
        thread: &'static Thread,
        bank: usize,
        class: ClassId,
        family: SummaryFamily,
    ) -> Option<&'static C> {
        match thread.banks[bank].cell::<C>(&self.arena, class) {
            Some(cell) if cell.head().epoch.load(Relaxed) == self.epochs[family as usize].load(Relaxed) => {
                Some(cell)
            }
            Some(cell) => self.renew(thread, bank, class, family, cell),
            None => self.make_cell(thread, bank, class, family),
        }
    }

    /// Returns the place of the thread's own cell if it exists and belongs to the current epoch.
    #[inline(always)]
    pub(crate) fn usual_cell(
        &self,
        base: Base,
        thread: &Thread,
        class: ClassId,
        family: SummaryFamily,
    ) -> Option<Offset> {
        let place = place(thread.banks[BANK_OWN].settled_entry(base, class));
        let head: &CellHead = base.at_or_zero(place);
        // No family's epoch is 0, which is what a missing cell reads as.
        (head.epoch.own() == self.epochs[family as usize].load(Relaxed)).then_some(place)
    }

    #[cold]
    pub(crate) fn make_cell<C: Cell>(
        &self,
        thread: &'static Thread,
        bank: usize,
        class: ClassId,
        family: SummaryFamily,
    ) -> Option<&'static C> {
        let kind = self.registry.kind(class);
        self.make_cell_of(thread, bank, class, kind, family)
    }

    /// Makes a cell of `kind` in any of the thread's banks, including that of errors.
    #[cold]
    pub(crate) fn make_cell_of<C: Cell>(
        &self,
        thread: &Thread,
        bank: usize,
        class: ClassId,
        kind: Kind,
        family: SummaryFamily,
    ) -> Option<&'static C> {
        let (bank, list) = (thread.bank(bank), &thread.cell_lists[bank]);
        let map = &bank.maps[(class as usize / MAP_ENTRIES) % MAPS];
        if map.load(Relaxed) == 0 {
            match self.arena.take(BlockUse::Map, 0) {
                Some(block) => map.store(block * WORDS as u32, Release),
                None => {
                    self.losses.count(Lost::Cells);
                    return None;
                }
            }
        }
        self.make_room(thread, list)?;
        let offset = self.cell_space(thread, cell_words(kind) as u32)?;
        let cell: &C = self.arena.at(offset);
        cell.head().epoch.store(self.epochs[family as usize].load(Relaxed), Relaxed);
        list.add(&self.arena, class, kind, offset);
        bank.entry(&self.arena, class)?.store(entry_of(offset, 0), Release);
        Some(cell)
    }

    /// Makes sure that a list of the thread has room for another cell. `None`: no memory left.
    fn make_room(&self, thread: &Thread, list: &CellList) -> Option<()> {
        if !list.has_room(&self.arena) && !list.has_spare_room(&self.arena) {
            list.add_page(&self.arena, self.lines_space(thread, PAGE_WORDS)?);
        }
        Some(())
    }

    /// Takes a cell without contents out of use: its epoch is none, and its entry has no marks. The list of
    /// cells does not need it any more. For whoever ends the thread.
    #[cold]
    #[inline(never)]
    pub(crate) fn retire_cell(&self, thread: &Thread, class: ClassId, head: &CellHead) {
        head.epoch.store(RETIRED, Relaxed);
        if let Some(entry) = thread.banks[BANK_OWN].entry(&self.arena, class) {
            entry.store(entry.own() & !MARKS, Relaxed);
        }
    }

    /// Lists a retired cell again, for the first event since. `None`: no memory left.
    #[cold]
    #[inline(never)]
    pub(crate) fn list_again<C: Cell>(
        &self,
        thread: &Thread,
        class: ClassId,
        family: SummaryFamily,
        cell: &'static C,
    ) -> Option<&'static C> {
        let list = &thread.cell_lists[BANK_OWN];
        self.make_room(thread, list)?;
        cell.head().epoch.store(self.epochs[family as usize].load(Relaxed), Relaxed);
        list.add(&self.arena, class, self.registry.kind(class), self.arena.offset_of(cell));
        Some(cell)
    }

    /// Allocates one line that is not a cell. A quarter of the thread's cell blocks is reserved for cells.
    #[cold]
    pub(crate) fn line_space(&self, thread: &Thread) -> Option<Offset> {
        let line = (LINE / 8) as u32;
        skip_to_line(thread);
        if thread.cell_left.own() < line && thread.cell_count.own() as usize >= CELL_BLOCKS / 4 * 3 {
            return None;
        }
        self.cell_space(thread, line)
    }

    /// Allocates `words` words that begin at a line boundary, in the thread's cell blocks.
    #[cold]
    pub(crate) fn lines_space(&self, thread: &Thread, words: u32) -> Option<Offset> {
        skip_to_line(thread);
        // A new block begins at a line boundary.
        self.cell_space(thread, words)
    }

    /// Allocates `words` words in the thread's cell blocks. `None`: no memory left, counted in
    /// [`Lost::Cells`].
    #[cold]
    pub(crate) fn cell_space(&self, thread: &Thread, words: u32) -> Option<Offset> {
        if thread.cell_left.load(Relaxed) < words {
            let count = thread.cell_count.load(Relaxed) as usize;
            let block = if count < CELL_BLOCKS { self.arena.take(BlockUse::Cells, 0) } else { None };
            let Some(block) = block else {
                self.losses.count(Lost::Cells);
                return None;
            };
            thread.cell_blocks[count].store(block, Relaxed);
            thread.cell_count.store(count as u32 + 1, Relaxed);
            thread.cell_next.store(block * WORDS as u32, Relaxed);
            thread.cell_left.store(WORDS as u32, Relaxed);
        }
        let at = thread.cell_next.load(Relaxed);
        thread.cell_next.store(at + words, Relaxed);
        thread.cell_left.store(thread.cell_left.load(Relaxed) - words, Relaxed);
        Some(at)
    }
}

/// Skips to the next line boundary of the current cell block.
fn skip_to_line(thread: &Thread) {
    let skipped = thread.cell_next.own().wrapping_neg() % (LINE / 8) as u32;
    thread.cell_next.store(thread.cell_next.own() + skipped, Relaxed);
    thread.cell_left.store(thread.cell_left.own().saturating_sub(skipped), Relaxed);
}
