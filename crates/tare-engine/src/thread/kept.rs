//! Slabs of ended threads, kept for new threads with their banks, whose cells are empty, and their ready
//! marks. A new connection reuses them and makes nothing anew.

use std::mem::offset_of;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::Engine;
use crate::layout::bank::MAPS;
use crate::layout::cell_list::CellList;
use crate::layout::ring::RingBlocks;
use crate::memory::arena::{BlockId, BlockUse, Offset, Own, WORDS};
use crate::setup::instrument::lock;
use crate::thread::{BANKS, Thread};

/// Maximum number of kept slabs, and the number of arena blocks per kept slab.
const MOST: usize = 32;
const BLOCKS_EACH: u32 = 1024;
/// Maximum number of cell blocks in a slab that is kept.
const MOST_CELL_BLOCKS: usize = 8;

/// Number of words of a kept slab that must be zero when a thread begins.
const ZEROED: usize = offset_of!(Thread, ring_blocks) / 8;
const _: () = assert!(offset_of!(Thread, ring_blocks).is_multiple_of(8));

/// The kept slabs, under a lock.
pub(crate) struct KeptSlabs(Mutex<SlabList>);

struct SlabList {
    count: usize,
    slabs: [BlockId; MOST],
}

impl KeptSlabs {
    pub(crate) const fn new() -> KeptSlabs {
        KeptSlabs(Mutex::new(SlabList { count: 0, slabs: [0; MOST] }))
    }

    fn pop(&self) -> Option<BlockId> {
        let mut kept = lock(&self.0);
        kept.count = kept.count.checked_sub(1)?;
        Some(kept.slabs[kept.count])
    }

    /// Keeps a slab. Returns false if `most` are kept already.
    fn push(&self, slab: BlockId, most: usize) -> bool {
        let mut kept = lock(&self.0);
        let at = kept.count;
        let has_room = at < most.min(MOST);
        if has_room {
            kept.slabs[at] = slab;
            kept.count = at + 1;
        }
        has_room
    }
}

/// State that a slab keeps from its previous thread.
struct Inherited {
    maps: [[u32; MAPS]; BANKS],
    cell_lists: [Offset; BANKS],
    folds_into: [u32; 2],
    /// Next free word of the current cell block, words left there, number of blocks.
    cells: (u32, u32, u32),
    cell_blocks: [u32; MOST_CELL_BLOCKS],
    /// Block of the outermost statements; 0: none.
    level: u32,
    /// Place of the cells of programs, which are empty.
    program_cells: u32,
    /// Place and epoch of the digest map, whose cells are empty, and the number of its entries.
    digest_map: (u32, u32, u32),
    texts: u32,
    ready_for: [u32; 2],
}

impl Inherited {
    fn of(thread: &Thread) -> Inherited {
        Inherited {
            maps: std::array::from_fn(|at| thread.bank(at).maps.each_ref().map(Own::own)),
            cell_lists: thread.cell_lists.each_ref().map(CellList::place),
            folds_into: thread.folds_into.each_ref().map(Own::own),
            cells: (thread.cell_next.own(), thread.cell_left.own(), thread.cell_count.own()),
            cell_blocks: std::array::from_fn(|at| thread.cell_blocks[at].own()),
            level: thread.statement_levels[0].own(),
            program_cells: thread.program_cells.own(),
            digest_map: (thread.digest_map.own(), thread.digest_epoch.own(), thread.digest_count.own()),
            texts: thread.texts.own(),
            ready_for: thread.ready_for.each_ref().map(Own::own),
        }
    }

    fn leave_to(&self, thread: &Thread) {
        let (next, left, count) = self.cells;
        thread.cell_next.store(next, Relaxed);
        thread.cell_left.store(left, Relaxed);
        thread.cell_count.store(count, Relaxed);
        for (block, was) in thread.cell_blocks.iter().zip(self.cell_blocks) {
            block.store(was, Relaxed);
        }
        thread.statement_levels[0].store(self.level, Relaxed);
        thread.program_cells.store(self.program_cells, Relaxed);
        thread.digest_map.store(self.digest_map.0, Relaxed);
        thread.digest_epoch.store(self.digest_map.1, Relaxed);
        thread.digest_count.store(self.digest_map.2, Relaxed);
        thread.texts.store(self.texts, Relaxed);
        thread.ready_for.iter().zip(self.ready_for).for_each(|(word, was)| word.store(was, Relaxed));
        thread.folds_into.iter().zip(self.folds_into).for_each(|(word, was)| word.store(was, Relaxed));
        thread.cell_lists.iter().zip(self.cell_lists).for_each(|(list, was)| list.restore(was));
        for (at, maps) in self.maps.into_iter().enumerate() {
            thread.bank(at).maps.iter().zip(maps).for_each(|(map, was)| map.store(was, Release));
        }
    }
}

impl Engine {
    /// Takes a kept slab and resets it, except for its [`Inherited`] state. `None`: no slab is kept.
    pub(super) fn kept_thread(&self) -> Option<&'static Thread> {
        let block = self.kept_slabs.pop()?;
        let thread: &Thread = self.arena.at(block * WORDS as u32);
        let inherited = Inherited::of(thread);
        self.arena.begin_with(block, ZEROED);
        thread.ring_blocks.iter().for_each(RingBlocks::begin);
        self.arena.begin(inherited.texts / WORDS as u32, BlockUse::ThreadText);
        if inherited.level != 0 {
            self.arena.begin(inherited.level / WORDS as u32, BlockUse::Statement);
        }
        inherited.leave_to(thread);
        Some(thread)
    }

    /// Keeps the slab of an ended thread. Its cells must be empty and its other blocks given back. Returns
    /// false if there is no room or the slab is too large.
    pub(super) fn keep_thread(&self, thread: &Thread) -> bool {
        if self.arena.is_scarce() || thread.cell_count.own() as usize > MOST_CELL_BLOCKS {
            return false;
        }
        if self.buckets.are_enabled() {
            self.uncount(thread);
        }
        self.kept_slabs
            .push(self.arena.offset_of(thread) / WORDS as u32, (self.arena.blocks() / BLOCKS_EACH) as usize)
    }
}
