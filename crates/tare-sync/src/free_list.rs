//! HOT PATH: equal things, taken and given back by anybody. The head carries a tag that rises with every change, so that a
//! thing which went and came back in between is noticed.

use crate::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    again,
};

/// Tag << 32 | the first free thing; 0 is none. Each free thing holds the next one's number in a word of its own.
#[repr(transparent)]
pub struct FreeList(AtomicU64);

impl FreeList {
    new! {
        /// Nothing is free.
        fn new() = FreeList(AtomicU64::new(0))
    }

    /// Gives `item` back; `next` is where a thing holds the next one.
    #[inline]
    pub fn push<'a>(&self, item: u32, next: impl Fn(u32) -> &'a AtomicU32) {
        let mut head = self.0.load(Acquire);
        loop {
            next(item).store(head as u32, Relaxed);
            let new = ((head >> 32).wrapping_add(1) << 32) | u64::from(item);
            match self.0.compare_exchange_weak(head, new, Release, Acquire) {
                Ok(_) => return,
                Err(now) => head = now,
            }
            again();
        }
    }

    /// Takes what was given back last.
    #[inline]
    pub fn pop<'a>(&self, next: impl Fn(u32) -> &'a AtomicU32) -> Option<u32> {
        let mut head = self.0.load(Acquire);
        loop {
            let item = head as u32;
            if item == 0 {
                return None;
            }
            let new = ((head >> 32).wrapping_add(1) << 32) | u64::from(next(item).load(Relaxed));
            match self.0.compare_exchange_weak(head, new, Acquire, Acquire) {
                Ok(_) => return Some(item),
                Err(now) => head = now,
            }
            again();
        }
    }
}
