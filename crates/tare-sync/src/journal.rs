//! HOT PATH: records of different lengths in a block that is refilled again and again, and copied meanwhile.
//!
//! The first word of a record is not 0; a word of 0 ends the records. To append, a thread writes the record's
//! other words and the next end, and last the first word, which was the end until then. So a reader that
//! copies words in order and stops at the end has whole records.
//!
//! # Examples
//!
//! ```
//! use std::sync::atomic::AtomicU64;
//!
//! use tare_sync::journal;
//!
//! let block: [AtomicU64; 4] = Default::default();
//! journal::end(&block[0]);
//! let place: &[AtomicU64; 3] = block.first_chunk().expect("three words");
//! journal::append::<2, 3>(place, [7, 8]);
//! let mut copied = [0; 4];
//! journal::copy(&block, &mut copied);
//! assert_eq!(copied[..3], [7, 8, 0]);
//! ```

use crate::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Writes the end marker: no records from this word on.
#[inline(always)]
pub fn end(word: &AtomicU64) {
    word.store(0, Relaxed);
}

/// Appends a record of `N` words at the end marker, and a new marker behind it. `P` is `N + 1`.
#[inline(always)]
pub fn append<const N: usize, const P: usize>(place: &[AtomicU64; P], record: [u64; N]) {
    const { assert!(N > 0 && P == N + 1) };
    for at in 1..N {
        place[at].store(record[at], Relaxed);
    }
    show(&place[0], record[0], &place[N]);
}

/// Appends a record whose words, except the first, are written already: makes `behind` the new end marker,
/// then stores `word` in `first`.
#[inline(always)]
pub fn show(first: &AtomicU64, word: u64, behind: &AtomicU64) {
    end(behind);
    first.store(word, Release);
}

/// Copies the words of a block. Words behind the end marker are meaningless.
pub fn copy(words: &[AtomicU64], to: &mut [u64]) {
    // Eight at a time: a loop over single words takes five times as many instructions.
    let len = words.len().min(to.len());
    let (words, last_words) = words[..len].as_chunks::<8>();
    let (to, last) = to[..len].as_chunks_mut::<8>();
    for (to, words) in to.iter_mut().zip(words) {
        *to = words.each_ref().map(|word| word.load(Acquire));
    }
    for (to, word) in last.iter_mut().zip(last_words) {
        *to = word.load(Acquire);
    }
}
