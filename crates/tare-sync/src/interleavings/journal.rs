//! Records are appended to a block that held others before, and copied meanwhile. The records a reader
//! accepts are whole.

use loom::sync::Arc;
use loom::thread;

use super::{check, words};
use crate::atomic::{AtomicU64, Ordering::Relaxed};
use crate::{Seqlock, journal};

const WORDS: usize = 6;

struct JournalBlock {
    version: Seqlock,
    owner: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl JournalBlock {
    /// Appends a record of `N` words at `at`. Its first word tells `round` and `N`, so that a reader can
    /// check the others.
    fn append<const N: usize, const P: usize>(&self, at: usize, round: u64) {
        let place = self.words[at..at + P].first_chunk::<P>().expect("room");
        journal::append::<N, P>(place, std::array::from_fn(|word| word as u64 * 100 + round * 10 + N as u64));
    }

    /// Appends a record whose length is known only when its words are written.
    fn append_words(&self, at: usize, round: u64, len: usize) {
        for word in 1..len {
            self.words[at + word].store(word as u64 * 100 + round * 10 + len as u64, Relaxed);
        }
        journal::show(&self.words[at], round * 10 + len as u64, &self.words[at + len]);
    }

    /// Creates a block in its first round, owned by the first thread.
    fn new() -> JournalBlock {
        JournalBlock { version: Seqlock::new(), owner: AtomicU64::new(1), words: words() }
    }

    /// Discards the records and gives the block to the next owner.
    fn begin(&self, round: u64) {
        self.version.change(|| journal::end(&self.words[0]));
        self.owner.store(round, Relaxed);
    }

    /// Copies and checks the records. Returns their number, or `None` if they were discarded meanwhile.
    fn read(&self) -> Option<usize> {
        let mut copied = [0; WORDS];
        let owner = self.version.read(|_| {
            journal::copy(&self.words, &mut copied);
            self.owner.load(Relaxed)
        })?;
        let (mut at, mut records) = (0, 0);
        while at < WORDS && copied[at] != 0 {
            let (len, round) = (copied[at] % 10, copied[at] / 10);
            assert_eq!(round, owner, "another owner's: {copied:?}");
            for word in 1..len {
                assert_eq!(copied[at + word as usize], word * 100 + round * 10 + len, "torn: {copied:?}");
            }
            at += len as usize;
            records += 1;
        }
        Some(records)
    }
}

#[test]
fn a_reader_copies_whole_records() {
    check(|| {
        let block = Arc::new(JournalBlock::new());
        // The words behind the first record are left from another round.
        block.append::<2, 3>(0, 1);
        block.append::<3, 4>(2, 1);
        block.begin(2);
        block.append::<1, 2>(0, 2);
        let writer = {
            let block = Arc::clone(&block);
            thread::spawn(move || {
                block.append::<2, 3>(1, 2);
                block.append::<1, 2>(3, 2);
            })
        };
        let seen = block.read().expect("nobody throws them away");
        assert!((1..=3).contains(&seen), "{seen}");
        writer.join().expect("a writer");
        assert_eq!(block.read(), Some(3));
    });
}

#[test]
fn a_reader_copies_whole_records_of_any_length() {
    check(|| {
        let block = Arc::new(JournalBlock::new());
        block.append_words(0, 1, 2);
        block.append_words(2, 1, 3);
        block.begin(2);
        block.append_words(0, 2, 1);
        let writer = {
            let block = Arc::clone(&block);
            thread::spawn(move || {
                for (at, len) in [(1, 3), (4, 1)] {
                    block.append_words(at, 2, len);
                }
            })
        };
        let seen = block.read().expect("nobody throws them away");
        assert!((1..=3).contains(&seen), "{seen}");
        writer.join().expect("a writer");
        assert_eq!(block.read(), Some(3));
    });
}

#[test]
fn what_is_thrown_away_is_not_mixed_with_what_follows() {
    check(|| {
        let block = Arc::new(JournalBlock::new());
        block.append::<2, 3>(0, 1);
        let writer = {
            let block = Arc::clone(&block);
            thread::spawn(move || {
                block.begin(2);
                block.append::<1, 2>(0, 2);
                block.append_words(1, 2, 2);
            })
        };
        block.read();
        writer.join().expect("a writer");
        assert_eq!(block.read(), Some(2));
    });
}
