//! Folds: counts move from a cell to another place while a reader adds up both. A sum that the reader accepts
//! is right.

use loom::sync::Arc;
use loom::thread;

use super::{check, words};
use crate::Folds;
use crate::atomic::{AtomicU64, Ordering::Relaxed};

const VALUES: [u64; 2] = [3, 5];

struct FoldModel {
    folds: Folds,
    ended: AtomicU64,
    cells: [AtomicU64; 2],
}

impl FoldModel {
    fn new() -> FoldModel {
        let [ended] = words();
        FoldModel { folds: Folds::new(), ended, cells: VALUES.map(AtomicU64::new) }
    }

    /// Moves a cell's count, like a thread that meets a cell of an older epoch or ends.
    fn fold(&self, cell: usize) {
        self.folds.begin();
        // The only writer of the cell knows its value. A load here would hide a reader's access from loom.
        self.ended.fetch_add(VALUES[cell], Relaxed);
        self.cells[cell].store(0, Relaxed);
        self.folds.end();
    }

    /// Tries once to read the sum; `None`: try again.
    fn read(&self) -> Option<u64> {
        let cells = || self.cells.iter().map(|cell| cell.load(Relaxed)).sum::<u64>();
        self.folds.read(|| self.ended.load(Relaxed) + cells())
    }
}

#[test]
fn a_sum_that_is_trusted_is_right() {
    check(|| {
        let sums = Arc::new(FoldModel::new());
        let other = {
            let sums = Arc::clone(&sums);
            thread::spawn(move || sums.fold(0))
        };
        assert!(matches!(sums.read(), None | Some(8)));
        other.join().expect("a thread");
        assert_eq!(sums.read(), Some(8));
    });
}

#[test]
fn two_folds_at_once_are_seen_as_well() {
    check(|| {
        let sums = Arc::new(FoldModel::new());
        let folds: Vec<_> = (0..2)
            .map(|cell| {
                let sums = Arc::clone(&sums);
                thread::spawn(move || sums.fold(cell))
            })
            .collect();
        assert!(matches!(sums.read(), None | Some(8)));
        folds.into_iter().for_each(|fold| fold.join().expect("a thread"));
        assert_eq!(sums.read(), Some(8));
        assert!(!sums.folds.is_busy());
    });
}
