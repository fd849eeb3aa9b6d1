//! `queue.rs`, `ring::exchange`: threads exchange full blocks for the oldest ones. No block is lost, none is held twice.

use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use loom::thread;

struct Queue {
    slots: Vec<AtomicU64>,
    head: AtomicU32,
    tail: AtomicU32,
}

impl Queue {
    fn new(slots: u64) -> Queue {
        Queue {
            slots: (0..slots).map(|position| AtomicU64::new(position << 32)).collect(),
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
        }
    }

    fn push(&self, block: u32) -> bool {
        let slots = &self.slots;
        let mut tail = self.tail.load(Relaxed);
        loop {
            let slot = &slots[tail as usize & (slots.len() - 1)];
            let sequence = (slot.load(Acquire) >> 32) as u32;
            match sequence.wrapping_sub(tail).cast_signed() {
                0 => match self.tail.compare_exchange_weak(tail, tail.wrapping_add(1), Relaxed, Relaxed) {
                    Ok(_) => {
                        slot.store(u64::from(tail.wrapping_add(1)) << 32 | u64::from(block), Release);
                        return true;
                    }
                    Err(now) => tail = now,
                },
                behind if behind < 0 => return false,
                _ => tail = self.tail.load(Relaxed),
            }
            thread::yield_now();
        }
    }

    fn pop(&self) -> Option<u32> {
        let slots = &self.slots;
        let mut head = self.head.load(Relaxed);
        loop {
            let slot = &slots[head as usize & (slots.len() - 1)];
            let value = slot.load(Acquire);
            match ((value >> 32) as u32).wrapping_sub(head.wrapping_add(1)).cast_signed() {
                0 => match self.head.compare_exchange_weak(head, head.wrapping_add(1), Relaxed, Relaxed) {
                    Ok(_) => {
                        slot.store(u64::from(head.wrapping_add(slots.len() as u32)) << 32, Release);
                        return Some(value as u32);
                    }
                    Err(now) => head = now,
                },
                behind if behind < 0 => return None,
                _ => head = self.head.load(Relaxed),
            }
            thread::yield_now();
        }
    }

    /// Puts `block` in; returns what the caller holds then, and what goes back to the arena.
    fn exchange(&self, block: u32) -> (Option<u32>, Option<u32>) {
        if self.push(block) {
            return (None, None);
        }
        let oldest = self.pop();
        if self.push(block) { (oldest, None) } else { (Some(block), oldest) }
    }
}

#[test]
fn blocks_are_neither_lost_nor_doubled() {
    crate::check(|| {
        let queue = Arc::new(Queue::new(2));
        assert!(queue.push(1));
        let exchange = |queue: &Queue, block| {
            let (held, given) = queue.exchange(block);
            held.into_iter().chain(given).collect::<Vec<u32>>()
        };
        let other = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || exchange(&queue, 2))
        };
        let mut blocks = exchange(&queue, 3);
        blocks.extend(other.join().expect("a thread"));
        blocks.extend(std::iter::from_fn(|| queue.pop()));
        blocks.sort_unstable();
        assert_eq!(blocks, [1, 2, 3]);
    });
}
