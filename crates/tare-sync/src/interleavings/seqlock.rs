//! What a seqlock reader accepts is of one moment.

use loom::sync::Arc;
use loom::thread;

use super::{check, words};
use crate::Seqlock;
use crate::atomic::{AtomicU64, Ordering::Relaxed};

struct Versioned {
    version: Seqlock,
    words: [AtomicU64; 2],
}

impl Versioned {
    fn change(&self, to: u64) {
        self.version.change(|| self.words.iter().for_each(|word| word.store(to, Relaxed)));
    }

    fn read(&self) -> Option<[u64; 2]> {
        self.version.read(|_| std::array::from_fn(|at| self.words[at].load(Relaxed)))
    }
}

#[test]
fn what_is_kept_is_of_one_moment() {
    check(|| {
        let shared = Arc::new(Versioned { version: Seqlock::new(), words: words() });
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.change(1);
                shared.change(2);
            })
        };
        if let Some([one, other]) = shared.read() {
            assert_eq!(one, other);
        }
        writer.join().expect("a writer");
        assert_eq!(shared.read(), Some([2, 2]));
    });
}
