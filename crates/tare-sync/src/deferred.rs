//! HOT PATH: deferred events. A thread stores them as words and processes a full buffer at once.
//!
//! Readers see each word exactly once: among the deferred ones, or in what the processed ones were added to.

use crate::Seqlock;
use crate::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    OwnLoad,
};

/// A vacant place for one deferred word.
pub struct Room<'a> {
    place: &'a AtomicU64,
    len: &'a AtomicU32,
    /// The number of words already deferred.
    before: u32,
}

impl Room<'_> {
    /// Stores `word` in this place and publishes it.
    #[inline(always)]
    pub fn fill(self, word: u64) {
        self.place.store(word, Relaxed);
        // Release: whoever sees the new length sees everything the thread wrote before it.
        self.len.store(self.before + 1, Release);
    }
}

/// The number of a thread's deferred words. The words themselves lie elsewhere, at most `N` of them.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::AtomicU64;
///
/// use tare_sync::DeferredEvents;
///
/// let (events, words): (_, [AtomicU64; 2]) = (DeferredEvents::new(), Default::default());
/// events.room(&words).expect("room").fill(70);
/// events.room(&words).expect("room").fill(71);
/// assert!(events.room(&words).is_none(), "the buffer is full");
/// let mut sum = 0;
/// events.clear(&words, |word| sum += word);
/// assert_eq!(sum, 141);
/// ```
#[repr(C)]
pub struct DeferredEvents {
    /// Odd while the words are being processed.
    version: Seqlock,
    len: AtomicU32,
}

impl DeferredEvents {
    new! {
        /// Creates an empty buffer.
        fn new() = DeferredEvents { version: Seqlock::new(), len: AtomicU32::new(0) }
    }

    /// Returns a place for another word; `None` when all `N` are taken. Only the owning thread may call it.
    #[inline(always)]
    pub fn room<'a, const N: usize>(&'a self, words: &'a [AtomicU64; N]) -> Option<Room<'a>> {
        let before = self.len.own();
        Some(Room { place: words.get(before as usize)?, len: &self.len, before })
    }

    /// Passes all deferred words to `deal` and empties the buffer. Only the owning thread, or whoever ends
    /// it, may call it.
    #[inline]
    pub fn clear<const N: usize>(&self, words: &[AtomicU64; N], mut deal: impl FnMut(u64)) {
        let len = self.len.own() as usize;
        if len == 0 {
            return;
        }
        self.version.change(|| {
            words.iter().take(len).for_each(|word| deal(word.own()));
            self.len.store(0, Release);
        });
    }

    /// Returns whether words are being processed at the moment.
    pub fn is_busy(&self) -> bool {
        self.version.is_odd()
    }

    /// Calls `read` with the deferred words; `read` also reads what the processed words were added to.
    /// Returns `None`, and the caller tries again, if words were processed meanwhile.
    #[inline]
    pub fn read<const N: usize, T>(
        &self,
        words: &[AtomicU64; N],
        read: impl FnOnce(&[AtomicU64]) -> T,
    ) -> Option<T> {
        self.version.read(|_| {
            let len = self.len.load(Acquire) as usize;
            // The length can be any value: the thread may have ended and its memory may be used for something
            // else.
            read(&words[..len.min(N)])
        })
    }
}
