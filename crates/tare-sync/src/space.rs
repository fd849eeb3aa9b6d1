//! HOT PATH: space that many threads cut pieces from, block by block, and that is never given back in part.

use crate::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
    again,
};

/// The newest block's number << 32 | words used of it; block 0 is none.
#[repr(transparent)]
pub struct Space(AtomicU64);

/// Where a piece lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Number of the block.
    pub block: u32,
    /// Word in the block at which the piece begins.
    pub at: u32,
}

impl Space {
    new! {
        /// There is no block yet.
        fn new() = Space(AtomicU64::new(0))
    }

    /// Cuts a piece of `words` words from blocks of `size`, the first `link` of which are left out. `take` gets an empty
    /// block and is told the newest one there is; `give` gets one back that nobody has seen. `None`: `take` has none.
    #[inline]
    pub fn cut(
        &self,
        words: u32,
        size: u32,
        link: u32,
        take: impl Fn(u32) -> Option<u32>,
        give: impl Fn(u32),
    ) -> Option<Piece> {
        let mut next = self.0.load(Acquire);
        loop {
            let (block, used) = ((next >> 32) as u32, next as u32);
            if block != 0 && used + words <= size {
                match self.0.compare_exchange(next, next + u64::from(words), AcqRel, Acquire) {
                    Ok(_) => return Some(Piece { block, at: used }),
                    Err(now) => next = now,
                }
            } else {
                let fresh = take(block)?;
                let begun = u64::from(fresh) << 32 | u64::from(link + words);
                match self.0.compare_exchange(next, begun, AcqRel, Acquire) {
                    Ok(_) => return Some(Piece { block: fresh, at: link }),
                    Err(now) => {
                        give(fresh);
                        next = now;
                    }
                }
            }
            again();
        }
    }

    /// Begins anew; returns the newest block there was, 0: none. When nobody cuts any more.
    pub fn clear(&self) -> u32 {
        (self.0.swap(0, Relaxed) >> 32) as u32
    }
}

/// Of those who enter something into `entry`, which is 0 at first, the first one's stays, and is returned to all. What is
/// entered has been filled before.
#[inline]
pub fn keep_first(entry: &AtomicU32, mine: u32) -> u32 {
    match entry.compare_exchange(0, mine, AcqRel, Acquire) {
        Ok(_) => mine,
        Err(theirs) => theirs,
    }
}
