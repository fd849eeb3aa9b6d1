//! `Engine::begin_fold`, `reader::unfolding`, `Engine::renew`: counts move from a cell to where they go on
//! counting while a reader adds both up. What the reader trusts is the sum.

use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use loom::thread;

const FOLDING: u64 = 1 << 48;
const VALUES: [u64; 2] = [3, 5];

struct Sums {
    folds: AtomicU64,
    ended: AtomicU64,
    cells: [AtomicU64; 2],
    epochs: [AtomicU32; 2],
}

impl Sums {
    fn new() -> Sums {
        Sums {
            folds: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            cells: VALUES.map(AtomicU64::new),
            epochs: [AtomicU32::new(0), AtomicU32::new(0)],
        }
    }

    /// A thread meets a cell of an older epoch, or ends.
    fn fold(&self, cell: usize) {
        self.folds.fetch_add(FOLDING + 1, Acquire);
        fence(Release);
        // The cell's one writer knows what is in it: a load here would hide a reader's from `loom`.
        let value = VALUES[cell];
        self.ended.fetch_add(value, Relaxed);
        self.cells[cell].store(0, Relaxed);
        self.epochs[cell].store(1, Release);
        self.folds.fetch_sub(FOLDING, Release);
    }

    /// One try of a reader; `None`: it reads again.
    fn read(&self) -> Option<u64> {
        let before = self.folds.load(Acquire);
        if before >= FOLDING {
            return None;
        }
        let sum = self.ended.load(Relaxed) + self.cells.iter().map(|cell| cell.load(Relaxed)).sum::<u64>();
        fence(Acquire);
        (self.folds.load(Relaxed) == before).then_some(sum)
    }
}

#[test]
fn a_sum_that_is_trusted_is_right() {
    super::check(|| {
        let sums = Arc::new(Sums::new());
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
    super::check(|| {
        let sums = Arc::new(Sums::new());
        let folds: Vec<_> = (0..2)
            .map(|cell| {
                let sums = Arc::clone(&sums);
                thread::spawn(move || sums.fold(cell))
            })
            .collect();
        assert!(matches!(sums.read(), None | Some(8)));
        folds.into_iter().for_each(|fold| fold.join().expect("a thread"));
        assert_eq!(sums.read(), Some(8));
    });
}
