//! HOT PATH: stored programs are counted in cells of each thread, so that many threads can run one program
//! without sharing a cache line.
//!
//! A thread has a few cells. When a cell is needed for another program, and when the thread ends, its
//! contents move to the program itself.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, Release},
};

use crate::Engine;
use crate::layout::cell::SummaryFamily;
use crate::layout::program::{Program, ProgramCounts};
use crate::memory::arena::{ArenaView, Offset, Own};
use crate::memory::pool::{Pool, held};
use crate::thread::{Thread, current};

/// The programs that a thread counts at a time.
const CELLS: usize = 8;

/// The counts of one program by one thread since the cell was assigned to it, or since TRUNCATE.
#[repr(C)]
pub(crate) struct ProgramCell {
    /// The place of the program; 0: none.
    program: AtomicU32,
    generation: AtomicU32,
    epoch: AtomicU32,
    _pad: AtomicU32,
    pub(crate) counts: ProgramCounts,
}

/// The cells of a thread.
#[repr(C)]
struct ProgramCells {
    cells: [ProgramCell; CELLS],
}

// SAFETY: meets `ArenaView`: atomics only, alignment 8, less than a block.
#[allow(unsafe_code)]
unsafe impl ArenaView for ProgramCells {}

impl ProgramCells {
    /// Returns the cell for a program.
    #[inline(always)]
    fn cell(&self, program: Offset) -> &ProgramCell {
        &self.cells[(program.wrapping_mul(0x9E37_79B1) >> 16) as usize % CELLS]
    }
}

impl Engine {
    /// Returns the cell in which the calling thread counts a program. `None`: the program is gone, or there
    /// is no memory.
    #[inline(always)]
    pub(crate) fn program_cell(&self, program: &'static Program) -> Option<&'static ProgramCell> {
        let thread = current()?;
        let offset = self.arena.offset_of(program);
        let cells: &'static ProgramCells = self.arena.base().at_or_zero(thread.program_cells.own());
        let cell = cells.cell(offset);
        // A program whose place is reused has another generation. Until then, the counts go to a cell that
        // nobody reads.
        let is = cell.program.own() == offset
            && cell.generation.own() == program.head.generation()
            && cell.epoch.own() == self.epochs[SummaryFamily::Programs as usize].load(Relaxed);
        if is { Some(cell) } else { self.assign_program_cell(thread, offset) }
    }

    /// Assigns a cell to a program that the calling thread has not counted before, since TRUNCATE, or since
    /// it counted another one there.
    #[cold]
    #[inline(never)]
    fn assign_program_cell(&self, thread: &'static Thread, offset: Offset) -> Option<&'static ProgramCell> {
        let (_held, program) = held::<Program>(&self.arena, Pool::Programs, offset)?;
        let generation = program.head.generation_in_use()?;
        if thread.program_cells.own() == 0 {
            let cells = self.cell_space(thread, (size_of::<ProgramCells>() / 8) as u32)?;
            thread.program_cells.store(cells, Release);
        }
        let cell = self.arena.at::<ProgramCells>(thread.program_cells.own()).cell(offset);
        self.folds.begin();
        self.fold_program(cell);
        cell.program.store(offset, Relaxed);
        cell.generation.store(generation, Relaxed);
        cell.epoch.store(self.epochs[SummaryFamily::Programs as usize].load(Relaxed), Relaxed);
        self.folds.end();
        Some(cell)
    }

    /// Moves the contents of a cell to its program, if that still exists and no TRUNCATE came between.
    fn fold_program(&self, cell: &ProgramCell) {
        if let Some((offset, generation)) = self.counted_program(cell)
            && let Some((_held, program)) = held::<Program>(&self.arena, Pool::Programs, offset)
            && program.head.is_still(generation)
        {
            program.counts.merge_shared(&cell.counts);
        }
        cell.counts.clear();
    }

    /// Returns the program of a cell and its generation. `None`: there is none, or the cell is from before
    /// TRUNCATE.
    pub(crate) fn counted_program(&self, cell: &ProgramCell) -> Option<(Offset, u32)> {
        let today = self.epochs[SummaryFamily::Programs as usize].load(Relaxed);
        let program = cell.program.load(Relaxed);
        let counts = program != 0 && cell.epoch.load(Relaxed) == today;
        counts.then(|| (program, cell.generation.load(Relaxed)))
    }

    /// Calls `each` with every cell of a thread.
    pub(crate) fn program_cells(&self, thread: &Thread, each: impl FnMut(&ProgramCell)) {
        if let Some(cells) = self.arena.get::<ProgramCells>(thread.program_cells.load(Relaxed)) {
            cells.cells.iter().for_each(each);
        }
    }

    /// Moves the contents of all cells of an ended thread to their programs.
    pub(crate) fn fold_programs(&self, thread: &Thread) {
        self.program_cells(thread, |cell| self.fold_program(cell));
    }
}
