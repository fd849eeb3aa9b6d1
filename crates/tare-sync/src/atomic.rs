//! HOT PATH: the one door to atomics. What goes through it is the processor's, or under `--cfg loom` the model's.

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A word as its one writer reads it, who need not ask anybody.
pub(crate) trait Own {
    type Value;
    fn own(&self) -> Self::Value;
}

macro_rules! own {
    ($($atomic:ty = $value:ty),*) => {$(
        impl Own for $atomic {
            type Value = $value;

            #[cfg(not(loom))]
            #[inline(always)]
            fn own(&self) -> $value {
                self.load(Ordering::Relaxed)
            }

            // The model remembers one access of each word: a load by its writer would hide a reader's. This one it
            // does not count as an access.
            #[cfg(loom)]
            #[allow(unsafe_code)]
            fn own(&self) -> $value {
                // SAFETY: the calling thread is the word's one writer; loom checks that.
                unsafe { self.unsync_load() }
            }
        }
    )*};
}
own!(AtomicU32 = u32, AtomicU64 = u64);

/// Between two tries of a loop: lets the model run another thread. Nothing where the processor runs.
#[inline(always)]
pub(crate) fn again() {
    #[cfg(loom)]
    loom::thread::yield_now();
}
