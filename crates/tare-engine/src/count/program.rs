//! HOT PATH: what threads count of stored programs, in cells of their own: of a program that many run at once no line wanders
//! from processor to processor.
//!
//! A thread has a few cells. When one is needed for another program, and when the thread ends, what it holds moves to the
//! program itself.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, Release},
};

use crate::Engine;
use crate::count::cell::{Counts, Family, Plain};
use crate::count::counters::{Counters, PlainCounters};
use crate::instance::Program;
use crate::memory::arena::{Offset, Own, View};
use crate::memory::pool::{Pool, USED, held};
use crate::thread::{Thread, current};

/// Programs a thread counts at a time.
const CELLS: usize = 8;

/// What one thread, or what has left its threads, has counted of one program.
#[repr(C)]
pub(crate) struct ProgramCounts {
    pub(crate) calls: Counts,
    pub(crate) statements: Counts,
    pub(crate) counters: Counters,
}

/// Plain values of a [`ProgramCounts`], for readers.
#[derive(Clone, Copy, Default)]
pub(crate) struct ProgramTally {
    pub(crate) calls: Plain,
    pub(crate) statements: Plain,
    pub(crate) counters: PlainCounters,
}

impl ProgramTally {
    pub(crate) fn merge(&mut self, other: &ProgramTally) {
        self.calls.merge(other.calls);
        self.statements.merge(other.statements);
        self.counters.merge(&other.counters);
    }
}

impl ProgramCounts {
    pub(crate) fn plain(&self) -> ProgramTally {
        ProgramTally {
            calls: self.calls.plain(),
            statements: self.statements.plain(),
            counters: self.counters.plain(),
        }
    }

    /// Empties what several threads fold into.
    pub(crate) fn clear_shared(&self) {
        self.calls.clear_shared();
        self.statements.clear_shared();
        self.counters.clear();
    }

    /// Adds all of `other`; several threads may.
    fn merge_shared(&self, other: &ProgramCounts) {
        self.calls.merge_shared(other.calls.plain());
        self.statements.merge_shared(other.statements.plain());
        self.counters.merge_shared(&other.counters);
    }

    /// The caller is the only writer.
    fn clear(&self) {
        self.calls.clear();
        self.statements.clear();
        self.counters.clear();
    }
}

/// What a thread has counted of one program since it turned to it, or since TRUNCATE.
#[repr(C)]
pub(crate) struct ProgramCell {
    /// 0: of none.
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

// SAFETY: atomics only, alignment 8, less than a block.
#[allow(unsafe_code)]
unsafe impl View for ProgramCells {}

impl ProgramCells {
    /// Where a program is counted.
    #[inline(always)]
    fn cell(&self, program: Offset) -> &ProgramCell {
        &self.cells[(program.wrapping_mul(0x9E37_79B1) >> 16) as usize % CELLS]
    }
}

impl Engine {
    /// Where the calling thread counts a program. `None`: the program is not there any more, or there is no memory.
    #[inline(always)]
    pub(crate) fn program_cell(&self, program: &'static Program) -> Option<&'static ProgramCell> {
        let thread = current()?;
        let offset = self.arena.offset_of(program);
        let cells: &'static ProgramCells = self.arena.base().at_or_zero(thread.program_cells.own());
        let cell = cells.cell(offset);
        // A program whose place is used for something else meanwhile has another generation; until then the figures go to a
        // cell that nobody asks for.
        let is = cell.program.own() == offset
            && cell.generation.own() == program.head.generation()
            && cell.epoch.own() == self.epochs[Family::Programs as usize].load(Relaxed);
        if is { Some(cell) } else { self.turn_to_program(thread, offset) }
    }

    /// The calling thread has not counted this program, or not since TRUNCATE, or another one since.
    #[cold]
    #[inline(never)]
    fn turn_to_program(&self, thread: &'static Thread, offset: Offset) -> Option<&'static ProgramCell> {
        let (_held, program) = held::<Program>(&self.arena, Pool::Programs, offset)?;
        let generation = program.head.generation();
        if program.head.state() != USED {
            return None;
        }
        if thread.program_cells.own() == 0 {
            let cells = self.cell_space(thread, (size_of::<ProgramCells>() / 8) as u32)?;
            thread.program_cells.store(cells, Release);
        }
        let cell = self.arena.at::<ProgramCells>(thread.program_cells.own()).cell(offset);
        self.folds.begin();
        self.fold_program(cell);
        cell.program.store(offset, Relaxed);
        cell.generation.store(generation, Relaxed);
        cell.epoch.store(self.epochs[Family::Programs as usize].load(Relaxed), Relaxed);
        self.folds.end();
        Some(cell)
    }

    /// What a cell holds moves to its program, if that is there still, and TRUNCATE has not passed it.
    fn fold_program(&self, cell: &ProgramCell) {
        if let Some((offset, generation)) = self.counted_program(cell)
            && let Some((_held, program)) = held::<Program>(&self.arena, Pool::Programs, offset)
            && program.head.is_still(generation)
        {
            program.counts.merge_shared(&cell.counts);
        }
        cell.counts.clear();
    }

    /// Which program a cell counts, and its generation; `None`: none, or only what was before TRUNCATE.
    pub(crate) fn counted_program(&self, cell: &ProgramCell) -> Option<(Offset, u32)> {
        let today = self.epochs[Family::Programs as usize].load(Relaxed);
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

    /// A thread ends.
    pub(crate) fn fold_programs(&self, thread: &Thread) {
        self.program_cells(thread, |cell| self.fold_program(cell));
    }
}
