//! HOT PATH: waits that the host does not time, counted when they have ended.

use crate::Engine;
use crate::snapshot::ClassId;
use crate::thread::choice::NOW;
use crate::thread::current;

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

    /// Counts a wait of the calling thread that has ended and that nobody has timed. It is in no history.
    #[inline(never)]
    pub fn count_untimed_wait(&self, class: ClassId) {
        if self.is_off(class) {
            return;
        }
        let events = self.weight_of_untimed(class);
        if let Some(wait) = self.start_tallied_wait(class) {
            self.end_wait(&wait, events, None);
        }
    }
}
