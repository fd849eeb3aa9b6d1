//! Threads exchange full blocks for the oldest ones. No block is lost, and none has two owners.

use std::cell::Cell;

use loom::sync::Arc;
use loom::thread;

use super::{check, words};
use crate::Queue;
use crate::atomic::{AtomicU64, Ordering::Relaxed};

struct QueueModel {
    queue: Queue,
    slots: [AtomicU64; 2],
}

impl QueueModel {
    fn new() -> Arc<QueueModel> {
        let shared = QueueModel { queue: Queue::new(), slots: words() };
        Queue::prepare(&shared.slots);
        Arc::new(shared)
    }

    /// Returns what the caller holds afterwards, and what it has to give back.
    fn exchange(&self, block: u32) -> Vec<u32> {
        let given = Cell::new(None);
        let held = self.queue.exchange(&self.slots, block, |block| given.set(Some(block)));
        held.into_iter().chain(given.get()).collect()
    }
}

#[test]
fn blocks_are_neither_lost_nor_doubled() {
    check(|| {
        let shared = QueueModel::new();
        assert!(shared.queue.push(&shared.slots, 1));
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.exchange(2))
        };
        let mut blocks = shared.exchange(3);
        blocks.extend(other.join().expect("a thread"));
        blocks.extend(std::iter::from_fn(|| shared.queue.pop(&shared.slots)));
        blocks.sort_unstable();
        assert_eq!(blocks, [1, 2, 3]);
    });
}

#[test]
fn the_oldest_is_what_is_taken_out_next() {
    check(|| {
        let QueueModel { queue, slots } = &*QueueModel::new();
        assert_eq!(queue.oldest(slots), None);
        for (item, next) in [(1, 1), (2, 1), (3, 2), (4, 3)] {
            queue.exchange(slots, item, |_| panic!("nobody else is there"));
            assert_eq!(queue.oldest(slots), Some(next));
        }
        assert_eq!((queue.pop(slots), queue.oldest(slots)), (Some(3), Some(4)));
    });
}

#[test]
fn what_is_taken_out_is_seen_as_it_was_put_in() {
    check(|| {
        let shared = QueueModel::new();
        let content: Arc<[AtomicU64; 2]> = Arc::new(words());
        let other = {
            let (shared, content) = (Arc::clone(&shared), Arc::clone(&content));
            thread::spawn(move || {
                content[1].store(7, Relaxed);
                shared.queue.push(&shared.slots, 1)
            })
        };
        if let Some(item) = shared.queue.pop(&shared.slots) {
            assert_eq!(content[item as usize].load(Relaxed), 7);
        }
        assert!(other.join().expect("a thread"));
    });
}
