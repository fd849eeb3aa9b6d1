//! HOT PATH: space that many threads cut pieces from, block by block. It is never given back in part.

use crate::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
    again,
};

/// The newest block's number << 32 | words used of it; block 0 means none.
///
/// # Examples
///
/// ```
/// use tare_sync::{CutPiece, Space};
///
/// let space = Space::new();
/// // Blocks have 16 words, of which the first one is a link; block 9 is free.
/// let cut = |words| space.cut(words, 16, 1, |_newest| Some(9), |_unseen| {});
/// assert_eq!(cut(4), Some(CutPiece { block: 9, at: 1 }));
/// assert_eq!(cut(4), Some(CutPiece { block: 9, at: 5 }));
/// ```
#[repr(transparent)]
pub struct Space(AtomicU64);

/// The location of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutPiece {
    /// The number of the block.
    pub block: u32,
    /// The offset in the block, in words.
    pub at: u32,
}

impl Space {
    new! {
        /// Creates a space without blocks.
        fn new() = Space(AtomicU64::new(0))
    }

    /// Cuts a piece of `words` words from blocks of `size` words, whose first `link` words stay unused.
    /// `take` is given the newest block and returns an empty one. `give` takes back a block that nobody has
    /// seen. Returns `None` if `take` has no block.
    #[inline]
    pub fn cut(
        &self,
        words: u32,
        size: u32,
        link: u32,
        take: impl Fn(u32) -> Option<u32>,
        give: impl Fn(u32),
    ) -> Option<CutPiece> {
        let mut next = self.0.load(Acquire);
        loop {
            let (block, used) = ((next >> 32) as u32, next as u32);
            if block != 0 && used + words <= size {
                match self.0.compare_exchange(next, next + u64::from(words), AcqRel, Acquire) {
                    Ok(_) => return Some(CutPiece { block, at: used }),
                    Err(now) => next = now,
                }
            } else {
                let fresh = take(block)?;
                let begun = u64::from(fresh) << 32 | u64::from(link + words);
                match self.0.compare_exchange(next, begun, AcqRel, Acquire) {
                    Ok(_) => return Some(CutPiece { block: fresh, at: link }),
                    Err(now) => {
                        give(fresh);
                        next = now;
                    }
                }
            }
            again();
        }
    }

    /// Empties the space and returns its newest block, or 0 if there was none. Only once nobody cuts pieces
    /// any more.
    pub fn clear(&self) -> u32 {
        (self.0.swap(0, Relaxed) >> 32) as u32
    }
}

/// Enters `mine` into `entry` unless another thread was first, and returns the entry that stays. `entry` is 0
/// at first; what `mine` stands for is complete.
#[inline]
pub fn keep_first(entry: &AtomicU32, mine: u32) -> u32 {
    match entry.compare_exchange(0, mine, AcqRel, Acquire) {
        Ok(_) => mine,
        Err(theirs) => theirs,
    }
}
