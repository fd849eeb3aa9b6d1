//! A block is filled, thrown away and filled again by another thread's hand while a reader copies it. What the reader keeps
//! is whole and its owner's.

use loom::sync::Arc;
use loom::thread;

use super::{check, words};
use crate::Version;
use crate::atomic::{AtomicU64, Ordering::Relaxed};
use crate::record;

const LINES: usize = 2;

/// Stamp, start, end.
type Line = [AtomicU64; 3];

struct Block {
    version: Version,
    owner: AtomicU64,
    lines: [Line; LINES],
}

impl Block {
    fn new() -> Block {
        Block { version: Version::new(), owner: AtomicU64::new(0), lines: std::array::from_fn(|_| words()) }
    }

    /// Taken by `owner`; returns the tag of its records.
    fn begin(&self, owner: u64) -> u32 {
        self.version.change(|| ());
        self.owner.store(owner, Relaxed);
        record::tag(self.version.now())
    }

    /// An event begins and ends; everything in its record follows from its id.
    fn record(&self, line: usize, tag: u32, id: u64) {
        let [stamp, start, end] = &self.lines[line];
        start.store(id * 10, Relaxed);
        end.store(0, Relaxed);
        record::publish(stamp, record::stamp(id, tag));
        start.store(id * 10 + 1, Relaxed);
        record::end(end, id * 100);
    }

    /// (owner, id, start, end) of what is kept.
    fn read(&self) -> Vec<(u64, u64, u64, u64)> {
        let read = |version| {
            let copy = |[stamp, start, end]: &Line| {
                let (stamp, end) = record::begin_copy(stamp, end, record::tag(version))?;
                Some((record::id(stamp), record::copy(start), end))
            };
            let copied: Vec<_> = self.lines.iter().filter_map(copy).collect();
            (self.owner.load(Relaxed), copied)
        };
        let (owner, copied) = self.version.read(read).unwrap_or_default();
        copied.into_iter().map(|(id, start, end)| (owner, id, start, end)).collect()
    }
}

/// Ids of an owner's events begin at a hundred of its own.
fn check_rows(rows: &[(u64, u64, u64, u64)]) {
    for &(owner, id, start, end) in rows {
        assert_eq!(id / 100, owner, "another owner's event");
        match end {
            0 => assert!(start == id * 10 || start == id * 10 + 1, "{start} of {id}"),
            end => assert_eq!((start, end), (id * 10 + 1, id * 100), "torn"),
        }
    }
}

#[test]
fn a_reader_keeps_whole_records_of_the_owner() {
    check(|| {
        let block = Arc::new(Block::new());
        let tag = block.begin(1);
        block.record(0, tag, 100);
        let writer = {
            let block = Arc::clone(&block);
            thread::spawn(move || {
                block.record(1, tag, 101);
                let tag = block.begin(2);
                block.record(0, tag, 200);
            })
        };
        check_rows(&block.read());
        writer.join().expect("a writer");
        let rows = block.read();
        assert_eq!(rows.len(), 1, "of the version before nothing is left: {rows:?}");
        check_rows(&rows);
    });
}
