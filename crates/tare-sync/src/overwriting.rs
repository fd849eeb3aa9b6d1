//! A ring of words that one thread appends records to. When it is full, new records overwrite the oldest
//! ones. Any number of readers copy records meanwhile.
//!
//! A record is named by its position, which only rises: the number of words that were appended before it.
//! Before it writes, the writer announces how far it will write; so a reader that saw a word of a later
//! record also sees that what it wanted is gone.

use crate::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    OwnLoad, fence,
};

/// The state of a ring whose words the caller holds.
#[repr(C)]
pub struct OverwritingRing {
    /// Position up to which words are written, or being written.
    begun: AtomicU64,
    /// Position up to which records are complete.
    done: AtomicU64,
}

impl OverwritingRing {
    new! {
        /// Creates an empty ring.
        fn new() = OverwritingRing { begun: AtomicU64::new(0), done: AtomicU64::new(0) }
    }

    /// Appends a record and returns its position. `None`: it is longer than the ring. Only the ring's single
    /// writer may call it, always with the same words.
    pub fn append(&self, words: &[AtomicU64], record: &[u64]) -> Option<u64> {
        if record.is_empty() || record.len() > words.len() {
            return None;
        }
        let at = self.done.own();
        let end = at + record.len() as u64;
        self.begun.store(end, Relaxed);
        // Whoever sees any of the words below also sees `begun`.
        fence(Release);
        for (word, value) in ring_from(words, at).zip(record) {
            word.store(*value, Relaxed);
        }
        self.done.store(end, Release);
        Some(at)
    }

    /// Returns the position behind the last complete record.
    pub fn end(&self) -> u64 {
        self.done.load(Acquire)
    }

    /// Returns the lowest position whose word is still there. Words at it may be overwritten at once.
    pub fn oldest(&self, words: &[AtomicU64]) -> u64 {
        self.begun.load(Acquire).saturating_sub(words.len() as u64)
    }

    /// Copies the words at a position. Returns false if some of them are overwritten or not there yet; the
    /// copy is then meaningless.
    pub fn copy(&self, words: &[AtomicU64], at: u64, to: &mut [u64]) -> bool {
        let is_there = at.checked_add(to.len() as u64).is_some_and(|end| end <= self.end());
        if !is_there || to.len() > words.len() {
            return false;
        }
        for (to, word) in to.iter_mut().zip(ring_from(words, at)) {
            *to = word.load(Relaxed);
        }
        fence(Acquire);
        self.begun.load(Relaxed).saturating_sub(words.len() as u64) <= at
    }
}

/// Returns the words of a ring from a position on, again and again.
fn ring_from(words: &[AtomicU64], at: u64) -> impl Iterator<Item = &AtomicU64> {
    let first = (at % words.len().max(1) as u64) as usize;
    words[first..].iter().chain(words)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_records_are_there_and_nothing_else() {
        let words: [AtomicU64; 7] = std::array::from_fn(|_| AtomicU64::new(0));
        let ring = OverwritingRing::new();
        let mut two = [0; 2];
        assert!(!ring.copy(&words, 0, &mut two), "nothing yet");
        for number in 0..20 {
            assert_eq!(ring.append(&words, &[number, number]), Some(number * 2));
        }
        assert_eq!((ring.end(), ring.oldest(&words)), (40, 33));
        for number in 0..22 {
            let is_there = ring.copy(&words, number * 2, &mut two);
            assert_eq!(is_there, (17..20).contains(&number), "{number}");
            assert!(!is_there || two == [number, number]);
        }
        assert!(!ring.copy(&words, u64::MAX, &mut two));
        assert_eq!((ring.append(&words, &[0; 8]), ring.append(&words, &[])), (None, None));
        assert!(!ring.copy(&[], 0, &mut two) && ring.append(&[], &[1]).is_none());
    }
}
