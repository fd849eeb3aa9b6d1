use loom::sync::Arc;
use loom::thread;

use super::{check, words};
use crate::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::{Shown, TreiberStack};

/// Buffers 1 to 3 of two words each, which must be equal.
struct ShownModel {
    shown: Shown,
    free: TreiberStack,
    next: [AtomicU32; 4],
    words: [AtomicU64; 8],
}

impl ShownModel {
    fn new() -> ShownModel {
        let board = ShownModel {
            shown: Shown::new(),
            free: TreiberStack::new(),
            next: std::array::from_fn(|_| AtomicU32::new(0)),
            words: words(),
        };
        (1..4).for_each(|buffer| board.give(buffer));
        board
    }

    fn give(&self, buffer: u32) {
        if buffer != 0 {
            self.free.push(buffer, |buffer| &self.next[buffer as usize]);
        }
    }

    fn both(&self, buffer: u32) -> [&AtomicU64; 2] {
        let first = buffer as usize * 2;
        [&self.words[first], &self.words[first + 1]]
    }

    fn show(&self, value: u64) {
        let mine = self.free.pop(|buffer| &self.next[buffer as usize]).expect("one for each who has one");
        Shown::begin_to_fill();
        self.both(mine).into_iter().for_each(|word| word.store(value, Relaxed));
        let left = self.shown.replace(mine, |now| now == 0 || self.both(now)[1].load(Relaxed) < value);
        self.give(left);
    }

    fn read(&self) -> u64 {
        let read = self.shown.read(|now| self.both(now).map(|word| word.load(Relaxed)));
        read.map_or(0, |[one, other]| {
            assert_eq!(one, other, "torn");
            one
        })
    }
}

#[test]
fn the_best_stays_and_is_read_whole() {
    check(|| {
        let board = Arc::new(ShownModel::new());
        board.show(1);
        let writers = [2, 3].map(|value| {
            let board = Arc::clone(&board);
            thread::spawn(move || board.show(value))
        });
        let seen = board.read();
        assert!((1..=3).contains(&seen), "{seen}");
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(board.read(), 3);
    });
}

#[test]
fn a_buffer_that_is_filled_again_is_not_taken_for_what_it_held() {
    check(|| {
        let board = Arc::new(ShownModel::new());
        board.show(1);
        let writer = {
            let board = Arc::clone(&board);
            // The second value goes into the buffer that the first one replaced.
            thread::spawn(move || [2, 3].into_iter().for_each(|value| board.show(value)))
        };
        let seen = board.read();
        assert!((1..=3).contains(&seen), "{seen}");
        writer.join().unwrap();
        assert_eq!(board.read(), 3);
    });
}
