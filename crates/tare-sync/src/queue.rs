//! HOT PATH: a bounded queue many threads push to and pop from (after D. Vyukov's bounded MPMC queue).

use crate::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    again,
};

/// Both ends of a queue of numbers. Its slots are words of its user's, the same for every call, a power of two of them and
/// at least 2: with a single slot, full and empty could not be told apart. No slots: a queue that is always full.
pub struct Queue {
    head: AtomicU32,
    tail: AtomicU32,
}

impl Queue {
    new! {
        /// An empty queue.
        fn new() = Queue { head: AtomicU32::new(0), tail: AtomicU32::new(0) }
    }

    /// Makes slots ready, before the first call.
    pub fn prepare(slots: &[AtomicU64]) {
        for (position, slot) in slots.iter().enumerate() {
            slot.store((position as u64) << 32, Relaxed);
        }
    }

    /// Puts `item` in; false when the queue is full.
    pub fn push(&self, slots: &[AtomicU64], item: u32) -> bool {
        if slots.is_empty() {
            return false;
        }
        let mut tail = self.tail.load(Relaxed);
        loop {
            let slot = &slots[tail as usize & (slots.len() - 1)];
            let sequence = (slot.load(Acquire) >> 32) as u32;
            match sequence.wrapping_sub(tail).cast_signed() {
                0 => match self.tail.compare_exchange_weak(tail, tail.wrapping_add(1), Relaxed, Relaxed) {
                    Ok(_) => {
                        let filled = u64::from(tail.wrapping_add(1)) << 32 | u64::from(item);
                        slot.store(filled, Release);
                        return true;
                    }
                    Err(now) => tail = now,
                },
                behind if behind < 0 => return false,
                _ => tail = self.tail.load(Relaxed),
            }
            again();
        }
    }

    /// How many there are, more or less.
    pub fn len(&self) -> u32 {
        let ahead = self.tail.load(Relaxed).wrapping_sub(self.head.load(Relaxed));
        // Who takes out between the two loads may leave the head in front.
        ahead.cast_signed().max(0).cast_unsigned()
    }

    /// Whether there are none, more or less.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The oldest, more or less: others may take it out.
    pub fn oldest(&self, slots: &[AtomicU64]) -> Option<u32> {
        let head = self.head.load(Relaxed);
        let value = slots.get(head as usize & slots.len().wrapping_sub(1))?.load(Relaxed);
        ((value >> 32) as u32 == head.wrapping_add(1)).then_some(value as u32)
    }

    /// Takes the oldest out.
    pub fn pop(&self, slots: &[AtomicU64]) -> Option<u32> {
        if slots.is_empty() {
            return None;
        }
        let mut head = self.head.load(Relaxed);
        loop {
            let slot = &slots[head as usize & (slots.len() - 1)];
            let value = slot.load(Acquire);
            match ((value >> 32) as u32).wrapping_sub(head.wrapping_add(1)).cast_signed() {
                0 => match self.head.compare_exchange_weak(head, head.wrapping_add(1), Relaxed, Relaxed) {
                    Ok(_) => {
                        let empty = u64::from(head.wrapping_add(slots.len() as u32)) << 32;
                        slot.store(empty, Release);
                        return Some(value as u32);
                    }
                    Err(now) => head = now,
                },
                behind if behind < 0 => return None,
                _ => head = self.head.load(Relaxed),
            }
            again();
        }
    }

    /// Puts `item` in and takes the oldest out once the queue is full. What others were faster with goes to `give`.
    pub fn exchange(&self, slots: &[AtomicU64], item: u32, give: impl FnOnce(u32)) -> Option<u32> {
        if self.push(slots, item) {
            return None;
        }
        let oldest = self.pop(slots);
        if self.push(slots, item) {
            return oldest;
        }
        // Others were faster. The newest matters less than not waiting for a place.
        if let Some(oldest) = oldest {
            give(oldest);
        }
        Some(item)
    }
}
