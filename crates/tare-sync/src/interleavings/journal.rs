//! Records are appended to a block that held others before, and copied meanwhile. What the reader keeps is whole.

use loom::sync::Arc;
use loom::thread;

use super::{check, words};
use crate::atomic::AtomicU64;
use crate::{Version, journal};

const WORDS: usize = 6;

struct Block {
    version: Version,
    words: [AtomicU64; WORDS],
}

impl Block {
    /// A record of as many words as its first one says; the others follow from it.
    fn append<const N: usize, const P: usize>(&self, at: usize, round: u64) {
        let place = self.words[at..at + P].first_chunk::<P>().expect("room");
        let record: [u64; N] = std::array::from_fn(|word| word as u64 * 100 + round * 10 + N as u64);
        journal::append(place, record);
    }

    /// Thrown away, and filled anew.
    fn begin(&self) {
        self.version.change(|| journal::end(&self.words[0]));
    }

    /// Copies, and checks what was copied; how many records there are, if nobody threw them away meanwhile.
    fn read(&self, rounds: std::ops::RangeInclusive<u64>) -> Option<usize> {
        let mut copied = [0; WORDS];
        self.version.read(|_| journal::copy(&self.words, &mut copied))?;
        let (mut at, mut records) = (0, 0);
        while at < WORDS && copied[at] != 0 {
            let (len, round) = (copied[at] % 10, copied[at] / 10);
            assert!(rounds.contains(&round), "{copied:?}");
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
        let block = Arc::new(Block { version: Version::new(), words: words() });
        // The words behind the first record are those of another round.
        block.append::<2, 3>(0, 1);
        block.append::<3, 4>(2, 1);
        block.begin();
        block.append::<1, 2>(0, 2);
        let writer = {
            let block = Arc::clone(&block);
            thread::spawn(move || {
                block.append::<2, 3>(1, 2);
                block.append::<1, 2>(3, 2);
            })
        };
        let seen = block.read(2..=2).expect("nobody throws them away");
        assert!((1..=3).contains(&seen), "{seen}");
        writer.join().expect("a writer");
        assert_eq!(block.read(2..=2), Some(3));
    });
}

#[test]
fn what_is_thrown_away_is_not_mixed_with_what_follows() {
    check(|| {
        let block = Arc::new(Block { version: Version::new(), words: words() });
        block.append::<2, 3>(0, 1);
        let writer = {
            let block = Arc::clone(&block);
            thread::spawn(move || {
                block.begin();
                block.append::<1, 2>(0, 2);
                block.append::<2, 3>(1, 2);
            })
        };
        block.read(1..=2);
        writer.join().expect("a writer");
        assert_eq!(block.read(2..=2), Some(2));
    });
}
