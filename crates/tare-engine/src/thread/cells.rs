//! HOT PATH: the cells a thread counts in, and the blocks they lie in.

use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::Engine;
use crate::count::bank::{MAP_ENTRIES, MAPS, cell_words, entry_of, place};
use crate::count::cell::{Cell, CellHead, Family};
use crate::count::register::PAGE_WORDS;
use crate::memory::arena::{Base, LINE, Offset, Own, Use, WORDS};
use crate::memory::lost::Lost;
use crate::snapshot::{ClassId, Kind};

use super::{BANK_OWN, CELL_BLOCKS, Thread};

impl Engine {
    /// The cell of `class` in one of the thread's banks, made if need be. `None`: no memory left.
    #[inline(always)]
    pub(crate) fn cell<C: Cell>(
        &self,
        thread: &'static Thread,
        bank: usize,
        class: ClassId,
        family: Family,
    ) -> Option<&'static C> {
        match thread.banks[bank].cell::<C>(&self.arena, class) {
            Some(cell) if cell.head().epoch.load(Relaxed) == self.epochs[family as usize].load(Relaxed) => {
                Some(cell)
            }
            Some(cell) => self.renew(thread, bank, class, family, cell),
            None => self.make_cell(thread, bank, class, family),
        }
    }

    /// Where the thread's own cell is, if it is there and of today.
    #[inline(always)]
    pub(crate) fn usual_cell(
        &self,
        base: Base,
        thread: &Thread,
        class: ClassId,
        family: Family,
    ) -> Option<Offset> {
        let place = place(thread.banks[BANK_OWN].settled_entry(base, class));
        let head: &CellHead = base.at_or_zero(place);
        // No family's epoch is 0, as it is where no cell is.
        (head.epoch.own() == self.epochs[family as usize].load(Relaxed)).then_some(place)
    }

    #[cold]
    pub(crate) fn make_cell<C: Cell>(
        &self,
        thread: &'static Thread,
        bank: usize,
        class: ClassId,
        family: Family,
    ) -> Option<&'static C> {
        let kind = self.registry.kind(class);
        self.make_cell_of(thread, bank, class, kind, family)
    }

    /// As [`Engine::make_cell`], in any of the thread's banks.
    #[cold]
    pub(crate) fn make_cell_of<C: Cell>(
        &self,
        thread: &Thread,
        bank: usize,
        class: ClassId,
        kind: Kind,
        family: Family,
    ) -> Option<&'static C> {
        let (bank, register) = (thread.bank(bank), &thread.registers[bank]);
        let map = &bank.maps[(class as usize / MAP_ENTRIES) % MAPS];
        if map.load(Relaxed) == 0 {
            match self.arena.take(Use::Map, 0) {
                Some(block) => map.store(block * WORDS as u32, Release),
                None => {
                    self.losses.count(Lost::Cells);
                    return None;
                }
            }
        }
        if !register.has_room(&self.arena) {
            register.add_page(&self.arena, self.lines_space(thread, PAGE_WORDS)?);
        }
        let offset = self.cell_space(thread, cell_words(kind) as u32)?;
        let cell: &C = self.arena.at(offset);
        cell.head().epoch.store(self.epochs[family as usize].load(Relaxed), Relaxed);
        register.add(&self.arena, class, offset);
        bank.entry(&self.arena, class)?.store(entry_of(offset, 0), Release);
        Some(cell)
    }

    /// Room for a line of its own, which is no cell's: of the thread's cell blocks a quarter is the cells' alone.
    #[cold]
    pub(crate) fn line_space(&self, thread: &Thread) -> Option<Offset> {
        let line = (LINE / 8) as u32;
        skip_to_line(thread);
        if thread.cell_left.own() < line && thread.cell_count.own() as usize >= CELL_BLOCKS / 4 * 3 {
            return None;
        }
        self.cell_space(thread, line)
    }

    /// As [`Engine::cell_space`], from the beginning of a line on.
    #[cold]
    pub(crate) fn lines_space(&self, thread: &Thread, words: u32) -> Option<Offset> {
        skip_to_line(thread);
        // A fresh block begins with a line.
        self.cell_space(thread, words)
    }

    /// Room for a cell of `words` in the thread's cell blocks.
    #[cold]
    pub(crate) fn cell_space(&self, thread: &Thread, words: u32) -> Option<Offset> {
        if thread.cell_left.load(Relaxed) < words {
            let count = thread.cell_count.load(Relaxed) as usize;
            let block = if count < CELL_BLOCKS { self.arena.take(Use::Cells, 0) } else { None };
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

/// What is left of the line in which the next cell would begin stays empty.
fn skip_to_line(thread: &Thread) {
    let skipped = thread.cell_next.own().wrapping_neg() % (LINE / 8) as u32;
    thread.cell_next.store(thread.cell_next.own() + skipped, Relaxed);
    thread.cell_left.store(thread.cell_left.own().saturating_sub(skipped), Relaxed);
}
