//! HOT PATH: waits that the host has timed itself, told when they have ended.

use super::{Source, WaitObject};
use crate::Engine;
use crate::layout::wait::NO_AMOUNT;
use crate::snapshot::ClassId;
use crate::thread::choice::NOW;
use crate::thread::current;

/// What a host that times waits itself knows of one that has ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedWaitFacts {
    /// When it began, in [`ticks`](crate::ticks); `None`: it was not timed.
    pub started: Option<u64>,
    /// The number of events it stands for: the rows of a batch, otherwise 1.
    pub events: u64,
    /// NUMBER_OF_BYTES, if that applies.
    pub amount: Option<u64>,
}

impl EndedWaitFacts {
    /// One event that was not timed.
    pub const UNTIMED: EndedWaitFacts = EndedWaitFacts { started: None, events: 1, amount: None };
}

impl Engine {
    /// Returns how many times the calling thread counts an event that is not timed.
    fn weight_of_untimed(&self, class: ClassId) -> u64 {
        match current() {
            Some(thread) if thread.is_weighted() => {
                self.weight_of(thread, self.registry.kind(class), class, NOW).events
            }
            _ => 1,
        }
    }

    /// Counts a wait of the calling thread that has ended and that the host has timed itself, and records it
    /// if that is wanted.
    #[inline(never)]
    pub fn count_ended_wait(
        &self,
        class: ClassId,
        object: WaitObject,
        source: Source,
        facts: EndedWaitFacts,
    ) {
        if self.is_off(class) {
            return;
        }
        let EndedWaitFacts { started, events, amount } = facts;
        let Some(start) = started else {
            let events = events.saturating_mul(self.weight_of_untimed(class));
            if let Some(wait) = self.start_tallied_wait(class) {
                self.end_wait(&wait, events, None);
            }
            return;
        };
        let Some(mut wait) = self.start_wait(class, object, source) else { return };
        if wait.timed() {
            wait.start = start;
        }
        if let Some(open) = wait.open() {
            open.restart(wait.start, source.0, amount.unwrap_or(NO_AMOUNT));
        }
        self.end_wait(&wait, events, amount);
    }
}
