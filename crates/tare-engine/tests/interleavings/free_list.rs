//! `arena.rs`, `pool.rs`: the free list, whose head carries a tag. Nobody gets what another one holds, however
//! often a block comes back meanwhile, and whoever gets it sees it as it was given.

use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use loom::thread;

struct List {
    head: AtomicU64,
    next: [AtomicU32; 3],
    content: [AtomicU32; 3],
}

impl List {
    fn new() -> List {
        List {
            head: AtomicU64::new(0),
            next: [AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)],
            content: [AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)],
        }
    }

    fn give(&self, id: u32) {
        let mut head = self.head.load(Acquire);
        loop {
            self.next[id as usize].store(head as u32, Relaxed);
            let new = ((head >> 32).wrapping_add(1) << 32) | u64::from(id);
            match self.head.compare_exchange_weak(head, new, Release, Acquire) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    fn pop(&self) -> Option<u32> {
        let mut head = self.head.load(Acquire);
        loop {
            let id = head as u32;
            if id == 0 {
                return None;
            }
            let next = self.next[id as usize].load(Relaxed);
            let new = ((head >> 32).wrapping_add(1) << 32) | u64::from(next);
            match self.head.compare_exchange_weak(head, new, Acquire, Acquire) {
                Ok(_) => return Some(id),
                Err(now) => head = now,
            }
        }
    }

    /// Holds a block for a moment, as its only owner.
    fn use_one(&self) -> Option<u32> {
        let id = self.pop()?;
        let content = &self.content[id as usize];
        let before = content.load(Relaxed);
        content.store(before + 1, Relaxed);
        assert_eq!(content.load(Relaxed), before + 1, "somebody else holds {id}");
        Some(id)
    }
}

#[test]
fn a_block_has_one_owner_and_none_is_lost() {
    crate::check(|| {
        let list = Arc::new(List::new());
        list.give(1);
        list.give(2);
        let other = {
            let list = Arc::clone(&list);
            thread::spawn(move || {
                // The first one comes back behind the second: the reason for the tag.
                let (first, second) = (list.use_one(), list.use_one());
                first.into_iter().for_each(|id| list.give(id));
                second.into_iter().for_each(|id| list.give(id));
            })
        };
        if let Some(id) = list.use_one() {
            list.give(id);
        }
        other.join().expect("a thread");
        let mut left = vec![list.pop(), list.pop()];
        left.sort_unstable();
        assert_eq!((left, list.pop()), (vec![Some(1), Some(2)], None));
        let uses: u32 = list.content.iter().map(|content| content.load(Relaxed)).sum();
        assert!((1..=3).contains(&uses), "{uses}");
    });
}
