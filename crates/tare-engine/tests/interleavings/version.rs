//! `statement::Level::change`, `transaction::publish`, `Thread::write_texts`: a version that is odd while more than
//! one word changes. What a reader keeps is of one moment.

use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use loom::thread;

struct Versioned {
    version: AtomicU64,
    words: [AtomicU64; 2],
}

impl Versioned {
    /// The one writer knows the version: a load here would hide a reader's from `loom`.
    fn change(&self, version: u64, to: u64) {
        self.version.store(version + 1, Relaxed);
        fence(Release);
        self.words.iter().for_each(|word| word.store(to, Relaxed));
        self.version.store(version + 2, Release);
    }

    /// One try of a reader; `None`: it reads again.
    fn read(&self) -> Option<[u64; 2]> {
        let before = self.version.load(Acquire);
        let words = std::array::from_fn(|at| self.words[at].load(Relaxed));
        fence(Acquire);
        (before & 1 == 0 && self.version.load(Relaxed) == before).then_some(words)
    }
}

#[test]
fn what_is_kept_is_of_one_moment() {
    super::check(|| {
        let shared =
            Arc::new(Versioned { version: AtomicU64::new(0), words: [AtomicU64::new(0), AtomicU64::new(0)] });
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.change(0, 1);
                shared.change(2, 2);
            })
        };
        if let Some([one, other]) = shared.read() {
            assert_eq!(one, other);
        }
        writer.join().expect("a writer");
        assert_eq!(shared.read(), Some([2, 2]));
    });
}
