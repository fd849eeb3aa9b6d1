//! HOT PATH: a bounded queue many threads push to and pop from, without locks (after D. Vyukov's bounded MPMC
//! queue). It holds the filled blocks of a long history, and slots that rest before they are used again.

use crate::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::arena::Table;
use crate::atomic::spin_loop;

/// Numbers, oldest first. Who finds the queue busy does without it.
pub(crate) struct Queue {
    pub(crate) slots: Table,
    pub(crate) head: AtomicU32,
    pub(crate) tail: AtomicU32,
}

impl Queue {
    pub(crate) const fn new() -> Queue {
        Queue { slots: Table::new(), head: AtomicU32::new(0), tail: AtomicU32::new(0) }
    }

    /// Makes room for `items` (rounded up to a power of two); 0 switches the queue off.
    pub(crate) fn map(&self, items: usize) -> Result<(), std::io::Error> {
        if items == 0 {
            return Ok(());
        }
        // With a single slot, full and empty could not be told apart by sequence.
        self.slots.map(items.next_power_of_two().max(2))?;
        for (position, slot) in self.slots.words().iter().enumerate() {
            slot.store((position as u64) << 32, Relaxed);
        }
        Ok(())
    }

    /// Puts `item` in; false when the queue is full.
    pub(crate) fn push(&self, item: u32) -> bool {
        let slots = self.slots.words();
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
            spin_loop();
        }
    }

    /// How many there are, more or less.
    pub(crate) fn len(&self) -> u32 {
        let ahead = self.tail.load(Relaxed).wrapping_sub(self.head.load(Relaxed));
        // Who takes out between the two loads may leave the head in front.
        ahead.cast_signed().max(0).cast_unsigned()
    }

    /// Takes the oldest out.
    pub(crate) fn pop(&self) -> Option<u32> {
        let slots = self.slots.words();
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
            spin_loop();
        }
    }
}
