//! HOT PATH: a bounded queue with many producers and consumers, after D. Vyukov's bounded MPMC queue.

use crate::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    again,
};

/// Both ends of a queue of numbers. The slots belong to the caller: the same words for every call, a power of
/// two of them, and at least 2 (with one slot, full and empty look the same). A queue without slots is always
/// full.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::AtomicU64;
///
/// use tare_sync::Queue;
///
/// let slots: [AtomicU64; 2] = Default::default();
/// Queue::prepare(&slots);
/// let queue = Queue::new();
/// assert!(queue.push(&slots, 10) && queue.push(&slots, 11));
/// assert!(!queue.push(&slots, 12), "it is full");
/// assert_eq!(queue.pop(&slots), Some(10));
/// ```
pub struct Queue {
    head: AtomicU32,
    tail: AtomicU32,
}

impl Queue {
    new! {
        /// Creates an empty queue.
        fn new() = Queue { head: AtomicU32::new(0), tail: AtomicU32::new(0) }
    }

    /// Initialises the slots, before any other call.
    pub fn prepare(slots: &[AtomicU64]) {
        for (position, slot) in slots.iter().enumerate() {
            slot.store((position as u64) << 32, Relaxed);
        }
    }

    /// Appends `item`. Returns false when the queue is full.
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

    /// Returns the approximate number of items.
    pub fn len(&self) -> u32 {
        let ahead = self.tail.load(Relaxed).wrapping_sub(self.head.load(Relaxed));
        // A pop between the two loads can put the head in front of the tail.
        ahead.cast_signed().max(0).cast_unsigned()
    }

    /// Returns whether the queue is approximately empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the oldest item without removing it. Others may take it at any time.
    pub fn oldest(&self, slots: &[AtomicU64]) -> Option<u32> {
        let head = self.head.load(Relaxed);
        let value = slots.get(head as usize & slots.len().wrapping_sub(1))?.load(Relaxed);
        ((value >> 32) as u32 == head.wrapping_add(1)).then_some(value as u32)
    }

    /// Removes and returns the oldest item.
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

    /// Appends `item`; if the queue is full, removes and returns the oldest item to make room. If others take
    /// that room first, returns `item` and passes the oldest to `give`.
    pub fn exchange(&self, slots: &[AtomicU64], item: u32, give: impl FnOnce(u32)) -> Option<u32> {
        if self.push(slots, item) {
            return None;
        }
        let oldest = self.pop(slots);
        if self.push(slots, item) {
            return oldest;
        }
        // Others took the room. Keeping the newest item matters less than not waiting.
        if let Some(oldest) = oldest {
            give(oldest);
        }
        Some(item)
    }
}
