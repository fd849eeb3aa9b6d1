//! `queue`, and what `ring::exchange` does with it: threads exchange full blocks for the oldest ones. No block is lost, none is
//! held twice.

use loom::thread;

use super::{check, leak};
use crate::atomic::AtomicU64;
use crate::queue::Queue;

fn queue(slots: usize) -> &'static Queue {
    let queue = leak(Queue::new());
    queue.map(slots).expect("address space");
    queue.slots.words().iter().for_each(AtomicU64::watch);
    queue.head.watch();
    queue.tail.watch();
    queue
}

/// Puts `block` in; returns what the caller holds then, and what goes back to the arena.
fn exchange(queue: &Queue, block: u32) -> Vec<u32> {
    if queue.push(block) {
        return Vec::new();
    }
    let oldest = queue.pop();
    let refused = if queue.push(block) { None } else { Some(block) };
    oldest.into_iter().chain(refused).collect()
}

#[test]
fn blocks_are_neither_lost_nor_doubled() {
    check(|| {
        let queue = queue(2);
        assert!(queue.push(1));
        let other = thread::spawn(move || exchange(queue, 2));
        let mut blocks = exchange(queue, 3);
        blocks.extend(other.join().expect("a thread"));
        blocks.extend(std::iter::from_fn(|| queue.pop()));
        blocks.sort_unstable();
        assert_eq!(blocks, [1, 2, 3]);
    });
}
