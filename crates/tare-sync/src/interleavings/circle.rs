//! A circle of histogram pieces: a thread adds pieces and moves the entry while a reader goes round. The
//! reader sees each piece once and complete, and misses none from before.

use loom::sync::Arc;
use loom::thread;

use super::check;
use crate::atomic::{
    AtomicU32,
    Ordering::{Relaxed, Release},
};
use crate::circle;

/// Places 1 to 3, each with its successor and what was written before it was linked.
struct Pieces {
    entry: AtomicU32,
    next: [AtomicU32; 4],
    content: [AtomicU32; 4],
}

impl Pieces {
    fn make(&self, place: u32) {
        self.content[place as usize].store(place * 10, Relaxed);
        circle::insert(&self.entry, place, |at| &self.next[at as usize]);
    }

    fn seen(&self) -> Vec<u32> {
        circle::round(&self.entry, 9, |at| self.next.get(at as usize))
            .inspect(|at| assert_eq!(self.content[*at as usize].load(Relaxed), at * 10, "it is whole"))
            .collect()
    }
}

#[test]
fn who_goes_round_sees_each_piece_once_and_whole() {
    check(|| {
        let new = || AtomicU32::new(0);
        let pieces = Arc::new(Pieces {
            entry: new(),
            next: [new(), new(), new(), new()],
            content: [new(), new(), new(), new()],
        });
        assert_eq!(pieces.seen(), []);
        pieces.make(1);
        let writer = {
            let pieces = Arc::clone(&pieces);
            thread::spawn(move || {
                pieces.make(2);
                // The next event belongs to the first piece.
                pieces.entry.store(1, Release);
                pieces.make(3);
            })
        };
        let mut seen = pieces.seen();
        seen.sort_unstable();
        assert!(seen.contains(&1), "{seen:?}: it was there before");
        assert!(seen.windows(2).all(|two| two[0] != two[1]), "{seen:?}");
        writer.join().unwrap();
        let mut seen = pieces.seen();
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3]);
    });
}
