//! HOT PATH: the one door to atomics. Built for `loom` (`make loom`), a model may watch some of them.

/// Before one tries again.
#[cfg(not(all(test, loom)))]
pub(crate) use core::hint::spin_loop;
#[cfg(not(all(test, loom)))]
pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    Ordering, fence,
};

#[cfg(all(test, loom))]
pub(crate) use crate::interleavings::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    Ordering, fence, spin_loop,
};
