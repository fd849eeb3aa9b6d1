//! A cached copy includes all changes counted before its number.

use loom::sync::Arc;
use loom::thread;

use super::{check, words};
use crate::atomic::{AtomicU64, Ordering::Relaxed};
use crate::stamp;

struct Stamped {
    stamp: AtomicU64,
    words: [AtomicU64; 2],
}

impl Stamped {
    fn add(&self) {
        for word in &self.words {
            word.fetch_add(1, Relaxed);
        }
        stamp::rise(&self.stamp);
    }

    fn copy(&self) -> [u64; 2] {
        self.words.each_ref().map(|word| word.load(Relaxed))
    }
}

#[test]
fn what_is_used_again_lacks_nothing() {
    check(|| {
        let shared = Arc::new(Stamped { stamp: AtomicU64::new(0), words: words() });
        let writers = [(); 2].map(|()| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.add())
        });
        let (before, copy) = (stamp::now(&shared.stamp), shared.copy());
        assert!(copy.iter().all(|word| *word >= before), "{copy:?} lacks some of {before} changes");
        writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
        if stamp::now(&shared.stamp) == before {
            assert_eq!(copy, shared.copy());
        }
    });
}
