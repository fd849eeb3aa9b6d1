//! Deferred events: a thread counts events and defers their buckets while a reader adds up both. The reader
//! sees no event twice, misses none from before, and never sees more than were counted.

use loom::sync::Arc;
use loom::thread;

use super::{check, words};
use crate::DeferredEvents;
use crate::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    OwnLoad,
};

/// Events with room for two deferred words. Each round uses another bucket.
struct DeferredModel {
    deferred: DeferredEvents,
    words: [AtomicU64; 2],
    counted: AtomicU64,
    buckets: [AtomicU64; 2],
}

impl DeferredModel {
    fn add(&self, counted: u64, bucket: u64) {
        if self.deferred.room(&self.words).is_none() {
            self.deal();
        }
        let room = self.deferred.room(&self.words).expect("there is some now");
        self.counted.store(counted, Relaxed);
        room.fill(bucket);
    }

    /// Processes the deferred words. Only the counting thread may call it.
    fn deal(&self) {
        self.deferred.clear(&self.words, |bucket| {
            let count = &self.buckets[bucket as usize];
            count.store(count.own() + 1, Release);
        });
    }

    /// Returns the events by bucket, and how many were counted.
    fn read(&self) -> Option<([u64; 2], u64)> {
        let seen = self.deferred.read(&self.words, |put_off| {
            let mut seen = [0, 1].map(|bucket| self.buckets[bucket].load(Acquire));
            put_off.iter().for_each(|word| seen[word.load(Relaxed) as usize] += 1);
            seen
        })?;
        Some((seen, self.counted.load(Relaxed)))
    }
}

#[test]
fn every_event_is_in_its_bucket_once() {
    check(|| {
        let new = || AtomicU64::new(0);
        let events = Arc::new(DeferredModel {
            deferred: DeferredEvents::new(),
            words: words(),
            counted: new(),
            buckets: words(),
        });
        events.add(1, 0);
        let writer = {
            let events = Arc::clone(&events);
            thread::spawn(move || {
                events.add(2, 0);
                // There is no room for it, so the first two are processed.
                events.add(3, 1);
            })
        };
        if let Some((seen, counted)) = events.read() {
            assert!((1..=2).contains(&seen[0]) && seen[1] <= 1, "{seen:?}");
            assert!(seen[0] + seen[1] <= counted, "{seen:?} of {counted}");
        }
        writer.join().expect("a writer");
        assert_eq!(events.read(), Some(([2, 1], 3)));
        events.deal();
        assert_eq!(events.read(), Some(([2, 1], 3)));
    });
}
