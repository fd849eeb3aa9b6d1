//! `ring.rs`, `arena.rs`, `reader/events.rs`: a block is filled, thrown away and filled again by another thread's
//! hand while a reader copies it. What the reader keeps is whole and its owner's.

use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use loom::thread;

const LINES: usize = 2;

struct Line {
    stamp: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
}

/// A block and what is known of it.
struct Block {
    generation: AtomicU32,
    owner: AtomicU64,
    lines: [Line; LINES],
}

impl Block {
    fn new() -> Block {
        let line = || Line { stamp: AtomicU64::new(0), start: AtomicU64::new(0), end: AtomicU64::new(0) };
        Block { generation: AtomicU32::new(0), owner: AtomicU64::new(0), lines: [line(), line()] }
    }

    /// `Meta::throw_away`, and `advance`: taken by `owner` in `generation`. (There the owner of the block loads the
    /// generation first; here it is said: a load in between hides a reader's from `loom`, which remembers one
    /// access of each word.)
    fn begin(&self, owner: u64, generation: u32) -> u64 {
        self.generation.store(generation - 1, Relaxed);
        fence(Release);
        self.generation.store(generation, Release);
        self.owner.store(owner, Relaxed);
        tag(generation)
    }

    /// `start_wait` and `end_wait`; everything in the record follows from its id.
    fn record(&self, line: usize, tag: u64, id: u64) {
        let line = &self.lines[line];
        line.start.store(id * 10, Relaxed);
        line.end.store(0, Relaxed);
        line.stamp.store(id << 16 | tag, Release);
        line.start.store(id * 10 + 1, Relaxed);
        line.end.store(id * 100, Release);
    }

    /// `Engine::records`: (owner, id, start, end) of what is kept.
    fn read(&self) -> Vec<(u64, u64, u64, u64)> {
        let generation = self.generation.load(Acquire);
        if generation & 1 != 0 {
            return Vec::new();
        }
        let mut copied = Vec::new();
        for line in &self.lines {
            let first = line.stamp.load(Acquire);
            let end = line.end.load(Acquire);
            if first & 0xFFFF == tag(generation) {
                copied.push((first >> 16, line.start.load(Relaxed), end));
            }
        }
        let owner = self.owner.load(Relaxed);
        fence(Acquire);
        if self.generation.load(Relaxed) != generation {
            return Vec::new();
        }
        copied.into_iter().map(|(id, start, end)| (owner, id, start, end)).collect()
    }
}

/// `ring::tag`
fn tag(generation: u32) -> u64 {
    u64::from(generation / 2 % 0xFFFF + 1)
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
    super::check(|| {
        let block = Arc::new(Block::new());
        let tag = block.begin(1, 2);
        block.record(0, tag, 100);
        let writer = {
            let block = Arc::clone(&block);
            thread::spawn(move || {
                block.record(1, tag, 101);
                let tag = block.begin(2, 4);
                block.record(0, tag, 200);
            })
        };
        check_rows(&block.read());
        writer.join().expect("a writer");
        let rows = block.read();
        assert_eq!(rows.len(), 1, "of the generation before nothing is left: {rows:?}");
        check_rows(&rows);
    });
}
