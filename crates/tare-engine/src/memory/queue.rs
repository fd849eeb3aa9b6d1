//! HOT PATH: a bounded queue of many writers, with a mapping of its own for its slots. It holds the filled blocks of a long
//! history, and slots that rest before they are used again.

use crate::memory::arena::Table;

/// Numbers, oldest first. Who finds the queue busy does without it.
pub(crate) struct Queue {
    slots: Table,
    ends: tare_sync::Queue,
}

impl Queue {
    pub(crate) const fn new() -> Queue {
        Queue { slots: Table::new(), ends: tare_sync::Queue::new() }
    }

    /// Makes room for `items` (rounded up to a power of two); 0 switches the queue off.
    pub(crate) fn map(&self, items: usize) -> Result<(), std::io::Error> {
        if items == 0 {
            return Ok(());
        }
        self.slots.map(items.next_power_of_two().max(2))?;
        tare_sync::Queue::prepare(self.slots.words());
        Ok(())
    }

    /// Puts `item` in; false when the queue is full.
    pub(crate) fn push(&self, item: u32) -> bool {
        self.ends.push(self.slots.words(), item)
    }

    /// How many there are, more or less.
    pub(crate) fn len(&self) -> u32 {
        self.ends.len()
    }

    /// The oldest, more or less: others may take it out.
    pub(crate) fn oldest(&self) -> Option<u32> {
        self.ends.oldest(self.slots.words())
    }

    /// Takes the oldest out.
    pub(crate) fn pop(&self) -> Option<u32> {
        self.ends.pop(self.slots.words())
    }

    /// Puts `item` in and takes the oldest out once the queue is full. What others were faster with goes to `give`.
    pub(crate) fn exchange(&self, item: u32, give: impl FnOnce(u32)) -> Option<u32> {
        self.ends.exchange(self.slots.words(), item, give)
    }
}
