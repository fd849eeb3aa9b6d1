//! HOT PATH: words that a thread puts off, until there are enough of them to deal with all at once, while others read them and
//! what has been made of those before. Who reads has each of them once: put off, or dealt with.

use crate::Version;
use crate::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    Own,
};

/// Where the next word is put off.
pub struct Room<'a> {
    place: &'a AtomicU64,
    len: &'a AtomicU32,
    /// How many words are put off already.
    before: u32,
}

impl Room<'_> {
    /// Puts it off.
    #[inline(always)]
    pub fn fill(self, word: u64) {
        self.place.store(word, Relaxed);
        // Whoever sees it sees what its thread has written before.
        self.len.store(self.before + 1, Release);
    }
}

/// How many words are put off. They lie elsewhere, `N` at most.
#[repr(C)]
pub struct Backlog {
    /// Odd while they are being dealt with.
    version: Version,
    len: AtomicU32,
}

impl Backlog {
    new! {
        /// Nothing has been put off yet.
        fn new() = Backlog { version: Version::new(), len: AtomicU32::new(0) }
    }

    /// Room for another word. For the thread itself.
    #[inline(always)]
    pub fn room<'a, const N: usize>(&'a self, words: &'a [AtomicU64; N]) -> Option<Room<'a>> {
        let before = self.len.own();
        Some(Room { place: words.get(before as usize)?, len: &self.len, before })
    }

    /// Deals with all that has been put off. By the thread itself, or by whoever ends it.
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

    /// Whether words are being dealt with now.
    pub fn is_busy(&self) -> bool {
        self.version.is_odd()
    }

    /// One try of a reader: what `read` makes of the words that are put off, and of what was made of the others, if none
    /// were dealt with meanwhile.
    #[inline]
    pub fn read<const N: usize, T>(
        &self,
        words: &[AtomicU64; N],
        read: impl FnOnce(&[AtomicU64]) -> T,
    ) -> Option<T> {
        self.version.read(|_| {
            let len = self.len.load(Acquire) as usize;
            // Its thread may have ended, and it may be anything.
            read(&words[..len.min(N)])
        })
    }
}
