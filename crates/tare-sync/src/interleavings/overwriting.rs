//! What a reader of a ring accepts is the record it asked for.

use loom::sync::Arc;
use loom::thread;

use super::{check, words};
use crate::OverwritingRing;
use crate::atomic::AtomicU64;

struct Records {
    ring: OverwritingRing,
    words: [AtomicU64; 4],
}

impl Records {
    fn append(&self, value: u64) {
        assert!(self.ring.append(&self.words, &[value, value]).is_some());
    }

    /// Copies a record word by word, as a reader does that learns its length from the first.
    fn copy_in_steps(&self, at: u64) -> Option<[u64; 2]> {
        let mut words = [[0]; 2];
        for (at, word) in (at..).zip(&mut words) {
            if !self.ring.copy(&self.words, at, word) {
                return None;
            }
        }
        Some(words.map(|[word]| word))
    }

    fn copy(&self, at: u64) -> Option<[u64; 2]> {
        let mut copied = [0; 2];
        self.ring.copy(&self.words, at, &mut copied).then_some(copied)
    }
}

#[test]
fn a_record_is_whole_or_gone() {
    check(|| {
        let shared = Arc::new(Records { ring: OverwritingRing::new(), words: words() });
        shared.append(1);
        let writer = {
            let shared = Arc::clone(&shared);
            // The second record of these takes the place of the first one.
            thread::spawn(move || [2, 3].into_iter().for_each(|value| shared.append(value)))
        };
        for (number, at) in [(1, 0), (2, 2)] {
            if let Some(copied) = shared.copy(at) {
                assert_eq!(copied, [number; 2]);
            }
        }
        writer.join().expect("a writer");
        assert_eq!([0, 2, 4].map(|at| shared.copy(at)), [None, Some([2; 2]), Some([3; 2])]);
    });
}

#[test]
fn a_reader_that_is_overtaken_twice_notices() {
    check(|| {
        let shared = Arc::new(Records { ring: OverwritingRing::new(), words: words() });
        shared.append(1);
        let writer = {
            let shared = Arc::clone(&shared);
            // The second and the fourth of these take the place of the first record.
            thread::spawn(move || (2..=5).for_each(|value| shared.append(value)))
        };
        if let Some(copied) = shared.copy(0) {
            assert_eq!(copied, [1; 2]);
        }
        if let Some(copied) = shared.copy(4) {
            assert_eq!(copied, [3; 2]);
        }
        writer.join().expect("a writer");
        assert_eq!([0, 4, 6, 8].map(|at| shared.copy(at)), [None, None, Some([4; 2]), Some([5; 2])]);
    });
}

#[test]
fn a_record_that_is_copied_in_steps_is_whole_or_gone() {
    check(|| {
        let shared = Arc::new(Records { ring: OverwritingRing::new(), words: words() });
        shared.append(1);
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || (2..=5).for_each(|value| shared.append(value)))
        };
        if let Some(copied) = shared.copy_in_steps(0) {
            assert_eq!(copied, [1; 2]);
        }
        writer.join().expect("a writer");
        assert_eq!(shared.copy_in_steps(8), Some([5; 2]));
    });
}
