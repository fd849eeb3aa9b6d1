//! Threads that end at the same time fold into one account. An instrument's cell is created once, cells of
//! two instruments do not overlap, and nothing folded is lost.

use loom::sync::Arc;
use loom::thread;

use super::check;
use crate::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use crate::{Space, keep_first};

/// The cells of a block, of one word each. Blocks have no link words; block 0 means none.
const CELLS: u32 = 2;
const BLOCKS: usize = 4;

struct SpaceModel {
    /// The place of each instrument's cell; 0: none.
    entries: [AtomicU32; 2],
    space: Space,
    fresh: AtomicU32,
    given_back: AtomicU32,
    cells: [AtomicU64; BLOCKS * CELLS as usize],
}

impl SpaceModel {
    fn new() -> Arc<SpaceModel> {
        Arc::new(SpaceModel {
            entries: [AtomicU32::new(0), AtomicU32::new(0)],
            space: Space::new(),
            fresh: AtomicU32::new(1),
            given_back: AtomicU32::new(0),
            // Old contents: whoever takes a block empties it.
            cells: std::array::from_fn(|_| AtomicU64::new(99)),
        })
    }

    fn take_block(&self) -> u32 {
        let block = self.fresh.fetch_add(1, Relaxed);
        for cell in block * CELLS..(block + 1) * CELLS {
            self.cells[cell as usize].store(0, Relaxed);
        }
        block
    }

    fn make(&self) -> u32 {
        let give = |_| {
            self.given_back.fetch_add(1, Relaxed);
        };
        let piece = self.space.cut(1, CELLS, 0, |_| Some(self.take_block()), give).expect("there are blocks");
        piece.block * CELLS + piece.at
    }

    fn fold(&self, instrument: usize, value: u64) {
        let entry = &self.entries[instrument];
        let cell = match entry.load(Acquire) {
            0 => keep_first(entry, self.make()),
            cell => cell,
        };
        self.cells[cell as usize].fetch_add(value, Relaxed);
    }

    fn sum(&self, instrument: usize) -> u64 {
        match self.entries[instrument].load(Acquire) {
            0 => 0,
            cell => self.cells[cell as usize].load(Relaxed),
        }
    }
}

fn both(first: usize, second: usize) {
    check(move || {
        let sums = SpaceModel::new();
        let other = {
            let sums = Arc::clone(&sums);
            thread::spawn(move || sums.fold(first, 3))
        };
        sums.fold(second, 5);
        other.join().expect("a thread");
        let expected =
            |instrument| [(first, 3), (second, 5)].into_iter().filter(move |(at, _)| *at == instrument);
        for instrument in 0..2 {
            let expected: u64 = expected(instrument).map(|(_, value)| value).sum();
            assert_eq!(sums.sum(instrument), expected, "instrument {instrument}");
        }
        let (taken, back) = (sums.fresh.load(Relaxed) - 1, sums.given_back.load(Relaxed));
        assert_eq!(taken - back, 1, "one block is kept");
    });
}

#[test]
fn two_that_make_the_cell_of_one_instrument_share_it() {
    both(0, 0);
}

#[test]
fn two_that_make_cells_get_one_each() {
    both(0, 1);
}

#[test]
fn a_cell_that_is_drained_meanwhile_loses_nothing() {
    check(|| {
        let sums = SpaceModel::new();
        sums.fold(0, 3);
        let other = {
            let sums = Arc::clone(&sums);
            thread::spawn(move || sums.fold(0, 5))
        };
        let place = sums.entries[0].load(Acquire);
        let moved = sums.cells[place as usize].swap(0, Relaxed);
        other.join().expect("a thread");
        assert_eq!(moved + sums.sum(0), 8);
    });
}

#[test]
fn a_cell_that_another_made_is_empty_when_it_is_found() {
    check(|| {
        let sums = SpaceModel::new();
        let other = {
            let sums = Arc::clone(&sums);
            thread::spawn(move || keep_first(&sums.entries[0], sums.make()))
        };
        let found = sums.entries[0].load(Acquire);
        if found != 0 {
            assert_eq!(sums.cells[found as usize].load(Relaxed), 0);
        }
        assert_ne!(other.join().expect("a thread"), 0);
    });
}
