//! HOT PATH: a bounded queue with many producers and consumers and a mapping of its own. It holds the filled
//! blocks of a long history, and slots that stay out of use for a while.

use crate::memory::arena::Table;

/// A queue of numbers. Callers never wait.
pub(crate) struct NumberQueue {
    slots: Table,
    ends: tare_sync::Queue,
}

impl NumberQueue {
    pub(crate) const fn new() -> NumberQueue {
        NumberQueue { slots: Table::new(), ends: tare_sync::Queue::new() }
    }

    /// Reserves room for `items`, rounded up to a power of two; 0 disables the queue.
    pub(crate) fn map(&self, items: usize) -> Result<(), std::io::Error> {
        if items == 0 {
            return Ok(());
        }
        self.slots.map(items.next_power_of_two().max(2))?;
        tare_sync::Queue::prepare(self.slots.words());
        Ok(())
    }

    /// Appends `item`. Returns false when the queue is full.
    pub(crate) fn push(&self, item: u32) -> bool {
        self.ends.push(self.slots.words(), item)
    }

    /// Returns the approximate number of items.
    pub(crate) fn len(&self) -> u32 {
        self.ends.len()
    }

    /// Returns the oldest item without removing it. Others may take it at any time.
    pub(crate) fn oldest(&self) -> Option<u32> {
        self.ends.oldest(self.slots.words())
    }

    /// Removes and returns the oldest item.
    pub(crate) fn pop(&self) -> Option<u32> {
        self.ends.pop(self.slots.words())
    }

    /// Appends `item`; if the queue is full, removes and returns the oldest item to make room. If others take
    /// that room first, returns `item` and passes the oldest to `give`.
    pub(crate) fn exchange(&self, item: u32, give: impl FnOnce(u32)) -> Option<u32> {
        self.ends.exchange(self.slots.words(), item, give)
    }
}
