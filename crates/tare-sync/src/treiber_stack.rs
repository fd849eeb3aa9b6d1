//! HOT PATH: a Treiber stack of equal elements that any thread takes and gives back. The head carries a tag
//! that rises with every change, which prevents ABA: an element that was taken and came back is noticed.

use crate::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    again,
};

/// The head of a Treiber stack: tag << 32 | first free element, 0 for none. Each free element holds its
/// successor's number in a word of its own.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::AtomicU32;
///
/// use tare_sync::TreiberStack;
///
/// // Elements are numbered from 1; each has a link word.
/// let links: [AtomicU32; 4] = Default::default();
/// let free = TreiberStack::new();
/// free.push(1, |item| &links[item as usize]);
/// free.push(3, |item| &links[item as usize]);
/// assert_eq!(free.pop(|item| &links[item as usize]), Some(3));
/// assert_eq!(free.pop(|item| &links[item as usize]), Some(1));
/// assert_eq!(free.pop(|item| &links[item as usize]), None);
/// ```
#[repr(transparent)]
pub struct TreiberStack(AtomicU64);

impl TreiberStack {
    new! {
        /// Creates an empty stack.
        fn new() = TreiberStack(AtomicU64::new(0))
    }

    /// Gives `item` back. `next` returns an element's link word.
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

    /// Takes the element given back last. `next` returns an element's link word. `None`: the stack is empty.
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
